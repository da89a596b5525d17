//! `leeway gateway` as a program: its start, its end, and clients without configuration between network namespaces.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn leeway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leeway"))
}

/// Whether namespaces and TPROXY can be had here; says why not, and fails where everything has to be tested.
fn possible() -> bool {
    let has = |command: &str| {
        Command::new("sh").args(["-c", command]).output().is_ok_and(|done| done.status.success())
    };
    let missing = [
        (rustix::process::geteuid().is_root(), "root"),
        (has("ip -V"), "ip (iproute2)"),
        (has("nft -v"), "nft (nftables)"),
        (has("python3 -V"), "python3"),
    ];
    let Some((_, what)) = missing.into_iter().find(|(there, _)| !there) else { return true };
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!all, "LEEWAY_REQUIRE_ALL=1, but a live test lacks {what}");
    eprintln!("skipped: a live test lacks {what}");
    false
}

/// A gateway that is killed at the end of the test.
struct Gateway(Child);

impl Gateway {
    /// Starts it, and waits until it listens at as many addresses.
    fn start(command: &mut Command, listeners: usize) -> (Gateway, Vec<SocketAddr>) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let mut addresses = Vec::new();
        while addresses.len() < listeners {
            let Some(Ok(line)) = lines.next() else { panic!("it ended: {said:?}") };
            addresses.extend(
                line.rsplit_once("listening on ").map(|(_, address)| address.parse::<SocketAddr>().unwrap()),
            );
            said.push(line);
        }
        std::thread::spawn(move || lines.for_each(drop));
        (Gateway(child), addresses)
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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

/// Three namespaces in a row: a secondary user, the gateway, the Internet. The gateway forwards and translates, so that
/// without a guard the user would get through without the proxy.
struct Testbed([String; 3]);

impl Testbed {
    fn new() -> Testbed {
        let id = std::process::id() & 0xf_ffff;
        let bed = Testbed(["s", "g", "i"].map(|what| format!("lwg{what}{id:x}")));
        let [s, g, i] = &bed.0;
        sh(&format!(
            "for n in {s} {g} {i}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {s} link add lan type veth peer name mesh netns {g}
             ip -n {g} link add wan type veth peer name inet netns {i}
             ip -n {s} addr add 10.20.0.2/24 dev lan; ip -n {g} addr add 10.20.0.1/24 dev mesh
             ip -n {g} addr add 198.18.40.1/24 dev wan; ip -n {i} addr add 198.18.40.2/24 dev inet
             ip -n {s} link set lan up; ip -n {g} link set mesh up; ip -n {g} link set wan up
             ip -n {i} link set inet up
             ip -n {s} route add default via 10.20.0.1; ip -n {i} route add default via 198.18.40.1
             ip netns exec {g} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"
        ));
        bed
    }

    fn spawn(&self, at: usize, script: &str) -> Child {
        let command = ["netns", "exec", &self.0[at], "python3", "-c", script];
        Command::new("ip").args(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What the secondary user gets from that port of the Internet.
    fn fetch(&self, port: u16) -> String {
        let script = format!(
            "import socket\ns = socket.create_connection(('198.18.40.2', {port}), 5)\ns.settimeout(5)\n\
             s.sendall(b'hello')\nprint(s.recv(100).decode())"
        );
        let command = ["netns", "exec", &self.0[0], "python3", "-c", &script];
        let output = Command::new("ip").args(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn rules(&self) -> String {
        let run = |command: &str| {
            let output =
                Command::new("ip").args(["netns", "exec", &self.0[1]]).args(command.split(' ')).output();
            String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
        };
        run("nft list ruleset") + &run("ip rule") + &run("ip -4 route show table all")
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for name in &self.0 {
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

/// Says to each who comes from where he comes.
const SERVER: &str = "
import socketserver
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(100)
        self.request.sendall(self.client_address[0].encode())
socketserver.ThreadingTCPServer(('0.0.0.0', 80), Handler).serve_forever()
";

#[test]
fn clients_without_configuration_are_served_and_never_slip_past() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let mut server = bed.spawn(2, SERVER);
    wait("without a gateway the user's packets are forwarded", || bed.fetch(80) == "10.20.0.2");
    let before = bed.rules();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    let text = "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\n\
                dns = [\"198.18.40.2\"]\n[transparent]\ninterface = \"mesh\"\n";
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &bed.0[1], env!("CARGO_BIN_EXE_leeway"), "gateway", "--config"])
        .arg(&file);
    let (mut gateway, _) = Gateway::start(&mut command, 1);
    assert_eq!(bed.fetch(80), "198.18.40.1", "the proxy fetches");
    assert_eq!(bed.fetch(81), "", "a closed port is refused");

    gateway.signal(rustix::process::Signal::KILL);
    wait("the table that diverts goes with its owner", || !bed.rules().contains("tproxy"));
    assert_eq!(bed.fetch(80), "", "after a crash the user is refused");

    let (mut gateway, _) = Gateway::start(&mut command, 1);
    assert_eq!(bed.fetch(80), "198.18.40.1", "a restart serves again");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
    let _ = server.kill();
    let _ = server.wait();
}
