//! Whether neighbours are served now, and why not.

use crate::metering::{Answer, Leave, Meter};
use crate::users::User;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Reason, Verdict};
use leeway_accounts::ledger::Direction;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// How long running transfers may go on after a pause has begun; then they are cut.
pub const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// How long a transfer that caps hold back waits before it asks again, at most: caps can change meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest pause with an end.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// A pause that the owner asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// When it began.
    pub since: Timestamp,
    /// When it ends; none: when the owner says so.
    pub until: Option<Timestamp>,
}

/// Why a neighbour is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// When it goes on, if that is known.
    pub until: Option<Timestamp>,
    /// The cap that says so; none: the owner does.
    pub cap: Option<Reason>,
}

/// What all requests of neighbours pass.
#[derive(Debug, Default)]
pub struct Gate {
    /// Whether there may be a pause; saves a lock for each piece of a transfer.
    paused: AtomicBool,
    pause: Mutex<Option<Pause>>,
    /// Where a pause is kept over a restart.
    file: Option<PathBuf>,
    /// Accounts and caps, if there are any.
    meter: Option<Arc<Meter>>,
}

impl Gate {
    /// A gate that keeps its pause in that file, and goes on with the one it finds there.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of a gateway.
    pub fn kept(file: PathBuf) -> io::Result<Gate> {
        let pause = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice::<Option<Pause>>(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Gate { paused: pause.is_some().into(), pause: pause.into(), file: Some(file), meter: None })
    }

    /// The same gate with accounts and caps.
    pub fn metered(self, meter: Option<Arc<Meter>>) -> Gate {
        Gate { meter, ..self }
    }

    /// Accounts and caps, if there are any.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.as_ref()
    }

    /// The pause that holds now.
    pub fn pause(&self) -> Option<Pause> {
        if !self.paused.load(Ordering::Acquire) {
            return None;
        }
        let now = Timestamp::now();
        let mut pause = self.lock();
        if pause.is_some_and(|pause| pause.until.is_some_and(|until| until <= now)) {
            // The file says the same: its end is over after a restart, too.
            *pause = None;
            self.paused.store(false, Ordering::Release);
        }
        *pause
    }

    /// Begins a pause, changes its end, or ends it.
    ///
    /// # Errors
    /// The file cannot be written: then nothing has changed.
    pub fn set(&self, pause: Option<Pause>) -> io::Result<()> {
        let mut held = self.lock();
        if let Some(file) = &self.file {
            leeway_guard::replace(file, &serde_json::to_vec(&pause)?)?;
        }
        *held = pause;
        self.paused.store(pause.is_some(), Ordering::Release);
        Ok(())
    }

    /// Whether that user's next request is served.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, user: &User) -> Result<(), Closed> {
        let by_owner = self.pause().map(|pause| Closed { until: pause.until, cap: None });
        let by_cap = || match self.meter.as_ref()?.verdict(&user.name) {
            Verdict::Paused { until, reason } => Some(Closed { until, cap: Some(reason) }),
            _ => None,
        };
        let Some(closed) = by_owner.or_else(by_cap) else { return Ok(()) };
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        Err(closed)
    }

    /// Whether a transfer that runs may go on.
    ///
    /// # Errors
    /// The pause has lasted for [`GRACE`].
    pub fn go_on(&self) -> io::Result<()> {
        match self.pause() {
            Some(pause) if Timestamp::now().duration_since(pause.since) >= GRACE => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the owner has paused sharing"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a datagram of `user` may pass; counted as passed if so.
    pub fn datagram(&self, user: &User, direction: Direction, bytes: u64) -> bool {
        if self.go_on().is_err() {
            return false;
        }
        let Some(meter) = &self.meter else { return true };
        match meter.ask(user, direction, bytes.max(1)) {
            Answer::Go(leave) if leave.bytes() >= bytes => {
                leave.moved(bytes);
                true
            }
            _ => false,
        }
    }

    /// Where the owner's hours and days begin.
    pub fn zone(&self) -> TimeZone {
        self.meter.as_ref().map_or_else(TimeZone::system, |meter| meter.zone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pause>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Closed {
    /// Seconds until another request is worth its while, for `Retry-After` (RFC 9110, 10.2.3).
    pub fn retry_s(&self) -> i64 {
        self.until.map_or(600, |until| until.duration_since(Timestamp::now()).as_secs() + 1).max(1)
    }

    /// For the neighbour.
    pub fn words(&self, zone: &TimeZone) -> String {
        if let Some(reason) = self.cap {
            let words = Verdict::Paused { until: self.until, reason }.words(zone);
            return words.trim_end_matches('.').to_owned();
        }
        match self.until {
            Some(until) => format!(
                "the owner of this line has paused sharing until {}",
                until.to_zoned_datetime(zone.clone()).strftime("%A %-d %B, %H:%M")
            ),
            None => "the owner of this line has paused sharing until further notice".into(),
        }
    }
}

/// A transfer's way through the gate.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
    waits: [Option<Pin<Box<Sleep>>>; 2],
}

impl Pass {
    /// Of a new transfer.
    pub fn new(gate: Arc<Gate>) -> Pass {
        Pass { gate, waits: [None, None] }
    }

    /// Ready when some of `wish` bytes, at least 1, may be moved.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        user: &User,
        direction: Direction,
        wish: u64,
    ) -> Poll<io::Result<Leave<'_>>> {
        loop {
            self.gate.go_on()?;
            let Some(meter) = &self.gate.meter else { return Poll::Ready(Ok(Leave::free())) };
            let wait = match meter.ask(user, direction, wish) {
                Answer::Go(leave) => return Poll::Ready(Ok(leave)),
                Answer::Wait(wait) => wait.clamp(Duration::from_millis(1), PATIENCE),
            };
            let sleep =
                self.waits[direction as usize].get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
            ready!(sleep.as_mut().poll(cx));
            self.waits[direction as usize] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_survives_a_restart_and_ends_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pause.json");
        let gate = Gate::kept(file.clone()).unwrap();
        assert_eq!(gate.pause(), None);
        let since = Timestamp::now();
        let pause = Pause { since, until: Some(since + SignedDuration::from_hours(2)) };
        gate.set(Some(pause)).unwrap();
        assert_eq!(Gate::kept(file.clone()).unwrap().pause(), Some(pause));
        gate.set(None).unwrap();
        assert_eq!(Gate::kept(file.clone()).unwrap().pause(), None);
        gate.set(Some(Pause { until: Some(since), ..pause })).unwrap();
        assert_eq!(gate.pause(), None);
        assert_eq!(Gate::kept(file.clone()).unwrap().pause(), None);
        std::fs::write(&file, "{").unwrap();
        assert!(Gate::kept(file).is_err());
    }

    #[test]
    fn what_runs_is_cut_only_after_the_grace() {
        let gate = Gate::default();
        gate.set(Some(Pause { since: Timestamp::now(), until: None })).unwrap();
        assert!(gate.go_on().is_ok());
        gate.set(Some(Pause { since: Timestamp::now() - GRACE, until: None })).unwrap();
        assert!(gate.go_on().is_err());
    }

    #[test]
    fn nothing_changes_where_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::kept(folder.path().join("none/pause.json")).unwrap();
        assert!(gate.set(Some(Pause { since: Timestamp::now(), until: None })).is_err());
        assert_eq!(gate.pause(), None);
    }
}
