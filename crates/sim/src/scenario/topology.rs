//! Topology: links and the channels in their two directions.

use super::specs::droptail;
use leeway_link::{Arq, JitterSpec, LossSpec};
use leeway_queue::QueueSpec;
use leeway_units::{Bytes, Duration, Rate, Size, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Two routers and one link between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// The channel from `left` to `right`, which carries data.
    pub bottleneck: Channel,
    /// The channel from `right` to `left`, which carries ACKs. If absent, the same delay and an
    /// unlimited rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Channel>,
}

impl Dumbbell {
    /// Node of the senders.
    pub const LEFT: &'static str = "left";
    /// Node of the receivers.
    pub const RIGHT: &'static str = "right";
    /// Name of the link.
    pub const LINK: &'static str = "bottleneck";

    /// The dumbbell's link, as one of [`Scenario::links`](super::Scenario::links).
    pub fn to_link(&self) -> Link {
        Link {
            name: Self::LINK.into(),
            count: 1,
            from: Self::LEFT.into(),
            to: Self::RIGHT.into(),
            forward: self.bottleneck.clone(),
            reverse: self.reverse.clone(),
        }
    }
}

/// A link between two nodes. Each direction that has a rate has a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name in tables, charts, events and routes; unique.
    pub name: String,
    /// Number of like links, such as the lines of the homes in a street. Flow i of a group (from
    /// 0) takes link i modulo `count`, so that there are as many nodes at `from`. The report shows
    /// the links as one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Node at one end.
    pub from: String,
    /// Node at the other end.
    pub to: String,
    /// Channel from `from` to `to`.
    pub forward: Channel,
    /// Channel from `to` to `from`. If absent, the same delay and an unlimited rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Channel>,
}

impl Link {
    /// The channel from `to` to `from`, or what holds if it is absent.
    pub fn backward(&self) -> Channel {
        self.reverse.clone().unwrap_or_else(|| Channel::with_delay(self.forward.delay))
    }
}

/// One direction of a link. It has at most one of `rate`, `rates` and `trace`. Without them the
/// rate is unlimited, and there is no queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Constant rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Rate that changes at given times. The first entry is at 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateChange>,
    /// File of delivery opportunities in mahimahi's format: a line with a time in ms for each
    /// opportunity, which carries 1504 bytes. The path starts at the folder of the scenario file.
    /// The trace starts again at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Duration,
    /// Delay that varies from packet to packet: `"uniform:range=5ms"`, `"normal:deviation=2ms,reorder=true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// What the queue holds: `"40 pkt"`, `"150 kB"`, `"1.5 BDP"` or `"unlimited"`. Default: `"1
    /// BDP"`, which is the rate times twice the delay of this channel, rounded up to packets.
    #[serde(default = "one_bdp")]
    pub buffer: Size,
    /// Queue discipline with its parameters, such as `"droptail"` or `"codel:target=5ms"`; see
    /// `leeway queues`.
    #[serde(default = "droptail")]
    pub queue: QueueSpec,
    /// Loss model of the packets that leave the queue: `"random:p=1%"`,
    /// `"gilbert_elliott:p=1%,r=30%"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossSpec>,
    /// Link-layer retransmission (ARQ), which turns loss into delay: `"tries=4,delay=20ms"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arq: Option<Arq>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

fn one_bdp() -> Size {
    Size::Bdp(1_000_000)
}

/// What a queue holds, with a BDP computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferLimit {
    /// This many packets.
    Packets(u32),
    /// This many bytes.
    Bytes(Bytes),
    /// Every packet.
    Unlimited,
}

impl Channel {
    /// A channel with a delay and an unlimited rate.
    pub fn with_delay(delay: Duration) -> Self {
        Channel {
            rate: None,
            rates: Vec::new(),
            trace: None,
            delay,
            jitter: None,
            buffer: one_bdp(),
            queue: droptail(),
            loss: None,
            arq: None,
        }
    }

    /// Whether the rate is limited, so that the channel has a queue.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some() || !self.rates.is_empty() || self.trace.is_some()
    }

    /// Rate at the start. `None` if unlimited, and for a trace, whose file has the rate.
    pub fn initial_rate(&self) -> Option<Rate> {
        self.rate.or_else(|| self.rates.first().map(|change| change.rate))
    }

    /// What the queue holds, in packets of size `packet` at `rate` (see [`Channel::initial_rate`];
    /// for a trace its mean). A BDP is `rate` × 2 × the delay of this channel. A multiple of it is
    /// rounded up to whole packets, at least one.
    pub fn buffer_limit(&self, rate: Rate, packet: Bytes) -> BufferLimit {
        match self.buffer {
            Size::Packets(n) => BufferLimit::Packets(n),
            Size::Bytes(bytes) => BufferLimit::Bytes(bytes),
            Size::Unlimited => BufferLimit::Unlimited,
            Size::Bdp(millionths) => {
                // Saturating, although nothing overflows within the limits of a scenario file (1
                // Tbit/s, 1000 s, 1000 BDP).
                let bits_e15 = u128::from(rate.bits_per_sec())
                    .saturating_mul(2 * u128::from(self.delay.nanos()))
                    .saturating_mul(u128::from(millionths));
                let packet_e15 = u128::from(packet.bits().max(1)) * 1_000_000_000_000_000;
                let packets = bits_e15.div_ceil(packet_e15).max(1);
                BufferLimit::Packets(u32::try_from(packets).unwrap_or(u32::MAX))
            }
        }
    }
}

/// A rate, and when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Time from which the rate holds.
    pub at: Time,
    /// The rate.
    pub rate: Rate,
}
