//! Counts bytes in a [`Ledger`] and stores them: clocks, counts, and the thread that writes.

use crate::ledger::{Class, Direction, Key, Ledger, State};
use crate::store::{Store, StoreError};
use crate::time::{Clock, Jump, Moment, Slot};
use jiff::Timestamp;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two checks whether something has to be written.
const TICK: Duration = Duration::from_millis(250);

/// Counts with the clock of the accounts.
#[derive(Debug)]
pub struct Books {
    clock: Clock,
    ledger: Ledger,
}

impl Books {
    /// Continues after the last batch in `store`. The store may fail for `patience` before sharing
    /// stops.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(store: &mut Store, now: Moment, patience: Duration) -> Result<Books, StoreError> {
        let clock = Clock::new(now, store.newest()?);
        Ok(Books { clock, ledger: Ledger::new(store.sequence(), patience) })
    }

    /// Counts bytes of a user, or of the home with an empty name. Returns the time that they are
    /// counted at.
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

    /// The present time of the accounts.
    pub fn at(&mut self, now: Moment) -> Timestamp {
        self.clock.at(now)
    }

    /// A jump of the wall clock that is not accepted yet.
    pub fn jump(&self) -> Option<Jump> {
        self.clock.jump()
    }

    /// The counts that wait to be stored.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// Stores what is due, or everything at the `end`. Counting continues meanwhile.
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

/// Books with a thread that stores the counts.
pub struct Accounts {
    books: Arc<Mutex<Books>>,
    began: Instant,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Accounts {
    /// Opens the store at `url`, to count as `gateway`. The store may fail for `patience` before
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
            // First the batch that may be stored already, then what was counted since.
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

    /// Stores at once what was counted, and waits for that, at most for `patience`.
    pub fn store(&self, patience: Duration) {
        let began = Instant::now();
        let last = locked(&self.books).ledger.hurry();
        while !locked(&self.books).ledger.is_stored_after(last) && began.elapsed() < patience {
            std::thread::sleep(TICK / 10);
        }
    }

    /// State of the ledger and its store.
    pub fn state(&self) -> State {
        locked(&self.books).ledger.state(self.began.elapsed())
    }

    /// The present time of the accounts.
    pub fn now(&self) -> Timestamp {
        locked(&self.books).at(moment(self.began))
    }

    /// A jump of the wall clock that is not accepted yet.
    pub fn jump(&self) -> Option<Jump> {
        locked(&self.books).jump()
    }
}

impl Accounts {
    /// Stores everything that waits. Returns the state after that: what is not stored is lost.
    pub fn end(mut self) -> State {
        self.stop();
        self.state()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread's panic message was printed already.
            let _ = thread.join();
        }
    }
}

impl Drop for Accounts {
    /// Stores everything that waits.
    fn drop(&mut self) {
        self.stop();
    }
}

fn moment(began: Instant) -> Moment {
    Moment { wall: Timestamp::now(), steady: began.elapsed() }
}

fn locked(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
