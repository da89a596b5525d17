//! Counts the bytes that arrived in any part of the recent past.

use crate::pacer::mul_div;
use crate::policy::Policy;
use std::collections::VecDeque;

/// Bytes that arrived, by time, for the last two [`Policy::rate_span_us`].
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Total of bytes at each time, modulo 2^64. Times closer than [`Policy::burst_us`] share an
    /// entry.
    until: VecDeque<(u64, u64)>,
    /// The last entry before these: a time, and the total until then.
    before: (u64, u64),
    bytes: u64,
}

impl Recent {
    /// Counts `bytes` at `now_us`.
    pub fn keep(&mut self, now_us: u64, bytes: u64, policy: &Policy) {
        self.bytes = self.bytes.wrapping_add(bytes);
        match self.until.back_mut() {
            Some((at_us, until)) if now_us < *at_us + policy.burst_us => *until = self.bytes,
            _ => self.until.push_back((now_us, self.bytes)),
        }
        let old = |&mut (at_us, _): &mut (u64, u64)| at_us + 2 * policy.rate_span_us < now_us;
        while let Some(entry) = self.until.pop_front_if(old) {
            self.before = entry;
        }
    }

    /// Bytes that arrived after `from_us`.
    pub fn since(&self, from_us: u64) -> u64 {
        let ((_, before), _) = self.around(from_us);
        self.bytes.wrapping_sub(before)
    }

    /// Bytes that the line delivered after `from_us`, if it delivered the bytes of each arrival
    /// at one rate since the arrival before. An acknowledgement of two segments, for example,
    /// comes when the second one has arrived.
    pub fn delivered_since(&self, from_us: u64) -> u64 {
        let ((since_us, before), next) = self.around(from_us);
        let Some((at_us, until)) = next else { return 0 };
        let part = mul_div(until.wrapping_sub(before), at_us - from_us, at_us - since_us.min(from_us));
        self.bytes.wrapping_sub(until) + part
    }

    /// The last entry at `from_us` or before it, and the first one after it.
    fn around(&self, from_us: u64) -> ((u64, u64), Option<(u64, u64)>) {
        let next = self.until.partition_point(|&(at_us, _)| at_us <= from_us);
        let before = next.checked_sub(1).map_or(self.before, |last| self.until[last]);
        (before, self.until.get(next).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line carries a packet in 28 ms, and the receiver acknowledges every second one.
    #[test]
    fn an_acknowledgement_of_two_segments_is_of_the_time_in_which_they_arrived() {
        let (policy, mut recent) = (Policy::default(), Recent::default());
        (1..=10).for_each(|n| recent.keep(n * 56_000, 3_000, &policy));
        assert_eq!([56_000, 112_000].map(|us| recent.since(560_000 - us)), [3_000, 6_000]);
        assert_eq!(
            [0, 28_000, 42_000, 56_000, 84_000].map(|us| recent.delivered_since(560_000 - us)),
            [0, 1_500, 2_250, 3_000, 4_500]
        );
        recent.keep(5_000_000, 3_000, &policy);
        assert_eq!(recent.delivered_since(5_000_000 - 44_400), 30, "a pause of 4.44 s");
    }

    #[test]
    fn bytes_since_a_time_are_known_also_after_a_pause() {
        let (policy, mut recent) = (Policy::default(), Recent::default());
        assert_eq!(recent.since(0), 0);
        (1..=10).for_each(|n| recent.keep(n * 10_000, 1_000, &policy));
        assert_eq!(
            [0, 50_000, 99_999, 100_000].map(|from_us| recent.since(from_us)),
            [10_000, 5_000, 1_000, 0]
        );
        recent.keep(60_000_000, 700, &policy);
        assert_eq!(recent.since(59_900_000), 700, "what came a minute ago is not recent");
    }
}
