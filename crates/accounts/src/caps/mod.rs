//! Caps that protect the bill of a line: how much a neighbour may use now, and the reason for the
//! limit.
//!
//! Nothing here reads a clock. A program that moves bytes asks first ([`Caps::ask`]), moves at
//! most what is granted, and then reports the amount ([`Caps::settle`]). Grants that are not
//! settled count as used, so a volume is kept to the byte at any rate and over any delay.

mod bucket;
mod calendar;
mod config;
mod hours;
mod limiter;
mod percentile;
mod quota;
mod share;
mod verdict;

pub use calendar::{Every, Period};
pub use config::{Billing, CapsConfig, Day, HoursConfig, LimitConfig, MonthConfig, PercentileConfig};
pub use percentile::billed;
pub use share::{Share, Want};
pub use verdict::Verdict;

use crate::ledger::{Class, Direction};
use crate::store::Usage;
use crate::time::Slot;
use bucket::later;
use hours::Hours;
use jiff::{SignedDuration, Timestamp};
use limiter::{Limiter, View};
use percentile::Percentile;
use quota::Quota;
use std::collections::BTreeMap;

/// Users whose state is kept. For more, users who have used nothing are forgotten.
const REMEMBERED: usize = 4096;

/// Part of a voucher's data after which the holder is slowed.
const VOUCHER_SLOW_AT: f64 = 0.9;

/// Time until the next attempt while the accounts cannot be stored.
const RETRY: SignedDuration = SignedDuration::from_secs(5);

/// The cap that limits a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The volume of a billing month.
    Month,
    /// The 95th percentile of a billing month.
    Percentile,
    /// Hours of the week.
    Hours,
    /// The daily volume of all neighbours.
    AllDaily,
    /// The rate of all neighbours.
    AllRate,
    /// The daily volume of this neighbour.
    UserDaily,
    /// The rate of this neighbour.
    UserRate,
    /// The data of a voucher.
    Voucher,
    /// The days of a voucher.
    VoucherOver,
    /// The accounts cannot be stored.
    Store,
}

/// All caps of a line.
#[derive(Debug)]
pub struct Caps {
    config: CapsConfig,
    all: Vec<Limiter>,
    users: BTreeMap<String, Vec<Limiter>>,
    stored: bool,
    /// Whether volumes of users are shared by several gateways.
    across: bool,
}

/// The answer to a neighbour's wish.
#[derive(Debug)]
pub struct Answer {
    /// The bytes that may pass.
    pub grant: Option<Grant>,
    /// When to ask again if nothing may pass.
    pub again: Timestamp,
    /// What the caps say to the neighbour.
    pub verdict: Verdict,
}

/// Bytes that stay reserved until [`Caps::settle`] says how many were moved.
#[derive(Debug)]
#[must_use = "what is not settled stays reserved"]
pub struct Grant {
    user: String,
    direction: Direction,
    bytes: u64,
}

/// The state of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Which cap the volume belongs to.
    pub reason: Reason,
    /// Bytes that neighbours have used.
    pub used: u64,
    /// Bytes that neighbours may use.
    pub limit: u64,
    /// When it begins anew, or ends.
    pub until: Timestamp,
}

impl Grant {
    /// Number of bytes that may be moved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Caps {
    /// The caps of a checked configuration.
    pub fn new(config: &CapsConfig, at: Timestamp) -> Caps {
        let zone = config.time_zone.clone();
        let month = Every::Month(zone.clone(), config.billing_day);
        let mut all = limits(config, &config.all, [Reason::AllDaily, Reason::AllRate], at);
        if let Some(volume) = &config.month {
            let quota = Quota::new(month.clone(), volume.volume.get(), volume.slow_at, Reason::Month, at);
            all.push(Limiter::Quota(quota.with_home(volume.keep_for_home.get())));
        }
        if let Some(percentile) = &config.percentile {
            all.push(Limiter::Percentile(Percentile::new(percentile, month)));
        }
        if !config.hours.is_empty() {
            all.push(Limiter::Hours(Hours::new(zone, config.hours.clone(), at)));
        }
        Caps { config: config.clone(), all, users: BTreeMap::new(), stored: true, across: false }
    }

