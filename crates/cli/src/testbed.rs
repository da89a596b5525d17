//! `leeway testbed`: measures a shared line with its owner and the others, under each mechanism of
//! sharing.

use crate::Failure;
use crate::output::stdout;
use clap::Args;
use leeway_link::Rates;
use leeway_testbed::experiment::{self, Claim, Experiment, Outcome, Point};
use leeway_testbed::{Arrivals, Direction, Mechanism, Plan, Row, Setup, compare, mechanism};
use leeway_units::{Bytes, Duration, Size};
use serde::Serialize;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Which experiments to run, and what to change in them.
#[derive(Args)]
pub struct Testbed {
    /// Experiments: ids such as `dimogerontakis2017:overload`, their last part, a paper, or `all`.
    #[arg(required_unless_present = "list", value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// List the experiments and the mechanisms.
    #[arg(long)]
    list: bool,
    /// Mechanisms to compare instead of the experiment's own. May be repeated.
    #[arg(long, short, value_delimiter = ';', value_name = "NAME")]
    mechanism: Vec<Mechanism>,
    /// Number of rounds. In each round every mechanism takes its turn with the same requests.
    /// Medians are over rounds.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Length of each measurement; the experiment's own by default.
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Time at the start of each measurement in which nothing is counted.
    #[arg(long, value_name = "TIME")]
    warmup: Option<Duration>,
    /// Number of lines of up to 2 Mbit/s that are emulated at the same time, each with hosts of
    /// its own. A faster line counts as several.
    #[arg(long, short, default_value_t = jobs(), value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    jobs: usize,
    /// One round, three seconds for each measurement: checks that everything works. The figures
    /// are of no use.
    #[arg(long, conflicts_with_all = ["repetitions", "duration", "warmup"])]
    quick: bool,
    /// Seed of the first round's requests; each round takes the next number.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Rate of the line in both directions, perhaps with changes: `"10 Mbit/s, 2 Mbit/s at 5 s"`.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rates>,
    /// Rate of the line towards the Internet, if it differs.
    #[arg(long, value_name = "RATE")]
    up: Option<Rates>,
    /// File of delivery opportunities for downloads, in mahimahi's format, instead of a rate.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<PathBuf>,
    /// Round-trip time of the line without a queue.
    #[arg(long, value_name = "TIME")]
    rtt: Option<Duration>,
    /// Buffer of the line's queues: `100pkt`, `1.5BDP`.
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Size>,
    /// Loss on the access link of every client, such as `random:p=1%`.
    #[arg(long, value_name = "LOSS")]
    access_loss: Option<String>,
    /// The congestion control of servers, and of clients that upload, by the kernel's name;
    /// `cubic` by default.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Requests per second of the primary.
    #[arg(long, value_name = "N")]
    primary_rate: Option<f64>,
    /// Requests per second of all secondaries together.
    #[arg(long, value_name = "N")]
    secondary_rate: Option<f64>,
    /// Number of secondary users.
    #[arg(long, value_name = "N")]
    users: Option<usize>,
    /// The most requests that a secondary has outstanding.
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Size of all objects, such as 12.5kB.
    #[arg(long, value_name = "SIZE")]
    object: Option<Bytes>,
    /// The secondaries upload instead of downloading.
    #[arg(long)]
    upload: bool,
    /// The primary also makes a telephone call.
    #[arg(long)]
    call: bool,
    /// Requests come at random times (a Poisson process) instead of at equal intervals.
    #[arg(long)]
    poisson: bool,
    /// The `leeway` program that gateways and relays run; this one by default.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the results as JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Also write the results as JSON to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl From<leeway_testbed::Error> for Failure {
    fn from(error: leeway_testbed::Error) -> Self {
        match error {
            leeway_testbed::Error::Network(error) => error.into(),
            leeway_testbed::Error::Usage(message) => Failure::Usage(message),
            other => Failure::Run(other.to_string()),
        }
    }
}

/// The results of an experiment.
#[derive(Serialize)]
struct Finished {
    id: &'static str,
    title: &'static str,
    rounds: u32,
    duration_s: f64,
    points: Vec<Outcome>,
    claims: Vec<Claim>,
}

