//! The threads that keep the accounts.

use super::{Meter, lock};
use crate::event::{Event, Log};
use crate::users::Users;
use leeway_accounts::Accounts;
use leeway_accounts::ledger::{Class, Direction, State};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two transfers of the counts from the connections to the ledger.
const TICK: Duration = Duration::from_millis(100);

impl Meter {
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
pub struct Bookkeeper {
    meter: Arc<Meter>,
    users: Arc<Users>,
    log: Log,
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Bookkeeper {
    /// Starts booking, in threads of its own. Events go to `log`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(meter: Arc<Meter>, users: Arc<Users>, log: Log) -> std::io::Result<Bookkeeper> {
        let mut keeper = Bookkeeper { meter, users, log, stop: Vec::new(), threads: Vec::new() };
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
        let accounts = lock(&self.meter.accounts).take();
        if let Some(
            State::Behind { unwritten_bytes, error, .. } | State::Stopped { unwritten_bytes, error, .. },
        ) = accounts.map(Accounts::end)
            && unwritten_bytes > 0
        {
            let words =
                format!("{unwritten_bytes} bytes could not be stored, and are in no account: {error}");
            (self.log)(&Event::new("accounts", words).with("unwritten_bytes", unwritten_bytes));
        }
    }
}
