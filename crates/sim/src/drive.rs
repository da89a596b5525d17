//! What each kind of application does at its turn: connect, write, ask, pause.

use crate::app::{App, part_seed};
use crate::engine::{Engine, Timer};
use crate::flow::Flow;
use crate::packet::{Fields, Kind, NO_SACK, Packet};
use crate::scenario;
use crate::tcp::sender::Sender;
use crate::voice;
use leeway_units::{Bytes, Duration, Time};

/// Time after which a request without an answer is sent again. It doubles with each try.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The part of [`Engine`] that runs the applications.
impl Engine {
    /// Sets the next turn of flow `index`'s application to `at`.
    pub(crate) fn wake(&mut self, index: u32, at: Time) {
        if let Some(at) = self.flows[index as usize].app.timer.set(at) {
            self.world.set(at, Timer::App(index));
        }
    }

    /// Opens a connection on flow `index`, with a handshake if the profile has one.
    pub(crate) fn connect(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let group = &self.groups[flow.group as usize];
        flow.connect(self.world.now, &group.profile);
        flow.opening = group.profile.options.tcp.handshake;
        match group.spec.app {
            scenario::App::Voice { .. } => flow.opening = false,
            // The client opens. `request` sends the SYN in place of the first request.
            scenario::App::Request { .. } => {}
            _ if flow.opening => self.send_syn(index),
            _ => {}
        }
        self.gateway_connects(index);
    }

    /// Runs the application of flow `index` once.
    pub(crate) fn turn(&mut self, index: u32) {
        let group = self.flows[index as usize].group as usize;
        let app = self.groups[group].spec.app;
        match app {
            scenario::App::Bulk => self.bulk_turn(index, group),
            scenario::App::Transfer { size, .. } => {
                self.connect(index);
                let bytes = self.flows[index as usize].app.draw(&size);
                self.write(index, bytes);
            }
            scenario::App::OnOff { on, off } => {
                let flow = &mut self.flows[index as usize];
                let starts = flow.app.turn.is_multiple_of(2);
                let span = if starts { flow.app.draw(&on) } else { flow.app.draw(&off) };
                flow.app.turn += 1;
                if !flow.open {
                    self.connect(index);
                }
                let flow = &mut self.flows[index as usize];
                if starts {
                    flow.sender.write_endless();
                } else {
                    flow.sender.stop_writing();
                }
                self.wake(index, self.world.now + span);
                self.pump(index);
            }
            scenario::App::Poisson { .. } | scenario::App::Peer { .. } => {}
            scenario::App::Request { size, request, .. } => self.request(index, &size, request),
            scenario::App::Voice { codec } => self.talk(index, voice::payload(codec)),
        }
    }

    /// A bulk flow: one endless connection, or one connection for each interval of the scenario.
    fn bulk_turn(&mut self, index: u32, group: usize) {
        let flow = &mut self.flows[index as usize];
        let intervals = &self.groups[group].spec.intervals;
        let turn = flow.app.turn as usize;
        flow.app.turn += 1;
        let next = intervals.as_flattened().get(turn + 1).copied();
        if turn % 2 == 1 {
            flow.disconnect(self.world.now);
        } else {
            self.connect(index);
            self.flows[index as usize].sender.write_endless();
            self.pump(index);
        }
        if let Some(next) = next {
            self.wake(index, next.max(self.world.now));
        }
    }

    /// Writes a message of `size` bytes whose arrival the application waits for.
    fn write(&mut self, index: u32, size: Bytes) {
        let flow = &mut self.flows[index as usize];
        flow.sender.write(size.get().max(1));
        flow.waiting = true;
        self.pump(index);
    }

