//! What a law is told of a queue on lines of other rates.
//!
//! What keeps a line busy is a queue of some segments, and what those to whom it belongs notice of it is its length in time. A target
//! that is right for a slow line is several times what a fast one needs, and a gain that is right there takes a fast one
//! for ever. So on a fast line a law that aims at a queuing delay is told of a queue as if its segments took as long as
//! on a slow one, and of what arrives as often, within bounds.

use leeway_control::LawSpec;

/// A rate is that of so long at least: what waited behind a lost segment comes at once.
const SPAN_US: u64 = 500_000;
/// And is remembered for one to two of these.
const MEMORY_US: u64 = 5_000_000;
/// 2 Mbit/s, at which a segment takes 6 ms: up to here the law is told the queuing delay as it is.
const SLOW_BYTES_PER_S: u64 = 250_000;
/// And so many times the one that is seen at most: a queue of ten milliseconds is as short as timers and others' bursts let it be.
const MOST_PERMILLE: u32 = 2500;

/// The rate at which bytes have come, at its highest of late, and what follows from it.
#[derive(Debug, Clone, Default)]
pub struct Scale {
    /// Whether the law is to be told anything but what is seen.
    aims: bool,
    since_us: u64,
    /// Bytes a second: since then, and in the time before.
    highest: [u64; 2],
    span_from_us: u64,
    span_bytes: u64,
}

impl Scale {
    /// For that law: one without a target in time is told what is seen.
    pub fn new(spec: &LawSpec) -> Scale {
        Scale { aims: spec.law().param("target").is_some(), ..Scale::default() }
    }

    /// So many bytes have come.
    pub fn arrived(&mut self, now_us: u64, bytes: u64) {
        self.span_bytes += bytes;
        let span_us = now_us.saturating_sub(self.span_from_us);
        if span_us < SPAN_US {
            return;
        }
        if now_us >= self.since_us + MEMORY_US {
            self.since_us = now_us;
            self.highest = [0, self.highest[0]];
        }
        self.highest[0] = self.highest[0].max(self.span_bytes.saturating_mul(1_000_000) / span_us);
        self.span_from_us = now_us;
        self.span_bytes = 0;
    }

    /// What the law is to be told of a thousand microseconds of a queue, or of a thousand bytes.
    pub fn permille(&self) -> u32 {
        if !self.aims {
            return 1000;
        }
        let highest = self.highest[0].max(self.highest[1]).min(u64::from(u32::MAX));
        (highest * 1000 / SLOW_BYTES_PER_S).clamp(1000, MOST_PERMILLE.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(law: &str, segment_us: usize) -> u32 {
        let mut scale = Scale::new(&law.parse().unwrap());
        (0..5_000_000).step_by(segment_us).for_each(|now_us| scale.arrived(now_us, 1460));
        scale.permille()
    }

    #[test]
    fn up_to_a_bound_the_scale_is_the_rate() {
        assert_eq!(at("ledbat", 7000), 1000);
        assert!(at("ledbat", 2920).abs_diff(2000) < 20, "{}", at("ledbat", 2920));
        assert_eq!(at("ledbat", 100), MOST_PERMILLE);
    }

    #[test]
    fn a_law_that_aims_at_no_delay_is_told_what_is_seen() {
        for law in ["newreno", "cubic", "vegas", "lp"] {
            assert_eq!(at(law, 100), 1000, "{law}");
        }
    }

    #[test]
    fn what_waited_behind_a_lost_segment_is_no_faster_line() {
        let mut scale = Scale::new(&"ledbat".parse().unwrap());
        for n in 1..1000 {
            // 1.72 Mbit/s, of which 30 kB come at once every five seconds.
            scale.arrived(n * 7000, if n % 714 == 0 { 30_000 } else { 1460 });
        }
        assert!(scale.permille() < 1200, "{}", scale.permille());
    }

    #[test]
    fn a_rate_is_forgotten_after_ten_seconds() {
        let mut scale = Scale::new(&"ledbat".parse().unwrap());
        let mut run = |from_s: u64, to_s: u64, segment_us: usize| {
            (from_s * 1_000_000..to_s * 1_000_000)
                .step_by(segment_us)
                .for_each(|now_us| scale.arrived(now_us, 1460));
            scale.permille()
        };
        assert_eq!(run(0, 10, 1000), MOST_PERMILLE);
        assert_eq!(run(10, 14, 7000), MOST_PERMILLE);
        assert_eq!(run(14, 21, 7000), 1000);
    }
}
