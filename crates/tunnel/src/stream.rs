//! TCP instead of QUIC: TLS 1.3 over one connection, under any congestion control of the kernel.
//!
//! Unsent bytes wait in the tunnel's queue, where the queue discipline sees them, and not in the
//! socket (TCP_NOTSENT_LOWAT). TCP delivers in order, so a lost segment delays all packets behind
//! it.

use crate::Error;
use crate::carry::Ends;
use crate::egress::{Egress, Next};
use crate::handshake_limiter::Place;
use crate::identity::{Denied, Fingerprint, explain_alert};
use crate::quic::{ALIVE, HANDSHAKE, listen_error};
use crate::roster::Invited;
use crate::server::{REPLACED, Shared, words};
use crate::switch::Member;
use crate::wire::{self, ALIVE_FRAME, FRAME_LIMIT, Frame, Greeting, Welcome};
use bytes::{Bytes, BytesMut};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Most bytes in a socket that are not sent yet.
const UNSENT_BYTES: u32 = 8 << 10;
/// Most bytes that are encrypted at once: one TLS record (RFC 8446, 5.1).
const RECORD: usize = 16 << 10;
const READ_BUFFER: usize = 64 << 10;
const BACKLOG: i32 = 64;

/// A connection to a server that has welcomed the client.
pub(crate) struct Connected {
    stream: TlsStream<TcpStream>,
    /// Bytes that arrived after the welcome.
    rest: BytesMut,
}

/// Listens under a congestion control, which connections inherit.
pub(crate) fn listen(address: SocketAddr, congestion: &str) -> Result<TcpListener, Error> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(Error::of("open a TCP socket"))?;
    if address.is_ipv6() {
        let _ = socket.set_only_v6(false);
    }
    socket.set_reuse_address(true).map_err(Error::of("listen"))?;
    prepare(&SockRef::from(&socket), congestion)?;
    socket.bind(&address.into()).map_err(|error| listen_error(address, error))?;
    socket.listen(BACKLOG).map_err(|error| listen_error(address, error))?;
    socket.set_nonblocking(true).map_err(Error::of("listen"))?;
    TcpListener::from_std(socket.into()).map_err(Error::of("listen"))
}

/// The next connection. Waits for ever without a listener.
pub(crate) async fn accept(listener: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // No free descriptor, or the connection is already gone. Existing connections go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Connects, and reads the welcome.
pub(crate) async fn connect(
    server: SocketAddr,
    congestion: &str,
    mark: Option<u32>,
    tls: rustls::ClientConfig,
    hello: &Greeting,
) -> Result<(Connected, Welcome), Error> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))
        .map_err(Error::of("open a TCP socket"))?;
    if let Some(mark) = mark {
        socket.set_mark(mark).map_err(Error::of("mark the tunnel's own packets"))?;
    }
    prepare(&SockRef::from(&socket), congestion)?;
    socket.set_nonblocking(true).map_err(Error::of("open a TCP socket"))?;
    let lost = |error: io::Error| Error::Lost(format!("{server}: {error}"));
    let stream = TcpSocket::from_std_stream(socket.into()).connect(server).await.map_err(lost)?;
    let connector = TlsConnector::from(Arc::new(tls));
    let name = server.ip().into();
    let stream = connector.connect(name, stream).await.map_err(|error| explain(&error))?;
    let mut connected = Connected { stream: stream.into(), rest: BytesMut::new() };
    let Connected { stream, rest } = &mut connected;
    stream.write_all(&hello.to_frame()).await.map_err(|error| explain(&error))?;
    stream.flush().await.map_err(|error| explain(&error))?;
    let welcome = match greeting(stream, rest).await? {
        Greeting::Welcome(welcome) => welcome,
        Greeting::Refuse { why } => return Err(Error::Refused(why)),
        Greeting::Hello { .. } => return Err(Error::Refused("the server did not welcome".into())),
    };
    if !welcome.law.is_empty() {
        prepare(&SockRef::from(stream.get_ref().0), &welcome.law)?;
    }
    Ok((connected, welcome))
}

/// Carries packets until the connection ends.
pub(crate) async fn carry(connected: Connected, ends: &Ends) -> Error {
    let Connected { stream, rest } = connected;
    pump(stream, rest, ends).await
}

