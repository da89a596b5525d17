//! The client: connects with a token, and connects again when the connection breaks.

use crate::Error;
use crate::carry::{Counts, Ends, carry};
use crate::egress::Egress;
use crate::identity::client_tls;
use crate::inward::Inward;
use crate::quic::{self, ALIVE, CLOSE_AGAIN, HANDSHAKE};
use crate::sender::{LAW, Sender, Steering};
use crate::standing::{Standing, Tell};
use crate::stream;
use crate::token::Token;
use crate::wire::{Greeting, Welcome};
use leeway_control::{LawError, LawSpec};
use leeway_net::Observation;
use leeway_queue::QueueSpec;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, Endpoint, EndpointConfig};
use quinn_proto::RandomConnectionIdGenerator;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The kernel's congestion control over TCP, unless the options name another one.
pub const CONGESTION: &str = "leeway_ledbat";

/// Wait before the first new attempt. It doubles with each attempt, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// Longest packet on a tunnel, in bytes. With all headers it fits into an Ethernet packet of 1500
/// bytes, over IPv4 and IPv6.
pub const MTU: u16 = 1400;

/// The transport of the packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams of QUIC, under one of Leeway's laws.
    Quic(LawSpec),
    /// One TCP connection, under the kernel's congestion control with this name.
    Tcp(String),
}

impl Transport {
    /// QUIC under the law, by default [`LAW`].
    ///
    /// # Errors
    /// The law does not exist.
    pub fn quic(law: Option<&str>) -> Result<Self, LawError> {
        law.unwrap_or(LAW).parse().map(Transport::Quic)
    }

    /// TCP under the congestion control, by default the one of `leeway kernel load ledbat`.
    pub fn tcp(congestion: Option<&str>) -> Self {
        Transport::Tcp(congestion.unwrap_or(CONGESTION).to_owned())
    }
}

/// How a client works.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The transport, with the law for what the client sends.
    pub transport: Transport,
    /// The queue in front of the law's window.
    pub queue: QueueSpec,
    /// Longest packet that the client takes, in bytes.
    pub mtu: u16,
    /// Mark (SO_MARK) of the tunnel's own packets, for routing rules.
    pub mark: Option<u32>,
    /// A server without a message for this time counts as gone. [`crate::SILENCE`] is the usual
    /// time.
    pub silence: Duration,
}

/// The state of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The client tries to connect.
    Connecting,
    /// Packets are carried.
    Up(Welcome),
    /// The connection is gone, and the client tries again. Meanwhile a gateway sends directly.
    Down(String),
}

/// A client of one server.
pub struct Client {
    options: ClientOptions,
    token: Token,
    servers: Vec<SocketAddr>,
    egress: Arc<Egress>,
    counts: Arc<Counts>,
    status: watch::Sender<Status>,
    sender: watch::Sender<Option<Arc<Sender>>>,
    standing: Arc<Mutex<Option<Standing>>>,
}

impl Client {
    /// Looks up the server's address. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Lost`] if the name has no address.
    pub async fn new(token: Token, options: ClientOptions) -> Result<Self, Error> {
        // The lookup happens once, before any route leads into the tunnel. A later lookup could
        // need the tunnel itself.
        let found = tokio::net::lookup_host(&token.address).await.map(Iterator::collect::<Vec<_>>);
        let servers =
            found.map_err(|error| Error::Lost(format!("cannot look up {}: {error}", token.address)))?;
        let egress = Arc::new(Egress::new(&options.queue));
        Ok(Client {
            options,
            token,
            servers,
            egress,
            counts: Arc::default(),
            status: watch::Sender::new(Status::Connecting),
            sender: watch::Sender::new(None),
            standing: Arc::default(),
        })
    }

