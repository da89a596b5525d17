//! The answers of a line: what to do next, and its state for people.

use crate::id::FlowId;

/// The answer of [`Line::next`](crate::Line::next).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// `flow` may have `bytes` more in flight. It requests again if it wants more.
    Grant {
        /// The flow whose turn it is.
        flow: FlowId,
        /// Size of the grant.
        bytes: u64,
    },
    /// No grant before this time, in microseconds, unless something happens.
    Wait(u64),
    /// No grant until something happens.
    Blocked,
}

/// The state of a line, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The window: bytes that foreground and background may have in flight together.
    pub window_bytes: u64,
    /// Bytes that the background has in flight.
    pub granted_bytes: u64,
    /// Bytes that the foreground has requested and not received.
    pub expected_bytes: u64,
    /// The queuing delay, in microseconds.
    pub queuing_us: u32,
    /// Smoothed round-trip time, in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// The highest rate of the line in the last 5 to 10 s, in bytes per second; 0 before anything
    /// is known.
    pub rate_bytes_per_s: u64,
    /// Number of flows with a request that waits.
    pub asking: usize,
    /// Whether the foreground is present.
    pub present: bool,
    /// Bytes of grants that expired, in total.
    pub expired_bytes: u64,
    /// Time in which background waited while the foreground expected bytes, in microseconds.
    pub yielded_us: u64,
}
