//! A queue and what serves it.

use crate::channel::{Arq, Channel, Fate, Loss};
use crate::rates::Rates;
use crate::schedule::Schedule;
use crate::trace::{Opportunities, Trace};
use leeway_queue::{AnyQueue, Dequeued, Packet, Queue, Report};
use leeway_units::{Rate, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// A packet that has left a [`Transmitter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure<P> {
    /// When its last bit left (and, with retransmission, when it could be delivered in order).
    pub at: Time,
    /// The packet.
    pub packet: P,
    /// When it entered the queue.
    pub enqueued: Time,
    /// When it left the queue: the start of its transmission.
    pub started: Time,
}

/// A queue and the process that serves it: packets come in, departures come out, without propagation delay.
///
/// It plays each of its own events at the event's own time, however late it is polled: a transmission starts exactly
/// where the one before ended, and the queue hears that time. An event at time t is played before an arrival at t.
/// So departures and drops depend on the arrivals alone. Times given to it must never go back.
#[derive(Debug)]
pub struct Transmitter<P> {
    queue: AnyQueue<P>,
    server: Server,
    serving: Option<Serving<P>>,
    /// The next own event: the end of the transmission, the next opportunity of a trace, or the end of a wait that the
    /// queue asked for.
    event: Time,
    /// Departures that were played but not yet taken or not yet released; times ascend.
    ready: VecDeque<Departure<P>>,
    /// Losses and retransmission; nothing on a perfect link.
    channel: Option<Box<Channel>>,
}

#[derive(Debug)]
enum Server {
    Schedule(Schedule),
    Trace(Opportunities),
}

#[derive(Debug)]
struct Serving<P> {
    packet: P,
    enqueued: Time,
    started: Time,
    fate: Fate,
    /// What a trace has not delivered yet.
    bytes_left: u64,
}

impl<P: Packet> Transmitter<P> {
    /// A queue served at a constant rate.
    pub fn new(queue: AnyQueue<P>, rate: Rate) -> Self {
        Transmitter::over(queue, Server::Schedule(Schedule::constant(rate)))
    }

    /// A queue served at rates that change.
    pub fn piecewise(queue: AnyQueue<P>, rates: &Rates) -> Self {
        Transmitter::over(queue, Server::Schedule(Schedule::piecewise(rates.first, rates.changes.clone())))
    }

    /// A queue served at the delivery opportunities of a trace. A packet is taken from the queue at the
    /// opportunity that delivers its first byte; an opportunity that finds nothing is wasted.
    pub fn traced(queue: AnyQueue<P>, trace: Arc<Trace>) -> Self {
        Transmitter::over(queue, Server::Trace(Opportunities::new(trace)))
    }

    fn over(queue: AnyQueue<P>, server: Server) -> Self {
        Transmitter {
            queue,
            server,
            serving: None,
            event: Time::NEVER,
            ready: VecDeque::new(),
            channel: None,
        }
    }

    /// The same, over a channel that loses packets: they take their time on the link and do not depart.
    pub fn with_loss(self, loss: Loss) -> Self {
        Transmitter { channel: Some(Box::new(Channel { loss, arq: None, released: Time::ZERO })), ..self }
    }

    /// The same, over a channel that loses packets and a link that retransmits them.
    pub fn with_arq(self, loss: Loss, arq: Arq) -> Self {
        Transmitter {
            channel: Some(Box::new(Channel { loss, arq: Some(arq), released: Time::ZERO })),
            ..self
        }
    }

    /// Changes the loss of packets whose transmission has not started; retransmission stays as it is.
    pub fn set_loss(&mut self, loss: Loss) {
        match &mut self.channel {
            Some(channel) => channel.loss = loss,
            None => self.channel = Some(Box::new(Channel { loss, arq: None, released: Time::ZERO })),
        }
    }

