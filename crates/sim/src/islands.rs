//! Islands: groups of flows that share nothing with other groups. Each thread plays some islands.
//!
//! Two groups belong to one island if their routes share a link in any direction, or if one
//! gateway is on the path of both. Groups whose connections begin during the run (arrivals, peers)
//! belong to one island too: such connections are numbered in the order in which they begin, and
//! seeds and fair queues depend on the number.
//!
//! Each thread builds the whole run, and starts only the groups of its islands. So flows, links
//! and seeds have the same numbers as on one thread. A thread counts zero for the other islands,
//! so the counters of the run are the sums over the threads.
//!
//! Scope and limitations: a series of every event is recorded on one thread. Its rows of one
//! instant are in the order of events, and events on different threads have no common order.

use crate::SimError;
use crate::build::{self, Plan};
use crate::engine::{Engine, Timer};
use crate::results::{FlowSeries, LinkSeries, Series};
use crate::scenario::{App, FlowGroup, Hop, Sampling, Scenario};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between two calls of `cancelled`.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// What two groups of one island have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    Link(usize),
    Gateway(usize),
    /// The numbering of connections that begin during the run.
    Numbers,
}

/// The part of a run that one thread plays: some islands.
#[derive(Debug, Clone)]
struct Share {
    /// For each group of the scenario whether this thread plays it.
    groups: Vec<bool>,
    /// For each link of the scenario whether this thread records its time series.
    links: Vec<bool>,
    flows: u64,
}

