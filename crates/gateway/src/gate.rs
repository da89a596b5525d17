//! Decides whether neighbours are served at the moment, and says why not.

use crate::metering::{Answer, Leave, Meter};
use crate::notes::{Note, Value, moment};
pub use crate::pause::Pause;
use crate::pause::{Held, Reading, boot_id};
use crate::refusals as phrase;
use crate::users::User;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Reason, Verdict};
use leeway_accounts::ledger::Direction;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// Time for which running transfers may continue after a pause has begun. Then they are closed.
pub const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Longest time until a transfer that has to wait for caps asks again, because caps can change
/// meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest time for which a request waits until the store has said what is left at other gateways,
/// and time between two looks.
const TOLD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// Longest pause that has an end.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// Files of what is kept over a restart.
const PAUSE: &str = "pause.json";
const REVOKED: &str = "revoked.json";

/// That a neighbour is not served, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// When service begins again, if that is known.
    pub until: Option<Timestamp>,
    /// The reason.
    pub why: Why,
}

/// The reason why a neighbour is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The owner has paused sharing for everybody.
    Paused,
    /// A cap is reached.
    Cap(Reason),
    /// The owner has revoked this user's access.
    Revoked,
}

/// The decision that every request of a neighbour passes through.
#[derive(Debug, Default)]
pub struct Gate {
    /// Whether there may be a pause. Saves a lock for each piece of a transfer.
    paused: AtomicBool,
    pause: Mutex<Option<Held>>,
    /// Users whose access the owner has revoked.
    revoked: Mutex<BTreeSet<String>>,
    /// Folder in which the pause and the revoked users are kept over a restart.
    folder: Option<PathBuf>,
    /// Accounts and caps, if there are any.
    meter: Option<Arc<Meter>>,
}

impl Gate {
    /// A gate that keeps its pause and the revoked users in `folder`. It begins with what it finds
    /// there.
    ///
    /// # Errors
    /// A file cannot be read, or was not written by a gateway.
    pub fn kept(folder: &Path) -> io::Result<Gate> {
        let (pause, revoked) = (kept::<Option<Held>>(folder, PAUSE)?, kept(folder, REVOKED)?);
        let pause = pause.map(|held| held.restored(Reading::now(), &boot_id()));
        let (paused, pause, revoked) = (pause.is_some().into(), pause.into(), Mutex::new(revoked));
        Ok(Gate { paused, pause, revoked, folder: Some(folder.to_owned()), meter: None })
    }

    /// The same gate with accounts and caps.
    pub fn metered(self, meter: Option<Arc<Meter>>) -> Gate {
        Gate { meter, ..self }
    }

