//! Turns recorded series into lines of charts: on one time axis, with no more points than a screen
//! can show.

use super::lines::{Axis, Builder, Combined, Line, RateBuilder};
use leeway_sim::results::Series;
use leeway_sim::scenario::{App, Scenario};
use serde::Serialize;
use std::collections::BTreeMap;

/// The largest group whose flows are drawn one by one. A larger group is drawn as one line.
const FLOWS_OF_A_GROUP: usize = 4;
/// The most flows that are drawn one by one. With more, every group of several flows is drawn as
/// one line.
const FLOW_LINES: usize = 12;

/// All lines of one run.
#[derive(Debug, Serialize)]
pub struct Charts {
    /// Seed of the run that is shown.
    pub seed: u64,
    /// The time axis, in seconds.
    pub time_s: Vec<f64>,
    /// The time over which rates are means, in seconds.
    pub rate_over_s: f64,
    /// Lines of the flows.
    pub flows: Vec<FlowLines>,
    /// Sum of all windows, in packets.
    pub window_sum: Line,
    /// Lines of the links.
    pub links: Vec<LinkLines>,
}

/// One flow, or one group of many.
#[derive(Debug, Serialize)]
pub struct FlowLines {
    /// Name of the flow, or of the group with its size.
    pub name: String,
    /// Whether the group is in the background.
    pub background: bool,
    /// Congestion window in packets, the mean of a group.
    pub cwnd_pkt: Line,
    /// Slow-start threshold in packets, the mean of a group; `None` where it is not set.
    pub ssthresh_pkt: Line,
    /// The law's queuing delay estimate, the mean of a group.
    pub delay_ms: Line,
    /// Smoothed RTT, the mean of a group.
    pub srtt_ms: Line,
    /// Rate at the receiver, the sum of a group.
    pub rate_bps: Line,
}

/// One link direction.
#[derive(Debug, Serialize)]
pub struct LinkLines {
    /// Name of the link and direction.
    pub name: String,
    /// Packets in the queue.
    pub queue_pkt: Line,
    /// Bits per second that departed.
    pub rate_bps: Line,
}

/// The charts of a run; `None` if the run recorded no samples.
pub fn charts(scenario: &Scenario, seed: u64, series: &Series) -> Option<Charts> {
    let axis = Axis::of(series)?;
    let (lines_of, lines) = assign(scenario, &series.flow_names);
    let mut sum = Combined::new(&axis, series.flow_names.len(), false);
    let flows = &series.flows;
    let value = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(f64::NAN);
    let mut builders: Vec<([Combined; 4], RateBuilder)> = lines
        .iter()
        .map(|line| {
            ([(); 4].map(|()| Combined::new(&axis, line.flows, true)), RateBuilder::new(&axis, line.flows))
        })
        .collect();
    for (row, (&time, &flow)) in flows.time_s.iter().zip(&flows.flow).enumerate() {
        let Some(&(line, place)) = lines_of.get(flow as usize) else { continue };
        let (builders, rate) = &mut builders[line];
        rate.push(time, place, value(&flows.rate_bps, row));
        if lines[line].datagrams {
            continue;
        }
        sum.push(time, flow as usize, value(&flows.cwnd_pkt, row));
        let columns = [&flows.cwnd_pkt, &flows.ssthresh_pkt, &flows.queuing_delay_ms, &flows.srtt_ms];
        for (builder, column) in builders.iter_mut().zip(columns) {
            builder.push(time, place, value(column, row));
        }
    }
    let flows = lines.into_iter().zip(builders).map(|(Drawn { name, background, .. }, (builders, rate))| {
        let [cwnd_pkt, ssthresh_pkt, delay_ms, srtt_ms] = builders.map(Combined::finish);
        FlowLines { name, background, cwnd_pkt, ssthresh_pkt, delay_ms, srtt_ms, rate_bps: rate.finish() }
    });
    let flows: Vec<FlowLines> =
        flows.filter(|lines| lines.rate_bps.iter().flatten().next().is_some()).collect();
    let links = link_lines(series, &axis);
    Some(Charts {
        seed,
        window_sum: sum.finish(),
        flows,
        links,
        rate_over_s: axis.rate_bin(),
        time_s: axis.times(),
    })
}

fn link_lines(series: &Series, axis: &Axis) -> Vec<LinkLines> {
    let links = &series.links;
    let mut builders: Vec<(Builder, RateBuilder)> =
        series.link_names.iter().map(|_| (Builder::new(axis), RateBuilder::new(axis, 1))).collect();
    for (row, (&time, &link)) in links.time_s.iter().zip(&links.link).enumerate() {
        let Some((queue, rate)) = builders.get_mut(link as usize) else { continue };
        queue.push(time, links.queue_pkt.get(row).map_or(f64::NAN, |&n| f64::from(n)));
        rate.push(time, 0, links.rate_bps.get(row).copied().unwrap_or(f64::NAN));
    }
    let named = series.link_names.iter().zip(builders);
    named
        .map(|(name, (queue, rate))| LinkLines {
            name: name.clone(),
            queue_pkt: queue.finish(),
            rate_bps: rate.finish(),
        })
        .collect()
}

/// A line to draw, and the flows in it.
struct Drawn {
    name: String,
    flows: usize,
    background: bool,
    /// The flow sends datagrams, which have neither a window nor a delay estimate.
    datagrams: bool,
}

/// For each flow, the index of its line and its place in that line; and the lines.
fn assign(scenario: &Scenario, names: &[String]) -> (Vec<(usize, usize)>, Vec<Drawn>) {
    let group_of = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *sizes.entry(group_of(name)).or_default() += 1;
    }
    let crowded = names.len() > FLOW_LINES;
    let mut lines: Vec<Drawn> = Vec::new();
    let mut line_of_group: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for flow in names {
        let group = group_of(flow);
        let size = sizes[&group];
        let together = size > FLOWS_OF_A_GROUP || (crowded && size > 1);
        let line = match line_of_group.get(&group) {
            Some(&line) if together => line,
            _ => {
                let name = if together { format!("{group} ({size} flows)") } else { flow.clone() };
                let written = scenario.flow.iter().find(|written| written.name == group);
                let background = written.is_some_and(|written| !written.role.is_primary());
                let datagrams = written.is_some_and(|written| matches!(written.app, App::Voice { .. }));
                lines.push(Drawn { name, flows: 0, background, datagrams });
                line_of_group.insert(group, lines.len() - 1);
                lines.len() - 1
            }
        };
        places.push((line, lines[line].flows));
        lines[line].flows += 1;
    }
    (places, lines)
}
