//! The event loop: plays timers and packet arrivals in order of time, until the end of the run.

use crate::app::{part, part_seed};
use crate::books::{Books, Snapshot};
use crate::calendar::{Heap, Key};
use crate::flow::{Flow, Profile};
use crate::gateway::Gateway;
use crate::network::{Network, tick};
use crate::packet::{Kind, Packet};
use crate::results::Work;
use crate::scenario::{self, Event};
use crate::swarm::{Swarm, Turn};
use crate::tcp::receiver::Reply;
use leeway_link::Loss;
use leeway_queue::Queue;
use leeway_units::{Duration, Time};

/// A timer in the calendar. The number is the index of what the timer belongs to.
#[derive(Debug, Clone, Copy)]
pub enum Timer {
    /// Flow: the retransmission timeout (RFC 6298) expires.
    Retransmit(u32),
    /// Flow: pacing lets the next segment go.
    Pace(u32),
    /// Flow: the sending host's processing delay (`tcp.overhead`) is over.
    Send(u32),
    /// Flow: the receiver sends its delayed acknowledgement.
    Acknowledge(u32),
    /// Flow: the application takes its next turn.
    App(u32),
    /// Flow: the application ends (`stop` in the scenario).
    Stop(u32),
    /// Gateway: its scheduler may be able to grant bytes.
    Gateway(u32),
    /// Gateway: a report to its relay may be due.
    Report(u32),
    /// Flow: the gateway reads the bytes that have arrived, or asks the kernel what was
    /// acknowledged.
    Read(u32),
    /// Peer of a swarm: its turn.
    Peer(u32, Turn),
    /// Group: a connection arrives. The second number is the arrival process.
    Arrival(u32, u32),
    /// A window of metrics begins or ends: take a snapshot of all counters.
    Edge,
    /// Links change: index into the scenario's events.
    Change(u32),
    /// Take one sample for the time series.
    Sample,
}

/// A flow group of the scenario, and what its flows share.
#[derive(Debug)]
pub struct Group {
    /// The group as the scenario describes it.
    pub spec: scenario::FlowGroup,
    /// Settings that every flow of the group has.
    pub profile: Profile,
    /// The gateway on the group's path, and the part that the group plays there.
    pub gateway: Option<(usize, scenario::Part)>,
    /// Routes of data and of acknowledgements, for connections that are made during the run.
    pub routes: (u32, u32),
    /// Flows without a connection, which the next arrival can use.
    pub free: Vec<u32>,
    /// Random generator of each arrival process.
    pub arrivals: Vec<crate::app::App>,
}

/// One direction of a link, by its indices in the network. Events change links by these indices.
#[derive(Debug, Clone, Copy)]
pub struct Directed {
    /// Index of the link; absent without a queue.
    pub link: Option<u32>,
    /// Index of the delay line; absent where the delay is fixed for the whole run.
    pub line: Option<u32>,
}

/// Most flows of one run. Connections that arrive beyond this number are turned away.
pub(crate) const MAX_FLOWS: usize = 200_000;

/// Events between two calls of `cancelled`: about a millisecond.
const ASK_EVERY: u64 = 4096;

/// The clock, the calendar, the network and the counters: all that a flow acts on.
#[derive(Debug, Default)]
pub struct World {
    pub(crate) now: Time,
    pub(crate) order: u64,
    pub(crate) timers: Heap<Timer>,
    pub(crate) network: Network,
    pub(crate) books: Books,
}

/// One run.
#[derive(Debug)]
pub struct Engine {
    pub(crate) world: World,
    pub(crate) end: Time,
    pub(crate) seed: u64,
    pub(crate) flows: Vec<Flow>,
    pub(crate) groups: Vec<Group>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) swarm: Option<Swarm>,
    /// Whether `gateway_serves` is running. What it grants calls it again; the running call goes
    /// on.
    pub(crate) serving: bool,
    /// Changes of links, in the scenario's order, each with the link it is about.
    pub(crate) events: Vec<(Event, Directed)>,
    pub(crate) snapshots: Vec<(Time, Snapshot)>,
    pub(crate) work: Work,
}

