//! Choices of a TCP endpoint: a platform's, and what a scenario changes about them.

use leeway_units::{Bytes, Duration, Size};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A platform whose choices hold where a scenario does not say otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The ns-2 simulator, on which much of the literature ran: no delayed ACKs, initial window 2, and its
    /// own ways with backoff, limited transmit and drop-tail buffers.
    Ns2,
    /// What the RFCs say where `ns2` goes its own way; otherwise the same.
    Rfc,
    /// Linux: SACK, delayed ACKs, initial window 10.
    #[default]
    Linux,
}

/// Every choice of a TCP endpoint, none open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tcp {
    /// Selective acknowledgments with recovery by RFC 6675; NewReno recovery (RFC 6582) without.
    pub sack: bool,
    /// A new segment on each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// After a timeout too, the first two duplicate ACKs release a segment each: one that was sent before,
    /// whether or not the receiver has it. Only without SACK and with `limited_transmit`.
    pub limited_retransmit: bool,
    /// Duplicate ACKs that mean a loss.
    pub dupthresh: u32,
    /// A connection begins with SYN and SYN-ACK, which give the first round-trip sample.
    pub handshake: bool,
    /// A host waits for a time drawn from 0 to this before it sends what an ACK or the application allows.
    pub overhead: Duration,
    /// Whether and how the receiver delays ACKs; absent: every segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// Window at the start, in segments.
    pub initial_window: u32,
    /// What the receiver can hold: packets, bytes or unlimited, never a BDP.
    pub receive_window: Size,
    /// Retransmission timeout before the first RTT sample.
    pub initial_rto: Duration,
    /// Smallest retransmission timeout, or smallest part of it above SRTT; see `rto_floor`.
    pub min_rto: Duration,
    /// What `min_rto` bounds.
    pub rto_floor: RtoFloor,
    /// Largest retransmission timeout, backoff included.
    pub max_rto: Duration,
    /// When a doubled timeout is the estimate again.
    pub backoff_until: BackoffUntil,
    /// Clock granularity G of RFC 6298: the least that the deviation adds to a timeout.
    pub rto_granularity: Duration,
    /// Resolution of the timestamps that RTT and one-way delay come from.
    pub timestamp_resolution: Duration,
    /// Whether the law sees one-way delays (receiver's clock minus sender's); only round trips otherwise.
    pub one_way_delay: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Spread a window over the round trip even where the law does not ask for it; a law that asks is always
    /// paced.
    pub pacing: bool,
    /// After an idle time of one RTO, start again from the initial window (RFC 5681, 4.1).
    pub idle_restart: bool,
}

/// What the smallest retransmission timeout bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// The timeout as a whole (RFC 6298, 2.4).
    Timeout,
    /// The term of the variance, so that a timeout is never below SRTT + `min_rto`, as Linux has it.
    Variance,
}

/// When a retransmission timeout that was doubled is the estimate again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackoffUntil {
    /// New data is acknowledged (RFC 6298, 5.7, with timestamps; Linux).
    Progress,
    /// A segment is acknowledged that was sent after the timeout for the first time (Karn's algorithm; ns-2).
    Fresh,
}

/// When a receiver that delays ACKs sends one (RFC 5681, 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayedAck {
    /// One ACK for so many full segments.
    #[serde(default = "two")]
    pub every: u32,
    /// And at the latest after this time.
    #[serde(default = "forty_ms")]
    pub timeout: Duration,
}

fn two() -> u32 {
    2
}

fn forty_ms() -> Duration {
    Duration::from_millis(40)
}

impl Profile {
    /// The choices of this platform.
    pub fn tcp(self) -> Tcp {
        match self {
            // ns-2.35, tcl/lib/ns-default.tcl: singledup_ 1, numdupacks_ 3, windowInit_ 2, rtxcur_init_ 3.0
            // (RFC 2988, 2.1), minrto_ 0.2, maxrto_ 60, tcpTick_ 0.01, ts_resetRTO_ false, overhead_ 0, no
            // delayed ACKs in Agent/TCPSink. No SYN: Agent/TCP sends data first. The literature raises
            // window_ (20) until it does not matter. TCP-Linux carries delays in microseconds.
            Profile::Ns2 => Tcp {
                sack: false,
                limited_transmit: true,
                limited_retransmit: true,
                dupthresh: 3,
                handshake: false,
                overhead: Duration::ZERO,
                delayed_ack: None,
                initial_window: 2,
                receive_window: Size::Unlimited,
                initial_rto: Duration::from_secs(3),
                min_rto: Duration::from_millis(200),
                rto_floor: RtoFloor::Timeout,
                max_rto: Duration::from_secs(60),
                backoff_until: BackoffUntil::Fresh,
                rto_granularity: Duration::from_millis(10),
                timestamp_resolution: Duration::from_micros(1),
                one_way_delay: true,
                ecn: false,
                pacing: false,
                idle_restart: false,
            },
            Profile::Rfc => {
                Tcp { limited_retransmit: false, backoff_until: BackoffUntil::Progress, ..Profile::Ns2.tcp() }
            }
            // Linux 6.x: tcp_sack 1, TCP_INIT_CWND 10 (RFC 6928), TCP_TIMEOUT_INIT 1 s (RFC 6298, 2.1),
            // TCP_RTO_MIN 200 ms as the least of the variance term (tcp_rtt_estimator), TCP_RTO_MAX 120 s,
            // TCP_DELACK_MIN 40 ms, tcp_rmem maximum 6 MB, tcp_slow_start_after_idle 1, timestamps in
            // milliseconds, ECN only when the peer asks for it.
            Profile::Linux => Tcp {
                sack: true,
                limited_transmit: true,
                limited_retransmit: false,
                dupthresh: 3,
                handshake: true,
                overhead: Duration::ZERO,
                delayed_ack: Some(DelayedAck { every: 2, timeout: Duration::from_millis(40) }),
                initial_window: 10,
                receive_window: Size::Bytes(Bytes::new(6_000_000)),
                initial_rto: Duration::from_secs(1),
                min_rto: Duration::from_millis(200),
                rto_floor: RtoFloor::Variance,
                max_rto: Duration::from_secs(120),
                backoff_until: BackoffUntil::Progress,
                rto_granularity: Duration::from_millis(1),
                timestamp_resolution: Duration::from_millis(1),
                one_way_delay: true,
                ecn: false,
                pacing: false,
                idle_restart: true,
            },
        }
    }
}

