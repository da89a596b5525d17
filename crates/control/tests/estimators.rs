//! The delay estimators, observed through LEDBAT: base history, filters, clocks, routes.

mod common;

use common::{Chance, ack, build, path, probe};
use leeway_control::{Ack, Law, Path};

const SECOND: u64 = 1_000_000;

/// An acknowledgement with the one-way delay `owd_us`.
fn owd(now_us: u64, owd_us: u32) -> Ack {
    Ack { owd_us, rtt_us: 0, ..ack(now_us, 0) }
}

fn feed(law: &mut Law, now_us: u64, owd_us: u32) -> u32 {
    law.on_ack(&owd(now_us, owd_us), &path(10));
    law.output().queuing_delay_us
}

/// A LEDBAT whose filter sees one sample at a time, because samples are far apart.
fn ledbat(params: &str) -> Law {
    build(&format!("ledbat:filter_length=1{params}"), &path(10))
}

#[test]
fn base_is_the_minimum_of_ten_minutes() {
    let mut law = ledbat("");
    let mut seen = Vec::new();
    for minute in 0..24u64 {
        // One sample of 10 ms in minute 3, of 20 ms in minute 8, 50 ms otherwise.
        for tick in 0..6 {
            let owd_us = match (minute, tick) {
                (3, 2) => 10_000,
                (8, 5) => 20_000,
                _ => 50_000,
            };
            feed(&mut law, minute * 60 * SECOND + tick * 10 * SECOND, owd_us);
        }
        seen.push(probe(&law, "base_delay") / 1000.0);
    }
    let mut expected = vec![50.0; 24];
    expected[3..13].fill(10.0); // minute 3 and the nine after it
    expected[13..18].fill(20.0);
    assert_eq!(seen, expected);
}

#[test]
fn history_length_and_interval_are_parameters() {
    for (history, interval_s) in [(1u64, 5u64), (2, 60), (13, 60), (16, 7)] {
        let mut law = ledbat(&format!(",base_history={history},base_interval={interval_s}s"));
        feed(&mut law, 0, 1_000);
        let mut forgotten = 0;
        for second in 1..2000 {
            if feed(&mut law, second * SECOND, 90_000) == 0 {
                forgotten = second;
                break;
            }
        }
        assert_eq!(forgotten, history * interval_s, "history of {history} x {interval_s} s");
    }
    let mut law = ledbat(",base_history=0");
    feed(&mut law, 0, 1_000);
    assert!((1..5000).all(|second| feed(&mut law, second * 10 * SECOND, 90_000) == 89_000), "for ever");
}

/// Idle time does not age the base history, because a bucket begins with a sample.
#[test]
fn idle_time_keeps_the_base() {
    let mut law = ledbat(",base_history=3");
    feed(&mut law, 0, 10_000);
    assert_eq!(feed(&mut law, 3600 * SECOND, 60_000), 50_000);
    assert_eq!(feed(&mut law, 7200 * SECOND, 60_000), 50_000);
    assert_eq!(feed(&mut law, 7261 * SECOND, 60_000), 0);
}

#[test]
fn filters_by_hand() {
    // The base of 1 ms comes first; 30, 10, 50, 20 ms follow, all within a round trip.
    let feed_all = |filter: &str| {
        let mut law = build(&format!("ledbat:filter={filter}"), &path(10));
        let samples = [1, 30, 10, 50, 20];
        let seen: Vec<u32> =
            samples.iter().enumerate().map(|(i, ms)| feed(&mut law, i as u64 * 100, ms * 1000)).collect();
        seen.into_iter().map(|us| f64::from(us) / 1000.0).collect::<Vec<_>>()
    };
    assert_eq!(feed_all("min"), [0.0, 0.0, 0.0, 0.0, 9.0]);
    assert_eq!(feed_all("mean"), [0.0, 14.5, 12.666, 21.75, 26.5]);
    assert_eq!(feed_all("median"), [0.0, 0.0, 9.0, 9.0, 19.0]);
    assert_eq!(feed_all("ewma"), [0.0, 7.25, 7.687, 18.015, 18.261]);
}

#[test]
fn filters_wrap_like_delays_do() {
    for filter in ["min", "mean", "median", "ewma"] {
        let run = |offset: u32| {
            let mut law = build(&format!("ledbat:filter={filter},filter_length=8"), &path(10));
            let mut chance = Chance(7);
            let step = |i| feed(&mut law, i * 3000, (chance.below(80_000) as u32).wrapping_add(offset));
            (0..500u64).map(step).collect::<Vec<_>>()
        };
        let reference = run(0);
        for offset in [1, u32::MAX - 79_999, u32::MAX - 40_000, u32::MAX, 1 << 31, (1 << 31) - 40_000] {
            assert_eq!(run(offset), reference, "{filter} at offset {offset}");
        }
    }
}

