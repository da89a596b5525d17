//! A queue and what serves it.

use crate::schedule::Schedule;
use leeway_queue::{AnyQueue, Dequeued, Packet, Queue, Report};
use leeway_units::{Rate, Time};
use std::collections::VecDeque;

/// A packet that has left a [`Transmitter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure<P> {
    /// When its last bit left.
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
    schedule: Schedule,
    serving: Option<Serving<P>>,
    /// The next own event: the end of the transmission, or the end of a wait that the queue asked for.
    event: Time,
    /// Departures that were played but not yet taken; times ascend.
    ready: VecDeque<Departure<P>>,
}

#[derive(Debug)]
struct Serving<P> {
    packet: P,
    enqueued: Time,
    started: Time,
}

impl<P: Packet> Transmitter<P> {
    /// A queue served at a constant rate.
    pub fn new(queue: AnyQueue<P>, rate: Rate) -> Self {
        Transmitter {
            queue,
            schedule: Schedule::constant(rate),
            serving: None,
            event: Time::NEVER,
            ready: VecDeque::new(),
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
            self.start(now, report);
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
        if let Some(departure) = self.ready.front() {
            if departure.at <= now {
                return self.ready.pop_front();
            }
        }
        while self.is_due(now) {
            if let Some(departure) = self.play(report) {
                return Some(departure);
            }
        }
        None
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

    /// The rate at which the last transmission started.
    pub fn rate(&self) -> Rate {
        self.schedule.rate()
    }

    /// Changes the rate from `now` on, also for the rest of the packet in service; what was sent of it counts.
    /// Rate changes that were planned for later are forgotten.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.schedule.set(now, rate);
        // An end before now that has not been played yet keeps its time.
        if let Some(serving) = &self.serving
            && self.event > now
        {
            self.event = self.schedule.finish(serving.started, serving.packet.bytes());
        }
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.event <= now && self.event != Time::NEVER
    }

    /// Plays the event that is due: the packet in service leaves and the next one starts.
    #[inline]
    fn play<R: Report<P>>(&mut self, report: &mut R) -> Option<Departure<P>> {
        let at = self.event;
        let done = self.serving.take();
        self.start(at, report);
        done.map(|Serving { packet, enqueued, started }| Departure { at, packet, enqueued, started })
    }

    #[inline]
    fn start<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        self.event = match self.queue.dequeue(now, report) {
            Dequeued::Packet { packet, enqueued } => {
                let end = self.schedule.finish(now, packet.bytes());
                self.serving = Some(Serving { packet, enqueued, started: now });
                end
            }
            Dequeued::NotBefore(time) => time,
            Dequeued::Empty => Time::NEVER,
        };
    }
}
