//! `leeway run`: runs a command whose traffic yields to all other traffic.
//!
//! The command gets a cgroup of its own; programs in the kernel put every connection of the cgroup
//! under the law. Root makes the cgroup itself, other users ask the helper.

use crate::account::{self, End, Told};
use crate::attend::{Ended, attend};
use crate::helper::request::{self, Request};
use crate::output::atomic::AtomicFile;
use crate::{Failure, link};
use clap::Args;
use leeway_control::{LawError, LawSpec};
use leeway_kernel::{Asker, Confinement, Dscp, DscpError, KernelError, Policy, Process, Receive};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What `leeway run --help` ends with.
pub const HELP: &str = "Examples:\n  \
    leeway run -- rsync -a ~/photos backup.example.org:photos\n      \
    a backup that uses only the capacity that others leave\n  \
    leeway run --law flower -- curl -O https://example.org/file\n      \
    under another law; `leeway laws` lists them\n  \
    leeway run\n      \
    a shell: the traffic of everything that is started in it yields\n  \
    leeway run --json account.json -- restic backup ~\n      \
    also write the account to a file: bytes, how long the traffic yielded, its queue\n\n\
    The command keeps its terminal, its signals and its exit code, and its children are included, as with `nice`. A program \
    that chooses its own congestion control or DSCP gets a success, and its choice has no effect.\n\n\
    Exit codes: that of the command; 127 if it is not found, 126 if it cannot be run; 1 and 2 also if its traffic cannot \
    be controlled. In that case the command is not run.";

/// The hidden subcommand that is the reaper, the process that cleans up after a command.
pub const REAP: &str = "run-reap";
/// The first file descriptor after the three standard streams.
const FIRST_OTHER: i32 = 3;

