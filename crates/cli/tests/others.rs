//! What other users of the machine do to root's confinements: needs root, BTF, cgroup v2, `unshare`,
//! `setpriv`, `flock`.
//!
//! Each test has a BPF file system of its own, which is everybody's to write, as the real one is.

mod confined;
mod live;

use confined::possible;
use live::{has, leeway, text};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long another user holds what root needs.
const HELD_S: u64 = 60;

/// Runs a script in such a place; `$LEEWAY` is the program, and `$OTHER COMMAND` is what another user does.
fn with(script: &str) -> Output {
    let script = format!("set -e; mount -t bpf -o mode=1777 bpf /sys/fs/bpf; cd /sys/fs/bpf\n{script}");
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .env("LEEWAY", leeway())
        .env("OTHER", "setpriv --reuid=65534 --regid=65534 --clear-groups --")
        .output()
        .unwrap()
}

fn can() -> bool {
    let programs = [(has("unshare"), "unshare (util-linux)"), (has("flock"), "flock (util-linux)")];
    possible() && live::ready(programs)
}

#[test]
fn what_others_made_first_is_refused_and_root_is_told_how_to_go_on() {
    if !can() {
        return;
    }
    let run = "$LEEWAY run --receive=none -- true";
    for (first, then, words) in [
        ("$OTHER mkdir leeway-run", run, "folder is user 65534's"),
        ("$OTHER mkdir leeway", run, "folder is user 65534's"),
        ("$OTHER mkdir leeway", "$LEEWAY kernel list", "folder is user 65534's"),
        ("$OTHER ln -s /tmp leeway-run", "$LEEWAY attach --list", "symbolic link is user 65534's"),
        ("ln -s /tmp leeway-run", run, "symbolic link is user 0's"),
        ("mkdir -m 777 leeway-run", run, "others may write there (mode 0777)"),
    ] {
        let output = with(&format!("{first}\n{then}"));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{first}: {error}");
        assert!(error.contains(words) && error.contains("sudo rm -r /sys/fs/bpf/leeway"), "{first}: {error}");
    }
}

#[test]
fn nobody_else_can_hold_what_root_waits_for() {
    if !can() {
        return;
    }
    // A folder as an umask of 022 makes it, and another user who locks it.
    let began = Instant::now();
    let output = with(&format!(
        "mkdir -m 755 leeway-run;
         $OTHER flock --no-fork leeway-run sleep {HELD_S} & holder=$!
         until ! $OTHER flock -n leeway-run true; do sleep 0.01; done
         $LEEWAY run --receive=none -- echo it runs
         stat -c %a leeway-run
         kill $holder; ! $OTHER flock -n /run/leeway/confine.lock true"
    ));
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(text(&output.stdout), "it runs\n700\n", "{error}");
    assert!(error.contains("Permission denied"), "another user can open the lock: {error}");
    assert!(began.elapsed() < Duration::from_secs(HELD_S), "it waited for another user");
    let lock = std::fs::metadata("/run/leeway/confine.lock").unwrap();
    assert_eq!((lock.uid(), lock.mode() & 0o777), (0, 0o600));
}
