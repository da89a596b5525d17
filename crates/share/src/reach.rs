//! The bytes that one sender may have in flight. What it is granted beyond that lies idle in the
//! window that all flows share.
//!
//! The reach is twice the bytes that arrived in the last round trip of the path, as a receiver
//! sizes its buffer (Fisk and Feng 2001, dynamic right-sizing). Twice is enough for a slow start.
//! So a server that is slow, or pauses, is granted little more than it sends.

use crate::estimator::Own;
use crate::policy::Policy;

/// The reach of one flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reach {
    /// What the samples of the flow showed.
    pub own: Own,
    /// The last known round-trip time of the flow's path, in microseconds.
    rtt_us: u64,
    round_us: u64,
    /// Bytes that arrived in the present round trip and in the one before.
    round_bytes: [u64; 2],
    rounds: u64,
}

impl Reach {
    /// The bytes that the flow may have in flight on a line with this queuing delay. A flow whose
    /// own samples show a longer queue has a queue of its own. It gets only the bytes that
    /// arrived, so that its queue becomes shorter. The reach is at least two segments, because a
    /// receiver acknowledges a single segment late (RFC 5681, 4.2).
    pub fn bytes(&self, queuing_us: u32, srtt_us: u64, policy: &Policy) -> u64 {
        if self.rounds < 2 {
            return policy.initial_segments * policy.segment_bytes;
        }
        let alone = u64::from(self.own.queuing_us) > u64::from(queuing_us) + srtt_us / policy.round_parts;
        let came = self.round_bytes[0].max(self.round_bytes[1]);
        let reach = if alone { came } else { 2 * came };
        reach.max(2 * policy.segment_bytes)
    }

    /// Counts `bytes` that arrived. `rtt_us` is the round-trip time of the path, if known;
    /// `srtt_us` is that of all paths.
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

    /// The flow's rate in bytes per second; `None` in the first two round trips.
    pub fn rate_bytes_per_s(&self) -> Option<u64> {
        let came = self.round_bytes[0].max(self.round_bytes[1]);
        (self.rounds >= 2).then(|| came.saturating_mul(1_000_000).checked_div(self.rtt_us))?
    }

    /// Records that a grant expired: the flow begins anew with the least reach.
    pub fn silent(&mut self) {
        (self.round_bytes, self.rounds) = ([0; 2], u64::MAX / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1460;

    /// A reach after so many segments in each of ten round trips of 20 ms.
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
