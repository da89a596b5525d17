//! The network: each route is a list of delays and transmitters, played in order of time.

use crate::calendar::{Heap, Key, Pipe};
use crate::packet::Packet;
use leeway_link::{Delay, Transmitter};
use leeway_queue::{AnyQueue, Reason, Report};
use leeway_units::{Duration, Time};
use std::collections::BTreeMap;

/// One step of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A fixed delay.
    Pipe(u32),
    /// A delay with jitter, with loss, or with changes during the run.
    Line(u32),
    /// A queue, the transmitter that serves it, and a fixed delay after it.
    Link(u32),
    /// The end of the route: the packet is at its host.
    Arrive,
}

/// One direction of one link, as steps for routes.
#[derive(Debug, Clone, Copy)]
pub struct Built {
    /// The queue with its transmitter, and the propagation delay where that is fixed. Absent
    /// without a queue.
    pub link: Option<Step>,
    /// The rest of the propagation delay.
    pub delay: Propagation,
}

/// Propagation delay of a channel.
#[derive(Debug, Clone, Copy)]
pub enum Propagation {
    /// Constant. Constant delays in a row are added up to one.
    Fixed(Duration),
    /// A delay line of this channel alone.
    Own(Step),
}

/// Receives a call for each thing that happens to a packet on its way.
pub trait Watch {
    /// A packet is offered to `link`.
    fn offered(&mut self, link: u32);
    /// `packet` is dropped by the queue of `link`, or lost on `link`. `None`: on a delay line
    /// without a queue.
    fn dropped(&mut self, now: Time, link: Option<u32>, packet: Packet, reason: Reason);
    /// A packet is marked congestion-experienced at `link`.
    fn marked(&mut self, link: u32);
    /// A packet has left `link`, after `wait` in its queue.
    fn departed(&mut self, link: u32, packet: &Packet, wait: Duration);
    /// A packet was offered to `link`; `queue` is its queue after that.
    fn queued(&mut self, now: Time, link: u32, queue: &AnyQueue<Packet>);
}

/// Passes the reports of one link to a [`Watch`].
struct Reporting<'a, W> {
    watch: &'a mut W,
    link: u32,
}

impl<W: Watch> Report<Packet> for Reporting<'_, W> {
    #[inline]
    fn dropped(&mut self, now: Time, packet: Packet, reason: Reason) {
        self.watch.dropped(now, Some(self.link), packet, reason);
    }

    #[inline]
    fn marked(&mut self, _: Time, _: &Packet, _: Reason) {
        self.watch.marked(self.link);
    }

    #[inline]
    fn departed(&mut self, packet: &Packet, wait: Duration) {
        self.watch.departed(self.link, packet, wait);
    }
}

/// Passes the losses of a delay line to a [`Watch`].
struct Losses<'a, W> {
    watch: &'a mut W,
}

impl<W: Watch> Report<Packet> for Losses<'_, W> {
    fn dropped(&mut self, now: Time, packet: Packet, reason: Reason) {
        self.watch.dropped(now, None, packet, reason);
    }
}

/// What an entry of the calendar belongs to.
#[derive(Debug, Clone, Copy)]
enum Source {
    Pipe(u32),
    Line(u32),
    Link(u32),
}

/// All links, and the packets on them.
#[derive(Debug, Default)]
pub struct Network {
    /// Routes, one after the other, each ending in [`Step::Arrive`].
    pub steps: Vec<Step>,
    pipes: Vec<Pipe<Packet>>,
    /// Index of the pipe for each delay: routes with equal delays share one.
    pipe_of: BTreeMap<Duration, u32>,
    lines: Vec<Scheduled<Delay<Packet>>>,
    links: Vec<Link>,
    sources: Heap<Source>,
}

/// A transmitter and the fixed delay after it.
///
/// The transmitter plays departures at their own times whenever it is polled. So the calendar has
/// no entry for a departure. It has one for the arrival after the delay, which polls the
/// transmitter: one event for each packet instead of two.
#[derive(Debug)]
struct Link {
    transmitter: Transmitter<Packet>,
    delay: Duration,
    /// Time of this link's entry in the calendar; `NEVER` without one.
    at: Time,
}

