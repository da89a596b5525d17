//! Counts the home's bytes, if the home's packets pass this machine.
//!
//! The kernel counts bytes of interfaces, not of households. Two bounds hold for the home: it moves
//! at most what its own interfaces carry, and at most what the line carries beyond the neighbours'
//! bytes. The smaller bound counts. So neither transfers inside the home nor transfers of
//! neighbours count as the home's, except for the neighbours' packet headers.

use crate::observe::counters;
use crate::setup;
use ipnet::IpNet;
use leeway_net::{Interface, Uplink, interfaces, uplinks};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time between two readings of the counters. Within it, bytes may be counted at one interface and
/// not yet at the other.
const PERIOD: Duration = Duration::from_secs(2);
/// Time between two looks at the interfaces, which may come and go.
const LOOK: Duration = Duration::from_secs(60);

/// Counts the home's bytes at the interfaces of this machine.
#[derive(Debug)]
pub struct HomeCounter {
    home: Vec<IpNet>,
    sides: Sides,
    looked: Instant,
    read: Instant,
    /// Bytes of the line and of the home's interfaces at the last reading.
    before: Option<[[u64; 2]; 2]>,
    /// Bytes of neighbours since the last reading.
    neighbours: [u64; 2],
}

/// Names of the interfaces on both sides of this machine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sides {
    line: Vec<String>,
    home: Vec<String>,
}

impl Sides {
    /// The interfaces; none if packets between the home and the Internet do not pass this machine.
    fn of(interfaces: &[Interface], uplinks: &[Uplink], home: &[IpNet], forwards: bool) -> Sides {
        if !setup::passes(interfaces, uplinks, home, forwards) {
            return Sides::default();
        }
        let line: BTreeSet<&String> = uplinks.iter().map(|uplink| &uplink.interface).collect();
        let at_home = setup::at(interfaces, home).map(|interface| &interface.name);
        Sides { home: at_home.cloned().collect(), line: line.into_iter().cloned().collect() }
    }

    fn here(home: &[IpNet]) -> Sides {
        let Ok((interfaces, uplinks)) = interfaces().and_then(|all| Ok((all, uplinks()?))) else {
            return Sides::default();
        };
        Sides::of(&interfaces, &uplinks, home, setup::forwards())
    }
}

impl HomeCounter {
    /// Counts the bytes of the networks `home`.
    pub fn new(home: &[IpNet]) -> HomeCounter {
        let (sides, now) = (Sides::here(home), Instant::now());
        HomeCounter { home: home.to_owned(), sides, looked: now, read: now, before: None, neighbours: [0; 2] }
    }

    /// Whether the home's packets pass this machine.
    pub fn can_count(&self) -> bool {
        !self.sides.home.is_empty()
    }

    /// Records bytes of neighbours, down and up.
    pub fn neighbours(&mut self, bytes: [u64; 2]) {
        self.neighbours = add(self.neighbours, bytes);
    }

    /// The home's bytes since the last call, down and up; zeros until the next reading is due.
    pub fn look(&mut self) -> [u64; 2] {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let sides = Sides::here(&self.home);
            if sides != self.sides {
                (self.sides, self.before) = (sides, None);
            }
        }
        if !self.can_count() || (self.before.is_some() && self.read.elapsed() < PERIOD) {
            return [0; 2];
        }
        self.read = Instant::now();
        self.reading(&std::fs::read_to_string("/proc/net/dev").unwrap_or_default())
    }

    /// The home's bytes since the last reading, from the text of `/proc/net/dev`.
    fn reading(&mut self, text: &str) -> [u64; 2] {
        let neighbours = std::mem::take(&mut self.neighbours);
        let line = counters(text, &self.sides.line);
        // What the home receives is sent at its interfaces.
        let home = counters(text, &self.sides.home).map(|[received, sent]| [sent, received]);
        let now = line.zip(home).map(|(line, home)| [line, home]);
        let before = std::mem::replace(&mut self.before, now);
        let Some((before, now)) = before.zip(now) else { return [0; 2] };
        // A counter that restarted adds nothing.
        let moved = |side: usize, way: usize| now[side][way].saturating_sub(before[side][way]);
        [0, 1].map(|way| moved(0, way).saturating_sub(neighbours[way]).min(moved(1, way)))
    }
}

fn add(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_net::Family;

    fn router() -> Vec<Interface> {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.into(),
            up: true,
            loopback: false,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        };
        vec![
            interface("ppp0", &["9.8.7.6/32"]),
            interface("br-lan", &["192.168.1.1/24"]),
            interface("eth0.20", &["192.168.2.1/24"]),
            interface("mesh0", &["10.20.0.1/16"]),
        ]
    }

    fn counter() -> HomeCounter {
        let home: Vec<IpNet> = ["192.168.1.0/24", "192.168.2.0/24"].map(|net| net.parse().unwrap()).into();
        let uplinks = [Uplink { family: Family::V4, interface: "ppp0".into() }];
        let sides = Sides::of(&router(), &uplinks, &home, true);
        HomeCounter { sides, ..HomeCounter::new(&home) }
    }

    /// `/proc/net/dev` with bytes received and sent.
    fn dev(rows: [(&str, u64, u64); 4]) -> String {
        rows.map(|(name, received, sent)| format!("{name}: {received} 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n"))
            .concat()
    }

    #[test]
    fn a_router_knows_both_sides_and_a_box_beside_it_counts_nothing() {
        let counter = counter();
        assert_eq!(counter.sides.line, ["ppp0"]);
        assert_eq!(counter.sides.home, ["br-lan", "eth0.20"]);
        let uplinks = [Uplink { family: Family::V4, interface: "br-lan".into() }];
        assert_eq!(Sides::of(&router(), &uplinks, &counter.home, true), Sides::default());
    }

    #[test]
    fn the_home_has_what_both_sides_carry_less_the_neighbours() {
        let mut counter = counter();
        let first = dev([("ppp0", 1000, 2000), ("br-lan", 10, 20), ("eth0.20", 1, 2), ("mesh0", 7, 7)]);
        assert_eq!(counter.reading(&first), [0; 2], "nothing to compare with");
        // The home downloads 500 at two interfaces and sends 60; neighbours download 400.
        counter.neighbours([300, 0]);
        counter.neighbours([100, 0]);
        let second =
            dev([("ppp0", 1940, 2060), ("br-lan", 50, 420), ("eth0.20", 21, 102), ("mesh0", 9, 407)]);
        assert_eq!(counter.reading(&second), [500, 60]);
        // A copy from one of the home's networks to the other is not on the line.
        let third =
            dev([("ppp0", 1945, 2063), ("br-lan", 1050, 421), ("eth0.20", 22, 1102), ("mesh0", 9, 407)]);
        assert_eq!(counter.reading(&third), [5, 3]);
        // The line was dialled again, so its counters restarted.
        let fourth = dev([("ppp0", 5, 5), ("br-lan", 1060, 431), ("eth0.20", 22, 1102), ("mesh0", 9, 407)]);
        assert_eq!(counter.reading(&fourth), [0, 0]);
        let fifth = dev([("ppp0", 45, 25), ("br-lan", 1080, 471), ("eth0.20", 22, 1102), ("mesh0", 9, 407)]);
        assert_eq!(counter.reading(&fifth), [40, 20]);
    }
}
