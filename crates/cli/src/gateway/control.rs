//! `leeway gateway status`, `pause`, `reload`, `revoke` and others: requests to a running gateway.

use super::limits::{self, SetLimit};
use super::observe;
use super::people::{self, PeopleCommand};
use crate::output::stdout;
use crate::{Failure, given};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use leeway_gateway::Config;
use leeway_gateway::control::{
    Client, ClientError, PauseRequest, ReloadRequest, Reloaded, RevokeRequest, Revoked, SOCKET, Sharing,
    Status, StreamError, Volume,
};
use leeway_gateway::home_speed::{Compared, HomeSpeed, Seen};
use leeway_gateway::peers::{PeerStatus, Standing};
use leeway_guard::{SecretError, read_in_place, steady, steady_lines};
use leeway_units::Duration;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

const EXPORT_HELP: &str = "Examples:\n  \
    leeway gateway export --from 2026-11-01 --to 2026-12-01 > november.csv\n      \
    November as a table for a spreadsheet\n  \
    leeway gateway export --format parquet > all.parquet\n      \
    all of it for pandas, DuckDB or Polars\n\n\
    Exit codes: 0 done, 1 no gateway is running here, 2 bad usage, or a gateway without [accounts].";

/// Format of a file of the accounts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Text: one line for each user, direction and five minutes.
    Csv,
    /// Apache Parquet: the same rows in columns with types.
    Parquet,
}

/// Requests to a running gateway.
#[derive(Subcommand)]
pub enum ControlCommand {
    /// Show the state of the running gateway: whether it shares the line, and what neighbours use.
    #[command(after_help = "Example: sudo leeway gateway status --json\n\n\
        Exit codes: 0 done, 1 no gateway is running here, 2 bad usage.")]
    Status(Ask),
    /// Pause sharing: refuse new requests with the reason, and end running transfers after 30 s.
    #[command(after_help = "Examples:\n  \
        sudo leeway gateway pause 2h\n      \
        for a call: sharing resumes by itself\n  \
        sudo leeway gateway pause\n      \
        until `leeway gateway resume`, also after a restart\n\n\
        Exit codes: 0 done, 1 no gateway is running here, 2 bad usage.")]
    Pause {
        /// Length of the pause, such as 30min, 2h or 7d. Without it, the pause lasts until
        /// `resume`.
        #[arg(value_name = "TIME", value_parser = given::time)]
        time: Option<Duration>,
        #[command(flatten)]
        ask: Ask,
    },
    /// Resume sharing.
    #[command(after_help = "Example: sudo leeway gateway resume\n\n\
        Exit codes: 0 done, 1 no gateway is running here, 2 bad usage.")]
    Resume(Ask),
    /// Read the configuration again without ending a connection: users, clients, ports and caps.
    #[command(after_help = RELOAD_HELP)]
    Reload {
        /// Configuration of the gateway. The text of this file, and of the files of users that it
        /// names, is sent to the gateway.
        #[arg(long, short, value_name = "FILE", default_value = "/etc/leeway/gateway.toml")]
        config: PathBuf,
        #[command(flatten)]
        ask: Ask,
    },
    /// Revoke a neighbour's access: refuse requests with the reason, and end running transfers.
    #[command(after_help = REVOKE_HELP)]
    Revoke {
        /// The user's name or the neighbour's address, as `leeway gateway users` prints it.
        #[arg(value_name = "NAME")]
        name: String,
        /// Give the access back.
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        ask: Ask,
    },
    /// Change the limits of a neighbour, of each or of all together, while the gateway runs; without
    /// arguments, list them.
    #[command(after_help = limits::HELP)]
    Limit(SetLimit),
    /// Print how much each user has used in each five minutes, as CSV or Parquet.
    #[command(after_help = EXPORT_HELP)]
    Export {
        /// First day, such as 2026-11-01. Without it, from the beginning.
        #[arg(long, value_name = "DAY", value_parser = given::day)]
        from: Option<Date>,
        /// The day after the last day.
        #[arg(long, value_name = "DAY", value_parser = given::day)]
        to: Option<Date>,
        /// Format of the file.
        #[arg(long, value_name = "FORM", default_value = "csv")]
        format: Form,
        /// Control socket of the gateway: `socket` of its `[control]`.
        #[arg(long, value_name = "PATH", default_value = SOCKET)]
        socket: PathBuf,
    },
    #[command(flatten)]
    People(PeopleCommand),
}