    /// A packet arrives. Own events up to and including `now` come first.
    #[inline]
    pub fn offer<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        while self.is_due(now) {
            if let Some(departure) = self.play(report) {
                self.ready.push_back(departure);
            }
        }
        self.queue.enqueue(now, packet, report);
        if self.serving.is_none() {
            match &mut self.server {
                Server::Schedule(_) => self.start(now, report),
                Server::Trace(opportunities) => self.event = opportunities.after(now),
            }
        }
    }

    /// The time of the next departure that is ready or of the next own event; nothing when idle.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let next = match self.ready.front() {
            None => self.event,
            Some(departure) => departure.at.min(self.event),
        };
        (next != Time::NEVER).then_some(next)
    }

    /// The next departure up to and including `now`, one a call. Plays no further than that departure.
    #[inline]
    pub fn poll<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Option<Departure<P>> {
        loop {
            if self.ready.front().is_some_and(|departure| departure.at <= now) {
                return self.ready.pop_front();
            }
            if !self.is_due(now) {
                return None;
            }
            if let Some(departure) = self.play(report) {
                if departure.at <= now && self.ready.is_empty() {
                    return Some(departure);
                }
                self.ready.push_back(departure);
            }
        }
    }

    /// The packets that wait; the one in service is not among them.
    #[inline]
    pub fn queue(&self) -> &AnyQueue<P> {
        &self.queue
    }

    /// Whether a packet is in service.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.serving.is_some()
    }

    /// The packet in service.
    pub fn in_service(&self) -> Option<&P> {
        self.serving.as_ref().map(|serving| &serving.packet)
    }

    /// Departures that were played but not yet taken or not yet released.
    pub fn ready(&self) -> impl ExactSizeIterator<Item = &Departure<P>> {
        self.ready.iter()
    }

    /// The rate at which the last transmission started; the mean rate of a trace.
    pub fn rate(&self) -> Rate {
        match &self.server {
            Server::Schedule(schedule) => schedule.rate(),
            Server::Trace(opportunities) => opportunities.rate(),
        }
    }

    /// Changes the rate from `now` on, also for the rest of the packet in service; what was sent of it counts.
    /// Rate changes that were planned for later are forgotten. A trace is not changed.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        let Server::Schedule(schedule) = &mut self.server else { return };
        schedule.set(now, rate);
        // An end before now that has not been played yet keeps its time.
        if let Some(serving) = &self.serving
            && self.event > now
        {
            self.event = schedule.finish(serving.started, work(&serving.packet, serving.fate));
        }
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.event <= now && self.event != Time::NEVER
    }

    /// Plays the event that is due. A rate ends one transmission: its packet departs and the next one starts.
    #[inline]
    fn play<R: Report<P>>(&mut self, report: &mut R) -> Option<Departure<P>> {
        let at = self.event;
        if let Server::Trace(_) = self.server {
            self.play_opportunity(at, report);
            return None;
        }
        let departure = match self.serving.take() {
            None => None,
            Some(Serving { packet, enqueued, started, fate, .. }) => {
                let departure = Departure { at, packet, enqueued, started };
                match &mut self.channel {
                    None => Some(departure),
                    Some(channel) => depart(channel, departure, fate, report),
                }
            }
        };
        self.start(at, report);
        departure
    }

    /// Takes the next packet from the queue. Only for rates.
    #[inline]
    fn start<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        let Server::Schedule(schedule) = &mut self.server else { return };
        self.event = match self.queue.dequeue(now, report) {
            Dequeued::Packet { packet, enqueued } => {
                let fate = self.channel.as_mut().map_or(Fate::FINE, |channel| channel.fate());
                let end = schedule.finish(now, work(&packet, fate));
                self.serving = Some(Serving { packet, enqueued, started: now, fate, bytes_left: 0 });
                end
            }
            Dequeued::NotBefore(time) => time,
            Dequeued::Empty => Time::NEVER,
        };
    }

    /// Delivers what one opportunity of a trace allows: the rest of a packet, whole packets, the start of one.
    #[cold]
    fn play_opportunity<R: Report<P>>(&mut self, at: Time, report: &mut R) {
        let Server::Trace(opportunities) = &mut self.server else { return };
        let mut budget = opportunities.bytes_at(at);
        self.event = opportunities.after(at);
        loop {
            let mut serving = match self.serving.take() {
                Some(serving) => serving,
                None if budget == 0 => return,
                None => match self.queue.dequeue(at, report) {
                    Dequeued::Packet { packet, enqueued } => {
                        let fate = self.channel.as_mut().map_or(Fate::FINE, |channel| channel.fate());
                        let bytes_left = work(&packet, fate);
                        Serving { packet, enqueued, started: at, fate, bytes_left }
                    }
                    Dequeued::NotBefore(time) => {
                        self.event =
                            opportunities.after(Time::from_nanos(time.nanos().saturating_sub(1)).max(at));
                        return;
                    }
                    Dequeued::Empty => {
                        self.event = Time::NEVER;
                        return;
                    }
                },
            };
            let sent = budget.min(serving.bytes_left);
            budget -= sent;
            serving.bytes_left -= sent;
            if serving.bytes_left > 0 {
                self.serving = Some(serving);
                return;
            }
            let Serving { packet, enqueued, started, fate, .. } = serving;
            let departure = Departure { at, packet, enqueued, started };
            let departure = match &mut self.channel {
                None => Some(departure),
                Some(channel) => depart(channel, departure, fate, report),
            };
            self.ready.extend(departure);
        }
    }
}

/// The bytes that go over the link for one packet, all tries together.
#[inline]
fn work<P: Packet>(packet: &P, fate: Fate) -> u64 {
    u64::from(packet.bytes()) * u64::from(fate.tries)
}

/// The end of a transmission over a channel that loses packets.
fn depart<P, R: Report<P>>(
    channel: &mut Channel,
    done: Departure<P>,
    fate: Fate,
    report: &mut R,
) -> Option<Departure<P>> {
    let at = channel.release(done.at, fate);
    match fate.lost {
        Some(reason) => {
            report.dropped(done.at, done.packet, reason);
            None
        }
        None => Some(Departure { at, ..done }),
    }
}
