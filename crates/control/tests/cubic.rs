//! CUBIC and HyStart++ at their edges: rounds, idle time, roots, and the flavour of 2010.

mod common;

use common::{MSS, ack, acks, build, dupack, packets, path, probe, timeout};
use leeway_control::{Ack, Law, Path, Phase};

/// RFC 9406: eight samples in a round, and a rise by an eighth of the last round's minimum, within
/// 4 to 16 ms.
#[test]
fn hystart_begins_with_a_rise() {
    for (base_us, rise_us, begins) in [
        (50_000, 6_249, false),
        (50_000, 6_250, true),
        (8_000, 3_999, false),
        (8_000, 4_000, true),
        (400_000, 15_999, false),
        (400_000, 16_000, true),
    ] {
        let mut law = build("cubic:hystart=on", &path(10));
        hystart_round(&mut law, 10, base_us);
        hystart_round(&mut law, 7, base_us + rise_us);
        assert_eq!(probe(&law, "hystart_rounds"), 0.0, "seven samples");
        hystart_more(&mut law, 1, base_us + rise_us);
        assert_eq!(probe(&law, "hystart_rounds") > 0.0, begins, "{base_us} + {rise_us}");
    }
}
fn hystart_round(law: &mut Law, samples: u32, rtt_us: u32) {
    law.on_ack(&Ack { rtt_us, round_start: 1, ..ack(0, 0) }, &path(10));
    hystart_more(law, samples - 1, rtt_us);
}
fn hystart_more(law: &mut Law, samples: u32, rtt_us: u32) {
    for _ in 0..samples {
        law.on_ack(&Ack { rtt_us, ..ack(0, 0) }, &path(10));
    }
}
/// Conservative slow start grows a quarter as fast for five rounds, then congestion avoidance begins.
#[test]
fn hystart_is_conservative_for_five_rounds() {
    let mut law = build("cubic:hystart=on", &path(10));
    hystart_round(&mut law, 10, 50_000);
    assert_eq!(packets(&law), 20.0);
    hystart_round(&mut law, 8, 60_000); // the eighth sample already counts by a quarter
    assert_eq!(packets(&law), 27.25);
    let mut grown = Vec::new();
    for _ in 0..5 {
        let before = packets(&law);
        hystart_round(&mut law, 12, 60_000);
        grown.push(packets(&law) - before);
    }
    assert_eq!(grown[..4], [3.0; 4]);
    assert!(grown[4] < 1.0, "{grown:?}");
    assert_eq!(law.output().ssthresh_bytes, (39.25 * f64::from(MSS)) as u64);
    assert_eq!(law.output().phase(), Phase::Avoidance);
}
#[test]
fn hystart_resumes_when_the_rise_was_a_false_alarm() {
    let mut law = build("cubic:hystart=on", &path(10));
    hystart_round(&mut law, 10, 50_000);
    hystart_round(&mut law, 10, 60_000);
    assert_eq!(probe(&law, "hystart_rounds"), 1.0);
    hystart_round(&mut law, 10, 60_000);
    assert_eq!(probe(&law, "hystart_rounds"), 2.0);
    hystart_round(&mut law, 8, 59_999);
    assert_eq!(probe(&law, "hystart_rounds"), 0.0);
    let before = packets(&law);
    hystart_more(&mut law, 4, 59_999);
    assert_eq!(packets(&law) - before, 4.0);
    // Slow start after a loss is standard slow start.
    law.on_loss(&timeout(100_000, 90_000, 1), &path(10));
    hystart_round(&mut law, 10, 500_000);
    hystart_round(&mut law, 10, 900_000);
    assert_eq!(packets(&law), 21.0);
}
/// CUBIC's clock stops while the application limits it.
#[test]
fn cubic_does_not_count_idle_time() {
    let run = |idle_us: u64| {
        let start = path(100);
        let mut law = build("cubic:slow_start=none,friendly=off", &start);
        law.on_loss(&dupack(10, 5), &start);
        let mut now_us = 100_000;
        acks(&mut law, &mut now_us, 50, 0);
        for i in 1..=10 {
            law.on_ack(&Ack { app_limited: 1, ..ack(now_us + idle_us * i / 10, 0) }, &start);
        }
        now_us += idle_us;
        acks(&mut law, &mut now_us, 50, 0);
        packets(&law)
    };
    let (busy, idle) = (run(10), run(30_000_000));
    assert!((busy - idle).abs() < 1e-3, "{busy} {idle}");
}
/// K = cbrt(W_max (1 - beta) / C) seconds from small windows to far beyond any network.
#[test]
fn cubic_roots() {
    for (window, mss, c) in [
        (30_000u32, 1500, 0.4),
        (15_000_000, 1500, 0.4),
        (u32::MAX, 1500, 10.0),
        (u32::MAX, 10, 0.8),
        (u32::MAX, 100, 0.01),
        (u32::MAX, 1, 0.01),
    ] {
        let start = Path { mss_bytes: mss, initial_window_bytes: window, ..path(1) };
        let mut law = build(&format!("cubic:slow_start=none,c={c}"), &start);
        law.on_loss(&dupack(10, 5), &start);
        law.on_ack(&ack(20, 0), &start);
        let expected = (f64::from(window) / f64::from(mss) * 0.3 / c).cbrt().min(8192.0);
        let k = probe(&law, "k");
        assert!(
            (k / expected - 1.0).abs() < 2e-4,
            "{window} bytes of {mss}, C = {c}: K = {k}, not {expected}"
        );
    }
}
/// Fast convergence: a loss below the last W_max makes (1 + beta) / 2 of the window the new W_max.
#[test]
fn cubic_releases_capacity() {
    for (text, beta) in [("cubic", 0.7), ("cubic:flavour=2010", 0.8), ("cubic:beta=0.5", 0.5)] {
        let start = path(100);
        let mut law =
            build(&format!("{text}{}slow_start=none", if text.contains(':') { ',' } else { ':' }), &start);
        law.on_loss(&dupack(10, 5), &start);
        assert_eq!(probe(&law, "w_max"), 150_000.0, "{text}");
        assert!((packets(&law) - 100.0 * beta).abs() < 1e-3, "{text}");
        law.on_loss(&dupack(30, 20), &start);
        let expected = 150_000.0 * beta * (1.0 + beta) / 2.0;
        assert!((probe(&law, "w_max") / expected - 1.0).abs() < 1e-5, "{text}: {}", probe(&law, "w_max"));
    }
}
/// Conservative slow start grows by a quarter of the acknowledged bytes, exactly.
#[test]
fn hystart_counts_every_byte() {
    let mut law = build("cubic:hystart=on", &path(10));
    hystart_round(&mut law, 10, 50_000);
    hystart_round(&mut law, 8, 60_000);
    let before = law.output().cwnd_q16 >> 16;
    for _ in 0..100 {
        law.on_ack(&Ack { acked_bytes: 7, rtt_us: 60_000, ..ack(0, 0) }, &path(10));
    }
    assert_eq!((law.output().cwnd_q16 >> 16) - before, 175);
}
/// RFC 9438 limits the target to 1.5 W, so a round trip adds at most half a window. The flavour of
/// 2010 has no such limit.
#[test]
fn cubic_limits_its_target_or_not() {
    for (flavour, factor) in [("rfc9438", 1.5), ("2010", 2.0)] {
        let start = path(1000);
        let mut law =
            build(&format!("cubic:flavour={flavour},ack_ratio=exact,slow_start=none,friendly=off"), &start);
        law.on_ack(&ack(0, 0), &start);
        let before = packets(&law);
        law.on_ack(&Ack { acked_bytes: law.output().cwnd_q16 >> 16, ..ack(1_000_000_000, 0) }, &start);
        assert!((packets(&law) / before - factor).abs() < 1e-3, "{flavour}: {}", packets(&law) / before);
    }
}
/// The running mean of Linux 2.6 begins at 2, and settles at 31/16 if each packet is acknowledged.
#[test]
fn cubic_of_2010_counts_acks_by_its_estimate() {
    let grown = |ratio: &str, acked: u64| {
        let start = path(1000);
        let mut law =
            build(&format!("cubic:flavour=2010,ack_ratio={ratio},slow_start=none,friendly=off"), &start);
        // At one instant, so that the window does not grow yet.
        for _ in 0..200 {
            law.on_ack(&Ack { acked_bytes: acked * u64::from(start.mss_bytes), ..ack(0, 0) }, &start);
        }
        let before = packets(&law);
        law.on_ack(&Ack { acked_bytes: acked * u64::from(start.mss_bytes), ..ack(5_000_000, 0) }, &start);
        packets(&law) - before
    };
    for (acked, factor) in [(1, 31.0 / 16.0), (2, 1.0)] {
        let (auto, exact) = (grown("auto", acked), grown("exact", acked));
        assert!((auto / exact / factor - 1.0).abs() < 0.01, "{acked} packets an ACK: {auto} and {exact}");
        assert_eq!(grown("estimate", acked), auto);
    }
}
/// C t^3 packets from 10 s to 15 min, over both resolutions of the cube.
#[test]
fn cubic_cubes() {
    for seconds in [10u64, 100, 160, 162, 200, 900] {
        let start = Path { initial_window_bytes: u32::MAX, ..path(1) };
        let mut law = build("cubic:flavour=2010,ack_ratio=exact,c=0.01,slow_start=none,friendly=off", &start);
        law.on_ack(&Ack { acked_bytes: 1, ..ack(0, 0) }, &start);
        let before = packets(&law);
        law.on_ack(&Ack { acked_bytes: u64::MAX, ..ack(seconds * 1_000_000, 0) }, &start);
        let expected = 0.01 * (seconds as f64).powi(3);
        let grown = packets(&law) - before;
        assert!((grown / expected - 1.0).abs() < 2e-3, "{seconds} s: {grown}, not {expected}");
    }
}
