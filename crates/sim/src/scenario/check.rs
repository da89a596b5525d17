//! Checks a scenario: names exist, values are in bounds, work and memory are limited.

use super::error::Problem;
use super::{
    App, Channel, Dist, Event, FieldPath, Link, Quantity, Sampling, Scenario, Spread, check_flow, limits,
    route, words,
};
use leeway_units::{Bytes, Duration, Rate, Size, Time};
use std::collections::BTreeSet;

type Checked = Result<(), Problem>;

impl Scenario {
    /// Checks whether the scenario can be run. [`Scenario::parse`] calls this. A program that
    /// builds a scenario has to call it.
    pub fn validate(&self) -> Checked {
        let root = FieldPath::root();
        positive(root.key("duration"), self.duration)?;
        at_most(root.key("duration"), self.duration, limits::DURATION)?;
        if self.seed > i64::MAX as u64 {
            return Err(Problem::new(root.key("seed"), "the seed is 2^63 or more"));
        }
        between(root.key("repetitions"), self.repetitions.into(), 1, limits::REPETITIONS.into())?;
        self.check_topology()?;
        self.check_flows()?;
        self.check_gateways()?;
        self.check_swarm()?;
        self.check_events()?;
        self.check_windows()?;
        self.check_work()?;
        self.check_sweep()
    }

    fn check_topology(&self) -> Checked {
        let at = FieldPath::root().key("link");
        if self.dumbbell.is_none() && self.link.is_empty() {
            return Err(Problem::new(FieldPath::root(), "there is no link")
                .help("add a table `[dumbbell.bottleneck]` with a `rate` and a `delay`"));
        }
        entries(&at, self.link.len(), limits::LINKS)?;
        let (mut names, mut like) = (BTreeSet::new(), 0u64);
        for (i, link) in self.links().iter().enumerate() {
            let written = usize::from(self.dumbbell.is_some());
            let at = if i < written { FieldPath::root().key("dumbbell") } else { at.index(i - written) };
            for (field, text) in [("name", &link.name), ("from", &link.from), ("to", &link.to)] {
                name(at.key(field), text)?;
            }
            if !names.insert(link.name.clone()) {
                return Err(duplicate(at.key("name"), &link.name, "link"));
            }
            between(at.key("count"), link.count.into(), 1, limits::LIKE_LINKS)?;
            like += u64::from(link.count);
            if like > limits::LIKE_LINKS {
                return Err(Problem::new(at.key("count"), format!("that makes {like} links"))
                    .help(format!("at most {} altogether", limits::LIKE_LINKS)));
            }
            if link.from == link.to {
                return Err(Problem::new(
                    at.key("to"),
                    format!("the link leads from `{0}` to `{0}`", link.to),
                ));
            }
        }
        self.channels().try_for_each(|(at, channel, _)| check_channel(&at, channel))
    }

    fn check_flows(&self) -> Checked {
        let at = FieldPath::root().key("flow");
        if self.flow.is_empty() {
            return Err(Problem::new(FieldPath::root(), "there is no flow")
                .help("add a table `[[flow]]` with a `name` and a `law`"));
        }
        entries(&at, self.flow.len(), limits::GROUPS)?;
        let links = self.links();
        let (mut names, mut flows) = (BTreeSet::new(), 0u64);
        for (i, group) in self.flow.iter().enumerate() {
            let at = at.index(i);
            name(at.key("name"), &group.name)?;
            if !names.insert(group.name.as_str()) {
                return Err(duplicate(at.key("name"), &group.name, "flow group"));
            }
            flows += u64::from(group.count);
            if flows > limits::FLOWS {
                return Err(Problem::new(at.key("count"), format!("that makes {flows} flows"))
                    .help(format!("at most {} in all groups together", limits::FLOWS)));
            }
            let hops = route::route(&links, group, self.dumbbell.is_some(), &at)?;
            let limited = hops.iter().any(|hop| channel_of(&links[hop.link], hop.direction).is_limited());
            check_flow::check(&at, group, self, limited)?;
            let apart = hops.iter().any(|hop| links[hop.link].count > 1);
            if apart && matches!(group.app, App::Poisson { .. }) {
                return Err(Problem::new(
                    at.key("app"),
                    "connections of a Poisson process cannot be spread over like links",
                )
                .help("use the application `request` or `transfer`, or a link without `count`"));
            }
        }
        if self.baseline && !self.flow.iter().any(|group| !group.role.is_primary()) {
            return Err(Problem::new(FieldPath::root().key("baseline"), "no group is in the background")
                .help("give one `role = \"background\"`, or leave `baseline` out"));
        }
        if self.baseline && !self.flow.iter().any(|group| group.role.is_primary()) {
            return Err(Problem::new(FieldPath::root().key("baseline"), "no group is primary")
                .help("leave `baseline` out: without the background there is nothing to run"));
        }
        Ok(())
    }

