//! `leeway top`: every socket under a law of ours, live.

mod screen;

use crate::Failure;
use clap::{Args, ValueEnum};
use leeway_kernel::{KernelError, Loaded, Socket};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What to show of the sockets under the laws in the kernel.
#[derive(Args)]
pub struct Top {
    /// Only sockets under these: names as `leeway kernel list` shows them, or laws (`ledbat`).
    #[arg(value_name = "LAW")]
    laws: Vec<String>,
    /// What is on top; a key of the same letter changes it.
    #[arg(long, short, value_enum, default_value_t = Order::Rate)]
    sort: Order,
    /// Seconds between two looks, over which rates are taken.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Print a table once and end; also what happens where the output is not a terminal.
    #[arg(long)]
    once: bool,
    /// Print JSON once and end.
    #[arg(long)]
    json: bool,
}

/// What the rows are sorted by; the largest first, texts in their order.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Order {
    /// Bytes acknowledged a second.
    Rate,
    /// The law's window.
    Window,
    /// The law's estimate of the queuing delay.
    Delay,
    /// Smoothed round-trip time.
    #[value(name = "rtt")]
    RoundTrip,
    /// The name of the law in the kernel.
    Law,
    /// The name of the program.
    Program,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// Shows it.
pub fn run(top: &Top) -> Result<(), Failure> {
    let mut sampler = Sampler::new(top.laws.clone());
    sampler.check()?;
    let interval = Duration::from_secs_f64(top.interval);
    if !top.once && !top.json && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return screen::run(&mut sampler, top.sort, interval);
    }
    if sampler.sample()?.iter().any(|row| row.rate_bps.is_none()) {
        std::thread::sleep(interval);
    }
    let mut rows = sampler.sample()?;
    sort(&mut rows, top.sort);
    let mut out = io::stdout().lock();
    if top.json {
        serde_json::to_writer_pretty(&mut out, &rows).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    if rows.is_empty() {
        writeln!(out, "{}", nothing()?)?;
        return Ok(());
    }
    let cells: Vec<[String; COLUMNS]> = rows.iter().map(Row::cells).collect();
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let longest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            longest.max(HEADER[column].len())
        })
        .collect();
    let header = HEADER.map(str::to_owned);
    std::iter::once(&header).chain(&cells).try_for_each(|row| write_line(&mut out, row, &widths))?;
    Ok(())
}

fn write_line(out: &mut impl Write, cells: &[String; COLUMNS], widths: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let cell = if column < TEXTS { format!("{cell:width$}") } else { format!("{cell:>width$}") };
        line.push_str(&cell);
        line.push_str("  ");
    }
    writeln!(out, "{}", line.trim_end())
}

/// Why there are no rows.
fn nothing() -> Result<&'static str, Failure> {
    Ok(match leeway_kernel::names()?.is_empty() {
        true => "no law is loaded; load one with: leeway kernel load ledbat",
        false => "no socket is under a law",
    })
}

/// One socket as it is shown.
#[derive(Debug, Serialize)]
struct Row {
    /// The kernel's name of the law.
    name: String,
    /// The law with its parameters.
    law: String,
    program: Option<String>,
    pid: Option<u32>,
    local: SocketAddr,
    remote: SocketAddr,
    netns: u32,
    window_bytes: f64,
    window_pkt: f64,
    inflight_pkt: u32,
    /// The law's own estimate.
    queuing_delay_us: u32,
    srtt_us: u32,
    phase: &'static str,
    acked_bytes: u64,
    /// From the bytes that were acknowledged since the last look; none at the first.
    rate_bps: Option<f64>,
}

const COLUMNS: usize = 9;
/// The first columns are texts, to the left.
const TEXTS: usize = 4;
const HEADER: [&str; COLUMNS] =
    ["law", "program", "connection", "phase", "window pkt", "in flight", "delay ms", "RTT ms", "Mbit/s"];

impl Row {
    fn cells(&self) -> [String; COLUMNS] {
        let program = match (&self.program, self.pid) {
            (Some(program), Some(pid)) => format!("{program} ({pid})"),
            _ => "-".to_owned(),
        };
        [
            self.name.clone(),
            program,
            format!("{} > {}", self.local, self.remote),
            self.phase.to_owned(),
            format!("{:.2}", self.window_pkt),
            self.inflight_pkt.to_string(),
            format!("{:.1}", f64::from(self.queuing_delay_us) / 1000.0),
            format!("{:.1}", f64::from(self.srtt_us) / 1000.0),
            self.rate_bps.map_or_else(|| "-".to_owned(), |bps| format!("{:.2}", bps * 1e-6)),
        ]
    }

    /// Whether a text is in one of its texts.
    fn has(&self, text: &str) -> bool {
        self.cells()[..TEXTS].iter().any(|cell| cell.contains(text))
    }
}

