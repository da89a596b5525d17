//! File sharing among peers, after BitTorrent (Cohen 2003, BEP 3): piece selection ([`pieces`]),
//! choking ([`choking`]) and messages ([`message`]).
//!
//! The peers know neither network nor clock. Time and messages are arguments; what is to happen
//! outside is an [`Effect`], which [`drive`] carries out.
//!
//! Scope and limitations: a tracker knows all peers and answers at once. There is one file, and
//! there are no hash failures, no snubbing and no rate limits. Each direction between two peers is
//! a connection of its own. A peer's requests wait there behind the blocks that it uploads, as on
//! one real connection.

pub mod choking;
mod drive;
pub mod message;
mod peer;
pub mod pieces;

use crate::app::{part, part_seed, unit};
use crate::network::Built;
use crate::scenario;
use choking::{Candidate, ROUND, shuffle};
use leeway_units::{Duration, Time};
use message::Message;
use peer::{Neighbour, Presence};
pub use peer::{Peer, PeerCounts, Route};
use pieces::{Arrival, Block, Shape};

/// What a peer does by itself at a given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Arrives.
    Arrive,
    /// Chooses whom to serve.
    Choose,
    /// Leaves.
    Leave,
}

/// What the simulator has to do for the peers.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Connect `peer` and its neighbour `at`.
    Connect(u32, u32),
    /// Send a message of `peer` to its neighbour `at`.
    Say(u32, u32, Message),
    /// Close the connection of `peer` and its neighbour `at`, in both directions.
    Close(u32, u32),
    /// Count the completed download of `peer`.
    Completed(u32),
    /// Call [`Swarm::turn`] for `peer` at the given time.
    Turn(Time, u32, Turn),
}

/// All peers of a run.
#[derive(Debug)]
pub struct Swarm {
    /// Settings of the scenario.
    pub spec: scenario::Swarm,
    /// All peers, in the order of the scenario's groups.
    pub peers: Vec<Peer>,
    /// What the simulator has to do, in order.
    pub effects: Vec<Effect>,
    seed: u64,
    connections: usize,
}

impl Swarm {
    /// A swarm without peers.
    pub fn new(spec: scenario::Swarm, seed: u64) -> Self {
        Swarm { spec, peers: Vec::new(), effects: Vec::new(), seed, connections: 0 }
    }

    /// Adds a peer of `group` with the path `route`. Returns its index.
    pub fn add(&mut self, group: u32, spec: &scenario::FlowGroup, route: Route) -> u32 {
        let index = self.peers.len() as u32;
        let scenario::App::Peer { seed, slots, stay } = spec.app else { return index };
        let shape = Shape { pieces: self.spec.pieces, blocks: self.spec.blocks() };
        let seed_of_all = part_seed(self.seed, part::PEER, u64::from(index));
        self.peers.push(Peer::new(group, route, (seed, slots, stay), shape, seed_of_all));
        index
    }

    /// Index of neighbour `at`, and index of `peer` among that neighbour's neighbours.
    pub fn mirror(&self, peer: u32, at: u32) -> (u32, u32) {
        let neighbour = &self.peers[peer as usize].neighbours[at as usize];
        (neighbour.peer, neighbour.mirror)
    }

    /// Runs a turn of `peer`.
    pub fn turn(&mut self, now: Time, peer: u32, turn: Turn) {
        match turn {
            Turn::Arrive => self.arrive(now, peer),
            Turn::Choose => self.choose(now, peer),
            Turn::Leave => self.leave(now, peer),
        }
    }

    /// Peer `index` arrives: sets its first choice and looks for neighbours.
    fn arrive(&mut self, now: Time, index: u32) {
        let peer = &mut self.peers[index as usize];
        if peer.presence != Presence::Away {
            return; // it left before it arrived
        }
        peer.presence = Presence::Here;
        peer.arrived = now;
        let phase = ROUND.secs_f64() * unit(&mut peer.rng);
        self.effects.push(Effect::Turn(now + Duration::from_secs_f64(phase), index, Turn::Choose));
        if let (true, Some(stay)) = (peer.is_seed, peer.stay) {
            self.effects.push(Effect::Turn(now + stay, index, Turn::Leave));
        }
        self.seek(index);
    }

    /// Peer `index` asks the tracker for neighbours, and connects to as many as it lacks.
    fn seek(&mut self, index: u32) {
        let wanted = self.spec.neighbours.saturating_sub(self.peers[index as usize].live);
        let peer = &self.peers[index as usize];
        let is_right = |(other, candidate): (usize, &Peer)| {
            let free = other != index as usize
                && candidate.presence == Presence::Here
                && candidate.live < 2 * self.spec.neighbours
                && !(peer.picker.is_complete() && candidate.picker.is_complete())
                && !peer.neighbours.iter().any(|n| n.is_there && n.peer as usize == other);
            free.then_some(other as u32)
        };
        let mut candidates: Vec<u32> = self.peers.iter().enumerate().filter_map(is_right).collect();
        shuffle(&mut candidates, &mut self.peers[index as usize].rng);
        for other in candidates.into_iter().take(wanted as usize) {
            if 2 * (self.connections + 1) > crate::engine::MAX_FLOWS {
                return;
            }
            self.connections += 1;
            self.join(index, other);
        }
    }

