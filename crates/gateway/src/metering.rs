//! Counts neighbours' bytes for the accounts, and applies the caps of the line to them.

use crate::control::{DayUsage, ExportFormat, ExportRange, PastDays};
use crate::home::HomeCounter;
use crate::notes::{CLOCK_BACK, CLOCK_FORWARD, HOME_UNCOUNTED, Note, Value};
use crate::users::{User, Users};
use ipnet::IpNet;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::Accounts;
use leeway_accounts::caps::{Caps, CapsConfig, Every, Grant, Left, Period, Reason, Share, Verdict, Want};
use leeway_accounts::export::{self, ExportError};
use leeway_accounts::ledger::{Class, Direction, State};
use leeway_accounts::limits::{Limit, Whose};
use leeway_accounts::store::{Store, StoreError, Usage};
use leeway_accounts::time::Slot;
use leeway_accounts::vouchers::{Code, Terms, Voucher};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Path of the store, unless the configuration names another.
pub const STORE: &str = "/var/lib/leeway/gateway/accounts.db";

/// Time between two transfers of the counts from the connections to the ledger.
const TICK: Duration = Duration::from_millis(100);

/// Time between two checks whether the gateway needs another share of a user's volume.
const SHARE_TICK: Duration = Duration::from_millis(50);

const DAY: Duration = Duration::from_secs(86_400);

/// Longest time for which new caps wait until all counts are stored.
const STORED: Duration = Duration::from_secs(2);

/// Time between two looks at the limits that other gateways of the store have set.
const LIMITS_TICK: Duration = Duration::from_secs(5);

