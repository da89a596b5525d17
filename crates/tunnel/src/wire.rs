//! The messages between the two ends, as bytes; version 2. Big-endian.
//!
//! Over QUIC, the client opens the first stream. It carries a [`Greeting`] each way, and every
//! datagram is a [`Datagram`]. Over TCP, the one stream carries [`frame`]s: greetings first,
//! then packets. Nothing here trusts a byte: what does not parse is [`Malformed`], and nothing
//! is allocated before a length has been checked.

use crate::owd::Report;
use crate::standing::Standing;
use leeway_guard::is_steady;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Name and version of the protocol, for ALPN. TLS refuses another version.
pub const PROTOCOL: &[u8] = b"leeway-tunnel/2";

/// Bytes in front of a packet in its buffer, enough for any header.
pub const HEADROOM: usize = 8;

/// Longest frame on a stream, without its length field.
pub const FRAME_LIMIT: usize = 2048;

const TEXT_LIMIT: usize = 200;

/// Bytes that are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// The messages before the first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// From the client.
    Hello {
        /// Longest IP packet that the client's device takes, in bytes.
        mtu: u16,
        /// The client's program and version, for the server's log.
        program: String,
    },
    /// From the server.
    Welcome(Welcome),
    /// From the server, if it refuses the client.
    Refuse {
        /// The reason, as text.
        why: String,
    },
}

/// What the server gives to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The client's IPv4 address.
    pub v4: Ipv4Addr,
    /// The client's IPv6 address.
    pub v6: Ipv6Addr,
    /// The server's IPv4 address in the tunnel.
    pub server_v4: Ipv4Addr,
    /// The server's IPv6 address in the tunnel.
    pub server_v6: Ipv6Addr,
    /// Longest IP packet on the tunnel, in bytes.
    pub mtu: u16,
    /// The law under which the client has to send; empty for the client's choice.
    pub law: String,
}

/// A datagram of QUIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// An IP packet.
    Packet {
        /// Time of sending, in microseconds of the sender's clock.
        stamp_us: u32,
        /// The packet.
        packet: &'a [u8],
    },
    /// One of two halves of a packet that is too long for the path.
    Half {
        /// Time of sending, in microseconds of the sender's clock.
        stamp_us: u32,
        /// Number of the packet.
        id: u16,
        /// Whether this is the second half.
        second: bool,
        /// Bytes of the half.
        part: &'a [u8],
    },
    /// The receiver's report of one-way delays.
    Report(Report),
    /// The foreground at the sender's end of the line. The receiver holds packets for that line
    /// back.
    Foreground {
        /// Bytes that the foreground expects.
        expected_bytes: u32,
        /// Bytes that the foreground has received, modulo 2^32, from any start value.
        came_bytes: u32,
    },
    /// The server's standing.
    Standing(Standing),
}

/// A frame of the stream over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A greeting.
    Greeting(Greeting),
    /// An IP packet.
    Packet(&'a [u8]),
    /// A keep-alive.
    Alive,
    /// The server's standing.
    Standing(Standing),
}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSE: u8 = 3;
const ALIVE: u8 = 4;
const PACKET: u8 = 16;
const FIRST_HALF: u8 = 17;
const SECOND_HALF: u8 = 18;
const REPORT: u8 = 19;
const FOREGROUND: u8 = 20;
const STANDING: u8 = 21;

/// Bytes of a datagram before its packet.
pub const PACKET_HEADER: usize = 5;
/// Bytes of a datagram before half a packet.
pub const HALF_HEADER: usize = 7;
/// Bytes of a frame before its packet: length and kind.
pub const FRAME_HEADER: usize = 3;

/// The header of a packet in a datagram.
pub fn packet_header(stamp_us: u32) -> [u8; PACKET_HEADER] {
    let [a, b, c, d] = stamp_us.to_be_bytes();
    [PACKET, a, b, c, d]
}

/// The header of half a packet in a datagram.
pub fn half_header(stamp_us: u32, id: u16, second: bool) -> [u8; HALF_HEADER] {
    let [a, b, c, d] = stamp_us.to_be_bytes();
    let [e, f] = id.to_be_bytes();
    [if second { SECOND_HALF } else { FIRST_HALF }, a, b, c, d, e, f]
}

/// The header of a packet in a frame; the packet has at most [`FRAME_LIMIT`] - 1 bytes.
pub fn frame_header(packet: usize) -> [u8; FRAME_HEADER] {
    let [a, b] = u16::try_from(packet + 1).unwrap_or(u16::MAX).to_be_bytes();
    [a, b, PACKET]
}

/// The frame of a keep-alive.
pub const ALIVE_FRAME: [u8; 3] = [0, 1, ALIVE];

/// A report as a datagram.
pub fn report_datagram(report: &Report) -> [u8; 11] {
    let mut bytes = [0; 11];
    bytes[0] = REPORT;
    bytes[1..5].copy_from_slice(&report.delay_us.to_be_bytes());
    bytes[5..9].copy_from_slice(&report.stamp_us.to_be_bytes());
    bytes[9..].copy_from_slice(&report.packets.to_be_bytes());
    bytes
}

/// The foreground report as a datagram.
pub fn foreground_datagram(expected_bytes: u32, came_bytes: u32) -> [u8; 9] {
    let mut bytes = [FOREGROUND; 9];
    bytes[1..5].copy_from_slice(&expected_bytes.to_be_bytes());
    bytes[5..].copy_from_slice(&came_bytes.to_be_bytes());
    bytes
}

/// Bytes of a standing.
const STANDING_BYTES: usize = 13;

