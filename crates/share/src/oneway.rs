//! The delay that the queue of one direction adds to a round trip.
//!
//! A round trip contains the queues of both directions. The timestamps of TCP (RFC 7323) or of a
//! tunnel show when a packet left or reached the other end, by the clock of that end. So the
//! one-way delay is known except for a constant, which is the difference of the two clocks:
//!
//! ```text
//! delay  = arrived - left, by two clocks
//! excess = delay - least delay
//! round trip without the queue of this direction = round trip - excess
//! ```
//!
//! Two clocks drift apart, so the least delay may rise by 100 ppm. A lasting queue of this
//! direction slowly counts as one of the other direction, 6 ms more each minute.

/// Two clocks drift apart by at most one part in 10,000: 100 ppm, the tolerance of usual quartz
/// crystals.
const DRIFT: u64 = 10_000;
/// An excess of 60 s or more, in microseconds, means that the other end's clock has changed.
const LONGEST_US: u32 = 60_000_000;

/// The clock of another host, as a packet from it shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Microseconds modulo 2^32, with any zero.
    pub us: u32,
    /// Whether the clock is known to count real time. Before that, a reading only helps to find
    /// the least delay.
    pub is_known: bool,
}

/// A queue that was seen less than 100 ms ago, in microseconds, is still there.
const RECENT_US: u64 = 100_000;

/// The queuing delay of one direction, as the clocks of several other hosts show it.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    /// Time of the last packet whose sender's clock is known, and the queuing delay that it
    /// showed. Both in microseconds.
    last: Option<(u64, u32)>,
}

impl Excess {
    /// Takes a packet into account that arrived at `at_us`. `clock` is the clock of its sender
    /// when it left, and `way` the delay by that clock. Returns the queuing delay in
    /// microseconds. `None` where the clock does not show it.
    pub fn read(&mut self, way: &mut Option<OneWay>, at_us: u64, clock: Option<ClockReading>) -> Option<u32> {
        let Some(left) = clock else {
            *way = None;
            return None;
        };
        let known_us = self.since(at_us.saturating_sub(RECENT_US));
        let came_us = at_us as u32;
        let way = way.get_or_insert_with(|| OneWay::new(at_us, left.us, came_us, known_us));
        let excess_us = Some(way.excess_us(at_us, left.us, came_us)).filter(|_| left.is_known)?;
        self.last = Some((at_us, excess_us));
        Some(excess_us)
    }

    /// The last queuing delay, if it was seen at `from_us` or later; otherwise 0.
    pub fn since(&self, from_us: u64) -> u32 {
        self.last.filter(|&(at_us, _)| at_us >= from_us).map_or(0, |(_, excess_us)| excess_us)
    }
}

/// The least delay of one direction between two clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneWay {
    /// The least delay, in microseconds modulo 2^32, and the time at which it was seen.
    least: Option<(u32, u64)>,
}

impl OneWay {
    /// Starts with the first packet between two clocks, which left at `left_us` and arrived at
    /// `came_us`. `excess_us` is by how much its delay is known to exceed the least one. All
    /// times are in microseconds, those of the two clocks modulo 2^32.
    pub fn new(now_us: u64, left_us: u32, came_us: u32, excess_us: u32) -> OneWay {
        let delay_us = came_us.wrapping_sub(left_us);
        OneWay { least: Some((delay_us.wrapping_sub(excess_us), now_us)) }
    }

    /// Returns by how many microseconds the delay of a packet exceeds the least one. The packet
    /// left at `left_us` and arrived at `came_us`, both modulo 2^32 microseconds.
    pub fn excess_us(&mut self, now_us: u64, left_us: u32, came_us: u32) -> u32 {
        let delay_us = came_us.wrapping_sub(left_us);
        let excess_us = self.least.map(|(least_us, at_us)| {
            let drift_us = u32::try_from(now_us.saturating_sub(at_us) / DRIFT).unwrap_or(u32::MAX);
            delay_us.wrapping_sub(least_us.wrapping_add(drift_us))
        });
        match excess_us {
            Some(excess_us) if excess_us < LONGEST_US => excess_us,
            _ => {
                self.least = Some((delay_us, now_us));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Clock of the other end when a packet left it that took `back_us`. The clock gains
    /// `drift_ppm`.
    fn there_us(now_us: u64, apart_us: u32, drift_ppm: i64, back_us: u32) -> u32 {
        let gained_us = now_us as i64 * drift_ppm / 1_000_000;
        (now_us as u32).wrapping_add(apart_us).wrapping_add(gained_us as u32).wrapping_sub(back_us)
    }

    proptest! {
        /// For any difference of the clocks.
        #[test]
        fn a_queue_of_one_direction_is_known(
            apart_us in any::<u32>(), start_us in 0..1u64 << 40, least_us in 1u32..300_000,
            queue_us in 0u32..1_000_000,
        ) {
            let mut way = OneWay::default();
            let mut excess_us = |at_us: u64, delay_us| {
                way.excess_us(at_us, there_us(at_us, apart_us, 0, delay_us), at_us as u32)
            };
            prop_assert_eq!(excess_us(start_us, least_us), 0);
            prop_assert_eq!(excess_us(start_us + 5_000, least_us + queue_us), queue_us);
            prop_assert_eq!(excess_us(start_us + 9_000, least_us), 0);
        }
    }

    #[test]
    fn a_clock_may_begin_while_there_is_a_queue() {
        let mut way = OneWay::new(5_000_000, there_us(5_000_000, 77, 0, 320_000), 5_000_000, 300_000);
        assert_eq!(way.excess_us(6_000_000, there_us(6_000_000, 77, 0, 70_000), 6_000_000), 50_000 - 100);
        assert_eq!(way.excess_us(6_000_000, there_us(6_000_000, 77, 0, 20_000), 6_000_000), 0);
    }

    #[test]
    fn clocks_that_drift_apart_are_no_queue() {
        for drift_ppm in [-100, 100] {
            let mut way = OneWay::default();
            for second in 0..3_600 {
                let now_us = second * 1_000_000;
                let excess_us = way.excess_us(now_us, there_us(now_us, 7, drift_ppm, 20_000), now_us as u32);
                assert!(excess_us < 250, "{drift_ppm} ppm, after {second} s: {excess_us} us");
            }
        }
    }

    #[test]
    fn another_clock_says_nothing_at_first() {
        let mut way = OneWay::default();
        way.excess_us(1_000_000, 900_000, 1_000_000);
        for there_us in [900_000u32.wrapping_sub(100_000_000), 3_000_000_000, 900_100] {
            assert_eq!(way.excess_us(1_000_100, there_us, 1_000_100), 0);
        }
    }
}
