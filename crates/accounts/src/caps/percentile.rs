//! Transit that is billed by the 95th percentile: neighbours fill up to the level that the home
//! pays for anyway.
//!
//! A month has `N` slots of five minutes. The `k = N / 20` largest are free, and the next one is
//! billed. After the home has used more than `x` in `k + 1` slots, the bill is at least `x`,
//! whatever follows. So neighbours may fill every slot up to the home's `k + 1`st largest so far,
//! at no cost. Early in the month, a forecast from the home's last weeks adds to that. Its risk is
//! that the home uses less than ever before.

use super::Reason;
use super::bucket::later;
use super::calendar::{Every, Period};
use super::config::{Billing, PercentileConfig};
use super::limiter::View;
use super::verdict::Verdict;
use crate::ledger::Direction;
use crate::time::{SLOT_S, Slot};
use jiff::{SignedDuration, Timestamp};
use leeway_units::Rate;
use std::collections::BTreeMap;

/// Slots of a week.
const WEEK: i64 = 7 * 24 * 12;

/// Weeks that the forecast uses. The one with the lowest level counts.
const WEEKS: i64 = 4;

/// How far neighbours may be ahead of an even use of the slot, in seconds.
const AHEAD_S: f64 = 10.0;

/// Age of a slot in seconds after which the home's rate within it counts. Before that, the rate is
/// mostly noise.
const SETTLED_S: f64 = 60.0;

/// Least bytes that pass at a time.
const QUANTUM_BYTES: u64 = 1500;

/// Keeps home and neighbours together below the level that the home pays for.
#[derive(Debug, Clone)]
pub struct Percentile {
    billing: Billing,
    caution: f64,
    month: Every,
    /// The home's bytes by slot, for this month and five weeks.
    home: BTreeMap<Slot, [u64; 2]>,
    /// The slot of the fields below.
    slot: Option<Slot>,
    level: u64,
    /// Hour and month in which the level was computed. It is computed anew each hour.
    found: Option<(i64, Timestamp)>,
    used: [u64; 2],
    reserved: [u64; 2],
}

/// The sample of a month of `slots` that is billed. Missing samples are 0.
pub fn billed(samples: impl IntoIterator<Item = u64>, slots: usize) -> u64 {
    let mut samples = Vec::from_iter(samples);
    top(&mut samples, slots / 20 + 1);
    samples.get(slots / 20).copied().unwrap_or(0)
}

impl Percentile {
    /// For months of the kind `month`.
    pub fn new(config: &PercentileConfig, month: Every) -> Percentile {
        let (billing, caution) = (config.billing, config.caution);
        let home = BTreeMap::new();
        Percentile {
            billing,
            caution,
            month,
            home,
            slot: None,
            level: 0,
            found: None,
            used: [0; 2],
            reserved: [0; 2],
        }
    }

    /// Counts bytes of the home.
    pub fn count_home(&mut self, at: Timestamp, direction: Direction, bytes: u64) {
        self.home.entry(Slot::of(at)).or_default()[direction as usize] += bytes;
    }

    /// Counts bytes of neighbours that were not reserved.
    pub fn count(&mut self, at: Timestamp, direction: Direction, bytes: u64) {
        self.roll(at);
        // Usage of earlier slots no longer matters.
        if self.slot == Some(Slot::of(at)) {
            self.used[direction as usize] += bytes;
        }
    }

    /// What may pass now, and the reason for the limit.
    pub fn view(&mut self, at: Timestamp, direction: Direction, wish: u64) -> View {
        self.roll(at);
        let slot = Slot::of(at);
        let elapsed_s = at.duration_since(slot.start()).as_secs_f64();
        let rest_s = (SLOT_S as f64 - elapsed_s).max(0.001);
        let home = self.sample(self.home.get(&slot), direction) as f64;
        let before = self
            .sample(self.home.get(&Slot::of(later(slot.start(), -SignedDuration::from_secs(1)))), direction);
        let before_rate = before as f64 / SLOT_S as f64;
        let rate = if elapsed_s < SETTLED_S { 0.0 } else { home / elapsed_s };
        let expected = rest_s * rate.max(before_rate);
        let taken =
            (self.sample(Some(&self.used), direction) + self.sample(Some(&self.reserved), direction)) as f64;
        let level = self.level as f64;
        let even = level * (elapsed_s + AHEAD_S) / SLOT_S as f64 - home - taken;
        let whole = level - home - expected - taken;
        let bytes = even.min(whole).max(0.0) as u64;
        let reason = Reason::Percentile;
        if whole < 1.0 {
            let until = slot.next().start();
            let verdict = Verdict::Paused { until: Some(until), reason };
            // The home may use less than expected, so the neighbour asks again after 10 s.
            return View { bytes: 0, again: until.min(later(at, SignedDuration::from_secs(10))), verdict };
        }
        let rate = Rate::from_bits_per_sec((8.0 * whole / rest_s) as u64);
        let verdict = Verdict::Slowed { rate, reason };
        if bytes < wish.min(QUANTUM_BYTES) {
            return View { bytes: 0, again: later(at, SignedDuration::from_millis(200)), verdict };
        }
        View { bytes, again: at, verdict }
    }