#[test]
fn samples_older_than_a_round_trip_do_not_count() {
    let mut law = build("ledbat", &path(10)); // srtt 50 ms
    feed(&mut law, 0, 1_000);
    feed(&mut law, 100_000, 5_000);
    assert_eq!(feed(&mut law, 150_000, 90_000), 4_000, "exactly a round trip old");
    assert_eq!(feed(&mut law, 150_001, 90_000), 89_000);
    // Without a smoothed round-trip time, samples of any age count.
    let unknown = Path { srtt_us: 0, ..path(10) };
    let mut law = build("ledbat", &unknown);
    for (now_us, owd_us) in [(0, 1_000), (SECOND, 5_000), (2 * SECOND, 90_000)] {
        law.on_ack(&owd(now_us, owd_us), &unknown);
    }
    assert_eq!(law.output().queuing_delay_us, 0);
    for (now_us, owd_us) in [(3 * SECOND, 90_000), (4 * SECOND, 90_000)] {
        law.on_ack(&owd(now_us, owd_us), &unknown);
    }
    assert_eq!(law.output().queuing_delay_us, 4_000, "the last four only");
}

/// The filter uses only samples that were taken; the other places of its ring are undefined.
#[test]
fn filters_begin_with_few_samples() {
    let unknown = Path { srtt_us: 0, ..path(10) };
    for (filter, expected) in
        [("min", [0, 0]), ("mean", [0, 14_500]), ("median", [0, 0]), ("ewma", [0, 3_625])]
    {
        let mut law = build(&format!("ledbat:filter={filter},filter_length=8"), &unknown);
        let mut seen = Vec::new();
        for (now_us, owd_us) in [(0, 1_000), (SECOND, 30_000)] {
            law.on_ack(&owd(now_us, owd_us), &unknown);
            seen.push(law.output().queuing_delay_us);
        }
        assert_eq!(seen, expected, "{filter}");
    }
}

/// Means are rounded toward the newest sample.
#[test]
fn means_of_microseconds() {
    let mut law = build("ledbat:filter=mean", &path(10));
    let seen: Vec<u32> =
        [0, 1, 3, 3, 0].into_iter().enumerate().map(|(i, us)| feed(&mut law, i as u64, us)).collect();
    assert_eq!(seen, [0, 1, 2, 2, 1]);
}

#[test]
fn a_new_source_empties_the_filter() {
    let mut law = build("ledbat:filter=mean", &path(10));
    for (now_us, queue_us) in [(0, 0), (1, 20_000)] {
        law.on_ack(&Ack { owd_resolution_us: 0, ..ack(now_us, queue_us) }, &path(10));
    }
    assert_eq!(law.output().queuing_delay_us, 10_000);
    feed(&mut law, 2, 925_000);
    assert_eq!(feed(&mut law, 3, 935_000), 5_000);
}

#[test]
fn delays_wrap_around() {
    let mut law = ledbat("");
    let base = u32::MAX - 20_000;
    feed(&mut law, 0, base);
    for (i, queue_us) in [1, 20_000, 20_001, 50_000, 2_000_000_000, 7].into_iter().enumerate() {
        assert_eq!(feed(&mut law, 1000 * (i as u64 + 1), base.wrapping_add(queue_us)), queue_us);
    }
}

/// A receiver's clock that is fast by 100 ppm gains 6 ms a minute. Without correction that looks
/// like a queue of 60 ms.
#[test]
fn skew_is_corrected_by_the_drift_of_the_minima() {
    let worst = |params: &str, ppm: i64| {
        let mut law = ledbat(params);
        let mut chance = Chance(3);
        let mut worst = 0;
        for tick in 0..20 * 600u64 {
            let now_us = tick * SECOND / 10;
            let drift = now_us as i64 * ppm / 1_000_000;
            // An empty queue at least every second, up to 2 ms otherwise.
            let queue = if tick % 10 == 0 { 0 } else { chance.below(2000) as i64 };
            let q = feed(&mut law, now_us, (500_000 + drift + queue) as u32);
            if now_us > 600 * SECOND {
                worst = worst.max(q);
            }
        }
        worst
    };
    assert!(worst("", 100) > 55_000);
    assert!(worst(",skew=minima", 100) < 5_000, "{}", worst(",skew=minima", 100));
    assert!(worst(",skew=minima", 400) < 5_000, "{}", worst(",skew=minima", 400));
    // A slow clock needs no correction, because the minimum follows it.
    assert!(worst("", -100) < 5_000);
    assert!(worst(",skew=minima", -100) < 5_000);
    // No drift, no correction.
    assert_eq!(worst("", 0), worst(",skew=minima", 0));
}

