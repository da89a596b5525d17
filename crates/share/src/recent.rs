//! Counts the bytes that arrived in any part of the recent past.

use crate::policy::Policy;
use std::collections::VecDeque;

/// Bytes that arrived, by time, for the last two [`Policy::rate_span_us`].
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// Total of bytes at each time, modulo 2^64. Times closer than [`Policy::burst_us`] share an
    /// entry.
    until: VecDeque<(u64, u64)>,
    /// The total before the first entry.
    before: u64,
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
        while let Some((_, until)) = self.until.pop_front_if(old) {
            self.before = until;
        }
    }

    /// Bytes that arrived after `from_us`.
    pub fn since(&self, from_us: u64) -> u64 {
        let before = self.until.partition_point(|&(at_us, _)| at_us <= from_us);
        let until = before.checked_sub(1).map_or(self.before, |last| self.until[last].1);
        self.bytes.wrapping_sub(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