fn sort(rows: &mut [Row], order: Order) {
    let number = |a: f64, b: f64| b.total_cmp(&a);
    let by_order = |a: &Row, b: &Row| -> Ordering {
        match order {
            Order::Rate => number(a.rate_bps.unwrap_or(-1.0), b.rate_bps.unwrap_or(-1.0)),
            Order::Window => number(a.window_bytes, b.window_bytes),
            Order::Delay => b.queuing_delay_us.cmp(&a.queuing_delay_us),
            Order::RoundTrip => b.srtt_us.cmp(&a.srtt_us),
            Order::Law => a.name.cmp(&b.name),
            Order::Program => (&a.program, a.pid).cmp(&(&b.program, b.pid)),
        }
    };
    let address = |row: &Row| (row.netns, row.local, row.remote);
    rows.sort_by(|a, b| by_order(a, b).then_with(|| address(a).cmp(&address(b))));
}

/// Looks at the sockets again and again.
struct Sampler {
    laws: Vec<String>,
    /// Bytes acknowledged at the last look, and when that was, by connection.
    before: HashMap<(u32, SocketAddr, SocketAddr), (u64, Instant)>,
    /// Whose a socket is, by its inode number.
    programs: HashMap<u64, Option<(String, u32)>>,
}

impl Sampler {
    fn new(laws: Vec<String>) -> Sampler {
        Sampler { laws, before: HashMap::new(), programs: HashMap::new() }
    }

    /// A law that is asked for and neither loaded nor known is a mistake.
    fn check(&self) -> Result<(), Failure> {
        let names = leeway_kernel::names()?;
        let unknown = self.laws.iter().find(|law| {
            !names.contains(law) && !leeway_control::laws().iter().any(|one| one.name == law.as_str())
        });
        unknown.map_or(Ok(()), |law| {
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            Err(Failure::Usage(format!(
                "{law} is neither a law nor the name of one that is loaded; loaded: {names}"
            )))
        })
    }

    fn sample(&mut self) -> Result<Vec<Row>, Failure> {
        let mut found: Vec<(Loaded, Vec<Socket>, Instant)> = Vec::new();
        for name in leeway_kernel::names()? {
            let law = match Loaded::find(&name) {
                Ok(law) => law,
                // Of another version, or unloaded meanwhile.
                Err(KernelError::Failed { .. } | KernelError::Unknown { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let asked = |asked: &String| *asked == law.name || asked == law.spec.name();
            if self.laws.is_empty() || self.laws.iter().any(asked) {
                let sockets = law.sockets()?;
                found.push((law, sockets, Instant::now()));
            }
        }
        self.find_programs(found.iter().flat_map(|(_, sockets, _)| sockets).map(|socket| socket.inode));
        let mut now = HashMap::new();
        let mut rows = Vec::new();
        for (law, sockets, when) in &found {
            for socket in sockets {
                let key = (socket.netns, socket.local, socket.remote);
                now.insert(key, (socket.acked_bytes, *when));
                let rate_bps = self.before.get(&key).filter(|(bytes, _)| *bytes <= socket.acked_bytes).map(
                    |(bytes, before)| {
                        (socket.acked_bytes - bytes) as f64 * 8.0 / (*when - *before).as_secs_f64().max(1e-6)
                    },
                );
                rows.push(self.row(law, socket, rate_bps));
            }
        }
        self.before = now;
        Ok(rows)
    }

    fn row(&self, law: &Loaded, socket: &Socket, rate_bps: Option<f64>) -> Row {
        let program = self.programs.get(&socket.inode).cloned().flatten();
        let window_bytes = socket.output.window_bytes_f64();
        Row {
            name: law.name.clone(),
            law: law.spec.to_string(),
            pid: program.as_ref().map(|(_, pid)| *pid),
            program: program.map(|(name, _)| name),
            local: socket.local,
            remote: socket.remote,
            netns: socket.netns,
            window_bytes,
            window_pkt: window_bytes / f64::from(socket.mss_bytes.max(1)),
            inflight_pkt: socket.inflight,
            queuing_delay_us: socket.output.queuing_delay_us,
            srtt_us: socket.srtt_us,
            phase: socket.output.phase().as_str(),
            acked_bytes: socket.acked_bytes,
            rate_bps,
        }
    }

    /// Looks through the descriptors of all programs, but only when there are sockets that it has not seen before.
    fn find_programs(&mut self, inodes: impl Iterator<Item = u64>) {
        let present: BTreeSet<u64> = inodes.filter(|inode| *inode != 0).collect();
        self.programs.retain(|inode, _| present.contains(inode));
        let mut wanted: BTreeSet<u64> =
            present.into_iter().filter(|inode| !self.programs.contains_key(inode)).collect();
        if wanted.is_empty() {
            return;
        }
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // Programs end, and some are not ours to look at.
            for descriptor in std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
                let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
                let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
                let Some(inode) = inode.and_then(|digits| digits.parse().ok()) else { continue };
                if wanted.remove(&inode) {
                    let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                    self.programs.insert(inode, Some((name.trim_end().to_owned(), pid)));
                }
            }
        }
        self.programs.extend(wanted.into_iter().map(|inode| (inode, None)));
    }
}
