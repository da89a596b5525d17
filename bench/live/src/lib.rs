//! The laws on real TCP: a background flow under a law of the kernel, a primary flow that comes
//! and goes, a bottleneck between test hosts; and the simulator's values for the same network and
//! schedule.

pub mod case;
pub mod figures;
mod flows;
pub mod laws;
pub mod live;
pub mod report;
pub mod simulated;
pub mod store;

/// What can fail here is told and ends the run.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
