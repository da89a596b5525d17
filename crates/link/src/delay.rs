//! Propagation: each packet leaves later, with or without jitter, in order or reordered.

use crate::channel::Loss;
use leeway_queue::{Chance, Reason, Report, named, params};
use leeway_units::{Duration, Time};
use std::collections::VecDeque;

params! {
    /// Parameters of uniform jitter.
    pub struct UniformJitterParams: "uniform", "A delay added that is uniform between 0 and a bound", "-" {
        /// The largest delay added.
        range: Duration = Duration::from_millis(1), ..;
        /// Whether a packet may overtake another.
        reorder: bool = false, ..;
    }
}

params! {
    /// Parameters of normal jitter.
    pub struct NormalJitterParams: "normal", "A delay added or taken away, normal about 0; never below no delay at all", "as Linux netem" {
        /// The standard deviation.
        deviation: Duration = Duration::from_millis(1), ..;
        /// Whether a packet may overtake another.
        reorder: bool = false, ..;
    }
}

params! {
    /// Parameters of exponential jitter.
    pub struct ExponentialJitterParams: "exponential", "A delay added that is exponential", "-" {
        /// The mean of the delay added.
        mean: Duration = Duration::from_millis(1), ..;
        /// Whether a packet may overtake another.
        reorder: bool = false, ..;
    }
}

params! {
    /// Parameters of aggregation.
    pub struct AggregateJitterParams: "aggregate", "Packets wait for the medium and come out together, as in an aggregate of Wi-Fi or as compressed ACKs", "IEEE 802.11n A-MPDU" {
        /// The mean time from the first packet until the medium is free; each time is uniform
        /// between half of it and one and a half times of it.
        wait: Duration = Duration::from_millis(4), ..;
    }
}

named! {
    /// How the delay varies from packet to packet, as plain data:
    /// `uniform:range=5ms,reorder=true`.
    pub enum JitterSpec: "Jitter", "jitter model", "uniform:range=5ms,reorder=true" {
        /// Uniform.
        Uniform(UniformJitterParams),
        /// Normal.
        Normal(NormalJitterParams),
        /// Exponential.
        Exponential(ExponentialJitterParams),
        /// All that enter while the first one waits come out with it.
        Aggregate(AggregateJitterParams),
    }
}

impl JitterSpec {
    /// Whether a packet may overtake another.
    pub fn reorders(&self) -> bool {
        match self {
            JitterSpec::Uniform(params) => params.reorder,
            JitterSpec::Normal(params) => params.reorder,
            JitterSpec::Exponential(params) => params.reorder,
            JitterSpec::Aggregate(_) => false,
        }
    }
}

/// A jitter model in use.
#[derive(Debug, Clone)]
struct Jitter {
    spec: JitterSpec,
    chance: Chance,
    /// Time at which the medium is free for the waiting packets (aggregation).
    free: Time,
}

impl Jitter {
    fn new(spec: JitterSpec, seed: u64) -> Self {
        Jitter { spec, chance: Chance::new(seed), free: Time::ZERO }
    }

    /// The delay of a packet that enters at `now`.
    fn vary(&mut self, now: Time, delay: Duration) -> Duration {
        let chance = &mut self.chance;
        let added = match &self.spec {
            JitterSpec::Uniform(params) => params.range.secs_f64() * chance.uniform(),
            // The sum of twelve uniform numbers is nearly normal, up to six deviations. It is the
            // same on every machine.
            JitterSpec::Normal(params) => {
                let sum: f64 = (0..12).map(|_| chance.uniform()).sum();
                params.deviation.secs_f64() * (sum - 6.0)
            }
            JitterSpec::Exponential(params) => -params.mean.secs_f64() * (1.0 - chance.uniform()).ln(),
            JitterSpec::Aggregate(params) => {
                if self.free <= now {
                    let wait = params.wait.secs_f64() * (0.5 + chance.uniform());
                    self.free = now + Duration::from_secs_f64(wait);
                }
                return delay + (self.free - now);
            }
        };
        if added < 0.0 {
            delay - Duration::from_secs_f64(-added)
        } else {
            delay + Duration::from_secs_f64(added)
        }
    }
}

/// A delay line for packets or other values.
///
/// The delay of a packet is fixed when the packet enters, so the times of polling change nothing.
/// The order is kept unless reordering is on: a packet that would overtake leaves together with
/// the packet before it.
#[derive(Debug, Clone)]
pub struct Delay<P> {
    delay: Duration,
    jitter: Option<Jitter>,
    loss: Option<Loss>,
    reorder: bool,
    /// Packets on the line, in ascending order of time. Packets with the same time are in the
    /// order of their entry.
    flying: VecDeque<(Time, P)>,
}

impl<P> Delay<P> {
    /// A line on which every packet takes `delay`.
    pub fn fixed(delay: Duration) -> Self {
        Delay { delay, jitter: None, loss: None, reorder: false, flying: VecDeque::new() }
    }

    /// A line on which the delay varies about `delay`.
    pub fn jittered(delay: Duration, jitter: JitterSpec, seed: u64) -> Self {
        let reorder = jitter.reorders();
        Delay { jitter: Some(Jitter::new(jitter, seed)), reorder, ..Delay::fixed(delay) }
    }

    /// The same line, on which offered packets may be lost.
    pub fn with_loss(self, loss: Loss) -> Self {
        Delay { loss: Some(loss), ..self }
    }

    /// The same line, on which packets may overtake others when the delay shrinks.
    pub fn with_reordering(self, reorder: bool) -> Self {
        Delay { reorder, ..self }
    }

    /// The delay without jitter.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Changes the delay of packets that enter from now on, as a change of route does.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Changes the loss of packets that enter from now on.
    pub fn set_loss(&mut self, loss: Loss) {
        self.loss = Some(loss);
    }

    /// A packet enters, or is lost.
    #[inline]
    pub fn offer<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        if let Some(loss) = &mut self.loss
            && loss.is_lost()
        {
            return report.dropped(now, packet, Reason::Loss);
        }
        self.push(now, packet);
    }

    /// A packet enters, without loss.
    #[inline]
    pub fn push(&mut self, now: Time, packet: P) {
        let delay = match &mut self.jitter {
            None => self.delay,
            Some(jitter) => jitter.vary(now, self.delay),
        };
        let at = now + delay;
        match self.flying.back() {
            Some(&(last, _)) if at < last => self.overtake(at, last, packet),
            _ => self.flying.push_back((at, packet)),
        }
    }

    #[cold]
    fn overtake(&mut self, at: Time, last: Time, packet: P) {
        if self.reorder {
            let index = self.flying.partition_point(|&(other, _)| other <= at);
            self.flying.insert(index, (at, packet));
        } else {
            self.flying.push_back((last, packet));
        }
    }

    /// Time at which the next packet leaves.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.flying.front().map(|&(at, _)| at)
    }

    /// The next packet that has left by `now`, with its time. One packet for each call.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<(Time, P)> {
        match self.flying.front() {
            Some(&(at, _)) if at <= now => self.flying.pop_front(),
            _ => None,
        }
    }

    /// Number of packets on the line.
    pub fn len(&self) -> usize {
        self.flying.len()
    }

    /// Whether no packet is on the line.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }
}
