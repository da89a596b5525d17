//! `leeway join` with two relays: one stops, comes back, and the other is killed.

use crate::bed::*;
use std::time::{Duration, Instant};

/// At the web server: whoever connects is told from where, line by line as it asks.
const TELLER: &str = "
import socket, sys, threading
def serve(c, peer):
    f = c.makefile('rw')
    for line in f:
        f.write(peer + '\\n')
        f.flush()
s = socket.create_server(('11.22.33.1', 8080))
print('ready', file=sys.stderr, flush=True)
while True:
    c, peer = s.accept()
    threading.Thread(target=serve, args=(c, peer[0]), daemon=True).start()
";

/// At the client: one connection, which asks again and again and says what it hears.
const LONG: &str = "
import socket, sys, time
s = socket.create_connection(('11.22.33.1', 8080), timeout=60)
f = s.makefile('rw')
n = 0
while True:
    f.write('x\\n')
    f.flush()
    peer = f.readline().strip()
    n += 1
    print('ready' if n == 1 else 'answer', n, peer, s.getsockname()[0], file=sys.stderr, flush=True)
    time.sleep(0.2)
";

const ONCE: &str = "
import socket
s = socket.create_connection(('11.22.33.1', 8080), timeout=2)
s.settimeout(2)
f = s.makefile('rw')
f.write('x\\n')
f.flush()
print(f.readline().strip())
";

/// The addresses by which the two relays reach the web server.
const RELAYS: [&str; 2] = ["10.77.2.2", "10.77.3.2"];

/// A new connection of the client: the relay that it goes through.
fn once(bed: &Bed) -> Option<String> {
    let output = bed.at(&bed.client, "python3").args(["-c", ONCE]).output().unwrap();
    output.status.success().then(|| text(&output.stdout).trim().to_owned())
}

/// Waits until new connections go through that relay; tells how long it took.
fn moves_to(bed: &Bed, relay: &str) -> Duration {
    let began = Instant::now();
    until(|| once(bed).as_deref() == Some(relay), || format!("not through {relay}: {}", bed.said("join")));
    began.elapsed()
}

/// The answers that the long connection has had, and the relay of the last one.
fn answers(bed: &Bed) -> (u64, String) {
    let said = bed.said("long");
    let last = said.lines().rfind(|line| line.starts_with("answer")).unwrap_or_default();
    let words: Vec<&str> = last.split(' ').collect();
    (words.get(1).and_then(|n| n.parse().ok()).unwrap_or(0), words.get(2).unwrap_or(&"").to_string())
}

#[track_caller]
fn goes_on(bed: &Bed, relay: &str) {
    let (before, _) = answers(bed);
    until(|| answers(bed).0 > before + 3, || format!("the connection stands still: {}", bed.said("long")));
    assert_eq!(answers(bed).1, relay, "it goes on where it began");
}

/// A client of two relays, which both lead to the web server.
struct Place {
    bed: Bed,
    relays: [usize; 2],
    join: usize,
    _second: Namespace,
}

impl Place {
    fn new() -> Place {
        let mut bed = Bed::new();
        let (client, web, second) = (bed.client.clone(), bed.web.clone(), format!("{}b", bed.relay));
        let end = Namespace(second.clone());
        sh(&format!(
            "ip netns add {second}; ip -n {second} link set lo up
         ip -n {client} link add out2 type veth peer name left netns {second}
         ip -n {second} link add right type veth peer name in2 netns {web}
         ip -n {client} addr add 10.77.4.1/24 dev out2; ip -n {second} addr add 10.77.4.2/24 dev left
         ip -n {second} addr add 10.77.3.2/24 dev right; ip -n {web} addr add 10.77.3.1/24 dev in2
         ip -n {client} link set out2 up; ip -n {second} link set left up
         ip -n {second} link set right up; ip -n {web} link set in2 up
         ip -n {second} route add 11.22.33.0/24 via 10.77.3.1
         ip netns exec {second} sysctl -qw net.ipv4.ip_forward=1"
        ));
        bed.python(&web, "web", TELLER);
        let mut relays = [0; 2];
        let mut tokens = String::new();
        let places = [(bed.relay.clone(), "10.77.1.2"), (second, "10.77.4.2")];
        for (n, (netns, address)) in places.iter().enumerate() {
            let (state, log) = (bed.folder.path().join(format!("state{n}")), format!("relay{n}"));
            let mut command = bed.at(netns, leeway());
            command.args(["relay", "--listen", "0.0.0.0:4433", "--ports", "any", "--state"]).arg(&state);
            relays[n] = bed.start(&log, command);
            bed.hears(&log, "listening");
            let mut command = std::process::Command::new(leeway());
            command
                .args(["invite", "--address", &format!("{address}:4433"), "--name", "bob", "--state"])
                .arg(&state);
            tokens += &format!("# relay {n}\n{}\n", text(&succeed(&mut command).stdout).trim());
        }
        let file = bed.folder.path().join("tokens");
        std::fs::write(&file, tokens).unwrap();
        sh(&format!("chmod 600 {}", file.display()));
        let mut command = bed.at(&client, leeway());
        command.arg("join").arg("--tokens").arg(&file);
        let join = bed.start("join", command);
        bed.hears("join", "new connections go through");
        bed.hears("join", "joined 10.77.1.2:4433 as");
        bed.hears("join", "joined 10.77.4.2:4433 as");
        Place { bed, relays, join, _second: end }
    }

