//! Caps that change while the gateway runs: a reload, and limits that the owner sets.

use super::{Meter, in_thread, lock};
use crate::metering::AccountsConfig;
use jiff::Timestamp;
use leeway_accounts::caps::{Caps, CapsConfig, Period};
use leeway_accounts::ledger::State;
use leeway_accounts::limits::{Limit, Whose};
use leeway_accounts::store::{Store, StoreError};
use leeway_accounts::time::Slot;
use std::time::Duration;

/// Longest time for which new caps wait until all counts are stored.
const STORED: Duration = Duration::from_secs(2);

impl Meter {
    /// Replaces the caps of the configuration. What was used counts for the new ones, and limits
    /// that the owner has set stay.
    ///
    /// # Errors
    /// The store cannot be read; nothing has changed.
    pub fn reload(&self, caps: &CapsConfig) -> Result<(), StoreError> {
        self.apply(caps.clone())
    }

    /// Sets a limit, or with `None` gives the configuration's back. It holds at once, and after a
    /// restart.
    ///
    /// # Errors
    /// The store fails. If it fails after it has stored the limit, the limit holds from the next
    /// reload or start.
    pub fn set_limit(&self, whose: &Whose, limit: Option<&Limit>) -> Result<(), StoreError> {
        in_thread(|| lock(&self.store).set_limit(&self.config.gateway(), whose, limit))?;
        // A guard within the call would be held during the call, which needs the lock itself.
        let configured = lock(&self.configured).clone();
        self.apply(configured)
    }

    /// The limits that the owner has set.
    pub fn limits(&self) -> Vec<(Whose, Limit)> {
        lock(&self.limits).clone()
    }

    /// The limit that counts now.
    pub fn limit(&self, whose: &Whose) -> Limit {
        lock(&self.configured).with(&lock(&self.limits)).limit(whose)
    }

    /// Neighbours with a limit of their own in the configuration.
    pub fn configured_users(&self) -> Vec<String> {
        lock(&self.configured).users.keys().cloned().collect()
    }

    /// Makes new caps of a configuration and of the limits in the store.
    pub(super) fn apply(&self, configured: CapsConfig) -> Result<(), StoreError> {
        let now = self.now();
        // A cap that is new has only what is in the store.
        in_thread(|| {
            let accounts = lock(&self.accounts);
            // A store that fails would only be waited for.
            let current = accounts.iter().filter(|accounts| accounts.state() == State::Current);
            current.for_each(|accounts| accounts.store(STORED));
        });
        let (limits, mut restored) = in_thread(|| restored(&self.config, &configured, now))?;
        *lock(&self.zone) = configured.time_zone.clone();
        *lock(&self.configured) = configured;
        *lock(&self.limits) = limits;
        let mut caps = lock(&self.caps);
        // These caps know what was used since the last transaction, too.
        restored.replaces(now, std::mem::replace(&mut caps, Caps::new(&CapsConfig::default(), now)));
        *caps = restored;
        Ok(())
    }

    /// Applies limits that were set at another gateway of the store.
    pub(super) fn look_at_limits(&self, store: &mut Option<Store>) {
        let gateway = self.config.gateway();
        let Some(Ok(limits)) = self.reach(store).map(|store| store.limits(&gateway)) else { return };
        if limits != self.limits() {
            let configured = lock(&self.configured).clone();
            // If it fails, the next look tries again.
            let _ = self.apply(configured);
        }
    }
}

/// New caps with the limits that the owner has set, and with what the store says was used.
pub(super) fn restored(
    config: &AccountsConfig,
    caps: &CapsConfig,
    now: Timestamp,
) -> Result<(Vec<(Whose, Limit)>, Caps), StoreError> {
    let (mut store, gateway) = (Store::reading(&config.url)?, config.gateway());
    let limits = store.limits(&gateway)?;
    let restored = Caps::new(&caps.with(&limits), now);
    let mut restored = if store.is_server() { restored.across() } else { restored };
    let mut usage = store.usage_of_home(&gateway, Slot::of(restored.since(now)), Slot::of(now).next())?;
    for Period { start, end } in restored.days(now) {
        usage.extend(store.usage_of_neighbours(&gateway, Slot::of(start), Slot::of(end))?);
    }
    restored.restore(&gateway, &usage);
    Ok((limits, restored))
}
