//! `leeway gateway`: a proxy that gives neighbours the spare capacity of the line.

mod check;
mod control;
mod hidden;
mod init;
mod limits;
mod observe;
mod passwd;
mod people;
mod questions;
mod service;

pub use control::local;

use crate::{Failure, given};
use clap::{Args, Subcommand};
use ipnet::IpNet;
use jiff::Timestamp;
use leeway_control::LawSpec;
use leeway_gateway::config::ConfigError;
use leeway_gateway::control::{ControlConfig, Operations, ReloadRequest};
use leeway_gateway::event::{Event, LogFormat};
use leeway_gateway::{Config, Gateway, GatewayError, Privileged};
use leeway_guard::{Rights, give_up_but, give_up_the_last};
use leeway_tunnel::Token;
use leeway_units::Duration;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// What to serve, and to whom. Options here replace the settings of the file.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GatewayArgs {
    /// Another command than to serve.
    #[command(subcommand)]
    command: Option<GatewayCommand>,
    /// Configuration (TOML). share/leeway/gateway.toml of the installation explains every setting.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the HTTP proxy, such as 0.0.0.0:3128. May be repeated.
    #[arg(long, value_name = "ADDRESS", value_parser = given::address)]
    listen: Vec<SocketAddr>,
    /// Address of the SOCKS5 proxy. May be repeated.
    #[arg(long, value_name = "ADDRESS", value_parser = given::address)]
    socks: Vec<SocketAddr>,
    /// Network whose machines may use the gateway, such as 10.20.0.0/16. May be repeated.
    #[arg(long, value_name = "NETWORK")]
    client: Vec<String>,
    /// Network of the home. Neighbours never reach it through the gateway, and their downloads
    /// wait while it uses the line. May be repeated.
    #[arg(long, value_name = "NETWORK")]
    home: Vec<String>,
    /// Control law of the window that all downloads share, such as ledbat:target=30ms. `none` does
    /// not limit downloads.
    #[arg(long, value_name = "LAW")]
    law: Option<String>,
    /// Use a relay on the Internet while it can be reached (needs root): the token that `leeway
    /// invite` printed on the relay. `-` reads the token from the standard input, so that it is in
    /// no list of processes.
    #[arg(long, value_name = "TOKEN")]
    relay: Option<String>,
    /// Serve nobody and send nothing: only observe how much of the line the home leaves, and print
    /// that at the end.
    #[arg(long)]
    observe: bool,
    /// With --observe: end after this time, such as 10min or 1d. Without it, the gateway ends at
    /// SIGINT or SIGTERM.
    #[arg(long, value_name = "TIME", requires = "observe", value_parser = given::time)]
    time: Option<Duration>,
    /// With --observe: print the result as JSON.
    #[arg(long, requires = "observe")]
    json: bool,
}

/// Commands beside serving.
#[derive(Subcommand)]
enum GatewayCommand {
    /// Write a first configuration, from the networks of this machine and from your answers.
    #[command(after_help = init::HELP)]
    Init(init::Init),
    /// Check a configuration on this machine: print everything that is wrong, and what would be
    /// right.
    #[command(after_help = check::HELP)]
    Check(check::Check),
    /// Make the line of a user for `users_file`: a name, and an Argon2id hash of a password.
    #[command(after_help = passwd::HELP)]
    Passwd(passwd::Passwd),
    /// Start the gateway in the background, and wait until it serves.
    #[command(after_help = service::UP_HELP)]
    Up(service::Up),
    /// End the gateway that runs in the background.
    #[command(after_help = service::DOWN_HELP)]
    Down(service::Down),
    #[command(flatten)]
    Control(control::ControlCommand),
}

/// Serves until SIGTERM or SIGINT, or runs a subcommand.
pub fn run(args: &GatewayArgs) -> Result<(), Failure> {
    match &args.command {
        Some(GatewayCommand::Init(init)) => return init::run(init),
        Some(GatewayCommand::Check(check)) => return check::run(check),
        Some(GatewayCommand::Passwd(passwd)) => return passwd::run(passwd),
        Some(GatewayCommand::Up(up)) => return service::up(up),
        Some(GatewayCommand::Down(down)) => return service::down(down),
        Some(GatewayCommand::Control(command)) => return control::run(command),
        None => {}
    }
    let overrides = args.overrides()?;
    let config = overrides.config(Config::read).map_err(usage)?;
    config.check().map_err(usage)?;
    let format = config.log;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // These threads serve strangers, so they drop all privileges. If a thread keeps some, the
    // gateway does not start.
    runtime.enable_all().on_thread_start(|| drop(give_up_but(Rights::empty())));
    runtime.build()?.block_on(async {
        // Signals are caught before there are rules, which a killed process would leave behind.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let privileged = Privileged::new(&config, move |event| tell(format, event))?;
        give_up_the_last().map_err(cannot_give_up)?;
        let gateway = Gateway::with(privileged, &config)?;
        for notice in gateway.notices() {
            tell(format, &Event::new("notice", notice));
        }
        for address in gateway.addresses() {
            let event = Event::new("listening", format!("listening on {address}"));
            tell(format, &event.with("address", address));
        }
        if let Some(mut relay) = gateway.relay() {
            tokio::spawn(async move {
                loop {
                    let event = Event::new("relay", &*relay.borrow_and_update());
                    tell(format, &event);
                    if relay.changed().await.is_err() {
                        break;
                    }
                }
            });
        }
        let operations = gateway.operations();
        let seen = operations.clone();
        let end = args.time;
        operations
            .read_from(Box::new(move |handed| overrides.config(|path| Config::read_again(path, handed))));
        gateway
            .run(async {
                let over = observe::over(end);
                tokio::pin!(over);
                loop {
                    tokio::select! {
                        () = &mut over => break,
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hangup.recv() => reload(format, operations.clone()),
                    }
                }
                tell(format, &Event::new("stopping", "stopping"));
            })
            .await?;
        seen.observation().map_or(Ok(()), |seen| observe::print(&seen, args.json))
    })
}

