//! One client's datagrams to the Internet and the responses to them, for SOCKS5 and for clients
//! without a configured proxy.

use crate::budget::Flow;
use crate::policy::Transport;
use crate::socket::{bind_device, forbid_fragments};
use crate::tunnel;
use crate::upload::Sender;
use crate::upstream::{Connector, Path};
use crate::users::{Place, User};
use bytes::Bytes;
use leeway_accounts::ledger::Direction;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::sync::Notify;

/// Longest datagram, in bytes.
pub const DATAGRAM_BYTES: usize = 65_535;
/// Servers that an association may receive from. Beyond that, the server that was sent to longest
/// ago is forgotten.
const PEERS: usize = 256;
/// Receive buffer in the kernel for datagrams that wait for their turn, in bytes.
pub const QUEUE_BYTES: usize = 64 * 1024;

thread_local! {
    /// Receives a datagram before its length is known. Shared by all associations of a thread, so
    /// that an idle association needs no memory for it.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; DATAGRAM_BYTES]);
}

/// One client's sockets towards the Internet. Only servers to which the client has sent may
/// answer.
pub struct Association {
    connector: Arc<Connector>,
    user: Arc<User>,
    /// Whether the relay is used while it can be reached.
    relayed: bool,
    sockets: Mutex<Arc<Sockets>>,
    changed: Notify,
    /// Servers to which the client has sent, and when it last did.
    peers: Mutex<BTreeMap<SocketAddr, Instant>>,
    steps: AtomicU64,
    _place: Place,
}

/// The sockets of one path: direct, or through the relay.
struct Sockets {
    path: Path,
    /// For IPv4 and IPv6. A machine may have only one of them.
    all: [Option<UdpSocket>; 2],
    /// Their flow in the shared window of downloads.
    flow: Option<Flow>,
    /// Their flow in the shared window of uploads.
    sender: Option<Sender>,
}

impl Association {
    /// Opens an association for `user`. `relayed` says whether the relay may carry it. `None` if
    /// the user has too many connections and associations.
    pub fn open(connector: &Arc<Connector>, user: &Arc<User>, relayed: bool) -> Option<Association> {
        let place = connector.admit(user)?;
        let path = connector.path().filter(|_| relayed);
        Some(Association {
            connector: connector.clone(),
            user: user.clone(),
            relayed,
            sockets: Mutex::new(Arc::new(Sockets::open(connector, user, path))),
            changed: Notify::new(),
            peers: Mutex::default(),
            steps: AtomicU64::new(0),
            _place: place,
        })
    }

    /// Whether there is a socket for the address family of `to`.
    pub fn reaches(&self, to: &SocketAddr) -> bool {
        lock(&self.sockets).of(to).is_some()
    }

    /// Sends a client's datagram to a checked server by the present path, when its turn comes. A
    /// datagram that cannot be sent, or does not fit into one packet, is lost.
    pub async fn send(&self, bytes: &[u8], to: SocketAddr) {
        let path = self.connector.path().filter(|_| self.relayed);
        let mut sockets = lock(&self.sockets).clone();
        if sockets.path != path {
            sockets = Arc::new(Sockets::open(&self.connector, &self.user, path));
            *lock(&self.sockets) = sockets.clone();
            self.changed.notify_one();
        }
        let Some(socket) = sockets.of(&to) else { return };
        if !self.connector.gate.datagram(&self.user, Direction::Up, bytes.len() as u64) {
            return;
        }
        let packet_bytes = bytes.len() as u64 + if to.is_ipv4() { 28 } else { 48 };
        if let Some(sender) = &sockets.sender {
            sender.turn(packet_bytes, self.connector.beyond(to.ip())).await;
        }
        let sent = socket.send_to(bytes, to).await.is_ok();
        if let Some(sender) = &sockets.sender {
            if sent { sender.sent(packet_bytes) } else { sender.unsent() }
        }
        if !sent {
            return;
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.user.counts.up_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut peers = lock(&self.peers);
        if peers.len() >= PEERS
            && !peers.contains_key(&to)
            && let Some(oldest) = peers.iter().min_by_key(|(_, asked)| **asked).map(|(peer, _)| *peer)
        {
            peers.remove(&oldest);
        }
        let new = peers.insert(to, Instant::now()).is_none();
        drop(peers);
        // Datagrams that may not use the relay are DNS questions to the gateway's own name server.
        if let Some(destinations) = self.connector.destinations().filter(|_| new && self.relayed) {
            destinations.record(&self.user.name, Transport::Udp, to);
        }
    }

    /// The next datagram from a server that the client has sent to, when its turn comes. The
    /// kernel drops datagrams that do not fit into the receive buffer, which tells the server to
    /// send less.
    ///
    /// If this is dropped before it is ready, a datagram may be lost.
    pub async fn receive(&self) -> Datagram {
        loop {
            let sockets = lock(&self.sockets).clone();
            let received = tokio::select! {
                received = receive_some(&sockets.all[0]) => received,
                received = receive_some(&sockets.all[1]) => received,
                () = self.changed.notified() => continue,
            };
            // An error concerns a datagram that was sent earlier (ICMP).
            let Ok(datagram) = received else { continue };
            if !lock(&self.peers).contains_key(&datagram.peer)
                || !self.connector.gate.datagram(&self.user, Direction::Down, datagram.bytes.len() as u64)
            {
                continue;
            }
            let bytes = datagram.bytes.len() as u64;
            if let Some(flow) = &sockets.flow {
                std::future::poll_fn(|cx| flow.poll_datagram(cx, bytes)).await;
            }
            self.steps.fetch_add(1, Ordering::Relaxed);
            self.user.counts.down_bytes.fetch_add(bytes, Ordering::Relaxed);
            return datagram;
        }
    }

    /// Ready when nothing has been sent or received for `idle`.
    pub async fn silence(&self, idle: Duration) {
        tunnel::silence(&self.steps, idle).await;
    }
}

impl Sockets {
    fn open(connector: &Connector, user: &User, path: Path) -> Sockets {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let all = any.map(|address| bind(address, connector.device(path)).ok());
        let flow = connector.budget(path).map(|budget| budget.datagrams(user.id));
        let sender = connector.upload(path).map(|upload| upload.datagrams(user.id));
        Sockets { path, all, flow, sender }
    }

    fn of(&self, peer: &SocketAddr) -> Option<&UdpSocket> {
        self.all[usize::from(peer.is_ipv6())].as_ref()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A datagram, and its sender or receiver.
#[derive(Debug)]
pub struct Datagram {
    /// The payload.
    pub bytes: Bytes,
    /// The other end.
    pub peer: SocketAddr,
}

/// The next datagram of a socket.
pub async fn receive(socket: &UdpSocket) -> io::Result<Datagram> {
    loop {
        socket.readable().await?;
        let received = with_scratch(|scratch| {
            let received = socket.try_recv_from(scratch);
            received
                .map(|(length, peer)| Datagram { bytes: Bytes::copy_from_slice(&scratch[..length]), peer })
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Lends a buffer for the longest datagram.
pub fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| work(scratch))
}

async fn receive_some(socket: &Option<UdpSocket>) -> io::Result<Datagram> {
    match socket {
        Some(socket) => receive(socket).await,
        None => std::future::pending().await,
    }
}

fn bind(address: IpAddr, device: Option<&str>) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((address, 0))?;
    if let Some(name) = device {
        bind_device(&socket, name)?;
    }
    forbid_fragments(&socket, address.is_ipv6())?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
