//! A queue and its server.

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
    /// Time at which the last bit left. With retransmission, the time at which the packet can be
    /// delivered in order.
    pub at: Time,
    /// The packet.
    pub packet: P,
    /// Time at which the packet entered the queue.
    pub enqueued: Time,
    /// Time at which the packet left the queue and its transmission started.
    pub started: Time,
}

/// A queue and its server, without propagation delay: packets enter, and departures come out.
///
/// Each event is played at its own time, however late the transmitter is polled. A transmission
/// starts exactly at the end of the one before, and the queue gets that time. An event at time t
/// is played before an arrival at t. So departures and drops depend on the arrivals only. Times
/// passed in must never go back.
#[derive(Debug)]
pub struct Transmitter<P> {
    queue: AnyQueue<P>,
    schedule: Schedule,
    serving: Option<Serving<P>>,
    /// Time of the next event: the end of the transmission, the next opportunity of a trace, or
    /// the end of a wait that the queue requested.
    event: Time,
    /// Departures that were played and are not yet taken or released, in ascending order of time.
    ready: VecDeque<Departure<P>>,
    /// State that a plain link does not need. It is boxed, and its code is separate, so that a
    /// plain link pays nothing.
    extra: Option<Box<Extra>>,
}

#[derive(Debug)]
struct Serving<P> {
    packet: P,
    enqueued: Time,
    started: Time,
}

/// A trace instead of rates, and a channel that loses packets.
#[derive(Debug)]
struct Extra {
    channel: Option<Channel>,
    /// The fate of the packet in service.
    fate: Fate,
    trace: Option<Opportunities>,
    /// Bytes of the packet in service that the trace has not delivered yet.
    bytes_left: u64,
}

impl Extra {
    const NONE: Extra = Extra { channel: None, fate: Fate::FINE, trace: None, bytes_left: 0 };

    /// Decides the fate of a packet of `bytes` whose transmission starts. Returns the bytes of all
    /// transmissions together.
    #[cold]
    fn take(&mut self, bytes: u64) -> u64 {
        self.fate = self.channel.as_mut().map_or(Fate::FINE, Channel::fate);
        bytes * u64::from(self.fate.tries)
    }

    /// The end of a transmission. Returns the departure unless the channel lost the packet.
    fn depart<P, R: Report<P>>(
        &mut self,
        end: Time,
        serving: Serving<P>,
        report: &mut R,
    ) -> Option<Departure<P>> {
        let Serving { packet, enqueued, started } = serving;
        let at = self.channel.as_mut().map_or(end, |channel| channel.release(end, self.fate));
        match self.fate.lost {
            Some(reason) => {
                report.dropped(end, packet, reason);
                None
            }
            None => {
                report.departed(&packet, started - enqueued);
                Some(Departure { at, packet, enqueued, started })
            }
        }
    }
}

impl<P: Packet> Transmitter<P> {
    /// A queue served at a constant rate.
    pub fn new(queue: AnyQueue<P>, rate: Rate) -> Self {
        Transmitter::scheduled(queue, Schedule::constant(rate))
    }

    /// A queue served at rates that change.
    pub fn piecewise(queue: AnyQueue<P>, rates: &Rates) -> Self {
        Transmitter::scheduled(queue, Schedule::piecewise(rates.first, rates.changes.clone()))
    }

    /// A queue served by a trace. A packet leaves the queue at the opportunity that delivers its
    /// first byte. An opportunity without a packet is wasted.
    pub fn traced(queue: AnyQueue<P>, trace: Arc<Trace>) -> Self {
        let mut transmitter = Transmitter::new(queue, trace.rate());
        transmitter.extra().trace = Some(Opportunities::new(trace));
        transmitter
    }

    fn scheduled(queue: AnyQueue<P>, schedule: Schedule) -> Self {
        Transmitter {
            queue,
            schedule,
            serving: None,
            event: Time::NEVER,
            ready: VecDeque::new(),
            extra: None,
        }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_with(|| Box::new(Extra::NONE))
    }

