//! `bbr` over a line whose rate, losses and application a test sets: test cases of appendix A of
//! draft-ietf-ccwg-bbr.

mod common;

use std::collections::VecDeque;

use common::{MSS, build, dupack, path, probe, timeout};
use leeway_control::sender::{RateStamp, RateState};
use leeway_control::{Ack, Law, Path, Phase};

const RTT_US: u64 = 40_000;

/// The states, by the numbers of the probe `state`.
const STARTUP: usize = 0;
const DRAIN: usize = 1;
const DOWN: usize = 2;
const CRUISE: usize = 3;
const REFILL: usize = 4;
const UP: usize = 5;
const PROBE_RTT: usize = 6;

struct Segment {
    number: u64,
    sent_us: u64,
    acked_us: u64,
    lost: bool,
    stamp: RateStamp,
}

/// A queue of `buffer` segments before a line, and a sender that obeys pacing and window.
struct Line {
    law: Law,
    now_us: u64,
    rtt_us: u64,
    /// Rate of the line. Unit: segments/s.
    rate: f64,
    buffer: f64,
    /// Every `loss`-th segment is lost; 0 for none.
    loss: u64,
    /// Whether the sender has something to send.
    sends: bool,
    /// Whether acknowledgements say how much was in flight and lost when their segment was sent
    /// (Linux does not).
    tells: bool,
    free_us: f64,
    next_us: f64,
    number: u64,
    inflight: u64,
    outstanding: VecDeque<Segment>,
    state: RateState,
    srtt_us: u32,
    recover: u64,
    lost: u64,
    delivered: u64,
    seen: Vec<(u64, usize)>,
}

impl Line {
    fn new(law: &str, rate: f64, buffer: f64) -> Line {
        Line {
            law: build(law, &Path { srtt_us: 0, min_rtt_us: 0, ..path(10) }),
            now_us: 1_000_000,
            rtt_us: RTT_US,
            rate,
            buffer,
            loss: 0,
            sends: true,
            tells: true,
            free_us: 0.0,
            next_us: 0.0,
            number: 0,
            inflight: 0,
            outstanding: VecDeque::new(),
            state: RateState::default(),
            srtt_us: 0,
            recover: 0,
            lost: 0,
            delivered: 0,
            seen: vec![(0, STARTUP)],
        }
    }

    fn path(&self) -> Path {
        Path { srtt_us: self.srtt_us, inflight_bytes: self.inflight * u64::from(MSS), ..path(10) }
    }

    fn bytes(&self) -> u64 {
        self.inflight * u64::from(MSS)
    }

    fn send(&mut self) {
        self.now_us = self.now_us.max(self.next_us as u64);
        self.number += 1;
        let now = self.now_us as f64;
        let waits = (self.free_us - now).max(0.0) * self.rate / 1e6;
        let lost = waits > self.buffer || self.loss != 0 && self.number.is_multiple_of(self.loss);
        if waits <= self.buffer {
            self.free_us = self.free_us.max(now) + 1e6 / self.rate;
        }
        let acked_us = self.free_us as u64 + self.rtt_us;
        let stamp = self.state.sent(self.now_us, self.bytes(), u64::from(MSS));
        self.inflight += 1;
        self.outstanding.push_back(Segment {
            number: self.number,
            sent_us: self.now_us,
            acked_us,
            lost,
            stamp,
        });
        let pace = self.law.output().pacing_bytes_per_s;
        self.next_us =
            if pace == 0 { 0.0 } else { self.next_us.max(now) + f64::from(MSS) * 1e6 / pace as f64 };
    }

