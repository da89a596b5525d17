//! Finds the user that a name and a password belong to; one check for all protocols.
//!
//! A password that was right once is recognised by a keyed hash from then on. Any other password
//! costs an Argon2 hash and waits for its turn. A site that gives wrong passwords is slowed.

use crate::config::ConfigError;
use crate::door::Door;
use crate::event::{Event, Log};
use crate::password::{Hash, parse_users};
use leeway_guard::read_secret;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

pub use crate::door::Denied;

/// The users with a name and a password.
pub struct Logins {
    people: RwLock<Arc<People>>,
    /// Key of the hashes by which right passwords are recognised.
    key: [u8; 32],
    door: Door,
    log: Log,
}

/// Names of users, each with the hash of the password.
pub struct People(BTreeMap<String, Login>);

struct Login {
    hash: Hash,
    /// Keyed hash of the password, known once the password was right.
    verified: Arc<OnceLock<blake3::Hash>>,
}

impl People {
    /// Parses the text of a file of users.
    ///
    /// # Errors
    /// A line is wrong, or there is no user in it.
    pub fn parse(path: &Path, text: &str) -> Result<People, ConfigError> {
        let wrong = |message: String| ConfigError::Value(format!("{}: {message}", path.display()));
        let users = parse_users(text).map_err(wrong)?;
        if users.is_empty() {
            let path = path.display();
            return Err(wrong(format!(
                "there are no users in it; add one with: leeway gateway passwd NAME --file {path}"
            )));
        }
        let login = |(name, hash)| (name, Login { hash, verified: Arc::default() });
        Ok(People(users.into_iter().map(login).collect()))
    }
}

