//! `leeway link` with real programs: needs root, TUN devices, `ip`, `nft` and `python3`.

mod live;

use leeway_emulator::record::{self, Event, Record};
use leeway_emulator::replay::{recorded, replay, wake_up_error};
use leeway_emulator::{Direction, DirectionOptions};
use leeway_units::Duration;
use live::{Running, leeway, possible, send, succeed, text};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

fn link(options: &str, command: &[&str]) -> Command {
    let mut leeway = Command::new(leeway());
    leeway.arg("link").args(options.split_whitespace()).arg("--").args(command);
    leeway
}

/// Round trips of 12 datagrams, one after the other, over an echo at the gateway; the shortest in seconds.
const ROUND_TRIPS: &str = "
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
best = 1e9
for i in range(12):
    start = time.monotonic()
    s.sendto(b'x' * 100, (sys.argv[1], int(sys.argv[2])))
    s.recv(2000)
    best = min(best, time.monotonic() - start)
print(best)
";

/// A UDP echo on this host's loopback address until the test ends; its port.
fn echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    port
}

fn seconds(output: &Output) -> f64 {
    text(&output.stdout).trim().parse().unwrap()
}

#[test]
fn the_delay_is_added_in_both_directions() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let script = format!("exec python3 -c \"$0\" $LEEWAY_GATEWAY {}", echo());
    let best = seconds(&succeed(&mut link("--delay 15ms", &["sh", "-c", &script, ROUND_TRIPS])));
    assert!((0.030..0.060).contains(&best), "{best} s over a link with 2 x 15 ms");
}

#[test]
fn each_direction_has_its_delay_and_ipv6_takes_the_link_too() {
    if !possible(&["nft", "python3", "ping"]) {
        return;
    }
    let options = "--delay 5ms --down-delay 20ms";
    let output = succeed(&mut link(options, &["sh", "-c", "exec ping -6 -c 4 -i 0.2 $LEEWAY_GATEWAY6"]));
    let said = text(&output.stdout);
    let times = said.rsplit_once("rtt min/avg/max/mdev = ").expect("round trips were measured").1;
    let best: f64 = times.split('/').next().unwrap().parse().unwrap();
    assert!((25.0..50.0).contains(&best), "{best} ms over a link with 5 and 20 ms");
}

/// A name server for one question: the answer is 192.0.2.7.
const NAME_SERVER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.53', 53))
print('ready', flush=True)
while True:
    q, peer = s.recvfrom(512)
    end = q.index(0, 12) + 5
    a = b'\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4\\xc0\\0\\2\\7'
    is_a = q[end - 3] == 1
    s.sendto(q[:2] + b'\\x81\\x80\\0\\1\\0' + (b'\\1' if is_a else b'\\0') + b'\\0\\0\\0\\0' + q[12:end] + (a if is_a else b''), peer)
";

#[test]
fn a_resolver_at_a_loopback_address_is_reached() {
    if !possible(&["nft", "python3", "mount"]) {
        return;
    }
    // On a host of its own, whose port 53 is free and whose /etc/resolv.conf may be covered.
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("net.toml");
    std::fs::write(&net, "[host.only]").unwrap();
    std::fs::write(folder.path().join("resolv.conf"), "nameserver 127.0.0.53\n").unwrap();
    let script = format!(
        "set -e; mount --bind {0}/resolv.conf /etc/resolv.conf; python3 -c \"$1\" > {0}/said & \
         until grep -q ready {0}/said 2>/dev/null; do sleep 0.05; done; \
         exec {1} link --delay 2ms -- python3 -c \"import socket; print(socket.gethostbyname('somewhere.test'))\"",
        folder.path().display(),
        leeway()
    );
    let mut command = Command::new(leeway());
    command.arg("testnet").arg(&net).args(["--", "sh", "-c", &script, "sh", NAME_SERVER]);
    assert_eq!(text(&succeed(&mut command).stdout).trim(), "192.0.2.7");
}

