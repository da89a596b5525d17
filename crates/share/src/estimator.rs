//! Queuing delay, base delay, round-trip time and rate of the line, from delay samples and
//! arriving bytes.
//!
//! ```text
//! q = sample - base(path)  base: the least exact sample of the path in the last 5 to 10 minutes
//! q <= q(last sample) + time since then
//! q <= q x bytes that the line delivered in the time q / (rate x q)
//!                          bytes that arrive together were delivered since the arrival before
//!                          rate: the higher one of the last two half seconds
//! rate = the highest of the last 5 to 10 s, each over half a second, of background and
//!        foreground together; while the background is limited, a low rate is not counted
//! pipe = rate x stay       stay: mean over the bytes of (time until known to have arrived - q)
//! ```
//!
//! The two upper bounds remove the pause of one server, and pauses of all servers: a pause is no
//! queue of the line.
//!
//! Several samples give one delay: the 40th percentile over a quarter of a round trip. Each
//! sample is weighted with the bytes that arrived on its flow since the flow's last sample.
//!
//! Each path (a network of servers) has its own base delay. The queue is that of the line, which
//! all paths have in common. The base delay is subtracted here, once.
//!
//! A lower bound never lowers a base delay: it says only that the queue is at least this long. It
//! counts as the delay if it is above the last one, or if no exact sample has come for two round
//! trips.

use crate::policy::{LATE_ACK_US, Policy};
use crate::recent::Recent;
use std::collections::BTreeMap;

/// How exactly a sample tells the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The delay is the sample.
    Exact,
    /// The delay is at least the sample.
    LowerBound,
    /// The delay is the sample, or 40 ms or more below it: the receiver may have waited before it
    /// acknowledged a single segment (RFC 5681, 4.2).
    UpperBound,
}

/// One delay sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The number of the other end's network. Paths of the same number have one base delay.
    pub path: u64,
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// How exactly `rtt_us` tells the delay.
    pub certainty: Certainty,
    /// Time until the bytes, and those sent before them, were known to have arrived, in
    /// microseconds. Longer than `rtt_us` where acknowledgements are few, or where `rtt_us`
    /// leaves out the queue of the other direction.
    pub known_us: u32,
}

impl Sample {
    /// An exact sample: bytes on `path` took `rtt_us`.
    pub fn exact(path: u64, rtt_us: u32) -> Sample {
        Sample { path, rtt_us, certainty: Certainty::Exact, known_us: rtt_us }
    }

    /// A lower bound: bytes on `path` take `rtt_us` or longer.
    pub fn bound(path: u64, rtt_us: u32) -> Sample {
        Sample { certainty: Certainty::LowerBound, ..Sample::exact(path, rtt_us) }
    }
}

/// What the samples of one flow showed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// Queuing delay of the flow's last exact sample, in microseconds.
    pub queuing_us: u32,
    /// Bytes that arrived on the flow since then. They are the weight of its next sample.
    pub bytes: u64,
    /// The flow's rate is below half of the mean rate of all flows. A fair queue delays fast
    /// flows more than slow ones, so a late sample of this flow comes from a slow server.
    pub little: bool,
}

/// What the estimator made of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A new queuing delay, in microseconds.
    New(u32),
    /// No new delay yet.
    Nothing,
    /// The sample exceeds what the last samples of other flows and of this flow allow. The flow's
    /// server has paused before it sent the bytes granted until now. Bytes that are granted later
    /// show whether the flow has a queue of its own.
    Doubt,
}

/// Estimates the queuing delay, the base delays, the round-trip time and the rate of a line.
#[derive(Debug)]
pub struct Estimator {
    policy: Policy,
    paths: BTreeMap<u64, Base>,
    queuing_us: u32,
    srtt_us: u64,
    base_us: u64,
    stay: Stay,
    /// Background gets less than the law's window, so arrivals may be below what the line can
    /// deliver.
    limited: bool,
    exact_us: Option<u64>,
    /// Queuing delay of the last exact sample of any flow.
    fifo_us: u32,
    rate: Rate,
    part: Part,
}

