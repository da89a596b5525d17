//! uTP over a UDP socket of tokio: one socket for thousands of connections.
//!
//! ```no_run
//! use leeway_utp::{Config, Socket};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> std::io::Result<()> {
//! let socket = Socket::bind("0.0.0.0:0".parse().unwrap())?;
//! let mut stream = socket.connect("192.0.2.7:6881".parse().unwrap(), Config::default()).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer).await?;
//! # Ok(())
//! # }
//! ```

mod stream;

use crate::config::Config;
use crate::endpoint::{Address, Endpoint, Handle};
use crate::error::UtpError;
use quinn_udp::{RecvMeta, UdpSocketState};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

pub use stream::Stream;

/// Most connections of one socket.
const CONNECTIONS_MAX: usize = 60_000;
/// Datagrams, or runs of datagrams of equal size (UDP GRO), that one system call receives.
const RECEIVE_SLOTS: usize = 4;
/// Size of a receive buffer: a run of datagrams is at most as long as the longest datagram.
const RECEIVE_BYTES: usize = 65_536;
/// Most calls of sending or of receiving in a row, before the other has its turn.
const TURNS: usize = 32;
/// Buffer of the kernel for datagrams in each direction: 1.5 MiB, for a window of 1 MiB and its
/// overhead.
const KERNEL_BYTES: usize = 3 << 19;
/// Difference between the header sizes of IPv6 (40 bytes) and IPv4 (20 bytes).
const IPV6_MORE_BYTES: usize = 20;

/// A UDP socket with uTP on it.
///
/// Its connections live on after it is dropped, until they are closed.
#[derive(Debug)]
pub struct Socket {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    udp: tokio::net::UdpSocket,
    quinn: UdpSocketState,
    state: Mutex<State>,
    /// Wakes the driver to send something or to set a timer.
    kick: Notify,
    epoch: Instant,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct State {
    endpoint: Endpoint<Route>,
    waiting: BTreeMap<Handle, Wakers>,
    accepting: Vec<Waker>,
    /// Tasks that wait until all packets that may leave have left.
    flushing: Vec<oneshot::Sender<()>>,
    random: Random,
}

/// A peer, and the address of this machine that it speaks to. A machine with several addresses answers from that one:
/// the peer does not know the others. Peers are told apart by their own address alone.
#[derive(Debug, Clone, Copy)]
struct Route {
    peer: SocketAddr,
    here: Option<IpAddr>,
}

impl Route {
    fn to(peer: SocketAddr) -> Route {
        Route { peer, here: None }
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        self.peer == other.peer
    }
}

impl Eq for Route {}

impl PartialOrd for Route {
    fn partial_cmp(&self, other: &Route) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Route {
    fn cmp(&self, other: &Route) -> std::cmp::Ordering {
        self.peer.cmp(&other.peer)
    }
}

impl std::hash::Hash for Route {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.peer.hash(state);
    }
}

impl Address for Route {
    const FIRST: Self = Route { peer: SocketAddr::FIRST, here: None };

    fn is_same_host(&self, other: &Self) -> bool {
        self.peer.is_same_host(&other.peer)
    }
}

/// Who waits for a connection.
#[derive(Debug, Default)]
struct Wakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Random numbers that strangers cannot guess, read from the system's generator a page at a time.
#[derive(Debug, Default)]
struct Random(Vec<u8>);

impl Random {
    fn draw(&mut self) -> u16 {
        if self.0.len() < 2 {
            self.0.resize(256, 0);
            if getrandom::fill(&mut self.0).is_err() {
                // If the system's generator fails, the time of day is better than a constant.
                let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
                self.0.truncate(2);
                self.0.copy_from_slice(&(now as u16).to_be_bytes());
            }
        }
        let high = self.0.pop().unwrap_or_default();
        u16::from_be_bytes([high, self.0.pop().unwrap_or_default()])
    }
}

impl Socket {
    /// Binds a socket to an address. Needs a running tokio runtime.
    ///
    /// # Errors
    /// The system's: the address is in use, or not an address of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Socket> {
        Socket::from_std(UdpSocket::bind(address)?)
    }

