//! Operations of the owner on a running gateway. The control socket, the page and the command line
//! use the same ones.

mod api;
mod client;
mod config;
mod limits;
mod live;
mod people;
mod pieces;
mod reload;
mod socket;
mod status;

pub use client::{Client, ClientError, StreamError};
pub use config::{ControlConfig, SOCKET};
pub use limits::{LimitRequest, LimitStatus};
pub use live::{Notice, Now, Sample};
pub use people::{Entrance, InviteRequest, Issued, IssuedCode, VoucherRequest, VoucherStatus};
pub use reload::Source;
pub use socket::{Socket, SocketError};
pub use status::{
    DayUsage, ExportFormat, ExportRange, Health, HistoryRange, PastDays, PauseRequest, ReloadRequest,
    Reloaded, RevokeRequest, Revoked, Sharing, Status, UserStatus, Volume, Window,
};

pub(crate) use api::serve;
pub(crate) use status::own_volumes;

use crate::caretaker::Caretaker;
use crate::config::Config;
use crate::gate::{Gate, LONGEST};
use crate::http::Proxy;
use crate::language::Language;
use crate::login::Logins;
use crate::metering::Meter;
use crate::notes::{Note, Value, in_english};
use crate::observe::{Observation, Observer};
use crate::refusals as phrase;
use crate::users::{User, address_name};
use axum::http::StatusCode;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::StoreError;
use live::History;
use reload::Running;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Neighbours that the page shows: those who have used most.
const SHOWN: usize = 100;

