//! One estimator: queuing delay, base delay, round-trip time, and the rate at which the line brings bytes.
//!
//! ```text
//! q = sample - base(path)  base: the least exact sample of the path in the last five to ten minutes
//! q <= last q + time since then, and <= q x bytes that came in the time q / (rate x q)
//!                          with the rate of now, the higher of the last two half seconds
//! rate = the highest of the last five to ten seconds, each over half a second, of background and foreground together;
//!        times in which the background was held to what the line brings say nothing of less
//! pipe = rate x stay        stay: mean over the bytes of (time until they are known to have arrived - q)
//! ```
//!
//! Several samples make one delay: the 40th percentile of a quarter of a round trip, each weighted by what
//! came of its flow. What the other two lines leave out is a pause of one server, or of all, and no queue of
//! the line.
//!
//! Each path (a network of servers) has a base of its own; what they have in common is the queue of the line.
//! The base is subtracted here, once. A lower bound never lowers a base: it says only that there is more of a
//! queue than is known, and counts as the delay where nothing exact was heard for a while.

use crate::policy::{LATE_ACK_US, Policy};
use crate::recent::Recent;
use std::collections::BTreeMap;

/// What is known of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The bytes took this long.
    Exact,
    /// They took this long or longer.
    LowerBound,
    /// They took this long, or less by 40 ms or more: the other end may have waited before it
    /// acknowledged a lone segment (RFC 5681, 4.2).
    UpperBound,
}

/// One delay sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The network of the other end: paths of one number have one base.
    pub path: u64,
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// What it says.
    pub certainty: Certainty,
    /// How long it took until what was sent before it was known to have arrived, in microseconds: the
    /// round-trip time, and longer where acknowledgements are few.
    pub known_us: u32,
}

impl Sample {
    /// Bytes on `path` took `rtt_us`.
    pub fn exact(path: u64, rtt_us: u32) -> Sample {
        Sample { path, rtt_us, certainty: Certainty::Exact, known_us: rtt_us }
    }

    /// Bytes on `path` take `rtt_us` or longer.
    pub fn bound(path: u64, rtt_us: u32) -> Sample {
        Sample { certainty: Certainty::LowerBound, ..Sample::exact(path, rtt_us) }
    }
}

/// What is known of a flow's delays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// What its last exact sample showed, in microseconds.
    pub queuing_us: u32,
    /// What has arrived of it since then, in bytes: its next sample speaks for them.
    pub bytes: u64,
    /// Less comes of it than of others: a queue of its own would be shorter than theirs.
    pub little: bool,
}

/// What a sample said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The queuing delay, in microseconds.
    New(u32),
    /// Nothing new.
    Nothing,
    /// More than the samples of others allow and the last one of this flow: the sender of this flow has paused
    /// for the bytes that were granted before now. Bytes that are granted from now on show whether this flow has
    /// a queue of its own.
    Doubt,
}

/// See the module.
#[derive(Debug)]
pub struct Estimator {
    policy: Policy,
    paths: BTreeMap<u64, Base>,
    queuing_us: u32,
    srtt_us: u64,
    base_us: u64,
    stay: Stay,
    /// The background is held to less than the law's window: what comes may be less than what the line brings.
    limited: bool,
    exact_us: Option<u64>,
    /// What the last exact sample showed.
    fifo_us: u32,
    rate: Rate,
    part: Part,
}

/// How long bytes are under way without the queue of the line: by their paths, and at slow servers.
#[derive(Debug, Default)]
struct Stay {
    bytes: u64,
    /// Times their microseconds.
    sum: u64,
}

/// Samples of a part of a round trip.
#[derive(Debug, Default)]
struct Part {
    since_us: u64,
    /// Delays, and the bytes for which each speaks.
    samples: Vec<(u32, u64)>,
}

/// The least of this half of the memory, and of the half before.
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
    /// That was so in a part of this span.
    limited: bool,
    highest: [u64; 2],
    /// Of the last two spans.
    last: [u64; 2],
    all: Recent,
    /// Of the foreground.
    foreground: Recent,
}

