use super::{Oracle, Window, grows};
use leeway_control::{Ack, Loss, Path};

/// Kuzmanovic and Knightly 2003.
pub struct Lp {
    pub window: Window,
    pub threshold: f64,
    pub inference_rtts: f64,
    pub per_ack: bool,
    first_us: Option<u32>,
    /// Smallest, largest and second largest delay.
    least: f64,
    largest: f64,
    second: f64,
    smoothed: f64,
    inference_ends: f64,
    indicated: Option<u64>,
}

impl Lp {
    pub fn new(path: &Path) -> Lp {
        Lp {
            window: Window::new(path, 1.0, true),
            threshold: 0.15,
            inference_rtts: 3.0,
            per_ack: false,
            first_us: None,
            least: 0.0,
            largest: 0.0,
            second: 0.0,
            smoothed: 0.0,
            inference_ends: 0.0,
            indicated: None,
        }
    }

    /// Delays count from the first one, so that neither an offset nor a wrap matters.
    fn sample(&mut self, ack: &Ack) {
        let delay = f64::from(ack.owd_us.wrapping_sub(*self.first_us.get_or_insert(ack.owd_us)) as i32);
        // The first delay is zero, and so are all extremes at that time.
        self.smoothed += (delay - self.smoothed) / 8.0;
        self.least = self.least.min(delay);
        if delay > self.largest {
            self.second = self.largest;
            self.largest = delay;
        } else if delay > self.second {
            self.second = delay;
        }
    }

    fn congested(&self) -> bool {
        // The law compares whole microseconds.
        let range = self.second - self.least;
        range > 0.0 && (self.smoothed - self.least).floor() >= self.threshold * range
    }
}

impl Oracle for Lp {
    fn on_ack(&mut self, ack: &Ack, path: &Path) {
        self.sample(ack);
        if self.window.marked(ack, path) {
            return self.window.back_off(0.5, ack.now_us);
        }
        let now = ack.now_us as f64;
        let rtt = f64::from(path.srtt_us);
        let again =
            self.indicated.is_none_or(|then| self.per_ack || ack.now_us - then >= u64::from(path.srtt_us));
        // The range of delays is known once the first slow start has ended.
        if self.congested() && again && self.window.ssthresh.is_finite() {
            self.indicated = Some(ack.now_us);
            if now < self.inference_ends {
                let window = self.window.bytes;
                self.window.back_off(0.5, ack.now_us);
                self.window.bytes = window.min(self.window.mss);
            } else {
                self.window.back_off(0.5, ack.now_us);
                self.inference_ends = now + self.inference_rtts * rtt;
            }
        }
        if now >= self.inference_ends && grows(ack) {
            self.window.reno(ack.acked_bytes as f64);
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