/// Serves a client over TCP.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    (stream, from): (TcpStream, SocketAddr),
    place: Place,
) {
    let mut rest = BytesMut::new();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HANDSHAKE, greet(&shared, acceptor, stream, from, &mut rest)) => greeted,
        () = place.displaced() => return,
    };
    // TLS refused the client, or the client was too slow.
    let Ok(Ok((mut stream, key, member))) = greeted else { return };
    drop(place);
    shared.joined(&member, "TCP");
    let ends = shared.ends(&member);
    let ended: Result<Error, &str> = {
        let pumping = pump(&mut stream, rest, &ends);
        tokio::select! {
            error = pumping => Ok(error),
            () = member.replaced.notified() => Err(REPLACED),
            denied = shared.uninvited(&key) => Err(words(denied)),
        }
    };
    match ended {
        Ok(error) => shared.left(&member, &error.to_string()),
        Err(why) => {
            shared.left(&member, why);
            refuse(&mut stream, why).await;
        }
    }
}

async fn greet(
    shared: &Shared,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    from: SocketAddr,
    rest: &mut BytesMut,
) -> Result<(TlsStream<TcpStream>, Fingerprint, Arc<Member>), Error> {
    let _ = stream.set_nodelay(true);
    let accepted = acceptor.accept(stream).await;
    let accepted = accepted.inspect_err(|error| {
        if let Some(denied) = denial(error) {
            shared.denied(from, denied);
        }
    });
    let mut stream: TlsStream<TcpStream> = accepted.map_err(|error| explain(&error))?.into();
    let admitted: Result<(Fingerprint, Invited), Denied> = shared.admit(peer(&stream));
    let (key, invited) = match admitted {
        Ok(known) => known,
        Err(denied) => {
            shared.denied(from, denied);
            refuse(&mut stream, words(denied)).await;
            return Err(Error::Refused(words(denied).into()));
        }
    };
    let Greeting::Hello { mtu, .. } = greeting(&mut stream, rest).await? else {
        refuse(&mut stream, "a client begins with a hello").await;
        return Err(Error::Refused("a client begins with a hello".into()));
    };
    let member = shared.member(&invited, from, None)?;
    let law = shared.options.demand_congestion.clone().unwrap_or_default();
    let welcome = shared.welcome(member.addresses, mtu, law).to_frame();
    stream.write_all(&welcome).await.map_err(|error| explain(&error))?;
    stream.flush().await.map_err(|error| explain(&error))?;
    Ok((stream, key, member))
}

/// Sends a refusal, if the peer still reads.
async fn refuse(stream: &mut TlsStream<TcpStream>, why: &str) {
    let frame = Greeting::Refuse { why: why.to_owned() }.to_frame();
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        stream.write_all(&frame).await?;
        stream.shutdown().await
    })
    .await;
}

fn peer(stream: &TlsStream<TcpStream>) -> Option<Fingerprint> {
    let key = stream.get_ref().1.peer_certificates()?.first()?;
    Some(Fingerprint::of(key))
}