/// A standing as a datagram.
pub fn standing_datagram(standing: &Standing) -> [u8; STANDING_BYTES] {
    let mut bytes = [0; STANDING_BYTES];
    bytes[0] = STANDING;
    bytes[1..5].copy_from_slice(&standing.paused_s.unwrap_or(0).to_be_bytes());
    bytes[5..7].copy_from_slice(&standing.users.to_be_bytes());
    bytes[7..11].copy_from_slice(&standing.rate_kbps.unwrap_or(0).to_be_bytes());
    bytes[11..].copy_from_slice(&standing.load_permille.to_be_bytes());
    bytes
}

/// A standing as a frame.
pub fn standing_frame(standing: &Standing) -> [u8; STANDING_BYTES + 2] {
    let mut bytes = [0; STANDING_BYTES + 2];
    bytes[1] = STANDING_BYTES as u8;
    bytes[2..].copy_from_slice(&standing_datagram(standing));
    bytes
}

impl<'a> Datagram<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input(bytes);
        match input.u8()? {
            PACKET => Ok(Datagram::Packet { stamp_us: input.u32()?, packet: input.rest()? }),
            kind @ (FIRST_HALF | SECOND_HALF) => Ok(Datagram::Half {
                stamp_us: input.u32()?,
                id: input.u16()?,
                second: kind == SECOND_HALF,
                part: input.rest()?,
            }),
            REPORT => {
                let report = Report { delay_us: input.u32()?, stamp_us: input.u32()?, packets: input.u16()? };
                input.end()?;
                Ok(Datagram::Report(report))
            }
            FOREGROUND => {
                let (expected_bytes, came_bytes) = (input.u32()?, input.u32()?);
                input.end()?;
                Ok(Datagram::Foreground { expected_bytes, came_bytes })
            }
            STANDING => {
                let standing = input.standing()?;
                input.end()?;
                Ok(Datagram::Standing(standing))
            }
            _ => Err(Malformed("kind of datagram")),
        }
    }
}

impl Greeting {
    /// The greeting as a frame, with its length.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        match self {
            Greeting::Hello { mtu, program } => {
                bytes.push(HELLO);
                bytes.extend_from_slice(&mtu.to_be_bytes());
                put_text(&mut bytes, program);
            }
            Greeting::Welcome(welcome) => {
                bytes.push(WELCOME);
                bytes.extend_from_slice(&welcome.v4.octets());
                bytes.extend_from_slice(&welcome.v6.octets());
                bytes.extend_from_slice(&welcome.server_v4.octets());
                bytes.extend_from_slice(&welcome.server_v6.octets());
                bytes.extend_from_slice(&welcome.mtu.to_be_bytes());
                put_text(&mut bytes, &welcome.law);
            }
            Greeting::Refuse { why } => {
                bytes.push(REFUSE);
                put_text(&mut bytes, why);
            }
        }
        let length = u16::try_from(bytes.len() - 2).unwrap_or(u16::MAX);
        bytes[..2].copy_from_slice(&length.to_be_bytes());
        bytes
    }
}

impl<'a> Frame<'a> {
    /// Reads the bytes of a frame after its length.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input(body);
        let frame = match input.u8()? {
            PACKET => return Ok(Frame::Packet(input.rest()?)),
            ALIVE => Frame::Alive,
            STANDING => Frame::Standing(input.standing()?),
            HELLO => Frame::Greeting(Greeting::Hello { mtu: input.u16()?, program: input.text()? }),
            WELCOME => Frame::Greeting(Greeting::Welcome(Welcome {
                v4: Ipv4Addr::from(input.array::<4>()?),
                v6: Ipv6Addr::from(input.array::<16>()?),
                server_v4: Ipv4Addr::from(input.array::<4>()?),
                server_v6: Ipv6Addr::from(input.array::<16>()?),
                mtu: input.u16()?,
                law: input.text()?,
            })),
            REFUSE => Frame::Greeting(Greeting::Refuse { why: input.text()? }),
            _ => return Err(Malformed("kind of frame")),
        };
        input.end()?;
        Ok(frame)
    }
}

/// The first whole frame in `bytes` without its length, and the number of bytes used; `None` if
/// bytes are missing.
///
/// # Errors
/// [`Malformed`] if the length is zero or above [`FRAME_LIMIT`].
pub fn frame(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length));
    if length == 0 || length > FRAME_LIMIT {
        return Err(Malformed("length of a frame"));
    }
    Ok(rest.get(..length).map(|body| (body, length + 2)))
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    bytes.push(end as u8);
    bytes.extend_from_slice(&text.as_bytes()[..end]);
}

/// Bytes being read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed("message: it is too short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed("message: it is too short"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    fn standing(&mut self) -> Result<Standing, Malformed> {
        let (paused_s, users, rate_kbps) = (self.u32()?, self.u16()?, self.u32()?);
        let load_permille = self.u16()?;
        if load_permille > 1000 {
            return Err(Malformed("load: it is above 1000 thousandths"));
        }
        let some = |number: u32| (number > 0).then_some(number);
        Ok(Standing { paused_s: some(paused_s), users, rate_kbps: some(rate_kbps), load_permille })
    }

    /// A text of printable characters only, because it goes to logs and terminals.
    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(self.u8()?);
        if length > TEXT_LIMIT {
            return Err(Malformed("text: it is too long"));
        }
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| Malformed("text: it is not UTF-8"))?;
        if !text.chars().all(is_steady) {
            return Err(Malformed("text: it has characters that control a terminal"));
        }
        Ok(text.to_owned())
    }

    /// The remaining bytes, at least one.
    fn rest(&mut self) -> Result<&'a [u8], Malformed> {
        if self.0.is_empty() { Err(Malformed("packet: it is empty")) } else { self.take(self.0.len()) }
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("message: it is too long")) }
    }
}
