//! The simulator: real protocol endpoints over the links of `leeway-link`, in virtual time.
//!
//! [`run`] plays a [`scenario::Scenario`] with a seed and reports a [`results::Run`]: the same scenario and
//! seed give the same bytes, wherever and however often. Inside, [`build`] lays out links and flows, the
//! engine plays events in order, [`islands`] has parts that share nothing played on several threads, and
//! [`summary`] turns what was counted into metrics.

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

/// Version of everything that decides what a run gives: of this package, and a hash of the sources of laws,
/// queues, links and simulator. Equal versions give equal results.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("LEEWAY_ENGINE_HASH"));

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A flow has no way to its receiver.
    #[error("{0}")]
    Route(String),
    /// A trace file could not be used.
    #[error("cannot use the trace {file}: {why}")]
    Trace {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Whoever asked for the run does not want it any more.
    #[error("the run was cancelled")]
    Cancelled,
}

/// Plays `scenario` with `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    run_unless(scenario, seed, 1, &|| false)
}

/// Plays `scenario` with `seed`, and where it asks for a baseline plays it again without its background flows and
/// reports what the background cost the primaries.
pub fn run_with_baseline(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    run_with_baseline_unless(scenario, seed, 1, &|| false)
}

/// [`run`] on at most `threads` threads, given up soon after `cancelled` says so. Parts of the scenario that
/// share nothing are played on threads of their own; the result is the same. The calling thread asks
/// `cancelled` every few thousand events, or every few milliseconds while others play.
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

/// [`run_with_baseline`] on at most `threads` threads, given up soon after `cancelled` says so, as
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
