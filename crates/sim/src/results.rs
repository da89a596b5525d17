//! What a run reports: metrics over time windows, and time series.
//!
//! Units are in the names: `_bps` bit/s, `_s` seconds, `_pkt` packets of one full segment. A value
//! that does not exist (a percentile without samples, the MOS of a bulk transfer) is absent, not
//! zero.

use serde::Serialize;

/// One run of one scenario with one seed.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Run {
    /// Seed of this run.
    pub seed: u64,
    /// Metrics of each window of the scenario, or of the whole run if the scenario names none.
    pub windows: Vec<WindowSummary>,
    /// Work of the simulator for this run.
    pub work: Work,
    /// Samples over time; empty unless the scenario asks for them.
    #[serde(skip)]
    pub series: Series,
}

/// How much work a run was. The numbers are deterministic, unlike the time that the run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Work {
    /// Events that were played.
    pub events: u64,
    /// Data packets that reached their receiver.
    pub delivered_packets: u64,
    /// Packets of any kind offered to a link with a queue.
    pub offered_packets: u64,
}

/// Metrics of one window of time.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WindowSummary {
    /// Name from the scenario, or "run".
    pub name: String,
    /// Start, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// One entry for each link with a queue, in the scenario's order.
    pub links: Vec<LinkSummary>,
    /// One entry for each flow group, in the scenario's order.
    pub groups: Vec<GroupSummary>,
    /// Jain's index over the throughput of all flows; absent with fewer than two flows.
    pub jain: Option<f64>,
    /// Harm against the same run without background groups; absent unless the scenario asks for a
    /// baseline.
    pub harm: Option<HarmSummary>,
}

/// Harm of the background flows to the primary flows, and how much of the spare capacity they
/// used.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HarmSummary {
    /// Harm to each primary group.
    pub groups: Vec<Harm>,
    /// Background throughput over capacity less what the primaries take when alone.
    pub spare_use: Option<f64>,
}

/// Harm to one primary group, from 0 to 1 (Ware et al. 2019). Where more is better: (alone -
/// beside) / alone. Where less is better: (beside - alone) / beside.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct LinkSummary {
    /// Name of the link and direction.
    pub name: String,
    /// Capacity in bit/s; the mean over the window where it varies.
    pub capacity_bps: f64,
    /// Utilisation (η): bits that left the link, headers included, over bits that it could carry.
    pub utilisation: f64,
    /// Dropped over offered packets.
    pub loss: f64,
    /// Packets dropped at the queue or lost on the link.
    pub dropped: u64,
    /// Packets marked CE (RFC 3168).
    pub marked: u64,
    /// Mean queuing delay over that of a full buffer (D_Q). Absent for an unlimited buffer, and
    /// where the rate changes.
    pub queue_fill: Option<f64>,
    /// Mean number of packets in the queue over time.
    pub queue_mean_pkt: f64,
    /// Time that packets spent in the queue.
    pub delay: Option<Percentiles>,
}

/// One flow group.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct GroupSummary {
    /// Name from the scenario.
    pub name: String,
    /// "primary" or "background".
    pub role: String,
    /// Control law with its parameters; absent for datagrams.
    pub law: Option<String>,
    /// Number of flows; of peers, in a swarm.
    pub flows: u32,
    /// Bits that reached receivers in a second, headers and repeated packets included.
    pub throughput_bps: f64,
    /// Bits of the application that reached receivers in a second, each byte once, in order or
    /// not.
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
    /// Dropped over sent packets.
    pub loss: f64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Transfers, or exchanges of request and answer, that were completed.
    pub completed: u64,
    /// Their completion times.
    pub completion: Option<Percentiles>,
    /// Round-trip times as the senders measured them.
    pub rtt: Option<Percentiles>,
    /// One-way delays of data packets by the simulator's clock.
    pub owd: Option<Percentiles>,
    /// Mean window over flows and time, in segments.
    pub cwnd_mean_pkt: Option<f64>,
    /// Mean opinion score of a voice call by the E-model (ITU-T G.107), from 1 to 4.5.
    pub mos: Option<f64>,
    /// What peers of a swarm did; absent for other applications.
    pub swarm: Option<PeerSummary>,
}

/// The peers of one group.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct PeerSummary {
    /// Peers that had arrived by the end of the window and did not have the whole file then.
    pub unfinished: u32,
    /// Bytes of blocks sent.
    pub uploaded_bytes: u64,
    /// Bytes of blocks received.
    pub downloaded_bytes: u64,
    /// Downloaded bytes that the peer had already.
    pub wasted_bytes: u64,
    /// Share ratio: bytes sent over bytes received. Mean over the peers that received any; absent
    /// for seeds.
    pub share_ratio_mean: Option<f64>,
    /// Smallest share ratio.
    pub share_ratio_min: Option<f64>,
    /// Largest share ratio.
    pub share_ratio_max: Option<f64>,
    /// Time in which these peers were interested in a neighbour and not choked by it, over all
    /// time in which they were interested. Summed over neighbours.
    pub served_share: Option<f64>,
    /// Jain's index over the download rates of the peers that completed the file in the window.
    /// Absent with fewer than two.
    pub fairness: Option<f64>,
}

/// A distribution in seconds, from a histogram with 1 % buckets; the mean is exact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
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

/// Samples over time, as columns: row `i` of all columns of a table is one sample.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct FlowSeries {
    /// Seconds since the start.
    pub time_s: Vec<f64>,
    /// Index into `flow_names`.
    pub flow: Vec<u32>,
    /// Congestion window in segments.
    pub cwnd_pkt: Vec<f64>,
    /// Slow-start threshold in segments; infinite where not set.
    pub ssthresh_pkt: Vec<f64>,
    /// Data in flight, in segments.
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
#[non_exhaustive]
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
