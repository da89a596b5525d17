//! Connections to the Internet: checked, bounded before their first packet, read no faster than granted.

use crate::block::List;
use crate::budget::{Budget, Flow};
use crate::config::Config;
use crate::dns;
use crate::echo::Echo;
use crate::gate::{Gate, Pass};
use crate::policy::{Policy, Refusal, Transport};
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

/// Bytes that one permission reads at most.
const READ_BYTES: u64 = 64 * 1024;

/// Pieces that one write takes at most.
const SLICES: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not allowed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No address, or none that is allowed.
    #[error(transparent)]
    Name(#[from] ResolveError),
    /// The user has too many already.
    #[error("too many connections at a time")]
    TooMany,
    /// The server does not answer.
    #[error("{0} does not answer within {1} s")]
    Timeout(SocketAddr, u64),
    /// The server or the network refuses.
    #[error("cannot connect to {0}: {1}")]
    Failed(SocketAddr, io::Error),
}

impl ConnectError {
    /// What the gateway says, if it is the gateway that says no.
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
    /// Words for a user: no address that a name of the home may have, nor what its name servers say.
    pub fn to_user(&self) -> String {
        match self {
            ConnectError::Refused(refusal)
            | ConnectError::Name(ResolveError::Address(refusal) | ResolveError::Refused { refusal, .. }) => {
                match refusal {
                    Refusal::Port(port, _) => format!("port {port} is not open"),
                    Refusal::BlockedPort(port) => format!("the owner of this line has blocked port {port}"),
                    Refusal::BlockedName => "the owner of this line has blocked this name".into(),
                    Refusal::BlockedNetwork(_) => {
                        "the owner of this line has blocked the network of this address".into()
                    }
                    _ => "not an address of the public Internet that users may reach".into(),
                }
            }
            ConnectError::Name(ResolveError::Name(_)) => "the host is neither a name nor an address".into(),
            ConnectError::Name(ResolveError::Unknown { .. }) => "no address of the host is known".into(),
            ConnectError::TooMany => self.to_string(),
            ConnectError::Timeout(_, seconds) => format!("the server does not answer within {seconds} s"),
            ConnectError::Failed(..) => "the server cannot be reached".into(),
        }
    }
}

/// The way to the Internet: that turn of the relay, or none for the direct one.
pub type Way = Option<u64>;

/// How connections to the Internet are made.
pub struct Connector {
    /// Where they may go; another after a reload.
    policy: RwLock<Arc<Policy>>,
    /// The window that they share, if there is a law.
    pub budget: Option<Arc<Budget>>,
    /// The one of those through the relay, whose own law sees to it that nobody notices: this one shares what there is.
    pub relay_budget: Option<Arc<Budget>>,
    /// The window of all that is sent directly, if there is a law.
    pub upload: Option<Arc<Upload>>,
    /// The tunnel that is taken while it is there.
    pub relay: Option<Arc<Relay>>,
    /// Whether neighbours are served now.
    pub gate: Arc<Gate>,
    /// Requests and datagrams that the owner's lists have refused, as [`List::ALL`] has them.
    blocked: [AtomicU64; 3],
    resolver: Resolver,
    congestion: Result<String, String>,
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
    way: Way,
    relay: Option<Arc<Relay>>,
    pass: Pass,
    /// Bytes that may be read.
    permitted: u64,
    _place: Place,
}

