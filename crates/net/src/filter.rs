//! Packet sockets, and their filters: programs of classic BPF (linux/filter.h) that choose packets
//! by addresses and protocol. A packet that a filter drops costs only the run of the filter.

use ipnet::IpNet;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use std::io;
use std::time::Duration;

/// The protocols of a packet socket, by their EtherType (linux/if_ether.h).
const ALL: u16 = 0x0003;
pub(crate) const IPV4: u32 = 0x0800;
pub(crate) const IPV6: u32 = 0x86dd;
pub(crate) const TCP: u32 = 6;
/// Kinds of packets: received by this host, or sent by it (linux/if_packet.h).
pub(crate) const INCOMING: u32 = 0;
pub(crate) const OUTGOING: u32 = 4;

/// Instructions of classic BPF (linux/filter.h). Each number has class, size, mode and operation.
pub(crate) mod op {
    pub const LOAD_WORD: u16 = 0x20;
    pub const LOAD_HALF: u16 = 0x28;
    pub const LOAD_BYTE: u16 = 0x30;
    pub const LOAD_BYTE_AT_X: u16 = 0x50;
    pub const LOAD_LENGTH: u16 = 0x80;
    pub const LOAD_VALUE: u16 = 0x00;
    /// X = 4 × the lower four bits of the byte, which is the length of an IPv4 header.
    pub const LOAD_X_HEADER: u16 = 0xb1;
    pub const AND: u16 = 0x54;
    pub const JUMP: u16 = 0x05;
    pub const IF_EQUAL: u16 = 0x15;
    pub const IF_AT_LEAST: u16 = 0x35;
    pub const IF_ANY_BIT: u16 = 0x45;
    pub const RETURN: u16 = 0x06;
    /// Offsets at which the kernel offers what it knows of a packet: SKF_AD_OFF and up.
    pub const PROTOCOL: u32 = 0xffff_f000;
    pub const DIRECTION: u32 = 0xffff_f004;
}

pub(crate) type Code = Vec<SockFilter>;

/// Longest wait of a read. Then the thread checks whether it should end.
const PATIENCE: Duration = Duration::from_secs(1);

/// A packet socket of all devices for the packets that `program` passes. Its buffer has
/// `buffer_bytes`.
pub(crate) fn open(program: &[SockFilter], buffer_bytes: usize) -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(ALL.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
    socket.attach_filter(program)?;
    socket.set_recv_buffer_size(buffer_bytes)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

pub(crate) const fn plain(code: u16, value: u32) -> SockFilter {
    SockFilter::new(code, 0, 0, value)
}

pub(crate) const DROP: SockFilter = plain(op::RETURN, 0);

/// Offsets in an IP header, in bytes.
pub(crate) struct Header {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) protocol: u32,
    /// Whether the first byte has the length of the header. Otherwise the length is 40 bytes.
    pub(crate) varies: bool,
}

/// Runs `code` if the test of A with `value` holds, and otherwise what follows. `code` must
/// return.
pub(crate) fn when(test: u16, value: u32, code: Code) -> Code {
    join([vec![SockFilter::new(test, 1, 0, value), plain(op::JUMP, code.len() as u32)], code])
}

pub(crate) fn join<const N: usize>(parts: [Code; N]) -> Code {
    parts.into_iter().flatten().collect()
}

/// A = 1 if the address at `offset` is in one of the networks, otherwise A = 0.
pub(crate) fn member(networks: &[IpNet], offset: u32) -> Code {
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

/// Mask and value of each 32-bit word that the network fixes.
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

/// The headers of IPv4 and IPv6.
pub(crate) const V4: Header = Header { source: 12, destination: 16, protocol: 9, varies: true };
pub(crate) const V6: Header = Header { source: 8, destination: 24, protocol: 6, varies: false };

/// A program that runs `of_family` for the networks of the packet's family, and drops other
/// packets. The code of `of_family` must return.
pub(crate) fn by_family(networks: &[IpNet], of_family: impl Fn(&Header, &[IpNet]) -> Code) -> Code {
    let [four, six] = [true, false].map(|four| -> Vec<IpNet> {
        networks.iter().copied().filter(|network| network.addr().is_ipv4() == four).collect()
    });
    join([
        vec![plain(op::LOAD_HALF, op::PROTOCOL)],
        when(op::IF_EQUAL, IPV4, of_family(&V4, &four)),
        when(op::IF_EQUAL, IPV6, of_family(&V6, &six)),
        vec![DROP],
    ])
}
