//! One delay for all paths: how much longer than its shortest a round trip to a server took.
//!
//! Servers are near and far, so round-trip times cannot be mixed; what they have in common is the queue of the line.
//! Each network (/24, /48) keeps the base of its own, the smallest of the last ten minutes as in RFC 6817, 4.2.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Half of the time that a base is kept.
const AGE_US: u64 = 5 * 60 * 1_000_000;
/// Networks that are remembered.
const NETWORKS: usize = 4096;

/// The bases, by network.
#[derive(Debug, Default)]
pub struct Bases {
    networks: BTreeMap<IpAddr, Base>,
}

#[derive(Debug)]
struct Base {
    now_us: u32,
    before_us: u32,
    since_us: u64,
}

impl Bases {
    /// The queuing delay that a round-trip time to `server` shows, in microseconds.
    pub fn queuing_us(&mut self, now_us: u64, server: IpAddr, rtt_us: u32) -> u32 {
        let network = network(server);
        if self.networks.len() >= NETWORKS && !self.networks.contains_key(&network) {
            self.networks.retain(|_, base| now_us.saturating_sub(base.since_us) < AGE_US / 10);
            if self.networks.len() >= NETWORKS {
                return 0;
            }
        }
        let base = self.networks.entry(network).or_insert(Base {
            now_us: rtt_us,
            before_us: u32::MAX,
            since_us: now_us,
        });
        if now_us.saturating_sub(base.since_us) >= AGE_US {
            *base = Base { before_us: base.now_us, now_us: rtt_us, since_us: now_us };
        }
        base.now_us = base.now_us.min(rtt_us);
        rtt_us.saturating_sub(base.least_us())
    }

    /// The same for a round-trip time that may have been longer: the base learns nothing from it. 0 where there is none.
    pub fn least_queuing_us(&self, server: IpAddr, rtt_us: u32) -> u32 {
        self.networks.get(&network(server)).map_or(0, |base| rtt_us.saturating_sub(base.least_us()))
    }
}

impl Base {
    fn least_us(&self) -> u32 {
        self.now_us.min(self.before_us)
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
        let [near, far, beside] = ["9.9.9.9", "1.1.1.1", "9.9.9.200"].map(|text| text.parse().unwrap());
        assert_eq!(bases.queuing_us(0, near, 20_000), 0);
        assert_eq!(bases.queuing_us(0, far, 180_000), 0);
        assert_eq!(bases.queuing_us(1, near, 35_000), 15_000);
        assert_eq!(bases.queuing_us(1, far, 195_000), 15_000);
        assert_eq!(bases.queuing_us(1, beside, 30_000), 10_000);
    }

    #[test]
    fn a_round_trip_that_may_have_been_longer_teaches_nothing() {
        let mut bases = Bases::default();
        let server = "9.9.9.9".parse().unwrap();
        assert_eq!(bases.least_queuing_us(server, 3_000), 0);
        bases.queuing_us(0, server, 20_000);
        assert_eq!(bases.least_queuing_us(server, 26_000), 6_000);
        assert_eq!(bases.least_queuing_us(server, 3_000), 0);
        assert_eq!(bases.queuing_us(1, server, 26_000), 6_000);
    }

    #[test]
    fn a_route_that_became_longer_is_believed_after_ten_minutes() {
        let mut bases = Bases::default();
        let server = "9.9.9.9".parse().unwrap();
        bases.queuing_us(0, server, 20_000);
        assert_eq!(bases.queuing_us(AGE_US, server, 50_000), 30_000);
        assert_eq!(bases.queuing_us(2 * AGE_US, server, 50_000), 0);
    }

    #[test]
    fn the_memory_of_networks_is_bounded() {
        let mut bases = Bases::default();
        for n in 0..3 * NETWORKS as u32 {
            bases.queuing_us(0, IpAddr::V4((n << 8).into()), 1000);
        }
        assert_eq!(bases.networks.len(), NETWORKS);
    }
}
