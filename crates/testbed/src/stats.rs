//! Statistics of requests.

use crate::load::Span;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Counters of requests during a measurement.
#[derive(Debug)]
pub struct Tally {
    span: Span,
    /// Service times in microseconds, of requests that are counted.
    service_us: Histogram<u64>,
    waiting: BTreeMap<u64, Instant>,
    next: u64,
    done: u64,
    failed: u64,
    unanswered: u64,
    bytes: u64,
}

/// Figures of the requests of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Requests answered a second, whenever they were intended.
    pub answered_per_s: f64,
    /// Bits of objects a second, incomplete objects included.
    pub goodput_bps: f64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests without an answer at the end. Their service time is the time that they have
    /// waited.
    pub unanswered: u64,
    /// Times from the intended start of a request to its last byte; `None` without requests.
    pub service: Option<Times>,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Number of values.
    pub count: u64,
    /// The mean.
    pub mean_s: f64,
    /// The median.
    pub p50_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl Times {
    /// The distribution of a histogram in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Times> {
        let at = |p: f64| histogram.value_at_quantile(p) as f64 * 1e-6;
        (!histogram.is_empty()).then(|| Times {
            count: histogram.len(),
            mean_s: histogram.mean() * 1e-6,
            p50_s: at(0.50),
            p95_s: at(0.95),
            p99_s: at(0.99),
            max_s: histogram.max() as f64 * 1e-6,
        })
    }
}

/// An empty histogram of microseconds; values are kept to a thousandth.
pub(crate) fn histogram() -> Histogram<u64> {
    // From 1 us to a day, which are bounds that the library accepts.
    Histogram::new_with_bounds(1, 86_400_000_000, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1)
}

impl Default for Tally {
    fn default() -> Self {
        let now = Instant::now();
        Tally::new(Span { start: now, counted: now, end: now, patience: Duration::ZERO })
    }
}

impl Tally {
    /// Counts the requests intended from `span.counted` to `span.end`.
    pub fn new(span: Span) -> Self {
        Tally {
            span,
            service_us: histogram(),
            waiting: BTreeMap::new(),
            next: 0,
            done: 0,
            failed: 0,
            unanswered: 0,
            bytes: 0,
        }
    }

    /// Request `number` is due.
    pub(crate) fn intend(&mut self, number: u64, at: Instant) {
        self.waiting.insert(number, at);
        self.next = self.next.max(number + 1);
    }

    /// The next request is due. Returns its number.
    pub(crate) fn intend_next(&mut self, at: Instant) -> u64 {
        let number = self.next;
        self.intend(number, at);
        number
    }

    /// Counts bytes of an object that arrived, or are known to have arrived.
    pub(crate) fn moved(&mut self, at: Instant, bytes: u64) {
        self.bytes += if self.within(at) { bytes } else { 0 };
    }

    /// Request `number` has been answered, or has failed.
    pub(crate) fn answered(&mut self, number: u64, at: Instant, well: bool) {
        let Some(intended) = self.waiting.remove(&number) else { return };
        if well {
            self.done += u64::from(self.within(at));
            self.took(intended, at);
        } else {
            self.failed += u64::from(intended >= self.span.counted);
        }
    }

    fn within(&self, at: Instant) -> bool {
        at >= self.span.counted && at < self.span.end
    }

    /// Whether a request that is counted has not been answered.
    pub(crate) fn waits(&self) -> bool {
        self.waiting.values().any(|&intended| intended >= self.span.counted)
    }

    /// Ends the counting.
    pub(crate) fn close(&mut self, at: Instant) {
        for intended in std::mem::take(&mut self.waiting).into_values() {
            self.unanswered += u64::from(intended >= self.span.counted);
            self.took(intended, at);
        }
    }

    fn took(&mut self, intended: Instant, at: Instant) {
        if intended >= self.span.counted {
            self.service_us.saturating_record(micros(at.saturating_duration_since(intended)));
        }
    }

    /// The result.
    pub fn class(&self) -> Class {
        let seconds = self.span.end.saturating_duration_since(self.span.counted).as_secs_f64().max(1e-9);
        Class {
            answered_per_s: self.done as f64 / seconds,
            goodput_bps: self.bytes as f64 * 8.0 / seconds,
            failed: self.failed,
            unanswered: self.unanswered,
            service: Times::of(&self.service_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_in_the_times_of_all_that_waited() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let span = Span { start, counted: at(100), end: at(1100), patience: Duration::ZERO };
        let mut tally = Tally::new(span);
        // One request every 100 ms. All are answered at 1050 ms, except the last two.
        for number in 0..11 {
            tally.intend(number, at(100 * number));
        }
        for number in 0..9 {
            tally.moved(at(1050), 1000);
            tally.answered(number, at(1050), true);
        }
        assert!(tally.waits());
        tally.close(at(1200));
        let class = tally.class();
        // The first request was intended before the counting, and answered during it.
        assert_eq!((class.answered_per_s, class.unanswered, class.failed), (9.0, 2, 0));
        assert_eq!(class.goodput_bps, 72_000.0);
        let service = class.service.unwrap();
        // 950, 850, ... 250 ms, and 300 and 200 ms until the end.
        assert_eq!(service.count, 10);
        assert!((service.mean_s - 0.530).abs() < 0.001, "{service:?}");
        assert!((service.max_s - 0.950).abs() < 0.001, "{service:?}");
    }

    #[test]
    fn failures_are_no_service() {
        let start = Instant::now();
        let span =
            Span { start, counted: start, end: start + Duration::from_secs(1), patience: Duration::ZERO };
        let mut tally = Tally::new(span);
        let number = tally.intend_next(start);
        tally.answered(number, start, false);
        let class = tally.class();
        assert_eq!((class.failed, class.service, class.answered_per_s), (1, None, 0.0));
    }
}
