//! The file of a test network: its hosts, links, routes and programs.

use crate::{DirectionOptions, Error, LinkOptions};
use leeway_link::{Arq, JitterSpec, LossSpec, Rates};
use leeway_queue::QueueSpec;
use leeway_units::{Duration, Size};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Hosts, links between them, and what runs on them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Seed of losses, jitter and queues that use random numbers.
    #[serde(default = "one")]
    pub seed: u64,
    /// The hosts by name.
    pub host: Named<Host>,
    /// The links by name.
    #[serde(default)]
    pub link: Named<Link>,
    /// Routes that differ from the shortest path.
    #[serde(default)]
    pub route: Vec<Route>,
    /// Programs that run in the background.
    #[serde(default)]
    pub program: Vec<Program>,
}

fn one() -> u64 {
    1
}

/// Entries by name, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

/// A host: a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Parameters of its network, such as `"net.ipv4.tcp_ecn" = 1`.
    #[serde(default)]
    pub sysctl: Named<Setting>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected text or a whole number")]
pub enum Setting {
    /// `1`.
    Number(i64),
    /// `"4096 87380 6291456"`.
    Text(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Number(number) => number.fmt(f),
            Setting::Text(text) => text.fmt(f),
        }
    }
}

/// A link between two hosts. Without any property of a channel it is a wire (a pair of veth
/// devices).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The hosts at its ends; up is from the first to the second.
    pub between: [String; 2],
    /// The IPv4 addresses of the ends with the length of their prefix; of 10.0.0.0/8 by default.
    pub ipv4: Option<[String; 2]>,
    /// The IPv6 addresses of the ends; of fd00::/32 by default.
    pub ipv6: Option<[String; 2]>,
    /// Whether a wire may carry segments larger than a packet, as hosts do among each other.
    #[serde(default)]
    pub offload: bool,
    /// File to write every packet's arrival, drop and departure to.
    pub log: Option<PathBuf>,
    /// Properties of direction up only.
    #[serde(default)]
    pub up: LinkDirection,
    /// Properties of direction down only.
    #[serde(default)]
    pub down: LinkDirection,
    /// The rate of both directions, perhaps with changes.
    pub rate: Option<Rates>,
    /// File of delivery opportunities in mahimahi's format, instead of a rate.
    pub trace: Option<PathBuf>,
    /// The queue discipline.
    pub queue: Option<QueueSpec>,
    /// The buffers of the queues.
    pub buffer: Option<Size>,
    /// The propagation delay of each direction.
    pub delay: Option<Duration>,
    /// How the delay varies.
    pub jitter: Option<JitterSpec>,
    /// How packets are lost.
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission.
    pub arq: Option<Arq>,
}

impl Link {
    /// Its properties; traces are read.
    pub(super) fn options(&self) -> Result<LinkOptions, Error> {
        let both = LinkDirection {
            rate: self.rate.clone(),
            trace: self.trace.clone(),
            queue: self.queue.clone(),
            buffer: self.buffer,
            delay: self.delay,
            jitter: self.jitter.clone(),
            loss: self.loss.clone(),
            arq: self.arq.clone(),
        };
        Ok(LinkOptions { both: both.options()?, directions: [self.up.options()?, self.down.options()?] })
    }
}

/// One direction of a link: a rate, or a table of properties.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkDirection {
    /// The rate, perhaps with changes.
    pub rate: Option<Rates>,
    /// File of delivery opportunities in mahimahi's format, instead of a rate.
    pub trace: Option<PathBuf>,
    /// The queue discipline.
    pub queue: Option<QueueSpec>,
    /// The buffer of the queue.
    pub buffer: Option<Size>,
    /// The propagation delay.
    pub delay: Option<Duration>,
    /// How the delay varies.
    pub jitter: Option<JitterSpec>,
    /// How packets are lost.
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission.
    pub arq: Option<Arq>,
}

impl LinkDirection {
    fn options(&self) -> Result<DirectionOptions, Error> {
        Ok(DirectionOptions {
            rates: self.rate.clone(),
            trace: self.trace.as_deref().map(DirectionOptions::read_trace).transpose()?,
            queue: self.queue.clone(),
            buffer: self.buffer,
            delay: self.delay,
            jitter: self.jitter.clone(),
            loss: self.loss.clone(),
            arq: self.arq.clone(),
        })
    }
}

/// A route of one host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The host that has it.
    pub on: String,
    /// Where it leads: a host, a network such as "192.0.2.0/24", or "default".
    pub to: String,
    /// The link that it begins with; that of the shortest path by default, where `to` is a host.
    pub via: Option<String>,
    /// The congestion control of connections over it.
    pub congestion: Option<String>,
}

/// A program in the background.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The host that it runs on.
    pub on: String,
    /// What the shell runs. Its standard output is thrown away unless it says otherwise.
    pub run: String,
    /// The TCP port that it listens on; what comes next waits for it.
    pub listens: Option<u16>,
}

impl Spec {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, where, and what would be right.
    pub fn load(path: &Path) -> Result<Spec, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        Spec::parse(&text, path)
    }

    /// Reads TOML. `path` is for errors, and its folder is where traces and logs are.
    ///
    /// # Errors
    /// What is wrong with it, where, and what would be right.
    pub fn parse(text: &str, path: &Path) -> Result<Spec, Error> {
        let wrong = |message: String| Error::Spec(format!("{}: {}", path.display(), message.trim_end()));
        let mut spec: Spec = toml_edit::de::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (_, link) in &mut spec.link.0 {
            for file in [&mut link.log, &mut link.trace, &mut link.up.trace, &mut link.down.trace] {
                *file = file.as_ref().map(|file| folder.join(file));
            }
        }
        super::plan::Plan::of(&spec).map_err(|error| match error {
            Error::Spec(message) => wrong(message),
            other => other,
        })?;
        Ok(spec)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// The table that a direction may be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "LinkDirection")]
struct LinkDirectionTable {
    rate: Option<Rates>,
    trace: Option<PathBuf>,
    queue: Option<QueueSpec>,
    buffer: Option<Size>,
    delay: Option<Duration>,
    jitter: Option<JitterSpec>,
    loss: Option<LossSpec>,
    arq: Option<Arq>,
}

impl<'de> Deserialize<'de> for LinkDirection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RateOrTable;

        impl<'de> Visitor<'de> for RateOrTable {
            type Value = LinkDirection;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate such as \"10 Mbit/s\", or a table such as { rate = \"10 Mbit/s\", queue = \"codel\" }")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<LinkDirection, E> {
                Ok(LinkDirection { rate: Some(text.parse().map_err(E::custom)?), ..LinkDirection::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LinkDirection, A::Error> {
                LinkDirectionTable::deserialize(MapAccessDeserializer::new(map)).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(RateOrTable)
    }
}
