//! Network namespaces around a gateway, and programs that end with the test.

use crate::live;
use crate::scripts::{DATAGRAMS, FETCH, SERVER};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn leeway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leeway"))
}

/// Whether namespaces and TPROXY can be had here; says why not, and fails where everything has to be tested.
pub fn possible() -> bool {
    live::possible(&["nft", "python3"])
}

/// A program that is killed at the end of the test.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gateway that runs.
pub struct Gateway {
    program: Program,
    /// All that it has said.
    said: Arc<Mutex<String>>,
}

impl Gateway {
    /// Starts it, and waits until it listens at as many addresses.
    pub fn start(command: &mut Command, listeners: usize) -> (Gateway, Vec<SocketAddr>) {
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
        (Gateway { program: Program(child), said }, addresses)
    }

    /// Waits until it has said that so many times.
    pub fn says(&self, words: &str, times: usize) {
        let said = || self.said.lock().unwrap().clone();
        wait(words, || said().matches(words).count() >= times);
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.program.0.id()
    }

    /// The number of the process that keeps its rules.
    pub fn caretaker(&self) -> u32 {
        let parent = ["--parent", &self.pid().to_string(), "--full", "gateway-caretaker"];
        let output = Command::new("pgrep").args(parent).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("there is one")
    }

    /// How it ends, which it does by itself.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.program.0.wait().unwrap()
    }

    pub fn signal(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.program.0);
        rustix::process::kill_process(pid, signal).unwrap();
        self.program.0.wait().unwrap()
    }
}

/// Namespaces: a secondary user, the gateway, the Internet behind it, with both kinds of addresses, a relay
/// on the Internet, and a home beside the user. The gateway forwards, so that without a guard the user would
/// get through without the proxy.
pub struct Testbed {
    pub names: [String; 5],
    servers: Vec<Program>,
}

/// Where each is among the names.
pub const USERS: usize = 0;
pub const GATEWAYS: usize = 1;
pub const INTERNET: usize = 2;
const RELAYS: usize = 3;
pub const HOME: usize = 4;

pub const SERVERS: [&str; 2] = ["198.18.40.2", "2001:db8:40::2"];
/// Of the Internet's machine, too, but none that users may reach.
pub const PRIVATE: [&str; 2] = ["192.168.41.2", "fd41::2"];
pub const GATEWAY: [&str; 2] = ["198.18.40.1", "2001:db8:40::1"];
pub const RELAY: [&str; 2] = ["198.18.50.2", "2001:db8:50::2"];
pub const MESH: [&str; 2] = ["10.20.0.1", "fd20::1"];
const USER: [&str; 2] = ["10.20.0.2", "fd20::2"];