    fn acknowledge(&mut self, at: usize) {
        let segment = self.outstanding.remove(at).expect("checked");
        self.now_us = self.now_us.max(segment.acked_us);
        let prior = self.bytes();
        self.inflight -= 1;
        self.delivered += 1;
        let rtt_us = (self.now_us - segment.sent_us) as u32;
        self.srtt_us = if self.srtt_us == 0 { rtt_us } else { self.srtt_us - self.srtt_us / 8 + rtt_us / 8 };
        // A segment that was sent three segments before and is missing is lost.
        while self.outstanding.front().is_some_and(|first| first.lost && first.number + 3 <= segment.number) {
            let first = self.outstanding.pop_front().expect("checked");
            self.inflight -= 1;
            self.lost += 1;
            self.state.lost(u64::from(MSS));
            if first.number > self.recover {
                self.recover = self.number;
                self.law.on_loss(&dupack(self.now_us, first.sent_us), &self.path());
            }
        }
        let mut rate = self.state.sample(&segment.stamp, self.now_us, u64::from(MSS), RTT_US as u32);
        if !self.tells {
            rate.inflight_bytes = 0;
            rate.prior_lost_bytes = rate.lost_bytes;
        }
        let ack = Ack {
            prior_inflight_bytes: prior,
            rtt_us,
            last_rtt_us: rtt_us,
            app_limited: u8::from(!self.sends),
            recovering: u8::from(segment.number <= self.recover),
            owd_resolution_us: 0,
            rate,
            ..common::ack(self.now_us, 0)
        };
        self.law.on_ack(&ack, &self.path());
        let state = self.state();
        if self.seen.last().expect("it began").1 != state {
            self.seen.push((self.now_us, state));
        }
    }

    /// Plays the next event: a segment is sent, or an acknowledgement arrives.
    fn step(&mut self) {
        let window = (self.law.output().cwnd_q16 >> 16) + u64::from(MSS);
        let may = self.sends && self.bytes() + u64::from(MSS) <= window;
        let first = self.outstanding.iter().position(|segment| !segment.lost);
        match first.map(|at| (at, self.outstanding[at].acked_us)) {
            Some((at, acked_us)) if !may || acked_us as f64 <= self.next_us => self.acknowledge(at),
            _ if may => self.send(),
            Some((at, _)) => self.acknowledge(at),
            None => self.now_us += 1000,
        }
        if !self.sends {
            self.state.app_limited(self.bytes());
        }
    }

    fn run_s(&mut self, seconds: f64) -> f64 {
        let (until_us, before) = (self.now_us + (seconds * 1e6) as u64, self.delivered);
        while self.now_us < until_us {
            self.step();
        }
        (self.delivered - before) as f64 / seconds
    }

    fn until(&mut self, state: usize) {
        for _ in 0..2_000_000 {
            if self.state() == state {
                return;
            }
            self.step();
        }
        panic!("state {state} does not come: {:?}", self.seen);
    }

    fn state(&self) -> usize {
        probe(&self.law, "state") as usize
    }

    fn bandwidth(&self) -> f64 {
        probe(&self.law, "bandwidth") / f64::from(MSS)
    }

    /// Pacing rate over bandwidth.
    fn gain(&self) -> f64 {
        self.law.output().pacing_bytes_per_s as f64 / probe(&self.law, "bandwidth")
    }
}

fn near(is: f64, should: f64, relative: f64) -> bool {
    (is - should).abs() <= relative * should
}

/// A.1, A.3: the rate doubles until it stays the same for three round trips. Drain ends with one
/// BDP in flight.
#[test]
fn startup_ends_when_the_rate_does_not_grow() {
    for tells in [true, false] {
        let mut line = Line::new("bbr", 4000.0, 1e9);
        line.tells = tells;
        line.until(DRAIN);
        assert!(near(line.bandwidth(), 4000.0, 0.02), "{}", line.bandwidth());
        assert!(near(line.gain(), 0.5 * 0.99, 0.01), "{}", line.gain());
        assert_eq!(line.law.output().phase(), Phase::Yielding);
        // 4000 x 40 ms are 160 segments: 2^4 times the initial window, and three more round trips
        // of up to 80 ms.
        let took_us = line.now_us - 1_000_000;
        assert!((8 * RTT_US..14 * RTT_US).contains(&took_us), "{took_us}");
        assert!(line.inflight > 300, "{}", line.inflight);
        line.until(CRUISE);
        assert!((140..=165).contains(&line.inflight), "{}", line.inflight);
        assert!(near(line.gain(), 0.99, 0.01), "{}", line.gain());
    }
}

/// 5.3.1.3: a loss of more than 2 % in a round trip of recovery ends Startup, although the rate
/// still grows.
#[test]
fn startup_ends_when_much_is_lost() {
    for tells in [true, false] {
        for (loss, ends) in [(10, true), (200, false)] {
            let mut line = Line::new("bbr", 1e6, 1e9);
            (line.loss, line.tells) = (loss, tells);
            line.run_s(0.3);
            assert_eq!(line.state() != STARTUP, ends, "one of {loss}, {tells}: {:?}", line.seen);
        }
    }
}