    /// Caps whose user volumes are shared by the gateways of a store. Nothing of a volume passes
    /// before the store has given this gateway a share ([`Caps::wants`]). Volumes of the line
    /// belong to this gateway alone.
    pub fn across(self) -> Caps {
        Caps { across: true, ..self }
    }

    /// The shares of users' volumes that this gateway wants now. Pass each to
    /// [`crate::Store::take_share`], and its result to [`Caps::set_share`].
    pub fn wants(&mut self, at: Timestamp) -> Vec<Want> {
        self.each_want(|quota, user| quota.want(at, user))
    }

    /// Whether it is known if other gateways have left something of the user's volumes. If not,
    /// this gateway wants a share from now on, as for a user who moves bytes. Before the answer, a
    /// verdict does not know of volumes that are used up elsewhere.
    pub fn is_told(&mut self, at: Timestamp, user: &str) -> bool {
        let own = self.limiters(at, user).1;
        let unknown = quotas(own).filter_map(|quota| (!quota.is_told(at)).then(|| quota.ask(at))).count();
        unknown == 0
    }

    /// The shares to give back when the gateway ends.
    pub fn give_back(&mut self, at: Timestamp) -> Vec<Want> {
        self.each_want(|quota, user| quota.give_back(at, user))
    }

    fn each_want(&mut self, mut of: impl FnMut(&mut Quota, &str) -> Option<Want>) -> Vec<Want> {
        let users = self.users.iter_mut().filter(|_| self.across);
        let quotas = users.flat_map(|(user, own)| quotas(own).map(move |quota| (quota, user)));
        quotas.filter_map(|(quota, user)| of(quota, user)).collect()
    }

    /// Sets the result of a wish. `None` means that the store did not answer. Then the gateway
    /// continues with what was free at the last answer.
    pub fn set_share(&mut self, at: Timestamp, want: &Want, share: Option<Share>) {
        if let Some(own) = self.users.get_mut(&want.user) {
            let is_of = |quota: &&mut Quota| (quota.reason() == Reason::UserDaily) == (want.cap == "daily");
            quotas(own).filter(is_of).for_each(|quota| quota.set_share(at, want, share));
        }
    }

    /// The first instant whose usage matters at `at`.
    pub fn since(&self, at: Timestamp) -> Timestamp {
        let month = Every::Month(self.config.time_zone.clone(), self.config.billing_day).period(at).start;
        let day = Every::Day(self.config.time_zone.clone()).period(at).start;
        let percentile = self.all.iter().filter_map(|limiter| match limiter {
            Limiter::Percentile(percentile) => Some(percentile.since(at)),
            _ => None,
        });
        percentile.chain([month.min(day)]).min().unwrap_or(month)
    }

    /// The days of the time zone whose usage by neighbours matters at `at`, until the present slot,
    /// and this slot.
    pub fn days(&self, at: Timestamp) -> Vec<Period> {
        let day = Every::Day(self.config.time_zone.clone());
        let month = Every::Month(self.config.time_zone.clone(), self.config.billing_day);
        let (now, mut from) = (Slot::of(at), month.period(at).start.min(day.period(at).start));
        let mut days = Vec::new();
        while from < now.start() {
            let end = day.period(from).end.min(now.start());
            days.push(Period { start: from, end });
            from = end;
        }
        days.push(Period { start: now.start(), end: now.next().start() });
        days
    }

    /// Whether a cap depends on the home's bytes.
    pub fn need_home(&self) -> bool {
        self.config.month.is_some() || self.config.percentile.is_some()
    }

    /// Counts the usage of `gateway` from the ledger, after a start.
    pub fn restore(&mut self, gateway: &str, usage: &[Usage]) {
        let own = usage.iter().filter(|usage| usage.gateway == gateway);
        for Usage { slot, user, direction, class, bytes, .. } in own {
            self.count(slot.start(), user, *direction, *class, *bytes);
        }
    }

