use super::delay::Delay;
use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// Triangular memberships of `x` around 11 ascending centres, with flat shoulders.
pub fn memberships(x: f64, centres: &[f64; 11]) -> [f64; 11] {
    let mut degrees = [0.0; 11];
    for (i, degree) in degrees.iter_mut().enumerate() {
        let centre = centres[i];
        let left = if i == 0 { f64::NEG_INFINITY } else { centres[i - 1] };
        let right = if i == 10 { f64::INFINITY } else { centres[i + 1] };
        *degree = if x == centre || (i == 0 && x < centre) || (i == 10 && x > centre) {
            1.0
        } else if x < centre {
            ((x - left) / (centre - left)).max(0.0)
        } else {
            ((right - x) / (right - centre)).max(0.0)
        };
    }
    degrees
}

/// All 121 rules, with conjunction by minimum or by product, and the centre average. Unit: packets
/// a round trip.
pub fn infer(e_percent: f64, de_ms: f64, de_centres: &[f64; 11], product: bool) -> f64 {
    let e_centres: [f64; 11] = std::array::from_fn(|i| 20.0 * (i as f64 - 5.0));
    let e = memberships(e_percent, &e_centres);
    let de = memberships(de_ms, de_centres);
    let (mut sum, mut total) = (0.0, 0.0);
    for (i, e) in e.iter().enumerate() {
        for (j, de) in de.iter().enumerate() {
            let weight = if product { e * de } else { e.min(*de) };
            let value = if j == 10 { -6 } else { (i as i32 + j as i32 - 10).clamp(-5, 5) };
            sum += weight * 0.2 * f64::from(value);
            total += weight;
        }
    }
    sum / total
}

/// Trang 2014, chapter 5; delays in milliseconds.
pub struct Flower {
    pub window: Window,
    pub target: f64,
    pub product: bool,
    delay: Delay,
    round: Vec<f64>,
    grown: f64,
    /// Queuing delay of every round trip.
    pub q: Vec<f64>,
    s_plus: f64,
    s_minus: f64,
    q_max: f64,
    peaks_smoothed: f64,
    valley_next: bool,
}

impl Flower {
    pub fn new(path: &Path) -> Flower {
        Flower {
            window: Window::new(path, 1.0, true),
            target: 100.0,
            product: false,
            delay: Delay::new(false),
            round: Vec::new(),
            grown: 0.0,
            q: Vec::new(),
            s_plus: 0.0,
            s_minus: 0.0,
            q_max: 0.0,
            peaks_smoothed: 0.0,
            valley_next: false,
        }
    }

    fn detect(&mut self) {
        let now = *self.q.last().expect("one");
        self.q_max = self.q_max.max(now);
        if self.q.len() < 6 {
            return;
        }
        let last = &self.q[self.q.len() - 6..];
        let (candidate, right) = (last[0], &last[1..]);
        if self.valley_next {
            self.valley_next = !right.iter().all(|q| candidate < *q);
        } else if right.iter().all(|q| candidate > *q) {
            self.valley_next = true;
            self.peaks_smoothed = 7.0 / 8.0 * self.peaks_smoothed + candidate / 8.0;
            if candidate > self.peaks_smoothed {
                self.q_max = candidate;
            }
        }
    }

    /// dW in packets; `None` in the loss-detection zone.
    fn control(&mut self, q: f64) -> Option<f64> {
        let before = self.q.last().copied().unwrap_or(q);
        self.q.push(q);
        self.detect();
        let de = before - q;
        if de >= 0.0 {
            self.s_plus += (de - self.s_plus) / 8.0;
        } else {
            self.s_minus += (de - self.s_minus) / 8.0;
        }
        let most = self.q_max.max(5.0);
        let (minus, plus) = (self.s_minus.min(-4.0).max(-most), self.s_plus.max(4.0).min(most));
        let centres = [-most, minus, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, plus, most];
        let e = if q <= self.target {
            100.0 * (self.target - q) / self.target
        } else {
            (100.0 * (self.target - q) / (self.q_max - self.target)).clamp(-100.0, 100.0)
        };
        (de <= plus).then(|| infer(e, de, &centres, self.product))
    }

    fn restart(&mut self, now_us: u64) {
        self.window.back_off(0.0, now_us);
        self.window.slow_start = false;
    }
}

fn controls(ack: &Ack) -> bool {
    ack.app_limited == 0 && ack.acked_bytes > 0
}

impl Oracle for Flower {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        let mss = self.window.mss;
        if ack.round_start != 0 {
            if !self.round.is_empty() {
                let base = self.delay.base_us() as f64 * 1e-3;
                let q = self.round.iter().copied().fold(f64::INFINITY, f64::min) - base;
                let change = self.control(q);
                match change {
                    _ if self.window.slow() => {}
                    None => self.window.bytes = self.window.bytes.min(self.window.floor * mss),
                    Some(change) if change < 0.0 => self.window.lower_to(self.window.bytes + change * mss),
                    // In recovery too, because the window was at the floor when it began.
                    Some(change) if controls(ack) => self.window.bytes += (change * mss).min(self.grown),
                    Some(_) => {}
                }
            }
            self.round.clear();
            self.grown = 0.0;
        }
        self.delay.on_ack(ack, path);
        self.round.push(f64::from(ack.owd_us) * 1e-3);
        if self.window.marked(ack, path) {
            return self.restart(ack.now_us);
        }
        if self.window.slow() {
            if grows(ack) {
                self.window.double(ack.acked_bytes as f64);
            }
        } else if controls(ack) {
            self.grown += ack.acked_bytes as f64;
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: &Path) {
        if loss.kind == Loss::TIMEOUT {
            self.window.lose(0.5, loss);
            self.window.slow_start = false;
        } else if self.window.fresh(loss) {
            self.restart(loss.now_us);
        }
    }

    fn window(&self) -> f64 {
        self.window.bytes
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }
}
