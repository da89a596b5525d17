//! Blocked names, 8 bytes each: a sorted list of keyed hashes.
//!
//! The key is random, so nobody can choose a name whose hash equals that of a blocked name. With a
//! million names, this happens by chance to one query in 10^13.

use crate::notes::{ADDRESS_NO_NAME, LEADS_ELSEWHERE, NO_NAME, NOT_ASCII, OTHER_RULE, Phrase};
use crate::resolve::is_name;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

/// Blocked names. A name also blocks every name below it.
#[derive(Debug, Default)]
pub struct Domains {
    hashes: Vec<u64>,
    key: RandomState,
}

/// Collects names one by one.
#[derive(Default)]
pub struct Builder(Domains);

impl Builder {
    /// Adds the names of a line: one name, `*.name`, `||name^`, or the unspecified or a loopback
    /// address with names (hosts file). Comments are skipped.
    ///
    /// # Errors
    /// Why the line is none of these.
    pub fn line(&mut self, line: &str) -> Result<(), &'static Phrase<0>> {
        // Lists of ad blockers begin comments with `!`, and the file with its kind in brackets.
        if line.is_empty() || line.starts_with(['#', '!', '[']) {
            return Ok(());
        }
        // A `#` without a space before it is no comment: it is a rule for a part of a page.
        let line =
            line.find(" #").or_else(|| line.find("\t#")).map_or(line, |comment| line[..comment].trim_end());
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let Ok(address) = first.parse::<IpAddr>() else {
            let name = bare(line)?;
            self.add(name);
            return Ok(());
        };
        if !address.is_unspecified() && !address.is_loopback() {
            return Err(match words.next() {
                Some(_) => &LEADS_ELSEWHERE,
                None => &ADDRESS_NO_NAME,
            });
        }
        // Without names of this machine (no dot), and without the address itself as a name.
        for word in words.filter(|word| word.contains('.') && word.parse::<IpAddr>().is_err()) {
            let name = bare(word)?;
            self.add(name);
        }
        Ok(())
    }

    /// The collected names.
    pub fn build(self) -> Domains {
        let Domains { mut hashes, key } = self.0;
        hashes.sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        Domains { hashes, key }
    }

    fn add(&mut self, name: &str) {
        let hash = self.0.hash(name);
        self.0.hashes.push(hash);
    }
}

impl Domains {
    /// Whether `name`, or a name above it, is blocked.
    pub fn has(&self, name: &str) -> bool {
        if self.hashes.is_empty() {
            return false;
        }
        let mut rest = Some(name.strip_suffix('.').unwrap_or(name)).filter(|name| !name.is_empty());
        while let Some(name) = rest {
            if self.hashes.binary_search(&self.hash(name)).is_ok() {
                return true;
            }
            rest = name.split_once('.').map(|(_, above)| above);
        }
        false
    }

    /// Number of blocked names.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Memory of the hashes, in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    fn hash(&self, name: &str) -> u64 {
        let mut hasher = self.key.build_hasher();
        let mut lower = [0; 64];
        // Upper and lower case are the same name (RFC 4343).
        for piece in name.as_bytes().chunks(lower.len()) {
            let lower = &mut lower[..piece.len()];
            lower.copy_from_slice(piece);
            lower.make_ascii_lowercase();
            hasher.write(lower);
        }
        hasher.finish()
    }
}

/// A name without the signs that lists put around it.
///
/// # Errors
/// The text is no host name.
pub fn bare(text: &str) -> Result<&str, &'static Phrase<0>> {
    if text.parse::<IpAddr>().is_ok() {
        return Err(&ADDRESS_NO_NAME);
    }
    let name = match text.strip_prefix("||") {
        Some(rule) => rule.strip_suffix('^').ok_or(&OTHER_RULE)?,
        None => text.strip_prefix("*.").or_else(|| text.strip_prefix('.')).unwrap_or(text),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if !name.is_ascii() {
        return Err(&NOT_ASCII);
    }
    if is_name(name) { Ok(name) } else { Err(&NO_NAME) }
}