#[test]
fn nested_links_add_up() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let script =
        format!("exec {} link --delay 20ms -- python3 -c \"$0\" $LEEWAY_GATEWAY {}", leeway(), echo());
    let best = seconds(&succeed(&mut link("--delay 10ms", &["sh", "-c", &script, ROUND_TRIPS])));
    assert!((0.060..0.090).contains(&best), "{best} s over links with 2 x 10 ms and 2 x 20 ms");
}

#[test]
fn the_end_of_the_command_is_passed_on() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    for (command, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)]
    {
        let output = link("", &["sh", "-c", command]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {}", text(&output.stderr));
    }
    let output = link("", &["/nowhere/at-all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("cannot run `/nowhere/at-all`"));
    let input = &mut link("", &["cat"]);
    let mut child = input.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "through");
}

#[test]
fn signals_reach_the_command() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(&mut link("", &["sh", "-c", script]));
    send("-TERM", running.child.id());
    assert_eq!(running.child.wait().unwrap().code(), Some(42));
}

#[test]
fn nothing_stays_behind_a_supervisor_that_was_killed() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let script =
        "echo $$ $(ls /proc/sys/net/ipv4/conf | grep leeway) $(readlink /proc/self/ns/net); exec sleep 1000";
    let mut running = Running::start(&mut link("--delay 1ms --up 1mbit", &["sh", "-c", script]));
    let mut words = running.line.split_whitespace().map(str::to_owned);
    let [pid, device, namespace] = std::array::from_fn(|_| words.next().expect("three words"));
    let tables = || text(&Command::new("nft").args(["list", "tables"]).output().unwrap().stdout);
    let table = format!(" {device}_{}", running.child.id());
    let listed = || tables().lines().any(|line| line.ends_with(&table));
    let address = || {
        let addresses = Command::new("ip").args(["-o", "addr", "show", "dev", &device]).output().unwrap();
        text(&addresses.stdout).split_whitespace().nth(3).map(str::to_owned)
    };
    assert!(listed(), "{}", tables());
    assert!(address().is_some());
    let before = address();
    running.child.kill().unwrap();
    running.child.wait().unwrap();

    // Another link may take the freed name at once, so it is this link's process and namespace that have to
    // go too.
    let gone = || {
        let lives = Path::new("/proc").join(&pid).exists();
        let inside = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            std::fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == Path::new(&namespace))
        });
        !lives && !inside && !listed() && (address() != before || others(&device))
    };
    let start = Instant::now();
    while !gone() {
        assert!(start.elapsed().as_secs() < 20, "left: {} {:?} {}", pid, address(), tables());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Whether a live link of another test has the device `name`.
fn others(name: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let devices = std::fs::read_to_string(entry.path().join("net/dev")).unwrap_or_default();
        let own = std::fs::read_link("/proc/self/ns/net").ok();
        std::fs::read_link(entry.path().join("ns/net")).ok() != own && devices.contains(&format!("{name}:"))
    })
}

#[test]
fn without_rights_it_says_what_is_needed() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let bounded =
        ["--bounding-set", "-net_admin,-sys_admin", "--inh-caps", "-net_admin,-sys_admin", leeway(), "link"];
    let output = Command::new("setpriv").args(bounded).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("not permitted") && error.contains("sudo"), "{error}");
}

#[test]
fn contradictions_are_bad_usage() {
    for (options, why) in [
        ("--up 2mbits", "`2mbits` is not a rate"),
        ("--up 2mbit --queue codle", "codle"),
        ("--queue codel", "needs a rate"),
        ("--arq tries=3", "add a loss"),
        ("--trace /nowhere", "/nowhere"),
        ("--up 1mbit --up-trace x", "cannot be used with"),
    ] {
        let output = link(options, &["true"]).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options}: {error}");
        assert!(error.contains(why), "{options}: {error}");
    }
}

/// Sends 300 kB up and 300 kB down over TCP, and datagrams faster than the link in between.
const TRAFFIC: &str = "
import socket, sys, threading
host, tcp, udp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(60):
    u.sendto(bytes(200 + 20 * i), (host, udp))
s = socket.create_connection((host, tcp), timeout=120)
sender = threading.Thread(target=lambda: (s.sendall(bytes(300_000)), s.shutdown(socket.SHUT_WR)))
sender.start()
got = 0
while block := s.recv(65536):
    got += len(block)
    if got % 7 == 0:
        u.sendto(bytes(900), (host, udp))
