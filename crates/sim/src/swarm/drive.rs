//! Connects the peers to the simulator: writes their messages to flows, and hands them the
//! messages that arrive.

use super::message::{Message, Stream};
use super::{Effect, Swarm, Turn};
use crate::app::{App, part, part_seed};
use crate::engine::{Engine, Timer};
use crate::flow::Flow;

/// The part of [`Engine`] that runs the peers.
impl Engine {
    /// Runs a turn of `peer`, and carries out what follows.
    pub(crate) fn peer_turn(&mut self, peer: u32, turn: Turn) {
        let now = self.world.now;
        if let Some(swarm) = &mut self.swarm {
            swarm.turn(now, peer, turn);
        }
        self.carry_out();
    }

    /// Data has arrived on flow `index`: hands complete messages to the peer that receives them.
    pub(crate) fn messages_arrive(&mut self, index: u32) {
        let now = self.world.now;
        let (Some(swarm), flow) = (&mut self.swarm, &mut self.flows[index as usize]) else { return };
        let Some(stream) = &mut flow.stream else { return };
        stream.received(flow.receiver.next());
        let (listener, at) = swarm.mirror(stream.peer, stream.at);
        let mut heard = false;
        while let Some(message) = stream.hear() {
            swarm.hear(now, listener, at, message);
            heard = true;
        }
        if heard {
            let answer = swarm.peers[listener as usize].neighbours[at as usize].flow;
            self.carry_out();
            self.feed(answer);
        }
    }

    /// Writes blocks to flow `index` while less than one block is unsent. The other requested
    /// blocks wait outside the connection, so that a choke or a cancel can still discard them.
    pub(crate) fn feed(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let (Some(swarm), Some(stream)) = (&mut self.swarm, &mut flow.stream) else { return };
        let block = swarm.spec.block.get();
        let mut wrote = false;
        while flow.sender.unsent_bytes() < block
            && let Some(next) = swarm.next_block(stream.peer, stream.at)
        {
            write(stream, &mut flow.sender, swarm, Message::Piece(next));
            wrote = true;
        }
        if wrote {
            self.pump(index);
        }
    }

    /// Carries out the effects that the peers have asked for.
    fn carry_out(&mut self) {
        let Some(swarm) = &mut self.swarm else { return };
        let mut effects = std::mem::take(&mut swarm.effects);
        let mut spoken: Vec<u32> = Vec::new();
        for effect in effects.drain(..) {
            match effect {
                Effect::Connect(peer, at) => self.join(peer, at),
                Effect::Say(peer, at, message) => {
                    let index = self.say(peer, at, message);
                    if spoken.last() != Some(&index) {
                        spoken.push(index);
                    }
                }
                Effect::Close(peer, at) => {
                    for index in self.flows_between(peer, at) {
                        let flow = &mut self.flows[index as usize];
                        flow.disconnect(self.world.now);
                        flow.stream = None;
                    }
                }
                Effect::Completed(peer) => {
                    let Some(swarm) = &self.swarm else { continue };
                    let peer = &swarm.peers[peer as usize];
                    let took = self.world.now - peer.arrived;
                    self.world.books.groups[peer.group as usize].completion.add(took);
                }
                Effect::Turn(at, peer, turn) => self.world.set(at, Timer::Peer(peer, turn)),
            }
        }
        if let Some(swarm) = &mut self.swarm {
            swarm.effects = effects; // its memory is used again
        }
        // Messages written at one instant share segments, so data is sent after all of them.
        for index in spoken {
            if self.flows[index as usize].open {
                self.pump(index);
            }
        }
    }

    /// Writes `message` of `peer` to its neighbour `at`. Returns the flow that carries it.
    fn say(&mut self, peer: u32, at: u32, message: Message) -> u32 {
        let Some(swarm) = &self.swarm else { return 0 };
        let index = swarm.peers[peer as usize].neighbours[at as usize].flow;
        let flow = &mut self.flows[index as usize];
        if let Some(stream) = &mut flow.stream {
            write(stream, &mut flow.sender, swarm, message);
        }
        index
    }

    /// The flow from `peer` to its neighbour `at`, and the flow back.
    fn flows_between(&self, peer: u32, at: u32) -> [u32; 2] {
        let Some(swarm) = &self.swarm else { return [0; 2] };
        let (other, mirror) = swarm.mirror(peer, at);
        [(peer, at), (other, mirror)]
            .map(|(peer, at)| swarm.peers[peer as usize].neighbours[at as usize].flow)
    }

    /// Connects `peer` and its neighbour `at` by a flow in each direction.
    fn join(&mut self, peer: u32, at: u32) {
        let Some(swarm) = &mut self.swarm else { return };
        let (other, mirror) = swarm.mirror(peer, at);
        let [one, two] = [peer, other].map(|peer| &swarm.peers[peer as usize].route);
        let mut lay = |from: &super::Route, to: &super::Route| {
            let steps = from.out.iter().chain(&to.back).copied();
            self.world.network.lay(from.delay, steps, to.delay)
        };
        let there = lay(one, two);
        let back = lay(two, one);
        for (speaker, at, routes) in [(peer, at, (there, back)), (other, mirror, (back, there))] {
            let index = self.flows.len() as u32;
            let entry = &mut swarm.peers[speaker as usize];
            entry.neighbours[at as usize].flow = index;
            entry.neighbours[at as usize].noted = self.world.now;
            let app = App::new(part_seed(self.seed, part::PEER_FLOW, u64::from(index)));
            let profile = &self.groups[entry.group as usize].profile;
            let mut flow = Flow::new(entry.group, profile, routes.0, routes.1, app);
            flow.stream = Some(Box::new(Stream::new(speaker, at)));
            self.flows.push(flow);
        }
        let first = self.flows.len() as u32 - 2;
        self.connect(first);
        self.connect(first + 1);
    }
}

fn write(stream: &mut Stream, sender: &mut crate::tcp::sender::Sender, swarm: &Swarm, message: Message) {
    let bytes = message.bytes(swarm.spec.block.get(), swarm.spec.pieces);
    stream.write(message, bytes);
    sender.write(bytes);
}
