//! Who a user is, by name and password: one check for every protocol.
//!
//! A password that was right once costs a keyed hash from then on. Others cost Argon2, in a thread beside those that serve, two at
//! a time and one at a time from one place; who fails is slowed ([`Attempts`]).

use crate::config::ConfigError;
use crate::password::{Hash, parse_users};
use leeway_guard::{Attempts, read_secret, site};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Passwords that are checked at a time: 40 MB, and two cores.
const AT_A_TIME: usize = 2;
/// Places whose passwords wait to be checked: about a second.
const WAITING: usize = 64;

/// Wrong passwords of a place that are not slowed: a person who mistypes, a browser that opens six connections.
const WRONG_AT_ONCE: u32 = 6;
/// One more is looked at after so long: 8640 guesses a day.
const WRONG_EVERY: Duration = Duration::from_secs(10);

/// Words for people.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Those who have a name and a password.
pub struct Logins {
    people: RwLock<Arc<People>>,
    /// Of the hashes by which right passwords are known again.
    key: [u8; 32],
    attempts: Mutex<Attempts>,
    places: Mutex<BTreeMap<IpAddr, Arc<tokio::sync::Mutex<()>>>>,
    waiting: Semaphore,
    checking: Arc<Semaphore>,
    log: Log,
}

/// Names, and what shows that somebody has one.
pub struct People(BTreeMap<String, Login>);

struct Login {
    hash: Hash,
    /// A keyed hash of the password, once it was right.
    verified: OnceLock<blake3::Hash>,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has that name and that password.
    Wrong,
    /// Too many were wrong from there: nothing is looked at for so long.
    Later(Duration),
    /// Too many wait.
    Busy,
}

impl People {
    /// Those of a file with that text.
    ///
    /// # Errors
    /// The line that is wrong, or there is nobody.
    pub fn parse(path: &Path, text: &str) -> Result<People, ConfigError> {
        let wrong = |message: String| ConfigError::Value(format!("{}: {message}", path.display()));
        let users = parse_users(text).map_err(wrong)?;
        if users.is_empty() {
            let path = path.display();
            return Err(wrong(format!("there are no users in it; leeway gateway passwd NAME --file {path}")));
        }
        let login = |(name, hash)| (name, Login { hash, verified: OnceLock::new() });
        Ok(People(users.into_iter().map(login).collect()))
    }
}

impl Logins {
    /// Those of a file.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or the line that is wrong.
    pub fn read(path: &Path, log: Log) -> Result<Logins, ConfigError> {
        let text = read_secret(path).map_err(|error| ConfigError::Value(error.to_string()))?;
        let people = People::parse(path, &text)?;
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|error| ConfigError::Value(format!("there is no randomness: {error}")))?;
        Ok(Logins {
            people: RwLock::new(Arc::new(people)),
            key,
            attempts: Mutex::new(Attempts::new(WRONG_AT_ONCE, WRONG_EVERY)),
            places: Mutex::default(),
            waiting: Semaphore::new(WAITING),
            checking: Arc::new(Semaphore::new(AT_A_TIME)),
            log,
        })
    }

    /// Others from now on. Who keeps a password needs not show it to Argon2 again, and who was slowed stays slowed.
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

    /// Whether somebody has that name.
    pub fn has(&self, name: &str) -> bool {
        self.people().0.contains_key(name)
    }

    /// The user's name, if it is one and the password is right.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self, from: IpAddr, name: &[u8], password: &[u8]) -> Result<String, Denied> {
        let people = self.people();
        let known = std::str::from_utf8(name).ok().and_then(|name| people.0.get_key_value(name));
        let given = blake3::keyed_hash(&self.key, password);
        let verified = |&(_, login): &(&String, &Login)| login.verified.get() == Some(&given);
        if let Some((name, _)) = known.filter(verified) {
            return Ok(name.clone());
        }
        self.admit(from)?;
        let place = Turn::of(&self.places, site(from));
        let _turn = place.lock.lock().await;
        // Those before may have shown the same password, or failed.
        if let Some((name, _)) = known.filter(verified) {
            return Ok(name.clone());
        }
        self.admit(from)?;
        let _waits = self.waiting.try_acquire().map_err(|_| Denied::Busy)?;
        // A name that nobody has takes as long as one that somebody has.
        let hash = known.or_else(|| people.0.iter().next()).map(|(_, login)| login.hash.clone());
        let hash = hash.ok_or(Denied::Wrong)?;
        let checking = self.checking.clone().acquire_owned().await.map_err(|_| Denied::Busy)?;
        let password = password.to_owned();
        let right = tokio::task::spawn_blocking(move || {
            // Until the end, also when nobody waits for it any more.
            let _checking = checking;
            hash.verify(&password)
        });
        let right = right.await.unwrap_or(false);
        if let (Some((name, login)), true) = (known, right) {
            let _ = login.verified.set(given);
            // Others may have taken over meanwhile.
            let here = self.people().0.get(name).is_some_and(|now| now.hash == login.hash);
            return if here { Ok(name.clone()) } else { Err(Denied::Wrong) };
        }
        self.lock_attempts().failed(from, Instant::now());
        match known {
            Some((name, _)) => (self.log)(&format!("refused {from}: wrong password for {name:?}")),
            // It may be a password in the wrong field.
            None => (self.log)(&format!("refused {from}: nobody has the name that was given")),
        }
        Err(Denied::Wrong)
    }

    /// Passwords that were wrong, and attempts that were refused without a look, since the start.
    pub fn refused(&self) -> (u64, u64) {
        let attempts = self.lock_attempts();
        (attempts.total_failed(), attempts.total_slowed())
    }

    fn people(&self) -> Arc<People> {
        self.people.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn admit(&self, from: IpAddr) -> Result<(), Denied> {
        self.lock_attempts().admit(from, Instant::now()).map_err(Denied::Later)
    }

    fn lock_attempts(&self) -> std::sync::MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("users", &self.people().0.keys()).finish_non_exhaustive()
    }
}

