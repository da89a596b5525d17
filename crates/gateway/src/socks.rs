//! The SOCKS5 proxy: connections, and datagrams for DNS, QUIC and calls.

use crate::budget::Flow;
use crate::http::Proxy;
use crate::socks_wire::{
    self as wire, Command, METHOD_NONE, METHOD_PASSWORD, METHOD_REFUSED, Reply, Target, VERSION, WireError,
};
use crate::tunnel;
use crate::upstream::ConnectError;
use crate::users::User;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// The longest datagram.
const DATAGRAM_BYTES: usize = 65_535;
/// Servers that an association may hear from; the one asked longest ago is forgotten.
const PEERS: usize = 256;
/// Where nothing is bound.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// What is kept in the kernel for datagrams that wait for their turn.
const QUEUE_BYTES: usize = 64 * 1024;

/// Serves one client.
pub async fn serve(proxy: Arc<Proxy>, mut stream: TcpStream, client: IpAddr) {
    let head = Duration::from_secs(proxy.limits.head_s);
    let asked = tokio::time::timeout(head, handshake(&proxy, &mut stream, client)).await;
    let Ok(Ok(Some((user, command, target)))) = asked else { return };
    user.counts.requests.fetch_add(1, Ordering::Relaxed);
    // A client that breaks off is no event.
    let _ = match command {
        Command::Connect => connect(&proxy, stream, &user, &target).await,
        Command::Associate => associate(&proxy, stream, &user, client).await,
    };
}

/// Up to the request; none if the client was refused, which it has been told.
async fn handshake(
    proxy: &Proxy,
    stream: &mut TcpStream,
    client: IpAddr,
) -> io::Result<Option<(Arc<User>, Command, Target)>> {
    let mut buffer = Vec::with_capacity(64);
    let methods =
        read(stream, &mut buffer, |bytes| wire::greeting(bytes).map(|(methods, n)| (methods.to_vec(), n)))
            .await?;
    let Ok(methods) = methods else { return Ok(None) };
    let method = if proxy.users.need_password() { METHOD_PASSWORD } else { METHOD_NONE };
    if !methods.contains(&method) {
        stream.write_all(&[VERSION, METHOD_REFUSED]).await?;
        return Ok(None);
    }
    stream.write_all(&[VERSION, method]).await?;
    let user = if method == METHOD_PASSWORD {
        let given = read(stream, &mut buffer, |bytes| {
            wire::password(bytes).map(|(name, password, n)| ((name.to_vec(), password.to_vec()), n))
        });
        let Ok((name, password)) = given.await? else { return Ok(None) };
        let text = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&password));
        let user = proxy.users.named(&text.0, &text.1);
        stream.write_all(&[1, u8::from(user.is_none())]).await?;
        let Some(user) = user else { return Ok(None) };
        user
    } else {
        proxy.users.at(client)
    };
    let request = |bytes: &[u8]| wire::request(bytes).map(|(command, target, n)| ((command, target), n));
    let refusal = match read(stream, &mut buffer, request).await? {
        Ok((command, target)) => return Ok(Some((user, command, target))),
        Err(WireError::Command(_)) => Reply::CommandNotSupported,
        Err(WireError::AddressType(_)) => Reply::AddressTypeNotSupported,
        Err(_) => Reply::Failed,
    };
    stream.write_all(&wire::reply(refusal, NOWHERE)).await?;
    Ok(None)
}

/// Reads until `parse` has a message; takes it out of the buffer.
async fn read<T>(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<(T, usize), WireError>,
) -> io::Result<Result<T, WireError>> {
    loop {
        match parse(buffer) {
            Ok((message, length)) => {
                buffer.drain(..length);
                return Ok(Ok(message));
            }
            Err(WireError::Short) if buffer.len() <= wire::LONGEST_BYTES => {}
            Err(error) => return Ok(Err(error)),
        }
        // A client speaks in turn, so what it says beyond the message is refused with it.
        let room = (wire::LONGEST_BYTES + 1 - buffer.len()) as u64;
        if (&mut *stream).take(room).read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn connect(proxy: &Proxy, mut stream: TcpStream, user: &Arc<User>, target: &Target) -> io::Result<()> {
    let connected = async {
        let addresses = proxy.connector.addresses(&target.host, target.port).await?;
        proxy.connector.connect(user, &addresses).await
    };
    let upstream = match connected.await {
        Ok(upstream) => upstream,
        Err(error) => return stream.write_all(&wire::reply(refusal(user, &error), NOWHERE)).await,
    };
    // Where the gateway is on the Internet is no client's business.
    stream.write_all(&wire::reply(Reply::Succeeded, NOWHERE)).await?;
    tunnel::carry(stream, upstream, Duration::from_secs(proxy.limits.tunnel_s)).await;
    Ok(())
}

fn refusal(user: &User, error: &ConnectError) -> Reply {
    if error.is_refusal() || matches!(error, ConnectError::TooMany) {
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        return Reply::NotAllowed;
    }
    match error {
        ConnectError::Failed(_, error) if error.kind() == io::ErrorKind::ConnectionRefused => Reply::Refused,
        _ => Reply::HostUnreachable,
    }
}

/// Datagrams for as long as the connection stands (RFC 1928, 6).
async fn associate(proxy: &Proxy, mut stream: TcpStream, user: &Arc<User>, client: IpAddr) -> io::Result<()> {
    let Some(_place) = proxy.users.admit_upstream(user) else {
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        return stream.write_all(&wire::reply(Reply::NotAllowed, NOWHERE)).await;
    };
    let inner = bind(stream.local_addr()?.ip())?;
    let outer = [bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED))];
    stream.write_all(&wire::reply(Reply::Succeeded, inner.local_addr()?)).await?;
    let mut relay = Relay {
        proxy,
        user,
        client,
        inner,
        outer: outer.map(Result::ok),
        flow: proxy.connector.budget.as_ref().map(|budget| budget.datagrams(user.id)),
        from: None,
        peers: BTreeMap::new(),
    };
    let idle = Duration::from_secs(proxy.limits.tunnel_s);
    let mut ignored = [0; 64];
    tokio::select! {
        ended = relay.run(idle) => ended,
        // Whatever comes on the connection says nothing but that it stands.
        () = async { while matches!(stream.read(&mut ignored).await, Ok(1..)) {} } => Ok(()),
    }
}

