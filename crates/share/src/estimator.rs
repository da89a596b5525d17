//! One estimator: queuing delay, base delay, round-trip time, and the rate at which the line brings bytes.
//!
//! ```text
//! q = sample - base(path)  base: the least exact sample of the path in the last five to ten minutes
//! rate = the highest of the last five to ten seconds, each over half a second, of background and foreground together
//! ```
//!
//! Each path (a network of servers) has a base of its own; what they have in common is the queue of the line. The base
//! is subtracted here, once. A lower bound never lowers a base: it says only that there is more of a queue than is known.
//! An upper bound contains a time that the other end kept the bytes: it says only that there is less of a queue than is
//! known, or that the base is lower. Either counts as the delay where nothing exact was heard for a while.

use crate::policy::Policy;
use std::collections::BTreeMap;

/// What is known of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// The bytes took this long.
    Exact,
    /// They took this long or longer.
    LowerBound,
    /// They took this long or less: the other end had nothing to send, or did not send it at once.
    UpperBound,
}

/// One delay sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The network of the other end: paths of one number have one base.
    pub path: u64,
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// What it says.
    pub certainty: Certainty,
}

/// See the module.
#[derive(Debug)]
pub struct Estimator {
    policy: Policy,
    paths: BTreeMap<u64, Base>,
    queuing_us: u32,
    srtt_us: u64,
    base_us: u64,
    exact_us: Option<u64>,
    rate: Rate,
}

/// The least of this half of the memory, and of the half before.
#[derive(Debug, Clone, Copy)]
struct Base {
    since_us: u64,
    used_us: u64,
    least_us: [u32; 2],
}

#[derive(Debug, Default)]
struct Rate {
    span_us: u64,
    span_bytes: u64,
    since_us: u64,
    highest: [u64; 2],
}

impl Estimator {
    /// Nothing is known.
    pub fn new(policy: &Policy) -> Estimator {
        Estimator {
            policy: *policy,
            paths: BTreeMap::new(),
            queuing_us: 0,
            srtt_us: 0,
            base_us: 0,
            exact_us: None,
            rate: Rate::default(),
        }
    }

    /// The queuing delay that a sample shows, in microseconds; nothing where it says nothing new.
    pub fn observe(&mut self, now_us: u64, sample: Sample) -> Option<u32> {
        match sample.certainty {
            Certainty::Exact => {
                let base_us = self.learn(now_us, sample.path, sample.rtt_us);
                self.exact_us = Some(now_us);
                self.queuing_us = sample.rtt_us - base_us;
                self.smooth(sample.rtt_us.into(), base_us.into());
            }
            Certainty::LowerBound => {
                if u64::from(sample.rtt_us) > self.srtt_us && self.srtt_us > 0 {
                    // A path that has become longer than grants are held shows nothing else.
                    self.srtt_us = (7 * self.srtt_us + u64::from(sample.rtt_us)) / 8;
                }
                let base = self.paths.get(&sample.path)?;
                let least_us = sample.rtt_us.saturating_sub(base.least_us());
                let stale = self.is_stale(now_us);
                if !stale && least_us <= self.queuing_us {
                    return None;
                }
                self.queuing_us = least_us;
                if stale {
                    self.exact_us = Some(now_us);
                }
            }
            Certainty::UpperBound => {
                let base = self.paths.get_mut(&sample.path)?;
                base.least_us[0] = base.least_us[0].min(sample.rtt_us);
                let (base_us, most_us) = (base.least_us(), sample.rtt_us - base.least_us());
                let stale = self.is_stale(now_us);
                if !stale && most_us >= self.queuing_us {
                    return None;
                }
                self.queuing_us = most_us;
                if stale {
                    // A path that has become longer shows nothing else.
                    self.smooth(sample.rtt_us.into(), base_us.into());
                    self.exact_us = Some(now_us);
                }
            }
        }
        Some(self.queuing_us)
    }

    /// `bytes` have come over the line, to whomever.
    pub fn arrived(&mut self, now_us: u64, bytes: u64) {
        let rate = &mut self.rate;
        rate.span_bytes += bytes;
        let passed_us = now_us.saturating_sub(rate.span_us);
        if passed_us < self.policy.rate_span_us {
            return;
        }
        let seen = rate.span_bytes.saturating_mul(1_000_000) / passed_us;
        (rate.span_us, rate.span_bytes) = (now_us, 0);
        if now_us >= rate.since_us + self.policy.rate_memory_us {
            rate.since_us = now_us;
            rate.highest = [0, rate.highest[0]];
        }
        rate.highest[0] = rate.highest[0].max(seen);
    }

    /// The last queuing delay, in microseconds.
    pub fn queuing_us(&self) -> u32 {
        self.queuing_us
    }

    /// The smoothed round-trip time over all paths, in microseconds (RFC 6298, 2.3); 0 before the first sample.
    pub fn srtt_us(&self) -> u64 {
        self.srtt_us
    }

    /// A round trip without a queue, of the shortest paths in use, in microseconds; 0 before the first sample.
    pub fn base_us(&self) -> u64 {
        self.base_us
    }

