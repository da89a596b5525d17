//! Blocked names, 8 bytes each: a sorted list of keyed hashes.
//!
//! The key is random, so nobody can choose a name whose hash equals that of a blocked name. By
//! chance this happens to one query in 10^13 with a million names.

use crate::notes::{ADDRESS_NO_NAME, LEADS_ELSEWHERE, NO_NAME, NOT_ASCII, OTHER_RULE, Phrase};
use crate::resolve::is_name;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

/// Names that are blocked with all that is below them.
#[derive(Debug, Default)]
pub struct Domains {
    hashes: Vec<u64>,
    key: RandomState,
}

/// Names that are read one by one.
#[derive(Default)]
pub struct Builder(Domains);

impl Builder {
    /// Takes the names of a line: a name alone, `*.name`, `||name^`, or an address of nowhere and names (hosts
    /// file). Lines of comments have none.
    ///
    /// # Errors
    /// Why it is none of these.
    pub fn line(&mut self, line: &str) -> Result<(), &'static Phrase<0>> {
        // Ad blockers begin comments with `!`, and a file with its kind in brackets.
        if line.is_empty() || line.starts_with(['#', '!', '[']) {
            return Ok(());
        }
        // What has no space before it is no comment, but a rule for a part of a page.
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
        // This machine's own names, and the address itself.
        for word in words.filter(|word| word.contains('.') && word.parse::<IpAddr>().is_err()) {
            let name = bare(word)?;
            self.add(name);
        }
        Ok(())
    }

    /// All of them.
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
    /// Whether that name, or one above it, is blocked.
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

    /// How many.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// What they take of memory.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    fn hash(&self, name: &str) -> u64 {
        let mut hasher = self.key.build_hasher();
        let mut lower = [0; 64];
        // Upper and lower case are one name (RFC 4343).
        for piece in name.as_bytes().chunks(lower.len()) {
            let lower = &mut lower[..piece.len()];
            lower.copy_from_slice(piece);
            lower.make_ascii_lowercase();
            hasher.write(lower);
        }
        hasher.finish()
    }
}

/// A name without what lists put around it.
///
/// # Errors
/// It is no name.
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