    /// Accounts and caps, if there are any.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.as_ref()
    }

    /// The present pause.
    pub fn pause(&self) -> Option<Pause> {
        self.held(|held, now| held.at(now))
    }

    /// What `of` returns for the present pause. A pause that is over is removed.
    fn held<T>(&self, of: impl FnOnce(&Held, Reading) -> Option<T>) -> Option<T> {
        if !self.paused.load(Ordering::Acquire) {
            return None;
        }
        let now = Reading::now();
        let mut held = lock(&self.pause);
        if held.as_ref().is_some_and(|held| held.at(now).is_none()) {
            // The file need not change: after a restart, this pause is over as well.
            *held = None;
            self.paused.store(false, Ordering::Release);
        }
        of(held.as_ref()?, now)
    }

    /// Begins a pause of `length`, or without an end. If there is a pause, only its end changes.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed.
    pub fn begin_pause(&self, length: Option<SignedDuration>) -> io::Result<()> {
        // The pause keeps its beginning, so the grace for running transfers does not begin again.
        let earlier = self.held(|held, _| Some(held.clone()));
        self.set(Some(Held::begin(earlier.as_ref(), length, Reading::now(), &boot_id())))
    }

    /// Ends the pause, if there is one.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed.
    pub fn end_pause(&self) -> io::Result<()> {
        if self.pause().is_some() { self.set(None) } else { Ok(()) }
    }

    fn set(&self, pause: Option<Held>) -> io::Result<()> {
        let mut held = lock(&self.pause);
        self.keep(PAUSE, &pause)?;
        self.paused.store(pause.is_some(), Ordering::Release);
        *held = pause;
        Ok(())
    }

    /// Revokes a user's access, or gives it back. The caller ends running transfers
    /// ([`User::set_revoked`]).
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed.
    pub fn revoke(&self, name: &str, revoked: bool) -> io::Result<()> {
        let mut held = lock(&self.revoked);
        let mut names = held.clone();
        if revoked {
            names.insert(name.to_owned());
        } else {
            names.remove(name);
        }
        self.keep(REVOKED, &names)?;
        *held = names;
        Ok(())
    }

    /// Whether the owner has revoked this user's access.
    pub fn is_revoked(&self, name: &str) -> bool {
        lock(&self.revoked).contains(name)
    }

    /// Everybody whose access is revoked.
    pub fn revoked(&self) -> Vec<String> {
        lock(&self.revoked).iter().cloned().collect()
    }

    /// [`Gate::admit`], once the store has said what other gateways leave of the user's volumes.
    ///
    /// # Errors
    /// Why it is not served.
    pub async fn admit_told(&self, user: &User) -> Result<(), Closed> {
        self.told(&user.name).await;
        self.admit(user)
    }

    /// Ready when the store has said what other gateways leave of the volumes of this user, or has
    /// not answered for [`TOLD`].
    pub async fn told(&self, name: &str) {
        let Some(meter) = &self.meter else { return };
        let asked = async {
            while !meter.is_told(name) {
                tokio::time::sleep(LOOK).await;
            }
        };
        // Without an answer the caps decide by what they know.
        let _ = tokio::time::timeout(TOLD, asked).await;
    }

    /// Whether the user's next request is served. If not, counts it as refused.
    ///
    /// # Errors
    /// Why it is not served.
    pub fn admit(&self, user: &User) -> Result<(), Closed> {
        let Some(closed) = self.closed(&user.name) else { return Ok(()) };
        user.counts.refused.fetch_add(1, Ordering::Relaxed);
        Err(closed)
    }

    /// Why a request of the user with this name would not be served. An empty name stands for an
    /// unknown user.
    pub fn closed(&self, name: &str) -> Option<Closed> {
        let revoked = self.is_revoked(name).then_some(Closed::REVOKED);
        let by_owner = || self.pause().map(|pause| Closed { until: pause.until, why: Why::Paused });
        let by_cap = || match self.meter.as_ref()?.verdict(name) {
            Verdict::Paused { until, reason } => Some(Closed { until, why: Why::Cap(reason) }),
            _ => None,
        };
        revoked.or_else(by_owner).or_else(by_cap)
    }

    /// Whether a running transfer of `user` may continue.
    ///
    /// # Errors
    /// The pause has lasted for [`GRACE`], or the user's access was revoked.
    pub fn go_on(&self, user: &User) -> io::Result<()> {
        let over = |why: &str| Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        if user.is_revoked() {
            return over("the owner has revoked this user's access");
        }
        match self.held(|held, now| Some(held.lasted(now))) {
            Some(lasted) if lasted >= GRACE => over("the owner has paused sharing"),
            _ => Ok(()),
        }
    }

    /// Whether a datagram of `user` may pass. If so, its bytes are counted.
    pub fn datagram(&self, user: &User, direction: Direction, bytes: u64) -> bool {
        if self.go_on(user).is_err() {
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

    /// The time zone of the owner's hours and days.
    pub fn zone(&self) -> TimeZone {
        self.meter.as_ref().map_or_else(TimeZone::system, |meter| meter.zone())
    }

    fn keep(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(name);
        leeway_guard::replace(&path, &serde_json::to_vec(value)?).map_err(|error| named(&path, error))
    }
}

/// Locks the folder in which a gateway keeps its pause and the revoked users. Two gateways would
/// each overwrite what the other has kept. The lock ends with the file that is returned, and so
/// with this process at the latest.
///
/// # Errors
/// Another gateway uses the folder, or the folder cannot be opened.
pub(crate) fn own(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder).map_err(|error| named(folder, error))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other(format!(
            "another gateway uses {}: give each gateway a `state` of its own in [control]",
            folder.display()
        )),
        TryLockError::Error(error) => named(folder, error),
    })?;
    Ok(lock)
}

/// The value in a file of `folder`, or the default if there is no file.
fn kept<T: DeserializeOwned + Default>(folder: &Path, name: &str) -> io::Result<T> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let path = path.display();
            io::Error::other(format!(
                "{path} is damaged ({error}): put back a copy of it, or remove it to begin without what it kept"
            ))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(named(&path, error)),
    }
}