    /// What the line brings at its highest of late, in bytes per second; 0 before anything is known.
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.rate.highest[0].max(self.rate.highest[1])
    }

    /// Whether nothing exact was heard for so long that a bound counts as the delay.
    fn is_stale(&self, now_us: u64) -> bool {
        let stale_us = Policy::round_trips(self.policy.stale_percent, self.srtt_us);
        self.exact_us.is_none_or(|exact_us| now_us > exact_us + stale_us)
    }

    fn smooth(&mut self, rtt_us: u64, base_us: u64) {
        self.srtt_us = if self.srtt_us == 0 { rtt_us } else { (7 * self.srtt_us + rtt_us) / 8 };
        // Of near and far paths the near ones; once nothing comes from these, the others, by and by.
        self.base_us = match self.base_us {
            0 => base_us,
            known_us => base_us.min(known_us + base_us.saturating_sub(known_us) / 64),
        };
    }

    /// The base of `path` after an exact sample.
    fn learn(&mut self, now_us: u64, path: u64, rtt_us: u32) -> u32 {
        if self.paths.len() as u64 >= self.policy.paths_max && !self.paths.contains_key(&path) {
            let oldest = self.paths.iter().min_by_key(|(_, base)| base.used_us).map(|(&path, _)| path);
            oldest.map(|oldest| self.paths.remove(&oldest));
        }
        let base = self.paths.entry(path).or_insert(Base {
            since_us: now_us,
            used_us: now_us,
            least_us: [rtt_us; 2],
        });
        if now_us.saturating_sub(base.since_us) >= self.policy.base_us {
            *base = Base { since_us: now_us, least_us: [rtt_us, base.least_us[0]], ..*base };
        }
        base.used_us = now_us;
        base.least_us[0] = base.least_us[0].min(rtt_us);
        base.least_us()
    }
}

impl Base {
    fn least_us(&self) -> u32 {
        self.least_us[0].min(self.least_us[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(path: u64, rtt_us: u32) -> Sample {
        Sample { path, rtt_us, certainty: Certainty::Exact }
    }

    fn bound(path: u64, rtt_us: u32) -> Sample {
        Sample { certainty: Certainty::LowerBound, ..exact(path, rtt_us) }
    }

    #[test]
    fn near_and_far_paths_show_one_queue() {
        let mut estimator = Estimator::new(&Policy::default());
        assert_eq!(estimator.observe(0, exact(1, 20_000)), Some(0));
        assert_eq!(estimator.observe(0, exact(2, 180_000)), Some(0));
        assert_eq!(estimator.observe(1, exact(1, 35_000)), Some(15_000));
        assert_eq!(estimator.observe(1, exact(2, 195_000)), Some(15_000));
        assert_eq!(estimator.base_us(), 22_500, "the near ones count");
    }

    #[test]
    fn a_bound_says_more_of_a_queue_or_nothing_until_it_is_all_there_is() {
        let mut estimator = Estimator::new(&Policy::default());
        assert_eq!(estimator.observe(0, bound(1, 5_000)), None, "there is no base yet");
        estimator.observe(0, exact(1, 20_000));
        estimator.observe(1_000, exact(1, 30_000));
        assert_eq!(estimator.observe(2_000, bound(1, 25_000)), None);
        assert_eq!(estimator.observe(2_000, bound(1, 40_000)), Some(20_000));
        assert_eq!(estimator.observe(9_000_000, bound(1, 21_000)), Some(1_000));
    }

    #[test]
    fn a_pause_of_a_server_is_no_queue_while_others_are_heard() {
        let mut estimator = Estimator::new(&Policy::default());
        let most = |rtt_us| Sample { certainty: Certainty::UpperBound, ..exact(2, rtt_us) };
        assert_eq!(estimator.observe(0, most(70_000)), None, "there is no base yet");
        estimator.observe(0, exact(1, 20_000));
        estimator.observe(0, exact(2, 20_000));
        estimator.observe(1_000, exact(1, 30_000));
        assert_eq!(estimator.observe(2_000, most(70_000)), None, "no more of a queue");
        assert_eq!(estimator.observe(2_000, most(25_000)), Some(5_000), "less of a queue");
        assert_eq!(estimator.observe(3_000, most(15_000)), Some(0), "a shorter way");
        assert_eq!(estimator.observe(4_000, exact(2, 20_000)), Some(5_000), "which is remembered");
        assert_eq!(estimator.observe(9_000_000, most(65_000)), Some(50_000), "all that there is");
    }

    #[test]
    fn round_trips_that_are_longer_than_is_known_are_believed() {
        let mut estimator = Estimator::new(&Policy::default());
        estimator.observe(0, exact(1, 20_000));
        for now_us in 1..50 {
            estimator.observe(now_us, bound(1, 100_000));
        }
        assert!(estimator.srtt_us() > 95_000, "{}", estimator.srtt_us());
        assert_eq!(estimator.observe(50, exact(1, 30_000)), Some(10_000), "the base is what it was");
    }

    #[test]
    fn a_path_that_became_longer_is_believed_after_ten_minutes() {
        let policy = Policy::default();
        let mut estimator = Estimator::new(&policy);
        estimator.observe(0, exact(1, 20_000));
        assert_eq!(estimator.observe(policy.base_us, exact(1, 50_000)), Some(30_000));
        assert_eq!(estimator.observe(2 * policy.base_us, exact(1, 50_000)), Some(0));
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

    proptest! {
        /// A bound never lowers a base, whatever comes in whatever order; the memory is bounded.
        #[test]
        fn bounds_teach_nothing(samples in proptest::collection::vec((0u64..9, 1u32..500_000, any::<bool>(), 0u64..2_000_000), 1..200)) {
            let policy = Policy::default().with("paths_max", 5).unwrap();
            let (mut all, mut alone) = (Estimator::new(&policy), Estimator::new(&policy));
            let mut now_us = 0;
            for (path, rtt_us, is_exact, step_us) in samples {
                now_us += step_us;
                if is_exact {
                    prop_assert_eq!(all.observe(now_us, exact(path, rtt_us)), alone.observe(now_us, exact(path, rtt_us)));
                } else {
                    all.observe(now_us, bound(path, rtt_us));
                }
                prop_assert!(all.paths.len() <= 5);
            }
        }
    }
}
