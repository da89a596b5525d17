//! `leeway gateway` as a program: its start, its end, and clients without configuration between network namespaces.

mod live;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn leeway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leeway"))
}

/// Whether namespaces and TPROXY can be had here; says why not, and fails where everything has to be tested.
fn possible() -> bool {
    live::possible(&["nft", "python3"])
}

/// A gateway that is killed at the end of the test.
struct Gateway {
    child: Child,
    /// All that it has said.
    said: Arc<Mutex<String>>,
}

impl Gateway {
    /// Starts it, and waits until it listens at as many addresses.
    fn start(command: &mut Command, listeners: usize) -> (Gateway, Vec<SocketAddr>) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::<Mutex<String>>::default();
        let hear = said.clone();
        let mut addresses = Vec::new();
        while addresses.len() < listeners {
            let Some(Ok(line)) = lines.next() else { panic!("it ended: {}", said.lock().unwrap()) };
            addresses.extend(
                line.rsplit_once("listening on ").map(|(_, address)| address.parse::<SocketAddr>().unwrap()),
            );
            *said.lock().unwrap() += &(line + "\n");
        }
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| *hear.lock().unwrap() += &(line + "\n"))
        });
        (Gateway { child, said }, addresses)
    }

    /// Waits until it has said that so many times.
    fn says(&self, words: &str, times: usize) {
        let said = || self.said.lock().unwrap().clone();
        wait(words, || said().matches(words).count() >= times);
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn usage(arguments: &[&str]) -> String {
    let output = leeway().arg("gateway").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_wrong_is_explained() {
    assert!(usage(&[]).contains("give `listen`"));
    assert!(usage(&["--listen", "127.0.0.1:0"]).contains("give `clients`"));
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/40"]);
    assert!(wrong.contains("is not a network"), "{wrong}");
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/8", "--law", "ledbad"]);
    assert!(wrong.contains("ledbad"), "{wrong}");
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/8", "--relay", "leeway2_x"]);
    assert!(wrong.contains("not a token of `leeway invite`"), "{wrong}");
    assert!(usage(&["--config", "/nonexistent/gateway.toml"]).contains("/nonexistent/gateway.toml"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = leeway().args(["gateway", "--listen", &address, "--client", "127.0.0.1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&address));
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let mut command = leeway();
    command.args(["gateway", "--listen", "127.0.0.1:0", "--socks", "127.0.0.1:0", "--client", "127.0.0.1"]);
    let (mut gateway, addresses) = Gateway::start(&mut command, 2);
    let mut client = TcpStream::connect(addresses[0]).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert!(TcpStream::connect(addresses[0]).is_err());
}

/// Three namespaces in a row: a secondary user, the gateway, the Internet, with both kinds of addresses, and a relay on the
/// Internet. The gateway forwards, so that without a guard the user would get through without the proxy.
struct Testbed {
    names: [String; 4],
    children: Vec<Child>,
}

const SERVERS: [&str; 2] = ["198.18.40.2", "2001:db8:40::2"];
/// Of the Internet's machine, too, but none that users may reach.
const PRIVATE: [&str; 2] = ["192.168.41.2", "fd41::2"];
const GATEWAY: [&str; 2] = ["198.18.40.1", "2001:db8:40::1"];
const RELAY: [&str; 2] = ["198.18.50.2", "2001:db8:50::2"];
const MESH: [&str; 2] = ["10.20.0.1", "fd20::1"];
const USER: [&str; 2] = ["10.20.0.2", "fd20::2"];

impl Testbed {
    /// With servers on the Internet and on the gateway that say where each comes from who asks them: TCP at port 80, HTTP at 8080, UDP at 443 and 444,
    /// names at 53.
    fn new() -> Testbed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:x}x{:x}", std::process::id() & 0xf_ffff, NEXT.fetch_add(1, Ordering::Relaxed));
        let names = ["s", "g", "i", "r"].map(|what| format!("lwg{what}{id}"));
        let mut bed = Testbed { names, children: Vec::new() };
        let [s, g, i, r] = &bed.names;
        sh(&format!(
            "for n in {s} {g} {i} {r}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {s} link add lan type veth peer name mesh netns {g}
             ip -n {g} link add wan type veth peer name inet netns {i}
             ip -n {s} addr add 10.20.0.2/24 dev lan; ip -n {g} addr add 10.20.0.1/24 dev mesh
             ip -n {s} addr add fd20::2/64 dev lan nodad; ip -n {g} addr add fd20::1/64 dev mesh nodad
             ip -n {g} addr add 198.18.40.1/24 dev wan; ip -n {i} addr add 198.18.40.2/24 dev inet
             ip -n {g} addr add 2001:db8:40::1/64 dev wan nodad; ip -n {i} addr add 2001:db8:40::2/64 dev inet nodad
             ip -n {i} addr add 192.168.41.2/32 dev lo; ip -n {i} addr add fd41::2/128 dev lo nodad
             ip -n {s} link set lan up; ip -n {g} link set mesh up; ip -n {g} link set wan up
             ip -n {i} link set inet up
             ip -n {s} route add default via 10.20.0.1; ip -n {i} route add default via 198.18.40.1
             ip -n {s} route add default via fd20::1; ip -n {i} route add default via 2001:db8:40::1
             ip -n {g} route add default via 198.18.40.2; ip -n {g} route add default via 2001:db8:40::2
             ip -n {i} link add far type veth peer name eth netns {r}
             ip -n {i} addr add 198.18.50.1/24 dev far; ip -n {r} addr add 198.18.50.2/24 dev eth
             ip -n {i} addr add 2001:db8:50::1/64 dev far nodad; ip -n {r} addr add 2001:db8:50::2/64 dev eth nodad
             ip -n {i} link set far up; ip -n {r} link set eth up
             ip -n {i} route replace 198.18.50.0/24 dev far src 198.18.40.2
             ip -n {i} route add 2001:db8:50::/64 dev far src 2001:db8:40::2 metric 1
             ip -n {r} route add default via 198.18.50.1; ip -n {r} route add default via 2001:db8:50::1
             for n in {g} {i} {r}; do ip netns exec $n sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward;
                 echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'; done"
        ));
        bed.children.extend([1, 2].map(|at| bed.start(at, SERVER, &[&bed.names[at]])));
        wait("the servers answer", || {
            (0..2).all(|v| {
                let all = [SERVERS[v], PRIVATE[v], MESH[v]];
                all.iter().all(|at| bed.fetch(at, 80) == USER[v] && bed.echo(at, 443, 1) == USER[v])
            })
        });
        bed
    }

    /// A script on one of the machines.
    fn start(&self, at: usize, script: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[at], "python3", "-c", script]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What a script of the secondary user prints.
    fn ask(&self, script: &str, arguments: &[&str]) -> String {
        self.ask_at(0, script, arguments)
    }

    /// The same on another machine.
    fn ask_at(&self, at: usize, script: &str, arguments: &[&str]) -> String {
        let output = self.start(at, script, arguments).wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Whom the server takes the secondary user for; nothing if there is no connection.
    fn fetch(&self, address: &str, port: u16) -> String {
        self.ask(FETCH, &[address, &port.to_string()])
    }

    /// The same by the proxy.
    fn fetch_by_proxy(&self) -> String {
        let script = "import urllib.request as u\nproxy = u.ProxyHandler({'http': 'http://10.20.0.1:3128'})\n\
            print(u.build_opener(proxy).open('http://198.18.40.2:8080/', timeout=20).read().decode())";
        self.ask(script, &[])
    }

    fn relay(&self, state: &Path) -> Relay {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[3], env!("CARGO_BIN_EXE_leeway"), "relay", "--private"]);
        command.args(["--listen", "198.18.50.2:4433", "--state"]).arg(state);
        Relay(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The same with as many datagrams of 1200 bytes, one after the other, and answers from the address that was asked.
    fn echo(&self, address: &str, port: u16, count: u32) -> String {
        self.ask(&format!("{DATAGRAMS}\nprint(echo())"), &[address, &port.to_string(), &count.to_string()])
    }

    /// Whether a datagram to there has no answer.
    fn silent(&self, address: &str, port: u16) -> bool {
        self.ask(&format!("{DATAGRAMS}\nattempts = 1\nprint(echo())"), &[address, &port.to_string(), "1"])
            .is_empty()
    }

    /// Whom the name server takes the secondary user for, who asks the server at that address for a name.
    fn name(&self, way: &str, address: &str) -> String {
        self.ask(&format!("{DATAGRAMS}\nprint(name_{way}())"), &[address, "53", "1"])
    }

    fn gateway(&self, file: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[1], env!("CARGO_BIN_EXE_leeway"), "gateway", "--config"]);
        command.arg(file);
        command
    }

    fn rules(&self) -> String {
        let run = |command: &str| {
            let output =
                Command::new("ip").args(["netns", "exec", &self.names[1]]).args(command.split(' ')).output();
            String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
        };
        let all = [
            "nft list ruleset",
            "ip rule",
            "ip -6 rule",
            "ip -4 route show table all",
            "ip -6 route show table all",
        ]
        .map(run)
        .concat();
        // Link-local addresses come when it has been found out that nobody else has them.
        all.lines().filter(|line| !line.contains("fe80:")).map(|line| format!("{line}\n")).collect()
    }
}

/// A relay that is killed at the end of the test.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn sh(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until `done`.
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const FETCH: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.settimeout(5)
s.sendall(b'hello')
print(s.recv(100).decode())
";

const WAIT: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.settimeout(60)
print(s.recv(100).decode(), flush=True)
try:
    s.recv(100)
except ConnectionError:
    pass
print('closed')
";

const SERVER: &str = "
import http.server
import socket, socketserver, sys, threading
def seen(address):
    return address[0].removeprefix('::ffff:').encode()
class Web(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(100)
        self.request.sendall(seen(self.client_address))
class Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(seen(self.client_address))
        self.request.recv(100)
class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(seen(self.client_address))))
        self.end_headers()
        self.wfile.write(seen(self.client_address))
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        bytes, socket = self.request
        socket.sendto(seen(self.client_address).ljust(len(bytes)), self.client_address)
class Names(Echo):
    def handle(self):
        bytes, socket = self.request
        socket.sendto(bytes[:2] + b'\\x80' + bytes[3:] + seen(self.client_address), self.client_address)
class NamesTcp(socketserver.BaseRequestHandler):
    def handle(self):
        while question := self.request.recv(2000):
            answer = question[2:4] + b'\\x80' + question[5:] + seen(self.client_address)
            self.request.sendall(len(answer).to_bytes(2, 'big') + answer)
class Udp6(socketserver.ThreadingUDPServer):
    address_family = socket.AF_INET6
    # As daemons do; else nobody could answer from that port for another address.
    allow_reuse_address = True
class Tcp6(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
def serve(kind, handler, port, address='::'):
    threading.Thread(target=kind((address, port), handler).serve_forever).start()
for kind, handler, port in [(Tcp6, Web, 80), (Tcp6, Greeting, 82), (Tcp6, Http, 8080), (Udp6, Echo, 443), (Udp6, Echo, 444),
                            (Udp6, Names, 53), (Tcp6, NamesTcp, 53)]:
    serve(kind, handler, port)
# Datagrams are answered from the address that was asked.
if 'lwgi' in sys.argv[1]:
    for address in ['::ffff:192.168.41.2', 'fd41::2']:
        serve(Udp6, Echo, 443, address)
";

/// `echo` and `name_...` of arguments: address, port, how many.
const DATAGRAMS: &str = "
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
attempts = 5
family = socket.AF_INET6 if ':' in address else socket.AF_INET
def ask(s, bytes):
    # Datagrams may be lost on a machine that is busy.
    for attempt in range(attempts):
        s.sendto(bytes, (address, port))
        try:
            answer, sender = s.recvfrom(2000)
        except TimeoutError:
            continue
        assert sender[:2] == (address, port), sender
        return answer
    sys.exit()
def datagrams():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    return s
def echo():
    s = datagrams()
    return {ask(s, bytes(1200)).decode().strip() for n in range(count)}.pop()
def question(flags=1):
    return bytes([7, port, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b'\\x04name\\x04test\\x00\\x00\\x01\\x00\\x01'
def name_udp():
    answer = ask(datagrams(), question())
    assert answer[:2] == question()[:2] and answer[2] == 0x80
    return answer[len(question()):].decode()
def update():
    return ask(datagrams(), question(0x28))
def name_tcp():
    s = socket.create_connection((address, port), 5)
    s.settimeout(5)
    for turn in range(2):
        s.sendall(len(question()).to_bytes(2, 'big') + question())
        answer = s.recv(2000)
    return answer[2 + len(question()):].decode()
";

/// Of a gateway for clients without configuration at the interface of the mesh.
fn transparent(folder: &Path, more: &str) -> PathBuf {
    let file = folder.join("gateway.toml");
    let text = format!(
        "clients = [\"10.20.0.0/24\", \"fd20::/64\"]\nallow = [\"198.18.40.0/24\", \"2001:db8:40::/64\"]\n\
         ports = [80, 82, 8080]\nudp_ports = [443]\nupload = []\ndns = [\"198.18.40.2\"]\n{more}\n\
         [transparent]\ninterface = \"mesh\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn clients_without_configuration_are_served_and_never_slip_past() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let mut command = bed.gateway(&transparent(folder.path(), ""));
    let (mut gateway, _) = Gateway::start(&mut command, 2);
    for v in 0..2 {
        assert_eq!(bed.fetch(SERVERS[v], 80), GATEWAY[v], "the proxy fetches");
        assert_eq!(bed.fetch(SERVERS[v], 81), "", "a closed port is refused");
        assert_eq!(bed.fetch(PRIVATE[v], 80), "", "and what is not public");
        assert_eq!(bed.fetch(MESH[v], 80), "", "and the gateway itself");
    }

    gateway.signal(rustix::process::Signal::KILL);
    wait("the table that diverts goes with its owner", || !bed.rules().contains("tproxy"));
    for server in SERVERS.into_iter().chain(MESH) {
        assert_eq!(bed.fetch(server, 80), "", "after a crash the user is refused");
        assert!(bed.silent(server, 443), "also his datagrams");
    }
    let (mut gateway, _) = Gateway::start(&mut command, 2);
    assert_eq!(bed.fetch(SERVERS[0], 80), GATEWAY[0], "a restart serves again");
    assert_eq!(bed.echo(SERVERS[1], 443, 1), GATEWAY[1]);
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}

#[test]
fn datagrams_of_clients_without_configuration_take_the_same_way() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let folder = tempfile::tempdir().unwrap();
    let more = "limits = { upstream_per_user = 3 }";
    let (_gateway, _) = Gateway::start(&mut bed.gateway(&transparent(folder.path(), more)), 2);
    for v in 0..2 {
        assert_eq!(bed.echo(SERVERS[v], 443, 20), GATEWAY[v], "as many as one likes");
        assert!(bed.silent(SERVERS[v], 444), "a closed port is refused");
        assert!(bed.silent(PRIVATE[v], 443), "and what is not public");
        assert!(bed.silent(MESH[v], 443), "and the gateway itself");
    }
    // Four at once are one too many.
    let script = format!(
        "{DATAGRAMS}\nattempts = 2\nfor s in [datagrams() for n in range(4)]:\n    print(ask(s, b'?')[:1])\n"
    );
    assert_eq!(bed.ask(&script, &[SERVERS[0], "443", "1"]).lines().count(), 2, "the first test has one");
}

#[test]
fn names_are_found_whatever_server_is_asked() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let folder = tempfile::tempdir().unwrap();
    let more = "limits = { upstream_per_user = 3 }";
    let (_gateway, _) = Gateway::start(&mut bed.gateway(&transparent(folder.path(), more)), 2);
    for address in [MESH[0], MESH[1], PRIVATE[0], "9.9.9.9", "2620:fe::9"] {
        assert_eq!(bed.name("udp", address), GATEWAY[0], "the gateway asks its own server, not {address}");
        assert_eq!(bed.name("tcp", address), GATEWAY[0], "over TCP, too");
    }
    let script = format!("{DATAGRAMS}\nattempts = 1\nprint(update())");
    assert_eq!(bed.ask(&script, &["9.9.9.9", "53", "1"]), "", "it is told nothing");
}

#[test]
fn connections_go_through_the_relay_while_it_is_there() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let (state, token) = (folder.path().join("state"), folder.path().join("token"));
    let mut invite = leeway();
    invite.args(["invite", "--name", "gateway", "--address", "198.18.50.2:4433", "--state"]).arg(&state);
    std::fs::write(&token, invite.output().unwrap().stdout).unwrap();
    let relay = bed.relay(&state);

    let more = format!(
        "listen = [\"10.20.0.1:3128\"]\nmetrics = \"127.0.0.1:9300\"\nrelay = {{ token_file = {token:?} }}"
    );
    let file = transparent(folder.path(), &more);
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 4);
    let all = |expected: [&str; 2]| {
        for v in 0..2 {
            assert_eq!(bed.fetch(SERVERS[v], 80), expected[v]);
            assert_eq!(bed.echo(SERVERS[v], 443, 5), expected[v], "datagrams, too");
        }
        assert_eq!(bed.fetch_by_proxy(), expected[0]);
        assert_eq!(bed.fetch_by_proxy(), expected[0], "on a connection that was kept");
    };
    let metric = || {
        let script =
            "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:9300/').read().decode())";
        let text = bed.ask_at(1, script, &[]);
        text.lines()
            .find_map(|line| line.strip_prefix("leeway_gateway_relay_up "))
            .unwrap_or_default()
            .to_owned()
    };
    gateway.says("the relay is there", 1);
    all(RELAY);
    assert_eq!(metric(), "1");
    assert_eq!(bed.fetch(PRIVATE[0], 80), "", "who may go where is decided here, whatever the relay allows");
    assert_eq!(bed.name("udp", MESH[0]), GATEWAY[0], "names are asked for directly");
    assert_eq!(bed.ask_at(1, FETCH, &[SERVERS[0], "80"]), GATEWAY[0], "the host keeps its own way");

    let mut waiting = bed.start(0, WAIT, &[SERVERS[0], "82"]);
    let mut lines = BufReader::new(waiting.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), RELAY[0]);
    drop(relay);
    gateway.says("no relay", 1);
    assert_eq!(lines.next().unwrap().unwrap(), "closed", "who waits is told that nothing will come");
    waiting.wait().unwrap();
    all(GATEWAY);
    assert_eq!(metric(), "0");

    let _relay = bed.relay(&state);
    gateway.says("the relay is there", 2);
    all(RELAY);

    gateway.signal(rustix::process::Signal::KILL);
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 4);
    gateway.says("the relay is there", 1);
    assert_eq!(bed.fetch(SERVERS[0], 80), RELAY[0], "what a crash has left is no hindrance");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}
