//! Options of a TCP endpoint: those of a platform, and what a scenario changes about them.

use leeway_units::{Bytes, Duration, Size};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A platform, which sets the TCP options that a scenario does not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The ns-2 simulator, on which much of the literature ran: no delayed ACKs, initial window 2,
    /// and backoff, limited transmit and drop-tail buffers that differ from the RFCs.
    Ns2,
    /// As `ns2`, but as the RFCs say where ns-2 differs from them.
    Rfc,
    /// Linux: SACK, delayed ACKs, initial window 10.
    #[default]
    Linux,
}

/// All options of a TCP endpoint, with their values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tcp {
    /// SACK, with loss recovery by RFC 6675. Without it: NewReno (RFC 6582).
    pub sack: bool,
    /// A new segment on each of the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// After a timeout, too, the first two duplicate ACKs release a segment each: one that was
    /// sent before, whether or not the receiver has it. Needs `limited_transmit`, and has no
    /// effect with SACK.
    pub limited_retransmit: bool,
    /// Duplicate ACKs that count as a loss.
    pub dupthresh: u32,
    /// A connection begins with SYN and SYN-ACK, which give the first round-trip sample.
    pub handshake: bool,
    /// Most processing delay of a host. Each time an ACK or the application allows it to send, it
    /// waits for a time drawn from 0 to this.
    pub overhead: Duration,
    /// How the receiver delays ACKs. Absent: it acknowledges every segment at once.
    pub delayed_ack: Option<DelayedAck>,
    /// Initial congestion window, in segments.
    pub initial_window: u32,
    /// Receive window: packets, bytes or unlimited, never a BDP.
    pub receive_window: Size,
    /// Retransmission timeout before the first RTT sample.
    pub initial_rto: Duration,
    /// Smallest retransmission timeout, or smallest variance term of it; see `rto_floor`.
    pub min_rto: Duration,
    /// What `min_rto` bounds.
    pub rto_floor: RtoFloor,
    /// Largest retransmission timeout, backoff included.
    pub max_rto: Duration,
    /// When the doubling of a timeout ends.
    pub backoff_until: BackoffUntil,
    /// Clock granularity G (RFC 6298): the smallest variance term of a timeout.
    pub rto_granularity: Duration,
    /// Resolution of the timestamps that give RTT and one-way delay.
    pub timestamp_resolution: Duration,
    /// Whether the law gets one-way delays (receiver's clock less sender's); it gets round-trip
    /// times in any case.
    pub one_way_delay: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Whether to pace segments if the law does not ask for pacing. A law that asks is always
    /// paced.
    pub pacing: bool,
    /// After an idle time of one RTO, start again from the initial window (RFC 5681, 4.1).
    pub idle_restart: bool,
}

/// What the smallest retransmission timeout applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtoFloor {
    /// The timeout as a whole (RFC 6298, 2.4).
    Timeout,
    /// Its variance term, so that the timeout is at least SRTT + `min_rto`, as in Linux.
    Variance,
}

/// When the doubling of a retransmission timeout ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackoffUntil {
    /// When new data is acknowledged (RFC 6298, 5.7, with timestamps; Linux).
    Progress,
    /// When a segment is acknowledged that was sent for the first time after the timeout (Karn's
    /// algorithm; ns-2).
    Fresh,
}

/// When a receiver that delays ACKs sends one (RFC 5681, 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayedAck {
    /// Full segments for one ACK.
    #[serde(default = "two")]
    pub every: u32,
    /// Longest delay of an ACK.
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
    /// The TCP options of this platform.
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

/// TCP options that a scenario sets. Those of the profile hold for what is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TcpOptions {
    /// SACK, with loss recovery by RFC 6675. Without it: NewReno (RFC 6582).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// A new segment on each of the first two duplicate ACKs (RFC 3042).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// After a timeout, too, the first two duplicate ACKs release a segment each that was sent
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_retransmit: Option<bool>,
    /// Duplicate ACKs that count as a loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dupthresh: Option<u32>,
    /// A connection begins with SYN and SYN-ACK, which give the first round-trip sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<bool>,
    /// Most processing delay of a host. Each time an ACK or the application allows it to send, it
    /// waits for a time drawn from 0 to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Duration>,
    /// `"off"`, or `{ every = 2, timeout = "40 ms" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<AckPolicy>,
    /// Initial congestion window, in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Receive window in packets or bytes, or `"unlimited"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window: Option<Size>,
    /// Retransmission timeout before the first RTT sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<Duration>,
    /// Smallest retransmission timeout, or smallest variance term of it; see `rto_floor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Duration>,
    /// What `min_rto` applies to: `"timeout"`, the whole timeout (RFC 6298), or `"variance"`, its
    /// variance term (Linux).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_floor: Option<RtoFloor>,
    /// Largest retransmission timeout, backoff included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rto: Option<Duration>,
    /// The doubling of a timeout ends with `"progress"` when new data is acknowledged, with
    /// `"fresh"` when a segment is acknowledged that was sent for the first time after the
    /// timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<BackoffUntil>,
    /// Clock granularity G of RFC 6298.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rto_granularity: Option<Duration>,
    /// Resolution of the timestamps that give RTT and one-way delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp_resolution: Option<Duration>,
    /// Whether the law gets one-way delays; it gets round-trip times in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_delay: Option<bool>,
    /// Explicit congestion notification (RFC 3168).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Whether to pace segments if the law does not ask for pacing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// After an idle time of one RTO, start again from the initial window (RFC 5681, 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
}

impl TcpOptions {
    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        *self == TcpOptions::default()
    }

    /// The options of `profile`, with those that are set here.
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

/// Delayed ACKs, or `"off"`.
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
