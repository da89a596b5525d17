use leeway_control::{Ack, Path};

/// The queuing delay as RFC 6817 words it, from all samples ever taken.
#[derive(Default)]
pub struct Delay {
    pub use_rtt: bool,
    /// Time and value of each sample, without wrap.
    samples: Vec<(u64, i64)>,
    /// Start and minimum of each interval.
    buckets: Vec<(u64, i64)>,
    pub history: usize,
    pub interval_us: u64,
    pub length: usize,
    pub queuing_us: f64,
}

impl Delay {
    pub fn new(use_rtt: bool) -> Delay {
        Delay { use_rtt, history: 10, interval_us: 60_000_000, length: 4, ..Delay::default() }
    }

    /// The sample of an acknowledgement, without wrap.
    fn sample(&self, ack: &Ack) -> i64 {
        if self.use_rtt {
            return i64::from(ack.rtt_us);
        }
        let last = self.samples.last().map_or(i64::from(ack.owd_us), |sample| sample.1);
        last + i64::from(ack.owd_us.wrapping_sub(last as u32) as i32)
    }

    pub fn base_us(&self) -> i64 {
        let kept = if self.history == 0 { self.buckets.len() } else { self.history };
        self.buckets.iter().rev().take(kept).map(|bucket| bucket.1).min().unwrap_or(0)
    }

    pub fn on_ack(&mut self, ack: &Ack, path: &Path) {
        let value = self.sample(ack);
        self.samples.push((ack.now_us, value));
        match self.buckets.last_mut() {
            Some((start, least)) if ack.now_us - *start < self.interval_us => *least = value.min(*least),
            _ => self.buckets.push((ack.now_us, value)),
        }
        let recent = self.samples.iter().rev().take(self.length);
        let fresh = recent.filter(|(taken, _)| ack.now_us - taken <= u64::from(path.srtt_us));
        let current = fresh.map(|sample| sample.1).min().expect("the newest");
        self.queuing_us = (current - self.base_us()).max(0) as f64;
    }
}
