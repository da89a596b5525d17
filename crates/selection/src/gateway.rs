//! What goes in and what comes out.

use leeway_units::{Bytes, Duration, Rate, Time};

/// A gateway's identity, of the caller's choosing. It has to be the same in every run: a client's own order of the
/// gateways follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gateway(pub u64);

impl Gateway {
    /// The identity of a gateway with this name or address (FNV-1a of 64 bits).
    #[must_use]
    pub fn named(name: &str) -> Gateway {
        let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Gateway(name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

/// What a gateway says of itself. Anything may be absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Whether it takes new connections.
    pub open: bool,
    /// When it will be open again; on the caller's clock.
    pub paused_until: Option<Time>,
    /// Part of the spare capacity that is in use, 0 to 1. Other values count as absent.
    pub load: Option<f64>,
    /// Users with traffic at present, this one included.
    pub users: Option<u32>,
    /// What the line's owner leaves to others, whether it is in use or not.
    pub spare: Option<Rate>,
    /// What this user may still transfer.
    pub left: Option<Bytes>,
}

impl Status {
    /// Open, and nothing else is known.
    #[must_use]
    pub const fn open() -> Status {
        Status { open: true, paused_until: None, load: None, users: None, spare: None, left: None }
    }

    /// Closed until a time, or for an unknown time.
    #[must_use]
    pub const fn paused(until: Option<Time>) -> Status {
        Status { open: false, paused_until: until, ..Status::open() }
    }
}

/// What a probe, or a connection in its place, found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Observation {
    /// The gateway answered.
    Answered {
        /// From the request to the first byte of the answer.
        round_trip: Duration,
        /// What it says.
        status: Status,
    },
    /// No answer, or none that makes sense.
    Failed,
}

/// Where new connections go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The gateway.
    pub gateway: Gateway,
    /// Why it is this one.
    pub reason: Reason,
}

/// Why a gateway is the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There was none before.
    First,
    /// It was the choice before.
    Stays,
    /// It is better than the one before by more than the hysteresis.
    Better,
    /// The one before is paused.
    Paused,
    /// The one before has failed.
    Failed,
    /// Nothing is left of this user's quota at the one before.
    UsedUp,
}

/// Why there is no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoGateway {
    /// The list of gateways is empty.
    #[error("no gateway is known")]
    None,
    /// Some gateway has not been probed yet, and no other one can be used.
    #[error("no gateway has answered yet")]
    Unasked,
    /// All that answer are paused.
    #[error("all gateways are paused")]
    Paused {
        /// When the first of them will be open, where one said so.
        until: Option<Time>,
    },
    /// Nothing is left of the user's quota at any open gateway.
    #[error("the quota is used up at every gateway that is open")]
    UsedUp,
    /// None answers.
    #[error("no gateway answers")]
    Failed,
}

/// A probe to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Whom to ask for its status.
    pub gateway: Gateway,
    /// Not before this time.
    pub at: Time,
}
