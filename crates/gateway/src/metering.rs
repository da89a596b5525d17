//! Bytes of neighbours on their way into the accounts, and what the caps of the line say to them.

use crate::users::{User, Users};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use leeway_accounts::Accounts;
use leeway_accounts::caps::{Caps, CapsConfig, Grant, Left, Reason, Verdict};
use leeway_accounts::export::{self, ExportError};
use leeway_accounts::ledger::{Class, Direction, State};
use leeway_accounts::store::{Store, StoreError};
use leeway_accounts::time::Slot;
use serde::Deserialize;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The store, if nothing else is said.
pub const STORE: &str = "/var/lib/leeway/gateway/accounts.db";

/// How often counts go from the connections to the ledger.
const TICK: Duration = Duration::from_millis(100);

/// `[accounts]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountsConfig {
    /// Path of an SQLite file, or `postgresql://user@host/database`.
    pub url: String,
    /// What this gateway is called there; the machine's name unless given.
    pub gateway: Option<String>,
    /// Seconds for which the store may refuse before sharing pauses.
    pub patience_s: u64,
}

impl Default for AccountsConfig {
    fn default() -> AccountsConfig {
        AccountsConfig { url: STORE.into(), gateway: None, patience_s: 3600 }
    }
}

impl AccountsConfig {
    /// What this gateway is called in the store.
    pub fn gateway(&self) -> String {
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.gateway.clone().unwrap_or_else(machine)
    }
}

/// Accounts and caps of a gateway that runs.
pub struct Meter {
    config: AccountsConfig,
    accounts: Mutex<Option<Accounts>>,
    caps: Mutex<Caps>,
    zone: Mutex<TimeZone>,
    /// The time that holds for the accounts, and when that was; asked for each piece of a transfer.
    at: Mutex<(Timestamp, Instant)>,
}

/// Bytes that may be moved now. What was not moved is free again when this is dropped.
#[derive(Debug)]
#[must_use = "what is not moved is given back"]
pub struct Leave<'a> {
    grant: Option<(&'a Meter, Grant)>,
    used: u64,
}

/// What the caps say to bytes.
#[derive(Debug)]
pub enum Answer<'a> {
    /// So many.
    Go(Leave<'a>),
    /// None; ask again then.
    Wait(Duration),
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("gateway", &self.config.gateway).finish_non_exhaustive()
    }
}

impl Leave<'_> {
    /// As many as there are: nothing is metered.
    pub fn free() -> Self {
        Leave { grant: None, used: 0 }
    }

    /// How many.
    pub fn bytes(&self) -> u64 {
        self.grant.as_ref().map_or(u64::MAX, |(_, grant)| grant.bytes())
    }

    /// That many have been moved.
    pub fn moved(mut self, bytes: u64) {
        self.used = bytes;
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if let Some((meter, grant)) = self.grant.take() {
            lock(&meter.caps).settle(meter.now(), grant, self.used);
        }
    }
}

impl Meter {
    /// Opens the store and goes on with what it knows. May be called in a Tokio runtime.
    ///
    /// # Errors
    /// The store cannot be opened or read.
    pub fn open(config: &AccountsConfig, caps: &CapsConfig) -> Result<Meter, StoreError> {
        apart(|| {
            let patience = Duration::from_secs(config.patience_s);
            let accounts = Accounts::open(&config.url, &config.gateway(), patience)?;
            let now = accounts.now();
            let meter = Meter {
                config: config.clone(),
                accounts: Mutex::new(Some(accounts)),
                caps: Mutex::new(restored(config, caps, now)?),
                zone: Mutex::new(caps.time_zone.clone()),
                at: Mutex::new((now, Instant::now())),
            };
            Ok(meter)
        })
    }

    /// Other caps from now on, with what has been used.
    ///
    /// # Errors
    /// The store cannot be read: then nothing has changed.
    pub fn reload(&self, caps: &CapsConfig) -> Result<(), StoreError> {
        let restored = apart(|| restored(&self.config, caps, self.now()))?;
        *lock(&self.caps) = restored;
        *lock(&self.zone) = caps.time_zone.clone();
        Ok(())
    }

