//! `leeway link`: runs a command behind an emulated link.

use crate::Failure;
use clap::Args;
use leeway_emulator::{Command, Direction, DirectionOptions, Ended, Error, LinkOptions};
use leeway_link::{Arq, JitterSpec, LossSpec, Rates};
use leeway_queue::{QueueSpec, Reason};
use leeway_units::{Duration, Rate, Size};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The 99th percentile of lateness above which a warning is printed.
const LATE: Duration = Duration::from_micros(500);

/// The link and the command behind it. Values are spelt as in scenario files.
#[derive(Args)]
pub struct Link {
    /// Rate from the command to the network, such as `2mbit` or "2 Mbit/s"; "10 Mbit/s, 2 Mbit/s
    /// at 5 s" changes it. Not limited by default.
    #[arg(long, value_name = "RATE")]
    up: Option<Rates>,
    /// Rate from the network to the command.
    #[arg(long, value_name = "RATE")]
    down: Option<Rates>,
    /// Propagation delay of each direction.
    #[arg(long, value_name = "TIME")]
    delay: Option<Duration>,
    #[command(flatten)]
    both: Both,
    #[command(flatten)]
    directions: PerDirection,
    /// Seed of losses, jitter and queues that use chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every packet's arrival, drop and departure to this file, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print at the end what the link carried and dropped, and how late it was. Without this only
    /// a warning if the link was late.
    #[arg(long, short)]
    verbose: bool,
    /// The command and its arguments; a shell by default.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Options for both directions. Options for one direction take precedence.
#[derive(Args)]
struct Both {
    /// Queue discipline of both directions, such as `codel:target=5ms`; `leeway queues` lists
    /// them. Drop-tail by default.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueSpec>,
    /// Size of the queues: "100 pkt", "150 kB", "1.5 BDP" or "unlimited". 1 BDP by default; 100
    /// packets for a link without delay.
    #[arg(long, value_name = "SIZE")]
    buffer: Option<Size>,
    /// File of delivery opportunities in mahimahi's format, instead of a rate.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["up", "down"])]
    trace: Option<PathBuf>,
    /// Losses, such as `random:p=1%` or `gilbert_elliott:p=1%,r=30%`.
    #[arg(long, value_name = "LOSS")]
    loss: Option<LossSpec>,
    /// Delay that varies, such as `uniform:range=5ms`.
    #[arg(long, value_name = "JITTER")]
    jitter: Option<JitterSpec>,
    /// Link-layer retransmission, such as `tries=4,delay=20ms`.
    #[arg(long, value_name = "ARQ")]
    arq: Option<Arq>,
}

/// Options for one direction only.
#[derive(Args)]
struct PerDirection {
    /// Propagation delay up.
    #[arg(long, value_name = "TIME")]
    up_delay: Option<Duration>,
    /// Propagation delay down.
    #[arg(long, value_name = "TIME")]
    down_delay: Option<Duration>,
    /// Queue discipline up.
    #[arg(long, value_name = "QUEUE")]
    up_queue: Option<QueueSpec>,
    /// Queue discipline down.
    #[arg(long, value_name = "QUEUE")]
    down_queue: Option<QueueSpec>,
    /// Buffer up.
    #[arg(long, value_name = "SIZE")]
    up_buffer: Option<Size>,
    /// Buffer down.
    #[arg(long, value_name = "SIZE")]
    down_buffer: Option<Size>,
    /// Trace up.
    #[arg(long, value_name = "FILE", conflicts_with = "up")]
    up_trace: Option<PathBuf>,
    /// Trace down.
    #[arg(long, value_name = "FILE", conflicts_with = "down")]
    down_trace: Option<PathBuf>,
    /// Losses up.
    #[arg(long, value_name = "LOSS")]
    up_loss: Option<LossSpec>,
    /// Losses down.
    #[arg(long, value_name = "LOSS")]
    down_loss: Option<LossSpec>,
}

/// Options of the hidden launcher, which becomes the command and dies with its parent.
#[derive(Args)]
pub struct Enter {
    parent: u32,
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Exit codes for a command that is not found, and for one that cannot be run, as in shells.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Options(_) | Error::Spec(_) | Error::File { .. } => Failure::Usage(error.to_string()),
            _ => Failure::Run(error.to_string()),
        }
    }
}

/// Runs the command and ends with its exit code.
pub fn run(link: &Link) -> Result<(), Failure> {
    let specs = link.options()?.specs()?;
    let notice = |text: &str| eprintln!("leeway link: {text}");
    let command = launched(&link.command)?;
    let outcome = leeway_emulator::run(&specs, link.seed, link.log.as_deref(), &command, notice)?;
    report("leeway link", &outcome.ended, outcome.overruns, link.verbose);
    passed_on(outcome.status)
}