#[test]
fn a_jump_of_the_delay_is_not_taken_for_skew() {
    for steps_us in [[0, 40_000, 0, 0], [0, 40_000, 80_000, 120_000], [0, 10_000, 10_000, 20_000]] {
        let mut law = ledbat(",skew=minima");
        for minute in 0..8u64 {
            let jump = steps_us[(minute as usize / 2).min(3)];
            for second in 0..60 {
                feed(&mut law, (minute * 60 + second) * SECOND, 100_000 + jump);
                assert_eq!(probe(&law, "drift"), 0.0, "minute {minute} of {steps_us:?}");
            }
        }
    }
}

#[test]
fn the_drift_is_the_smallest_of_the_last_three_steps() {
    let mut law = ledbat(",skew=minima");
    let mut drifts = Vec::new();
    // Minima of the minutes.
    for (minute, least) in
        [0u32, 5_000, 9_000, 12_000, 18_000, 30_000, 30_000, 31_000, 32_000, 33_000, 63_001]
            .into_iter()
            .enumerate()
    {
        feed(&mut law, minute as u64 * 60 * SECOND, 100_000 + least);
        drifts.push(probe(&law, "drift"));
    }
    // The newest minute has not ended and does not count. Without growth there is no drift.
    assert_eq!(drifts, [0.0, 0.0, 0.0, 4_000.0, 3_000.0, 3_000.0, 3_000.0, 0.0, 0.0, 0.0, 1_000.0]);
    // Within a minute, the base moves with the drift.
    let base = probe(&law, "base_delay");
    let q = feed(&mut law, 630 * SECOND, 200_000);
    assert_eq!(f64::from(200_000 - q), base + 500.0);
    // 500 ppm are 30 ms a minute. Nothing above that is a clock's drift.
    for (step, drift) in [(30_000, 30_000.0), (30_001, 0.0)] {
        let mut law = ledbat(",skew=minima");
        for minute in 0..6u32 {
            feed(&mut law, u64::from(minute) * 60 * SECOND, 100_000 + minute * step);
        }
        assert_eq!(probe(&law, "drift"), drift, "{step}");
    }
}

#[test]
fn a_shorter_route_counts_at_once_and_a_longer_one_after_the_history() {
    let mut law = ledbat("");
    for second in 0..60 {
        assert_eq!(feed(&mut law, second * SECOND, 80_000), 0);
    }
    assert_eq!(feed(&mut law, 60 * SECOND, 50_000), 0, "shorter");
    assert_eq!(feed(&mut law, 61 * SECOND, 55_000), 5_000);
    let longer = 70;
    let recovered = (longer..2000).find(|&second| feed(&mut law, second * SECOND, 130_000) == 0);
    let waited = recovered.expect("recovers") - longer;
    assert!((540..=600).contains(&waited), "{waited} s: nine to ten minutes");
}

/// A clock that is set looks like a new route. Set forwards, the law needs a history to notice;
/// set backwards, it notices at once.
#[test]
fn clock_steps() {
    let mut law = ledbat(",base_history=2");
    feed(&mut law, 0, 1_000_000);
    assert_eq!(feed(&mut law, SECOND, 0u32.wrapping_sub(5_000_000)), 0, "set back by 6 s");
    assert_eq!(feed(&mut law, 2 * SECOND, 0u32.wrapping_sub(4_990_000)), 10_000);
    assert_eq!(feed(&mut law, 3 * SECOND, 1_000_000), 6_000_000, "set forwards");
    feed(&mut law, 61 * SECOND, 1_000_000);
    assert_eq!(feed(&mut law, 122 * SECOND, 1_000_000), 0);
}

/// A flow that never lets the queue empty takes its own queue for the base delay: a known weakness
/// of LEDBAT.
#[test]
fn a_standing_queue_becomes_the_base() {
    let mut law = ledbat("");
    feed(&mut law, 0, 10_000);
    assert_eq!(feed(&mut law, 599 * SECOND, 110_000), 100_000);
    let seen: Vec<u32> = (600..1300).map(|second| feed(&mut law, second * SECOND, 110_000)).collect();
    assert_eq!((seen[0], *seen.last().expect("many")), (100_000, 0));
}

