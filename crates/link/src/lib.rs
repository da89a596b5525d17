//! Links without a clock.
//!
//! A [`Transmitter`] is a queue with the process that serves it; a [`Delay`] is the propagation after it. Both play
//! each event at the event's own time whenever they are polled, so that simulated and real time give the same packets.

mod delay;
mod schedule;
mod transmitter;

pub use delay::Delay;
pub use transmitter::{Departure, Transmitter};
