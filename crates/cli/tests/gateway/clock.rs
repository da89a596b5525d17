//! The machine's clock jumps while the gateway serves (libfaketime): volumes stay what they were, and the
//! owner is told.

use crate::bed::wait;
use crate::disk::Bed;
use jiff::Timestamp;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Debian's; says why the test is skipped without it.
fn library() -> Option<&'static str> {
    let found = ["x86_64", "aarch64"].map(|machine| match machine {
        "x86_64" => "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        _ => "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    });
    let library = found.into_iter().find(|path| Path::new(path).exists());
    if library.is_none() {
        assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "libfaketime is not installed");
        eprintln!("skipped: libfaketime is not installed (apt-get install libfaketime)");
    }
    library
}

/// A clock that a test sets, in a folder, and what makes a gateway follow it.
struct Jumpy {
    folder: TempDir,
    library: &'static str,
}

impl Jumpy {
    fn new(library: &'static str) -> Jumpy {
        let jumpy = Jumpy { folder: tempfile::tempdir().unwrap(), library };
        jumpy.set("+0");
        jumpy
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn set(&self, offset: &str) {
        // In one step: the library reads it at any moment.
        fs::write(self.path("new"), offset).unwrap();
        fs::rename(self.path("new"), self.path("clock")).unwrap();
    }

    fn bed(&self, caps: &str) -> Bed {
        let environment = [
            ("LD_PRELOAD", self.library),
            ("FAKETIME_TIMESTAMP_FILE", &self.path("clock")),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Bed::start(&self.path("accounts.db"), caps, &[], &environment)
    }
}

#[test]
fn a_pause_of_two_hours_holds_when_the_clock_jumps() {
    let Some(library) = library() else { return };
    let clock = Jumpy::new(library);
    let bed = clock.bed("");
    let hours_left = |offset_h: f64| {
        let status = bed.status();
        assert_eq!(status["sharing"]["state"], "paused", "{status}");
        let until: Timestamp = status["sharing"]["until"].as_str().unwrap().parse().unwrap();
        until.duration_since(Timestamp::now()).as_secs_f64() / 3600. - offset_h
    };
    bed.ask(&["pause", "2h"]);
    for (offset, hours) in [("+0", 0.), ("+31d", 744.), ("-1h", -1.), ("-3650d", -87_600.), ("+0", 0.)] {
        clock.set(offset);
        // The test itself may take half an hour.
        let left = hours_left(hours);
        assert!((1.5..=2.001).contains(&left), "{offset}: {left} h are left");
        assert_eq!(bed.fetch(1).0, 503, "{offset}");
    }
    bed.ask(&["resume"]);
    assert_eq!(bed.fetch(1).0, 200);
    bed.end();
}

#[test]
fn a_month_forward_and_an_hour_back_give_nobody_another_volume() {
    let Some(library) = library() else { return };
    let clock = Jumpy::new(library);
    let caps = "[caps]\nuser = { daily = \"350 kB\", slow_at = 1.0 }\n";
    let began = Timestamp::now();
    let bed = clock.bed(caps);
    let notice = || {
        let status = bed.status();
        let notices =
            status["notices"].as_array().unwrap().iter().map(|words| words.as_str().unwrap().to_owned());
        notices.into_iter().find(|words| words.contains("has jumped")).unwrap_or_default()
    };
    let used_up = |when: &str| {
        let before = bed.counted();
        let (status, _, words) = bed.fetch(1);
        assert_ne!(status, 200, "{when}: {words}");
        assert!(bed.counted() < before + 10_000, "{when}: nothing passes");
    };
    assert_eq!(notice(), "");
    for _ in 0..3 {
        assert_eq!(bed.fetch(1).0, 200);
    }
    // The last part of the volume passes, and the rest would wait for the next day.
    let (_, bytes, _) = bed.fetch_within(1, 3);
    assert!(bytes < 60_000, "{bytes}");
    used_up("before");
    for (offset, words) in [("+31d", "forward by 744 h"), ("-1h", "back by 1 h")] {
        clock.set(offset);
        wait("the owner is told of the jump", || notice().contains(words));
        used_up(offset);
        assert_eq!(bed.fetch(if offset == "-1h" { 2 } else { 3 }).0, 200, "others are served");
    }
    clock.set("+0");
    wait("the clock is as it was", || notice().is_empty());
    used_up("after");
    wait("each byte is stored once", || bed.stored() == bed.counted());
    // By the time before the jumps.
    for (at, _) in bed.rows() {
        let at: Timestamp = at.parse().unwrap();
        let age = Timestamp::now().duration_since(began).as_secs() + 300;
        assert!((-300..=age).contains(&at.duration_since(began).as_secs()), "{at}");
    }
    bed.end();
}
