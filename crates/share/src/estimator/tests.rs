//! What the estimator makes of samples.

use super::*;
use proptest::prelude::*;

fn exact(path: u64, rtt_us: u32) -> Sample {
    Sample::exact(path, rtt_us)
}

fn bound(path: u64, rtt_us: u32) -> Sample {
    Sample::bound(path, rtt_us)
}

/// An estimator in which each sample is a part of a round trip of its own, and so gives a delay.
fn alone() -> Estimator {
    let policy = [("part_samples", 1), ("round_parts", 64), ("quantile_percent", 99)];
    let with = |policy: Policy, (name, value)| policy.with(name, value).unwrap();
    Estimator::new(&policy.into_iter().fold(Policy::default(), with))
}

/// The result of a flow's first sample.
fn first(estimator: &mut Estimator, now_us: u64, sample: Sample) -> Heard {
    estimator.observe(now_us, sample, &mut Own::default())
}

#[test]
fn near_and_far_paths_show_one_queue() {
    let mut estimator = alone();
    assert_eq!(first(&mut estimator, 0, exact(1, 20_000)), Heard::Nothing, "its part has just begun");
    assert_eq!(
        first(&mut estimator, 10_000, exact(2, 180_000)),
        Heard::Nothing,
        "nothing is known of this path"
    );
    assert_eq!(first(&mut estimator, 30_000, exact(1, 35_000)), Heard::New(15_000));
    assert_eq!(first(&mut estimator, 40_000, exact(2, 195_000)), Heard::New(15_000));
    assert_eq!(estimator.base_us(), 22_500, "the near ones count");
}

#[test]
fn a_bound_says_more_of_a_queue_or_nothing_until_it_is_all_there_is() {
    let mut estimator = alone();
    assert_eq!(first(&mut estimator, 0, bound(1, 5_000)), Heard::Nothing, "there is no base yet");
    first(&mut estimator, 0, exact(1, 20_000));
    assert_eq!(first(&mut estimator, 100_000, exact(1, 30_000)), Heard::New(10_000));
    assert_eq!(first(&mut estimator, 110_000, bound(1, 25_000)), Heard::Nothing);
    assert_eq!(first(&mut estimator, 120_000, bound(1, 40_000)), Heard::New(20_000));
    assert_eq!(first(&mut estimator, 9_000_000, bound(1, 21_000)), Heard::New(1_000));
}

#[test]
fn a_path_that_became_longer_is_believed_after_ten_minutes() {
    let mut estimator = alone();
    let base_us = Policy::default().base_us;
    first(&mut estimator, 0, exact(1, 20_000));
    assert_eq!(first(&mut estimator, base_us, exact(1, 50_000)), Heard::New(30_000));
    assert_eq!(first(&mut estimator, 2 * base_us, exact(1, 50_000)), Heard::New(0));
}

/// Programs read late and servers are slow: the delay is one of the lower ones.
#[test]
fn a_part_of_a_round_trip_says_one_delay() {
    let mut estimator = Estimator::new(&Policy::default());
    // Each flow has met as long a queue before, so no sample is in doubt.
    let mut observe = |now_us, queuing_us: u32| {
        estimator.observe(
            now_us,
            exact(1, 20_000 + queuing_us),
            &mut Own { queuing_us: 60_000, ..Own::default() },
        )
    };
    observe(0, 0);
    let late_us = [60_000u32, 3_000, 900, 50_000, 3_500, 2_000, 40_000];
    let heard: Vec<Heard> = (0..7).map(|n| observe(100 + 100 * n as u64, late_us[n])).collect();
    assert_eq!(heard, [Heard::Nothing; 7], "a quarter of a round trip is not over");
    assert_eq!(observe(40_000, 3_000), Heard::New(3_000));
}