    /// Opens the long connection, and tells which relay it goes through.
    fn long(&mut self) -> usize {
        let bed = &mut self.bed;
        until(|| once(bed).is_some(), || format!("no connection: {}", bed.said("join")));
        let first = once(bed).unwrap();
        let client = bed.client.clone();
        bed.python(&client, "long", LONG);
        goes_on(bed, &first);
        RELAYS.iter().position(|relay| *relay == first).expect(&first)
    }

    /// Tells a relay something, by its folder.
    fn tell(&self, relay: usize, words: &[&str]) -> String {
        let state = self.bed.folder.path().join(format!("state{relay}"));
        let mut command = std::process::Command::new(leeway());
        text(&succeed(command.arg("relay").args(words).arg("--state").arg(state)).stdout)
    }
}

/// For six seconds new connections go through that relay.
fn stays_at(bed: &Bed, relay: &str) {
    for _ in 0..20 {
        assert_eq!(once(bed).as_deref(), Some(relay), "no flapping: {}", bed.said("join"));
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn new_connections_move_and_those_that_stand_stay() {
    if !possible() {
        return;
    }
    let mut place = Place::new();
    // Both have given this client the same address: they know nothing of each other.
    let said = place.bed.said("join");
    assert_eq!(said.matches("as 10.213.0.2 and").count(), 2, "{said}");
    let at = place.long();
    let Place { mut bed, relays, join, _second } = place;
    let (first, other) = (RELAYS[at], RELAYS[1 - at]);

    // A process that is stopped says nothing and forgets nothing.
    bed.nudge(relays[at], "-STOP");
    eprintln!("stopped: new connections work after {:.1} s", moves_to(&bed, other).as_secs_f64());
    bed.nudge(relays[at], "-CONT");
    goes_on(&bed, first);
    stays_at(&bed, other);
    assert_eq!(bed.said("join").matches("new connections go through").count(), 2, "{}", bed.said("join"));
    // The other one is killed: new connections come back, and the old one has not noticed any of it.
    let _ = bed.signal(relays[1 - at], "KILL");
    eprintln!("killed: new connections work after {:.1} s", moves_to(&bed, first).as_secs_f64());
    goes_on(&bed, first);
    assert_eq!(bed.signal(join, "INT"), Some(0), "{}", bed.said("join"));
    let rules = ["-n", &bed.client, "rule"];
    let rules = text(&succeed(std::process::Command::new("ip").args(rules)).stdout);
    assert!(!rules.contains("fwmark"), "{rules}");
}

#[test]
fn a_relay_that_pauses_keeps_what_stands_and_gets_nothing_new() {
    if !possible() {
        return;
    }
    let mut place = Place::new();
    let at = place.long();
    let (first, other) = (RELAYS[at], RELAYS[1 - at]);
    let said = place.tell(at, &["pause", "2h"]);
    assert!(said.starts_with("new connections go elsewhere until 20"), "{said}");
    eprintln!("paused: new connections move after {:.1} s", moves_to(&place.bed, other).as_secs_f64());
    place.bed.hears("join", "the other one is paused");
    goes_on(&place.bed, first);
    assert_eq!(place.tell(at, &["resume"]), "new connections are accepted again\n");
    assert_eq!(place.tell(at, &["resume"]), "the relay was not paused\n");
    stays_at(&place.bed, other);
    // Both pause: a paused relay is better than none.
    for relay in [0, 1] {
        place.tell(relay, &["pause"]);
    }
    std::thread::sleep(Duration::from_secs(3));
    assert!(once(&place.bed).is_some(), "{}", place.bed.said("join"));
    // The one is resumed, and is found.
    place.tell(at, &["resume"]);
    moves_to(&place.bed, first);
    goes_on(&place.bed, first);
    let mut elsewhere = std::process::Command::new(leeway());
    let refused =
        elsewhere.args(["relay", "pause", "--state"]).arg(place.bed.folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("this is not the folder of a relay"), "{}", text(&refused.stderr));
    assert_eq!(place.bed.signal(place.join, "INT"), Some(0));
}

/// A namespace that goes with the test.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}
