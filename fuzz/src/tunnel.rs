//! What the tunnel reads: datagrams, streams, tokens, and the packets that it carries.

use leeway_queue::{Ecn, ip};
use leeway_tunnel::wire::{self, Datagram, FRAME_LIMIT, Frame};
use leeway_tunnel::{Egress, Next, Parcel, Switch, Token, destination, source};
use std::net::IpAddr;

/// A datagram of QUIC: what was read is what was there.
pub fn datagram(bytes: &[u8]) {
    let again = match Datagram::read(bytes) {
        Ok(Datagram::Packet { stamp_us, packet }) => {
            [wire::packet_header(stamp_us).as_slice(), packet].concat()
        }
        Ok(Datagram::Half { stamp_us, id, second, part }) => {
            [wire::half_header(stamp_us, id, second).as_slice(), part].concat()
        }
        Ok(Datagram::Foreground { expected_bytes, came_bytes }) => {
            wire::foreground_datagram(expected_bytes, came_bytes).to_vec()
        }
        Ok(Datagram::Report(report)) => wire::report_datagram(&report).to_vec(),
        Ok(Datagram::Standing(standing)) => wire::standing_datagram(&standing).to_vec(),
        Err(_) => return,
    };
    assert_eq!(again, bytes);
}

/// The stream over TCP, and the first stream of QUIC: frames one after the other.
pub fn stream(bytes: &[u8]) {
    let mut at = 0;
    while let Ok(Some((body, used))) = wire::frame(&bytes[at..]) {
        assert!(!body.is_empty() && body.len() <= FRAME_LIMIT && used == body.len() + 2);
        match Frame::read(body) {
            Ok(Frame::Greeting(greeting)) => assert_eq!(greeting.to_frame(), &bytes[at..at + used]),
            Ok(Frame::Packet(packet)) => assert_eq!(packet.len() + 1, body.len()),
            Ok(Frame::Alive) => assert_eq!(body.len(), 1),
            Ok(Frame::Standing(standing)) => {
                assert_eq!(wire::standing_frame(&standing), bytes[at..at + used])
            }
            Err(_) => {}
        }
        at += used;
    }
}

/// What people paste behind `leeway join`.
pub fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse::<Token>(), Ok(token));
    }
}

/// A packet inside the tunnel: its ends are read where it has both, a mark changes the ECN field
/// alone and keeps the header's checksum, and every queue gives back what went in.
pub fn inside(packet: &[u8]) {
    let ends = (source(packet), destination(packet));
    match ends {
        (Some(IpAddr::V4(_)), Some(IpAddr::V4(_))) => assert!(packet.len() >= 20 && packet[0] >> 4 == 4),
        (Some(IpAddr::V6(_)), Some(IpAddr::V6(_))) => assert!(packet.len() >= 40 && packet[0] >> 4 == 6),
        (None, None) => assert_eq!(ip::flow(packet), 0),
        ends => panic!("one end is read and the other is not, or of another kind: {ends:?}"),
    }
    let mut marked = packet.to_vec();
    ip::set_ce(&mut marked);
    assert_eq!(marked.len(), packet.len());
    if ends.0.is_some() {
        assert_eq!(ip::ecn(&marked), Ecn::Ce);
        assert_eq!(ip::traffic_class(&marked) >> 2, ip::traffic_class(packet) >> 2);
        assert_eq!(ip::flow(&marked), ip::flow(packet));
        let again = (source(&marked), destination(&marked));
        assert_eq!(again, ends);
        if packet[0] >> 4 == 4 {
            // Whatever the checksum was wrong by, it is still.
            assert_eq!(sum(&marked[..20]), sum(&packet[..20]));
        }
    } else {
        assert_eq!(marked, packet);
    }
    for queue in ["droptail", "fq_codel", "sfq", "pie"] {
        let egress = Egress::new(&queue.parse().expect("a queue"));
        egress.push([Parcel::copy(packet)]);
        match egress.pop() {
            Next::Parcel(parcel) => assert_eq!(parcel.packet(), packet, "{queue}"),
            other => panic!("{queue}: {other:?}"),
        }
    }
    // For nobody: dropped.
    Switch::default().send([Parcel::copy(packet), Parcel::copy(&marked)]);
}

/// The sum in ones' complement of 16-bit words (RFC 1071), with its two zeros as one.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    if total == 0xffff { 0 } else { total as u16 }
}