#[test]
fn a_late_comer_takes_the_queue_it_meets_for_the_base() {
    let mut elder = ledbat("");
    let mut late = ledbat("");
    feed(&mut elder, 0, 10_000);
    feed(&mut elder, 10 * SECOND, 110_000);
    feed(&mut late, 10 * SECOND, 110_000);
    assert_eq!(
        (feed(&mut elder, 11 * SECOND, 210_000), feed(&mut late, 11 * SECOND, 210_000)),
        (200_000, 100_000)
    );
}

/// Round-trip times are used until the first one-way sample. The two are never mixed.
#[test]
fn the_source_of_samples() {
    let mut law = ledbat("");
    let start = path(10);
    let rtt = |now_us, rtt_us| Ack { rtt_us, owd_resolution_us: 0, ..ack(now_us, 0) };
    law.on_ack(&rtt(0, 50_000), &start);
    law.on_ack(&rtt(1, 70_000), &start);
    assert_eq!(law.output().queuing_delay_us, 20_000);
    law.on_ack(&ack(2, 900_000), &start); // 925 ms one way: the estimator starts anew
    assert_eq!(law.output().queuing_delay_us, 0);
    law.on_ack(&rtt(3, 200_000), &start);
    assert_eq!(law.output().queuing_delay_us, 0, "ignored from here on");
    law.on_ack(&ack(4, 905_000), &start);
    assert_eq!(law.output().queuing_delay_us, 5_000);

    let mut law = ledbat(",delay=rtt");
    law.on_ack(&Ack { owd_us: 1, ..ack(0, 0) }, &start);
    law.on_ack(&Ack { owd_us: 999_999, ..ack(1, 30_000) }, &start);
    law.on_ack(&Ack { rtt_us: 0, ..ack(2, 0) }, &start);
    assert_eq!(law.output().queuing_delay_us, 30_000, "an ack without a sample changes nothing");
}

#[test]
fn a_caller_that_subtracts_the_base_is_believed() {
    let mut law = ledbat(",delay=queue");
    // The first sample is no base: it is a queuing delay already.
    assert_eq!(feed(&mut law, 0, 7_000), 7_000);
    assert_eq!(feed(&mut law, 1_000, 3_000), 3_000);
    assert_eq!(feed(&mut law, 2_000, 0), 0);
    // A round-trip time is no queuing delay.
    law.on_ack(&Ack { owd_resolution_us: 0, ..ack(3_000, 90_000) }, &path(10));
    assert_eq!(law.output().queuing_delay_us, 0);
}

/// Whether the window grows within a round trip at a queue of 30 ms, on a line that delivers
/// `rate_bytes_per_s`.
fn grows_at_30_ms(params: &str, rate_bytes_per_s: u64) -> bool {
    grows_after_20_s(params, |_| rate_bytes_per_s)
}

/// The same on a line that delivers `rate` at each time in ms.
fn grows_after_20_s(params: &str, rate: impl Fn(u64) -> u64) -> bool {
    let mut law = ledbat(&format!(",delay=queue,target=5ms{params}"));
    let mut window = 0;
    for n in 0..200u64 {
        let mut told = Ack { round_start: 1, ..owd(n * 100_000, 30_000) };
        told.rate = leeway_control::Rate {
            delivered_bytes: rate(n * 100),
            interval_us: 1_000_000,
            ..leeway_control::Rate::default()
        };
        window = law.output().cwnd_q16;
        law.on_ack(&told, &path(10));
    }
    law.output().cwnd_q16 > window
}

#[test]
fn the_target_is_some_segments_at_the_line_s_rate_but_never_below_its_least() {
    // Segments of 1000 bytes: four take 40 ms at 100 kB/s, 20 ms at 200 kB/s, 4 ms at 1 MB/s.
    let mss = u64::from(path(10).mss_bytes);
    assert!(grows_at_30_ms(",segments=4", 100 * mss));
    assert!(!grows_at_30_ms(",segments=4", 200 * mss));
    assert!(grows_at_30_ms(",segments=8", 200 * mss));
    assert!(!grows_at_30_ms(",segments=4", 1000 * mss));
    assert!(!grows_at_30_ms("", 100 * mss), "off unless set");
    assert!(!grows_at_30_ms(",segments=4", 0), "without a rate the target is the least");
}

#[test]
fn the_line_s_rate_is_the_highest_of_five_to_ten_seconds() {
    let mss = u64::from(path(10).mss_bytes);
    let slower_from = |from_ms: u64| {
        grows_after_20_s(",segments=4", |now_ms| if now_ms < from_ms { 200 * mss } else { 100 * mss })
    };
    assert!(!slower_from(17_000), "for three seconds");
    assert!(!slower_from(15_300), "for almost five");
    assert!(slower_from(9_000), "for eleven");
}
