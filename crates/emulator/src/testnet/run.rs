//! Runs a command on a host of a test network: starts it, passes signals to it, and returns how it
//! ended.

use super::namespace::become_part;
use super::{Carried, Spec, Testnet};
use crate::Error;
use crate::supervise::{Command, Signals};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitStatus;

/// Environment variable of all programs on the hosts: where the kernel shows each host.
pub(super) const HOSTS: &str = "LEEWAY_HOSTS";

/// Builds a network, starts its programs, runs `command` on the host `on` (the first by default),
/// and waits for it. `notice` is called with what a user should know. The network ends with the
/// command, and with the calling process.
///
/// # Errors
/// Those of [`Testnet::up`] and [`Testnet::start_programs`].
pub fn run(
    spec: &Spec,
    on: Option<&str>,
    command: &Command,
    mut notice: impl FnMut(&str),
) -> Result<(ExitStatus, Vec<Carried>), Error> {
    // Before any thread is started, so that all of them inherit it.
    let signals = Signals::take()?;
    let net = Testnet::up(spec)?;
    let first = net.hosts().next().unwrap_or_default().to_owned();
    let launcher = command.launched();
    let mut programs = net.start_programs(spec, &launcher)?;
    let mut child = net.spawn(on.unwrap_or(&first), command.prepared())?;
    let pid = child.id();
    let (ended, ending) = io::pipe().map_err(Error::of("make a pipe"))?;
    let waiter = std::thread::spawn(move || {
        let _ending = ending;
        child.wait()
    });
    signals.pass(&ended, pid)?;
    let status = waiter.join().unwrap_or_else(|_| Err(io::Error::other("a thread has died")));
    let status = status.map_err(Error::of("wait for the command"))?;
    for (program, child) in &mut programs {
        if let Ok(Some(status)) = child.try_wait()
            && !status.success()
        {
            notice(&format!("`{}` on {} has ended with {status}", program.run, program.on));
        }
    }
    let carried = net.close()?;
    for (_, mut child) in programs {
        let _ = child.wait();
    }
    Ok((status, carried))
}

/// Becomes `arguments` on another host of the network that the calling process runs in.
pub fn exec(host: &str, arguments: &[std::ffi::OsString]) -> Result<io::Error, Error> {
    let places = std::env::var(HOSTS).map_err(|_| {
        Error::Options("this is not the shell of a test network; start one: leeway testnet FILE".into())
    })?;
    let known: Vec<(&str, &str)> = places.split(' ').filter_map(|place| place.split_once('=')).collect();
    let (_, place) = known.iter().find(|(name, _)| *name == host).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Error::Options(format!("there is no host `{host}`; the hosts are {}", names.join(", ")))
    })?;
    become_part(Path::new(place))?;
    let [program, arguments @ ..] = arguments else {
        return Ok(io::Error::new(io::ErrorKind::InvalidInput, "there is no command"));
    };
    Ok(std::process::Command::new(program).args(arguments).env("LEEWAY_HOST", host).exec())
}