/// Samples of two servers alternate. One server pauses for 50 ms while the other does not.
#[test]
fn a_pause_that_others_contradict_is_no_queue() {
    let mut estimator = alone();
    let (mut going, mut pausing) = (Own::default(), Own::default());
    for n in 0..50 {
        estimator.observe(n * 1_000, exact(1, 20_000), &mut going);
    }
    assert_eq!(estimator.observe(50_000, exact(1, 70_000), &mut pausing), Heard::Doubt);
    assert_eq!(estimator.queuing_us(), 0);
    // Its later grants take as long. A flow with a lower rate than others has a slow server.
    pausing.little = true;
    assert_eq!(estimator.observe(70_000, exact(1, 70_000), &mut pausing), Heard::Doubt);
    // Otherwise the flow has a queue of its own, as behind a fair queue.
    pausing.little = false;
    assert_eq!(estimator.observe(71_000, exact(1, 70_000), &mut pausing), Heard::New(50_000));
}

/// The known rate is 1.46 MB/s. While a queue of 20 ms drains, 29 kB arrive; during a pause of
/// all servers, nothing.
#[test]
fn a_delay_in_which_the_line_was_idle_is_no_queue() {
    let mut estimator = alone();
    for n in 0..2_000 {
        estimator.arrived(n * 1_000, 1460);
        first(&mut estimator, n * 1_000, exact(1, 20_000));
    }
    assert_eq!(first(&mut estimator, 2_040_000, exact(1, 40_000)), Heard::New(0));
    for n in 2_040..2_100 {
        estimator.arrived(n * 1_000, 1460);
    }
    let Heard::New(queuing_us) = first(&mut estimator, 2_100_000, exact(1, 40_000)) else { panic!() };
    assert!(queuing_us.abs_diff(20_000) < 2_000, "{queuing_us}");
}

#[test]
fn the_rate_is_the_highest_of_late() {
    let mut estimator = Estimator::new(&Policy::default());
    let mut at = |from_ms: u64, to_ms: u64, every_ms: usize| {
        (from_ms..to_ms).step_by(every_ms).for_each(|ms| estimator.arrived(ms * 1000, 1500));
        estimator.rate_bytes_per_s()
    };
    assert!(at(0, 5_000, 1).abs_diff(1_500_000) < 10_000);
    assert!(at(5_000, 9_000, 10).abs_diff(1_500_000) < 10_000, "it is remembered");
    assert!(at(9_000, 20_000, 10).abs_diff(150_000) < 10_000, "and forgotten");
}

impl Estimator {
    fn learned(&self) -> Vec<(u64, u32)> {
        self.paths.iter().map(|(&path, base)| (path, base.least_us())).collect()
    }
}

proptest! {
    /// A lower bound never lowers a base delay, in any order of samples. The memory is bounded.
    #[test]
    fn bounds_teach_nothing(
        samples in proptest::collection::vec(
            (0u64..9, 1u32..500_000, any::<bool>(), 0u64..2_000_000),
            1..200,
        ),
    ) {
        let policy = Policy::default().with("remembered_max", 5).unwrap();
        let (mut all, mut alone) = (Estimator::new(&policy), Estimator::new(&policy));
        let mut now_us = 0;
        for (path, rtt_us, is_exact, step_us) in samples {
            now_us += step_us;
            if is_exact {
                all.observe(now_us, exact(path, rtt_us), &mut Own::default());
                alone.observe(now_us, exact(path, rtt_us), &mut Own::default());
                prop_assert_eq!(all.learned(), alone.learned());
            } else {
                all.observe(now_us, bound(path, rtt_us), &mut Own::default());
            }
            prop_assert!(all.paths.len() <= 5);
        }
    }
}

/// A receiver waits for a second segment before it acknowledges (RFC 5681, 4.2).
#[test]
fn a_lone_segment_that_is_acknowledged_late_is_no_queue() {
    let mut estimator = alone();
    let lone = |rtt_us| Sample { certainty: Certainty::UpperBound, ..exact(1, rtt_us) };
    first(&mut estimator, 0, exact(1, 20_000));
    assert_eq!(first(&mut estimator, 70_000, exact(1, 26_000)), Heard::New(6_000));
    assert_eq!(first(&mut estimator, 100_000, lone(61_000)), Heard::Nothing, "40 ms may be the receiver's");
    assert_eq!(first(&mut estimator, 130_000, lone(32_000)), Heard::New(12_000), "it did not wait");
    assert_eq!(
        first(&mut estimator, 160_000, lone(82_000)),
        Heard::New(22_000),
        "it does not wait that long"
    );
}
