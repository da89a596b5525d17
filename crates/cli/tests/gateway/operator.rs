//! Follows docs/operator.md word by word: takes the commands out of the page and runs them where the
//! page says, on a fresh box between a home's router and a neighbour, in namespaces and with folders
//! of its own.

use crate::bed::{PATIENCE, Program, dialogue, possible, sh, wait};
use crate::live::{self, has, text};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

const PAGE: &str = include_str!("../../../../docs/operator.md");

/// Where a command of the page is run, and how it is known to have worked.
enum How {
    /// On the box: what it prints has these words.
    Box(&'static [&'static str]),
    /// The same on a terminal, with these answers to its questions.
    Terminal(&'static [(&'static str, &'static str)], &'static [&'static str]),
    /// At the neighbour's: what it prints has this word.
    Neighbour(&'static str),
    /// With another command, which the page or its sentence beside it gives, where there is no systemd.
    Instead(&'static str, &'static [&'static str]),
    /// Another test does it: the Debian package is installed by tests/deb.rs.
    Elsewhere,
}
use How::{Box as OnBox, Elsewhere, Instead, Neighbour, Terminal};

/// Every command of the page, in its order.
const COMMANDS: &[(&str, How)] = &[
    ("sudo apt install ./leeway_*_amd64.deb", Elsewhere),
    (
        "sudo leeway gateway init",
        Terminal(
            &[
                ("Networks of the home [192.168.1.0/24]: ", "\n"),
                ("Networks of the neighbours [10.20.0.0/16]: ", "\n"),
                ("Password of owner: ", "a long phrase\n"),
                ("Again, the password of owner: ", "a long phrase\n"),
            ],
            &["the configuration is right", "http://192.168.1.2:8080", "10.20.0.1 port 3128 as HTTP proxy"],
        ),
    ),
    ("sudo leeway gateway check", OnBox(&["the configuration is right"])),
    ("sudo systemctl enable --now leeway-gateway", Instead("sudo leeway gateway up", &["sharing: on"])),
    ("sudo leeway gateway status", OnBox(&["sharing: on", "note: the home, which users never reach"])),
    ("curl --proxy http://10.20.0.1:3128 https://www.debian.org/", Neighbour("debian")),
    ("sudo leeway gateway users", OnBox(&["10.20.0.2"])),
    (
        "sudo systemctl reload leeway-gateway",
        Instead("sudo leeway gateway reload", &["was read again and is in use"]),
    ),
    (
        "sudo leeway gateway invite ann",
        OnBox(&["ann is invited: until it is revoked", "HTTP proxy: 10.20.0.1 port 3128"]),
    ),
    (
        "sudo leeway gateway voucher --days 7 --gb 5 --count 20",
        OnBox(&["20 vouchers of 7 days and 5", "to print: vouchers.html"]),
    ),
    ("sudo leeway gateway users", OnBox(&["ann", "invited"])),
    ("sudo leeway gateway revoke ann", OnBox(&["ann has no access from now on"])),
    ("sudo leeway gateway revoke ann --undo", OnBox(&["ann has access again"])),
    (
        "sudo leeway gateway limit ann --daily '2 GB' --rate '5 Mbit/s'",
        OnBox(&["ann: 2.00 GB a day and 5 Mbit/s (set while running)"]),
    ),
    ("sudo leeway gateway history", OnBox(&["10.20.0.2", "30 days"])),
    ("sudo leeway gateway pause 2h", OnBox(&["sharing: paused until"])),
    ("sudo leeway gateway resume", OnBox(&["sharing: on"])),
    ("curl http://10.20.0.1:3128/proxy.pac", Neighbour("PROXY 10.20.0.1:3128")),
];

/// The fenced blocks of the page with that language.
fn blocks(language: &str) -> Vec<&'static str> {
    let mut blocks = Vec::new();
    let mut parts = PAGE.split("\n```");
    while let Some(block) = {
        parts.next();
        parts.next()
    } {
        let (first, rest) = block.split_once('\n').unwrap();
        if first == language {
            blocks.push(rest);
        }
    }
    blocks
}

/// Those that are commands; a block of what `check` prints begins with a file.
fn commands() -> Vec<&'static str> {
    blocks("")
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| line.starts_with("sudo ") || line.starts_with("curl "))
        .collect()
}

/// A fresh box, its home's router with the Internet behind it, and a neighbour.
struct Place {
    names: [String; 3],
    folder: tempfile::TempDir,
    servers: Vec<Program>,
}

const BOX: usize = 0;
const HOME: usize = 1;
const NEIGHBOUR: usize = 2;

/// Names and a page, for whoever asks the Internet.
const INTERNET: &str = "
import socketserver, ssl, http.server, sys, threading
class Names(socketserver.BaseRequestHandler):
    def handle(self):
        question, socket = self.request
        end = question.index(b'\\0', 12) + 5
        v4 = question[end - 4:end - 2] == b'\\0\\x01'
        answer = b'\\xc0\\x0c\\0\\x01\\0\\x01\\0\\0\\0\\x3c\\0\\x04' + bytes([130, 89, 148, 77]) if v4 else b''
        head = question[:2] + b'\\x81\\x80\\0\\x01' + (b'\\0\\x01' if v4 else b'\\0\\0') + b'\\0' * 4
        socket.sendto(head + question[12:end] + answer, self.client_address)
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'debian')
    def log_message(self, *_):
        pass
