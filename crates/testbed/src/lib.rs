//! A line that primary and secondary users share, built of network namespaces, and what each way
//! to share it does to them.
//!
//! A [`Setup`] is a line, who uses it and how; [`measure()`] plays it with one [`Mechanism`].
//! [`compare()`] plays it with several, again and again, and sets each beside the primary alone in
//! the same round. Everything is real but the line: the kernel's TCP, web servers and clients, all
//! on this machine.

mod compare;
mod error;
pub mod experiment;
mod ipip;
mod judge;
mod load;
mod measure;
pub mod mechanism;
mod network;
mod probe;
mod server;
mod stats;
mod ways;

pub use compare::{Comparison, Plan, Ratios, Row, SLOT_BPS, Summary, compare};
pub use error::Error;
pub use load::{Arrivals, Load, Way};
pub use measure::{LineUse, Measured, Setup, measure};
pub use mechanism::{Mechanism, MechanismError};
pub use network::Line;
pub use probe::{Call, Ping};
pub use stats::{Class, Times};
