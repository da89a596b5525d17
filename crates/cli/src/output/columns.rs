//! The metrics of tables and summaries: each with its key, heading, unit and the function that
//! reads it.

use leeway_sim::results::{GroupSummary, LinkSummary, Percentiles, WindowSummary};

/// The kind of a number, which decides how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    Rate,
    /// A share from 0 to 1, printed in per cent.
    Share,
    /// A plain number.
    Number,
    /// A count of things.
    Count,
    /// Packets.
    Packets,
    /// Seconds.
    Time,
}

/// One metric of a `T`.
pub struct Column<T: 'static> {
    /// Name in JSON, with its unit.
    pub key: &'static str,
    /// Heading in tables.
    pub heading: &'static str,
    /// How the value is printed.
    pub unit: Unit,
    /// When tables show the column. JSON has all columns.
    pub shown: Shown,
    /// Reads the value.
    pub of: fn(&T) -> Option<f64>,
}

/// When a table shows a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// If some row has a value.
    Always,
    /// If some row has a value other than zero.
    Nonzero,
    /// Only in JSON.
    Never,
}

const fn column<T>(
    key: &'static str,
    heading: &'static str,
    unit: Unit,
    shown: Shown,
    of: fn(&T) -> Option<f64>,
) -> Column<T> {
    Column { key, heading, unit, shown, of }
}

fn p(percentiles: &Option<Percentiles>, of: fn(&Percentiles) -> f64) -> Option<f64> {
    percentiles.as_ref().map(of)
}

use Shown::{Always, Never, Nonzero};

/// Metrics of a link direction.
pub const LINK: &[Column<LinkSummary>] = &[
    column("capacity_bps", "capacity", Unit::Rate, Always, |l| Some(l.capacity_bps)),
    column("utilisation", "used", Unit::Share, Always, |l| Some(l.utilisation)),
    column("loss", "loss", Unit::Share, Always, |l| Some(l.loss)),
    column("dropped", "dropped", Unit::Count, Never, |l| Some(l.dropped as f64)),
    column("marked", "marked", Unit::Count, Nonzero, |l| Some(l.marked as f64)),
    column("queue_mean_pkt", "queue", Unit::Packets, Always, |l| Some(l.queue_mean_pkt)),
    column("queue_fill", "D_Q", Unit::Share, Always, |l| l.queue_fill),
    column("delay_mean_s", "delay mean", Unit::Time, Never, |l| p(&l.delay, |d| d.mean_s)),
    column("delay_p50_s", "delay p50", Unit::Time, Always, |l| p(&l.delay, |d| d.p50_s)),
    column("delay_p95_s", "delay p95", Unit::Time, Always, |l| p(&l.delay, |d| d.p95_s)),
    column("delay_p99_s", "p99", Unit::Time, Never, |l| p(&l.delay, |d| d.p99_s)),
];

/// Metrics of a flow group.
pub const GROUP: &[Column<GroupSummary>] = &[
    column("throughput_bps", "throughput", Unit::Rate, Always, |g| Some(g.throughput_bps)),
    column("goodput_bps", "goodput", Unit::Rate, Never, |g| Some(g.goodput_bps)),
    column("share", "share", Unit::Share, Always, |g| g.share),
    column("capacity_share", "of capacity", Unit::Share, Never, |g| g.capacity_share),
    column("jain", "Jain", Unit::Number, Always, |g| g.jain),
    column("slowest_bps", "slowest flow", Unit::Rate, Never, |g| g.slowest_bps),
    column("sent", "sent", Unit::Count, Never, |g| Some(g.sent as f64)),
    column("retransmitted", "retrans.", Unit::Count, Nonzero, |g| Some(g.retransmitted as f64)),
    column("dropped", "dropped", Unit::Count, Never, |g| Some(g.dropped as f64)),
    column("loss", "loss", Unit::Share, Always, |g| Some(g.loss)),
    column("timeouts", "timeouts", Unit::Count, Nonzero, |g| Some(g.timeouts as f64)),
    column("cwnd_mean_pkt", "window", Unit::Packets, Always, |g| g.cwnd_mean_pkt),
    column("rtt_mean_s", "RTT mean", Unit::Time, Never, |g| p(&g.rtt, |d| d.mean_s)),
    column("rtt_p50_s", "RTT p50", Unit::Time, Always, |g| p(&g.rtt, |d| d.p50_s)),
    column("rtt_p95_s", "RTT p95", Unit::Time, Always, |g| p(&g.rtt, |d| d.p95_s)),
    column("owd_p50_s", "OWD p50", Unit::Time, Never, |g| p(&g.owd, |d| d.p50_s)),
    column("owd_p95_s", "OWD p95", Unit::Time, Never, |g| p(&g.owd, |d| d.p95_s)),
    column("completed", "done", Unit::Count, Nonzero, |g| Some(g.completed as f64)),
    column("completion_mean_s", "took", Unit::Time, Always, |g| p(&g.completion, |d| d.mean_s)),
    column("completion_p95_s", "took p95", Unit::Time, Always, |g| p(&g.completion, |d| d.p95_s)),
    column("mos", "MOS", Unit::Number, Always, |g| g.mos),
    column("share_ratio", "share ratio", Unit::Number, Always, |g| g.swarm?.share_ratio_mean),
    column("served_share", "served", Unit::Share, Always, |g| g.swarm?.served_share),
    column("unfinished", "unfinished", Unit::Count, Nonzero, |g| Some(f64::from(g.swarm?.unfinished))),
];

/// Metrics of all flows together.
pub const OVERALL: &[Column<WindowSummary>] = &[
    column("jain", "Jain of all flows", Unit::Number, Always, |w| w.jain),
    column("spare_use", "spare capacity used", Unit::Share, Always, |w| {
        w.harm.as_ref().and_then(|h| h.spare_use)
    }),
];

/// One kind of harm to a group: key, heading and value.
pub type HarmColumn = (&'static str, &'static str, fn(&leeway_sim::results::Harm) -> Option<f64>);

/// Harm of the background to a primary group.
pub const HARM: &[HarmColumn] = &[
    ("harm_throughput", "harm to rate", |h| h.throughput),
    ("harm_delay", "to delay", |h| h.delay),
    ("harm_completion", "to time", |h| h.completion),
];
