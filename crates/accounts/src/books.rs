//! The ledger at work: clocks, counts, and the thread that stores them.

use crate::ledger::{Class, Direction, Key, Ledger, State};
use crate::store::{Store, StoreError};
use crate::time::{Clock, Jump, Moment, Slot};
use jiff::Timestamp;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks whether there is something to write.
const TICK: Duration = Duration::from_millis(250);

/// What is counted, by the clock that holds for the accounts.
#[derive(Debug)]
pub struct Books {
    clock: Clock,
    ledger: Ledger,
}

impl Books {
    /// Goes on where `store` ended. The store may refuse for `patience` before sharing stops.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(store: &mut Store, now: Moment, patience: Duration) -> Result<Books, StoreError> {
        let clock = Clock::new(now, store.newest()?);
        Ok(Books { clock, ledger: Ledger::new(store.sequence(), patience) })
    }

    /// Counts bytes of a user, or of the home with an empty name; returns the time that they
    /// count for.
    pub fn count(
        &mut self,
        now: Moment,
        user: &str,
        direction: Direction,
        class: Class,
        bytes: u64,
    ) -> Timestamp {
        let at = self.clock.at(now);
        self.ledger.count(Key { slot: Slot::of(at), user: user.to_owned(), direction, class }, bytes);
        at
    }

    /// The time that holds for the accounts.
    pub fn at(&mut self, now: Moment) -> Timestamp {
        self.clock.at(now)
    }

    /// The jump of the wall clock that is not believed yet.
    pub fn jump(&self) -> Option<Jump> {
        self.clock.jump()
    }

    /// What waits for the store.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// Stores what is due, or all that waits at the `end`. Counting goes on meanwhile.
pub fn write(books: &Mutex<Books>, store: &mut Store, now: Moment, end: bool) {
    let batch = {
        let ledger = &mut locked(books).ledger;
        if end { ledger.take(now.steady) } else { ledger.batch(now.steady) }
    };
    let Some(batch) = batch else { return };
    let done = store.add(&batch);
    let ledger = &mut locked(books).ledger;
    match done {
        Ok(()) => ledger.stored(),
        Err(error @ StoreError::Taken(_)) => ledger.refused_for_good(now.steady, error.to_string()),
        Err(error) => ledger.refused(now.steady, error.to_string()),
    }
}

/// Books whose counts a thread of their own stores.
pub struct Accounts {
    books: Arc<Mutex<Books>>,
    began: Instant,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Accounts {
    /// Opens the store at `url`, to count as `gateway`. It may refuse for `patience` before
    /// sharing stops.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub fn open(url: &str, gateway: &str, patience: Duration) -> Result<Accounts, StoreError> {
        let mut store = Store::open(url, gateway)?;
        let began = Instant::now();
        let books = Arc::new(Mutex::new(Books::new(&mut store, moment(began), patience)?));
        let (stop, stopped) = channel::<()>();
        let shared = books.clone();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                write(&shared, &mut store, moment(began), false);
            }
            // What is in flight, and then what was counted since.
            write(&shared, &mut store, moment(began), true);
            write(&shared, &mut store, moment(began), true);
        };
        let thread = std::thread::Builder::new().name("accounts".into()).spawn(work);
        let thread =
            thread.map_err(|error| StoreError::Open("a thread for the store".into(), error.to_string()))?;
        Ok(Accounts { books, began, stop: Some(stop), thread: Some(thread) })
    }

    /// Counts bytes of a user, or of the home with an empty name.
    pub fn count(&self, user: &str, direction: Direction, class: Class, bytes: u64) {
        locked(&self.books).count(moment(self.began), user, direction, class, bytes);
    }

    /// How ledger and store stand.
    pub fn state(&self) -> State {
        locked(&self.books).ledger.state(self.began.elapsed())
    }

    /// The time that holds for the accounts.
    pub fn now(&self) -> Timestamp {
        locked(&self.books).at(moment(self.began))
    }

    /// The jump of the wall clock that is not believed yet.
    pub fn jump(&self) -> Option<Jump> {
        locked(&self.books).jump()
    }
}

impl Drop for Accounts {
    /// Stores what waits.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn moment(began: Instant) -> Moment {
    Moment { wall: Timestamp::now(), steady: began.elapsed() }
}

fn locked(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
