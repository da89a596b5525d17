//! What the way back adds to a round trip beyond its least: the queue of the other direction.
//!
//! A round trip contains the queues of both directions. Where the other end says when it has sent (the
//! timestamps of TCP, RFC 7323, or of a tunnel), the time of the way back is known but for a constant, the
//! difference of the two clocks:
//!
//! ```text
//! back = here, when it came - there, when it left
//! excess = back - least back
//! round trip without the queue of the way back = round trip - excess
//! ```
//!
//! Two clocks drift apart, so the least may rise by 100 ppm. A queue of the way back that stays counts as one
//! of this direction, 6 ms more each minute.

/// The clocks drift apart by one part in this many at most: 100 ppm, the most of usual quartz crystals.
const DRIFT: u64 = 10_000;
/// No way back is longer than the least by that: it is another clock.
const LONGEST_US: u32 = 60_000_000;

/// The least way back from one clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct WayBack {
    /// Modulo 2^32 microseconds, and when it was seen.
    least: Option<(u32, u64)>,
}

impl WayBack {
    /// That of a clock of which nothing was known: what left at `there_us` came at `now_us` when the way back
    /// was known to be longer by `excess_us` than at its least.
    pub fn new(now_us: u64, there_us: u32, excess_us: u32) -> WayBack {
        let back_us = (now_us as u32).wrapping_sub(there_us);
        WayBack { least: Some((back_us.wrapping_sub(excess_us), now_us)) }
    }

    /// Something that left at `there_us` came at `now_us`, both modulo 2^32 microseconds: by how many
    /// microseconds the way back was longer than at its least.
    pub fn excess_us(&mut self, now_us: u64, there_us: u32) -> u32 {
        let back_us = (now_us as u32).wrapping_sub(there_us);
        let excess_us = self.least.map(|(least_us, at_us)| {
            let drift_us = u32::try_from(now_us.saturating_sub(at_us) / DRIFT).unwrap_or(u32::MAX);
            back_us.wrapping_sub(least_us.wrapping_add(drift_us))
        });
        match excess_us {
            Some(excess_us) if excess_us < LONGEST_US => excess_us,
            _ => {
                self.least = Some((back_us, now_us));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Clock of the other end, which gains `drift_ppm`, when something came that took `back_us`.
    fn there_us(now_us: u64, apart_us: u32, drift_ppm: i64, back_us: u32) -> u32 {
        let gained_us = now_us as i64 * drift_ppm / 1_000_000;
        (now_us as u32).wrapping_add(apart_us).wrapping_add(gained_us as u32).wrapping_sub(back_us)
    }

    proptest! {
        /// Whatever the clocks show.
        #[test]
        fn a_queue_of_the_way_back_is_known(
            apart_us in any::<u32>(), start_us in 0..1u64 << 40, least_us in 1u32..300_000, queue_us in 0u32..1_000_000,
        ) {
            let mut way = WayBack::default();
            prop_assert_eq!(way.excess_us(start_us, there_us(start_us, apart_us, 0, least_us)), 0);
            let now_us = start_us + 5_000;
            prop_assert_eq!(way.excess_us(now_us, there_us(now_us, apart_us, 0, least_us + queue_us)), queue_us);
            let now_us = start_us + 9_000;
            prop_assert_eq!(way.excess_us(now_us, there_us(now_us, apart_us, 0, least_us)), 0);
        }
    }

    #[test]
    fn a_clock_may_begin_while_there_is_a_queue() {
        let mut way = WayBack::new(5_000_000, there_us(5_000_000, 77, 0, 320_000), 300_000);
        assert_eq!(way.excess_us(6_000_000, there_us(6_000_000, 77, 0, 70_000)), 50_000 - 100);
        assert_eq!(way.excess_us(6_000_000, there_us(6_000_000, 77, 0, 20_000)), 0);
    }

    #[test]
    fn clocks_that_drift_apart_are_no_queue() {
        for drift_ppm in [-100, 100] {
            let mut way = WayBack::default();
            for second in 0..3_600 {
                let now_us = second * 1_000_000;
                let excess_us = way.excess_us(now_us, there_us(now_us, 7, drift_ppm, 20_000));
                assert!(excess_us < 250, "{drift_ppm} ppm, after {second} s: {excess_us} us");
            }
        }
    }

    #[test]
    fn another_clock_says_nothing_at_first() {
        let mut way = WayBack::default();
        way.excess_us(1_000_000, 900_000);
        for there_us in [900_000u32.wrapping_sub(100_000_000), 3_000_000_000, 900_100] {
            assert_eq!(way.excess_us(1_000_100, there_us), 0);
        }
    }
}
