//! From a scenario to a run: lays out the network, and the flows on it.

use crate::app::{App, part, part_seed};
use crate::books::{Books, GroupCounts, LinkCounts};
use crate::engine::{Directed, Engine, Group, Timer, World};
use crate::flow::{Clocks, Flow, Profile};
use crate::gateway::Gateway;
use crate::network::{Built, Network, Propagation, Step};
use crate::recorder::Recorder;
use crate::scenario::{
    self, BufferLimit, Channel, Direction, FlowGroup, Hop, Link, Part, Sampling, Scenario,
};
use crate::swarm::{Route, Swarm, Turn};
use crate::tcp::Options;
use crate::{SimError, capacity::Capacity};
use leeway_link::{Delay, LinkSpec, Loss, Rates, Service, Trace, Transmitter};
use leeway_queue::{BuildContext, QueueSpec};
use leeway_units::{Bytes, Duration, Size, Time};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Most rows for which the time series reserve memory at the start. Longer series grow as they are
/// recorded.
const MAX_RESERVED_ROWS: u64 = 1 << 20;

/// What the report needs to know of a link with a queue.
#[derive(Debug, Clone)]
pub struct ReportedLink {
    /// Name of the link; " (reverse)" is added for its reverse channel.
    pub name: String,
    /// Index of the link in the scenario.
    pub index: usize,
    /// How much the link can carry.
    pub capacity: Capacity,
    /// Queuing delay of a full buffer. Absent for an unlimited buffer, and for a rate that
    /// changes.
    pub full: Option<Duration>,
    /// Indices of its counters. A scenario's link with a `count` has one for each of its like
    /// links.
    pub books: Range<usize>,
}

impl ReportedLink {
    /// Bits that the link, or all like links together, can carry from `from` to `to`.
    pub fn bits(&self, from: Time, to: Time) -> f64 {
        self.capacity.bits(from, to) * self.books.len() as f64
    }

    /// A name for each of the like links.
    fn names(&self) -> impl Iterator<Item = String> {
        let count = self.books.len();
        (1..=count).map(move |i| if count == 1 { self.name.clone() } else { format!("{}.{i}", self.name) })
    }
}

/// Both directions of one link of the scenario: forward and reverse. Each has one entry for each
/// like link.
type Sides = [Vec<Built>; 2];

/// A run that is ready to be played, and what its report needs beside the counters.
#[derive(Debug)]
pub struct Plan {
    /// The run.
    pub engine: Engine,
    /// Links with a queue, in the order of their counters.
    pub links: Vec<ReportedLink>,
    /// For each group the first link with a queue on the path of its data.
    pub first_link: Vec<Option<usize>>,
}

