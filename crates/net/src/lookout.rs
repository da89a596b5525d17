//! Sees that machines of some networks use the Internet, and touches nothing of it: a packet
//! socket whose filter lets the headers of a packet through at most.
//!
//! Seen are, of machines in the networks: what they send to others, if it asks for something (TCP
//! with SYN or PSH, any packet of 500 bytes), and what is sent on to them from others, if it is
//! large. Addresses and ports become one number, by which connections are told apart. Acknowledgements are not, nor is what such machines send to each other or to addresses
//! of this host that belong to the same networks.

use crate::Error;
use ipnet::IpNet;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What is as long brings something, or asks for it (the first packet of QUIC has 1200 bytes).
const LARGE_BYTES: u32 = 500;

/// Packets that wait to be read. What finds no room is not seen.
const BUFFER_BYTES: usize = 256 * 1024;

/// The protocols of a packet socket, by their numbers on Ethernet.
const ALL: u16 = 0x0003;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const SYN: u32 = 0x02;
const PSH: u32 = 0x08;
/// What this host sends, as opposed to what comes to it.
const OUTGOING: u32 = 4;

/// How long it is waited at a time.
const PATIENCE: Duration = Duration::from_secs(1);
/// As many are told together at most.
const SIGHTS: usize = 4096;
/// Nobody needs to know it earlier.
const PAUSE: Duration = Duration::from_millis(1);

/// What is let through of a packet: an IP header with all its options, and TCP's up to its flags.
const HEADER_BYTES: usize = 60 + 14;
const IPV6_HEADER: usize = 40;

/// A packet of one of those machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// The same for all packets of a connection, in both directions.
    pub connection: u64,
    /// What the packet does.
    pub what: What,
}

/// What a packet does for the machine that was looked out for; bytes are those of the packet with the header of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It asks for a connection.
    Connects,
    /// It asks for something else, or sends so many bytes.
    Sends(u64),
    /// It brings so many bytes.
    Brings(u64),
}

/// Sees those machines at work.
#[derive(Debug)]
pub struct Lookout {
    socket: Socket,
    networks: Vec<IpNet>,
}

