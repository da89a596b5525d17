//! Stored passwords: Argon2id (RFC 9106) with a salt, as a PHC string, and the file of users
//! that has them.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use leeway_guard::is_user;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Shortest password that is accepted, in characters (NIST SP 800-63B, 5.1.1.2).
pub const SHORTEST: usize = 8;
/// Longest password, in bytes: SOCKS5 cannot carry more (RFC 1929, 2).
pub const LONGEST_BYTES: usize = 255;
/// Most memory (KiB) and passes that checking a hash may cost. A costlier hash, made by another
/// program, would block the gateway.
const MOST_KIB: u32 = 64 * 1024;
const MOST_PASSES: u32 = 16;

/// The hash of a password. The password can be checked against it, but found only by guessing.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(String);

impl Hash {
    /// Hashes a new password with 19 MiB and two passes (OWASP's first choice for Argon2id) and
    /// its own salt.
    ///
    /// # Errors
    /// What is wrong with the password, or that there are no random numbers.
    pub fn of(password: &str) -> Result<Hash, String> {
        if password.chars().count() < SHORTEST {
            return Err(format!("a password has at least {SHORTEST} characters"));
        }
        if password.len() > LONGEST_BYTES {
            return Err(format!("a password has at most {LONGEST_BYTES} bytes"));
        }
        let hash = Argon2::default().hash_password(password.as_bytes());
        hash.map(|hash| Hash(hash.to_string())).map_err(|error| format!("cannot hash a password: {error}"))
    }

    /// Whether this is the password. Takes tens of milliseconds, and the memory that the hash
    /// states.
    pub fn verify(&self, password: &[u8]) -> bool {
        let parsed = PasswordHash::new(&self.0);
        parsed.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hash = PasswordHash::new(text).ok().filter(|hash| hash.algorithm.as_str() == "argon2id");
        let hash = hash.filter(|hash| hash.salt.is_some() && hash.hash.is_some());
        let params = hash.as_ref().and_then(|hash| Params::try_from(hash).ok());
        let params = params.ok_or_else(|| "it is not an Argon2id hash".to_owned())?;
        if params.m_cost() > MOST_KIB || params.t_cost() > MOST_PASSES {
            return Err(format!(
                "checking its hash takes {} KiB and {} passes; at most {MOST_KIB} KiB and {MOST_PASSES} passes are allowed",
                params.m_cost(),
                params.t_cost()
            ));
        }
        Ok(Hash(text.to_owned()))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Hash {
    /// Hides the hash, which could be attacked offline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

/// A new random password: 16 letters and digits that cannot be confused with each other, with 80
/// bits of randomness.
///
/// # Errors
/// The system gives no random numbers.
pub fn fresh() -> Result<String, String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    let letters: String = random.iter().map(|&byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    Ok(leeway_accounts::vouchers::grouped(&letters))
}

/// Checks a user's name, and says what is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_user(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} cannot be a user's name: it has 1 to 60 bytes, no space, no colon, no # in front, and \
         no character that changes the direction of text"
    ))
}

/// Parses the text of a file of users: `NAME:HASH` in each line. Empty lines and lines that begin
/// with # are skipped.
///
/// # Errors
/// What is wrong in which line. The text in the place of the hash is not repeated, because it may
/// be a password.
pub fn parse_users(text: &str) -> Result<Vec<(String, Hash)>, String> {
    let (mut users, mut names) = (Vec::new(), BTreeSet::new());
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {}: {why}", n + 1);
        let (name, hash) = line.split_once(':').ok_or_else(|| wrong("a line has the form NAME:HASH"))?;
        check_name(name).map_err(|why| wrong(&why))?;
        let hash = hash.parse().map_err(|why: String| {
            wrong(&format!(
                "the password of {name:?} cannot be used: {why}; make its line with: leeway gateway passwd {name}"
            ))
        })?;
        if !names.insert(name) {
            return Err(wrong(&format!("{name:?} is in the file twice")));
        }
        users.push((name.to_owned(), hash));
    }
    Ok(users)
}

