//! `flexis`: its decisions against formulas over a sorted list of slopes, and its effect on a
//! window.

mod common;

use common::{Chance, MSS, build, dupack, packets, path, probe, timeout};
use leeway_control::{Ack, Law, Path, Phase};

const BASE_US: u64 = 50_000;
const START_US: u64 = 1_000_000;

/// Acknowledgements of segments that are sent `gap_us` apart. A test sets their round-trip times.
struct Feed {
    law: Law,
    sent_us: u64,
    gap_us: u64,
    now_us: u64,
    limited: bool,
}

impl Feed {
    fn new(text: &str, window: u32, gap_us: u64) -> Feed {
        let law = build(text, &path(window));
        Feed { law, sent_us: START_US, gap_us, now_us: START_US, limited: true }
    }

    /// Acknowledges a segment that was sent at `sent_us`.
    fn ack(&mut self, sent_us: u64, rtt_us: u64) {
        self.now_us = self.now_us.max(sent_us + rtt_us);
        let rtt_us = (self.now_us - sent_us) as u32;
        let ack = Ack {
            rtt_us,
            last_rtt_us: rtt_us,
            app_limited: u8::from(!self.limited),
            ..common::ack(self.now_us, 0)
        };
        self.law.on_ack(&ack, &Path { srtt_us: rtt_us, ..path(10) });
    }

    /// Acknowledges the segments of the next `ms` milliseconds. `rtt_us` gives their round-trip
    /// times by the time of sending, in µs since the start.
    fn run_ms(&mut self, ms: u64, rtt_us: impl Fn(u64) -> u64) {
        let until_us = self.sent_us + ms * 1000;
        while self.sent_us < until_us {
            let sent_us = self.sent_us;
            self.ack(sent_us, rtt_us(sent_us - START_US));
            self.sent_us += self.gap_us;
        }
    }

    fn packets(&self) -> f64 {
        packets(&self.law)
    }

    fn phase(&self) -> Phase {
        self.law.output().phase()
    }
}

/// The law by its formulas, in floating point: a list of points, and a sorted list of slopes.
struct Oracle {
    window: f64,
    phase: Phase,
    reacted_us: u64,
    points: Vec<(u64, f64)>,
    samples: Vec<u64>,
    sampled_ms: u64,
    min_us: u64,
    since_us: u64,
    first_rate: f64,
}

impl Oracle {
    fn new(window: f64) -> Oracle {
        Oracle {
            window,
            phase: Phase::Inference,
            reacted_us: 0,
            points: Vec::new(),
            samples: Vec::new(),
            sampled_ms: 0,
            min_us: u64::MAX,
            since_us: 0,
            first_rate: 0.0,
        }
    }

    fn trend(&self) -> bool {
        let mut slopes = Vec::new();
        for (j, later) in self.points.iter().enumerate() {
            for earlier in &self.points[..j] {
                slopes.push((later.1 - earlier.1) / (later.0 - earlier.0) as f64);
            }
        }
        slopes.sort_by(f64::total_cmp);
        slopes.len() >= 3 && slopes[(slopes.len() - 1) / 2] >= 30.0
    }

    fn ack(&mut self, now_us: u64, rtt_us: u64) {
        let sent_us = now_us - rtt_us;
        let sent_ms = sent_us / 1000;
        if sent_us >= self.reacted_us {
            if self.phase == Phase::Yielding {
                self.phase = Phase::Inference;
            }
            if self.samples.is_empty() || sent_ms >= self.sampled_ms {
                if !self.samples.is_empty() && sent_ms > self.sampled_ms && self.decide(now_us) {
                    return;
                }
                self.sampled_ms = sent_ms;
                if self.samples.len() < 8 {
                    self.samples.push(rtt_us);
                }
                self.min_us = self.min_us.min(rtt_us);
            }
        }
        if self.phase == Phase::Avoidance {
            let t_us = now_us - self.since_us;
            let rate = self.first_rate + (t_us / 100_000).pow(3) as f64 + (t_us / 10_000) as f64;
            let more = (rate * self.min_us as f64 / 1e6 - self.window).clamp(0.0, 1.0);
            self.window += more;
        }
    }

