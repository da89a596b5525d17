//! Runs a command behind a link: starts it, passes signals to it, and returns how it ended.

use crate::Error;
use crate::engine::{Ended, Engine, Stop};
use crate::host::{Host, overruns};
use crate::namespace::Namespace;
use crate::record::Writer;
use leeway_link::LinkSpec;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitStatus;

/// Signals that the command gets as well.
const PASSED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// What to run behind a link.
#[derive(Debug, Clone)]
pub struct Command {
    /// A program and its arguments that call [`enter`] with this process's id and `arguments`,
    /// which are appended.
    pub launcher: Vec<OsString>,
    /// The command itself.
    pub arguments: Vec<OsString>,
}

/// The outcome of a command behind a link.
#[derive(Debug)]
pub struct Outcome {
    /// How the command ended.
    pub status: ExitStatus,
    /// What the engine did.
    pub ended: Ended,
    /// Packets up and down that the kernel dropped because the engine read too late.
    pub overruns: [u64; 2],
}

/// Runs `command` behind a link with `links` up and down, and waits for it.
///
/// The command runs in a network namespace of its own. `LEEWAY_GATEWAY` and `LEEWAY_GATEWAY6` in
/// its environment are the addresses of this host. Nothing of this outlives the calling process:
/// the device goes with its descriptor, the rules with their owner, and the command is killed.
/// `notice` is called with what a user should know before the command starts.
pub fn run(
    links: &[LinkSpec; 2],
    seed: u64,
    log: Option<&Path>,
    command: &Command,
    notice: impl FnOnce(&str),
) -> Result<Outcome, Error> {
    let log = log.map(Writer::create).transpose()?;
    // Before any thread is started, so that all of them inherit it.
    let signals = Signals::take()?;
    let (host, outer) = Host::new()?;
    let (ended, ending) = io::pipe().map_err(Error::of("make a pipe"))?;
    let (namespace, inner) = Namespace::new(&host.name, host.addresses, ending)?;
    if !Host::forwards()[0] {
        notice(&format!(
            "this host forwards nothing (net.ipv4.ip_forward is 0), so the command reaches only this host, at {}; \
             to reach more: sysctl -w net.ipv4.ip_forward=1",
            host.addresses.host
        ));
    }
    let engine = Engine::new([inner, outer], links, seed, log);
    let (stopper, stop) = Stop::new()?;
    let engine = std::thread::spawn(move || engine.run(&stop));

    let mut prepared = command.prepared();
    prepared.env("LEEWAY_GATEWAY", host.addresses.host.to_string());
    prepared.env("LEEWAY_GATEWAY6", host.addresses.host_v6.to_string());
    let pid = namespace.start(prepared)?;
    signals.pass(&ended, pid)?;
    let (status, overruns_up) = namespace.wait()?;
    let overruns = [overruns_up, overruns(&host.name)];
    drop(stopper);
    let ended = engine.join().unwrap_or_else(|_| Err(Error::Options("the engine has died".into())))?;
    Ok(Outcome { status, ended, overruns })
}

/// The subcommand of the `leeway` program that calls [`enter`]: with the number of its parent,
/// `--` and a command.
pub const ENTER: &str = "link-enter";

/// Becomes the command. `parent` is the process that called [`run`]; when it ends, so does the
/// command.
pub fn enter(parent: u32, arguments: &[OsString]) -> io::Error {
    let [program, arguments @ ..] = arguments else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no command");
    };
    let prepared = prctl::set_pdeathsig(Signal::SIGKILL).and_then(|()| SigSet::all().thread_unblock());
    if let Err(errno) = prepared {
        return errno.into();
    }
    // The parent may have ended before the call above.
    if getppid().as_raw() as u32 != parent {
        return io::Error::other("the program that keeps the link has ended");
    }
    std::process::Command::new(program).args(arguments).exec()
}

impl Command {
    /// What goes before a command: the launcher, and the process that the command ends with.
    pub(crate) fn launched(&self) -> Vec<OsString> {
        self.launcher.iter().cloned().chain([std::process::id().to_string().into(), "--".into()]).collect()
    }

    /// The command behind its launcher.
    pub(crate) fn prepared(&self) -> std::process::Command {
        let mut words = self.launched().into_iter().chain(self.arguments.iter().cloned());
        let mut prepared = std::process::Command::new(words.next().unwrap_or_default());
        prepared.args(words);
        prepared
    }
}

/// The signals of this process that are passed on to the command.
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Blocks them for the calling thread, and for the threads that it starts from now on.
    pub fn take() -> Result<Signals, Error> {
        let passed: SigSet = PASSED.into_iter().collect();
        passed.thread_block().map_err(Error::of_errno("block signals"))?;
        SignalFd::with_flags(&passed, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map(Signals)
            .map_err(Error::of_errno("wait for signals"))
    }

    /// Passes them on to the process `pid` until the other end of `ended` is closed.
    pub fn pass(&self, ended: &PipeReader, pid: u32) -> Result<(), Error> {
        let pid = Pid::from_raw(pid.try_into().unwrap_or(i32::MAX));
        loop {
            let mut polled = [
                PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
                PollFd::new(ended.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut polled, PollTimeout::NONE) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(Error::of_errno("wait for the command")(errno)),
            }
            if polled[1].any().unwrap_or(false) {
                return Ok(());
            }
            while let Ok(Some(info)) = self.0.read_signal() {
                // The command gets the terminal's signals itself. Signals of a process have a code
                // of 0 or less.
                if info.ssi_code <= 0
                    && let Ok(signal) = Signal::try_from(info.ssi_signo as i32)
                {
                    // The command may have just ended. It is not waited for before the pipe
                    // closes.
                    let _ = kill(pid, signal);
                }
            }
        }
    }
}
