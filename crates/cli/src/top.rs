//! `leeway top`: shows every connection under a law of Leeway, live, in both directions. Ordinary
//! users see their own connections, through the helper.

mod layout;
mod sampler;
mod screen;

use crate::Failure;
use crate::output::stdout;
use crate::sockets::Direction;
use clap::{Args, ValueEnum};
use layout::{COLUMNS, HEADER, TEXTS, fit, line};
use sampler::Sampler;
use serde::Serialize;
use std::cmp::Ordering;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// The options of `leeway top`.
#[derive(Args)]
pub struct Top {
    /// Show only sockets under these laws: names as `leeway kernel list` shows them, or laws
    /// (`ledbat`).
    #[arg(value_name = "LAW")]
    laws: Vec<String>,
    /// What the rows are sorted by, largest first. In the live view a key changes the order.
    #[arg(long, short, value_enum, default_value_t = Order::Rate)]
    sort: Order,
    /// Seconds between two updates. Rates are means over this time.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Print a table once and end. This is the default if the output is not a terminal.
    #[arg(long)]
    once: bool,
    /// Print JSON once and end.
    #[arg(long)]
    json: bool,
}

/// The order of the rows: largest number first, or texts in alphabetical order.
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

/// Prints the sockets once, or shows the live view.
pub fn run(top: &Top) -> Result<(), Failure> {
    let mut sampler = Sampler::new(top.laws.clone());
    let first = sampler.sample()?;
    let interval = Duration::from_secs_f64(top.interval);
    if !top.once && !top.json && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return screen::run(&mut sampler, top.sort, interval);
    }
    if !first.is_empty() {
        std::thread::sleep(interval);
    }
    let mut rows = sampler.sample()?;
    sort(&mut rows, top.sort);
    let mut out = stdout();
    if top.json {
        serde_json::to_writer_pretty(&mut out, &rows).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    if rows.is_empty() {
        writeln!(out, "{}", sampler.nothing())?;
        return Ok(());
    }
    let cells: Vec<[String; COLUMNS]> = rows.iter().map(Row::cells).collect();
    let columns = fit(&cells, width());
    writeln!(out, "{}", line(&HEADER.map(str::to_owned), &columns))?;
    cells.iter().try_for_each(|row| writeln!(out, "{}", line(row, &columns)))?;
    sampler.notes().iter().try_for_each(|note| writeln!(out, "{note}"))?;
    Ok(())
}

/// Width of the terminal, or the number in the environment variable `COLUMNS`. Without both,
/// unlimited.
fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(ratatui::crossterm::terminal::size).and_then(Result::ok);
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.map(|(columns, _)| usize::from(columns)).or_else(said).unwrap_or(usize::MAX)
}

/// One socket in one direction, as a row and in JSON.
#[derive(Debug, Serialize)]
struct Row {
    /// The kernel's name of the law.
    name: String,
    /// The law with its parameters.
    law: String,
    /// `up`: data that this machine sends; `down`: data that it receives, limited by its receive
    /// windows.
    direction: Direction,
    program: Option<String>,
    pid: Option<u32>,
    local: SocketAddr,
    remote: SocketAddr,
    netns: u32,
    window_bytes: f64,
    window_pkt: f64,
    inflight_pkt: u32,
    /// The law's estimate.
    queuing_delay_us: u32,
    srtt_us: u32,
    phase: String,
    /// Bytes acknowledged (up) or received (down).
    acked_bytes: u64,
    /// Rate since the last sample; `None` in the first one.
    rate_bps: Option<f64>,
}

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
            self.direction.as_str().to_owned(),
            self.phase.clone(),
            format!("{:.2}", self.window_pkt),
            self.inflight_pkt.to_string(),
            format!("{:.1}", f64::from(self.queuing_delay_us) / 1000.0),
            format!("{:.1}", f64::from(self.srtt_us) / 1000.0),
            self.rate_bps.map_or_else(|| "-".to_owned(), |bps| format!("{:.2}", bps * 1e-6)),
        ]
    }

    /// Whether `text` occurs in one of the text columns.
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
