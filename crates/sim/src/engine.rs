//! The event loop.

use crate::app::{part, part_seed};
use crate::books::{Books, Snapshot};
use crate::calendar::{Heap, Key};
use crate::flow::Profile;
use crate::network::{Network, tick};
use crate::packet::{Kind, Packet};
use crate::results::Work;
use crate::scenario::{self, Event};
use crate::tcp::receiver::Reply;
use leeway_link::Loss;
use leeway_queue::Queue;
use leeway_units::{Duration, Time};

/// Something that was set to happen.
#[derive(Debug, Clone, Copy)]
pub enum Timer {
    /// Flow: nothing was acknowledged for a timeout.
    Retransmit(u32),
    /// Flow: pacing lets the next segment go.
    Pace(u32),
    /// Flow: the delayed acknowledgement is due.
    Acknowledge(u32),
    /// Flow: the application's turn.
    App(u32),
    /// Flow: the application ends.
    Stop(u32),
    /// Group: a connection arrives, of this arrival process.
    Arrival(u32, u32),
    /// A window of metrics begins or ends.
    Edge,
    /// Links change: index into the scenario's events.
    Change(u32),
    /// Time series.
    Sample,
}

/// All flows that share a line of the scenario.
#[derive(Debug)]
pub struct Group {
    /// As the scenario says.
    pub spec: scenario::FlowGroup,
    /// What its flows share.
    pub profile: Profile,
    /// Routes of data and of acknowledgements, for connections that are made during the run.
    pub routes: (u32, u32),
    /// Slots without a connection, for arrivals.
    pub free: Vec<u32>,
    /// Randomness of each arrival process.
    pub arrivals: Vec<crate::app::App>,
}

/// A link as events and metrics know it.
#[derive(Debug, Clone, Copy)]
pub struct Directed {
    /// Index of the link, if it has a queue.
    pub link: Option<u32>,
    /// Index of the line, if its delay has a life of its own.
    pub line: Option<u32>,
}

/// Connections that one run can have at one time; arrivals beyond are turned away.
pub(crate) const MAX_FLOWS: usize = 200_000;

/// One run.
#[derive(Debug)]
pub struct Engine {
    pub(crate) now: Time,
    pub(crate) end: Time,
    pub(crate) seed: u64,
    pub(crate) order: u64,
    pub(crate) network: Network,
    pub(crate) timers: Heap<Timer>,
    pub(crate) groups: Vec<Group>,
    pub(crate) books: Books,
    /// Changes of links, in the scenario's order, each with the link it is about.
    pub(crate) events: Vec<(Event, Directed)>,
    pub(crate) snapshots: Vec<(Time, Snapshot)>,
    pub(crate) work: Work,
}

impl Engine {
    /// Plays everything up to the end.
    pub fn play(&mut self) {
        loop {
            let (network, timer) = (self.network.next(), self.timers.next());
            let key = network.min(timer);
            if key.time() > self.end || key == Key::NEVER {
                break;
            }
            self.now = key.time();
            self.work.events += 1;
            if network < timer {
                if let Some(packet) = self.network.play(&mut self.order, &mut self.books) {
                    self.arrive(packet);
                }
            } else if let Some(&(_, timer)) = self.timers.first() {
                self.timers.pop();
                self.fire(timer);
            }
        }
        self.now = self.end;
        let links = &self.books.links[..self.books.reported_links];
        self.work.offered_packets = links.iter().map(|link| link.offered).sum();
        self.work.delivered_packets = self.books.flows.iter().map(|flow| flow.counts.delivered).sum();
    }

    /// Sets `timer`.
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

    /// Sends `packet` on its way.
    #[inline(always)] // as `Network::forward`
    pub(crate) fn send(&mut self, packet: Packet) {
        // Every route has a delay or a queue: nothing arrives in the instant it is sent.
        let arrived = self.network.forward(self.now, packet, &mut self.order, &mut self.books);
        debug_assert!(arrived.is_none());
    }

    /// A packet is at its host.
    #[inline]
    fn arrive(&mut self, packet: Packet) {
        let flow = &mut self.books.flows[packet.flow() as usize];
        if packet.epoch() != flow.epoch || !flow.open {
            self.books.sacks.take(&packet);
            return;
        }
        match packet.kind() {
            Kind::Data => self.data_arrives(packet),
            Kind::Ack => self.ack_arrives(packet),
            Kind::Request => self.request_arrives(&packet),
            Kind::Voice => {
                flow.counts.delivered += 1;
                flow.counts.delivered_bytes += packet.size();
                flow.counts.goodput_bytes += u64::from(packet.value());
                self.books.groups[flow.group as usize].owd.add(self.now - packet.sent);
            }
        }
    }

    #[inline]
    fn data_arrives(&mut self, packet: Packet) {
        let index = packet.flow() as usize;
        let flow = &mut self.books.flows[index];
        let group = flow.group as usize;
        let profile = &self.groups[group].profile;
        self.books.groups[group].owd.add(self.now - packet.sent);
        let reply = flow.accept(self.now, &packet, profile);
        let completed = flow.waiting && flow.is_delivered();
        match reply {
            Reply::Now => {
                flow.ack_timer.clear();
                if let Some(ack) = flow.acknowledge(packet.flow(), profile, &mut self.books.sacks) {
                    self.send(ack);
                }
            }
            Reply::Later if !flow.ack_timer.is_set() => {
                let span = profile.options.tcp.delayed_ack.map_or(Duration::ZERO, |p| p.timeout);
                let at = flow.ack_timer.set(self.now + span);
                self.set_if(at, Timer::Acknowledge(packet.flow()));
            }
            Reply::Later => {}
        }
        if completed {
            self.completed(packet.flow());
        }
    }

