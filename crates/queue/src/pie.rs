//! PIE: drops arrivals at random. A proportional-integral controller sets the probability (RFC
//! 8033).
//!
//! # Scope and limitations
//! - The delay is the sojourn time of the last packet that left. RFC 8033, 4.3, allows this, and
//!   it needs no minimum backlog. With `delay=rate` the delay is the backlog over an estimate of
//!   the departure rate (5.2).
//! - Updates happen at multiples of the update period.
//! - Not included: switching the controller off below a third of the buffer (5.3), overload
//!   control by delay, and the DOCSIS variant.
//! - `variant=early` is the algorithm of Pan et al. (HPSR 2013) and of the first draft. It has a
//!   coarser auto-tuning, no de-randomisation, no limit of steps, its own constants, and the delay
//!   by departure rate.

use crate::chance::Chance;
use crate::fifo::{Fifo, Limit};
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Bytes, Duration, Size, Time};

crate::choice! {
    /// Which publication of PIE.
    pub enum PieVariant {
        /// RFC 8033.
        Rfc8033 = "rfc8033",
        /// HPSR 2013.
        Early = "early",
    }
}

crate::choice! {
    /// How PIE learns the queuing delay.
    pub enum PieDelay {
        /// The time that the last packet spent in the queue.
        Timestamp = "timestamp",
        /// Backlog over the estimated departure rate.
        Rate = "rate",
    }
}

crate::params! {
    /// Parameters of [`Pie`].
    pub struct PieParams: "pie", "Drops arrivals at random to hold the queuing delay at a reference", "RFC 8033" {
        /// The buffer; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// Which publication.
        variant: PieVariant = PieVariant::Rfc8033, ..;
        /// The reference delay; auto: 15 ms (early: 20 ms).
        target: Option<Duration> = None, Duration::from_micros(1)..=Duration::from_secs(100);
        /// The update period; auto: 15 ms (early: 30 ms).
        update: Option<Duration> = None, Duration::from_micros(100)..=Duration::from_secs(100);
        /// The burst that passes without drops; auto: 150 ms (early: 100 ms).
        burst: Option<Duration> = None, Duration::ZERO..=Duration::from_secs(100);
        /// The weight of the distance from the reference, in 1/s.
        alpha: f64 = 0.125, 0.0..=1000.0;
        /// The weight of the change of the delay, in 1/s.
        beta: f64 = 1.25, 0.0..=1000.0;
        /// How the delay is learnt; auto: timestamp (early: rate).
        delay: Option<PieDelay> = None, ..;
        /// The backlog with which a measurement of the departure rate starts; auto: 16 KiB (early:
        /// 10 kB).
        threshold: Option<Bytes> = None, Bytes::new(1)..=Bytes::new(1 << 30);
        /// Whether to mark packets that can be marked instead of dropping them.
        ecn: bool = false, ..;
        /// The drop probability up to which packets are marked; above it they are dropped.
        ecn_max: f64 = 0.1, 0.0..=1.0;
    }
}

impl PieParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Pie(Box::new(Pie::new(self, context)))
    }
}

/// RFC 8033, 4.1: the mean packet size in bytes, for the rule that two packets may always wait.
const MEAN_PACKET: u64 = 1024;

/// The departure rate, measured while there is a backlog (RFC 8033, 5.2).
#[derive(Debug, Clone)]
struct DepartureRate {
    threshold: u64,
    /// Start of the measurement, and the bytes since then.
    cycle: Option<(Time, u64)>,
    bytes_per_sec: f64,
}

impl DepartureRate {
    fn left(&mut self, now: Time, bytes: u32, backlog: u64) {
        if self.cycle.is_none() && backlog >= self.threshold {
            self.cycle = Some((now, 0));
        }
        let Some((start, sent)) = &mut self.cycle else { return };
        *sent += u64::from(bytes);
        let span = now.since(*start).secs_f64();
        if *sent < self.threshold || span == 0.0 {
            return;
        }
        let rate = *sent as f64 / span;
        // RFC 8033, 5.2: an average with weight 1/2.
        self.bytes_per_sec =
            if self.bytes_per_sec == 0.0 { rate } else { 0.5 * self.bytes_per_sec + 0.5 * rate };
        self.cycle = (backlog >= self.threshold).then_some((now, 0));
    }

    fn delay(&self, backlog: u64) -> f64 {
        if self.bytes_per_sec > 0.0 { backlog as f64 / self.bytes_per_sec } else { 0.0 }
    }
}