    /// The same transmitter with a channel that loses packets. Lost packets take their time on the
    /// link and do not depart.
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.extra().channel = Some(Channel::new(loss, None));
        self
    }

    /// The same transmitter with a channel that loses packets, and link-layer retransmission.
    pub fn with_arq(mut self, loss: Loss, arq: Arq) -> Self {
        self.extra().channel = Some(Channel::new(loss, Some(arq)));
        self
    }

    /// Changes the loss of packets whose transmission has not started. Retransmission stays.
    pub fn set_loss(&mut self, loss: Loss) {
        match &mut self.extra().channel {
            Some(channel) => channel.loss = loss,
            channel => *channel = Some(Channel::new(loss, None)),
        }
    }

    /// Plays the events up to and including `now`. Departures are then ready for
    /// [`Transmitter::poll`].
    #[inline]
    pub fn advance<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        if self.is_due(now) {
            self.catch_up(now, report);
        }
    }

    /// A packet arrives. The events up to and including `now` are played first.
    #[inline]
    pub fn offer<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        self.advance(now, report);
        if self.serving.is_some() {
            return self.queue.enqueue(now, packet, report);
        }
        match &self.queue {
            // An idle link takes the packet at once, which saves two copies in the queue.
            AnyQueue::DropTail(queue) if queue.passes(&packet) && self.extra.is_none() => {
                self.begin(now, Dequeued::Packet { packet, enqueued: now });
            }
            _ => self.offer_idle(now, packet, report),
        }
    }

    #[inline(never)]
    fn offer_idle<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        self.queue.enqueue(now, packet, report);
        match self.extra.as_mut().and_then(|extra| extra.trace.as_mut()) {
            Some(trace) => self.event = trace.after(now),
            None => self.start(now, report),
        }
    }

    /// Time of the next departure that is ready, or of the next event; `None` if the transmitter
    /// is idle.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        let next = match self.ready.front() {
            None => self.event,
            Some(departure) => departure.at.min(self.event),
        };
        (next != Time::NEVER).then_some(next)
    }

    /// The next departure up to and including `now`. One for each call; no later event is played.
    #[inline]
    pub fn poll<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Option<Departure<P>> {
        if self.ready.front().is_some_and(|departure| departure.at <= now) {
            return self.ready.pop_front();
        }
        if self.extra.is_some() {
            return self.poll_extra(now, report);
        }
        while self.is_due(now) {
            if let Some(departure) = self.play(report) {
                return Some(departure);
            }
        }
        None
    }

    /// The waiting packets, without the packet in service.
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

    /// Bytes of the packet in service that have passed the link by `now`, after all events up to
    /// `now`. With retransmissions they count as a share of one packet. A packet that will be lost
    /// counts as 0 bytes.
    pub fn sent_in_part(&self, now: Time) -> f64 {
        let Some(Serving { packet, started, .. }) = &self.serving else { return 0.0 };
        let bytes = f64::from(packet.bytes());
        let sent = match self.extra.as_deref() {
            None => self.schedule.sent(*started, now),
            Some(extra) if extra.fate.lost.is_some() => 0.0,
            Some(extra) => {
                let tries = f64::from(extra.fate.tries.max(1));
                match extra.trace {
                    Some(_) => bytes - extra.bytes_left as f64 / tries,
                    None => self.schedule.sent(*started, now) / tries,
                }
            }
        };
        sent.clamp(0.0, bytes)
    }

    /// Departures that were played and are not yet taken or released.
    pub fn ready(&self) -> impl ExactSizeIterator<Item = &Departure<P>> {
        self.ready.iter()
    }

    /// The rate at the start of the last transmission, or the mean rate of a trace.
    pub fn rate(&self) -> Rate {
        self.schedule.rate()
    }

    /// Changes the rate from `now` on, also for the rest of the packet in service. Later changes
    /// of the schedule are removed. A trace does not change.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        let extra = self.extra.as_deref();
        if extra.is_some_and(|extra| extra.trace.is_some()) {
            return;
        }
        self.schedule.set(now, rate);
        // An end before `now` that was not played yet keeps its time.
        if let Some(Serving { packet, started, .. }) = &self.serving
            && self.event > now
        {
            let tries = extra.map_or(1, |extra| extra.fate.tries);
            self.event = self.schedule.finish(*started, u64::from(packet.bytes()) * u64::from(tries));
        }
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.event <= now && self.event != Time::NEVER
    }

    #[inline(always)]
    fn catch_up<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        if self.extra.is_some() {
            return self.catch_up_extra(now, report);
        }
        while self.is_due(now) {
            if let Some(departure) = self.play(report) {
                self.ready.push_back(departure);
            }
        }
    }

    #[inline(never)]
    fn catch_up_extra<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        while self.is_due(now) {
            self.play_extra(report);
        }
    }

    /// Plays the due event of a plain link: the packet in service departs, and the next one
    /// starts.
    // Inlined: to pass a departure in memory would cost more than the rest of the function.
    #[inline(always)]
    fn play<R: Report<P>>(&mut self, report: &mut R) -> Option<Departure<P>> {
        let at = self.event;
        let done = self.serving.take();
        if let Some(Serving { packet, enqueued, started }) = &done {
            report.departed(packet, *started - *enqueued);
        }
        self.start(at, report);
        done.map(|Serving { packet, enqueued, started }| Departure { at, packet, enqueued, started })
    }

    /// The server of a plain link is free. Takes the next packet, or the time at which to ask
    /// again.
    #[inline]
    fn start<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        // Drop-tail is a separate case, so that its packet moves from queue to server in one copy.
        if let AnyQueue::DropTail(queue) = &mut self.queue {
            let dequeued = queue.dequeue(now, report);
            self.begin(now, dequeued);
        } else {
            self.start_other(now, report);
        }
    }

    #[inline(never)]
    fn start_other<R: Report<P>>(&mut self, now: Time, report: &mut R) {
        let dequeued = self.queue.dequeue(now, report);
        self.begin(now, dequeued);
    }

    #[inline]
    fn begin(&mut self, now: Time, dequeued: Dequeued<P>) {
        self.event = match dequeued {
            Dequeued::Packet { packet, enqueued } => {
                let mut bytes = u64::from(packet.bytes());
                if let Some(extra) = &mut self.extra {
                    bytes = extra.take(bytes);
                }
                let end = self.schedule.finish(now, bytes);
                self.serving = Some(Serving { packet, enqueued, started: now });
                end
            }
            Dequeued::NotBefore(time) => time,
            Dequeued::Empty => Time::NEVER,
        };
    }

    #[inline(never)]
    fn poll_extra<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Option<Departure<P>> {
        while self.is_due(now) {
            self.play_extra(report);
            if self.ready.front().is_some_and(|departure| departure.at <= now) {
                return self.ready.pop_front();
            }
        }
        None
    }

    /// Plays the due event of a link with a trace or a channel. Departures become ready.
    fn play_extra<R: Report<P>>(&mut self, report: &mut R) {
        let (at, Some(extra)) = (self.event, &mut self.extra) else { return };
        if extra.trace.is_some() {
            return self.play_opportunity(at, report);
        }
        if let Some(serving) = self.serving.take() {
            self.ready.extend(extra.depart(at, serving, report));
        }
        self.start_other(at, report);
    }

    /// Delivers the bytes of one opportunity: the rest of a packet, whole packets, the start of a
    /// packet.
    fn play_opportunity<R: Report<P>>(&mut self, at: Time, report: &mut R) {
        let Some(extra) = &mut self.extra else { return };
        let Some(trace) = &mut extra.trace else { return };
        let mut budget = trace.bytes();
        self.event = trace.after(at);
        while budget > 0 {
            let serving = match self.serving.take() {
                Some(serving) => serving,
                None => match self.queue.dequeue(at, report) {
                    Dequeued::Packet { packet, enqueued } => {
                        extra.bytes_left = extra.take(u64::from(packet.bytes()));
                        Serving { packet, enqueued, started: at }
                    }
                    // The queue is asked again at the next opportunity.
                    Dequeued::NotBefore(_) => return,
                    Dequeued::Empty => {
                        self.event = Time::NEVER;
                        return;
                    }
                },
            };
            let sent = budget.min(extra.bytes_left);
            budget -= sent;
            extra.bytes_left -= sent;
            if extra.bytes_left > 0 {
                self.serving = Some(serving);
            } else {
                self.ready.extend(extra.depart(at, serving, report));
            }
        }
    }
}
