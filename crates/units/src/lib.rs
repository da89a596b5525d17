//! Time, data and rate as types.
//!
//! All other crates use these types: an instant is a [`Time`], a span a [`Duration`], an amount of
//! data [`Bytes`], and bits per second a [`Rate`]. Each type reads what people write (`"50 ms"`,
//! `"12.5 kB"`, `"10 Mbit/s"`) exactly, without floating point. It prints the shortest exact form.
//! Its arithmetic stops at the ends of its range instead of wrapping.

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
