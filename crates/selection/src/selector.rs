//! The choice: power of two choices, hysteresis, dwell time, and back-off.

use crate::gateway::{Choice, Gateway, NoGateway, Observation, Probe, Reason};
use crate::known::{Known, Standing};
use crate::policy::Policy;
use leeway_units::{Bytes, Duration, Time};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The choice among gateways for one client.
#[derive(Debug, Clone)]
pub struct Selector {
    policy: Policy,
    rng: SplitMix64,
    seed: u64,
    known: Vec<Known>,
    /// The gateway in use, as an index into `known`.
    current: Option<usize>,
    /// The gateway that looks better than the current one.
    favourite: Option<usize>,
    /// When the client last moved because another gateway was better.
    moved: Option<Time>,
    /// When `choose` was last called.
    chose: Time,
    /// After a rest no transfer is under way, so a move disturbs nothing.
    is_rested: bool,
}

impl Selector {
    /// A client that knows `gateways` and has probed none. Clients need different seeds: clients
    /// with the same seed make the same choices.
    pub fn new(policy: Policy, seed: u64, gateways: impl IntoIterator<Item = Gateway>) -> Selector {
        let (current, favourite, moved) = (None, None, None);
        let rng = SplitMix64::seed_from_u64(seed);
        let (known, chose, is_rested) = (Vec::new(), Time::ZERO, true);
        let mut selector = Selector { policy, rng, seed, known, current, favourite, moved, chose, is_rested };
        let mut gateways: Vec<Gateway> = gateways.into_iter().collect();
        gateways.sort();
        gateways.dedup();
        selector.known = gateways.iter().map(|gateway| Known::new(*gateway, seed)).collect();
        selector.ask_next(Time::ZERO, policy.first_probes as usize);
        selector
    }

    /// Replaces the list of gateways. The knowledge about gateways that stay is kept, and so is
    /// the choice.
    pub fn set_gateways(&mut self, now: Time, gateways: impl IntoIterator<Item = Gateway>) {
        let mut gateways: Vec<Gateway> = gateways.into_iter().collect();
        gateways.sort();
        gateways.dedup();
        let current = self.current.map(|at| self.known[at].gateway);
        let favourite = self.favourite.map(|at| self.known[at].gateway);
        let before = std::mem::take(&mut self.known);
        let old = |gateway: &Gateway| before.iter().find(|known| known.gateway == *gateway).cloned();
        let seed = self.seed;
        self.known =
            gateways.iter().map(|each| old(each).unwrap_or_else(|| Known::new(*each, seed))).collect();
        self.current = current.and_then(|gateway| self.place(gateway));
        self.favourite = favourite.and_then(|gateway| self.place(gateway));
        if self.current.is_none() {
            self.ask_next(now, self.policy.first_probes as usize);
        }
    }

    /// Reports that a probe of `gateway` ended, or that a connection to it failed. A gateway
    /// outside the list is ignored.
    pub fn observe(&mut self, gateway: Gateway, now: Time, found: Observation) {
        let Some(at) = self.place(gateway) else { return };
        let policy = self.policy;
        self.known[at].observe(&policy, now, found);
        self.known[at].due = match self.known[at].standing {
            Standing::Open | Standing::Unasked => Time::NEVER,
            Standing::Failed => now + self.back_off(self.known[at].failures),
            Standing::UsedUp => now + self.interval(policy.retry_most_s),
            Standing::Paused(until) => self.after_pause(now, until),
        };
        if self.current == Some(at) {
            self.begin_round(now, at);
        } else {
            self.compare(now, at);
        }
        if self.current.is_none() && self.known[at].standing != Standing::Open {
            self.ask_next(now, 1);
        }
    }

    /// Reports that the client got `bytes` through `gateway` in `busy`, the time in which it
    /// waited for data.
    pub fn used(&mut self, gateway: Gateway, now: Time, bytes: Bytes, busy: Duration) {
        if let Some(at) = self.place(gateway) {
            self.known[at].used(&self.policy, now, bytes, busy);
        }
    }

    /// The gateway for new connections.
    ///
    /// # Errors
    /// [`NoGateway`] if none can be used.
    pub fn choose(&mut self, now: Time) -> Result<Choice, NoGateway> {
        self.rest(now);
        let (at, reason) = match self.current {
            Some(at) if self.known[at].standing == Standing::Open => match self.improvement(now, at) {
                Some(better) => (better, Reason::Better),
                None => (at, Reason::Stays),
            },
            Some(at) => (self.draw(now).ok_or_else(|| self.nothing())?, self.known[at].reason()),
            None => (self.draw(now).ok_or_else(|| self.nothing())?, Reason::First),
        };
        if reason != Reason::Stays {
            self.go(now, at, reason);
        }
        Ok(Choice { gateway: self.known[at].gateway, reason })
    }