/// Proportional-integral controller enhanced.
#[derive(Debug, Clone)]
pub struct Pie<P> {
    fifo: Fifo<P>,
    limit: Limit,
    chance: Chance,
    variant: PieVariant,
    method: PieDelay,
    /// Reference delay, in seconds.
    target: f64,
    update: Duration,
    max_burst: Duration,
    alpha: f64,
    beta: f64,
    ecn_max: Option<f64>,
    rate: DepartureRate,
    /// Sojourn time of the last departure, in seconds; 0 if it left the queue empty.
    sojourn: f64,
    delay_old: f64,
    probability: f64,
    accumulated: f64,
    burst: Duration,
    next_update: Time,
}

impl<P: Packet> Pie<P> {
    /// An empty queue.
    pub fn new(params: &PieParams, context: &BuildContext) -> Self {
        let early = params.variant == PieVariant::Early;
        let ms = |rfc, hpsr| Duration::from_millis(if early { hpsr } else { rfc });
        let update = params.update.unwrap_or(ms(15, 30));
        let max_burst = params.burst.unwrap_or(ms(150, 100));
        let method = params.delay.unwrap_or(if early { PieDelay::Rate } else { PieDelay::Timestamp });
        let threshold = params.threshold.map_or(if early { 10_000 } else { 1 << 14 }, Bytes::get);
        Pie {
            fifo: Fifo::default(),
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            chance: Chance::new(context.seed),
            variant: params.variant,
            method,
            target: params.target.unwrap_or(ms(15, 20)).secs_f64(),
            update,
            max_burst,
            alpha: params.alpha,
            beta: params.beta,
            ecn_max: params.ecn.then_some(params.ecn_max),
            rate: DepartureRate { threshold, cycle: None, bytes_per_sec: 0.0 },
            sojourn: 0.0,
            delay_old: 0.0,
            probability: 0.0,
            accumulated: 0.0,
            burst: max_burst,
            next_update: Time::ZERO + update,
        }
    }

    /// The drop probability.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Rest of the burst that passes without drops.
    pub fn burst(&self) -> Duration {
        self.burst
    }

    /// The estimated queuing delay, in seconds.
    pub fn delay(&self) -> f64 {
        match self.method {
            PieDelay::Timestamp => self.sojourn,
            PieDelay::Rate => self.rate.delay(self.fifo.bytes()),
        }
    }

    /// Runs the updates up to and including `now`.
    fn play(&mut self, now: Time) {
        while self.next_update <= now {
            let before = (self.probability, self.delay_old, self.burst);
            self.step();
            self.next_update += self.update;
            if before == (self.probability, self.delay_old, self.burst) {
                // The state stays the same until a packet arrives or leaves.
                let steps = now.since(self.next_update).nanos() / self.update.nanos();
                self.next_update += self.update * steps;
                if self.next_update <= now {
                    self.next_update += self.update;
                }
            }
        }
    }

    /// One update of the drop probability (RFC 8033, 4.2).
    fn step(&mut self) {
        let delay = self.delay();
        let mut p = self.alpha * (delay - self.target) + self.beta * (delay - self.delay_old);
        p /= auto_tuning(self.variant, self.probability);
        // RFC 8033, 5.5: at a probability of 0.1 or more, it rises by at most 0.02 in an update.
        if self.variant == PieVariant::Rfc8033 && self.probability >= 0.1 {
            p = p.min(0.02);
        }
        self.probability += p;
        // RFC 8033, 4.2: exponential decay after congestion has ended.
        if delay == 0.0 && self.delay_old == 0.0 {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);

        // RFC 8033, 4.4: the burst allowance decreases, and is restored without congestion.
        self.burst -= self.update;
        let calm = delay < self.target / 2.0 && self.delay_old < self.target / 2.0;
        if self.probability == 0.0 && calm {
            self.burst = self.max_burst;
        }
        self.delay_old = delay;
    }

    /// Whether this arrival is dropped or marked at random (RFC 8033, 4.1 and 5.4).
    fn is_taken(&mut self) -> bool {
        if !self.burst.is_zero() {
            return false;
        }
        if self.delay_old < self.target / 2.0 && self.probability < 0.2
            || self.fifo.bytes() <= 2 * MEAN_PACKET
        {
            return false;
        }
        if self.variant == PieVariant::Early {
            return self.chance.uniform() < self.probability;
        }
        // RFC 8033, 5.4: de-randomisation, so that drops are neither close together nor far apart.
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let taken =
            self.accumulated >= 8.5 || self.accumulated >= 0.85 && self.chance.uniform() < self.probability;
        if taken {
            self.accumulated = 0.0;
        }
        taken
    }
}