    /// Connects two peers, which send each other the pieces that they have.
    fn join(&mut self, one: u32, other: u32) {
        let places = [one, other].map(|peer| self.peers[peer as usize].neighbours.len() as u32);
        for (own, peer, mirror) in [(one, other, places[1]), (other, one, places[0])] {
            let entry = &mut self.peers[own as usize];
            entry.neighbours.push(Neighbour::new(peer, mirror, self.spec.pieces));
            entry.live += 1;
        }
        self.effects.push(Effect::Connect(one, places[0]));
        for (peer, at) in [(one, places[0]), (other, places[1])] {
            let have = self.peers[peer as usize].picker.have().clone();
            self.effects.push(Effect::Say(peer, at, Message::Bitfield(have)));
        }
    }

    /// Peer `index` leaves. Its neighbours request its blocks elsewhere, and look for others if few are left.
    fn leave(&mut self, now: Time, index: u32) {
        let peer = &mut self.peers[index as usize];
        if std::mem::replace(&mut peer.presence, Presence::Gone) != Presence::Here {
            return;
        }
        let there = |(at, neighbour): (usize, &Neighbour)| neighbour.is_there.then_some(at as u32);
        let places: Vec<u32> = peer.neighbours.iter().enumerate().filter_map(there).collect();
        for at in places {
            self.effects.push(Effect::Close(index, at));
            let (other, mirror) = self.mirror(index, at);
            for (peer, at) in [(index, at), (other, mirror)] {
                self.lap(now, peer, at);
                self.peers[peer as usize].forget(at);
            }
            self.ask_all(other);
            if self.peers[other as usize].live < self.spec.neighbours / 2 {
                self.seek(other);
            }
        }
    }

    /// Peer `index` chooses whom it serves until its next choice.
    fn choose(&mut self, now: Time, index: u32) {
        let peer = &mut self.peers[index as usize];
        if peer.presence != Presence::Here {
            return;
        }
        let complete = peer.picker.is_complete();
        let entries = peer.neighbours.iter().enumerate().filter(|(_, neighbour)| neighbour.is_there);
        let candidates: Vec<Candidate> = entries
            .map(|(at, neighbour)| Candidate {
                peer: at as u32,
                interested: neighbour.wants,
                bytes: if complete { neighbour.gave } else { neighbour.got },
            })
            .collect();
        let chosen = peer.choker.choose(&candidates, &mut peer.rng);
        for candidate in candidates {
            let neighbour = &mut self.peers[index as usize].neighbours[candidate.peer as usize];
            (neighbour.got, neighbour.gave) = (0, 0);
            self.serve(now, index, candidate.peer, chosen.contains(&candidate.peer));
        }
        self.effects.push(Effect::Turn(now + ROUND, index, Turn::Choose));
    }

    /// Peer `index` begins or ends to serve its neighbour `at`.
    fn serve(&mut self, now: Time, index: u32, at: u32, serves: bool) {
        if self.peers[index as usize].neighbours[at as usize].is_served == serves {
            return;
        }
        self.lap(now, index, at);
        let neighbour = &mut self.peers[index as usize].neighbours[at as usize];
        neighbour.is_served = serves;
        neighbour.wanted.clear();
        self.effects.push(Effect::Say(index, at, Message::Choke(!serves)));
    }

    /// Adds the time since the last call to the counters of neighbour `at`, if the neighbour is
    /// interested in `index`.
    fn lap(&mut self, now: Time, index: u32, at: u32) {
        let neighbour = &mut self.peers[index as usize].neighbours[at as usize];
        let span = now - std::mem::replace(&mut neighbour.noted, now);
        if neighbour.wants {
            let (client, served) = (neighbour.peer, neighbour.is_served);
            let counts = &mut self.peers[client as usize].counts;
            counts.wanting += span;
            counts.served += if served { span } else { Duration::ZERO };
        }
    }

    /// Adds the time up to now to the counters of all peers.
    pub fn lap_all(&mut self, now: Time) {
        for index in 0..self.peers.len() {
            for at in 0..self.peers[index].neighbours.len() {
                if self.peers[index].neighbours[at].is_there {
                    self.lap(now, index as u32, at as u32);
                }
            }
        }
    }

