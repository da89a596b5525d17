//! Flow groups: who sends what, when, under which law.

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

/// A group of like flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowGroup {
    /// Name in tables, charts and paths; unique.
    pub name: String,
    /// Number of flows.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Whether these are the flows to protect or the ones that should give way.
    #[serde(default, skip_serializing_if = "Role::is_primary")]
    pub role: Role,
    /// Control law with its parameters: `"newreno"`, `"ledbat:target=25ms"`; see `leeway laws`.
    #[serde(default = "newreno")]
    pub law: LawSpec,
    /// Gateway that holds this background group; none does where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Flows of one user of the gateway: users have equal shares.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub flows_per_user: u32,
    /// Node of the senders; `left` in a dumbbell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Node of the receivers; `right` in a dumbbell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Links to take, in order; the shortest route (fewest links, earlier ones first) where empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// When a flow starts: one instant for all, or a distribution that each flow draws from. Where absent: at
    /// 0. With a `count` above 1 and neither `stagger` nor `intervals`: anywhere in the first second, or in
    /// the first tenth of the run if that is shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Dist<Time>>,
    /// The flow of index i (from 0) starts i times this later still.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub stagger: Duration,
    /// When flows stop sending; the end of the run where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// Times in which a bulk flow has data, `[from, to]` each, in order; always where empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<[Time; 2]>,
    /// What the application does.
    #[serde(default)]
    pub app: App,
    /// Size of a full packet on the wire, headers included.
    #[serde(default = "wire_packet")]
    pub packet: Bytes,
    /// Headers of each packet, and the size of an ACK.
    #[serde(default = "wire_header")]
    pub header: Bytes,
    /// Traffic class of all its packets, 0 to 63; 0 is the most important. The queues `priority`, `borrowing` and
    /// `drr:by=class` look at it.
    #[serde(default, skip_serializing_if = "is_first_class")]
    pub class: u8,
    /// One-way delay of the flow's own access, drawn once per flow, added in both directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_delay: Option<Dist<Duration>>,
    /// Rate of the flow's own access, which data packets pass first; not limited where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_rate: Option<Rate>,
    /// Clock of the sending hosts.
    #[serde(default, skip_serializing_if = "Clock::is_true")]
    pub sender_clock: Clock,
    /// Clock of the receiving hosts.
    #[serde(default, skip_serializing_if = "Clock::is_true")]
    pub receiver_clock: Clock,
    /// What differs from the profile's TCP.
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

/// Over which starts are spread where a group of several flows does not say when they start: many round
/// trips, so that no flow's packets are in step with another's.
const START_SPREAD: Duration = Duration::from_secs(1);

impl FlowGroup {
    /// When flows start in a run of `duration`, before `stagger`.
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

/// Whose capacity it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A flow to protect.
    #[default]
    Primary,
    /// A flow that should take only what primaries leave.
    Background,
}

impl Role {
    /// Whether these are the flows to protect.
    pub fn is_primary(&self) -> bool {
        *self == Role::Primary
    }
}

/// What an application sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum App {
    /// As much as the network takes.
    #[default]
    Bulk,
    /// Transfers of a given size, one after the other on one connection.
    Transfer {
        /// Size of each, application bytes.
        size: Dist<Bytes>,
        /// How many.
        #[serde(default = "one")]
        count: u32,
        /// Pause after each.
        #[serde(default)]
        gap: Duration,
    },
    /// As much as the network takes for a while, then nothing for a while.
    OnOff {
        /// Length of a busy period.
        on: Dist<Duration>,
        /// Length of a pause.
        off: Dist<Duration>,
    },
    /// Transfers that begin at random instants, each on its own connection, however many are still going.
    Poisson {
        /// Mean number of transfers that begin in a second, per flow of the group.
        arrivals_per_s: f64,
        /// Size of each, application bytes.
        size: Dist<Bytes>,
    },
    /// A closed loop: ask, receive the answer, think, ask again. The receivers ask, the senders answer.
    Request {
        /// Size of an answer, application bytes.
        size: Dist<Bytes>,
        /// Size of a request, application bytes; it fits into one packet.
        #[serde(default = "small_request")]
        request: Bytes,
        /// Pause between an answer and the next request.
        #[serde(default = "no_pause")]
        think: Dist<Duration>,
    },
    /// One direction of a call: datagrams at a constant rate, no control law, scored by the E-model (ITU-T G.107).
    Voice {
        /// The codec, which sets rate and sensitivity to loss.
        #[serde(default)]
        codec: Codec,
    },
    /// A peer of the scenario's swarm: it shares the file with all others. Each of the group is one peer;
    /// `from` is its home, `to` the node where all peers meet, `start` its arrival, and at `stop` it leaves.
    Peer {
        /// It has the file from the beginning.
        #[serde(default)]
        seed: bool,
        /// Neighbours that it serves at a time, one of them by lot; a free-rider serves none.
        #[serde(default = "four")]
        slots: u32,
        /// How long it stays when it has the file; to the end of the run where absent.
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

/// The fields of every kind at once: read this way, an error keeps its place in the file, which serde's
/// tagged enums lose by buffering.
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
    /// The fields that were given, with the names the file uses.
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

/// The error of a host's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// What the clock shows at the start, ahead of true time; `"-3 s"` is behind.
    pub offset: Offset,
    /// How much faster than true time it runs, in parts per million; negative is slower.
    pub skew_ppm: f64,
}

impl Clock {
    /// Whether the clock shows true time.
    pub fn is_true(&self) -> bool {
        *self == Clock::default()
    }
}

/// A span of time with a sign, in nanoseconds: `"1.5 s"`, `"-200 ms"`.
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
        // Half of the range of a `Duration`: clocks that are 292 years off are as wrong as any.
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