impl Connector {
    /// As configured.
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
            blocked: Default::default(),
            resolver,
            congestion: socket::first_congestion(&config.upload),
            users,
            timeout: Duration::from_secs(config.limits.connect_s),
        }
    }

    /// Where connections may go now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where they may go from now on.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Counts that `user` was refused something, by one of the owner's lists or otherwise.
    pub fn refused(&self, user: &User, refusal: Option<Refusal>) {
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(list) = refusal.and_then(Refusal::list) {
            self.blocked[list as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What each of the owner's lists has refused.
    pub fn blocked(&self) -> [(List, u64); 3] {
        List::ALL.map(|list| (list, self.blocked[list as usize].load(Ordering::Relaxed)))
    }

    /// The answer to a question for a name that is blocked; none: it may be asked.
    pub fn blocked_answer(&self, user: &User, question: &[u8]) -> Option<Vec<u8>> {
        let refusal = self.policy().check_name(&dns::name(question)?).err()?;
        self.refused(user, Some(refusal));
        Some(dns::blocked(question))
    }

    /// The congestion control of uploads, if the kernel has one of those that were asked for; else why not.
    pub fn congestion(&self) -> Result<&str, &str> {
        self.congestion.as_deref().map_err(String::as_str)
    }

    /// The window of what is sent that way.
    pub fn upload(&self, way: Way) -> Option<&Arc<Upload>> {
        self.upload.as_ref().filter(|_| way.is_none())
    }

    /// That address, if it is beyond the line; a name server may be the home's.
    pub fn beyond(&self, address: IpAddr) -> Option<IpAddr> {
        self.policy().check(address).ok()
    }

    /// The addresses that `host` stands for, now and for this request.
    ///
    /// # Errors
    /// A closed port, a name that is not known or not allowed.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let policy = self.policy();
        policy.check_port(Transport::Tcp, port)?;
        Ok(self.resolver.resolve(&policy, host, port).await?)
    }

    /// The same for datagrams.
    ///
    /// # Errors
    /// A closed port, a name that is not known or not allowed.
    pub async fn datagram_addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let policy = self.policy();
        policy.check_port(Transport::Udp, port)?;
        Ok(self.resolver.resolve(&policy, host, port).await?)
    }

    /// The address that datagrams to `to` go to.
    ///
    /// # Errors
    /// A closed port, an address that is not allowed.
    pub fn datagram_address(&self, to: SocketAddr) -> Result<SocketAddr, Refusal> {
        let policy = self.policy();
        policy.check_port(Transport::Udp, to.port())?;
        Ok(SocketAddr::new(policy.check(to.ip())?, to.port()))
    }

    /// The name server that answers clients' own questions.
    pub fn name_server(&self) -> SocketAddr {
        self.resolver.name_servers()[0]
    }

    /// It does not answer.
    pub fn name_server_is_silent(&self) {
        self.resolver.name_server_is_silent();
    }

    /// A place for a connection of `user` or an association; none if there are too many.
    pub fn admit(&self, user: &User) -> Option<Place> {
        self.users.admit_upstream(user)
    }

    /// The way to the Internet that connections take now.
    pub fn way(&self) -> Way {
        self.relay.as_ref().and_then(|relay| relay.turn())
    }

    /// The device of that way, if it has one of its own.
    pub fn device(&self, way: Way) -> Option<&str> {
        self.relay.as_deref().filter(|_| way.is_some()).map(Relay::device)
    }

    /// The window of those who take that way.
    pub fn budget(&self, way: Way) -> Option<&Arc<Budget>> {
        if way.is_some() { self.relay_budget.as_ref() } else { self.budget.as_ref() }
    }

    /// Connects `user` to the first of the addresses that answers. They have been checked.
    ///
    /// # Errors
    /// None answers, or the user has too many connections.
    pub async fn connect(&self, user: &Arc<User>, to: &[SocketAddr]) -> Result<Upstream, ConnectError> {
        self.connect_first(user, to, || self.way(), |address| self.policy().check(address.ip())).await
    }

    /// Connects `user` to a name server of the gateway's. It may be one of the home, which no relay reaches.
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
        take: impl Fn() -> Way,
        check: impl Fn(&SocketAddr) -> Result<IpAddr, Refusal>,
    ) -> Result<Upstream, ConnectError> {
        let place = self.admit(user).ok_or(ConnectError::TooMany)?;
        let mut failure = ConnectError::TooMany;
        for &address in to {
            // Once more for each time that the way changes meanwhile.
            let (way, connected) = loop {
                // The home may have got this address since the name was looked up.
                if let Err(refusal) = check(&address) {
                    break (None, Err(refusal.into()));
                }
                let way = take();
                if let Some(connected) = self.connect_by(way, user, address).await {
                    break (way, connected);
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
                        way,
                        relay,
                        pass: Pass::new(self.gate.clone()),
                        permitted: 0,
                        _place: place,
                    });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Connects by that way; nothing if it has gone meanwhile.
    async fn connect_by(
        &self,
        way: Way,
        user: &User,
        to: SocketAddr,
    ) -> Option<Result<Connected, ConnectError>> {
        let flow = self.budget(way).map(|budget| Arc::new(budget.flow(user.id, to.ip())));
        let beyond = self.beyond(to.ip());
        if let Some(upload) = self.upload(way) {
            // Users take turns with handshakes, too. This flow ends before the connection begins, whose bytes are counted by themselves.
            let handshake = upload.datagrams(user.id);
            handshake.turn(HANDSHAKE_BYTES, beyond).await;
            handshake.sent(HANDSHAKE_BYTES);
        }
        let sender = self.upload(way).map(|upload| upload.connection(user.id, beyond));
        let options = Options {
            congestion: self.congestion().ok().filter(|_| way.is_none()),
            little: sender.is_some(),
            window: flow.as_ref().map(|flow| flow.window_bytes()),
            // The relay's queue takes what a connection has too much.
            scaled: way.is_some() || flow.as_ref().is_some_and(|flow| flow.may_be_large()),
            device: self.device(way),
        };
        let connected = tokio::select! {
            connected = tokio::time::timeout(self.timeout, socket::connect(to, options)) => connected,
            () = over(self.relay.clone(), way) => return None,
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

/// Ready when that way is gone; the direct one stays.
async fn over(relay: Option<Arc<Relay>>, way: Way) {
    match relay.zip(way) {
        Some((relay, turn)) => relay.over(turn).await,
        None => std::future::pending().await,
    }
}

/// A connection, and its parts in the shared windows if it has any.
type Connected = (Arc<TcpStream>, Option<Arc<Flow>>, Option<Sender>);

impl Upstream {
    /// The way that it takes.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Ready when the way that it takes is gone, or its user's access: nothing will come any more.
    pub fn over(&self) -> impl Future<Output = ()> + use<> {
        let (relay, way, user) = (self.relay.clone(), self.way, self.user.clone());
        async move {
            tokio::select! {
                () = over(relay, way) => {}
                () = user.revoked() => {}
            }
        }
    }

    /// Its part in the shared window; HTTP knows where an answer ends, and says so.
    pub fn flow(&self) -> Option<Arc<Flow>> {
        self.flow.clone()
    }

    fn poll_permission(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(flow) = &self.flow else {
            self.permitted = READ_BYTES;
            return Poll::Ready(Ok(()));
        };
        ready!(self.socket.poll_read_ready(cx))?;
        let unread = rustix::io::ioctl_fionread(&*self.socket)?;
        flow.seen(unread);
        // At the end of the stream there is nothing to wait for.
        let granted = if unread > 0 { ready!(flow.poll_read(cx, unread.min(READ_BYTES))) } else { 0 };
        self.permitted = granted.max(1);
        Poll::Ready(Ok(()))
    }
}

/// Writes `most` bytes of them, or less.
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
            if this.permitted == 0 {
                ready!(this.poll_permission(cx))?;
            }
            let most = buf.remaining().min(usize::try_from(this.permitted).unwrap_or(usize::MAX));
            let leave = ready!(this.pass.poll(cx, &this.user, Direction::Down, most as u64))?;
            let most = most.min(usize::try_from(leave.bytes()).unwrap_or(usize::MAX));
            match this.socket.try_read(buf.initialize_unfilled_to(most)) {
                Ok(bytes) => {
                    leave.moved(bytes as u64);
                    buf.advance(bytes);
                    this.permitted = if this.flow.is_some() { this.permitted - bytes as u64 } else { 0 };
                    this.user.counts.down_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    if let Some(flow) = &this.flow {
                        flow.read(bytes as u64);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(leave);
                    this.permitted = 0;
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
            // The other end was faster.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }
}
