//! Flow groups: who sends what to whom, when, and under which law.

use super::specs::newreno;
use super::{Dist, Spread, TcpOptions};
use leeway_control::LawSpec;
use leeway_units::{Bytes, Duration, ParseError, Rate, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A group of flows with the same settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowGroup {
    /// Name of the group in tables, charts and paths; unique.
    pub name: String,
    /// Number of flows.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Whether these flows are to be protected (`primary`) or should yield (`background`).
    #[serde(default, skip_serializing_if = "Role::is_primary")]
    pub role: Role,
    /// Control law with its parameters: `"newreno"`, `"ledbat:target=25ms"`; see `leeway laws`.
    #[serde(default = "newreno")]
    pub law: LawSpec,
    /// Gateway that limits this background group; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Flows of one user of the gateway. All users have equal shares.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub flows_per_user: u32,
    /// Node of the senders; `left` of a dumbbell if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Node of the receivers; `right` of a dumbbell if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Links of the route, in order. If empty, the route with the fewest links; among several, the
    /// one whose links come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// When a flow starts: one time for all flows, or a distribution that each flow draws from. If
    /// absent, flows start at 0. If absent in a group with a `count` above 1 and neither `stagger`
    /// nor `intervals`, they start at random in the first second, or in the first tenth of a
    /// shorter run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Dist<Time>>,
    /// Time between the starts of flow i and flow i + 1, added to `start`.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub stagger: Duration,
    /// When flows stop sending; the end of the run if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// Times in which a bulk flow has data, `[from, to]` each, in order. If empty, it always has
    /// data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<[Time; 2]>,
    /// Application of each flow: what it sends, and when.
    #[serde(default)]
    pub app: App,
    /// Size of a full packet on the wire, headers included.
    #[serde(default = "wire_packet")]
    pub packet: Bytes,
    /// Size of the headers of a packet, and of an ACK.
    #[serde(default = "wire_header")]
    pub header: Bytes,
    /// Traffic class of all packets, from 0 (most important) to 63. The queues `priority`,
    /// `borrowing` and `drr:by=class` use it.
    #[serde(default, skip_serializing_if = "is_first_class")]
    pub class: u8,
    /// One-way delay of the flow's own access link. Drawn once for each flow, and added in both
    /// directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_delay: Option<Dist<Duration>>,
    /// Rate of the flow's own access link, which data packets pass first; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<Rate>,
    /// Clock of the sending hosts.
    #[serde(default, skip_serializing_if = "Clock::is_true")]
    pub sender_clock: Clock,
    /// Clock of the receiving hosts.
    #[serde(default, skip_serializing_if = "Clock::is_true")]
    pub receiver_clock: Clock,
    /// TCP options that differ from those of the profile.
    #[serde(default, skip_serializing_if = "TcpOptions::is_empty")]
    pub tcp: TcpOptions,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn wire_packet() -> Bytes {
    Bytes::new(1500)
}

fn wire_header() -> Bytes {
    Bytes::new(40)
}

fn is_first_class(class: &u8) -> bool {
    *class == 0
}

fn is_no_time(span: &Duration) -> bool {
    span.is_zero()
}

/// Range of start times for a group of several flows that does not set them: many round trips, so
/// that the packets of two flows are not in step.
const START_SPREAD: Duration = Duration::from_secs(1);

impl FlowGroup {
    /// Distribution of start times in a run of `duration`, without `stagger`.
    pub fn start_times(&self, duration: Duration) -> Dist<Time> {
        match self.start {
            Some(start) => start,
            None if self.count > 1 && self.stagger.is_zero() && self.intervals.is_empty() => {
                let spread = START_SPREAD.min(Duration::from_nanos(duration.nanos() / 10));
                Dist::Drawn(Spread::Uniform([Time::ZERO, Time::ZERO + spread]))
            }
            None => Dist::Constant(Time::ZERO),
        }
    }
}

/// Role of a flow: whose capacity it uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A flow to protect.
    #[default]
    Primary,
    /// A flow that should use only capacity that primary flows leave.
    Background,
}

impl Role {
    /// Whether the role is `primary`.
    pub fn is_primary(&self) -> bool {
        *self == Role::Primary
    }
}

/// Application of a flow: what it sends, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// Sends as much as the network takes.
    #[default]
    Bulk,
    /// Sends transfers of a given size, one after the other, each on a new connection.
    Transfer {
        /// Size of a transfer, in bytes of the application.
        size: Dist<Bytes>,
        /// Number of transfers.
        #[serde(default = "one")]
        count: u32,
        /// Pause after a transfer.
        #[serde(default)]
        gap: Duration,
    },
    /// Sends as much as the network takes for a while, then nothing for a while.
    OnOff {
        /// Length of a busy period.
        on: Dist<Duration>,
        /// Length of a pause.
        off: Dist<Duration>,
    },
    /// Transfers begin at random times (a Poisson process), each on its own connection, however
    /// many are in progress.
    Poisson {
        /// Mean number of transfers that begin in a second, for each flow of the group.
        arrivals_per_s: f64,
        /// Size of a transfer, in bytes of the application.
        size: Dist<Bytes>,
    },
    /// A closed loop: request, answer, pause, next request. Receivers send requests, senders send
    /// answers.
    Request {
        /// Size of an answer, in bytes of the application.
        size: Dist<Bytes>,
        /// Size of a request, in bytes of the application; at most one packet.
        #[serde(default = "small_request")]
        request: Bytes,
        /// Pause between an answer and the next request.
        #[serde(default = "no_pause")]
        think: Dist<Duration>,
    },
    /// One direction of a voice call: datagrams at a constant rate without a control law, rated by
    /// the E-model (ITU-T G.107).
    Voice {
        /// Codec, which sets the rate and the sensitivity to loss.
        #[serde(default)]
        codec: Codec,
    },
    /// A peer of the scenario's swarm, which shares the file with all other peers. Each flow of
    /// the group is one peer. It arrives at `start` and leaves at `stop`. `from` is the node of
    /// its home, `to` the node where all peers meet.
    Peer {
        /// Whether the peer has the file from the beginning.
        #[serde(default)]
        seed: bool,
        /// Neighbours that it serves at a time, one of them drawn by lot. A free-rider has 0.
        #[serde(default = "four")]
        slots: u32,
        /// How long the peer stays after it has the file; to the end of the run if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stay: Option<Duration>,
    },
}

