//! Links without a clock.
//!
//! A [`Transmitter`] is a queue with the process that serves it: a rate, rates that change, or a trace. A
//! [`Delay`] is the propagation after it, a [`Link`] both. All play each event at the event's own time
//! whenever they are polled, so that simulated and real time give the same packets.

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
