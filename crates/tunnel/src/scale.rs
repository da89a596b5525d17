//! Scaling of queuing delays by the line's rate, for laws with a target in time.
//!
//! A queue of a few segments keeps a line busy. The home notices the length of that queue in time:
//! two segments are 14 ms at 1.72 Mbit/s and 0.5 ms at 50 Mbit/s. One target in time is therefore
//! too small for a slow line or too large for a fast one. Above 2 Mbit/s, [`Scale`] multiplies the
//! delays and the acknowledged bytes that the law is given by the line's rate over 2 Mbit/s, at most
//! by 2.5. The law then keeps a queue of as many segments as at 2 Mbit/s, and its gain acts as fast.

use leeway_control::{Law, LawSpec, Phase};

/// The highest rate is measured over 500 ms at least. Bytes that waited behind a lost segment
/// arrive together, and over a shorter time they would look like a faster line.
const SPAN_US: u64 = 500_000;
/// The highest rate is forgotten after 5 to 10 s.
const MEMORY_US: u64 = 5_000_000;
/// The latest rate is the highest of three measurements of 100 ms each.
const LATEST_US: u64 = 100_000;
/// 2 Mbit/s: a segment of 1,460 bytes takes 6 ms. Up to this rate nothing is scaled.
const SLOW_BYTES_PER_S: u64 = 250_000;
/// The largest factor, in thousandths. Timers and other senders' bursts make queues of 10 ms anyway,
/// so a shorter target gains nothing.
const MOST_PERMILLE: u32 = 2500;

/// The line's rate, from the bytes that arrive, and the factor that follows from it.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Whether the law has a target in time. If not, the factor is 1.
    aims: bool,
    /// The factor of this round trip, in thousandths.
    told_permille: u32,
    /// When the present period of [`MEMORY_US`] began.
    since_us: u64,
    /// Highest rates of the present period and of the one before, in bytes a second.
    highest: [u64; 2],
    span: Span,
    /// The last three rates over [`LATEST_US`] or more, in bytes a second.
    latest: [u64; 3],
    latest_span: Span,
}

/// Bytes that arrived since a time.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from_us: u64,
    bytes: u64,
}

impl Span {
    /// Adds bytes. Returns the rate in bytes a second when `least_us` have passed, and begins anew.
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
    /// The scale of a law. A law without a parameter `target` has the factor 1.
    pub fn new(spec: &LawSpec) -> Scale {
        Scale { aims: spec.law().param("target").is_some(), ..Scale::as_seen() }
    }

    /// A scale whose factor is always 1.
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

    /// Bytes arrived.
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

    /// The line's rate in bytes a second; 0 while nothing is known. It is the latest rate, because a
    /// line may become slower, between half of the highest rate and the highest rate, because a line
    /// may be little used.
    pub fn rate(&self) -> u64 {
        let latest = self.latest.into_iter().fold(0, u64::max);
        latest.clamp(self.highest() / 2, self.highest())
    }

    /// The highest rate of the last 5 to 10 s, in bytes a second.
    fn highest(&self) -> u64 {
        self.highest[0].max(self.highest[1])
    }

    /// A round trip begins: the factor is computed anew. In slow start the factor is 1, because
    /// doubling is over within a few round trips.
    pub fn begin_round(&mut self, law: &Law) {
        self.told_permille = if self.aims && law.output().phase() != Phase::SlowStart {
            (self.highest().min(u64::from(u32::MAX)) * 1000 / SLOW_BYTES_PER_S)
                .clamp(1000, MOST_PERMILLE.into()) as u32
        } else {
            1000
        };
    }

    /// Acknowledged bytes as the law is given them.
    pub fn told_bytes(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.told_permille.into()) / 1000
    }

    /// A measured queuing delay, in microseconds, as the law is given it.
    pub fn told_us(&self, seen_us: u32) -> u32 {
        u32::try_from(self.told_bytes(seen_us.into())).unwrap_or(u32::MAX)
    }

    /// The measured queuing delay of one that the law was given: the inverse of [`Scale::told_us`].
    pub fn seen_us(&self, told_us: u32) -> u32 {
        (u64::from(told_us) * 1000 / u64::from(self.told_permille)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_control::{Ack, Loss, Path};

    /// The scale of a law, and a law that has left slow start.
    fn steady(spec: &str) -> (Scale, Law) {
        let path = Path { mss_bytes: 1460, ..Path::default() };
        let mut law = "ledbat".parse::<LawSpec>().unwrap().build(&path);
        law.on_loss(&Loss { lost_bytes: 1460, ..Loss::default() }, &path);
        law.on_ack(&Ack { now_us: 1, acked_bytes: 1460, rtt_us: 1, ..Ack::default() }, &path);
        assert_ne!(law.output().phase(), Phase::SlowStart);
        (Scale::new(&spec.parse().unwrap()), law)
    }

    impl Scale {
        /// What the law is given for 1 ms of queue, after one segment every `segment_us`.
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
    fn a_line_that_becomes_slower_counts_as_half_as_fast_at_least() {
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
    fn the_factor_is_the_rate_over_two_mbits_within_bounds() {
        assert_eq!(at("ledbat", 7000), 1000);
        assert!(at("ledbat", 2920).abs_diff(2000) < 20, "{}", at("ledbat", 2920));
        assert_eq!(at("ledbat", 100), MOST_PERMILLE);
    }

    #[test]
    fn the_inverse_gives_back_the_measured_delay() {
        let (mut scale, law) = steady("ledbat");
        scale.after(&law, 0, 5_000_000, 2920);
        assert_eq!(scale.told_bytes(1_000_000), u64::from(scale.told_us(1_000_000)));
        assert!(scale.seen_us(scale.told_us(12_345)).abs_diff(12_345) <= 1);
        assert_eq!(scale.told_us(u32::MAX), u32::MAX);
        assert!(scale.told_bytes(u64::MAX) > u64::MAX / 1000 - 1);
    }

    #[test]
    fn laws_without_a_target_have_the_factor_one() {
        for law in ["newreno", "cubic", "vegas", "lp"] {
            assert_eq!(at(law, 100), 1000, "{law}");
        }
    }

    #[test]
    fn slow_start_has_the_factor_one() {
        let spec: LawSpec = "ledbat:slow_start=delay".parse().unwrap();
        let law = spec.build(&Path { mss_bytes: 1460, ..Path::default() });
        assert_eq!(Scale::new(&spec).after(&law, 0, 5_000_000, 100), 1000);
    }

    #[test]
    fn bytes_that_waited_behind_a_lost_segment_are_no_faster_line() {
        let (mut scale, law) = steady("ledbat");
        for n in 1..1000 {
            // 1.72 Mbit/s, of which 30 kB arrive together every five seconds.
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
