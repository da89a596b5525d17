//! `leeway relay`: the server end of tunnels; also pauses and resumes a running relay.

use crate::gateway::{cannot_give_up, local};
use crate::output::stdout;
use crate::{Failure, given};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use leeway_control::LawSpec;
use leeway_guard::{Rights, give_up_but, give_up_the_last};
use leeway_net::{TCP_PORTS, UDP_PORTS};
use leeway_queue::QueueSpec;
use leeway_tunnel::host::{Reach, ServerHost};
use leeway_tunnel::{Error, MTU, Network4, Reader, Roster, Server, ServerOptions, Tun};
use leeway_units::Rate;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Default folder of the server's key and the list of clients.
pub const STATE: &str = "/var/lib/leeway/relay";

/// The server. It stays in the foreground until Ctrl-C or SIGTERM.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Relay {
    #[command(subcommand)]
    command: Option<RelayCommand>,
    /// Where to listen, for QUIC (UDP) and TCP.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:4433", value_parser = given::address)]
    listen: SocketAddr,
    /// Folder with the server's key and the list of invited clients.
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// The law under which packets are sent to clients; `leeway laws` lists them.
    #[arg(long, value_name = "LAW", default_value = leeway_tunnel::LAW)]
    law: LawSpec,
    /// Offer TCP too, under this congestion control of the kernel (`cubic`, `vegas`, `lp`,
    /// `leeway_ledbat`).
    #[arg(long, value_name = "NAME")]
    tcp: Option<String>,
    /// The law under which clients must send. By default each client chooses its own.
    #[arg(long, value_name = "LAW")]
    demand: Option<LawSpec>,
    /// The congestion control that clients over TCP must use.
    #[arg(long, value_name = "NAME", requires = "tcp")]
    demand_tcp: Option<String>,
    /// The queue in front of each client's window; `leeway queues` lists them.
    #[arg(long, value_name = "QUEUE", default_value = "fq_codel")]
    queue: QueueSpec,
    /// The rate of the relay's own line in each direction, such as `100Mbit/s`. Clients of several
    /// relays then choose by the part of the rate that is unused.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The network from which clients get IPv4 addresses. The IPv6 network follows from the
    /// server's key.
    #[arg(long, value_name = "NETWORK", default_value_t = Network4::default())]
    network: Network4,
    /// The longest IP packet in the tunnel, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = MTU, value_parser = clap::value_parser!(u16).range(1280..=1500))]
    mtu: u16,
    /// Let clients reach private addresses, others outside the public Internet, and the networks
    /// that the relay is in.
    #[arg(long)]
    private: bool,
    /// TCP ports that clients may reach, separated by commas. `any` opens all ports of TCP and
    /// UDP, and other protocols.
    #[arg(long, value_name = "PORTS", default_value_t = Ports(Some(TCP_PORTS.into())))]
    ports: Ports,
    /// UDP ports that clients may reach, separated by commas.
    #[arg(long, value_name = "PORTS", default_value_t = Ports(Some(UDP_PORTS.into())))]
    udp_ports: Ports,
}