struct Relay<'a> {
    proxy: &'a Proxy,
    user: &'a User,
    client: IpAddr,
    inner: UdpSocket,
    /// For IPv4 and IPv6; a machine may have one only.
    outer: [Option<UdpSocket>; 2],
    flow: Option<Flow>,
    /// The client's port, known from its first datagram.
    from: Option<SocketAddr>,
    /// Servers that were asked, and when; only they may answer.
    peers: BTreeMap<SocketAddr, Instant>,
}

impl Relay<'_> {
    async fn run(&mut self, idle: Duration) -> io::Result<()> {
        let mut inside = vec![0; DATAGRAM_BYTES];
        let mut outside = [vec![0; DATAGRAM_BYTES], vec![0; DATAGRAM_BYTES]];
        loop {
            let [four, six] = &mut outside;
            tokio::select! {
                () = tokio::time::sleep(idle) => return Ok(()),
                received = self.inner.recv_from(&mut inside) => {
                    let (length, from) = received?;
                    self.outgoing(&inside[..length], from).await;
                }
                received = receive(&self.outer[0], four) => self.incoming(four, received).await,
                received = receive(&self.outer[1], six) => self.incoming(six, received).await,
            }
        }
    }

    /// From the client to a server; what is not allowed is dropped, as datagrams are.
    async fn outgoing(&mut self, bytes: &[u8], from: SocketAddr) {
        let known = *self.from.get_or_insert(from);
        if from.ip().to_canonical() != self.client || from != known {
            // Somebody else's; the first one does not count if it was not the client's.
            if known.ip().to_canonical() != self.client {
                self.from = None;
            }
            return;
        }
        let Ok((target, start)) = wire::datagram(bytes) else { return };
        let found = self.proxy.connector.datagram_addresses(&target.host, target.port).await;
        let to = match found {
            Ok(addresses) => addresses.into_iter().find(|to| self.outer[usize::from(to.is_ipv6())].is_some()),
            Err(error) => {
                self.user.counts.refused.fetch_add(u64::from(error.is_refusal()), Ordering::Relaxed);
                None
            }
        };
        let Some(to) = to else { return };
        let Some(socket) = &self.outer[usize::from(to.is_ipv6())] else { return };
        if socket.send_to(&bytes[start..], to).await.is_ok() {
            self.user.counts.up_bytes.fetch_add((bytes.len() - start) as u64, Ordering::Relaxed);
            if self.peers.len() >= PEERS
                && let Some(&oldest) =
                    self.peers.iter().min_by_key(|(_, asked)| **asked).map(|(peer, _)| peer)
            {
                self.peers.remove(&oldest);
            }
            self.peers.insert(to, Instant::now());
        }
    }

    /// From a server to the client, when its turn comes. What waits too long in the socket is lost, which tells the
    /// sender to send less.
    async fn incoming(&mut self, bytes: &[u8], received: io::Result<(usize, SocketAddr)>) {
        let Ok((length, from)) = received else { return };
        let Some(to) = self.from else { return };
        if !self.peers.contains_key(&from) {
            return;
        }
        if let Some(flow) = &self.flow {
            std::future::poll_fn(|cx| flow.poll_datagram(cx, length as u64)).await;
        }
        self.user.counts.down_bytes.fetch_add(length as u64, Ordering::Relaxed);
        let datagram = [&wire::datagram_head(from), &bytes[..length]].concat();
        // One that is lost here is one of many.
        let _ = self.inner.send_to(&datagram, to).await;
    }
}

async fn receive(socket: &Option<UdpSocket>, bytes: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(bytes).await,
        None => std::future::pending().await,
    }
}

fn bind(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind((address, 0))?;
    if address.is_unspecified() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, QUEUE_BYTES)?;
    }
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
