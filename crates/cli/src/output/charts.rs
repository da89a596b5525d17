//! Series as lines of a chart: on one time axis, thinned out to what a screen shows.

use leeway_sim::results::Series;
use leeway_sim::scenario::Scenario;
use serde::Serialize;
use std::collections::BTreeMap;

/// Pairs of points (smallest and largest) along the time axis; series with fewer samples are kept whole.
const BUCKETS: usize = 2_000;
/// Flows of a group that are drawn one by one; larger groups are drawn as one line.
const FLOWS_OF_A_GROUP: usize = 4;
/// Lines of flows altogether.
const FLOW_LINES: usize = 12;

/// Everything to draw for one run.
#[derive(Debug, Serialize)]
pub struct Charts {
    /// Seed of the run that is shown.
    pub seed: u64,
    /// The time axis, in seconds.
    pub time_s: Vec<f64>,
    /// Lines of the flows.
    pub flows: Vec<FlowLines>,
    /// Sum of all windows, in packets.
    pub window_sum: Line,
    /// Lines of the links.
    pub links: Vec<LinkLines>,
}

/// Values along the time axis; `None` where there is nothing yet.
type Line = Vec<Option<f64>>;

/// One flow, or one group of many.
#[derive(Debug, Serialize)]
pub struct FlowLines {
    /// Name of the flow, or of the group with its size.
    pub name: String,
    /// Whether the group is in the background.
    pub background: bool,
    /// Congestion window in packets, the mean of a group.
    pub cwnd_pkt: Line,
    /// Slow-start threshold in packets, the mean of a group; nothing where it is not set.
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

/// The charts of a run; nothing if it recorded nothing.
pub fn charts(scenario: &Scenario, seed: u64, series: &Series) -> Option<Charts> {
    let axis = Axis::of(series)?;
    let (lines_of, mut lines) = assign(scenario, &series.flow_names);
    let mut sum = Combined::new(&axis, series.flow_names.len(), false);
    let flows = &series.flows;
    let value = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(f64::NAN);
    let mut builders: Vec<[Combined; 5]> = lines
        .iter()
        .map(|line| [true, true, true, true, false].map(|mean| Combined::new(&axis, line.1, mean)))
        .collect();
    for (row, (&time, &flow)) in flows.time_s.iter().zip(&flows.flow).enumerate() {
        let Some(&(line, place)) = lines_of.get(flow as usize) else { continue };
        sum.push(time, flow as usize, value(&flows.cwnd_pkt, row));
        let columns =
            [&flows.cwnd_pkt, &flows.ssthresh_pkt, &flows.queuing_delay_ms, &flows.srtt_ms, &flows.rate_bps];
        for (builder, column) in builders[line].iter_mut().zip(columns) {
            builder.push(time, place, value(column, row));
        }
    }
    let flows = lines.drain(..).zip(builders).map(|((name, _, background), builders)| {
        let [cwnd_pkt, ssthresh_pkt, delay_ms, srtt_ms, rate_bps] = builders.map(Combined::finish);
        FlowLines { name, background, cwnd_pkt, ssthresh_pkt, delay_ms, srtt_ms, rate_bps }
    });
    let flows: Vec<FlowLines> =
        flows.filter(|lines| lines.cwnd_pkt.iter().flatten().next().is_some()).collect();
    let links = link_lines(series, &axis);
    Some(Charts { seed, window_sum: sum.finish(), flows, links, time_s: axis.times() })
}

fn link_lines(series: &Series, axis: &Axis) -> Vec<LinkLines> {
    let links = &series.links;
    let mut builders: Vec<[Builder; 2]> =
        series.link_names.iter().map(|_| [Builder::new(axis), Builder::new(axis)]).collect();
    for (row, (&time, &link)) in links.time_s.iter().zip(&links.link).enumerate() {
        let Some([queue, rate]) = builders.get_mut(link as usize) else { continue };
        queue.push(time, links.queue_pkt.get(row).map_or(f64::NAN, |&n| f64::from(n)));
        rate.push(time, links.rate_bps.get(row).copied().unwrap_or(f64::NAN));
    }
    let named = series.link_names.iter().zip(builders);
    named
        .map(|(name, [queue, rate])| LinkLines {
            name: name.clone(),
            queue_pkt: queue.finish(),
            rate_bps: rate.finish(),
        })
        .collect()
}

/// For each flow the line it is drawn in and its place there; for each line its name, its number of flows and whether
/// it is in the background.
type Assignment = (Vec<(usize, usize)>, Vec<(String, usize, bool)>);

fn assign(scenario: &Scenario, names: &[String]) -> Assignment {
    let group_of = |name: &str| name.split('.').next().unwrap_or("").to_owned();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *sizes.entry(group_of(name)).or_default() += 1;
    }
    let crowded = names.len() > FLOW_LINES;
    let mut lines: Vec<(String, usize, bool)> = Vec::new();
    let mut line_of_group: BTreeMap<String, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for name in names {
        let group = group_of(name);
        let size = sizes[&group];
        let background = scenario.flow.iter().any(|g| g.name == group && !g.role.is_primary());
        let together = size > FLOWS_OF_A_GROUP || (crowded && size > 1);
        let line = match (together, line_of_group.get(&group)) {
            (true, Some(&line)) => {
                lines[line].1 += 1;
                line
            }
            (true, None) => {
                lines.push((format!("{group} ({size} flows)"), 1, background));
                line_of_group.insert(group, lines.len() - 1);
                lines.len() - 1
            }
            (false, _) => {
                lines.push((name.clone(), 1, background));
                lines.len() - 1
            }
        };
        places.push((line, lines[line].1 - 1));
    }
    (places, lines)
}