impl Estimator {
    /// Nothing is known.
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

    /// The queuing delay that a sample of a flow shows, of which that is known.
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
                return Heard::Nothing; // it was what it is measured by
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
                // The path may have become longer than anything that is waited for.
                self.smooth(u64::from(sample.known_us).min(self.policy.first_hold_us), base_us.into());
            }
        }
        Heard::New(self.queuing_us)
    }

    /// `bytes` have come over the line, to whomever.
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

    /// `bytes` have come over the line, to the foreground.
    pub fn foreground(&mut self, now_us: u64, bytes: u64) {
        self.arrived(now_us, bytes);
        self.rate.foreground.keep(now_us, bytes, &self.policy);
    }

    /// The part of the last queuing delay that bytes of the background made, in microseconds: a packet waits
    /// for those that come while it waits.
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

    /// The smoothed round-trip time over all paths, in microseconds (RFC 6298, 2.3); 0 before the first sample.
    pub fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    /// A round trip by `path` with the queue of now, in microseconds; nothing before its first sample.
    pub fn rtt_us(&self, path: u64) -> Option<u64> {
        self.paths.get(&path).map(|base| u64::from(base.least_us()) + u64::from(self.queuing_us))
    }

    /// The base delay of `path`, in microseconds; nothing before its first exact sample.
    pub fn path_base_us(&self, path: u64) -> Option<u32> {
        self.paths.get(&path).map(Base::least_us)
    }

    /// A round trip without a queue, of the shortest paths in use, in microseconds; 0 before the first sample.
    pub fn base_us(&self) -> u64 {
        self.base_us
    }

    /// What the line brings in a round trip without a queue, in bytes; 0 before anything is known.
    pub fn pipe_bytes(&self) -> u64 {
        self.rate_bytes_per_s().saturating_mul(self.stay.mean_us()) / 1_000_000
    }

    /// Whether the background is held to less than the law's window, so that what comes may be less than what
    /// the line brings.
    pub fn set_limited(&mut self, limited: bool) {
        self.limited = limited;
        self.rate.limited |= limited;
    }

    /// As it was set last.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// What the line brings at its highest of late, in bytes per second; 0 before anything is known.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate.highest[0].max(self.rate.highest[1])
    }

    /// What the line brings now, in bytes per second: the higher of the last two spans.
    pub fn rate_now_bytes_per_s(&self) -> u64 {
        self.rate.last[0].max(self.rate.last[1])
    }

    /// Whether with this queue a packet would have been overtaken by the last one that showed a delay, as is
    /// not possible in one queue: it was sent later than it might have been.
    fn overtakes(&self, now_us: u64, queuing_us: u32) -> bool {
        let passed_us = now_us.saturating_sub(self.exact_us.unwrap_or(0));
        u64::from(queuing_us) > u64::from(self.fifo_us).saturating_add(passed_us)
    }

    /// The part of a delay that the line's queue explains. A queue that delays a packet by some time brings
    /// others in that time, at the line's rate; in the pause of a server, or before a late acknowledgement,
    /// it brings less.
    fn of_the_line(&self, now_us: u64, delay_us: u32) -> u32 {
        let span_us = u64::from(delay_us).min(self.policy.rate_span_us);
        let most = self.rate_now_bytes_per_s().saturating_mul(span_us) / 1_000_000;
        let came = self.rate.all.since(now_us.saturating_sub(span_us));
        if came >= most { delay_us } else { (u64::from(delay_us) * came / most) as u32 }
    }

    fn smooth(&mut self, rtt_us: u64, base_us: u64) {
        self.srtt_us = if self.srtt_us == 0 { rtt_us } else { (7 * self.srtt_us + rtt_us) / 8 };
        // Of near and far paths the near ones; once nothing comes from these, the others, by and by.
        self.base_us = match self.base_us {
            0 => base_us,
            known_us => base_us.min(known_us + base_us.saturating_sub(known_us) / 64),
        };
    }

    /// The base of `path` after an exact sample.
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
    /// One more sample; what the part says where this is its last.
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
