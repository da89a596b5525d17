//! Counters of links, groups, flows and peers. They only grow: metrics of a window are the
//! difference of two snapshots.

use crate::flow::{Counts, Flow, Sacks};
use crate::histogram::Histogram;
use crate::network::Watch;
use crate::packet::{Kind, Packet};
use crate::recorder::Recorder;
use crate::swarm::PeerCounts;
use leeway_queue::{AnyQueue, Queue, Reason};
use leeway_units::{Duration, Time};

/// Counters of one link.
#[derive(Debug, Clone, Default)]
pub struct LinkCounts {
    /// Packets offered.
    pub offered: u64,
    /// Packets dropped at the queue or lost on the link.
    pub dropped: u64,
    /// Packets marked CE (RFC 3168).
    pub marked: u64,
    /// Bytes that have left.
    pub departed_bytes: u64,
    /// Bytes of the packet in service that have left; set in snapshots only.
    pub partial_bytes: f64,
    /// Time that each departed packet spent in the queue.
    pub wait: Histogram,
}

impl LinkCounts {
    /// What was counted since `before`.
    pub fn since(&self, before: &LinkCounts) -> LinkCounts {
        LinkCounts {
            offered: self.offered - before.offered,
            dropped: self.dropped - before.dropped,
            marked: self.marked - before.marked,
            departed_bytes: self.departed_bytes - before.departed_bytes,
            partial_bytes: self.partial_bytes - before.partial_bytes,
            wait: self.wait.since(&before.wait),
        }
    }

    /// Adds the counters of `other`.
    pub fn plus(mut self, other: &LinkCounts) -> LinkCounts {
        self.offered += other.offered;
        self.dropped += other.dropped;
        self.marked += other.marked;
        self.departed_bytes += other.departed_bytes;
        self.partial_bytes += other.partial_bytes;
        self.wait.merge(&other.wait);
        self
    }
}

/// Counters of one flow group.
#[derive(Debug, Clone, Default)]
pub struct GroupCounts {
    /// Round-trip times that senders measured.
    pub rtt: Histogram,
    /// One-way delays of data packets by the simulator's clock.
    pub owd: Histogram,
    /// Completion times of transfers, requests or downloads.
    pub completion: Histogram,
}

impl GroupCounts {
    /// What was counted since `before`.
    pub fn since(&self, before: &GroupCounts) -> GroupCounts {
        GroupCounts {
            rtt: self.rtt.since(&before.rtt),
            owd: self.owd.since(&before.owd),
            completion: self.completion.since(&before.completion),
        }
    }

    /// Adds the counters of `other`.
    fn merge(&mut self, other: &GroupCounts) {
        self.rtt.merge(&other.rtt);
        self.owd.merge(&other.owd);
        self.completion.merge(&other.completion);
    }
}

/// A copy of all counters at one instant.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Flows by index. A flow that began later is absent.
    pub flows: Vec<Counts>,
    /// Links by index.
    pub links: Vec<LinkCounts>,
    /// Groups by index.
    pub groups: Vec<GroupCounts>,
    /// Peers of a swarm by index.
    pub peers: Vec<PeerCounts>,
}

impl Snapshot {
    /// Adds the counters of `other`, taken at the same instant by another thread. Flows and peers
    /// that only `other` has are left out.
    pub fn merge(&mut self, other: &Snapshot) {
        for (own, more) in self.flows.iter_mut().zip(&other.flows) {
            *own = own.plus(more);
        }
        for (own, more) in self.links.iter_mut().zip(&other.links) {
            *own = std::mem::take(own).plus(more);
        }
        for (own, more) in self.groups.iter_mut().zip(&other.groups) {
            own.merge(more);
        }
    }
}

/// All counters outside the flows themselves.
#[derive(Debug, Default)]
pub struct Books {
    /// Data packets of each flow that were dropped on the way.
    pub dropped: Vec<u64>,
    /// All links.
    pub links: Vec<LinkCounts>,
    /// All groups.
    pub groups: Vec<GroupCounts>,
    /// SACK blocks of the acknowledgements in flight.
    pub sacks: Sacks,
    /// Records the time series, if the scenario asks for one.
    pub recorder: Option<Recorder>,
    /// Links below this index are in the report. The others are access links of single flows.
    pub reported_links: usize,
}

impl Books {
    /// A copy of all counters, those of `flows` included.
    pub fn snapshot(&self, flows: &[Flow]) -> Snapshot {
        let dropped = self.dropped.iter().copied().chain(std::iter::repeat(0));
        Snapshot {
            flows: flows
                .iter()
                .zip(dropped)
                .map(|(flow, dropped)| Counts { dropped, ..flow.counts })
                .collect(),
            links: self.links[..self.reported_links].to_vec(),
            groups: self.groups.clone(),
            peers: Vec::new(),
        }
    }
}

impl Watch for Books {
    #[inline]
    fn offered(&mut self, link: u32) {
        self.links[link as usize].offered += 1;
    }

    fn dropped(&mut self, _: Time, link: Option<u32>, packet: Packet, _: Reason) {
        if let Some(link) = link {
            self.links[link as usize].dropped += 1;
        }
        match packet.kind() {
            Kind::Data | Kind::Voice => {
                let flow = packet.flow() as usize;
                if self.dropped.len() <= flow {
                    self.dropped.resize(flow + 1, 0);
                }
                self.dropped[flow] += 1;
            }
            Kind::Ack => {
                self.sacks.take(&packet);
            }
            Kind::Request | Kind::Syn | Kind::SynAck | Kind::Window | Kind::Report | Kind::Receipt => {}
        }
    }

    fn marked(&mut self, link: u32) {
        self.links[link as usize].marked += 1;
    }

    #[inline]
    fn departed(&mut self, link: u32, packet: &Packet, wait: Duration) {
        let counts = &mut self.links[link as usize];
        counts.departed_bytes += packet.size();
        counts.wait.add(wait);
    }

    #[inline]
    fn queued(&mut self, now: Time, link: u32, queue: &AnyQueue<Packet>) {
        if self.recorder.is_some()
            && (link as usize) < self.reported_links
            && let Some(recorder) = self.recorder.as_mut().filter(|recorder| recorder.every.is_none())
        {
            recorder.link(now, link, queue.packets(), queue.bytes(), &self.links[link as usize]);
        }
    }
}
