//! Service at a constant rate, or at rates that change at given times.

use leeway_units::{Bytes, Duration, Rate, Time};
use std::collections::VecDeque;

/// Bit-nanoseconds in a byte. A rate in bit/s does this work exactly, in integer nanoseconds.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A rate and its future changes.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    rate: Rate,
    /// End of `rate`: the time of the first of `changes`, or never.
    until: Time,
    /// In ascending order of time. Of changes at the same time the last one counts.
    changes: VecDeque<(Time, Rate)>,
    /// The last packet size and its time at `rate`. Links mostly carry packets of one size.
    bytes: u64,
    takes: Duration,
}

impl Schedule {
    pub fn constant(rate: Rate) -> Self {
        Schedule { rate, until: Time::NEVER, changes: VecDeque::new(), bytes: 0, takes: Duration::ZERO }
    }

    /// `rate` until the first of `changes`, which are sorted by time.
    pub fn piecewise(rate: Rate, mut changes: Vec<(Time, Rate)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        let until = changes.first().map_or(Time::NEVER, |&(at, _)| at);
        Schedule { until, changes: changes.into(), ..Schedule::constant(rate) }
    }

    /// The rate at the start of the last transmission.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Sets the rate from `now` on, and removes all later changes. Earlier changes that no
    /// transmission has reached stay.
    pub fn set(&mut self, now: Time, rate: Rate) {
        while self.changes.back().is_some_and(|&(at, _)| at >= now) {
            self.changes.pop_back();
        }
        self.changes.push_back((now, rate));
        self.until = self.changes[0].0;
    }

    /// The end of `bytes` whose transmission starts at `start`, rounded to the nearest nanosecond.
    /// Starts never go back.
    #[inline]
    pub fn finish(&mut self, start: Time, bytes: u64) -> Time {
        if bytes == self.bytes {
            let end = start + self.takes;
            if end <= self.until {
                return end;
            }
        }
        self.finish_exactly(start, bytes)
    }

    #[cold]
    fn finish_exactly(&mut self, start: Time, bytes: u64) -> Time {
        while self.until <= start
            && let Some((_, rate)) = self.changes.pop_front()
        {
            self.rate = rate;
            self.bytes = 0;
            self.takes = Duration::ZERO;
            self.until = self.changes.front().map_or(Time::NEVER, |&(at, _)| at);
        }
        if bytes != self.bytes {
            self.bytes = bytes;
            self.takes = self.rate.time_for(Bytes::new(bytes));
        }
        let end = start + self.takes;
        if end <= self.until { end } else { self.finish_across(start, bytes) }
    }

    /// Bytes sent by `now` of the last transmission, which started at `start`.
    pub fn sent(&self, start: Time, now: Time) -> f64 {
        let (mut from, mut rate, mut work) = (start, self.rate, 0.0);
        for &(change, next) in self.changes.iter().take_while(|&&(change, _)| change < now) {
            work += rate.bits_per_sec() as f64 * change.since(from).nanos() as f64;
            (from, rate) = (change.max(from), next);
        }
        work += rate.bits_per_sec() as f64 * now.since(from).nanos() as f64;
        work / WORK_PER_BYTE as f64
    }

    /// The end of a transmission during which the rate changes. Each rate does a part of the work.
    fn finish_across(&self, start: Time, bytes: u64) -> Time {
        let mut work = u128::from(bytes) * WORK_PER_BYTE;
        let (mut from, mut rate) = (start, self.rate);
        for &(change, next) in &self.changes {
            let done = u128::from(rate.bits_per_sec()) * u128::from(change.since(from).nanos());
            if done >= work {
                break;
            }
            work -= done;
            (from, rate) = (change, next);
        }
        match u128::from(rate.bits_per_sec()) {
            0 => Time::NEVER,
            bits => {
                let nanos = (work + bits / 2) / bits;
                from + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}
