//! The clocks of servers, as their acknowledgements show them: by them the queue of the home's downlink is told from a queue of
//! the uplink ([`WayBack`]).
//!
//! Most servers count milliseconds (RFC 7323, 5.4 allows 1 ms to 1 s a tick). Whether a server does shows after two seconds.

use leeway_share::WayBack;
use std::collections::HashMap;
use std::net::IpAddr;

/// Servers whose clocks are kept; all are forgotten when there are more.
const MOST: usize = 4096;
/// A queue that came or went in between makes a clock of milliseconds look up to half as fast or slow after this time.
const LEARNT_US: u64 = 2_000_000;

/// The clock of each server.
#[derive(Debug, Default)]
pub struct Clocks(HashMap<IpAddr, Clock>);

#[derive(Debug)]
struct Clock {
    since_us: u64,
    since_ticks: u32,
    way_back: WayBack,
}

impl Clocks {
    /// What `server` sent when its clock showed `ticks` came at `at_us`: by how many microseconds the way back was longer than at
    /// its least; nothing where that is not known.
    pub fn excess_us(&mut self, at_us: u64, server: IpAddr, ticks: u32) -> Option<u32> {
        if self.0.len() >= MOST && !self.0.contains_key(&server) {
            self.0.clear();
        }
        let begun = || Clock { since_us: at_us, since_ticks: ticks, way_back: WayBack::default() };
        let clock = self.0.entry(server).or_insert_with(begun);
        let passed_us = at_us.saturating_sub(clock.since_us);
        let ticked_us = u64::from(ticks.wrapping_sub(clock.since_ticks)) * 1000;
        let learnt = passed_us >= LEARNT_US;
        if learnt && (2 * ticked_us < passed_us || ticked_us > 2 * passed_us) {
            *clock = begun();
        }
        let excess_us = clock.way_back.excess_us(at_us, ticks.wrapping_mul(1000));
        (learnt && clock.since_us < at_us).then_some(excess_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(9, 9, 9, 9));

    /// After each of ten seconds, by a clock that counts `hertz` and began anywhere, over a way of 20 ms that once is longer.
    fn seen(clocks: &mut Clocks, hertz: u64, ticks: u32) -> Vec<Option<u32>> {
        (0..10)
            .map(|second| {
                let back_us = if second == 7 { 100_000 } else { 20_000 };
                let at_us = second * 1_000_000 + back_us;
                clocks.excess_us(at_us, SERVER, ticks.wrapping_add((second * hertz) as u32))
            })
            .collect()
    }

    #[test]
    fn a_clock_of_milliseconds_tells_the_queue_of_the_way_back() {
        for ticks in [0, 5, u32::MAX - 4_000] {
            let mut expected = vec![None, None];
            expected.extend([Some(0); 8]);
            expected[7] = Some(80_000);
            let seen = seen(&mut Clocks::default(), 1000, ticks);
            let close = |(a, b): (&Option<u32>, &Option<u32>)| {
                a.zip(*b).map_or(a == b, |(a, b)| a.abs_diff(b) < 1_000)
            };
            assert!(seen.iter().zip(&expected).all(close), "{seen:?}");
        }
    }

    #[test]
    fn a_clock_of_anything_else_tells_nothing() {
        for hertz in [0, 1, 100, 250, 10_000, 1_000_000] {
            assert_eq!(seen(&mut Clocks::default(), hertz, 77), [None; 10], "{hertz} ticks a second");
        }
    }

    #[test]
    fn another_clock_behind_the_same_address_is_learnt_anew() {
        let mut clocks = Clocks::default();
        for second in 0..20u32 {
            let apart = if second % 2 == 0 { 0 } else { 1 << 30 };
            let told = clocks.excess_us(u64::from(second) * 1_000_000, SERVER, second * 1000 + apart);
            assert!(told.is_none_or(|excess_us| excess_us == 0), "{told:?} after {second} s");
        }
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let mut clocks = Clocks::default();
        for n in 0..3 * MOST as u32 {
            clocks.excess_us(1, IpAddr::V4(n.into()), n);
        }
        assert!(clocks.0.len() <= MOST);
    }
}
