//! QUIC as both ends use it: sockets, limits, and greetings on the first stream.

use crate::Error;
use crate::carry::SEND_BUFFER;
use crate::identity::{Denied, Fingerprint, explain_alert};
use crate::sender::{Factory, Sender};
use crate::wire::{self, FRAME_LIMIT, Frame, Greeting};
use leeway_guard::is_steady;
use quinn::{
    ApplicationClose, Connection, ConnectionError, MtuDiscoveryConfig, RecvStream, SendStream,
    TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Close code: the peer may connect again.
pub(crate) const CLOSE_AGAIN: VarInt = VarInt::from_u32(0);
/// Close code: the peer is refused.
pub(crate) const CLOSE_FOR_GOOD: VarInt = VarInt::from_u32(1);
/// Longest time of each step of a handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);
/// A peer without a message for this time counts as gone.
pub const SILENCE: Duration = Duration::from_secs(15);
/// Interval of keep-alive messages.
pub(crate) const ALIVE: Duration = Duration::from_secs(4);

/// Largest UDP payload of IPv4 on Ethernet. QUIC probes the path for the real limit.
const LARGEST_PAYLOAD: u16 = 1472;
const SOCKET_BUFFER: usize = 4 << 20;

/// Limits and law of one connection. The connection ends when the peer is silent for `silence`.
pub(crate) fn transport(sender: &Arc<Sender>, silence: Duration) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(LARGEST_PAYLOAD);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(2 * FRAME_LIMIT as u32))
        .receive_window(VarInt::from_u32(4 * FRAME_LIMIT as u32))
        .max_idle_timeout(silence.try_into().ok())
        .keep_alive_interval(Some(ALIVE.min(silence / 3)))
        .datagram_receive_buffer_size(Some(SEND_BUFFER))
        .datagram_send_buffer_size(SEND_BUFFER)
        .mtu_discovery_config(Some(discovery))
        .congestion_controller_factory(Arc::new(Factory(Arc::clone(sender))));
    Arc::new(config)
}

/// A UDP socket at `address`, with `mark` for routing rules.
pub(crate) fn socket(address: SocketAddr, mark: Option<u32>) -> Result<UdpSocket, Error> {
    let what = "open a UDP socket";
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(Error::of(what))?;
    if address.is_ipv6() {
        // One socket serves both families at the unspecified address.
        let _ = socket.set_only_v6(false);
    }
    if let Some(mark) = mark {
        socket.set_mark(mark).map_err(Error::of("mark the tunnel's own packets"))?;
    }
    // The kernel may give less.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into()).map_err(|error| listen_error(address, error))?;
    Ok(socket.into())
}

/// The error of a listener at `address`.
pub(crate) fn listen_error(address: SocketAddr, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse | std::io::ErrorKind::AddrNotAvailable => {
            Error::Options(format!("cannot listen at {address}: {error}"))
        }
        _ => Error::of("listen")(error),
    }
}

/// Writes a greeting.
pub(crate) async fn greet(stream: &mut SendStream, greeting: &Greeting) -> Result<(), Error> {
    stream.write_all(&greeting.to_frame()).await.map_err(|error| Error::Lost(error.to_string()))
}

/// Reads the peer's greeting.
pub(crate) async fn greeting(stream: &mut RecvStream) -> Result<Greeting, Error> {
    let broken = || Error::Lost("the greeting was cut off".into());
    let mut bytes = vec![0; 2];
    stream.read_exact(&mut bytes).await.map_err(|_| broken())?;
    let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    if length == 0 || length > FRAME_LIMIT {
        return Err(Error::Refused(wire::Malformed("length of a greeting").to_string()));
    }
    bytes.resize(length, 0);
    stream.read_exact(&mut bytes).await.map_err(|_| broken())?;
    match Frame::read(&bytes) {
        Ok(Frame::Greeting(greeting)) => Ok(greeting),
        Ok(_) => Err(Error::Refused("a packet came before the greeting".into())),
        Err(malformed) => Err(Error::Refused(malformed.to_string())),
    }
}

/// The fingerprint of the peer's key, which TLS has verified.
pub(crate) fn peer(connection: &Connection) -> Option<Fingerprint> {
    let identity = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    Some(Fingerprint::of(identity.first()?))
}

/// Explains the end of a connection.
pub(crate) fn explain(error: &ConnectionError) -> Error {
    match error {
        ConnectionError::ApplicationClosed(ApplicationClose { error_code, reason }) => {
            let words: String =
                String::from_utf8_lossy(reason).chars().filter(|&c| is_steady(c)).take(200).collect();
            let words = if words.is_empty() { "the other side has left".to_owned() } else { words };
            if *error_code == CLOSE_FOR_GOOD { Error::Refused(words) } else { Error::Lost(words) }
        }
        ConnectionError::ConnectionClosed(close) => by_code(u64::from(close.error_code), error),
        ConnectionError::TransportError(transport) => by_code(u64::from(transport.code), error),
        ConnectionError::TimedOut => Error::Lost("the other side does not answer".into()),
        ConnectionError::Reset => Error::Lost("the other side has forgotten the connection".into()),
        ConnectionError::VersionMismatch => {
            Error::Refused("the other side speaks another version of QUIC".into())
        }
        other => Error::Lost(other.to_string()),
    }
}

/// The reason for which this end refused the peer's token, if it did.
pub(crate) fn denial(error: &ConnectionError) -> Option<Denied> {
    let ConnectionError::TransportError(transport) = error else { return None };
    let code = u64::from(transport.code);
    CRYPTO.contains(&code).then(|| Denied::of_alert((code & 0xff) as u8)).flatten()
}

/// Error codes that carry TLS alerts (RFC 9000, 20.1).
const CRYPTO: std::ops::Range<u64> = 0x100..0x200;

fn by_code(code: u64, error: &ConnectionError) -> Error {
    /// RFC 9000, 20.1.
    const CONNECTION_REFUSED: u64 = 2;
    if code == CONNECTION_REFUSED {
        return Error::Lost("the server is busy".into());
    }
    if !CRYPTO.contains(&code) {
        return Error::Lost(error.to_string());
    }
    match explain_alert((code & 0xff) as u8) {
        Some(words) => Error::Refused(words.into()),
        None => Error::Lost(format!("the handshake failed: {error}")),
    }
}
