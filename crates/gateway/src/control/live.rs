//! The figures that the owner's page shows, now and over the last ten minutes.

use super::{Sharing, Status, UserStatus, Volume};
use crate::observe::Observation;
use crate::peers::PeerStatus;
use serde::Serialize;
use std::collections::VecDeque;

/// Samples that are kept, one a second.
const KEPT: usize = 600;

/// Queues that calls do not notice, and that they hardly notice, in milliseconds.
const SHORT_MS: f64 = 10.0;
const LONG_MS: f64 = 40.0;

/// One second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub at: i64,
    /// Neighbours' rate from the Internet.
    pub down_bps: f64,
    /// Neighbours' rate to the Internet.
    pub up_bps: f64,
    /// The queue on the line, if neighbours use it.
    pub queue_ms: Option<f64>,
}

/// Whether the home notices its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Notice {
    /// The name of the words for it.
    pub answer: &'static str,
    /// The round-trip time over the line as it is.
    pub now_ms: Option<f64>,
    /// The same without the queue.
    pub off_ms: Option<f64>,
}

/// Everything at a glance.
#[derive(Debug, Clone, Serialize)]
pub struct Now {
    /// Whether neighbours are served.
    pub sharing: Sharing,
    /// What the home notices.
    pub notice: Notice,
    /// The last second.
    pub sample: Sample,
    /// Neighbours, by what they have used.
    pub users: Vec<UserStatus>,
    /// What is left of volumes.
    pub volumes: Vec<Volume>,
    /// Other gateways of `peers`.
    pub peers: Vec<PeerStatus>,
    /// What could be shared, where the line is only observed.
    pub observed: Option<Observation>,
}

/// The last ten minutes.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    bytes: Option<[u64; 2]>,
}

impl History {
    /// One second has passed.
    pub fn add(&mut self, at: i64, status: &Status) {
        let bytes = [status.down_bytes, status.up_bytes];
        let before = self.bytes.replace(bytes).unwrap_or(bytes);
        let rate = |way: usize| 8.0 * bytes[way].saturating_sub(before[way]) as f64;
        let (down_bps, up_bps) = (rate(0), rate(1));
        let busy = down_bps + up_bps > 0.0;
        let queue_ms = queue(status).filter(|_| busy);
        if self.samples.len() >= KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at, down_bps, up_bps, queue_ms });
    }

    /// All of it, the oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.iter().copied().collect()
    }

    /// The last second, if there was one.
    pub fn last(&self) -> Sample {
        let none = Sample { at: 0, down_bps: 0.0, up_bps: 0.0, queue_ms: None };
        self.samples.back().copied().unwrap_or(none)
    }
}

impl Notice {
    /// What there is to notice.
    pub fn of(status: &Status, sample: &Sample) -> Notice {
        let answer = match sample.queue_ms {
            None => "notice_idle",
            Some(queue) if queue < SHORT_MS => "notice_no",
            Some(queue) if queue < LONG_MS => "notice_little",
            Some(_) => "notice_yes",
        };
        let direct = status.windows.iter().find(|window| window.path == "direct");
        let rtt = direct.and_then(|window| window.rtt_ms);
        let queue = direct.map_or(0.0, |window| window.queuing_delay_ms);
        let off_ms = rtt.map(|rtt| (rtt - queue).max(0.0));
        // Without transfers there is no queue of theirs.
        let now_ms = if sample.queue_ms.is_some() { rtt } else { off_ms };
        Notice { answer, now_ms, off_ms }
    }
}

/// The queue of the downlink, or of the uplink where that is longer.
fn queue(status: &Status) -> Option<f64> {
    status.windows.iter().map(|window| window.queuing_delay_ms).reduce(f64::max)
}
