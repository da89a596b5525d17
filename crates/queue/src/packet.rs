//! What a queue needs to know of a packet.

/// The ECN field of the IP header (RFC 3168, 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not understand marks: only a drop tells it of congestion.
    #[default]
    NotEct,
    /// ECN-capable transport, code point ECT(0).
    Ect0,
    /// ECN-capable transport, code point ECT(1).
    Ect1,
    /// Congestion experienced: already marked on its way.
    Ce,
}

impl Ecn {
    /// Whether a mark reaches the sender, so that a queue may mark instead of dropping.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet as a queue sees it: the simulator's small record or the emulator's owned buffer.
///
/// Every method must give the same answer for as long as the packet is in a queue, but for
/// [`ecn`](Packet::ecn) after [`set_ce`](Packet::set_ce).
pub trait Packet {
    /// The length on the wire in bytes, headers included.
    fn bytes(&self) -> u32;

    /// A key that is the same for all packets of one flow (a hash of the 5-tuple, or a flow's number).
    fn flow(&self) -> u32;

    /// The ECN field.
    #[inline]
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Marks the packet as having met congestion; called only where [`ecn`](Packet::ecn) is capable.
    #[inline]
    fn set_ce(&mut self) {}

    /// The traffic class, for priority, borrowing and per-class round robin; 0 is the most important.
    #[inline]
    fn class(&self) -> u8 {
        0
    }
}
