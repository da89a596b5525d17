//! RED: drops at random, with a probability that grows with the average queue.
//!
//! S. Floyd, V. Jacobson: Random Early Detection Gateways for Congestion Avoidance (IEEE/ACM ToN
//! 1993; "1993" below), with the later gentle ramp and the automatic setting of ns-2.
//!
//! # Scope and limitations
//! - The average, its idle compensation, the count between drops and the wait after a drop are
//!   those of ns-2's RED, because the papers report its results.
//! - Not included: Adaptive RED, which moves `max_p`; ns-2's scaling of a buffer in packets by the
//!   mean packet size; a random victim of forced drops (here the arrival is dropped).
//! - With `ecn=true` a packet is marked instead of dropped at random. It is still dropped at an
//!   average above the upper threshold, as with ns-2's `use_mark_p_`.
//! - The rate for idle compensation is the link's rate at the start.

use crate::chance::Chance;
use crate::fifo::{Fifo, Limit};
use crate::spec::{BuildContext, Value};
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Duration, Size, Time};

crate::choice! {
    /// What the average queue and the drop probability count.
    pub enum Unit {
        /// Packets, each alike.
        Packets = "packets",
        /// Bytes: a small packet is less likely to be dropped than a large one.
        Bytes = "bytes",
    }
}

/// A threshold of the average queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// In packets, which may be a fraction.
    Packets(f64),
    /// In bytes.
    Bytes(u64),
    /// A share of the buffer.
    Share(f64),
}

impl Value for Threshold {
    fn read(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is not {}", Self::kind());
        let number = |digits: &str| digits.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).map(|n| Threshold::Share(n / 100.0)).ok_or_else(error);
        }
        if let Some(packets) = text.strip_suffix("pkt") {
            return number(packets).map(Threshold::Packets).ok_or_else(error);
        }
        match text.parse() {
            Ok(Size::Packets(n)) => Ok(Threshold::Packets(f64::from(n))),
            Ok(Size::Bytes(bytes)) => Ok(Threshold::Bytes(bytes.get())),
            _ => Err(error()),
        }
    }

    fn show(&self) -> String {
        match self {
            Threshold::Packets(n) => format!("{n}pkt"),
            Threshold::Bytes(n) => Size::Bytes(leeway_units::Bytes::new(*n)).show(),
            Threshold::Share(share) => format!("{}%", share * 100.0),
        }
    }

    fn kind() -> String {
        "packets (5.5pkt), bytes (3kB) or a share of the buffer (50%)".into()
    }
}

crate::params! {
    /// Parameters of [`Red`].
    pub struct RedParams: "red", "Random early detection: drops at random as the average queue grows", "Floyd and Jacobson 1993; ns-2" {
        /// The buffer; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// The average below which nothing is dropped; auto: a third of max, or ns-2's setting
        /// where max is auto too.
        min: Option<Threshold> = None, ..;
        /// The average at which the drop probability reaches max_p; auto: three times min, or
        /// ns-2's setting.
        max: Option<Threshold> = None, ..;
        /// The drop probability at the upper threshold.
        max_p: f64 = 0.1, 0.0..=1.0;
        /// The weight of a new sample in the average; auto: ns-2's, a time constant of ten round
        /// trips.
        weight: Option<f64> = None, 0.0..=1.0;
        /// The queuing delay that ns-2's setting aims at.
        target: Duration = Duration::from_millis(5), Duration::from_micros(1)..=Duration::from_secs(100);
        /// Whether the probability rises to 1 at twice max instead of jumping there at max.
        gentle: bool = true, ..;
        /// Whether two random drops are never closer than 1/p packets.
        wait: bool = true, ..;
        /// What is counted; auto: bytes for ns-2's setting and for thresholds in bytes, else
        /// packets.
        unit: Option<Unit> = None, ..;
        /// The mean packet in bytes; auto: 500 for ns-2's setting, else that of the link.
        mean: Option<u32> = None, 1..=65_535;
        /// Whether to mark packets that can be marked instead of dropping them.
        ecn: bool = false, ..;
    }
}