/// Builds the run of `scenario` with `seed`.
pub fn plan(scenario: &Scenario, seed: u64) -> Result<Plan, SimError> {
    let links = scenario.links();
    let mut builder = Builder {
        scenario,
        seed,
        packet: scenario.flow.iter().map(|group| group.packet).max().unwrap_or(Bytes::new(1500)),
        network: Network::default(),
        reported: Vec::new(),
        parts: 0,
    };
    let built: Vec<Sides> = links
        .iter()
        .enumerate()
        .map(|(index, link)| {
            Ok([
                builder.channel(index, link, Direction::Forward, &link.forward)?,
                builder.channel(index, link, Direction::Reverse, &link.backward())?,
            ])
        })
        .collect::<Result<_, SimError>>()?;
    let mut events = Vec::new();
    for event in &scenario.event {
        let at = links.iter().position(|link| link.name == event.link).unwrap_or(0);
        for side in &built[at][usize::from(event.direction == Direction::Reverse)] {
            let link = match side.link {
                Some(Step::Link(index)) => Some(index),
                _ => None,
            };
            let line = match side.delay {
                Propagation::Own(Step::Line(index)) => Some(index),
                _ => None,
            };
            events.push((event.clone(), Directed { link, line }));
        }
    }
    let mut engine = Engine {
        world: World {
            books: Books {
                groups: vec![GroupCounts::default(); scenario.flow.len()],
                recorder: recorder(scenario),
                ..Books::default()
            },
            ..World::default()
        },
        end: Time::ZERO + scenario.duration,
        seed,
        flows: Vec::new(),
        groups: Vec::new(),
        gateways: scenario.gateway.iter().map(Gateway::new).collect(),
        swarm: scenario.swarm.clone().map(|swarm| Swarm::new(swarm, seed)),
        serving: false,
        events,
        snapshots: Vec::new(),
        work: Default::default(),
    };
    set_up_clockwork(scenario, &mut engine);
    // links that are added after this are access links of single flows
    let reported = builder.network.links();
    let mut first_link = Vec::new();
    let routes = scenario.routes(&links).map_err(|problem| SimError::Route(problem.to_string()))?;
    for (index, (spec, hops)) in scenario.flow.iter().zip(routes).enumerate() {
        first_link.push(builder.first_link(&hops, &built));
        builder.group(index, spec, &hops, &built, &mut engine);
    }
    engine.world.books.links = vec![LinkCounts::default(); builder.network.links()];
    engine.world.books.reported_links = reported;
    engine.world.network = builder.network;
    if let Some(recorder) = &mut engine.world.books.recorder {
        if let Some(every) = recorder.every {
            let samples = scenario.duration.nanos() / every.nanos().max(1) + 1;
            let rows = |count: usize| (samples.saturating_mul(count as u64)).min(MAX_RESERVED_ROWS) as usize;
            recorder.reserve(rows(engine.flows.len()), rows(reported));
        }
        recorder.series.link_names = builder.reported.iter().flat_map(ReportedLink::names).collect();
    }
    Ok(Plan { engine, links: builder.reported, first_link })
}

/// Sets the timers of what happens at fixed times: windows, events, samples.
fn set_up_clockwork(scenario: &Scenario, engine: &mut Engine) {
    let whole = [Time::ZERO, Time::ZERO + scenario.duration];
    let mut edges: Vec<Time> = scenario.window.iter().flat_map(|w| [w.from, w.to]).chain(whole).collect();
    edges.sort_unstable();
    edges.dedup();
    for edge in edges {
        engine.world.set(edge, Timer::Edge);
    }
    for index in 0..engine.events.len() {
        engine.world.set(engine.events[index].0.at, Timer::Change(index as u32));
    }
    if engine.world.books.recorder.as_ref().is_some_and(|recorder| recorder.every.is_some()) {
        engine.world.set(Time::ZERO, Timer::Sample);
    }
}

fn recorder(scenario: &Scenario) -> Option<Recorder> {
    let every = match scenario.series?.every {
        Sampling::Every(span) => Some(span),
        Sampling::Event => None,
    };
    Some(Recorder::new(every))
}

/// Names of all flows. Flows that began during the run are numbered within their group.
pub fn flow_names(engine: &Engine) -> Vec<String> {
    let mut seen = vec![0; engine.groups.len()];
    let name = |flow: &Flow| {
        let group = flow.group as usize;
        let spec = &engine.groups[group].spec;
        seen[group] += 1;
        let many = matches!(spec.app, scenario::App::Poisson { .. } | scenario::App::Peer { .. });
        match spec.count == 1 && !many {
            true => spec.name.clone(),
            false => format!("{}.{}", spec.name, seen[group]),
        }
    };
    engine.flows.iter().map(name).collect()
}

struct Builder<'a> {
    scenario: &'a Scenario,
    seed: u64,
    /// Packet size for buffers that are given in BDP.
    packet: Bytes,
    network: Network,
    reported: Vec<ReportedLink>,
    /// Channels built so far.
    parts: u64,
}

