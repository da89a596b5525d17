//! Connections to the Internet. The policy checks each address, the receive window is set before
//! the first packet, and data is read no faster than the scheduler grants.

use crate::block::List;
use crate::budget::{Budget, Flow};
use crate::config::Config;
use crate::destinations::Destinations;
use crate::dns;
use crate::echo::Echo;
use crate::gate::{Gate, Pass};
use crate::home_speed::Speedometer;
use crate::notes::{Note, Value};
use crate::policy::{Policy, Refusal, Transport};
use crate::refusals::{
    HOST_UNKNOWN, NAME_BLOCKED, NETWORK_BLOCKED, NO_CONNECTION, NO_HOST, NOT_PUBLIC, PORT_BLOCKED,
    PORT_CLOSED, TOO_MANY, UNREACHABLE,
};
use crate::relay::Relay;
use crate::resolve::{ResolveError, Resolver};
use crate::socket::{self, Options};
use crate::upload::{HANDSHAKE_BYTES, Sender, Upload};
use crate::users::{Place, User};
use leeway_accounts::ledger::Direction;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Most bytes of one grant for reading.
const READ_BYTES: u64 = 64 * 1024;

/// Most buffers of one vectored write.
const SLICES: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The policy refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The name has no address, or none that the policy allows.
    #[error(transparent)]
    Name(#[from] ResolveError),
    /// The user has no free place ([`crate::users::Users::admit_upstream`]).
    #[error("too many connections at a time")]
    TooMany,
    /// The server does not answer.
    #[error("{0} does not answer within {1} s")]
    Timeout(SocketAddr, u64),
    /// The server or the network refused the connection.
    #[error("cannot connect to {0}: {1}")]
    Failed(SocketAddr, io::Error),
}

impl ConnectError {
    /// The policy's refusal, if the policy refused.
    pub fn refusal(&self) -> Option<Refusal> {
        use ResolveError::{Address, Refused};
        match self {
            ConnectError::Refused(refusal)
            | ConnectError::Name(Refused { refusal, .. } | Address(refusal)) => Some(*refusal),
            _ => None,
        }
    }
}

impl ConnectError {
    /// The error for a user, without the home's addresses and its name servers' replies.
    pub fn to_user(&self) -> Note {
        let of = |phrase| Note::new(phrase, []);
        match self {
            ConnectError::Refused(refusal)
            | ConnectError::Name(ResolveError::Address(refusal) | ResolveError::Refused { refusal, .. }) => {
                match refusal {
                    Refusal::Port(port, _) => Note::new(&PORT_CLOSED, [Value::same(port)]),
                    Refusal::BlockedPort(port) => Note::new(&PORT_BLOCKED, [Value::same(port)]),
                    Refusal::BlockedName => of(&NAME_BLOCKED),
                    Refusal::BlockedNetwork(_) => of(&NETWORK_BLOCKED),
                    _ => of(&NOT_PUBLIC),
                }
            }
            ConnectError::Name(ResolveError::Name(_)) => of(&NO_HOST),
            ConnectError::Name(ResolveError::Unknown { .. }) => of(&HOST_UNKNOWN),
            ConnectError::TooMany => of(&TOO_MANY),
            ConnectError::Timeout(_, seconds) => Note::new(&NO_CONNECTION, [Value::same(seconds)]),
            ConnectError::Failed(..) => of(&UNREACHABLE),
        }
    }
}

/// The path to the Internet: the number of a session with the relay, or `None` without the relay.
pub type Path = Option<u64>;

