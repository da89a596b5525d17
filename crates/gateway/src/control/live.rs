//! The figures of the owner's page, now and over the last ten minutes.

use super::{Sharing, Status, UserStatus, Volume};
use crate::home_speed::HomeSpeed;
use crate::observe::Observation;
use crate::peers::PeerStatus;
use serde::Serialize;
use std::collections::VecDeque;

/// Samples that are kept, one for each second.
const KEPT: usize = 600;

/// Queuing delays in milliseconds. Calls do not notice one below the first, and hardly notice one
/// below the second.
const SHORT_MS: f64 = 10.0;
const LONG_MS: f64 = 40.0;

/// The figures of one second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Time in seconds since 1970.
    pub at: i64,
    /// Neighbours' throughput from the Internet, in bit/s.
    pub down_bps: f64,
    /// Neighbours' throughput to the Internet, in bit/s.
    pub up_bps: f64,
    /// Queuing delay of the line in milliseconds; none while no neighbour uses the line.
    pub queue_ms: Option<f64>,
}

/// Whether the home notices its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Notice {
    /// Name of the text for the page, such as `notice_no`.
    pub answer: &'static str,
    /// Present round-trip time over the line, in milliseconds.
    pub now_ms: Option<f64>,
    /// Round-trip time without the queue, in milliseconds.
    pub off_ms: Option<f64>,
}

/// Everything that the page shows at first sight.
#[derive(Debug, Clone, Serialize)]
pub struct Now {
    /// Whether neighbours are served.
    pub sharing: Sharing,
    /// Whether the home notices its neighbours.
    pub notice: Notice,
    /// The home's speed while neighbours use the line, and while no neighbour does.
    pub home_speed: HomeSpeed,
    /// The last second.
    pub sample: Sample,
    /// Neighbours, those who have used most first.
    pub users: Vec<UserStatus>,
    /// The volumes that all neighbours share.
    pub volumes: Vec<Volume>,
    /// The gateways of `peers`.
    pub peers: Vec<PeerStatus>,
    /// What could be shared, if the gateway only observes.
    pub observed: Option<Observation>,
}

/// The samples of the last ten minutes.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    bytes: Option<[u64; 2]>,
}

impl History {
    /// Adds the sample of one second.
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

    /// All samples, the oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.iter().copied().collect()
    }

    /// The last sample, or an empty one.
    pub fn last(&self) -> Sample {
        let none = Sample { at: 0, down_bps: 0.0, up_bps: 0.0, queue_ms: None };
        self.samples.back().copied().unwrap_or(none)
    }
}

impl Notice {
    /// What the home notices at `sample`.
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
        // Without transfers of neighbours there is no queue of theirs.
        let now_ms = if sample.queue_ms.is_some() { rtt } else { off_ms };
        Notice { answer, now_ms, off_ms }
    }
}

/// The longest queuing delay of all windows.
fn queue(status: &Status) -> Option<f64> {
    status.windows.iter().map(|window| window.queuing_delay_ms).reduce(f64::max)
}