/// Time for which the store is not asked for shares after it did not answer.
const SHARE_AGAIN: Duration = Duration::from_secs(2);

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
            let (limits, restored) = restored(config, caps, now)?;
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
    fn apply(&self, configured: CapsConfig) -> Result<(), StoreError> {
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
    fn look_at_limits(&self, store: &mut Option<Store>) {
        let gateway = self.config.gateway();
        let Some(Ok(limits)) = self.reach(store).map(|store| store.limits(&gateway)) else { return };
        if limits != self.limits() {
            let configured = lock(&self.configured).clone();
            // If it fails, the next look tries again.
            let _ = self.apply(configured);
        }
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

    /// Makes vouchers, stores them, and returns their codes.
    ///
    /// # Errors
    /// The terms are empty, or the store fails.
    pub fn make_vouchers(&self, terms: &Terms, count: usize) -> Result<Vec<Code>, StoreError> {
        in_thread(|| lock(&self.store).make_vouchers(self.now(), terms, count))
    }

    /// Invites somebody by name, stores the invitation, and returns its code.
    ///
    /// # Errors
    /// The name is not allowed or is invited already, or the store fails.
    pub fn invite(&self, name: &str, terms: &Terms) -> Result<Code, StoreError> {
        in_thread(|| lock(&self.store).invite(self.now(), name, terms))
    }

    /// All vouchers and invitations, each with the bytes that were used of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn vouchers(&self) -> Result<Vec<(Voucher, u64)>, StoreError> {
        in_thread(|| lock(&self.store).vouchers())
    }

    /// When each user last used the line, to five minutes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_seen(&self) -> Result<BTreeMap<String, Timestamp>, StoreError> {
        in_thread(|| lock(&self.store).last_seen())
    }

    /// The voucher of a code. Its days begin with the first call.
    ///
    /// # Errors
    /// The code is not accepted, or the store fails.
    pub fn redeem(&self, code: &str) -> Result<Voucher, StoreError> {
        let now = self.now();
        let (voucher, used) = in_thread(|| {
            let mut store = lock(&self.store);
            let voucher = store.redeem(now, code)?;
            // What was used of it at other gateways is in their shares.
            let own = self.across.then(|| self.config.gateway());
            let used = store.used_at(&voucher, own.as_deref())?;
            Ok::<_, StoreError>((voucher, used))
        })?;
        let mut vouchers = lock(&self.vouchers);
        // If the caps have this voucher already, they know better than the store how much was
        // used.
        if vouchers.insert(voucher.holder(), voucher.clone()).as_ref() != Some(&voucher) {
            redeem_in(&mut lock(&self.caps), now, &voucher, used);
        }
        Ok(voucher)
    }

    /// The voucher of a code. Its days do not begin with this.
    ///
    /// # Errors
    /// There is no such voucher, or the store cannot be read.
    pub fn look_at(&self, code: &str) -> Result<Voucher, StoreError> {
        in_thread(|| lock(&self.store).look_at(code))
    }

    /// Whether a redeemed voucher still holds. If not, transfers of its holder stop.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn look_again(&self, selector: &str) -> Result<bool, StoreError> {
        let found = in_thread(|| lock(&self.store).voucher(selector))?;
        if found.as_ref().is_some_and(|voucher| voucher.revoked.is_none()) {
            return Ok(true);
        }
        let now = self.now();
        let mut vouchers = lock(&self.vouchers);
        if let Some(voucher) = vouchers.values_mut().find(|voucher| voucher.selector == selector) {
            voucher.revoked = found.and_then(|found| found.revoked).or(Some(now));
            redeem_in(&mut lock(&self.caps), now, voucher, 0);
        }
        Ok(false)
    }

    /// Revokes vouchers by the beginning of a code, or an invitation by its name. Returns their
    /// number.
    ///
    /// # Errors
    /// The store fails.
    pub fn revoke(&self, whose: &str) -> Result<u64, StoreError> {
        in_thread(|| lock(&self.store).revoke_vouchers(self.now(), whose))
    }

    /// When the voucher of `user` ends, if it has an end.
    pub fn ends(&self, user: &str) -> Option<Timestamp> {
        lock(&self.vouchers).get(user)?.ends()
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

    /// Writes what was used in a range of days. Without days, everything.
    ///
    /// # Errors
    /// The store cannot be read, or `out` fails.
    pub fn export(&self, range: ExportRange, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        let ExportRange { from, to, format } = range;
        let zone = self.zone();
        let midnight =
            |date: Date| date.to_zoned_datetime(zone.clone()).map(|zoned| Slot::of(zoned.timestamp()));
        let day = |date: Option<Date>, without: Timestamp| {
            date.and_then(|date| midnight(date).ok()).unwrap_or(Slot::of(without))
        };
        let (from, to) = (day(from, Timestamp::UNIX_EPOCH), day(to, Timestamp::MAX));
        in_thread(|| {
            let mut store = Store::reading(&self.config.url)?;
            match format {
                ExportFormat::Csv => export::csv(&mut store, from, to, out),
                ExportFormat::Parquet => export::parquet(&mut store, from, to, out),
            }
        })
        .map(drop)
    }

    /// What each user and the home used here on each of the last `days` days.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn days(&self, days: u16) -> Result<PastDays, StoreError> {
        let (now, gateway) = (self.now(), self.config.gateway());
        let zone = self.zone();
        let mut every = Every::Day(zone.clone()).period(now);
        let today = zone.to_datetime(now).date();
        in_thread(|| {
            let (mut store, mut usage) = (Store::reading(&self.config.url)?, Vec::new());
            for _ in 0..days {
                let day = zone.to_datetime(every.start).date();
                let (from, to) = (Slot::of(every.start), Slot::of(every.end));
                let home = store.usage_of_home(&gateway, from, to)?;
                let neighbours = store.usage_of_neighbours(&gateway, from, to)?;
                let mut sums = BTreeMap::<String, [u64; 2]>::new();
                for Usage { user, direction, bytes, .. } in home.into_iter().chain(neighbours) {
                    sums.entry(user).or_default()[direction as usize] += bytes;
                }
                usage.extend(sums.into_iter().map(|(user, [down_bytes, up_bytes])| DayUsage {
                    day,
                    user,
                    down_bytes,
                    up_bytes,
                }));
                let Ok(before) = every.start.checked_sub(SignedDuration::from_secs(1)) else { break };
                every = Every::Day(zone.clone()).period(before);
            }
            Ok(PastDays { today, days, usage })
        })
    }

    /// Takes shares of users' volumes and limits from the store until `stopped`, then gives the
    /// shares back.
    fn share(&self, stopped: &Receiver<()>) {
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
    fn take_share(&self, store: &mut Option<Store>, want: &Want) -> Option<Share> {
        self.reach(store)?.take_share(&self.config.gateway(), want).ok()
    }

    /// Deletes shares of periods that ended more than a day ago, so that differences of the
    /// gateways' clocks do not matter. If it fails, the next day deletes them.
    fn forget_shares(&self, store: &mut Option<Store>) {
        let before = self.now().saturating_sub(DAY).unwrap_or(Timestamp::MIN);
        let _ = self.reach(store).map(|store| store.forget_shares(before));
    }

    fn reach<'a>(&self, store: &'a mut Option<Store>) -> Option<&'a mut Store> {
        if store.is_none() {
            *store = Store::reading(&self.config.url).ok();
        }
        store.as_mut()
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

    /// Books what users and the home have moved since the last call.
    fn book(&self, users: &Users) {
        let accounts = lock(&self.accounts);
        let Some(accounts) = &*accounts else { return };
        let mut home = lock(&self.home);
        users.unbooked(|name, bytes| {
            home.neighbours(bytes);
            for direction in Direction::ALL {
                accounts.count(name, direction, Class::Background, bytes[direction as usize]);
            }
        });
        let now = accounts.now();
        *lock(&self.at) = (now, Instant::now());
        let bytes = home.look();
        drop(home);
        let mut caps = lock(&self.caps);
        for direction in Direction::ALL {
            let bytes = bytes[direction as usize];
            lock(&self.home_bytes)[direction as usize] += bytes;
            accounts.count("", direction, Class::Foreground, bytes);
            caps.count(now, "", direction, Class::Foreground, bytes);
        }
        caps.set_stored(accounts.state().shares());
    }
}

