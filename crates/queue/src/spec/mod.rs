//! Queues as plain data: what a scenario, a command line or a gateway's policy says about one.

mod params;
mod value;

pub use params::{ParamInfo, Params, SpecError, read, set_field, short, split, write};
pub use value::{Bounds, Classes, Value};

use crate::{AnyQueue, Packet};
use leeway_units::{Duration, Rate, Size};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// What a discipline can be told of the link it is built for.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildContext {
    /// The buffer in packets, in bytes or without limit; a size against the bandwidth-delay product must be
    /// resolved before.
    pub capacity: Size,
    /// The rate at which the queue will be served (an average where it varies).
    pub rate: Rate,
    /// The one-way propagation delay of the link; RED's automatic setting uses it.
    pub delay: Duration,
    /// The seed of everything random in the queue.
    pub seed: u64,
    /// The mean length of a packet in bytes.
    pub mean_packet: u32,
}

impl BuildContext {
    /// A link without delay that carries packets of 1500 bytes; seed 0.
    pub fn new(capacity: Size, rate: Rate) -> Self {
        BuildContext { capacity, rate, delay: Duration::ZERO, seed: 0, mean_packet: 1500 }
    }
}

/// One discipline, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// The name in the text form.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

macro_rules! disciplines {
    ($($(#[$about:meta])* $variant:ident($params:ty),)+) => {
        /// A queue discipline with its parameters, as plain data.
        ///
        /// The text form is the name and, after a colon, the parameters that differ from their defaults:
        /// `droptail`, `codel:target=5ms,ecn=true`. The same spelling serves scenario files and command lines.
        #[derive(Debug, Clone, PartialEq)]
        pub enum QueueSpec {
            $($(#[$about])* $variant($params),)+
        }

        impl QueueSpec {
            /// An empty queue of this kind for the link that `context` tells of.
            pub fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
                match self {
                    $(QueueSpec::$variant(params) => params.build(context),)+
                }
            }

            /// The name of the discipline.
            pub fn name(&self) -> &'static str {
                match self {
                    $(QueueSpec::$variant(_) => <$params>::NAME,)+
                }
            }
        }

        impl FromStr for QueueSpec {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<Self, SpecError> {
                let (name, params) = split(text);
                match name {
                    $(<$params>::NAME => read(params).map(QueueSpec::$variant),)+
                    _ => Err(SpecError::UnknownName {
                        what: "queue discipline",
                        given: short(name),
                        known: [$(<$params>::NAME),+].join(", "),
                    }),
                }
            }
        }

        impl fmt::Display for QueueSpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(QueueSpec::$variant(params) => write(params, f),)+
                }
            }
        }

        static DISCIPLINES: LazyLock<Vec<QueueInfo>> = LazyLock::new(|| vec![$(QueueInfo {
            name: <$params>::NAME,
            summary: <$params>::SUMMARY,
            source: <$params>::SOURCE,
            params: <$params>::list(),
        },)+]);
    };
}

disciplines! {
    /// First in, first out, arrivals dropped when full.
    DropTail(crate::droptail::DropTailParams),
}

/// Every discipline with its parameters.
pub fn disciplines() -> &'static [QueueInfo] {
    &DISCIPLINES
}

impl Default for QueueSpec {
    /// Drop-tail.
    fn default() -> Self {
        QueueSpec::DropTail(Default::default())
    }
}

#[cfg(feature = "serde")]
mod serial {
    use super::{DISCIPLINES, QueueSpec};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::borrow::Cow;

    impl Serialize for QueueSpec {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for QueueSpec {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        }
    }

    impl schemars::JsonSchema for QueueSpec {
        fn schema_name() -> Cow<'static, str> {
            "Queue".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let names: Vec<_> = DISCIPLINES.iter().map(|info| info.name).collect();
            schemars::json_schema!({
                "type": "string",
                "description": "A queue discipline with its parameters: \"droptail\", \"codel:target=5ms,ecn=true\"",
                "pattern": format!("^ *({}) *(:.*)?$", names.join("|")),
            })
        }
    }
}
