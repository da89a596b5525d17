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

use std::collections::HashMap;

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
/// Two connections have one clock if their least delays differ by at most 500 ms, in microseconds.
/// Clocks that began at random times differ by so little once in 4,300 pairs.
const SAME_US: u32 = 500_000;
/// Paths whose clocks are remembered; all are forgotten when there are more.
const PATHS: usize = 4096;

/// The queuing delay of one direction, as the clocks of several other hosts show it.
///
/// The least delay of a connection is learnt in its life. A short connection that begins in a
/// queue does not see it. Many hosts have one clock for all connections with one address (Linux
/// does), so the least delay of the path's connections counts for all of them.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    /// The last connection's clock of each path.
    clocks: HashMap<u64, OneWay>,
    /// Time of the last packet whose sender's clock is known, and the queuing delay that it
    /// showed. Both in microseconds.
    last: Option<(u64, u32)>,
}

impl Excess {
    /// Takes a packet into account that arrived by `path` at `at_us`. `clock` is the clock of its
    /// sender when it left, and `way` the delay by that clock. Returns the queuing delay in
    /// microseconds. `None` where the clock does not show it.
    pub fn read(
        &mut self,
        path: u64,
        way: &mut Option<OneWay>,
        at_us: u64,
        clock: Option<ClockReading>,
    ) -> Option<u32> {
        let Some(left) = clock else {
            *way = None;
            return None;
        };
        let known_us = self.since(at_us.saturating_sub(RECENT_US));
        let came_us = at_us as u32;
        let shared = self.clocks.get(&path).copied();
        let joined = |way: OneWay| shared.and_then(|shared| shared.of_the_same_clock(way, at_us));
        let begun = |excess_us| OneWay::new(at_us, left.us, came_us, excess_us);
        let way = way.get_or_insert_with(|| joined(begun(0)).unwrap_or(begun(known_us)));
        *way = joined(*way).unwrap_or(*way);
        let excess_us = way.excess_us(at_us, left.us, came_us);
        if shared.is_none() && self.clocks.len() >= PATHS {
            self.clocks.clear();
        }
        self.clocks.insert(path, *way);
        let excess_us = Some(excess_us).filter(|_| left.is_known)?;
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

    /// The least delay as it is known at `now_us`, in microseconds modulo 2^32.
    fn least_us(self, now_us: u64) -> Option<u32> {
        let (least_us, at_us) = self.least?;
        let drift_us = u32::try_from(now_us.saturating_sub(at_us) / DRIFT).unwrap_or(u32::MAX);
        Some(least_us.wrapping_add(drift_us))
    }

    /// The one with the lesser delay, if both are of one clock.
    fn of_the_same_clock(self, other: OneWay, now_us: u64) -> Option<OneWay> {
        let longer_us = self.least_us(now_us)?.wrapping_sub(other.least_us(now_us)?);
        if longer_us <= SAME_US {
            return Some(other);
        }
        (longer_us.wrapping_neg() <= SAME_US).then_some(self)
    }

    /// Returns by how many microseconds the delay of a packet exceeds the least one. The packet
    /// left at `left_us` and arrived at `came_us`, both modulo 2^32 microseconds.
    pub fn excess_us(&mut self, now_us: u64, left_us: u32, came_us: u32) -> u32 {
        let delay_us = came_us.wrapping_sub(left_us);
        let excess_us = self.least_us(now_us).map(|least_us| delay_us.wrapping_sub(least_us));
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

    /// What the clock shows, in whole milliseconds as most do, when a packet arrives at `at_us`.
    fn clock(at_us: u64, apart_us: u32, delay_us: u32) -> Option<ClockReading> {
        let us = there_us(at_us, apart_us, 0, delay_us) / 1000 * 1000;
        Some(ClockReading { us, is_known: true })
    }

    #[test]
    fn short_connections_of_one_host_do_not_forget_what_is_a_queue() {
        // A queue of 3 ms stays, and each connection has two packets in it.
        let mut excess = Excess::default();
        let least = excess.read(7, &mut None, 1_000_000, clock(1_000_000, 5_000, 20_000));
        assert_eq!(least, Some(0));
        let mut at_us = 1_000_000;
        for _ in 0..400 {
            let mut way = None;
            for gap_us in [13_130, 6_870 + at_us / 1_000_000 % 10 * 77] {
                at_us += gap_us;
                let queue_us = excess.read(7, &mut way, at_us, clock(at_us, 5_000, 23_000)).unwrap();
                assert!((1_000..=4_000).contains(&queue_us), "{queue_us} us at {at_us} us");
            }
        }
    }

    #[test]
    fn hosts_of_one_network_have_clocks_of_their_own() {
        let mut excess = Excess::default();
        let mut ways = [None, None];
        for second in 1..100 {
            for (host, way) in ways.iter_mut().enumerate() {
                let at_us = second * 1_000_000 + host as u64 * 20_000;
                let queue_us = if second % 2 == 0 { 8_000 } else { 0 };
                let apart_us = host as u32 * 900_000_000;
                let seen_us = excess.read(7, way, at_us, clock(at_us, apart_us, 20_000 + queue_us));
                assert!(seen_us.unwrap().abs_diff(queue_us) <= 1_000, "{seen_us:?} of {queue_us} us");
            }
        }
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
