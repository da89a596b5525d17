//! One simulated run, with its error as a message.

use leeway_sim::results::Run;
use leeway_sim::scenario::Scenario;

/// Simulates `scenario` with `seed` on up to `threads` threads, and its baseline if the scenario
/// asks for one.
pub fn run(scenario: &Scenario, seed: u64, threads: usize) -> Result<Run, String> {
    leeway_sim::run_with_baseline_unless(scenario, seed, threads, &|| false)
        .map_err(|error| error.to_string())
}
