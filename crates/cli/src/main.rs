//! The `leeway` program: reads the command line, runs one subcommand, and turns errors into
//! messages and exit codes.

#[macro_use]
mod say;

mod account;
mod args;
mod attach;
mod attend;
mod commands;
mod demo;
mod doctor;
mod ending;
mod engine;
mod gateway;
mod given;
mod helper;
mod invite;
mod join;
mod kernel;
mod link;
mod output;
mod plan;
mod relay;
mod run;
mod runner;
mod sockets;
mod stats;
mod testbed;
mod testnet;
mod top;
mod transfer;

use args::{Cli, Command};
use clap::Parser;
use leeway_guard::steady_lines;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Exit code of a run that failed.
const RUN_FAILED: u8 = 1;
/// Exit code of bad usage or a bad scenario; clap's own.
const BAD_INPUT: u8 = 2;

/// Why the program stops.
enum Failure {
    /// A scenario is wrong: explained with its source line.
    Scenario(leeway_sim::scenario::ScenarioError),
    /// The command line asks for something that does not exist.
    Usage(String),
    /// The simulation or its output failed.
    Run(String),
    /// The command that was run has ended with this exit code.
    Command(u8),
    /// The reader of the output has closed it, as `head` does in `leeway ... | head`.
    Closed,
}

impl From<leeway_sim::scenario::ScenarioError> for Failure {
    fn from(error: leeway_sim::scenario::ScenarioError) -> Self {
        Failure::Scenario(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Run(error.to_string()),
        }
    }
}

fn main() -> ExitCode {
    let failure = match Cli::try_parse().map_or_else(show, run).and_then(|()| Ok(output::stdout().flush()?)) {
        Ok(()) | Err(Failure::Closed) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    let code = match failure {
        Failure::Scenario(error) => {
            let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            eprint!("{}", leeway_explain::render(&error, colour));
            BAD_INPUT
        }
        Failure::Usage(message) => {
            eprintln!("error: {}", steady_lines(&message));
            BAD_INPUT
        }
        Failure::Run(message) => {
            eprintln!("error: {}", steady_lines(&message));
            RUN_FAILED
        }
        Failure::Command(code) => code,
        Failure::Closed => 0,
    };
    ExitCode::from(code)
}

/// Prints what clap returns instead of a command: help, the version, or an error in the arguments.
fn show(words: clap::Error) -> Result<(), Failure> {
    let printed = words.print();
    match words.use_stderr() {
        true => Err(Failure::Command(BAD_INPUT)),
        false => Ok(printed.map_err(output::unwritten)?),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Sim(sim) => commands::sim(&sim),
        Command::Laws { name } => commands::laws(name.as_deref()),
        Command::Queues { name } => commands::queues(name.as_deref()),
        Command::Kernel { command } => kernel::run(&command),
        Command::Relay(relay) => relay::run(&relay),
        Command::Invite(invite) => invite::run(&invite),
        Command::Join(join) => join::run(&join),
        Command::Top(top) => top::run(&top),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Gateway(gateway) => gateway::run(&gateway),
        Command::GatewayCaretaker => Ok(leeway_gateway::caretaker::run()?),
        Command::Send(send) => transfer::send::run(&send),
        Command::Recv(recv) => transfer::recv::run(&recv),
        Command::Schema => commands::schema(),
        Command::Completions { shell } => commands::completions(shell),
        Command::Man { out } => commands::man(out.as_deref()),
        Command::Link(link) => link::run(&link),
        Command::Testnet(testnet) => testnet::run(&testnet),
        Command::Demo(demo) => demo::run(&demo),
        Command::Testbed(testbed) => testbed::run(&testbed),
        Command::LinkEnter(enter) => link::enter(&enter),
        Command::Run(run) => run::run(&run),
        Command::RunReap(reap) => run::reap(&reap),
        Command::Helper(helper) => helper::run(&helper),
        Command::Attach(attach) => attach::run(&attach),
    }
}
