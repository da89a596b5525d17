//! Instants and spans, in nanoseconds.

use crate::number::{self, ParseError};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

const UNITS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
const SHOWN: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// An instant: nanoseconds since the start of the run; in real time, since the start of the
/// process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A span of time in nanoseconds. The longest is 584 years, where sums stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than every event.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns)
    }

    /// The instant `us` microseconds after the start.
    pub const fn from_micros(us: u64) -> Self {
        Time(us.saturating_mul(1_000))
    }

    /// The instant `ms` milliseconds after the start.
    pub const fn from_millis(ms: u64) -> Self {
        Time(ms.saturating_mul(1_000_000))
    }

    /// The instant `s` seconds after the start.
    pub const fn from_secs(s: u64) -> Self {
        Time(s.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the start, for output and plots.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The span from `earlier` to this instant; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` later; `None` beyond the last instant.
    pub const fn checked_add(self, span: Duration) -> Option<Time> {
        match self.0.checked_add(span.0) {
            Some(ns) => Some(Time(ns)),
            None => None,
        }
    }
}

impl Duration {
    /// An empty span.
    pub const ZERO: Duration = Duration(0);
    /// The longest span.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Duration(ns)
    }

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Duration(us.saturating_mul(1_000))
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Duration(ms.saturating_mul(1_000_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s.saturating_mul(1_000_000_000))
    }

    /// A span of `s` seconds, rounded to the nearest nanosecond. Zero for negative numbers and
    /// NaN, [`Duration::MAX`] for numbers that are too large.
    pub fn from_secs_f64(s: f64) -> Self {
        Duration((s * 1e9).round() as u64)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds.
    pub const fn micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds, for output and plots.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Milliseconds, for output and plots.
    pub fn millis_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// Whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum; `None` if it is longer than the longest span.
    pub const fn checked_add(self, other: Duration) -> Option<Duration> {
        match self.0.checked_add(other.0) {
            Some(ns) => Some(Duration(ns)),
            None => None,
        }
    }

    /// The span rounded down to a multiple of `step`, such as a clock's resolution. A step of zero
    /// changes nothing.
    pub const fn floor_to(self, step: Duration) -> Duration {
        if step.0 <= 1 { self } else { Duration(self.0 - self.0 % step.0) }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Duration {
    type Output = Duration;
    /// The longest span if the divisor is zero.
    fn div(self, divisor: u64) -> Duration {
        self.0.checked_div(divisor).map_or(Duration::MAX, Duration)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(spans: I) -> Duration {
        spans.fold(Duration::ZERO, Add::add)
    }
}

impl FromStr for Duration {
    type Err = ParseError;

    /// Reads `"50 ms"`, `"1.5s"`, `"10 us"`, `"2 min"`, `"1 h"` or `"0"`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        number::parse(text, UNITS, "a duration such as \"50 ms\", \"1.5 s\" or \"10 us\"").map(Duration)
    }
}

impl FromStr for Time {
    type Err = ParseError;

    /// Reads an instant as the span since the start.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        text.parse::<Duration>().map(|span| Time(span.0))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.pad("0 s"),
            ns => number::display(ns, SHOWN, f),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}
