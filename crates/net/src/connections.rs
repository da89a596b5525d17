//! What the packets of this host's own TCP connections show: when a packet announced a larger
//! window, when data arrived, and when data of this host was acknowledged.
//!
//! No socket and no clock: headers go in, [`Seen`] come out. Positions count bytes from the first
//! byte that an end sends, which is the sequence number after its SYN (RFC 9293, 3.4).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
const IPV6_HEADER: usize = 40;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Kind of the window scale option (RFC 7323, 2.2), and its largest shift.
const WINDOW_SCALE: u8 = 3;
const SCALE_MAX: u8 = 14;
/// Kind of the timestamps option (RFC 7323, 3.2).
const TIMESTAMPS: u8 = 8;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ends {
    /// The end at this host.
    pub here: SocketAddr,
    /// The other end.
    pub there: SocketAddr,
}

/// What a packet did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// This host acknowledged all data before a position, and announced the end of its window.
    Announced {
        /// Position before which all data has arrived.
        acknowledged: u64,
        /// The right edge of the window, as a position.
        edge: u64,
    },
    /// This host sent data.
    Sent,
    /// Data from this position arrived.
    Arrived {
        /// Position of the first byte.
        from: u64,
        /// Bytes of data.
        bytes: u64,
        /// What the clock for timestamps of the other end showed (RFC 7323, 3.2).
        ticks: Option<u32>,
    },
    /// The other end acknowledged more data of this host.
    Acknowledged {
        /// Position before which all data of this host has arrived at the other end.
        position: u64,
        /// Timestamp of the other end's clock (RFC 7323, 3.2), in its own ticks.
        ticks: Option<u32>,
    },
}

/// Direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To this host.
    In,
    /// From this host.
    Out,
}

/// The connections that this host opened, if their SYN was seen.
///
/// The memory is bounded. A connection is forgotten after packets of `most` other connections
/// without one of its own.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    now: HashMap<Ends, Connection>,
    before: HashMap<Ends, Connection>,
}

/// A connection that this host opened.
#[derive(Debug, Clone, Copy)]
struct Connection {
    /// The window scale of this host's SYN; `None` after an answer without the option.
    scale: Option<u8>,
    here: Bytes,
    /// `None` until the other end's SYN is seen.
    there: Option<Bytes>,
}

/// The bytes that one end sends.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    /// Sequence number of the first byte.
    first: u32,
    /// Largest position that has arrived or been acknowledged. Sequence numbers count from it.
    near: u64,
}

impl Connections {
    /// A table of at most twice `most` connections.
    pub fn new(most: usize) -> Connections {
        Connections { most: most.max(1), now: HashMap::new(), before: HashMap::new() }
    }

    /// What a packet shows. `header` starts at the IP header and ends at or after the TCP options.
    pub fn see(&mut self, direction: Direction, header: &[u8]) -> Option<(Ends, [Option<Seen>; 2])> {
        let packet = Packet::parse(header)?;
        let ends = match direction {
            Direction::In => Ends { here: packet.destination, there: packet.source },
            Direction::Out => Ends { here: packet.source, there: packet.destination },
        };
        if direction == Direction::Out && packet.flags & (SYN | ACK) == SYN {
            let here = Bytes::after(packet.sequence);
            self.keep(ends, Connection { scale: packet.scale, here, there: None });
            return None;
        }
        let mut connection = self.take(&ends)?;
        if packet.flags & RST != 0 {
            return None;
        }
        let seen = connection.see(direction, &packet);
        self.keep(ends, connection);
        Some((ends, seen))
    }

    fn take(&mut self, ends: &Ends) -> Option<Connection> {
        self.now.remove(ends).or_else(|| self.before.remove(ends))
    }

    fn keep(&mut self, ends: Ends, connection: Connection) {
        if self.now.len() >= self.most {
            self.before = std::mem::take(&mut self.now);
        }
        self.now.insert(ends, connection);
    }
}

impl Connection {
    fn see(&mut self, direction: Direction, packet: &Packet) -> [Option<Seen>; 2] {
        match direction {
            Direction::In if packet.flags & SYN != 0 => {
                self.there = Some(Bytes::after(packet.sequence));
                self.scale = self.scale.filter(|_| packet.scale.is_some());
                [None; 2]
            }
            Direction::In => [self.arrived(packet), self.acknowledged(packet)],
            Direction::Out if packet.flags & ACK != 0 => {
                let window = u64::from(packet.window) << self.scale.unwrap_or(0);
                let acknowledged = self.there.and_then(|there| there.position(packet.acknowledged));
                let announced = acknowledged
                    .map(|position| Seen::Announced { acknowledged: position, edge: position + window });
                [announced, (packet.data > 0).then_some(Seen::Sent)]
            }
            Direction::Out => [None; 2],
        }
    }

    fn arrived(&mut self, packet: &Packet) -> Option<Seen> {
        let there = self.there.as_mut().filter(|_| packet.data > 0)?;
        let from = there.position(packet.sequence);
        there.near = there.near.max(from.unwrap_or(0) + packet.data);
        from.map(|from| Seen::Arrived { from, bytes: packet.data, ticks: packet.ticks })
    }

