//! Measures the cost of the simulator: packets per second, events and nanoseconds per packet,
//! memory, and the ratio to a bare loop.
//!
//! Every figure is the median of several rounds. A round runs the bare loop right before or after
//! each scenario, so that the ratio is valid on a busy machine too. A scenario runs in a process
//! of its own: its peak memory is the process's.

mod bare;

use bare::Bare;
use leeway_sim::scenario::Scenario;
use leeway_units::{Duration, Rate};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A scenario file, and a bare loop with the same flows and link.
struct Case {
    name: &'static str,
    bare: Bare,
}

const CASES: [Case; 5] = [
    Case { name: "s1", bare: bare(2, 40, 1_200_000, 50, 60) },
    Case { name: "s2", bare: bare(2, 84, 1_200_000, 100, 200) },
    Case { name: "s3", bare: bare(200, 84, 1_200_000, 100, 1200) },
    Case { name: "s4", bare: bare(2, 2084, 240_000, 500, 1000) },
    Case { name: "s5", bare: bare(96, 22, 20_000_000, 450, 300) },
];

const fn bare(flows: usize, buffer: usize, service_ns: u64, rtt_ms: u64, duration_s: u64) -> Bare {
    Bare { flows, buffer, service_ns, rtt_ns: rtt_ms * 1_000_000, duration_ns: duration_s * 1_000_000_000 }
}

/// The cost of one run of a scenario.
#[derive(Debug, Clone, Copy)]
struct Cost {
    packets: f64,
    events: f64,
    seconds: f64,
    peak_mb: f64,
}

impl Cost {
    fn nanos_per_packet(&self) -> f64 {
        self.seconds * 1e9 / self.packets
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--one", file, series, flows] => one(Path::new(file), series, flows),
        [] => report(7),
        [rounds] if rounds.parse::<usize>().is_ok_and(|rounds| rounds > 0) => {
            report(rounds.parse().unwrap_or(1))
        }
        _ => Err("usage: bench/run [ROUNDS]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one scenario in this process and prints its cost. `series` is a sampling interval, `flows`
/// the total number of flows, each with a share of 1 Mbit/s. "-" keeps the scenario's own.
fn one(file: &Path, series: &str, flows: &str) -> Outcome<()> {
    let mut scenario = Scenario::load(file)?;
    if series != "-" {
        scenario.series = Some(leeway_sim::scenario::Series { every: series.parse()? });
    }
    if flows != "-" {
        let count: u32 = flows.parse()?;
        let groups = scenario.flow.len() as u32;
        scenario.flow.iter_mut().for_each(|group| group.count = count / groups);
        let bottleneck = &mut scenario.dumbbell.as_mut().ok_or("no dumbbell to scale")?.bottleneck;
        bottleneck.rate = Some(Rate::from_bits_per_sec(u64::from(count) * 1_000_000));
        // With few flows the run is longer, so that the number of packets is alike; at least 10 s.
        scenario.duration = Duration::from_secs(u64::from(10_000 / count).max(10));
    }
    let start = Instant::now();
    let run = leeway_sim::run(&scenario, scenario.seed)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} {} {seconds} {}", run.work.delivered_packets, run.work.events, peak_mb()?);
    Ok(())
}

fn peak_mb() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn measure(name: &str, series: &str, flows: &str) -> Outcome<Cost> {
    let file = folder().join(format!("scenarios/{name}.toml"));
    let output = Command::new(std::env::current_exe()?)
        .arg("--one")
        .arg(file)
        .args([series, flows])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{name} failed").into());
    }
    let numbers: Vec<f64> =
        String::from_utf8(output.stdout)?.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    match numbers[..] {
        [packets, events, seconds, peak_mb] => Ok(Cost { packets, events, seconds, peak_mb }),
        _ => Err(format!("{name} printed no cost").into()),
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn bare_nanos(bare: &Bare) -> f64 {
    // A short loop is repeated, to last long enough for the clock.
    let start = Instant::now();
    let mut packets = 0;
    while packets < 2_000_000 {
        packets += bare.run();
    }
    start.elapsed().as_secs_f64() * 1e9 / packets as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(rounds: usize) -> Outcome<()> {
    println!("medians of {rounds} rounds; `ratio` is the scenario's packets a second over the bare loop's\n");
    println!(
        "{:4} {:>8} {:>10} {:>9} {:>8} {:>8} {:>7}",
        "", "Mpkt/s", "events/pkt", "ns/pkt", "bare ns", "ratio", "MB"
    );
    for case in &CASES {
        let mut costs = Vec::new();
        let mut bares = Vec::new();
        for _ in 0..rounds {
            costs.push(measure(case.name, "-", "-")?);
            bares.push(bare_nanos(&case.bare));
        }
        let nanos = median(costs.iter().map(Cost::nanos_per_packet).collect());
        let ratio =
            median(costs.iter().zip(&bares).map(|(cost, bare)| bare / cost.nanos_per_packet()).collect());
        println!(
            "{:4} {:8.2} {:10.2} {:9.1} {:8.1} {:8.3} {:7.1}",
            case.name,
            1e3 / nanos,
            costs[0].events / costs[0].packets,
            nanos,
            median(bares),
            ratio,
            median(costs.iter().map(|cost| cost.peak_mb).collect()),
        );
    }
    flows(rounds)?;
    series(rounds)?;
    whole_process(rounds)
}

/// Cost per packet with 10 to 10,000 flows, on links that give each flow the same share.
fn flows(rounds: usize) -> Outcome<()> {
    println!("\ncost a packet by number of flows (1 Mbit/s each, RTT 100 ms, one bandwidth-delay product)");
    let mut few = 0.0;
    for count in [10, 100, 1000, 10_000] {
        let costs: Vec<Cost> =
            (0..rounds).map(|_| measure("flows", "-", &count.to_string())).collect::<Outcome<_>>()?;
        let nanos = median(costs.iter().map(Cost::nanos_per_packet).collect());
        few = if few == 0.0 { nanos } else { few };
        let peak = median(costs.iter().map(|cost| cost.peak_mb).collect());
        println!("{count:6} flows {nanos:7.1} ns/pkt, {:4.2} x the cost with 10, {peak:6.1} MB", nanos / few);
    }
    Ok(())
}

/// Additional cost of recording every 10 ms, in the same round.
fn series(rounds: usize) -> Outcome<()> {
    println!("\nrecording every 10 ms against not recording");
    for name in ["s1", "s2", "s4"] {
        let ratios = (0..rounds).map(|_| {
            let without = measure(name, "-", "-")?.seconds;
            Ok(measure(name, "10 ms", "-")?.seconds / without)
        });
        println!("{name:4} {:5.3} x", median(ratios.collect::<Outcome<_>>()?));
    }
    Ok(())
}

/// Scenario S1 through the program `leeway`, as users run it.
fn whole_process(rounds: usize) -> Outcome<()> {
    let program = std::env::current_exe()?.with_file_name("leeway");
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let status = Command::new(&program)
            .arg("sim")
            .arg(folder().join("scenarios/s1.toml"))
            .stdout(Stdio::null())
            .status()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if !status.success() {
            return Err("`leeway sim` failed".into());
        }
    }
    println!("\n`leeway sim bench/scenarios/s1.toml` as a whole process: {:.1} ms", median(times));
    Ok(())
}