/// The text with the user's line replaced, or added at the end. Without a hash, the user's line is
/// removed.
pub fn with_user(text: &str, name: &str, hash: Option<&Hash>) -> String {
    let mut fresh = hash.map(|hash| format!("{name}:{hash}"));
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.split_once(':').is_some_and(|(of, _)| of.trim() == name) {
            lines.extend(fresh.take());
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.extend(fresh);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_kept_as_an_argon2id_hash_with_a_salt() {
        let [one, two] = [(); 2].map(|()| Hash::of("a long phrase").unwrap());
        assert!(one.to_string().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert_ne!(one, two);
        assert!(one.verify(b"a long phrase") && two.verify(b"a long phrase"));
        for wrong in ["a long phras", "a long phrase ", "", "A long phrase"] {
            assert!(!one.verify(wrong.as_bytes()), "{wrong:?}");
        }
        assert_eq!(one.to_string().parse::<Hash>().as_ref(), Ok(&one));
        assert!(!format!("{one:?}").contains("argon2id"));
        assert!(Hash::of("short").unwrap_err().contains("at least 8"));
        assert!(Hash::of(&"x".repeat(256)).unwrap_err().contains("at most 255"));
    }

    #[test]
    fn a_fresh_password_can_be_one_and_is_another_each_time() {
        let [one, two] = [(); 2].map(|()| fresh().unwrap());
        assert!(one.len() == 19 && one != two && Hash::of(&one).is_ok(), "{one} {two}");
    }

    /// RFC 9106 has no test vectors without a secret key. This one is of the reference
    /// implementation (`argon2 -id -v 13 -t 2 -k 65536 -p 1`).
    #[test]
    fn hashes_of_other_programs_are_understood() {
        let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let hash: Hash = hash.parse().unwrap();
        assert!(hash.verify(b"password") && !hash.verify(b"Password"));
    }

    #[test]
    fn what_is_no_argon2id_hash_is_refused_and_not_repeated() {
        let costly =
            "$argon2id$v=19$m=1048576,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        let long = costly.replace("1048576,t=2", "1024,t=1000");
        let cases = [
            ("ann:secret7", "leeway gateway passwd ann"),
            ("ann:$2b$12$abcdefghijklmnopqrstuv", "not an Argon2id hash"),
            (
                "ann:$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
                "not an Argon2id hash",
            ),
            ("ann:$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ", "not an Argon2id hash"),
            (&format!("ann:{costly}"), "1048576 KiB"),
            (&format!("ann:{long}"), "1000 passes"),
            ("ann", "NAME:HASH"),
            (":secret7", "cannot be a user's name"),
            ("nna\u{202e}:secret7", "cannot be a user's name"),
        ];
        for (line, why) in cases {
            let error = parse_users(&format!("# users\n\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 3: ") && error.contains(why), "{line}: {error}");
            assert!(!error.contains("secret7"), "{error}");
        }
        let hash = Hash::of("long enough").unwrap();
        let twice = format!("ann:{hash}\nann:{hash}\n");
        assert!(parse_users(&twice).unwrap_err().contains("\"ann\" is in the file twice"));
    }

    #[test]
    fn lines_are_changed_in_their_place() {
        let [one, two] = ["long enough", "longer still"].map(|password| Hash::of(password).unwrap());
        let text = format!("# users\nann:{one}\nbob:{one}\n");
        let changed = with_user(&text, "ann", Some(&two));
        assert_eq!(changed, format!("# users\nann:{two}\nbob:{one}\n"));
        assert_eq!(with_user(&changed, "eve", Some(&one)), format!("{changed}eve:{one}\n"));
        assert_eq!(with_user(&changed, "ann", None), format!("# users\nbob:{one}\n"));
        assert_eq!(parse_users(&changed).unwrap()[0], ("ann".to_owned(), two));
    }
}
