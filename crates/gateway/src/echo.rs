//! Echo requests of ICMP and ICMPv6 (RFC 792, RFC 4443). Their replies measure the uplink's delay
//! for datagrams, which have no acknowledgements.
//!
//! A ping socket needs no privileges if `net.ipv4.ping_group_range` contains this process's group.
//! Otherwise a raw socket is used, which needs CAP_NET_RAW.

use crate::probe::Request;
use nix::sys::socket::setsockopt;
use nix::{libc, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, Socket, Type};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use tokio::net::UdpSocket;

sockopt_impl!(
    /// Types of ICMP messages that the socket does not receive, one bit each.
    IcmpFilter,
    SetOnly,
    SOL_RAW,
    ICMP_FILTER,
    u32
);

const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;
/// Types of echo request and reply, for IPv4 and for IPv6.
const TYPES: [[u8; 2]; 2] = [[8, 0], [128, 129]];
/// Bytes of the ICMP header: type, code, checksum, identifier, sequence number.
const HEAD_BYTES: usize = 8;
const MESSAGE_BYTES: usize = HEAD_BYTES + 8;
/// Bytes of the longest IPv4 header and a message.
const RECEIVED_BYTES: usize = 60 + MESSAGE_BYTES;

/// The sockets for echoes.
#[derive(Debug)]
pub struct Echo {
    /// For IPv4 and IPv6. A machine may have only one of them.
    sockets: [Option<Channel>; 2],
    /// Part of every request, so that only a host that received a request can answer it.
    token: [u8; 8],
}

#[derive(Debug)]
struct Channel {
    socket: UdpSocket,
    /// Whether this is a raw socket, which receives the echo replies for all programs.
    raw: bool,
}

impl Echo {
    /// Opens the sockets. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What the kernel says if neither an IPv4 nor an IPv6 socket can be opened.
    pub fn open() -> io::Result<Echo> {
        let (four, six) = (open(Domain::IPV4, Protocol::ICMPV4), open(Domain::IPV6, Protocol::ICMPV6));
        if let (Err(error), Err(_)) = (&four, &six) {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        let token = RandomState::new().hash_one("token").to_be_bytes();
        Ok(Echo { sockets: [four.ok(), six.ok()], token })
    }

    /// Sends an echo request. It is dropped if it cannot be sent at once.
    ///
    /// # Errors
    /// There is no route to the server, or no socket for its address family.
    pub fn send(&self, request: Request) -> io::Result<()> {
        let Request { server, sequence } = request;
        let six = usize::from(server.is_ipv6());
        let channel = self.sockets[six].as_ref().ok_or(io::ErrorKind::Unsupported)?;
        match channel.socket.try_send_to(&self.message(six, sequence), SocketAddr::new(server, 0)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Waits for the next echo reply, and returns its sequence number.
    pub async fn receive(&self) -> u16 {
        tokio::select! {
            sequence = self.receive_by(0) => sequence,
            sequence = self.receive_by(1) => sequence,
        }
    }

    async fn receive_by(&self, six: usize) -> u16 {
        let Some(channel) = &self.sockets[six] else { return std::future::pending().await };
        let mut bytes = [0; RECEIVED_BYTES];
        loop {
            // An error concerns a request that was sent earlier.
            if let Ok(length) = channel.socket.recv(&mut bytes).await
                && let Some(sequence) = self.sequence(six, channel.raw, &bytes[..length])
            {
                return sequence;
            }
        }
    }

    fn message(&self, six: usize, sequence: u16) -> [u8; MESSAGE_BYTES] {
        let mut message = [0; MESSAGE_BYTES];
        message[0] = TYPES[six][0];
        message[4..6].copy_from_slice(&self.token[..2]);
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        message[HEAD_BYTES..].copy_from_slice(&self.token);
        if six == 0 {
            // For IPv6 the kernel computes the checksum, because it covers the addresses.
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        message
    }

    /// The sequence number of a reply to a request of this process.
    fn sequence(&self, six: usize, raw: bool, bytes: &[u8]) -> Option<u16> {
        // A raw IPv4 socket also returns the IP header.
        let skipped = if raw && six == 0 { usize::from(bytes.first()? & 0xf) * 4 } else { 0 };
        let message = bytes.get(skipped..)?;
        let token = message.get(HEAD_BYTES..MESSAGE_BYTES)?;
        (message[0] == TYPES[six][1] && token == self.token)
            .then(|| u16::from_be_bytes([message[6], message[7]]))
    }
}

fn open(domain: Domain, protocol: Protocol) -> io::Result<Channel> {
    let plain = Socket::new(domain, Type::DGRAM.nonblocking(), Some(protocol));
    let (socket, raw) = match plain {
        Ok(socket) => (socket, false),
        Err(_) => (Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))?, true),
    };
    if raw && domain == Domain::IPV4 {
        setsockopt(&socket, IcmpFilter, &!(1u32 << TYPES[0][1]))?;
    }
    Ok(Channel { socket: UdpSocket::from_std(socket.into())?, raw })
}

/// The Internet checksum (RFC 1071).
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn echo() -> Echo {
        Echo { sockets: [None, None], token: *b"8 bytes!" }
    }

    #[test]
    fn a_request_has_the_checksum_that_makes_the_sum_zero() {
        let message = echo().message(0, 0x1234);
        assert_eq!(checksum(&message), 0);
        assert_eq!((message[0], &message[6..8]), (8, &[0x12, 0x34][..]));
    }

    #[test]
    fn only_answers_to_own_requests_count() {
        let echo = echo();
        let mut answer = echo.message(0, 7);
        assert_eq!(echo.sequence(0, false, &answer), None, "a request");
        answer[0] = 0;
        assert_eq!(echo.sequence(0, false, &answer), Some(7));
        let packet = [&[0x45; 20][..], &answer].concat();
        assert_eq!(echo.sequence(0, true, &packet), Some(7), "behind a header of IP");
        answer[HEAD_BYTES] ^= 1;
        assert_eq!(echo.sequence(0, false, &answer), None, "somebody else's");
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..RECEIVED_BYTES), raw: bool) {
            echo().sequence(0, raw, &bytes);
            echo().sequence(1, raw, &bytes);
        }
    }
}