async fn greeting(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Result<Greeting, Error> {
    loop {
        if let Some((body, used)) =
            wire::frame(buffer).map_err(|malformed| Error::Refused(malformed.to_string()))?
        {
            let greeting = match Frame::read(body) {
                Ok(Frame::Greeting(greeting)) => greeting,
                Ok(_) => return Err(Error::Refused("a packet came before the greeting".into())),
                Err(malformed) => return Err(Error::Refused(malformed.to_string())),
            };
            let _ = buffer.split_to(used);
            return Ok(greeting);
        }
        if read(stream, buffer).await? == 0 {
            return Err(Error::Lost("the connection was closed".into()));
        }
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Result<usize, Error> {
    buffer.reserve(FRAME_LIMIT);
    stream.read_buf(buffer).await.map_err(|error| explain(&error))
}

async fn pump(stream: impl AsyncRead + AsyncWrite + Unpin, rest: BytesMut, ends: &Ends) -> Error {
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::select! {
        error = receive(&mut reader, rest, ends) => error,
        error = send(&mut writer, ends) => explain(&error),
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), ends: &Ends) -> io::Error {
    let mut record = Vec::with_capacity(RECORD);
    let mut last = tokio::time::Instant::now();
    let mut tell = ends.tell.clone();
    loop {
        record.extend(tell.now().iter().flat_map(wire::standing_frame));
        let wait = fill(&mut record, &ends.egress, ends);
        if record.is_empty() {
            let alive = last + ALIVE;
            tokio::select! {
                () = ends.egress.arrival() => continue,
                () = tokio::time::sleep(wait.unwrap_or(ALIVE)), if wait.is_some() => continue,
                standing = tell.next() => record.extend_from_slice(&wire::standing_frame(&standing)),
                () = tokio::time::sleep_until(alive) => record.extend_from_slice(&ALIVE_FRAME),
            }
        }
        // A peer that reads nothing is gone. Its packets must not wait for ever.
        let written = tokio::time::timeout(ends.silence, async {
            writer.write_all(&record).await?;
            writer.flush().await
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => return io::ErrorKind::TimedOut.into(),
        }
        last = tokio::time::Instant::now();
        record.clear();
    }
}

/// Fills a record with packets. Returns the time to wait if no packet may go yet.
fn fill(record: &mut Vec<u8>, egress: &Egress, ends: &Ends) -> Option<Duration> {
    while record.len() + FRAME_LIMIT < RECORD {
        match egress.pop() {
            Next::Parcel(parcel) => {
                let packet = parcel.packet();
                ends.counts.count_sent(packet.len());
                record.extend_from_slice(&wire::frame_header(packet.len()));
                record.extend_from_slice(packet);
            }
            Next::After(wait) => return Some(wait),
            Next::Empty => return None,
        }
    }
    None
}

async fn receive(reader: &mut (impl AsyncRead + Unpin), mut buffer: BytesMut, ends: &Ends) -> Error {
    let mut batch: Vec<Bytes> = Vec::new();
    loop {
        let whole = match whole_frames(&buffer) {
            Ok(whole) => whole,
            Err(malformed) => return Error::Lost(malformed.to_string()),
        };
        let frames = buffer.split_to(whole).freeze();
        if let Err(error) = take(&frames, ends, &mut batch) {
            return error;
        }
        if !batch.is_empty() {
            ends.inward.deliver(&batch);
            batch.clear();
        }
        buffer.reserve(READ_BUFFER);
        match tokio::time::timeout(ends.silence, reader.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return Error::Lost("the connection was closed".into()),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return explain(&error),
            Err(_) => return Error::Lost("the other side does not answer".into()),
        }
    }
}

/// Length of the whole frames at the start of `bytes`.
fn whole_frames(bytes: &[u8]) -> Result<usize, wire::Malformed> {
    let mut at = 0;
    while let Some((_, used)) = wire::frame(&bytes[at..])? {
        at += used;
    }
    Ok(at)
}

fn take(frames: &Bytes, ends: &Ends, batch: &mut Vec<Bytes>) -> Result<(), Error> {
    let mut at = 0;
    while let Ok(Some((body, used))) = wire::frame(&frames[at..]) {
        at += used;
        match Frame::read(body) {
            Ok(Frame::Packet(packet)) => batch.extend(ends.admits(packet).then(|| frames.slice_ref(packet))),
            Ok(Frame::Alive) => {}
            Ok(Frame::Standing(standing)) => ends.heard(standing),
            Ok(Frame::Greeting(Greeting::Refuse { why })) => return Err(Error::Refused(why)),
            Ok(Frame::Greeting(_)) => return Err(Error::Lost("a second greeting".into())),
            Err(malformed) => {
                ends.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Err(Error::Lost(malformed.to_string()));
            }
        }
    }
    Ok(())
}

/// Sets the congestion control of a socket, and the limit of unsent bytes.
fn prepare(socket: &SockRef<'_>, congestion: &str) -> Result<(), Error> {
    if let Err(error) = socket.set_tcp_congestion(congestion.as_bytes()) {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let known = known.unwrap_or_default();
        let ours = if congestion.starts_with("leeway_") {
            format!("; `leeway kernel load {}` loads it", congestion.trim_start_matches("leeway_"))
        } else {
            String::new()
        };
        return Err(Error::Options(format!(
            "the kernel has no congestion control {congestion:?} for this ({error}); it has: {}{ours}",
            known.trim()
        )));
    }
    socket.set_tcp_nodelay(true).map_err(Error::of("prepare a TCP socket"))?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES).map_err(Error::of("prepare a TCP socket"))
}

/// The reason for which this end refused the peer's token, if it did.
fn denial(error: &io::Error) -> Option<Denied> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(error) => Denied::of(error),
        _ => None,
    }
}

fn explain(error: &io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let alert = match tls {
        Some(rustls::Error::AlertReceived(alert)) => Some(u8::from(*alert)),
        Some(rustls::Error::InvalidCertificate(_)) => Some(49),
        Some(rustls::Error::NoApplicationProtocol) => Some(120),
        _ => None,
    };
    match (alert.and_then(explain_alert), tls) {
        (Some(words), _) => Error::Refused(words.into()),
        (None, Some(error)) => Error::Lost(format!("TLS failed: {error}")),
        (None, None) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Error::Lost("the connection was closed".into())
        }
        (None, None) => Error::Lost(error.to_string()),
    }
}
