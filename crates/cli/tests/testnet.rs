//! `leeway testnet` with real programs: needs root, TUN devices, `ip`, `python3` and `iperf3`.

mod live;

use live::{Running, leeway, possible, send, succeed, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 3] = ["python3", "iperf3", "ping"];

/// The network in `text`, in a folder of its own.
struct Net(tempfile::TempDir);

impl Net {
    fn new(text: &str) -> Net {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("net.toml"), text).unwrap();
        Net(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("net.toml")
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Command {
        let mut run = Command::new(leeway());
        run.arg("testnet").arg(self.path()).args(options).arg("--").args(command);
        run
    }
}

const CHAIN: &str = r#"
[host.client]
[host.router]
[host.server]
sysctl = { "net.ipv4.tcp_ecn" = 1 }

[link.left]
between = ["client", "router"]

[link.right]
between = ["router", "server"]
delay = "20 ms"
up = "4 Mbit/s"
down = { rate = "8 Mbit/s", delay = "30 ms" }
buffer = "100 pkt"
"#;

#[test]
fn hosts_reach_each_other_by_name_over_the_links() {
    if !possible(&PROGRAMS) {
        return;
    }
    let net = Net::new(CHAIN);
    for family in ["-4", "-6"] {
        let output = succeed(&mut net.run(&[], &["ping", family, "-c", "3", "-i", "0.2", "server"]));
        let best = text(&output.stdout);
        let best = best.rsplit_once("rtt min/avg/max/mdev = ").expect("round trips were measured").1;
        let best: f64 = best.split('/').next().unwrap().parse().unwrap();
        assert!((50.0..80.0).contains(&best), "{family}: {best} ms over a link with 20 + 30 ms");
    }
    // A host knows itself, its own parameters, and only its own devices.
    let script = "hostname; cat /proc/sys/net/ipv4/tcp_ecn; ip -o link | wc -l; echo $LEEWAY_HOST";
    let output = succeed(&mut net.run(&["--on", "server"], &["sh", "-c", script]));
    assert_eq!(text(&output.stdout).split_whitespace().collect::<Vec<_>>(), ["server", "1", "2", "server"]);
}

/// `ip` takes an `a` without `dev` for the beginning of `address`.
#[test]
fn a_link_may_be_named_like_a_word_of_ip() {
    if !possible(&PROGRAMS) {
        return;
    }
    let net = Net::new(&CHAIN.replace("[link.left]", "[link.a]"));
    succeed(&mut net.run(&[], &["ping", "-c", "1", "server"]));
}

#[test]
fn the_example_carries_what_its_line_does() {
    if !possible(&PROGRAMS) {
        return;
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/testnets/home.toml");
    let iperf3 = ["iperf3", "--client", "server", "--time", "4", "--json"];
    let output = succeed(Command::new(leeway()).args(["testnet", file, "--verbose", "--"]).args(iperf3));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mbit = said["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() * 1e-6;
    assert!((1.0..2.0).contains(&mbit), "{mbit} Mbit/s over a line with 2 Mbit/s up");
    let report = text(&output.stderr);
    assert!(
        report.contains("leeway testnet: line: up ") && report.contains("leeway testnet: line: down"),
        "{report}"
    );
}

#[test]
fn other_hosts_are_reached_from_a_command() {
    if !possible(&PROGRAMS) {
        return;
    }
    let net = Net::new(CHAIN);
    let script = format!(
        "{0} testnet exec server -- sh -c 'hostname; ip -br addr show right; exit 5' || echo $?; {0} testnet exec nobody",
        leeway()
    );
    let output = net.run(&[], &["sh", "-c", &script]).output().unwrap();
    let said = text(&output.stdout);
    assert!(
        said.starts_with("server\n") && said.contains("10.0.1.2/24") && said.ends_with("\n5\n"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the hosts are client, router, server"));
    let outside =
        Command::new(leeway()).args(["testnet", "exec", "server"]).env_remove("LEEWAY_HOSTS").output();
    assert!(text(&outside.unwrap().stderr).contains("not the shell of a test network"));
}

#[test]
fn the_end_of_the_command_is_passed_on() {
    if !possible(&PROGRAMS) {
        return;
    }
    let net = Net::new("[host.only]");
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9)] {
        let output = net.run(&[], &["sh", "-c", command]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {}", text(&output.stderr));
    }
    assert_eq!(net.run(&[], &["/nowhere/at-all"]).output().unwrap().status.code(), Some(127));
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(&mut net.run(&[], &["sh", "-c", script]));
    send("-TERM", running.child.id());
    assert_eq!(running.child.wait().unwrap().code(), Some(42));
}

/// Processes in a network namespace.
fn living_in(namespace: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == namespace))
        .count()
}

#[test]
fn nothing_stays_behind() {
    if !possible(&PROGRAMS) {
        return;
    }
    let program =
        "\n[[program]]\non = \"client\"\nrun = \"exec python3 -m http.server 8000\"\nlistens = 8000\n";
    let net = Net::new(&format!("{CHAIN}{program}"));
    let script = "readlink /proc/self/ns/net; exec sleep 1000";
    for killed in [false, true] {
        let mut running = Running::start(&mut net.run(&[], &["sh", "-c", script]));
        let namespace = PathBuf::from(running.line.trim());
        // The shell, and the server that has been waited for; perhaps still the shell's child.
        assert!(living_in(&namespace) >= 2);
        if killed {
            running.child.kill().unwrap();
        } else {
            send("-TERM", running.child.id());
        }
        running.child.wait().unwrap();
        let start = Instant::now();
        while living_in(&namespace) > 0 {
            assert!(start.elapsed().as_secs() < 20, "processes are left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_wrong_file_is_explained() {
    for (file, why) in [
        ("[host.a]\n[link.x]\nbetween = [\"a\", \"b\"]", "link.x: there is no host `b`; the hosts are a"),
        ("[host.a]\nspeed = 1", "unknown field `speed`"),
        ("[host.a", "line 1"),
    ] {
        let net = Net::new(file);
        let output = net.run(&[], &["true"]).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {error}");
        assert!(error.contains(why) && error.contains("net.toml"), "{file}: {error}");
    }
}
