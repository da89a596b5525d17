//! A whole link: queue, server, losses and propagation.

use crate::channel::{Arq, Loss, LossSpec};
use crate::delay::{Delay, JitterSpec};
use crate::rates::Rates;
use crate::trace::Trace;
use crate::transmitter::{Departure, Transmitter};
use leeway_queue::{AnyQueue, BuildContext, Packet, QueueSpec, Report};
use leeway_units::{Duration, Rate, Size, Time};
use std::sync::Arc as Shared;

/// The server of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// A rate, perhaps with changes.
    Rates(Rates),
    /// A trace of delivery opportunities.
    Trace(Shared<Trace>),
}

impl Service {
    /// The rate at the start, or the mean rate of a trace.
    pub fn rate(&self) -> Rate {
        match self {
            Service::Rates(rates) => rates.first,
            Service::Trace(trace) => trace.rate(),
        }
    }
}

/// One direction of a link, as plain data. [`LinkSpec::new`] gives a plain link; further properties
/// are set by assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LinkSpec {
    /// The server of the queue.
    pub service: Service,
    /// The queue discipline.
    pub queue: QueueSpec,
    /// The buffer in packets, in bytes, or unlimited.
    pub buffer: Size,
    /// The propagation delay.
    pub delay: Duration,
    /// How the delay varies.
    pub jitter: Option<JitterSpec>,
    /// How the link loses packets.
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission of lost packets.
    pub arq: Option<Arq>,
    /// Mean packet length in bytes, for disciplines that use one.
    pub mean_packet: u32,
}

impl LinkSpec {
    /// A drop-tail link without delay and losses.
    pub fn new(rate: Rate, buffer: Size) -> Self {
        LinkSpec {
            service: Service::Rates(rate.into()),
            queue: QueueSpec::default(),
            buffer,
            delay: Duration::ZERO,
            jitter: None,
            loss: None,
            arq: None,
            mean_packet: 1500,
        }
    }

    /// The queue with its server. The seeds of queue, loss and jitter are derived from `seed`.
    pub fn transmitter<P: Packet>(&self, seed: u64) -> Transmitter<P> {
        let mut context = BuildContext::new(self.buffer, self.service.rate());
        context.delay = self.delay;
        context.seed = seed;
        context.mean_packet = self.mean_packet;
        let queue: AnyQueue<P> = self.queue.build(&context);
        let transmitter = match &self.service {
            Service::Rates(rates) => Transmitter::piecewise(queue, rates),
            Service::Trace(trace) => Transmitter::traced(queue, trace.clone()),
        };
        match (&self.loss, &self.arq) {
            (None, _) => transmitter,
            (Some(loss), None) => transmitter.with_loss(Loss::new(loss.clone(), seed.wrapping_add(1))),
            (Some(loss), Some(arq)) => {
                transmitter.with_arq(Loss::new(loss.clone(), seed.wrapping_add(1)), arq.clone())
            }
        }
    }

    /// The propagation.
    pub fn propagation<P>(&self, seed: u64) -> Delay<P> {
        match &self.jitter {
            None => Delay::fixed(self.delay),
            Some(jitter) => Delay::jittered(self.delay, jitter.clone(), seed.wrapping_add(2)),
        }
    }

    /// The whole link.
    pub fn build<P: Packet>(&self, seed: u64) -> Link<P> {
        Link::new(self.transmitter(seed), self.propagation(seed))
    }
}

/// A [`Transmitter`] and the [`Delay`] behind it, for one direction of a link.
#[derive(Debug)]
pub struct Link<P> {
    transmitter: Transmitter<P>,
    delay: Delay<Departure<P>>,
}

/// A packet at the far end of a [`Link`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<P> {
    /// Time at which the packet left the link.
    pub at: Time,
    /// The packet.
    pub packet: P,
    /// Time at which the packet entered the queue.
    pub enqueued: Time,
    /// Time at which the packet left the transmitter.
    pub sent: Time,
}

impl<P: Packet> Link<P> {
    /// A link from its two parts.
    pub fn new(transmitter: Transmitter<P>, delay: Delay<Departure<P>>) -> Self {
        Link { transmitter, delay }
    }

    /// A packet arrives at the near end. The link's events up to and including `now` are played
    /// first.
    pub fn offer<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        self.transmitter.offer(now, packet, report);
    }

    /// Time of the link's next event; `None` if no packet is in the link.
    pub fn next(&self) -> Option<Time> {
        match (self.transmitter.next(), self.delay.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next packet that left the far end by `now`. One packet for each call.
    pub fn poll<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Option<Arrival<P>> {
        while let Some(departure) = self.transmitter.poll(now, report) {
            self.delay.push(departure.at, departure);
        }
        let (at, Departure { at: sent, packet, enqueued, .. }) = self.delay.poll(now)?;
        Some(Arrival { at, packet, enqueued, sent })
    }

    /// Changes the propagation delay of packets that leave the transmitter after `now`.
    pub fn set_delay<R: Report<P>>(&mut self, now: Time, delay: Duration, report: &mut R) {
        while let Some(departure) = self.transmitter.poll(now, report) {
            self.delay.push(departure.at, departure);
        }
        self.delay.set_delay(delay);
    }

    /// Changes the rate from `now` on; see [`Transmitter::set_rate`].
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.transmitter.set_rate(now, rate);
    }

    /// The transmitter at the near end.
    pub fn transmitter(&self) -> &Transmitter<P> {
        &self.transmitter
    }

    /// Number of packets behind the transmitter.
    pub fn flying(&self) -> usize {
        self.delay.len()
    }
}