/// Plays `scenario` with `seed` on at most `threads` threads. Returns the run after its end.
///
/// # Errors
/// Those of [`build::plan`], and [`SimError::Cancelled`].
pub fn play(
    scenario: &Scenario,
    seed: u64,
    threads: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Plan, SimError> {
    let shares = shares(scenario, threads);
    if shares.len() < 2 {
        let plan = build::plan(scenario, seed)?;
        return to_the_end(plan, cancelled);
    }
    let stop = AtomicBool::new(false);
    let (done, finished) = mpsc::channel();
    let played = std::thread::scope(|scope| {
        for (index, share) in shares.iter().enumerate() {
            let (done, stop) = (done.clone(), &stop);
            scope.spawn(move || {
                let plan = share.play(scenario, seed, &|| stop.load(Ordering::Relaxed));
                let _ = done.send((index, plan)); // the receiver outlives this thread
            });
        }
        drop(done);
        let mut played = BTreeMap::new();
        loop {
            match finished.recv_timeout(ASK_EVERY) {
                Ok((index, plan)) => drop(played.insert(index, plan)),
                Err(RecvTimeoutError::Disconnected) => return played,
                // the run was cancelled before
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {}
                Err(RecvTimeoutError::Timeout) => stop.store(cancelled(), Ordering::Relaxed),
            }
        }
    });
    let mut plans = played.into_values();
    let mut whole = plans.next().expect("there are several shares")?;
    for plan in plans {
        add(&mut whole.engine, plan?.engine);
    }
    Ok(whole)
}

/// Plays `plan` on this thread.
fn to_the_end(mut plan: Plan, cancelled: &dyn Fn() -> bool) -> Result<Plan, SimError> {
    match plan.engine.play(cancelled) {
        true => Ok(plan),
        false => Err(SimError::Cancelled),
    }
}

/// Distributes the islands of `scenario` over at most `threads` threads, so that each has about as
/// many flows. The first thread has all connections that begin during the run.
fn shares(scenario: &Scenario, threads: usize) -> Vec<Share> {
    let links = scenario.links();
    let every_event = scenario.series.is_some_and(|series| series.every == Sampling::Event);
    if threads < 2 || links.len() < 2 || scenario.flow.len() < 2 || every_event {
        return Vec::new();
    }
    let Ok(routes) = scenario.routes(&links) else { return Vec::new() };
    let mut islands = islands(scenario, &routes);
    let flows = |groups: &[usize]| groups.iter().map(|&at| u64::from(scenario.flow[at].count)).sum::<u64>();
    let numbers = |groups: &[usize]| groups.iter().any(|&at| makes_connections(&scenario.flow[at]));
    islands.sort_by_key(|groups| (!numbers(groups), Reverse(flows(groups))));
    let none = Share { groups: vec![false; routes.len()], links: vec![false; links.len()], flows: 0 };
    let mut shares = vec![none; threads.min(islands.len())];
    for groups in islands {
        let Some(share) = shares.iter_mut().min_by_key(|share| share.flows) else { break };
        share.flows += flows(&groups);
        for group in groups {
            share.groups[group] = true;
            routes[group].iter().for_each(|hop| share.links[hop.link] = true);
        }
    }
    for link in 0..links.len() {
        if !shares.iter().any(|share| share.links[link]) {
            shares[0].links[link] = true; // no flow uses this link
        }
    }
    shares
}

/// The groups of each island.
fn islands(scenario: &Scenario, routes: &[Vec<Hop>]) -> Vec<Vec<usize>> {
    let mut island: Vec<usize> = (0..routes.len()).collect();
    let mut first = BTreeMap::new();
    for (group, (spec, hops)) in scenario.flow.iter().zip(routes).enumerate() {
        let links = hops.iter().map(|hop| Shared::Link(hop.link));
        let gateway = scenario.gateway_of(spec).map(|(index, _)| Shared::Gateway(index));
        let numbers = makes_connections(spec).then_some(Shared::Numbers);
        for shared in links.chain(gateway).chain(numbers) {
            let (old, new) = (island[group], island[*first.entry(shared).or_insert(group)]);
            if old != new {
                island[..=group].iter_mut().filter(|island| **island == old).for_each(|island| *island = new);
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (group, island) in island.into_iter().enumerate() {
        groups.entry(island).or_default().push(group);
    }
    groups.into_values().collect()
}

/// Whether connections of `group` begin during the run.
fn makes_connections(group: &FlowGroup) -> bool {
    matches!(group.app, App::Poisson { .. } | App::Peer { .. })
}

impl Share {
    /// Plays a run in which only the groups of this share start.
    fn play(&self, scenario: &Scenario, seed: u64, cancelled: &dyn Fn() -> bool) -> Result<Plan, SimError> {
        let mut plan = build::plan(scenario, seed)?;
        let Engine { world, flows, swarm, .. } = &mut plan.engine;
        world.timers.retain(|timer| {
            let group = match timer {
                Timer::App(flow) | Timer::Stop(flow) => flows[flow as usize].group,
                Timer::Arrival(group, _) => group,
                Timer::Peer(peer, _) => swarm.as_ref().map_or(0, |swarm| swarm.peers[peer as usize].group),
                _ => return true,
            };
            self.groups[group as usize]
        });
        if let Some(recorder) = &mut world.books.recorder {
            recorder.omitted = vec![false; world.books.reported_links];
            for link in plan.links.iter().filter(|link| !self.links[link.index]) {
                recorder.omitted[link.books.clone()].fill(true);
            }
        }
        to_the_end(plan, cancelled)
    }
}

/// Adds the counters and series of another thread's run.
fn add(whole: &mut Engine, part: Engine) {
    // Every thread plays the timers of `set_up_clockwork`. The run counts them once.
    let changes = whole.events.iter().filter(|(event, _)| event.at <= whole.end).count();
    let every = whole.world.books.recorder.as_ref().and_then(|recorder| recorder.every);
    let samples = every.map_or(0, |every| whole.end.nanos() / every.nanos().max(1) + 1);
    let clockwork = (whole.snapshots.len() + changes) as u64 + samples;
    whole.work.events += part.work.events - clockwork;
    whole.work.delivered_packets += part.work.delivered_packets;
    whole.work.offered_packets += part.work.offered_packets;
    for ((_, own), (_, more)) in whole.snapshots.iter_mut().zip(&part.snapshots) {
        own.merge(more);
    }
    if let (Some(own), Some(more)) = (&mut whole.world.books.recorder, part.world.books.recorder) {
        join(&mut own.series, more.series);
    }
}

/// Merges the rows of two tables by time, and then by flow or link.
macro_rules! joined {
    ($own:expr, $more:expr, $kind:ident by $key:ident { $($column:ident),+ }) => {{
        let (own, more): ($kind, $kind) = ($own, $more);
        let turns = turns([(&own.time_s, &own.$key), (&more.time_s, &more.$key)]);
        $kind { $($column: in_turn(&turns, own.$column, more.$column)),+ }
    }};
}

/// Adds the rows of the flows and links that another thread recorded.
fn join(own: &mut Series, more: Series) {
    own.flows = joined!(take(&mut own.flows), more.flows, FlowSeries by flow {
        time_s, flow, cwnd_pkt, ssthresh_pkt, inflight_pkt, queuing_delay_ms, srtt_ms, phase, rate_bps
    });
    own.links = joined!(take(&mut own.links), more.links, LinkSeries by link {
        time_s, link, queue_pkt, queue_bytes, rate_bps, dropped
    });
}

/// For each row of the merged table whether it comes from the second table.
fn turns(tables: [(&[f64], &[u32]); 2]) -> Vec<bool> {
    let [mut own, mut more] = tables.map(|(times, keys)| times.iter().zip(keys).peekable());
    let next = || {
        let is_more = match (own.peek(), more.peek()) {
            (Some(own), Some(more)) => more < own,
            (None, None) => return None,
            (own, _) => own.is_none(),
        };
        if is_more { more.next() } else { own.next() }.map(|_| is_more)
    };
    std::iter::from_fn(next).collect()
}

fn in_turn<T>(turns: &[bool], own: Vec<T>, more: Vec<T>) -> Vec<T> {
    let (mut own, mut more) = (own.into_iter(), more.into_iter());
    turns.iter().filter_map(|&is_more| if is_more { more.next() } else { own.next() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario of `count` separate links, each with one flow group. `groups` adds lines to each
    /// group, `rest` to the scenario.
    fn lines(count: usize, groups: &[&str], rest: &str) -> Scenario {
        let mut text = format!("duration = \"1 s\"\n{rest}\n");
        for i in 0..count {
            let group = groups.get(i).copied().unwrap_or_default();
            text += &format!(
                "[[link]]\nname = \"l{i}\"\nfrom = \"a{i}\"\nto = \"b{i}\"\n\
                 forward = {{ rate = \"1 Mbit/s\", delay = \"1 ms\" }}\n\
                 [[flow]]\nname = \"f{i}\"\nfrom = \"a{i}\"\nto = \"b{i}\"\n{group}\n"
            );
        }
        Scenario::parse(&text, "lines.toml").unwrap()
    }

    /// The groups that each thread plays.
    fn dealt(scenario: &Scenario, threads: usize) -> Vec<Vec<usize>> {
        let groups = |share: &Share| (0..share.groups.len()).filter(|&group| share.groups[group]).collect();
        shares(scenario, threads).iter().map(groups).collect()
    }

    #[test]
    fn groups_without_a_common_link_are_dealt_out_by_their_flows() {
        let scenario = lines(4, &["count = 2", "count = 9", "count = 3", "count = 4"], "");
        assert_eq!(dealt(&scenario, 8), [vec![1], vec![3], vec![2], vec![0]]);
        assert_eq!(dealt(&scenario, 2), [vec![1], vec![0, 2, 3]]);
        assert!(dealt(&scenario, 1).is_empty());
    }

    #[test]
    fn a_link_in_the_other_direction_and_a_gateway_are_common() {
        let mut scenario = lines(4, &[], "[[gateway]]\nname = \"g\"\nnode = \"b1\"");
        let back = scenario.flow[0].clone();
        let (from, to) = (back.to.clone(), back.from.clone());
        scenario.flow.push(FlowGroup { from, to, ..back });
        let bridge = crate::scenario::Link { from: "c".into(), to: "b1".into(), ..scenario.link[2].clone() };
        scenario.link[2] = bridge;
        scenario.flow[2] =
            FlowGroup { from: Some("c".into()), to: Some("b1".into()), ..scenario.flow[2].clone() };
        assert_eq!(dealt(&scenario, 8), [vec![0, 4], vec![1, 2], vec![3]]);
    }

    #[test]
    fn connections_that_are_made_during_the_run_are_numbered_by_the_first_thread() {
        let poisson = "app = { kind = \"poisson\", arrivals_per_s = 5.0, size = \"9 kB\" }";
        let scenario = lines(4, &["count = 9", poisson, "", poisson], "");
        assert_eq!(dealt(&scenario, 8), [vec![1, 3], vec![0], vec![2]]);
    }

    #[test]
    fn a_series_of_every_event_takes_one_thread() {
        assert_eq!(dealt(&lines(2, &[], "[series]\nevery = \"10 ms\""), 2).len(), 2);
        assert!(dealt(&lines(2, &[], "[series]\nevery = \"event\""), 2).is_empty());
    }
}