/// The options of `leeway run`.
#[derive(Args)]
#[command(trailing_var_arg = true)]
pub struct Run {
    #[command(flatten)]
    manners: Manners,
    /// Print at the end the bytes sent and received, how long the traffic yielded, and its queue;
    /// the default on a terminal.
    #[arg(long, overrides_with = "no_report")]
    report: bool,
    /// Print nothing at the end.
    #[arg(long)]
    no_report: bool,
    /// Write the same as JSON to this file when the command has ended.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The command and its arguments; a shell by default.
    #[arg(value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How the programs send and receive; the same options for `leeway run` and `leeway attach`.
#[derive(Args)]
pub struct Manners {
    /// The law of the TCP connections, perhaps with parameters, such as `ledbat:target=5ms`;
    /// `leeway laws` lists them.
    #[arg(long, value_name = "LAW", default_value = LAW, value_parser = law)]
    law: LawSpec,
    /// DSCP mark of the packets: `le` (lower effort, RFC 8622), a number from 0 to 63, or `none`
    /// to leave them as they are.
    #[arg(long, value_name = "DSCP", default_value = "le", value_parser = mark)]
    dscp: Mark,
    /// The law that limits downloads, by the receive windows of the connections: `ledbatpp`,
    /// `ledbat` or `ebb`, perhaps with parameters, or `none` to leave downloads unlimited.
    #[arg(long, value_name = "LAW", default_value = RECEIVE, value_parser = receive)]
    receive: Downloads,
}

/// The default law of what is sent; docs/run.md gives the reason.
pub const LAW: &str = "ebb";
/// The default law that limits downloads.
const RECEIVE: &str = Receive::DEFAULT_LAW;

/// The law that limits downloads; `None` leaves them unlimited.
#[derive(Clone)]
struct Downloads(Option<Receive>);

/// The DSCP mark; `None` leaves the program's own.
#[derive(Clone, Copy)]
struct Mark(Option<Dscp>);

fn law(text: &str) -> Result<LawSpec, LawError> {
    text.parse()
}

fn mark(text: &str) -> Result<Mark, DscpError> {
    if text == "none" { Ok(Mark(None)) } else { text.parse().map(|dscp| Mark(Some(dscp))) }
}

fn receive(text: &str) -> Result<Downloads, KernelError> {
    if text == "none" {
        return Ok(Downloads(None));
    }
    Receive::new(text.parse()?).map(|receive| Downloads(Some(receive)))
}

impl Manners {
    /// These options as the policy for the kernel.
    pub fn policy(&self) -> Policy {
        Policy { law: self.law.clone(), dscp: self.dscp.0, receive: self.receive.0.clone() }
    }
}

/// Becomes the command, in a cgroup of its own. If an account is wanted at the end, this process
/// runs the command as a child and waits.
pub fn run(run: &Run) -> Result<(), Failure> {
    let shell = [link::shell()];
    let command = if run.command.is_empty() { &shell[..] } else { &run.command };
    // Before the command, which may run for hours, so that a wrong folder is found now.
    let file = run.json.as_deref().map(AtomicFile::create).transpose()?;
    confine(&run.manners.policy(), command)?;
    let report = !run.no_report && (run.report || std::io::stderr().is_terminal());
    if report || file.is_some() {
        return accounted(command, report, file);
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    Err(link::not_run(command, &error))
}

/// Runs the command, and then prints the account of its traffic, or writes it to the file.
fn accounted(command: &[OsString], report: bool, file: Option<AtomicFile>) -> Result<(), Failure> {
    let began = Instant::now();
    let ended = attend(command)?;
    let seconds = began.elapsed().as_secs_f64();
    let wanted = file.is_some();
    let tell = |told: &Told| {
        if report {
            eprint!("{}", account::words(told, seconds));
        }
        let Some(file) = file else { return Ok(()) };
        let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (exit_code, signal) = match ended {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signal) => (None, Some(signal)),
        };
        account::write_json(file, told, &End { command, seconds, exit_code, signal })
    };
    match (own_account().and_then(|told| tell(&told)), ended) {
        (Ok(()), ended) => ended.follow(),
        // The file was asked for, and nothing else says that it is missing.
        (Err(failure), Ended::Code(0)) if wanted => Err(failure),
        // The end of the command matters more than its account.
        (Err(failure), ended) => {
            if let Failure::Run(why) | Failure::Usage(why) = failure {
                eprintln!("leeway: the command has ended; its account is missing: {why}");
            }
            ended.follow()
        }
    }
}

/// The account of the command that this process belongs to. This process is in the cgroup, so the
/// cgroup and its account still exist.
fn own_account() -> Result<Told, Failure> {
    if !rustix::process::geteuid().is_root() {
        return request::account();
    }
    match account::confinement_of(std::process::id())? {
        Some(confinement) => Ok(Told::of(&confinement)?),
        None => Err(Failure::Run("the cgroup of the command was removed, and the account with it".into())),
    }
}

/// Moves this process to a cgroup under the policy. Root does that itself and starts the reaper.
/// For other users the helper moves the process and cleans up.
fn confine(policy: &Policy, command: &[OsString]) -> Result<(), Failure> {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let what = words.join(" ");
    let uid = rustix::process::geteuid();
    if !uid.is_root() {
        return request::ask(&Request::new(policy, &what));
    }
    let asker = Asker { uid: uid.as_raw(), what };
    let confinement = Confinement::of_process(&Process::this(), policy, &asker)?;
    start_reaper(&confinement.name)
}

/// Starts the reaper, which cleans up after the command has ended. The reaper must not be a child
/// of the command, because the command may wait for all its children. So an intermediate process
/// starts the reaper and ends.
pub fn start_reaper(name: &str) -> Result<(), Failure> {
    let status = itself()?.args([REAP, "--detach", name]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Run(format!("the process that cleans up did not start: {status}"))),
        Err(error) => Err(Failure::Run(format!("cannot start the process that cleans up: {error}"))),
    }
}

fn itself() -> Result<Command, Failure> {
    let this =
        std::env::current_exe().map_err(|error| Failure::Run(format!("cannot find itself: {error}")))?;
    let mut command = Command::new(this);
    command.current_dir("/");
    Ok(command)
}

/// The options of the hidden reaper.
#[derive(Args)]
pub struct Reap {
    /// Start the reaper in a session of its own, and end.
    #[arg(long)]
    detach: bool,
    /// The name of the confinement to clean up.
    name: String,
}

/// Waits until the cgroup of the command is empty, and removes it.
pub fn reap(reap: &Reap) -> Result<(), Failure> {
    if !reap.detach {
        return Ok(leeway_kernel::confinement(&reap.name)?.remove_when_empty()?);
    }
    leeway_kernel::confinement(&reap.name)?.leave()?;
    // Close the inherited descriptors: an open pipe or lock would make others wait for the reaper.
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number >= FIRST_OTHER) {
        // One of these numbers belonged to the listing itself and is closed already.
        let _ = nix::unistd::close(number);
    }
    rustix::process::setsid().map_err(|error| Failure::Run(format!("cannot leave the session: {error}")))?;
    // Whoever made a network namespace may end all that runs in it, as `leeway testnet` does. The
    // reaper needs no network, so an empty one does.
    let unshared = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET);
    unshared.map_err(|error| Failure::Run(format!("cannot leave the network: {error}")))?;
    let null = (Stdio::null(), Stdio::null(), Stdio::null());
    itself()?.args([REAP, &reap.name]).stdin(null.0).stdout(null.1).stderr(null.2).spawn()?;
    Ok(())
}