/// Mean time that bytes are in flight, without the queue of the line: propagation, and waits at
/// slow servers. Old bytes lose 1/64 of their weight with each sample.
#[derive(Debug, Default)]
struct Stay {
    bytes: u64,
    /// Sum of bytes x microseconds.
    sum: u64,
}

/// The samples of the present part of a round trip.
#[derive(Debug, Default)]
struct Part {
    since_us: u64,
    /// Delays in microseconds, each with its weight in bytes.
    samples: Vec<(u32, u64)>,
}

/// Base delay of one path: the least sample of the present half of the memory (`base_us`), and of
/// the half before.
#[derive(Debug, Clone, Copy)]
struct Base {
    since_us: u64,
    used_us: u64,
    least_us: [u32; 2],
}

#[derive(Debug, Default)]
struct Rate {
    span_us: u64,
    span_bytes: u64,
    since_us: u64,
    /// The background was limited during a part of this span.
    limited: bool,
    highest: [u64; 2],
    /// Rates of the last two spans, in bytes per second.
    last: [u64; 2],
    all: Recent,
    /// Bytes that arrived for the foreground.
    foreground: Recent,
}

impl Estimator {
    /// An estimator without any sample.
    pub fn new(policy: &Policy) -> Estimator {
        Estimator {
            policy: *policy,
            paths: BTreeMap::new(),
            queuing_us: 0,
            srtt_us: 0,
            base_us: 0,
            stay: Stay::default(),
            limited: false,
            exact_us: None,
            fifo_us: 0,
            rate: Rate::default(),
            part: Part::default(),
        }
    }

    /// Takes a sample of a flow into account. `own` is what the flow's samples showed before. The
    /// bytes that arrived with the sample were counted before ([`Estimator::arrived`]).
    pub fn observe(&mut self, now_us: u64, sample: Sample, own: &mut Own) -> Heard {
        let known = self.paths.get(&sample.path).map(Base::least_us);
        let base_us = match (sample.certainty, known) {
            (Certainty::Exact | Certainty::UpperBound, _) => self.learn(now_us, sample.path, sample.rtt_us),
            (Certainty::LowerBound, Some(base_us)) => base_us,
            (Certainty::LowerBound, None) => return Heard::Nothing,
        };
        let seen_us = sample.rtt_us.saturating_sub(base_us);
        let waited =
            (sample.certainty == Certainty::UpperBound).then(|| seen_us.checked_sub(LATE_ACK_US)).flatten();
        let exact = sample.certainty != Certainty::LowerBound && waited.is_none();
        let seen_us = waited.unwrap_or(seen_us);
        let own_queue = exact && !own.little && seen_us <= own.queuing_us.saturating_mul(2);
        let doubt = self.overtakes(now_us, seen_us) && !own_queue;
        let bytes = if exact { std::mem::take(&mut own.bytes) } else { 0 };
        if exact {
            own.queuing_us = seen_us;
            let stay_us = sample.known_us.saturating_sub(self.queuing_us).max(base_us);
            self.stay.add(bytes.max(1), stay_us.into());
        }
        if doubt {
            return Heard::Doubt;
        }
        let seen_us = self.of_the_line(now_us, seen_us);
        if exact {
            self.smooth(sample.known_us.into(), base_us.into());
            if known.is_none() && self.exact_us.is_some() {
                return Heard::Nothing; // the first sample of a path is its base delay
            }
            (self.fifo_us, self.exact_us) = (seen_us, Some(now_us));
            match self.part.add(now_us, seen_us, bytes, self.srtt_us, &self.policy) {
                Some(queuing_us) => self.queuing_us = queuing_us,
                None => return Heard::Nothing,
            }
        } else {
            let stale_us = Policy::round_trips(self.policy.hold_percent, self.srtt_us);
            let stale = self.exact_us.is_none_or(|exact_us| now_us > exact_us + stale_us);
            if !stale && seen_us <= self.queuing_us {
                return Heard::Nothing;
            }
            self.queuing_us = seen_us;
            if stale {
                self.exact_us = Some(now_us);
                // The path may be longer now than any wait for it, so the round-trip time grows
                // from the bound.
                self.smooth(u64::from(sample.known_us).min(self.policy.first_hold_us), base_us.into());
            }
        }
        Heard::New(self.queuing_us)
    }

