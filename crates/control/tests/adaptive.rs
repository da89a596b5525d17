//! Targets that follow from the queuing delay at losses, and FLOWER's loss rules.

mod common;

use common::{MSS, ack, build, dupack, packets, path, probe, timeout};
use leeway_control::{Ack, Law, Path};

/// Acknowledges packets behind a queue of `queue_us` for a while, and then reports a loss. Returns
/// the target in ms.
fn lose(law: &mut Law, now_us: &mut u64, queue_us: u32) -> f64 {
    queue(law, now_us, queue_us);
    let now = *now_us;
    law.on_loss(&dupack(now, now - 1), &path(10));
    *now_us += 50_000;
    probe(law, "target") / 1000.0
}

fn queue(law: &mut Law, now_us: &mut u64, queue_us: u32) {
    for i in 0..20 {
        *now_us += 100_000;
        law.on_ack(&Ack { round_start: u8::from(i % 2 == 0), ..ack(*now_us, queue_us) }, &path(10));
    }
}

const LAWS: [&str; 2] = ["flower:slow_start=none,adaptive=0.5", "ledbat:adaptive=0.5"];

#[test]
fn the_target_is_the_parameters_until_a_loss_shows_the_buffer() {
    for name in LAWS {
        let mut law = build(name, &path(10));
        let mut now_us = 1_000_000;
        queue(&mut law, &mut now_us, 0);
        queue(&mut law, &mut now_us, 40_000);
        assert_eq!(probe(&law, "target"), 100_000.0, "{name}");
        assert_eq!(lose(&mut law, &mut now_us, 40_000), 20.0, "{name}");
        // Another loss in the same round trip changes nothing. A longer queue counts at once.
        let now = now_us;
        law.on_loss(&dupack(now, 1), &path(10));
        assert_eq!(probe(&law, "target"), 20_000.0, "{name}");
        assert_eq!(lose(&mut law, &mut now_us, 120_000), 60.0, "{name}");
        // A shorter queue counts by an eighth, and the parameter is the upper bound.
        assert_eq!(lose(&mut law, &mut now_us, 40_000), 55.0, "{name}");
        assert_eq!(lose(&mut law, &mut now_us, 400_000), 100.0, "{name}");
    }
}

/// Random losses without any queue, and a timeout: the target stays at or above the queue that
/// CoDel allows.
#[test]
fn the_target_has_a_least_value() {
    for name in LAWS {
        let mut law = build(name, &path(10));
        let mut now_us = 1_000_000;
        queue(&mut law, &mut now_us, 0);
        law.on_loss(&timeout(now_us, now_us - 1, 1), &path(10));
        assert_eq!(probe(&law, "target"), 5_000.0, "{name}");
    }
    let mut law = build("flower:target=2ms,adaptive=0.5", &path(10));
    let mut now_us = 1_000_000;
    assert_eq!(lose(&mut law, &mut now_us, 0), 2.0, "a target that is less anyway");
}

#[test]
fn off_it_stays_where_it_is() {
    for name in ["flower:slow_start=none", "ledbat"] {
        let mut law = build(name, &path(10));
        let mut now_us = 1_000_000;
        queue(&mut law, &mut now_us, 0);
        assert_eq!(lose(&mut law, &mut now_us, 30_000), 100.0, "{name}");
    }
}

/// A mark shows how much of the buffer an AQM allows, as a loss does.
#[test]
fn a_mark_counts_as_a_loss() {
    for name in LAWS {
        let mut law = build(name, &path(10));
        let mut now_us = 1_000_000;
        queue(&mut law, &mut now_us, 0);
        queue(&mut law, &mut now_us, 60_000);
        now_us += 100_000;
        let marked = Ack { ce_bytes: u64::from(MSS), ..ack(now_us, 60_000) };
        law.on_ack(&marked, &Path { srtt_us: 110_000, ..path(10) });
        assert_eq!(probe(&law, "target"), 30_000.0, "{name}");
    }
}

/// The least target is the larger of some segments at the line's rate and a fixed part. Segments
/// of 12 ms are above a part of 10 ms, and below one of 40 ms.
#[test]
fn segments_at_the_lines_rate_are_the_least_target() {
    for (queue_us, target_ms) in [(20_000, 24.0), (80_000, 40.0)] {
        let mut law = build("ledbat:segments=2,adaptive=0.5", &path(10));
        let mut now_us = 1_000_000;
        let mut at_rate = |law: &mut Law, queue_us: u32| {
            for _ in 0..20 {
                now_us += 12_000;
                let mut ack = Ack { round_start: 1, ..ack(now_us, queue_us) };
                (ack.rate.delivered_bytes, ack.rate.interval_us) = (u64::from(MSS), 12_000);
                law.on_ack(&ack, &path(10));
            }
            law.on_loss(&dupack(now_us, now_us - 1), &path(10));
            probe(law, "target") / 1000.0
        };
        at_rate(&mut law, 0);
        assert_eq!(at_rate(&mut law, queue_us), target_ms);
    }
}

/// The loss rules keep 10 % of the window for each value of the error: half of it with an empty
/// queue, the floor from the target on.
#[test]
fn the_rules_of_loss_keep_ten_percent_for_each_value_of_the_error() {
    for (queue_us, kept) in
        [(0, 0.5), (20_000, 0.4), (50_000, 0.25), (90_000, 0.05), (100_000, 0.0), (150_000, 0.0)]
    {
        for (loss, kept) in [("rules", kept), ("floor", 0.0)] {
            let mut law = build(&format!("flower:slow_start=none,loss={loss}"), &path(400));
            let mut now_us = 1_000_000;
            queue(&mut law, &mut now_us, 0);
            queue(&mut law, &mut now_us, queue_us);
            let before = packets(&law);
            law.on_loss(&dupack(now_us, now_us - 1), &path(400));
            let expected = (before * kept).max(1.0);
            assert!(
                (packets(&law) - expected).abs() < 0.01 * before,
                "{queue_us} us, {loss}: {}",
                packets(&law)
            );
        }
    }
}
