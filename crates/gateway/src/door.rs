//! Checks secrets that clients present: known ones pass at once, others wait for a check, and
//! wrong ones are slowed.
//!
//! A check costs Argon2 or a database query. So checks run in threads of their own, at most two
//! at a time and one at a time from one place. Whoever fails is slowed ([`Attempts`]).

use jiff::Timestamp;
use leeway_guard::{Attempts, site};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Secrets that are checked at a time: 40 MB, and two cores.
const AT_A_TIME: usize = 2;
/// Places whose secrets wait to be looked at: about a second.
pub(crate) const WAITING: usize = 64;

/// Wrong secrets of a place that are not slowed: a person who mistypes, a browser that opens six
/// connections.
const WRONG_AT_ONCE: u32 = 6;
/// After this time one more secret is checked: 8640 guesses a day.
const WRONG_EVERY: Duration = Duration::from_secs(10);

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has that name and that password.
    Wrong,
    /// Too many secrets from there were wrong: none is checked for this time.
    Later(Duration),
    /// Too many wait.
    Busy,
    /// The code is right, and the owner has taken it back.
    Revoked,
    /// The code is right, and was to be used first before that.
    Void(Timestamp),
    /// The codes cannot be read.
    Store,
}

/// What all pass who show a secret of one kind.
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

    /// What is `known` of a secret, or what a `look` at it finds.
    ///
    /// # Errors
    /// What the look says, or that there is none.
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
        // Those before may have shown the same secret, or failed.
        if let Some(found) = known() {
            return Ok(found);
        }
        self.admit(from)?;
        let _waits = self.waiting.try_acquire().map_err(|_| Denied::Busy)?;
        let looking = self.looking.clone().acquire_owned().await.map_err(|_| Denied::Busy)?;
        let looked = tokio::task::spawn_blocking(move || {
            // Until the end, also when nobody waits for it any more.
            let _looking = looking;
            look()
        });
        let looked = looked.await.unwrap_or(Err(Denied::Wrong));
        if matches!(looked, Err(Denied::Wrong)) {
            self.attempts().failed(from, Instant::now());
        }
        looked
    }

    /// Secrets that were wrong, and attempts that were refused without a look, since the start.
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

/// A turn of one place, forgotten when nobody from there waits.
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
        // The list's and this one.
        if Arc::strong_count(&self.lock) <= 2 {
            places.remove(&self.site);
        }
    }
}