/// Runs the chosen experiments and prints their results.
pub fn run(testbed: &Testbed) -> Result<(), Failure> {
    let mut out = stdout();
    if testbed.list {
        return list(&mut out);
    }
    let mut chosen: Vec<Experiment> = Vec::new();
    for name in &testbed.experiments {
        let named = experiment::named(name);
        if named.is_empty() {
            let ids: Vec<&str> = experiment::all().iter().map(|experiment| experiment.id).collect();
            return Err(Failure::Usage(format!(
                "there is no experiment `{name}`; there are {}",
                ids.join(", ")
            )));
        }
        let new = |one: &Experiment| chosen.iter().all(|known| known.id != one.id);
        let named: Vec<Experiment> = named.into_iter().filter(new).collect();
        chosen.extend(named);
    }
    let mut all = Vec::new();
    for experiment in &chosen {
        let finished = testbed.play(experiment)?;
        if !testbed.json {
            print(&finished, &mut out)?;
        }
        all.push(finished);
        // Written after each experiment, so that results are kept if a later one fails.
        if let Some(path) = &testbed.out {
            let text = json(&all)?;
            fs::write(path, text)
                .map_err(|error| Failure::Run(format!("cannot write {}: {error}", path.display())))?;
        }
    }
    if testbed.json {
        out.write_all(json(&all)?.as_bytes())?;
    }
    Ok(())
}

impl Testbed {
    fn play(&self, experiment: &Experiment) -> Result<Finished, Failure> {
        let mechanisms = match self.mechanism.as_slice() {
            [] => experiment.mechanisms.iter().filter_map(|name| name.parse().ok()).collect(),
            chosen => chosen.to_vec(),
        };
        let leeway = match &self.program {
            Some(program) => absolute(program),
            None => std::env::current_exe()?,
        };
        let rounds = if self.quick { 1 } else { self.repetitions };
        let points = self.points(experiment);
        let setups: Vec<Setup> = points.iter().map(|point| point.setup.clone()).collect();
        let duration_s = setups.last().map_or(0.0, |setup| setup.duration.as_secs_f64());
        let show = io::stderr().is_terminal();
        let progress = |done: usize, all: usize| {
            if show {
                eprint!("\r\x1b[K{}: {done} of {all} measurements", experiment.id);
            }
        };
        let plan = Plan { leeway: &leeway, rounds, seed: self.seed, jobs: self.jobs };
        let comparisons = compare(&setups, &mechanisms, plan, progress);
        if show {
            eprint!("\r\x1b[K");
        }
        let outcomes = points.iter().zip(comparisons?);
        let points: Vec<Outcome> =
            outcomes.map(|(point, comparison)| Outcome::of(point, comparison)).collect();
        let claims = experiment.claims(&points);
        Ok(Finished { id: experiment.id, title: experiment.title, rounds, duration_s, points, claims })
    }

    /// The points of the experiment with the options applied. Points that become equal are merged
    /// into one.
    fn points(&self, experiment: &Experiment) -> Vec<Point> {
        let changed = |point: &Point| Point { setup: self.changed(&point.setup), ..point.clone() };
        let mut points: Vec<Point> = experiment.points.iter().map(changed).collect();
        points.dedup_by(|later, earlier| later.setup == earlier.setup);
        if let ([point], 2..) = (points.as_mut_slice(), experiment.points.len()) {
            point.label.clear();
        }
        points
    }

    /// The setup of the experiment with the options applied.
    fn changed(&self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        let line = &mut setup.line;
        if let Some(rate) = &self.rate {
            line.rate = rate.clone();
        }
        line.up = self.up.clone().or(line.up.take());
        line.trace = self.trace.as_deref().map(absolute).or(line.trace.take());
        line.rtt = self.rtt.unwrap_or(line.rtt);
        line.buffer = self.buffer.unwrap_or(line.buffer);
        line.access_loss = self.access_loss.clone().or(line.access_loss.take());
        if let Some(congestion) = &self.congestion {
            setup.congestion.clone_from(congestion);
        }
        if let Some(primary) = &mut setup.primary {
            primary.arrivals = self.arrivals(primary.arrivals, self.primary_rate);
        }
        let secondary = &mut setup.secondary;
        secondary.arrivals = self.arrivals(secondary.arrivals, self.secondary_rate);
        secondary.users = self.users.unwrap_or(secondary.users);
        secondary.connections = self.connections.unwrap_or(secondary.connections);
        if self.upload {
            secondary.direction = Direction::Up;
        }
        if let Some(object) = self.object {
            secondary.object_bytes = object.get();
            if let Some(primary) = &mut setup.primary {
                primary.object_bytes = object.get();
            }
        }
        setup.call |= self.call;
        if self.quick {
            setup.duration = std::time::Duration::from_secs(3);
            setup.warmup = std::time::Duration::from_secs(1);
            setup.patience = std::time::Duration::from_secs(1);
        }
        setup.duration = self.duration.map_or(setup.duration, span);
        setup.warmup = self.warmup.map_or(setup.warmup, span);
        setup
    }
}

