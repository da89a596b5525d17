//! Flows through one bottleneck, for tests of a law's properties. Each test uses a part of this
//! module.
#![allow(dead_code)]

use leeway_sim::results::Run;
use leeway_sim::scenario::Scenario;

/// Plays the scenario `text`.
pub fn run(text: &str) -> Run {
    let scenario = Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"));
    leeway_sim::run(&scenario, 1).expect("the scenario has routes")
}

/// A run with hosts of `profile`. Metrics count from `from` to `to`, in seconds. `bottleneck` has
/// rate, delay and buffer.
pub fn play(profile: &str, bottleneck: &str, flows: &str, [from, to]: [u32; 2]) -> Run {
    run(&format!(
        "duration = \"{to} s\"\nprofile = \"{profile}\"\n[dumbbell.bottleneck]\n{bottleneck}\n{flows}\
         [[window]]\nname = \"w\"\nfrom = \"{from} s\"\nto = \"{to} s\"\n"
    ))
}

/// A flow, with `more` lines of TOML.
pub fn flow(name: &str, law: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nlaw = \"{law}\"\n{more}\n")
}

/// Throughput of each group, in the order of the scenario. Unit: Mbit/s.
pub fn rates(run: &Run) -> Vec<f64> {
    run.windows[0].groups.iter().map(|group| group.throughput_bps / 1e6).collect()
}

/// Jain's index (Jain, Chiu and Hawe 1984), from 1/n to 1.
pub fn jain(rates: &[f64]) -> f64 {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    rates.iter().sum::<f64>().powi(2) / (rates.len() as f64 * squares)
}

/// Utilisation of the bottleneck, and the median of the queuing delay in ms.
pub fn line(run: &Run) -> (f64, f64) {
    let link = &run.windows[0].links[0];
    (link.utilisation, 1e3 * link.delay.expect("packets waited").p50_s)
}
