//! What tests with packet sockets have in common.

use nix::sched::{CloneFlags, unshare};

/// Whether this can run here; says why not, and fails where everything has to be tested.
pub fn possible() -> bool {
    let possible = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(possible || !all, "LEEWAY_REQUIRE_ALL=1, but this test lacks root");
    if !possible {
        eprintln!("skipped: this test lacks root");
    }
    possible
}