    fn acknowledged(&mut self, packet: &Packet) -> Option<Seen> {
        let position = self.here.position(packet.acknowledged).filter(|_| packet.flags & ACK != 0)?;
        (position > self.here.near).then(|| {
            self.here.near = position;
            Seen::Acknowledged { position, ticks: packet.ticks }
        })
    }
}

impl Bytes {
    /// The bytes of an end whose SYN has the sequence number `syn`.
    fn after(syn: u32) -> Bytes {
        Bytes { first: syn.wrapping_add(1), near: 0 }
    }

    /// The position of a sequence number that is nearest to `near`.
    fn position(&self, sequence: u32) -> Option<u64> {
        let near = self.first.wrapping_add(self.near as u32);
        let distance = i64::from(sequence.wrapping_sub(near).cast_signed());
        self.near.checked_add_signed(distance)
    }
}

/// The fields of a TCP packet.
struct Packet {
    source: SocketAddr,
    destination: SocketAddr,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    window: u16,
    /// Present in a SYN only.
    scale: Option<u8>,
    ticks: Option<u32>,
    data: u64,
}

impl Packet {
    fn parse(header: &[u8]) -> Option<Packet> {
        let short = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let four = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<4>()?));
        let six = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<16>()?));
        let (source, destination, protocol, tcp, end) = match header.first()? >> 4 {
            4 => (four(12)?, four(16)?, *header.get(9)?, usize::from(header[0] & 0xf) * 4, short(2)?.into()),
            // A packet with extension headers of IPv6 is rare, and is not seen.
            6 => (six(8)?, six(24)?, *header.get(6)?, IPV6_HEADER, usize::from(short(4)?) + IPV6_HEADER),
            _ => return None,
        };
        let options = tcp + 20;
        let data = tcp + usize::from(*header.get(tcp + 12)? >> 4) * 4;
        let flags = *header.get(tcp + 13)?;
        if protocol != TCP || data < options || end < data {
            return None;
        }
        let options = header.get(options..data)?;
        let scale = option(options, WINDOW_SCALE).filter(|_| flags & SYN != 0);
        let ticks = option(options, TIMESTAMPS).and_then(<[u8]>::first_chunk);
        Some(Packet {
            source: SocketAddr::new(source, short(tcp)?),
            destination: SocketAddr::new(destination, short(tcp + 2)?),
            sequence: word(tcp + 4)?,
            acknowledged: word(tcp + 8)?,
            flags: flags & (FIN | SYN | RST | ACK),
            window: short(tcp + 14)?,
            scale: scale.and_then(<[u8]>::first).map(|&scale| scale.min(SCALE_MAX)),
            ticks: ticks.map(|&ticks| u32::from_be_bytes(ticks)),
            data: (end - data) as u64,
        })
    }
}

