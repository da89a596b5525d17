//! Stored passwords: Argon2id (RFC 9106) with a salt, as a PHC string, and the file of users
//! that has them.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use leeway_guard::is_user;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The shortest password that is hashed, in characters (NIST SP 800-63B, 5.1.1.2).
pub const SHORTEST: usize = 8;
/// The longest, in bytes: that of SOCKS5 (RFC 1929, 2).
pub const LONGEST_BYTES: usize = 255;
/// What checking a password may cost: a hash that somebody has made elsewhere must not stop the gateway.
const MOST_KIB: u32 = 64 * 1024;
const MOST_PASSES: u32 = 16;

/// What is kept of a password: it can be checked, and not be found out but by trying.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(String);

impl Hash {
    /// Of a new password, with 19 MiB and two passes (OWASP's first choice) and a salt of its own.
    ///
    /// # Errors
    /// What is wrong with the password, or there is no randomness.
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

    /// Whether this is the password. It takes tens of milliseconds and the memory that the hash says.
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
                "its hash takes {} KiB and {} passes to check; {MOST_KIB} KiB and {MOST_PASSES} passes are the most",
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
    /// Without what could be tried offline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

/// A password that nobody has had: 16 letters and digits, of which none looks like another, with 80 bits of
/// randomness.
///
/// # Errors
/// There is no randomness.
pub fn fresh() -> Result<String, String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| format!("there is no randomness: {error}"))?;
    let letters: String = random.iter().map(|&byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    Ok(leeway_accounts::vouchers::grouped(&letters))
}

/// What is wrong with a user's name, if anything.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_user(name) {
        return Ok(());
    }
    Err(format!(
        "{name:?} cannot be a user's name: it has 1 to 60 bytes, no space, no colon, no # in front, and \
         no character that turns text around"
    ))
}

/// Reads the text of a file of users: `NAME:HASH` in each line; empty lines and those that begin with # are
/// skipped.
///
/// # Errors
/// What is wrong in which line. What stands where a hash should be is not repeated.
pub fn parse_users(text: &str) -> Result<Vec<(String, Hash)>, String> {
    let (mut users, mut names) = (Vec::new(), BTreeSet::new());
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {}: {why}", n + 1);
        let (name, hash) = line.split_once(':').ok_or_else(|| wrong("a line is NAME:HASH"))?;
        check_name(name).map_err(|why| wrong(&why))?;
        let hash = hash.parse().map_err(|why: String| {
            wrong(&format!(
                "the password of {name:?} cannot be used: {why}; make its line with: leeway gateway passwd {name}"
            ))
        })?;
        if !names.insert(name) {
            return Err(wrong(&format!("there is another {name:?}")));
        }
        users.push((name.to_owned(), hash));
    }
    Ok(users)
}

/// The text with that user's line as it is now, in its place or at the end; none: without it.
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

    /// RFC 9106 has no vectors without a key; this is of the reference implementation (`argon2 -id
    /// -v 13 -t 2 -k 65536 -p 1`).
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
        assert!(parse_users(&twice).unwrap_err().contains("another \"ann\""));
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