    /// Takes over what was counted and reserved by the caps that these replace, and the vouchers
    /// of their users.
    pub fn replaces(&mut self, at: Timestamp, earlier: Caps) {
        let Caps { all, users, stored, .. } = earlier;
        self.stored = stored;
        replace(&mut self.all, &all);
        for (user, mut limiters) in users {
            let own = self.limiters(at, &user).1;
            replace(own, &limiters);
            own.extend(limiters.extract_if(.., |limiter| is_voucher(limiter)));
        }
    }

    /// Counts bytes that were not asked for: the home's, or those of another gateway.
    pub fn count(&mut self, at: Timestamp, user: &str, direction: Direction, class: Class, bytes: u64) {
        match class {
            Class::Foreground => {
                self.all.iter_mut().for_each(|limiter| limiter.count_home(at, direction, bytes));
            }
            Class::Background => {
                let (all, own) = self.limiters(at, user);
                all.iter_mut().chain(own).for_each(|limiter| limiter.count(at, direction, bytes));
            }
        }
    }

    /// Asks for a neighbour who wants to move `wish` bytes.
    pub fn ask(&mut self, at: Timestamp, user: &str, direction: Direction, wish: u64) -> Answer {
        if self.across {
            quotas(self.limiters(at, user).1).for_each(|quota| quota.ask(at));
        }
        let view = self.view(at, user, direction, wish);
        let bytes = view.bytes.min(wish);
        if bytes == 0 {
            return Answer { grant: None, again: view.again, verdict: view.verdict };
        }
        let (all, own) = self.limiters(at, user);
        all.iter_mut().chain(own).for_each(|limiter| limiter.reserve(direction, bytes));
        let grant = Grant { user: user.to_owned(), direction, bytes };
        Answer { grant: Some(grant), again: at, verdict: view.verdict }
    }

    /// Says that `used` bytes of a grant were moved.
    pub fn settle(&mut self, at: Timestamp, grant: Grant, used: u64) {
        let Grant { user, direction, bytes } = grant;
        let (all, own) = self.limiters(at, &user);
        all.iter_mut().chain(own).for_each(|limiter| limiter.settle(at, direction, bytes, used));
    }

    /// The verdict on a neighbour, for the direction that is limited more.
    pub fn verdict(&mut self, at: Timestamp, user: &str) -> Verdict {
        let [down, up] = Direction::ALL.map(|direction| self.view(at, user, direction, 1).verdict);
        down.and(up)
    }

    /// The state of each volume that concerns a neighbour.
    pub fn left(&mut self, at: Timestamp, user: &str) -> Vec<Left> {
        let (all, own) = self.limiters(at, user);
        let quotas = all.iter_mut().chain(own).filter_map(|limiter| match limiter {
            Limiter::Quota(quota) => Some(quota),
            _ => None,
        });
        let left = |quota: &mut Quota| {
            let (used, limit) = quota.standing(at);
            Left { reason: quota.reason(), used, limit, until: quota.period(at).end }
        };
        quotas.map(left).collect()
    }

    /// Gives a neighbour what a voucher is for in `period`: data, of which `used` bytes are used
    /// already, or only time.
    pub fn redeem(&mut self, at: Timestamp, user: &str, period: Period, bytes: Option<u64>, used: u64) {
        let every = Every::Once(period);
        let mut quota = Quota::new(every, bytes.unwrap_or(u64::MAX), VOUCHER_SLOW_AT, Reason::Voucher, at);
        quota.count(period.start, used);
        let quota = if self.across { quota.across() } else { quota };
        let (_, own) = self.limiters(at, user);
        own.retain(|limiter| !is_voucher(limiter));
        own.push(Limiter::Quota(quota));
    }

