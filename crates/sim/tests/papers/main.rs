//! Published experiments, and what the example files give.
//!
//! Each claim is compared with the published outcome, within a stated tolerance. Where the outcome
//! differs, a [`known_difference`] holds the value of this simulator, with the cause and the
//! experiment that showed the cause. docs/known-differences.md lists these differences.

mod komnios2014;
mod kuhn2013;
mod rossi2010;
mod trang2014;

use leeway_sim::results::{GroupSummary, Run, WindowSummary};
use leeway_sim::scenario::{Scenario, ScenarioFile};
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::path::Path;

/// An example, with changes as of `--set`.
fn example(file: &str, changes: &[&str]) -> Scenario {
    points(file, changes).remove(0)
}

/// The points of an example's sweep.
fn points(file: &str, changes: &[&str]) -> Vec<Scenario> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let mut file = ScenarioFile::load(&path).expect("the example can be read");
    for change in changes {
        file.set(change).expect("the example has this field");
    }
    file.points().expect("the example is valid").into_iter().map(|point| point.scenario).collect()
}

fn play(scenario: &Scenario) -> Run {
    leeway_sim::run_with_baseline(scenario, scenario.seed).expect("the example can be run")
}

/// Prints one row of the comparison, and checks the value against its tolerance.
fn claim(what: &str, published: &str, here: f64, tolerance: RangeInclusive<f64>) {
    println!("{what:<58} {published:>16} {here:>10.3}");
    assert!(tolerance.contains(&here), "{what}: published {published}, here {here}, not in {tolerance:?}");
}

/// As [`claim`], for a value that is known to differ from the published one, with the `cause`.
fn known_difference(what: &str, published: &str, here: f64, pinned: RangeInclusive<f64>, cause: &str) {
    println!("{what:<58} {published:>16} {here:>10.3}  differs: {cause}");
    assert!(pinned.contains(&here), "{what}: {here} is no longer in {pinned:?}; the difference was: {cause}");
}

fn window<'a>(run: &'a Run, name: &str) -> &'a WindowSummary {
    run.windows.iter().find(|window| window.name == name).expect("the example has this window")
}

fn group<'a>(window: &'a WindowSummary, name: &str) -> &'a GroupSummary {
    window.groups.iter().find(|group| group.name == name).expect("the example has this group")
}

fn share(window: &WindowSummary, name: &str) -> f64 {
    group(window, name).share.expect("something was delivered")
}

/// Jain's index of two values.
fn jain(a: f64, b: f64) -> f64 {
    (a + b).powi(2) / (2.0 * (a * a + b * b))
}

/// Samples of one flow.
#[derive(Debug, Clone, Copy)]
struct Sample {
    time: f64,
    cwnd: f64,
    delay_ms: f64,
    phase: u8,
}

/// All samples of flow `name`.
fn samples(run: &Run, name: &str) -> Vec<Sample> {
    let series = &run.series;
    let flow = series.flow_names.iter().position(|known| known == name).expect("the example has this flow");
    let flows = &series.flows;
    (0..flows.time_s.len())
        .filter(|&row| flows.flow[row] as usize == flow)
        .map(|row| Sample {
            time: flows.time_s[row],
            cwnd: flows.cwnd_pkt[row],
            delay_ms: flows.queuing_delay_ms[row],
            phase: flows.phase[row],
        })
        .collect()
}

/// The first time after `from` at which `condition` holds; infinite if it never does.
fn when(samples: &[Sample], from: f64, condition: impl Fn(&Sample) -> bool) -> f64 {
    samples.iter().find(|s| s.time >= from && condition(s)).map_or(f64::INFINITY, |s| s.time)
}

/// The first time after `from` at which the window falls by more than a quarter within 100 ms.
fn halving(samples: &[Sample], from: f64) -> f64 {
    let later: Vec<_> = samples.iter().filter(|s| s.time >= from).collect();
    let step = later.windows(6).find(|w| w[5].cwnd < 0.75 * w[0].cwnd);
    step.map_or(f64::INFINITY, |w| w[0].time)
}

/// The window at the last sample before `time`.
fn cwnd_at(samples: &[Sample], time: f64) -> f64 {
    samples.iter().take_while(|s| s.time <= time).last().expect("the flow has begun").cwnd
}
