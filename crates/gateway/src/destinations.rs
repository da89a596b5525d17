//! The log of destinations, for owners who are required by law to keep one. Without
//! `[destinations]` there is none.
//!
//! Each day (UTC) has a file. Each line is a JSON object for one connection, or for the first
//! datagram to a server. Lines are written every nine seconds ([`PERIOD`]), as accounts are, to
//! spare flash memory. A file is deleted when it is older than `keep_days`. The clock is the one
//! of the accounts, so a system clock that jumps deletes nothing.

use crate::event::{Event, Log};
use crate::policy::Transport;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use leeway_accounts::ledger::PERIOD;
use leeway_accounts::time::{Clock, Moment};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Most bytes that wait while the disk cannot be written. Later lines are lost.
const WAITING_BYTES: usize = 16 << 20;
/// End of a file's name, after the day.
const SUFFIX: &str = ".jsonl";

/// The section `[destinations]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationsConfig {
    /// Folder of the files.
    #[serde(default = "folder")]
    pub folder: PathBuf,
    /// Days that a file is kept after its own day.
    pub keep_days: u16,
}

/// The log of a running gateway. Dropping this writes the lines that wait.
pub struct Destinations {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    config: DestinationsConfig,
    log: Log,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    clock: Clock,
    /// Lines of each day that have not been written yet.
    waiting: BTreeMap<Date, String>,
    lost: u64,
    /// The last write failed, and the owner was told.
    failing: bool,
    /// The day on which old files were last deleted.
    swept: Option<Date>,
}