    /// Counts `bytes` that arrived over the line, for background or foreground.
    pub fn arrived(&mut self, now_us: u64, bytes: u64) {
        let rate = &mut self.rate;
        rate.span_bytes += bytes;
        rate.all.keep(now_us, bytes, &self.policy);
        let passed_us = now_us.saturating_sub(rate.span_us);
        if passed_us < self.policy.rate_span_us {
            return;
        }
        let seen = rate.span_bytes.saturating_mul(1_000_000) / passed_us;
        (rate.span_us, rate.span_bytes) = (now_us, 0);
        rate.last = [seen, rate.last[0]];
        if std::mem::replace(&mut rate.limited, self.limited) {
            rate.since_us += passed_us;
        }
        if now_us >= rate.since_us + self.policy.rate_memory_us {
            rate.since_us = now_us;
            rate.highest = [0, rate.highest[0]];
        }
        rate.highest[0] = rate.highest[0].max(seen);
    }

    /// Counts `bytes` that arrived over the line for the foreground.
    pub fn foreground(&mut self, now_us: u64, bytes: u64) {
        self.arrived(now_us, bytes);
        self.rate.foreground.keep(now_us, bytes, &self.policy);
    }

    /// The background's part of the last queuing delay, in microseconds. A packet waits for the
    /// packets that arrive while it waits, so the part is that of the bytes of that time.
    pub fn background_us(&self, now_us: u64) -> u32 {
        let from_us = now_us.saturating_sub(self.queuing_us.into());
        let (all, foreground) = (self.rate.all.since(from_us), self.rate.foreground.since(from_us));
        match all {
            0 => self.queuing_us,
            _ => (u64::from(self.queuing_us) * all.saturating_sub(foreground) / all) as u32,
        }
    }

    /// The last queuing delay, in microseconds.
    pub fn queuing_us(&self) -> u32 {
        self.queuing_us
    }

    /// The smoothed round-trip time over all paths, in microseconds (RFC 6298, 2.3); 0 before the
    /// first sample.
    pub fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    /// A round trip on `path` with the present queue, in microseconds; `None` before the first
    /// sample of the path.
    pub fn rtt_us(&self, path: u64) -> Option<u64> {
        self.paths.get(&path).map(|base| u64::from(base.least_us()) + u64::from(self.queuing_us))
    }

    /// The base delay of `path`, in microseconds; `None` before its first exact sample.
    pub fn path_base_us(&self, path: u64) -> Option<u32> {
        self.paths.get(&path).map(Base::least_us)
    }

    /// Base RTT of the shortest paths in use, in microseconds; 0 before the first sample.
    pub fn base_us(&self) -> u64 {
        self.base_us
    }

    /// Bytes that the line delivers in a round trip without a queue; 0 before anything is known.
    pub fn pipe_bytes(&self) -> u64 {
        self.rate_bytes_per_s().saturating_mul(self.stay.mean_us()) / 1_000_000
    }

