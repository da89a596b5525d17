//! One delay for all paths: how much longer than its shortest a round trip to a server took.
//!
//! Servers are near and far, so round-trip times cannot be mixed; what they have in common is the queue of the line.
//! Each network (/24, /48) keeps a base of its own.

use leeway_tunnel::Base;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Networks that are remembered.
const NETWORKS: usize = 4096;
/// Where there are too many, those that are older go.
const OLD_US: u64 = 30 * 1_000_000;

/// What has a base of its own: a network of servers, and packets of one size. A small packet takes less time on a slow line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    network: IpAddr,
    echo: bool,
}

impl Route {
    /// Full segments to or from `server`.
    pub fn of(server: IpAddr) -> Route {
        Route { network: network(server), echo: false }
    }

    /// Small packets that `server` echoes.
    pub fn echo(server: IpAddr) -> Route {
        Route { network: network(server), echo: true }
    }
}

/// The bases, by network.
#[derive(Debug, Default)]
pub struct Bases {
    networks: BTreeMap<Route, Base>,
}

impl Bases {
    /// The queuing delay that a round-trip time by that route shows, in microseconds.
    pub fn queuing_us(&mut self, now_us: u64, route: Route, rtt_us: u32) -> u32 {
        if self.networks.len() >= NETWORKS && !self.networks.contains_key(&route) {
            self.networks.retain(|_, base| now_us.saturating_sub(base.since_us()) < OLD_US);
            if self.networks.len() >= NETWORKS {
                return 0;
            }
        }
        self.networks.entry(route).or_insert(Base::new(now_us, rtt_us)).queuing_us(now_us, rtt_us)
    }

    /// The same for a round-trip time that may have been longer: the base learns nothing from it. 0 where there is none.
    pub fn least_queuing_us(&self, route: Route, rtt_us: u32) -> u32 {
        self.networks.get(&route).map_or(0, |base| base.least_queuing_us(rtt_us))
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) & !0xff).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !(u128::MAX >> 48)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_servers_show_the_same_queue() {
        let mut bases = Bases::default();
        let [near, far, beside] =
            ["9.9.9.9", "1.1.1.1", "9.9.9.200"].map(|text| Route::of(text.parse().unwrap()));
        assert_eq!(bases.queuing_us(0, near, 20_000), 0);
        assert_eq!(bases.queuing_us(0, far, 180_000), 0);
        assert_eq!(bases.queuing_us(1, near, 35_000), 15_000);
        assert_eq!(bases.queuing_us(1, far, 195_000), 15_000);
        assert_eq!(bases.queuing_us(1, beside, 30_000), 10_000);
        let echo = Route::echo("9.9.9.9".parse().unwrap());
        assert_eq!(bases.queuing_us(1, echo, 14_000), 0, "a small packet");
        assert_eq!(bases.queuing_us(1, near, 35_000), 15_000);
    }

    #[test]
    fn a_round_trip_that_may_have_been_longer_teaches_nothing() {
        let mut bases = Bases::default();
        let server = Route::of("9.9.9.9".parse().unwrap());
        assert_eq!(bases.least_queuing_us(server, 3_000), 0);
        bases.queuing_us(0, server, 20_000);
        assert_eq!(bases.least_queuing_us(server, 26_000), 6_000);
        assert_eq!(bases.least_queuing_us(server, 3_000), 0);
        assert_eq!(bases.queuing_us(1, server, 26_000), 6_000);
    }

    #[test]
    fn the_memory_of_networks_is_bounded() {
        let mut bases = Bases::default();
        for n in 0..3 * NETWORKS as u32 {
            bases.queuing_us(0, Route::of(IpAddr::V4((n << 8).into())), 1000);
        }
        assert_eq!(bases.networks.len(), NETWORKS);
    }
}