fn four() -> u32 {
    4
}

fn small_request() -> Bytes {
    Bytes::new(300)
}

fn no_pause() -> Dist<Duration> {
    Dist::Constant(Duration::ZERO)
}

/// A voice codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// 64 kbit/s: 160 bytes every 20 ms.
    #[default]
    G711,
    /// 8 kbit/s: 20 bytes every 20 ms.
    G729,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Bulk,
    Transfer,
    OnOff,
    Poisson,
    Request,
    Voice,
    Peer,
}

/// The fields of all applications. serde's tagged enums buffer the input, and so lose the place of
/// an error in the file; this struct keeps it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppFields {
    kind: Kind,
    size: Option<Dist<Bytes>>,
    count: Option<u32>,
    gap: Option<Duration>,
    on: Option<Dist<Duration>>,
    off: Option<Dist<Duration>>,
    arrivals_per_s: Option<f64>,
    request: Option<Bytes>,
    think: Option<Dist<Duration>>,
    codec: Option<Codec>,
    seed: Option<bool>,
    slots: Option<u32>,
    stay: Option<Duration>,
}

impl AppFields {
    /// Names of the fields that the file gives.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("size", self.size.is_some()),
            ("count", self.count.is_some()),
            ("gap", self.gap.is_some()),
            ("on", self.on.is_some()),
            ("off", self.off.is_some()),
            ("arrivals_per_s", self.arrivals_per_s.is_some()),
            ("request", self.request.is_some()),
            ("think", self.think.is_some()),
            ("codec", self.codec.is_some()),
            ("seed", self.seed.is_some()),
            ("slots", self.slots.is_some()),
            ("stay", self.stay.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
    }
}

