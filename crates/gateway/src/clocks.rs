//! The clocks of connections, as acknowledgements show them. They tell the queue of the home's downlink
//! from a queue of the uplink ([`WayBack`]).
//!
//! Most servers count milliseconds (RFC 7323, 5.4 allows 1 ms to 1 s a tick). Two seconds of a connection
//! show whether its server does. Each connection may have a clock of its own, which began anywhere
//! (RFC 7323, 5.4).

use leeway_share::WayBack;
use std::collections::HashSet;
use std::net::IpAddr;

/// Servers that are remembered; all are forgotten when there are more.
const MOST: usize = 4096;
/// A queue that came or went in between makes a clock of milliseconds look up to half as fast or slow after
/// this time.
const LEARNT_US: u64 = 2_000_000;

/// The servers that count milliseconds.
#[derive(Debug, Default)]
pub struct Clocks(HashSet<IpAddr>);

/// The clock of one connection.
#[derive(Debug)]
pub struct Clock {
    since_us: u64,
    since_ticks: u32,
    way_back: WayBack,
}

impl Clock {
    /// It showed `ticks` when that was sent which came at `at_us`, over a way back that was longer by
    /// `excess_us` than at its least.
    pub fn new(at_us: u64, ticks: u32, excess_us: u32) -> Clock {
        let way_back = WayBack::new(at_us, micros(ticks), excess_us);
        Clock { since_us: at_us, since_ticks: ticks, way_back }
    }
}

impl Clocks {
    /// What `server` sent when the clock of a connection showed `ticks` came at `at_us`: by how many
    /// microseconds the way back was longer than at its least; nothing where that is not known.
    pub fn excess_us(&mut self, clock: &mut Clock, at_us: u64, server: IpAddr, ticks: u32) -> Option<u32> {
        let passed_us = at_us.saturating_sub(clock.since_us);
        let ticked_us = u64::from(ticks.wrapping_sub(clock.since_ticks)) * 1000;
        if passed_us >= LEARNT_US {
            if 2 * ticked_us < passed_us || ticked_us > 2 * passed_us {
                self.0.remove(&server);
                *clock = Clock::new(at_us, ticks, 0);
                return None;
            }
            if self.0.len() >= MOST && !self.0.contains(&server) {
                self.0.clear();
            }
            self.0.insert(server);
        }
        let excess_us = clock.way_back.excess_us(at_us, micros(ticks));
        self.0.contains(&server).then_some(excess_us)
    }
}

/// Modulo 2^32, as ticks are.
fn micros(ticks: u32) -> u32 {
    ticks.wrapping_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(9, 9, 9, 9));

    /// At the start and after each of nine seconds, by a clock that counts `hertz` and began anywhere, over a
    /// way of 20 ms that is longer once.
    fn seen(clocks: &mut Clocks, hertz: u64, ticks: u32) -> Vec<Option<u32>> {
        let mut clock = Clock::new(20_000, ticks, 0);
        (0..10)
            .map(|second| {
                let back_us = if second == 7 { 100_000 } else { 20_000 };
                let ticks = ticks.wrapping_add((second * hertz) as u32);
                clocks.excess_us(&mut clock, second * 1_000_000 + back_us, SERVER, ticks)
            })
            .collect()
    }

    #[test]
    fn a_clock_of_milliseconds_tells_the_queue_of_the_way_back() {
        for ticks in [0, 5, u32::MAX - 4_000] {
            let mut clocks = Clocks::default();
            for known in [false, true] {
                let mut expected = vec![Some(0); 10];
                expected[7] = Some(80_000);
                expected[..2].fill(Some(0).filter(|_| known));
                let seen = seen(&mut clocks, 1000, ticks);
                let close = |(a, b): (&Option<u32>, &Option<u32>)| {
                    a.zip(*b).map_or(a == b, |(a, b)| a.abs_diff(b) < 1_000)
                };
                assert!(seen.iter().zip(&expected).all(close), "{seen:?}");
            }
        }
    }

    #[test]
    fn a_clock_of_anything_else_tells_nothing() {
        for hertz in [0, 1, 100, 250, 10_000, 1_000_000] {
            assert_eq!(seen(&mut Clocks::default(), hertz, 77), [None; 10], "{hertz} ticks a second");
        }
    }

    #[test]
    fn no_more_servers_than_so_many_are_remembered() {
        let mut clocks = Clocks::default();
        for n in 0..3 * MOST as u32 {
            let mut clock = Clock::new(0, 0, 0);
            clocks.excess_us(&mut clock, LEARNT_US, IpAddr::V4(n.into()), 2000);
        }
        assert!((1..=MOST).contains(&clocks.0.len()));
    }
}