    #[inline]
    fn ack_arrives(&mut self, packet: Packet) {
        let flow = &mut self.books.flows[packet.flow() as usize];
        let group = flow.group as usize;
        let profile = &self.groups[group].profile;
        let (rtt, at) = flow.on_ack(self.now, &packet, profile, &mut self.books.sacks);
        self.books.groups[group].rtt.add(rtt);
        self.set_if(at, Timer::Retransmit(packet.flow()));
        self.pump(packet.flow());
        self.record_flow(packet.flow());
    }

    /// Sends what flow `index` may send now.
    #[inline]
    pub(crate) fn pump(&mut self, index: u32) {
        loop {
            let flow = &mut self.books.flows[index as usize];
            let profile = &self.groups[flow.group as usize].profile;
            match flow.next_packet(index, self.now, profile) {
                Ok(packet) => {
                    let at = flow.sender.start_timer(self.now, &profile.options);
                    self.set_if(at, Timer::Retransmit(index));
                    self.send(packet);
                }
                Err(wait) => {
                    if let Some(until) = wait {
                        let at = flow.pace_timer.set(until);
                        self.set_if(at, Timer::Pace(index));
                    }
                    return;
                }
            }
        }
    }

    /// Looks whether lazy `timer` is due; puts it back where it was early.
    fn is_due(&mut self, timer: Timer, look: Result<(), Option<Time>>) -> bool {
        match look {
            Ok(()) => true,
            Err(again) => {
                self.set_if(again, timer);
                false
            }
        }
    }

    fn fire(&mut self, timer: Timer) {
        let now = self.now;
        match timer {
            Timer::Retransmit(index) => {
                let look = self.books.flows[index as usize].sender.timer.look(now);
                if self.is_due(timer, look) {
                    self.retransmit(index);
                }
            }
            Timer::Pace(index) => {
                let look = self.books.flows[index as usize].pace_timer.look(now);
                if self.is_due(timer, look) && self.books.flows[index as usize].open {
                    self.pump(index);
                }
            }
            Timer::Acknowledge(index) => {
                let look = self.books.flows[index as usize].ack_timer.look(now);
                if self.is_due(timer, look) {
                    self.acknowledge(index);
                }
            }
            Timer::App(index) => {
                let look = self.books.flows[index as usize].app.timer.look(now);
                if self.is_due(timer, look) {
                    self.turn(index);
                }
            }
            Timer::Stop(index) => self.stop(index),
            Timer::Arrival(group, process) => self.arrival(group, process),
            Timer::Edge => self.snapshot(),
            Timer::Change(index) => self.change(index as usize),
            Timer::Sample => self.sample(),
        }
    }

    fn retransmit(&mut self, index: u32) {
        let flow = &mut self.books.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        flow.note_window(self.now);
        flow.counts.timeouts += 1;
        let at = flow.sender.on_timeout(self.now, &profile.options);
        self.set_if(at, Timer::Retransmit(index));
        self.pump(index);
        self.record_flow(index);
    }

    /// Sends the acknowledgement that flow `index` has delayed.
    fn acknowledge(&mut self, index: u32) {
        let flow = &mut self.books.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        if let Some(ack) = flow.acknowledge(index, profile, &mut self.books.sacks) {
            self.send(ack);
        }
    }

    fn change(&mut self, index: usize) {
        let (event, link) = self.events[index].clone();
        let (now, order, books) = (self.now, &mut self.order, &mut self.books);
        if let (Some(rate), Some(at)) = (event.rate, link.link) {
            self.network.change_link(now, at, order, books, |transmitter| transmitter.set_rate(now, rate));
        }
        if let (Some(delay), Some(line)) = (event.delay, link.line) {
            self.network.change_line(line, |line| line.set_delay(delay));
        }
        if let Some(spec) = event.loss {
            let loss = Loss::new(spec, part_seed(self.seed, part::LOSS_EVENT, index as u64));
            match (link.link, link.line) {
                (Some(at), _) => {
                    self.network.change_link(now, at, order, books, |transmitter| transmitter.set_loss(loss));
                }
                (None, Some(line)) => self.network.change_line(line, |line| line.set_loss(loss)),
                (None, None) => {}
            }
        }
    }

    fn snapshot(&mut self) {
        for link in 0..self.books.reported_links {
            self.network.queue(self.now, link as u32, &mut self.books);
        }
        for flow in &mut self.books.flows {
            flow.note_window(self.now);
        }
        self.snapshots.push((self.now, self.books.snapshot()));
    }

    fn sample(&mut self) {
        let Some(mut recorder) = self.books.recorder.take() else { return };
        for (index, flow) in self.books.flows.iter().enumerate().filter(|(_, flow)| flow.open) {
            recorder.flow(self.now, index as u32, flow, self.groups[flow.group as usize].profile.mss);
        }
        for index in 0..self.books.reported_links {
            let queue = self.network.queue(self.now, index as u32, &mut self.books);
            let (packets, bytes) = (queue.packets(), queue.bytes());
            recorder.link(self.now, index as u32, packets, bytes, &self.books.links[index]);
        }
        let every = recorder.every;
        self.books.recorder = Some(recorder);
        if let Some(every) = every {
            self.set(self.now + every, Timer::Sample);
        }
    }

    /// Records a flow whose window may have changed, where every event is recorded.
    #[inline]
    fn record_flow(&mut self, index: u32) {
        if self.books.recorder.is_none() {
            return;
        }
        let flow = &self.books.flows[index as usize];
        let mss = self.groups[flow.group as usize].profile.mss;
        if let Some(recorder) = self.books.recorder.as_mut().filter(|recorder| recorder.every.is_none()) {
            recorder.flow(self.now, index, flow, mss);
        }
    }
}
