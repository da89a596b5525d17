use super::delay::Delay;
use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Begin,
    Steady { slow_at: f64 },
    Hold { since: f64, until: f64 },
    Ramp { since: f64 },
}

/// draft-irtf-iccrg-ledbat-plus-plus, section 4.
pub struct LedbatPp {
    pub window: Window,
    pub delay: Delay,
    pub target_us: f64,
    pub scaled_ramp: bool,
    stage: Stage,
    carry: f64,
}

impl LedbatPp {
    pub fn new(path: &Path) -> LedbatPp {
        LedbatPp {
            window: Window::new(path, 2.0, true),
            delay: Delay::new(true),
            target_us: 60_000.0,
            scaled_ramp: false,
            stage: Stage::Begin,
            carry: 0.0,
        }
    }

    fn gain(&self) -> f64 {
        let base = self.delay.base_us() as f64;
        1.0 / (2.0 * self.target_us / base).ceil().min(16.0)
    }

    fn leave(&mut self, now_us: u64, path: &Path) {
        self.stage = Stage::Steady { slow_at: now_us as f64 + 2.0 * f64::from(path.srtt_us) };
    }

    fn schedule(&mut self, now: f64, path: &Path) {
        match self.stage {
            Stage::Steady { slow_at } if now >= slow_at => {
                self.window.ssthresh = self.window.bytes.floor();
                self.window.bytes = self.window.bytes.min(2.0 * self.window.mss);
                self.stage = Stage::Hold { since: now, until: now + 2.0 * f64::from(path.srtt_us) };
            }
            Stage::Hold { since, until } if now >= until => self.stage = Stage::Ramp { since },
            _ => {}
        }
        if let Stage::Ramp { since } = self.stage
            && self.window.bytes.floor() >= self.window.ssthresh
        {
            self.stage = Stage::Steady { slow_at: now + 9.0 * (now - since) };
        }
    }

    fn scaled(&mut self, acked: f64) -> f64 {
        // Whole bytes are added to the window; the rest is carried over.
        let bytes = acked * (self.gain() * 65536.0).floor() / 65536.0 + self.carry;
        self.carry = bytes.fract();
        self.window.double(bytes.floor())
    }
}

impl Oracle for LedbatPp {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.delay.on_ack(ack, path);
        let now = ack.now_us as f64;
        if self.window.marked(ack, path) {
            self.window.back_off(0.5, ack.now_us);
            if self.stage == Stage::Begin {
                self.leave(ack.now_us, path);
            }
            return;
        }
        let q = self.delay.queuing_us;
        if self.stage == Stage::Begin && (!self.window.slow() || q > 0.75 * self.target_us) {
            self.window.ssthresh = self.window.ssthresh.min(self.window.bytes.floor());
            self.leave(ack.now_us, path);
        }
        self.schedule(now, path);
        if matches!(self.stage, Stage::Hold { .. }) {
            return;
        }
        let mut acked = ack.acked_bytes as f64;
        if self.window.slow() {
            if !grows(ack) {
                return;
            }
            let scaled = self.stage == Stage::Begin || self.scaled_ramp;
            acked = if scaled { self.scaled(acked) } else { self.window.double(acked) };
            if acked == 0.0 {
                return;
            }
        }
        let gain = self.gain();
        if q <= self.target_us {
            if grows(ack) {
                self.window.increase(gain, acked);
            }
        } else if ack.round_start != 0 {
            let w = self.window.bytes;
            let up = if grows(ack) { gain * self.window.mss.min(acked) } else { 0.0 };
            let change = (up - w * (q / self.target_us - 1.0)).max(-w / 2.0);
            if change > 0.0 {
                self.window.bytes += change;
            } else {
                self.window.yield_to(w + change);
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss, path: &Path) {
        self.window.lose(0.5, loss);
        if self.stage == Stage::Begin {
            self.leave(loss.now_us, path);
        }
    }

    fn window(&self) -> f64 {
        self.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }
}