impl Destinations {
    /// Creates the folder, deletes files that are too old, and starts the writing thread. Events
    /// go to `log`.
    ///
    /// # Errors
    /// The folder cannot be created or read, or no thread can be started.
    pub fn begin(config: &DestinationsConfig, log: Log) -> io::Result<Destinations> {
        DirBuilder::new().recursive(true).mode(0o700).create(&config.folder)?;
        let began = Instant::now();
        let clock = Clock::new(Moment { wall: Timestamp::now(), steady: began.elapsed() }, None);
        let state = State { clock, waiting: BTreeMap::new(), lost: 0, failing: false, swept: None };
        let shared = Arc::new(Shared { config: config.clone(), log, began, state: Mutex::new(state) });
        shared.sweep(shared.now().0)?;
        let (stop, stopped) = channel();
        let writer = shared.clone();
        let write = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PERIOD) {
                writer.write();
            }
        };
        let thread = std::thread::Builder::new().name("destinations".into()).spawn(write)?;
        Ok(Destinations { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Days that a file is kept.
    pub fn keep_days(&self) -> u16 {
        self.shared.config.keep_days
    }

    /// Records that `user` has reached a server.
    pub fn record(&self, user: &str, transport: Transport, to: SocketAddr) {
        let (day, at) = self.shared.now();
        let protocol = match transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        let line = serde_json::json!({
            "time": format!("{at:.0}"),
            "user": user,
            "protocol": protocol,
            "address": to.ip(),
            "port": to.port(),
        });
        let mut state = self.shared.state();
        if state.waiting.values().map(String::len).sum::<usize>() >= WAITING_BYTES {
            state.lost += 1;
            return;
        }
        let waiting = state.waiting.entry(day).or_default();
        waiting.push_str(&line.to_string());
        waiting.push('\n');
    }
}

impl Drop for Destinations {
    fn drop(&mut self) {
        self.stop = None;
        // The thread's panic message was printed already.
        self.thread.take().map(JoinHandle::join);
        self.shared.write();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present day (UTC) and time.
    fn now(&self) -> (Date, Timestamp) {
        let now = Moment { wall: Timestamp::now(), steady: self.began.elapsed() };
        let at = self.state().clock.at(now);
        (TimeZone::UTC.to_datetime(at).date(), at)
    }

    /// Writes the lines that wait, and deletes old files once a day. The lock is not held while
    /// the disk is written.
    fn write(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        let mut failure = None;
        for (day, lines) in waiting {
            if let Err(error) = append(&self.config.folder.join(format!("{day}{SUFFIX}")), &lines) {
                failure = Some(error);
                // Before the lines that have come meanwhile.
                self.state().waiting.entry(day).or_default().insert_str(0, &lines);
            }
        }
        let (today, _) = self.now();
        if self.state().swept != Some(today)
            && let Err(error) = self.sweep(today)
        {
            failure = failure.or(Some(error));
        }
        let mut state = self.state();
        let lost = if failure.is_none() { std::mem::take(&mut state.lost) } else { state.lost };
        let before = std::mem::replace(&mut state.failing, failure.is_some());
        drop(state);
        match failure {
            Some(error) if !before => {
                (self.log)(&Event::new(
                    "destinations",
                    format!("cannot write the log of destinations: {error}"),
                ));
            }
            None if before => {
                let words = format!("the log of destinations is written again; {lost} lines were lost");
                (self.log)(&Event::new("destinations", words).with("lost", lost));
            }
            _ => {}
        }
    }

    /// Deletes the files of days that are too old.
    fn sweep(&self, today: Date) -> io::Result<()> {
        let last = today.saturating_sub(Span::new().days(self.config.keep_days));
        for file in std::fs::read_dir(&self.config.folder)? {
            let path = file?.path();
            if day_of(&path).is_some_and(|day| day < last) {
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        self.state().swept = Some(today);
        Ok(())
    }
}

/// The day of a file of the log; `None` for any other file.
fn day_of(path: &Path) -> Option<Date> {
    path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse().ok()
}

/// Appends lines to a file: all of them or none.
fn append(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let before = file.metadata()?.len();
    let written = file.write_all(lines.as_bytes());
    if written.is_err() {
        cut(&file, before);
    }
    written
}

/// Removes lines that were written in part.
fn cut(file: &File, bytes: u64) {
    // If this fails, lines are in the file twice, which is better than a missing line.
    let _ = file.set_len(bytes);
}

fn folder() -> PathBuf {
    "/var/lib/leeway/gateway/destinations".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn begin(folder: &Path, keep_days: u16) -> (Destinations, Arc<Mutex<Vec<String>>>) {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = said.clone();
        let log = Arc::new(move |event: &Event| log.lock().unwrap().push(event.to_string()));
        let config = DestinationsConfig { folder: folder.to_owned(), keep_days };
        (Destinations::begin(&config, log).unwrap(), said)
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_line_says_who_reached_what_and_only_the_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("destinations");
        let (log, said) = begin(&place, 90);
        log.record("=ann,\"\n", Transport::Tcp, "[2001:db8::7]:443".parse().unwrap());
        log.record("10.20.0.7", Transport::Udp, "198.51.100.7:53".parse().unwrap());
        drop(log);
        let names = names(&place);
        assert!(names.len() == 1 && names[0].ends_with(SUFFIX), "{names:?}");
        let text = std::fs::read_to_string(place.join(&names[0])).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let at: Timestamp = lines[0]["time"].as_str().unwrap().parse().unwrap();
        assert!(Timestamp::now().duration_since(at).as_secs() < 60, "{at}");
        for (line, expected) in lines.iter().zip([
            ["\"=ann,\\\"\\n\"", "\"tcp\"", "\"2001:db8::7\"", "443"],
            ["\"10.20.0.7\"", "\"udp\"", "\"198.51.100.7\"", "53"],
        ]) {
            assert_eq!(["user", "protocol", "address", "port"].map(|key| line[key].to_string()), expected);
        }
        assert_eq!(lines.len(), 2);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&place), mode(&place.join(&names[0]))], [0o700, 0o600]);
        assert!(said.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_older_than_was_asked_for_goes_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let today = TimeZone::UTC.to_datetime(Timestamp::now()).date();
        let day = |ago: i64| format!("{}{SUFFIX}", today.saturating_sub(Span::new().days(ago)));
        let others = ["2001-01-01.txt".to_owned(), "notes.jsonl".to_owned()];
        for name in [day(400), day(8), day(7), day(1)].iter().chain(&others) {
            std::fs::write(folder.path().join(name), "{}\n").unwrap();
        }
        let (log, _) = begin(folder.path(), 7);
        let mut kept = vec![day(7), day(1)];
        kept.extend(others);
        kept.sort();
        assert_eq!(names(folder.path()), kept);
        // On the next day the oldest file is deleted as well.
        log.shared.sweep(today.tomorrow().unwrap()).unwrap();
        assert_eq!(names(folder.path()).len(), 3);
        assert!(!names(folder.path()).contains(&day(7)));
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_once_and_what_waits_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let (log, said) = begin(folder.path(), 7);
        let (day, _) = log.shared.now();
        let file = folder.path().join(format!("{day}{SUFFIX}"));
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        let record = |n: u16| log.record("ann", Transport::Tcp, SocketAddr::from(([198, 51, 100, 7], n)));
        for n in 1..4 {
            record(n);
            log.shared.write();
        }
        assert_eq!(said.lock().unwrap().len(), 1);
        assert!(said.lock().unwrap()[0].contains("No space left"));
        std::fs::remove_file(&file).unwrap();
        record(4);
        log.shared.write();
        let text = std::fs::read_to_string(&file).unwrap();
        let ports: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["port"].as_u64().unwrap())
            .collect();
        assert_eq!(ports, [1, 2, 3, 4], "in their order, each once");
        assert_eq!(said.lock().unwrap()[1], "the log of destinations is written again; 0 lines were lost");
    }
}
