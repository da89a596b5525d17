//! Service by a trace of delivery opportunities, in the format of mahimahi.

use leeway_units::{Bytes, Duration, Rate, Time};
use std::sync::Arc;

/// Bytes of one delivery opportunity: an MTU with mahimahi's link header.
pub const OPPORTUNITY: u32 = 1504;

/// Delivery opportunities, repeated for ever.
///
/// A line is a time in ms since the start at which [`OPPORTUNITY`] bytes may be delivered. Times
/// never go back, and several lines with the same time add up. After the last time the trace
/// starts again. Empty lines and lines that start with `#` are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Distinct times in (0, period], in ascending order, each with the number of opportunities up
    /// to and including it.
    stamps: Vec<(u64, u64)>,
    period: u64,
}

/// Why a trace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a number.
    #[error("line {line}: `{given}` is not a whole number of milliseconds")]
    Number {
        /// Number of the line, from 1.
        line: usize,
        /// Text of the line.
        given: String,
    },
    /// A time is before the one above it.
    #[error("line {line}: {stamp} ms is before {before} ms, the stamp above it; stamps must not go back")]
    Order {
        /// Number of the line, from 1.
        line: usize,
        /// Time of the line, in ms.
        stamp: u64,
        /// Time of the line above, in ms.
        before: u64,
    },
    /// A time is too large.
    #[error("line {line}: {stamp} ms is too late; a trace lasts a year at most")]
    TooLong {
        /// Number of the line, from 1.
        line: usize,
        /// Time of the line, in ms.
        stamp: u64,
    },
    /// There is no time.
    #[error("the trace is empty; it needs one millisecond stamp per line")]
    Empty,
    /// Every time is 0.
    #[error("the trace lasts no time; its last stamp must be above 0")]
    NoTime,
}

const YEAR_MS: u64 = 366 * 86_400_000;

impl Trace {
    /// Reads the contents of a trace file.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut stamps = Vec::new();
        for (index, content) in text.lines().enumerate() {
            let (line, content) = (index + 1, content.trim());
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let stamp: u64 = content
                .parse()
                .map_err(|_| TraceError::Number { line, given: content.chars().take(60).collect() })?;
            match stamps.last() {
                Some(&before) if stamp < before => return Err(TraceError::Order { line, stamp, before }),
                _ if stamp > YEAR_MS => return Err(TraceError::TooLong { line, stamp }),
                _ => stamps.push(stamp),
            }
        }
        Trace::from_millis(&stamps)
    }

    /// A trace from its times in milliseconds, which must not go back.
    pub fn from_millis(list: &[u64]) -> Result<Self, TraceError> {
        let &period = list.last().ok_or(TraceError::Empty)?;
        if period == 0 {
            return Err(TraceError::NoTime);
        }
        let mut stamps: Vec<(u64, u64)> = Vec::new();
        let mut before = 0;
        // An opportunity at 0 comes again at the end of each period. The very first one is before
        // any packet.
        let zeros = list.iter().take_while(|&&stamp| stamp == 0).count();
        for (index, &stamp) in list.iter().enumerate() {
            if stamp < before {
                return Err(TraceError::Order { line: index + 1, stamp, before });
            }
            before = stamp;
            if index < zeros {
                continue;
            }
            let total = (index + 1 - zeros) as u64;
            match stamps.last_mut() {
                Some(last) if last.0 == stamp => last.1 = total,
                _ => stamps.push((stamp, total)),
            }
        }
        if let Some(last) = stamps.last_mut() {
            last.1 += zeros as u64;
        }
        Ok(Trace { stamps, period })
    }

    /// Duration of the trace until it repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period)
    }

    /// The mean rate.
    pub fn rate(&self) -> Rate {
        let opportunities = self.stamps.last().map_or(0, |&(_, total)| total);
        Rate::of(Bytes::new(opportunities * u64::from(OPPORTUNITY)), self.period())
    }

    /// Bytes that can be delivered after `from`, up to and including `to`.
    pub fn bytes_between(&self, from: Time, to: Time) -> u64 {
        self.opportunities_until(to).saturating_sub(self.opportunities_until(from)) * u64::from(OPPORTUNITY)
    }

    /// Number of opportunities after the start, up to and including `time`.
    fn opportunities_until(&self, time: Time) -> u64 {
        let ms = time.nanos() / 1_000_000;
        let (rounds, within) = (ms / self.period, ms % self.period);
        let index = self.stamps.partition_point(|&(stamp, _)| stamp <= within);
        let before = if index == 0 { 0 } else { self.stamps[index - 1].1 };
        rounds * self.stamps.last().map_or(0, |&(_, total)| total) + before
    }

    /// The first opportunity time after `time`, with its number of opportunities.
    fn after(&self, time: Time) -> (Time, u64) {
        // Opportunities are at whole milliseconds. So one after `time` is after the present
        // millisecond.
        let ms = time.nanos() / 1_000_000;
        let (round, within) = (ms / self.period, ms % self.period);
        let index = self.stamps.partition_point(|&(stamp, _)| stamp <= within);
        // The last entry is the period, which is above `within`.
        let (stamp, total) = self.stamps[index];
        let before = if index == 0 { 0 } else { self.stamps[index - 1].1 };
        (Time::from_millis(round * self.period + stamp), total - before)
    }
}

/// A trace in use.
#[derive(Debug, Clone)]
pub(crate) struct Opportunities {
    trace: Arc<Trace>,
    /// The next opportunity, and its bytes.
    next: Time,
    bytes: u64,
}

impl Opportunities {
    pub fn new(trace: Arc<Trace>) -> Self {
        let (next, count) = trace.after(Time::ZERO);
        Opportunities { trace, next, bytes: count * u64::from(OPPORTUNITY) }
    }

    /// The first opportunity after `time`. Times never go back.
    pub fn after(&mut self, time: Time) -> Time {
        if time >= self.next {
            let (next, count) = self.trace.after(time);
            (self.next, self.bytes) = (next, count * u64::from(OPPORTUNITY));
        }
        self.next
    }

    /// Bytes of the last opportunity that was found.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