impl Builder<'_> {
    /// Builds one direction of `link`, the `index`-th: once for each like link.
    fn channel(
        &mut self,
        index: usize,
        link: &Link,
        direction: Direction,
        channel: &Channel,
    ) -> Result<Vec<Built>, SimError> {
        let concerns = |event: &&scenario::Event| event.link == link.name && event.direction == direction;
        let events: Vec<&scenario::Event> = self.scenario.event.iter().filter(concerns).collect();
        let Some(service) = service(channel)? else {
            let lines = (0..link.count).map(|_| {
                let seed = self.next_seed();
                Built { link: None, delay: self.line(channel, &events, seed) }
            });
            return Ok(lines.collect());
        };
        let rate = service.rate();
        let limit = self.waiting_limit(channel, channel.buffer_limit(rate, self.packet));
        let trace = match &service {
            Service::Trace(trace) => Some(trace.clone()),
            Service::Rates(_) => None,
        };
        let mut spec = LinkSpec::new(rate, capacity(limit));
        spec.service = service;
        spec.queue = channel.queue.clone();
        spec.delay = channel.delay;
        spec.loss = channel.loss.clone();
        spec.arq = channel.arq.clone();
        let changes = channel.rates.iter().skip(1).map(|change| (change.at, change.rate));
        let changes = changes.chain(events.iter().filter_map(|event| Some((event.at, event.rate?))));
        let changes: Vec<_> = changes.collect();
        let steady = changes.is_empty() && trace.is_none() && channel.arq.is_none();
        let books = self.network.links()..self.network.links() + link.count as usize;
        self.reported.push(ReportedLink {
            name: match direction {
                Direction::Forward => link.name.clone(),
                Direction::Reverse => format!("{} (reverse)", link.name),
            },
            index,
            capacity: trace.map_or_else(|| Capacity::new(rate, changes), Capacity::Trace),
            full: match shared_limit(&channel.queue, limit) {
                _ if !steady => None,
                BufferLimit::Packets(packets) => Some(rate.time_for(self.packet) * u64::from(packets)),
                BufferLimit::Bytes(bytes) => Some(rate.time_for(bytes)),
                BufferLimit::Unlimited => None,
            },
            books,
        });
        let links = (0..link.count).map(|_| {
            let seed = self.next_seed();
            let (after, delay) = match self.line(channel, &events, seed) {
                Propagation::Fixed(span) => (span, Propagation::Fixed(Duration::ZERO)),
                own => (Duration::ZERO, own),
            };
            let step = self.network.link(spec.transmitter(seed), after);
            Built { link: Some(step), delay }
        });
        Ok(links.collect())
    }

    /// The seed of the next channel.
    fn next_seed(&mut self) -> u64 {
        self.parts += 1;
        part_seed(self.seed, part::LINK, self.parts)
    }

    /// What may wait beside the packet in service. DropTail of ns-2 counts that packet: with
    /// `limit_` = L it lets L - 1 wait. ns-2 with a limit of 1 drops every packet; here one may
    /// wait.
    fn waiting_limit(&self, channel: &Channel, limit: BufferLimit) -> BufferLimit {
        match (self.scenario.profile, &channel.queue, limit) {
            (scenario::Profile::Ns2, QueueSpec::DropTail(_), BufferLimit::Packets(packets)) => {
                BufferLimit::Packets(packets.saturating_sub(1).max(1))
            }
            _ => limit,
        }
    }

    /// Propagation of a channel: a constant that routes add up where the delay never changes, else
    /// a delay line of this channel alone.
    fn line(&mut self, channel: &Channel, events: &[&scenario::Event], seed: u64) -> Propagation {
        let moves = events.iter().any(|event| event.delay.is_some());
        // A channel without a queue has no transmitter that could lose packets, so the delay
        // line loses them.
        let loss = channel.loss.as_ref().filter(|_| !channel.is_limited());
        let lossy =
            loss.is_some() || !channel.is_limited() && events.iter().any(|event| event.loss.is_some());
        if !moves && !lossy && channel.jitter.is_none() {
            return Propagation::Fixed(channel.delay);
        }
        let mut line = match &channel.jitter {
            Some(jitter) => Delay::jittered(channel.delay, jitter.clone(), seed.wrapping_add(2)),
            // A route that becomes shorter lets packets overtake those on the longer route.
            None => Delay::fixed(channel.delay).with_reordering(true),
        };
        if let Some(loss) = loss {
            line = line.with_loss(Loss::new(loss.clone(), seed.wrapping_add(1)));
        }
        Propagation::Own(self.network.line(line))
    }

    /// The first link with a queue on the path of data.
    fn first_link(&self, hops: &[Hop], built: &[Sides]) -> Option<usize> {
        hops.iter().find_map(|hop| match side(built, hop, false, 0).link {
            Some(Step::Link(index)) => {
                self.reported.iter().position(|link| link.books.contains(&(index as usize)))
            }
            _ => None,
        })
    }

    /// Builds the group `spec`, the `index`-th, whose data takes `hops`: its flows, routes and timers.
    fn group(&mut self, index: usize, spec: &FlowGroup, hops: &[Hop], built: &[Sides], engine: &mut Engine) {
        let tcp = spec.tcp.resolve(self.scenario.profile);
        let mss = spec.packet.get().saturating_sub(spec.header.get()).clamp(1, 65_000);
        let profile = Profile {
            options: Options::new(tcp, mss as u32),
            law: spec.law.clone(),
            mss: mss as u16,
            header: spec.header.get().min(500) as u16,
            class: spec.class,
            clocks: Clocks::new(spec.sender_clock, spec.receiver_clock, tcp.timestamp_resolution),
        };
        let met = self.scenario.gateway_of(spec);
        // Requests need a grant of the uplink if the uplink has a queue.
        let asks = matches!((spec.app, met), (scenario::App::Request { .. }, Some((_, Part::Download))))
            && hops.iter().any(|hop| side(built, hop, true, 0).link.is_some());
        let mut shared = None;
        let apart = hops.iter().any(|hop| built[hop.link][0].len() > 1);
        let mut arrivals = Vec::new();
        for i in 0..u64::from(spec.count) {
            let mut app = App::new(part_seed(self.seed, index as u64, i));
            let start = app.draw(&spec.start_times(self.scenario.duration)) + spec.stagger * i;
            let access = spec.access_delay.as_ref().map_or(Duration::ZERO, |dist| app.draw(dist));
            if let (scenario::App::Peer { .. }, Some(swarm)) = (spec.app, &mut engine.swarm) {
                let flow = i as usize;
                let route = Route {
                    out: hops.iter().map(|hop| side(built, hop, false, flow)).collect(),
                    back: hops.iter().rev().map(|hop| side(built, hop, true, flow)).collect(),
                    delay: access,
                };
                let peer = swarm.add(index as u32, spec, route);
                engine.world.set(start, Timer::Peer(peer, Turn::Arrive));
                if let Some(stop) = spec.stop {
                    engine.world.set(stop, Timer::Peer(peer, Turn::Leave));
                }
                continue;
            }
            let routes = match shared {
                Some((known, routes)) if known == access && spec.access_rate.is_none() && !apart => routes,
                _ => self.routes(spec, access, hops, built, i as usize),
            };
            shared = Some((access, routes));
            if let scenario::App::Poisson { .. } = spec.app {
                engine.world.set(start, Timer::Arrival(index as u32, i as u32));
                arrivals.push(App::new(part_seed(self.seed, part::ARRIVALS + index as u64, i)));
                continue;
            }
            let flow = engine.flows.len() as u32;
            engine.flows.push(Flow::new(index as u32, &profile, routes.0, routes.1, app));
            if let Some((gateway, part)) = met.filter(|_| spec.gateway.is_some()) {
                let user = ((index as u64) << 32) | (i / u64::from(spec.flows_per_user.max(1)));
                engine.flows[flow as usize].at_gateway =
                    engine.gateways[gateway].hold(part, user, flow, index as u32, asks);
            }
            let first = spec.intervals.first().map_or(start, |interval| start.max(interval[0]));
            engine.wake(flow, first);
            if let Some(stop) = spec.stop {
                engine.world.set(stop, Timer::Stop(flow));
            }
        }
        let routes = shared.map_or((0, 0), |(_, routes)| routes);
        engine.groups.push(Group {
            spec: spec.clone(),
            profile,
            gateway: met,
            routes,
            free: Vec::new(),
            arrivals,
        });
    }

    /// Lays the route of data and the route of acknowledgements of one flow.
    fn routes(
        &mut self,
        spec: &FlowGroup,
        access: Duration,
        hops: &[Hop],
        built: &[Sides],
        flow: usize,
    ) -> (u32, u32) {
        let forward = self.network.steps.len() as u32;
        let mut delay = access;
        if let Some(rate) = spec.access_rate {
            let unlimited = BuildContext::new(Size::Unlimited, rate);
            let queue = QueueSpec::default().build(&unlimited);
            let step = self.network.link(Transmitter::new(queue, rate), access);
            self.network.steps.push(step);
            delay = Duration::ZERO;
        }
        self.network.lay(delay, hops.iter().map(|hop| side(built, hop, false, flow)), Duration::ZERO);
        let back = hops.iter().rev().map(|hop| side(built, hop, true, flow));
        (forward, self.network.lay(Duration::ZERO, back, access))
    }
}