/// The data of the first option of this kind (RFC 9293, 3.2).
fn option(mut options: &[u8], kind: u8) -> Option<&[u8]> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    loop {
        options = match options {
            [] | [END, ..] => return None,
            [NOTHING, rest @ ..] => rest,
            &[this, length, ..] => {
                let length = usize::from(length).max(2);
                if this == kind {
                    return options.get(2..length);
                }
                options.get(length..)?
            }
            [_] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: [u8; 4] = [10, 0, 0, 1];
    const THERE: [u8; 4] = [9, 9, 9, 9];
    const ENDS: [u16; 2] = [40_000, 443];

    /// Headers of a packet of the connection, without its data.
    fn packet(
        direction: Direction,
        sequence: u32,
        acknowledged: u32,
        flags: u8,
        window: u16,
        options: &[u8],
        data: u16,
    ) -> Vec<u8> {
        let tcp = 20 + options.len();
        let mut header = vec![0x45, 0];
        header.extend((20 + tcp as u16 + data).to_be_bytes());
        header.extend([0, 0, 0, 0, 64, TCP, 0, 0]);
        let (from, to) = if direction == Direction::Out { (0, 1) } else { (1, 0) };
        for end in [from, to] {
            header.extend([HERE, THERE][end]);
        }
        for end in [from, to] {
            header.extend(ENDS[end].to_be_bytes());
        }
        header.extend(sequence.to_be_bytes());
        header.extend(acknowledged.to_be_bytes());
        header.extend([(tcp as u8 / 4) << 4, flags]);
        header.extend(window.to_be_bytes());
        header.extend([0; 4]);
        header.extend(options);
        header
    }

    const SCALED: [u8; 8] = [2, 4, 5, 180, NOTHING, WINDOW_SCALE, 3, 7];
    const NOTHING: u8 = 1;

    fn announced(acknowledged: u64, window: u64) -> Seen {
        Seen::Announced { acknowledged, edge: acknowledged + window }
    }

    fn known(first: u32, theirs: &[u8]) -> Connections {
        let mut connections = Connections::new(8);
        let syn = packet(Direction::Out, 77, 0, SYN, 2920, &SCALED, 0);
        assert_eq!(connections.see(Direction::Out, &syn), None);
        let answer = packet(Direction::In, first.wrapping_sub(1), 78, SYN | ACK, 65_000, theirs, 0);
        assert_eq!(connections.see(Direction::In, &answer).unwrap().1, [None; 2]);
        connections
    }

    #[test]
    fn what_was_announced_and_what_arrives_are_counted_from_the_first_byte() {
        let first = u32::MAX - 2000;
        let mut connections = known(first, &SCALED);
        let request = packet(Direction::Out, 78, first, ACK, 20, &[], 100);
        let (ends, seen) = connections.see(Direction::Out, &request).unwrap();
        assert_eq!((ends.here.port(), ends.there.to_string().as_str()), (40_000, "9.9.9.9:443"));
        assert_eq!(seen, [Some(announced(0, 20 * 128)), Some(Seen::Sent)]);
        for from in [0, 1460, 2920] {
            let data = packet(Direction::In, first.wrapping_add(from), 178, ACK, 500, &[], 1460);
            let seen = connections.see(Direction::In, &data).unwrap().1;
            assert_eq!(
                seen[0],
                Some(Seen::Arrived { from: from.into(), bytes: 1460, ticks: None }),
                "also where numbers wrap"
            );
        }
        let update = packet(Direction::Out, 178, first.wrapping_add(4380), ACK, 23, &[], 0);
        assert_eq!(
            connections.see(Direction::Out, &update).unwrap().1,
            [Some(announced(4380, 23 * 128)), None]
        );
    }

    #[test]
    fn what_is_acknowledged_has_the_time_of_the_other_end() {
        let mut connections = known(5, &SCALED);
        let mut stamps = vec![NOTHING, NOTHING, TIMESTAMPS, 10];
        stamps.extend(77_000u32.to_be_bytes());
        stamps.extend(3_000u32.to_be_bytes());
        let mut see = |acknowledged, options: &[u8], data| {
            let header = packet(Direction::In, 5, acknowledged, ACK, 500, options, data);
            connections.see(Direction::In, &header).unwrap().1
        };
        let acknowledged = |position, ticks| Some(Seen::Acknowledged { position, ticks });
        assert_eq!(see(78, &stamps, 0), [None; 2], "the SYN is no data");
        assert_eq!(see(1078, &stamps, 0), [None, acknowledged(1000, Some(77_000))]);
        assert_eq!(see(1078, &stamps, 0), [None; 2], "nothing more");
        assert_eq!(see(900, &stamps, 0), [None; 2], "an older one");
        let arrived = |from, ticks| Some(Seen::Arrived { from, bytes: 100, ticks });
        assert_eq!(see(1500, &[], 100), [arrived(0, None), acknowledged(1422, None)]);
        assert_eq!(
            see(1600, &[TIMESTAMPS, 10, 0, 0], 0),
            [None, acknowledged(1522, None)],
            "the option is cut off"
        );
    }

    #[test]
    fn a_window_has_no_scale_where_the_other_end_has_none() {
        let mut connections = known(5, &[]);
        let request = packet(Direction::Out, 78, 5, ACK, 2920, &[], 100);
        assert_eq!(connections.see(Direction::Out, &request).unwrap().1[0], Some(announced(0, 2920)));
    }

    #[test]
    fn connections_of_others_and_ended_ones_are_not_known() {
        let mut connections = Connections::new(8);
        assert_eq!(connections.see(Direction::In, &packet(Direction::In, 1, 1, ACK, 1, &[], 1000)), None);
        let mut connections = known(5, &SCALED);
        assert_eq!(connections.see(Direction::In, &packet(Direction::In, 5, 78, RST, 0, &[], 0)), None);
        assert_eq!(connections.see(Direction::In, &packet(Direction::In, 5, 78, ACK, 1, &[], 1000)), None);
    }

    #[test]
    fn what_was_not_seen_for_long_is_forgotten() {
        let mut connections = known(5, &SCALED);
        for port in 0..20u16 {
            let mut syn = packet(Direction::Out, 77, 0, SYN, 2920, &SCALED, 0);
            syn[20..22].copy_from_slice(&port.to_be_bytes());
            connections.see(Direction::Out, &syn);
        }
        assert!(connections.now.len() + connections.before.len() <= 16);
        assert_eq!(connections.see(Direction::In, &packet(Direction::In, 5, 78, ACK, 1, &[], 1000)), None);
    }

    proptest! {
        /// Any bytes are read without a panic.
        #[test]
        fn any_header_is_read(direction in prop_oneof![Just(Direction::In), Just(Direction::Out)],
                              flags in any::<u8>(), change in proptest::collection::vec((0usize..80, any::<u8>()), 0..8),
                              length in 0usize..80) {
            let mut connections = known(5, &SCALED);
            let mut header = packet(direction, 5, 78, flags, 9, &[0; 40], 1000);
            for (at, byte) in change {
                if let Some(old) = header.get_mut(at) {
                    *old = byte;
                }
            }
            header.truncate(length);
            connections.see(direction, &header);
        }
    }
}
