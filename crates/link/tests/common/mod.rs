//! A packet, arrivals, and functions that play a link, for tests of links.

#![allow(dead_code)]

use leeway_link::{Departure, Transmitter};
use leeway_queue::{AnyQueue, BuildContext, Ecn, Log, Packet, QueueSpec};
use leeway_units::{Rate, Size, Time};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pkt {
    pub id: u64,
    pub bytes: u32,
    pub flow: u32,
    pub class: u8,
    pub ecn: Ecn,
}

impl Packet for Pkt {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn class(&self) -> u8 {
        self.class
    }
}

/// A packet of `bytes` of flow 0.
pub fn pkt(id: u64, bytes: u32) -> Pkt {
    Pkt { id, bytes, flow: 0, class: 0, ecn: Ecn::NotEct }
}

pub fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

pub fn us(us: u64) -> Time {
    Time::from_micros(us)
}

pub fn mbit(mbit: u64) -> Rate {
    Rate::from_bits_per_sec(mbit * 1_000_000)
}

pub fn queue(spec: &str, packets: u32) -> AnyQueue<Pkt> {
    let mut context = BuildContext::new(Size::Packets(packets), mbit(8));
    context.mean_packet = 1000;
    spec.parse::<QueueSpec>().unwrap().build(&context)
}

/// All departures, with each event polled at its own time.
pub fn drain(link: &mut Transmitter<Pkt>, log: &mut Log<Pkt>) -> Vec<Departure<Pkt>> {
    let mut departures = Vec::new();
    while let Some(time) = link.next() {
        departures.extend(link.poll(time, log));
    }
    departures
}

/// Departures of packets offered at given times: number and time in microseconds.
pub fn played(link: &mut Transmitter<Pkt>, arrivals: &[(Time, Pkt)]) -> Vec<(u64, u64)> {
    let mut log = Log::default();
    let mut departures = Vec::new();
    for (now, packet) in arrivals {
        link.offer(*now, packet.clone(), &mut log);
    }
    departures.extend(drain(link, &mut log));
    departures.iter().map(|departure| (departure.packet.id, departure.at.micros())).collect()
}
