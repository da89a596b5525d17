//! Checks the trace files that a scenario names.

use super::error::{ErrorKind, Problem, ScenarioError};
use super::{Channel, FieldPath, Scenario, check_flow, limits, parse};
use leeway_link::Trace;
use leeway_units::{Rate, Size};
use std::path::Path;
use toml_edit::Document;

/// Reads every trace of `scenario`, whose text is `text`.
pub(super) fn check(scenario: &Scenario, (file, text): (&str, &str)) -> Result<(), ScenarioError> {
    for (at, channel, _) in scenario.channels() {
        let Some(trace) = &channel.trace else { continue };
        check_one(scenario, channel, trace, at.key("trace")).map_err(
            |(kind, problem)| match Document::parse(text) {
                Ok(document) => parse::located(kind, problem, (file, text), document.as_table()),
                Err(_) => ScenarioError::new(kind, (file, ""), 0..0, problem.message, problem.help),
            },
        )?;
    }
    Ok(())
}

fn check_one(
    scenario: &Scenario,
    channel: &Channel,
    trace: &Path,
    at: FieldPath,
) -> Result<(), (ErrorKind, Problem)> {
    let wrong = |why: String| {
        (ErrorKind::Unreadable, Problem::new(at.clone(), format!("cannot use {}: {why}", trace.display())))
    };
    // Devices and pipes may have no end, and their size says nothing.
    let metadata = std::fs::metadata(trace).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a file".into()));
    }
    if metadata.len() > limits::TRACE_BYTES {
        return Err(wrong(format!("it is larger than {} MB", limits::TRACE_BYTES / 1_000_000)));
    }
    let text = std::fs::read_to_string(trace).map_err(|error| wrong(error.to_string()))?;
    let rate = Trace::parse(&text).map_err(|error| wrong(error.to_string()))?.rate();
    let carried = packets(scenario, rate);
    let most = if channel.buffer == Size::Unlimited { limits::PACKETS_INSIDE } else { limits::PACKETS };
    match carried <= most {
        true => Ok(()),
        false => Err((
            ErrorKind::Meaning,
            Problem::new(
                at,
                format!("that makes {carried:.0} packets in the duration; {most:.0} is the most"),
            )
            .help("a slower trace or a shorter duration, or a limited buffer"),
        )),
    }
}

/// Packets that pass at `rate` in the duration of `scenario`.
fn packets(scenario: &Scenario, rate: Rate) -> f64 {
    let packet = check_flow::smallest_packet(scenario);
    rate.bits_per_sec() as f64 / packet.bits() as f64 * scenario.duration.secs_f64()
}
