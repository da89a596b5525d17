//! How much a link could have carried.

use leeway_units::{Rate, Time};

/// A rate over time.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// Each rate with its beginning, in order; the first begins at zero.
    rates: Vec<(Time, Rate)>,
}

impl Capacity {
    /// `rate` until the first of `changes`.
    pub fn new(rate: Rate, mut changes: Vec<(Time, Rate)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        let mut rates = vec![(Time::ZERO, rate)];
        rates.append(&mut changes);
        Capacity { rates }
    }

    /// Bits between two instants.
    pub fn bits(&self, from: Time, to: Time) -> f64 {
        let ends = self.rates.iter().skip(1).map(|&(at, _)| at).chain([Time::NEVER]);
        let spans = self.rates.iter().zip(ends).map(|(&(begin, rate), end)| {
            let span = end.min(to) - begin.max(from);
            rate.bits_per_sec() as f64 * span.secs_f64()
        });
        spans.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_the_rates_of_a_window() {
        let rate = Rate::from_bits_per_sec;
        let at = Time::from_secs;
        let capacity = Capacity::new(rate(10), vec![(at(20), rate(5)), (at(10), rate(100))]);
        assert_eq!(capacity.bits(at(0), at(10)), 100.0);
        assert_eq!(capacity.bits(at(5), at(25)), 50.0 + 1000.0 + 25.0);
        assert_eq!(capacity.bits(at(30), at(31)), 5.0);
        assert_eq!(capacity.bits(at(3), at(3)), 0.0);
    }
}
