//! The simulator: real protocol endpoints over the links of `leeway-link`, in virtual time.
//!
//! [`run`] plays a [`scenario::Scenario`] with a seed and returns a [`results::Run`]. The same
//! scenario and seed give the same bytes on every machine. Inside, [`build`] lays out links and
//! flows, the engine plays events in order, [`islands`] distributes parts that share nothing over
//! several threads, and [`summary`] turns counters into metrics.

mod app;
mod books;
mod build;
mod calendar;
mod capacity;
mod drive;
mod engine;
mod flow;
mod gateway;
mod harm;
mod histogram;
mod islands;
mod network;
mod packet;
mod recorder;
pub mod results;
pub mod scenario;
mod summary;
mod swarm;
mod tcp;
pub mod voice;

pub use histogram::Histogram;
use results::Run;
use scenario::Scenario;

/// Version of all that decides the outcome of a run: the version of this package, and a hash of
/// the sources of laws, queues, links, sharing and simulator. Equal versions give equal results.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("LEEWAY_ENGINE_HASH"));

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A flow has no route to its receiver.
    #[error("{0}")]
    Route(String),
    /// A trace file could not be used.
    #[error("cannot use the trace {file}: {why}")]
    Trace {
        /// The file.
        file: String,
        /// What is wrong with the file.
        why: String,
    },
    /// The caller cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
}

/// Plays `scenario` with `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    run_unless(scenario, seed, 1, &|| false)
}

/// Plays `scenario` with `seed`. If the scenario asks for a baseline, plays it again without its
/// background flows, and reports the harm that they did.
pub fn run_with_baseline(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    run_with_baseline_unless(scenario, seed, 1, &|| false)
}

/// [`run`] on at most `threads` threads, until `cancelled` returns true. Parts of the scenario
/// that share nothing are played on threads of their own; the result is the same. The calling
/// thread calls `cancelled` every 4096 events, or every 10 ms while other threads play.
///
/// # Errors
/// Those of [`run`], and [`SimError::Cancelled`].
pub fn run_unless(
    scenario: &Scenario,
    seed: u64,
    threads: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Run, SimError> {
    let mut plan = islands::play(scenario, seed, threads, cancelled)?;
    let windows = summary::windows(scenario, &plan);
    let work = plan.engine.work;
    let mut series =
        plan.engine.world.books.recorder.take().map(|recorder| recorder.series).unwrap_or_default();
    if scenario.series.is_some() {
        series.flow_names = build::flow_names(&plan.engine);
    }
    Ok(Run { seed, windows, work, series })
}

/// [`run_with_baseline`] on at most `threads` threads, until `cancelled` returns true, as
/// [`run_unless`].
///
/// # Errors
/// Those of [`run`], and [`SimError::Cancelled`].
pub fn run_with_baseline_unless(
    scenario: &Scenario,
    seed: u64,
    threads: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Run, SimError> {
    let mut beside = run_unless(scenario, seed, threads, cancelled)?;
    if scenario.baseline {
        let mut alone = scenario.clone();
        alone.flow.retain(|group| group.role.is_primary());
        alone.series = None;
        harm::add(&mut beside, &run_unless(&alone, seed, threads, cancelled)?);
    }
    Ok(beside)
}
