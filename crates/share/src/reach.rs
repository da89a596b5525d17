//! How much a sender can have under way: what it is granted beyond that lies idle in the window of all.
//!
//! As a receiver sizes its buffer (Fisk and Feng 2001, dynamic right-sizing): twice what came in the last
//! round trip of its path, by which a slow start doubles. A server that is slow, or pauses, is so granted
//! little more than it sends.

use crate::estimator::Own;
use crate::policy::Policy;

/// Of one flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reach {
    /// What its samples showed.
    pub own: Own,
    /// Of its path, as it was known last.
    rtt_us: u64,
    round_us: u64,
    /// In the round trip under way and in the one before; nothing before the first has ended.
    round_bytes: [u64; 2],
    rounds: u64,
}

impl Reach {
    /// What it can have under way, in bytes, on a line with this queue. A queue that others do not meet is
    /// its own: then it is as much as came, by which that queue becomes shorter. Never less than two segments: a
    /// receiver acknowledges a lone one late (RFC 5681, 4.2).
    pub fn bytes(&self, queuing_us: u32, srtt_us: u64, policy: &Policy) -> u64 {
        if self.rounds < 2 {
            return policy.initial_segments * policy.segment_bytes;
        }
        let alone = u64::from(self.own.queuing_us) > u64::from(queuing_us) + srtt_us / policy.round_parts;
        let came = self.round_bytes[0].max(self.round_bytes[1]);
        let reach = if alone { came } else { 2 * came };
        reach.max(2 * policy.segment_bytes)
    }

    /// `bytes` have come, by a path whose round trip takes `rtt_us`, where that is known; over all paths it
    /// is `srtt_us`.
    pub fn arrived(&mut self, now_us: u64, bytes: u64, rtt_us: Option<u64>, srtt_us: u64) {
        self.rtt_us = rtt_us.unwrap_or(self.rtt_us);
        let rtt_us = if self.rtt_us == 0 { srtt_us } else { self.rtt_us };
        if now_us >= self.round_us + rtt_us {
            let empty = now_us >= self.round_us + 2 * rtt_us.max(1);
            self.round_bytes = [0, if empty { 0 } else { self.round_bytes[0] }];
            self.round_us = now_us;
            self.rounds += 1;
        }
        self.round_bytes[0] += bytes;
    }

    /// What comes of it, in bytes per second, once that is known.
    pub fn rate_bytes_per_s(&self) -> Option<u64> {
        let came = self.round_bytes[0].max(self.round_bytes[1]);
        (self.rounds >= 2).then(|| came.saturating_mul(1_000_000).checked_div(self.rtt_us))?
    }

    /// Nothing came of what was granted.
    pub fn silent(&mut self) {
        (self.round_bytes, self.rounds) = ([0; 2], u64::MAX / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1460;

    /// After so many segments in each of ten round trips of 20 ms.
    fn after(segments: u64) -> Reach {
        let mut reach = Reach::default();
        for n in 0..10 * segments {
            reach.arrived(n * 20_000 / segments, SEGMENT, Some(20_000), 0);
        }
        reach
    }

    fn segments(reach: &Reach) -> u64 {
        reach.bytes(2_000, 20_000, &Policy::default()) / SEGMENT
    }

    #[test]
    fn a_new_sender_can_send_four_segments_and_then_twice_what_came() {
        assert_eq!(segments(&Reach::default()), 4);
        assert_eq!(segments(&after(30)), 60);
        assert_eq!(segments(&after(1)), 2, "a slow one");
    }

    #[test]
    fn a_sender_that_was_silent_begins_with_one_grant() {
        let mut reach = after(30);
        reach.silent();
        assert_eq!(segments(&reach), Policy::default().grant_segments);
    }

    #[test]
    fn a_queue_of_its_own_does_not_become_longer() {
        let mut reach = after(30);
        reach.own.queuing_us = 7_000;
        assert_eq!(segments(&reach), 60, "others meet as much, but for 5 ms");
        reach.own.queuing_us = 7_001;
        assert_eq!(segments(&reach), 30);
    }
}
