//! State of one peer, and what it knows of its neighbours.

use super::Half;
use super::choking::Choker;
use super::pieces::{Bitfield, Block, Picker, Shape};
use leeway_units::{Duration, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::VecDeque;

/// The path between a peer and the node where all peers meet.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// From the peer.
    pub out: Half,
    /// To the peer.
    pub back: Half,
    /// Delay of the peer's own access link, in each direction.
    pub delay: Duration,
}

/// Whether a peer takes part in the swarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The peer has not arrived yet.
    Away,
    /// The peer takes part.
    Here,
    /// The peer has left.
    Gone,
}

/// Counters of a peer. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Bytes of blocks that it has sent, or begun to send.
    pub uploaded: u64,
    /// Bytes of blocks that it has received.
    pub downloaded: u64,
    /// Bytes among `downloaded` that it had already.
    pub wasted: u64,
    /// Time in which it was interested in a neighbour, summed over neighbours.
    pub wanting: Duration,
    /// The part of `wanting` in which the neighbour served it.
    pub served: Duration,
}

impl PeerCounts {
    /// What was counted since `before`.
    pub fn since(&self, before: &PeerCounts) -> PeerCounts {
        PeerCounts {
            uploaded: self.uploaded - before.uploaded,
            downloaded: self.downloaded - before.downloaded,
            wasted: self.wasted - before.wasted,
            wanting: self.wanting - before.wanting,
            served: self.served - before.served,
        }
    }

    /// The sum of both.
    pub fn plus(&self, other: &PeerCounts) -> PeerCounts {
        PeerCounts {
            uploaded: self.uploaded + other.uploaded,
            downloaded: self.downloaded + other.downloaded,
            wasted: self.wasted + other.wasted,
            wanting: self.wanting + other.wanting,
            served: self.served + other.served,
        }
    }
}

/// What a peer knows of a neighbour, which is a peer that it is connected to.
#[derive(Debug)]
pub struct Neighbour {
    /// Index of the neighbour in the swarm.
    pub peer: u32,
    /// Index of this peer among the neighbour's neighbours.
    pub mirror: u32,
    /// Flow that carries messages to the neighbour; set when the connection is made.
    pub flow: u32,
    /// Whether the connection exists.
    pub is_there: bool,
    /// Pieces that the neighbour has announced.
    pub has: Bitfield,
    /// Whether the neighbour is interested in this peer.
    pub wants: bool,
    /// Whether this peer is interested in the neighbour.
    pub is_wanted: bool,
    /// Whether this peer serves the neighbour.
    pub is_served: bool,
    /// Whether the neighbour serves this peer.
    pub serves: bool,
    /// Blocks requested from the neighbour.
    pub asked: Vec<Block>,
    /// Blocks that the neighbour has requested.
    pub wanted: VecDeque<Block>,
    /// Bytes of blocks received from the neighbour since the last choice.
    pub got: u64,
    /// Bytes of blocks sent to the neighbour since the last choice.
    pub gave: u64,
    /// Time up to which `wanting` and `served` of the neighbour are counted.
    pub noted: Time,
}

impl Neighbour {
    /// A new neighbour, without messages so far.
    pub fn new(peer: u32, mirror: u32, pieces: u32) -> Self {
        Neighbour {
            peer,
            mirror,
            flow: u32::MAX,
            is_there: true,
            has: Bitfield::empty(pieces),
            wants: false,
            is_wanted: false,
            is_served: false,
            serves: false,
            asked: Vec::new(),
            wanted: VecDeque::new(),
            got: 0,
            gave: 0,
            noted: Time::ZERO,
        }
    }
}

/// One peer.
#[derive(Debug)]
pub struct Peer {
    /// Index of its group.
    pub group: u32,
    /// Path from and to the other peers.
    pub route: Route,
    /// Whether it has the file from the beginning.
    pub is_seed: bool,
    /// How long the peer stays after it has the file; to the end of the run if absent.
    pub stay: Option<Duration>,
    /// Whether it takes part now.
    pub presence: Presence,
    /// Time of its arrival.
    pub arrived: Time,
    /// Time at which its download was complete; absent before that, and for a seed.
    pub completed: Option<Time>,
    /// Its pieces and requests.
    pub picker: Picker,
    /// Its choice of whom to serve.
    pub choker: Choker,
    /// All neighbours it has had. Those whose connection has ended keep their index.
    pub neighbours: Vec<Neighbour>,
    /// Number of present neighbours.
    pub live: u32,
    /// Counters.
    pub counts: PeerCounts,
    /// Its random generator.
    pub rng: Xoshiro256PlusPlus,
}

impl Peer {
    /// A peer that has not arrived yet. `(is_seed, slots, stay)` are those of the scenario.
    pub fn new(
        group: u32,
        route: Route,
        (is_seed, slots, stay): (bool, u32, Option<Duration>),
        shape: Shape,
        seed: u64,
    ) -> Self {
        Peer {
            group,
            route,
            is_seed,
            stay,
            presence: Presence::Away,
            arrived: Time::ZERO,
            completed: None,
            picker: if is_seed { Picker::seed(shape) } else { Picker::new(shape) },
            choker: Choker::new(slots),
            neighbours: Vec::new(),
            live: 0,
            counts: PeerCounts::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Whether the peer had arrived by `time`.
    pub fn has_arrived(&self, time: Time) -> bool {
        self.presence != Presence::Away && self.arrived <= time
    }

    /// The connection to neighbour `at` has ended: forgets its state and requests.
    pub fn forget(&mut self, at: u32) {
        let neighbour = &mut self.neighbours[at as usize];
        neighbour.is_there = false;
        (neighbour.wants, neighbour.serves, neighbour.is_served) = (false, false, false);
        neighbour.wanted = VecDeque::new();
        self.picker.leaves(&neighbour.has);
        std::mem::take(&mut neighbour.asked).into_iter().for_each(|block| self.picker.withdrawn(block));
        self.live -= 1;
    }
}
