//! The receiving end of a connection, as a program knows it that cannot see packets.

use std::fmt::Debug;

/// What the kernel knows of what a connection receives.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// The least round-trip time of what this end has sent, in microseconds: none is shorter.
    pub least_rtt_us: u32,
    /// Segments that came before others which were sent earlier.
    pub out_of_order: u32,
}

/// The receiving end of a connection, of which each method asks the kernel.
pub trait Receiver: Debug + Send + Sync {
    /// Bytes that have come and were not read.
    fn unread(&self) -> Option<u64>;

    /// What the kernel knows of what came.
    fn received(&self) -> Option<Received>;

    /// What the connection sends in a segment at most, in bytes; the other end's are hardly ever longer.
    fn segment_bytes(&self) -> Option<u32>;

    /// Bounds the bytes that the other end may have in flight, by a receive window of `bytes`; whether that was
    /// possible. TCP must not take back what it announced (RFC 9293, 3.8.6), so `granted` bytes may still
    /// arrive before anything is read. A buffer that is too small for them drops some.
    fn bound_window(&self, bytes: u32, granted: u32) -> bool;

    /// What comes next is acknowledged without delay.
    fn acknowledge_at_once(&self);
}
