//! Links without a clock.
//!
//! A [`Transmitter`] is a queue with its server: a constant rate, changing rates, or a trace. A
//! [`Delay`] is the propagation behind it, and a [`Link`] is both. Each event is played at its own
//! time, whenever the link is polled. So simulated time and real time give the same packets.

mod channel;
mod delay;
mod link;
mod rates;
mod schedule;
mod trace;
mod transmitter;

pub use channel::{Arq, GilbertElliottParams, Loss, LossSpec, RandomLossParams};
pub use delay::{
    AggregateJitterParams, Delay, ExponentialJitterParams, JitterSpec, NormalJitterParams,
    UniformJitterParams,
};
pub use link::{Arrival, Link, LinkSpec, Service};
pub use rates::{Rates, RatesError};
pub use trace::{OPPORTUNITY, Trace, TraceError};
pub use transmitter::{Departure, Transmitter};
