//! Counts neighbours' bytes for the accounts, and applies the caps of the line to them.

mod codes;
mod keeper;
mod limits;
mod records;
mod shares;

pub use keeper::Bookkeeper;

use crate::home::HomeCounter;
use crate::notes::{CLOCK_BACK, CLOCK_FORWARD, HOME_UNCOUNTED, Note, Value};
use crate::users::User;
use ipnet::IpNet;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leeway_accounts::Accounts;
use leeway_accounts::caps::{Caps, CapsConfig, Grant, Left, Reason, Verdict};
use leeway_accounts::ledger::{Direction, State};
use leeway_accounts::limits::{Limit, Whose};
use leeway_accounts::store::{Store, StoreError};
use leeway_accounts::vouchers::Voucher;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Path of the store, unless the configuration names another.
pub const STORE: &str = "/var/lib/leeway/gateway/accounts.db";

/// The section `[accounts]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountsConfig {
    /// Path of an SQLite file, or `postgresql://user@host/database`.
    pub url: String,
    /// Name of this gateway in the store; the machine's name unless given.
    pub gateway: Option<String>,
    /// Seconds for which the store may fail before sharing pauses.
    pub patience_s: u64,
}

impl Default for AccountsConfig {
    fn default() -> AccountsConfig {
        AccountsConfig { url: STORE.into(), gateway: None, patience_s: 3600 }
    }
}

impl AccountsConfig {
    /// Name of this gateway in the store.
    pub fn gateway(&self) -> String {
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.gateway.clone().unwrap_or_else(machine)
    }
}

/// Accounts and caps of a running gateway.
pub struct Meter {
    config: AccountsConfig,
    accounts: Mutex<Option<Accounts>>,
    caps: Mutex<Caps>,
    /// The caps of the configuration, without the limits that the owner has set.
    configured: Mutex<CapsConfig>,
    limits: Mutex<Vec<(Whose, Limit)>>,
    zone: Mutex<TimeZone>,
    /// Whether volumes of users are shared by all gateways of the store (PostgreSQL).
    across: bool,
    /// Connection to the store for vouchers. Not the ledger's connection, which may wait for a
    /// full disk.
    store: Mutex<Store>,
    /// Vouchers that were used since the start, by holder.
    vouchers: Mutex<BTreeMap<String, Voucher>>,
    /// The time of the accounts, and when it was read. Needed for each piece of a transfer.
    at: Mutex<(Timestamp, Instant)>,
    home: Mutex<HomeCounter>,
    /// The home's bytes since the start, down and up.
    home_bytes: Mutex<[u64; 2]>,
}

/// Bytes that may be moved now. Dropping it gives back what was not moved.
#[derive(Debug)]
#[must_use = "what is not moved is given back"]
pub struct Leave<'a> {
    grant: Option<(&'a Meter, Grant)>,
    used: u64,
}

/// The answer of the caps to a wish.
#[derive(Debug)]
pub enum Answer<'a> {
    /// Some bytes may be moved.
    Go(Leave<'a>),
    /// No bytes may be moved. Ask again after this time.
    Wait(Duration),
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("gateway", &self.config.gateway).finish_non_exhaustive()
    }
}

