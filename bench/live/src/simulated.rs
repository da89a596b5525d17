//! Simulates one case.

use crate::Outcome;
use crate::case::{Beside, Case};
use crate::figures::{BIN_S, Figures, Passed};
use leeway_sim::results::{Percentiles, Run};
use leeway_sim::scenario::Scenario;
use std::fmt::Write;

/// The simulator's figures; `None` if it lacks the law of the competing flow.
///
/// # Errors
/// The scenario is invalid.
pub fn run(case: &Case, seed: u64) -> Outcome<Option<Figures>> {
    if case.beside == Beside::Bbr {
        return Ok(None);
    }
    let scenario = Scenario::parse(&scenario(case), "live.toml")?;
    let run = leeway_sim::run(&scenario, seed)?;
    Ok(Some(figures(case, &run)))
}

/// The scenario of a case. Segments and acknowledgements have the kernel's sizes, with 12 bytes of
/// timestamps.
fn scenario(case: &Case) -> String {
    let schedule = &case.schedule;
    let acks = if case.at_once { "tcp = { delayed_ack = \"off\" }\n" } else { "" };
    let (start, stop) = (schedule.alone_s, schedule.alone_s + schedule.beside_s);
    let mut text = format!(
        "duration = \"{} s\"\n[series]\nevery = \"{} ms\"\n[dumbbell.bottleneck]\n{}",
        schedule.seconds(),
        BIN_S * 1e3,
        case.network.channel()
    );
    if let Some(law) = &case.law {
        let _ = write!(
            text,
            "[[flow]]\nname = \"background\"\nrole = \"background\"\nlaw = \"{law}\"\nheader = \"52 B\"\n{acks}\
             start = {{ uniform = [\"0 s\", \"{} ms\"] }}\n[[window]]\nname = \"alone\"\nfrom = \"{} s\"\nto = \"{start} s\"\n",
            case.network.rtt_ms, schedule.alone_from_s
        );
    }
    let _ = write!(text, "[[flow]]\nname = \"other\"\nstart = \"{start} s\"\nstop = \"{stop} s\"\n");
    let _ = match case.law_beside() {
        Some(law) => write!(text, "law = \"{law}\"\nheader = \"52 B\"\n{acks}"),
        None => writeln!(text, "app = {{ kind = \"voice\", codec = \"g711\" }}"),
    };
    let from = start + schedule.beside_from_s;
    let _ = write!(text, "[[window]]\nname = \"beside\"\nfrom = \"{from} s\"\nto = \"{stop} s\"\n");
    text
}

fn figures(case: &Case, run: &Run) -> Figures {
    let schedule = &case.schedule;
    let other = (schedule.alone_s, schedule.alone_s + schedule.beside_s);
    let mut passed = Passed { other, ..Passed::default() };
    let series = &run.series;
    for ((&time, &flow), &rate) in
        series.flows.time_s.iter().zip(&series.flows.flow).zip(&series.flows.rate_bps)
    {
        let whose = usize::from(series.flow_names[flow as usize].starts_with("other"));
        // A sample belongs to the bin that ends at its time.
        passed.add(whose, time - BIN_S / 2.0, rate * BIN_S);
    }
    let mut figures = Figures::default();
    passed.rates(case, &mut figures);
    let window = |name: &str| run.windows.iter().find(|window| window.name == name);
    let wait = |name: &str| window(name).and_then(|window| window.links.first()?.delay);
    let ms = |delay: Option<Percentiles>, least: f64| {
        delay.map(|d| ((d.p50_s - least) * 1e3, (d.p95_s - least) * 1e3))
    };
    let (alone, beside) = (ms(wait("alone"), 0.0), ms(wait("beside"), 0.0));
    (figures.alone_p50_ms, figures.alone_p95_ms) = (alone.map(|d| d.0), alone.map(|d| d.1));
    (figures.beside_p50_ms, figures.beside_p95_ms) = (beside.map(|d| d.0), beside.map(|d| d.1));
    if case.beside == Beside::Voice {
        let group =
            window("beside").and_then(|window| window.groups.iter().find(|group| group.name == "other"));
        let voice = ms(group.and_then(|group| group.owd), case.network.delay_s());
        (figures.voice_p50_ms, figures.voice_p95_ms) = (voice.map(|d| d.0), voice.map(|d| d.1));
        figures.voice_loss = group.map(|group| group.loss);
    }
    figures
}