impl Link {
    /// Time of the next arrival after the delay, as known now.
    #[inline]
    fn next(&self) -> Option<Time> {
        self.transmitter.next().map(|departure| departure + self.delay)
    }
}

/// A source whose next event can move.
#[derive(Debug)]
struct Scheduled<S> {
    source: S,
    /// Time of this source's entry in the calendar; `NEVER` without one.
    at: Time,
}

impl<S> Scheduled<S> {
    fn new(source: S) -> Self {
        Scheduled { source, at: Time::NEVER }
    }

    /// Notes the source's next event. Returns its time if the calendar needs an earlier entry.
    #[inline]
    fn missing(&mut self, next: Option<Time>) -> Option<Time> {
        let next = next.filter(|&next| next < self.at)?;
        self.at = next;
        Some(next)
    }
}

impl Network {
    /// The step for a fixed delay. Routes with the same delay share a pipe.
    pub fn pipe(&mut self, delay: Duration) -> Step {
        let pipes = &mut self.pipes;
        let index = *self.pipe_of.entry(delay).or_insert_with(|| {
            pipes.push(Pipe::new(delay));
            pipes.len() as u32 - 1
        });
        Step::Pipe(index)
    }

    /// Adds a delay line of one channel; returns its step.
    pub fn line(&mut self, delay: Delay<Packet>) -> Step {
        self.lines.push(Scheduled::new(delay));
        Step::Line(self.lines.len() as u32 - 1)
    }

    /// Adds a transmitter with a fixed delay after it; returns its step.
    pub fn link(&mut self, transmitter: Transmitter<Packet>, delay: Duration) -> Step {
        self.links.push(Link { transmitter, delay, at: Time::NEVER });
        Step::Link(self.links.len() as u32 - 1)
    }

    /// Appends a route: `first`, then `sides`, then `last`. Returns the index of its first step.
    pub fn lay(&mut self, first: Duration, sides: impl Iterator<Item = Built>, last: Duration) -> u32 {
        let begin = self.steps.len();
        let mut delay = first;
        for side in sides {
            if let Some(step) = side.link {
                self.lay_delay(&mut delay);
                self.steps.push(step);
            }
            match side.delay {
                Propagation::Fixed(span) => delay += span,
                Propagation::Own(step) => {
                    self.lay_delay(&mut delay);
                    self.steps.push(step);
                }
            }
        }
        delay += last;
        if self.steps.len() == begin {
            // nothing arrives in the instant in which it is sent
            delay = delay.max(Duration::from_nanos(1));
        }
        self.lay_delay(&mut delay);
        self.steps.push(Step::Arrive);
        begin as u32
    }

    /// Appends a step for `delay`, unless it is zero, and sets it to zero.
    fn lay_delay(&mut self, delay: &mut Duration) {
        if !delay.is_zero() {
            let step = self.pipe(*delay);
            self.steps.push(step);
            *delay = Duration::ZERO;
        }
    }

    /// Number of links.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Plays link `link` up to `now` and returns its queue.
    pub fn queue<W: Watch>(&mut self, now: Time, link: u32, watch: &mut W) -> &AnyQueue<Packet> {
        let entry = &mut self.links[link as usize];
        entry.transmitter.advance(now, &mut Reporting { watch, link });
        entry.transmitter.queue()
    }

    /// Bytes of the packet in service at link `link` that have left by `now`. The link has to be
    /// played up to `now`.
    pub fn sent_in_part(&self, now: Time, link: u32) -> f64 {
        self.links[link as usize].transmitter.sent_in_part(now)
    }

