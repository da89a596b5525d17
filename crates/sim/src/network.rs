//! Packets between hosts: routes made of delay lines and transmitters, played in order of time.

use crate::calendar::{Heap, Key, Pipe};
use crate::packet::Packet;
use leeway_link::{Delay, Transmitter};
use leeway_queue::{AnyQueue, Reason, Report};
use leeway_units::{Duration, Time};
use std::collections::BTreeMap;

/// Where a packet is next on its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A delay that never changes.
    Pipe(u32),
    /// A delay with jitter, loss or changes during the run.
    Line(u32),
    /// A queue, what serves it and the delay after it.
    Link(u32),
    /// The end: it is at its host.
    Arrive,
}

/// One direction of one link, built.
#[derive(Debug, Clone, Copy)]
pub struct Built {
    /// Its queue and, where that never changes, its delay.
    pub link: Option<Step>,
    /// What is left of its delay.
    pub delay: Propagation,
}

/// The delay of a channel, as a route meets it.
#[derive(Debug, Clone, Copy)]
pub enum Propagation {
    /// Never changes: delays that follow each other become one.
    Fixed(Duration),
    /// Has a life of its own.
    Own(Step),
}

/// Hears what happens to packets on the way.
pub trait Watch {
    /// A packet is offered to `link`.
    fn offered(&mut self, link: u32);
    /// `packet` is dropped at, or lost on, `link`, or on a line without a queue.
    fn dropped(&mut self, now: Time, link: Option<u32>, packet: Packet, reason: Reason);
    /// A packet is marked congestion-experienced at `link`.
    fn marked(&mut self, link: u32);
    /// A packet has left `link`, after `wait` in its queue.
    fn departed(&mut self, link: u32, packet: &Packet, wait: Duration);
    /// A packet was offered to `link`: what its queue holds now.
    fn queued(&mut self, now: Time, link: u32, queue: &AnyQueue<Packet>);
}

/// A [`Watch`] as the report of one link.
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

/// A [`Watch`] as the report of a line, which has no queue and no name.
struct Losses<'a, W> {
    watch: &'a mut W,
}

impl<W: Watch> Report<Packet> for Losses<'_, W> {
    fn dropped(&mut self, now: Time, packet: Packet, reason: Reason) {
        self.watch.dropped(now, None, packet, reason);
    }
}

/// A source of events in the calendar.
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
    /// The delay line of each delay, for building.
    pipe_of: BTreeMap<Duration, u32>,
    lines: Vec<Scheduled<Delay<Packet>>>,
    links: Vec<Link>,
    sources: Heap<Source>,
}

/// A transmitter and the fixed delay after it.
///
/// A transmitter plays its events at their own times whenever it is polled. So nobody wakes it when a packet
/// has left: it is polled when that packet has arrived, and one event a packet is saved.
#[derive(Debug)]
struct Link {
    transmitter: Transmitter<Packet>,
    delay: Duration,
    /// The arrival that stands in the calendar.
    at: Time,
}

impl Link {
    /// The next arrival after the delay, as far as it is known now.
    #[inline]
    fn next(&self) -> Option<Time> {
        self.transmitter.next().map(|departure| departure + self.delay)
    }
}

/// A source whose next event can move: `at` is the one that stands in the calendar.
#[derive(Debug)]
struct Scheduled<S> {
    source: S,
    at: Time,
}

impl<S> Scheduled<S> {
    fn new(source: S) -> Self {
        Scheduled { source, at: Time::NEVER }
    }

    /// The source's next event is `next`: an instant if the calendar lacks it.
    #[inline]
    fn missing(&mut self, next: Option<Time>) -> Option<Time> {
        let next = next.filter(|&next| next < self.at)?;
        self.at = next;
        Some(next)
    }
}

impl Network {
    /// Adds a delay line for every packet that needs just this delay; its step.
    pub fn pipe(&mut self, delay: Duration) -> Step {
        let pipes = &mut self.pipes;
        let index = *self.pipe_of.entry(delay).or_insert_with(|| {
            pipes.push(Pipe::new(delay));
            pipes.len() as u32 - 1
        });
        Step::Pipe(index)
    }

    /// Adds a delay with a life of its own; its step.
    pub fn line(&mut self, delay: Delay<Packet>) -> Step {
        self.lines.push(Scheduled::new(delay));
        Step::Line(self.lines.len() as u32 - 1)
    }

    /// Adds a transmitter with a fixed delay after it; its step.
    pub fn link(&mut self, transmitter: Transmitter<Packet>, delay: Duration) -> Step {
        self.links.push(Link { transmitter, delay, at: Time::NEVER });
        Step::Link(self.links.len() as u32 - 1)
    }

    /// Lays one route: `first`, then `sides`, then `last`; where it begins.
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
            delay = delay.max(Duration::from_nanos(1)); // nothing arrives in the instant it is sent
        }
        self.lay_delay(&mut delay);
        self.steps.push(Step::Arrive);
        begin as u32
    }

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

    /// Plays link `link` up to `now` and shows its queue.
    pub fn queue<W: Watch>(&mut self, now: Time, link: u32, watch: &mut W) -> &AnyQueue<Packet> {
        let entry = &mut self.links[link as usize];
        entry.transmitter.advance(now, &mut Reporting { watch, link });
        entry.transmitter.queue()
    }

    /// Bytes of the packet in service of link `link` that have left by `now`, up to which it was played.
    pub fn sent_in_part(&self, now: Time, link: u32) -> f64 {
        self.links[link as usize].transmitter.sent_in_part(now)
    }

    /// Changes the transmitter of link `link` at `now`, and looks again when its next arrival is.
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

    /// When something happens next.
    #[inline]
    pub fn next(&self) -> Key {
        self.sources.next()
    }

    /// Takes `packet` at its step: into a line or queue; back if it is at its host already.
    #[inline(always)] // a packet handed over in memory is read back word by word: half the cost of an event
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

    /// Plays the next event; a packet if it brought one to its host.
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
                    self.sources.pop(); // an earlier entry has overtaken this one
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

    /// Moves the calendar's first entry to its source's next event.
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

/// The next number of insertion.
#[inline]
pub fn tick(order: &mut u64) -> u64 {
    *order += 1;
    *order
}
