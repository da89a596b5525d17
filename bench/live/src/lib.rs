//! Measures the laws on real TCP: a background flow under a law in the kernel, a primary flow that
//! comes and goes, and a bottleneck between test hosts. Adds the simulator's values for the same
//! network and schedule.

pub mod case;
pub mod figures;
mod flows;
pub mod laws;
pub mod live;
pub mod report;
pub mod simulated;
pub mod store;

/// A result whose error is printed and ends the run.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
