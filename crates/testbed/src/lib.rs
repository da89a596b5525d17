//! A line that primary and secondary users share, built of network namespaces, and the effect of
//! each mechanism of sharing on them.
//!
//! A [`Setup`] is a line with its users and their load. [`measure()`] plays a setup with one
//! [`Mechanism`]. [`compare()`] plays it with several in repeated rounds, and compares each with
//! the primary alone in the same round. Only the line is emulated: the kernel's TCP, web servers
//! and clients are real, all on this machine. The parts ([`Load`], [`ping`], [`serve`]) also play
//! on any hosts.

mod compare;
mod error;
pub mod experiment;
mod ipip;
mod judge;
mod load;
mod measure;
pub mod mechanism;
mod network;
mod paths;
mod probe;
mod program;
mod server;
mod stats;

pub use compare::{Comparison, Plan, Ratios, Row, SLOT_BPS, Summary, compare};
pub use error::Error;
pub use load::{Arrivals, Direction, Ends, Load, Span};
pub use measure::{LineUse, Measured, Setup, measure};
pub use mechanism::{Mechanism, MechanismError};
pub use network::Line;
pub use probe::{Call, Ping, ping};
pub use program::Start;
pub use server::serve;
pub use stats::{Class, Tally, Times};