impl RedParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Red(Box::new(Red::new(self, context)))
    }
}

/// RED's parameters, in the unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedSetting {
    /// The lower threshold.
    pub min: f64,
    /// The upper threshold.
    pub max: f64,
    /// The weight of a new sample in the average.
    pub weight: f64,
    /// What is counted.
    pub unit: Unit,
    /// Mean packet size, in bytes.
    pub mean: f64,
    /// Mean packets that the link sends per second.
    pub packets_per_sec: f64,
}

impl RedSetting {
    /// Resolves the parameters that are `auto`.
    pub fn new(params: &RedParams, context: &BuildContext) -> Self {
        let automatic = params.min.is_none() && params.max.is_none();
        let limit = params.limit.unwrap_or(context.capacity);
        let in_bytes = |t: &Option<Threshold>| match t {
            Some(Threshold::Bytes(_)) => true,
            Some(Threshold::Share(_)) => matches!(limit, Size::Bytes(_)),
            _ => false,
        };
        let bytes = automatic || in_bytes(&params.min) || in_bytes(&params.max);
        let unit = params.unit.unwrap_or(if bytes { Unit::Bytes } else { Unit::Packets });
        // ns-2 assumes packets of 500 bytes, whatever the traffic.
        let mean = f64::from(params.mean.unwrap_or(if automatic { 500 } else { context.mean_packet.max(1) }));
        let packets_per_sec = (context.rate.bits_per_sec() as f64 / (8.0 * mean)).max(1e-3);

        let scaled = |packets: f64| if unit == Unit::Bytes { packets * mean } else { packets };
        let from_bytes = |bytes: f64| if unit == Unit::Bytes { bytes } else { bytes / mean };
        let resolve = |threshold: Threshold| match threshold {
            Threshold::Packets(n) => scaled(n),
            Threshold::Bytes(n) => from_bytes(n as f64),
            Threshold::Share(share) => match limit {
                Size::Packets(n) => scaled(share * f64::from(n)),
                Size::Bytes(n) => from_bytes(share * n.get() as f64),
                _ => f64::INFINITY,
            },
        };
        let (min, max) = match (params.min.map(resolve), params.max.map(resolve)) {
            // ns-2: the packets of half the target delay, at least five.
            (None, None) => {
                let min = scaled((params.target.secs_f64() * packets_per_sec / 2.0).max(5.0));
                (min, 3.0 * min)
            }
            (Some(min), None) => (min, 3.0 * min),
            (None, Some(max)) => (max / 3.0, max),
            (Some(min), Some(max)) => (min, max.max(min)),
        };
        let weight = params.weight.unwrap_or_else(|| {
            // ns-2 (q_weight_ = -1): ten round trips. A round trip counts as three times the
            // link's delay, and at least 100 ms.
            let round_trip = (3.0 * (context.delay.secs_f64() + 1.0 / packets_per_sec)).max(0.1);
            1.0 - (-1.0 / (10.0 * round_trip * packets_per_sec)).exp()
        });
        RedSetting { min, max, weight, unit, mean, packets_per_sec }
    }
}

/// Random early detection.
#[derive(Debug, Clone)]
pub struct Red<P> {
    fifo: Fifo<P>,
    limit: Limit,
    setting: RedSetting,
    max_p: f64,
    gentle: bool,
    wait: bool,
    ecn: bool,
    chance: Chance,
    average: f64,
    /// Packets and bytes since the last drop, while the average is above the lower threshold.
    count: f64,
    count_bytes: f64,
    /// Whether the average was above the lower threshold at the last arrival.
    above: bool,
    /// Time at which the link found the queue empty.
    idle_since: Option<Time>,
}

impl<P: Packet> Red<P> {
    /// An empty queue.
    pub fn new(params: &RedParams, context: &BuildContext) -> Self {
        Red {
            fifo: Fifo::default(),
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            setting: RedSetting::new(params, context),
            max_p: params.max_p,
            gentle: params.gentle,
            wait: params.wait,
            ecn: params.ecn,
            chance: Chance::new(context.seed),
            average: 0.0,
            count: 0.0,
            count_bytes: 0.0,
            above: false,
            idle_since: Some(Time::ZERO),
        }
    }

