//! The SOCKS5 proxy (RFC 1928): TCP connections, and datagrams for DNS, QUIC and calls.

use crate::datagrams::{self, Association, Datagram};
use crate::gate::Why;
use crate::http::Proxy;
use crate::socks_wire::{
    self as wire, Command, METHOD_NONE, METHOD_PASSWORD, METHOD_REFUSED, Reply, Target, VERSION, WireError,
};
use crate::tunnel;
use crate::upstream::ConnectError;
use crate::users::User;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// The answer to a client that is refused before it has sent anything: no acceptable method.
pub const FAREWELL: [u8; 2] = [VERSION, METHOD_REFUSED];
/// The bound address in replies where the client does not need one.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Serves one client.
pub async fn serve(proxy: Arc<Proxy>, mut stream: TcpStream, client: IpAddr) {
    let head = Duration::from_secs(proxy.limits.head_s);
    let asked = tokio::time::timeout(head, handshake(&proxy, &mut stream, client)).await;
    let Ok(Ok(Some((user, command, target)))) = asked else { return };
    user.counts.requests.fetch_add(1, Ordering::Relaxed);
    if let Err(closed) = proxy.connector.gate.admit_told(&user).await {
        let reply = if closed.why == Why::Revoked { Reply::NotAllowed } else { Reply::Failed };
        let _ = stream.write_all(&wire::reply(reply, NOWHERE)).await;
        return;
    }
    // An error here means that the client closed the connection, which is normal: nothing is
    // logged.
    let _ = match command {
        Command::Connect => connect(&proxy, stream, &user, &target).await,
        Command::Associate => associate(&proxy, stream, &user, client).await,
    };
}

/// Reads up to the request. `None` if the client was refused, and has been told.
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
        let user = proxy.users.log_in(client, &name, &password).await;
        stream.write_all(&[1, u8::from(user.is_err())]).await?;
        let Ok(user) = user else { return Ok(None) };
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

/// Reads until `parse` finds a message, and takes the message out of the buffer.
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
        // A SOCKS5 client waits for each answer, so more bytes than the longest message are an
        // error.
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
        Err(error) => {
            let reply = refusal(proxy, user, &error);
            return stream.write_all(&wire::reply(reply, NOWHERE)).await;
        }
    };
    // Replies with 0.0.0.0, because the gateway's address on the Internet is private to the home.
    stream.write_all(&wire::reply(Reply::Succeeded, NOWHERE)).await?;
    tunnel::carry(stream, upstream, Duration::from_secs(proxy.limits.tunnel_s)).await;
    Ok(())
}

fn refusal(proxy: &Proxy, user: &User, error: &ConnectError) -> Reply {
    if error.refusal().is_some() || matches!(error, ConnectError::TooMany) {
        proxy.connector.refused(user, error.refusal());
        return Reply::NotAllowed;
    }
    match error {
        ConnectError::Failed(_, error) if error.kind() == io::ErrorKind::ConnectionRefused => Reply::Refused,
        _ => Reply::HostUnreachable,
    }
}

/// Relays datagrams until the TCP connection ends (RFC 1928, 6).
async fn associate(proxy: &Proxy, mut stream: TcpStream, user: &Arc<User>, client: IpAddr) -> io::Result<()> {
    let Some(association) = Association::open(&proxy.connector, user, true) else {
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        return stream.write_all(&wire::reply(Reply::NotAllowed, NOWHERE)).await;
    };
    let inner = UdpSocket::bind((stream.local_addr()?.ip(), 0)).await?;
    // The kernel drops datagrams beyond this queue, which tells the client to send less.
    rustix::net::sockopt::set_socket_recv_buffer_size(&inner, datagrams::QUEUE_BYTES)?;
    stream.write_all(&wire::reply(Reply::Succeeded, inner.local_addr()?)).await?;
    let relay = Relay { proxy, user, client, inner, association, from: OnceLock::new() };
    let idle = Duration::from_secs(proxy.limits.tunnel_s);
    let mut ignored = [0; 64];
    tokio::select! {
        ended = relay.outgoing() => ended,
        never = relay.incoming() => match never {},
        () = relay.association.silence(idle) => Ok(()),
        () = user.revoked() => Ok(()),
        // The client may send bytes on the connection. They have no meaning, only its end has.
        () = async { while matches!(stream.read(&mut ignored).await, Ok(1..)) {} } => Ok(()),
    }
}

struct Relay<'a> {
    proxy: &'a Proxy,
    user: &'a User,
    client: IpAddr,
    inner: UdpSocket,
    association: Association,
    /// The client's port, known from its first datagram.
    from: OnceLock<SocketAddr>,
}

impl Relay<'_> {
    /// From the client to servers. Datagrams that are not allowed are dropped.
    async fn outgoing(&self) -> io::Result<()> {
        loop {
            let Datagram { bytes, peer: from } = datagrams::receive(&self.inner).await?;
            // From another client, or another port.
            if from.ip().to_canonical() != self.client || *self.from.get_or_init(|| from) != from {
                continue;
            }
            let Ok((target, start)) = wire::datagram(&bytes) else { continue };
            match self.proxy.connector.datagram_addresses(&target.host, target.port).await {
                Ok(addresses) => {
                    if let Some(to) = addresses.into_iter().find(|to| self.association.reaches(to)) {
                        self.association.send(&bytes[start..], to).await;
                    }
                }
                Err(error) if error.refusal().is_some() => {
                    self.proxy.connector.refused(self.user, error.refusal());
                }
                Err(_) => {}
            }
        }
    }

    /// From servers to the client.
    async fn incoming(&self) -> Infallible {
        loop {
            let Datagram { bytes, peer } = self.association.receive().await;
            let Some(&to) = self.from.get() else { continue };
            let datagram = [&wire::datagram_head(peer), &bytes[..]].concat();
            // A datagram that cannot be sent is lost, as on any network.
            let _ = self.inner.send_to(&datagram, to).await;
        }
    }
}
