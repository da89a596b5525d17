//! Counts that are not stored yet: bytes by user, direction, class and slot.

use crate::time::Slot;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two writes, which spares flash memory. A killed process loses less than ten
/// seconds of counts: this time, the time until the next check, and the time of the store.
pub const PERIOD: Duration = Duration::from_secs(9);

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the Internet.
    Down,
    /// To the Internet.
    Up,
}

/// Whose bytes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The home, which owns the line.
    Foreground,
    /// The neighbours.
    Background,
}

/// What bytes are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The five minutes.
    pub slot: Slot,
    /// Name of the user; empty for the home.
    pub user: String,
    /// Direction.
    pub direction: Direction,
    /// Home or neighbours.
    pub class: Class,
}

/// The counts that one transaction writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of the batch, one more than that of the batch before. The store accepts each number
    /// once.
    pub sequence: u64,
    /// Bytes to add, ordered by key.
    pub rows: BTreeMap<Key, u64>,
}

impl Batch {
    /// Sum of all bytes.
    pub fn bytes(&self) -> u64 {
        self.rows.values().sum()
    }
}

/// State of the ledger and its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The counts are stored, up to the last period.
    Current,
    /// The store fails; counts wait in memory, and sharing continues.
    Behind {
        /// Steady time of the first failure.
        since: Duration,
        /// Bytes that wait.
        unwritten_bytes: u64,
        /// Error of the store.
        error: String,
    },
    /// The store has failed for too long. Neighbours must pause, because more counts would be lost
    /// with the process.
    Stopped {
        /// Steady time of the first failure.
        since: Duration,
        /// Bytes that wait.
        unwritten_bytes: u64,
        /// Error of the store.
        error: String,
    },
}

/// Counts that wait for their transaction.
///
/// A batch keeps its number until the store has it. A commit with an unknown outcome is repeated.
/// The store knows the last number, so it adds each batch once.
#[derive(Debug)]
pub struct Ledger {
    pending: BTreeMap<Key, u64>,
    flight: Option<Arc<Batch>>,
    sequence: u64,
    written: Option<Duration>,
    failure: Option<(Duration, String)>,
    patience: Duration,
}

impl Ledger {
    /// A ledger that continues after the store's last number. The store may fail for `patience`
    /// before sharing stops.
    pub fn new(sequence: u64, patience: Duration) -> Ledger {
        Ledger { pending: BTreeMap::new(), flight: None, sequence, written: None, failure: None, patience }
    }

    /// Counts bytes.
    pub fn count(&mut self, key: Key, bytes: u64) {
        if bytes > 0 {
            let sum = self.pending.entry(key).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The batch to write now: at most one in each [`PERIOD`], and none without counts.
    pub fn batch(&mut self, steady: Duration) -> Option<Arc<Batch>> {
        if self.written.is_some_and(|at| steady.saturating_sub(at) < PERIOD) {
            return None;
        }
        self.take(steady)
    }

    /// Lets the next batch be written at once. Returns the number of the last one.
    pub fn hurry(&mut self) -> u64 {
        self.written = None;
        self.sequence
    }

    /// Whether all that was counted when `last` was the last batch is stored.
    pub fn is_stored_after(&self, last: u64) -> bool {
        self.flight.is_none() && (self.sequence > last || self.pending.is_empty())
    }

    /// The batch to write at the end, whatever the time.
    pub fn take(&mut self, steady: Duration) -> Option<Arc<Batch>> {
        if self.flight.is_none() && !self.pending.is_empty() {
            self.sequence += 1;
            let rows = std::mem::take(&mut self.pending);
            self.flight = Some(Arc::new(Batch { sequence: self.sequence, rows }));
        }
        self.flight.as_ref()?;
        self.written = Some(steady);
        self.flight.clone()
    }

    /// Records that the store has the batch.
    pub fn stored(&mut self) {
        self.flight = None;
        self.failure = None;
    }

    /// Records that the store refused the batch, or that its answer was lost.
    pub fn refused(&mut self, steady: Duration, error: String) {
        let since = self.failure.take().map_or(steady, |(since, _)| since);
        self.failure = Some((since, error));
    }

    /// Records that the store will never accept anything again: sharing stops at once.
    pub fn refused_for_good(&mut self, steady: Duration, error: String) {
        self.refused(steady, error);
        self.patience = Duration::ZERO;
    }

    /// Bytes that are counted but not stored.
    pub fn unwritten_bytes(&self) -> u64 {
        self.pending.values().sum::<u64>() + self.flight.as_ref().map_or(0, |batch| batch.bytes())
    }

    /// State of the ledger and its store.
    pub fn state(&self, steady: Duration) -> State {
        let Some((since, error)) = self.failure.clone() else { return State::Current };
        let unwritten_bytes = self.unwritten_bytes();
        if steady.saturating_sub(since) < self.patience {
            State::Behind { since, unwritten_bytes, error }
        } else {
            State::Stopped { since, unwritten_bytes, error }
        }
    }
}

impl State {
    /// Whether neighbours are served.
    pub fn shares(&self) -> bool {
        !matches!(self, State::Stopped { .. })
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            State::Current => write!(f, "current"),
            State::Behind { unwritten_bytes, error, .. } => {
                write!(f, "behind: {unwritten_bytes} bytes wait in memory, sharing goes on: {error}")
            }
            State::Stopped { unwritten_bytes, error, .. } => {
                write!(f, "stopped: {unwritten_bytes} bytes wait in memory, sharing pauses: {error}")
            }
        }
    }
}

impl Direction {
    /// Both directions.
    pub const ALL: [Direction; 2] = [Direction::Down, Direction::Up];

