//! Clients that are not invited, and noise: refusals are clear, nothing stays in memory, and other
//! clients work.

mod common;

use bytes::Bytes;
use common::*;
use leeway_tunnel::{Fingerprint, Roster, Secret, Status, Token};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_revoked_and_expired_keys_hear_why() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let roster = Roster::open(state.path()).unwrap();
    let address = server.address.to_string();
    let good = roster.invite("good", &address, None).unwrap();
    let unknown = Token::new(&address, good.server, Secret::generate().unwrap()).unwrap();
    let impostor = Token::new(&address, Fingerprint([7; 32]), good.secret.clone()).unwrap();
    let revoked = roster.invite("revoked", &address, None).unwrap();
    roster.revoke("revoked").unwrap();
    let expired = roster.invite("expired", &address, Some(Duration::ZERO)).unwrap();
    for transport in [quic(), tcp()] {
        for (token, words) in [
            (&unknown, "does not know this token"),
            (&impostor, "not the one that made this token"),
            (&revoked, "revoked"),
            (&expired, "expired"),
        ] {
            let why = join(token.clone(), transport.clone()).await.ended().await;
            assert!(why.contains(words), "{transport:?}: {why}");
        }
    }
    assert!(server.switch.members().is_empty());
    // The server logs each refusal with its source, and no client has joined.
    let log = server.log.lock().unwrap().clone();
    for why in ["not known", "revoked", "expired"] {
        let noted = log.iter().filter(|line| line.starts_with("refused 127.0.0.1: ") && line.contains(why));
        assert_eq!(noted.count(), 2, "{why}: {log:?}");
    }
    assert_eq!(log.len(), 6, "{log:?}");
    join(good, quic()).await.up().await;
}

/// After a few unknown tokens, handshakes are refused without a check, and the log stays short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_one_unknown_token_after_the_other_is_slowed() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let good = invite(state.path(), "good", server.address);
    let unknown = Token::new(&server.address.to_string(), good.server, Secret::generate().unwrap()).unwrap();
    let mut heard = Vec::new();
    for transport in [quic(), tcp()].into_iter().cycle().take(400) {
        let Joined { client, mut task, .. } = join(unknown.clone(), transport).await;
        let mut status = client.status();
        let mut down = Box::pin(status.wait_for(|status| matches!(status, Status::Down(_))));
        // A client that is refused ends. A client without any answer tries again.
        let why = tokio::select! {
            ended = &mut task => ended.unwrap().to_string(),
            down = &mut down => format!("{:?}", *down.unwrap()),
        };
        task.abort();
        heard.push(why);
        if heard.last().is_some_and(|why| !why.contains("does not know")) {
            break;
        }
    }
    assert!(heard.len() > 30, "a few are heard: {heard:?}");
    assert!(heard.len() < 400, "it is never slowed");
    let log = server.log.lock().unwrap().clone();
    assert!(log.len() == heard.len() - 1 && log[29].contains("(30 refused since the start"), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_hears_it() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    for protocol in [b"leeway-tunnel/1".as_slice(), b"h3"] {
        let crypto = QuicClientConfig::try_from(anonymous(protocol)).unwrap();
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
        let error = endpoint.connect(server.address, "leeway").unwrap().await.unwrap_err();
        // no_application_protocol (RFC 7301, 3.2).
        assert!(error.to_string().contains("peer doesn't support any known protocol"), "{error}");
    }
    // The right version, but no key: TLS itself says that one is needed.
    let crypto = QuicClientConfig::try_from(anonymous(b"leeway-tunnel/2")).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    let connecting = endpoint.connect(server.address, "leeway").unwrap();
    let error = match connecting.await {
        Ok(connection) => connection.closed().await,
        Err(error) => error,
    };
    assert!(!error.to_string().contains("timed out"), "{error}");
    assert!(server.switch.members().is_empty());
}

/// Random bytes at full speed over UDP and TCP. An invited client still joins, and its packets
/// pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_does_not_keep_others_out() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Running::start(state.path(), options(anywhere()));
    let address = server.address;
    let until = Instant::now() + Duration::from_secs(6);
    let noise = std::thread::spawn(move || shout(address, until));
    let before = resident_kb();
    for (name, transport) in [("bob", quic()), ("eve", tcp())] {
        let joined = join(invite(state.path(), name, address), transport).await;
        let own = joined.up().await;
        let egress = joined.client.egress();
        let there = packet(own, Ipv4Addr::new(192, 0, 2, 9), 300, 5);
        assert_eq!(until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await, there);
        joined.task.abort();
    }
    let (datagrams, connections) = noise.join().unwrap();
    let grown = resident_kb().saturating_sub(before);
    assert!(datagrams > 1_000 && connections > 20, "{datagrams} datagrams, {connections} connections");
    assert!(grown < 100_000, "{grown} kB more after {datagrams} datagrams");
    server.members(0).await;
}

/// Half-open connections. Silent ones over TCP are closed after the time for a handshake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_few_and_do_not_last() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let start = Instant::now();
    let cut = tokio::task::spawn_blocking(move || {
        silent.iter_mut().for_each(|stream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            // Closed or reset: never silent for longer than a handshake may take.
            let _ = stream.read(&mut [0; 16]);
        });
    });
    cut.await.unwrap();
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    // Another client at the same address joins afterwards.
    join(invite(state.path(), "bob", server.address), tcp()).await.up().await;
}

