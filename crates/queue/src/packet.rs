//! The properties of a packet that queues use.

/// The ECN field of the IP header (RFC 3168, 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not use ECN. Only a drop signals congestion.
    #[default]
    NotEct,
    /// ECN-capable transport, code point ECT(0).
    Ect0,
    /// ECN-capable transport, code point ECT(1).
    Ect1,
    /// Congestion experienced: the packet is already marked.
    Ce,
}

impl Ecn {
    /// Whether a mark reaches the sender, so that a queue may mark instead of drop.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// A packet in a queue: a small record of the simulator, or a buffer of the emulator.
///
/// While the packet is in a queue, every method must return the same value. Only
/// [`ecn`](Packet::ecn) changes after [`set_ce`](Packet::set_ce).
pub trait Packet {
    /// Length on the wire in bytes, headers included.
    fn bytes(&self) -> u32;

    /// A key that all packets of a flow share: a hash of the 5-tuple, or a flow's number.
    fn flow(&self) -> u32;

    /// The ECN field.
    #[inline]
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Marks the packet as having met congestion. Called only if [`ecn`](Packet::ecn) is capable.
    #[inline]
    fn set_ce(&mut self) {}

    /// The traffic class for priority, borrowing and round robin by class. 0 is the most
    /// important.
    #[inline]
    fn class(&self) -> u8 {
        0
    }
}