/// Divisor of a step while the probability is small (RFC 8033, 4.2, table; HPSR 2013, III-C).
pub(crate) fn auto_tuning(variant: PieVariant, probability: f64) -> f64 {
    const RFC_8033: [(f64, f64); 6] =
        [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    let table = match variant {
        PieVariant::Rfc8033 => &RFC_8033[..],
        PieVariant::Early => &RFC_8033[4..],
    };
    table.iter().find(|&&(below, _)| probability < below).map_or(1.0, |&(_, divisor)| divisor)
}

impl<P: Packet> Queue<P> for Pie<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, mut packet: P, report: &mut R) {
        self.play(now);
        if self.limit.is_full(self.fifo.len(), self.fifo.bytes(), packet.bytes()) {
            self.accumulated = 0.0;
            return report.dropped(now, packet, Reason::Tail);
        }
        if self.is_taken() {
            // RFC 8033, 5.1
            if !(packet.ecn().is_capable() && self.ecn_max.is_some_and(|max| self.probability <= max)) {
                return report.dropped(now, packet, Reason::Early);
            }
            packet.set_ce();
            report.marked(now, &packet, Reason::Early);
        }
        self.fifo.push(packet, now);
    }

    fn dequeue<R: Report<P>>(&mut self, now: Time, _report: &mut R) -> Dequeued<P> {
        self.play(now);
        let Some((packet, enqueued)) = self.fifo.pop() else {
            self.sojourn = 0.0;
            return Dequeued::Empty;
        };
        self.sojourn = if self.fifo.is_empty() { 0.0 } else { now.since(enqueued).secs_f64() };
        self.rate.left(now, packet.bytes(), self.fifo.bytes());
        Dequeued::Packet { packet, enqueued }
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueSpec;
    use leeway_units::Rate;

    struct Pkt;

    impl Packet for Pkt {
        fn bytes(&self) -> u32 {
            1000
        }

        fn flow(&self) -> u32 {
            0
        }
    }

    fn pie(text: &str) -> Pie<Pkt> {
        let QueueSpec::Pie(params) = text.parse().unwrap() else { panic!("{text}") };
        Pie::new(&params, &BuildContext::new(Size::Unlimited, Rate::from_bits_per_sec(8_000_000)))
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12
    }

    #[test]
    fn auto_tuning_is_the_table_of_the_rfc() {
        let table = [
            (0.0, 2048.0),
            (0.9e-6, 2048.0),
            (1e-6, 512.0),
            (0.9e-5, 512.0),
            (1e-5, 128.0),
            (0.9e-4, 128.0),
            (1e-4, 32.0),
            (0.9e-3, 32.0),
            (1e-3, 8.0),
            (0.9e-2, 8.0),
            (1e-2, 2.0),
            (0.09, 2.0),
            (0.1, 1.0),
            (1.0, 1.0),
        ];
        for (probability, divisor) in table {
            assert_eq!(auto_tuning(PieVariant::Rfc8033, probability), divisor, "{probability}");
        }
        for (probability, divisor) in [(0.0, 8.0), (0.009, 8.0), (0.01, 2.0), (0.09, 2.0), (0.1, 1.0)] {
            assert_eq!(auto_tuning(PieVariant::Early, probability), divisor, "{probability}");
        }
    }

    #[test]
    fn a_step_is_that_of_the_rfc() {
        let step = |text: &str, probability, delay, delay_old| {
            let mut pie = pie(text);
            (pie.probability, pie.sojourn, pie.delay_old) = (probability, delay, delay_old);
            pie.step();
            assert_eq!(pie.delay_old, delay);
            pie.probability
        };
        // alpha (delay - 15 ms) + beta (delay - old), divided by 2 between 1 % and 10 %.
        let expected = 0.05 + (0.125 * (0.035 - 0.015) + 1.25 * (0.035 - 0.030)) / 2.0;
        assert!(close(step("pie", 0.05, 0.035, 0.030), expected));
        let expected = 0.3 + (0.125 * (0.010 - 0.015) + 1.25 * (0.010 - 0.012));
        assert!(close(step("pie", 0.3, 0.010, 0.012), expected));
        let expected = 0.05 + (1.0 * (0.035 - 0.020) + 2.0 * (0.035 - 0.030)) / 2.0;
        assert!(close(step("pie:alpha=1,beta=2,target=20ms", 0.05, 0.035, 0.030), expected));
        // From 10 % on a step is at most 2 %. The early variant has no such limit.
        assert!(close(step("pie", 0.2, 0.5, 0.1), 0.22));
        assert!(close(step("pie", 0.0999, 0.1, 0.0), 0.0999 + (0.125 * 0.085 + 1.25 * 0.1) / 2.0));
        assert!(step("pie:variant=early,delay=timestamp", 0.2, 0.3, 0.1) > 0.4);
        // Decay without delay, and the bounds.
        assert!(close(step("pie", 0.3, 0.0, 0.0), (0.3 - 0.125 * 0.015) * 0.98));
        assert_eq!(step("pie", 0.0001, 0.0, 0.2), 0.0);
        assert_eq!(step("pie:beta=100", 0.995, 0.5, 0.0), 1.0);
    }

    #[test]
    fn defaults_are_those_of_the_two_publications() {
        let rfc = pie("pie");
        assert_eq!(
            (rfc.target as f32, rfc.update, rfc.max_burst),
            (0.015, Duration::from_millis(15), Duration::from_millis(150))
        );
        assert_eq!((rfc.alpha, rfc.beta, rfc.method), (0.125, 1.25, PieDelay::Timestamp));
        let early = pie("pie:variant=early");
        assert_eq!(
            (early.target as f32, early.update, early.max_burst),
            (0.020, Duration::from_millis(30), Duration::from_millis(100))
        );
        assert_eq!((early.alpha, early.beta, early.method), (0.125, 1.25, PieDelay::Rate));
        assert_eq!((rfc.rate.threshold, early.rate.threshold), (16_384, 10_000));
    }

    #[test]
    fn the_burst_allowance_runs_down_and_comes_back() {
        let mut pie = pie("pie");
        (pie.sojourn, pie.delay_old) = (0.1, 0.1);
        for left in (0..10).rev() {
            pie.step();
            assert_eq!(pie.burst, Duration::from_millis(15 * left));
        }
        pie.step();
        assert_eq!(pie.burst, Duration::ZERO);
        // Restored only with probability 0 and two delays in a row below half the reference.
        (pie.probability, pie.sojourn, pie.delay_old) = (0.0, 0.0074, 0.0076);
        pie.step();
        assert_eq!(pie.burst, Duration::ZERO);
        pie.step();
        assert_eq!(pie.burst, Duration::from_millis(150));
    }

    #[test]
    fn chance_has_no_say_below_and_above_the_bounds_of_the_sum() {
        let taken = |text: &str, probability, accumulated| {
            let mut pie = pie(text);
            (pie.burst, pie.delay_old) = (Duration::ZERO, 1.0);
            (pie.probability, pie.accumulated) = (probability, accumulated);
            (0..3).for_each(|_| pie.fifo.push(Pkt, Time::ZERO));
            (0..100).filter(|_| pie.is_taken()).count()
        };
        // RFC 8033, 5.4: no drop below 0.85, and always a drop from 8.5 on.
        assert_eq!(taken("pie", 0.0084, 0.0), 0);
        assert_eq!(taken("pie", 1e-9, 8.5), 1);
        assert_eq!(taken("pie", 1e-9, 8.4), 0);
        assert_eq!(taken("pie", 1.0, 0.0), 100);
        assert_eq!(taken("pie:variant=early", 1.0, 0.0), 100);
        assert_eq!(taken("pie:variant=early", 0.0, 8.5), 0);
    }

    #[test]
    fn skipping_idle_updates_changes_nothing() {
        for text in ["pie", "pie:variant=early", "pie:alpha=0.001,update=1ms"] {
            let (mut often, mut late) = (pie(text), pie(text));
            for pie in [&mut often, &mut late] {
                (pie.probability, pie.burst) = (0.04, Duration::ZERO);
            }
            for n in 0..100_000 {
                often.play(Time::from_micros(n * 100));
            }
            late.play(Time::from_micros(99_999 * 100));
            assert_eq!(often.probability, late.probability);
            assert_eq!((often.burst, often.next_update), (late.burst, late.next_update));
            assert!(late.next_update > Time::from_micros(99_999 * 100));
        }
    }

    #[test]
    fn the_departure_rate_is_measured_over_a_backlog() {
        let mut rate = DepartureRate { threshold: 5000, cycle: None, bytes_per_sec: 0.0 };
        // Below the threshold there is no measurement.
        rate.left(Time::from_millis(1), 1000, 4999);
        assert!(rate.cycle.is_none() && rate.delay(4999) == 0.0);
        // 1000 bytes per ms: the cycle starts with this departure and ends 4 ms later.
        for n in 2..=6 {
            rate.left(Time::from_millis(n), 1000, 6000);
        }
        assert!(close(rate.bytes_per_sec, 5000.0 / 0.004));
        // At half the rate the average moves half of the distance.
        for n in 0..=4 {
            rate.left(Time::from_millis(6 + 2 * (n + 1)), 1000, 6000);
        }
        assert!(
            close(rate.bytes_per_sec, 0.5 * (5000.0 / 0.004) + 0.5 * (5000.0 / 0.010)),
            "{}",
            rate.bytes_per_sec
        );
        assert!(close(rate.delay(1000), 1000.0 / rate.bytes_per_sec));
        // Without a backlog the next cycle waits.
        for n in 0..=4 {
            rate.left(Time::from_millis(20 + n), 1000, 100);
        }
        assert!(rate.cycle.is_none());
    }
}
