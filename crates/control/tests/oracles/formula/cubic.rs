use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// RFC 9438, or the 2010 flavour.
pub struct Cubic {
    pub window: Window,
    pub c: f64,
    pub beta: f64,
    pub old: bool,
    pub fast_convergence: bool,
    pub friendly: bool,
    w_max: f64,
    prior: f64,
    w_est: f64,
    k: f64,
    /// Time in congestion avoidance in which the window may grow, in s; `None` outside of an
    /// epoch.
    t: Option<f64>,
    timed_out: bool,
    last_us: u64,
    unsure: bool,
}

impl Cubic {
    pub fn new(path: &Path, old: bool) -> Cubic {
        Cubic {
            window: Window::new(path, 1.0, true),
            c: 0.4,
            beta: if old { 0.8 } else { 0.7 },
            old,
            fast_convergence: true,
            friendly: true,
            w_max: 0.0,
            prior: 0.0,
            w_est: 0.0,
            k: 0.0,
            t: None,
            timed_out: false,
            last_us: 0,
            unsure: false,
        }
    }

    fn w_cubic(&self, t: f64) -> f64 {
        (self.c * (t - self.k).powi(3) * self.window.mss + self.w_max).max(0.0)
    }

    fn avoid(&mut self, acked: f64, since_us: u64, srtt_us: u32) {
        let mss = self.window.mss;
        let before = self.window.bytes;
        match &mut self.t {
            Some(t) => *t += since_us as f64 * 1e-6,
            None => {
                self.t = Some(0.0);
                self.w_est = before;
                if self.timed_out || self.w_max <= before {
                    self.w_max = before;
                    self.k = 0.0;
                } else {
                    self.k = ((self.w_max - before) / mss / self.c).cbrt();
                }
                self.timed_out = false;
            }
        }
        let alpha = if !self.old && self.w_est >= self.prior {
            1.0
        } else {
            3.0 * (1.0 - self.beta) / (1.0 + self.beta)
        };
        let share = self.window.share(acked);
        self.w_est += alpha * mss * share;
        let t = self.t.expect("set above");
        let target = if self.old {
            self.w_cubic(t)
        } else {
            self.w_cubic(t + f64::from(srtt_us) * 1e-6).clamp(before, 1.5 * before)
        };
        self.window.bytes += ((target - before).max(0.0) * share).min(acked);
        self.unsure =
            (self.w_cubic(t) - self.w_est).abs() < 0.02 * mss && self.w_est > self.window.bytes + 0.02 * mss;
        if self.friendly && self.w_cubic(t) < self.w_est {
            self.window.bytes = self.window.bytes.max(self.w_est.min(before + acked));
        }
    }

    fn remember(&mut self) {
        let w = self.window.bytes;
        self.prior = w;
        self.w_max = if self.fast_convergence && w < self.w_max { w * (1.0 + self.beta) / 2.0 } else { w };
        self.t = None;
    }
}

impl Oracle for Cubic {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        let since_us = ack.now_us - self.last_us;
        self.last_us = ack.now_us;
        if self.window.marked(ack, path) {
            self.remember();
            return self.window.back_off(self.beta, ack.now_us);
        }
        if !grows(ack) {
            return;
        }
        let mut acked = ack.acked_bytes as f64;
        if self.window.slow() {
            acked = self.window.double(acked);
        }
        if acked > 0.0 {
            self.avoid(acked, since_us, path.srtt_us);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        if self.window.fresh(loss) && loss.timeouts <= 1 {
            self.remember();
        }
        if loss.kind == Loss::TIMEOUT {
            self.t = None;
            self.timed_out = true;
        }
        self.window.lose(self.beta, loss);
    }

    fn unsure(&self) -> bool {
        self.unsure
    }

    fn adopt(&mut self, window: f64, ssthresh: f64) {
        (self.window.bytes, self.window.ssthresh) = (window, ssthresh);
    }

    fn window(&self) -> f64 {
        self.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }
}