    /// The average queue, in the unit that is counted.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// The parameters in use.
    pub fn setting(&self) -> &RedSetting {
        &self.setting
    }

    fn length(&self) -> f64 {
        match self.setting.unit {
            Unit::Packets => self.fifo.len() as f64,
            Unit::Bytes => self.fifo.bytes() as f64,
        }
    }

    /// 1993, 4: the average moves at each arrival. After an idle period it moves as if small
    /// packets had arrived at an empty queue.
    fn update_average(&mut self, now: Time) {
        if let Some(since) = self.idle_since.take() {
            let missed = (now.since(since).secs_f64() * self.setting.packets_per_sec).floor();
            self.average *= (1.0 - self.setting.weight).powf(missed);
        }
        self.average += self.setting.weight * (self.length() - self.average);
    }

    /// The probability from the average alone: the ramps of RED and of gentle RED.
    pub fn ramp(&self, average: f64) -> f64 {
        let RedSetting { min, max, .. } = self.setting;
        if average < min {
            0.0
        } else if average < max {
            self.max_p * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            self.max_p + (1.0 - self.max_p) * (average - max) / max
        } else {
            1.0
        }
    }

    /// 1993, 7: makes the gap between two drops uniform instead of geometric.
    fn uniformised(&self, p: f64, bytes: f64) -> f64 {
        let in_bytes = self.setting.unit == Unit::Bytes;
        let count = if in_bytes { self.count_bytes / self.setting.mean } else { self.count };
        let p = match (self.wait, count * p) {
            (true, done) if done < 1.0 => 0.0,
            (true, done) if done < 2.0 => p / (2.0 - done),
            (false, done) if done < 1.0 => p / (1.0 - done),
            _ => 1.0,
        };
        if in_bytes && p < 1.0 { p * bytes / self.setting.mean } else { p }
    }

    fn restart_count(&mut self) {
        self.count = 0.0;
        self.count_bytes = 0.0;
    }

    /// The decision about a packet of `bytes` that arrives now, without the buffer's limit.
    fn verdict(&mut self, bytes: f64) -> Option<Reason> {
        self.count += 1.0;
        self.count_bytes += bytes;
        // ns-2: a packet that finds at most one packet or byte in the queue is never dropped,
        // whatever the average.
        if self.average < self.setting.min || self.length() <= 1.0 {
            self.above = false;
            return None;
        }
        let p = self.ramp(self.average);
        if p >= 1.0 {
            self.above = true;
            self.restart_count();
            return Some(Reason::Forced);
        }
        if !self.above {
            self.above = true;
            self.count = 1.0;
            self.count_bytes = bytes;
            return None;
        }
        if self.chance.uniform() < self.uniformised(p, bytes) {
            self.restart_count();
            return Some(Reason::Early);
        }
        None
    }
}

impl<P: Packet> Queue<P> for Red<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, mut packet: P, report: &mut R) {
        self.update_average(now);
        let verdict = self.verdict(f64::from(packet.bytes()));
        if self.limit.is_full(self.fifo.len(), self.fifo.bytes(), packet.bytes()) {
            self.restart_count();
            return report.dropped(now, packet, Reason::Tail);
        }
        match verdict {
            Some(Reason::Early)
                if self.ecn && packet.ecn().is_capable() && self.average < self.setting.max =>
            {
                packet.set_ce();
                report.marked(now, &packet, Reason::Early);
                self.fifo.push(packet, now);
            }
            Some(reason) => report.dropped(now, packet, reason),
            None => self.fifo.push(packet, now),
        }
    }

    fn dequeue<R: Report<P>>(&mut self, now: Time, _report: &mut R) -> Dequeued<P> {
        match self.fifo.pop() {
            Some((packet, enqueued)) => Dequeued::Packet { packet, enqueued },
            None => {
                self.idle_since.get_or_insert(now);
                Dequeued::Empty
            }
        }
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