    /// On a socket that is bound already. With one that is connected, too, the system tells when nobody
    /// listens at the peer's port, and [`Socket::connect`] does not wait.
    ///
    /// # Errors
    /// Those of the system.
    pub fn from_std(socket: UdpSocket) -> io::Result<Socket> {
        let quinn = UdpSocketState::new((&socket).into())?;
        // The larger buffer is optional: ordinary users get at most net.core.rmem_max.
        let _ = quinn.set_recv_buffer_size((&socket).into(), KERNEL_BYTES);
        let _ = quinn.set_send_buffer_size((&socket).into(), KERNEL_BYTES);
        may_fragment(&socket, true)?;
        let udp = tokio::net::UdpSocket::from_std(socket)?;
        let shared = Arc::new(Shared {
            udp,
            quinn,
            state: Mutex::new(State {
                endpoint: Endpoint::new(CONNECTIONS_MAX),
                waiting: BTreeMap::new(),
                accepting: Vec::new(),
                flushing: Vec::new(),
                random: Random::default(),
            }),
            kick: Notify::new(),
            epoch: Instant::now(),
            is_closed: AtomicBool::new(false),
        });
        tokio::spawn(drive(Arc::clone(&shared)));
        Ok(Socket { shared })
    }

    /// The local address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.udp.local_addr()
    }

    /// Connects to a peer.
    ///
    /// # Errors
    /// [`UtpError`] inside an [`io::Error`]: nobody answered, or the peer refused.
    pub async fn connect(&self, peer: SocketAddr, config: Config) -> io::Result<Stream> {
        let config = fitting(config, peer);
        let handle = {
            let mut guard = self.shared.lock();
            let State { endpoint, random, .. } = &mut *guard;
            endpoint.connect(Route::to(peer), config, &mut || random.draw(), self.shared.now_us())
        };
        let too_many = || io::Error::other(format!("the socket has {CONNECTIONS_MAX} connections already"));
        let stream = Stream::new(Arc::clone(&self.shared), handle.ok_or_else(too_many)?);
        self.shared.kick.notify_one();
        stream.opened().await?;
        Ok(stream)
    }

    /// Accepts incoming connections from now on; [`Socket::accept`] returns them.
    pub fn listen(&self, config: Config) {
        let config = match self.local_addr() {
            Ok(address) => fitting(config, address),
            Err(_) => config,
        };
        self.shared.lock().endpoint.listen(Some(config));
    }

    /// Refuses connections from now on, those too that wait for [`Socket::accept`].
    pub fn stop_listening(&self) {
        self.shared.lock().endpoint.listen(None);
        self.shared.kick.notify_one();
    }

    /// Waits for the next incoming connection.
    pub async fn accept(&self) -> Stream {
        let handle = poll_fn(|context| {
            let mut state = self.shared.lock();
            match state.endpoint.accept() {
                Some(handle) => Poll::Ready(handle),
                None => {
                    // A `select!` polls again and again.
                    if !state.accepting.iter().any(|known| known.will_wake(context.waker())) {
                        state.accepting.push(context.waker().clone());
                    }
                    Poll::Pending
                }
            }
        });
        let stream = Stream::new(Arc::clone(&self.shared), handle.await);
        // The peer is told of the room that it has from now on.
        self.shared.kick.notify_one();
        stream
    }

    /// Waits until all packets that may leave now have left. A program that ends at once would
    /// otherwise lose its last acknowledgements.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        self.shared.lock().flushing.push(done);
        self.shared.kick.notify_one();
        let _ = flushed.await;
    }

    /// Number of connections, including closing ones.
    pub fn connections(&self) -> usize {
        self.shared.lock().endpoint.len()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.stop_listening();
        self.shared.is_closed.store(true, Ordering::Release);
        self.shared.kick.notify_one();
    }
}

/// Packets as large as IPv6 over the same wire allows, and as large as it promises (RFC 8200, 5: an MTU of
/// 1,280 bytes), where the peer is reached by it. A socket of both families has the least of each.
fn fitting(mut config: Config, address: SocketAddr) -> Config {
    let ip = address.ip().to_canonical();
    if ip.is_ipv6() {
        config.packet_bytes_max = config.packet_bytes_max.saturating_sub(IPV6_MORE_BYTES);
        if !ip.is_unspecified() {
            config.packet_bytes_min = config.packet_bytes;
        }
    }
    config
}

