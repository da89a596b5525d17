//! Time, data and rate as types.
//!
//! Everything above this crate speaks in these: an instant is a [`Time`], a span a [`Duration`], an amount of
//! data [`Bytes`], a speed a [`Rate`]. Each parses what people write (`"50 ms"`, `"12.5 kB"`, `"10 Mbit/s"`)
//! without going through floating point, prints the shortest exact form of itself, and does arithmetic that
//! stops at the end of its range instead of wrapping.

mod data;
mod number;
mod rate;
#[cfg(feature = "serde")]
mod serial;
mod size;
mod time;

pub use data::Bytes;
pub use number::ParseError;
pub use rate::Rate;
pub use size::Size;
pub use time::{Duration, Time};