/// Commands for a running relay, which they reach through its folder.
#[derive(Subcommand)]
enum RelayCommand {
    /// Send new connections elsewhere: clients of several relays use the others. Existing
    /// connections go on, and clients without another relay can still use this one.
    #[command(after_help = "Example: leeway relay pause 2h\n\n\
        Exit codes: 0 done, 1 the folder cannot be written, 2 bad usage, or no relay has that folder.")]
    Pause {
        /// Length of the pause, such as 30min, 2h or 7d. Without it the pause lasts until
        /// `resume`.
        #[arg(value_name = "TIME", value_parser = given::time)]
        time: Option<leeway_units::Duration>,
        /// Folder of the relay.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// End the pause: take new connections again.
    #[command(after_help = "Example: leeway relay resume\n\n\
        Exit codes: 0 done, 1 the folder cannot be written, 2 bad usage, or no relay has that folder.")]
    Resume {
        /// Folder of the relay.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
}

/// The longest pause that has an end: 366 days.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A list of ports; `None` means all ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ports(Option<Vec<u16>>);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Ports(None));
        }
        let port = |word: &str| word.trim().parse().ok().filter(|&port: &u16| port > 0);
        let ports: Option<Vec<u16>> = text.split(',').map(port).collect();
        ports.map(|ports| Ports(Some(ports))).ok_or_else(|| {
            format!("{text:?} is neither `any` nor a list of ports from 1 to 65535, separated by commas, such as 80,443")
        })
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("any"),
            Some(ports) => f.write_str(&ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

impl Relay {
    fn options(&self) -> ServerOptions {
        ServerOptions {
            listen: self.listen,
            law: self.law.clone(),
            congestion: self.tcp.clone(),
            demand: self.demand.clone(),
            demand_congestion: self.demand_tcp.clone(),
            queue: self.queue.clone(),
            network: self.network,
            mtu: self.mtu,
            rate: self.rate,
        }
    }

    fn reach(&self) -> Reach {
        let ports = self.ports.0.clone().zip(self.udp_ports.0.clone()).map(|(tcp, udp)| [tcp, udp]);
        Reach { private: self.private, ports }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Options(_) | Error::File { .. } | Error::State { .. } => Failure::Usage(error.to_string()),
            _ => Failure::Run(error.to_string()),
        }
    }
}

/// Serves until a signal, or gives a command to a running relay.
pub fn run(relay: &Relay) -> Result<(), Failure> {
    if let Some(command) = &relay.command {
        return tell(command);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // These threads serve strangers, so each gives up its rights. If one cannot, `serve` refuses
    // to start.
    runtime.enable_all().on_thread_start(|| drop(give_up_but(Rights::empty())));
    runtime.build()?.block_on(serve(relay))
}

/// Opens the folder of an existing relay. [`Roster::open`] alone would make a new relay in a
/// mistyped folder.
pub fn existing(state: &Path) -> Result<Roster, Failure> {
    if !state.join("server.key").exists() {
        let words = format!(
            "{}: this is not the folder of a relay; give the folder that `leeway relay --state` uses",
            state.display()
        );
        return Err(Failure::Usage(words));
    }
    Ok(Roster::open(state)?)
}

fn tell(command: &RelayCommand) -> Result<(), Failure> {
    let (RelayCommand::Pause { state, .. } | RelayCommand::Resume { state }) = command;
    let (roster, mut out) = (existing(state)?, stdout());
    match command {
        RelayCommand::Pause { time, .. } => {
            let time = time.map(|time| Duration::from_nanos(time.nanos()));
            if let Some(time) = time.filter(|&time| time < Duration::from_secs(1) || time > LONGEST) {
                return Err(Failure::Usage(format!(
                    "a pause of {time:?} is not possible; give one from 1 s to 366 days"
                )));
            }
            let until = roster.pause(time)?.until.and_then(|until| Timestamp::try_from(until).ok());
            let until = until.map_or("`leeway relay resume`".into(), local);
            writeln!(out, "new connections go elsewhere until {until}; existing connections go on")?;
        }
        RelayCommand::Resume { .. } => {
            let words = if roster.resume()? {
                "new connections are accepted again"
            } else {
                "the relay was not paused"
            };
            writeln!(out, "{words}")?;
        }
    }
    Ok(())
}

async fn serve(relay: &Relay) -> Result<(), Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let roster = Arc::new(Roster::open(&relay.state)?);
    let tun = Arc::new(Tun::open("lwrelay%d")?);
    let inward = Arc::clone(&tun) as Arc<dyn leeway_tunnel::Inward>;
    let server = Server::bind(relay.options(), Arc::clone(&roster), inward, |words| {
        eprintln!("leeway relay: {words}")
    })?;
    let mut host = ServerHost::new(&tun, &server.pool(), relay.mtu, &relay.reach())?;
    // Before the first client is served. Helper processes own the nftables rules and remove them
    // at the end.
    give_up_the_last().map_err(cannot_give_up)?;
    let stop = Arc::new(Notify::new());
    let (stopping, (told, unguarded)) = (Arc::clone(&stop), channel());
    // Without the rules clients reach hosts beside this one, so the relay ends.
    host.follow(move |error| {
        let _ = told.send(error);
        stopping.notify_one();
    })?;
    // Without root's rights a folder of another user may be out of reach. Later invitations and
    // revocations would then not be seen.
    roster.list()?;
    let missing = ServerHost::forwarding_missing();
    if !missing.is_empty() {
        eprintln!(
            "leeway relay: this host does not forward, so clients reach only the server itself; sysctl -w {}",
            missing.join(" ")
        );
    }
    let (v4, v6) = server.pool().server();
    eprintln!(
        "leeway relay: listening at {} as {v4} and {v6}, device {}, law {}",
        server.local_addr()?,
        tun.name(),
        relay.law
    );

    let switch = server.switch();
    let reading = Arc::clone(&tun);
    let forward = async move {
        let (mut reader, mut parcels) = (Reader::default(), Vec::new());
        loop {
            if let Err(error) = reading.read(&mut reader, &mut parcels).await {
                return error;
            }
            switch.send(parcels.drain(..));
        }
    };
    let mut forward = tokio::spawn(forward);
    let stopping = Arc::clone(&stop);
    let mut serving = tokio::spawn(async move { server.run(&stopping).await });
    let ended = tokio::select! {
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        gone = &mut forward => Err(gone.map_or_else(|panic| Failure::Run(panic.to_string()), Failure::from)),
        () = host.unguarded() => Err(Failure::Run(
            "the rules that keep clients from this host's networks are gone: their owner, a process \
             `nft`, has ended"
                .into(),
        )),
        served = &mut serving => served.map_err(|panic| Failure::Run(panic.to_string())),
    };
    stop.notify_one();
    if !serving.is_finished() {
        let _ = serving.await;
    }
    forward.abort();
    drop(host);
    match unguarded.try_recv() {
        Ok(error) => Err(error.into()),
        Err(_) => ended,
    }
}