/// Books bytes while it lives. Dropping it stores everything.
#[derive(Debug)]
pub struct Bookkeeper {
    meter: Arc<Meter>,
    users: Arc<Users>,
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Bookkeeper {
    /// Starts booking, in threads of its own.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(meter: Arc<Meter>, users: Arc<Users>) -> std::io::Result<Bookkeeper> {
        let mut keeper = Bookkeeper { meter, users, stop: Vec::new(), threads: Vec::new() };
        let (books, all) = (keeper.meter.clone(), keeper.users.clone());
        keeper.spawn("metering", move |stopped| {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                books.book(&all);
            }
        })?;
        if keeper.meter.across {
            let meter = keeper.meter.clone();
            keeper.spawn("shares", move |stopped| meter.share(stopped))?;
        }
        Ok(keeper)
    }

    /// Starts a thread that does `work` until the end.
    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Receiver<()>) + Send + 'static,
    ) -> std::io::Result<()> {
        let (stop, stopped) = channel();
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(move || work(&stopped))?);
        self.stop.push(stop);
        Ok(())
    }
}

impl Drop for Bookkeeper {
    fn drop(&mut self) {
        self.stop.clear();
        // The thread's panic message was printed already.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        self.meter.book(&self.users);
        drop(lock(&self.meter.accounts).take());
    }
}

/// New caps with the limits that the owner has set, and with what the store says was used.
fn restored(
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

/// Gives the voucher's bytes and time to its holder, less what was used.
fn redeem_in(caps: &mut Caps, now: Timestamp, voucher: &Voucher, used: u64) {
    if let Some(period) = voucher.period() {
        caps.redeem(now, &voucher.holder(), period, voucher.terms.bytes, used);
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
