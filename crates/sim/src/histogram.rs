//! Distributions of durations, as counters that can be subtracted.

use crate::results::Percentiles;
use leeway_units::Duration;

/// Values are counted in units of 2^UNIT ns = 256 ns.
const UNIT: u32 = 8;
/// Buckets of an octave: 2^SUB = 128, so that a bucket is less than 1 % wide.
const SUB: u32 = 7;

/// Histogram with logarithmic buckets less than 1 % wide, and an exact sum.
///
/// Counters only grow. The values between two instants are the difference of two copies.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
}

/// Index of the bucket for a value of `nanos` nanoseconds.
fn index(nanos: u64) -> usize {
    let value = nanos >> UNIT;
    let octave = (63 - (value | 1).leading_zeros()).saturating_sub(SUB);
    ((u64::from(octave) << SUB) + (value >> octave)) as usize
}

/// Middle of bucket `index`. Unit: s.
fn middle(index: usize) -> f64 {
    let octave = (index >> SUB).saturating_sub(1) as u32;
    let value = (index as u64 - (u64::from(octave) << SUB)) << octave;
    let width = (1u64 << octave) as f64;
    (value as f64 + width / 2.0) * f64::from(1u32 << UNIT) * 1e-9
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: Duration) {
        let at = index(value.nanos());
        if at >= self.counts.len() {
            self.grow(at);
        }
        self.counts[at] += 1;
        self.count += 1;
        self.sum_ns += u128::from(value.nanos());
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.counts.resize(at + 1 + (1 << SUB), 0);
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values. Unit: s.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 * 1e-9
    }

    /// The values that were added since `earlier`, a copy of this histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut counts = self.counts.clone();
        for (count, before) in counts.iter_mut().zip(&earlier.counts) {
            *count -= before;
        }
        Histogram { counts, count: self.count - earlier.count, sum_ns: self.sum_ns - earlier.sum_ns }
    }

    /// The `p`-quantile, as the middle of its bucket. Unit: s. `None` without values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((self.count as f64 * p).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle(at))
    }

    /// Mean and percentiles. `None` without values.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            count: self.count,
            mean_s: self.sum_s() / self.count as f64,
            p50_s: self.quantile(0.50)?,
            p95_s: self.quantile(0.95)?,
            p99_s: self.quantile(0.99)?,
            max_s: self.quantile(1.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_within_one_percent(nanos in 100_000u64..1 << 50) {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_nanos(nanos));
            let shown = histogram.quantile(0.5).unwrap() * 1e9;
            prop_assert!((shown / nanos as f64 - 1.0).abs() < 0.01, "{nanos} shown as {shown}");
        }

        #[test]
        fn buckets_are_in_order(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(a.min(b) >> UNIT == a.max(b) >> UNIT || index(a.min(b)) <= index(a.max(b)), true);
            prop_assert!(middle(index(a.min(b))) <= middle(index(a.max(b))));
        }
    }

    #[test]
    fn the_difference_is_what_came_between() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::from_millis(1));
        let earlier = histogram.clone();
        for ms in 1..=100 {
            histogram.add(Duration::from_millis(ms));
        }
        let between = histogram.since(&earlier).percentiles().unwrap();
        assert_eq!(between.count, 100);
        assert!((between.mean_s - 0.0505).abs() < 1e-12, "the mean is exact");
        assert!((between.p95_s - 0.095).abs() < 0.001 && (between.max_s - 0.1).abs() < 0.001);
        assert_eq!(Histogram::default().percentiles(), None);
    }
}
