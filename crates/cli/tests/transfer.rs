//! `leeway send` and `leeway recv` over the loopback interface, with each other and with peers that mean no good.

use leeway_utp::{Config, Socket, Stream};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The frames of the protocol, by their first byte.
const REFUSAL: u8 = 2;
const GO: u8 = 3;
const DATA: u8 = 4;
const END: u8 = 5;

fn leeway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// A receiver that waits.
struct Receiver {
    child: Child,
    stderr: BufReader<ChildStderr>,
    port: u16,
}

impl Receiver {
    fn start(folder: &Path, arguments: &[&str]) -> Receiver {
        let mut child = leeway(&["recv", "--port", "0"]).args(arguments).current_dir(folder).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().and_then(|port| port.parse().ok());
        Receiver { child, stderr, port: port.unwrap_or_else(|| panic!("{line}")) }
    }

    fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Its exit code, and what it has said.
    fn ended(mut self) -> (i32, String) {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code().unwrap(), text)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }
}

fn send(file: &Path, to: &str, arguments: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = leeway(&["send"]).arg(file).arg(to).args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

fn offer(name: &str, size: u64) -> Vec<u8> {
    let mut bytes = b"leewayf1".to_vec();
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend(size.to_be_bytes());
    bytes
}

async fn connect(to: SocketAddr) -> (Socket, Stream) {
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let stream = socket.connect(to, Config::default()).await.unwrap();
    (socket, stream)
}

/// Offers a file, and sends the first bytes of it to a receiver that has nothing yet.
async fn begin(to: SocketAddr, name: &str, size: u64, first: &[u8]) -> (Socket, Stream) {
    let (socket, mut stream) = connect(to).await;
    stream.write_all(&offer(name, size)).await.unwrap();
    let mut go = [0; 41];
    stream.read_exact(&mut go).await.unwrap();
    assert_eq!((go[0], &go[1..9]), (GO, &[0; 8][..]));
    stream.write_all(&[DATA]).await.unwrap();
    stream.write_all(first).await.unwrap();
    (socket, stream)
}

/// What a receiver answers to such bytes: a refusal.
async fn refusal(to: SocketAddr, bytes: &[u8]) -> String {
    let (_socket, mut stream) = connect(to).await;
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(answer.first(), Some(&REFUSAL), "{answer:?}");
    String::from_utf8(answer[3..].to_vec()).unwrap()
}

async fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_file_arrives_over_both_families_and_both_sides_say_the_same_of_it() {
    for host in ["127.0.0.1", "[::1]"] {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, bytes) = (here.path().join("photos.tar"), pattern(3_000_001));
        std::fs::write(&file, &bytes).unwrap();
        let receiver = Receiver::start(there.path(), &[]);
        let began = Instant::now();
        let (code, sent) = send(&file, &format!("{host}:{}", receiver.port), &[]);
        assert_eq!(code, 0, "{sent}");
        assert!(began.elapsed() < Duration::from_secs(30), "it did not end when it was done");
        let (code, received) = receiver.ended();
        assert_eq!(code, 0, "{received}");
        assert_eq!(names(there.path()), ["photos.tar"]);
        assert!(std::fs::read(there.path().join("photos.tar")).unwrap() == bytes);
        let hash = format!("leeway: BLAKE3 {}\n", blake3::hash(&bytes).to_hex());
        assert!(sent.contains("sent photos.tar") && sent.ends_with(&hash), "{sent}");
        assert!(received.contains("received ./photos.tar") && received.ends_with(&hash), "{received}");
        // No bar where nobody looks.
        assert!(!sent.contains('\u{1b}') && !received.contains('\u{1b}'), "{sent}{received}");
    }
}