/// The gateway to ask, and the format of the output.
#[derive(Args)]
pub struct Ask {
    /// Control socket of the gateway: `socket` of its `[control]`.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Sends the request, and prints the result.
pub fn run(command: &ControlCommand) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        ControlCommand::Status(ask) => ask.print(&runtime.block_on(ask.client().get("/v1/status"))?, status),
        ControlCommand::Pause { time, ask } => {
            let seconds = time.map(|time| i64::try_from(time.nanos() / 1_000_000_000).unwrap_or(i64::MAX));
            let asked = runtime.block_on(ask.client().post("/v1/pause", &PauseRequest { seconds }));
            ask.print(&asked?, |answer: &Status, out| sharing(answer, out))
        }
        ControlCommand::Resume(ask) => {
            let asked = runtime.block_on(ask.client().post("/v1/resume", &()));
            ask.print(&asked?, |answer: &Status, out| sharing(answer, out))
        }
        ControlCommand::Reload { config, ask } => {
            let request = ReloadRequest { secrets: secrets(config)? };
            let asked = runtime.block_on(ask.client().post("/v1/reload", &request));
            ask.print(&asked?, |answer: &Reloaded, out| {
                answer.words.iter().try_for_each(|words| writeln!(out, "{}", steady_lines(words)))
            })
        }
        ControlCommand::Revoke { name, undo, ask } => {
            let request = RevokeRequest { user: name.clone(), undo: *undo };
            let asked = runtime.block_on(ask.client().post("/v1/revoke", &request));
            ask.print(&asked?, |answer: &Revoked, out| {
                let has = if answer.revoked { "no access from now on" } else { "access again" };
                writeln!(out, "{} has {has}", steady(&answer.user))
            })
        }
        ControlCommand::Export { from, to, format, socket } => {
            if *format == Form::Parquet && io::stdout().is_terminal() {
                return Err(Failure::Usage(
                    "Parquet is not text: write it to a file, such as > all.parquet".into(),
                ));
            }
            let days = [("from", from), ("to", to)];
            let given = days.iter().filter_map(|(name, day)| Some(format!("{name}={}", day.as_ref()?)));
            let form = match format {
                Form::Csv => "format=csv",
                Form::Parquet => "format=parquet",
            };
            let given: Vec<String> = given.chain([form.to_owned()]).collect();
            let path = format!("/v1/export?{}", given.join("&"));
            let mut out = stdout();
            runtime.block_on(Client::new(socket).write(&path, &mut out))?;
            Ok(out.flush()?)
        }
        ControlCommand::Limit(limit) => limits::run(limit, &runtime),
        ControlCommand::People(command) => people::run(command, &runtime),
    }
}

/// Examples and exit codes of `reload`.
const RELOAD_HELP: &str = "Examples:\n  \
    sudo leeway gateway reload\n      \
    as `systemctl reload leeway-gateway` does\n  \
    sudo leeway gateway reload --config home.toml --socket /run/home/control.sock\n      \
    a gateway that was started with another file\n\n\
    All of the new configuration is used, or the old one stays in use. Addresses, interfaces and laws need \
    a restart.\n\n\
    Exit codes: 0 done, 1 no gateway runs, 2 something is wrong or needs a restart, and nothing has changed.";

/// Examples and exit codes of `revoke`.
const REVOKE_HELP: &str = "Examples:\n  \
    sudo leeway gateway revoke ann\n      \
    ann's requests are refused, and her transfers end within a second\n  \
    sudo leeway gateway revoke 10.20.0.7\n      \
    the same for a neighbour without a name\n  \
    sudo leeway gateway revoke ann --undo\n      \
    ann has access again\n\n\
    It outlives a restart. `leeway gateway status` lists the users without access.\n\n\
    Exit codes: 0 done, 1 no gateway runs, 2 nobody has that name.";

/// The texts of the configuration and of the files of users that it names, as far as this user may
/// read them. The gateway of the packaged unit cannot read them: it has the copies that systemd
/// made at its start.
fn secrets(path: &Path) -> Result<BTreeMap<PathBuf, String>, Failure> {
    // If the file is wrong or missing, the gateway reports it. The gateway may use another file.
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(BTreeMap::new()) };
    let config = Config::parse(&text);
    let mut secrets = BTreeMap::from([(path.to_owned(), text)]);
    let Ok(config) = config else { return Ok(secrets) };
    let files = config.users_file.into_iter().chain(config.page.map(|page| page.users_file));
    for file in files {
        match read_in_place(&file) {
            Ok(text) => drop(secrets.insert(file, text)),
            Err(SecretError::File { .. }) => {}
            Err(open) => return Err(Failure::Usage(open.to_string())),
        }
    }
    Ok(secrets)
}

impl Ask {
    /// A client for the gateway.
    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }

    /// Prints a result as text for people, or as JSON.
    pub fn print<T: Serialize>(
        &self,
        answer: &T,
        people: impl Fn(&T, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = stdout();
        if self.json {
            serde_json::to_writer_pretty(&mut out, answer).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            people(answer, &mut out)?;
        }
        Ok(out.flush()?)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused(words) => Failure::Usage(words),
            error => Failure::Run(error.to_string()),
        }
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        match error {
            StreamError::Client(error) => error.into(),
            StreamError::Output(error) => error.into(),
            error => Failure::Run(error.to_string()),
        }
    }
}