/// Real first packets of handshakes, each from another address, that never continue. The server
/// answers without state, and a client that continues joins meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_handshakes_is_answered_without_state() {
    const COUNT: usize = 400;
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let address = server.address;
    let bob = invite(state.path(), "bob", address);
    let firsts = beginnings(COUNT, bob.server).await;
    let place = |n: usize| SocketAddr::from(([127, 0, 1 + (n / 250) as u8, 1 + (n % 250) as u8], 0));
    let before = resident_kb();
    let mut sockets = Vec::new();
    for (n, first) in firsts.iter().enumerate() {
        let socket = UdpSocket::bind(place(n)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.send_to(first, address).unwrap();
        sockets.push(socket);
        if n % 10 == 9 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    join(bob, quic()).await.up().await;
    // Silence over TCP from the same number of addresses.
    let mut silent: Vec<TcpStream> = Vec::new();
    for n in 0..COUNT {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&place(n).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        silent.push(socket.into());
    }
    join(invite(state.path(), "eve", address), tcp()).await.up().await;
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 30_000, "{grown} kB more");

    // Packet types of long headers (RFC 9000, 17.2): 0 is Initial, 3 is Retry.
    let mut kinds = [0; 4];
    for socket in &sockets {
        let mut bytes = [0; 2000];
        if let Ok(length @ 1..) = socket.recv(&mut bytes) {
            assert!(length <= 3600, "an answer three times as long as the question at the most");
            kinds[usize::from(bytes[0] >> 4 & 3)] += 1;
        }
    }
    assert!(kinds[3] > COUNT / 2 && kinds[0] < COUNT / 4, "{kinds:?} of {COUNT}");
    let open = silent.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    let open = open.count();
    assert!(open <= 256, "{open} of {COUNT} silent connections are kept");
}

/// The first datagrams of `count` clients of the server, with keys that the server does not know.
async fn beginnings(count: usize, server: Fingerprint) -> Vec<Vec<u8>> {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let mut firsts = BTreeMap::new();
    while firsts.len() < count {
        let token = Token::new(&address, server, Secret::generate().unwrap()).unwrap();
        let client = join(token, quic()).await;
        let mut bytes = [0; 2000];
        let length = tokio::time::timeout(PATIENCE, sink.recv(&mut bytes)).await.expect("it begins").unwrap();
        client.task.abort();
        // Initial packets (RFC 9000, 17.2.2), one for each destination connection ID, because the
        // client before may have sent several.
        if bytes[0] & 0xf0 == 0xc0 {
            firsts.entry(bytes[6..14].to_vec()).or_insert_with(|| bytes[..length].to_vec());
        }
    }
    firsts.into_values().collect()
}

/// Replays everything that a client sent in its handshake, and its first packets, from another
/// address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_handshake_is_worth_nothing() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Running::start(state.path(), options(anywhere()));
    let (tap, recorded) = tap(server.address);
    let bob = join(invite(state.path(), "bob", tap), quic()).await;
    let own = bob.up().await;
    let egress = bob.client.egress();
    let secret = packet(own, Ipv4Addr::new(192, 0, 2, 9), 300, 5);
    until_heard(&mut server.inbox, || egress.push([parcel(&secret)])).await;
    bob.task.abort();
    server.members(0).await;
    while server.inbox.try_recv().is_ok() {}
    let joined = server.log.lock().unwrap().len();

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let datagrams: Vec<Bytes> = recorded.lock().unwrap().clone();
    assert!(datagrams.len() > 4, "{} datagrams", datagrams.len());
    for _ in 0..3 {
        for datagram in &datagrams {
            socket.send_to(datagram, server.address).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    // The server answers a replay with the first flight of a handshake at most.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(server.inbox.try_recv().is_err(), "a replayed packet came through");
    assert!(server.switch.members().is_empty());
    assert_eq!(server.log.lock().unwrap().len(), joined, "{:?}", server.log);
}

/// A relay of datagrams that records what clients send. Returns its address.
fn tap(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<Bytes>>>) {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(server).unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let client = Arc::new(Mutex::new(None));
    let (keep, peer) = (Arc::clone(&recorded), Arc::clone(&client));
    let (front_in, back_out) = (front.try_clone().unwrap(), back.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((length, from)) = front_in.recv_from(&mut buffer) {
            *peer.lock().unwrap() = Some(from);
            keep.lock().unwrap().push(Bytes::copy_from_slice(&buffer[..length]));
            let _ = back_out.send(&buffer[..length]);
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            let Ok(length) = back.recv(&mut buffer) else { continue };
            if let Some(to) = *client.lock().unwrap() {
                let _ = front.send_to(&buffer[..length], to);
            }
        }
    });
    (address, recorded)
}

/// Random datagrams, datagrams that look like the start of QUIC, and random bytes over TCP.
fn shout(to: SocketAddr, until: Instant) -> (u64, u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut state, mut datagrams, mut connections) = (1u64, 0, 0);
    let mut noise = move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 33) as u8;
        }
    };
    while Instant::now() < until {
        for round in 0..40 {
            let mut bytes = vec![0; 1200];
            noise(&mut bytes);
            if round % 2 == 0 {
                // A long header of version 1 with eight-byte connection IDs: an Initial packet.
                bytes[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
                bytes[14] = 8;
                bytes[23] = 0;
            }
            datagrams += u64::from(socket.send_to(&bytes, to).is_ok());
        }
        if let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_secs(1)) {
            let mut bytes = [0; 300];
            noise(&mut bytes);
            let _ = stream.write_all(&bytes);
            connections += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (datagrams, connections)
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A client that takes any server and has no key.
fn anonymous(protocol: &[u8]) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