    /// Reserves bytes that `view` has offered.
    pub fn reserve(&mut self, direction: Direction, bytes: u64) {
        self.reserved[direction as usize] += bytes;
    }

    /// Counts what was used of a reservation, and frees the rest.
    pub fn settle(&mut self, at: Timestamp, direction: Direction, reserved: u64, used: u64) {
        let all = &mut self.reserved[direction as usize];
        *all = all.saturating_sub(reserved);
        self.count(at, direction, used);
    }

    /// Takes over what was counted and reserved by the cap that this one replaces.
    pub fn replaces(&mut self, earlier: &Percentile) {
        if self.month == earlier.month {
            self.home.clone_from(&earlier.home);
        }
        (self.slot, self.used, self.reserved) = (earlier.slot, earlier.used, earlier.reserved);
        self.found = None;
    }

    /// Bytes of one slot that the home and its neighbours may reach together.
    pub fn level_bytes(&mut self, at: Timestamp) -> u64 {
        self.roll(at);
        self.level
    }

    /// The first instant whose usage matters at `at`.
    pub fn since(&self, at: Timestamp) -> Timestamp {
        let weeks = later(at, -SignedDuration::from_secs((WEEKS + 1) * WEEK * SLOT_S));
        weeks.min(self.month.period(at).start)
    }

    fn roll(&mut self, at: Timestamp) {
        let slot = Slot::of(at);
        if self.slot == Some(slot) && self.found.is_some() {
            return;
        }
        if self.slot != Some(slot) {
            self.used = [0; 2];
        }
        self.slot = Some(slot);
        let period = self.month.period(at);
        let found = Some((slot.second().div_euclid(3600), period.start));
        if self.found == found {
            return;
        }
        self.found = found;
        self.home = self.home.split_off(&Slot::of(self.since(at)));
        self.level = match self.billing {
            Billing::Greater => Direction::ALL
                .map(|direction| self.level_of(slot, period, direction))
                .into_iter()
                .max()
                .unwrap_or(0),
            Billing::Sum => self.level_of(slot, period, Direction::Down),
        };
    }

    /// The level of one direction, or of both together.
    fn level_of(&self, slot: Slot, period: Period, direction: Direction) -> u64 {
        let slots = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs() / SLOT_S;
        let all = slots(period.start, period.end);
        let rest = all - slots(period.start, slot.start());
        let (free, seen) = (all as usize / 20, Slot::of(period.start)..slot);
        let mut month =
            Vec::from_iter(self.home.range(seen).map(|(_, bytes)| self.sample(Some(bytes), direction)));
        top(&mut month, free + 1);
        let sure = month.get(free).copied().unwrap_or(0);
        if self.caution == 0.0 {
            return sure;
        }
        let back =
            |weeks: i64| Slot::of(later(slot.start(), -SignedDuration::from_secs(weeks * WEEK * SLOT_S)));
        let known = self.home.first_key_value().map(|(&slot, _)| slot);
        let forecasts = (1..=WEEKS).map_while(|weeks| {
            let from = back(weeks);
            // A week counts if the ledger has all of it.
            known.filter(|&known| known <= from)?;
            let week =
                self.home.range(from..back(weeks - 1)).map(|(_, bytes)| self.sample(Some(bytes), direction));
            Some(forecast(&month, week.collect(), rest, free))
        });
        let forecast = forecasts.min().unwrap_or(0);
        sure.max((self.caution * forecast as f64) as u64)
    }

    /// The sample of one direction, or of both together.
    fn sample(&self, bytes: Option<&[u64; 2]>, direction: Direction) -> u64 {
        let bytes = bytes.copied().unwrap_or_default();
        match self.billing {
            Billing::Greater => bytes[direction as usize],
            Billing::Sum => bytes[0] + bytes[1],
        }
    }
}

/// The level of a month whose remaining slots are like those of `week`. `month` is in descending
/// order and has at least the largest `free + 1` samples.
fn forecast(month: &[u64], mut week: Vec<u64>, rest: i64, free: usize) -> u64 {
    let weight = rest as f64 / WEEK as f64;
    let needed = if weight > 0.0 { (free as f64 / weight) as usize + 2 } else { 0 };
    top(&mut week, needed);
    let (mut month, mut week) = (month.iter().peekable(), week.iter().peekable());
    let mut above = 0.0;
    loop {
        let (value, weight) = match (month.peek(), week.peek()) {
            (Some(&&a), Some(&&b)) if a >= b => (month.next().map_or(a, |&a| a), 1.0),
            (_, Some(&&b)) => (week.next().map_or(b, |&b| b), weight),
            (Some(&&a), None) => (month.next().map_or(a, |&a| a), 1.0),
            (None, None) => return 0,
        };
        above += weight;
        if above > free as f64 {
            return value;
        }
    }
}

/// Keeps the largest `n` samples, in descending order.
fn top(samples: &mut Vec<u64>, n: usize) {
    if samples.len() > n && n > 0 {
        samples.select_nth_unstable_by(n - 1, |a, b| b.cmp(a));
        samples.truncate(n);
    }
    samples.sort_unstable_by(|a, b| b.cmp(a));
}
