//! The server: admits clients, gives them addresses, and carries their packets.

use crate::Error;
use crate::carry::{Counts, Ends, carry};
use crate::egress::Egress;
use crate::handshake_limiter::{HandshakeLimiter, Place};
use crate::identity::{Admission, Denied, Fingerprint, server_tls};
use crate::inward::Inward;
use crate::pool::{Network4, Pool};
use crate::quic::{self, CLOSE_AGAIN, CLOSE_FOR_GOOD, HANDSHAKE};
use crate::roster::{Invited, Roster};
use crate::sender::Sender;
use crate::standing::{Standing, Tell};
use crate::stream;
use crate::survey::{LOOK_EVERY, Survey};
use crate::switch::{Member, Switch};
use crate::wire::{Greeting, Welcome};
use leeway_control::LawSpec;
use leeway_guard::Attempts;
use leeway_queue::QueueSpec;
use leeway_units::Rate;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, EndpointConfig, Incoming};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_rustls::TlsAcceptor;

/// Most handshakes in progress: in all, and from one source.
const HANDSHAKES: usize = 256;
const HANDSHAKES_PER_SOURCE: usize = 16;
/// From this many handshakes on, a client has to prove its address (RFC 9000, 8.1.2).
const BUSY: usize = 16;
/// Unknown tokens from one source that are checked at once, and the interval of further ones. This
/// bounds the work and the log, and hardly delays others at the same address. Nobody can guess a
/// token.
const DENIED_AT_ONCE: u32 = 30;
const DENIED_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the server checks whether a client is still invited.
const STILL_INVITED: Duration = Duration::from_secs(2);

/// How a server works.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address to listen at, for QUIC and TCP.
    pub listen: SocketAddr,
    /// The law towards clients over QUIC.
    pub law: LawSpec,
    /// The kernel's congestion control towards clients over TCP; `None` turns TCP off.
    pub congestion: Option<String>,
    /// The law that clients over QUIC have to use.
    pub demand: Option<LawSpec>,
    /// The kernel's congestion control that clients over TCP have to use.
    pub demand_congestion: Option<String>,
    /// The queue in front of each client's window.
    pub queue: QueueSpec,
    /// The network of the clients' addresses.
    pub network: Network4,
    /// Longest packet on the tunnel, in bytes.
    pub mtu: u16,
    /// Rate of the server's own line in each direction; `None` hides the load from clients.
    pub rate: Option<Rate>,
}

/// A server that listens.
pub struct Server {
    endpoint: Endpoint,
    listener: Option<TcpListener>,
    shared: Arc<Shared>,
    tls: Arc<rustls::ServerConfig>,
}

