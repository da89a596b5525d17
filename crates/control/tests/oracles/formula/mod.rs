//! The laws in floating point, straight from the formulas: no fixed point, no incremental minima,
//! no optimisation. Windows and thresholds are in bytes.

mod cubic;
mod delay;
mod flower;
mod ledbat;
mod ledbatpp;
mod lp;
mod reno;
mod vegas;

pub use cubic::Cubic;
pub use flower::{Flower, infer};
pub use ledbat::{FLedbat, Ledbat};
pub use ledbatpp::LedbatPp;
pub use lp::Lp;
pub use reno::NewReno;
pub use vegas::{Nice, Vegas};

use crate::common::drive::Event;
use leeway_control::{Ack, Loss, Path};

pub trait Oracle {
    fn on_ack(&mut self, ack: &Ack, path: &Path);
    fn on_loss(&mut self, loss: &Loss, path: &Path);
    fn window(&self) -> f64;
    /// The slow-start threshold; infinite if not set.
    fn ssthresh(&self) -> f64;

    /// Whether the last decision hung on less than the law's resolution, so that either outcome is
    /// right.
    fn unsure(&self) -> bool {
        false
    }

    fn adopt(&mut self, _window: f64, _ssthresh: f64) {}

    fn on_event(&mut self, event: &Event, path: &Path) {
        match event {
            Event::Ack(ack) => self.on_ack(ack, path),
            Event::Loss(loss) => self.on_loss(loss, path),
        }
    }
}

/// Whether the acknowledgement allows growth at all.
fn grows(ack: &Ack) -> bool {
    ack.app_limited == 0 && ack.recovering == 0 && ack.acked_bytes > 0
}

/// What most laws have in common with Reno (RFC 5681).
#[derive(Clone, Debug)]
pub struct Window {
    pub bytes: f64,
    pub ssthresh: f64,
    pub mss: f64,
    /// Smallest window, in packets.
    pub floor: f64,
    pub slow_start: bool,
    reacted_us: Option<u64>,
}

impl Window {
    pub fn new(path: &Path, floor: f64, slow_start: bool) -> Window {
        Window {
            bytes: f64::from(path.initial_window_bytes),
            ssthresh: f64::INFINITY,
            mss: f64::from(path.mss_bytes),
            floor,
            slow_start,
            reacted_us: None,
        }
    }

    pub fn slow(&self) -> bool {
        self.slow_start && self.bytes.floor() < self.ssthresh
    }

    /// Slow start with L = 2. Returns the bytes beyond the threshold.
    pub fn double(&mut self, acked: f64) -> f64 {
        let step = acked.min(2.0 * self.mss);
        let room = (self.ssthresh - self.bytes).max(0.0);
        self.bytes += step.min(room);
        (step - room).max(0.0).floor()
    }

    /// The part of a round trip that an acknowledgement stands for: acked / W, at most one; W is
    /// at least one packet.
    pub fn share(&self, acked: f64) -> f64 {
        let window = self.bytes.max(self.mss);
        acked.min(window.floor()) / window
    }

    pub fn increase(&mut self, packets_per_rtt: f64, acked: f64) {
        let step = packets_per_rtt * self.mss * self.share(acked);
        self.bytes += step.min(acked);
    }

    pub fn lower_to(&mut self, bytes: f64) {
        let lowest = self.floor * self.mss;
        if self.bytes > lowest {
            self.bytes = bytes.max(lowest);
        }
    }

    /// A decrease because of delay, which is no reason to return to slow start.
    pub fn yield_to(&mut self, bytes: f64) {
        self.lower_to(bytes);
        if self.slow() {
            self.ssthresh = self.bytes.floor();
        }
    }

    pub fn marked(&self, ack: &Ack, path: &Path) -> bool {
        let fresh = self.reacted_us.is_none_or(|then| ack.now_us - then >= u64::from(path.srtt_us));
        ack.ce_bytes > 0 && fresh
    }

    pub fn fresh(&self, loss: &Loss) -> bool {
        self.reacted_us.is_none_or(|then| loss.sent_us > then)
    }

    pub fn back_off(&mut self, beta: f64, now_us: u64) {
        self.ssthresh = (self.bytes.floor() * beta).floor().max(2.0 * self.mss);
        self.lower_to(self.bytes * beta);
        self.reacted_us = Some(now_us);
    }

    /// A loss, as in Reno.
    pub fn lose(&mut self, beta: f64, loss: &Loss) {
        if loss.kind == Loss::TIMEOUT {
            if loss.timeouts <= 1 && self.fresh(loss) {
                self.ssthresh = (self.bytes.floor() * beta).floor().max(2.0 * self.mss);
            }
            self.bytes = self.mss;
            self.reacted_us = Some(loss.now_us);
        } else if self.fresh(loss) {
            self.back_off(beta, loss.now_us);
        }
    }

    pub fn reno(&mut self, acked: f64) {
        let left = if self.slow() { self.double(acked) } else { acked };
        if left > 0.0 {
            self.increase(1.0, left);
        }
    }
}
