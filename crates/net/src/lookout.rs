//! Sees that machines of some networks use the Internet, and touches nothing of it: a packet socket whose filter lets one
//! byte of a packet through.
//!
//! Seen are, of machines in the networks: what they send to others, if it asks for something (TCP with SYN or PSH, any
//! packet of 500 bytes), and what is sent on to them from others, if it is large. Acknowledgements are not, nor is what
//! such machines send to each other or to addresses of this host that belong to the same networks.

use crate::Error;
use ipnet::IpNet;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

/// What is as long brings something, or asks for it (the first packet of QUIC has 1200 bytes).
const LARGE_BYTES: u32 = 500;

/// Sightings that wait to be read; all say the same, so that those beyond it are lost without harm.
const BUFFER_BYTES: usize = 16 * 1024;

/// The protocols of a packet socket, by their numbers on Ethernet.
const ALL: u16 = 0x0003;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const SYN_OR_PSH: u32 = 0x0a;
/// Of recv(2).
const DONT_WAIT: i32 = 0x40;
/// What this host sends, as opposed to what comes to it.
const OUTGOING: u32 = 4;

/// How long it is waited at a time.
const PATIENCE: Duration = Duration::from_secs(1);
/// Thousands of packets say no more than one.
const PAUSE: Duration = Duration::from_millis(1);

/// Sees those machines at work.
#[derive(Debug)]
pub struct Lookout(Socket);

impl Lookout {
    /// Looks out for machines of these networks, from now on.
    ///
    /// # Errors
    /// Rights (`CAP_NET_RAW`), or more networks than a filter of 4096 instructions holds, a hundred at the least.
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

    /// Calls `seen`, at most a thousand times a second, in a thread of its own that ends soon after this was dropped.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn watch(self, seen: impl Fn() + Send + 'static) -> Result<Watch, Error> {
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let look = move || {
            while weak.strong_count() > 0 {
                // Also where a device has gone: there are others.
                if self.0.recv(&mut [MaybeUninit::uninit()]).is_ok() {
                    seen();
                    while self.0.recv_with_flags(&mut [MaybeUninit::uninit()], DONT_WAIT).is_ok() {}
                }
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("lookout".into());
        thread.spawn(look).map_err(|error| Error::System { what: "start a thread", error })?;
        Ok(Watch { _alive: alive })
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

const PASS: SockFilter = plain(op::RETURN, 1);
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
    let large = [vec![plain(op::LOAD_LENGTH, 0)], when(op::IF_AT_LEAST, LARGE_BYTES, to_them), vec![DROP]];
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
    flags.extend([SockFilter::new(op::IF_ANY_BIT, 1, 0, SYN_OR_PSH), DROP]);
    let large = SockFilter::new(op::IF_AT_LEAST, flags.len() as u8, 0, LARGE_BYTES);
    join([vec![plain(op::LOAD_LENGTH, 0), large], flags])
}

/// Passes packets of which one address is in the networks and the other is not.
fn between(networks: &[IpNet], inside: u32, outside: u32) -> Code {
    let mut code = member(networks, inside);
    code.extend([SockFilter::new(op::IF_EQUAL, 1, 0, 1), DROP]);
    code.extend(member(networks, outside));
    code.extend([SockFilter::new(op::IF_EQUAL, 0, 1, 0), PASS, DROP]);
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