    fn check_events(&self) -> Checked {
        let at = FieldPath::root().key("event");
        entries(&at, self.event.len(), limits::ENTRIES)?;
        let links = self.links();
        self.event.iter().enumerate().try_for_each(|(i, event)| self.check_event(&at.index(i), event, &links))
    }

    fn check_event(&self, at: &FieldPath, event: &Event, links: &[Link]) -> Checked {
        within(at.key("at"), event.at, self.duration)?;
        let Some(link) = links.iter().find(|link| link.name == event.link) else {
            let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(Problem::new(at.key("link"), format!("there is no link `{}`", event.link))
                .help(words::suggest(&event.link, &names, "the links are")));
        };
        if event.rate.is_none() && event.delay.is_none() && event.loss.is_none() {
            return Err(Problem::new(at.clone(), "the event changes nothing")
                .help("give it a `rate`, a `delay` or a `loss`"));
        }
        if event.rate.is_some() && channel_of(link, event.direction).rate.is_none() {
            return Err(Problem::new(
                at.key("rate"),
                format!("`{}` has no constant rate to change", link.name),
            )
            .help(
                "an event can change a `rate` only; a list `rates` has its changes itself, and a trace has none",
            ));
        }
        if let Some(delay) = event.delay {
            at_most(at.key("delay"), delay, limits::DELAY)?;
        }
        check_rate(&at.key("rate"), event.rate)
    }

    fn check_windows(&self) -> Checked {
        let at = FieldPath::root().key("window");
        entries(&at, self.window.len(), limits::WINDOWS)?;
        let rows = self.window.len() * (self.flow.len() + self.links().len());
        if rows > limits::WINDOW_ROWS {
            return Err(Problem::new(
                at,
                format!("the windows, groups and links make {rows} rows of metrics"),
            )
            .help(format!("at most {}", limits::WINDOW_ROWS)));
        }
        let mut names = BTreeSet::new();
        for (i, window) in self.window.iter().enumerate() {
            let at = at.index(i);
            name(at.key("name"), &window.name)?;
            if !names.insert(&window.name) {
                return Err(duplicate(at.key("name"), &window.name, "window"));
            }
            if window.from >= window.to {
                let (from, to) = (window.from, window.to);
                return Err(Problem::new(at.key("to"), format!("the window ends at {to}, begins at {from}"))
                    .help(format!("`to` is after `from`, and at most {}", self.duration)));
            }
            within(at.key("to"), window.to, self.duration)?;
        }
        Ok(())
    }

    /// Checks the limits on the work and the memory of a run. A trace's capacity is in its file,
    /// so the check of the file limits that.
    fn check_work(&self) -> Checked {
        let seconds = self.duration.secs_f64();
        let packet = check_flow::smallest_packet(self);
        let per_second = |rate: Rate| rate.bits_per_sec() as f64 / packet.bits() as f64;
        let (mut carried, mut inside) = (0.0, 0.0);
        for (at, channel, count) in self.channels() {
            let count = f64::from(count);
            let fastest =
                channel.rate.into_iter().chain(channel.rates.iter().map(|change| change.rate)).max();
            let raised = self.event.iter().filter_map(|event| event.rate).max();
            let Some(fastest) = fastest.into_iter().chain(raised.filter(|_| channel.rate.is_some())).max()
            else {
                continue;
            };
            let here = per_second(fastest) * seconds;
            carried += here * count;
            bounded(at.key("rate"), carried, limits::PACKETS, "packets in the duration")
                .map_err(|problem| problem.help("a lower rate or a shorter duration"))?;
            let held = match channel.buffer_limit(fastest, packet) {
                super::BufferLimit::Packets(n) => f64::from(n),
                super::BufferLimit::Bytes(bytes) => bytes.get() as f64 / 40.0,
                super::BufferLimit::Unlimited => f64::INFINITY,
            };
            inside += (held.min(here) + per_second(fastest) * channel.delay.secs_f64()) * count;
            bounded(at.key("buffer"), inside, limits::PACKETS_INSIDE, "packets in queues and on the way")
                .map_err(|problem| problem.help("a smaller buffer, or a shorter duration"))?;
        }
        let flows: f64 = self.flow.iter().map(|group| f64::from(group.count)).sum();
        let flows = flows + self.peer_flows();
        let rows = (flows + self.links().iter().map(|link| 2.0 * f64::from(link.count)).sum::<f64>())
            * match self.series.map(|series| series.every) {
                None => return Ok(()),
                Some(Sampling::Every(every)) => {
                    positive(FieldPath::root().key("series").key("every"), every)?;
                    seconds / every.secs_f64()
                }
                Some(Sampling::Event) => 3.0 * carried / flows.max(1.0),
            };
        bounded(FieldPath::root().key("series").key("every"), rows, limits::SERIES_ROWS, "rows to record")
            .map_err(|problem| problem.help("record less often, or a shorter run"))
    }

