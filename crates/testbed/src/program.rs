//! Programs on the hosts of a network.

use crate::Error;
use leeway_emulator::testnet::Testnet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait until a program serves.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program to start on a host. It ends with this process in any case.
#[derive(Debug)]
pub struct Start<'a> {
    /// Path of `leeway`, which launches the program.
    pub leeway: &'a Path,
    /// The host.
    pub host: &'a str,
    /// Name of the program in errors.
    pub name: &'static str,
    /// The program and its arguments.
    pub command: &'a Command,
    /// The file that its standard error goes to.
    pub log: &'a Path,
    /// Text in the standard error when the program serves.
    pub ready: &'a str,
}

impl Start<'_> {
    /// Starts the program, and waits until it serves.
    ///
    /// # Errors
    /// The host does not exist, or the program ends or does not serve in time; with its output.
    pub fn on(&self, net: &Testnet) -> Result<Child, Error> {
        let failed = |why: String| Error::Program { program: self.name, host: self.host.into(), why };
        let mut held = Command::new(self.leeway);
        held.args([leeway_emulator::ENTER, &std::process::id().to_string(), "--"]);
        held.arg(self.command.get_program()).args(self.command.get_args());
        let log = File::create(self.log).map_err(|error| failed(error.to_string()))?;
        held.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // A process group of its own: Ctrl-C at the terminal reaches this process, which ends the
        // program.
        held.process_group(0);
        let mut child = net.spawn(self.host, held)?;
        let start = Instant::now();
        loop {
            let said = fs::read_to_string(self.log).unwrap_or_default();
            if said.contains(self.ready) {
                return Ok(child);
            }
            let why = match child.try_wait() {
                Ok(Some(status)) => format!("ended with {status}: {}", said.trim()),
                _ if start.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    let _ = child.wait();
                    format!("is not ready after {} s: {}", PATIENCE.as_secs(), said.trim())
                }
                _ => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            return Err(failed(why));
        }
    }
}
