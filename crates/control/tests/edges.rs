//! Single decisions at their edges: options, floors, timeouts, very large and very small windows.

mod common;

use common::{MSS, ack, acks, build, dupack, packets, path, probe, timeout};
use leeway_control::{Ack, Law, Path, Phase};

const ONE: u64 = (MSS as u64) << 16;
fn mark(now_us: u64) -> Ack {
    Ack { ce_bytes: 1, ..ack(now_us, 0) }
}
#[test]
fn a_new_law_is_at_the_initial_window() {
    for (text, initial, expected) in [
        ("newreno", 10, 10.0),
        ("ledbat", 1, 2.0), // its floor
        ("ledbat:floor=1", 1, 1.0),
        ("fledbat:floor=0.5", 0, 0.5),
        ("nice", 3, 3.0),
    ] {
        let law = build(text, &path(initial));
        assert_eq!(packets(&law), expected, "{text}");
        assert_eq!(law.output().ssthresh_bytes, u64::MAX, "{text}");
        assert_eq!((law.output().pacing_bytes_per_s, law.output().queuing_delay_us), (0, 0), "{text}");
    }
    assert_eq!(build("newreno", &path(1)).output().phase(), Phase::SlowStart);
    assert_eq!(build("newreno:slow_start=none", &path(1)).output().phase(), Phase::Avoidance);
    assert_eq!(build("newreno:ssthresh=2.5", &path(1)).output().ssthresh_bytes, 3750);
}
/// A new state is defined in full: every probe reads zero, or "none yet".
#[test]
fn a_new_state_is_blank() {
    for info in leeway_control::laws() {
        build(info.name, &path(10)).probe(&mut |probe, value| {
            let blank = match probe.name {
                "base_rtt" => f64::from(u32::MAX),
                "gain" => 1.0 / 16.0,
                "target" => 100_000.0, // the parameter
                _ => 0.0,
            };
            assert_eq!(value, blank, "{}: {}", info.name, probe.name);
        });
    }
}
#[test]
fn at_the_target_nobody_yields() {
    for (text, queue_us, phase) in [
        ("ledbat", 100_000, Phase::Avoidance),
        ("ledbat", 100_001, Phase::Yielding),
        ("fledbat", 100_000, Phase::Avoidance),
        ("fledbat", 100_001, Phase::Yielding),
        ("ledbatpp:slow_start=none,slowdown=off", 60_000, Phase::Avoidance),
        ("ledbatpp:slow_start=none,slowdown=off", 60_001, Phase::Yielding),
    ] {
        let mut law = build(text, &path(10));
        law.on_ack(&ack(0, 0), &path(10));
        law.on_ack(&ack(200_000, queue_us), &path(10));
        assert_eq!(law.output().phase(), phase, "{text} at {queue_us} us");
    }
}
#[test]
fn slow_start_ends_at_the_threshold_to_the_byte() {
    for text in [
        "newreno:ssthresh=12.5",
        "ledbat:slow_start=standard,ssthresh=12.5",
        "fledbat:slow_start=standard,ssthresh=12.5",
    ] {
        let mut law = build(text, &path(10));
        let mut now_us = 0;
        acks(&mut law, &mut now_us, 2, 0);
        assert_eq!((packets(&law), law.output().phase()), (12.0, Phase::SlowStart), "{text}");
        // When the threshold is reached, 750 bytes of the third acknowledgement are left.
        acks(&mut law, &mut now_us, 1, 0);
        let expected = 12.5 + 0.5 / 12.5;
        assert!((packets(&law) - expected).abs() < 1e-4, "{text}: {} {expected}", packets(&law));
        assert_eq!(law.output().phase(), Phase::Avoidance, "{text}");
    }
}
/// `slow_start` that ends at a queue: at three quarters of the target, the window goes back once
/// to the size that made that queue.
#[test]
fn slow_start_ends_at_a_queue() {
    for law in ["ledbat", "fledbat"] {
        let mut law = build(&format!("{law}:target=20ms,slow_start=delay"), &path(10));
        let mut now_us = 0;
        acks(&mut law, &mut now_us, 1, 0);
        acks(&mut law, &mut now_us, 9, 15_000);
        assert_eq!((packets(&law), law.output().phase()), (20.0, Phase::SlowStart), "{law:?}");
        // After the filter has forgotten the samples before.
        now_us += 1_000_000;
        acks(&mut law, &mut now_us, 1, 15_001);
        assert_eq!((packets(&law), law.output().ssthresh_bytes), (10.0, 10 * u64::from(MSS)), "{law:?}");
        acks(&mut law, &mut now_us, 1, 15_001);
        assert!((10.0..10.2).contains(&packets(&law)), "{law:?}");
        assert_eq!(law.output().phase(), Phase::Avoidance, "{law:?}");
    }
    let mut law = build("ledbat:target=20ms,slow_start=standard", &path(10));
    acks(&mut law, &mut 0, 1, 0);
    acks(&mut law, &mut 1_000_000, 9, 15_001);
    assert_eq!((packets(&law), law.output().phase()), (20.0, Phase::SlowStart));
}
#[test]
fn an_ack_counts_for_the_limit_of_byte_counting() {
    for (limit, expected) in [(1, 11.0), (2, 12.0), (5, 15.0), (9, 16.0)] {
        let mut law = build(&format!("newreno:abc_limit={limit}"), &path(10));
        law.on_ack(&Ack { acked_bytes: 6 * u64::from(MSS), ..ack(1, 0) }, &path(10));
        assert_eq!(packets(&law), expected);
    }
}
#[test]
fn timeouts() {
    for law_name in ["newreno", "ledbat", "fledbat", "vegas", "nice", "lp", "ledbatpp", "cubic"] {
        let mut law = build(law_name, &path(20));
        let kept = if law_name == "cubic" { 14 } else { 10 };
        law.on_loss(&timeout(100_000, 90_000, 1), &path(10));
        assert_eq!(law.output().cwnd_q16, ONE, "{law_name}: one segment, whatever the floor");
        assert_eq!(law.output().ssthresh_bytes, kept * u64::from(MSS), "{law_name}");
        law.on_loss(&timeout(300_000, 290_000, 2), &path(10));
        assert_eq!(law.output().ssthresh_bytes, kept * u64::from(MSS), "{law_name}: once in a series");
        // A new series of timeouts halves the threshold again, to two segments at least.
        law.on_loss(&timeout(900_000, 890_000, 1), &path(10));
        assert_eq!(law.output().ssthresh_bytes, 2 * u64::from(MSS), "{law_name}");
        assert_eq!(law.output().cwnd_q16, ONE, "{law_name}");
    }
}
#[test]
fn timeouts_below_one_segment() {
    let mut law = build("fledbat:timeout=halve,floor=0.1", &path(20));
    law.on_loss(&timeout(100_000, 90_000, 1), &path(10));
    assert_eq!(packets(&law), 1.0, "never more than one");
    let mut seen = Vec::new();
    for series in 2..8u32 {
        law.on_loss(&timeout(100_000 * u64::from(series), 0, series), &path(10));
        seen.push((packets(&law) * 1000.0).round());
    }
    assert_eq!(seen, [500.0, 250.0, 125.0, 100.0, 100.0, 100.0]);
    let mut law = build("fledbat:floor=0.1", &path(0));
    assert!((packets(&law) - 0.1).abs() < 1e-6);
    law.on_loss(&timeout(100_000, 90_000, 1), &path(10));
    assert_eq!(packets(&law), 1.0, "the standard's restart");
}
/// With `climb`, timeouts in a row halve the window below its floor, and acknowledgements bring it
/// back by a part of itself.
#[test]
fn climbs_after_timeouts_in_a_row() {
    for (text, queue_us) in [
        ("ledbat:floor=1,climb=0.1", 500_000), // below the floor delay has no say
        ("ledbat:floor=1,climb=0.1,slow_start=standard", 0),
        ("fledbat:floor=1,climb=0.1,zeta=5", 500_000),
        ("fledbat:floor=1,climb=0.1,slow_start=standard", 0),
    ] {
        let mut law = build(text, &path(20));
        let mut seen = Vec::new();
        for series in 1..9u32 {
            law.on_loss(&timeout(100_000 * u64::from(series), 0, series), &path(10));
            seen.push(packets(&law));
        }
        let expected = [1.0, 0.5, 0.25, 0.125, 0.0625, 0.031_25, 0.015_625, 0.015_625];
        assert_eq!(seen, expected, "{text}");
        let mut now_us = 2_000_000;
        acks(&mut law, &mut now_us, 1, 0); // the sample that sets the base delay
        for count in 2..44 {
            acks(&mut law, &mut now_us, 1, queue_us);
            let expected = 1.1f64.powi(count) / 64.0;
            assert!((packets(&law) / expected - 1.0).abs() < 1e-4, "{text}: {} after {count}", packets(&law));
        }
        acks(&mut law, &mut now_us, 1, queue_us);
        assert!((1.0..1.1).contains(&packets(&law)), "{text}: {}", packets(&law));
        let app_limited = Ack { app_limited: 1, ..ack(now_us, 0) };
        law.on_loss(&timeout(now_us, now_us - 1, 1), &path(10));
        law.on_loss(&timeout(now_us, now_us - 1, 2), &path(10));
        let low = packets(&law);
        law.on_ack(&app_limited, &path(10));
        assert_eq!(packets(&law), low, "{text}: grows only where it was the limit");
    }
}
/// Between a floor below one segment and one segment, the delay decides, as without `climb`.
#[test]
fn climbs_only_while_the_delay_allows() {
    for text in ["ledbat:floor=0.25,climb=0.5", "fledbat:floor=0.25,climb=0.5,zeta=5"] {
        let mut law = build(text, &path(20));
        let mut now_us = 0;
        acks(&mut law, &mut now_us, 1, 0);
        law.on_loss(&timeout(100_000, 90_000, 1), &path(10));
        law.on_loss(&timeout(200_000, 90_000, 2), &path(10));
        assert_eq!(packets(&law), 0.5, "{text}");
        now_us = 1_000_000;
        acks(&mut law, &mut now_us, 1, 100_000);
        assert!((packets(&law) - 0.75).abs() < 1e-4, "{text} climbs at the target: {}", packets(&law));
        acks(&mut law, &mut now_us, 400, 900_000);
        assert!((packets(&law) - 0.25).abs() < 1e-3, "{text} yields above it: {}", packets(&law));
    }
}
#[test]
fn decreases_stop_at_the_floor_and_spare_what_is_below() {
    for (text, floor) in [
        ("ledbat", 2.0),
        ("ledbat:floor=0.25", 0.25),
        ("fledbat:zeta=5,floor=0.05", 0.05),
        ("fledbat:floor=3", 3.0),
    ] {
        let mut law = build(text, &path(10));
        let mut now_us = 0;
        acks(&mut law, &mut now_us, 1, 0);
        acks(&mut law, &mut now_us, 4000, 500_000);
        assert!((packets(&law) - floor).abs() < 1e-4, "{text}: {}", packets(&law));
        assert!(packets(&law) >= floor, "{text}");
        assert_eq!(law.output().phase(), Phase::Yielding);
    }
    let mut law = build("ledbat", &path(10));
    law.on_loss(&timeout(100, 50, 1), &path(10));
    let mut now_us = 200_000;
    acks(&mut law, &mut now_us, 1, 0);
    let before = packets(&law);
    assert!(before >= 1.9, "growth lifts it: {before}");
    law.on_loss(&timeout(400_000, 390_000, 1), &path(10));
    now_us = 600_000;
    acks(&mut law, &mut now_us, 50, 500_000);
    assert_eq!(packets(&law), 1.0, "below the floor after a timeout, and no lower");
}
/// zeta = 1e-4, far above the target and just above it: the decrease for each acknowledged packet
/// is exact to 1 %.
#[test]
fn fledbat_decreases_by_a_small_gain() {
    for (target_ms, queue_ms) in [(100, 200), (100, 101), (10_000, 20_000)] {
        let start = Path { initial_window_bytes: u32::MAX, ..path(1) };
        let mut law =
            build(&format!("fledbat:zeta=0.0001,alpha=0.001,filter_length=1,target={target_ms}ms"), &start);
        law.on_ack(&ack(0, 0), &start);
        let before = packets(&law);
        for i in 1..=10_000u64 {
            law.on_ack(&Ack { app_limited: 1, ..ack(i * 100, queue_ms * 1000) }, &start);
        }
        let expected = f64::from(queue_ms - target_ms) / f64::from(target_ms);
        let taken = before - packets(&law);
        let tolerance = if target_ms == 100 { 0.01 } else { 0.1 };
        assert!((taken / expected - 1.0).abs() < tolerance, "{target_ms} ms: {taken}, expected {expected}");
    }
}
#[test]
fn growth_leads_the_flight_by_allowed_increase() {
    for (allowed, expected) in [("0", 10.0), ("0.05", 10.05), ("1", 10.1)] {
        let mut law = build(&format!("ledbat:allowed_increase={allowed}"), &path(10));
        let flight = Ack { prior_inflight_bytes: 10 * u64::from(MSS), ..ack(1, 0) };
        law.on_ack(&flight, &path(10));
        assert!((packets(&law) - expected).abs() < 1e-3, "{allowed}: {}", packets(&law));
        // A smaller flight does not reduce the window.
        law.on_ack(&Ack { prior_inflight_bytes: 0, ..ack(2, 0) }, &path(10));
        assert!((packets(&law) - expected).abs() < 1e-3, "{allowed}: {}", packets(&law));
    }
}
/// Above the target LEDBAT decreases by distance x gain in a round trip; if clamped, by at most
/// the gain.
#[test]
fn ledbat_decreases_in_proportion_unless_clamped() {
    for (text, queue_us, expected) in [
        ("ledbat:target=25ms", 50_000, -1.0),
        ("ledbat:target=25ms", 125_000, -4.0),
        ("ledbat:target=25ms,clamp=on", 125_000, -1.0),
        ("ledbat:target=25ms,gain_down=10", 30_000, -2.0),
        ("ledbat:target=25ms,gain_down=2,clamp=on", 125_000, -2.0),
        ("ledbat:target=25ms", 12_500, 0.5),
        ("ledbat:target=25ms,gain_up=3", 12_500, 1.5),
        ("ledbat:target=25ms", 25_000, 0.0),
        ("ledbat:target=5ms", 10_000_000, -2247.0), // 1999 for a window, which shrinks meanwhile
    ] {
        let mut law = build(text, &path(10_000));
        law.on_ack(&Ack { app_limited: 1, ..ack(0, 0) }, &path(10));
        for i in 0..5 {
            law.on_ack(&Ack { acked_bytes: 0, ..ack(200_000 + i, queue_us) }, &path(10));
        }
        let before = packets(&law);
        for i in 0..100 {
            law.on_ack(&Ack { acked_bytes: 100 * u64::from(MSS), ..ack(300_000 + i, queue_us) }, &path(10));
        }
        let change = packets(&law) - before;
        let bound = (expected * 0.01_f64).abs().max(2e-3);
        assert!((change - expected).abs() < bound, "{text} at {queue_us} us: {change}, not {expected}");
    }
}
#[test]
fn nothing_is_acknowledged_nothing_changes() {
    for law in leeway_control::laws() {
        let mut law = build(law.name, &path(10));
        for i in 0..50 {
            law.on_ack(&Ack { acked_bytes: 0, round_start: 1, ..ack(i * 1000, 0) }, &path(10));
        }
        assert_eq!(packets(&law), 10.0, "{law:?}");
    }
}
#[test]
fn marks_need_no_loss() {
    let mut law = build("newreno", &path(64));
    law.on_ack(&mark(1_000), &path(10));
    assert_eq!((packets(&law), law.output().ssthresh_bytes), (32.0, 32 * u64::from(MSS)));
    law.on_ack(&mark(50_999), &path(10));
    assert!(packets(&law) > 32.0, "growth, as without a mark");
    law.on_ack(&mark(51_000), &path(10));
    assert!(packets(&law) < 17.0);
    // Losses and marks in one round trip count once.
    law.on_loss(&dupack(60_000, 51_000), &path(10));
    assert!(packets(&law) > 16.0);
    law.on_loss(&dupack(60_000, 51_001), &path(10));
    assert!(packets(&law) < 9.0);
    law.on_ack(&mark(109_999), &path(10));
    assert!(packets(&law) > 8.0);
    // Before the first sample a round trip counts as 1 s.
    let unknown = Path { srtt_us: 0, ..path(64) };
    let mut law = build("newreno", &unknown);
    for now_us in [5, 1_000_004] {
        law.on_ack(&mark(now_us), &unknown);
        assert!(packets(&law) > 31.0);
    }
    law.on_ack(&mark(1_000_005), &unknown);
    assert!(packets(&law) < 17.0);
}
/// TCP-LP: half the window at an indication, one segment at a second one in the inference period,
/// no growth for three round trips.
#[test]
fn lp_infers() {
    let start = Path { srtt_us: 100_000, ..path(40) };
    let mut law = build("lp:slow_start=none", &start);
    let feed = |law: &mut Law, now_us: u64, queue_us: u32| {
        law.on_ack(&ack(now_us, queue_us), &start);
        packets(law)
    };
    // The range of delays: two delays of 80 ms, of which the second largest counts, and 8/8 of
    // nothing.
    for (now_us, queue_us) in [(0, 0), (1, 80_000), (2, 80_000)] {
        feed(&mut law, now_us, queue_us);
    }
    assert_eq!(law.output().phase(), Phase::Inference);
    assert!((packets(&law) - 20.01).abs() < 0.02, "{}", packets(&law));
    assert_eq!(law.output().queuing_delay_us, 18_750); // 80 (1 - 49/64)
    let held = packets(&law);
    assert_eq!(feed(&mut law, 100_001, 80_000), held, "a round trip has not passed");
    assert_eq!(feed(&mut law, 100_002, 80_000), 1.0, "a second indication");
    for i in 0..80 {
        assert_eq!(feed(&mut law, 150_000 + i, 0), 1.0);
    }
    assert_eq!(feed(&mut law, 300_001, 0), 1.0);
    assert_eq!(law.output().phase(), Phase::Inference);
    assert_eq!(feed(&mut law, 300_002, 0), 2.0, "three round trips have");
    assert_eq!(law.output().phase(), Phase::Avoidance);
    assert_eq!(probe(&law, "inference_end"), 300_002.0);
}
/// TCP-LP: the first slow start measures the range of delays and infers nothing. The next one
/// does.
#[test]
fn lp_warms_up() {
    let start = Path { srtt_us: 100_000, ..path(40) };
    for (spec, after) in [("lp", Phase::SlowStart), ("lp:warmup=off", Phase::Inference)] {
        let mut law = build(spec, &start);
        for (now_us, queue_us) in [(0, 0), (1, 80_000), (2, 80_000)] {
            law.on_ack(&ack(now_us, queue_us), &start);
        }
        assert_eq!(law.output().phase(), after, "{spec}");
    }
    let mut law = build("lp", &start);
    for (now_us, queue_us) in [(0, 0), (1, 80_000), (2, 80_000)] {
        law.on_ack(&ack(now_us, queue_us), &start);
    }
    law.on_loss(&timeout(200_000, 100_000, 1), &start);
    law.on_ack(&ack(300_000, 80_000), &start);
    assert_eq!(law.output().phase(), Phase::Inference, "it knows the range now");
}
/// TCP-LP of Linux: what is normal becomes the minimum, and the period starts anew.
#[test]
fn lp_resets() {
    let start = Path { srtt_us: 100_000, min_rtt_us: 60_000, ..path(40) };
    let mut law = build("lp:slow_start=none,reset=on", &start);
    for (now_us, queue_us) in [(0, 0), (1, 80_000), (2, 80_000)] {
        law.on_ack(&ack(now_us, queue_us), &start);
    }
    let smoothed = 25_000.0 + 18_750.0;
    assert_eq!(probe(&law, "min_delay"), smoothed);
    assert_eq!(probe(&law, "max_delay"), smoothed + 30_000.0 + 18_750.0); // half of 60 ms and the queue
    assert_eq!(law.output().queuing_delay_us, 0);
    assert_eq!(probe(&law, "inference_end"), 300_002.0);
    for i in 0..20 {
        law.on_ack(&ack(200_000 + i, 80_000), &start);
    }
    assert_eq!((packets(&law), probe(&law, "inference_end")), (1.0, 500_000.0));

    let mut law = build("lp:slow_start=none,reset=on,delay=rtt", &start);
    for (now_us, queue_us) in [(0, 0), (1, 80_000), (2, 80_000)] {
        law.on_ack(&ack(now_us, queue_us), &start);
    }
    assert_eq!(probe(&law, "max_delay"), 50_000.0 + 18_750.0 + 60_000.0 + 18_750.0);
}
/// A period in which all delays are equal gives no range. The threshold itself counts.
#[test]
fn lp_needs_a_range() {
    let start = path(10);
    let mut law = build("lp:slow_start=none,threshold=0", &start);
    for now_us in 0..50 {
        law.on_ack(&ack(now_us, 7_000), &start);
    }
    assert!(packets(&law) > 13.0, "{}", packets(&law));
}
#[test]
fn large_steps_take_the_other_arithmetic() {
    // More than 2^20 bytes in one acknowledgement: a share of the window with 24 bits.
    let window = 4_000_000_000u32;
    let huge = Path { initial_window_bytes: window, ..path(1) };
    let mut law = build("newreno:slow_start=none", &huge);
    for _ in 0..100 {
        law.on_ack(&Ack { acked_bytes: u64::from(window) / 100, ..ack(1, 0) }, &huge);
    }
    let grown = law.output().window_bytes_f64() - f64::from(window);
    assert!((grown / f64::from(MSS) - 1.0).abs() < 1e-3, "{grown}");
    // An acknowledgement of more than the window counts as one of the window.
    law.on_ack(&Ack { acked_bytes: u64::MAX, ..ack(2, 0) }, &huge);
    let again = law.output().window_bytes_f64() - f64::from(window) - grown;
    assert!((again / f64::from(MSS) - 1.0).abs() < 1e-3, "{again}");
    // A change of more than 2^35, and of more than 2^38 (half of a large window): CUBIC far below
    // its target.
    for (initial, acks) in [(60_000_000u32, 4), (4_000_000_000, 4)] {
        let start = Path { initial_window_bytes: initial, srtt_us: 1000, ..path(1) };
        let mut law = build("cubic:c=10,slow_start=none,friendly=off", &start);
        law.on_ack(&ack(0, 0), &start);
        let before = law.output().window_bytes_f64();
        for i in 0..acks {
            let now_us = 4_000_000_000 + i;
            law.on_ack(&Ack { now_us, acked_bytes: u64::from(initial) / 8, ..ack(0, 0) }, &start);
        }
        let factor = law.output().window_bytes_f64() / before;
        let expected = (1..=acks).fold(1.0, |w: f64, _| w + w / 2.0 * (0.125 / w));
        assert!((factor - expected).abs() < 1e-4, "{initial}: {factor}, not {expected}");
    }
}
#[test]
fn windows_have_an_end() {
    for text in [
        "newreno",
        "ledbat:slow_start=standard",
        "cubic",
        "vegas",
        "lp",
        "flower",
        "fledbat:slow_start=standard",
    ] {
        let start = Path { mss_bytes: 65_535, initial_window_bytes: u32::MAX, ..path(1) };
        let mut law = build(text, &start);
        for i in 0..60_000u64 {
            let ack =
                Ack { acked_bytes: u64::MAX, prior_inflight_bytes: u64::MAX, round_start: 1, ..ack(i, 0) };
            law.on_ack(&ack, &start);
        }
        let bytes = law.output().cwnd_q16 >> 16;
        assert!(bytes <= 1 << 39, "{text}: {bytes}");
    }
}
/// Vegas and Nice at the boundaries of their decisions.
#[test]
fn vegas_decides_by_packets_in_the_queue() {
    // W = 20, base 50 ms: diff = 20 q / (50 + q).
    for (queue_us, change) in [(0, 1.0), (5_500, 1.0), (5_600, 0.0), (12_400, 0.0), (12_600, -1.0)] {
        for text in ["vegas:slow_start=none", "nice:slow_start=none,threshold=1"] {
            let mut law = build(text, &path(20));
            law.on_ack(&Ack { app_limited: 1, round_start: 1, ..ack(0, 0) }, &path(10));
            law.on_ack(&Ack { app_limited: 1, round_start: 1, ..ack(50_000, queue_us) }, &path(10));
            let mut now_us = 50_001;
            acks(&mut law, &mut now_us, 20, queue_us);
            let before = packets(&law);
            law.on_ack(&Ack { round_start: 1, ..ack(100_000, queue_us) }, &path(10));
            assert_eq!(packets(&law) - before, change, "{text} at {queue_us} us");
            let phase = if change < 0.0 { Phase::Yielding } else { Phase::Avoidance };
            assert_eq!(law.output().phase(), phase, "{text} at {queue_us} us");
        }
    }
}
/// Nice halves the window if more than half of a round's packets met more than a fifth of the
/// largest queue.
#[test]
fn nice_counts_packets() {
    for (delayed, halves) in [(5, false), (6, true)] {
        let mut law = build("nice:slow_start=none,alpha=0,beta=1000", &path(20));
        for queue_us in [0, 100_000] {
            law.on_ack(&Ack { app_limited: 1, round_start: 1, ..ack(0, queue_us) }, &path(10));
        }
        // a fifth exactly, which is not more than a fifth
        law.on_ack(&Ack { round_start: 1, ..ack(1, 20_000) }, &path(10));
        let before = packets(&law);
        for i in 1..10 {
            law.on_ack(&ack(1 + i, if i <= delayed { 20_100 } else { 0 }), &path(10));
        }
        law.on_ack(&Ack { round_start: 1, ..ack(100, 0) }, &path(10));
        let expected = if halves { before / 2.0 } else { before };
        assert!((packets(&law) - expected).abs() < 1e-3, "{delayed}: {}", packets(&law));
    }
}
/// Acknowledgements without a sample say nothing of the queue.
#[test]
fn nice_ignores_acks_without_samples() {
    let mut law = build("nice:slow_start=none,alpha=0,beta=1000", &path(20));
    for (now_us, rtt_us) in [(0, 0), (1, 50_000), (2, 150_000)] {
        law.on_ack(&Ack { rtt_us, app_limited: 1, round_start: 1, ..ack(now_us, 0) }, &path(10));
    }
    for i in 0..50 {
        let rtt_us = if i % 10 == 0 { 50_000 } else { 0 };
        let round_start = u8::from(i % 10 == 0);
        law.on_ack(&Ack { rtt_us, app_limited: 1, round_start, ..ack(10 + i, 0) }, &path(10));
    }
    assert!(packets(&law) > 9.0, "{}: halved once at most, for the one delayed sample", packets(&law));
}
/// Vegas leaves slow start at W base / R + 1. It does not shrink for less than a packet in the
/// queue.
#[test]
fn vegas_leaves_slow_start() {
    for (gamma, queue_us, expected) in
        [("1", 10_000, 20.0 * 5.0 / 6.0 + 1.0), ("0.5", 2_000, 20.0), ("2", 2_000, 40.0)]
    {
        let mut law = build(&format!("vegas:gamma={gamma}"), &path(10));
        let mut now_us = 0;
        for (round, queue_us) in [(0, 0), (1, queue_us), (2, queue_us), (3, queue_us)] {
            let acks = packets(&law) as u64;
            if round == 3 && law.output().phase() != Phase::SlowStart {
                break;
            }
            for i in 0..acks {
                now_us += 100;
                law.on_ack(&Ack { round_start: u8::from(i == 0), ..ack(now_us, queue_us) }, &path(10));
            }
        }
        assert!((packets(&law) - expected).abs() < 0.01, "{gamma} {queue_us}: {}", packets(&law));
    }
}
#[test]
fn ledbatpp_slows_down_to_two_segments() {
    for floor in [1, 2, 5] {
        let mut law = build(&format!("ledbatpp:floor={floor}"), &path(40));
        law.on_loss(&dupack(1_000, 500), &path(10));
        assert_eq!(probe(&law, "stage"), 1.0, "the first slow start is over");
        assert_eq!(probe(&law, "deadline"), 101_000.0, "two round trips later");
        law.on_ack(&ack(100_999, 0), &path(10));
        assert!(packets(&law) >= 20.0);
        law.on_ack(&ack(101_000, 0), &path(10));
        assert_eq!((packets(&law), law.output().phase()), (f64::from(floor.max(2)), Phase::Slowdown));
    }
}
#[test]
fn slow_start_is_told_whenever_it_is_on() {
    for text in ["newreno", "ledbat:slow_start=standard,floor=1", "fledbat:slow_start=standard,floor=1", "lp"]
    {
        let mut law = build(text, &path(2));
        law.on_loss(&dupack(1_000, 500), &path(10));
        assert_eq!((packets(&law), law.output().phase()), (1.0, Phase::Avoidance), "{text}");
        law.on_ack(&ack(2_000, 0), &path(10));
        assert_eq!(
            (packets(&law), law.output().phase()),
            (2.0, Phase::SlowStart),
            "{text}: below the threshold"
        );
        law.on_ack(&ack(3_000, 0), &path(10));
        assert_eq!(law.output().phase(), Phase::Avoidance, "{text}");
    }
    let mut law = build("vegas:floor=1", &path(2));
    law.on_loss(&dupack(1_000, 500), &path(10));
    law.on_ack(&ack(2_000, 0), &path(10));
    assert_eq!((packets(&law), law.output().phase()), (2.0, Phase::SlowStart), "vegas");
}
/// Delays from another source (one-way instead of round trip) have another minimum.
#[test]
fn lp_begins_anew_with_a_new_source() {
    let mut law = build("lp:slow_start=none", &path(10));
    for i in 0..10 {
        law.on_ack(&Ack { owd_resolution_us: 0, ..ack(i, 30_000 * (i as u32 % 2)) }, &path(10));
    }
    let before = packets(&law);
    for i in 100_000..100_010 {
        law.on_ack(&Ack { owd_us: 10_000_000, ..ack(i, 0) }, &path(10));
    }
    assert_eq!((probe(&law, "min_delay"), probe(&law, "max_delay")), (10_000_000.0, 10_000_000.0));
    assert!(packets(&law) >= before && law.output().queuing_delay_us == 0);
}
/// `flavour` of the ns-2 module: whole packets. The first ACK that makes the credit negative takes
/// one packet.
#[test]
fn ledbat_moves_by_whole_packets() {
    let start = path(10);
    let mut law = build("ledbat:target=100ms,window=whole,filter_length=1,slow_start=none,floor=1", &start);
    law.on_ack(&ack(0, 0), &start);
    let mut now_us = 0;
    let mut step = |law: &mut leeway_control::Law, count: u32, queue_us: u32| {
        for _ in 0..count {
            now_us += 1000;
            let inflight = law.output().cwnd_q16 >> 16;
            law.on_ack(
                &Ack { owd_us: queue_us, prior_inflight_bytes: inflight, ..ack(now_us, 0) },
                &path(10),
            );
        }
        packets(law)
    };
    assert_eq!(step(&mut law, 8, 0), 10.0, "a credit of nine, with the first");
    assert_eq!(step(&mut law, 1, 0), 11.0);
    assert_eq!(step(&mut law, 10, 0), 11.0);
    assert_eq!(step(&mut law, 1, 0), 12.0);
    // 100 ms above the target: one packet less at once, then none for the credit of ten.
    assert_eq!(step(&mut law, 1, 200_000), 11.0);
    assert_eq!(step(&mut law, 10, 200_000), 11.0);
    assert_eq!(step(&mut law, 1, 200_000), 10.0);
}
