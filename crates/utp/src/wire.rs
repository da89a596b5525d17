//! Packets on the wire: reads and writes headers and extensions (BEP 29, "header format").
//!
//! ```text
//! 0       4       8               16              24              32
//! +-------+-------+---------------+---------------+---------------+
//! | type  | ver   | extension     | connection_id                 |
//! +-------+-------+---------------+---------------+---------------+
//! | timestamp_microseconds                                        |
//! +---------------+---------------+---------------+---------------+
//! | timestamp_difference_microseconds                             |
//! +---------------+---------------+---------------+---------------+
//! | wnd_size                                                      |
//! +---------------+---------------+---------------+---------------+
//! | seq_nr                        | ack_nr                        |
//! +---------------+---------------+---------------+---------------+
//! ```

/// Bytes of a header without extensions.
pub const HEADER_BYTES: usize = 20;
/// Most bits of a selective acknowledgement that this end sends. BEP 29 sets no limit except the
/// length byte (at most 255 bytes, in multiples of four).
pub const SACK_BITS_MAX: usize = 1024;

const VERSION: u8 = 1;
const EXTENSION_NONE: u8 = 0;
const EXTENSION_SACK: u8 = 1;
/// libutp's extension for option bits. libutp drops a packet whose first extension has a higher
/// number.
const EXTENSION_BITS: u8 = 2;
const BITS_BYTES: u8 = 8;
/// Padding comes in multiples of this: an extension with libutp's bits, none of them set.
pub(crate) const PADDING_BYTES: usize = 2 + BITS_BYTES as usize;

/// The type of a packet (BEP 29, "type").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Carries bytes of the stream.
    Data,
    /// The last packet of the sender's direction; may carry bytes.
    Fin,
    /// An acknowledgement without data and without a sequence number of its own.
    State,
    /// The sender does not know the connection, or has ended it.
    Reset,
    /// A request for a connection.
    Syn,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Data, Kind::Fin, Kind::State, Kind::Reset, Kind::Syn];

    /// Whether a packet of this kind has a sequence number of its own.
    pub fn is_sequenced(self) -> bool {
        matches!(self, Kind::Data | Kind::Fin | Kind::Syn)
    }
}

/// A header without extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type of the packet.
    pub kind: Kind,
    /// The identifier of the connection at the receiver; in a SYN, that at the sender.
    pub connection_id: u16,
    /// The sender's clock in microseconds, modulo 2^32.
    pub timestamp_us: u32,
    /// Clock of this packet's sender minus the timestamp of the last packet that it received;
    /// modulo 2^32 microseconds; 0 before it received one.
    pub timestamp_difference_us: u32,
    /// Receive window of the sender of this packet, in bytes.
    pub window_bytes: u32,
    /// Sequence number of this packet.
    pub seq: u16,
    /// Number of the last packet before the first gap.
    pub ack: u16,
}

/// A packet as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header without extensions.
    pub header: Header,
    /// Selective acknowledgement: bit i (from the lowest of the first byte) says that packet
    /// `ack + 2 + i` arrived.
    pub sack: Option<&'a [u8]>,
    /// Bytes of the stream.
    pub payload: &'a [u8],
}

/// Why bytes are not a uTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside the header or its extensions.
    #[error("a uTP packet of {0} bytes ends before its header does")]
    Truncated(usize),
    /// Not version 1.
    #[error("uTP version {0}; 1 is known")]
    Version(u8),
    /// A type that BEP 29 does not define.
    #[error("uTP packet type {0}; 0 to 4 are known")]
    Kind(u8),
}

impl<'a> Packet<'a> {
    /// Reads a packet. Unknown extensions are skipped, as BEP 29 requires.
    ///
    /// # Errors
    /// [`WireError`]; drop the packet then.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let truncated = WireError::Truncated(bytes.len());
        let (fixed, mut rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(truncated)?;
        if fixed[0] & 0x0f != VERSION {
            return Err(WireError::Version(fixed[0] & 0x0f));
        }
        let kind = *Kind::ALL.get(usize::from(fixed[0] >> 4)).ok_or(WireError::Kind(fixed[0] >> 4))?;
        let u16_at = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let u32_at = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let header = Header {
            kind,
            connection_id: u16_at(2),
            timestamp_us: u32_at(4),
            timestamp_difference_us: u32_at(8),
            window_bytes: u32_at(12),
            seq: u16_at(16),
            ack: u16_at(18),
        };
        let mut sack = None;
        let mut extension = fixed[1];
        while extension != EXTENSION_NONE {
            let (&[next, length], after) = rest.split_first_chunk::<2>().ok_or(truncated)?;
            let (content, after) = after.split_at_checked(length.into()).ok_or(truncated)?;
            // BEP 29 requires a multiple of four bytes; libtorrent sends as many bytes as it
            // needs.
            if extension == EXTENSION_SACK && length > 0 {
                sack = Some(content);
            }
            extension = next;
            rest = after;
        }
        Ok(Packet { header, sack, payload: rest })
    }
}

impl Header {
    /// Appends the header, and the selective acknowledgement if there is one.
    ///
    /// `sack` has one bit per packet from `ack + 2` on; it is cut at [`SACK_BITS_MAX`].
    pub fn write(&self, sack: Option<&[u8]>, out: &mut Vec<u8>) {
        let sack =
            sack.map(|bits| &bits[..bits.len().min(SACK_BITS_MAX / 8)]).filter(|bits| !bits.is_empty());
        let extension = if sack.is_some() { EXTENSION_SACK } else { EXTENSION_NONE };
        self.write_fixed(extension, out);
        if let Some(bits) = sack {
            let length = bits.len().next_multiple_of(4);
            out.extend_from_slice(&[EXTENSION_NONE, length as u8]);
            out.extend_from_slice(bits);
            out.resize(out.len() + length - bits.len(), 0);
        }
    }

