//! The parts of a gateway that need rights. They are made first; then the process gives its
//! rights up, before it hears anybody.

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

/// Sockets at ports below 1024, to anywhere, for packets and for echoes, the tunnel's device, and
/// the process that keeps the rules.
pub struct Privileged {
    /// Where events go.
    pub(crate) log: Log,
    /// Of a file that may be root's.
    pub(crate) logins: Option<Logins>,
    /// The owner's page, and who may see it.
    pub(crate) page: Option<(TcpListener, Logins)>,
    pub(crate) listeners: Vec<(Kind, TcpListener)>,
    /// For datagrams of clients without configuration.
    pub(crate) datagrams: Vec<UdpSocket>,
    pub(crate) caretaker: Option<Arc<Caretaker>>,
    pub(crate) relay: Option<Arc<Relay>>,
    /// Sees the home at work.
    pub(crate) traffic_observer: Option<Result<TrafficObserver, leeway_net::Error>>,
    /// Sees the packets of connections with servers.
    pub(crate) connection_observer: Option<Result<ConnectionObserver, leeway_net::Error>>,
    pub(crate) echo: io::Result<Echo>,
    /// Ports from which nobody can answer for servers.
    pub(crate) taken: Vec<u16>,
}

impl Privileged {
    /// Makes it; events go to `log`. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What cannot be had, and what would be right.
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
        let caretaker =
            caretaker.map_err(|error| GatewayError::System("start the caretaker of rules", error))?;
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
        caretaker.divert(transparent, &open)
    }
}

/// A process without rights may have congestion controls that this machine lets everybody have.
/// Those that yield harm nobody.
fn allow(config: &Config) {
    const ALLOWED: &str = "net/ipv4/tcp_allowed_congestion_control";
    let tunnel = config.relay.as_ref().filter(|relay| relay.transport == Carrier::Tcp);
    let tunnel = tunnel.map(|relay| relay.law.clone().unwrap_or_else(|| leeway_tunnel::CONGESTION.into()));
    let wanted = socket::first_congestion(&config.upload).ok().into_iter().chain(tunnel);
    let allowed = std::fs::read_to_string(format!("/proc/sys/{ALLOWED}")).unwrap_or_default();
    for name in wanted {
        if !allowed.split_whitespace().any(|known| known == name) {
            // Where this is not permitted, the start says that uploads are without it.
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