impl Logins {
    /// Reads a file of users.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or a line in it is wrong.
    pub fn read(path: &Path, log: Log) -> Result<Logins, ConfigError> {
        let text = read_secret(path).map_err(|error| ConfigError::Value(error.to_string()))?;
        let people = RwLock::new(Arc::new(People::parse(path, &text)?));
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| ConfigError::Value(format!("the system gives no random numbers: {error}")))?;
        Ok(Logins { people, key, door: Door::new(), log })
    }

    /// Replaces all users. A user whose password hash has not changed stays recognised without
    /// Argon2, and sites that are slowed stay slowed.
    pub fn replace(&self, people: People) {
        let mut held = self.people.write().unwrap_or_else(PoisonError::into_inner);
        for (name, login) in &people.0 {
            let before = held.0.get(name).filter(|before| before.hash == login.hash);
            if let Some(&verified) = before.and_then(|before| before.verified.get()) {
                let _ = login.verified.set(verified);
            }
        }
        *held = Arc::new(people);
    }

    fn people(&self) -> Arc<People> {
        self.people.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a user has this name.
    pub fn has(&self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.people().0.contains_key(name))
    }

    /// The user's name, if the name exists and the password is right.
    ///
    /// # Errors
    /// Why the user is not let in.
    pub async fn check(&self, from: IpAddr, name: &[u8], password: &[u8]) -> Result<String, Denied> {
        let people = self.people();
        let known = std::str::from_utf8(name).ok().and_then(|name| people.0.get_key_value(name));
        let given = blake3::keyed_hash(&self.key, password);
        let verified = || {
            let (name, _) = known.filter(|(_, login)| login.verified.get() == Some(&given))?;
            Some(name.clone())
        };
        // An unknown name is checked against another user's hash, so that the time does not tell
        // which names exist.
        let hash = known.or_else(|| people.0.iter().next()).map(|(_, login)| login.hash.clone());
        let hash = hash.ok_or(Denied::Wrong)?;
        let password = password.to_owned();
        let user = known.map(|(name, login)| (name.clone(), login.verified.clone()));
        let look = move || match (hash.verify(&password), user) {
            (true, Some((name, verified))) => {
                let _ = verified.set(given);
                Ok(name)
            }
            _ => Err(Denied::Wrong),
        };
        let checked = self.door.pass(from, verified, look).await;
        if checked == Err(Denied::Wrong) {
            let event = match known {
                Some((name, _)) => {
                    Event::new("refused", format!("refused {from}: wrong password for {name:?}"))
                        .with("user", name)
                }
                // Does not log the name: it may be a password in the wrong field.
                None => Event::new("refused", format!("refused {from}: nobody has the name that was given")),
            };
            (self.log)(&event.with("from", from));
        }
        // The users may have been replaced during the check.
        checked.and_then(|name| {
            let same = |login: &Login| known.is_some_and(|(_, known)| known.hash == login.hash);
            if self.people().0.get(&name).is_some_and(same) { Ok(name) } else { Err(Denied::Wrong) }
        })
    }

    /// Wrong passwords, and attempts that were refused without a check, since the start.
    pub fn refused(&self) -> (u64, u64) {
        self.door.refused()
    }
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("users", &self.people().0.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::WAITING;
    use std::io::Write;
    use std::sync::Mutex;
    use std::time::Instant;

    fn logins() -> (Arc<Logins>, Arc<Mutex<Vec<String>>>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let [ann, bob] = ["ann's phrase", "bob's phrase"].map(|password| Hash::of(password).unwrap());
        writeln!(file, "ann:{ann}\nbob:{bob}").unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = said.clone();
        let log = Arc::new(move |event: &Event| log.lock().unwrap().push(event.to_string()));
        (Arc::new(Logins::read(file.path(), log).unwrap()), said)
    }

    fn at(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    #[tokio::test]
    async fn the_right_password_of_the_right_user() {
        let (logins, said) = logins();
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Ok("ann".into()));
        for (name, password) in
            [("ann", "bob's phrase"), ("bob", "ann's phrase"), ("eve", "ann's phrase"), ("", "")]
        {
            let checked = logins.check(at(1), name.as_bytes(), password.as_bytes()).await;
            assert_eq!(checked, Err(Denied::Wrong), "{name}");
        }
        assert_eq!(logins.check(at(1), b"\xff", b"\xff").await, Err(Denied::Wrong));
        assert_eq!(logins.refused(), (5, 0));
        let said = said.lock().unwrap();
        assert_eq!(said[0], "refused 10.0.0.1: wrong password for \"ann\"");
        assert_eq!(said[2], "refused 10.0.0.1: nobody has the name that was given");
        assert!(!said.concat().contains("phrase"));
        assert!(logins.door.is_empty());
    }

    #[tokio::test]
    async fn who_guesses_is_slowed_and_others_are_not() {
        let (logins, _) = logins();
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Ok("ann".into()));
        let guesses = (0..10).map(|n| logins.check(at(1), b"bob", format!("guess {n}").into_bytes().leak()));
        let mut denied = Vec::new();
        for guess in guesses {
            denied.push(guess.await.unwrap_err());
        }
        assert_eq!(denied[..6], [Denied::Wrong; 6]);
        assert!(denied[6..].iter().all(|denied| matches!(denied, Denied::Later(_))), "{denied:?}");
        let right = logins.check(at(1), b"bob", b"bob's phrase").await;
        assert!(matches!(right, Err(Denied::Later(_))), "not even the right one: {right:?}");
        // A user who is recognised, and a user at another site, are served.
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Ok("ann".into()));
        assert_eq!(logins.check(at(2), b"bob", b"bob's phrase").await, Ok("bob".into()));
        assert_eq!(logins.refused(), (6, 5));
    }

    #[tokio::test]
    async fn others_take_over_and_who_stays_is_known_still() {
        let (logins, _) = logins();
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Ok("ann".into()));
        assert_eq!(logins.check(at(1), b"bob", b"bob's phrase").await, Ok("bob".into()));
        let path = Path::new("users");
        assert!(People::parse(path, "").is_err() && People::parse(path, "ann:plain").is_err());
        let [ann, eve] = [logins.people().0["ann"].hash.clone(), Hash::of("eve's phrase").unwrap()]
            .map(|hash| hash.to_string());
        logins.replace(People::parse(path, &format!("ann:{ann}\neve:{eve}")).unwrap());
        assert!(logins.has(b"eve") && !logins.has(b"bob"));
        assert!(logins.people().0["ann"].verified.get().is_some());
        assert_eq!(logins.check(at(1), b"bob", b"bob's phrase").await, Err(Denied::Wrong));
        assert_eq!(logins.check(at(1), b"eve", b"eve's phrase").await, Ok("eve".into()));
        // The same name with another password is unknown.
        logins.replace(People::parse(path, &format!("ann:{eve}")).unwrap());
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Err(Denied::Wrong));
    }

    /// A browser opens six connections at once: the password is checked once, and the other
    /// connections wait for the result.
    #[tokio::test]
    async fn the_same_password_is_checked_once() {
        let (logins, _) = logins();
        let begun = Instant::now();
        assert!(logins.people().0["ann"].hash.verify(b"ann's phrase"));
        let one = begun.elapsed();
        let checks: Vec<_> = (0..200)
            .map(|_| {
                let logins = logins.clone();
                tokio::spawn(async move {
                    logins.check(at(1), b"ann", b"ann's phrase").await.map(|name| name.len())
                })
            })
            .collect();
        let begun = Instant::now();
        for check in checks {
            assert_eq!(check.await.unwrap(), Ok(3));
        }
        // 200 checks would take 200 times as long on one thread, and 100 times on two cores.
        assert!(begun.elapsed() < one * 50, "{:?}, one takes {one:?}", begun.elapsed());
        assert!(logins.door.is_empty());
    }

    /// Unknown clients from many sites: the number that waits is bounded, and the rest is told to
    /// try again.
    #[tokio::test]
    async fn strangers_cannot_fill_the_memory() {
        let (logins, _) = logins();
        let held = logins.door.looking.clone().acquire_many_owned(2).await.unwrap();
        let checks: Vec<_> = (0..100)
            .map(|host| {
                let logins = logins.clone();
                tokio::spawn(
                    async move { logins.check(at(host), b"ann", b"wrong").await.map(|name| name.len()) },
                )
            })
            .collect();
        let (mut busy, mut wrong) = (0, 0);
        // When the others have ended, all those that may wait are waiting.
        while checks.iter().filter(|check| check.is_finished()).count() < 100 - WAITING {
            tokio::task::yield_now().await;
        }
        drop(held);
        for check in checks {
            match check.await.unwrap() {
                Err(Denied::Busy) => busy += 1,
                Err(Denied::Wrong) => wrong += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((busy, wrong), (100 - WAITING, WAITING));
        assert!(logins.door.is_empty());
    }

    /// Argon2 runs beside the threads that serve, so others go on, even with one serving thread.
    #[tokio::test(flavor = "current_thread")]
    async fn others_go_on_while_a_password_is_checked() {
        let (logins, _) = logins();
        let checking = tokio::spawn({
            let logins = logins.clone();
            async move { logins.check(at(1), b"ann", b"ann's phrase").await.map(|name| name.len()) }
        });
        let mut steps = 0;
        while !checking.is_finished() {
            tokio::task::yield_now().await;
            steps += 1;
        }
        assert!(steps > 10, "{steps}");
    }
}
