//! The sum that `make test` ends with.

use std::io::Write;
use std::process::{Command, Stdio};

/// What the sum says of a log, and whether it counts as passed.
fn sum(log: &str, all: u32) -> (String, bool) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/sum.awk");
    let mut command = Command::new("awk");
    command.args(["-v", &format!("all={all}"), "-f", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

const GOOD: &str = "     Running tests/a.rs (target/debug/deps/a-1)\n\
    test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
    \x20  Doc-tests leeway_sim\n\
    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";

#[test]
fn a_binary_that_was_killed_is_named_and_fails() {
    assert_eq!(sum(GOOD, 1), ("4 passed, 0 failed\n".into(), true));
    let killed = "     Running tests/b.rs (target/debug/deps/b-2)\nrunning 2 tests\ntest one ... ok\n\
        error: test failed, to rerun pass `-p b --test b`\n\
        Caused by:\n  process didn't exit successfully: `b-2` (signal: 9, SIGKILL: kill)\n";
    for log in [format!("{killed}{GOOD}"), format!("{GOOD}{killed}")] {
        let (said, passed) = sum(&log, 0);
        assert!(!passed && said.contains("tests/b.rs") && said.contains("1 without a result"), "{said}");
    }
}

#[test]
fn failures_skips_and_an_empty_log_fail() {
    assert!(!sum("", 0).1);
    assert!(!sum(&GOOD.replace("0 failed", "1 failed"), 0).1);
    let skipped = GOOD.replace("0 ignored", "1 ignored");
    assert!(sum(&skipped, 0).1 && !sum(&skipped, 1).1);
    assert_eq!(
        sum(&format!("{GOOD}2 passed, 1 failed in 2.10s\n"), 0),
        ("6 passed, 1 failed\n".into(), false)
    );
}
