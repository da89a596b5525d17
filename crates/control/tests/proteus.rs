//! `proteus`: its utility against the formula in floating point, and the rate that its search
//! finds.

mod common;

use std::collections::VecDeque;

use common::{MSS, build, path, probe};
use leeway_control::{Ack, Law, Loss, Path, Phase, Rate};

const BASE_US: u32 = 50_000;

/// A path whose round-trip times and losses a test sets. Segments are sent as the law paces them.
struct Line<R, L> {
    law: Law,
    now_us: u64,
    next_us: f64,
    sent: VecDeque<(u64, u32, bool)>,
    round_trip: R,
    lost: L,
    lost_bytes: u64,
    count: u64,
    /// Whether the program has less to send than the law allows.
    app_limited: bool,
}

impl<R: FnMut(u64, f64) -> u32, L: FnMut(u64) -> bool> Line<R, L> {
    /// A law that has seen one round trip with a window of `packets`.
    fn new(text: &str, packets: u32, round_trip: R, lost: L) -> Self {
        let mut law = build(text, &path(packets));
        law.on_ack(&common::ack(1_000_000, 0), &path(packets));
        Self {
            law,
            now_us: 1_000_000,
            next_us: 1_000_000.0,
            sent: VecDeque::new(),
            round_trip,
            lost,
            lost_bytes: 0,
            count: 0,
            app_limited: false,
        }
    }

    /// Present sending rate. Unit: bytes/s.
    fn rate(&self) -> f64 {
        self.law.output().pacing_bytes_per_s as f64
    }

    /// Plays the next event: a segment is sent, or its acknowledgement arrives.
    fn step(&mut self) {
        let acked_us =
            self.sent.front().map_or(f64::INFINITY, |&(sent, rtt, _)| (sent + u64::from(rtt)) as f64);
        if self.next_us < acked_us {
            let sent_us = self.next_us as u64;
            let rate = self.rate();
            self.count += 1;
            self.sent.push_back((sent_us, (self.round_trip)(sent_us, rate), (self.lost)(self.count)));
            self.next_us += f64::from(MSS) * 1e6 / rate;
            return;
        }
        let (sent_us, rtt_us, lost) = self.sent.pop_front().expect("one");
        self.now_us = self.now_us.max(sent_us + u64::from(rtt_us));
        if lost {
            self.lost_bytes += u64::from(MSS);
            return;
        }
        let rate = Rate { lost_bytes: self.lost_bytes, ..Rate::default() };
        let rtt_us = (self.now_us - sent_us) as u32;
        let app_limited = self.app_limited.into();
        let ack = Ack { rtt_us, last_rtt_us: rtt_us, rate, app_limited, ..common::ack(self.now_us, 0) };
        let now = Path { srtt_us: rtt_us, min_rtt_us: BASE_US, ..path(10) };
        self.law.on_ack(&ack, &now);
    }

    /// Plays until the law has a utility other than `before`, and returns it.
    fn until_judged(&mut self, before: f64) -> f64 {
        for _ in 0..200_000 {
            self.step();
            let utility = probe(&self.law, "utility");
            if utility != before {
                return utility;
            }
        }
        panic!("nothing was judged");
    }

    fn run_s(&mut self, seconds: f64) {
        let until_us = self.now_us + (seconds * 1e6) as u64;
        while self.now_us < until_us {
            self.step();
        }
    }

    /// The law's rate r. Unit: Mbit/s.
    fn mbit(&self) -> f64 {
        probe(&self.law, "rate") * 8e-6
    }
}

/// The utility for a rate `x` in Mbit/s, a slope in s/s, a loss ratio, and a deviation in s.
fn utility(x: f64, slope: f64, loss: f64, deviation: f64) -> f64 {
    x.powf(0.9) - 900.0 * x * slope.max(0.0) - 11.35 * x * loss - 1500.0 * x * deviation
}

fn assert_near(is: f64, should: f64, relative: f64, about: &str) {
    assert!((is - should).abs() <= relative * should.abs() + 1e-4, "{about}: {is}, by the formula {should}");
}

#[test]
fn a_clear_path_has_the_utility_of_its_rate() {
    for packets in [10, 40, 1000, 40_000] {
        let mut line = Line::new("proteus", packets, |_, _| BASE_US, |_| false);
        let x = line.mbit();
        let found = line.until_judged(0.0);
        assert_near(found, utility(x, 0.0, 0.0, 0.0), 1e-4, &format!("{x} Mbit/s"));
    }
}

#[test]
fn losses_cost_by_their_share() {
    // The second of each 25 packets is lost: the trial at the beginning of the run loses 4 %.
    let mut line = Line::new("proteus", 1000, |_, _| BASE_US, |n| n % 25 == 2);
    let x = line.mbit();
    let found = line.until_judged(0.0);
    assert_near(found, utility(x, 0.0, 0.04, 0.0), 0.02, "4 % lost");
}

/// In the starting phase, a slope of less than 1 ms in an interval (50 ms here) does not count.
#[test]
fn a_slope_costs_and_a_small_one_does_not_while_it_starts() {
    for (slope, counts) in [(0.03, true), (0.015, false)] {
        let rises = move |sent_us: u64, _| BASE_US + ((sent_us - 1_000_000) as f64 * slope) as u32;
        let mut line = Line::new("proteus", 1000, rises, |_| false);
        let x = line.mbit();
        let should = utility(x, if counts { slope } else { 0.0 }, 0.0, 0.0);
        assert_near(line.until_judged(0.0), should, 1e-3, &format!("a slope of {slope}"));
    }
}

