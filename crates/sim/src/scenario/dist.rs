//! Quantities that are either fixed, or drawn anew for each flow, transfer or pause.

use leeway_units::{Bytes, Duration, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// One value, or the distribution that values are drawn from: `"10 s"`, `{ uniform = ["0 s", "30 s"] }`,
/// `{ exponential = "20 ms" }`, `{ pareto = { mean = "50 kB", shape = 1.2 } }`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Dist<T> {
    /// Always this value.
    Constant(T),
    /// A value drawn from a distribution.
    Drawn(Spread<T>),
}

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Spread<T> {
    /// Uniform between two values: `{ uniform = ["0 s", "30 s"] }`.
    Uniform([T; 2]),
    /// Exponential with this mean: `{ exponential = "20 ms" }`.
    Exponential(T),
    /// Pareto, which is heavy-tailed, as sizes of files are: `{ pareto = { mean = "50 kB", shape =
    /// 1.2 } }`.
    Pareto(Pareto<T>),
}

/// A Pareto distribution, given by its smallest value or by its mean: exactly one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pareto<T> {
    /// The smallest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<T>,
    /// The mean, which exists only for a shape above 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<T>,
    /// Shape of the tail: P(X > x) = (min/x)^shape. A smaller shape is a heavier tail.
    pub shape: f64,
}

/// A quantity that can be drawn: converts to and from its base unit.
pub trait Quantity: Copy + fmt::Display + FromStr<Err = leeway_units::ParseError> + JsonSchema {
    /// Name of the distribution in the JSON Schema.
    const NAME: &'static str;
    /// The value in its base unit (nanoseconds, bytes).
    fn base(self) -> f64;
    /// The value nearest to `base`, within the range of the type.
    fn from_base(base: f64) -> Self;
}

impl Quantity for Time {
    const NAME: &'static str = "TimeDistribution";
    fn base(self) -> f64 {
        self.nanos() as f64
    }
    fn from_base(base: f64) -> Self {
        Time::from_nanos(base.round() as u64)
    }
}

impl Quantity for Duration {
    const NAME: &'static str = "DurationDistribution";
    fn base(self) -> f64 {
        self.nanos() as f64
    }
    fn from_base(base: f64) -> Self {
        Duration::from_nanos(base.round() as u64)
    }
}

impl Quantity for Bytes {
    const NAME: &'static str = "BytesDistribution";
    fn base(self) -> f64 {
        self.get() as f64
    }
    fn from_base(base: f64) -> Self {
        Bytes::new(base.round() as u64)
    }
}

impl<T: Quantity> Dist<T> {
    /// The `u`-quantile: the value below which a share `u` of all draws lies. With `u` uniform in
    /// [0, 1) it is a draw. The caller has the random generator.
    pub fn quantile(&self, u: f64) -> T {
        let tail = (1.0 - u.clamp(0.0, 1.0)).max(f64::EPSILON / 2.0);
        match self {
            Dist::Constant(value) => *value,
            Dist::Drawn(Spread::Uniform([low, high])) => {
                T::from_base(low.base() + (high.base() - low.base()) * (1.0 - tail))
            }
            Dist::Drawn(Spread::Exponential(mean)) => T::from_base(-mean.base() * tail.ln()),
            Dist::Drawn(Spread::Pareto(pareto)) => {
                T::from_base(pareto.scale() * tail.powf(-1.0 / pareto.shape))
            }
        }
    }

    /// Mean, in the base unit; infinite if it does not exist.
    pub fn mean(&self) -> f64 {
        match self {
            Dist::Constant(value) | Dist::Drawn(Spread::Exponential(value)) => value.base(),
            Dist::Drawn(Spread::Uniform([low, high])) => (low.base() + high.base()) / 2.0,
            Dist::Drawn(Spread::Pareto(p)) if p.shape > 1.0 => p.scale() * p.shape / (p.shape - 1.0),
            Dist::Drawn(Spread::Pareto(_)) => f64::INFINITY,
        }
    }

    /// The smallest value that can be drawn.
    pub fn min(&self) -> T {
        self.quantile(0.0)
    }
}

impl<T: Quantity> Pareto<T> {
    /// The smallest value (`min`), in the base unit.
    fn scale(&self) -> f64 {
        match (self.min, self.mean) {
            (Some(min), _) => min.base(),
            (None, Some(mean)) => mean.base() * (self.shape - 1.0) / self.shape,
            (None, None) => 0.0,
        }
    }
}

impl<T> From<T> for Dist<T> {
    fn from(value: T) -> Self {
        Dist::Constant(value)
    }
}

// Not `untagged`, because the error of an untagged enum says only "did not match any variant".
impl<'de, T: Quantity + Deserialize<'de>> Deserialize<'de> for Dist<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable<T>(PhantomData<T>);

        impl<'de, T: Quantity + Deserialize<'de>> Visitor<'de> for TextOrTable<T> {
            type Value = Dist<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity in quotes, or a table `uniform`, `exponential` or `pareto`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Dist<T>, E> {
                text.parse().map(Dist::Constant).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Dist<T>, A::Error> {
                Spread::deserialize(MapAccessDeserializer::new(map)).map(Dist::Drawn)
            }
        }

        deserializer.deserialize_any(TextOrTable(PhantomData))
    }
}

impl<T: Quantity> JsonSchema for Dist<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (constant, spread) = (generator.subschema_for::<T>(), generator.subschema_for::<Spread<T>>());
        json_schema!({
            "description": "One value, or the distribution that values are drawn from.",
            "anyOf": [constant, spread]
        })
    }
}
