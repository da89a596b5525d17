//! A first-in-first-out queue with each packet's time of entry and the sum of bytes. Disciplines
//! are built on it.

use crate::Packet;
use leeway_units::{Size, Time};
use std::collections::VecDeque;

/// Packets in order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct Fifo<P> {
    ring: VecDeque<(P, Time)>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Self {
        Fifo { ring: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> Fifo<P> {
    #[inline]
    pub fn push(&mut self, packet: P, enqueued: Time) {
        self.bytes += u64::from(packet.bytes());
        self.ring.push_back((packet, enqueued));
    }

    #[inline]
    pub fn pop(&mut self) -> Option<(P, Time)> {
        let (packet, enqueued) = self.ring.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some((packet, enqueued))
    }

    /// Takes the newest packet.
    pub fn pop_last(&mut self) -> Option<(P, Time)> {
        let (packet, enqueued) = self.ring.pop_back()?;
        self.bytes -= u64::from(packet.bytes());
        Some((packet, enqueued))
    }

    /// The oldest packet.
    #[inline]
    pub fn first(&self) -> Option<&(P, Time)> {
        self.ring.front()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The capacity of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    packets: usize,
    bytes: u64,
}

impl Limit {
    /// The limit for `size`. A limit in packets is at least one packet. A size in bandwidth-delay
    /// products has to be resolved before, and sets no limit here.
    pub fn new(size: Size) -> Self {
        const NONE: Limit = Limit { packets: usize::MAX, bytes: u64::MAX };
        match size {
            Size::Packets(n) => Limit { packets: n.max(1) as usize, ..NONE },
            Size::Bytes(bytes) => Limit { bytes: bytes.get(), ..NONE },
            Size::Bdp(_) | Size::Unlimited => NONE,
        }
    }

    /// Whether `packets` and `bytes` exceed the limit.
    #[inline]
    pub fn exceeded_by(self, packets: usize, bytes: u64) -> bool {
        packets > self.packets || bytes > self.bytes
    }

    /// Whether a packet of `more` bytes does not fit beside `packets` and `bytes`.
    #[inline]
    pub fn is_full(self, packets: usize, bytes: u64, more: u32) -> bool {
        self.exceeded_by(packets + 1, bytes + u64::from(more))
    }
}
