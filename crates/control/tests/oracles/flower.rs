//! FLOWER piece by piece: the rule table, the thesis's worked example, inference against all 121
//! rules, edges.

use crate::common::{ack, build, dupack, packets, path, probe, timeout};
use crate::formula::infer;
use leeway_control::flower::{infer_q16, rule};
use leeway_control::{Ack, Law, Phase};

const ONE: i32 = 65536;

/// The rule table as printed in Trang 2014: rows are e from NVL to PVL, columns are de from NVL to
/// PVL.
const TABLE: [[i32; 11]; 11] = [
    [-5, -5, -5, -5, -5, -5, -4, -3, -2, -1, -6],
    [-5, -5, -5, -5, -5, -4, -3, -2, -1, 0, -6],
    [-5, -5, -5, -5, -4, -3, -2, -1, 0, 1, -6],
    [-5, -5, -5, -4, -3, -2, -1, 0, 1, 2, -6],
    [-5, -5, -4, -3, -2, -1, 0, 1, 2, 3, -6],
    [-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, -6],
    [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, -6],
    [-3, -2, -1, 0, 1, 2, 3, 4, 5, 5, -6],
    [-2, -1, 0, 1, 2, 3, 4, 5, 5, 5, -6],
    [-1, 0, 1, 2, 3, 4, 5, 5, 5, 5, -6],
    [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, -6],
];

#[test]
fn rule_table_cell_by_cell() {
    for e in -5..=5 {
        for de in -5..=5 {
            let cell = TABLE[(e + 5) as usize][(de + 5) as usize];
            assert_eq!(rule(e, de), cell, "rule ({e}, {de})");
            for product in [false, true] {
                let out = infer_q16(e * ONE, de * ONE, product);
                assert_eq!(out, cell * ONE, "at the centres of ({e}, {de})");
            }
        }
    }
}

/// e = 35 %, de = 1 ms: memberships of 0.25 and 0.75 in PS and PM, +0.55 packets.
#[test]
fn worked_example() {
    let e = 7 * ONE / 4;
    for product in [false, true] {
        assert_eq!(infer_q16(e, ONE, product), 11 * ONE / 4); // 2.75 values of 0.2 packets: 0.55
    }
}

