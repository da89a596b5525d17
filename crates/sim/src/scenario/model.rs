//! The scenario and its parts: events, windows, series, sweep.

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
    /// One line that names the scenario in tables and reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What the scenario shows, and its source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Simulated time.
    pub duration: Duration,
    /// Seed of the first run. Run i of several (from 0) has seed + i. Below 2^63.
    #[serde(default = "one")]
    pub seed: u64,
    /// Number of runs with different seeds. Several runs give means with confidence intervals.
    #[serde(default = "once")]
    pub repetitions: u32,
    /// Platform that sets the TCP options which a flow does not set.
    #[serde(default)]
    pub profile: Profile,
    /// Run again without the background flows, and report harm and use of spare capacity against
    /// that run.
    #[serde(default)]
    pub baseline: bool,
    /// The usual topology: senders at `left`, receivers at `right`, one link `bottleneck` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dumbbell: Option<Dumbbell>,
    /// Links of any other topology; nodes are named by use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<Link>,
    /// Gateways that share a line among its owner and neighbours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<Gateway>,
    /// The file that peers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swarm: Option<Swarm>,
    /// Groups of flows: who sends what to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FlowGroup>,
    /// Changes of links during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<Event>,
    /// Windows of time that metrics are computed over; the whole run if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<Window>,
    /// Record time series of congestion windows, queues and rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Values to try, by path: `"dumbbell.bottleneck.buffer" = ["10 pkt", "40 pkt"]`. Each value
    /// of a path is combined with each value of the other paths.
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
    /// Time of the change.
    pub at: Time,
    /// Name of the link; `bottleneck` if absent.
    #[serde(default = "bottleneck")]
    pub link: String,
    /// Direction of the link that changes.
    #[serde(default)]
    pub direction: Direction,
    /// New rate; only for a channel with a constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// New propagation delay, as after a change of route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// New loss model; `"random:p=0"` ends all loss.
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
    /// The opposite direction.
    Reverse,
}

/// A window of time that metrics are computed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Name of the window in tables; unique.
    pub name: String,
    /// Beginning of the window.
    #[serde(default)]
    pub from: Time,
    /// End of the window.
    pub to: Time,
}

/// Recording of time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Time between samples, such as `"10 ms"`; `"event"` records at every ACK and every packet.
    pub every: Sampling,
}

/// How often time series are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// At this interval.
    Every(Duration),
    /// At every event: a flow at each ACK and loss, a link at each arrival and departure.
    Event,
}

/// A text that is neither an interval nor `event`.
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

/// Values to try, by path, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sweep(pub Vec<(String, Vec<SweepValue>)>);

impl Sweep {
    /// Whether there is no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One value of a sweep, as a scenario file can hold it.
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