/// What a scenario changes about the profile's TCP; what is absent stays as the profile has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpOptions {
    /// Selective acknowledgments with recovery by RFC 6675; NewReno recovery (RFC 6582) without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// A new segment on each of the first two duplicate ACKs (RFC 3042).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// After a timeout too, the first two duplicate ACKs release a segment each that was sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_retransmit: Option<bool>,
    /// Duplicate ACKs that mean a loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dupthresh: Option<u32>,
    /// A connection begins with SYN and SYN-ACK, which give the first round-trip sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<bool>,
    /// A host waits for a time drawn from 0 to this before it sends what an ACK or the application allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Duration>,
    /// `"off"`, or `{ every = 2, timeout = "40 ms" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<AckPolicy>,
    /// Window at the start, in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// What the receiver can hold, in packets or bytes, or `"unlimited"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window: Option<Size>,
    /// Retransmission timeout before the first RTT sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<Duration>,
    /// Smallest retransmission timeout, or smallest part of it above SRTT; see `rto_floor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Duration>,
    /// What `min_rto` bounds: `"timeout"` as a whole (RFC 6298), or its `"variance"` term (Linux).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_floor: Option<RtoFloor>,
    /// Largest retransmission timeout, backoff included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rto: Option<Duration>,
    /// A doubled timeout stays so until `"progress"`: new data is acknowledged, or `"fresh"`: a segment is
    /// that was sent after the timeout for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<BackoffUntil>,
    /// Clock granularity G of RFC 6298.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_granularity: Option<Duration>,
    /// Resolution of the timestamps that RTT and one-way delay come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_resolution: Option<Duration>,
    /// Whether the law sees one-way delays; only round trips otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_delay: Option<bool>,
    /// Explicit congestion notification (RFC 3168).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Spread a window over the round trip even where the law does not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// After an idle time of one RTO, start again from the initial window (RFC 5681, 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
}

impl TcpOptions {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == TcpOptions::default()
    }

    /// The choices of `profile` with these changes.
    pub fn resolve(&self, profile: Profile) -> Tcp {
        let base = profile.tcp();
        Tcp {
            sack: self.sack.unwrap_or(base.sack),
            limited_transmit: self.limited_transmit.unwrap_or(base.limited_transmit),
            limited_retransmit: self.limited_retransmit.unwrap_or(base.limited_retransmit),
            dupthresh: self.dupthresh.unwrap_or(base.dupthresh),
            handshake: self.handshake.unwrap_or(base.handshake),
            overhead: self.overhead.unwrap_or(base.overhead),
            delayed_ack: self.delayed_ack.map_or(base.delayed_ack, |policy| policy.0),
            initial_window: self.initial_window.unwrap_or(base.initial_window),
            receive_window: self.receive_window.unwrap_or(base.receive_window),
            initial_rto: self.initial_rto.unwrap_or(base.initial_rto),
            min_rto: self.min_rto.unwrap_or(base.min_rto),
            rto_floor: self.rto_floor.unwrap_or(base.rto_floor),
            max_rto: self.max_rto.unwrap_or(base.max_rto),
            backoff_until: self.backoff_until.unwrap_or(base.backoff_until),
            rto_granularity: self.rto_granularity.unwrap_or(base.rto_granularity),
            timestamp_resolution: self.timestamp_resolution.unwrap_or(base.timestamp_resolution),
            one_way_delay: self.one_way_delay.unwrap_or(base.one_way_delay),
            ecn: self.ecn.unwrap_or(base.ecn),
            pacing: self.pacing.unwrap_or(base.pacing),
            idle_restart: self.idle_restart.unwrap_or(base.idle_restart),
        }
    }
}

/// Delayed ACKs, or the word `"off"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy(pub Option<DelayedAck>);

impl Serialize for AckPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(delayed) => delayed.serialize(serializer),
            None => serializer.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for AckPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OffOrTable;

        impl<'de> Visitor<'de> for OffOrTable {
            type Value = AckPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\" or a table such as { every = 2, timeout = \"40 ms\" }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AckPolicy, E> {
                match text {
                    "off" => Ok(AckPolicy(None)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AckPolicy, A::Error> {
                DelayedAck::deserialize(MapAccessDeserializer::new(map)).map(|d| AckPolicy(Some(d)))
            }
        }

        deserializer.deserialize_any(OffOrTable)
    }
}

impl JsonSchema for AckPolicy {
    fn schema_name() -> Cow<'static, str> {
        "AckPolicy".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<DelayedAck>();
        json_schema!({ "anyOf": [{ "type": "string", "const": "off" }, table] })
    }
}
