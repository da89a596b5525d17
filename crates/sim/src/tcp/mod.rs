//! TCP endpoints as state machines without a clock or a network: time and packets are arguments,
//! packets and timers are results.

pub mod delivery;
pub mod receiver;
pub mod rto;
pub mod scoreboard;
pub mod sender;

use crate::scenario::Tcp;
use leeway_units::{Bytes, Size};

/// Most segments that a connection can have outstanding, whatever its receive window. Bounds
/// memory.
const MAX_OUTSTANDING: u32 = 1 << 20;

/// Settings of a TCP endpoint, and values derived from them.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The settings.
    pub tcp: Tcp,
    /// Receive window in segments.
    pub receive_window: u32,
    /// Resolution of one-way delays. Unit: µs. 0: the law gets no one-way delays.
    pub owd_resolution_us: u32,
}

impl Options {
    /// Settings for segments of `mss` payload bytes.
    pub fn new(tcp: Tcp, mss: u32) -> Self {
        let segments = match tcp.receive_window {
            Size::Packets(packets) => u64::from(packets),
            Size::Bytes(bytes) => bytes.get() / Bytes::new(u64::from(mss)).get().max(1),
            Size::Unlimited | Size::Bdp(_) => u64::MAX,
        };
        let resolution = u32::try_from(tcp.timestamp_resolution.micros()).unwrap_or(u32::MAX).max(1);
        Options {
            tcp,
            receive_window: segments.clamp(1, u64::from(MAX_OUTSTANDING)) as u32,
            owd_resolution_us: if tcp.one_way_delay { resolution } else { 0 },
        }
    }
}
