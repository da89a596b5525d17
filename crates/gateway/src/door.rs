//! Checks the secrets that clients present: a known secret passes at once, an unknown one waits
//! for a check, and clients that present wrong ones are slowed.
//!
//! A check costs an Argon2 hash or a database query. So checks run in threads of their own, at
//! most two at a time and one at a time for each site. A site that presents wrong secrets is
//! slowed ([`Attempts`]).

use jiff::Timestamp;
use leeway_guard::{Attempts, site};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Checks that run at a time. Two take 40 MB (Argon2) and two cores.
const AT_A_TIME: usize = 2;
/// Sites whose secrets may wait for a check: 64 take about one second.
pub(crate) const WAITING: usize = 64;

/// Wrong secrets of a site before it is slowed. Six cover a person who mistypes, and a browser
/// that opens six connections at once.
const WRONG_AT_ONCE: u32 = 6;
/// One more secret of a slowed site is checked after this time: 8640 guesses a day.
const WRONG_EVERY: Duration = Duration::from_secs(10);

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has that name and that password.
    Wrong,
    /// Too many secrets from this site were wrong. None is checked for this time.
    Later(Duration),
    /// Too many secrets wait for a check.
    Busy,
    /// The code is right, but the owner has withdrawn it.
    Revoked,
    /// The code is right, but has expired: its first use had to be before this time.
    Void(Timestamp),
    /// The store of codes cannot be read.
    Store,
}

/// The checks of one kind of secret (passwords, or codes).
pub(crate) struct Door {
    attempts: Mutex<Attempts>,
    places: Places,
    waiting: Semaphore,
    pub(crate) looking: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new() -> Door {
        Door {
            attempts: Mutex::new(Attempts::new(WRONG_AT_ONCE, WRONG_EVERY)),
            places: Mutex::default(),
            waiting: Semaphore::new(WAITING),
            looking: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Returns what `known` finds at once, or else what the check `look` finds.
    ///
    /// # Errors
    /// What `look` returns, or [`Denied::Later`] or [`Denied::Busy`] if `look` did not run.
    pub(crate) async fn pass<T: Send + 'static>(
        &self,
        from: IpAddr,
        known: impl Fn() -> Option<T>,
        look: impl FnOnce() -> Result<T, Denied> + Send + 'static,
    ) -> Result<T, Denied> {
        if let Some(found) = known() {
            return Ok(found);
        }
        self.admit(from)?;
        let place = Turn::of(&self.places, site(from));
        let _turn = place.lock.lock().await;
        // An earlier client of this site may have presented the same secret, or a wrong one.
        if let Some(found) = known() {
            return Ok(found);
        }
        self.admit(from)?;
        let _waits = self.waiting.try_acquire().map_err(|_| Denied::Busy)?;
        let looking = self.looking.clone().acquire_owned().await.map_err(|_| Denied::Busy)?;
        let looked = tokio::task::spawn_blocking(move || {
            // Held until the check ends, even if the client has left meanwhile.
            let _looking = looking;
            look()
        });
        let looked = looked.await.unwrap_or(Err(Denied::Wrong));
        if matches!(looked, Err(Denied::Wrong)) {
            self.attempts().failed(from, Instant::now());
        }
        looked
    }

    /// Wrong secrets, and attempts that were refused without a check, since the start.
    pub(crate) fn refused(&self) -> (u64, u64) {
        let attempts = self.attempts();
        (attempts.total_failed(), attempts.total_slowed())
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn admit(&self, from: IpAddr) -> Result<(), Denied> {
        self.attempts().admit(from, Instant::now()).map_err(Denied::Later)
    }

    fn attempts(&self) -> std::sync::MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Places = Mutex<BTreeMap<IpAddr, Arc<tokio::sync::Mutex<()>>>>;

/// The turn of one site. Its entry is removed when nobody of that site waits.
struct Turn<'a> {
    places: &'a Places,
    site: IpAddr,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl Turn<'_> {
    fn of(places: &Places, site: IpAddr) -> Turn<'_> {
        let lock = places.lock().unwrap_or_else(PoisonError::into_inner).entry(site).or_default().clone();
        Turn { places, site, lock }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Two: the reference in the map, and `self.lock`.
        if Arc::strong_count(&self.lock) <= 2 {
            places.remove(&self.site);
        }
    }
}
