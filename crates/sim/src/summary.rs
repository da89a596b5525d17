//! Computes the metrics of a window from the counters.

use crate::books::{GroupCounts, LinkCounts, Snapshot};
use crate::build::Plan;
use crate::flow::Counts;
use crate::results::{GroupSummary, LinkSummary, PeerSummary, WindowSummary};
use crate::scenario::{App, Role, Scenario};
use crate::swarm::{Peer, PeerCounts};
use crate::voice;
use leeway_units::Time;

/// Metrics of each window of `scenario`, or of the whole run if it names none.
pub fn windows(scenario: &Scenario, plan: &Plan) -> Vec<WindowSummary> {
    let end = Time::ZERO + scenario.duration;
    let whole = [("run".to_owned(), Time::ZERO, end)];
    let named = scenario.window.iter().map(|w| (w.name.clone(), w.from.min(end), w.to.min(end)));
    let list: Vec<_> = if scenario.window.is_empty() { whole.to_vec() } else { named.collect() };
    list.into_iter().map(|(name, from, to)| Between::new(plan, from, to).summary(name)).collect()
}

/// The counters between two instants.
struct Between<'a> {
    plan: &'a Plan,
    from: Time,
    to: Time,
    before: &'a Snapshot,
    after: &'a Snapshot,
}

impl<'a> Between<'a> {
    fn new(plan: &'a Plan, from: Time, to: Time) -> Self {
        let at = |time| {
            let found = plan.engine.snapshots.iter().find(|(at, _)| *at == time);
            &found.expect("a snapshot was taken at each edge of a window").1
        };
        Between { plan, from, to, before: at(from), after: at(to) }
    }

    fn seconds(&self) -> f64 {
        (self.to - self.from).secs_f64()
    }

    fn summary(&self, name: String) -> WindowSummary {
        let groups = &self.plan.engine.groups;
        let flows = self.flows_by_group(groups.len());
        let total: u64 = flows.iter().flatten().map(|flow| flow.delivered_bytes).sum();
        let rates: Vec<f64> = flows.iter().flatten().map(|flow| flow.delivered_bytes as f64).collect();
        WindowSummary {
            name,
            from_s: self.from.secs_f64(),
            to_s: self.to.secs_f64(),
            links: (0..self.plan.links.len()).map(|link| self.link(link)).collect(),
            groups: flows.iter().enumerate().map(|(i, flows)| self.group(i, flows, total)).collect(),
            jain: jain(&rates),
            harm: None,
        }
    }

    /// What each flow counted, by group.
    fn flows_by_group(&self, groups: usize) -> Vec<Vec<Counts>> {
        let mut flows = vec![Vec::new(); groups];
        for (index, (flow, after)) in self.plan.engine.flows.iter().zip(&self.after.flows).enumerate() {
            let before = self.before.flows.get(index).copied().unwrap_or_default();
            flows[flow.group as usize].push(after.since(&before));
        }
        flows
    }

    fn link(&self, index: usize) -> LinkSummary {
        let link = &self.plan.links[index];
        let since = |at: usize| self.after.links[at].since(&self.before.links[at]);
        let counts = link.books.clone().map(since).reduce(|sum, one| sum.plus(&one));
        let LinkCounts { offered, dropped, marked, departed_bytes, partial_bytes, wait } =
            counts.unwrap_or_default();
        let bits = link.bits(self.from, self.to);
        let mean_wait = if wait.count() == 0 { 0.0 } else { wait.sum_s() / wait.count() as f64 };
        LinkSummary {
            name: link.name.clone(),
            capacity_bps: ratio(bits, self.seconds()),
            utilisation: ratio((departed_bytes as f64 + partial_bytes) * 8.0, bits),
            loss: ratio(dropped as f64, offered as f64),
            dropped,
            marked,
            queue_fill: link.full.filter(|full| !full.is_zero()).map(|full| mean_wait / full.secs_f64()),
            // Little's law: mean number of packets waiting = their rate x their mean wait.
            queue_mean_pkt: ratio(wait.sum_s(), self.seconds()),
            delay: wait.percentiles(),
        }
    }