/// State that all connections share.
pub(crate) struct Shared {
    pub options: ServerOptions,
    roster: Arc<Roster>,
    pool: Pool,
    pub switch: Arc<Switch>,
    inward: Arc<dyn Inward>,
    limiter: Arc<HandshakeLimiter>,
    attempts: Mutex<Attempts>,
    /// The standing that clients are told.
    standing: watch::Sender<Standing>,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Server {
    /// Listens. Packets of clients go to `inward`, messages for people to `log`. Needs a Tokio
    /// runtime.
    ///
    /// # Errors
    /// [`Error::Options`] if the address cannot be used, or the kernel has no such congestion
    /// control; [`Error::System`].
    pub fn bind(
        options: ServerOptions,
        roster: Arc<Roster>,
        inward: Arc<dyn Inward>,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Server, Error> {
        let pool = Pool::new(options.network, roster.secret());
        let tls = Arc::new(server_tls(roster.secret(), Arc::clone(&roster) as Arc<dyn Admission>)?);
        let socket = quic::socket(options.listen, None)?;
        // After a restart, stateless resets end the clients' old connections at once (RFC 9000,
        // 10.3).
        let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &roster.secret().derive("quic reset"));
        let runtime = quinn::default_runtime()
            .ok_or_else(|| Error::Options("a server needs a runtime of tokio".into()))?;
        let listen = socket.local_addr().map_err(Error::of("listen"))?;
        let endpoint = Endpoint::new(EndpointConfig::new(Arc::new(reset_key)), None, socket, runtime)
            .map_err(Error::of("listen"))?;
        let listener = match &options.congestion {
            Some(congestion) => Some(stream::listen(listen, congestion)?),
            None => None,
        };
        let shared = Shared {
            options,
            roster,
            pool,
            switch: Arc::default(),
            inward,
            limiter: HandshakeLimiter::new(HANDSHAKES, HANDSHAKES_PER_SOURCE),
            attempts: Mutex::new(Attempts::new(DENIED_AT_ONCE, DENIED_EVERY)),
            standing: watch::Sender::default(),
            log: Box::new(log),
        };
        let server = Server { endpoint, listener, shared: Arc::new(shared), tls };
        // This sender is never used, because each connection has its own.
        let config = server.config(&Sender::new(server.shared.options.law.clone()))?;
        server.endpoint.set_server_config(Some(config));
        Ok(server)
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.endpoint.local_addr().map_err(Error::of("ask for an address"))
    }

    /// The addresses of server and clients in the tunnel.
    pub fn pool(&self) -> Pool {
        self.shared.pool
    }

    /// The switch to the connected clients.
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.shared.switch)
    }

    /// Serves until `stop` is notified.
    pub async fn run(self, stop: &Notify) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
        // The connections end with the server.
        let mut connections = JoinSet::new();
        let (began, mut survey, mut looks) = (Instant::now(), Survey::default(), interval(LOOK_EVERY));
        loop {
            while connections.try_join_next().is_some() {}
            tokio::select! {
                () = stop.notified() => break,
                _ = looks.tick() => self.shared.look(began.elapsed(), &mut survey),
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.arrived(incoming, &mut connections),
                    None => break,
                },
                accepted = stream::accept(self.listener.as_ref()) => {
                    if let Some(place) = self.shared.enter(accepted.1.ip()) {
                        let serving = stream::serve(Arc::clone(&self.shared), acceptor.clone(), accepted, place);
                        connections.spawn(serving);
                    }
                }
            }
        }
        self.endpoint.close(CLOSE_AGAIN, b"the server has stopped");
        connections.shutdown().await;
        // The last packets need time to leave.
        let _ = tokio::time::timeout(Duration::from_millis(300), self.endpoint.wait_idle()).await;
    }

    fn arrived(&self, incoming: Incoming, connections: &mut JoinSet<()>) {
        if !incoming.remote_address_validated() && self.shared.limiter.len() >= BUSY {
            // A stateless answer, which a client with a forged address does not receive.
            let _ = incoming.retry();
            return;
        }
        let from = incoming.remote_address();
        let Some(place) = self.shared.enter(from.ip()) else {
            incoming.refuse();
            return;
        };
        let sender = Sender::new(self.shared.options.law.clone());
        let Ok(config) = self.config(&sender) else { return };
        let shared = Arc::clone(&self.shared);
        connections.spawn(async move {
            let Ok(connecting) = incoming.accept_with(Arc::new(config)) else { return };
            let connection = tokio::select! {
                connection = tokio::time::timeout(HANDSHAKE, connecting) => connection,
                () = place.displaced() => return,
            };
            match connection {
                Ok(Ok(connection)) => serve(&shared, &connection, &sender, place).await,
                Ok(Err(error)) => {
                    quic::denial(&error).into_iter().for_each(|denied| shared.denied(from, denied))
                }
                Err(_) => {}
            }
        });
    }

    fn config(&self, sender: &Arc<Sender>) -> Result<quinn::ServerConfig, Error> {
        let crypto = QuicServerConfig::try_from(Arc::clone(&self.tls))
            .map_err(|error| Error::Options(error.to_string()))?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config
            .transport_config(quic::transport(sender, quic::SILENCE))
            .max_incoming(HANDSHAKES)
            .incoming_buffer_size(16 << 10)
            .incoming_buffer_size_total((16 << 10) * HANDSHAKES as u64);
        Ok(config)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Shared {
    pub fn log(&self, words: &str) {
        (self.log)(words);
    }

    /// A place for a handshake with `source`; `None` if `source` has too many handshakes, or
    /// showed too many unknown tokens.
    fn enter(&self, source: IpAddr) -> Option<Place> {
        self.attempts().admit(source, Instant::now()).ok()?;
        self.limiter.enter(source)
    }

    /// Counts and logs a refused token.
    pub fn denied(&self, from: SocketAddr, denied: Denied) {
        let mut attempts = self.attempts();
        attempts.failed(from.ip(), Instant::now());
        let (failed, slowed) = (attempts.total_failed(), attempts.total_slowed());
        drop(attempts);
        let why = match denied {
            Denied::Unknown => "its token is not known",
            Denied::Revoked => "its token has been revoked",
            Denied::Expired => "its token has expired",
        };
        self.log(&format!(
            "refused {}: {why} ({failed} refused since the start, {slowed} more without a look)",
            from.ip()
        ));
    }

    /// Updates the server's standing, and tells the clients.
    fn look(&self, now: Duration, survey: &mut Survey) {
        let clients = self.switch.members().into_iter().map(|member| {
            let [sent, received] = [member.counts.sent(), member.counts.received()].map(|(_, bytes)| bytes);
            (u32::from(member.addresses.0), sent + received)
        });
        let rate = self.options.rate.map(Rate::bits_per_sec);
        let told = survey.look((now, SystemTime::now()), self.roster.paused(), clients, rate);
        if let Some(standing) = told {
            self.standing.send_replace(standing);
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client with this key, if it may join now.
    pub fn admit(&self, key: Option<Fingerprint>) -> Result<(Fingerprint, Invited), Denied> {
        let key = key.ok_or(Denied::Unknown)?;
        self.roster.find(&key).map(|invited| (key, invited))
    }

    /// Waits until the client's invitation ends.
    pub async fn uninvited(&self, key: &Fingerprint) -> Denied {
        loop {
            tokio::time::sleep(STILL_INVITED).await;
            if let Err(denied) = self.roster.find(key) {
                return denied;
            }
        }
    }

    /// The client's member for the switch. `mtu` is the longest packet that the client takes, in
    /// bytes.
    pub fn member(
        &self,
        invited: &Invited,
        from: SocketAddr,
        sender: Option<Arc<Sender>>,
    ) -> Result<Arc<Member>, Error> {
        Ok(Arc::new(Member {
            name: invited.name.clone(),
            addresses: self.pool.client(invited.number)?,
            from,
            egress: Arc::new(Egress::new(&self.options.queue)),
            counts: Arc::new(Counts::default()),
            sender,
            replaced: Notify::new(),
        }))
    }

    /// Adds a client that is connected.
    pub fn joined(&self, member: &Arc<Member>, transport: &str) {
        self.switch.join(member);
        let Member { name, from, addresses: (v4, _), .. } = &**member;
        self.log(&format!("{name} joined from {from} over {transport} as {v4}"));
    }

    /// Removes a client.
    pub fn left(&self, member: &Arc<Member>, why: &str) {
        self.switch.leave(member);
        self.log(&format!("{} left: {why}; {}", member.name, member.account()));
    }

    /// The ends of a client's tunnel.
    pub fn ends(&self, member: &Member) -> Ends {
        Ends {
            egress: Arc::clone(&member.egress),
            inward: Arc::clone(&self.inward),
            from: Some(member.addresses),
            counts: Arc::clone(&member.counts),
            silence: quic::SILENCE,
            tell: Tell::of(&self.standing),
            told: None,
        }
    }

    /// The welcome of a client with these addresses.
    pub fn welcome(&self, (v4, v6): (Ipv4Addr, Ipv6Addr), mtu: u16, law: String) -> Greeting {
        let (server_v4, server_v6) = self.pool.server();
        Greeting::Welcome(Welcome { v4, v6, server_v4, server_v6, mtu: mtu.min(self.options.mtu), law })
    }
}

/// The message for a client that is not invited, or no longer.
pub(crate) fn words(denied: Denied) -> &'static str {
    match denied {
        Denied::Unknown => "the server does not know this token",
        Denied::Revoked => "the server refuses this token: it has been revoked",
        Denied::Expired => "the server refuses this token: it has expired",
    }
}

/// The message for a client whose token another connection uses.
pub(crate) const REPLACED: &str = "another connection uses the same token; every machine needs its own";

/// Serves a client over QUIC whose key TLS has accepted.
async fn serve(shared: &Shared, connection: &Connection, sender: &Arc<Sender>, place: Place) {
    let (key, invited) = match shared.admit(quic::peer(connection)) {
        Ok(known) => known,
        Err(denied) => {
            shared.denied(connection.remote_address(), denied);
            return connection.close(CLOSE_FOR_GOOD, words(denied).as_bytes());
        }
    };
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HANDSHAKE, greet(shared, connection, &invited, sender)) => greeted,
        () = place.displaced() => return connection.close(CLOSE_AGAIN, b"the server is busy"),
    };
    let member = match greeted {
        Ok(Ok(member)) => member,
        Ok(Err(error)) => return connection.close(CLOSE_FOR_GOOD, error.to_string().as_bytes()),
        Err(_) => return connection.close(CLOSE_FOR_GOOD, b"there was no greeting in time"),
    };
    drop(place);
    shared.joined(&member, "QUIC");
    let ends = shared.ends(&member);
    let why = tokio::select! {
        error = carry(connection, sender, &ends) => quic::explain(&error).to_string(),
        () = member.replaced.notified() => {
            connection.close(CLOSE_FOR_GOOD, REPLACED.as_bytes());
            "the same token came again".into()
        }
        denied = shared.uninvited(&key) => {
            connection.close(CLOSE_FOR_GOOD, words(denied).as_bytes());
            words(denied).into()
        }
    };
    shared.left(&member, &why);
}

async fn greet(
    shared: &Shared,
    connection: &Connection,
    invited: &Invited,
    sender: &Arc<Sender>,
) -> Result<Arc<Member>, Error> {
    let (mut send, mut receive) =
        connection.accept_bi().await.map_err(|error| Error::Lost(error.to_string()))?;
    let Greeting::Hello { mtu, .. } = quic::greeting(&mut receive).await? else {
        return Err(Error::Refused("a client begins with a hello".into()));
    };
    let member = shared.member(invited, connection.remote_address(), Some(Arc::clone(sender)))?;
    let law = shared.options.demand.as_ref().map(ToString::to_string).unwrap_or_default();
    quic::greet(&mut send, &shared.welcome(member.addresses, mtu, law)).await?;
    let _ = send.finish();
    Ok(member)
}
