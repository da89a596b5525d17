use super::delay::Delay;
use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// RFC 6817, 2.4.2.
pub struct Ledbat {
    pub window: Window,
    pub delay: Delay,
    pub target_us: f64,
    pub gain_up: f64,
    pub gain_down: f64,
    pub clamp: bool,
}

impl Ledbat {
    pub fn new(path: &Path) -> Ledbat {
        Ledbat {
            window: Window::new(path, 2.0, false),
            delay: Delay::new(false),
            target_us: 100_000.0,
            gain_up: 1.0,
            gain_down: 1.0,
            clamp: false,
        }
    }
}

impl Oracle for Ledbat {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.delay.on_ack(ack, path);
        if self.window.marked(ack, path) {
            return self.window.back_off(0.5, ack.now_us);
        }
        let mut acked = ack.acked_bytes as f64;
        if self.window.slow() {
            if !grows(ack) {
                return;
            }
            acked = self.window.double(acked);
        }
        let off = (self.target_us - self.delay.queuing_us) / self.target_us;
        if off < 0.0 {
            let off = if self.clamp { off.max(-1.0) } else { off };
            let step = self.gain_down * -off * self.window.mss * self.window.share(acked);
            if acked > 0.0 {
                self.window.yield_to(self.window.bytes - step);
            }
        } else if grows(ack) && acked > 0.0 {
            let before = self.window.bytes;
            self.window.increase(self.gain_up * off, acked);
            let allowed = ack.prior_inflight_bytes as f64 + self.window.mss;
            self.window.bytes = self.window.bytes.min(allowed.max(before));
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        self.window.lose(0.5, loss);
    }

    fn window(&self) -> f64 {
        self.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }
}

/// Carofiglio 2013, eq. 5.
pub struct FLedbat {
    pub window: Window,
    pub delay: Delay,
    pub target_us: f64,
    pub alpha: f64,
    pub zeta: f64,
}

impl FLedbat {
    pub fn new(path: &Path) -> FLedbat {
        FLedbat {
            window: Window::new(path, 2.0, false),
            delay: Delay::new(false),
            target_us: 100_000.0,
            alpha: 1.0,
            zeta: 0.1,
        }
    }
}

impl Oracle for FLedbat {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.delay.on_ack(ack, path);
        if self.window.marked(ack, path) {
            return self.window.back_off(0.5, ack.now_us);
        }
        let mut acked = ack.acked_bytes as f64;
        if self.window.slow() {
            if !grows(ack) {
                return;
            }
            acked = self.window.double(acked);
        }
        if grows(ack) && acked > 0.0 {
            self.window.increase(self.alpha, acked);
        }
        let excess = (self.delay.queuing_us - self.target_us) / self.target_us;
        if excess > 0.0 && acked > 0.0 {
            self.window.yield_to(self.window.bytes - self.zeta * excess * acked);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        self.window.lose(0.5, loss);
    }

    fn window(&self) -> f64 {
        self.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }
}