    /// All gateways, the best first, as a PAC file lists them: the current one, open ones by cost,
    /// ones without a probe in the client's own order, then the others. Does not change the
    /// selector.
    #[must_use]
    pub fn order(&self, now: Time) -> Vec<Gateway> {
        let key = |at: usize| {
            let known = &self.known[at];
            let group = match known.standing {
                Standing::Open if self.current == Some(at) => 0,
                Standing::Open => 1,
                Standing::Unasked => 2,
                Standing::Failed => 3,
                Standing::Paused(_) => 4,
                Standing::UsedUp => 5,
            };
            (group, self.cost_at(now, at).unwrap_or(0.0), known.rank)
        };
        let mut places: Vec<usize> = (0..self.known.len()).collect();
        places.sort_by(|&a, &b| {
            let ((a0, a1, a2), (b0, b1, b2)) = (key(a), key(b));
            a0.cmp(&b0).then(a1.total_cmp(&b1)).then(b2.cmp(&a2))
        });
        places.into_iter().map(|at| self.known[at].gateway).collect()
    }

    /// The probe that is due first; `None` if none is planned. Its result goes to
    /// [`Selector::observe`], and until then the same probe is returned. [`Selector::probes`]
    /// returns all probes that are due.
    #[must_use]
    pub fn next_probe(&self) -> Option<Probe> {
        let due = self.known.iter().filter(|known| known.due < Time::NEVER);
        due.min_by_key(|known| (known.due, std::cmp::Reverse(known.rank)))
            .map(|known| Probe { gateway: known.gateway, at: known.due })
    }

