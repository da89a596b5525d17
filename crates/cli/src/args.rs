//! The command line: every subcommand with its help text, for clap.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use leeway_sim::scenario::Sampling;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Let background traffic use the capacity that nobody else wants.
#[derive(Parser)]
#[command(
    name = "leeway",
    version = leeway_sim::ENGINE,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 everything went well, 1 a run failed, 2 bad usage or a bad scenario.\n\n\
                  Example: leeway sim examples/home-backup.toml --out report"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    /// Simulate scenarios and report what each flow got.
    #[command(after_help = "Examples:\n  \
        leeway sim examples/home-backup.toml --out report\n      \
        simulate, print tables, and write report/report.html with interactive charts\n  \
        leeway sim examples/home-backup.toml --set flow.backup.law=cubic --set \"dumbbell.bottleneck.buffer=40 pkt\"\n      \
        the same with another law and a smaller buffer\n  \
        leeway sim examples/home-backup.toml --sweep \"flow.backup.law=cubic,ledbat,ledbat:target=5ms\" --repetitions 10\n      \
        compare three laws, ten runs each, with confidence intervals\n\n\
        Exit codes: 0 every run went well, 1 a run failed, 2 bad usage or a bad scenario.")]
    Sim(Sim),
    /// Run a shell or a command behind an emulated link.
    #[command(after_help = "Examples:\n  \
        leeway link --up 2mbit --down 10mbit --delay 25ms\n      \
        a shell behind an asymmetric line with a round trip of 50 ms\n  \
        leeway link --up 2mbit --down 10mbit --delay 25ms --queue codel --verbose -- curl -O https://example.org/file\n      \
        a download behind CoDel, and what the link carried\n  \
        leeway link --trace lte.trace --delay 20ms -- leeway link --delay 10ms -- iperf3 -c 192.0.2.7\n      \
        two links, one behind the other\n\n\
        The command reaches this host at the address in $LEEWAY_GATEWAY.\n\n\
        Exit codes: that of the command, 128 + N if signal N ended it, 127 if the command is not found, 126 if it cannot be run; \
        1 and 2 also if the link cannot be set up.")]
    Link(Box<crate::link::Link>),
    /// Run a shell or a command on a host of a test network: several hosts with links between
    /// them.
    #[command(after_help = "Examples:\n  \
        leeway testnet examples/testnets/home.toml\n      \
        a shell on the first host; the others are known by their names\n  \
        leeway testnet examples/testnets/home.toml --on laptop --verbose -- iperf3 -c server -t 10\n      \
        a measurement, and what the links carried\n  \
        leeway testnet exec server -- ss -ti\n      \
        from that shell: a command on another host\n\n\
        Exit codes: those of `leeway link`.")]
    Testnet(crate::testnet::Testnet),
    /// Measure what sharing a line does to its owner, for each mechanism of sharing (root).
    #[command(after_help = "Examples:\n  \
        leeway testbed --list\n      \
        the experiments and the mechanisms\n  \
        leeway testbed overload --mechanism prim_only --mechanism borrowing --duration 60s\n      \
        two mechanisms in five rounds: medians, and their ratio to the primary alone\n  \
        leeway testbed overload --rate 10mbit --primary-rate 30 --secondary-rate 150 --call --json\n      \
        on a faster line, with a telephone call\n\n\
        Exit codes: 0 all was measured, 1 a measurement failed, 2 bad usage.")]
    Testbed(Box<crate::testbed::Testbed>),
    /// Show how a home shares its line: hosts on this machine, and the owner's page (in full as
    /// root).
    #[command(after_help = crate::demo::HELP)]
    Demo(crate::demo::Demo),
    /// Become the command behind a link; for `leeway link` itself.
    #[command(name = leeway_emulator::ENTER, hide = true)]
    LinkEnter(crate::link::Enter),
    /// Run a command whose traffic yields to all other traffic.
    #[command(after_help = crate::run::HELP)]
    Run(crate::run::Run),
    /// Clean up after a command; for `leeway run` itself.
    #[command(name = crate::run::REAP, hide = true)]
    RunReap(crate::run::Reap),
    /// Make the traffic of running programs, such as a systemd slice or a container, yield to all
    /// other traffic.
    #[command(after_help = crate::attach::HELP)]
    Attach(crate::attach::Attach),
    /// Let ordinary users run commands whose traffic yields (root; a service).
    #[command(after_help = crate::helper::HELP)]
    Helper(crate::helper::Helper),
    /// List the control laws with their parameters.
    #[command(
        after_help = "Examples:\n  leeway laws           every law\n  leeway laws ledbat    one law\n\n\
        Exit codes: 0 done, 2 there is no law of that name."
    )]
    Laws {
        /// Show only this law.
        name: Option<String>,
    },
    /// List the queue disciplines with their parameters.
    #[command(after_help = "Examples:\n  leeway queues         every discipline\n  \
        leeway queues codel   one discipline\n\n\
        Exit codes: 0 done, 2 there is no discipline of that name.")]
    Queues {
        /// Show only this discipline.
        name: Option<String>,
    },
    /// Run the laws as TCP congestion control of this machine's kernel (root).
    #[command(after_help = "Example: leeway kernel load ledbat:target=5ms --name lb5\n\n\
        Exit codes: 0 done, 1 the kernel refuses, 2 bad usage.")]
    Kernel {
        /// What to do.
        #[command(subcommand)]
        command: crate::kernel::KernelCommand,
    },
    /// Serve tunnels: clients send and receive IP under a control law (root).
    #[command(after_help = "Examples:\n  \
        leeway invite --name bob --address relay.example.org:4433\n      \
        make a token for bob\n  \
        leeway relay --law ledbat:target=25ms\n      \
        serve on port 4433; what the relay sends to clients yields to everything else\n  \
        leeway relay --tcp lp --queue codel --demand flower\n      \
        offer TCP under the kernel's TCP-LP too; clients over QUIC send under FLOWER\n  \
        leeway relay pause 2h\n      \
        before maintenance of the relay: clients that have several relays use another one\n\n\
        Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 the relay failed, 2 bad usage.")]
    Relay(Box<crate::relay::Relay>),
    /// Invite a client to a relay: print its token.
    #[command(after_help = "Examples:\n  \
        leeway invite --name bob --address relay.example.org:4433 --expires '720 h'\n  \
        leeway invite --list\n  \
        leeway invite --revoke bob\n\n\
        A token is a password: whoever has it can join as bob. The server keeps only a fingerprint of its public key.\n\n\
        Exit codes: 0 done, 2 bad usage or a bad state folder.")]
    Invite(crate::invite::Invite),
    /// Join a relay: bring up a tunnel and send this machine's traffic through it (root).
    #[command(after_help = "Examples:\n  \
        leeway join leeway1_...\n      \
        everything through the tunnel, by QUIC under LEDBAT\n  \
        leeway join --law flower --route 192.0.2.0/24 - < token\n      \
        one network through the tunnel, under FLOWER\n  \
        leeway join --transport tcp --law vegas leeway1_...\n      \
        over TCP under the kernel's Vegas\n  \
        leeway join --tokens /etc/leeway/relays\n      \
        several relays: new connections go through the best one that answers\n\n\
        Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 the server refuses or the tunnel failed, 2 bad usage.")]
    Join(Box<crate::join::Join>),
    /// Watch every socket under a law in the kernel: window, queuing delay, phase, rate (root).
    #[command(after_help = "Examples:\n  \
        leeway top                     live, until q\n  \
        leeway top ledbat --sort delay     only LEDBAT, the longest queues first\n  \
        leeway top --json --interval 5     rates over five seconds, for other programs\n\n\
        Exit codes: 0 done, 1 the kernel refuses, 2 bad usage.")]
    Top(crate::top::Top),
    /// Check what Leeway needs on this machine, and how to get what is missing; remove what a
    /// crash left behind.
    #[command(after_help = "Examples:\n  \
        leeway doctor            one line for each thing, and what to do if it is missing\n  \
        leeway doctor --clean    also remove what crashed programs of Leeway left behind\n\n\
        Exit codes: 0 the laws can run in this machine's kernel, 1 something essential is missing.")]
    Doctor(crate::doctor::Doctor),
    /// Share this line: a proxy that gives neighbours the capacity that the owner leaves.
    #[command(after_help = "Examples:\n  \
        leeway gateway --listen 0.0.0.0:3128 --client 10.20.0.0/16 --home 192.168.1.0/24\n      \
        an HTTP proxy for the machines of 10.20.0.0/16, which reach the Internet but not the home\n  \
        leeway gateway --config gateway.toml --relay - < relay.token\n      \
        the settings of a file, and a relay on the Internet while the relay can be reached\n  \
        sudo leeway gateway init\n      \
        write a first configuration for this machine\n  \
        sudo leeway gateway check\n      \
        check the configuration: print each mistake and how to correct it\n\n\
        The gateway runs in the foreground until SIGTERM or Ctrl-C. Root is needed for a relay, for clients without \
        configuration, and to see when the home uses the line.\n\n\
        The guide from a new machine to the first neighbour is share/doc/leeway/operator.md of the installation.\n\n\
        Exit codes: 0 the gateway was stopped, 1 it could not start, 2 bad usage or a bad configuration.")]
    Gateway(Box<crate::gateway::GatewayArgs>),
    /// Keep the rules of a gateway; for `leeway gateway` itself.
    #[command(name = leeway_gateway::caretaker::COMMAND, hide = true)]
    GatewayCaretaker,
    /// Send a file over uTP (UDP) that yields to all other traffic.
    #[command(after_help = crate::transfer::send::HELP)]
    Send(crate::transfer::send::Send),
    /// Receive a file that `leeway send` sends.
    #[command(after_help = crate::transfer::recv::HELP)]
    Recv(crate::transfer::recv::Recv),
    /// Print the JSON Schema of scenario files, for editors and checkers.
    #[command(after_help = "Example: leeway schema > scenario.schema.json\n\n\
        Exit codes: 0 done, 1 the output cannot be written.")]
    Schema,
    /// Print a completion script for a shell.
    #[command(
        after_help = "Example: leeway completions bash > ~/.local/share/bash-completion/completions/leeway\n\n\
        Exit codes: 0 done, 1 the output cannot be written, 2 bad usage."
    )]
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page, or write one for each command.
    #[command(
        after_help = "Examples: leeway man | man -l -\n          leeway man --out ~/.local/share/man/man1\n\n\
        Exit codes: 0 done, 1 a page cannot be written, 2 bad usage."
    )]
    Man {
        /// A folder for a page of every command, such as leeway-run.1.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

/// What to simulate and where to put the results.
#[derive(Args)]
pub struct Sim {
    /// Scenario files (TOML); `leeway schema` describes them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Change a field of every scenario, such as `flow.backup.law=ledbat:target=25ms`. Name an
    /// entry of a list by its name or by its index (`flow[0]`). May be repeated.
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Try several values of a field, such as `dumbbell.bottleneck.buffer=10 pkt,40 pkt`. When
    /// given for several fields, every combination is run.
    #[arg(long, value_name = "PATH=V1,V2")]
    pub sweep: Vec<String>,
    /// Seed of the first run; each repetition takes the next number. The seed of the scenario by
    /// default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Runs of each scenario with different seeds, for means with 95 % confidence intervals. The
    /// number in the scenario by default.
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Number of threads. Each works on one run, or, when there are fewer runs than threads, on a
    /// part of a run that shares no link with the other parts. The results do not depend on this
    /// number. One per core by default.
    #[arg(long, short, value_name = "N", value_parser = crate::given::at_a_time)]
    pub jobs: Option<NonZeroUsize>,
    /// Write summary.json and report.html to this folder, and flows.parquet and links.parquet if
    /// series are recorded. The folder is made if it does not exist.
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Record windows, queues and rates over time: once in each interval (`10ms`), or at every
    /// `event`.
    #[arg(long, value_name = "EVERY")]
    pub series: Option<Sampling>,
    /// Print the summary as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{Command, CommandFactory};

    /// clap wraps a paragraph at the width of the terminal, so a paragraph is one line of the
    /// text. Lines that begin with spaces are examples.
    #[test]
    fn paragraphs_below_a_help_are_wrapped_by_the_terminal_alone() {
        fn check(path: &str, command: &Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let of_one =
                    !pair[0].ends_with('.') && pair.iter().all(|line| line.starts_with(|c: char| c != ' '));
                let label = pair[1].split_once(": ").is_some_and(|(label, _)| !label.contains(' '));
                assert!(!of_one || label, "{path}: {pair:?} is one paragraph");
            }
            for sub in command.get_subcommands() {
                check(&format!("{path} {}", sub.get_name()), sub);
            }
        }
        check("leeway", &Cli::command());
    }

    #[test]
    fn every_help_has_an_example_and_the_exit_codes() {
        fn check(path: &str, command: &Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for part in ["Example", "Exit codes: "] {
                assert!(text.contains(part), "{path} --help has no \"{part}\"");
            }
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                check(&format!("{path} {}", sub.get_name()), sub);
            }
        }
        check("leeway", &Cli::command());
    }
}