/// The common time axis.
enum Axis {
    /// Every instant of a sample.
    Whole(Vec<f64>),
    /// Buckets of equal width.
    Buckets { start: f64, width: f64 },
}

impl Axis {
    fn of(series: &Series) -> Option<Axis> {
        let mut times: Vec<f64> = series.flows.time_s.iter().chain(&series.links.time_s).copied().collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let (&first, &last) = times.first().zip(times.last())?;
        Some(match times.len() <= 2 * BUCKETS {
            true => Axis::Whole(times),
            false => Axis::Buckets { start: first, width: (last - first) / BUCKETS as f64 },
        })
    }

    /// Where a sample belongs; samples come in order of time, so the search begins at the last place.
    fn place(&self, time: f64, after: usize) -> usize {
        match self {
            Axis::Whole(times) => after + times[after..].partition_point(|&t| t < time),
            Axis::Buckets { start, width } => (((time - start) / width) as usize).min(BUCKETS - 1).max(after),
        }
    }

    fn times(&self) -> Vec<f64> {
        let rounded = |t: f64| (t * 1e6).round() / 1e6;
        match self {
            Axis::Whole(times) => times.iter().copied().map(rounded).collect(),
            Axis::Buckets { start, width } => {
                (0..2 * BUCKETS).map(|i| rounded(start + width * i as f64 / 2.0)).collect()
            }
        }
    }
}

/// One line being built.
struct Builder<'a> {
    axis: &'a Axis,
    place: usize,
    /// First, smallest and largest value here, and whether the smallest came before the largest.
    here: Option<(f64, f64, bool)>,
    last: Option<f64>,
    line: Line,
}

impl<'a> Builder<'a> {
    fn new(axis: &'a Axis) -> Self {
        Builder { axis, place: 0, here: None, last: None, line: Vec::new() }
    }

    fn push(&mut self, time: f64, value: f64) {
        let place = self.axis.place(time, self.place);
        while self.place < place {
            self.close();
        }
        let value = Some(value).filter(|v| v.is_finite());
        self.last = value;
        let Some(v) = value else { return };
        self.here = Some(match (self.axis, self.here) {
            (Axis::Whole(_), _) | (_, None) => (v, v, true),
            (_, Some((min, max, _))) if v < min => (v, max, false),
            (_, Some((min, max, _))) if v > max => (min, v, true),
            (_, Some(here)) => here,
        });
    }

    /// Ends a place: what was seen there, or what still holds from before.
    fn close(&mut self) {
        let (first, second) = match self.here.take() {
            Some((min, max, true)) => (Some(min), Some(max)),
            Some((min, max, false)) => (Some(max), Some(min)),
            None => (self.last, self.last),
        };
        self.line.push(first.map(short));
        if matches!(self.axis, Axis::Buckets { .. }) {
            self.line.push(second.map(short));
        }
        self.place += 1;
    }

    fn finish(mut self) -> Line {
        let places = match self.axis {
            Axis::Whole(times) => times.len(),
            Axis::Buckets { .. } => BUCKETS,
        };
        while self.place < places {
            self.close();
        }
        self.line
    }
}

/// Four significant digits: a screen shows no more.
fn short(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let short = (value * scale).round() / scale;
    if short.is_finite() { short } else { value }
}

/// The mean or the sum of several flows, of which each sample brings one.
struct Combined<'a> {
    line: Builder<'a>,
    latest: Vec<f64>,
    known: usize,
    sum: f64,
    mean: bool,
    pending: Option<f64>,
}

impl<'a> Combined<'a> {
    fn new(axis: &'a Axis, flows: usize, mean: bool) -> Self {
        let latest = vec![f64::NAN; flows];
        Combined { line: Builder::new(axis), latest, known: 0, sum: 0.0, mean, pending: None }
    }

    fn push(&mut self, time: f64, flow: usize, value: f64) {
        if self.pending.is_some_and(|pending| pending < time) {
            self.settle();
        }
        self.pending = Some(time);
        let Some(latest) = self.latest.get_mut(flow) else { return };
        let before = std::mem::replace(latest, value);
        if before.is_finite() {
            self.sum -= before;
            self.known -= 1;
        }
        if value.is_finite() {
            self.sum += value;
            self.known += 1;
        }
    }

    /// All samples of an instant are there.
    fn settle(&mut self) {
        let Some(time) = self.pending.take() else { return };
        let value = match (self.known, self.mean) {
            (0, _) => f64::NAN,
            (1, _) if self.latest.len() == 1 => self.latest[0],
            (known, true) => self.sum / known as f64,
            (_, false) => self.sum,
        };
        self.line.push(time, value);
    }

    fn finish(mut self) -> Line {
        self.settle();
        self.line.finish()
    }
}