/// Sets whether packets may be fragmented: on their way (IPv4), or on this host (IPv6).
fn may_fragment(socket: &impl std::os::fd::AsFd, may: bool) -> io::Result<()> {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    };
    let (four, six) = match may {
        true => (Ipv4PathMtuDiscovery::DONT, Ipv6PathMtuDiscovery::DONT),
        false => (Ipv4PathMtuDiscovery::PROBE, Ipv6PathMtuDiscovery::PROBE),
    };
    // An IPv6 socket has both options, an IPv4 socket only the first.
    set_ip_mtu_discover(socket, four)?;
    let _ = set_ipv6_mtu_discover(socket, six);
    Ok(())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// Sends what may be sent. Returns whether the kernel had no room for the rest.
    fn send(&self, pending: &mut Option<Pending>, buffer: &mut Vec<u8>) -> Sending {
        for _ in 0..TURNS {
            let unsent = match pending.take() {
                Some(unsent) => unsent,
                None => {
                    buffer.clear();
                    let batch = self.lock().endpoint.transmit(self.now_us(), buffer);
                    let Some(batch) = batch else { return Sending::Done };
                    Pending { to: batch.to, segment_bytes: batch.segment_bytes, whole: batch.whole, from: 0 }
                }
            };
            if let Err(unsent) = self.send_batch(unsent, buffer) {
                *pending = Some(unsent);
                return Sending::Blocked;
            }
        }
        Sending::More
    }

    /// Passes a batch to the kernel, in as many calls as needed.
    fn send_batch(&self, mut unsent: Pending, buffer: &[u8]) -> Result<(), Pending> {
        let run = self.quinn.max_gso_segments().max(1) * unsent.segment_bytes;
        while unsent.from < buffer.len() {
            let contents = &buffer[unsent.from..buffer.len().min(unsent.from + run)];
            let transmit = quinn_udp::Transmit {
                destination: unsent.to.peer,
                ecn: None,
                contents,
                segment_size: (contents.len() > unsent.segment_bytes).then_some(unsent.segment_bytes),
                src_ip: unsent.to.here,
            };
            let send = || self.quinn.try_send((&self.udp).into(), &transmit);
            let result = match unsent.whole {
                false => self.udp.try_io(Interest::WRITABLE, send),
                true => self.udp.try_io(Interest::WRITABLE, || {
                    may_fragment(&self.udp, false)?;
                    let result = send();
                    may_fragment(&self.udp, true)?;
                    result
                }),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(unsent),
                // Too large for an interface, or no route: as if it were lost on its way.
                Err(error) => {
                    self.note_refusal(&error);
                    unsent.from += contents.len();
                }
                Ok(()) => unsent.from += contents.len(),
            }
        }
        Ok(())
    }

    /// An ICMP error of a connected socket's peer; whichever call comes next returns it.
    fn note_refusal(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            let mut state = self.lock();
            state.endpoint.refused();
            state.wake_changed();
        }
    }

    /// Takes what has arrived; whether there may be more.
    fn receive(&self, slots: &mut [Vec<u8>]) -> bool {
        for _ in 0..TURNS {
            let mut metas = [RecvMeta::default(); RECEIVE_SLOTS];
            let mut buffers: Vec<IoSliceMut<'_>> =
                slots.iter_mut().map(|slot| IoSliceMut::new(slot)).collect();
            let receive = || self.quinn.recv((&self.udp).into(), &mut buffers, &mut metas);
            let count = match self.udp.try_io(Interest::READABLE, receive) {
                Ok(count) => count,
                Err(error) => {
                    self.note_refusal(&error);
                    return false;
                }
            };
            let mut guard = self.lock();
            let state = &mut *guard;
            let now_us = self.now_us();
            for (meta, slot) in metas.iter().zip(slots.iter()).take(count) {
                // Nobody answers from the address of a group.
                let here = meta.dst_ip.filter(|ip| !ip.is_multicast() && !ip.is_unspecified());
                let from = Route { peer: meta.addr, here };
                for datagram in slot[..meta.len].chunks(meta.stride.max(1)) {
                    let State { endpoint, random, .. } = state;
                    endpoint.receive(from, datagram, &mut || random.draw(), now_us);
                }
            }
            state.wake_changed();
        }
        true
    }
}

