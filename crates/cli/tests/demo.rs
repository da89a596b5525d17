//! `leeway demo`: with root in network namespaces, without in the simulator.

mod live;

use live::{leeway, possible, ready, send, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A demo whose files are in a folder of its own.
struct Demo {
    folder: tempfile::TempDir,
}

impl Demo {
    fn new() -> Demo {
        Demo { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // Shells ignore signals for programs in the background, and so would the tests' programs.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP").arg(leeway());
        command.args(["demo", "--no-browser"]).args(arguments).env("TMPDIR", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Nothing of it is on the disk, and no program of it runs.
    fn is_gone(&self) {
        let left: Vec<_> =
            std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
        assert!(left.is_empty(), "{left:?}");
        self.runs_nothing();
    }

    fn runs_nothing(&self) {
        let end = Instant::now() + PATIENCE;
        let mark = format!("TMPDIR={}", self.folder.path().display());
        // A program that was killed takes its time.
        while let Some(process) = process_with(&mark) {
            assert!(Instant::now() < end, "{process} still runs");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A process that has these words in its environment.
fn process_with(words: &str) -> Option<String> {
    let has = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.windows(words.len()).any(|part| part == words.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = processes.filter(|path| path.join("environ").exists()).find(|path| has(path))?;
    Some(text(&std::fs::read(found.join("cmdline")).unwrap_or_default()).replace('\0', " "))
}

/// What the page answers.
fn ask(page: SocketAddr, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{request}\r\nHost: {page}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_community_moves_bytes_shows_its_page_and_leaves_nothing() {
    if !possible(&[]) {
        return;
    }
    let demo = Demo::new();
    let mut child = demo.command(&["--seconds", "9"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("The owner's page: ")).expect("it has a page");
    let page = line.split_whitespace().next_back().unwrap();
    let login = lines.next().unwrap();
    let words: Vec<&str> = login.split_whitespace().collect();
    let [.., "name:", "owner", "password:", password] = words[..] else { panic!("{login}") };
    let page: SocketAddr = page.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    assert!(page.ip().is_loopback());

    let login = ask(page, "GET /login HTTP/1.1", "");
    assert!(login.starts_with("HTTP/1.1 200"), "{login}");
    let entered = ask(page, "POST /login HTTP/1.1", &format!("name=owner&password={password}"));
    assert!(entered.starts_with("HTTP/1.1 303"), "{entered}");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let begun = Instant::now();
    let mut home = String::new();
    while ["ann", "ben", "cleo"].iter().any(|name| !home.contains(name)) {
        assert!(begun.elapsed() < PATIENCE, "{home}");
        std::thread::sleep(Duration::from_millis(100));
        home = ask(page, &format!("GET / HTTP/1.1\r\nCookie: {cookie}"), "");
    }

    let rest: Vec<String> = lines.collect();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    let row = rest.iter().rfind(|line| line.contains("with neighbours  ")).unwrap();
    let rates: Vec<f64> = row.split_whitespace().rev().take(4).map(|word| word.parse().unwrap()).collect();
    assert!(rates.iter().all(|&rate| rate > 0.0), "{row}");
    assert!(rates[0] < 4.1, "the line carries 4 Mbit/s: {row}");
    let alone = rest.iter().rfind(|line| line.contains("alone  ")).unwrap();
    assert!(alone.contains(" ms") && alone.trim_end().ends_with('-'), "{alone}");
    assert!(rest.iter().all(|line| line.chars().count() <= 80), "{rest:?}");
    let [.., removed, _, mean_alone, mean_beside, _, end, _, hint] = &rest[..] else { panic!("{rest:?}") };
    assert!(removed.contains("is removed") && mean_alone.starts_with("alone "), "{rest:?}");
    assert!(
        mean_beside.starts_with("with neighbours ") && end.contains("times as long as without them"),
        "{rest:?}"
    );
    assert!(hint.contains("leeway demo --simulate"), "{rest:?}");
    demo.is_gone();
}

#[test]
fn a_signal_at_any_time_removes_everything() {
    if !possible(&[]) {
        return;
    }
    for (signal, after_ms) in [("-INT", 60), ("-TERM", 250), ("-HUP", 700), ("-INT", 3000)] {
        let demo = Demo::new();
        let mut child = demo.command(&[]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        send(signal, child.id());
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "{signal} after {after_ms} ms");
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        // Before it listens for signals there is nothing to remove.
        assert!(matches!(output.status.code(), Some(0) | None), "{output:?}");
        let said = text(&output.stdout);
        assert_eq!(
            said.contains("The owner's page: "),
            said.contains("Everything of the demo is removed."),
            "{said}"
        );
        demo.is_gone();
    }
    // Nobody can remove files after that, but what runs ends.
    let demo = Demo::new();
    let mut child = demo.command(&[]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("The owner's page: ")).unwrap();
    send("-KILL", child.id());
    child.wait().unwrap();
    demo.runs_nothing();
}

#[test]
fn a_taken_port_is_said_and_output_that_nobody_reads_is_an_end() {
    if !possible(&[]) {
        return;
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let demo = Demo::new();
    let output = demo.command(&["--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains(&format!("127.0.0.1:{port}")), "{output:?}");
    demo.is_gone();

    let mut child = demo.command(&["--seconds", "30"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    demo.is_gone();
}

#[test]
fn without_root_the_simulator_shows_the_same() {
    let demo = Demo::new();
    let mut command = demo.command(&["--seconds", "20"]);
    if ready([]) {
        // Whoever may not read the program's folder may run a copy of the program.
        let copy = demo.folder.path().join("leeway");
        std::fs::copy(leeway(), &copy).unwrap();
        for path in [demo.folder.path(), &copy] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        command = Command::new(copy);
        command.args(["demo", "--seconds", "20"]).uid(65534).gid(65534).current_dir("/");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    for words in [
        "sudo leeway demo",
        "95 of 100 take less",
        "alone",
        "with neighbours",
        "without a gateway",
        "times as long as without them",
        "Without a gateway it takes",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("The owner's page"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let forced = demo.command(&["--simulate", "--seconds", "20"]).output().unwrap();
    let rows =
        |said: &str| said.lines().filter(|line| line.contains(" ms")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&text(&forced.stdout)), rows(&said), "the same seed gives the same figures");
}