impl World {
    /// Puts `timer` into the calendar at `at`.
    #[inline]
    pub(crate) fn set(&mut self, at: Time, timer: Timer) {
        let key = Key::new(at, tick(&mut self.order));
        self.timers.push(key, timer);
    }

    #[inline]
    fn set_if(&mut self, at: Option<Time>, timer: Timer) {
        if let Some(at) = at {
            self.set(at, timer);
        }
    }

    /// Hands `packet` to the first step of its route.
    // `always`, for the reason given at `Network::forward`.
    #[inline(always)]
    pub(crate) fn send(&mut self, packet: Packet) {
        // Every route has a delay or a queue: nothing arrives in the instant it is sent.
        let arrived = self.network.forward(self.now, packet, &mut self.order, &mut self.books);
        debug_assert!(arrived.is_none());
    }

    /// Sends what `flow`, the `index`-th, may send now, or after its host's processing delay.
    #[inline(always)] // as `send`
    pub(crate) fn pump(&mut self, index: u32, flow: &mut Flow, profile: &Profile) {
        if flow.opening {
            return;
        }
        let most = profile.options.tcp.overhead;
        if most.is_zero() {
            self.send_all(index, flow, profile);
        } else if !flow.send_timer.is_set() {
            let at = flow.send_timer.set(self.now + flow.app.host_delay(most));
            self.set_if(at, Timer::Send(index));
        }
    }

    /// Sends what `flow`, the `index`-th, may send now.
    #[inline(always)] // as `send`
    fn send_all(&mut self, index: u32, flow: &mut Flow, profile: &Profile) {
        loop {
            match flow.next_packet(index, self.now, profile) {
                Ok(packet) => {
                    let at = flow.sender.start_timer(self.now, &profile.options);
                    self.set_if(at, Timer::Retransmit(index));
                    self.send(packet);
                }
                Err(None) => return,
                Err(Some(until)) => {
                    let at = flow.pace_timer.set(until);
                    return self.set_if(at, Timer::Pace(index));
                }
            }
        }
    }

    /// Records `flow` if the series records every event.
    #[inline]
    fn record(&mut self, index: u32, flow: &Flow, profile: &Profile) {
        if let Some(recorder) = &mut self.books.recorder
            && recorder.every.is_none()
        {
            recorder.flow(self.now, index, flow, profile.mss);
        }
    }
}

impl Engine {
    /// Plays the run up to its end. False if `cancelled` returned true before the end.
    pub fn play(&mut self, cancelled: &dyn Fn() -> bool) -> bool {
        loop {
            let (network, timer) = (self.world.network.next(), self.world.timers.next());
            let key = network.min(timer);
            if key.time() > self.end || key == Key::NEVER {
                break;
            }
            self.world.now = key.time();
            self.work.events += 1;
            if self.work.events.is_multiple_of(ASK_EVERY) && cancelled() {
                return false;
            }
            if network < timer {
                if let Some(packet) = self.world.network.play(&mut self.world.order, &mut self.world.books) {
                    self.arrive(packet);
                }
            } else {
                self.play_timer();
            }
        }
        self.world.now = self.end;
        let links = &self.world.books.links[..self.world.books.reported_links];
        self.work.offered_packets = links.iter().map(|link| link.offered).sum();
        self.work.delivered_packets = self.flows.iter().map(|flow| flow.counts.delivered).sum();
        true
    }