impl Lookout {
    /// Looks out for machines of these networks, from now on.
    ///
    /// # Errors
    /// Rights (`CAP_NET_RAW`), or more networks than a filter of 4096 instructions holds, a
    /// hundred at the least.
    pub fn new(networks: &[IpNet]) -> Result<Lookout, Error> {
        let open = || -> io::Result<Socket> {
            let protocol = Protocol::from(i32::from(ALL.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
            socket.attach_filter(&filter(networks))?;
            socket.set_recv_buffer_size(BUFFER_BYTES)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = open().map_err(|error| Error::System { what: "look out for packets", error })?;
        Ok(Lookout { socket, networks: networks.to_vec() })
    }

    /// Calls `seen` with what was seen within a moment, at most a thousand times a second, in a thread of its own that
    /// ends soon after this was dropped.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn watch(self, seen: impl Fn(&[Sight]) + Send + 'static) -> Result<Watch, Error> {
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let look = move || {
            let mut sights = Vec::new();
            while weak.strong_count() > 0 {
                sights.clear();
                // Also where a device has gone: there are others.
                if self.add(&mut sights, RecvFlags::empty()) {
                    while sights.len() < SIGHTS && self.add(&mut sights, RecvFlags::DONTWAIT) {}
                    seen(&sights);
                }
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("lookout".into());
        thread.spawn(look).map_err(|error| Error::System { what: "start a thread", error })?;
        Ok(Watch { _alive: alive })
    }

    /// Adds the next packet, if there is one.
    fn add(&self, sights: &mut Vec<Sight>, flags: RecvFlags) -> bool {
        let mut header = [0; HEADER_BYTES];
        let received = recv(&self.socket, &mut header, flags);
        if let Ok((_, length)) = received {
            let header = &header[..length.min(HEADER_BYTES)];
            sights.extend(Packet::parse(header).map(|packet| packet.sight(&self.networks)));
        }
        received.is_ok()
    }
}

/// What the headers of a packet say.
struct Packet {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    bytes: u64,
    /// TCP with SYN and without data that is to be read at once.
    connects: bool,
}

impl Packet {
    fn parse(header: &[u8]) -> Option<Packet> {
        let short = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let first = *header.first()?;
        let (source, destination, transport, protocol, bytes) = if first >> 4 == 4 {
            let address = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<4>()?));
            (address(12)?, address(16)?, usize::from(first & 0xf) * 4, *header.get(9)?, u64::from(short(2)?))
        } else {
            let address = |at: usize| Some(IpAddr::from(*header.get(at..)?.first_chunk::<16>()?));
            let bytes = u64::from(short(4)?) + IPV6_HEADER as u64;
            (address(8)?, address(24)?, IPV6_HEADER, *header.get(6)?, bytes)
        };
        // A fragment or another protocol has no ports, but something in their place.
        let ports = [short(transport).unwrap_or(0), short(transport + 2).unwrap_or(0)];
        let flags = header.get(transport + 13).copied().unwrap_or(0);
        let connects = u32::from(protocol) == TCP && u32::from(flags) & (SYN | PSH) == SYN;
        Some(Packet { source: (source, ports[0]), destination: (destination, ports[1]), bytes, connects })
    }

    fn sight(&self, networks: &[IpNet]) -> Sight {
        let sends = networks.iter().any(|network| network.contains(&self.source.0));
        let (inside, outside) =
            if sends { (self.source, self.destination) } else { (self.destination, self.source) };
        let mut hasher = DefaultHasher::new();
        (inside, outside).hash(&mut hasher);
        let what = match (sends, self.connects) {
            (true, true) => What::Connects,
            (true, false) => What::Sends(self.bytes),
            (false, _) => What::Brings(self.bytes),
        };
        Sight { connection: hasher.finish(), what }
    }
}

/// A lookout that watches until this is dropped.
#[derive(Debug)]
pub struct Watch {
    _alive: Arc<()>,
}

/// Instructions of classic BPF (linux/filter.h): class, size, mode and operation in one number.
mod op {
    pub const LOAD_WORD: u16 = 0x20;
    pub const LOAD_HALF: u16 = 0x28;
    pub const LOAD_BYTE: u16 = 0x30;
    pub const LOAD_BYTE_AT_X: u16 = 0x50;
    pub const LOAD_LENGTH: u16 = 0x80;
    pub const LOAD_VALUE: u16 = 0x00;
    /// X = four times the lower half of the byte: the length of an IPv4 header.
    pub const LOAD_X_HEADER: u16 = 0xb1;
    pub const AND: u16 = 0x54;
    pub const JUMP: u16 = 0x05;
    pub const IF_EQUAL: u16 = 0x15;
    pub const IF_AT_LEAST: u16 = 0x35;
    pub const IF_ANY_BIT: u16 = 0x45;
    pub const RETURN: u16 = 0x06;
    /// Where the kernel keeps what it knows of a packet: SKF_AD_OFF and after it.
    pub const PROTOCOL: u32 = 0xffff_f000;
    pub const DIRECTION: u32 = 0xffff_f004;
}

type Code = Vec<SockFilter>;

const fn plain(code: u16, value: u32) -> SockFilter {
    SockFilter::new(code, 0, 0, value)
}

const DROP: SockFilter = plain(op::RETURN, 0);

/// What an IP header has, and where.
struct Header {
    source: u32,
    destination: u32,
    protocol: u32,
    /// Whether the length of the header is in its first byte; else it is 40.
    varies: bool,
}

fn filter(networks: &[IpNet]) -> Code {
    let v4 = Header { source: 12, destination: 16, protocol: 9, varies: true };
    let v6 = Header { source: 8, destination: 24, protocol: 6, varies: false };
    let [four, six] = [true, false].map(|four| -> Vec<IpNet> {
        networks.iter().copied().filter(|network| network.addr().is_ipv4() == four).collect()
    });
    join([
        vec![plain(op::LOAD_HALF, op::PROTOCOL)],
        when(op::IF_EQUAL, IPV4, of_family(&v4, &four)),
        when(op::IF_EQUAL, IPV6, of_family(&v6, &six)),
        vec![DROP],
    ])
}

/// Packets of one family of addresses; returns in any case.
fn of_family(header: &Header, networks: &[IpNet]) -> Code {
    let to_them = between(networks, header.destination, header.source);
    let large = [
        vec![plain(op::LOAD_LENGTH, 0)],
        when(op::IF_AT_LEAST, LARGE_BYTES, to_them),
        vec![DROP],
    ];
    join([
        vec![plain(op::LOAD_WORD, op::DIRECTION)],
        when(op::IF_EQUAL, OUTGOING, join(large)),
        asks(header),
        between(networks, header.source, header.destination),
    ])
}

/// `code`, which returns, where A compares so with `value`; else what follows.
fn when(test: u16, value: u32, code: Code) -> Code {
    join([vec![SockFilter::new(test, 1, 0, value), plain(op::JUMP, code.len() as u32)], code])
}

fn join<const N: usize>(parts: [Code; N]) -> Code {
    parts.into_iter().flatten().collect()
}

/// Goes on with what asks for something, drops the rest.
fn asks(header: &Header) -> Code {
    let mut flags =
        vec![plain(op::LOAD_BYTE, header.protocol), SockFilter::new(op::IF_EQUAL, 1, 0, TCP), DROP];
    if header.varies {
        flags.extend([plain(op::LOAD_X_HEADER, 0), plain(op::LOAD_BYTE_AT_X, 13)]);
    } else {
        flags.push(plain(op::LOAD_BYTE, 40 + 13));
    }
    flags.extend([SockFilter::new(op::IF_ANY_BIT, 1, 0, PSH | SYN), DROP]);
    let large = SockFilter::new(op::IF_AT_LEAST, flags.len() as u8, 0, LARGE_BYTES);
    join([vec![plain(op::LOAD_LENGTH, 0), large], flags])
}

/// Passes the headers of packets of which one address is in the networks and the other is not.
fn between(networks: &[IpNet], inside: u32, outside: u32) -> Code {
    let mut code = member(networks, inside);
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 1), DROP]);
    code.extend(member(networks, outside));
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 0), DROP]);
    code.push(plain(op::RETURN, HEADER_BYTES as u32));
    code
}

/// A = 1 where the address at `offset` is in one of the networks, else 0.
fn member(networks: &[IpNet], offset: u32) -> Code {
    let mut code = vec![plain(op::LOAD_VALUE, 0)];
    for network in networks.iter().rev() {
        let words = words(network);
        let mut test = Code::new();
        for (n, &(mask, value)) in words.iter().enumerate() {
            let rest = 3 * (words.len() - 1 - n) + 2;
            test.extend([
                plain(op::LOAD_WORD, offset + 4 * n as u32),
                plain(op::AND, mask),
                SockFilter::new(op::IF_EQUAL, 0, rest as u8, value),
            ]);
        }
        test.extend([plain(op::LOAD_VALUE, 1), plain(op::JUMP, code.len() as u32)]);
        test.extend(code);
        code = test;
    }
    code
}

/// Mask and value of each word of 32 bits that the network fixes.
fn words(network: &IpNet) -> Vec<(u32, u32)> {
    let octets = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let (masks, values) = (octets(network.netmask()), octets(network.network()));
    let pairs = masks.chunks(4).map(word).zip(values.chunks(4).map(word));
    pairs.filter(|&(mask, _)| mask != 0).collect()
}
