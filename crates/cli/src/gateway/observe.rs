//! The output of `leeway gateway --observe` about a line that is not shared.

use super::control::megabytes;
use crate::Failure;
use crate::output::stdout;
use leeway_gateway::observe::{Direction, Observation};
use leeway_units::Duration;
use std::io::{self, Write};

/// Ready after `time`; never without one.
pub async fn over(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(std::time::Duration::from_nanos(time.nanos())).await,
        None => std::future::pending().await,
    }
}

/// Prints an observation as text for people, or as JSON.
pub fn print(seen: &Observation, json: bool) -> Result<(), Failure> {
    let mut out = stdout();
    if json {
        serde_json::to_writer_pretty(&mut out, seen).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        observation(seen, &mut out)?;
    }
    Ok(out.flush()?)
}

/// Writes an observation as text.
pub fn observation(seen: &Observation, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "observed: {} s on {}", seen.seconds, seen.interfaces.join(", "))?;
    for (name, way) in [("down", &seen.down), ("up", &seen.up)] {
        writeln!(
            out,
            "{name}: {}, {} on average, {} in the busiest second",
            megabytes(way.bytes),
            rate(way.mean_bps),
            rate(way.busiest_bps)
        )?;
    }
    if let Some(busy) = seen.home_busy_s {
        writeln!(out, "home: at work in {busy} of {} s", seen.seconds)?;
    }
    match (seen.down.spare_bps, seen.up.spare_bps) {
        (None, None) => writeln!(out, "could be shared: not known")?,
        _ => {
            let [down, up] = [spare(&seen.down), spare(&seen.up)];
            writeln!(out, "could be shared on average, at least: {down} down, {up} up")?;
        }
    }
    seen.unknown.iter().try_for_each(|words| writeln!(out, "not known: {words}"))
}

fn spare(way: &Direction) -> String {
    way.spare_bps.map_or("an unknown rate".into(), rate)
}

fn rate(bps: f64) -> String {
    format!("{:.3} Mbit/s", bps / 1e6)
}
