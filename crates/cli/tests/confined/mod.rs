//! What live tests of confined commands share. Each of them uses some of it.

#![allow(dead_code)]

use crate::live::{self, has, leeway, text};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Whether commands can be confined here; says why not, and fails where everything has to be tested.
pub fn possible() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    live::ready([
        (Path::new("/sys/kernel/btf/vmlinux").exists(), "a kernel with BTF"),
        (mounts.lines().any(|line| line.contains(" cgroup2 ")), "a mounted cgroup2"),
        (has("python3"), "python3"),
        (has("iperf3"), "iperf3"),
        (has("setpriv"), "setpriv (util-linux)"),
    ])
}

/// `leeway run` with options and a command. Downloads are left alone, because loading what holds them back
/// takes as long as everything else.
pub fn run(options: &str, command: &[&str]) -> Command {
    let mut leeway = Command::new(leeway());
    leeway.args(["run", "--receive=none"]).args(options.split_whitespace()).arg("--").args(command);
    leeway
}

/// A script of these tests.
pub fn script(name: &str) -> String {
    format!("{}/tests/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Its output, if it succeeds.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// A law with parameters that no other process uses.
pub fn own_law() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id() % 10_000 * 20 + NEXT.fetch_add(1, Ordering::Relaxed);
    let law: leeway_control::LawSpec = format!("ledbat:target={}us", 5_000 + number).parse().expect("a law");
    law.to_string()
}

/// Waits, not forever.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// What `leeway attach --list` says of a law.
pub fn listed(law: &str) -> Vec<String> {
    let all = succeed(Command::new(leeway()).args(["attach", "--list"]));
    all.lines().filter(|line| line.contains(&format!("law {law} "))).map(str::to_owned).collect()
}

/// Whether a law is in the kernel.
pub fn is_loaded(law: &str) -> bool {
    succeed(Command::new(leeway()).args(["kernel", "list"]))
        .lines()
        .any(|line| line.ends_with(&format!("  {law}")))
}

/// A process that talks in lines.
pub struct Talk {
    pub child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Talk {
    pub fn start(command: &mut Command) -> Talk {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (lines, received) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)).ok()
        });
        let input = child.stdin.take();
        Talk { child, input, lines: received }
    }

    pub fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line")
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("an open input"), "{line}").expect("a process that listens");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Laws and ports that `ends.py` saw.
pub fn ends(output: &str) -> Vec<(u16, Vec<String>)> {
    let parse = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let laws = value["laws"].as_array().expect("laws").iter();
        let laws = laws.map(|law| law.as_str().expect("a name").to_owned()).collect();
        (value["port"].as_u64().expect("a port") as u16, laws)
    };
    output.lines().map(parse).collect()
}