    /// Changes the transmitter of link `link` at `now`, and puts an earlier next arrival into the
    /// calendar.
    pub fn change_link<W: Watch>(
        &mut self,
        now: Time,
        link: u32,
        order: &mut u64,
        watch: &mut W,
        change: impl FnOnce(&mut Transmitter<Packet>),
    ) {
        let entry = &mut self.links[link as usize];
        entry.transmitter.advance(now, &mut Reporting { watch, link });
        change(&mut entry.transmitter);
        if let Some(next) = entry.next().filter(|&next| next < entry.at) {
            entry.at = next;
            self.sources.push(Key::new(next, tick(order)), Source::Link(link));
        }
    }

    /// Changes line `line`.
    pub fn change_line(&mut self, line: u32, change: impl FnOnce(&mut Delay<Packet>)) {
        change(&mut self.lines[line as usize].source);
    }

    /// Key of the next event.
    #[inline]
    pub fn next(&self) -> Key {
        self.sources.next()
    }

    /// Hands `packet` to the step that it is at. Returns the packet if that is its host.
    // A packet that is passed in memory is read back word by word, which is half the cost of an
    // event. Inlining avoids it.
    #[inline(always)]
    pub fn forward<W: Watch>(
        &mut self,
        now: Time,
        packet: Packet,
        order: &mut u64,
        watch: &mut W,
    ) -> Option<Packet> {
        match self.steps[packet.step()] {
            Step::Pipe(at) => {
                if let Some(key) = self.pipes[at as usize].push(now, tick(order), packet) {
                    self.sources.push(key, Source::Pipe(at));
                }
                None
            }
            Step::Link(link) => {
                let entry = &mut self.links[link as usize];
                watch.offered(link);
                entry.transmitter.offer(now, packet, &mut Reporting { watch, link });
                watch.queued(now, link, entry.transmitter.queue());
                if entry.at == Time::NEVER
                    && let Some(next) = entry.next()
                {
                    entry.at = next;
                    self.sources.push(Key::new(next, tick(order)), Source::Link(link));
                }
                None
            }
            Step::Line(at) => {
                let entry = &mut self.lines[at as usize];
                entry.source.offer(now, packet, &mut Losses { watch });
                if let Some(next) = entry.missing(entry.source.next()) {
                    self.sources.push(Key::new(next, tick(order)), Source::Line(at));
                }
                None
            }
            Step::Arrive => Some(packet),
        }
    }

    /// Plays the next event. Returns the packet if it has reached its host.
    #[inline]
    pub fn play<W: Watch>(&mut self, order: &mut u64, watch: &mut W) -> Option<Packet> {
        let &(key, source) = self.sources.first()?;
        let now = key.time();
        let mut packet = match source {
            Source::Pipe(at) => {
                let (packet, next) = self.pipes[at as usize].pop()?;
                match next {
                    Some(key) => self.sources.delay_first(key),
                    None => self.sources.pop(),
                }
                packet
            }
            Source::Link(link) => {
                let entry = &mut self.links[link as usize];
                if entry.at != now {
                    // the source has fired at an earlier entry
                    self.sources.pop();
                    return None;
                }
                let departure = entry.transmitter.poll(now - entry.delay, &mut Reporting { watch, link });
                let next = entry.next();
                Self::reschedule(&mut self.sources, &mut entry.at, next, order);
                departure?.packet
            }
            Source::Line(at) => {
                let entry = &mut self.lines[at as usize];
                if entry.at != now {
                    self.sources.pop();
                    return None;
                }
                let arrival = entry.source.poll(now);
                Self::reschedule(&mut self.sources, &mut entry.at, entry.source.next(), order);
                arrival?.1
            }
        };
        packet.advance();
        self.forward(now, packet, order, watch)
    }

    /// Moves the first entry of the calendar to `next`, or removes it.
    #[inline(always)]
    fn reschedule(sources: &mut Heap<Source>, at: &mut Time, next: Option<Time>, order: &mut u64) {
        match next {
            Some(next) => {
                *at = next;
                sources.delay_first(Key::new(next, tick(order)));
            }
            None => {
                *at = Time::NEVER;
                sources.pop();
            }
        }
    }
}

/// Counts one insertion into a calendar. Entries of equal time are played in this order.
#[inline]
pub fn tick(order: &mut u64) -> u64 {
    *order += 1;
    *order
}