/// Reads the configuration again in a thread of its own. A wrong configuration changes nothing.
fn reload(format: LogFormat, operations: Arc<Operations>) {
    tokio::task::spawn_blocking(move || match operations.reload(&ReloadRequest::default()) {
        Ok(reloaded) => {
            reloaded.words.iter().for_each(|words| tell(format, &Event::new("reloaded", words)));
        }
        Err(error) => {
            tell(
                format,
                &Event::new("not_reloaded", format!("the configuration was not read again: {error}")),
            );
        }
    });
}

/// Writes a line of the log.
fn tell(format: LogFormat, event: &Event) {
    eprintln!("{}", event.line(format, Timestamp::now()));
}

/// Options of the command line. They replace settings each time that the file is read.
struct Overrides {
    file: Option<PathBuf>,
    listen: Vec<SocketAddr>,
    socks: Vec<SocketAddr>,
    clients: Vec<IpNet>,
    home: Vec<IpNet>,
    law: Option<Option<LawSpec>>,
    relay: Option<Token>,
    observe: bool,
}

impl GatewayArgs {
    fn overrides(&self) -> Result<Overrides, Failure> {
        let networks =
            |given: &[String]| given.iter().map(|text| given::network(text)).collect::<Result<Vec<_>, _>>();
        let law = self.law.as_deref().map(leeway_gateway::law_or_none).transpose();
        Ok(Overrides {
            file: self.config.clone(),
            listen: self.listen.clone(),
            socks: self.socks.clone(),
            clients: networks(&self.client)?,
            home: networks(&self.home)?,
            law: law.map_err(|error| Failure::Usage(error.to_string()))?,
            relay: self.relay.as_deref().map(given::token).transpose()?,
            observe: self.observe,
        })
    }
}

impl Overrides {
    fn config(&self, read: impl Fn(&Path) -> Result<Config, ConfigError>) -> Result<Config, ConfigError> {
        let mut config = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        let addresses = [(&self.listen, &mut config.listen), (&self.socks, &mut config.socks)];
        for (given, value) in addresses.into_iter().filter(|(given, _)| !given.is_empty()) {
            value.clone_from(given);
        }
        let networks = [(&self.clients, &mut config.clients), (&self.home, &mut config.home)];
        for (given, value) in networks.into_iter().filter(|(given, _)| !given.is_empty()) {
            value.clone_from(given);
        }
        if let Some(token) = &self.relay {
            config.relay.get_or_insert_default().token = Some(token.clone());
        }
        config.control.get_or_insert(ControlConfig { required: false, ..ControlConfig::default() });
        if let Some(law) = &self.law {
            config.law.clone_from(law);
        }
        match self.observe {
            true => config.observing().map_err(|error| ConfigError::Value(error.to_string())),
            false => Ok(config),
        }
    }
}

/// The error for a configuration that cannot be used. If the file does not exist, it says how to
/// make one.
fn usage(error: ConfigError) -> Failure {
    let missing = matches!(&error, ConfigError::File { error, .. } if error.kind() == ErrorKind::NotFound);
    let make = if missing { "; write a first one: leeway gateway init" } else { "" };
    Failure::Usage(format!("{error}{make}"))
}

/// The error for a service that cannot drop its privileges, and so does not start.
pub fn cannot_give_up(error: std::io::Error) -> Failure {
    Failure::Run(format!("cannot drop privileges: {error}"))
}

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        match error {
            GatewayError::Config(
                ConfigError::File { .. } | ConfigError::Syntax { .. } | ConfigError::Value(_),
            ) => Failure::Usage(error.to_string()),
            GatewayError::Relay(error) => error.into(),
            _ => Failure::Run(error.to_string()),
        }
    }
}
