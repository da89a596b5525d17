//! The simulator: real protocol endpoints over the links of `leeway-link`, in virtual time.
//!
//! [`run`] plays a [`scenario::Scenario`] with a seed and reports a [`results::Run`]: the same scenario and seed give
//! the same bytes, wherever and however often. Inside, [`build`] lays out links and flows, the engine plays
//! events in order, [`summary`] turns what was counted into metrics.

mod app;
mod books;
mod build;
mod calendar;
mod capacity;
mod drive;
mod engine;
mod flow;
mod harm;
mod histogram;
mod network;
mod packet;
mod recorder;
pub mod results;
pub mod scenario;
mod summary;
mod tcp;
mod voice;

use results::Run;
use scenario::Scenario;

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
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
}

/// Plays `scenario` with `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    let mut plan = build::plan(scenario, seed)?;
    plan.engine.play();
    let windows = summary::windows(scenario, &plan);
    let work = plan.engine.work;
    let series = plan.engine.world.books.recorder.take().map(|recorder| recorder.series).unwrap_or_default();
    Ok(Run { seed, windows, work, series })
}

/// Plays `scenario` with `seed`, and where it asks for a baseline plays it again without its background flows and
/// reports what the background cost the primaries.
pub fn run_with_baseline(scenario: &Scenario, seed: u64) -> Result<Run, SimError> {
    let mut beside = run(scenario, seed)?;
    if scenario.baseline {
        let mut alone = scenario.clone();
        alone.flow.retain(|group| group.role.is_primary());
        alone.series = None;
        harm::add(&mut beside, &run(&alone, seed)?);
    }
    Ok(beside)
}
