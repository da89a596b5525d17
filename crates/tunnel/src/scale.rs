//! What a law is told of a queue on lines of other rates.
//!
//! What keeps a line busy is a queue of some segments, and what those to whom it belongs notice of it is its length in time. A target
//! that is right for a slow line is several times what a fast one needs, and a gain that is right there takes a fast one
//! for ever. So on a fast line a law that aims at a queuing delay is told of a queue as if its segments took as long as
//! on a slow one, and of what arrives as often, within bounds.

use leeway_control::{Law, LawSpec, Phase};

/// The highest rate is one of so long at least: what waited behind a lost segment comes at once.
const SPAN_US: u64 = 500_000;
/// And is remembered for one to two of these.
const MEMORY_US: u64 = 5_000_000;
/// The latest rate is the highest of three times of so long.
const LATEST_US: u64 = 100_000;
/// 2 Mbit/s, at which a segment takes 6 ms: up to here the law is told the queuing delay as it is.
const SLOW_BYTES_PER_S: u64 = 250_000;
/// And so many times the one that is seen at most: a queue of ten milliseconds is as short as timers and others' bursts let it be.
const MOST_PERMILLE: u32 = 2500;

/// The rate at which bytes have come, at its highest of late, and what follows from it.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Whether the law is to be told anything but what is seen.
    aims: bool,
    /// What it is told in this round trip of a thousand microseconds of a queue, or of a thousand bytes.
    told_permille: u32,
    since_us: u64,
    /// Bytes a second: since then, and in the time before.
    highest: [u64; 2],
    span: Span,
    /// Of the last times of [`LATEST_US`] or more.
    latest: [u64; 3],
    latest_span: Span,
}

/// What has come since then.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from_us: u64,
    bytes: u64,
}

impl Span {
    /// So many more. The rate in bytes a second once it has been as long as that; the next one begins then.
    fn arrived(&mut self, now_us: u64, bytes: u64, least_us: u64) -> Option<u64> {
        self.bytes += bytes;
        let passed_us = now_us.saturating_sub(self.from_us);
        if passed_us < least_us {
            return None;
        }
        let rate = self.bytes.saturating_mul(1_000_000) / passed_us;
        *self = Span { from_us: now_us, bytes: 0 };
        Some(rate)
    }
}

impl Scale {
    /// For that law: one without a target in time is told what is seen.
    pub fn new(spec: &LawSpec) -> Scale {
        Scale { aims: spec.law().param("target").is_some(), ..Scale::as_seen() }
    }

    /// For one that is told what is seen in any case.
    pub fn as_seen() -> Scale {
        Scale {
            aims: false,
            told_permille: 1000,
            since_us: 0,
            highest: [0; 2],
            span: Span::default(),
            latest: [0; 3],
            latest_span: Span::default(),
        }
    }

    /// So many bytes have come.
    pub fn arrived(&mut self, now_us: u64, bytes: u64) {
        if let Some(rate) = self.latest_span.arrived(now_us, bytes, LATEST_US) {
            self.latest = [rate, self.latest[0], self.latest[1]];
        }
        if let Some(rate) = self.span.arrived(now_us, bytes, SPAN_US) {
            if now_us >= self.since_us + MEMORY_US {
                self.since_us = now_us;
                self.highest = [0, self.highest[0]];
            }
            self.highest[0] = self.highest[0].max(rate);
        }
    }

    /// What the line may bring now, in bytes a second; 0 where nothing is known of it. That is the latest rate, because a line becomes slower
    /// at times, but no more than the highest of late and no less than half of it: a line may not be used.
    pub fn rate(&self) -> u64 {
        let latest = self.latest.into_iter().fold(0, u64::max);
        latest.clamp(self.highest() / 2, self.highest())
    }

    /// The highest rate of late.
    fn highest(&self) -> u64 {
        self.highest[0].max(self.highest[1])
    }

    /// A round trip begins. In slow start the law is told what is seen: doubling is over soon enough.
    pub fn begin_round(&mut self, law: &Law) {
        self.told_permille = if self.aims && law.output().phase() != Phase::SlowStart {
            (self.highest().min(u64::from(u32::MAX)) * 1000 / SLOW_BYTES_PER_S)
                .clamp(1000, MOST_PERMILLE.into()) as u32
        } else {
            1000
        };
    }

