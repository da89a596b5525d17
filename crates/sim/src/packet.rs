//! What travels: one plain record for every kind of packet.

use leeway_queue::{Ecn, Packet as QueuePacket};
use leeway_units::Time;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment.
    Data,
    /// A TCP acknowledgement.
    Ack,
    /// A request for `seq` bytes, from a client to the sending host.
    Request,
    /// A datagram of a voice call.
    Voice,
}

/// No selective acknowledgement blocks.
pub const NO_SACK: u32 = u32::MAX;

/// One packet on its way; 32 bytes, moved by value through rings.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// True time at which the segment left its host; in an ACK the time of the segment that it echoes.
    pub sent: Time,
    /// Index of the flow.
    pub flow: u32,
    /// Data: segment number. ACK: next segment expected. Request: bytes asked for.
    pub seq: u32,
    /// ACK: relative one-way delay of the echoed segment, in microseconds, modulo 2^32. Data: payload bytes.
    pub value: u32,
    /// ACK: where its SACK blocks are, or [`NO_SACK`].
    pub sack: u32,
    /// Where on its route it is: an index into the steps of the network.
    pub step: u32,
    /// Bytes on the wire, headers included.
    pub size: u16,
    /// What it is.
    pub kind: Kind,
    /// Connection of the flow's slot that it belongs to, modulo 16, and bits; see the constants.
    pub bits: u8,
}

/// RFC 3168: the receiver saw a mark.
pub const ECE: u8 = 1 << 0;
/// RFC 3168: the sender has reduced its window.
pub const CWR: u8 = 1 << 1;
/// ECN-capable transport.
const ECT: u8 = 1 << 2;
/// Congestion experienced.
pub const CE: u8 = 1 << 3;
/// The upper four bits: which connection of its slot a packet belongs to.
const EPOCH_SHIFT: u32 = 4;

impl Packet {
    /// The `bits` of a packet of connection `epoch`, ECN-capable or not.
    pub fn bits(epoch: u8, ecn: bool) -> u8 {
        epoch << EPOCH_SHIFT | if ecn { ECT } else { 0 }
    }

    /// The connection, as [`Packet::bits`] took it.
    #[inline]
    pub fn epoch(&self) -> u8 {
        self.bits >> EPOCH_SHIFT
    }

    /// Whether `bit` is set.
    #[inline]
    pub fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }
}

impl QueuePacket for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.size)
    }

    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        match (self.has(CE), self.has(ECT)) {
            (true, _) => Ecn::Ce,
            (false, true) => Ecn::Ect0,
            (false, false) => Ecn::NotEct,
        }
    }

    #[inline]
    fn set_ce(&mut self) {
        self.bits |= CE;
    }
}