    /// The name in the store and in exports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Down => "down",
            Direction::Up => "up",
        }
    }
}

impl Class {
    /// The name in the store and in exports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Foreground => "home",
            Class::Background => "neighbours",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn key(second: i64) -> Key {
        Key {
            slot: Slot::of(Timestamp::from_second(second).unwrap()),
            user: "ann".into(),
            direction: Direction::Down,
            class: Class::Background,
        }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn there_is_one_batch_in_a_period_and_none_without_counts() {
        let mut ledger = Ledger::new(41, at(60));
        assert_eq!(ledger.batch(at(0)), None);
        let mut batches = Vec::new();
        for second in 0..100 {
            ledger.count(key(second as i64), 7);
            ledger.count(key(second as i64), 0);
            if let Some(batch) = ledger.batch(at(second)) {
                ledger.stored();
                batches.push(batch);
            }
        }
        assert_eq!(batches.len(), 12);
        let numbers: Vec<u64> = batches.iter().map(|batch| batch.sequence).collect();
        assert_eq!(numbers, Vec::from_iter(42..54));
        let bytes: u64 = batches.iter().map(|batch| batch.bytes()).sum();
        assert_eq!(bytes + ledger.unwritten_bytes(), 700);
        assert_eq!(ledger.unwritten_bytes(), 0);
    }

    #[test]
    fn less_than_ten_seconds_are_not_stored_where_the_store_takes_half_a_second() {
        let (mut ledger, mut stored) = (Ledger::new(0, at(60)), None);
        for tick in 0..1000_u64 {
            let now = Duration::from_millis(100 * tick);
            ledger.count(key(0), 100);
            if stored.is_some_and(|at| now >= at) {
                ledger.stored();
                stored = None;
            }
            if stored.is_none() && ledger.batch(now).is_some() {
                stored = Some(now + Duration::from_millis(500));
            }
            assert!(ledger.unwritten_bytes() < 10_000, "at {now:?}: {} ms", ledger.unwritten_bytes());
        }
    }

    #[test]
    fn a_batch_that_was_refused_comes_again_as_it_was() {
        let mut ledger = Ledger::new(0, at(60));
        ledger.count(key(0), 5);
        let first = ledger.batch(at(0)).unwrap();
        ledger.refused(at(0), "disk full".into());
        ledger.count(key(0), 6);
        assert_eq!(ledger.batch(at(8)), None);
        assert_eq!(ledger.batch(at(9)), Some(first));
        assert!(matches!(ledger.state(at(10)), State::Behind { unwritten_bytes: 11, .. }));
        ledger.refused(at(10), "disk full".into());
        let state = ledger.state(at(60));
        assert!(matches!(&state, State::Stopped { since, .. } if *since == at(0)) && !state.shares());
        assert!(state.to_string().contains("disk full"));
        ledger.stored();
        assert_eq!(ledger.state(at(61)), State::Current);
        assert_eq!(ledger.batch(at(61)).unwrap().bytes(), 6);
    }
}
