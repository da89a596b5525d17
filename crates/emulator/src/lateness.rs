//! How late packets left the emulator.

use leeway_units::Duration;

/// Bits of a value that select a bucket: a percentile is off by at most 3 %.
const PRECISION: u32 = 5;

/// The distribution of delays beyond those of the link.
#[derive(Debug, Clone, Default)]
pub struct Lateness {
    /// Packets in each bucket.
    buckets: Vec<u64>,
    count: u64,
    worst: Duration,
}

impl Lateness {
    /// Counts one packet that was late by this much.
    pub fn add(&mut self, late: Duration) {
        let index = bucket(late.nanos());
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
        self.worst = self.worst.max(late);
    }

    /// The packets counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest lateness.
    pub fn worst(&self) -> Duration {
        self.worst
    }

    /// The lateness that `permille` of the packets did not exceed; zero without packets.
    pub fn quantile(&self, permille: u64) -> Duration {
        let wanted = u128::from(self.count) * u128::from(permille.min(1000));
        let mut seen = 0u128;
        for (index, &number) in self.buckets.iter().enumerate() {
            seen += u128::from(number) * 1000;
            if number > 0 && seen >= wanted {
                return Duration::from_nanos(upper(index)).min(self.worst);
            }
        }
        Duration::ZERO
    }
}

/// The first buckets are single values; then each doubling has 2^PRECISION buckets.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(PRECISION + 1);
    ((u64::from(shift) << PRECISION) + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index >> PRECISION).saturating_sub(1);
    let mantissa = index - (shift << PRECISION);
    (((u128::from(mantissa) + 1) << shift) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_just_above_it() {
        for value in (0..5000).chain([1 << 20, (1 << 40) - 1, 1 << 63, u64::MAX]) {
            let end = upper(bucket(value));
            assert!(end >= value && end - value <= value >> PRECISION, "{value} {end}");
            assert!(value == 0 || upper(bucket(value - 1)) <= end, "{value}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(500), Duration::ZERO);
        (1..=1000).for_each(|us| lateness.add(Duration::from_micros(us)));
        for permille in [1, 500, 950, 990, 1000] {
            let (given, exact) = (lateness.quantile(permille).nanos(), permille * 1000);
            assert!(given >= exact && given <= exact + exact / 32 + 1, "{permille}: {given}");
        }
        assert_eq!(lateness.worst(), Duration::from_millis(1));
    }
}