    /// `packet` has reached its host.
    #[inline]
    fn arrive(&mut self, packet: Packet) {
        let index = packet.flow();
        let Engine { world, flows, groups, .. } = self;
        let flow = &mut flows[index as usize];
        if packet.epoch() != flow.epoch || !flow.open {
            world.books.sacks.take(&packet);
            if packet.kind() == Kind::Report {
                // a report is about the home, and counts even if the connection that carried it
                // has ended
                self.report_arrives(&packet);
            }
            return;
        }
        let group = flow.group as usize;
        let profile = &groups[group].profile;
        let counts = &mut world.books.groups[group];
        match packet.kind() {
            Kind::Ack => {
                let (rtt, at) = flow.on_ack(world.now, &packet, profile, &mut world.books.sacks);
                counts.rtt.add(rtt);
                world.set_if(at, Timer::Retransmit(index));
                world.pump(index, flow, profile);
                world.record(index, flow, profile);
                if flow.stream.is_some() {
                    return self.feed(index);
                }
                if groups[group].gateway.is_some() {
                    self.gateway_is_acked(index, rtt.micros(), packet.value());
                    self.home_sends(index);
                }
            }
            Kind::Data => {
                counts.owd.add(world.now - packet.sent);
                let goodput_bytes = flow.counts.goodput_bytes;
                let reply = flow.accept(&packet, profile);
                let new = flow.counts.goodput_bytes > goodput_bytes;
                if reply == Reply::Now {
                    flow.ack_timer.clear();
                    if let Some(ack) = flow.acknowledge(index, world.now, profile, &mut world.books.sacks) {
                        world.send(ack);
                    }
                } else if !flow.ack_timer.is_set() {
                    let span = profile.options.tcp.delayed_ack.map_or(Duration::ZERO, |p| p.timeout);
                    let at = flow.ack_timer.set(world.now + span);
                    world.set_if(at, Timer::Acknowledge(index));
                }
                if flow.stream.is_some() {
                    return self.messages_arrive(index);
                }
                let delivered = flow.waiting && flow.is_delivered();
                if groups[group].gateway.is_some() {
                    self.gateway_receives(index, &packet, new);
                }
                if delivered {
                    self.completed(index);
                }
            }
            Kind::Voice => {
                counts.owd.add(world.now - packet.sent);
                flow.counts.delivered += 1;
                flow.counts.delivered_bytes += packet.size();
                flow.counts.goodput_bytes += u64::from(packet.value());
            }
            Kind::Request => self.request_arrives(&packet),
            Kind::Syn => self.syn_arrives(&packet),
            Kind::SynAck => self.syn_ack_arrives(&packet),
            Kind::Window => self.window_arrives(&packet),
            Kind::Report => self.report_arrives(&packet),
            Kind::Receipt => self.receipt_arrives(&packet),
        }
    }

    /// Sends what flow `index` may send now.
    pub(crate) fn pump(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let group = &self.groups[flow.group as usize];
        self.world.pump(index, flow, &group.profile);
        match group.gateway {
            Some((_, part)) if part.is_sent() => self.gateway_wants(index),
            Some(_) => self.home_sends(index),
            None => {}
        }
    }

    /// [`Engine::pump`] without the host's processing delay.
    fn send_all(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        self.world.send_all(index, flow, &self.groups[flow.group as usize].profile);
        self.home_sends(index);
    }

    /// Fires the first timer of the calendar, or moves it if its deadline has moved (see
    /// [`LazyTimer`](crate::tcp::rto::LazyTimer)).
    fn play_timer(&mut self) {
        let Some(&(_, timer)) = self.world.timers.first() else { return };
        let (now, flows) = (self.world.now, &mut self.flows);
        let look = match timer {
            Timer::Retransmit(index) => flows[index as usize].sender.timer.look(now),
            Timer::Pace(index) => flows[index as usize].pace_timer.look(now),
            Timer::Send(index) => flows[index as usize].send_timer.look(now),
            Timer::Acknowledge(index) => flows[index as usize].ack_timer.look(now),
            Timer::App(index) => flows[index as usize].app.timer.look(now),
            Timer::Gateway(index) => self.gateways[index as usize].timer.look(now),
            Timer::Report(index) => self.gateways[index as usize].report_timer.look(now),
            _ => Ok(()),
        };
        match look {
            Ok(()) => {
                self.world.timers.pop();
                self.fire(timer);
            }
            Err(Some(again)) => {
                let key = Key::new(again, tick(&mut self.world.order));
                self.world.timers.delay_first(key);
            }
            Err(None) => self.world.timers.pop(),
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Retransmit(index) => self.retransmit(index),
            Timer::Pace(index) | Timer::Send(index) => self.send_all(index),
            Timer::Acknowledge(index) => self.acknowledge(index),
            Timer::App(index) => self.turn(index),
            Timer::Stop(index) => self.stop(index),
            Timer::Gateway(index) => self.gateway_serves(index as usize),
            Timer::Report(index) => self.gateway_reports(index as usize),
            Timer::Read(index) => self.gateway_reads(index),
            Timer::Peer(peer, turn) => self.peer_turn(peer, turn),
            Timer::Arrival(group, process) => self.arrival(group, process),
            Timer::Edge => self.snapshot(),
            Timer::Change(index) => self.change(index as usize),
            Timer::Sample => self.sample(),
        }
    }