    /// All gateways whose probe is due.
    pub fn probes(&self, now: Time) -> impl Iterator<Item = Gateway> + '_ {
        self.known.iter().filter(move |known| known.due <= now).map(|known| known.gateway)
    }

    /// Seconds to fetch one object of [`Policy::object_bytes`] through `gateway`; `None` if it is
    /// not open.
    #[must_use]
    pub fn cost(&self, now: Time, gateway: Gateway) -> Option<f64> {
        self.cost_at(now, self.place(gateway)?)
    }

    /// The last choice.
    #[must_use]
    pub fn current(&self) -> Option<Gateway> {
        self.current.map(|at| self.known[at].gateway)
    }

    /// After a rest, the choice is free. As many gateways as at the start are probed again, except
    /// those that were observed just now.
    fn rest(&mut self, now: Time) {
        let rested_s = now.since(std::mem::replace(&mut self.chose, now)).secs_f64();
        let Some(current) = self.current.filter(|_| rested_s >= self.policy.rest_s) else { return };
        self.is_rested = true;
        let others = (1..self.policy.first_probes as usize).filter_map(|_| self.lot(current));
        for at in others.chain([current]).collect::<Vec<_>>() {
            if now.since(self.known[at].seen).secs_f64() > self.policy.fresh_s {
                self.known[at].due = now;
            }
        }
    }

    fn place(&self, gateway: Gateway) -> Option<usize> {
        self.known.binary_search_by_key(&gateway, |known| known.gateway).ok()
    }

    fn cost_at(&self, now: Time, at: usize) -> Option<f64> {
        let delivered = self.known.iter().filter_map(|known| known.delivered_at(&self.policy, now));
        let most = delivered.reduce(f64::max);
        let useful_bps = most.map_or(f64::INFINITY, |most| self.policy.appetite * most);
        self.known[at].cost(&self.policy, now, self.current == Some(at), useful_bps)
    }

    /// Whether gateway `at` is better than the current one by more than the hysteresis.
    fn is_better(&self, now: Time, at: usize, current: usize) -> bool {
        let (Some(cost), Some(cost_now)) = (self.cost_at(now, at), self.cost_at(now, current)) else {
            return false;
        };
        cost < cost_now * (1.0 - self.policy.hysteresis) && cost < cost_now - self.policy.least_gain_s
    }

    /// Compares a gateway that was just observed with the current one.
    fn compare(&mut self, now: Time, at: usize) {
        let Some(current) = self.current else { return };
        let better = self.is_better(now, at, current);
        self.known[at].better = if better { self.known[at].better.saturating_add(1) } else { 0 };
        let rival = self.favourite.filter(|&favourite| favourite != at);
        if better && rival.is_none_or(|rival| self.cost_at(now, at) < self.cost_at(now, rival)) {
            self.favourite = Some(at);
        } else if self.favourite == Some(at) {
            self.favourite = None;
        }
    }

    /// A better gateway than the current, open one; `None` to stay.
    fn improvement(&mut self, now: Time, current: usize) -> Option<usize> {
        let fresh_s = self.policy.fresh_s;
        let is_fresh = |known: &Known| now.since(known.seen).secs_f64() <= fresh_s;
        if self.is_rested {
            if self.known.iter().any(|known| known.due <= now) {
                return None;
            }
            self.is_rested = false;
            let fresh = (0..self.known.len()).filter(|&at| is_fresh(&self.known[at]));
            let costs = fresh.filter_map(|at| Some((at, self.cost_at(now, at)?)));
            let best = costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)?;
            return self.is_better(now, best, current).then_some(best);
        }
        let at = self.favourite?;
        let known = &self.known[at];
        let dwells = self.moved.is_some_and(|moved| now.since(moved).secs_f64() < self.policy.dwell_s);
        let ready = f64::from(known.better) >= self.policy.confirm && is_fresh(known);
        (ready && !dwells && is_fresh(&self.known[current]) && self.is_better(now, at, current)).then_some(at)
    }

    /// The current gateway was observed: plans the next round of probes, with the favourite and
    /// random other gateways.
    fn begin_round(&mut self, now: Time, current: usize) {
        let next = now + self.interval(self.policy.probe_s);
        if self.known[current].standing != Standing::Open {
            return;
        }
        self.known[current].due = next;
        for number in 0..self.policy.others as usize {
            let favourite = self.favourite.filter(|_| number == 0);
            let other = favourite.or_else(|| self.lot(current));
            if let Some(other) = other.filter(|&other| self.known[other].due == Time::NEVER) {
                self.known[other].due = next;
            }
        }
    }

    /// A random other gateway that is open or has not been probed, each with the same chance.
    fn lot(&mut self, current: usize) -> Option<usize> {
        let fits = |at: &usize| {
            *at != current && matches!(self.known[*at].standing, Standing::Open | Standing::Unasked)
        };
        let places: Vec<usize> = (0..self.known.len()).filter(fits).collect();
        let number = (self.unit() * places.len() as f64) as usize;
        places.get(number).copied()
    }

    /// The cheapest of a few open gateways, which are drawn at random with weights of 1 / cost.
    fn draw(&mut self, now: Time) -> Option<usize> {
        let mut open: Vec<(usize, f64)> =
            (0..self.known.len()).filter_map(|at| Some((at, self.cost_at(now, at)?))).collect();
        let mut best: Option<(usize, f64)> = None;
        for _ in 0..self.policy.draws as usize {
            let sum: f64 = open.iter().map(|(_, cost)| cost.recip()).sum();
            let mut point = self.unit() * sum;
            let passed = |(_, cost): &(usize, f64)| {
                point -= cost.recip();
                point < 0.0
            };
            let Some(drawn) = open.iter().position(passed).or(open.len().checked_sub(1)) else { break };
            let (at, cost) = open.swap_remove(drawn);
            let rank = |at: usize| self.known[at].rank;
            if best.is_none_or(|(other, least)| cost < least || (cost == least && rank(at) > rank(other))) {
                best = Some((at, cost));
            }
        }
        best.map(|(at, _)| at)
    }

    fn go(&mut self, now: Time, at: usize, reason: Reason) {
        self.current = Some(at);
        self.favourite = None;
        self.known.iter_mut().for_each(|known| known.better = 0);
        if reason == Reason::Better {
            self.moved = Some(now);
        }
        // The other probes of the first round are no longer needed.
        for known in &mut self.known {
            if known.standing == Standing::Unasked && known.due > now {
                known.due = Time::NEVER;
            }
        }
        // A gateway that was observed long ago may have changed, so it is probed at once.
        self.known[at].due = if self.known[at].seen < now { now } else { self.known[at].due };
        if self.known[at].due == Time::NEVER {
            self.begin_round(now, at);
        }
    }

    /// Plans probes of `count` more gateways, in the client's own order.
    fn ask_next(&mut self, now: Time, count: usize) {
        let fits =
            |at: &usize| self.known[*at].standing == Standing::Unasked && self.known[*at].due == Time::NEVER;
        let mut places: Vec<usize> = (0..self.known.len()).filter(fits).collect();
        places.sort_by_key(|&at| std::cmp::Reverse(self.known[at].rank));
        for at in places.into_iter().take(count) {
            self.known[at].due = now;
        }
    }

    /// Why no gateway can be used.
    fn nothing(&self) -> NoGateway {
        let any = |wanted: fn(&Standing) -> bool| self.known.iter().any(|known| wanted(&known.standing));
        let until = self.known.iter().filter_map(|known| match known.standing {
            Standing::Paused(until) => until,
            _ => None,
        });
        match () {
            () if self.known.is_empty() => NoGateway::None,
            () if any(|standing| *standing == Standing::Unasked) => NoGateway::Unasked,
            () if any(|standing| matches!(standing, Standing::Paused(_))) => {
                NoGateway::Paused { until: until.min() }
            }
            () if any(|standing| *standing == Standing::UsedUp) => NoGateway::UsedUp,
            () => NoGateway::Failed,
        }
    }

    /// Time until the next try. It doubles with each failure in a row, and differs between
    /// clients.
    fn back_off(&mut self, failures: u32) -> Duration {
        let doubled = self.policy.retry_s * f64::from(failures.clamp(1, 30) - 1).exp2();
        self.interval(doubled.min(self.policy.retry_most_s))
    }

    /// When a paused gateway is probed again.
    fn after_pause(&mut self, now: Time, until: Option<Time>) -> Time {
        match until.filter(|until| *until > now) {
            Some(until) => until + Duration::from_secs_f64(self.policy.return_s * self.unit()),
            None => now + self.interval(self.policy.probe_s),
        }
    }

    fn interval(&mut self, seconds: f64) -> Duration {
        let spread = 1.0 + self.policy.jitter * (2.0 * self.unit() - 1.0);
        Duration::from_secs_f64(seconds * spread)
    }

    /// A random number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