    /// The queue for packets into the tunnel.
    pub fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.egress)
    }

    /// The packets and bytes that were carried.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// The state, and each change of it.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// The last [`Standing`] of the server; `None` before the first one and without a connection.
    pub fn standing(&self) -> Option<Standing> {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the law; `None` over TCP and without a connection.
    pub fn steering(&self) -> Option<Steering> {
        self.sender.borrow().as_ref().map(|sender| sender.steering())
    }

    /// Takes observations of the foreground at this end of the line. Both ends then leave room for
    /// the bytes that the foreground expects. The server is told only while it sends something. No
    /// effect over TCP.
    pub fn home_observed(&self, observations: &[Observation]) {
        if let Some(sender) = &*self.sender.borrow() {
            sender.home_observed(observations);
        }
    }

    /// Connects, reconnects and carries packets. `up` gets each welcome, and returns the
    /// destination of packets.
    ///
    /// Returns when the server refuses, or `up` fails.
    pub async fn run(&self, mut up: impl FnMut(&Welcome) -> Result<Arc<dyn Inward>, Error>) -> Error {
        let mut wait = FIRST_WAIT;
        loop {
            let error = match self.connect().await {
                Ok((tunnel, welcome)) => {
                    let inward = match up(&welcome) {
                        Ok(inward) => inward,
                        Err(error) => return error,
                    };
                    wait = FIRST_WAIT;
                    // Packets that waited for the connection are old. Packets that arrive after
                    // this status are sent.
                    self.egress.clear();
                    self.status.send_replace(Status::Up(welcome));
                    let error = self.carry(tunnel, inward).await;
                    self.sender.send_replace(None);
                    error
                }
                Err(error) => error,
            };
            if error.is_final() {
                return error;
            }
            self.status.send_replace(Status::Down(error.to_string()));
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn carry(&self, tunnel: Tunnel, inward: Arc<dyn Inward>) -> Error {
        let silence = match tunnel {
            Tunnel::Quic { .. } => self.options.silence,
            // Over TCP the server sends a sign of life every [`ALIVE`].
            Tunnel::Tcp(_) => self.options.silence.max(ALIVE * 5 / 2),
        };
        let (egress, counts) = (Arc::clone(&self.egress), Arc::clone(&self.counts));
        let told = Some(Arc::clone(&self.standing));
        let ends = Ends { egress, inward, from: None, counts, silence, tell: Tell::default(), told };
        let error = match tunnel {
            Tunnel::Quic { connection, sender, endpoint } => {
                self.sender.send_replace(Some(Arc::clone(&sender)));
                let closing = Closing { connection, endpoint };
                let error = carry(&closing.connection, &sender, &ends).await;
                quic::explain(&error)
            }
            Tunnel::Tcp(connected) => stream::carry(*connected, &ends).await,
        };
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        error
    }

    /// Tries each address of the server.
    async fn connect(&self) -> Result<(Tunnel, Welcome), Error> {
        let mut last = Error::Lost(format!("{} has no address", self.token.address));
        for server in &self.servers {
            let tried = match &self.options.transport {
                Transport::Quic(law) => {
                    tokio::time::timeout(HANDSHAKE, self.connect_quic(*server, law)).await
                }
                Transport::Tcp(name) => {
                    tokio::time::timeout(HANDSHAKE, self.connect_tcp(*server, name)).await
                }
            };
            match tried {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::Lost(format!("{server} does not answer")),
            }
        }
        Err(last)
    }

    async fn connect_quic(&self, server: SocketAddr, law: &LawSpec) -> Result<(Tunnel, Welcome), Error> {
        let sender = Sender::new(law.clone());
        let tls = client_tls(&self.token.secret, self.token.server)?;
        let crypto =
            QuicClientConfig::try_from(Arc::new(tls)).map_err(|error| Error::Options(error.to_string()))?;
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(quic::transport(&sender, self.options.silence));
        let any: IpAddr =
            if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = quic::socket(SocketAddr::new(any, 0), self.options.mark)?;
        let runtime = quinn::default_runtime()
            .ok_or_else(|| Error::Options("a client needs a runtime of tokio".into()))?;
        // This socket has one connection only, so packets need no connection ID. That saves eight
        // bytes in each packet.
        let mut endpoint = EndpointConfig::default();
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        let endpoint =
            Endpoint::new(endpoint, None, socket, runtime).map_err(Error::of("open a UDP socket"))?;
        let connecting = endpoint
            .connect_with(config, server, "leeway")
            .map_err(|error| Error::Lost(error.to_string()))?;
        let connection = connecting.await.map_err(|error| quic::explain(&error))?;
        let said = self.greet_quic(&connection).await;
        // A refusal arrives as the end of the connection, while the stream only reports that it
        // broke.
        let welcome = match (said, connection.close_reason()) {
            (Ok(Greeting::Welcome(welcome)), _) => welcome,
            (_, Some(reason)) => return Err(quic::explain(&reason)),
            (Err(error), None) => return Err(error),
            (Ok(_), None) => return Err(Error::Refused("the server did not welcome".into())),
        };
        if !welcome.law.is_empty() {
            let demanded = welcome.law.parse().map_err(|error| {
                Error::Refused(format!("the server demands a law that this program does not have: {error}"))
            })?;
            sender.demand(demanded);
        }
        Ok((Tunnel::Quic { connection, sender, endpoint }, welcome))
    }

    async fn greet_quic(&self, connection: &Connection) -> Result<Greeting, Error> {
        let (mut send, mut receive) = connection.open_bi().await.map_err(|error| quic::explain(&error))?;
        quic::greet(&mut send, &self.hello()).await?;
        let _ = send.finish();
        let said = quic::greeting(&mut receive).await;
        if said.is_err() {
            // The reason of the end arrives a moment later.
            let _ = tokio::time::timeout(Duration::from_millis(500), connection.closed()).await;
        }
        said
    }

    async fn connect_tcp(&self, server: SocketAddr, congestion: &str) -> Result<(Tunnel, Welcome), Error> {
        let tls = client_tls(&self.token.secret, self.token.server)?;
        let (connected, welcome) =
            stream::connect(server, congestion, self.options.mark, tls, &self.hello()).await?;
        Ok((Tunnel::Tcp(Box::new(connected)), welcome))
    }

    fn hello(&self) -> Greeting {
        Greeting::Hello {
            mtu: self.options.mtu,
            program: concat!("leeway ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A connection after the welcome.
enum Tunnel {
    Quic { connection: Connection, sender: Arc<Sender>, endpoint: Endpoint },
    Tcp(Box<stream::Connected>),
}

/// Closes the connection when the client ends in any way.
struct Closing {
    connection: Connection,
    endpoint: Endpoint,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.connection.close(CLOSE_AGAIN, b"the client has left");
        self.endpoint.close(CLOSE_AGAIN, b"the client has left");
    }
}