    fn check_sweep(&self) -> Checked {
        let mut points = 1u64;
        for (path, values) in &self.sweep.0 {
            let at = FieldPath::root().key("sweep").key(path);
            if values.is_empty() {
                return Err(Problem::new(at, "there is no value to try").help("list at least one"));
            }
            points = points.saturating_mul(values.len() as u64);
            if points > limits::SWEEP_POINTS as u64 {
                let at = FieldPath::root().key("sweep");
                return Err(Problem::new(at, format!("the sweep has {points} points or more"))
                    .help(format!("at most {}", limits::SWEEP_POINTS)));
            }
        }
        let runs = points.saturating_mul(self.repetitions.into());
        match runs > limits::RUNS {
            true => {
                Err(Problem::new(FieldPath::root().key("repetitions"), format!("that makes {runs} runs"))
                    .help(format!("at most {} with the sweep", limits::RUNS)))
            }
            false => Ok(()),
        }
    }
}

fn channel_of(link: &Link, direction: super::Direction) -> Channel {
    match direction {
        super::Direction::Forward => link.forward.clone(),
        super::Direction::Reverse => link.backward(),
    }
}

fn check_channel(at: &FieldPath, channel: &Channel) -> Checked {
    let given = [
        ("rate", channel.rate.is_some()),
        ("rates", !channel.rates.is_empty()),
        ("trace", channel.trace.is_some()),
    ];
    let mut given = given.iter().filter(|(_, given)| *given);
    if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
        return Err(Problem::new(at.key(second), format!("both `{first}` and `{second}` are given"))
            .help("one of them says how fast the channel is"));
    }
    check_rate(&at.key("rate"), channel.rate)?;
    if channel.rate == Some(Rate::ZERO) {
        return Err(Problem::new(at.key("rate"), "nothing passes at rate zero")
            .help("an outage is a zero in `rates` or in an event"));
    }
    entries(&at.key("rates"), channel.rates.len(), limits::ENTRIES)?;
    for (i, change) in channel.rates.iter().enumerate() {
        let at = at.key("rates").index(i);
        check_rate(&at.key("rate"), Some(change.rate))?;
        let before = i.checked_sub(1).map(|before| channel.rates[before].at);
        match before {
            None if change.at != Time::ZERO => {
                return Err(Problem::new(at.key("at"), "the first rate begins at 0")
                    .help("write `at = \"0 s\"`: there is no rate before it"));
            }
            Some(before) if before >= change.at => {
                return Err(Problem::new(at.key("at"), format!("{} is not after {before}", change.at))
                    .help("list the changes in order of time"));
            }
            _ => {}
        }
    }
    at_most(at.key("delay"), channel.delay, limits::DELAY)?;
    match channel.buffer {
        Size::Packets(0) => return Err(Problem::new(at.key("buffer"), "a buffer holds at least one packet")),
        Size::Bytes(bytes) if bytes < Bytes::new(100) => {
            return Err(Problem::new(at.key("buffer"), "no packet fits into so few bytes"));
        }
        Size::Bdp(n) if n == 0 || n > limits::BDP_MILLIONTHS => {
            return Err(Problem::new(at.key("buffer"), "a buffer is above 0 and at most 1000 BDP"));
        }
        _ => {}
    }
    Ok(())
}

fn check_rate(at: &FieldPath, rate: Option<Rate>) -> Checked {
    match rate {
        Some(rate) if rate > limits::RATE => {
            Err(Problem::new(at.clone(), format!("{rate} is too fast"))
                .help(format!("at most {}", limits::RATE)))
        }
        _ => Ok(()),
    }
}