impl<'de> Deserialize<'de> for App {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = AppFields::deserialize(deserializer)?;
        let (kind, known): (&str, &'static [&'static str]) = match fields.kind {
            Kind::Bulk => ("bulk", &[]),
            Kind::Transfer => ("transfer", &["size", "count", "gap"]),
            Kind::OnOff => ("on_off", &["on", "off"]),
            Kind::Poisson => ("poisson", &["arrivals_per_s", "size"]),
            Kind::Request => ("request", &["size", "request", "think"]),
            Kind::Voice => ("voice", &["codec"]),
            Kind::Peer => ("peer", &["seed", "slots", "stay"]),
        };
        if let Some(name) = fields.given().find(|name| !known.contains(name)) {
            let has =
                if known.is_empty() { " no fields".to_owned() } else { format!(": {}", known.join(", ")) };
            let message = format!("there is no `{name}` in an application of kind `{kind}`; it has{has}");
            return Err(D::Error::custom(message));
        }
        let missing =
            |name| D::Error::custom(format!("missing field `{name}` in an application of kind `{kind}`"));
        Ok(match fields.kind {
            Kind::Bulk => App::Bulk,
            Kind::Transfer => App::Transfer {
                size: fields.size.ok_or_else(|| missing("size"))?,
                count: fields.count.unwrap_or_else(one),
                gap: fields.gap.unwrap_or_default(),
            },
            Kind::OnOff => App::OnOff {
                on: fields.on.ok_or_else(|| missing("on"))?,
                off: fields.off.ok_or_else(|| missing("off"))?,
            },
            Kind::Poisson => App::Poisson {
                arrivals_per_s: fields.arrivals_per_s.ok_or_else(|| missing("arrivals_per_s"))?,
                size: fields.size.ok_or_else(|| missing("size"))?,
            },
            Kind::Request => App::Request {
                size: fields.size.ok_or_else(|| missing("size"))?,
                request: fields.request.unwrap_or_else(small_request),
                think: fields.think.unwrap_or_else(no_pause),
            },
            Kind::Voice => App::Voice { codec: fields.codec.unwrap_or_default() },
            Kind::Peer => App::Peer {
                seed: fields.seed.unwrap_or_default(),
                slots: fields.slots.unwrap_or_else(four),
                stay: fields.stay,
            },
        })
    }
}

/// Error of a host's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// Offset of the clock from true time at the start; `"-3 s"` is behind.
    pub offset: Offset,
    /// How much faster than true time the clock runs. Unit: parts per million. Negative: slower.
    pub skew_ppm: f64,
}

impl Clock {
    /// Whether the clock shows true time.
    pub fn is_true(&self) -> bool {
        *self == Clock::default()
    }
}

/// A span of time with a sign, such as `"1.5 s"` or `"-200 ms"`. Unit: ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(i64);

impl Offset {
    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: i64) -> Self {
        Offset(ns)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }
}

impl FromStr for Offset {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let trimmed = text.trim();
        let (sign, size) = match trimmed.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        // Offsets are limited to half the range of a `Duration`, 292 years.
        let nanos = size.parse::<Duration>()?.nanos().min(i64::MAX as u64) as i64;
        Ok(Offset(sign * nanos))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Duration::from_nanos(self.0.unsigned_abs());
        f.pad(&format!("{}{size}", if self.0 < 0 { "-" } else { "" }))
    }
}

impl Serialize for Offset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Offset {
    fn schema_name() -> Cow<'static, str> {
        "Offset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A span of time with a sign and a unit: \"-3 s\", \"200 ms\"",
            "pattern": r"^[+-]?[0-9._]+ *(ns|us|µs|ms|s|min|h)?$"
        })
    }
}