/// What serves the queue of a channel. `None` for an unlimited rate: no queue builds up.
fn service(channel: &Channel) -> Result<Option<Service>, SimError> {
    if let Some(path) = &channel.trace {
        return Ok(Some(Service::Trace(Arc::new(trace(path)?))));
    }
    let changes = channel.rates.iter().skip(1).map(|change| (change.at, change.rate)).collect();
    Ok(channel.initial_rate().map(|first| Service::Rates(Rates { first, changes })))
}

fn trace(path: &Path) -> Result<Trace, SimError> {
    let error = |why: String| SimError::Trace { file: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|cause| error(cause.to_string()))?;
    Trace::parse(&text).map_err(|cause| error(cause.to_string()))
}

/// The side of a link that flow `flow` of a group takes at `hop`; `back` is for acknowledgements.
fn side(built: &[Sides], hop: &Hop, back: bool, flow: usize) -> Built {
    let copies = &built[hop.link][usize::from((hop.direction == Direction::Reverse) != back)];
    copies[flow % copies.len()]
}

/// The buffer that all packets in `queue` share, where the link's buffer is `limit`. Unlimited for
/// `borrowing`, whose classes have buffers of their own: no single buffer is full.
fn shared_limit(queue: &QueueSpec, limit: BufferLimit) -> BufferLimit {
    let own = match queue {
        QueueSpec::DropTail(params) => params.limit,
        QueueSpec::Red(params) => params.limit,
        QueueSpec::CoDel(params) => params.limit,
        QueueSpec::Pie(params) => params.limit,
        QueueSpec::Sfq(params) => params.limit,
        QueueSpec::FqCoDel(params) => params.limit,
        QueueSpec::Drr(params) => params.limit,
        QueueSpec::Priority(params) => params.limit,
        QueueSpec::Borrowing(_) => Some(Size::Unlimited),
    };
    match own {
        None | Some(Size::Bdp(_)) => limit,
        Some(Size::Packets(packets)) => BufferLimit::Packets(packets.max(1)),
        Some(Size::Bytes(bytes)) => BufferLimit::Bytes(bytes),
        Some(Size::Unlimited) => BufferLimit::Unlimited,
    }
}

fn capacity(limit: BufferLimit) -> Size {
    match limit {
        BufferLimit::Packets(packets) => Size::Packets(packets),
        BufferLimit::Bytes(bytes) => Size::Bytes(bytes),
        BufferLimit::Unlimited => Size::Unlimited,
    }
}