type Places = Mutex<BTreeMap<IpAddr, Arc<tokio::sync::Mutex<()>>>>;

/// A turn of one place, forgotten when nobody from there waits.
struct Turn<'a> {
    places: &'a Places,
    site: IpAddr,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl Turn<'_> {
    fn of(places: &Places, site: IpAddr) -> Turn<'_> {
        let lock = places.lock().unwrap_or_else(PoisonError::into_inner).entry(site).or_default().clone();
        Turn { places, site, lock }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // The list's and this one.
        if Arc::strong_count(&self.lock) <= 2 {
            places.remove(&self.site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn logins() -> (Arc<Logins>, Arc<Mutex<Vec<String>>>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let [ann, bob] = ["ann's phrase", "bob's phrase"].map(|password| Hash::of(password).unwrap());
        writeln!(file, "ann:{ann}\nbob:{bob}").unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = said.clone();
        let log = Box::new(move |words: &str| log.lock().unwrap().push(words.to_owned()));
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
        assert!(logins.places.lock().unwrap().is_empty());
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
        // Who is known, and who is elsewhere, is served.
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
        assert!(logins.has("eve") && !logins.has("bob"));
        assert!(logins.people().0["ann"].verified.get().is_some());
        assert_eq!(logins.check(at(1), b"bob", b"bob's phrase").await, Err(Denied::Wrong));
        assert_eq!(logins.check(at(1), b"eve", b"eve's phrase").await, Ok("eve".into()));
        // The same name with another password.
        logins.replace(People::parse(path, &format!("ann:{eve}")).unwrap());
        assert_eq!(logins.check(at(1), b"ann", b"ann's phrase").await, Err(Denied::Wrong));
    }

    /// A browser opens six connections at once: one password is checked, and the others wait for that.
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
        // Two hundred would take two hundred times as long, on one thread or on two cores half of that.
        assert!(begun.elapsed() < one * 50, "{:?}, one takes {one:?}", begun.elapsed());
        assert!(logins.places.lock().unwrap().is_empty());
    }

    /// Strangers from many places: what waits is bounded, and the rest is told to come again.
    #[tokio::test]
    async fn strangers_cannot_fill_the_memory() {
        let (logins, _) = logins();
        let held = logins.checking.clone().acquire_many_owned(AT_A_TIME as u32).await.unwrap();
        let checks: Vec<_> = (0..100)
            .map(|host| {
                let logins = logins.clone();
                tokio::spawn(
                    async move { logins.check(at(host), b"ann", b"wrong").await.map(|name| name.len()) },
                )
            })
            .collect();
        let (mut busy, mut wrong) = (0, 0);
        // Those that wait have begun when the others have ended.
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
        assert!(logins.places.lock().unwrap().is_empty());
    }

    /// Argon2 runs beside the threads that serve: others go on meanwhile, also where there is one such thread.
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