impl Testbed {
    pub fn new() -> Testbed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:x}x{:x}", std::process::id() & 0xf_ffff, NEXT.fetch_add(1, Ordering::Relaxed));
        let names = ["s", "g", "i", "r", "h"].map(|what| format!("lwg{what}{id}"));
        let bed = Testbed { names, servers: Vec::new() };
        let [s, g, i, r, h] = &bed.names;
        sh(&format!(
            "for n in {s} {g} {i} {r} {h}; do ip netns add $n; ip -n $n link set lo up; done
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
             ip -n {h} link add lan type veth peer name home netns {g}
             ip -n {h} addr add 192.168.7.2/24 dev lan; ip -n {g} addr add 192.168.7.1/24 dev home
             ip -n {h} link set lan up; ip -n {g} link set home up; ip -n {h} route add default via 192.168.7.1
             for n in {g} {i} {r}; do ip netns exec $n sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward;
                 echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'; done"
        ));
        bed
    }

    /// With servers on the Internet and on the gateway that say where each comes from who asks them: TCP at
    /// port 80, HTTP at 8080, UDP at 443 and 444, names at 53.
    pub fn serving() -> Testbed {
        let mut bed = Testbed::new();
        bed.serve(&[GATEWAYS, INTERNET]);
        wait("the servers answer", || {
            (0..2).all(|v| {
                let all = [SERVERS[v], PRIVATE[v], MESH[v]];
                all.iter().all(|at| bed.fetch(at, 80) == USER[v] && bed.echo(at, 443, 1) == USER[v])
            })
        });
        bed
    }

    /// Starts these servers on those machines.
    pub fn serve(&mut self, at: &[usize]) {
        self.servers = at.iter().map(|&at| Program(self.start(at, SERVER, &[&self.names[at]]))).collect();
    }

    /// A script on one of the machines.
    pub fn start(&self, at: usize, script: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[at], "python3", "-c", script]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What a script of the secondary user prints.
    pub fn ask(&self, script: &str, arguments: &[&str]) -> String {
        self.ask_at(USERS, script, arguments)
    }

    /// The same on another machine.
    pub fn ask_at(&self, at: usize, script: &str, arguments: &[&str]) -> String {
        let output = self.start(at, script, arguments).wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Whom the server takes the secondary user for; nothing if there is no connection.
    pub fn fetch(&self, address: &str, port: u16) -> String {
        self.ask(FETCH, &[address, &port.to_string()])
    }

    /// The same by the proxy.
    pub fn fetch_by_proxy(&self) -> String {
        let script = "import urllib.request as u\nproxy = u.ProxyHandler({'http': 'http://10.20.0.1:3128'})\n\
            print(u.build_opener(proxy).open('http://198.18.40.2:8080/', timeout=20).read().decode())";
        self.ask(script, &[])
    }

    /// The relay, with what it keeps in that folder.
    pub fn relay(&self, state: &Path) -> Program {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.names[RELAYS],
            env!("CARGO_BIN_EXE_leeway"),
            "relay",
            "--private",
            "--ports",
            "any",
        ]);
        command.args(["--listen", "198.18.50.2:4433", "--state"]).arg(state);
        Program(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The same with as many datagrams of 1200 bytes, one after the other, and answers from the address that
    /// was asked.
    pub fn echo(&self, address: &str, port: u16, count: u32) -> String {
        self.ask(&format!("{DATAGRAMS}\nprint(echo())"), &[address, &port.to_string(), &count.to_string()])
    }

    /// Whether a datagram to there has no answer.
    pub fn silent(&self, address: &str, port: u16) -> bool {
        self.ask(&format!("{DATAGRAMS}\nattempts = 1\nprint(echo())"), &[address, &port.to_string(), "1"])
            .is_empty()
    }

    /// Whom the name server takes the secondary user for, who asks the server at that address for a name.
    pub fn name(&self, way: &str, address: &str) -> String {
        self.ask(&format!("{DATAGRAMS}\nprint(name_{way}())"), &[address, "53", "1"])
    }

    /// The gateway, with that configuration.
    pub fn gateway(&self, file: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.names[GATEWAYS],
            env!("CARGO_BIN_EXE_leeway"),
            "gateway",
            "--config",
        ]);
        command.arg(file);
        command
    }

    /// Rules and routes of the gateway.
    pub fn rules(&self) -> String {
        let run = |command: &str| {
            let output = Command::new("ip")
                .args(["netns", "exec", &self.names[GATEWAYS]])
                .args(command.split(' '))
                .output();
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

impl Drop for Testbed {
    fn drop(&mut self) {
        self.servers.clear();
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Writes a file that nobody else can read.
pub fn write_secret(path: &Path, bytes: &[u8]) {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.unwrap().write_all(bytes).unwrap();
}

/// Runs a command that asks, and answers each question; its exit code, and all that it has said. `script`
/// (util-linux) gives a program a terminal to ask on.
pub fn dialogue(command: &mut Command, talk: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = Vec::new();
    for (question, answer) in talk {
        let mut byte = [0];
        while !said.ends_with(question.as_bytes()) && output.read(&mut byte).unwrap() > 0 {
            said.push(byte[0]);
        }
        input.write_all(answer.as_bytes()).unwrap();
    }
    output.read_to_end(&mut said).unwrap();
    (child.wait().unwrap().code(), live::text(&said))
}

pub fn sh(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until a script says that it is ready.
pub fn ready(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

/// Waits until `done`.
pub fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server on this machine that answers every request with an object of `bytes`.
pub fn object_server(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 2048]);
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n");
                let _ = stream.write_all(&[head.into_bytes(), vec![b'x'; bytes]].concat());
            });
        }
    });
    address
}
