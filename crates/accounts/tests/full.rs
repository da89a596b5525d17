//! A disk that is full: counts wait in memory, and are written when there is room again.

use jiff::Timestamp;
use leeway_accounts::ledger::{Class, Direction, State};
use leeway_accounts::store::Store;
use leeway_accounts::time::{Moment, Slot};
use leeway_accounts::{Books, write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Set in the process that has the small disk: where it is mounted.
const DISK: &str = "LEEWAY_ACCOUNTS_TEST_DISK";
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn a_full_disk_stops_no_counting() {
    if let Some(disk) = std::env::var_os(DISK) {
        return fill(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=8m tmpfs \"$0\" && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_stops_no_counting", "--nocapture"])
        .env(DISK, disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("unshare:") && std::env::var_os("LEEWAY_REQUIRE_ALL").is_none() {
        eprintln!("skipped: no namespace for a small disk: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("filled and emptied"), "{said}");
}

/// What is written into a file that was removed goes with it; a new one would begin the month anew.
#[test]
fn a_file_that_was_removed_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let [file, aside] = ["accounts.db", "aside.db"].map(|name| folder.path().join(name));
    let url = file.to_str().unwrap().to_owned();
    let mut store = Store::open(&url, "attic").unwrap();
    let moment = |second| {
        let steady = Duration::from_secs(second);
        Moment { wall: Timestamp::from_second(1_795_000_000).unwrap() + steady, steady }
    };
    let books = Mutex::new(Books::new(&mut store, moment(0), PATIENCE).unwrap());
    let mut write_at = |second| {
        books.lock().unwrap().count(moment(second), "ann", Direction::Down, Class::Background, 1000);
        write(&books, &mut store, moment(second), false);
        books.lock().unwrap().ledger().state(moment(second).steady)
    };
    assert_eq!(write_at(10), State::Current);
    std::fs::rename(&file, &aside).unwrap();
    let State::Behind { error, unwritten_bytes, .. } = write_at(20) else { panic!("it is gone") };
    assert!(unwritten_bytes == 1000 && error.contains("accounts.db was removed or replaced"), "{error}");
    std::fs::write(&file, "another").unwrap();
    assert!(matches!(write_at(30), State::Behind { .. }), "another one of that name");
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(write_at(40), State::Current, "it is back");
    write(&books, &mut store, moment(50), true);
    let [from, to] = [0, 3600].map(|second| Slot::of(moment(second).wall));
    assert_eq!(Store::reading(&url).unwrap().totals(from, to).unwrap(), [("ann".to_owned(), [4000, 0])]);
}

fn fill(disk: &Path) {
    let url = disk.join("accounts.db").to_str().unwrap().to_owned();
    let mut store = Store::open(&url, "attic").unwrap();
    let moment = |second| {
        let steady = Duration::from_secs(second);
        Moment { wall: Timestamp::from_second(1_795_000_000).unwrap() + steady, steady }
    };
    let books = Mutex::new(Books::new(&mut store, moment(0), PATIENCE).unwrap());
    let ballast = disk.join("ballast");
    let (mut total, mut states) = (0, Vec::new());
    for second in (0..3100).step_by(10) {
        match second {
            500 | 1300 => assert!(std::fs::write(&ballast, vec![0; 9 << 20]).is_err(), "it is full"),
            1090 | 2900 => std::fs::remove_file(&ballast).unwrap(),
            _ => {}
        }
        for user in 0..100 {
            let user = format!("user {user} of {second}");
            books.lock().unwrap().count(
                moment(second),
                &user,
                Direction::Up,
                Class::Background,
                100 + second,
            );
            total += 100 + second;
        }
        write(&books, &mut store, moment(second), false);
        states.push(books.lock().unwrap().ledger().state(moment(second).steady));
    }
    write(&books, &mut store, moment(3100), true);
    // SQLite has some room in its own files: the first refusal comes later than the full disk.
    let mut kinds: Vec<&str> = states.iter().map(kind).collect();
    kinds.dedup();
    assert_eq!(kinds, ["current", "behind", "current", "behind", "stopped", "current"]);
    let (first, last) = store.range().unwrap().unwrap();
    let stored: u64 = store.usage(first, last.next()).unwrap().iter().map(|usage| usage.bytes).sum();
    assert_eq!(stored, total, "to the byte");
    eprintln!("filled and emptied");
}

fn kind(state: &State) -> &'static str {
    match state {
        State::Current => "current",
        State::Behind { error, .. } => {
            assert!(error.contains("full"), "{error}");
            "behind"
        }
        State::Stopped { .. } => "stopped",
    }
}

/// Whatever has overwritten the file: the error names it, and says what to do.
#[test]
fn a_damaged_file_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accounts.db");
    let url = file.to_str().unwrap();
    drop(Store::open(url, "attic").unwrap());
    let whole = std::fs::read(&file).unwrap();
    let noise = |bytes: usize| (0..bytes).map(|n| (n * n % 251) as u8).collect::<Vec<_>>();
    let [random, half] = [noise(8192), whole[..5000].to_vec()];
    let mut middle = whole.clone();
    middle[4096..].copy_from_slice(&noise(whole.len() - 4096));
    for damaged in [random, half, middle] {
        std::fs::write(&file, damaged).unwrap();
        let Err(error) = Store::open(url, "attic") else { panic!("it is damaged") };
        let words = error.to_string();
        assert!(
            words.contains(&format!("{url} is damaged: put back a copy of it, or move it away")),
            "{words}"
        );
    }
    // An empty file is one that nobody has written yet.
    std::fs::write(&file, "").unwrap();
    Store::open(url, "attic").unwrap();
}