    /// Takes the point of the millisecond that has ended. Returns whether the window was reduced.
    fn decide(&mut self, now_us: u64) -> bool {
        self.samples.sort_unstable();
        let n = self.samples.len();
        let median = ((self.samples[(n - 1) / 2] + self.samples[n / 2]) / 2) as f64;
        self.points.push((self.sampled_ms, median));
        self.samples.clear();
        if self.points.len() < 2 || self.sampled_ms - self.points[0].0 + 1 < 60 {
            return false;
        }
        if self.trend() {
            self.window = self.window.min((self.window * 0.85).max(2.0));
            self.reacted_us = now_us + 1;
            self.points.clear();
            self.min_us = u64::MAX;
            self.phase = Phase::Yielding;
            return true;
        }
        if self.phase != Phase::Avoidance {
            self.phase = Phase::Avoidance;
            self.since_us = now_us;
            self.first_rate = (self.window * 1e6 / self.min_us as f64).floor();
        }
        self.points.remove(0);
        false
    }
}

/// Queues that rise and fall at random, with jitter, at many paces: the same decision at every
/// acknowledgement.
#[test]
fn the_count_decides_as_the_sorted_slopes_do() {
    let (mut fell, mut rose) = (0, 0);
    for seed in 1..=60 {
        let mut chance = Chance(seed * 7919);
        let mut oracle = Oracle::new(10.0);
        let mut feed = Feed::new("flexis", 10, 0);
        let dense = seed % 3 == 0; // up to eight in a millisecond
        let (gap_us, jitter_us) =
            (if dense { 80 + chance.below(200) } else { 200 + chance.below(8000) }, chance.below(4) * 500);
        let (mut queue_us, mut slope) = (0.0_f64, 0.0);
        for n in 0..4000 {
            if chance.one_in(300) {
                slope = (chance.below(160) as f64 - 80.0) / 1000.0;
            }
            let step_us = chance.below(2 * gap_us);
            feed.sent_us += step_us;
            queue_us = (queue_us + slope * step_us as f64).clamp(0.0, 100_000.0);
            let rtt_us = BASE_US + queue_us as u64 + chance.below(jitter_us + 1);
            let before = oracle.window;
            feed.ack(feed.sent_us, rtt_us);
            oracle.ack(feed.now_us, feed.now_us - feed.sent_us);
            fell += usize::from(oracle.window < before);
            rose += usize::from(oracle.window > before);
            assert_eq!(feed.phase(), oracle.phase, "seed {seed}, ack {n}");
            let off = (feed.packets() - oracle.window).abs();
            assert!(off < 1e-3 * oracle.window, "seed {seed}, ack {n}: {} {}", feed.packets(), oracle.window);
        }
    }
    assert!(fell > 300 && rose > 3000, "{fell} {rose}");
}

/// W = (r0 + floor(t / 100 ms)^3 + floor(t / 10 ms)) m, where t counts from the first observation
/// of 60 ms.
#[test]
fn without_a_trend_the_rate_grows_along_a_cubic_of_time() {
    let mut feed = Feed::new("flexis", 10, 1000);
    feed.run_ms(59, |_| BASE_US);
    assert!(feed.phase() == Phase::Inference && feed.packets() == 10.0, "nothing before 60 ms");
    feed.run_ms(2, |_| BASE_US);
    assert_eq!(feed.phase(), Phase::Avoidance);
    let since_us = feed.now_us;
    for (ms, cubic) in [(95, 0.0), (250, 27.0), (700, 1000.0), (1040, 8000.0)] {
        feed.run_ms(ms, |_| BASE_US);
        let linear = ((feed.now_us - since_us) / 10_000) as f64;
        let should = (200.0 + cubic + linear) * 0.05;
        assert!((feed.packets() / should - 1.0).abs() < 1e-3, "{}, by the formula {should}", feed.packets());
    }
}

