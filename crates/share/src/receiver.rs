//! The receiving end of a connection, for a program that cannot see packets.

use std::fmt::Debug;

/// The kernel's counters of a connection's receiving side.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// The least round-trip time of data that this end has sent, in microseconds (Linux:
    /// `tcpi_min_rtt`). No round trip of the connection is shorter.
    pub least_rtt_us: u32,
    /// Segments that arrived before others which were sent earlier.
    pub out_of_order: u32,
}

/// The receiving end of a connection. Each method asks the kernel; `None` and `false` mean that
/// the kernel did not tell or do it.
pub trait Receiver: Debug + Send + Sync {
    /// Bytes that have arrived and were not read.
    fn unread(&self) -> Option<u64>;

    /// The kernel's counters of what arrived.
    fn received(&self) -> Option<Received>;

    /// The largest segment that this end sends, in bytes. Segments of the other end are hardly
    /// ever longer.
    fn segment_bytes(&self) -> Option<u32>;

    /// Bounds the bytes that the other end may have in flight by a receive window of `bytes`.
    /// Returns whether that was possible. TCP must not take back what it announced (RFC 9293,
    /// 3.8.6), so `granted` bytes may still arrive before anything is read. A buffer that is too
    /// small for them would drop some.
    fn bound_window(&self, bytes: u32, granted: u32) -> bool;

    /// Makes the kernel acknowledge the next segment without delay.
    fn acknowledge_at_once(&self);
}