    /// `user` wants to move so many bytes.
    pub fn ask(&self, user: &User, direction: Direction, wish: u64) -> Answer<'_> {
        let now = self.now();
        let answer = lock(&self.caps).ask(now, &user.name, direction, wish);
        match answer.grant {
            Some(grant) => Answer::Go(Leave { grant: Some((self, grant)), used: 0 }),
            None => Answer::Wait(answer.again.duration_since(now).try_into().unwrap_or(Duration::ZERO)),
        }
    }

    /// What the caps say to `user`.
    pub fn verdict(&self, user: &str) -> Verdict {
        lock(&self.caps).verdict(self.now(), user)
    }

    /// How the volumes stand that hold for `user`.
    pub fn left(&self, user: &str) -> Vec<Left> {
        lock(&self.caps).left(self.now(), user)
    }

    /// How the volumes stand that hold for all together.
    pub fn volumes(&self) -> Vec<Left> {
        let all = self.left("").into_iter();
        all.filter(|left| left.reason != Reason::UserDaily).collect()
    }

    /// Where days and hours of the caps begin.
    pub fn zone(&self) -> TimeZone {
        lock(&self.zone).clone()
    }

    /// How the ledger and its store stand; none at the end.
    pub fn state(&self) -> Option<State> {
        lock(&self.accounts).as_ref().map(Accounts::state)
    }

    /// Where the accounts are.
    pub fn config(&self) -> &AccountsConfig {
        &self.config
    }

    /// The time that holds for the accounts.
    pub fn now(&self) -> Timestamp {
        let (at, read) = *lock(&self.at);
        at.saturating_add(read.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// What was used from the day `from` until before the day `to`, as CSV; all of it without days.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn export(&self, from: Option<Date>, to: Option<Date>) -> Result<Vec<u8>, ExportError> {
        let zone = self.zone();
        let midnight =
            |date: Date| date.to_zoned_datetime(zone.clone()).map(|zoned| Slot::of(zoned.timestamp()));
        let day = |date: Option<Date>, without: Timestamp| {
            date.and_then(|date| midnight(date).ok()).unwrap_or(Slot::of(without))
        };
        let (from, to) = (day(from, Timestamp::UNIX_EPOCH), day(to, Timestamp::MAX));
        apart(|| {
            let mut text = Vec::new();
            export::csv(&mut Store::reading(&self.config.url)?, from, to, &mut text)?;
            Ok(text)
        })
    }

    /// Books what users have moved since the last time.
    fn book(&self, users: &Users) {
        let accounts = lock(&self.accounts);
        let Some(accounts) = &*accounts else { return };
        users.unbooked(|name, bytes| {
            for direction in Direction::ALL {
                accounts.count(name, direction, Class::Background, bytes[direction as usize]);
            }
        });
        *lock(&self.at) = (accounts.now(), Instant::now());
        lock(&self.caps).set_stored(accounts.state().shares());
    }
}

/// Books as long as it lives; at the end everything is stored.
#[derive(Debug)]
pub struct Bookkeeper {
    meter: Arc<Meter>,
    users: Arc<Users>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bookkeeper {
    /// Begins, in a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub fn begin(meter: Arc<Meter>, users: Arc<Users>) -> std::io::Result<Bookkeeper> {
        let (stop, stopped) = channel::<()>();
        let (books, all) = (meter.clone(), users.clone());
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                books.book(&all);
            }
        };
        let thread = std::thread::Builder::new().name("metering".into()).spawn(work)?;
        Ok(Bookkeeper { meter, users, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Bookkeeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
        self.meter.book(&self.users);
        drop(lock(&self.meter.accounts).take());
    }
}

/// Caps that know what the store does.
fn restored(config: &AccountsConfig, caps: &CapsConfig, now: Timestamp) -> Result<Caps, StoreError> {
    let mut restored = Caps::new(caps, now);
    let mut store = Store::reading(&config.url)?;
    let usage = store.usage(Slot::of(restored.since(now)), Slot::of(now).next())?;
    restored.restore(&config.gateway(), &usage);
    Ok(restored)
}

/// Does `work` in a thread: the client of PostgreSQL has a runtime of its own, which must not
/// stand inside another.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