/// Most days of a history.
const MOST_DAYS: u16 = 366;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// The request is wrong, or cannot be carried out here.
    #[error("{0}")]
    Wrong(Note),
    /// The store of the accounts fails, or refuses a voucher.
    #[error("{}", self.note())]
    Accounts(#[from] StoreError),
    /// The accounts cannot be exported.
    #[error("{}", self.note())]
    Export(#[from] leeway_accounts::export::ExportError),
    /// A file cannot be written.
    #[error("{}", self.note())]
    File(#[from] io::Error),
}

impl OperationError {
    /// The error as a note.
    pub(crate) fn note(&self) -> Note {
        match self {
            OperationError::Wrong(note) => note.clone(),
            OperationError::Accounts(error) => phrase::of_store(error),
            OperationError::Export(error) => Note::new(&phrase::ACCOUNTS, [Value::said(error)]),
            OperationError::File(error) => Note::new(&phrase::NOT_KEPT, [Value::error(error)]),
        }
    }

    /// The HTTP status of a response with this error.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            OperationError::Wrong(_) | OperationError::Accounts(StoreError::Voucher(_)) => {
                StatusCode::BAD_REQUEST
            }
            OperationError::File(_) | OperationError::Accounts(_) | OperationError::Export(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

/// The operations, and the state that they need.
pub struct Operations {
    proxy: Arc<Proxy>,
    began: Instant,
    started: Timestamp,
    notes: OnceLock<Vec<Note>>,
    addresses: OnceLock<Vec<SocketAddr>>,
    /// The users who may see the page, if there is a page.
    owners: Option<Arc<Logins>>,
    /// The configuration in use.
    running: Mutex<Running>,
    history: Mutex<History>,
    /// The observer of a gateway that serves nobody.
    observer: Option<Arc<Observer>>,
    /// The process whose rules divert clients without configuration, if there are such rules.
    diverting: Option<Arc<Caretaker>>,
}

impl Operations {
    /// The operations of a gateway with this configuration.
    pub fn new(proxy: Arc<Proxy>, config: &Config, owners: Option<Arc<Logins>>) -> Operations {
        let (notes, addresses, history) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let running = Mutex::new(Running::new(config));
        let (began, started) = (Instant::now(), Timestamp::now());
        Operations {
            proxy,
            began,
            started,
            notes,
            addresses,
            owners,
            running,
            history,
            observer: None,
            diverting: None,
        }
    }

    /// The operations of a gateway that only observes, if there is an observer.
    pub(crate) fn observing(self, observer: Option<Arc<Observer>>) -> Operations {
        Operations { observer, ..self }
    }

    /// The operations of a gateway whose clients this process diverts, if there is one.
    pub(crate) fn diverting(self, diverting: Option<Arc<Caretaker>>) -> Operations {
        Operations { diverting, ..self }
    }

    /// The observer of a gateway that serves nobody.
    pub(crate) fn observer(&self) -> Option<Arc<Observer>> {
        self.observer.clone()
    }

    /// What was observed of the line, if the gateway only observes.
    pub fn observation(&self) -> Option<Observation> {
        self.observer.as_ref().map(|observer| observer.observation())
    }

    /// Sets the notices that do not change until the gateway ends.
    pub(crate) fn tell(&self, notes: Vec<Note>) {
        // Set only once.
        let _ = self.notes.set(notes);
    }

    /// Sets the addresses that the gateway listens on.
    pub fn listens(&self, addresses: Vec<SocketAddr>) {
        // Set only once.
        let _ = self.addresses.set(addresses);
    }

    /// The notices for the owner, in English.
    pub fn notices(&self) -> Vec<String> {
        in_english(&self.notes())
    }

    /// The notices for the owner.
    pub(crate) fn notes(&self) -> Vec<Note> {
        if self.observer.is_some() {
            return self.notes.get().cloned().unwrap_or_default();
        }
        let policy = self.proxy.connector.policy();
        let mut notes = policy.home_notes();
        notes.extend(policy.block.notes());
        notes.extend(self.gate().meter().and_then(|meter| meter.jump_note()));
        notes.extend(self.gate().meter().and_then(|meter| meter.home_note()));
        notes.extend(self.notes.get().into_iter().flatten().cloned());
        notes
    }

    /// What a gateway that only observes cannot know.
    pub(crate) fn unknown(&self) -> Vec<Note> {
        self.observer.as_ref().map(|observer| observer.unknown()).unwrap_or_default()
    }

    /// Whether a client at this address may use the gateway.
    pub fn is_neighbour(&self, address: IpAddr) -> bool {
        self.proxy.connector.policy().is_client(address)
    }

    /// Adds a sample to the history each second. Never ends.
    pub async fn watch(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let status = self.status();
            self.lock().add(Timestamp::now().as_second(), &status);
        }
    }

    /// The time zone of the line's days and hours.
    pub fn zone(&self) -> TimeZone {
        self.gate().zone()
    }

    /// The samples of the last ten minutes, the oldest first.
    pub fn history(&self) -> Vec<Sample> {
        self.lock().samples()
    }

    /// Everything that the page shows at first sight, with errors in `language`.
    pub fn now(&self, language: Language) -> Now {
        let (status, sample) = (self.status(), self.lock().last());
        let mut users = self.users();
        users.sort_by_key(|user| Reverse(user.down_bytes + user.up_bytes));
        users.truncate(SHOWN);
        // Revoked users are listed as well, so that the owner can give their access back.
        let shown = |name: &String| users.iter().all(|user| user.name != *name);
        let others: Vec<String> = self.gate().revoked().into_iter().filter(shown).collect();
        users
            .extend(others.into_iter().map(|name| UserStatus::absent(name, self.gate()).judged(self.gate())));
        let notice = Notice::of(&status, &sample);
        let observed = status.observed;
        let Status { sharing, volumes, home_speed, .. } = status;
        let peers = self.proxy.peers.status(language);
        Now { sharing, notice, home_speed, sample, users, volumes, peers, observed }
    }

    /// The state of the gateway.
    pub fn status(&self) -> Status {
        let users = self.proxy.users.all();
        let sum = |count: fn(&crate::users::Counts) -> u64| {
            let gone = count(self.proxy.users.gone());
            users.iter().fold(gone, |sum, user| sum + count(&user.counts))
        };
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            addresses: self.addresses.get().cloned().unwrap_or_default(),
            started: self.started,
            uptime_s: self.began.elapsed().as_secs(),
            sharing: match self.observer {
                Some(_) => Sharing::Observing,
                None => Sharing::of(self.gate().pause()),
            },
            observed: self.observation(),
            connections: self.proxy.users.connections(),
            users: users.iter().filter(|user| user.connections() > 0).count(),
            down_bytes: sum(|counts| counts.down_bytes.load(Ordering::Relaxed)),
            up_bytes: sum(|counts| counts.up_bytes.load(Ordering::Relaxed)),
            windows: self.windows(),
            home_speed: self.proxy.connector.speedometer.speed(),
            relay: self.proxy.connector.relay.as_ref().map(|relay| relay.state().borrow().to_string()),
            accounts: self.accounts(),
            volumes: self.volumes(),
            revoked: self.gate().revoked(),
            peers: self.proxy.peers.status(Language::English),
            notices: self.notices(),
        }
    }

    /// All users who have used the gateway since its start, by name.
    pub fn users(&self) -> Vec<UserStatus> {
        let status = |user: &Arc<User>| UserStatus::of(user, self.gate());
        self.proxy.users.all().iter().map(status).collect()
    }

    /// Refuses new requests of neighbours for `time`, or until [`Operations::resume`].
    ///
    /// # Errors
    /// `time` is not allowed, or the pause cannot be saved.
    pub fn pause(&self, time: Option<SignedDuration>) -> Result<Status, OperationError> {
        if self.observer.is_some() {
            return Err(OperationError::Wrong(Note::new(&phrase::ONLY_OBSERVES, [])));
        }
        if let Some(time) = time.filter(|&time| time <= SignedDuration::ZERO || time > LONGEST) {
            let values = [time.as_secs(), LONGEST.as_hours() / 24].map(Value::same);
            return Err(OperationError::Wrong(Note::new(&phrase::PAUSE_LENGTH, values)));
        }
        self.gate().begin_pause(time)?;
        Ok(self.status())
    }

    /// Ends a pause, if there is one.
    ///
    /// # Errors
    /// The end of the pause cannot be saved.
    pub fn resume(&self) -> Result<Status, OperationError> {
        self.gate().end_pause()?;
        Ok(self.status())
    }

    /// Revokes a user's access, which ends the user's transfers; or gives it back.
    ///
    /// # Errors
    /// There is no such user, or the change cannot be saved.
    pub fn revoke(&self, request: &RevokeRequest) -> Result<Revoked, OperationError> {
        let (given, revoked) = (&request.user, !request.undo);
        let address = given.strip_suffix("/64").unwrap_or(given).parse::<IpAddr>().ok();
        let name = address.map_or_else(|| given.clone(), address_name);
        let known = self.knows(&name, address)?;
        let sensible = self.gate().is_revoked(&name) || known && revoked;
        if !sensible {
            return Err(OperationError::Wrong(if known {
                Note::new(&phrase::HAS_ACCESS, [Value::same(name)])
            } else {
                Note::new(&phrase::NOBODY, [Value::same(format!("{name:?}"))])
            }));
        }
        self.gate().revoke(&name, revoked)?;
        // New connections are refused by the gate. These users are connected already.
        let users = self.proxy.users.all();
        users.iter().filter(|user| user.name == name).for_each(|user| user.set_revoked(revoked));
        Ok(Revoked { user: name, revoked })
    }

    /// Whether there is a neighbour of this name, or at this address.
    fn knows(&self, name: &str, address: Option<IpAddr>) -> Result<bool, OperationError> {
        Ok(self.proxy.users.logins().is_some_and(|logins| logins.has(name.as_bytes()))
            || address.is_some_and(|address| self.is_neighbour(address))
            || self.people()?.iter().any(|user| user.name == name))
    }

    /// Whether neighbours can be served.
    pub fn health(&self) -> Health {
        match self.gate().meter().and_then(|meter| meter.state()) {
            Some(state) if !state.shares() => Health { ok: false, words: format!("accounts {state}") },
            _ => Health { ok: true, words: "ok".into() },
        }
    }

    /// Writes what was used from the day `from` until before the day `to`.
    ///
    /// # Errors
    /// There are no accounts, they cannot be read, or `out` fails.
    pub fn export(&self, range: ExportRange, out: &mut (dyn Write + Send)) -> Result<(), OperationError> {
        let meter = self.accountant()?;
        if let ExportRange { from: Some(from), to: Some(to), .. } = range
            && to <= from
        {
            return Err(OperationError::Wrong(Note::new(&phrase::NO_DAY, [from, to].map(Value::same))));
        }
        Ok(meter.export(range, out)?)
    }

    /// What each user and the home used at this gateway on each of the last days, today included.
    /// The last ten seconds may be missing.
    ///
    /// # Errors
    /// The number of days is not allowed, there are no accounts, or they cannot be read.
    pub fn days(&self, range: HistoryRange) -> Result<PastDays, OperationError> {
        if !(1..=MOST_DAYS).contains(&range.days) {
            let values = [range.days, MOST_DAYS].map(Value::same);
            return Err(OperationError::Wrong(Note::new(&phrase::HISTORY_DAYS, values)));
        }
        Ok(self.accountant()?.days(range.days)?)
    }

    /// The accounts.
    fn accountant(&self) -> Result<&Arc<Meter>, OperationError> {
        let none = || OperationError::Wrong(Note::new(&phrase::NO_ACCOUNTS, []));
        self.gate().meter().ok_or_else(none)
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the accounts, if there are any.
    fn accounts(&self) -> Option<String> {
        Some(self.gate().meter()?.state()?.to_string())
    }

    /// The volumes that all neighbours share.
    fn volumes(&self) -> Vec<Volume> {
        let volumes = self.gate().meter().map_or(vec![], |meter| meter.volumes());
        volumes.into_iter().map(Volume::of).collect()
    }

    fn gate(&self) -> &Gate {
        &self.proxy.connector.gate
    }

    fn windows(&self) -> Vec<Window> {
        let windows = crate::accounts::windows(&self.proxy.connector);
        windows.iter().map(|(path, state)| Window::of(path, state)).collect()
    }
}
