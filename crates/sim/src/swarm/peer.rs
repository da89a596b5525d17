//! One peer, and what it knows of its neighbours.

use super::Half;
use super::choking::Choker;
use super::pieces::{Bitfield, Block, Picker, Shape};
use leeway_units::{Duration, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::VecDeque;

/// The way between a peer and the node where all peers meet.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// From the peer.
    pub out: Half,
    /// To the peer.
    pub back: Half,
    /// Delay of the peer's own, each way.
    pub delay: Duration,
}

/// Whether a peer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has not arrived yet.
    Away,
    /// It is there.
    Here,
    /// It has left.
    Gone,
}

/// What a peer has done so far; only ever added to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Bytes of blocks that it has sent, or begun to.
    pub uploaded: u64,
    /// Bytes of blocks that have come.
    pub downloaded: u64,
    /// Of them those that were here already.
    pub wasted: u64,
    /// Time in which it wanted something of a neighbour, summed over neighbours.
    pub wanting: Duration,
    /// Of that the time in which the neighbour served it.
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

    /// The sum.
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

/// What a peer knows of another that it is connected to.
#[derive(Debug)]
pub struct Neighbour {
    /// Who it is.
    pub peer: u32,
    /// The place of this peer among the other's neighbours.
    pub mirror: u32,
    /// The flow that carries what is said to it; set when the connection is made.
    pub flow: u32,
    /// Whether the connection is there still.
    pub is_there: bool,
    /// The pieces that it has said it has.
    pub has: Bitfield,
    /// It wants something that is here.
    pub wants: bool,
    /// It has something that is wanted here.
    pub is_wanted: bool,
    /// It is served here.
    pub is_served: bool,
    /// It serves this peer.
    pub serves: bool,
    /// Blocks that it was asked for.
    pub asked: Vec<Block>,
    /// Blocks that it asks for.
    pub wanted: VecDeque<Block>,
    /// Bytes of blocks from it since the last choice.
    pub got: u64,
    /// Bytes of blocks to it since the last choice.
    pub gave: u64,
    /// Up to when its times are counted.
    pub noted: Time,
}

impl Neighbour {
    /// Nothing was said yet.
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
    /// Its way to the others.
    pub route: Route,
    /// Whether it has the file from the beginning.
    pub is_seed: bool,
    /// How long it stays when it has the file; for ever where absent.
    pub stay: Option<Duration>,
    /// Whether it is there.
    pub presence: Presence,
    /// When it came.
    pub arrived: Time,
    /// When it had the file, if it had to fetch it.
    pub completed: Option<Time>,
    /// What it has and wants.
    pub picker: Picker,
    /// Whom it serves.
    pub choker: Choker,
    /// Everybody that it was ever connected to.
    pub neighbours: Vec<Neighbour>,
    /// Neighbours that are there.
    pub live: u32,
    /// What it has done.
    pub counts: PeerCounts,
    /// Its own randomness.
    pub rng: Xoshiro256PlusPlus,
}

impl Peer {
    /// A peer that has not arrived yet: `(seed, slots, stay)` as the scenario says.
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

    /// Whether it had come by `time`.
    pub fn has_arrived(&self, time: Time) -> bool {
        self.presence != Presence::Away && self.arrived <= time
    }

    /// The connection to neighbour `at` is no more.
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
