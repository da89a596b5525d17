//! Three hosts, each a network namespace: a client, a relay, and a web server behind it that knows no way to
//! the client.

use crate::live;
pub use crate::live::{leeway, succeed, text};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a busy machine; a test that passes does not wait for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Whether live tests can run; says why not. Under LEEWAY_REQUIRE_ALL=1 they have to.
pub fn possible() -> bool {
    live::possible(&["nft", "ping", "python3"])
}

/// The namespaces and a state folder; dropping it removes them.
pub struct Bed {
    pub client: String,
    pub relay: String,
    pub web: String,
    pub folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Bed {
    /// The client at 10.77.1.1, the relay at 10.77.1.2 and 10.77.2.2, the web server at 10.77.2.1, 10.77.2.129,
    /// fd77:2::1 and the public 11.22.33.1.
    pub fn new() -> Bed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("lq{what}{:x}x{number:x}", std::process::id() & 0xff_ffff);
        let [client, relay, web] = ["c", "s", "w"].map(name);
        let folder = tempfile::tempdir().unwrap();
        let bed = Bed { client, relay, web, folder, children: Vec::new() };
        let Bed { client: c, relay: s, web: w, .. } = &bed;
        sh(&format!(
            "for n in {c} {s} {w}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {c} link add out type veth peer name left netns {s}
             ip -n {s} link add right type veth peer name in netns {w}
             ip -n {c} addr add 10.77.1.1/24 dev out; ip -n {s} addr add 10.77.1.2/24 dev left
             ip -n {s} addr add 10.77.2.2/24 dev right; ip -n {w} addr add 10.77.2.1/24 dev in
             ip -n {w} addr add 10.77.2.129/24 dev in; ip -n {w} addr add 11.22.33.1/32 dev in
             ip -n {s} addr add fd77:2::2/64 dev right nodad; ip -n {w} addr add fd77:2::1/64 dev in nodad
             ip -n {c} link set out up; ip -n {s} link set left up
             ip -n {s} link set right up; ip -n {w} link set in up
             ip -n {c} route add default via 10.77.1.2; ip -n {s} route add 11.22.33.0/24 via 10.77.2.1
             ip netns exec {s} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward;
                 echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'"
        ));
        bed
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A command in a namespace.
    pub fn at(&self, netns: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", netns, program]);
        command
    }

    /// Starts it, with its words in a file of that name.
    pub fn start(&mut self, log: &str, mut command: Command) -> usize {
        let file = std::fs::File::create(self.folder.path().join(log)).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().expect("it starts");
        self.children.push(child);
        self.children.len() - 1
    }

    /// The relay, until it listens.
    pub fn relay(&mut self, options: &str) -> usize {
        let mut command = self.at(&self.relay, leeway());
        command.args(["relay", "--listen", "0.0.0.0:4433", "--state"]).arg(self.state());
        command.args(options.split_whitespace());
        let relay = self.start("relay", command);
        self.hears("relay", "listening");
        relay
    }

    pub fn invite(&self, name: &str) -> String {
        let mut command = Command::new(leeway());
        command.args(["invite", "--address", "10.77.1.2:4433", "--name", name, "--state"]).arg(self.state());
        text(&succeed(&mut command).stdout).trim().to_owned()
    }

    /// A client with that log, until it has joined.
    pub fn join(&mut self, log: &str, token: &str, options: &str) -> usize {
        let mut command = self.at(&self.client, leeway());
        command.arg("join").args(options.split_whitespace()).arg(token);
        let child = self.start(log, command);
        self.hears(log, "joined as");
        child
    }

    /// What has been said in that log.
    pub fn said(&self, log: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(log)).unwrap_or_default()
    }

    /// Waits until it is said there.
    pub fn hears(&self, log: &str, words: &str) {
        until(|| self.said(log).contains(words), || format!("{words:?} in {log}: {}", self.said(log)));
    }

    /// Waits until one ping from a namespace is answered.
    pub fn reaches(&self, netns: &str, address: &str) {
        until(|| self.pings(netns, address), || format!("no answer from {address} at {netns}"));
    }

    /// Whether a ping is answered within a second.
    pub fn pings(&self, netns: &str, address: &str) -> bool {
        let mut ping = self.at(netns, "ping");
        ping.args(["-c", "1", "-W", "1", address]).output().unwrap().status.success()
    }

    /// What `doctor` finds in a namespace that somebody left who was killed, or removes.
    pub fn left(&self, netns: &str, arguments: &[&str]) -> Vec<String> {
        let output = self.at(netns, leeway()).arg("doctor").args(arguments).output().unwrap();
        let said = text(&output.stdout);
        said.lines().filter(|line| line.contains("that was killed")).map(str::to_owned).collect()
    }

    /// Sends a signal to what was started and returns its exit code, if it has one.
    pub fn signal(&mut self, child: usize, signal: &str) -> Option<i32> {
        // `ip netns exec` becomes the program.
        let child = &mut self.children[child];
        sh(&format!("kill -{signal} {}", child.id()));
        child.wait().unwrap().code()
    }

    /// Waits until what was started has ended by itself, and returns its exit code, if it has one.
    pub fn ends(&mut self, child: usize) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.children[child].try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Where files are that the client sees in /etc.
    pub fn own_files(&self) -> PathBuf {
        Path::new("/etc/netns").join(&self.client)
    }

    /// Sends a signal that does not end it.
    pub fn nudge(&self, child: usize, signal: &str) {
        live::send(signal, self.children[child].id());
    }

    /// A python program in a namespace, until it says `ready`; it is killed with the bed.
    pub fn python(&mut self, netns: &str, log: &str, script: &str) {
        let mut command = self.at(netns, "python3");
        command.args(["-c", script]);
        self.start(log, command);
        self.hears(log, "ready");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(self.own_files());
        for name in [&self.client, &self.relay, &self.web] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

pub fn sh(command: &str) {
    succeed(Command::new("sh").args(["-ec", command]));
}

/// Waits for a condition.
pub fn until(condition: impl Fn() -> bool, what: impl Fn() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{}", what());
        std::thread::sleep(Duration::from_millis(50));
    }
}
