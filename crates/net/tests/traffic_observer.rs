//! The traffic observer on a loopback device, where every packet goes out and comes in. Needs root
//! and `ip`.

mod common;

use common::possible;
use leeway_net::{TrafficObserver, Watch, What, ip};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sums over all observations.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sum {
    connects: u64,
    requests: u64,
    brought_bytes: u64,
}

/// Sums the observations of the network of `10.1.0.1`.
struct Seen {
    sum: Arc<Mutex<Sum>>,
    _watch: Watch,
}

impl Seen {
    fn new(home: &[&str]) -> Seen {
        let home: Vec<_> = home.iter().map(|text| text.parse().unwrap()).collect();
        let sum = Arc::<Mutex<Sum>>::default();
        let adding = Arc::clone(&sum);
        let seen = move |observations: &[leeway_net::Observation]| {
            let mut sum = adding.lock().unwrap();
            for observation in observations {
                match observation.what {
                    What::Connects => sum.connects += 1,
                    What::Sends(_) => sum.requests += 1,
                    What::Brings(bytes) => sum.brought_bytes += bytes,
                }
            }
        };
        Seen { sum, _watch: TrafficObserver::new(&home).unwrap().watch(seen).unwrap() }
    }

    fn sum(&self) -> Sum {
        *self.sum.lock().unwrap()
    }

    /// The observations of `act`, which returns when everything that it sent has arrived. A packet
    /// of a size that nothing else has follows. When it has been read, all packets before it have
    /// been read.
    fn by(&self, act: impl FnOnce()) -> Sum {
        let before = self.sum();
        act();
        send("10.9.0.1", "10.1.0.1", LAST_BYTES - 28);
        let start = Instant::now();
        let after = loop {
            let sum = self.sum();
            if sum.brought_bytes - before.brought_bytes >= LAST_BYTES as u64 {
                break sum;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the observer has gone");
            std::thread::sleep(Duration::from_millis(1));
        };
        Sum {
            connects: after.connects - before.connects,
            requests: after.requests - before.requests,
            brought_bytes: after.brought_bytes - before.brought_bytes - LAST_BYTES as u64,
        }
    }
}

/// Size of the packet that ends a measurement: larger than all others.
const LAST_BYTES: usize = 1465;

const NOTHING: Sum = Sum { connects: 0, requests: 0, brought_bytes: 0 };
const CONNECTS: Sum = Sum { connects: 1, ..NOTHING };
const ASKS: Sum = Sum { requests: 1, ..NOTHING };

fn brings(brought_bytes: u64) -> Sum {
    Sum { brought_bytes, ..NOTHING }
}

/// Sends a datagram, and waits until it has arrived: a device counts what it receives then.
fn send(from: &str, to: &str, bytes: usize) {
    let at = |text: &str, port| SocketAddr::new(text.parse().unwrap(), port);
    // Without this socket an ICMP error comes back, which is large as well.
    let taken = UdpSocket::bind(at(to, 9)).unwrap();
    taken.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let socket = UdpSocket::bind(at(from, 0)).unwrap();
    socket.send_to(&vec![0; bytes], at(to, 9)).unwrap();
    assert_eq!(taken.recv(&mut vec![0; bytes]).unwrap(), bytes);
}

#[test]
fn what_the_home_exchanges_with_others_is_seen_and_nothing_else() {
    if !possible() {
        return;
    }
    ip("link set lo up mtu 1500\n\
        addr add 10.1.0.1/32 dev lo\naddr add 10.1.0.130/32 dev lo\naddr add 10.9.0.1/32 dev lo\n\
        addr add 10.1.0.129/32 dev lo\naddr add 172.16.5.5/32 dev lo\n\
        addr add fd01::1/128 dev lo nodad\naddr add fd01:0:0:1::1/128 dev lo nodad\n\
        addr add fd09::1/128 dev lo nodad\n")
    .unwrap();
    let seen = Seen::new(&["10.1.0.0/25", "172.16.0.0/12", "fd01::/64", "10.1.0.130/32"]);
    // With the headers of UDP and IP.
    for (from, to, observation) in [
        ("10.1.0.1", "10.9.0.1", ASKS),
        ("10.9.0.1", "10.1.0.1", brings(1228)),
        ("10.9.0.1", "172.16.5.5", brings(1228)),
        ("10.1.0.130", "10.9.0.1", ASKS),
        ("10.1.0.1", "10.1.0.129", ASKS),
        ("fd01::1", "fd09::1", ASKS),
        ("fd09::1", "fd01::1", brings(1248)),
        ("fd01:0:0:1::1", "fd01::1", brings(1248)),
    ] {
        assert_eq!(seen.by(|| send(from, to, 1200)), observation, "{from} to {to}");
        assert_eq!(seen.by(|| send(from, to, 300)), NOTHING, "{from} to {to}, small");
    }
    for (from, to) in [
        ("10.1.0.1", "10.1.0.130"),
        ("172.16.5.5", "10.1.0.1"),
        ("10.1.0.129", "10.9.0.1"),
        ("10.9.0.1", "10.1.0.129"),
        ("fd01:0:0:1::1", "fd09::1"),
        ("fd09::1", "fd01:0:0:1::1"),
    ] {
        assert_eq!(seen.by(|| send(from, to, 1200)), NOTHING, "{from} to {to}");
    }
}

#[test]
fn a_request_is_seen_and_an_acknowledgement_is_not() {
    if !possible() {
        return;
    }
    ip("link set lo up mtu 1500\naddr add 10.1.0.1/32 dev lo\naddr add 10.9.0.1/32 dev lo\n").unwrap();
    let seen = Seen::new(&["10.1.0.0/24"]);
    let server = TcpListener::bind("10.9.0.1:80").unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"10.1.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let to = server.local_addr().unwrap().into();
    assert_eq!(seen.by(|| socket.connect(&to).unwrap()), CONNECTS);
    let accepted = socket2::Socket::from(server.accept().unwrap().0);
    let write = |from: &socket2::Socket, mut to: &socket2::Socket, bytes: &[u8]| {
        assert_eq!(from.send(bytes).unwrap(), bytes.len());
        to.read_exact(&mut vec![0; bytes.len()]).unwrap();
    };
    assert_eq!(seen.by(|| write(&socket, &accepted, b"GET / HTTP/1.1\r\n\r\n")), ASKS);
    assert_eq!(
        seen.by(|| write(&accepted, &socket, b"ok")),
        NOTHING,
        "a small answer and its acknowledgement"
    );
    // With timestamps (RFC 7323).
    assert_eq!(seen.by(|| write(&accepted, &socket, &[0; 1000])), brings(1052));
    assert_eq!(seen.by(|| write(&socket, &accepted, &[0; 1000])), ASKS, "a large request");
}

#[test]
fn a_hundred_networks_and_not_any_number() {
    if !possible() {
        return;
    }
    let networks = |count: u32| -> Vec<_> {
        (0..count).map(|n| format!("2001:db8:{n:x}::/48").parse().unwrap()).collect()
    };
    TrafficObserver::new(&networks(100)).unwrap();
    let error = TrafficObserver::new(&networks(2000)).unwrap_err().to_string();
    assert!(error.contains("observe packets"), "{error}");
}
