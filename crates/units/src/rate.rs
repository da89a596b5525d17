//! Rates.

use crate::data::Bytes;
use crate::number::{self, ParseError};
use crate::time::Duration;
use std::fmt;
use std::str::FromStr;

const UNITS: &[(&str, u64)] = &[
    ("bit/s", 1),
    ("b/s", 1),
    ("bps", 1),
    ("kbit/s", 1_000),
    ("kb/s", 1_000),
    ("kbps", 1_000),
    ("kbit", 1_000),
    ("Mbit/s", 1_000_000),
    ("Mb/s", 1_000_000),
    ("Mbps", 1_000_000),
    ("mbit", 1_000_000),
    ("Mbit", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Gbps", 1_000_000_000),
    ("gbit", 1_000_000_000),
    ("Gbit", 1_000_000_000),
    ("B/s", 8),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
];
const SHOWN: &[(&str, u64)] =
    &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Zero: no data passes.
    pub const ZERO: Rate = Rate(0);

    /// A rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Rate(bits)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// The time that `data` takes at this rate, rounded to the nearest nanosecond;
    /// [`Duration::MAX`] at rate zero.
    pub fn time_for(self, data: Bytes) -> Duration {
        const NANOS: u64 = 1_000_000_000;
        match (data.bits().checked_mul(NANOS), self.0) {
            (_, 0) => Duration::MAX,
            (Some(product), rate) => Duration::from_nanos(product.saturating_add(rate / 2) / rate),
            (None, rate) => {
                let product = u128::from(data.bits()) * u128::from(NANOS) + u128::from(rate / 2);
                Duration::from_nanos(u64::try_from(product / u128::from(rate)).unwrap_or(u64::MAX))
            }
        }
    }

    /// The data that pass in `span`, rounded down to whole bytes.
    pub fn data_in(self, span: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.nanos()) / 8_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The rate at which `data` pass in `span`, rounded down. The largest rate if `span` is zero.
    pub fn of(data: Bytes, span: Duration) -> Rate {
        let bits = u128::from(data.bits()) * 1_000_000_000;
        Rate(bits.checked_div(u128::from(span.nanos())).and_then(|r| r.try_into().ok()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    /// Reads `"10 Mbit/s"`, `"58 kb/s"`, `"2mbit"` or `"1.5 MB/s"` (`b` bits, `B` bytes).
    fn from_str(text: &str) -> Result<Self, ParseError> {
        number::parse(text, UNITS, "a rate such as \"10 Mbit/s\", \"600 kbit/s\" or \"1.5 MB/s\"").map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.pad("0 bit/s"),
            bits => number::display(bits, SHOWN, f),
        }
    }
}
