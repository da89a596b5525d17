//! Arguments and results of a selector.

use leeway_units::{Bytes, Duration, Rate, Time};

/// Identity of a gateway, chosen by the caller. It has to be the same in every run, because the
/// client's own order of the gateways depends on it.
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

/// The state that a gateway reports. Any field may be absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Whether the gateway takes new connections.
    pub open: bool,
    /// When it will be open again, on the caller's clock.
    pub paused_until: Option<Time>,
    /// Part of the spare capacity that is in use, 0 to 1. Other values count as absent.
    pub load: Option<f64>,
    /// Users with traffic at present, including this one.
    pub users: Option<u32>,
    /// Rate that the line's owner leaves to others, whether it is in use or not.
    pub spare: Option<Rate>,
    /// Bytes that this user may still transfer.
    pub left: Option<Bytes>,
}

impl Status {
    /// Open, with nothing else known.
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

/// The result of a probe, or of a connection in its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Observation {
    /// The gateway answered.
    Answered {
        /// Time from the request to the first byte of the response.
        round_trip: Duration,
        /// The reported state.
        status: Status,
    },
    /// There was no response, or none that can be used.
    Failed,
}

/// The gateway for new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The gateway.
    pub gateway: Gateway,
    /// Why this gateway was chosen.
    pub reason: Reason,
}

/// Why a gateway is the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There was no gateway before.
    First,
    /// The gateway was in use before.
    Stays,
    /// It is better than the earlier gateway by more than the hysteresis.
    Better,
    /// The earlier gateway is paused.
    Paused,
    /// The earlier gateway has failed.
    Failed,
    /// This user's quota at the earlier gateway is used up.
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
    /// All gateways that answer are paused.
    #[error("all gateways are paused")]
    Paused {
        /// When the first of them will be open, if one reported it.
        until: Option<Time>,
    },
    /// The user's quota is used up at every open gateway.
    #[error("the quota is used up at every gateway that is open")]
    UsedUp,
    /// No gateway answers.
    #[error("no gateway answers")]
    Failed,
}

/// A probe that the caller has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The gateway to ask for its state.
    pub gateway: Gateway,
    /// Earliest time of the probe.
    pub at: Time,
}