#[test]
fn an_empty_file_arrives_under_the_name_that_either_side_gives() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), b"").unwrap();
    let receiver = Receiver::start(folder.path(), &["--json", "b"]);
    let to = format!("localhost:{}", receiver.port);
    let output =
        leeway(&["send", "a", &to, "--name", "c", "--json"]).current_dir(folder.path()).output().unwrap();
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((account["file"].as_str(), account["size_bytes"].as_u64()), (Some("c"), Some(0)));
    assert_eq!(account["law"], "ebb");
    let mut child = receiver.child;
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let account: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((account["file"].as_str(), account.get("law")), (Some("b"), None));
    assert_eq!(names(folder.path()), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_broke_off_is_kept_and_gone_on_with() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, bytes) = (here.path().join("a.iso"), pattern(2_000_000));
    std::fs::write(&file, &bytes).unwrap();
    let part = there.path().join("a.iso.leeway-part");

    let receiver = Receiver::start(there.path(), &[]);
    let (_socket, stream) = begin(receiver.at(), "a.iso", 2_000_000, &bytes[..700_000]).await;
    wait_for("the part", || part.metadata().is_ok_and(|part| part.len() == 700_000)).await;
    assert!(!there.path().join("a.iso").exists(), "an incomplete file has the final name");
    stream.reset();
    let (code, text) = receiver.ended();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("700.0 kB are kept in ./a.iso.leeway-part; `leeway recv --resume`"), "{text}");
    assert!(text.contains("has reset the connection"), "{text}");

    // Whoever does not ask for it does not get the old part.
    let text =
        String::from_utf8(leeway(&["recv", "a.iso"]).current_dir(&there).output().unwrap().stderr).unwrap();
    assert!(text.contains("a.iso.leeway-part exists") && text.contains("--resume"), "{text}");

    let mut receiver = Receiver::start(there.path(), &["--resume"]);
    let (code, sent) = send(&file, &receiver.at().to_string(), &[]);
    assert_eq!(code, 0, "{sent}");
    assert!(sent.contains("a.iso to 127.0.0.1") && sent.contains("1.3 MB in "), "{sent}");
    assert!(sent.contains("700.0 kB were there already"), "{sent}");
    assert!(receiver.line().contains("a.iso from 127.0.0.1, 2.0 MB"));
    assert_eq!(receiver.ended().0, 0);
    assert_eq!(names(there.path()), ["a.iso"]);
    assert!(std::fs::read(there.path().join("a.iso")).unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_interrupted_receiver_keeps_what_has_come_and_the_sender_hears_of_it() {
    let there = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(there.path(), &[]);
    let (_socket, mut stream) = begin(receiver.at(), "a", 1_000_000, &pattern(300_000)).await;
    let part = there.path().join("a.leeway-part");
    wait_for("the part", || part.metadata().is_ok_and(|part| part.len() == 300_000)).await;
    let pid = receiver.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let (code, text) = receiver.ended();
    assert_eq!(code, 130, "{text}");
    assert!(text.contains("300.0 kB are kept") && text.contains("interrupted"), "{text}");
    assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_source_that_has_changed_is_refused() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("a");
    std::fs::write(&file, pattern(100_000)).unwrap();
    for (part, words) in [(vec![7; 60_000], "not the beginning"), (vec![7; 100_001], "longer than the file")]
    {
        let path = there.path().join("a.leeway-part");
        std::fs::write(&path, &part).unwrap();
        let mut receiver = Receiver::start(there.path(), &["--resume"]);
        let (code, text) = send(&file, &receiver.at().to_string(), &[]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(words), "{text}");
        if words == "not the beginning" {
            let (code, text) = receiver.ended();
            assert_eq!(code, 1, "{text}");
            assert!(text.contains(words) && !text.contains("continues"), "{text}");
        } else {
            receiver.child.kill().unwrap();
            receiver.child.wait().unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == part, "what was there is another");
        assert_eq!(names(there.path()), ["a.leeway-part"]);
    }
}

/// One of /proc says that it is empty.
#[test]
fn a_source_that_is_longer_than_it_says_is_not_sent_as_complete() {
    let there = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(there.path(), &[]);
    let (code, text) = send(Path::new("/proc/self/status"), &receiver.at().to_string(), &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("has more bytes than the 0 that it said"), "{text}");
    assert_eq!(receiver.ended().0, 1);
    assert_eq!(names(there.path()).len(), 0);
}

#[test]
fn what_exists_is_not_overwritten() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, old) = (here.path().join("a"), there.path().join("a"));
    std::fs::write(&file, "new").unwrap();
    std::fs::write(&old, "old").unwrap();
    let output = leeway(&["recv", "a"]).current_dir(&there).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("a already exists"), "{text}");

    let mut receiver = Receiver::start(there.path(), &[]);
    let (code, text) = send(&file, &receiver.at().to_string(), &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("refuses: a already exists"), "{text}");
    assert!(receiver.line().contains("refused 127.0.0.1: ./a already exists"));
    // It still waits: the sender may give another name.
    let (code, text) = send(&file, &receiver.at().to_string(), &["--name", "b"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(receiver.ended().0, 0);
    assert_eq!(std::fs::read_to_string(old).unwrap(), "old");
    assert_eq!(names(there.path()), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn strangers_who_send_nonsense_are_refused_and_the_receiver_still_waits() {
    let there = tempfile::tempdir().unwrap();
    let inside = there.path().join("in");
    std::fs::create_dir(&inside).unwrap();
    let receiver = Receiver::start(&inside, &[]);
    let at = receiver.at();
    let mut mute = Vec::new();
    for _ in 0..3 {
        mute.push(connect(at).await);
    }
    let mut endless = b"leewayf1".to_vec();
    endless.extend([0xff; 70_000]);
    for (bytes, words) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does not use the protocol"),
        (pattern(4000), "does not use the protocol"),
        (endless, "longer than 243"),
        (offer(&"a".repeat(244), 5), "longer than 243"),
        (offer("../a", 5), "folder"),
        (offer("/tmp/a", 5), "folder"),
        (offer("..", 5), "dot"),
        (offer(".bashrc", 5), "dot"),
        (offer("a\u{1b}[2Jb", 5), "control"),
        (offer("\u{202e}gpj.exe", 5), "turn text around"),
        (offer("a", u64::MAX), "left"),
        (offer("a", 1 << 60), "left"),
    ] {
        let reason = refusal(at, &bytes).await;
        assert!(reason.contains(words), "{reason}");
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
    assert_eq!((names(&inside).len(), names(there.path()).len()), (0, 1));
    let file = there.path().join("a");
    std::fs::write(&file, "good").unwrap();
    let (code, text) = send(&file, &at.to_string(), &[]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = receiver.ended();
    assert_eq!((code, text.matches("leeway: refused 127.0.0.1").count()), (0, 12), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    assert_eq!(names(&inside), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_was_damaged_does_not_get_the_name() {
    let there = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(there.path(), &[]);
    let (_socket, mut stream) = begin(receiver.at(), "a", 1000, &pattern(1000)).await;
    stream.write_all(&[&[END][..], &[0; 32]].concat()).await.unwrap();
    let (code, text) = receiver.ended();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("differ from what was sent"), "{text}");
    assert_eq!(names(there.path()), ["a.leeway-part"]);
}

#[test]
fn only_the_sender_that_is_waited_for_may_send() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("a");
    std::fs::write(&file, "good").unwrap();
    let receiver = Receiver::start(there.path(), &["--from", "::1"]);
    let (code, text) = send(&file, &receiver.at().to_string(), &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("not the sender that --from asks for"), "{text}");
    assert_eq!(send(&file, &format!("[::1]:{}", receiver.port), &["--quiet"]), (0, String::new()));
    assert_eq!(receiver.ended().0, 0);
}

/// They would be heard for 10 s each, sixteen at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn strangers_who_say_nothing_do_not_keep_a_sender_waiting() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = here.path().join("a");
    std::fs::write(&file, "good").unwrap();
    let receiver = Receiver::start(there.path(), &[]);
    let mut mute = Vec::new();
    for _ in 0..40 {
        mute.push(connect(receiver.at()).await);
    }
    let began = Instant::now();
    let to = receiver.at().to_string();
    let (code, text) = tokio::task::spawn_blocking(move || send(&file, &to, &[])).await.unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(began.elapsed() < Duration::from_secs(8), "it waited for {:?}", began.elapsed());
    // A peer that connects while another one's offer is read is told the reason of its refusal.
    let mut answer = Vec::new();
    let _ = mute[39].1.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).contains("another sender was first"), "{answer:?}");
    assert_eq!(receiver.ended().0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn strangers_at_another_address_than_the_awaited_one_are_refused_at_once() {
    let there = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start(there.path(), &["--from", "::1"]);
    let began = Instant::now();
    let (_socket, mut stream) = connect(receiver.at()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).contains("not the sender that --from asks for"), "{answer:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "after {:?}", began.elapsed());
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_receiver_that_means_no_good_ends_the_sender_with_an_error() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("a");
    std::fs::write(&file, "content").unwrap();
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = socket.local_addr().unwrap().to_string();
    let (code, text) = tokio::task::block_in_place(|| send(&file, &at, &[]));
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("reset the connection") && text.contains("does `leeway recv` run there?"),
        "{text}"
    );

    socket.listen(Config::default());
    let further = [&[GO][..], &u64::MAX.to_be_bytes(), &[0; 32]].concat();
    let refused = [&[REFUSAL, 0, 9][..], b"no\x1b]0;x\x07!"].concat();
    for (answer, words) in [
        (further, "longer than the file"),
        (refused, "refuses: no\u{fffd}]0;x\u{fffd}!"),
        (vec![99], "unknown frame type 99"),
        (vec![REFUSAL, 0xff, 0xff], "longer than 500 bytes"),
        (vec![DATA], "which is not allowed here"),
    ] {
        let sending = tokio::task::spawn_blocking({
            let (file, at) = (file.clone(), at.clone());
            move || send(&file, &at, &[])
        });
        let mut stream = socket.accept().await;
        stream.write_all(&answer).await.unwrap();
        let (code, text) = sending.await.unwrap();
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(words) && !text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn where_nobody_listens_the_sender_does_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    std::fs::write(&file, "content").unwrap();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = Instant::now();
    let (code, text) = send(&file, &free.to_string(), &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("does `leeway recv` run there?"), "{text}");
    // 15 s where nobody says anything.
    assert!(began.elapsed() < Duration::from_secs(10), "after {:?}", began.elapsed());
    // A name with two addresses, and a receiver at the second one.
    let receiver = Receiver::start(folder.path(), &["--address", "127.0.0.1", "b"]);
    let (code, text) = send(&file, &format!("localhost:{}", receiver.port), &[]);
    assert_eq!(code, 0, "{text}");
    assert!(began.elapsed() < Duration::from_secs(12), "after {:?}", began.elapsed());
    assert_eq!(receiver.ended().0, 0);
}

#[test]
fn an_address_of_another_machine_is_said() {
    let output = leeway(&["recv", "--address", "203.0.113.7", "--port", "0"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("203.0.113.7: this machine has no such address"), "{text}");
}

#[test]
fn what_cannot_be_sent_or_received_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".hidden"), "a").unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
    for (arguments, words) in [
        (&["send", "nothing", "localhost"][..], "cannot read nothing"),
        (&["send", ".", "localhost"], "is not a file"),
        (&["send", ".hidden", "localhost"], "--name NAME"),
        (&["send", "a", "localhost:0"], "not a port from 1 to 65535"),
        (&["send", "a", "localhost", "--law", "ladbat"], "ladbat"),
        (&["recv", "no/such"], "there is no folder no"),
        (&["recv", "such/"], "there is no folder such/"),
    ] {
        let output = leeway(arguments).current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn a_folder_without_write_permission_is_said_at_once() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("incoming");
    std::fs::create_dir(&folder).unwrap();
    for path in [outer.path(), &folder] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    for target in [folder.clone(), folder.join("a")] {
        let mut command = leeway(&["recv", "--port", "0"]);
        command.arg(&target);
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534); // nobody: root may write everywhere
        }
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{target:?}: {text}");
        let words = format!("cannot write into the folder {}: Permission denied", folder.display());
        assert!(text.contains(&words), "{target:?}: {text}");
    }
    std::fs::set_permissions(outer.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