    fn retransmit(&mut self, index: u32) {
        let Engine { world, flows, groups, .. } = self;
        let flow = &mut flows[index as usize];
        if flow.opening {
            return self.send_syn(index);
        }
        let profile = &groups[flow.group as usize].profile;
        flow.note_window(world.now);
        flow.counts.timeouts += 1;
        let at = flow.sender.on_timeout(world.now, &profile.options);
        world.set_if(at, Timer::Retransmit(index));
        world.pump(index, flow, profile);
        world.record(index, flow, profile);
        self.home_sends(index);
    }

    /// Sends the delayed acknowledgement of flow `index`.
    fn acknowledge(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        let world = &mut self.world;
        if let Some(ack) = flow.acknowledge(index, world.now, profile, &mut world.books.sacks) {
            world.send(ack);
        }
    }

    fn change(&mut self, index: usize) {
        let (event, link) = self.events[index].clone();
        let World { now, order, books, network, .. } = &mut self.world;
        let now = *now;
        if let (Some(rate), Some(at)) = (event.rate, link.link) {
            network.change_link(now, at, order, books, |transmitter| transmitter.set_rate(now, rate));
        }
        if let (Some(delay), Some(line)) = (event.delay, link.line) {
            network.change_line(line, |line| line.set_delay(delay));
        }
        if let Some(spec) = event.loss {
            let loss = Loss::new(spec, part_seed(self.seed, part::LOSS_EVENT, index as u64));
            match (link.link, link.line) {
                (Some(at), _) => {
                    network.change_link(now, at, order, books, |transmitter| transmitter.set_loss(loss));
                }
                (None, Some(line)) => network.change_line(line, |line| line.set_loss(loss)),
                (None, None) => {}
            }
        }
    }

    fn snapshot(&mut self) {
        for link in 0..self.world.books.reported_links {
            let World { now, network, books, .. } = &mut self.world;
            network.queue(*now, link as u32, books);
            books.links[link].partial_bytes = network.sent_in_part(*now, link as u32);
        }
        for flow in &mut self.flows {
            flow.note_window(self.world.now);
        }
        let mut snapshot = self.world.books.snapshot(&self.flows);
        if let Some(swarm) = &mut self.swarm {
            swarm.lap_all(self.world.now);
            snapshot.peers = swarm.peers.iter().map(|peer| peer.counts).collect();
        }
        self.snapshots.push((self.world.now, snapshot));
    }

    fn sample(&mut self) {
        let World { now, books, network, .. } = &mut self.world;
        let now = *now;
        for index in 0..books.reported_links {
            let queue = network.queue(now, index as u32, books);
            if let Some(recorder) = &mut books.recorder {
                recorder.link(now, index as u32, queue.packets(), queue.bytes(), &books.links[index]);
            }
        }
        let Some(recorder) = &mut books.recorder else { return };
        for (index, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.open) {
            recorder.flow(now, index as u32, flow, self.groups[flow.group as usize].profile.mss);
        }
        if let Some(every) = recorder.every {
            self.world.set(now + every, Timer::Sample);
        }
    }
}
