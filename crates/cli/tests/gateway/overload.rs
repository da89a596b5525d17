//! The home's requests go on while a gateway is killed under the load of its users.

use crate::bed::*;
use std::process::{Command, Stdio};

/// Objects: the path `/12500` has 12500 bytes.
pub const OBJECTS: &str = "
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
pub fn asking(host: &str, port: u16, path: &str, threads: usize) -> String {
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

pub fn spawn(bed: &Testbed, at: usize, script: &str, log: Stdio) -> Program {
    let command = ["netns", "exec", &bed.names[at], "python3", "-c", script];
    Program(Command::new("ip").args(command).stdout(log).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn the_home_does_not_notice_that_the_gateway_is_killed() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    // The line carries 20 of these objects a second.
    sh(&format!(
        "tc -n {} qdisc add dev inet root tbf rate 2mbit burst 5kb limit 30000",
        bed.names[INTERNET]
    ));
    let _server = spawn(&bed, INTERNET, OBJECTS, Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap().into();
    let count = |name: &str, what: &str| {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        text.lines().filter(|line| line.starts_with(what)).count()
    };
    let before = bed.rules();
    let file = folder.path().join("gateway.toml");
    let text = "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\n\
        dns = [\"198.18.40.2\"]\nlisten = [\"10.20.0.1:3128\"]\nhome = [\"192.168.7.0/24\"]\n\
        metrics = \"127.0.0.1:9300\"\n";
    std::fs::write(&file, text).unwrap();
    let mut command = bed.gateway(&file);
    // The proxy and the metrics.
    let (mut gateway, _) = Gateway::start(&mut command, 2);
    wait("the server answers", || {
        let curl = "import urllib.request; urllib.request.urlopen('http://198.18.40.2/1', timeout=5)";
        spawn(&bed, HOME, curl, Stdio::null()).0.wait().unwrap().success()
    });
    let _home = spawn(&bed, HOME, &asking("198.18.40.2", 80, "/12500", 1), log("home"));
    let others = asking("10.20.0.1", 3128, "http://198.18.40.2/12500", 16);
    let _others = spawn(&bed, USERS, &others, log("others"));
    let more = |name: &str, what: &str, by: usize| {
        let now = count(name, what);
        wait(&format!("{by} more {what} of {name}"), || count(name, what) >= now + by);
    };
    more("others", "ok", 30);
    more("home", "ok", 10);
    let ask =
        "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9300/').read().decode())";
    wait("it yields to the home", || {
        let file = folder.path().join("metrics");
        spawn(&bed, GATEWAYS, ask, std::fs::File::create(&file).unwrap().into()).0.wait().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let yielded = text
            .lines()
            .find_map(|line| line.strip_prefix("leeway_gateway_yielded_seconds_total{path=\"direct\"} "));
        yielded.is_some_and(|seconds| seconds.parse::<f64>().unwrap() > 0.0)
    });

    gateway.signal(rustix::process::Signal::KILL);
    more("others", "refused", 16);
    more("home", "ok", 20);
    assert_eq!(bed.rules(), before, "nothing stays behind");

    let (_gateway, _) = Gateway::start(&mut command, 2);
    more("others", "ok", 30);
    more("home", "ok", 10);
    let home = std::fs::read_to_string(folder.path().join("home")).unwrap();
    assert!(home.lines().all(|line| line == "ok"), "{home}");
}
