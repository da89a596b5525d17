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
    /// A request for `value` bytes, from a client to the sending host.
    Request,
    /// A datagram of a voice call.
    Voice,
    /// The first packet of a connection.
    Syn,
    /// The answer to it; `sent` is the time of the packet that it answers.
    SynAck,
    /// The receive window that a gateway grants: `value` is one past the last segment that may be sent.
    Window,
    /// A gateway's report of the home to its relay: `value` is what the home expects, `seq` what has come to it,
    /// modulo 2^32.
    Report,
    /// What a gateway says to its relay of a packet that came: `value` is the packet's one-way delay in
    /// microseconds, `seq` the bytes that have come of the flow, modulo 2^32, `sent` the time of the packet.
    Receipt,
}

/// No selective acknowledgement blocks.
pub const NO_SACK: u32 = u32::MAX;
/// In place of the blocks: a SYN.
const SYN: u32 = u32::MAX - 1;
/// In place of the blocks: the answer to one.
const SYN_ACK: u32 = u32::MAX - 2;
/// In place of the blocks: a receive window.
const WINDOW: u32 = u32::MAX - 3;
/// In place of the blocks: a report of the home.
const REPORT: u32 = u32::MAX - 4;
/// In place of the blocks: a receipt.
const RECEIPT: u32 = u32::MAX - 5;

/// One packet on its way.
///
/// Four words, each written at once: records move from ring to ring all the time, and a word that was written in
/// parts stalls the processor when it is read whole.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// True time at which the segment left its host; in an ACK the time of the segment that it echoes.
    pub sent: Time,
    flow_seq: u64,
    value_sack: u64,
    step_size_kind_bits: u64,
}

/// What a packet is made of.
#[derive(Debug, Clone, Copy)]
pub struct Fields {
    /// See [`Packet::sent`].
    pub sent: Time,
    /// Index of the flow.
    pub flow: u32,
    /// Data: segment number. ACK: next segment expected. Request and voice: a running number.
    pub seq: u32,
    /// ACK: relative one-way delay of the echoed segment, in microseconds, modulo 2^32. Data and voice: payload
    /// bytes. Request: bytes asked for.
    pub value: u32,
    /// ACK: where its SACK blocks are, or [`NO_SACK`].
    pub sack: u32,
    /// Where on its route it is: an index into the steps of the network.
    pub step: u32,
    /// Bytes on the wire, headers included.
    pub size: u16,
    /// What it is.
    pub kind: Kind,
    /// Traffic class, 0 to [`Packet::MAX_CLASS`]; 0 is the most important.
    pub class: u8,
    /// Connection of the flow's slot that it belongs to, modulo 16, and bits; see [`Packet::bits`].
    pub bits: u8,
}

impl Fields {
    /// Packs them.
    #[inline]
    pub fn pack(self) -> Packet {
        // Two bits for the kind: those that TCP itself does not have are told apart where other packets have
        // their SACK blocks.
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

/// RFC 3168: the receiver saw a mark.
pub const ECE: u8 = 1 << 0;
/// RFC 3168: the sender has reduced its window.
pub const CWR: u8 = 1 << 1;
/// ECN-capable transport.
const ECT: u8 = 1 << 2;
/// Congestion experienced.
pub const CE: u8 = 1 << 3;
/// The upper six bits of the byte of the kind: the class, as wide as a DSCP (RFC 2474).
const CLASS_SHIFT: u32 = 10;
/// The upper four bits: which connection of its slot a packet belongs to.
const EPOCH_SHIFT: u32 = 4;

impl Packet {
    /// The least important traffic class that a packet can carry.
    pub const MAX_CLASS: u8 = 0x3f;

    /// The `bits` of a packet of connection `epoch`, ECN-capable or not.
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

    /// Goes on to the next step of its route.
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

    /// The connection, as [`Packet::bits`] took it.
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