    /// Sets whether background gets less than the law's window, so that arrivals may be below
    /// what the line can deliver.
    pub fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
        self.rate.limited |= limited;
    }

    /// Whether background gets less than the law's window, as set last.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// The highest rate of the last 5 to 10 s, in bytes per second; 0 before anything is known.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate.highest[0].max(self.rate.highest[1])
    }

    /// The present rate, in bytes per second: the higher one of the last two spans.
    pub fn rate_now_bytes_per_s(&self) -> u64 {
        self.rate.last[0].max(self.rate.last[1])
    }

    /// Whether the last sample's packet would have overtaken a packet with this queuing delay.
    /// One queue does not let packets overtake, so the latter packet was sent late.
    fn overtakes(&self, now_us: u64, queuing_us: u32) -> bool {
        let passed_us = now_us.saturating_sub(self.exact_us.unwrap_or(0));
        u64::from(queuing_us) > u64::from(self.fifo_us).saturating_add(passed_us)
    }

    /// The part of a delay that the line's queue explains, in microseconds. While a queue delays
    /// a packet, the line delivers other packets at its rate. During a pause of a server, or
    /// before a late acknowledgement, it delivers fewer.
    fn of_the_line(&self, now_us: u64, delay_us: u32) -> u32 {
        let span_us = u64::from(delay_us).min(self.policy.rate_span_us);
        let most = self.rate_now_bytes_per_s().saturating_mul(span_us) / 1_000_000;
        let came = self.rate.all.delivered_since(now_us.saturating_sub(span_us));
        if came >= most { delay_us } else { (u64::from(delay_us) * came / most) as u32 }
    }

    fn smooth(&mut self, rtt_us: u64, base_us: u64) {
        self.srtt_us = if self.srtt_us == 0 { rtt_us } else { (7 * self.srtt_us + rtt_us) / 8 };
        // The nearer paths count. If they give no more samples, the base RTT slowly moves to the
        // others.
        self.base_us = match self.base_us {
            0 => base_us,
            known_us => base_us.min(known_us + base_us.saturating_sub(known_us) / 64),
        };
    }

    /// Updates the base delay of `path` with an exact sample, and returns it.
    fn learn(&mut self, now_us: u64, path: u64, rtt_us: u32) -> u32 {
        if self.paths.len() as u64 >= self.policy.remembered_max && !self.paths.contains_key(&path) {
            let oldest = self.paths.iter().min_by_key(|(_, base)| base.used_us).map(|(&path, _)| path);
            oldest.map(|oldest| self.paths.remove(&oldest));
        }
        let base = self.paths.entry(path).or_insert(Base {
            since_us: now_us,
            used_us: now_us,
            least_us: [rtt_us; 2],
        });
        if now_us.saturating_sub(base.since_us) >= self.policy.base_us {
            *base = Base { since_us: now_us, least_us: [rtt_us, base.least_us[0]], ..*base };
        }
        base.used_us = now_us;
        base.least_us[0] = base.least_us[0].min(rtt_us);
        base.least_us()
    }
}

impl Stay {
    fn add(&mut self, bytes: u64, stay_us: u64) {
        self.bytes = self.bytes - self.bytes / 64 + bytes;
        self.sum = self.sum - self.sum / 64 + bytes.saturating_mul(stay_us);
    }

    fn mean_us(&self) -> u64 {
        self.sum / self.bytes.max(1)
    }
}

impl Part {
    /// Adds a sample. Returns the delay of the part if this sample ends it.
    fn add(&mut self, now_us: u64, seen_us: u32, bytes: u64, srtt_us: u64, policy: &Policy) -> Option<u32> {
        self.samples.push((seen_us, bytes.max(1)));
        let passed_us = now_us.saturating_sub(self.since_us);
        let enough = self.samples.len() as u64 >= policy.part_samples;
        if passed_us < srtt_us / policy.round_parts || !enough && passed_us < srtt_us {
            return None;
        }
        self.since_us = now_us;
        self.samples.sort_unstable();
        let mut left =
            self.samples.iter().map(|&(_, bytes)| bytes).sum::<u64>() * policy.quantile_percent / 100;
        let at = self.samples.iter().find(|&&(_, bytes)| {
            let here = left < bytes;
            left = left.saturating_sub(bytes);
            here
        });
        let queuing_us = at.map(|&(queuing_us, _)| queuing_us);
        self.samples.clear();
        queuing_us
    }
}

impl Base {
    fn least_us(&self) -> u32 {
        self.least_us[0].min(self.least_us[1])
    }
}

#[cfg(test)]
mod tests;
