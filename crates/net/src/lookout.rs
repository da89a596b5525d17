//! The traffic observer: a packet socket that sees when machines of some networks use the
//! Internet. Its filter passes at most six bytes of a packet, and changes nothing.
//!
//! The observer sees packets of those machines to others if they request something: TCP with SYN
//! or PSH, or any packet of 500 bytes. It sees large packets from others to those machines. It
//! does not see acknowledgements, nor packets that such machines send to each other or to
//! addresses of this host in the same networks.

use crate::Error;
use ipnet::IpNet;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A packet of this length brings something or requests it (the first packet of QUIC has 1200 bytes).
const LARGE_BYTES: u32 = 500;

/// Buffer for observations that wait to be read. Observations beyond it are missing from the sums.
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

/// Longest wait for a packet.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two reports; nobody needs an observation earlier.
const PAUSE: Duration = Duration::from_millis(1);

/// The number of bytes that the filter passes says what a packet is: one byte is a request for a
/// connection, two bytes are another request.
const CONNECTS: u32 = 1;
const ASKS: u32 = 2;
/// A packet that brings something passes up to its length field: the third and fourth byte in IPv4,
/// the last two (without the header's length) in IPv6.
const BRINGS: u32 = 6;
const IPV6_HEADER: u64 = 40;

/// An observation of a few milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sight {
    /// Packets that requested a connection.
    pub connects: u64,
    /// Packets that requested something else.
    pub asked: u64,
    /// Bytes that arrived for the machines, with IP headers.
    pub brought_bytes: u64,
}

/// The observer of some machines.
#[derive(Debug)]
pub struct Lookout(Socket);

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
        open().map(Lookout).map_err(|error| Error::System { what: "look out for packets", error })
    }

    /// Calls `seen`, at most a thousand times a second, in a thread of its own that ends soon
    /// after this was dropped.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn watch(self, seen: impl Fn(Sight) + Send + 'static) -> Result<Watch, Error> {
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let look = move || {
            while weak.strong_count() > 0 {
                let mut sight = Sight::default();
                // Also where a device has gone: there are others.
                if self.add(&mut sight, RecvFlags::empty()) {
                    while self.add(&mut sight, RecvFlags::DONTWAIT) {}
                    seen(sight);
                }
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("lookout".into());
        thread.spawn(look).map_err(|error| Error::System { what: "start a thread", error })?;
        Ok(Watch { _alive: alive })
    }

    /// Adds the next packet, if there is one.
    fn add(&self, sight: &mut Sight, flags: RecvFlags) -> bool {
        let mut beginning = [0; BRINGS as usize];
        let received = recv(&self.0, &mut beginning, flags);
        if let Ok((_, length)) = received {
            sight.add(beginning, length as u32);
        }
        received.is_ok()
    }
}

impl Sight {
    fn add(&mut self, beginning: [u8; BRINGS as usize], length: u32) {
        let number = |a, b| u64::from(u16::from_be_bytes([a, b]));
        let [first, _, c, d, e, f] = beginning;
        match length {
            CONNECTS => self.connects += 1,
            ASKS => self.asked += 1,
            _ if first >> 4 == 4 => self.brought_bytes += number(c, d),
            _ => self.brought_bytes += number(e, f) + IPV6_HEADER,
        }
    }
}

/// An observer that works until this is dropped.
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
    pub const RETURN_A: u16 = 0x16;
    pub const STORE: u16 = 0x02;
    pub const LOAD_STORED: u16 = 0x60;
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
        when(op::IF_AT_LEAST, LARGE_BYTES, join([note(BRINGS), to_them])),
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
    let connects = note(CONNECTS);
    flags.extend([
        SockFilter::new(op::IF_ANY_BIT, connects.len() as u8 + 3, 0, PSH),
        SockFilter::new(op::IF_ANY_BIT, 1, 0, SYN),
        DROP,
    ]);
    flags.extend(connects);
    flags.push(plain(op::JUMP, note(ASKS).len() as u32));
    let large = SockFilter::new(op::IF_AT_LEAST, flags.len() as u8, 0, LARGE_BYTES);
    join([vec![plain(op::LOAD_LENGTH, 0), large], flags, note(ASKS)])
}

/// So much is to be let through of what passes.
fn note(length: u32) -> Code {
    vec![plain(op::LOAD_VALUE, length), plain(op::STORE, 0)]
}

/// Passes as much as was noted of packets of which one address is in the networks and the other is
/// not.
fn between(networks: &[IpNet], inside: u32, outside: u32) -> Code {
    let mut code = member(networks, inside);
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 1), DROP]);
    code.extend(member(networks, outside));
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 0), DROP]);
    code.extend([plain(op::LOAD_STORED, 0), plain(op::RETURN_A, 0)]);
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
