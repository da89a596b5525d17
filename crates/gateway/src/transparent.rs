//! Serves clients without a configured proxy: connections and datagrams to any server, which the
//! rules of [`crate::divert`] divert to this program.

use crate::caretaker::Caretaker;
use crate::datagrams::{Association, DATAGRAM_BYTES, Datagram, with_scratch};
use crate::dns;
use crate::http::{Proxy, Words};
use crate::socket::farewell;
use crate::tunnel;
use crate::users::{Place, Room, User};
use bytes::Bytes;
use leeway_net::Family;
use nix::libc;
use nix::sys::socket::{self, ControlMessageOwned, MsgFlags, SockaddrStorage, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Mutex, mpsc};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Receive buffer for the datagrams of all clients, in bytes.
const QUEUE_BYTES: usize = 1 << 20;
/// Datagrams of one client that may wait to be forwarded.
const WAITING: usize = 64;
/// An association ends after this time without a datagram (RFC 4787, 4.3).
const IDLE: Duration = Duration::from_secs(120);

/// A listener that accepts connections to any address (TPROXY).
///
/// # Errors
/// Missing privileges: it needs CAP_NET_ADMIN.
pub fn listen(family: Family, port: u16) -> io::Result<std::net::TcpListener> {
    let socket = bound(any(family, port), Type::STREAM)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket that receives datagrams to any address (TPROXY).
///
/// # Errors
/// Missing privileges: it needs CAP_NET_ADMIN.
pub fn bind(family: Family, port: u16) -> io::Result<std::net::UdpSocket> {
    let socket = bound(any(family, port), Type::DGRAM)?;
    match family {
        Family::V4 => socket::setsockopt(&socket, sockopt::Ipv4OrigDstAddr, &true)?,
        Family::V6 => socket::setsockopt(&socket, sockopt::Ipv6OrigDstAddr, &true)?,
    }
    socket.set_recv_buffer_size(QUEUE_BYTES)?;
    Ok(socket.into())
}

/// The ports that a program of this machine uses exclusively. The gateway cannot answer in the
/// name of a server from them.
pub fn taken(ports: impl IntoIterator<Item = u16>) -> Vec<u16> {
    // The address is reserved for documentation (RFC 5737), so no program uses it.
    let taken = |port: u16| bound((Ipv4Addr::new(192, 0, 2, 1), port).into(), Type::DGRAM).is_err();
    ports.into_iter().filter(|&port| taken(port)).collect()
}

/// Serves one connection: connects it to its original destination, if that is allowed.
pub async fn serve(proxy: Arc<Proxy>, stream: TcpStream, client: IpAddr) {
    let user = proxy.users.at(client);
    user.counts.requests.fetch_add(1, Ordering::Relaxed);
    let Ok(to) = stream.local_addr() else { return };
    if to.port() == dns::PORT {
        if proxy.connector.gate.is_revoked(&user.name) {
            return proxy.connector.refused(&user, None);
        }
        // The result is ignored: both ends see how the connection ended.
        match proxy.connector.connect_name_server(&user).await {
            Ok(server) => {
                let blocked = |question: &[u8]| proxy.connector.blocked_answer(&user, question);
                let over = server.over();
                tokio::select! {
                    _ = dns::carry(stream, server, blocked) => {}
                    () = over => {}
                }
            }
            Err(_) => drop(user.counts.refused.fetch_add(1, Ordering::Relaxed)),
        }
        return;
    }
    // On port 80 a refusal is sent as HTTP. Other protocols have no message for it, so the
    // connection is closed.
    let refuse = async |stream: TcpStream, words: Words| {
        if to.port() == 80 {
            farewell(stream, words.unread().as_bytes()).await;
        }
    };
    if let Err(closed) = proxy.connector.gate.admit_told(&user).await {
        return refuse(stream, Words::closed(&closed, &proxy.connector.gate.zone())).await;
    }
    let connected = async {
        let addresses = proxy.connector.addresses(&to.ip().to_string(), to.port()).await?;
        proxy.connector.connect(&user, &addresses).await
    };
    match connected.await {
        Ok(server) => tunnel::carry(stream, server, Duration::from_secs(proxy.limits.tunnel_s)).await,
        Err(error) => {
            proxy.connector.refused(&user, error.refusal());
            refuse(stream, Words::connect(&error)).await;
        }
    }
}

/// Gives every datagram to the association of its client. Never ends.
pub async fn datagrams(proxy: Arc<Proxy>, caretaker: Arc<Caretaker>, socket: UdpSocket) {
    let mut clients = Clients { proxy, caretaker, known: BTreeMap::new(), sweep_at: 64 };
    loop {
        match receive(&socket).await {
            Ok((datagram, to)) => clients.pass(datagram, to),
            // An error that concerns no datagram: wait, and read again.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Key of an association: the client, and for DNS also the name server that was asked, because the
/// response has to come from its address.
type Key = (SocketAddr, Option<SocketAddr>);

/// Queue of a client's datagrams that wait to be sent. Their memory is counted for the user.
struct Inbox {
    user: Arc<User>,
    datagrams: mpsc::Sender<(Datagram, Room)>,
}

struct Clients {
    proxy: Arc<Proxy>,
    /// Opens the sockets that answer in the name of servers.
    caretaker: Arc<Caretaker>,
    known: BTreeMap<Key, Inbox>,
    /// Number of entries at which ended ones are removed.
    sweep_at: usize,
}

impl Clients {
    /// Sends a datagram on. It is dropped if its destination is not allowed, or if datagrams come
    /// too fast.
    fn pass(&mut self, datagram: Datagram, to: SocketAddr) {
        let Datagram { mut bytes, peer: client } = datagram;
        let connector = &self.proxy.connector;
        if !connector.policy().is_client(client.ip()) {
            return;
        }
        let asked = (to.port() == dns::PORT).then_some(to);
        let checked = match asked {
            Some(_) => dns::trimmed(&bytes).ok_or(None).map(|question| {
                bytes = question.into();
                connector.name_server()
            }),
            None => connector.datagram_address(to).map_err(Some),
        };
        let known = self.known.get(&(client, asked));
        let user = known.map_or_else(|| self.proxy.users.at(client.ip()), |inbox| inbox.user.clone());
        let peer = match checked {
            Ok(peer) => peer,
            Err(refusal) => return connector.refused(&user, refusal),
        };
        // Without room in the user's share of the memory, the datagram is dropped.
        let Some(room) = user.room(bytes.len()) else { return };
        let mut waits = (Datagram { bytes, peer }, room);
        if let Some(inbox) = known {
            match inbox.datagrams.try_send(waits) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => return,
                Err(mpsc::error::TrySendError::Closed(unsent)) => waits = unsent,
            }
        }
        if connector.gate.is_revoked(&user.name) || asked.is_none() && connector.gate.admit(&user).is_err() {
            return;
        }
        let place = self.proxy.users.admit(&user);
        // The name server may be in the home's network, which the relay cannot reach.
        let association = Association::open(connector, &user, asked.is_none());
        let (Some(place), Some(association)) = (place, association) else {
            return connector.refused(&user, None);
        };
        user.counts.requests.fetch_add(1, Ordering::Relaxed);
        let (inbox, outgoing) = mpsc::channel(WAITING);
        // The channel is new, so it has room for the first datagram.
        let _ = inbox.try_send(waits);
        let shared = (self.proxy.clone(), self.caretaker.clone());
        let of = Client { address: client, user: user.clone(), asked };
        tokio::spawn(relay(shared, association, of, outgoing, place));
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, inbox| !inbox.datagrams.is_closed());
            self.sweep_at = 64 + 2 * self.known.len();
        }
        self.known.insert((client, asked), Inbox { user, datagrams: inbox });
    }
}

/// A client, and the name server that it asked, if it asked one.
struct Client {
    address: SocketAddr,
    user: Arc<User>,
    asked: Option<SocketAddr>,
}

/// Sends datagrams in the name of servers. Keeps the socket of the server that answered last,
/// which most likely answers next.
struct Answers {
    caretaker: Arc<Caretaker>,
    last: Option<(SocketAddr, UdpSocket)>,
}

impl Answers {
    /// Sends `bytes` to a client with the source address `from`. A datagram that cannot be sent is
    /// lost.
    async fn say(&mut self, bytes: &[u8], from: SocketAddr, to: SocketAddr) {
        if self.last.as_ref().is_none_or(|(address, _)| *address != from) {
            let opened = self.caretaker.answer(from).and_then(UdpSocket::from_std);
            self.last = opened.ok().map(|socket| (from, socket));
        }
        if let Some((_, socket)) = &self.last {
            let _ = socket.send_to(bytes, to).await;
        }
    }
}

/// Relays one client's datagrams and the answers, until none have come for the idle time.
async fn relay(
    (proxy, caretaker): (Arc<Proxy>, Arc<Caretaker>),
    association: Association,
    client: Client,
    mut outgoing: mpsc::Receiver<(Datagram, Room)>,
    _place: Place,
) {
    let Client { address, user, asked } = client;
    let answers = Mutex::new(Answers { caretaker, last: None });
    // DNS questions without an answer so far.
    let open = AtomicU64::new(0);
    let up = async {
        while let Some((Datagram { bytes, peer }, _room)) = outgoing.recv().await {
            if let Some(server) = asked
                && let Some(answer) = proxy.connector.blocked_answer(&user, &bytes)
            {
                answers.lock().await.say(&answer, server, address).await;
                // Ends here, as after an answer of a name server.
                if open.load(Ordering::Relaxed) == 0 && outgoing.is_empty() {
                    return;
                }
                continue;
            }
            open.fetch_add(1, Ordering::Relaxed);
            association.send(&bytes, peer).await;
        }
    };
    let down = async {
        loop {
            let Datagram { bytes, peer } = association.receive().await;
            answers.lock().await.say(&bytes, asked.unwrap_or(peer), address).await;
            if open.fetch_sub(1, Ordering::Relaxed) <= 1 && asked.is_some() {
                return;
            }
        }
    };
    let idle =
        if asked.is_some() { dns::PATIENCE } else { IDLE.min(Duration::from_secs(proxy.limits.tunnel_s)) };
    tokio::select! {
        () = up => {}
        () = down => {}
        () = user.revoked() => {}
        () = association.silence(idle) => {
            if asked.is_some() && open.load(Ordering::Relaxed) > 0 {
                proxy.connector.name_server_is_silent();
            }
        }
    }
}

/// A datagram, and the address to which its client sent it.
async fn receive(socket: &UdpSocket) -> io::Result<(Datagram, SocketAddr)> {
    socket
        .async_io(Interest::READABLE, || {
            with_scratch(|scratch| {
                let mut space = nix::cmsg_space!(libc::sockaddr_in6);
                let mut parts = [IoSliceMut::new(&mut scratch[..DATAGRAM_BYTES])];
                let received = socket::recvmsg::<SockaddrStorage>(
                    socket.as_raw_fd(),
                    &mut parts,
                    Some(&mut space),
                    MsgFlags::empty(),
                )?;
                let to = received.cmsgs()?.find_map(|message| match message {
                    ControlMessageOwned::Ipv4OrigDstAddr(to) => Some(SocketAddr::V4(SocketAddrV4::new(
                        Ipv4Addr::from(u32::from_be(to.sin_addr.s_addr)),
                        u16::from_be(to.sin_port),
                    ))),
                    ControlMessageOwned::Ipv6OrigDstAddr(to) => Some(SocketAddr::V6(SocketAddrV6::new(
                        Ipv6Addr::from(to.sin6_addr.s6_addr),
                        u16::from_be(to.sin6_port),
                        0,
                        to.sin6_scope_id,
                    ))),
                    _ => None,
                });
                let from = received.address.and_then(|address| {
                    let four = address.as_sockaddr_in().map(|&address| SocketAddr::V4(address.into()));
                    four.or_else(|| address.as_sockaddr_in6().map(|&address| SocketAddr::V6(address.into())))
                });
                let length = received.bytes;
                let (Some(peer), Some(to)) = (from, to) else {
                    return Err(io::ErrorKind::InvalidData.into());
                };
                Ok((Datagram { bytes: Bytes::copy_from_slice(&scratch[..length]), peer }, to))
            })
        })
        .await
}

/// A socket that sends in the name of `server`, to machines behind `interface`. It is not
/// connected, so that datagrams of the client still come to the proxy.
///
/// # Errors
/// Missing privileges (it needs CAP_NET_ADMIN), or a program of this machine uses the port
/// exclusively.
pub fn answer_socket(server: SocketAddr, interface: &str) -> io::Result<std::net::UdpSocket> {
    let socket = bound(server, Type::DGRAM)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    Ok(socket.into())
}

/// A socket bound to an address that may belong to another machine (`IP_TRANSPARENT`).
fn bound(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), Some(protocol))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn any(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}
