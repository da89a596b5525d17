//! The gateway as a whole: listeners, what they share, and its end.

use crate::accounts;
use crate::budget::Budget;
use crate::client;
use crate::config::{Config, ConfigError};
use crate::divert::{self, Divert};
use crate::dns;
use crate::http::Proxy;
use crate::relay::{self, Relay};
use crate::resolve::Resolver;
use crate::socket;
use crate::socks;
use crate::transparent;
use crate::upstream::Connector;
use crate::users::{Place, Users};
use leeway_net::{Attached, Lookout, Watch};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long connections may go on when the gateway stops.
const GRACE: Duration = Duration::from_secs(5);

/// Why the gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// Name servers.
    #[error("{0}")]
    Names(String),
    /// What this machine is attached to.
    #[error("cannot tell what belongs to the home: {0}")]
    Attached(#[from] leeway_net::Error),
    /// The tunnel to the relay.
    #[error("cannot keep a tunnel to the relay: {0}")]
    Relay(#[from] leeway_tunnel::Error),
    /// The system.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// A gateway that listens.
pub struct Gateway {
    listeners: Vec<(Kind, TcpListener)>,
    /// For datagrams of clients without configuration.
    datagrams: Vec<UdpSocket>,
    proxy: Arc<Proxy>,
    budget: Option<Arc<Budget>>,
    divert: Option<Divert>,
    /// Sees the home at work.
    home: Option<Result<Watch, leeway_net::Error>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Socks,
    Metrics,
    Transparent,
}

impl Gateway {
    /// Opens the listeners. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What cannot be had, and what would be right.
    pub fn open(config: &Config) -> Result<Gateway, GatewayError> {
        config.check()?;
        let attached = Attached::follow(|_| {})?;
        let users = Arc::new(Users::new(config));
        let budget = config.law.as_ref().map(Budget::new);
        let resolver = Resolver::new(config).map_err(GatewayError::Names)?;
        let relay = config.relay.as_ref().map(Relay::open).transpose()?;
        let policy = config.policy(attached);
        let connector =
            Arc::new(Connector::new(config, policy, resolver, users.clone(), budget.clone(), relay));
        let proxy = Arc::new(Proxy::new(connector, users, config.limits.clone()));
        let mut listeners = Vec::new();
        let http = config.listen.iter().map(|&address| (Kind::Http, address));
        let socks = config.socks.iter().map(|&address| (Kind::Socks, address));
        let metrics = config.metrics.iter().map(|&address| (Kind::Metrics, address));
        for (kind, address) in http.chain(socks).chain(metrics) {
            let listener = listen(address).map_err(|error| GatewayError::Listen(address, error))?;
            listeners.push((kind, listener));
        }
        let mut datagrams = Vec::new();
        let divert = config.transparent.as_ref().map(|transparent| {
            for &family in divert::families() {
                listeners.push((Kind::Transparent, transparent::listen(family, transparent.port)?));
                datagrams.push(transparent::bind(family, transparent.port)?);
            }
            let open: Vec<u16> = config.listen.iter().chain(&config.socks).map(SocketAddr::port).collect();
            Divert::new(transparent, &open)
        });
        let divert = divert.transpose().map_err(|error| {
            GatewayError::System("divert clients without configuration (needs root, nft, ip)", error)
        })?;
        let home = (!config.home.is_empty()).then(|| {
            let (budget, relay) = (budget.clone(), proxy.connector.relay.clone());
            let upload = proxy.connector.upload.clone();
            Lookout::new(&config.home)?.watch(move |sights| {
                budget.iter().for_each(|budget| budget.home_seen(sights));
                upload.iter().for_each(|upload| upload.home_seen(sights));
                relay.iter().for_each(|relay| relay.home_seen());
            })
        });
        Ok(Gateway { listeners, datagrams, proxy, budget, divert, home })
    }

    /// The addresses that it listens on: HTTP, SOCKS, metrics, each in the order of the configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }

    /// The window of all downloads, if there is a law.
    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// How things stand with the relay, and every change of it, if there is one.
    pub fn relay(&self) -> Option<watch::Receiver<relay::State>> {
        self.proxy.connector.relay.as_ref().map(|relay| relay.state())
    }

    /// What a person should know who runs it.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = self.proxy.connector.policy.home_in_words();
        match &self.proxy.connector.upload {
            None => notices.push("what is sent is not held back: `uplink` is \"none\"".into()),
            Some(upload) => {
                if let Some(error) = upload.blindness() {
                    notices.push(format!(
                        "nothing measures the uplink behind datagrams, which get 47 kbit/s while no TCP upload does: \
                         no socket for echoes of ICMP: {error} (needs CAP_NET_RAW, or net.ipv4.ping_group_range)"
                    ));
                }
            }
        }
        if self.proxy.connector.upload.is_some()
            && let Err(why) = self.proxy.connector.congestion()
            && !why.is_empty()
        {
            notices.push(format!(
                "uploads are held back by the window of the uplink alone, not by the kernel as well: {why} \
                 (leeway kernel load ledbat, as root, needs Linux 6.10)"
            ));
        }
        if self.divert.is_some() {
            let ports = &self.proxy.connector.policy.udp_ports;
            let ports = ports.iter().copied().chain([dns::PORT]).collect::<BTreeSet<u16>>();
            for port in transparent::taken(ports) {
                notices.push(format!(
                    "clients without configuration get no answers from UDP port {port}: a program of this machine \
                     has it at all addresses and does not share it; let it listen at one address"
                ));
            }
        }
        if let Some(Err(error)) = &self.home {
            notices.push(format!(
                "the home's packets cannot be seen, so no room is left for what it asks for before that makes a queue: {error} \
                 (needs CAP_NET_RAW)"
            ));
        }
        if self.budget.is_none() {
            notices.push("downloads are not held back: there is no law".into());
        }
        notices
    }

    /// Serves until `stop` is ready; then connections get a moment to end.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut background = JoinSet::new();
        for budget in [&self.budget, &self.proxy.connector.relay_budget].into_iter().flatten() {
            let budget = budget.clone();
            background.spawn(async move { budget.drive().await });
        }
        if let Some(upload) = self.proxy.connector.upload.clone() {
            background.spawn(async move { upload.drive().await });
        }
        if let Some(relay) = self.proxy.connector.relay.clone() {
            background.spawn(async move { relay.run().await });
        }
        for (kind, listener) in self.listeners {
            background.spawn(accept(kind, listener, self.proxy.clone()));
        }
        for socket in self.datagrams {
            background.spawn(transparent::datagrams(self.proxy.clone(), socket));
        }
        let proxy = self.proxy.clone();
        background.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                proxy.sweep();
            }
        });
        stop.await;
        // New clients are refused from here on.
        background.shutdown().await;
        drop((self.divert, self.home));
        let end = tokio::time::Instant::now() + GRACE;
        while self.proxy.users.connections() > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if let Some(relay) = &self.proxy.connector.relay {
            relay.close();
        }
    }
}