    fn group(&self, index: usize, flows: &[Counts], total_bytes: u64) -> GroupSummary {
        let group = &self.plan.engine.groups[index];
        let spec = &group.spec;
        let sum = flows.iter().fold(Counts::default(), |sum, flow| sum.plus(flow));
        let books: GroupCounts = self.after.groups[index].since(&self.before.groups[index]);
        let throughput_bps = ratio(sum.delivered_bytes as f64 * 8.0, self.seconds());
        let first = self.plan.first_link[index].map(|link| &self.plan.links[link]);
        let rates: Vec<f64> = flows.iter().map(|flow| flow.delivered_bytes as f64).collect();
        let is_voice = matches!(spec.app, App::Voice { .. });
        // A peer has many connections, most of them idle. Metrics of single flows would say
        // nothing.
        let is_peer = matches!(spec.app, App::Peer { .. });
        let each = if is_peer { &[] } else { rates.as_slice() };
        let window_s = self.seconds() * flows.len() as f64 * f64::from(group.profile.mss);
        GroupSummary {
            name: spec.name.clone(),
            role: if spec.role == Role::Primary { "primary" } else { "background" }.into(),
            law: (!is_voice).then(|| spec.law.to_string()),
            flows: if is_peer { spec.count } else { flows.len() as u32 },
            throughput_bps,
            goodput_bps: ratio(sum.goodput_bytes as f64 * 8.0, self.seconds()),
            share: (total_bytes > 0).then(|| sum.delivered_bytes as f64 / total_bytes as f64),
            capacity_share: first
                .map(|link| ratio(sum.delivered_bytes as f64 * 8.0, link.bits(self.from, self.to))),
            jain: jain(each),
            slowest_bps: slowest(each).map(|bytes| ratio(bytes * 8.0, self.seconds())),
            sent: sum.sent,
            retransmitted: sum.retransmitted,
            dropped: sum.dropped,
            loss: ratio(sum.dropped as f64, sum.sent as f64),
            timeouts: sum.timeouts,
            completed: books.completion.count(),
            completion: books.completion.percentiles(),
            rtt: books.rtt.percentiles(),
            owd: books.owd.percentiles(),
            cwnd_mean_pkt: (!is_voice && !is_peer && window_s > 0.0).then(|| sum.window_area / window_s),
            mos: match spec.app {
                App::Voice { codec } => voice::mos(codec, sum.sent, &books.owd),
                _ => None,
            },
            swarm: is_peer.then(|| self.peers(index)),
        }
    }

    /// Metrics of the peers of group `index`.
    fn peers(&self, index: usize) -> PeerSummary {
        let peers = self.plan.engine.swarm.iter().flat_map(|swarm| swarm.peers.iter().enumerate());
        let own: Vec<(&Peer, PeerCounts)> = peers
            .filter(|(_, peer)| peer.group as usize == index)
            .map(|(at, peer)| (peer, self.after.peers[at].since(&self.before.peers[at])))
            .collect();
        let sum = own.iter().fold(PeerCounts::default(), |sum, (_, counts)| sum.plus(counts));
        let has_file = |peer: &Peer| peer.is_seed || peer.completed.is_some_and(|at| at <= self.to);
        let ratios: Vec<f64> = own
            .iter()
            .filter(|(_, counts)| counts.downloaded > 0)
            .map(|(_, counts)| counts.uploaded as f64 / counts.downloaded as f64)
            .collect();
        let rates: Vec<f64> = own
            .iter()
            .filter_map(|(peer, _)| Some((peer.completed?, peer.arrived)))
            .filter(|(at, _)| (self.from..=self.to).contains(at))
            .map(|(at, arrived)| 1.0 / (at - arrived).secs_f64())
            .collect();
        let (wanting, served) = (sum.wanting.secs_f64(), sum.served.secs_f64());
        PeerSummary {
            unfinished: own.iter().filter(|(peer, _)| peer.has_arrived(self.to) && !has_file(peer)).count()
                as u32,
            uploaded_bytes: sum.uploaded,
            downloaded_bytes: sum.downloaded,
            wasted_bytes: sum.wasted,
            share_ratio_mean: (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64),
            share_ratio_min: ratios.iter().copied().reduce(f64::min),
            share_ratio_max: ratios.iter().copied().reduce(f64::max),
            served_share: (wanting > 0.0).then(|| served / wanting),
            fairness: jain(&rates),
        }
    }
}

/// Jain's index. `None` for fewer than two values; 1 if all values are zero.
fn jain(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    Some(if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) })
}

/// The smallest of several values. `None` for fewer than two.
fn slowest(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| values.iter().copied().fold(f64::INFINITY, f64::min))
}

/// `a / b`, or 0 if `b` is 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