    /// Peer `index` receives `message` from its neighbour `at`.
    pub fn hear(&mut self, now: Time, index: u32, at: u32, message: Message) {
        let Peer { picker, neighbours, .. } = &mut self.peers[index as usize];
        let neighbour = &mut neighbours[at as usize];
        match message {
            Message::Bitfield(have) => {
                picker.joins(&have);
                neighbour.has = have;
                self.consider(index, at);
            }
            Message::Have(piece) => {
                neighbour.has.insert(piece);
                picker.announced(piece);
                self.consider(index, at);
                self.ask(index, at);
            }
            Message::Interested(wants) => {
                self.lap(now, index, at);
                let peer = &mut self.peers[index as usize];
                peer.neighbours[at as usize].wants = wants;
                let served = peer.neighbours.iter().filter(|n| n.is_there && n.wants && n.is_served).count();
                if wants && served < peer.choker.slots() {
                    // a free slot is filled at once, and not at the next choice
                    self.serve(now, index, at, true);
                }
            }
            Message::Choke(true) => {
                neighbour.serves = false;
                std::mem::take(&mut neighbour.asked).into_iter().for_each(|block| picker.withdrawn(block));
                self.ask_all(index);
            }
            Message::Choke(false) => {
                neighbour.serves = true;
                self.ask(index, at);
            }
            Message::Request(block) if neighbour.is_served => neighbour.wanted.push_back(block),
            Message::Request(_) => {} // sent before the neighbour heard that it is choked
            Message::Cancel(block) => neighbour.wanted.retain(|other| *other != block),
            Message::Piece(block) => self.receive(now, index, at, block),
        }
    }

    /// Tells neighbour `at` if `index` becomes interested in its pieces, or is no longer
    /// interested.
    fn consider(&mut self, index: u32, at: u32) {
        let Peer { picker, neighbours, .. } = &mut self.peers[index as usize];
        let neighbour = &mut neighbours[at as usize];
        let wanted = picker.have().lacks_of(&neighbour.has);
        if std::mem::replace(&mut neighbour.is_wanted, wanted) != wanted {
            self.effects.push(Effect::Say(index, at, Message::Interested(wanted)));
        }
    }

    /// Requests blocks from neighbour `at`, up to the number that may be outstanding.
    fn ask(&mut self, index: u32, at: u32) {
        let Peer { picker, neighbours, rng, .. } = &mut self.peers[index as usize];
        let neighbour = &mut neighbours[at as usize];
        while neighbour.is_there && neighbour.serves && neighbour.asked.len() < self.spec.requests as usize {
            let Some(block) = picker.pick(&neighbour.has, &neighbour.asked, rng) else { return };
            neighbour.asked.push(block);
            self.effects.push(Effect::Say(index, at, Message::Request(block)));
        }
    }

    fn ask_all(&mut self, index: u32) {
        for at in 0..self.peers[index as usize].neighbours.len() {
            self.ask(index, at as u32);
        }
    }

    /// A block has arrived from neighbour `at`.
    fn receive(&mut self, now: Time, index: u32, at: u32, block: Block) {
        let bytes = self.spec.block.get();
        let Peer { picker, neighbours, counts, .. } = &mut self.peers[index as usize];
        counts.downloaded += bytes;
        let neighbour = &mut neighbours[at as usize];
        neighbour.got += bytes;
        neighbour.asked.retain(|other| *other != block);
        match picker.arrived(block) {
            Arrival::Again => counts.wasted += bytes,
            Arrival::Block => self.cancel(index, block),
            Arrival::Piece => {
                self.cancel(index, block);
                self.has(now, index, block.piece);
            }
        }
        match self.peers[index as usize].picker.is_endgame() {
            true => self.ask_all(index),
            false => self.ask(index, at),
        }
    }

    /// `index` has `block`: withdraws its requests for it to others.
    fn cancel(&mut self, index: u32, block: Block) {
        for (at, neighbour) in self.peers[index as usize].neighbours.iter_mut().enumerate() {
            if let Some(place) = neighbour.asked.iter().position(|other| *other == block) {
                neighbour.asked.remove(place);
                self.effects.push(Effect::Say(index, at as u32, Message::Cancel(block)));
            }
        }
    }

    /// `index` has the whole `piece`: announces it to neighbours that lack it.
    fn has(&mut self, now: Time, index: u32, piece: u32) {
        for at in 0..self.peers[index as usize].neighbours.len() {
            let neighbour = &self.peers[index as usize].neighbours[at];
            if !neighbour.is_there {
                continue;
            }
            match neighbour.has.has(piece) {
                true => self.consider(index, at as u32),
                false => self.effects.push(Effect::Say(index, at as u32, Message::Have(piece))),
            }
        }
        let peer = &mut self.peers[index as usize];
        if !peer.picker.is_complete() {
            return;
        }
        peer.completed = Some(now);
        self.effects.push(Effect::Completed(index));
        if let Some(stay) = peer.stay {
            self.effects.push(Effect::Turn(now + stay, index, Turn::Leave));
        }
    }

    /// The next block that `index` sends to its neighbour `at`. It counts as uploaded.
    pub fn next_block(&mut self, index: u32, at: u32) -> Option<Block> {
        let bytes = self.spec.block.get();
        let Peer { neighbours, counts, .. } = &mut self.peers[index as usize];
        let neighbour = &mut neighbours[at as usize];
        let block = neighbour.wanted.pop_front()?;
        neighbour.gave += bytes;
        counts.uploaded += bytes;
        Some(block)
    }
}

/// The steps of one direction of a [`Route`].
pub type Half = Vec<Built>;
