//! Rates that change at given times, as plain data.

use leeway_units::{ParseError, Rate, Time};
use std::fmt;
use std::str::FromStr;

/// A rate and its changes, spelled `10 Mbit/s, 2 Mbit/s at 5 s, 4 Mbit/s at 8 s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rates {
    /// Rate at the start.
    pub first: Rate,
    /// The changes, with their times.
    pub changes: Vec<(Time, Rate)>,
}

impl From<Rate> for Rates {
    fn from(first: Rate) -> Self {
        Rates { first, changes: Vec::new() }
    }
}

/// Why a list of rates cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RatesError {
    /// A rate or a time is not valid.
    #[error("{0}; rates are spelled like \"10 Mbit/s, 2 Mbit/s at 5 s\"")]
    Quantity(#[from] ParseError),
    /// A change without its time.
    #[error("`{0}` lacks its time; rates are spelled like \"10 Mbit/s, 2 Mbit/s at 5 s\"")]
    NoTime(String),
    /// The changes are not in order.
    #[error("the change at {0} does not come after the one before it; changes go forward in time")]
    Order(Time),
}

impl FromStr for Rates {
    type Err = RatesError;

    fn from_str(text: &str) -> Result<Self, RatesError> {
        let mut parts = text.split(',');
        let mut rates = Rates::from(parts.next().unwrap_or_default().parse::<Rate>()?);
        for part in parts {
            let (rate, time) = part
                .split_once(" at ")
                .ok_or_else(|| RatesError::NoTime(part.trim().chars().take(60).collect()))?;
            let (time, rate) = (time.parse::<Time>()?, rate.parse::<Rate>()?);
            if rates.changes.last().is_some_and(|&(last, _)| time <= last) {
                return Err(RatesError::Order(time));
            }
            rates.changes.push((time, rate));
        }
        Ok(rates)
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.changes.iter().try_for_each(|(time, rate)| write!(f, ", {rate} at {time}"))
    }
}

#[cfg(feature = "serde")]
leeway_queue::text_in_files!(
    Rates,
    "Rates",
    "A rate, perhaps with changes: \"10 Mbit/s\", \"10 Mbit/s, 2 Mbit/s at 5 s\"",
    r"^[^,]+(,[^,]+ at [^,]+)*$"
);