sender.join()
print(got)
";

/// A TCP server for one connection that reads all and sends 300 kB; its port.
fn exchange() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = stream.try_clone().unwrap();
        let upload = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        stream.write_all(&[0; 300_000]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        upload.join().unwrap().unwrap();
    });
    port
}

/// Runs the traffic behind a link and gives its records.
fn traffic(options: &str) -> Vec<Record> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    let script = format!("exec python3 -c \"$0\" $LEEWAY_GATEWAY {} {}", exchange(), echo());
    let mut command = Command::new(leeway());
    command.args(["link", "--seed", "7", "--log"]).arg(&log).args(options.split_whitespace());
    let output = succeed(command.args(["--", "sh", "-c", &script, TRAFFIC]));
    assert_eq!(text(&output.stdout).trim(), "300000");
    record::read(&log).unwrap()
}

/// Holds the records against the simulator's link with the same options.
fn same_as_simulated(options: &str, direction: DirectionOptions) -> Vec<Record> {
    let records = traffic(options);
    let spec = direction.spec().unwrap();
    for direction in Direction::BOTH {
        let live = recorded(&records, direction);
        let simulated = replay(&records, direction, &spec, 7);
        assert!(live.left.len() > 200, "{options}: {} packets", live.left.len());
        assert_eq!(live, simulated, "{options}, {}", direction.as_str());
    }
    let (late, early) = wake_up_error(&records);
    assert!(!early, "{options}: a packet came out before its time");
    eprintln!("{options}: {} events, at most {} us late", records.len(), late.micros());
    records
}

fn drops(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record.event, Event::Drop(_))).count()
}

#[test]
fn it_does_what_the_simulated_link_does() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let with = |set: &dyn Fn(&mut DirectionOptions)| {
        let mut options = DirectionOptions::default();
        options.rates = Some("4mbit".parse().unwrap());
        options.delay = Some(Duration::from_millis(5));
        set(&mut options);
        options
    };
    let base = "--up 4mbit --down 4mbit --delay 5ms";
    let full = with(&|options| options.buffer = Some("8pkt".parse().unwrap()));
    assert!(drops(&same_as_simulated(&format!("{base} --buffer 8pkt"), full)) > 10);
    let queue = |name: &str| {
        with(&|options| {
            options.queue = Some(name.parse().unwrap());
            options.buffer = Some("100pkt".parse().unwrap());
        })
    };
    for name in ["codel:target=2ms,interval=20ms", "pie", "red", "fq_codel", "sfq"] {
        same_as_simulated(&format!("{base} --buffer 100pkt --queue {name}"), queue(name));
    }
    let rough = with(&|options| {
        options.loss = Some("random:p=5%".parse().unwrap());
        options.arq = Some("tries=3,delay=4ms".parse().unwrap());
        options.jitter = Some("uniform:range=3ms,reorder=true".parse().unwrap());
    });
    let options = "--loss random:p=5% --arq tries=3,delay=4ms --jitter uniform:range=3ms,reorder=true";
    same_as_simulated(&format!("{base} {options}"), rough);
    let lossy = with(&|options| options.loss = Some("random:p=3%".parse().unwrap()));
    assert!(drops(&same_as_simulated(&format!("{base} --loss random:p=3%"), lossy)) > 0);
}

#[test]
fn a_trace_does_what_the_simulated_trace_does() {
    if !possible(&["nft", "python3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursts.trace");
    // Two opportunities in each of 20 ms of 50.
    let stamps: Vec<String> = (1..=20).flat_map(|ms| [ms.to_string(), ms.to_string()]).collect();
    std::fs::write(&path, format!("{}\n50\n", stamps.join("\n"))).unwrap();
    let mut traced = DirectionOptions::default();
    traced.trace = Some(DirectionOptions::read_trace(&path).unwrap());
    traced.buffer = Some("20pkt".parse().unwrap());
    traced.delay = Some(Duration::from_millis(3));
    let records =
        same_as_simulated(&format!("--trace {} --delay 3ms --buffer 20pkt", path.display()), traced);
    assert!(drops(&records) > 10);
}