impl Leave<'_> {
    /// Unlimited, for a gateway without accounts.
    pub fn free() -> Self {
        Leave { grant: None, used: 0 }
    }

    /// Number of bytes that may be moved.
    pub fn bytes(&self) -> u64 {
        self.grant.as_ref().map_or(u64::MAX, |(_, grant)| grant.bytes())
    }

    /// Says that `bytes` have been moved.
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
    /// Opens the store and continues with its counts. The bytes of the networks `home` are counted
    /// if they pass this machine. May be called in a Tokio runtime.
    ///
    /// # Errors
    /// The store cannot be opened or read.
    pub fn open(config: &AccountsConfig, caps: &CapsConfig, home: &[IpNet]) -> Result<Meter, StoreError> {
        in_thread(|| {
            let patience = Duration::from_secs(config.patience_s);
            let accounts = Accounts::open(&config.url, &config.gateway(), patience)?;
            let now = accounts.now();
            let store = Store::reading(&config.url)?;
            let (limits, restored) = limits::restored(config, caps, now)?;
            let meter = Meter {
                config: config.clone(),
                accounts: Mutex::new(Some(accounts)),
                caps: Mutex::new(restored),
                configured: Mutex::new(caps.clone()),
                limits: Mutex::new(limits),
                zone: Mutex::new(caps.time_zone.clone()),
                across: store.is_server(),
                store: Mutex::new(store),
                vouchers: Mutex::default(),
                at: Mutex::new((now, Instant::now())),
                home: Mutex::new(HomeCounter::new(home)),
                home_bytes: Mutex::default(),
            };
            Ok(meter)
        })
    }

    /// Asks whether `user` may move up to `wish` bytes.
    pub fn ask(&self, user: &User, direction: Direction, wish: u64) -> Answer<'_> {
        let now = self.now();
        let answer = lock(&self.caps).ask(now, &user.name, direction, wish);
        match answer.grant {
            Some(grant) => Answer::Go(Leave { grant: Some((self, grant)), used: 0 }),
            None => Answer::Wait(answer.again.duration_since(now).try_into().unwrap_or(Duration::ZERO)),
        }
    }

    /// Whether the store has said what other gateways leave of the volumes of `user`. If not, it is
    /// asked.
    pub fn is_told(&self, user: &str) -> bool {
        lock(&self.caps).is_told(self.now(), user)
    }

    /// The verdict of the caps on `user`.
    pub fn verdict(&self, user: &str) -> Verdict {
        lock(&self.caps).verdict(self.now(), user)
    }

    /// The state of each volume of `user`.
    pub fn left(&self, user: &str) -> Vec<Left> {
        lock(&self.caps).left(self.now(), user)
    }

    /// The state of the volumes that all users share.
    pub fn volumes(&self) -> Vec<Left> {
        let all = self.left("").into_iter();
        all.filter(|left| left.reason != Reason::UserDaily).collect()
    }

    /// The time zone of the caps' days and hours.
    pub fn zone(&self) -> TimeZone {
        lock(&self.zone).clone()
    }

    /// State of the ledger and its store; `None` while the gateway ends.
    pub fn state(&self) -> Option<State> {
        lock(&self.accounts).as_ref().map(Accounts::state)
    }

    /// A note for the owner if the machine's clock jumped, and the accounts do not use its time
    /// yet.
    pub(crate) fn jump_note(&self) -> Option<Note> {
        let by = lock(&self.accounts).as_ref()?.jump()?.by;
        let phrase = if by.is_negative() { &CLOCK_BACK } else { &CLOCK_FORWARD };
        let minutes = (by.abs().as_secs() + 30) / 60;
        let by = match (minutes / 60, minutes % 60) {
            (0, minutes) => format!("{minutes} min"),
            (hours, 0) => format!("{hours} h"),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        };
        Some(Note::new(phrase, [Value::same(by)]))
    }

    /// Configuration of the accounts.
    pub fn config(&self) -> &AccountsConfig {
        &self.config
    }

    /// The present time of the accounts.
    pub fn now(&self) -> Timestamp {
        let (at, read) = *lock(&self.at);
        at.saturating_add(read.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// A note for the owner if caps depend on the home's bytes, and nothing here can count them.
    pub(crate) fn home_note(&self) -> Option<Note> {
        let missing = lock(&self.caps).need_home() && !lock(&self.home).can_count();
        missing.then(|| Note::new(&HOME_UNCOUNTED, []))
    }

    /// The home's bytes since the start, down and up.
    pub fn home_bytes(&self) -> [u64; 2] {
        *lock(&self.home_bytes)
    }
}

/// Does `work` in another thread: the client of PostgreSQL has its own runtime, which must not run
/// inside another runtime.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
