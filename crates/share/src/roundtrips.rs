//! Round trips of a receive window without packets: from the grant that opens the window to the
//! first byte that this grant allowed.
//!
//! A program that reads from a socket sees several segments at once, some time after they
//! arrived. Of all grants whose first byte is among them, the last grant counts, because it
//! waited least for the program. The last byte of a grant would show the grant's own length as a
//! queue.

use crate::estimator::Certainty;
use std::collections::VecDeque;

/// The pending samples of one flow: grants of which nothing has arrived. Positions count bytes
/// since the connection began.
#[derive(Debug, Default)]
pub struct RoundTrips {
    timed: VecDeque<Opened>,
}

#[derive(Debug, Clone, Copy)]
struct Opened {
    from: u64,
    at_us: u64,
    certainty: Certainty,
}

impl RoundTrips {
    /// Records that at `now_us` the bytes from position `from` on were let through. With
    /// [`Certainty::LowerBound`], the kernel may have let them through earlier.
    pub fn opened(&mut self, from: u64, now_us: u64, certainty: Certainty) {
        if self.timed.back().is_none_or(|last| last.from < from) {
            self.timed.push_back(Opened { from, at_us: now_us, certainty });
        }
    }

    /// Records that everything before `position` has arrived. Returns the round-trip sample that
    /// this gives, in microseconds.
    pub fn arrived(&mut self, position: u64, now_us: u64) -> Option<(u32, Certainty)> {
        let mut last = None;
        while let Some(opened) = self.timed.pop_front_if(|opened| opened.from < position) {
            last = Some((passed_us(opened.at_us, now_us), opened.certainty));
        }
        last
    }

    /// Gives up all pending samples. Returns the age of the last one, in microseconds: a round
    /// trip takes at least this long.
    pub fn given_up(&mut self, now_us: u64) -> Option<u32> {
        let least = self.timed.back().map(|opened| passed_us(opened.at_us, now_us));
        self.clear();
        least
    }

    /// Drops all pending samples.
    pub fn clear(&mut self) {
        self.timed.clear();
    }
}

fn passed_us(at_us: u64, now_us: u64) -> u32 {
    u32::try_from(now_us.saturating_sub(at_us).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Certainty::{Exact, LowerBound};

    #[test]
    fn the_first_byte_of_a_grant_is_timed() {
        let mut round_trips = RoundTrips::default();
        round_trips.opened(0, 1_000, Exact);
        assert_eq!(round_trips.arrived(0, 9_000), None, "nothing has come");
        assert_eq!(round_trips.arrived(1460, 21_000), Some((20_000, Exact)));
        assert_eq!(
            round_trips.arrived(2920, 30_000),
            None,
            "the grant's second segment waited for its first"
        );
    }

    /// Three grants, 7 ms apart, whose segments are read together: the last grant waited least.
    #[test]
    fn segments_that_are_read_together_are_no_queue_of_each_other() {
        let mut round_trips = RoundTrips::default();
        (0..3).for_each(|n| round_trips.opened(n * 1460, n * 7_000, Exact));
        assert_eq!(round_trips.arrived(3 * 1460, 35_000), Some((21_000, Exact)));
    }

    #[test]
    fn a_grant_of_which_nothing_comes_says_how_long_it_takes_at_least() {
        let mut round_trips = RoundTrips::default();
        assert_eq!(round_trips.given_up(5), None);
        round_trips.opened(0, 0, Exact);
        round_trips.opened(1460, 40_000, LowerBound);
        assert_eq!(round_trips.given_up(100_000), Some(60_000));
        assert_eq!(round_trips.arrived(2920, 110_000), None, "it was given up");
    }
}
