//! A gateway is stopped, killed, cut off and robbed of its database: neighbours are served again afterwards,
//! and nothing is left behind.

use crate::bed::*;
use crate::live::text;
use crate::overload::{OBJECTS, asking, spawn};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// How long each lasts.
const LASTS: Duration = Duration::from_secs(3);

/// Open files of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Whether the owner's command is answered, and what.
fn status(socket: &Path) -> (bool, String) {
    let output = leeway().args(["gateway", "status", "--socket"]).arg(socket).output().unwrap();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn neighbours_are_served_again_after_whatever_happens() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let _server = spawn(&bed, INTERNET, OBJECTS, Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = format!(
        "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\n\
         dns = [\"198.18.40.2\"]\nlisten = [\"10.20.0.1:3128\"]\nhome = [\"192.168.7.0/24\"]\n\
         [accounts]\nurl = {:?}\n[control]\nsocket = {:?}\nstate = {:?}\n",
        path("accounts.db"),
        path("control.sock"),
        path("state")
    );
    std::fs::write(path("gateway.toml"), text).unwrap();
    let before = bed.rules();
    let mut command = bed.gateway(&path("gateway.toml"));
    let (mut gateway, _) = Gateway::start(&mut command, 1);
    let idle = descriptors(gateway.pid());

    let log = path("users");
    let count = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| *line == "ok").count()
    };
    let served = |what: &str| {
        let now = count();
        wait(&format!("served again after: {what}"), || count() >= now + 20);
    };
    let file = std::fs::File::create(&log).unwrap();
    let users = spawn(&bed, USERS, &asking("10.20.0.1", 3128, "http://198.18.40.2/12500", 8), file.into());
    served("the start");

    let signal = |signal| kill_process(Pid::from_raw(gateway.pid() as i32).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    std::thread::sleep(LASTS);
    signal(Signal::CONT);
    served("the program stood still");

    let i = &bed.names[INTERNET];
    sh(&format!("ip -n {i} link set inet down"));
    std::thread::sleep(LASTS);
    sh(&format!("ip -n {i} link set inet up; ip -n {i} route replace default via 198.18.40.1"));
    served("the line was down");

    let drops = "'{ chain lost { type filter hook input priority 0; policy drop; }; }'";
    sh(&format!("ip netns exec {i} nft add table ip lost {drops}"));
    std::thread::sleep(LASTS);
    sh(&format!("ip netns exec {i} nft delete table ip lost"));
    served("the line lost everything");

    // SQLite goes on in the files that have no name any more.
    for name in ["accounts.db", "accounts.db-wal", "accounts.db-shm"] {
        let _ = std::fs::remove_file(path(name));
    }
    served("the database was removed");
    let (answered, words) = status(&path("control.sock"));
    assert!(answered && words.contains("sharing: on"), "{words}");

    gateway.signal(Signal::KILL);
    let (gateway, _) = Gateway::start(&mut command, 1);
    served("the program was killed");
    assert!(path("accounts.db").exists(), "a new one is begun");

    drop(users);
    wait("no socket is left open", || descriptors(gateway.pid()) <= idle + 2);
    drop(gateway);
    assert_eq!(bed.rules(), before, "nothing stays behind");
}