/// Prints whether neighbours are served.
pub fn sharing(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    match status.sharing {
        Sharing::On => writeln!(out, "sharing: on"),
        Sharing::Observing => writeln!(out, "sharing: off, the line is only observed"),
        Sharing::Paused { until: Some(until), .. } => {
            writeln!(out, "sharing: paused until {}", local(until))
        }
        Sharing::Paused { until: None, .. } => {
            writeln!(out, "sharing: paused until `leeway gateway resume`")
        }
    }
}

fn status(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    sharing(status, out)?;
    if let Some(seen) = &status.observed {
        observe::observation(seen, out)?;
        return notices(&status.notices, out);
    }
    writeln!(out, "neighbours: {} with {} connections", status.users, status.connections)?;
    writeln!(
        out,
        "used since {}: {} down, {} up",
        local(status.started),
        megabytes(status.down_bytes),
        megabytes(status.up_bytes)
    )?;
    for window in &status.windows {
        let rtt = window.rtt_ms.map_or("no sample".into(), |rtt| format!("round trip {rtt:.1} ms"));
        writeln!(
            out,
            "window {}: {:.1} kB, queue {:.1} ms, {rtt}, {} waiting",
            window.path,
            window.window_bytes as f64 / 1e3,
            window.queuing_delay_ms,
            window.waiting
        )?;
    }
    speed(&status.home_speed, out)?;
    for volume in &status.volumes {
        writeln!(out, "{}", volume_line(volume))?;
    }
    if !status.revoked.is_empty() {
        let names: Vec<String> = status.revoked.iter().map(|name| steady(name)).collect();
        writeln!(out, "no access: {}", names.join(", "))?;
    }
    if let Some(accounts) = &status.accounts {
        writeln!(out, "accounts: {accounts}")?;
    }
    if let Some(relay) = &status.relay {
        writeln!(out, "relay: {relay}")?;
    }
    status.peers.iter().try_for_each(|peer| writeln!(out, "{}", peer_line(peer)))?;
    notices(&status.notices, out)
}

fn speed(speed: &HomeSpeed, out: &mut dyn Write) -> io::Result<()> {
    match speed.seen {
        Seen::No => writeln!(out, "home's speed: not known, this machine cannot see the home's packets"),
        Seen::NotYet => {
            writeln!(out, "home's speed: not known, no packet of the home has passed this machine yet")
        }
        Seen::Yes => [("down", &speed.down), ("up", &speed.up)]
            .iter()
            .try_for_each(|(way, compared)| writeln!(out, "home's speed {way}: {}", speed_words(compared))),
    }
}

fn speed_words(compared: &Compared) -> String {
    let Compared { pairs, needed, .. } = compared;
    let Some(((with, without), ratio)) = compared.with_bps.zip(compared.without_bps).zip(compared.ratio)
    else {
        return format!("not known yet ({pairs} of {needed} comparisons)");
    };
    let megabits = |bps: f64| format!("{:.2} Mbit/s", bps / 1e6);
    format!(
        "{} while neighbours use the line, {} without ({:.0} %, {pairs} comparisons)",
        megabits(with),
        megabits(without),
        100.0 * ratio
    )
}

fn peer_line(peer: &PeerStatus) -> String {
    let standing = match (&peer.says, &peer.error) {
        (Some(says), _) => {
            let until = says.until.map_or(String::new(), |until| format!(" until {}", local(until)));
            let sharing = if says.sharing == Standing::On { "on".into() } else { format!("paused{until}") };
            let load = says.load.map_or(String::new(), |load| format!(", load {:.0} %", 100.0 * load));
            let users = says.users.map_or(String::new(), |users| format!(", {users} users"));
            format!("{sharing}{load}{users}")
        }
        (None, error) => error.as_deref().map_or("no answer".into(), steady),
    };
    let rtt = peer.round_trip_ms.map_or(String::new(), |rtt| format!(", round trip {rtt:.1} ms"));
    let address = peer.address.to_string();
    let called = peer.name.as_ref().map_or(address.clone(), |name| format!("{} ({address})", steady(name)));
    format!("gateway {called}: {standing}{rtt}")
}

fn notices(notices: &[String], out: &mut dyn Write) -> io::Result<()> {
    notices.iter().try_for_each(|notice| writeln!(out, "note: {}", steady_lines(notice)))
}

fn volume_line(volume: &Volume) -> String {
    format!(
        "volume {}: {} of {} used, begins anew {}",
        volume.cap,
        megabytes(volume.used_bytes),
        megabytes(volume.limit_bytes),
        local(volume.until)
    )
}

/// Data with its unit.
pub fn megabytes(bytes: u64) -> String {
    format!("{}.{:03} MB", bytes / 1_000_000, bytes / 1000 % 1000)
}

/// A time in the time zone of this machine.
pub fn local(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}