/// 5.3.1.3: the bound is then what was delivered in a round trip: 160 segments of the path and 80
/// of the queue.
#[test]
fn the_flight_that_lost_much_in_startup_is_the_bound() {
    let mut line = Line::new("bbr", 4000.0, 80.0);
    line.until(CRUISE);
    assert!(line.lost > 100 && line.seen.iter().all(|seen| seen.1 < REFILL), "{:?}", line.seen);
    let window = common::packets(&line.law);
    assert!(near(window, 0.85 * 240.0, 0.03), "{window}, of which 0.15 is headroom");
}

#[test]
fn the_queuing_delay_is_what_is_above_the_smallest_round_trip() {
    let mut law = build("bbr", &path(10));
    let mut now_us = 1_000_000;
    for queue_us in [3000, 0, 7000, 2000] {
        common::acks(&mut law, &mut now_us, 1, queue_us);
        let base_us = if queue_us == 3000 { 3000 } else { 0 };
        assert_eq!(law.output().queuing_delay_us, queue_us - base_us);
    }
}

/// A.5, A.8: order and gains of the states, and the time between two probes.
#[test]
fn it_probes_every_two_to_three_seconds() {
    let mut line = Line::new("bbr:probe_rtt=60s", 4000.0, 1e9);
    for _ in 0..3 {
        line.until(UP);
        assert!(near(line.gain(), 1.25 * 0.99, 0.01), "{}", line.gain());
        line.until(DOWN);
        assert!(near(line.gain(), 0.9 * 0.99, 0.01), "{}", line.gain());
        line.until(CRUISE);
        line.until(REFILL);
        assert!(near(line.gain(), 0.99, 0.01), "{}", line.gain());
    }
    let states: Vec<usize> = line.seen.iter().map(|seen| seen.1).collect();
    for pair in states.windows(2) {
        let follows = [&[DRAIN][..], &[DOWN, CRUISE], &[CRUISE], &[REFILL], &[UP], &[DOWN]];
        assert!(follows[pair[0]].contains(&pair[1]), "{states:?}");
    }
    let downs: Vec<u64> = line.seen.iter().filter(|seen| seen.1 == DOWN).map(|seen| seen.0).collect();
    let next =
        |from: u64| line.seen.iter().find(|seen| seen.0 > from && seen.1 == REFILL).map(|seen| seen.0 - from);
    for wait_us in downs.iter().filter_map(|&down| next(down)) {
        assert!((1_900_000..=3_200_000).contains(&wait_us), "{wait_us}: {:?}", line.seen);
    }
    let waits: Vec<u64> = downs.iter().filter_map(|&down| next(down)).collect();
    assert!(waits.windows(2).any(|pair| pair[0].abs_diff(pair[1]) > 10_000), "by chance: {waits:?}");
}

/// 5.3.3.8: a path of 10 segments is probed every 10 round trips, as often as Reno would.
#[test]
fn a_small_path_is_probed_as_often_as_reno_would() {
    let mut line = Line::new("bbr", 250.0, 1e9);
    line.run_s(5.0);
    let ups = line.seen.iter().filter(|seen| seen.1 == UP).count();
    assert!((4..=10).contains(&ups), "{ups}: {:?}", line.seen);
}

/// A.10: after 5 s without a smaller round-trip time, half a BDP is in flight for 200 ms.
#[test]
fn it_looks_for_the_smallest_round_trip_every_five_seconds() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.until(PROBE_RTT);
    let began_us = line.now_us;
    assert!((5_000_000..8_500_000).contains(&(began_us - 1_000_000)), "{began_us}");
    assert_eq!(line.law.output().phase(), Phase::Slowdown);
    line.run_s(0.15);
    assert!((70..=82).contains(&line.inflight), "{}", line.inflight);
    line.until(CRUISE);
    let took_us = line.now_us - began_us;
    assert!((220_000..400_000).contains(&took_us), "{took_us}");
    let rate = line.run_s(0.5);
    assert!(near(rate, 4000.0, 0.05), "{rate}");
    assert!(near(probe(&line.law, "min_rtt"), RTT_US as f64, 0.02));
    let mut rare = Line::new("bbr:probe_rtt=60s", 4000.0, 1e9);
    rare.run_s(20.0);
    assert!(rare.seen.iter().all(|seen| seen.1 != PROBE_RTT), "{:?}", rare.seen);
}

