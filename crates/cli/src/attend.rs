//! Running a command and waiting for it, as if it were this process: its signals, its job control, its end.

use crate::{Failure, link};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

/// What is sent to this process alone and meant for the command. Ctrl-C and Ctrl-\ reach both of
/// them by the terminal.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
const OF_THE_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs it.
pub fn attend(command: &[OsString]) -> Result<Ended, Failure> {
    // What was ignored stays ignored, also for the command (nohup); a handler would be reset in it.
    let ignored = ignored();
    let heard =
        PASSED_ON.into_iter().chain(OF_THE_TERMINAL).filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heard)?;
    let child =
        Command::new(&command[0]).args(&command[1..]).spawn().map_err(|e| link::not_run(command, &e))?;
    let pid = Pid::from_child(&child);
    std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| PASSED_ON.contains(signal)) {
            // One that has ended is a zombie until this process ends, so the number is nobody else's.
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    loop {
        let status = match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::Run(format!("cannot wait for the command: {error}"))),
        };
        if let Some(code) = status.exit_status() {
            return Ok(Ended::Code(code));
        }
        if let Some(signal) = status.terminating_signal() {
            return Ok(Ended::Signal(signal));
        }
        // The shell that looks after us is to see that it stands still.
        if status.stopped() && stands_still(pid) {
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }
}

/// Whether the command is still stopped. A terminal stops and continues this process together with
/// it: what is heard of a stop after that is old, and nobody would continue a process that stops
/// itself then.
fn stands_still(pid: Pid) -> bool {
    // A continuation that has reached this process may not have reached the command yet.
    std::thread::sleep(Duration::from_millis(20));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name, in parentheses, may have any bytes (proc_pid_stat(5)).
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

impl Ended {
    /// Ends this process in the same way.
    pub fn follow(self) -> Result<(), Failure> {
        match self {
            Ended::Code(0) => Ok(()),
            Ended::Code(code) => Err(Failure::Command(u8::try_from(code).unwrap_or(u8::MAX))),
            Ended::Signal(number) => {
                // The command has left its memory where it was wanted; ours is nobody's.
                let none = Rlimit { current: Some(0), maximum: Some(0) };
                let _ = setrlimit(Resource::Core, none);
                let _ = signal_hook::low_level::emulate_default_handler(number);
                Err(Failure::Command(u8::try_from(128 + number).unwrap_or(u8::MAX)))
            }
        }
    }
}

/// The signals that this process ignores, a bit each.
pub fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