/// The command, or a shell if there is none, started through this program's launcher.
pub fn launched(command: &[OsString]) -> Result<Command, Failure> {
    let this =
        std::env::current_exe().map_err(|error| Failure::Run(format!("cannot find itself: {error}")))?;
    let arguments = if command.is_empty() { vec![shell()] } else { command.to_vec() };
    Ok(Command { launcher: vec![this.into(), leeway_emulator::ENTER.into()], arguments })
}

/// Turns the end of the command into the end of this program.
pub fn passed_on(status: ExitStatus) -> Result<(), Failure> {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    match code {
        0 => Ok(()),
        code => Err(Failure::Command(u8::try_from(code).unwrap_or(u8::MAX))),
    }
}

/// Becomes the command.
pub fn enter(enter: &Enter) -> Result<(), Failure> {
    Err(not_run(&enter.command, &leeway_emulator::enter(enter.parent, &enter.command)))
}

/// Prints why a command could not be run, and returns the exit code for it.
pub fn not_run(command: &[OsString], error: &io::Error) -> Failure {
    let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    eprintln!("leeway: cannot run `{name}`: {error}");
    Failure::Command(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}

/// The user's shell.
pub fn shell() -> OsString {
    std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())
}

impl Link {
    fn options(&self) -> Result<LinkOptions, Failure> {
        let Link { both, directions, .. } = self;
        let trace = |file: &Option<PathBuf>| file.as_deref().map(DirectionOptions::read_trace).transpose();
        let mut options = LinkOptions::default();
        let common = &mut options.both;
        common.trace = trace(&both.trace)?;
        common.queue = both.queue.clone();
        common.buffer = both.buffer;
        common.delay = self.delay;
        common.jitter = both.jitter.clone();
        common.loss = both.loss.clone();
        common.arq = both.arq.clone();
        let [up, down] = &mut options.directions;
        up.rates = self.up.clone();
        up.trace = trace(&directions.up_trace)?;
        up.queue = directions.up_queue.clone();
        up.buffer = directions.up_buffer;
        up.delay = directions.up_delay;
        up.loss = directions.up_loss.clone();
        down.rates = self.down.clone();
        down.trace = trace(&directions.down_trace)?;
        down.queue = directions.down_queue.clone();
        down.buffer = directions.down_buffer;
        down.delay = directions.down_delay;
        down.loss = directions.down_loss.clone();
        Ok(options)
    }
}

/// Prints what a link did to the standard error, with `name` in front. Without `verbose`, prints
/// only if the link was late or lost packets outside its queues.
pub fn report(name: &str, ended: &Ended, overruns: [u64; 2], verbose: bool) {
    let late = ended.tallies.iter().any(|tally| tally.lateness.quantile(990) > LATE);
    let overrun = overruns.iter().any(|&packets| packets > 0);
    if !(late || overrun || verbose) {
        return;
    }
    for (i, direction) in Direction::BOTH.into_iter().enumerate() {
        let tally = &ended.tallies[i];
        let rate = Rate::of(leeway_units::Bytes::new(tally.left_bytes), ended.ran);
        let dropped: Vec<String> = Reason::ALL
            .into_iter()
            .map(|reason| (reason, tally.drops_by(reason)))
            .filter(|&(_, packets)| packets > 0)
            .map(|(reason, packets)| format!("{packets} {reason}"))
            .collect();
        let dropped = if dropped.is_empty() { "0".into() } else { dropped.join(", ") };
        let [p50, p99] = [500, 990].map(|permille| tally.lateness.quantile(permille).micros());
        eprintln!(
            "{name}: {:4}  {} packets, {:.2} Mbit/s, dropped {dropped}, marked {}; \
             late by {p50} us (median), {p99} us (99 %), {} us (most)",
            direction.as_str(),
            tally.left,
            rate.bits_per_sec() as f64 * 1e-6,
            tally.marked,
            tally.lateness.worst().micros(),
        );
        let lost = overruns[i] + tally.refused;
        if lost > 0 {
            eprintln!("{name}: {}: {lost} packets lost outside the link", direction.as_str());
        }
    }
    if late || overrun {
        let why = if ended.real_time {
            "the machine is too slow or too busy for this rate"
        } else {
            "this program had no real-time priority (it needs CAP_SYS_NICE)"
        };
        eprintln!("{name}: warning: the link ran late: {why}");
    }
}