/// A.11: a pause of the program measures the smallest round-trip time as well as a probe does.
#[test]
fn a_pause_needs_no_look_at_the_smallest_round_trip() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.run_s(2.0);
    let rate = line.bandwidth();
    line.sends = false;
    line.run_s(9.0);
    line.sends = true;
    line.run_s(1.0);
    assert!(line.seen.iter().all(|seen| seen.1 != PROBE_RTT), "{:?}", line.seen);
    assert!(near(line.bandwidth(), rate, 0.02), "{rate}, then {}", line.bandwidth());
}

/// A.15, A.16: finds a rate that is ten times as high, and one that is a tenth.
#[test]
fn it_follows_the_rate_of_the_line() {
    let mut line = Line::new("bbr", 1000.0, 200.0);
    line.run_s(3.0);
    line.rate = 10_000.0;
    line.run_s(15.0);
    let rate = line.run_s(3.0);
    assert!(near(rate, 10_000.0, 0.08), "{rate}");
    line.rate = 1000.0;
    line.run_s(12.0);
    assert!(near(line.bandwidth(), 1000.0, 0.05), "{}", line.bandwidth());
    let queue = line.inflight as f64 - 40.0;
    assert!(queue < 60.0, "{queue} segments in the queue");
}

/// 5.5.10: with a buffer of a quarter of the path, less than 2 % are lost, and the window stays
/// below what fits (200 segments).
#[test]
fn a_small_buffer_is_learnt() {
    for tells in [true, false] {
        let mut line = Line::new("bbr", 4000.0, 40.0);
        line.tells = tells;
        line.run_s(10.0);
        let lost = line.lost;
        let rate = line.run_s(20.0);
        assert!(rate > 0.92 * 4000.0, "{tells}: {rate}");
        let part = (line.lost - lost) as f64 / 80_000.0;
        assert!(part < 0.02, "{tells}: {part}");
        line.until(CRUISE);
        line.step();
        let window = common::packets(&line.law);
        let most = if tells { 185.0 } else { 215.0 };
        assert!((130.0..most).contains(&window), "{tells}: {window}");
    }
}

/// 5.5.6: two cycles after the rate has fallen, the old rate is out of the filter, without any
/// loss.
#[test]
fn a_lower_rate_is_found_without_a_loss() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.run_s(3.0);
    line.rate = 1000.0;
    line.run_s(12.0);
    assert!(near(line.bandwidth(), 1000.0, 0.05), "{}", line.bandwidth());
    assert_eq!(line.lost, 0);
}

/// 5.5.10.3: losses reduce the rate at once, to what the last round trip delivered.
#[test]
fn losses_bring_the_rate_down_before_the_next_probe() {
    let mut line = Line::new("bbr", 4000.0, 40.0);
    line.run_s(3.0);
    line.until(CRUISE);
    line.rate = 1000.0;
    let changes = line.seen.len();
    while line.bandwidth() > 1200.0 && line.seen.len() == changes {
        line.step();
    }
    assert!(line.bandwidth() <= 1200.0, "{}: {:?}", line.bandwidth(), line.seen);
}

/// 5.3.3.9: in state UP the bound from a small buffer grows, faster in each round trip.
#[test]
fn a_line_that_becomes_faster_is_found_in_spite_of_what_was_learnt() {
    let mut line = Line::new("bbr", 4000.0, 40.0);
    line.run_s(10.0);
    assert!(line.lost > 0);
    (line.rate, line.buffer) = (16_000.0, 160.0);
    line.run_s(20.0);
    let rate = line.run_s(3.0);
    assert!(rate > 0.9 * 16_000.0, "{rate}");
}