impl Testbed {
    fn arrivals(&self, own: Arrivals, rate: Option<f64>) -> Arrivals {
        match (own, rate) {
            (Arrivals::Closed, None) => Arrivals::Closed,
            (Arrivals::Even(own) | Arrivals::Poisson(own), None) | (_, Some(own)) => match self.poisson {
                true => Arrivals::Poisson(own),
                false => Arrivals::Even(own),
            },
        }
    }
}

/// Lines that this machine emulates at the same time without running late: five per processor.
fn jobs() -> usize {
    5 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn span(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.nanos())
}

/// The path as an absolute path, because other processes use it in other folders.
fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn json(all: &[Finished]) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(all).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(text + "\n")
}

fn list(out: &mut impl Write) -> Result<(), Failure> {
    let experiments = experiment::all();
    let names = experiments.iter().map(|experiment| (experiment.id, experiment.title));
    let width =
        names.clone().chain(mechanism::NAMES.iter().copied()).map(|(name, _)| name.len()).max().unwrap_or(0);
    writeln!(out, "Experiments")?;
    for (id, title) in names {
        writeln!(out, "  {id:width$}  {title}")?;
    }
    writeln!(out, "\nMechanisms; also {}", mechanism::VARIANTS)?;
    for (name, what) in mechanism::NAMES {
        writeln!(out, "  {name:width$}  {what}")?;
    }
    Ok(())
}

/// A column of the table: its heading, and what it shows of a row.
type Column = (&'static str, fn(&Row) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("req/s", |row| Some(format!("{:.1}", row.median.primary_per_s?))),
    ("mean", |row| Some(millis(row.median.primary_mean_s?))),
    ("p50", |row| Some(millis(row.median.primary_p50_s?))),
    ("p95", |row| Some(millis(row.median.primary_p95_s?))),
    ("p99", |row| Some(millis(row.median.primary_p99_s?))),
    ("x mean", |row| Some(format!("{:.2}", row.of_prim_only.as_ref()?.primary_mean?))),
    ("x p99", |row| Some(format!("{:.2}", row.of_prim_only.as_ref()?.primary_p99?))),
    ("second. req/s", |row| Some(format!("{:.1}", row.median.secondary_per_s?))),
    ("mean", |row| Some(millis(row.median.secondary_mean_s?))),
    ("ping p99", |row| Some(millis(row.median.ping_p99_s?))),
    ("MOS", |row| Some(format!("{:.2}", row.median.mos?))),
    ("resent", |row| Some(format!("{:.0}", row.median.retransmitted?))),
    ("line Mbit/s", |row| Some(format!("{:.2}", row.median.down_bps? * 1e-6))),
];

fn millis(seconds: f64) -> String {
    if seconds < 10.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

fn print(finished: &Finished, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}: {}", finished.id, finished.title)?;
    match finished.rounds {
        1 => writeln!(out, "one round of {} s", finished.duration_s)?,
        rounds => writeln!(out, "medians of {rounds} rounds of {} s", finished.duration_s)?,
    }
    for point in &finished.points {
        writeln!(out)?;
        if !point.label.is_empty() {
            writeln!(out, "{}", point.label)?;
        }
        writeln!(out, "{}; servers under {}", point.line, point.congestion)?;
        print_rows(&point.comparison.rows, out)?;
    }
    if !finished.claims.is_empty() {
        writeln!(out)?;
    }
    for claim in &finished.claims {
        let verdict = match claim.holds {
            Some(true) => "holds",
            Some(false) => "differs",
            None => "open",
        };
        writeln!(out, "{verdict:8} {}: {}; published: {}", claim.text, claim.found, claim.published)?;
    }
    writeln!(out)
}

/// Prints a table with the columns that have a value in some row.
fn print_rows(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    let mut columns = vec![vec!["mechanism".to_owned()]];
    columns[0].extend(rows.iter().map(|row| row.mechanism.clone()));
    for (heading, of) in COLUMNS {
        let cells: Vec<Option<String>> = rows.iter().map(of).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
            columns.push(std::iter::once((*heading).to_owned()).chain(cells).collect());
        }
    }
    for line in 0..=rows.len() {
        let cells = columns.iter().enumerate().map(|(i, column)| {
            let width = column.iter().map(String::len).max().unwrap_or(0);
            if i == 0 { format!("{:width$}", column[line]) } else { format!("{:>width$}", column[line]) }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}
