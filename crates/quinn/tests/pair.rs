//! Two endpoints of quinn and a bottleneck in virtual time: nothing sleeps, and each run is the same.

use leeway_quinn::{LawController, LawFactory};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamEvent, TransportConfig, VarInt, WriteError,
};
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RATE_BYTES_PER_S: u64 = 1_250_000;
const ONE_WAY: Duration = Duration::from_millis(25);
/// Four times the bandwidth-delay product of 10 Mbit/s and 50 ms.
const BUFFER_BYTES: u64 = 250_000;

/// One direction: a drop-tail queue before a constant rate, and then a delay.
struct Link {
    free_at: Instant,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    /// The longest time that a packet waited, since this was last set to zero.
    longest: Duration,
}

impl Link {
    fn send(&mut self, now: Instant, packet: Vec<u8>) {
        let wait = self.free_at.saturating_duration_since(now);
        if wait.as_micros() as u64 * RATE_BYTES_PER_S / 1_000_000 + packet.len() as u64 > BUFFER_BYTES {
            return;
        }
        self.longest = self.longest.max(wait);
        let takes = Duration::from_nanos(packet.len() as u64 * 1_000_000_000 / RATE_BYTES_PER_S);
        self.free_at = now + wait + takes;
        self.under_way.push_back((self.free_at + ONE_WAY, packet));
    }
}

/// One end: an endpoint of quinn with its one connection.
struct End {
    endpoint: Endpoint,
    address: SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
}

impl End {
    fn receive(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) {
        let mut answer = vec![];
        match self.endpoint.handle(now, from, None, None, packet.into(), &mut answer) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let (_, connection) = self.connection.as_mut().unwrap();
                connection.handle_event(event);
            }
            _ => {}
        }
    }

    /// Does everything that is due at `now`: timers, events between the connection and its endpoint,
    /// packets out.
    fn drive(&mut self, now: Instant, out: &mut Link) {
        let Some((handle, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut packet = vec![];
        while connection.poll_transmit(now, 1, &mut packet).is_some() {
            out.send(now, std::mem::take(&mut packet));
        }
    }

    fn due(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }
}

/// What a download of 30 s came to.
struct Outcome {
    /// Of the link's rate, from 5 s on.
    utilisation: f64,
    /// Longest wait in the queue from 5 s on, in milliseconds.
    longest_ms: u128,
    law: &'static str,
    queuing_delay_us: u32,
}

/// The server sends without end under `law` for 30 s.
fn download(law: &str) -> Outcome {
    let begin = Instant::now();
    let (mut client, mut server) = ends(law, begin);
    let link = || Link { free_at: begin, under_way: VecDeque::new(), longest: Duration::ZERO };
    let (mut up, mut down) = (link(), link());
    let (mut now, mut received, mut is_warm) = (begin, 0, false);
    let warm = begin + Duration::from_secs(5);
    let end = begin + Duration::from_secs(30);
    while now < end {
        while let Some((_, packet)) = up.under_way.pop_front_if(|(at, _)| *at <= now) {
            server.receive(now, client.address, &packet);
        }
        while let Some((_, packet)) = down.under_way.pop_front_if(|(at, _)| *at <= now) {
            client.receive(now, server.address, &packet);
        }
        if let Some((_, connection)) = &mut server.connection {
            write(connection);
        }
        if let Some((_, connection)) = &mut client.connection {
            received += read(connection);
        }
        client.drive(now, &mut up);
        server.drive(now, &mut down);
        if now >= warm && !is_warm {
            (is_warm, received, down.longest) = (true, 0, Duration::ZERO);
        }
        let arrivals = [&up, &down].map(|link| link.under_way.front().map(|(at, _)| *at));
        let timers = [client.due(), server.due()];
        now = arrivals.into_iter().chain(timers).flatten().min().unwrap_or(end).max(now);
    }
    let state = server.connection.unwrap().1.congestion_state().clone_box().into_any();
    let law = state.downcast::<LawController>().expect("the controller is the law's");
    Outcome {
        utilisation: received as f64 / (25 * RATE_BYTES_PER_S) as f64,
        longest_ms: down.longest.as_millis(),
        law: law.law(),
        queuing_delay_us: law.output().queuing_delay_us,
    }
}

/// A client that has begun to connect, and a server.
fn ends(law: &str, now: Instant) -> (End, End) {
    let key = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let mut config = ServerConfig::with_single_cert(vec![key.cert.der().clone()], secret).unwrap();
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(LawFactory::new(law.parse().unwrap())));
    config.transport_config(Arc::new(transport));
    let endpoint_config = Arc::new(EndpointConfig::default());
    let mut client = End {
        endpoint: Endpoint::new(Arc::clone(&endpoint_config), None, true, None),
        address: "192.0.2.1:1000".parse().unwrap(),
        connection: None,
    };
    let server = End {
        endpoint: Endpoint::new(endpoint_config, Some(Arc::new(config)), true, None),
        address: "192.0.2.2:4433".parse().unwrap(),
        connection: None,
    };
    let mut roots = RootCertStore::empty();
    roots.add(key.cert.der().clone()).unwrap();
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(1 << 24));
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    config.transport_config(Arc::new(transport));
    client.connection = client.endpoint.connect(now, config, server.address, "localhost").ok();
    (client, server)
}

/// Writes as much as the connection takes into the server's only stream.
fn write(connection: &mut Connection) {
    let Some(id) = connection.streams().open(Dir::Uni).or_else(|| first_stream(connection)) else { return };
    loop {
        match connection.send_stream(id).write(&[7; 8192]) {
            Ok(_) => {}
            Err(WriteError::Blocked) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn first_stream(connection: &mut Connection) -> Option<quinn_proto::StreamId> {
    let id = quinn_proto::StreamId::new(connection.side(), Dir::Uni, 0);
    connection.send_stream(id).priority().is_ok().then_some(id)
}

/// Bytes that have arrived since the last call.
fn read(connection: &mut Connection) -> u64 {
    let mut bytes = 0;
    while let Some(event) = connection.poll() {
        if let Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) = event {
            connection.streams().accept(Dir::Uni);
        }
    }
    let id = quinn_proto::StreamId::new(!connection.side(), Dir::Uni, 0);
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return 0 };
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        bytes += chunk.bytes.len() as u64;
    }
    let _ = chunks.finalize();
    bytes
}

#[test]
fn a_law_that_yields_fills_the_link_and_keeps_its_queue_at_the_target() {
    let outcome = download("ledbat:target=25ms");
    assert_eq!(outcome.law, "ledbat");
    assert!(outcome.utilisation > 0.9, "{}", outcome.utilisation);
    assert!((15..50).contains(&outcome.longest_ms), "{} ms", outcome.longest_ms);
    assert!((15_000..35_000).contains(&outcome.queuing_delay_us), "{} us", outcome.queuing_delay_us);
}

#[test]
fn a_law_that_does_not_yield_fills_the_buffer() {
    let outcome = download("cubic");
    assert_eq!(outcome.law, "cubic");
    assert!(outcome.utilisation > 0.9, "{}", outcome.utilisation);
    assert!(outcome.longest_ms > 150, "{} ms", outcome.longest_ms);
}