/// While it observes, the pacing rate is W/srtt. Then it is higher by what the rate gains in a
/// round trip, up to a factor of ten.
#[test]
fn the_pace_leads_the_window_by_a_round_trip() {
    let pace =
        |feed: &Feed| feed.law.output().pacing_bytes_per_s as f64 * 0.05 / f64::from(MSS) / feed.packets();
    let mut feed = Feed::new("flexis", 10, 1000);
    feed.run_ms(40, |_| BASE_US);
    assert!((pace(&feed) - 1.0).abs() < 2e-5, "{}", pace(&feed));
    feed.run_ms(21, |_| BASE_US);
    // 200 packets/s, and 5 more after 50 ms.
    assert!((pace(&feed) - 1.03).abs() < 1e-3, "{}", pace(&feed));
    let mut feed = Feed::new("flexis:beta=1ms", 1, 1000);
    feed.run_ms(61, |_| 3_000_000);
    assert!((pace(&feed) * 60.0 - 10.0).abs() < 1e-2, "{}", pace(&feed) * 60.0);
}

#[test]
fn a_slope_of_theta_is_a_trend() {
    for (permille, falls) in [(29, false), (30, true), (100, true)] {
        let mut feed = Feed::new("flexis", 100, 500);
        feed.run_ms(70, |at_us| BASE_US + at_us / 1000 * permille);
        let left = if falls { 85.0 } else { 100.0 };
        assert!((feed.packets() - left).abs() < 1.0, "{permille}: {}", feed.packets());
        let theta = format!("flexis:theta=0.101,gamma=0.5,sigma={}", 1 + permille);
        let mut feed = Feed::new(&theta, 100, 500);
        feed.run_ms(70, |at_us| BASE_US + at_us / 1000 * permille);
        assert!(feed.packets() >= 100.0, "{permille} with a larger theta: {}", feed.packets());
    }
}

/// After a decrease nothing counts until a segment is acknowledged that was sent later, and
/// another tau has been observed.
#[test]
fn one_decrease_for_what_was_sent_before_it() {
    let mut feed = Feed::new("flexis", 100, 1000);
    let mut fell_us = Vec::new();
    let mut before = feed.packets();
    for _ in 0..2000 {
        feed.run_ms(1, |at_us| BASE_US + at_us / 10);
        if feed.packets() < before {
            fell_us.push((feed.now_us, feed.sent_us));
        }
        before = feed.packets();
    }
    assert!(fell_us.len() > 3, "{fell_us:?}");
    for pair in fell_us.windows(2) {
        // The first segment that counts was sent after the decrease, the last one 60 ms later.
        assert!(pair[1].1 >= pair[0].0 + 59_000, "{pair:?}");
    }
    assert!(feed.packets() >= 2.0);
}

/// A longer path is no trend, because at most half of the slopes cross the change. A base delay
/// would have to be measured again.
#[test]
fn a_change_of_route_is_no_trend() {
    for (from_us, to_us) in [(50_000, 150_000), (150_000, 50_000)] {
        let mut feed = Feed::new("flexis", 100, 1000);
        feed.run_ms(500, |_| from_us);
        let before = feed.packets();
        feed.run_ms(2000, |_| to_us);
        assert!(feed.packets() > before && feed.phase() == Phase::Avoidance, "{from_us} to {to_us}");
    }
}

/// Every third acknowledgement is held back for 9 ms: a third of the slopes rise, and a third
/// fall.
#[test]
fn samples_that_stand_out_are_no_trend() {
    let mut feed = Feed::new("flexis", 10, 10_000);
    feed.run_ms(2000, |at_us| BASE_US + if at_us / 10_000 % 3 == 2 { 9000 } else { 0 });
    assert!(feed.phase() == Phase::Avoidance && feed.packets() > 120.0, "{}", feed.packets());
}

/// With a packet every 70 ms, 60 ms never have three slopes, so that no queue is seen. A smaller
/// number of slopes can be set.
#[test]
fn a_slow_flow_sees_nothing() {
    let left = |text: &str| {
        let mut feed = Feed::new(text, 10, 70_000);
        feed.run_ms(700, |at_us| BASE_US + at_us / 5);
        feed.packets()
    };
    assert!(left("flexis") > 10.0 && left("flexis:sigma=1") < 10.0);
}

