//! What a line answers.

use crate::id::FlowId;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// `flow` may have `bytes` more under way. It asks again if it wants more.
    Grant {
        /// Whose turn it is.
        flow: FlowId,
        /// How much.
        bytes: u64,
    },
    /// Nothing before this time, in microseconds, unless something happens.
    Wait(u64),
    /// Nothing until something happens.
    Blocked,
}

/// How it stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// What foreground and background may have under way together, in bytes.
    pub window_bytes: u64,
    /// What the background has under way, in bytes.
    pub granted_bytes: u64,
    /// What the foreground expects, in bytes.
    pub expected_bytes: u64,
    /// The queuing delay, in microseconds.
    pub queuing_us: u32,
    /// Smoothed round-trip time, in microseconds; 0 before the first sample.
    pub srtt_us: u64,
    /// The line's rate, in bytes per second; 0 before anything is known.
    pub rate_bytes_per_s: u64,
    /// Flows that wait.
    pub asking: usize,
    /// Whether the foreground is there.
    pub present: bool,
    /// Granted bytes that were given up because nothing came of them.
    pub expired_bytes: u64,
    /// For how long somebody has waited while the foreground expected something, in microseconds.
    pub yielded_us: u64,
}
