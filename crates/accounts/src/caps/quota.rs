//! A volume in a period. The last part is spread over the rest of the period; after it nothing
//! passes.

use super::Reason;
use super::bucket::{Bucket, later};
use super::calendar::{Every, Period};
use super::limiter::View;
use super::share::{Share, Shared, Want};
use super::verdict::Verdict;
use jiff::{SignedDuration, Timestamp};
use leeway_units::Rate;
use std::collections::BTreeMap;

/// Lowest rate to which a quota slows, in bit/s. Less would be of no use.
const LEAST_BPS: u64 = 64_000;

/// Time over which the last part of a voucher is spread.
const SPREAD: SignedDuration = SignedDuration::from_hours(1);

/// Time until the next attempt while everything that is left is reserved.
const SOON: SignedDuration = SignedDuration::from_millis(50);

/// Periods whose usage is kept, in case the clock goes back.
const REMEMBERED: usize = 3;

/// A volume. Granted bytes are reserved first, so neither rate nor delay can exceed the limit.
#[derive(Debug, Clone)]
pub struct Quota {
    every: Every,
    period: Period,
    limit: u64,
    /// If set, the home's bytes count as well, and at least this many are kept for the home.
    home: Option<u64>,
    slow_at: f64,
    reason: Reason,
    used: BTreeMap<Timestamp, Used>,
    reserved: u64,
    bucket: Bucket,
    slowed: bool,
    /// The share of this gateway, if other gateways use the volume, too.
    shared: Option<Shared>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    home: u64,
    neighbours: u64,
}

impl Quota {
    /// A quota of `limit` bytes in every period.
    pub fn new(every: Every, limit: u64, slow_at: f64, reason: Reason, at: Timestamp) -> Quota {
        let period = every.period(at);
        let bucket = Bucket::new(Rate::from_bits_per_sec(LEAST_BPS), at);
        let (home, reserved) = (None, 0);
        Quota {
            every,
            period,
            limit,
            home,
            slow_at,
            reason,
            used: BTreeMap::new(),
            reserved,
            bucket,
            slowed: false,
            shared: None,
        }
    }

    /// A quota that is shared by several gateways.
    pub fn across(self) -> Quota {
        Quota { shared: Some(Shared::default()), ..self }
    }

    /// A quota that counts the home's bytes as well, and keeps at least `keep` bytes for the home.
    pub fn with_home(self, keep: u64) -> Quota {
        Quota { home: Some(keep), ..self }
    }

    /// Counts bytes of the neighbours that were not reserved.
    pub fn count(&mut self, at: Timestamp, bytes: u64) {
        if let Every::Once(period) = &self.every
            && !period.contains(at)
        {
            return;
        }
        let used = &mut self.used(at).neighbours;
        *used = used.saturating_add(bytes);
    }

    /// Counts bytes of the home.
    pub fn count_home(&mut self, at: Timestamp, bytes: u64) {
        if self.home.is_some() {
            let used = &mut self.used(at).home;
            *used = used.saturating_add(bytes);
        }
    }

    /// What may pass now, and the reason for the limit.
    pub fn view(&mut self, at: Timestamp, wish: u64) -> View {
        let reason = self.reason;
        if let Every::Once(period) = &self.every
            && !period.contains(at)
        {
            let verdict = Verdict::Paused { until: None, reason: Reason::VoucherOver };
            return View { bytes: 0, again: later(at, SignedDuration::from_mins(1)), verdict };
        }
        self.roll(at);
        let (used, limit) = self.standing(at);
        if used >= limit {
            let until = (!matches!(self.every, Every::Once(_))).then_some(self.period.end);
            let verdict = Verdict::Paused { until, reason };
            // Within a period, the home's part can only grow.
            return View { bytes: 0, again: self.period.end, verdict };
        }
        let left = limit - used;
        let mut free = left.saturating_sub(self.reserved);
        let taken = self.used_here(at) + self.reserved;
        if let Some(shared) = &self.shared {
            free = free.min(shared.share.own.saturating_sub(taken));
        }
        self.slowed = used as f64 >= self.slow_at * limit as f64;
        if !self.slowed {
            let again = if free > 0 { at } else { later(at, SOON) };
            return View { bytes: free, again, verdict: Verdict::Free };
        }
        let rest = self.period.end.duration_since(at);
        let rest = if let Every::Once(_) = self.every { rest.min(SPREAD) } else { rest };
        let rest_ns = rest.as_nanos().max(1);
        let bps = i128::from(left) * 8_000_000_000 / rest_ns;
        let bps = u64::try_from(bps).unwrap_or(u64::MAX).max(LEAST_BPS);
        self.bucket.set(Rate::from_bits_per_sec(bps), at);
        let view = self.bucket.view(at, wish, reason);
        if view.bytes > 0 && free == 0 {
            return View { bytes: 0, again: later(at, SOON), ..view };
        }
        View { bytes: view.bytes.min(free), ..view }
    }

