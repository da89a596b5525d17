//! `leeway run`: a command whose traffic gives way.

use crate::account::{self, End, Told};
use crate::attend::{Ended, attend};
use crate::helper::request::{self, Request};
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
    a shell: everything that is started in it gives way\n  \
    leeway run --json account.json -- restic backup ~\n      \
    and what went and came, how long it gave way and which queue it kept, in a file\n\n\
    The command keeps its terminal, its signals and its exit code, and its children are included, as with `nice`. What it \
    chooses itself as congestion control or DSCP is answered with success and not done.\n\n\
    Exit codes: that of the command; 127 if it is not there, 126 if it cannot be run; 1 and 2 also if its traffic cannot \
    be controlled, and then it is not run.";

/// The name of the reaper among the subcommands.
pub const REAP: &str = "run-reap";
/// The first descriptor that is not one of the standard streams.
const FIRST_OTHER: i32 = 3;

/// How a command sends, and which.
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

/// How programs send; the same for `leeway run` and `leeway attach`.
#[derive(Args)]
pub struct Manners {
    /// The law of its TCP connections, with parameters if need be, such as `ledbat:target=5ms`;
    /// `leeway laws` lists them.
    #[arg(long, value_name = "LAW", default_value = LAW, value_parser = law)]
    law: LawSpec,
    /// Mark of its packets: `le` (lower effort, RFC 8622), a number from 0 to 63, or `none` to
    /// leave them as they are.
    #[arg(long, value_name = "DSCP", default_value = "le", value_parser = mark)]
    dscp: Mark,
    /// The law that holds downloads back, by the receive windows of the connections: `ledbatpp` or
    /// `ledbat` with their parameters, or `none` to let downloads come.
    #[arg(long, value_name = "LAW", default_value = RECEIVE, value_parser = receive)]
    receive: Downloads,
}

/// The law of what is sent, as far as nothing else is asked for; `docs/run.md` says why.
pub const LAW: &str = "ebb";
/// The law that holds downloads back, as far as nothing else is asked for.
const RECEIVE: &str = Receive::DEFAULT_LAW;

/// What holds downloads back, if anything.
#[derive(Clone)]
struct Downloads(Option<Receive>);

/// A mark, or that of the program.
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
    /// As the kernel takes it.
    pub fn policy(&self) -> Policy {
        Policy { law: self.law.clone(), dscp: self.dscp.0, receive: self.receive.0.clone() }
    }
}

/// Becomes the command in a cgroup of its own; where an account is wanted at the end, it runs the
/// command and waits.
pub fn run(run: &Run) -> Result<(), Failure> {
    let shell = [link::shell()];
    let command = if run.command.is_empty() { &shell[..] } else { &run.command };
    confine(&run.manners.policy(), command)?;
    let report = !run.no_report && (run.report || std::io::stderr().is_terminal());
    if report || run.json.is_some() {
        return accounted(run, command, report);
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    Err(link::not_run(command, &error))
}

/// Runs the command and tells what its traffic did.
fn accounted(run: &Run, command: &[OsString], report: bool) -> Result<(), Failure> {
    let began = Instant::now();
    let ended = attend(command)?;
    let seconds = began.elapsed().as_secs_f64();
    // This process is in the cgroup as well, so nobody has cleaned up yet.
    let told = match rustix::process::geteuid().is_root() {
        true => match account::confinement_of(std::process::id())? {
            Some(confinement) => Told::of(&confinement)?,
            None => {
                return Err(Failure::Run(
                    "what confined the command is gone, and its account with it".into(),
                ));
            }
        },
        false => request::account()?,
    };
    if report {
        eprint!("{}", account::words(&told, seconds));
    }
    if let Some(path) = &run.json {
        let command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let (exit_code, signal) = match ended {
            Ended::Code(code) => (Some(code), None),
            Ended::Signal(signal) => (None, Some(signal)),
        };
        account::write_json(path, &told, &End { command, seconds, exit_code, signal })?;
    }
    ended.follow()
}

/// Moves this process to a cgroup under the policy: root itself, others by the helper, who also cleans up.
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

/// Starts the process that cleans up when the command has ended. It is no child of the command,
/// which may wait for all of its children; so another process starts it and ends.
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

/// The reaper's part.
#[derive(Args)]
pub struct Reap {
    /// Starts the reaper proper.
    #[arg(long)]
    detach: bool,
    /// What to clean up.
    name: String,
}

/// Waits for the end of the command's cgroup and takes it away.
pub fn reap(reap: &Reap) -> Result<(), Failure> {
    if !reap.detach {
        return Ok(leeway_kernel::confinement(&reap.name)?.remove_when_empty()?);
    }
    leeway_kernel::confinement(&reap.name)?.leave()?;
    // Pipes and locks of the command are not ours to hold.
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number >= FIRST_OTHER) {
        // One of them was the listing's.
        let _ = nix::unistd::close(number);
    }
    rustix::process::setsid().map_err(|error| Failure::Run(format!("cannot leave the session: {error}")))?;
    let null = (Stdio::null(), Stdio::null(), Stdio::null());
    itself()?.args([REAP, &reap.name]).stdin(null.0).stdout(null.1).stderr(null.2).spawn()?;
    Ok(())
}
