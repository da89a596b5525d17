//! Capacity of a link: how much it could have carried.

use leeway_link::Trace;
use leeway_units::{Rate, Time};
use std::sync::Arc;

/// Capacity of a link over time.
#[derive(Debug, Clone)]
pub enum Capacity {
    /// Each rate with the time at which it begins, in order. The first begins at 0.
    Rates(Vec<(Time, Rate)>),
    /// The delivery opportunities of a trace.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// `rate` from the start, and then `changes`.
    pub fn new(rate: Rate, mut changes: Vec<(Time, Rate)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        let mut rates = vec![(Time::ZERO, rate)];
        rates.append(&mut changes);
        Capacity::Rates(rates)
    }

    /// Bits that the link can carry from `from` to `to`.
    pub fn bits(&self, from: Time, to: Time) -> f64 {
        let rates = match self {
            Capacity::Trace(trace) => return trace.bytes_between(from, to) as f64 * 8.0,
            Capacity::Rates(rates) => rates,
        };
        let ends = rates.iter().skip(1).map(|&(at, _)| at).chain([Time::NEVER]);
        let spans = rates.iter().zip(ends).map(|(&(begin, rate), end)| {
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

    #[test]
    fn counts_the_opportunities_of_a_window() {
        // One opportunity a millisecond for 10 ms, then none for 90 ms.
        let stamps: Vec<u64> = (1..=10).chain([100]).collect();
        let capacity = Capacity::Trace(Arc::new(Trace::from_millis(&stamps).expect("a trace")));
        let opportunities =
            |from, to| capacity.bits(Time::from_millis(from), Time::from_millis(to)) / (1504.0 * 8.0);
        assert_eq!(opportunities(0, 10), 10.0);
        assert_eq!(opportunities(10, 99), 0.0);
        assert_eq!(opportunities(99, 105), 6.0);
        assert_eq!(opportunities(0, 1000), 110.0);
    }
}
