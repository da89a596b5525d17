//! `leeway testnet`: builds several hosts with links between them, and runs a command on one of
//! them.

use crate::{Failure, link};
use clap::{Args, Subcommand};
use leeway_emulator::testnet::{Spec, exec, run as run_on};
use std::ffi::OsString;
use std::path::PathBuf;

/// The network, and the command that runs on it.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Testnet {
    /// The file that describes the network (TOML).
    #[arg(required = true, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The host on which the command runs; the first in the file by default.
    #[arg(long, value_name = "HOST")]
    on: Option<String>,
    /// Only read the file and report its errors.
    #[arg(long, conflicts_with_all = ["on", "command"])]
    check: bool,
    /// Print at the end what each link carried and dropped, and how late it was. Without this only
    /// warnings.
    #[arg(long, short)]
    verbose: bool,
    /// The command and its arguments; a shell by default.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(subcommand)]
    inside: Option<Inside>,
}

/// Commands for use inside a test network.
#[derive(Subcommand)]
enum Inside {
    /// Run a command on another host, from a shell or program of a test network.
    #[command(
        after_help = "Example: leeway testnet exec server -- ss -ti\n\nExit codes: those of `leeway link`."
    )]
    Exec {
        /// The host.
        host: String,
        /// The command and its arguments; a shell by default.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

/// Runs the command and ends with its exit code.
pub fn run(testnet: &Testnet) -> Result<(), Failure> {
    if let Some(Inside::Exec { host, command }) = &testnet.inside {
        let command = link::launched(command)?.arguments;
        let error = exec(host, &command)?;
        return Err(link::not_run(&command, &error));
    }
    let Some(file) = &testnet.file else { return Err(Failure::Usage("there is no file".into())) };
    let spec = Spec::load(file)?;
    if testnet.check {
        return Ok(());
    }
    let notice = |text: &str| eprintln!("leeway testnet: {text}");
    let command = link::launched(&testnet.command)?;
    let (status, carried) = run_on(&spec, testnet.on.as_deref(), &command, notice)?;
    for link in &carried {
        let name = format!("leeway testnet: {}", link.name);
        link::report(&name, &link.ended, link.overruns, testnet.verbose);
    }
    link::passed_on(status)
}
