//! Shares of users' volumes that are used at several gateways.

use super::{Meter, lock};
use jiff::Timestamp;
use leeway_accounts::caps::{Share, Want};
use leeway_accounts::store::Store;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two checks whether the gateway needs another share of a user's volume.
const SHARE_TICK: Duration = Duration::from_millis(50);

const DAY: Duration = Duration::from_secs(86_400);

/// Time between two looks at the limits that other gateways of the store have set.
const LIMITS_TICK: Duration = Duration::from_secs(5);

/// Time for which the store is not asked for shares after it did not answer.
const SHARE_AGAIN: Duration = Duration::from_secs(2);

impl Meter {
    /// Takes shares of users' volumes and limits from the store until `stopped`, then gives the
    /// shares back.
    pub(super) fn share(&self, stopped: &Receiver<()>) {
        let mut store = None;
        let mut gone: Option<Instant> = None;
        let mut swept: Option<Instant> = None;
        let mut looked = Instant::now();
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SHARE_TICK) {
            if swept.is_none_or(|swept| swept.elapsed() >= DAY) {
                swept = Some(Instant::now());
                self.forget_shares(&mut store);
            }
            if looked.elapsed() >= LIMITS_TICK {
                looked = Instant::now();
                self.look_at_limits(&mut store);
            }
            let wants = lock(&self.caps).wants(self.now());
            for want in wants {
                let is_gone = gone.is_some_and(|since| since.elapsed() < SHARE_AGAIN);
                let share = if is_gone { None } else { self.take_share(&mut store, &want) };
                if !is_gone {
                    gone = share.is_none().then(Instant::now);
                }
                lock(&self.caps).set_share(self.now(), &want, share);
            }
        }
        let back = lock(&self.caps).give_back(self.now());
        for want in back {
            if self.take_share(&mut store, &want).is_none() {
                break;
            }
        }
    }

    /// `None` if the store does not answer.
    pub(super) fn take_share(&self, store: &mut Option<Store>, want: &Want) -> Option<Share> {
        self.reach(store)?.take_share(&self.config.gateway(), want).ok()
    }

    /// Deletes shares of periods that ended more than a day ago, so that differences of the
    /// gateways' clocks do not matter. If it fails, the next day deletes them.
    pub(super) fn forget_shares(&self, store: &mut Option<Store>) {
        let before = self.now().saturating_sub(DAY).unwrap_or(Timestamp::MIN);
        let _ = self.reach(store).map(|store| store.forget_shares(before));
    }

    pub(super) fn reach<'a>(&self, store: &'a mut Option<Store>) -> Option<&'a mut Store> {
        if store.is_none() {
            *store = Store::reading(&self.config.url).ok();
        }
        store.as_mut()
    }
}
