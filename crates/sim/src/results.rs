//! What a run reports: metrics over time windows, and time series.
//!
//! Units are in the names: `_bps` bits per second, `_s` seconds, `_pkt` packets of one full segment. A value that
//! does not exist (a percentile of nothing, the MOS of a bulk transfer) is absent, not zero.

use serde::Serialize;

/// One run of one scenario with one seed.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Seed of this run.
    pub seed: u64,
    /// Metrics over each window the scenario names; the whole run if it names none.
    pub windows: Vec<WindowSummary>,
    /// What the run cost.
    pub work: Work,
    /// Samples over time, empty unless the scenario asks for them.
    #[serde(skip)]
    pub series: Series,
}

/// How much there was to do: deterministic, unlike the time it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Events played.
    pub events: u64,
    /// Data packets that reached their receiver.
    pub delivered_packets: u64,
    /// Packets of any kind offered to a link with a queue.
    pub offered_packets: u64,
}

/// Metrics between two instants.
#[derive(Debug, Clone, Serialize)]
pub struct WindowSummary {
    /// Name from the scenario, or "run".
    pub name: String,
    /// Start, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// One entry a link with a queue, in the scenario's order.
    pub links: Vec<LinkSummary>,
    /// One entry a flow group, in the scenario's order.
    pub groups: Vec<GroupSummary>,
    /// Jain's index over the throughput of all flows; absent with fewer than two.
    pub jain: Option<f64>,
    /// Against the same run without the background groups, where the scenario asks for a baseline.
    pub harm: Option<HarmSummary>,
}

/// What the background cost the primaries, and what it made of the spare capacity.
#[derive(Debug, Clone, Serialize)]
pub struct HarmSummary {
    /// Per primary group: (name, harm to throughput, to p95 delay, to mean flow completion time), each in
    /// [0, 1] as Ware et al. 2019 define it.
    pub groups: Vec<Harm>,
    /// Background throughput / (capacity x time - what the primaries take alone).
    pub spare_use: Option<f64>,
}

/// Harm to one primary group: (alone - beside)/alone where more is better, (beside - alone)/beside where less is.
#[derive(Debug, Clone, Serialize)]
pub struct Harm {
    /// Name of the primary group.
    pub name: String,
    /// Harm to throughput.
    pub throughput: Option<f64>,
    /// Harm to the 95th percentile of the one-way delay.
    pub delay: Option<f64>,
    /// Harm to the mean flow completion time.
    pub completion: Option<f64>,
}

/// One direction of one link with a queue.
#[derive(Debug, Clone, Serialize)]
pub struct LinkSummary {
    /// Name of the link and direction.
    pub name: String,
    /// Capacity in bits per second (mean over the window where it varies).
    pub capacity_bps: f64,
    /// Bits of all departed packets, headers included, over capacity x time (eta).
    pub utilisation: f64,
    /// Dropped / offered packets.
    pub loss: f64,
    /// Packets dropped at the queue or lost on the link.
    pub dropped: u64,
    /// Packets marked congestion-experienced.
    pub marked: u64,
    /// Mean queuing delay over the delay of a full buffer (D_Q); absent without a limit, and where the rate
    /// changes.
    pub queue_fill: Option<f64>,
    /// Mean queue length in packets, over time.
    pub queue_mean_pkt: f64,
    /// Time in the queue.
    pub delay: Option<Percentiles>,
}