    /// Appends the header and `padding` bytes without meaning, a multiple of [`PADDING_BYTES`].
    pub(crate) fn write_padded(&self, padding: usize, out: &mut Vec<u8>) {
        let extensions = padding / PADDING_BYTES;
        self.write_fixed(if extensions > 0 { EXTENSION_BITS } else { EXTENSION_NONE }, out);
        for left in (0..extensions).rev() {
            out.extend_from_slice(&[if left > 0 { EXTENSION_BITS } else { EXTENSION_NONE }, BITS_BYTES]);
            out.resize(out.len() + usize::from(BITS_BYTES), 0);
        }
    }

    fn write_fixed(&self, extension: u8, out: &mut Vec<u8>) {
        let mut fixed = [0; HEADER_BYTES];
        fixed[0] = (self.kind as u8) << 4 | VERSION;
        fixed[1] = extension;
        fixed[2..4].copy_from_slice(&self.connection_id.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.timestamp_us.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.timestamp_difference_us.to_be_bytes());
        fixed[12..16].copy_from_slice(&self.window_bytes.to_be_bytes());
        fixed[16..18].copy_from_slice(&self.seq.to_be_bytes());
        fixed[18..20].copy_from_slice(&self.ack.to_be_bytes());
        out.extend_from_slice(&fixed);
    }
}

/// The 64-bit number that has these low 16 bits and is nearest to `near`: the full sequence number
/// of a 16-bit one. `None` if it would be below zero.
pub fn expand(wire: u16, near: u64) -> Option<u64> {
    let ahead = wire.wrapping_sub(near as u16) as i16;
    near.checked_add_signed(ahead.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(kind: Kind) -> Header {
        Header {
            kind,
            connection_id: 0x1234,
            timestamp_us: 0x5678_9abc,
            timestamp_difference_us: 7,
            window_bytes: 1 << 20,
            seq: 0xfffe,
            ack: 3,
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_bep() {
        let mut bytes = Vec::new();
        header(Kind::State).write(Some(&[0b101]), &mut bytes);
        let expected = [
            0x21, 1, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0, 0, 7, 0, 0x10, 0, 0, 0xff, 0xfe, 0,
            3, // fixed
            0, 4, 0b101, 0, 0, 0, // selective acknowledgement
        ];
        assert_eq!(bytes, expected);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.header, packet.sack), (header(Kind::State), Some(&[0b101, 0, 0, 0][..])));
    }

    #[test]
    fn unknown_extensions_are_passed_over() {
        let mut bytes = Vec::new();
        header(Kind::Syn).write(None, &mut bytes);
        bytes[1] = 2; // libutp's extension bits
        bytes.extend_from_slice(&[1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0, 4, 1, 2, 3, 4]);
        bytes.extend_from_slice(b"payload");
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.sack, packet.payload), (Some(&[1, 2, 3, 4][..]), &b"payload"[..]));
    }

    #[test]
    fn padding_is_passed_over() {
        for padding in [0, PADDING_BYTES, 69 * PADDING_BYTES] {
            let mut bytes = Vec::new();
            header(Kind::Data).write_padded(padding, &mut bytes);
            assert_eq!(bytes.len(), HEADER_BYTES + padding);
            bytes.extend_from_slice(b"payload");
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.header, packet.payload), (header(Kind::Data), &b"payload"[..]));
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_with_the_reason() {
        let mut good = Vec::new();
        header(Kind::Data).write(None, &mut good);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes
        };
        assert_eq!(Packet::parse(&good[..19]), Err(WireError::Truncated(19)));
        assert_eq!(Packet::parse(&with(0, 0x02)), Err(WireError::Version(2)));
        assert_eq!(Packet::parse(&with(0, 0x51)), Err(WireError::Kind(5)));
        assert_eq!(Packet::parse(&with(1, 1)), Err(WireError::Truncated(20)));
    }

    #[test]
    fn a_selective_acknowledgement_of_any_length_is_read() {
        for bits in [&[1][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
            let mut bytes = Vec::new();
            header(Kind::State).write(None, &mut bytes);
            bytes[1] = 1;
            bytes.extend_from_slice(&[0, bits.len() as u8]);
            bytes.extend_from_slice(bits);
            assert_eq!(Packet::parse(&bytes).unwrap().sack, Some(bits));
        }
        let mut none = Vec::new();
        header(Kind::State).write(None, &mut none);
        none[1] = 1;
        none.extend_from_slice(&[0, 0]);
        assert_eq!(Packet::parse(&none).unwrap().sack, None);
    }

    #[test]
    fn numbers_of_the_wire_are_the_nearest() {
        assert_eq!(expand(2, 0x1_fffe), Some(0x2_0002));
        assert_eq!(expand(0xfffe, 0x2_0002), Some(0x1_fffe));
        assert_eq!(expand(0xffff, 0), None);
        assert_eq!(expand(5, 5), Some(5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_written_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let mut again = Vec::new();
                packet.header.write(packet.sack, &mut again);
                again.extend_from_slice(packet.payload);
                let second = Packet::parse(&again).unwrap();
                prop_assert_eq!(second.header, packet.header);
                prop_assert_eq!(second.payload, packet.payload);
            }
        }
    }
}
