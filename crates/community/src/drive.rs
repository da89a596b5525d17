//! Runs a community, step by step.

use crate::bound::Prices;
use crate::client::{Client, Move};
use crate::config::{Community, Wrong};
use crate::line::{Line, Presence, share};
use crate::report::{Hour, Report, jain, quantile, ratio};
use crate::town;
use crate::user::User;

/// Simulates `community` with `seed`. `None` if `cancelled` returned true. `cancelled` is called
/// once in a simulated minute.
///
/// # Errors
/// [`Wrong`] if a parameter is not allowed.
pub fn run(community: &Community, seed: u64, cancelled: &dyn Fn() -> bool) -> Result<Option<Report>, Wrong> {
    let policy = community.check()?;
    let town = town::build(community, seed);
    let lines = town.lines_bps.iter().enumerate();
    let lines: Vec<Line> = lines.map(|(index, rate)| Line::new(community, seed, index, *rate)).collect();
    let paths = town.paths.into_iter().enumerate();
    let people: Vec<Person> = paths
        .map(|(index, paths)| {
            Person::new(User::new(seed, index), Client::new(community, policy, seed, index, paths))
        })
        .collect();
    let mut run = Run::new(community, lines, people);
    let steps = (community.hours * 3600.0 / community.step_s).ceil() as u64;
    let a_minute = (60.0 / community.step_s).ceil() as u64;
    for step in 0..steps {
        if step % a_minute == 0 {
            if cancelled() {
                return Ok(None);
            }
            run.arrivals.fill(0);
        }
        run.step(step as f64 * community.step_s);
    }
    Ok(Some(run.report()))
}

/// A user with its client, and the sums for the report.
struct Person {
    user: User,
    client: Client,
    wanted: f64,
    got: f64,
    /// The present rate, in bit/s.
    rate_bps: f64,
    /// When the user's gateway failed, and the rate before the failure.
    outage: Option<(f64, f64)>,
}

impl Person {
    fn new(user: User, client: Client) -> Person {
        Person { user, client, wanted: 0.0, got: 0.0, rate_bps: 0.0, outage: None }
    }
}

struct Run<'a> {
    community: &'a Community,
    lines: Vec<Line>,
    people: Vec<Person>,
    report: Report,
    /// Users that came to each gateway in the present minute.
    arrivals: Vec<u32>,
    /// For each gateway, the users with their wanted rates.
    wants: Vec<Vec<(u32, f64)>>,
    /// For each hour: sums of its samples, number of samples, changes of gateway, hours of users.
    hours: Vec<(Hour, u32, f64, f64)>,
    outages_s: Vec<f64>,
    before_after: (f64, f64),
    rtt: f64,
    /// Seconds of transfers, and seconds of transfers without service.
    active: (f64, f64),
    /// Sums of the wanted and of the spare rates.
    load: (f64, f64),
    next_bound_s: f64,
    prices: Prices,
    /// Sum of the lower bounds.
    feasible: f64,
}

