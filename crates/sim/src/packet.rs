//! Packets: one record of four words for every kind.

use leeway_queue::{Ecn, Packet as QueuePacket};
use leeway_units::Time;

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A TCP segment.
    Data,
    /// A TCP acknowledgement.
    Ack,
    /// A client's request for `value` bytes, on its way to the sending host.
    Request,
    /// A datagram of a voice call.
    Voice,
    /// The SYN that opens a connection.
    Syn,
    /// The SYN-ACK. `sent` is the time at which the SYN was sent.
    SynAck,
    /// The receive window that a gateway's kernel announces. `value` is one past the last segment
    /// that may be sent.
    Window,
    /// A gateway's report to its relay about the home. `value`: bytes that the home expects.
    /// `seq`: bytes that have come to the home, modulo 2^32.
    Report,
    /// A gateway's receipt to its relay for one packet. `value`: one-way delay of the packet in µs.
    /// `seq`: bytes of the flow that have come, modulo 2^32. `sent`: time at which the packet was
    /// sent.
    Receipt,
}

/// Value of `sack` without SACK blocks.
pub const NO_SACK: u32 = u32::MAX;
/// Value of `sack` in a SYN.
const SYN: u32 = u32::MAX - 1;
/// Value of `sack` in a SYN-ACK.
const SYN_ACK: u32 = u32::MAX - 2;
/// Value of `sack` in a receive window.
const WINDOW: u32 = u32::MAX - 3;
/// Value of `sack` in a report about the home.
const REPORT: u32 = u32::MAX - 4;
/// Value of `sack` in a receipt.
const RECEIPT: u32 = u32::MAX - 5;

/// One packet in flight.
///
/// Each of the four words is written as a whole. Packets are copied between buffers all the time,
/// and a processor stalls when it reads a word that was written in parts.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Time at which the segment left its host, by the simulator's clock. ACK: that of the segment
    /// which it echoes.
    pub sent: Time,
    flow_seq: u64,
    value_sack: u64,
    step_size_kind_bits: u64,
}

/// The fields of a packet, before they are packed.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// See [`Packet::sent`].
    pub sent: Time,
    /// Index of the flow.
    pub flow: u32,
    /// Data: segment number. ACK: next segment expected. Request and voice: number of the packet.
    pub seq: u32,
    /// ACK: one-way delay of the echoed segment plus the offset of the clocks, in µs modulo 2^32.
    /// Data and voice: payload bytes. Request: bytes of the answer.
    pub value: u32,
    /// ACK: slot of its SACK blocks, or [`NO_SACK`].
    pub sack: u32,
    /// Step of its route that it is at: index into
    /// [`Network::steps`](crate::network::Network::steps).
    pub step: u32,
    /// Bytes on the wire, headers included.
    pub size: u16,
    /// Kind of the packet.
    pub kind: Kind,
    /// Traffic class, from 0 (most important) to [`Packet::MAX_CLASS`].
    pub class: u8,
    /// Number of the connection modulo 16, and the ECN bits; see [`Packet::bits`].
    pub bits: u8,
}

impl Fields {
    /// Packs the fields into four words.
    #[inline]
    pub fn pack(self) -> Packet {
        // The kind has two bits. Kinds that TCP itself does not have share the value of `Request`,
        // and differ in the field `sack`, which they do not use.
        let (kind, sack) = match self.kind {
            Kind::Syn => (Kind::Request, SYN),
            Kind::SynAck => (Kind::Request, SYN_ACK),
            Kind::Window => (Kind::Request, WINDOW),
            Kind::Report => (Kind::Request, REPORT),
            Kind::Receipt => (Kind::Request, RECEIPT),
            kind => (kind, self.sack),
        };
        Packet {
            sent: self.sent,
            flow_seq: u64::from(self.flow) << 32 | u64::from(self.seq),
            value_sack: u64::from(self.value) << 32 | u64::from(sack),
            step_size_kind_bits: u64::from(self.step) << 32
                | u64::from(self.size) << 16
                | u64::from(self.class & Packet::MAX_CLASS) << CLASS_SHIFT
                | u64::from(kind as u8) << 8
                | u64::from(self.bits),
        }
    }
}

/// ECN-echo (RFC 3168): the receiver saw a mark.
pub const ECE: u8 = 1 << 0;
/// Congestion window reduced (RFC 3168).
pub const CWR: u8 = 1 << 1;
/// ECN-capable transport (RFC 3168).
const ECT: u8 = 1 << 2;
/// Congestion experienced (RFC 3168).
pub const CE: u8 = 1 << 3;
/// The upper six bits of the byte of the kind are the class, as wide as a DSCP (RFC 2474).
const CLASS_SHIFT: u32 = 10;
/// The upper four bits of `bits` number the connection.
const EPOCH_SHIFT: u32 = 4;

impl Packet {
    /// The least important traffic class that a packet can carry.
    pub const MAX_CLASS: u8 = 0x3f;

    /// The `bits` of a packet of connection `epoch`, with ECT if `ecn`.
    pub fn bits(epoch: u8, ecn: bool) -> u8 {
        epoch << EPOCH_SHIFT | if ecn { ECT } else { 0 }
    }

    /// See [`Fields::flow`].
    #[inline]
    pub fn flow(&self) -> u32 {
        (self.flow_seq >> 32) as u32
    }

    /// See [`Fields::seq`].
    #[inline]
    pub fn seq(&self) -> u32 {
        self.flow_seq as u32
    }

    /// See [`Fields::value`].
    #[inline]
    pub fn value(&self) -> u32 {
        (self.value_sack >> 32) as u32
    }

    /// See [`Fields::sack`].
    #[inline]
    pub fn sack(&self) -> u32 {
        self.value_sack as u32
    }

    /// See [`Fields::step`].
    #[inline]
    pub fn step(&self) -> usize {
        (self.step_size_kind_bits >> 32) as usize
    }

    /// Moves the packet to the next step of its route.
    #[inline]
    pub fn advance(&mut self) {
        self.step_size_kind_bits += 1 << 32;
    }

    /// See [`Fields::size`].
    #[inline]
    pub fn size(&self) -> u64 {
        self.step_size_kind_bits >> 16 & 0xffff
    }

    /// See [`Fields::kind`].
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.step_size_kind_bits >> 8 & 3 {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => match self.sack() {
                SYN => Kind::Syn,
                SYN_ACK => Kind::SynAck,
                WINDOW => Kind::Window,
                REPORT => Kind::Report,
                RECEIPT => Kind::Receipt,
                _ => Kind::Request,
            },
            _ => Kind::Voice,
        }
    }

    /// Number of the connection modulo 16, as given to [`Packet::bits`].
    #[inline]
    pub fn epoch(&self) -> u8 {
        self.step_size_kind_bits as u8 >> EPOCH_SHIFT
    }

    /// Whether `bit` is set.
    #[inline]
    pub fn has(&self, bit: u8) -> bool {
        self.step_size_kind_bits as u8 & bit != 0
    }
}

impl QueuePacket for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        self.size() as u32
    }

    #[inline]
    fn flow(&self) -> u32 {
        Packet::flow(self)
    }

    #[inline]
    fn class(&self) -> u8 {
        (self.step_size_kind_bits >> CLASS_SHIFT) as u8 & Packet::MAX_CLASS
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
        self.step_size_kind_bits |= u64::from(CE);
    }
}
