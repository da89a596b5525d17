//! The home's requests go on while a gateway is killed under the load of its users.

mod live;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether namespaces and TPROXY can be had here; says why not, and fails where everything has to be tested.
fn possible() -> bool {
    live::possible(&["nft", "python3"])
}

/// A gateway, or another program, that is killed at the end of the test.
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

/// Four namespaces: a secondary user, the gateway, the Internet behind it, and the home. The gateway forwards, so that
/// without a guard the user would get through without the proxy.
struct Testbed([String; 4]);

impl Testbed {
    fn new() -> Testbed {
        let id = std::process::id() & 0xf_ffff;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let bed = Testbed(["s", "g", "i", "h"].map(|what| format!("lwg{what}{id:x}x{number}")));
        let [s, g, i, h] = &bed.0;
        sh(&format!(
            "for n in {s} {g} {i} {h}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {s} link add lan type veth peer name mesh netns {g}
             ip -n {g} link add wan type veth peer name inet netns {i}
             ip -n {s} addr add 10.20.0.2/24 dev lan; ip -n {g} addr add 10.20.0.1/24 dev mesh
             ip -n {g} addr add 198.18.40.1/24 dev wan; ip -n {i} addr add 198.18.40.2/24 dev inet
             ip -n {s} link set lan up; ip -n {g} link set mesh up; ip -n {g} link set wan up
             ip -n {i} link set inet up
             ip -n {s} route add default via 10.20.0.1; ip -n {i} route add default via 198.18.40.1
             ip -n {h} link add lan type veth peer name home netns {g}
             ip -n {h} addr add 192.168.7.2/24 dev lan; ip -n {g} addr add 192.168.7.1/24 dev home
             ip -n {h} link set lan up; ip -n {g} link set home up; ip -n {h} route add default via 192.168.7.1
             ip netns exec {g} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"
        ));
        bed
    }

    /// Runs a script; it is killed when what is returned is dropped.
    fn spawn(&self, at: usize, script: &str, log: Stdio) -> Gateway {
        let command = ["netns", "exec", &self.0[at], "python3", "-c", script];
        Gateway(Command::new("ip").args(command).stdout(log).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A gateway for the secondary user, with more in its configuration.
    fn gateway(&self, folder: &Path, more: &str) -> Command {
        let file = folder.join("gateway.toml");
        let text = format!(
            "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\n\
             dns = [\"198.18.40.2\"]\n{more}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.0[1], env!("CARGO_BIN_EXE_leeway"), "gateway", "--config"])
            .arg(&file);
        command
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

/// Objects: the path `/12500` has 12500 bytes.
const OBJECTS: &str = "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        length = int(self.path.strip('/'))
        self.send_response(200)
        self.send_header('Content-Length', str(length))
        self.end_headers()
        self.wfile.write(bytes(length))
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(('0.0.0.0', 80), Handler).serve_forever()
";

/// Asks again and again, in as many threads as the format says, and prints how each request ends.
fn asking(host: &str, port: u16, path: &str, threads: usize) -> String {
    format!(
        "
import http.client, threading, time
def ask():
    while True:
        try:
            connection = http.client.HTTPConnection('{host}', {port}, timeout=30)
            connection.request('GET', '{path}')
            answer = connection.getresponse()
            what = 'ok' if answer.status == 200 and len(answer.read()) == 12500 else f'status {{answer.status}}'
            connection.close()
        except ConnectionRefusedError:
            what = 'refused'
        except Exception as error:
            what = f'failed: {{error!r}}'
        print(what, flush=True)
        time.sleep(0.02 if what == 'ok' else 0.2)
for _ in range({threads}):
    threading.Thread(target=ask).start()
"
    )
}

#[test]
fn the_home_does_not_notice_that_the_gateway_is_killed() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    // The line carries 20 of these objects a second.
    sh(&format!("tc -n {} qdisc add dev inet root tbf rate 2mbit burst 5kb limit 30000", bed.0[2]));
    let _server = bed.spawn(2, OBJECTS, Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap().into();
    let count = |name: &str, what: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().filter(|line| line.starts_with(what)).count()
    };
    let before = bed.rules();
    let mut command = bed.gateway(folder.path(), "listen = [\"10.20.0.1:3128\"]");
    let (mut gateway, _) = Gateway::start(&mut command, 1);
    wait("the server answers", || {
        let curl = "import urllib.request; urllib.request.urlopen('http://198.18.40.2/1', timeout=5)";
        bed.spawn(3, curl, Stdio::null()).0.wait().unwrap().success()
    });
    let _home = bed.spawn(3, &asking("198.18.40.2", 80, "/12500", 1), log("home"));
    let others = asking("10.20.0.1", 3128, "http://198.18.40.2/12500", 16);
    let _others = bed.spawn(0, &others, log("others"));
    let more = |name: &str, what: &str, by: usize| {
        let now = count(name, what);
        wait(&format!("{by} more {what} of {name}"), || count(name, what) >= now + by);
    };
    more("others", "ok", 30);
    more("home", "ok", 10);

    gateway.signal(rustix::process::Signal::KILL);
    more("others", "refused", 16);
    more("home", "ok", 20);
    assert_eq!(bed.rules(), before, "nothing stays behind");

    let (_gateway, _) = Gateway::start(&mut command, 1);
    more("others", "ok", 30);
    more("home", "ok", 10);
    let home = std::fs::read_to_string(folder.path().join("home")).unwrap();
    assert!(home.lines().all(|line| line == "ok"), "{home}");
}
