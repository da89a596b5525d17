//! The connection observer on a loopback device, where both ends of a connection are this host's.
//! Needs root and `ip`.

mod common;

use common::possible;
use leeway_net::{ConnectionObserver, Ends, Seen, Segment, ip};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server sends `ANSWER` bytes after the client's first byte. The device has an MTU of 1500
/// bytes.
const ANSWER: usize = 20_000;

/// What is seen of a connection to `server`, when the whole answer has been seen.
fn seen_of(server: &str, apart: &[&str]) -> Option<Vec<Segment>> {
    let apart: Vec<_> = apart.iter().map(|text| text.parse().unwrap()).collect();
    let seen = Arc::<Mutex<Vec<Segment>>>::default();
    let adding = seen.clone();
    let observer = ConnectionObserver::new(&apart).unwrap();
    let _watch = observer.watch(move |segments| adding.lock().unwrap().extend_from_slice(segments)).unwrap();
    let listener = TcpListener::bind((server, 80)).unwrap();
    let mut client = TcpStream::connect((server, 80)).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    client.write_all(b"?").unwrap();
    accepted.read_exact(&mut [0]).unwrap();
    accepted.write_all(&[7; ANSWER]).unwrap();
    client.read_exact(&mut [0; ANSWER]).unwrap();
    let ends = Ends { here: client.local_addr().unwrap(), there: client.peer_addr().unwrap() };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(if apart.is_empty() { 60 } else { 1 }) {
        let of_it: Vec<Segment> =
            seen.lock().unwrap().iter().filter(|one| one.ends == ends).copied().collect();
        let arrived = |one: &Segment| matches!(one.seen, Seen::Arrived { from, bytes, .. } if from + bytes == ANSWER as u64);
        if of_it.iter().any(arrived) {
            return Some(of_it);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

#[test]
fn a_connection_shows_its_window_its_request_and_its_answer() {
    if !possible() {
        return;
    }
    ip("link set lo up mtu 1500\n").unwrap();
    let begun = Instant::now();
    for server in ["127.0.0.1", "::1"] {
        let segments = seen_of(server, &[]).expect("the answer was seen");
        assert!(segments.iter().all(|one| one.at >= begun && one.at <= Instant::now()), "{segments:?}");
        assert!(segments.windows(2).all(|pair| pair[0].at <= pair[1].at), "in order: {segments:?}");
        assert!(segments.iter().any(|one| one.seen == Seen::Sent), "its request: {segments:?}");
        let timed = |one: &Segment| matches!(one.seen, Seen::Acknowledged { ticks: Some(_), .. });
        assert!(segments.iter().any(timed), "of the request, with a timestamp: {segments:?}");
        let (mut edge, mut position) = (0, 0);
        for segment in &segments {
            match segment.seen {
                Seen::Announced { acknowledged, edge: new } => {
                    assert!(acknowledged <= position && new >= acknowledged, "{segment:?} after {position}");
                    edge = edge.max(new);
                }
                Seen::Arrived { from, bytes, .. } => {
                    assert_eq!(from, position, "{segments:?}");
                    position += bytes;
                    assert!(position <= edge, "within the window: {segments:?}");
                }
                Seen::Sent | Seen::Acknowledged { .. } => {}
            }
        }
        assert_eq!(position, ANSWER as u64);
    }
}

#[test]
fn connections_with_networks_apart_are_not_seen() {
    if !possible() {
        return;
    }
    ip("link set lo up mtu 1500\n").unwrap();
    assert!(seen_of("127.0.0.1", &["127.0.0.0/8"]).is_none());
}