async fn accept(kind: Kind, listener: TcpListener, proxy: Arc<Proxy>) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of descriptors: some will be free again.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let proxy = proxy.clone();
        if kind == Kind::Metrics {
            tokio::spawn(async move {
                accounts::serve(stream, &proxy.connector, &proxy.users).await;
            });
            continue;
        }
        let Some((place, address)) = admit(&proxy, &stream, from) else { continue };
        tokio::spawn(async move {
            // A task is as large as the largest of these, unless they are boxed.
            match kind {
                Kind::Socks => Box::pin(socks::serve(proxy, stream, address)).await,
                Kind::Transparent => Box::pin(transparent::serve(proxy, stream, address)).await,
                Kind::Http | Kind::Metrics => client::serve(proxy, stream, address).await,
            }
            drop(place);
        });
    }
}

/// A client's place; none for those who may not use the gateway or have too many connections, who are cut off.
fn admit(proxy: &Proxy, stream: &TcpStream, from: SocketAddr) -> Option<(Place, IpAddr)> {
    let client = from.ip().to_canonical();
    if !proxy.connector.policy.is_client(client) {
        return None;
    }
    let user = proxy.users.at(client);
    let Some(place) = proxy.users.admit(&user) else {
        user.counts.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        return None;
    };
    socket::prepare(stream).ok()?;
    Some((place, client))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