pub(super) fn name(at: FieldPath, name: &str) -> Checked {
    let wrong = |message: String| {
        Err(Problem::new(at.clone(), message)
            .help("letters, digits, `_`, `-`, `+` and spaces, not only digits"))
    };
    match name {
        _ if name.trim().is_empty() => wrong("the name is empty".into()),
        _ if name.chars().count() > limits::NAME => {
            wrong(format!("the name is over {} characters", limits::NAME))
        }
        _ if name.chars().all(|c| c.is_ascii_digit()) => {
            wrong(format!("`{name}` would be taken for an index"))
        }
        _ => match name.chars().find(|c| !(c.is_alphanumeric() || "_-+ ".contains(*c))) {
            Some(c) => wrong(format!("a name has no {c:?}")),
            None => Ok(()),
        },
    }
}

pub(super) fn entries(at: &FieldPath, number: usize, most: usize) -> Checked {
    match number > most {
        true => Err(Problem::new(at.clone(), format!("{number} entries")).help(format!("at most {most}"))),
        false => Ok(()),
    }
}

pub(super) fn bounded(at: FieldPath, number: f64, most: f64, what: &str) -> Checked {
    match number <= most {
        true => Ok(()),
        false if number.is_finite() => {
            Err(Problem::new(at, format!("that makes {number:.0} {what}; {most:.0} is the most")))
        }
        false => Err(Problem::new(at, format!("there is no end of {what}; {most:.0} is the most"))),
    }
}

pub(super) fn between(at: FieldPath, value: u64, least: u64, most: u64) -> Checked {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => {
            Err(Problem::new(at, format!("{value} is out of bounds")).help(format!("from {least} to {most}")))
        }
    }
}

pub(super) fn positive(at: FieldPath, span: Duration) -> Checked {
    match span.is_zero() {
        true => {
            let field = at.last().unwrap_or_default();
            Err(Problem::new(at.clone(), format!("`{field}` must be above zero")))
        }
        false => Ok(()),
    }
}

pub(super) fn at_most(at: FieldPath, span: Duration, most: Duration) -> Checked {
    match span > most {
        true => Err(Problem::new(at, format!("{span} is too long")).help(format!("at most {most}"))),
        false => Ok(()),
    }
}

/// Checks that the time is within the run.
pub(super) fn within(at: FieldPath, instant: Time, duration: Duration) -> Checked {
    match instant > Time::ZERO + duration {
        true => Err(Problem::new(at, format!("{instant} is after the end of the run"))
            .help(format!("the run lasts {duration}"))),
        false => Ok(()),
    }
}

/// Checks a distribution, and that its values, or its mean, are at most `most`.
pub(super) fn dist<T: Quantity>(at: &FieldPath, dist: &Dist<T>, most: T) -> Checked {
    let too_large = |at: FieldPath| Problem::new(at, "it is too large").help(format!("at most {most}"));
    match dist {
        Dist::Constant(value) if value.base() > most.base() => return Err(too_large(at.clone())),
        Dist::Drawn(Spread::Uniform([low, high])) if low.base() > high.base() => {
            return Err(Problem::new(at.key("uniform"), "the lower end is above the upper")
                .help("write the smaller value first"));
        }
        Dist::Drawn(Spread::Uniform([_, high])) if high.base() > most.base() => {
            return Err(too_large(at.key("uniform").index(1)));
        }
        Dist::Drawn(Spread::Exponential(mean)) if mean.base() > most.base() => {
            return Err(too_large(at.key("exponential")));
        }
        Dist::Drawn(Spread::Pareto(pareto)) => {
            let at = at.key("pareto");
            let given = pareto.min.or(pareto.mean).map_or(0.0, T::base);
            if pareto.min.is_some() == pareto.mean.is_some() {
                return Err(Problem::new(at, "exactly one of `min` and `mean` is needed"));
            }
            let least = if pareto.mean.is_some() { 1.0 } else { 0.0 };
            if !(pareto.shape > least && pareto.shape <= 100.0) {
                return Err(Problem::new(at.key("shape"), format!("{} is out of bounds", pareto.shape))
                    .help(format!("above {least} and at most 100; there is no mean at 1 or below")));
            }
            if given > most.base() {
                return Err(too_large(at));
            }
        }
        _ => {}
    }
    Ok(())
}

fn duplicate(at: FieldPath, name: &str, what: &str) -> Problem {
    Problem::new(at, format!("there is another {what} `{name}`")).help("each has a name of its own")
}