/// Centres at the start. Unit: ms.
const CENTRES: [f64; 11] = [-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

#[test]
fn inference_is_that_of_all_rules_and_close_to_the_clipped_sum() {
    let steps = 16;
    for product in [false, true] {
        for i in -5 * steps..=5 * steps {
            for j in -5 * steps..=5 * steps {
                let (e_q16, de_q16) = (i * ONE / steps, j * ONE / steps);
                let (e, de) = (f64::from(i) / f64::from(steps), f64::from(j) / f64::from(steps));
                let packets = f64::from(infer_q16(e_q16, de_q16, product)) / f64::from(ONE) * 0.2;
                let rules = infer(20.0 * e, de, &CENTRES, product);
                assert!((packets - rules).abs() < 1e-4, "({e}, {de}): {packets}, by the rules {rules}");
                let sum = 0.2 * (e + de).clamp(-5.0, 5.0);
                assert!(
                    de > 4.0 || (packets - sum).abs() <= 0.05 + 1e-4,
                    "({e}, {de}): {packets}, clipped {sum}"
                );
            }
        }
    }
}

/// Plays one round trip with the queuing delay `queue_us`. The controller sees it at the start of
/// the next one.
fn round(law: &mut Law, number: u64, queue_us: u32) {
    let packets = packets(law).max(1.0) as u64;
    for i in 0..packets {
        let ack = Ack { round_start: u8::from(i == 0), ..ack(number * 200_000 + i, queue_us) };
        law.on_ack(&ack, &path(10));
    }
}

/// Inputs and output of the controller's last step.
fn last(law: &Law) -> [f64; 3] {
    ["error_value", "change_value", "output_value"].map(|name| probe(law, name))
}

#[test]
fn example_end_to_end() {
    let mut law = build("flower:slow_start=none", &path(10));
    round(&mut law, 0, 0); // the base
    round(&mut law, 1, 66_000); // e = 34 %
    round(&mut law, 2, 65_000); // e = 35 %, de = +1 ms
    let before = packets(&law);
    round(&mut law, 3, 65_000);
    assert_eq!(last(&law).map(|x| (x * 100.0).round()), [175.0, 100.0, 275.0]);
    let after = packets(&law);
    assert!((after - before - 0.55).abs() < 1e-3, "{before} {after}");
    assert_eq!(law.output().phase(), Phase::Avoidance);
}

#[test]
fn errors_are_relative_to_the_target_below_and_to_the_largest_delay_above() {
    let mut law = build("flower:slow_start=none", &path(10));
    let queues = [0, 20_000, 50_000, 100_000, 120_000, 180_000, 200_000, 150_000, 130_000, 100_000];
    // the largest delays so far: 120, 180, 200 ms
    let errors = [5.0, 4.0, 2.5, 0.0, -5.0, -5.0, -5.0, -2.5, -1.5, 0.0];
    for (number, queue_us) in queues.into_iter().enumerate() {
        if number > 0 {
            round(&mut law, number as u64, queue_us);
            let seen = (probe(&law, "error_value") * 1000.0).round() / 1000.0;
            assert_eq!(seen, errors[number - 1], "round {number}");
        } else {
            round(&mut law, 0, queue_us);
        }
    }
}

#[test]
fn changes_are_measured_against_their_means() {
    let mut law = build("flower:slow_start=none", &path(10));
    // Rises of 2, 3.5 and 8 ms: the mean of the rises is 0.25, 0.656 and 1.574 ms. So the centre
    // of NL stays at 4 ms, and that of NVL is the largest delay.
    let mut seen = Vec::new();
    for (number, queue_us) in [0, 2_000, 5_500, 13_500, 13_500].into_iter().enumerate() {
        round(&mut law, number as u64, queue_us);
        seen.push((probe(&law, "change_value") * 1000.0).round());
    }
    // 8 ms is between 4 ms and the largest delay of 13.5 ms: 4 + 4 / 9.5.
    assert_eq!(seen, [0.0, 0.0, -2000.0, -3500.0, -4421.0]);
    assert_eq!((probe(&law, "mean_rise") / 10.0).round(), 157.0);
    assert_eq!(probe(&law, "mean_fall"), 0.0);
    assert_eq!(probe(&law, "largest_delay"), 13_500.0);
}

#[test]
fn a_sharp_fall_empties_the_window_at_once() {
    for (floor, fall_us, zone) in [(1.0, 4_000, false), (1.0, 4_600, true), (2.0, 9_000, true)] {
        let mut law = build(&format!("flower:slow_start=none,floor={floor}"), &path(50));
        round(&mut law, 0, 0);
        for number in 1..5 {
            round(&mut law, number, 60_000);
        }
        round(&mut law, 5, 60_000 - fall_us);
        let before = packets(&law);
        round(&mut law, 6, 60_000 - fall_us);
        assert_eq!(law.output().phase() == Phase::LossZone, zone, "a fall of {fall_us} us");
        if zone {
            assert_eq!(packets(&law), floor);
            assert_eq!(probe(&law, "output_value"), -6.0);
        } else {
            assert!(packets(&law) >= before);
        }
        // After that, the controller continues.
        for number in 7..10 {
            round(&mut law, number, 60_000 - fall_us);
        }
        assert!(packets(&law) > floor + 0.5, "{}", packets(&law));
    }
}

/// Falls of 16 ms raise the mean of the falls, so that the same fall no longer counts as sharp.
#[test]
fn what_is_sharp_follows_the_mean_of_falls() {
    let mut law = build("flower:slow_start=none", &path(10));
    round(&mut law, 0, 0);
    let mut zones = 0;
    for number in 1..200u64 {
        round(&mut law, number, if number % 2 == 0 { 50_000 } else { 34_000 });
        zones += u32::from(law.output().phase() == Phase::LossZone);
    }
    assert_eq!(probe(&law, "mean_fall").round(), 16_000.0);
    assert!((5..100).contains(&zones), "{zones}");
}

#[test]
fn largest_delay_follows_peaks() {
    let mut law = build("flower:slow_start=none", &path(10));
    let mut number = 0;
    let mut play = |law: &mut Law, queues: &[u32]| {
        for &queue_us in queues {
            round(law, number, queue_us * 1000);
            number += 1;
        }
        probe(law, "largest_delay") / 1000.0
    };
    assert_eq!(play(&mut law, &[0, 80, 300, 90]), 300.0); // at once
    // Five lower values confirm the peak of 300: S = 37.5, and 300 > S stays the largest.
    assert_eq!(play(&mut law, &[80, 70, 60, 20, 20]), 300.0);
    // A valley at 15, then a peak at 150: S = 51.6. 150 > S, so the largest is lowered to 150.
    assert_eq!(play(&mut law, &[15, 90, 95, 100, 120, 130, 150, 140, 130, 120, 110]), 300.0);
    assert_eq!(play(&mut law, &[100, 90, 90]), 150.0);
    // After a valley at 10, of two equal values the later one is the peak, because only right
    // neighbours count.
    assert_eq!(play(&mut law, &[10, 60, 60, 60, 60, 60, 140, 140, 80, 70, 60, 50, 40]), 150.0);
    assert_eq!(play(&mut law, &[30]), 140.0);
    // Without a valley there is no second peak.
    assert_eq!(play(&mut law, &[130, 29, 28, 27, 26, 25, 24, 24]), 140.0);
}

/// All ways in which a divisor could be zero.
#[test]
fn nothing_is_divided_by_zero() {
    for target in ["0s", "1us", "5ms", "100ms"] {
        let mut law = build(&format!("flower:slow_start=none,target={target}"), &path(10));
        let target_us: u32 = match target {
            "0s" => 0,
            "1us" => 1,
            "5ms" => 5_000,
            _ => 100_000,
        };
        // The queue is exactly at the target, then one unit above (which is then the largest delay
        // too), then far above.
        for (number, queue_us) in
            [0, 0, target_us, target_us, target_us + 1, 1, 4_000_000_000, 0, 0].into_iter().enumerate()
        {
            round(&mut law, number as u64, queue_us);
            let [error, change, output] = last(&law);
            assert!(error.abs() <= 5.0 && change.abs() <= 5.0 && (-6.0..=5.0).contains(&output), "{target}");
        }
    }
}

#[test]
fn loss_is_the_end_of_slow_start_for_good() {
    let start = path(10);
    let mut law = build("flower", &start);
    for number in 0..3 {
        round(&mut law, number, 1000 * number as u32);
    }
    assert_eq!((packets(&law), law.output().phase()), (80.0, Phase::SlowStart));
    law.on_loss(&dupack(700_000, 650_000), &start);
    assert_eq!((packets(&law), law.output().phase()), (1.0, Phase::Avoidance));
    round(&mut law, 4, 0);
    assert!(packets(&law) <= 2.0, "control, not slow start: {}", packets(&law));
    law.on_loss(&timeout(900_000, 850_000, 1), &start);
    assert_eq!((packets(&law), law.output().phase()), (1.0, Phase::Avoidance));
    for number in 5..9 {
        round(&mut law, number, 0);
    }
    assert!((2.0..5.1).contains(&packets(&law)), "{}", packets(&law));
}

/// With the first one-way sample all estimates start anew. The queue has not fallen; the measure
/// is another one.
#[test]
fn a_new_source_of_samples_is_not_a_fall() {
    let mut law = build("flower:slow_start=none", &path(10));
    let feed = |law: &mut Law, number: u64, queue_us: u32, owd_resolution_us: u32| {
        let ack = Ack { round_start: 1, owd_resolution_us, ..ack(number * 100_000, queue_us) };
        law.on_ack(&ack, &path(10));
        (law.output().phase(), law.output().queuing_delay_us)
    };
    for (number, queue_us) in [0, 0, 40_000, 40_000].into_iter().enumerate() {
        feed(&mut law, number as u64, queue_us, 0);
    }
    assert_eq!(feed(&mut law, 4, 40_000, 1).1, 40_000);
    assert_eq!(feed(&mut law, 5, 40_000, 1), (Phase::Avoidance, 0));
    assert_eq!(feed(&mut law, 6, 40_000, 1), (Phase::Avoidance, 0));
}

/// e = 0 and de = 0 ask for no change, which does not count as yielding.
#[test]
fn at_the_target_nothing_happens() {
    let mut law = build("flower:slow_start=none", &path(10));
    for (number, queue_us) in [0, 100_000, 100_000, 100_000].into_iter().enumerate() {
        round(&mut law, number as u64, queue_us);
    }
    let before = packets(&law);
    round(&mut law, 4, 100_000);
    assert_eq!((last(&law), packets(&law)), ([0.0; 3], before));
    assert_eq!(law.output().phase(), Phase::Avoidance);
}
