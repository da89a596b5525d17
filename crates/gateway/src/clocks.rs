//! The clocks of servers, as the timestamps of their packets show them (RFC 7323, 3.2). They tell the
//! queues of the two directions of a line apart ([`OneWay`]).
//!
//! Most servers count milliseconds (RFC 7323, 5.4 allows 1 ms to 1 s a tick). Two seconds of a
//! connection show whether its server does. Each connection may have a clock of its own, which began
//! anywhere (RFC 7323, 5.4).
//!
//! [`OneWay`]: leeway_share::OneWay

use leeway_net::Ends;
use leeway_share::{ClockReading, FlowId};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Servers that are remembered; all are forgotten when there are more.
const MOST: usize = 4096;
/// Time of a connection after which its server's clock is judged, in microseconds. A queue that comes
/// or goes in 2 s makes a clock of milliseconds look up to half as fast or twice as fast.
const LEARNT_US: u64 = 2_000_000;

/// The connections whose packets are seen, with the clocks of their other ends.
#[derive(Debug, Default)]
pub struct Connections {
    clocks: Clocks,
    flows: HashMap<Ends, (FlowId, Option<Clock>)>,
}

impl Connections {
    /// Adds the connection of `flow`.
    pub fn insert(&mut self, ends: Ends, flow: FlowId) {
        self.flows.insert(ends, (flow, None));
    }

    /// Removes a connection.
    pub fn remove(&mut self, ends: &Ends) {
        self.flows.remove(ends);
    }

    /// The flow of a connection; `None` if the connection is not known.
    pub fn flow(&self, ends: &Ends) -> Option<FlowId> {
        self.flows.get(ends).map(|&(flow, _)| flow)
    }

    /// The clock of the other end when a packet with `ticks` left, which came at `at_us`. `None`
    /// where the packet or the connection does not tell it.
    pub fn clock(&mut self, ends: &Ends, at_us: u64, ticks: Option<u32>) -> Option<ClockReading> {
        let (_, clock) = self.flows.get_mut(ends)?;
        self.clocks.read(clock, at_us, ends.there.ip(), ticks?)
    }
}

/// The servers that count milliseconds.
#[derive(Debug, Default)]
struct Clocks(HashSet<IpAddr>);

/// The clock of one connection: when its first packet came, in microseconds, and its ticks.
#[derive(Debug, Clone, Copy)]
struct Clock {
    since_us: u64,
    since_ticks: u32,
}

impl Clocks {
    /// A packet of `server` came at `at_us`, and the clock of its connection showed `ticks`: the
    /// clock in microseconds. `None` where it does not count milliseconds; readings before that are
    /// void then.
    fn read(
        &mut self,
        clock: &mut Option<Clock>,
        at_us: u64,
        server: IpAddr,
        ticks: u32,
    ) -> Option<ClockReading> {
        let Clock { since_us, since_ticks } =
            *clock.get_or_insert(Clock { since_us: at_us, since_ticks: ticks });
        let passed_us = at_us.saturating_sub(since_us);
        let ticked_us = u64::from(ticks.wrapping_sub(since_ticks)) * 1000;
        if passed_us >= LEARNT_US {
            if 2 * ticked_us < passed_us || ticked_us > 2 * passed_us {
                self.0.remove(&server);
                *clock = None;
                return None;
            }
            if self.0.len() >= MOST && !self.0.contains(&server) {
                self.0.clear();
            }
            self.0.insert(server);
        }
        Some(ClockReading { us: ticks.wrapping_mul(1000), is_known: self.0.contains(&server) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(9, 9, 9, 9));

    /// Whether the clock is known at the start and after each of nine seconds. It counts `hertz`, began
    /// anywhere, and a packet is late once; nothing where it is found not to count milliseconds.
    fn known(clocks: &mut Clocks, hertz: u64, ticks: u32) -> Vec<Option<bool>> {
        let mut clock = None;
        (0..10)
            .map(|second| {
                let late_us = if second == 7 { 100_000 } else { 20_000 };
                let ticks = ticks.wrapping_add((second * hertz) as u32);
                let reading = clocks.read(&mut clock, second * 1_000_000 + late_us, SERVER, ticks);
                assert!(reading.is_none_or(|reading| reading.us == ticks.wrapping_mul(1000)));
                reading.map(|reading| reading.is_known)
            })
            .collect()
    }

    #[test]
    fn a_clock_of_milliseconds_is_known_after_two_seconds() {
        for ticks in [0, 5, u32::MAX - 4_000] {
            let mut clocks = Clocks::default();
            for before in [false, true] {
                let mut expected = vec![Some(true); 10];
                expected[..2].fill(Some(before));
                assert_eq!(known(&mut clocks, 1000, ticks), expected);
            }
        }
    }

    #[test]
    fn a_clock_of_anything_else_is_never_known() {
        for hertz in [0, 1, 100, 250, 10_000, 1_000_000] {
            let known = known(&mut Clocks::default(), hertz, 77);
            assert!(known.iter().all(|known| *known != Some(true)), "{hertz} ticks a second");
            assert!(known.contains(&None), "{hertz} ticks a second");
        }
    }

    #[test]
    fn no_more_servers_than_so_many_are_remembered() {
        let mut clocks = Clocks::default();
        for n in 0..3 * MOST as u32 {
            let mut clock = None;
            clocks.read(&mut clock, 0, IpAddr::V4(n.into()), 0);
            clocks.read(&mut clock, LEARNT_US, IpAddr::V4(n.into()), 2000);
        }
        assert!((1..=MOST).contains(&clocks.0.len()));
    }
}