/// One flow group.
#[derive(Debug, Clone, Serialize)]
pub struct GroupSummary {
    /// Name from the scenario.
    pub name: String,
    /// "primary" or "background".
    pub role: String,
    /// Control law with its parameters; absent for datagrams.
    pub law: Option<String>,
    /// Number of flows; of peers, where they are a swarm.
    pub flows: u32,
    /// Bits per second that reached receivers, headers included, retransmissions counted once each time.
    pub throughput_bps: f64,
    /// Application bits per second, each byte once, in order or not.
    pub goodput_bps: f64,
    /// Throughput over the throughput of all groups.
    pub share: Option<f64>,
    /// Throughput over the capacity of the first bottleneck on the path.
    pub capacity_share: Option<f64>,
    /// Jain's index over the flows of this group; absent with fewer than two.
    pub jain: Option<f64>,
    /// Throughput of the slowest flow of this group in bits per second; absent with fewer than two.
    pub slowest_bps: Option<f64>,
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Data packets dropped on the way.
    pub dropped: u64,
    /// dropped / sent.
    pub loss: f64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Transfers (or request/response exchanges) completed.
    pub completed: u64,
    /// Their completion times.
    pub completion: Option<Percentiles>,
    /// Round-trip times as the senders measured them.
    pub rtt: Option<Percentiles>,
    /// True one-way delays of data packets.
    pub owd: Option<Percentiles>,
    /// Mean window over flows and time, in segments.
    pub cwnd_mean_pkt: Option<f64>,
    /// Mean opinion score of voice by the E-model (ITU-T G.107), 1 to 4.5.
    pub mos: Option<f64>,
    /// What peers of a swarm did; absent for other applications.
    pub swarm: Option<PeerSummary>,
}

/// The peers of one group.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PeerSummary {
    /// Peers that had arrived by the end of the window, and did not have the file then.
    pub unfinished: u32,
    /// Bytes of blocks sent.
    pub uploaded_bytes: u64,
    /// Bytes of blocks received.
    pub downloaded_bytes: u64,
    /// Of them bytes that were there already.
    pub wasted_bytes: u64,
    /// Bytes sent over bytes received, the mean over peers that received any; absent for seeds.
    pub share_ratio_mean: Option<f64>,
    /// The least of them.
    pub share_ratio_min: Option<f64>,
    /// The largest of them.
    pub share_ratio_max: Option<f64>,
    /// Of the time in which these peers wanted something of a neighbour, the part in which it served them.
    pub served_share: Option<f64>,
    /// Jain's index over the rates at which those that completed in the window fetched the file; absent with fewer
    /// than two.
    pub fairness: Option<f64>,
}

/// A distribution in seconds, from a histogram with 1 % buckets; the mean is exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 95th percentile.
    pub p95_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Largest.
    pub max_s: f64,
}

/// Samples over time as columns; row `i` of every column of one table belongs together.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Samples of flows.
    pub flows: FlowSeries,
    /// Samples of links.
    pub links: LinkSeries,
    /// Names of the flows: `flow_names[flow]`, "group" or "group.index".
    pub flow_names: Vec<String>,
    /// Names of the links: `link_names[link]`.
    pub link_names: Vec<String>,
}

/// Columns of flow samples.
#[derive(Debug, Clone, Default)]
pub struct FlowSeries {
    /// Seconds since the start.
    pub time_s: Vec<f64>,
    /// Index into `flow_names`.
    pub flow: Vec<u32>,
    /// Congestion window in segments.
    pub cwnd_pkt: Vec<f64>,
    /// Slow-start threshold in segments; infinite where not set.
    pub ssthresh_pkt: Vec<f64>,
    /// Packets in flight (pipe).
    pub inflight_pkt: Vec<f64>,
    /// The law's queuing delay estimate in milliseconds.
    pub queuing_delay_ms: Vec<f64>,
    /// Smoothed round-trip time in milliseconds; zero before the first sample.
    pub srtt_ms: Vec<f64>,
    /// Phase of the law, as `leeway_control::Phase` numbers it.
    pub phase: Vec<u8>,
    /// Bits that reached the receiver since the last sample of this flow, per second.
    pub rate_bps: Vec<f64>,
}

/// Columns of link samples.
#[derive(Debug, Clone, Default)]
pub struct LinkSeries {
    /// Seconds since the start.
    pub time_s: Vec<f64>,
    /// Index into `link_names`.
    pub link: Vec<u32>,
    /// Packets in the queue.
    pub queue_pkt: Vec<u32>,
    /// Bytes in the queue.
    pub queue_bytes: Vec<u64>,
    /// Bits departed since the last sample, per second.
    pub rate_bps: Vec<f64>,
    /// Packets dropped since the last sample.
    pub dropped: Vec<u64>,
}