    /// Records that somebody wants to move bytes.
    pub fn ask(&mut self, at: Timestamp) {
        self.shared.iter_mut().for_each(|shared| shared.ask(at));
    }

    /// Whether it is known if other gateways have left something of the volume.
    pub fn is_told(&mut self, at: Timestamp) -> bool {
        let used = self.used_here(at) + self.reserved;
        self.shared.as_ref().is_none_or(|shared| shared.is_told(at, used))
    }

    /// The share that this gateway wants, if it differs from the present one.
    pub fn want(&mut self, at: Timestamp, user: &str) -> Option<Want> {
        let (Period { start, end }, limit) = (self.period(at), self.limit);
        let used = self.used(at).neighbours + self.reserved;
        let shared = self.shared.as_mut()?;
        let wish = shared.wish(at, limit, used)?;
        let cap = if self.reason == Reason::UserDaily { "daily" } else { "voucher" };
        Some(Want { user: user.to_owned(), cap, start, end, limit, used, wish })
    }

    /// The wish that gives back what this gateway has in advance, at its end.
    pub fn give_back(&mut self, at: Timestamp, user: &str) -> Option<Want> {
        self.shared.iter_mut().for_each(Shared::stop);
        self.want(at, user)
    }

    /// Takes over what was counted and reserved by the quota that this one replaces. The store
    /// knows it only up to the last transaction. Needs the same periods.
    pub fn replaces(&mut self, earlier: &Quota) {
        if self.every == earlier.every {
            self.used.clone_from(&earlier.used);
            // The shares of the other gateways stay known, so a user whose volume is used up is
            // refused at once.
            if self.shared.is_some() {
                self.shared.clone_from(&earlier.shared);
            }
        }
        self.reserved = earlier.reserved;
    }

    /// Sets the result of a wish.
    pub fn set_share(&mut self, at: Timestamp, want: &Want, share: Option<Share>) {
        self.shared.iter_mut().for_each(|shared| shared.set(at, want, share));
    }

    /// Reserves bytes that `view` has offered.
    pub fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        if self.slowed {
            self.bucket.take(bytes);
        }
    }

    /// Counts what was used of a reservation, and frees the rest.
    pub fn settle(&mut self, at: Timestamp, reserved: u64, used: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.bucket.put_back(reserved, used);
        self.count(at, used);
    }

    /// Bytes that neighbours have used in this period, also at other gateways; and bytes that they
    /// may use.
    pub fn standing(&mut self, at: Timestamp) -> (u64, u64) {
        let (limit, keep) = (self.limit, self.home);
        let used = *self.used(at);
        let limit = keep.map_or(limit, |keep| limit.saturating_sub(keep.max(used.home)));
        let others = self.shared.as_ref().map_or(0, |shared| shared.share.others);
        (used.neighbours.saturating_add(others), limit)
    }

    /// Bytes that neighbours have used in this period at this gateway.
    pub fn used_here(&mut self, at: Timestamp) -> u64 {
        self.used(at).neighbours
    }

    /// The period that `at` is in.
    pub fn period(&mut self, at: Timestamp) -> Period {
        self.roll(at);
        self.period
    }

    /// The cap that this volume belongs to.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether nothing is used, reserved or shared.
    pub fn is_idle(&mut self, at: Timestamp) -> bool {
        let share = self.shared.as_ref().map_or(0, |shared| shared.share.own);
        self.reserved == 0 && share == 0 && self.used(at).neighbours == 0
    }

    fn roll(&mut self, at: Timestamp) {
        if !self.period.contains(at) {
            self.period = self.every.period(at);
        }
        self.shared.iter_mut().for_each(|shared| shared.roll(self.period.start));
    }

    fn used(&mut self, at: Timestamp) -> &mut Used {
        self.roll(at);
        while self.used.len() > REMEMBERED {
            self.used.pop_first();
        }
        self.used.entry(self.period.start).or_default()
    }
}