/// In the starting phase the rate doubles each time, and is halved when the path is full.
#[test]
fn it_starts_by_doubling_until_the_utility_falls() {
    // Above 40 Mbit/s, the excess goes into the queue.
    let mut queue_us = 0.0;
    let mut last_us = 1_000_000;
    let full = move |sent_us: u64, rate: f64| {
        queue_us += (sent_us - last_us) as f64 * (rate / 5e6 - 1.0);
        queue_us = f64::max(queue_us, 0.0);
        last_us = sent_us;
        BASE_US + queue_us as u32
    };
    let mut line = Line::new("proteus", 10, full, |_| false);
    let mut rates = vec![line.mbit()];
    while line.law.output().phase() == Phase::SlowStart {
        line.step();
        if *rates.last().expect("one") != line.mbit() {
            rates.push(line.mbit());
        }
    }
    let up = &rates[..rates.len() - 1];
    assert!(up.windows(2).all(|pair| (pair[1] / pair[0] - 2.0).abs() < 1e-6), "{rates:?}");
    assert_near(rates[rates.len() - 1], up[up.len() - 1] / 2.0, 1e-6, "the rate after the start");
    line.run_s(30.0);
    assert!((30.0..46.0).contains(&line.mbit()), "{} Mbit/s on a line of 40", line.mbit());
}

/// A queue that others fill and drain makes the delay deviate more than usual. A scavenger pays
/// for the deviation by the formula, and yields; with `deviation=0` (Proteus-P) it does not.
#[test]
fn an_unusual_deviation_costs_and_a_scavenger_leaves() {
    let left = |text: &str| {
        // Above 40 Mbit/s the queue grows. From 30 s on, a wave of 0 to 10 ms every 20 ms has no
        // slope over an interval.
        let (mut queue_us, mut last_us) = (0.0, 1_000_000);
        let wave = move |sent_us: u64, rate: f64| {
            queue_us = f64::max(queue_us + (sent_us - last_us) as f64 * (rate / 5e6 - 1.0), 0.0);
            last_us = sent_us;
            let at = (sent_us % 20_000) as u32;
            BASE_US + queue_us as u32 + if sent_us < 30_000_000 { 0 } else { at.min(20_000 - at) }
        };
        let mut line = Line::new(text, 10, wave, |_| false);
        line.run_s(29.0);
        let before = line.mbit();
        line.run_s(0.3);
        let rate = line.mbit();
        let known = probe(&line.law, "utility");
        let found = line.until_judged(known);
        // A triangle of 10 ms has a deviation of 10 ms / sqrt 12. The trial ran at r, or 5 % more
        // or less.
        let costs = if text == "proteus" { 0.01 / 12_f64.sqrt() } else { 0.0 };
        let off = |factor: f64| (found / utility(rate * factor, 0.0, 0.0, costs) - 1.0).abs();
        assert!(off(1.05).min(off(0.95)).min(off(1.0)) < 0.02, "{text}: {found} at {rate}");
        line.run_s(10.0);
        line.mbit() / before
    };
    let (scavenger, primary) = (left("proteus"), left("proteus:deviation=0"));
    assert!(scavenger < 0.9 && primary > 0.95, "{scavenger} {primary}");
}

#[test]
fn what_a_program_with_little_to_send_sends_is_not_judged() {
    let mut line = Line::new("proteus", 100, |_, _| BASE_US, |_| false);
    line.app_limited = true;
    let before = line.mbit();
    line.run_s(5.0);
    assert_eq!((probe(&line.law, "utility"), line.mbit()), (0.0, before));
    line.app_limited = false;
    line.run_s(1.0);
    assert!(line.mbit() > before, "it goes on");
}

/// At two segments in 50 ms, or 5 % more, five segments take at least 119 ms. Their
/// acknowledgements arrive 50 ms later. No trial is judged before four more segments could have
/// been lost.
#[test]
fn a_trial_is_five_segments_at_least() {
    let mut line = Line::new("proteus", 2, |_, _| BASE_US, |_| false);
    line.until_judged(0.0);
    let passed_us = line.now_us - 1_000_000;
    assert!((260_000..400_000).contains(&passed_us), "{passed_us} us");
}

#[test]
fn a_mark_halves_the_rate() {
    let mut line = Line::new("proteus", 100, |_, _| BASE_US, |_| false);
    line.run_s(0.02);
    let before = line.mbit();
    let marked = Ack { ce_bytes: u64::from(MSS), ..common::ack(line.now_us + 1_000, 0) };
    line.law.on_ack(&marked, &path(10));
    assert_near(line.mbit(), before / 2.0, 1e-3, "the rate after a mark");
    assert_eq!(line.law.output().phase(), Phase::Inference);
}

#[test]
fn after_a_timeout_it_starts_from_the_least_rate() {
    let mut line = Line::new("proteus", 100, |_, _| BASE_US, |_| false);
    line.run_s(2.0);
    assert!(line.mbit() > 10.0, "{}", line.mbit());
    let timeout = Loss { now_us: line.now_us, kind: Loss::TIMEOUT, ..Loss::default() };
    line.law.on_loss(&timeout, &path(100));
    assert_eq!(line.law.output().phase(), Phase::SlowStart);
    assert!(line.mbit() < 1.0, "{}", line.mbit());
}
