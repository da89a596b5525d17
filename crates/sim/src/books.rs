//! The books: what is counted while a run goes on. Everything only grows; a window of time is a difference.

use crate::flow::{Counts, Flow, Sacks};
use crate::histogram::Histogram;
use crate::network::Watch;
use crate::packet::{Kind, Packet};
use crate::recorder::Recorder;
use crate::swarm::PeerCounts;
use leeway_queue::{AnyQueue, Queue, Reason};
use leeway_units::{Duration, Time};

/// Counts of one link.
#[derive(Debug, Clone, Default)]
pub struct LinkCounts {
    /// Packets offered.
    pub offered: u64,
    /// Packets dropped at the queue or lost on the link.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Bytes that have left.
    pub departed_bytes: u64,
    /// Bytes that have gone over the link of the packet that is under way, in a snapshot.
    pub partial_bytes: f64,
    /// Times in the queue.
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

    /// The sum.
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

/// Counts of one group.
#[derive(Debug, Clone, Default)]
pub struct GroupCounts {
    /// Round-trip times that senders measured.
    pub rtt: Histogram,
    /// True one-way delays of data.
    pub owd: Histogram,
    /// Completion times.
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

    /// Counts all that `other` has counted.
    fn merge(&mut self, other: &GroupCounts) {
        self.rtt.merge(&other.rtt);
        self.owd.merge(&other.owd);
        self.completion.merge(&other.completion);
    }
}

/// A copy of all books at one instant.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Flows by index; later ones did not exist yet.
    pub flows: Vec<Counts>,
    /// Links by index.
    pub links: Vec<LinkCounts>,
    /// Groups by index.
    pub groups: Vec<GroupCounts>,
    /// Peers of a swarm by index.
    pub peers: Vec<PeerCounts>,
}

impl Snapshot {
    /// Counts all that `other` has counted of the same instant. Flows and peers that only `other` has are
    /// left out.
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

/// Everything that is counted outside the flows themselves.
#[derive(Debug, Default)]
pub struct Books {
    /// Data packets of each flow that were dropped on the way.
    pub dropped: Vec<u64>,
    /// All links.
    pub links: Vec<LinkCounts>,
    /// All groups.
    pub groups: Vec<GroupCounts>,
    /// Blocks of acknowledgements under way.
    pub sacks: Sacks,
    /// Records time series, where the scenario asks for them.
    pub recorder: Option<Recorder>,
    /// The first so many links are in the report; the others are flows' own access.
    pub reported_links: usize,
}

impl Books {
    /// A copy of all counts, with those of `flows`.
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
