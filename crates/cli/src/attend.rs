//! Runs a command as a child and behaves like it: passes signals on, stops when it stops, ends as
//! it ends.

use crate::{Failure, link};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process, setrlimit, waitid,
};
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

/// Signals that are sent to this process only, and passed on to the command. Ctrl-C and Ctrl-\
/// reach both of them through the terminal.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
const OF_THE_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs the command and waits for its end.
pub fn attend(command: &[OsString]) -> Result<Ended, Failure> {
    // A signal that is ignored (nohup) stays ignored: exec resets a handler, and the command would
    // get the default.
    let ignored = ignored();
    let heard =
        PASSED_ON.into_iter().chain(OF_THE_TERMINAL).filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(heard)?;
    let handle = signals.handle();
    let mut child =
        Command::new(&command[0]).args(&command[1..]).spawn().map_err(|e| link::not_run(command, &e))?;
    let pid = Pid::from_child(&child);
    let passing_on = std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| PASSED_ON.contains(signal)) {
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    let ended = wait(pid);
    // Once the command is reaped, another process may get its number. No signal is passed on then.
    handle.close();
    let _ = passing_on.join();
    if ended.is_ok() {
        let _ = child.wait();
    }
    ended
}

/// Waits for the end of the command. The command is not reaped: its number stays its own.
fn wait(pid: Pid) -> Result<Ended, Failure> {
    let ends_or_stops = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        let status = match waitid(WaitId::Pid(pid), ends_or_stops) {
            Ok(Some(status)) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Failure::Run(format!("cannot wait for the command: {error}"))),
        };
        if let Some(code) = status.exit_status() {
            return Ok(Ended::Code(code));
        }
        if let Some(signal) = status.terminating_signal() {
            return Ok(Ended::Signal(signal));
        }
        // Take the report of the stop only. The command may have ended since.
        let taken = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        // Stop this process too, so that the shell's job control sees the stop.
        if matches!(taken, Ok(Some(_))) && stands_still(pid) {
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }
}

/// Whether the command is still stopped. The terminal stops and continues both processes, so news
/// of a stop may be old when it arrives here. If this process stopped itself then, nobody would
/// continue it.
fn stands_still(pid: Pid) -> bool {
    // SIGCONT may reach this process a moment before the command.
    std::thread::sleep(Duration::from_millis(20));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name of the program, in parentheses, may contain any bytes (proc_pid_stat(5)).
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

impl Ended {
    /// Ends this process in the same way.
    pub fn follow(self) -> Result<(), Failure> {
        match self {
            Ended::Code(0) => Ok(()),
            Ended::Code(code) => Err(Failure::Command(u8::try_from(code).unwrap_or(u8::MAX))),
            Ended::Signal(number) => {
                // The command has written its core dump if one was wanted; this process must not
                // write a second one.
                let none = Rlimit { current: Some(0), maximum: Some(0) };
                let _ = setrlimit(Resource::Core, none);
                let _ = signal_hook::low_level::emulate_default_handler(number);
                Err(Failure::Command(u8::try_from(128 + number).unwrap_or(u8::MAX)))
            }
        }
    }
}

/// The signals that this process ignores, as a bit mask: signal N is bit N - 1.
pub fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hex = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ended_keeps_its_number_until_it_is_reaped() {
        for (script, ended) in [("exit 7", Ended::Code(7)), ("kill -9 $$", Ended::Signal(9))] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            assert_eq!(wait(Pid::from_child(&child)).ok(), Some(ended), "{script}");
            assert!(std::path::Path::new(&format!("/proc/{}", child.id())).exists(), "{script}");
            assert!(child.try_wait().unwrap().is_some(), "{script}");
        }
    }
}