/// Makes the connections to the Internet.
pub struct Connector {
    /// Which addresses are allowed. A reload replaces it.
    policy: RwLock<Arc<Policy>>,
    /// The window of all downloads, if there is a law.
    pub budget: Option<Arc<Budget>>,
    /// The window of downloads through the relay. It only divides them among users: the tunnel's
    /// law yields to the home.
    pub relay_budget: Option<Arc<Budget>>,
    /// The window of all uploads without the relay, if there is a law.
    pub upload: Option<Arc<Upload>>,
    /// The relay's tunnel, used while it is up.
    pub relay: Option<Arc<Relay>>,
    /// Whether sharing is on.
    pub gate: Arc<Gate>,
    /// The home's speed with and without neighbours.
    pub speedometer: Arc<Speedometer>,
    /// Requests and datagrams that the owner's lists refused, in the order of [`List::ALL`].
    blocked: [AtomicU64; 3],
    resolver: Resolver,
    congestion: Result<String, Vec<Note>>,
    /// The log of destinations; as a rule there is none.
    destinations: Option<Destinations>,
    users: Arc<crate::users::Users>,
    timeout: Duration,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Upstream {
    socket: Arc<TcpStream>,
    user: Arc<User>,
    flow: Option<Arc<Flow>>,
    sender: Option<Sender>,
    path: Path,
    relay: Option<Arc<Relay>>,
    pass: Pass,
    /// Bytes that may be read: granted and not read yet.
    granted: u64,
    _place: Place,
}

impl Connector {
    /// A connector for a configuration.
    pub fn new(
        config: &Config,
        policy: Policy,
        resolver: Resolver,
        users: Arc<crate::users::Users>,
        relay: Option<Arc<Relay>>,
        gate: Arc<Gate>,
        echo: io::Result<Echo>,
    ) -> Connector {
        let landmarks =
            resolver.name_servers().iter().filter_map(|server| policy.check(server.ip()).ok()).collect();
        Connector {
            upload: config.uplink.as_ref().map(|law| Upload::new(law, landmarks, echo)),
            policy: RwLock::new(Arc::new(policy)),
            budget: config.law.as_ref().map(Budget::new),
            relay_budget: relay
                .as_ref()
                .and_then(|_| config.relay.as_ref()?.window.as_ref())
                .map(Budget::new),
            relay,
            gate,
            speedometer: Arc::default(),
            blocked: Default::default(),
            resolver,
            congestion: socket::first_congestion(&config.upload),
            destinations: None,
            users,
            timeout: Duration::from_secs(config.limits.connect_s),
        }
    }

    /// The connector with a log of destinations.
    #[must_use]
    pub fn recording(self, destinations: Option<Destinations>) -> Connector {
        Connector { destinations, ..self }
    }