    /// What the law is to be told of so many bytes.
    pub fn told_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.told_permille.into()) / 1000
    }

    /// What it is to be told of a queue that is so long.
    pub fn told_us(&self, seen_us: u32) -> u32 {
        u32::try_from(self.told_bytes(seen_us.into())).unwrap_or(u32::MAX)
    }

    /// How long the queue is that it was told of.
    pub fn seen_us(&self, told_us: u32) -> u32 {
        (u64::from(told_us) * 1000 / u64::from(self.told_permille)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_control::{Ack, Loss, Path};

    /// The scale of a law, and one that is through with slow start.
    fn steady(spec: &str) -> (Scale, Law) {
        let path = Path { mss_bytes: 1460, ..Path::default() };
        let mut law = "ledbat".parse::<LawSpec>().unwrap().build(&path);
        law.on_loss(&Loss { lost_bytes: 1460, ..Loss::default() }, &path);
        law.on_ack(&Ack { now_us: 1, acked_bytes: 1460, rtt_us: 1, ..Ack::default() }, &path);
        assert_ne!(law.output().phase(), Phase::SlowStart);
        (Scale::new(&spec.parse().unwrap()), law)
    }

    impl Scale {
        /// What is told of a millisecond after a segment in each of so many microseconds.
        fn after(&mut self, law: &Law, from_us: u64, to_us: u64, segment_us: usize) -> u32 {
            (from_us..to_us).step_by(segment_us).for_each(|now_us| self.arrived(now_us, 1460));
            self.begin_round(law);
            self.told_us(1000)
        }
    }

    fn at(spec: &str, segment_us: usize) -> u32 {
        let (mut scale, law) = steady(spec);
        scale.after(&law, 0, 5_000_000, segment_us)
    }

    #[test]
    fn a_line_that_becomes_slower_is_believed_to_be_half_as_fast_at_least() {
        let (mut scale, law) = steady("ledbat");
        assert_eq!(scale.rate(), 0);
        let at = |scale: &mut Scale, from_us, to_us, segment_us| {
            scale.after(&law, from_us, to_us, segment_us);
            scale.rate()
        };
        let fast = at(&mut scale, 0, 3_000_000, 7000);
        assert!(fast.abs_diff(1_460_000_000 / 7000) < 4000, "{fast}");
        let slower = at(&mut scale, 3_000_000, 3_500_000, 10_000);
        assert!(slower.abs_diff(146_000) < 3000, "{slower}");
        let hardly_used = at(&mut scale, 3_500_000, 4_000_000, 70_000);
        assert!(hardly_used.abs_diff(fast / 2) < 3000, "{hardly_used}");
    }

    #[test]
    fn up_to_a_bound_the_scale_is_the_rate() {
        assert_eq!(at("ledbat", 7000), 1000);
        assert!(at("ledbat", 2920).abs_diff(2000) < 20, "{}", at("ledbat", 2920));
        assert_eq!(at("ledbat", 100), MOST_PERMILLE);
    }

    #[test]
    fn what_is_told_is_what_is_seen_when_it_is_asked_back() {
        let (mut scale, law) = steady("ledbat");
        scale.after(&law, 0, 5_000_000, 2920);
        assert_eq!(scale.told_bytes(1_000_000), u64::from(scale.told_us(1_000_000)));
        assert!(scale.seen_us(scale.told_us(12_345)).abs_diff(12_345) <= 1);
        assert_eq!(scale.told_us(u32::MAX), u32::MAX);
        assert!(scale.told_bytes(u64::MAX) > u64::MAX / 1000 - 1);
    }

    #[test]
    fn a_law_that_aims_at_no_delay_is_told_what_is_seen() {
        for law in ["newreno", "cubic", "vegas", "lp"] {
            assert_eq!(at(law, 100), 1000, "{law}");
        }
    }

    #[test]
    fn who_is_still_doubling_is_told_what_is_seen() {
        let spec: LawSpec = "ledbat:slow_start=delay".parse().unwrap();
        let law = spec.build(&Path { mss_bytes: 1460, ..Path::default() });
        assert_eq!(Scale::new(&spec).after(&law, 0, 5_000_000, 100), 1000);
    }

    #[test]
    fn what_waited_behind_a_lost_segment_is_no_faster_line() {
        let (mut scale, law) = steady("ledbat");
        for n in 1..1000 {
            // 1.72 Mbit/s, of which 30 kB come at once every five seconds.
            scale.arrived(n * 7000, if n % 714 == 0 { 30_000 } else { 1460 });
        }
        scale.begin_round(&law);
        assert!(scale.told_us(1000) < 1200, "{}", scale.told_us(1000));
        scale.arrived(7_000_000, 30_000);
        assert!(scale.rate() < SLOW_BYTES_PER_S * 6 / 5, "{}", scale.rate());
    }

    #[test]
    fn a_rate_is_forgotten_after_ten_seconds() {
        let (mut scale, law) = steady("ledbat");
        assert_eq!(scale.after(&law, 0, 10_000_000, 1000), MOST_PERMILLE);
        assert_eq!(scale.after(&law, 10_000_000, 14_000_000, 7000), MOST_PERMILLE);
        assert_eq!(scale.after(&law, 14_000_000, 21_000_000, 7000), 1000);
    }
}