    /// Sets whether the accounts can be stored. If not, neighbours pause.
    pub fn set_stored(&mut self, stored: bool) {
        self.stored = stored;
    }

    /// Bytes that home and neighbours together may reach in a slot of five minutes, if transit is
    /// billed.
    pub fn level_bytes(&mut self, at: Timestamp) -> Option<u64> {
        self.all.iter_mut().find_map(|limiter| match limiter {
            Limiter::Percentile(percentile) => Some(percentile.level_bytes(at)),
            _ => None,
        })
    }

    fn view(&mut self, at: Timestamp, user: &str, direction: Direction, wish: u64) -> View {
        let mut whole = View { bytes: u64::MAX, again: at, verdict: Verdict::Free };
        if !self.stored {
            let verdict = Verdict::Paused { until: None, reason: Reason::Store };
            whole = View { bytes: 0, again: later(at, RETRY), verdict };
        }
        let (all, own) = self.limiters(at, user);
        for limiter in all.iter_mut().chain(own) {
            let view = limiter.view(at, direction, wish);
            whole.bytes = whole.bytes.min(view.bytes);
            if view.bytes == 0 {
                whole.again = whole.again.max(view.again);
            }
            whole.verdict = whole.verdict.and(view.verdict);
        }
        whole
    }

    /// The caps of all neighbours, and those of a user.
    fn limiters(&mut self, at: Timestamp, user: &str) -> (&mut Vec<Limiter>, &mut Vec<Limiter>) {
        if !self.users.contains_key(user) {
            if self.users.len() >= REMEMBERED {
                self.users.retain(|_, limiters| limiters.iter_mut().any(|limiter| !is_idle(limiter, at)));
            }
            let limit = self.config.users.get(user).unwrap_or(&self.config.user);
            let own = limits(&self.config, limit, [Reason::UserDaily, Reason::UserRate], at).into_iter();
            let across = |limiter| match limiter {
                Limiter::Quota(quota) if self.across => Limiter::Quota(quota.across()),
                limiter => limiter,
            };
            let own = own.map(across).collect();
            self.users.insert(user.to_owned(), own);
        }
        let own = self.users.get_mut(user).expect("it is there, or was put there above");
        (&mut self.all, own)
    }
}

fn limits(config: &CapsConfig, limit: &LimitConfig, reasons: [Reason; 2], at: Timestamp) -> Vec<Limiter> {
    let [daily, rate] = reasons;
    let day = || Every::Day(config.time_zone.clone());
    let quota = limit.daily.map(|bytes| Quota::new(day(), bytes.get(), limit.slow_at, daily, at));
    let rate = limit.rate.map(|bits| Limiter::rate(bits, rate, at));
    quota.map(Limiter::Quota).into_iter().chain(rate).collect()
}

/// Lets each volume and bill continue with the counts of its predecessor.
fn replace(limiters: &mut [Limiter], earlier: &[Limiter]) {
    for limiter in limiters {
        for before in earlier {
            match (&mut *limiter, before) {
                (Limiter::Quota(quota), Limiter::Quota(before)) if quota.reason() == before.reason() => {
                    quota.replaces(before);
                }
                (Limiter::Percentile(percentile), Limiter::Percentile(before)) => percentile.replaces(before),
                _ => {}
            }
        }
    }
}

fn is_voucher(limiter: &Limiter) -> bool {
    matches!(limiter, Limiter::Quota(quota) if quota.reason() == Reason::Voucher)
}

fn quotas(limiters: &mut [Limiter]) -> impl Iterator<Item = &mut Quota> {
    limiters.iter_mut().filter_map(|limiter| match limiter {
        Limiter::Quota(quota) => Some(quota),
        _ => None,
    })
}

/// Whether the cap can be forgotten without losing anything. A new bucket would be full, too.
fn is_idle(limiter: &mut Limiter, at: Timestamp) -> bool {
    match limiter {
        Limiter::Quota(quota) => quota.reason() != Reason::Voucher && quota.is_idle(at),
        _ => true,
    }
}