    /// The message of flow `index` has arrived in full: counts it and goes on.
    pub(crate) fn completed(&mut self, index: u32) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        let group = flow.group as usize;
        flow.waiting = false;
        self.world.books.groups[group].completion.add(now - flow.since);
        self.gateway_rests(index);
        let flow = &mut self.flows[index as usize];
        match self.groups[group].spec.app {
            scenario::App::Transfer { count, gap, .. } => {
                flow.disconnect(now);
                flow.app.turn += 1;
                if flow.app.turn < count {
                    self.wake(index, now + gap);
                }
            }
            scenario::App::Request { think, .. } => {
                flow.app.tries = 0;
                let pause = flow.app.draw(&think);
                self.wake(index, now + pause);
            }
            scenario::App::Poisson { .. } => {
                flow.disconnect(now);
                self.groups[group].free.push(index);
            }
            _ => {}
        }
    }

    /// Sends a request, or repeats it if no answer has come within the timeout.
    fn request(&mut self, index: u32, size: &scenario::Dist<Bytes>, request: Bytes) {
        if !self.flows[index as usize].open {
            self.connect(index);
        }
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        if flow.app.tries == 0 {
            flow.app.turn += 1;
            flow.since = now;
            flow.waiting = false;
        } else if flow.app.answered == flow.app.turn {
            // the server has received the request: its answer is on the way
            return;
        }
        flow.app.tries += 1;
        let patience = REQUEST_TIMEOUT * (1 << (flow.app.tries - 1).min(6));
        self.wake(index, now + patience);
        if self.flows[index as usize].opening {
            self.send_syn(index);
        } else {
            self.ask(index, size, request);
        }
    }

    /// Draws the size of the answer and sends the request, unless a gateway delays the request.
    fn ask(&mut self, index: u32, size: &scenario::Dist<Bytes>, request: Bytes) {
        let bytes = self.flows[index as usize].app.draw(size);
        if self.gateway_lets_ask(index, u32::try_from(bytes.get()).unwrap_or(u32::MAX)) {
            self.send_request(index, bytes, request);
        }
    }

    /// Sends the present request for an answer of `bytes` bytes.
    pub(crate) fn send_request(&mut self, index: u32, bytes: Bytes, request: Bytes) {
        let flow = &mut self.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        let packet = Fields {
            sent: self.world.now,
            seq: flow.app.turn,
            step: flow.reverse,
            size: u16::try_from(request.get()).unwrap_or(u16::MAX).saturating_add(profile.header),
            kind: Kind::Request,
            class: profile.class,
            bits: Packet::bits(flow.epoch, false),
            value: u32::try_from(bytes.get()).unwrap_or(u32::MAX),
            ..Fields::blank(index)
        };
        let bytes = u64::from(packet.size);
        self.world.send(packet.pack());
        self.request_leaves(index, bytes);
    }

    /// The server receives a request and writes the answer.
    pub(crate) fn request_arrives(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow() as usize];
        if let Some(sent) = flow.answered_syn.take() {
            let rtt = self.groups[flow.group as usize].profile.clocks.round_trip(sent, self.world.now);
            flow.sender.connected(rtt);
        }
        if packet.seq() != flow.app.turn || flow.app.answered == packet.seq() {
            return; // an old request, or a repetition
        }
        flow.app.answered = packet.seq();
        self.write(packet.flow(), Bytes::new(u64::from(packet.value())));
    }

    /// Sends a SYN, or repeats it. A client repeats a SYN by the timer of its request.
    pub(crate) fn send_syn(&mut self, index: u32) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        let group = &self.groups[flow.group as usize];
        let by_client = matches!(group.spec.app, scenario::App::Request { .. });
        if !by_client {
            let span = Sender::handshake_timeout(flow.syns, &group.profile.options);
            if let Some(at) = flow.sender.timer.set(now + span) {
                self.world.set(at, Timer::Retransmit(index));
            }
        }
        flow.syns += 1;
        let packet = Fields {
            sent: now,
            step: if by_client { flow.reverse } else { flow.forward },
            size: group.profile.header,
            kind: Kind::Syn,
            bits: Packet::bits(flow.epoch, false),
            ..Fields::blank(index)
        };
        self.world.send(packet.pack());
    }

    /// The other host receives a SYN and sends the SYN-ACK.
    pub(crate) fn syn_arrives(&mut self, packet: &Packet) {
        let index = packet.flow();
        let flow = &mut self.flows[index as usize];
        if !flow.opening {
            return; // the connection exists already
        }
        let group = &self.groups[flow.group as usize];
        let by_client = matches!(group.spec.app, scenario::App::Request { .. });
        flow.answered_syn = by_client.then_some(self.world.now);
        let answer = Fields {
            sent: packet.sent,
            step: if by_client { flow.forward } else { flow.reverse },
            size: group.profile.header,
            kind: Kind::SynAck,
            bits: Packet::bits(flow.epoch, false),
            ..Fields::blank(index)
        };
        self.world.send(answer.pack());
    }

    /// The SYN-ACK arrives: the host that opened the connection may send.
    pub(crate) fn syn_ack_arrives(&mut self, packet: &Packet) {
        let (index, now) = (packet.flow(), self.world.now);
        let flow = &mut self.flows[index as usize];
        if !std::mem::take(&mut flow.opening) {
            return; // the SYN-ACK of a repeated SYN
        }
        let group = &self.groups[flow.group as usize];
        if let scenario::App::Request { size, request, .. } = group.spec.app {
            flow.app.tries = 1;
            self.wake(index, now + REQUEST_TIMEOUT);
            return self.ask(index, &size, request);
        }
        flow.sender.timer.clear();
        flow.sender.connected(group.profile.clocks.round_trip(packet.sent, now));
        self.pump(index);
    }

    /// Sends one voice packet.
    fn talk(&mut self, index: u32, payload: u16) {
        if !self.flows[index as usize].open {
            self.connect(index);
        }
        let flow = &mut self.flows[index as usize];
        let header = self.groups[flow.group as usize].profile.header;
        flow.app.turn += 1;
        flow.counts.sent += 1;
        let packet = Fields {
            sent: self.world.now,
            seq: flow.app.turn,
            value: u32::from(payload),
            step: flow.forward,
            size: payload + header,
            kind: Kind::Voice,
            class: self.groups[flow.group as usize].profile.class,
            bits: Packet::bits(flow.epoch, false),
            ..Fields::blank(index)
        };
        self.wake(index, self.world.now + voice::INTERVAL);
        self.world.send(packet.pack());
    }

    /// A connection of a Poisson process begins in `group`. Sets the time of the next one.
    pub(crate) fn arrival(&mut self, group: u32, process: u32) {
        let entry = &mut self.groups[group as usize];
        let scenario::App::Poisson { arrivals_per_s, size } = entry.spec.app else { return };
        let source = &mut entry.arrivals[process as usize];
        let mean = Duration::from_secs_f64(1.0 / arrivals_per_s);
        let gap = source.draw(&scenario::Dist::Drawn(scenario::Spread::Exponential(mean)));
        let bytes = source.draw(&size);
        let free = entry.free.pop();
        if entry.spec.stop.is_none_or(|stop| self.world.now + gap < stop) {
            self.world.set(self.world.now + gap, Timer::Arrival(group, process));
        }
        let index = match free {
            Some(index) => index,
            None if self.flows.len() < crate::engine::MAX_FLOWS => self.new_slot(group),
            None => return,
        };
        self.connect(index);
        self.write(index, bytes);
    }

    /// Adds a flow for a connection of `group` that begins during the run.
    fn new_slot(&mut self, group: u32) -> u32 {
        let index = self.flows.len() as u32;
        let entry = &self.groups[group as usize];
        let app = App::new(part_seed(self.seed, u64::from(group), u64::from(index)));
        let (forward, reverse) = entry.routes;
        self.flows.push(Flow::new(group, &entry.profile, forward, reverse, app));
        index
    }

    /// Ends flow `index` at the scenario's `stop`: its application writes and requests nothing
    /// more.
    pub(crate) fn stop(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        flow.app.timer.clear();
        flow.sender.stop_writing();
        if matches!(self.groups[flow.group as usize].spec.app, scenario::App::Voice { .. }) {
            flow.disconnect(self.world.now);
        }
    }
}

impl Fields {
    /// A packet of `flow` with all other fields zero.
    pub(crate) fn blank(flow: u32) -> Fields {
        Fields {
            sent: Time::ZERO,
            flow,
            seq: 0,
            value: 0,
            sack: NO_SACK,
            step: 0,
            size: 0,
            kind: Kind::Data,
            class: 0,
            bits: 0,
        }
    }
}
