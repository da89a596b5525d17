//! Measures one case on real TCP.

use crate::Outcome;
use crate::case::{Beside, Case};
use crate::figures::{Figures, Passed, quantile};
use crate::flows::{Bulk, Heard, call};
use crate::laws::Laws;
use leeway_emulator::Direction;
use leeway_emulator::record::{self, Event, Record};
use leeway_emulator::testnet::{Spec, Testnet};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The figures of one run, and how late the emulator was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The figures.
    pub figures: Figures,
    /// Lateness of the bottleneck's packets: the 99th percentile, in microseconds.
    pub late_p99_us: u64,
    /// Packets lost because the emulator read them too late.
    pub overruns: u64,
}

/// The course of a run, by the clock of the bottleneck's log.
struct Happened {
    /// Numbers of the background flow and of the other flow.
    flows: [Option<u32>; 2],
    /// Duration of the other flow.
    beside_s: f64,
    heard: Option<Heard>,
}

/// Measures `case` once. The log of the bottleneck is in `folder` during the run.
///
/// # Errors
/// Missing rights or programs; a refusal of the kernel.
pub fn run(case: &Case, laws: &Laws, folder: &Path) -> Outcome<Run> {
    let spec = Spec::parse(&case.network.testnet("bottleneck.csv"), &folder.join("net.toml"))?;
    let net = Testnet::up(&spec)?;
    if case.at_once {
        acknowledge_at_once(&net)?;
    }
    let happened = play(case, laws, &net)?;
    let carried = net.close()?;
    let bottleneck = carried.first().ok_or("there is no bottleneck")?;
    let log = folder.join("bottleneck.csv");
    let records = record::read(&log)?;
    std::fs::remove_file(&log)?;
    let figures = figures(case, &happened, &records)?;
    let late_p99_us = bottleneck.ended.tallies[0].lateness.quantile(990).micros();
    Ok(Run { figures, late_p99_us, overruns: bottleneck.overruns[0] })
}

/// Turns delayed ACKs off, by an attribute of the receiver's routes (RTAX_QUICKACK).
fn acknowledge_at_once(net: &Testnet) -> Outcome<()> {
    let mut change = std::process::Command::new("sh");
    change
        .args(["-ec", "ip -4 route show | while read -r route; do ip route change $route quickack 1; done"]);
    let status = net.spawn("receiver", change)?.wait()?;
    if status.success() { Ok(()) } else { Err("the receiver's routes cannot be changed".into()) }
}

fn play(case: &Case, laws: &Laws, net: &Testnet) -> Outcome<Happened> {
    let span = Duration::from_secs_f64;
    let schedule = &case.schedule;
    let start = Instant::now();
    let until = |time: Duration| std::thread::sleep(time.saturating_sub(start.elapsed()));
    let name = case.law.as_deref().map(|law| laws.name(law)).transpose()?;
    let background = name.map(|name| Bulk::start(net, "background", name)).transpose()?;
    until(span(schedule.alone_s));
    let began = Instant::now();
    let congestion = match case.beside {
        Beside::Cubic => "cubic",
        Beside::Bbr => "bbr",
        Beside::Same => name.ok_or("two of a kind need a kind")?,
        Beside::Voice => "",
    };
    let (mut heard, other);
    if case.beside == Beside::Voice {
        let (settle, beside) = (span(schedule.beside_from_s), span(schedule.beside_s));
        let (calls, flow) = call(net, "primary", beside, settle)?;
        (heard, other) = (Some(calls), flow);
    } else {
        let primary = Bulk::start(net, "primary", congestion)?;
        until(span(schedule.alone_s + schedule.beside_s));
        (heard, other) = (None, primary.flow);
        primary.stop()?;
    }
    let beside_s = began.elapsed().as_secs_f64().min(schedule.beside_s + 0.5);
    until(span(schedule.seconds()));
    let flows = [background.as_ref().map(|flow| flow.flow), Some(other)];
    background.map(Bulk::stop).transpose()?;
    if let Some(heard) = &mut heard {
        let least = case.network.delay_s();
        heard.delays_s.iter_mut().for_each(|delay| *delay -= least);
    }
    Ok(Happened { flows, beside_s, heard })
}

fn figures(case: &Case, happened: &Happened, records: &[Record]) -> Outcome<Figures> {
    let seconds = |record: &Record| record.at.nanos() as f64 * 1e-9;
    let up = || records.iter().filter(|record| record.direction == Direction::Up);
    let flow_of = |flow: u32| happened.flows.iter().position(|known| *known == Some(flow));
    let mut first = [None; 2];
    // Of each packet that arrived: time, bytes and flow.
    let mut arrived = Vec::new();
    for record in up() {
        if let Event::Arrive { bytes, flow, .. } = record.event {
            let whose = flow_of(flow);
            if let Some(whose) = whose {
                first[whose].get_or_insert(seconds(record));
            }
            arrived.push((seconds(record), bytes, whose));
        }
    }
    let other = first[1].ok_or("nothing of the flow beside came to the bottleneck")?;
    let start = first[0].unwrap_or(other);
    let mut passed =
        Passed { other: (other - start, other - start + happened.beside_s), ..Passed::default() };
    let schedule = &case.schedule;
    let alone = (schedule.alone_from_s, passed.other.0);
    let beside = (passed.other.0 + schedule.beside_from_s, passed.other.1);
    let (mut alone_ms, mut beside_ms) = (Vec::new(), Vec::new());
    for record in up() {
        let Event::Leave { due } = record.event else { continue };
        let Some(&(at, bytes, whose)) = arrived.get(record.packet as usize) else { continue };
        let out = due.nanos() as f64 * 1e-9;
        if let Some(whose) = whose {
            passed.add(whose, out - start, f64::from(bytes) * 8.0);
        }
        let sending = f64::from(bytes) * 8.0 / case.network.bits_per_s();
        let waited_ms = (out - case.network.delay_s() - sending - at).max(0.0) * 1e3;
        let left = out - start;
        if whose == Some(0) && (alone.0..alone.1).contains(&left) {
            alone_ms.push(waited_ms);
        } else if (beside.0..beside.1).contains(&left) {
            beside_ms.push(waited_ms);
        }
    }
    let mut figures = Figures::default();
    passed.rates(case, &mut figures);
    figures.alone_p50_ms = quantile(&mut alone_ms, 500);
    figures.alone_p95_ms = quantile(&mut alone_ms, 950);
    figures.beside_p50_ms = quantile(&mut beside_ms, 500);
    figures.beside_p95_ms = quantile(&mut beside_ms, 950);
    if let Some(heard) = &happened.heard {
        let mut delays_ms: Vec<f64> = heard.delays_s.iter().map(|delay| delay * 1e3).collect();
        figures.voice_p50_ms = quantile(&mut delays_ms, 500);
        figures.voice_p95_ms = quantile(&mut delays_ms, 950);
        figures.voice_loss = Some(1.0 - heard.delays_s.len() as f64 / heard.sent.max(1) as f64);
    }
    Ok(figures)
}