/// Samples from before a pause say nothing of the path after it.
#[test]
fn a_pause_begins_anew() {
    for (pause_ms, anew) in [(1000, false), (1300, true)] {
        let mut feed = Feed::new("flexis", 10, 1000);
        feed.run_ms(500, |_| BASE_US);
        feed.sent_us += pause_ms * 1000;
        feed.run_ms(1, |_| BASE_US);
        assert_eq!(feed.phase() == Phase::Inference, anew, "{pause_ms} ms");
        assert_eq!(probe(&feed.law, "points") == 0.0, anew, "{pause_ms} ms");
    }
}

/// A program that has little to send: the window stays, and the increase starts anew when the
/// program has more.
#[test]
fn an_unused_window_does_not_grow() {
    let mut feed = Feed::new("flexis", 10, 1000);
    feed.limited = false;
    feed.run_ms(2000, |_| BASE_US);
    assert!(feed.phase() == Phase::Avoidance && feed.packets() == 10.0);
    feed.limited = true;
    feed.run_ms(300, |_| BASE_US);
    assert!((feed.packets() - (200.0 + 8.0 + 29.0) * 0.05).abs() < 1.5, "{}", feed.packets());
}

#[test]
fn a_loss_halves_once_and_a_timeout_leaves_one_segment() {
    let mut feed = Feed::new("flexis", 100, 1000);
    feed.run_ms(100, |_| BASE_US);
    let before = feed.packets();
    feed.law.on_loss(&dupack(feed.now_us, feed.now_us - 1000), &path(10));
    assert!((feed.packets() - before / 2.0).abs() < 0.1 && feed.phase() == Phase::Yielding);
    feed.law.on_loss(&dupack(feed.now_us + 500, feed.now_us - 500), &path(10));
    assert!((feed.packets() - before / 2.0).abs() < 0.1, "of the same round trip");
    feed.run_ms(150, |_| BASE_US);
    assert_eq!(feed.phase(), Phase::Avoidance);
    feed.law.on_loss(&timeout(feed.now_us + 500, feed.now_us, 1), &path(10));
    assert!(feed.packets() == 1.0 && feed.phase() == Phase::Yielding);
    feed.sent_us += 1_000_000;
    feed.run_ms(1000, |_| BASE_US);
    assert!(feed.packets() > 10.0, "it comes back: {}", feed.packets());
}

/// A loss of a segment that was sent before a decrease belongs to the same congestion. Marks count
/// as losses.
#[test]
fn a_loss_after_a_decrease_is_the_same_congestion() {
    let mut feed = Feed::new("flexis", 100, 1000);
    feed.run_ms(61, |at_us| BASE_US + at_us / 10);
    assert!((feed.packets() - 85.0).abs() < 1e-3);
    feed.law.on_loss(&dupack(feed.now_us + 10, feed.now_us - 10), &path(10));
    assert!((feed.packets() - 85.0).abs() < 1e-3, "{}", feed.packets());
    let marked = Ack { ce_bytes: u64::from(MSS), ..common::ack(feed.now_us + 200_000, 0) };
    feed.law.on_ack(&marked, &path(10));
    assert!((feed.packets() - 42.5).abs() < 1e-3 && feed.phase() == Phase::Yielding);
}

/// Slow start, if enabled: the window doubles while the law observes, at twice the pace, and not
/// again after a trend.
#[test]
fn slow_start_ends_with_the_first_trend() {
    let mut feed = Feed::new("flexis:slow_start=standard,abc_limit=1", 10, 1000);
    feed.run_ms(300, |_| BASE_US);
    assert!((feed.packets() - 310.0).abs() < 1e-3, "{}", feed.packets());
    let pace = feed.law.output().pacing_bytes_per_s as f64 * 0.05 / f64::from(MSS) / feed.packets();
    assert!((pace - 2.0).abs() < 1e-3, "{pace}");
    feed.run_ms(40, |at_us| BASE_US + (at_us - 300_000) / 10);
    assert_eq!(feed.phase(), Phase::Yielding);
    let fell = feed.packets();
    assert!(fell < 350.0, "{fell}");
    feed.run_ms(300, |_| BASE_US + 4000);
    assert!(feed.packets() > fell && feed.packets() < fell + 20.0, "{} after {fell}", feed.packets());
}