impl<'a> Run<'a> {
    fn new(community: &'a Community, lines: Vec<Line>, people: Vec<Person>) -> Run<'a> {
        let gateways = lines.len();
        Run {
            community,
            lines,
            people,
            report: Report::default(),
            arrivals: vec![0; gateways],
            wants: vec![Vec::new(); gateways],
            hours: vec![Default::default(); community.hours.ceil() as usize],
            outages_s: Vec::new(),
            before_after: (0.0, 0.0),
            rtt: 0.0,
            active: (0.0, 0.0),
            load: (0.0, 0.0),
            next_bound_s: 0.0,
            prices: Prices::new(gateways),
            feasible: 0.0,
        }
    }

    fn step(&mut self, now_s: f64) {
        self.outages(now_s);
        self.people_act(now_s);
        self.serve();
        self.count(now_s);
        if now_s >= self.next_bound_s {
            self.next_bound_s += self.community.bound_s;
            self.compare(now_s);
        }
        self.lines.iter_mut().for_each(|line| line.note(self.community));
    }

    /// Lets gateways fail, pause and come back.
    fn outages(&mut self, now_s: f64) {
        let mut failed = vec![false; self.lines.len()];
        for (line, failed) in self.lines.iter_mut().zip(&mut failed) {
            *failed = line.step(self.community, now_s);
        }
        self.report.failures += failed.iter().filter(|failed| **failed).count() as u64;
        for person in &mut self.people {
            let is_hit = person.client.path().is_some_and(|path| failed[path.gateway as usize]);
            if is_hit && person.rate_bps > 0.0 && person.outage.is_none() {
                person.outage = Some((now_s, person.rate_bps));
            }
        }
    }

    /// Users begin and end sessions and transfers, and clients choose.
    fn people_act(&mut self, now_s: f64) {
        let community = self.community;
        let hour = self.hours.len().min(1 + (now_s / 3600.0) as usize) - 1;
        for person in &mut self.people {
            let begins = person.user.step(community, now_s);
            if begins {
                person.client.begin();
            }
            if !person.user.is_here {
                continue;
            }
            self.hours[hour].3 += community.step_s / 3600.0;
            let moved = person.client.step(community, now_s, &self.lines).filter(|_| !begins);
            if let (Some(moved), Some(path)) = (moved, person.client.path()) {
                match moved {
                    Move::Better => self.report.moves_better += 1,
                    Move::Forced => self.report.moves_forced += 1,
                }
                self.hours[hour].2 += 1.0;
                self.arrivals[path.gateway as usize] += 1;
            }
        }
        let most = self.arrivals.iter().copied().max().unwrap_or(0);
        self.report.arrivals_most = self.report.arrivals_most.max(most);
    }

    /// Divides each gateway's spare rate among the users who transfer through it.
    fn serve(&mut self) {
        self.wants.iter_mut().for_each(Vec::clear);
        for (index, person) in self.people.iter_mut().enumerate() {
            person.rate_bps = 0.0;
            if let (true, Some(path)) = (person.user.want_bps > 0.0, person.client.path()) {
                match self.lines[path.gateway as usize].presence {
                    Presence::Open => self.wants[path.gateway as usize]
                        .push((index as u32, person.user.want_bps.min(path.rate_bps))),
                    _ => person.client.missed = true,
                }
            }
        }
        for (line, wants) in self.lines.iter_mut().zip(&mut self.wants) {
            let capacity = line.capacity_bps();
            let people = &mut self.people;
            line.users = wants.len() as u32;
            line.taken_bps = 0.0;
            share(capacity, wants, |index, rate| {
                people[index as usize].rate_bps = rate;
                line.taken_bps += rate;
            });
            let beyond = line.taken_bps - capacity;
            // Sums of floating-point numbers differ in their last bits.
            let beyond = if beyond > 1e-9 * capacity { beyond } else { 0.0 };
            self.report.beyond_spare_bps = self.report.beyond_spare_bps.max(beyond);
        }
    }

    /// Counts what each user got in the step.
    fn count(&mut self, now_s: f64) {
        let step_s = self.community.step_s;
        for person in &mut self.people {
            let (want, got) = (person.user.want_bps, person.rate_bps);
            if let Some((since_s, before)) = person.outage.filter(|_| got > 0.0 || want == 0.0) {
                person.outage = None;
                self.outages_s.push(now_s - since_s);
                if got > 0.0 {
                    self.before_after.0 += before;
                    self.before_after.1 += got;
                }
            }
            if want == 0.0 {
                continue;
            }
            person.wanted += want * step_s;
            person.got += got * step_s;
            self.active.0 += step_s;
            match person.client.path() {
                Some(path) if got > 0.0 => {
                    self.rtt += path.rtt_s * step_s;
                    person.client.used(now_s, step_s, got);
                }
                _ => {
                    let is_open = |gateway: u32| self.lines[gateway as usize].capacity_bps() > 0.0;
                    if person.client.paths().iter().any(|path| is_open(path.gateway)) {
                        self.active.1 += step_s;
                    }
                }
            }
        }
    }

    /// Compares the served rates at this instant with the bounds.
    fn compare(&mut self, now_s: f64) {
        let mut users = Vec::new();
        let (mut wanted, mut served) = (0.0, 0.0);
        for person in self.people.iter().filter(|person| person.user.want_bps > 0.0) {
            let want = person.user.want_bps;
            users.push(
                person.client.paths().iter().map(|path| (path.gateway, want.min(path.rate_bps))).collect(),
            );
            wanted += want;
            served += person.rate_bps;
        }
        let spares: Vec<f64> = self.lines.iter().map(Line::capacity_bps).collect();
        let bound = self.prices.bound(&spares, &users);
        self.feasible += bound.feasible;
        let spare: f64 = self.lines.iter().map(Line::capacity_bps).sum();
        self.load.0 += wanted;
        self.load.1 += spare;
        let hour = self.hours.len().min(1 + (now_s / 3600.0) as usize) - 1;
        let (sums, count, ..) = &mut self.hours[hour];
        sums.wanted_bps += wanted;
        sums.spare_bps += spare;
        sums.bound_bps += bound.most;
        sums.served_bps += served;
        *count += 1;
    }

    fn report(mut self) -> Report {
        let mut report = self.report;
        let sum = |of: fn(&Hour) -> f64| self.hours.iter().map(|(hour, ..)| of(hour)).sum::<f64>();
        report.found = ratio(sum(|hour| hour.served_bps), sum(|hour| hour.bound_bps), 1.0);
        report.feasible = ratio(self.feasible, sum(|hour| hour.bound_bps), 1.0);
        report.demand = ratio(self.load.0, self.load.1, 0.0);
        report.user_hours = self.hours.iter().map(|(.., hours)| hours).sum();
        let moves = (report.moves_better + report.moves_forced) as f64;
        report.moves_per_user_hour = ratio(moves, report.user_hours, 0.0);
        let active = self.people.iter().filter(|person| person.wanted > 0.0);
        let mut shares: Vec<f64> = active.map(|person| person.got / person.wanted).collect();
        report.jain = jain(&shares);
        report.least_tenth = quantile(&mut shares, 0.1);
        report.rtt_s = ratio(self.rtt, self.active.0 - self.active.1, 0.0);
        report.affected = self.outages_s.len() as u64;
        report.outage_mean_s = ratio(self.outages_s.iter().sum(), self.outages_s.len() as f64, 0.0);
        report.outage_p95_s = quantile(&mut self.outages_s, 0.95);
        report.outage_most_s = quantile(&mut self.outages_s, 1.0);
        report.after_over_before = ratio(self.before_after.1, self.before_after.0, 1.0);
        report.without_service = ratio(self.active.1, self.active.0, 0.0);
        let mean = |(sums, count, moves, hours): (Hour, u32, f64, f64)| {
            let each = |sum: f64| ratio(sum, f64::from(count), 0.0);
            Hour {
                wanted_bps: each(sums.wanted_bps),
                spare_bps: each(sums.spare_bps),
                bound_bps: each(sums.bound_bps),
                served_bps: each(sums.served_bps),
                moves: ratio(moves, hours, 0.0),
            }
        };
        report.hours = self.hours.into_iter().map(mean).collect();
        report
    }
}
