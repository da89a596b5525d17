//! Exports the ledger: CSV, Parquet, and a table for people.

mod columnar;

pub use columnar::parquet;

use crate::ledger::Direction;
use crate::store::{Store, StoreError, Usage};
use crate::time::{SLOT_S, Slot};
use jiff::{SignedDuration, Timestamp};
use std::io::{self, Write};

/// Seconds of usage that are read at a time: one day.
const PIECE: i64 = 24 * 3600;

const HEAD: &str = "time,gateway,user,direction,class,bytes";

/// Why the export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error("cannot write the export: {0}")]
    File(#[from] io::Error),
    /// The file cannot be written as Parquet.
    #[error("cannot write the export: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Writes what was used from slot `from` until before `to` as CSV (RFC 4180, but with the line
/// ends of Unix). There is one line for each user, direction, class and five minutes. Times are
/// UTC. Returns the number of rows.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub fn csv(store: &mut Store, from: Slot, to: Slot, mut out: impl Write) -> Result<u64, ExportError> {
    writeln!(out, "{HEAD}")?;
    let mut rows = 0;
    pieces(store, from, to, |usage| {
        for Usage { slot, gateway, user, direction, class, bytes } in usage {
            let (gateway, user) = (quoted(gateway), quoted(user));
            let (direction, class) = (direction.name(), class.name());
            writeln!(out, "{},{gateway},{user},{direction},{class},{bytes}", slot.start())?;
        }
        rows += usage.len() as u64;
        Ok(())
    })?;
    out.flush()?;
    Ok(rows)
}

/// Bytes of each user, down and up, as a table for people. The home is the first line.
pub fn table(totals: &[(String, [u64; 2])]) -> String {
    let name = |user: &str| if user.is_empty() { "(the home)".to_owned() } else { user.to_owned() };
    let width = totals.iter().map(|(user, _)| name(user).chars().count()).max().unwrap_or(0).max(10);
    let megabytes = |bytes: u64| format!("{}.{:03}", bytes / 1_000_000, bytes / 1000 % 1000);
    let mut text = format!("{:width$}  {:>16}  {:>16}\n", "user", "down, MB", "up, MB");
    for (user, bytes) in totals {
        let [down, up] = Direction::ALL.map(|direction| megabytes(bytes[direction as usize]));
        text += &format!("{:width$}  {down:>16}  {up:>16}\n", name(user));
    }
    text
}

/// Calls `see` with the usage of each day that has some.
fn pieces(
    store: &mut Store,
    from: Slot,
    to: Slot,
    mut see: impl FnMut(&[Usage]) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    // Skips the time before and after the ledger's slots.
    let Some((first, last)) = store.range()? else { return Ok(()) };
    let (mut at, to) = (from.max(first), to.min(last.next()));
    while at < to {
        let day = SignedDuration::from_secs(PIECE - at.second().rem_euclid(PIECE));
        let next = Slot::of(at.start().checked_add(day).unwrap_or(Timestamp::MAX)).min(to);
        let usage = store.usage(at, next)?;
        if !usage.is_empty() {
            see(&usage)?;
        }
        at = next.max(at.next());
    }
    debug_assert_eq!(PIECE % SLOT_S, 0);
    Ok(())
}

/// A field of CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if formula || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_field() {
        for (name, field) in [
            ("ann", "ann"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(quoted(name), field);
        }
    }

    #[test]
    fn a_table_that_people_read() {
        let totals = [(String::new(), [1_234_567, 89]), ("ann".to_owned(), [u64::MAX, 0])];
        let expected = "\
user                down, MB            up, MB
(the home)             1.234             0.000
ann         18446744073709.551             0.000
";
        assert_eq!(table(&totals), expected);
    }
}
