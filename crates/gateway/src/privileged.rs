//! The parts of a gateway that need privileges. They are made first. Then the process drops its
//! privileges, before it accepts a connection.

use crate::caretaker::Caretaker;
use crate::config::{Carrier, Config};
use crate::divert;
use crate::dns;
use crate::echo::Echo;
use crate::event::{Event, Log};
use crate::gateway::{GatewayError, Kind};
use crate::login::Logins;
use crate::relay::Relay;
use crate::socket;
use crate::transparent;
use leeway_net::{ConnectionObserver, TrafficObserver, sysctl};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// What needs privileges: sockets at ports below 1024, at addresses of other machines, for packets
/// and for echoes; the tunnel's device; and the process that keeps the rules.
pub struct Privileged {
    /// Where events go.
    pub(crate) log: Log,
    /// Users of a file that only root may be able to read.
    pub(crate) logins: Option<Logins>,
    /// The listener of the owner's page, and the users who may see the page.
    pub(crate) page: Option<(TcpListener, Logins)>,
    pub(crate) listeners: Vec<(Kind, TcpListener)>,
    /// For datagrams of clients without a configured proxy.
    pub(crate) datagrams: Vec<UdpSocket>,
    pub(crate) caretaker: Option<Arc<Caretaker>>,
    pub(crate) relay: Option<Arc<Relay>>,
    /// Observes the home's packets.
    pub(crate) traffic_observer: Option<Result<TrafficObserver, leeway_net::Error>>,
    /// Observes the packets of connections with servers.
    pub(crate) connection_observer: Option<Result<ConnectionObserver, leeway_net::Error>>,
    pub(crate) echo: io::Result<Echo>,
    /// UDP ports that another program of this machine uses, so the gateway cannot answer from them
    /// in a server's name.
    pub(crate) taken: Vec<u16>,
}

impl Privileged {
    /// Makes everything that needs privileges. Events go to `log`. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What is missing, and how to provide it.
    pub fn new(
        config: &Config,
        log: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Privileged, GatewayError> {
        config.check()?;
        let log: Log = Arc::new(log);
        let logins = config.logins(log.clone())?;
        let mut listeners = Vec::new();
        let http = config.listen.iter().map(|&address| (Kind::Http, address));
        let socks = config.socks.iter().map(|&address| (Kind::Socks, address));
        let metrics = config.metrics.iter().map(|&address| (Kind::Metrics, address));
        for (kind, address) in http.chain(socks).chain(metrics) {
            let listener = listen(address).map_err(|error| GatewayError::Listen(address, error))?;
            listeners.push((kind, listener));
        }
        let page = config.page.as_ref().map(|page| {
            let listener = listen(page.listen).map_err(|error| GatewayError::Listen(page.listen, error))?;
            Ok::<_, GatewayError>((listener, Logins::read(&page.users_file, log.clone())?))
        });
        let page = page.transpose()?;
        let rules = config.transparent.is_some() || config.relay.is_some();
        let caretaker = rules.then(Caretaker::start).transpose().map(|caretaker| caretaker.map(Arc::new));
        let caretaker = caretaker
            .map_err(|error| GatewayError::System("start the process that keeps the network rules", error))?;
        allow(config);
        let relay = config.relay.as_ref().zip(caretaker.clone());
        let relay = relay.map(|(relay, caretaker)| Relay::open(relay, caretaker)).transpose()?;
        let mut privileged = Privileged {
            log,
            logins,
            page,
            listeners,
            datagrams: Vec::new(),
            caretaker,
            relay,
            traffic_observer: (!config.home.is_empty()).then(|| TrafficObserver::new(&config.home)),
            connection_observer: config
                .law
                .as_ref()
                .or(config.uplink.as_ref())
                .map(|_| ConnectionObserver::new(&config.clients)),
            echo: Echo::open(),
            taken: Vec::new(),
        };
        privileged.divert(config).map_err(|error| {
            GatewayError::System("divert clients without configuration (needs root, nft, ip)", error)
        })?;
        Ok(privileged)
    }

    fn divert(&mut self, config: &Config) -> io::Result<()> {
        let Some((transparent, caretaker)) = config.transparent.as_ref().zip(self.caretaker.as_ref()) else {
            return Ok(());
        };
        for &family in divert::families() {
            let listener = transparent::listen(family, transparent.port)?;
            self.listeners.push((Kind::Transparent, listener));
            self.datagrams.push(transparent::bind(family, transparent.port)?);
        }
        let ports = config.udp_ports.iter().copied().chain([dns::PORT]).collect::<BTreeSet<u16>>();
        self.taken = transparent::taken(ports);
        let open: Vec<u16> = config.listen.iter().chain(&config.socks).map(SocketAddr::port).collect();
        caretaker.divert(transparent, &open)?;
        caretaker.serve(&config.clients)
    }
}

/// Adds the congestion controls of the configuration to those that processes without privileges
/// may use. They yield to other traffic, so they harm nobody.
fn allow(config: &Config) {
    const ALLOWED: &str = "net/ipv4/tcp_allowed_congestion_control";
    let tunnel = config.relay.as_ref().filter(|relay| relay.transport == Carrier::Tcp);
    let tunnel = tunnel.map(|relay| relay.law.clone().unwrap_or_else(|| leeway_tunnel::CONGESTION.into()));
    let wanted = socket::first_congestion(&config.upload).ok().into_iter().chain(tunnel);
    let allowed = std::fs::read_to_string(format!("/proc/sys/{ALLOWED}")).unwrap_or_default();
    for name in wanted {
        if !allowed.split_whitespace().any(|known| known == name) {
            // If this fails, a notice at the start says that uploads are without it.
            let _ = sysctl(ALLOWED, &format!("{} {name}", allowed.trim()));
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
