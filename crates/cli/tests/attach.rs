//! `leeway attach` with real programs: needs root, BTF, cgroup v2, `python3` and `iperf3`.

mod confined;
mod live;

use confined::{Talk, is_loaded, listed, own_law, possible, script, succeed, wait_for};
use live::{leeway, text};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A cgroup that ends with the test.
struct Slice {
    name: String,
    directory: PathBuf,
}

impl Slice {
    fn new() -> Slice {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" cgroup2 ")).expect("it was checked");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lwtest{}x{number}.slice", std::process::id());
        let directory = PathBuf::from(mount.split(' ').nth(1).expect("a mount point")).join(&name);
        std::fs::create_dir(&directory).unwrap();
        Slice { name, directory }
    }

    /// A program in a cgroup below, in a network namespace of its own.
    fn start(&self, inner: &str, program: &str) -> Talk {
        let inner = self.directory.join(inner);
        std::fs::create_dir(&inner).unwrap();
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec unshare -n sh -c 'ip link set lo up; exec python3 {program}'",
            inner.display()
        );
        let talk = Talk::start(Command::new("sh").args(["-ec", &script]));
        assert_eq!(talk.line(), "ready");
        talk
    }

    fn remove(&self) {
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(entry.path());
        }
        let _ = std::fs::remove_dir(&self.directory);
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        wait_for("the cgroup is empty", || {
            self.remove();
            !self.directory.exists()
        });
    }
}

fn attach(arguments: &str) -> Output {
    Command::new(leeway()).arg("attach").args(arguments.split_whitespace()).output().unwrap()
}

/// The laws that `peer.py` sees, of one kind of sockets.
fn laws(talk: &mut Talk, kinds: &[&str]) -> Vec<String> {
    talk.say("laws");
    let value: serde_json::Value = serde_json::from_str(&talk.line()).expect("JSON");
    let of = |kind: &&str| value[*kind].as_array().expect("laws").clone();
    kinds.iter().flat_map(of).map(|law| law.as_str().expect("a name").to_owned()).collect()
}

/// The words of a command are another user's text.
#[test]
fn a_command_says_nothing_to_the_terminal_that_lists_it() {
    if !possible() {
        return;
    }
    let law = own_law();
    let mut run = Command::new(leeway());
    run.args([
        "run",
        "--no-report",
        "--law",
        &law,
        "--",
        "sh",
        "-c",
        "echo ready; read line",
        "\x1b[2Jgpj\u{202e}x",
    ]);
    let mut command = Talk::start(&mut run);
    assert_eq!(command.line(), "ready");
    let list = listed(&law);
    assert!(list.len() == 1 && list[0].ends_with("[2Jgpj\u{fffd}x"), "{list:?}");
    command.say("end");
}

#[test]
fn connections_that_run_change_their_law_and_keep_it_when_it_is_taken_off() {
    if !possible() {
        return;
    }
    let slice = Slice::new();
    let law = own_law();
    let mut peer = slice.start("peer.service", &script("peer.py"));
    let mut other = Talk::start(Command::new("python3").arg(script("peer.py")));
    assert_eq!(other.line(), "ready");
    let before = laws(&mut peer, &["running", "listening", "new"]);
    assert!(before.iter().all(|law| !law.starts_with("run_")), "{before:?}");

    let output = attach(&format!("--cgroup {} --law {law}", slice.name));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Two connections, with two ends each here, twice; and two listeners.
    assert!(text(&output.stdout).contains(" 10 connections and listeners"), "{}", text(&output.stdout));
    let after = laws(&mut peer, &["running", "listening", "new"]);
    assert_eq!(after.len(), 10);
    assert!(after.iter().all(|name| name.starts_with("run_ledbat")), "{after:?}");
    let outside = laws(&mut other, &["running", "listening", "new"]);
    assert!(outside.iter().all(|law| !law.starts_with("run_")), "{outside:?}");

    let again = attach(&format!("--cgroup /{}", slice.name));
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("attached already"), "{}", text(&again.stderr));
    let list = listed(&law);
    assert!(list.len() == 1 && list[0].starts_with(&format!("/{}  attached", slice.name)), "{list:?}");
    assert!(list[0].contains("dscp le  receive ledbat"), "downloads are held back, too: {list:?}");

    let output = attach(&format!("--cgroup {} --detach", slice.directory.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept = laws(&mut peer, &["running"]);
    assert!(kept.iter().all(|name| name.starts_with("run_ledbat")), "{kept:?}");
    assert!(listed(&law).is_empty() && !is_loaded(&law));
    let twice = attach(&format!("--cgroup {} --detach", slice.name));
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("is not attached"), "{}", text(&twice.stderr));
}

#[test]
fn it_ends_with_its_cgroup() {
    if !possible() {
        return;
    }
    let slice = Slice::new();
    let law = own_law();
    let output = attach(&format!("--cgroup {} --law {law} --dscp none --receive=none", slice.name));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Nothing runs in it, and still it holds.
    succeed(&mut confined::run("", &["true"]));
    assert_eq!(listed(&law).len(), 1);
    drop(slice);
    wait_for("the next command sweeps", || {
        succeed(&mut confined::run("", &["true"]));
        listed(&law).is_empty() && !is_loaded(&law)
    });
}

#[test]
fn a_cgroup_that_is_not_there_is_bad_usage() {
    if !possible() {
        return;
    }
    for name in ["lwnothing.slice", "/lwnothing", "../..", "/sys/fs/cgroup/lwnothing"] {
        let output = attach(&format!("--cgroup {name}"));
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("no cgroup"), "{name}: {}", text(&output.stderr));
    }
    assert_eq!(attach("").status.code(), Some(2));
}

#[test]
fn the_whole_machine_is_refused_in_words() {
    if !possible() {
        return;
    }
    for name in ["/", "/sys/fs/cgroup/"] {
        let output = Command::new(leeway()).args(["attach", "--cgroup", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output.stderr));
    }
    let output = Command::new(leeway()).args(["attach", "--cgroup", "/"]).output().unwrap();
    for word in ["whole machine", "backup.slice", "--pid"] {
        assert!(text(&output.stderr).contains(word), "{word}: {}", text(&output.stderr));
    }
}

#[test]
fn a_process_that_runs_gives_way_with_the_connections_that_it_has() {
    if !possible() {
        return;
    }
    let mut peer = Talk::start(Command::new("python3").arg(script("peer.py")));
    assert_eq!(peer.line(), "ready");
    let pid = peer.child.id().to_string();
    let attach = |more: &[&str]| {
        let mut attach = Command::new(leeway());
        attach.args(["attach", "--pid", &pid]).args(more).output().unwrap()
    };
    let output = attach(&["--receive", "none"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("6 connections and listeners"), "{}", text(&output.stdout));
    peer.say("");
    let laws: serde_json::Value = serde_json::from_str(&peer.line()).unwrap();
    for kind in ["running", "listening", "new"] {
        let names = laws[kind].as_array().expect("laws");
        assert!(
            !names.is_empty() && names.iter().all(|name| name != "cubic" && name != "reno"),
            "{kind}: {laws}"
        );
    }
    let again = attach(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is already under"), "{}", text(&again.stderr));
    assert!(attach(&["--detach"]).status.success());
    let own = std::process::id().to_string();
    let output = Command::new(leeway()).args(["attach", "--pid", &own]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it would slow those who ask: {}", text(&output.stderr));
}