/// The rest of a batch for which the kernel had no room.
#[derive(Debug)]
struct Pending {
    to: Route,
    segment_bytes: usize,
    whole: bool,
    /// Bytes of the buffer that have left.
    from: usize,
}

enum Sending {
    Done,
    More,
    Blocked,
}

impl State {
    /// Wakes the tasks whose connections have changed.
    fn wake_changed(&mut self) {
        while let Some(handle) = self.endpoint.changed() {
            if let Some(wakers) = self.waiting.get_mut(&handle) {
                wakers.reader.take().into_iter().chain(wakers.writer.take()).for_each(Waker::wake);
            }
        }
        if self.endpoint.has_accepted() {
            self.accepting.drain(..).for_each(Waker::wake);
        }
    }
}

/// Sends, receives and runs the timers until nobody holds the socket or a connection.
async fn drive(shared: Arc<Shared>) {
    let mut slots = vec![vec![0; RECEIVE_BYTES]; RECEIVE_SLOTS];
    let mut pending = None;
    let mut buffer = Vec::new();
    let mut flushing: Vec<oneshot::Sender<()>> = Vec::new();
    loop {
        let more_arrives = shared.receive(&mut slots);
        let sending = shared.send(&mut pending, &mut buffer);
        let deadline_us = {
            let mut state = shared.lock();
            state.endpoint.expire(shared.now_us());
            state.wake_changed();
            if shared.is_closed.load(Ordering::Acquire) && state.endpoint.is_empty() {
                return;
            }
            let all_left = matches!(sending, Sending::Done) && !state.endpoint.is_ready();
            if all_left {
                // Only the tasks that asked before this turn; later ones wait for the next turn.
                for done in flushing.drain(..) {
                    let _ = done.send(());
                }
            }
            flushing.append(&mut state.flushing);
            match all_left && flushing.is_empty() {
                true => state.endpoint.deadline(),
                false => Some(0),
            }
        };
        match sending {
            Sending::Blocked => {
                tokio::select! {
                    _ = shared.udp.writable() => {}
                    _ = shared.udp.readable() => {}
                }
                continue;
            }
            Sending::More => {
                tokio::task::yield_now().await;
                continue;
            }
            Sending::Done if more_arrives || deadline_us == Some(0) => {
                tokio::task::yield_now().await;
                continue;
            }
            Sending::Done => {}
        }
        let at = deadline_us.map(|us| shared.epoch + Duration::from_micros(us));
        let timer = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = shared.udp.readable() => {}
            () = shared.kick.notified() => {}
            () = timer => {}
        }
    }
}

impl From<UtpError> for io::Error {
    fn from(error: UtpError) -> io::Error {
        let kind = match error {
            UtpError::Unanswered | UtpError::Stalled | UtpError::Silent => io::ErrorKind::TimedOut,
            UtpError::Reset => io::ErrorKind::ConnectionReset,
            UtpError::Aborted => io::ErrorKind::ConnectionAborted,
            UtpError::Finished => io::ErrorKind::BrokenPipe,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_connection_is_remembered_once() {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut accept = Box::pin(socket.accept());
        for _ in 0..10 {
            let is_pending = poll_fn(|context| Poll::Ready(accept.as_mut().poll(context).is_pending())).await;
            assert!(is_pending);
        }
        assert_eq!(socket.shared.lock().accepting.len(), 1);
    }

    #[test]
    fn packets_fit_the_family_by_which_the_peer_is_reached() {
        for (address, least, most) in [
            ("192.0.2.7:1", 548, 1472),
            ("[::ffff:192.0.2.7]:1", 548, 1472),
            ("[2001:db8::7]:1", 1232, 1452),
            // Peers of either family connect to it.
            ("[::]:1", 548, 1452),
        ] {
            let config = fitting(Config::default(), address.parse().unwrap());
            assert_eq!((config.packet_bytes_min, config.packet_bytes_max), (least, most), "{address}");
        }
    }
}