    /// The log of destinations, if there is one.
    pub fn destinations(&self) -> Option<&Destinations> {
        self.destinations.as_ref()
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another policy in force, for new connections.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Counts a refusal for `user`, and for the owner's list that refused.
    pub fn refused(&self, user: &User, refusal: Option<Refusal>) {
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(list) = refusal.and_then(Refusal::list) {
            self.blocked[list as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of refusals of each of the owner's lists.
    pub fn blocked(&self) -> [(List, u64); 3] {
        List::ALL.map(|list| (list, self.blocked[list as usize].load(Ordering::Relaxed)))
    }

    /// The DNS response for a blocked name; `None` if the name is not blocked.
    pub fn blocked_answer(&self, user: &User, question: &[u8]) -> Option<Vec<u8>> {
        let refusal = self.policy().check_name(&dns::name(question)?).err()?;
        self.refused(user, Some(refusal));
        Some(dns::blocked(question))
    }

    /// The kernel's congestion control for uploads; if it has none of the configured ones, the
    /// reasons.
    pub fn congestion(&self) -> Result<&str, &[Note]> {
        self.congestion.as_deref().map_err(Vec::as_slice)
    }

    /// The window of uploads by this path.
    pub fn upload(&self, path: Path) -> Option<&Arc<Upload>> {
        self.upload.as_ref().filter(|_| path.is_none())
    }

    /// The address, if the policy allows it; `None` for a name server in the home, for which no
    /// law is needed.
    pub fn beyond(&self, address: IpAddr) -> Option<IpAddr> {
        self.policy().check(address).ok()
    }

    /// The addresses of `host` that the policy allows, for one request.
    ///
    /// # Errors
    /// A closed port, a name that is not known or not allowed.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let policy = self.policy();
        policy.check_port(Transport::Tcp, port)?;
        Ok(self.resolver.resolve(&policy, host, port).await?)
    }

    /// The addresses of `host` that the policy allows, for datagrams (UDP).
    ///
    /// # Errors
    /// A closed port, a name that is not known or not allowed.
    pub async fn datagram_addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let policy = self.policy();
        policy.check_port(Transport::Udp, port)?;
        Ok(self.resolver.resolve(&policy, host, port).await?)
    }

    /// Checks `to` as the address of datagrams, and returns it.
    ///
    /// # Errors
    /// A closed port, an address that is not allowed.
    pub fn datagram_address(&self, to: SocketAddr) -> Result<SocketAddr, Refusal> {
        let policy = self.policy();
        policy.check_port(Transport::Udp, to.port())?;
        Ok(SocketAddr::new(policy.check(to.ip())?, to.port()))
    }

    /// The name server for the clients' DNS queries.
    pub fn name_server(&self) -> SocketAddr {
        self.resolver.name_servers()[0]
    }

    /// Moves on to the next name server, because the current one does not answer.
    pub fn name_server_is_silent(&self) {
        self.resolver.name_server_is_silent();
    }

    /// A place for a connection or a UDP association of `user`.
    pub fn admit(&self, user: &User) -> Option<Place> {
        self.users.admit_upstream(user)
    }

    /// The path that new connections take.
    pub fn path(&self) -> Path {
        self.relay.as_ref().and_then(|relay| relay.turn())
    }

    /// The network device of a path, if it has its own.
    pub fn device(&self, path: Path) -> Option<&str> {
        self.relay.as_deref().filter(|_| path.is_some()).map(Relay::device)
    }

    /// The window of downloads by a path.
    pub fn budget(&self, path: Path) -> Option<&Arc<Budget>> {
        if path.is_some() { self.relay_budget.as_ref() } else { self.budget.as_ref() }
    }

    /// Connects `user` to the first address that answers. The addresses are checked already.
    ///
    /// # Errors
    /// None answers, or the user has too many connections.
    pub async fn connect(&self, user: &Arc<User>, to: &[SocketAddr]) -> Result<Upstream, ConnectError> {
        let check = |address: &SocketAddr| self.policy().check(address.ip());
        let upstream = self.connect_first(user, to, || self.path(), check).await?;
        if let (Some(destinations), Ok(server)) = (&self.destinations, upstream.socket.peer_addr()) {
            destinations.record(&user.name, Transport::Tcp, server);
        }
        Ok(upstream)
    }

    /// Connects `user` to one of the gateway's name servers. It may be in the home, which no relay
    /// reaches.
    ///
    /// # Errors
    /// None answers, or the user has too many connections.
    pub async fn connect_name_server(&self, user: &Arc<User>) -> Result<Upstream, ConnectError> {
        self.connect_first(user, &self.resolver.name_servers(), || None, |server| Ok(server.ip())).await
    }

    async fn connect_first(
        &self,
        user: &Arc<User>,
        to: &[SocketAddr],
        take: impl Fn() -> Path,
        check: impl Fn(&SocketAddr) -> Result<IpAddr, Refusal>,
    ) -> Result<Upstream, ConnectError> {
        let place = self.admit(user).ok_or(ConnectError::TooMany)?;
        let mut failure = ConnectError::TooMany;
        for &address in to {
            // Again whenever the path changed meanwhile.
            let (path, connected) = loop {
                // The address may have become one of the home since the name was resolved.
                if let Err(refusal) = check(&address) {
                    break (None, Err(refusal.into()));
                }
                let path = take();
                if let Some(connected) = self.connect_by(path, user, address).await {
                    break (path, connected);
                }
            };
            match connected {
                Ok((socket, flow, sender)) => {
                    let (user, relay) = (user.clone(), self.relay.clone());
                    return Ok(Upstream {
                        socket,
                        user,
                        flow,
                        sender,
                        path,
                        relay,
                        pass: Pass::new(self.gate.clone()),
                        granted: 0,
                        _place: place,
                    });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Connects by a path; `None` if the path is down by now.
    async fn connect_by(
        &self,
        path: Path,
        user: &User,
        to: SocketAddr,
    ) -> Option<Result<Connected, ConnectError>> {
        let flow = self.budget(path).map(|budget| Arc::new(budget.flow(user.id, to.ip())));
        let beyond = self.beyond(to.ip());
        if let Some(upload) = self.upload(path) {
            // Users take turns with handshakes as well. The handshake's flow ends here: the
            // connection has a flow of its own.
            let handshake = upload.datagrams(user.id);
            handshake.turn(HANDSHAKE_BYTES, beyond).await;
            handshake.sent(HANDSHAKE_BYTES);
        }
        let sender = self.upload(path).map(|upload| upload.connection(user.id, beyond));
        let options = Options {
            congestion: self.congestion().ok().filter(|_| path.is_none()),
            little: sender.is_some(),
            window: flow.as_ref().map(|flow| flow.window_bytes()),
            // The tunnel's queue holds what a connection sends too fast.
            scaled: path.is_some() || flow.as_ref().is_some_and(|flow| flow.may_be_large()),
            device: self.device(path),
        };
        let connected = tokio::select! {
            connected = tokio::time::timeout(self.timeout, socket::connect(to, options)) => connected,
            () = over(self.relay.clone(), path) => return None,
        };
        Some(match connected {
            Ok(Ok(stream)) => {
                let socket = Arc::new(stream);
                if let Some(flow) = &flow {
                    flow.connected(&socket);
                }
                if let Some(sender) = &sender {
                    sender.connected(&socket);
                }
                Ok((socket, flow, sender))
            }
            Ok(Err(error)) => Err(ConnectError::Failed(to, error)),
            Err(_) => Err(ConnectError::Timeout(to, self.timeout.as_secs())),
        })
    }
}

/// Waits until a path is down. The path without the relay stays.
async fn over(relay: Option<Arc<Relay>>, path: Path) {
    match relay.zip(path) {
        Some((relay, turn)) => relay.over(turn).await,
        None => std::future::pending().await,
    }
}

/// A connection, with its flows in the shared windows where there are laws.
type Connected = (Arc<TcpStream>, Option<Arc<Flow>>, Option<Sender>);

impl Upstream {
    /// The path that the connection takes.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Waits until the connection cannot go on: its path is down, or its user's access is revoked.
    pub fn over(&self) -> impl Future<Output = ()> + use<> {
        let (relay, path, user) = (self.relay.clone(), self.path, self.user.clone());
        async move {
            tokio::select! {
                () = over(relay, path) => {}
                () = user.revoked() => {}
            }
        }
    }

    /// The connection's flow in the window of downloads. HTTP tells it where a response ends.
    pub fn flow(&self) -> Option<Arc<Flow>> {
        self.flow.clone()
    }

    fn poll_grant(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(flow) = &self.flow else {
            self.granted = READ_BYTES;
            return Poll::Ready(Ok(()));
        };
        ready!(self.socket.poll_read_ready(cx))?;
        let unread = rustix::io::ioctl_fionread(&*self.socket)?;
        flow.seen(unread);
        // At the end of the stream no further grant is needed.
        let granted = if unread > 0 { ready!(flow.poll_read(cx, unread.min(READ_BYTES))) } else { 0 };
        self.granted = granted.max(1);
        Poll::Ready(Ok(()))
    }
}

/// Writes at most `most` bytes of the buffers.
fn write_some(socket: &TcpStream, bufs: &[io::IoSlice<'_>], most: u64) -> io::Result<usize> {
    let mut rest = usize::try_from(most).unwrap_or(usize::MAX);
    let mut some = Vec::with_capacity(bufs.len().min(SLICES));
    for buf in bufs.iter().take(SLICES) {
        let bytes = buf.len().min(rest);
        rest -= bytes;
        if bytes > 0 {
            some.push(io::IoSlice::new(&buf[..bytes]));
        }
    }
    socket.try_write_vectored(&some)
}

impl AsyncRead for Upstream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if this.granted == 0 {
                ready!(this.poll_grant(cx))?;
            }
            let most = buf.remaining().min(usize::try_from(this.granted).unwrap_or(usize::MAX));
            let leave = ready!(this.pass.poll(cx, &this.user, Direction::Down, most as u64))?;
            let most = most.min(usize::try_from(leave.bytes()).unwrap_or(usize::MAX));
            match this.socket.try_read(buf.initialize_unfilled_to(most)) {
                Ok(bytes) => {
                    leave.moved(bytes as u64);
                    buf.advance(bytes);
                    this.granted = if this.flow.is_some() { this.granted - bytes as u64 } else { 0 };
                    this.user.counts.down_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    if let Some(flow) = &this.flow {
                        flow.read(bytes as u64);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(leave);
                    this.granted = 0;
                    if this.flow.is_none() {
                        ready!(this.socket.poll_read_ready(cx))?;
                    }
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(flow) = &this.flow {
            ready!(flow.poll_start(cx));
        }
        let wanted = bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        loop {
            ready!(this.socket.poll_write_ready(cx))?;
            let leave = ready!(this.pass.poll(cx, &this.user, Direction::Up, wanted.max(1)))?;
            let written = match &this.sender {
                Some(sender) if wanted > 0 => {
                    let granted = ready!(sender.poll_grant(cx, wanted.min(leave.bytes())));
                    let written = write_some(&this.socket, bufs, granted.min(leave.bytes()));
                    written.iter().for_each(|&bytes| sender.sent(bytes as u64));
                    written
                }
                _ => write_some(&this.socket, bufs, leave.bytes()),
            };
            match written {
                Ok(bytes) => {
                    leave.moved(bytes as u64);
                    this.user.counts.up_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Write);
        Poll::Ready(match done {
            // The other end has closed the connection already.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }
}