web = http.server.ThreadingHTTPServer(('130.89.148.77', 443), Web)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + '/cert.pem', sys.argv[1] + '/key.pem')
web.socket = context.wrap_socket(web.socket, server_side=True)
threading.Thread(target=web.serve_forever).start()
socketserver.ThreadingUDPServer(('192.168.1.1', 53), Names).serve_forever()
";

impl Place {
    fn new() -> Place {
        let id = format!("{:x}", std::process::id() & 0xf_ffff);
        let names = ["b", "h", "n"].map(|what| format!("lwo{what}{id}"));
        let place = Place { names, folder: tempfile::tempdir().unwrap(), servers: Vec::new() };
        let [b, h, n] = &place.names;
        sh(&format!(
            "for n in {b} {h} {n}; do ip netns add $n; ip -n $n link set lo up
                 ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1; done
             ip -n {h} link add lan type veth peer name eth0 netns {b}
             ip -n {n} link add eth type veth peer name mesh0 netns {b}
             ip -n {h} addr add 192.168.1.1/24 dev lan; ip -n {b} addr add 192.168.1.2/24 dev eth0
             ip -n {h} addr add 130.89.148.77/32 dev lo
             ip -n {b} addr add 10.20.0.1/16 dev mesh0; ip -n {n} addr add 10.20.0.2/16 dev eth
             ip -n {h} link set lan up; ip -n {b} link set eth0 up
             ip -n {n} link set eth up; ip -n {b} link set mesh0 up
             ip -n {b} route add default via 192.168.1.1"
        ));
        for folder in ["bin", "var", "run", "home"] {
            std::fs::create_dir(place.path(folder)).unwrap();
        }
        // As a fresh installation leaves it: there is no configuration yet.
        sh(&format!(
            "cp -a /etc {0}/etc; rm -rf {0}/etc/leeway {0}/etc/resolv.conf",
            place.folder.path().display()
        ));
        std::fs::write(place.path("etc/resolv.conf"), "nameserver 192.168.1.1\n").unwrap();
        symlink(live::leeway(), place.path("bin/leeway")).unwrap();
        std::fs::write(place.path("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
        std::fs::set_permissions(place.path("bin/sudo"), std::fs::Permissions::from_mode(0o755)).unwrap();
        sh(&format!(
            "cd {}; openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
             -subj /CN=www.debian.org -addext subjectAltName=DNS:www.debian.org 2>/dev/null",
            place.folder.path().display()
        ));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A shell there, with folders of the box's own.
    fn shell(&self, at: usize, line: &str) -> Command {
        let folder = self.folder.path().display();
        let mounts = match at {
            BOX => format!(
                "mount --bind {folder}/etc /etc; mount --bind {folder}/var /var/lib; \
                 mount --bind {folder}/run /run;"
            ),
            _ => String::new(),
        };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[at], "unshare", "--mount", "sh", "-ec"]);
        command.arg(format!("{mounts} cd {folder}/home; {line}"));
        command.env("PATH", format!("{folder}/bin:{}", std::env::var("PATH").unwrap()));
        command.env("CURL_CA_BUNDLE", self.path("cert.pem")).stdin(Stdio::null());
        command
    }

    /// What a line prints there, which succeeds.
    fn run(&self, at: usize, line: &str) -> String {
        let output = self.shell(at, line).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{line}: {}\n{said}", output.status);
        said
    }

    /// The same on a terminal, with answers to its questions.
    fn talk(&self, line: &str, talk: &[(&str, &str)]) -> String {
        let line = format!("script --quiet --return --command '{line}' /dev/null");
        let (code, said) = dialogue(&mut self.shell(BOX, &line), talk);
        assert_eq!(code, Some(0), "{line}: {said}");
        said
    }

    fn serve(&mut self) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[HOME], "python3", "-c", INTERNET]).arg(self.folder.path());
        self.servers.push(Program(command.spawn().unwrap()));
        let script = "import socket; socket.create_connection((\"130.89.148.77\", 443), 2)";
        wait("the Internet is there", || {
            self.shell(HOME, &format!("python3 -c '{script}'")).output().unwrap().status.success()
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.shell(BOX, "leeway gateway down").output();
        self.servers.clear();
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn the_page_has_the_commands_that_are_followed_here() {
    let known: Vec<&str> = COMMANDS.iter().map(|(line, _)| *line).collect();
    assert_eq!(commands(), known);
    // What is run instead is a sentence of the page, but for the reload of gateway.md.
    assert!(PAGE.contains("Without systemd, `sudo leeway gateway up` starts the gateway"));
}

#[test]
fn from_a_bare_box_to_the_first_neighbour() {
    let programs = ["script", "curl", "openssl", "unshare"].map(|name| (has(name), name));
    if !live::ready(programs.into_iter().chain([(possible(), "namespaces")])) {
        return;
    }
    let mut place = Place::new();
    place.serve();
    let began = Instant::now();
    let mut invited = String::new();
    for (line, how) in COMMANDS {
        if *line == "sudo leeway gateway invite ann" {
            only_those_whom_you_know(&place);
        }
        let (said, words): (String, &[&str]) = match how {
            Elsewhere => continue,
            OnBox(words) => (place.run(BOX, line), words),
            Instead(other, words) => (place.run(BOX, other), words),
            Terminal(answers, words) => (place.talk(line, answers), words),
            Neighbour(word) => (place.run(NEIGHBOUR, line), std::slice::from_ref(word)),
        };
        for words in words {
            assert!(said.contains(words), "{line}: {words:?} is not in:\n{said}");
        }
        if line.contains("init") {
            what_check_says(&place);
        }
        if line.contains("invite") {
            invited = said;
        }
    }
    let code = invited.lines().find_map(|line| line.strip_prefix("user name: ")).expect(&invited);
    let code = code.split(' ').next().unwrap();
    let url = "https://www.debian.org/";
    let fetched =
        place.run(NEIGHBOUR, &format!("curl --silent --proxy http://{code}:x@10.20.0.1:3128 {url}"));
    assert_eq!(fetched, "debian", "Ann types the code as user name of the proxy, with any password");
    let denied =
        place.shell(NEIGHBOUR, &format!("curl --silent --proxy http://10.20.0.1:3128 {url}")).output();
    assert!(!denied.unwrap().status.success(), "nobody without a code");
    the_owner_logs_in(&place);
    assert!(place.path("home/vouchers.html").exists());
    assert!(place.run(BOX, "sudo leeway gateway down").contains("the gateway is down"));
    assert!(began.elapsed() < 10 * PATIENCE, "ten minutes");
}

/// The example of what `init` writes is right, and `check` says of mistakes what the page says.
fn what_check_says(place: &Place) {
    let written = std::fs::read_to_string(place.path("etc/leeway/gateway.toml")).unwrap();
    let [example, lists, several] = blocks("ini")[..] else { panic!("three examples") };
    for line in example.lines().take_while(|line| !line.starts_with("[caps]")) {
        let line = line.split(" #").next().unwrap().trim_end();
        let there = written.lines().any(|found| found.split(" #").next().unwrap().trim_end() == line);
        assert!(there, "{line:?} is not in:\n{written}");
    }
    let config = |text: &str| std::fs::write(place.path("etc/leeway/gateway.toml"), text).unwrap();
    let gateways = format!("{several}\n{example}");
    for example in [example.to_owned(), format!("{example}\n{lists}"), gateways] {
        config(&example);
        let ads = "127.0.0.1 ads.example.com\n";
        std::fs::write(place.path("etc/leeway/ads.txt"), ads).unwrap();
        place.run(BOX, "sudo leeway gateway check");
    }
    // At the lines that the page has.
    config(
        "# The proxy.\nlisten = [\"10.20.0.1:3128\"]\n# Everybody.\nclients = [\"0.0.0.0/0\"]\n\
         home = [\"192.168.1.0/24\"]\n# Its share.\nlaw = \"cubic\"\n",
    );
    let output = place.shell(BOX, "sudo leeway gateway check").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "the table of exit codes");
    let said = text(&output.stdout) + &text(&output.stderr);
    let shown = blocks("").into_iter().find(|block| block.starts_with("/etc/leeway")).unwrap();
    for line in shown.lines() {
        assert!(said.lines().any(|found| found == line), "{line:?} is not in:\n{said}");
    }
    config(&written);
}

/// `vouchers = true` above the first `[`, and a restart.
fn only_those_whom_you_know(place: &Place) {
    let path = place.path("etc/leeway/gateway.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find("\n[").unwrap();
    std::fs::write(&path, format!("{}\nvouchers = true\n{}", &text[..at], &text[at..])).unwrap();
    place.run(BOX, "sudo leeway gateway down && sudo leeway gateway up");
}

/// From the home, at the address of the page and with the password that was given to `init`.
fn the_owner_logs_in(place: &Place) {
    let address = "http://192.168.1.2:8080";
    assert!(PAGE.contains(&format!("Open `{address}` in the home and log in as `owner`")));
    let form = "--data-urlencode name=owner --data-urlencode 'password=a long phrase'";
    let line = format!("curl --silent --cookie-jar jar --location {form} {address}/login");
    let said = place.run(HOME, &line);
    assert!(said.contains("Sharing is on"), "{said}");
}
