use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// Vegas (Brakmo and Peterson 1995), with the smallest or the mean sample of a round.
pub struct Vegas {
    pub window: Window,
    pub alpha: f64,
    pub beta: f64,
    pub gamma: f64,
    pub mean: bool,
    least: f64,
    most: f64,
    round: Vec<f64>,
    grown: f64,
    doubling: bool,
    recovered: bool,
    unsure: bool,
}

impl Vegas {
    pub fn new(path: &Path) -> Vegas {
        Vegas {
            window: Window::new(path, 2.0, true),
            alpha: 2.0,
            beta: 4.0,
            gamma: 1.0,
            mean: false,
            least: f64::INFINITY,
            most: 0.0,
            round: Vec::new(),
            grown: 0.0,
            doubling: true,
            recovered: false,
            unsure: false,
        }
    }

    fn forget(&mut self) {
        self.round.clear();
        self.grown = 0.0;
        self.recovered = false;
    }

    fn step(&mut self, ack: &Ack) {
        let least = self.round.iter().copied().fold(f64::INFINITY, f64::min);
        let mean = (self.round.iter().sum::<f64>() / self.round.len() as f64).floor();
        let rtt = if self.mean { mean } else { least };
        let mss = self.window.mss;
        let diff = self.window.bytes / mss * (rtt - self.least) / rtt;
        self.unsure = [self.alpha, self.beta, self.gamma].iter().any(|edge| (diff - edge).abs() < 2e-3);
        if self.window.slow() {
            self.doubling = !self.doubling;
            if diff > self.gamma {
                self.window.lower_to(self.window.bytes * self.least / rtt + mss);
                self.window.ssthresh = self.window.ssthresh.min(self.window.bytes.floor());
            }
        } else if diff < self.alpha {
            if grows(ack) {
                self.window.bytes += mss.min(self.grown);
            }
        } else if diff > self.beta {
            self.window.lower_to(self.window.bytes - mss);
        }
    }

    fn sample(&mut self, ack: &Ack) {
        self.recovered |= ack.recovering != 0;
        self.least = self.least.min(f64::from(ack.rtt_us));
        self.most = self.most.max(f64::from(ack.rtt_us));
        self.round.push(f64::from(ack.rtt_us));
    }
}

impl Oracle for Vegas {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.unsure = false;
        if self.window.marked(ack, path) {
            self.window.back_off(0.5, ack.now_us);
            self.forget();
        } else {
            if ack.round_start != 0 {
                if !self.round.is_empty() && !self.recovered {
                    self.step(ack);
                }
                self.forget();
            }
            if grows(ack) && !self.window.slow() {
                self.grown += ack.acked_bytes as f64;
            } else if grows(ack) && self.doubling {
                self.window.double(ack.acked_bytes as f64);
            }
        }
        self.sample(ack);
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        self.window.lose(0.5, loss);
        self.doubling = true;
        self.recovered = true;
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

/// TCP Nice (Venkataramani, Kokku and Dahlin 2002).
pub struct Nice {
    pub vegas: Vegas,
    pub threshold: f64,
    pub fraction: f64,
    delayed: f64,
}

impl Nice {
    pub fn new(path: &Path) -> Nice {
        let mut vegas = Vegas::new(path);
        vegas.window.floor = 0.021;
        Nice { vegas, threshold: 0.2, fraction: 0.5, delayed: 0.0 }
    }
}

impl Oracle for Nice {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        let congested = self.delayed > self.fraction * self.vegas.round.len() as f64;
        if ack.round_start != 0 && congested && !self.vegas.recovered {
            self.vegas.unsure = false;
            self.vegas.window.back_off(0.5, ack.now_us);
            self.vegas.forget();
            self.vegas.sample(ack);
        } else {
            self.vegas.on_ack(ack, path);
        }
        if ack.round_start != 0 {
            self.delayed = 0.0;
        }
        let (least, most) = (self.vegas.least, self.vegas.most);
        if f64::from(ack.rtt_us) > least + self.threshold * (most - least) + 1e-6 {
            self.delayed += 1.0;
        }
    }

    fn on_loss(&mut self, loss: &Loss, path: &Path) {
        self.vegas.on_loss(loss, path);
    }

    fn unsure(&self) -> bool {
        self.vegas.unsure
    }

    fn adopt(&mut self, window: f64, ssthresh: f64) {
        self.vegas.adopt(window, ssthresh);
    }

    fn window(&self) -> f64 {
        self.vegas.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.vegas.window.ssthresh
    }
}