/// The same error with the path that it is about.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Closed {
    /// The owner has revoked this user's access.
    pub const REVOKED: Closed = Closed { until: None, why: Why::Revoked };

    /// Seconds after which another request makes sense, for `Retry-After` (RFC 9110, 10.2.3).
    /// `None` if it never does.
    pub fn retry_s(&self) -> Option<i64> {
        (self.why != Why::Revoked).then(|| self.wait_s())
    }

    fn wait_s(&self) -> i64 {
        self.until.map_or(600, |until| until.duration_since(Timestamp::now()).as_secs() + 1).max(1)
    }

    /// The reason as a note for the neighbour, with times in the time zone of the line.
    pub fn note(&self, zone: &TimeZone) -> Note {
        let until = self.until.map(|until| Value::same(moment(until, zone)));
        let why = |reason| Value::each(|language| language.words().why(reason));
        match (self.why, until) {
            (Why::Revoked, _) => Note::new(&phrase::REVOKED, []),
            (Why::Paused, None) => Note::new(&phrase::PAUSED, []),
            (Why::Paused, Some(until)) => Note::new(&phrase::PAUSED_UNTIL, [until]),
            (Why::Cap(reason), None) => Note::new(&phrase::CAPPED, [why(reason)]),
            (Why::Cap(reason), Some(until)) => Note::new(&phrase::CAPPED_UNTIL, [until, why(reason)]),
        }
    }
}

/// The state of one transfer at the gate.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
    waits: [Option<Pin<Box<Sleep>>>; 2],
}

impl Pass {
    /// The state of a new transfer.
    pub fn new(gate: Arc<Gate>) -> Pass {
        Pass { gate, waits: [None, None] }
    }

    /// Ready when some of `wish` bytes (at least 1) may be moved.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        user: &User,
        direction: Direction,
        wish: u64,
    ) -> Poll<io::Result<Leave<'_>>> {
        loop {
            self.gate.go_on(user)?;
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
    use crate::users::Users;

    #[test]
    fn a_pause_survives_a_restart_and_ends_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let kept = || Gate::kept(folder.path());
        let gate = kept().unwrap();
        assert_eq!(gate.pause(), None);
        gate.begin_pause(Some(SignedDuration::from_hours(2))).unwrap();
        let pause = gate.pause();
        assert!(pause.is_some() && kept().unwrap().pause() == pause);
        gate.end_pause().unwrap();
        assert_eq!(kept().unwrap().pause(), None);
        gate.begin_pause(Some(SignedDuration::from_nanos(1))).unwrap();
        assert_eq!(gate.pause(), None);
        assert_eq!(kept().unwrap().pause(), None);
        gate.revoke("ann", true).unwrap();
        gate.revoke("bob", true).unwrap();
        gate.revoke("bob", false).unwrap();
        assert_eq!(kept().unwrap().revoked(), ["ann"]);
        for file in [REVOKED, PAUSE] {
            let file = folder.path().join(file);
            std::fs::write(&file, "{").unwrap();
            let error = kept().unwrap_err().to_string();
            assert!(error.contains(file.to_str().unwrap()) && error.contains("or remove it"), "{error}");
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn a_folder_belongs_to_one_gateway_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = own(folder.path()).unwrap();
        let error = own(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another gateway uses") && error.contains("of its own"), "{error}");
        drop(first);
        assert!(own(folder.path()).is_ok());
    }

    #[test]
    fn what_runs_is_cut_only_after_the_grace() {
        let user = Users::new(&crate::Config::default(), None).at([10, 0, 0, 1].into());
        let gate = Gate::default();
        gate.begin_pause(None).unwrap();
        assert!(gate.go_on(&user).is_ok());
        let earlier = Reading { boot: Reading::now().boot - GRACE, ..Reading::now() };
        gate.set(Some(Held::begin(None, None, earlier, ""))).unwrap();
        assert!(gate.go_on(&user).is_err());
        gate.begin_pause(Some(SignedDuration::from_hours(1))).unwrap();
        assert!(gate.go_on(&user).is_err(), "the grace begins once");
        gate.end_pause().unwrap();
        assert!(gate.go_on(&user).is_ok());
        user.set_revoked(true);
        assert!(gate.go_on(&user).is_err(), "at once");
    }

    #[test]
    fn nothing_changes_where_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::kept(&folder.path().join("none")).unwrap();
        let error = gate.revoke("ann", true).unwrap_err().to_string();
        assert!(error.contains("none/revoked.json") && !gate.is_revoked("ann"), "{error}");
        assert!(gate.begin_pause(None).is_err());
        assert_eq!(gate.pause(), None);
    }
}
