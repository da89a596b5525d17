//! The scenario itself: its parts, events, windows, what to record.

use super::{Dumbbell, FlowGroup, Gateway, Link, Profile, Swarm};
use leeway_link::LossSpec;
use leeway_units::{Duration, ParseError, Rate, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line for tables and the head of the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What is shown and where it comes from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How long to simulate.
    pub duration: Duration,
    /// Seed of the first run; run i of several takes seed + i. Below 2^63.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of runs with different seeds; several give means with confidence intervals.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Platform whose TCP choices hold where a flow does not say otherwise.
    #[serde(default)]
    pub profile: Profile,
    /// Run again without the background flows, and report harm and use of spare capacity against it.
    #[serde(default)]
    pub baseline: bool,
    /// The usual topology: senders at `left`, receivers at `right`, one link `bottleneck` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dumbbell: Option<Dumbbell>,
    /// Links of any other topology; nodes are named by use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<Link>,
    /// Who shares a line that belongs to somebody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<Gateway>,
    /// The file that peers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swarm: Option<Swarm>,
    /// Who sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowGroup>,
    /// Changes of links during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<Event>,
    /// Spans that metrics are computed over; the whole run where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<Window>,
    /// Record how windows, queues and rates move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Values to try, by path: `"dumbbell.bottleneck.buffer" = ["10 pkt", "40 pkt"]`. Several paths are combined,
    /// each value of one with each value of the others.
    #[serde(default, skip_serializing_if = "Sweep::is_empty")]
    pub sweep: Sweep,
}

fn one() -> u64 {
    1
}

fn once() -> u32 {
    1
}

/// A change of a link during the run; at least one of `rate`, `delay` and `loss`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Name of the link; `bottleneck` where absent.
    #[serde(default = "bottleneck")]
    pub link: String,
    /// Which way.
    #[serde(default)]
    pub direction: Direction,
    /// The rate from then on; only for a channel with a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The propagation delay from then on: a change of route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// The loss from then on; `"random:p=0"` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossSpec>,
}

fn bottleneck() -> String {
    Dumbbell::LINK.into()
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the link's `from` to its `to`; from `left` to `right` in a dumbbell.
    #[default]
    Forward,
    /// The other way.
    Reverse,
}

/// A span that metrics are computed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Name in the tables; unique.
    pub name: String,
    /// Where it begins.
    #[serde(default)]
    pub from: Time,
    /// Where it ends.
    pub to: Time,
}

/// Recording over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// How often: `"10 ms"`, or `"event"` for every ACK and every packet.
    pub every: Sampling,
}

/// How often to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Once in so much time.
    Every(Duration),
    /// A flow at every ACK and loss, a link at every arrival and departure.
    Event,
}

/// Why a text does not say how often.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; or write \"event\" for every one of them")]
pub struct SamplingError(#[from] ParseError);

impl std::str::FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Self, SamplingError> {
        match text.trim() {
            "event" => Ok(Sampling::Event),
            span => Ok(Sampling::Every(span.parse()?)),
        }
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sampling::Every(span) => span.fmt(f),
            Sampling::Event => f.pad("event"),
        }
    }
}

impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sampling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Sampling {
    fn schema_name() -> Cow<'static, str> {
        "Sampling".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Duration>();
        json_schema!({ "anyOf": [{ "type": "string", "const": "event" }, span] })
    }
}

/// Values to try by path, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sweep(pub Vec<(String, Vec<SweepValue>)>);

impl Sweep {
    /// Whether there is nothing to try.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A value that a file can hold where a sweep changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SweepValue {
    /// `true` or `false`.
    Boolean(bool),
    /// `10`.
    Integer(i64),
    /// `0.5`.
    Float(f64),
    /// `"40 pkt"`.
    Text(String),
}

impl fmt::Display for SweepValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepValue::Boolean(value) => value.fmt(f),
            SweepValue::Integer(value) => value.fmt(f),
            SweepValue::Float(value) => write!(f, "{value:?}"),
            SweepValue::Text(value) => value.fmt(f),
        }
    }
}

impl Serialize for Sweep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (path, values) in &self.0 {
            map.serialize_entry(path, values)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Sweep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Axes;

        impl<'de> Visitor<'de> for Axes {
            type Value = Sweep;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of paths, each with a list of values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sweep, A::Error> {
                let mut axes = Vec::new();
                while let Some(axis) = map.next_entry()? {
                    axes.push(axis);
                }
                Ok(Sweep(axes))
            }
        }

        deserializer.deserialize_map(Axes)
    }
}

impl JsonSchema for Sweep {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<SweepValue>();
        json_schema!({
            "type": "object",
            "description": "Values to try, by path.",
            "additionalProperties": { "type": "array", "items": value }
        })
    }
}