/// 5.3.3.9: in state UP the bound from losses grows by 1, 2, 4... packets a round trip.
#[test]
fn the_bound_of_losses_grows_faster_each_round_trip() {
    let mut line = Line::new("bbr", 4000.0, 40.0);
    line.run_s(10.0);
    line.buffer = 1e9;
    // The probe after one that lost too much ends where that one ended.
    for _ in 0..2 {
        line.until(REFILL);
        line.until(UP);
    }
    let first = common::packets(&line.law);
    for round_trips in 1..=6 {
        let until_us = line.now_us + u64::from(line.srtt_us);
        while line.now_us < until_us {
            line.step();
        }
        assert_eq!(line.state(), UP);
        let (more, should) = (common::packets(&line.law) - first, f64::from((1 << round_trips) - 1));
        assert!((more - should).abs() <= 1.0 + 0.2 * should, "{round_trips}: {more} more");
    }
}

/// 5.3.4.3: a longer path counts after 10 s without a shorter round-trip time.
#[test]
fn a_longer_path_is_learnt_after_ten_seconds() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.run_s(2.0);
    line.rtt_us = 2 * RTT_US;
    line.run_s(6.0);
    assert!(near(probe(&line.law, "min_rtt"), RTT_US as f64, 0.02), "{}", probe(&line.law, "min_rtt"));
    line.run_s(12.0);
    assert!(near(probe(&line.law, "min_rtt"), 2.0 * RTT_US as f64, 0.05), "{}", probe(&line.law, "min_rtt"));
    let rate = line.run_s(3.0);
    assert!(near(rate, 4000.0, 0.08), "{rate}");
}

/// Random losses below 2 % cost little of the rate, those above reduce it. `loss` sets the ratio.
#[test]
fn losses_by_chance_are_borne_up_to_a_part() {
    let rate = |law: &str, loss| {
        let mut line = Line::new(law, 4000.0, 160.0);
        line.loss = loss;
        line.run_s(5.0);
        line.run_s(20.0) / 4000.0
    };
    let (few, many, borne) = (rate("bbr", 200), rate("bbr", 12), rate("bbr:loss=0.2", 12));
    assert!(few > 0.85 && many < 0.75 && borne > many, "{few} {many} {borne}");
}

/// 5.6.4.4: one segment after a timeout, and the window of before at the next round trip.
#[test]
fn after_a_timeout_the_window_comes_back() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.run_s(2.0);
    let before = common::packets(&line.law);
    assert!(before > 300.0, "{before}");
    line.law.on_loss(&timeout(line.now_us, line.now_us - RTT_US, 1), &line.path());
    assert_eq!(common::packets(&line.law), 1.0);
    line.run_s(0.12);
    assert!(common::packets(&line.law) > 0.95 * before, "{}", common::packets(&line.law));
}

/// Not in the draft: a mark takes 0.15 of rate and window until the next probe.
#[test]
fn a_mark_takes_fifteen_percent() {
    let mut line = Line::new("bbr", 4000.0, 1e9);
    line.until(CRUISE);
    let (window, rate) = (common::packets(&line.law), line.law.output().pacing_bytes_per_s as f64);
    let mark = Ack { ce_bytes: 1500, acked_bytes: 0, ..common::ack(line.now_us, 0) };
    line.law.on_ack(&mark, &line.path());
    assert!(
        near(common::packets(&line.law), 0.85 * window, 0.01),
        "{window}, {}",
        common::packets(&line.law)
    );
    line.run_s(0.5);
    let marked = line.law.output().pacing_bytes_per_s as f64;
    assert!(near(marked, 0.85 * rate, 0.02), "{rate}, then {marked}");
    line.until(UP);
    line.until(CRUISE);
    assert!(near(line.law.output().pacing_bytes_per_s as f64, rate, 0.02));
}

/// A.14: a path that holds less than one segment is used with four.
#[test]
fn a_path_below_a_segment_is_used() {
    let mut line = Line::new("bbr", 20.0, 1e9);
    line.run_s(20.0);
    let rate = line.run_s(60.0);
    assert!(rate > 18.0, "{rate}");
    assert!(common::packets(&line.law) >= 4.0 && line.inflight <= 12, "{}", line.inflight);
}

#[test]
fn without_slow_start_it_finds_the_path_by_probes() {
    let mut line = Line::new("bbr:slow_start=none", 1000.0, 1e9);
    line.run_s(10.0);
    assert!(
        line.seen.iter().all(|seen| ![STARTUP, DRAIN].contains(&seen.1) || seen.0 == 0),
        "{:?}",
        line.seen
    );
    assert!(near(line.bandwidth(), 1000.0, 0.03), "{}", line.bandwidth());
}
