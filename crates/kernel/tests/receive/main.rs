//! Control from the receiver, over TCP between network namespaces. The tests need root, and are
//! skipped without it.

mod capture;
mod downloads;
#[path = "../testbed/mod.rs"]
mod testbed;

use capture::Capture;
use downloads::{Cgroup, Downloads, Server};
use leeway_control::{Law, LawSpec};
use leeway_kernel::{Budget, Event, KernelError, Receive, Receiving, Record};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::{Chance, End, Testbed, ready, unique};

const SENDER: &str = "10.77.1.1";
/// Rate of the link in most tests. Unit: bytes/s. Its buffer holds 200 ms.
const LINK: f64 = 1.25e6;

fn bed() -> Testbed {
    Testbed::new("10mbit", "250k", Chance::None)
}

fn receive(law: &str) -> Receive {
    Receive::new(law.parse().expect("a law")).unwrap_or_else(|error| panic!("{error}"))
}

fn budget(receiving: &Receiving) -> Budget {
    receiving.budget().unwrap_or_else(|error| panic!("{error}"))
}

/// A download of another user under CUBIC, until it is dropped.
struct Primary {
    received: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Primary {
    fn begin(bed: &Testbed) -> Primary {
        let mut flow = bed.flow("cubic");
        let (received, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&received), Arc::clone(&over));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                flow.send();
                count.store(flow.acknowledged(), Ordering::Relaxed);
            }
        });
        Primary { received, over, thread: Some(thread) }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Waits for a second in which the shares of the downloads and of the primary are `right`.
fn wait_for_parts(
    receiving: &Receiving,
    primary: Option<&Primary>,
    right: impl Fn(f64, f64) -> bool,
) -> (f64, f64) {
    let counts = || {
        let other = primary.map_or(0, |primary| primary.received.load(Ordering::Relaxed));
        (Instant::now(), budget(receiving).received_bytes, other)
    };
    let deadline = Instant::now() + Duration::from_secs(40);
    let mut before = counts();
    loop {
        sleep(Duration::from_secs(1));
        let now = counts();
        let whole = (now.0 - before.0).as_secs_f64() * LINK;
        let parts = ((now.1 - before.1) as f64 / whole, (now.2 - before.2) as f64 / whole);
        if right(parts.0, parts.1) {
            return parts;
        }
        assert!(Instant::now() < deadline, "parts of the link: {parts:?}, {:?}", budget(receiving));
        before = now;
    }
}

/// As `the_verifier_is_done_with_a_law_soon` for the laws of senders.
#[test]
fn the_verifier_is_done_with_it_soon() {
    if !ready() {
        return;
    }
    let cgroup = Cgroup::new();
    for law in ["ebb", "ledbat", "ledbatpp"] {
        let _receiving = receive(law).attach(cgroup.open()).unwrap_or_else(|error| panic!("{error}"));
        // The kernel keeps 15 characters of a program's name.
        let mut name = format!("{law}_arrivals");
        name.truncate(15);
        let loaded = libbpf_rs::query::ProgInfoIter::default().filter(|one| one.name == *name);
        let steps: Vec<u32> = loaded.map(|one| one.verified_insns).collect();
        assert!(!steps.is_empty() && steps.iter().all(|steps| *steps <= 60_000), "{law}: {steps:?}");
    }
}

#[test]
fn a_download_alone_fills_the_link_at_the_target() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
    let (before, began) = (budget(&receiving).received_bytes, Instant::now());
    let mut delays = Vec::new();
    while began.elapsed() < Duration::from_secs(4) {
        sleep(Duration::from_millis(10));
        delays.push(budget(&receiving).output.queuing_delay_us);
    }
    let bytes = budget(&receiving).received_bytes - before;
    delays.sort_unstable();
    let median_ms = f64::from(delays[delays.len() / 2]) / 1000.0;
    let part = bytes as f64 / (began.elapsed().as_secs_f64() * LINK);
    eprintln!("alone: {part:.3} of the link, queuing delay {median_ms:.1} ms");
    assert!(part > 0.75, "{part} of the link");
    assert!((10.0..50.0).contains(&median_ms), "{median_ms} ms of queuing delay");
    // The kernel judges in every round trip whether the download uses its window. A sender that
    // had to wait for a processor did not use it in that round trip.
    let deadline = Instant::now() + Duration::from_secs(10);
    let one = loop {
        let connections = receiving.connections().unwrap_or_else(|error| panic!("{error}"));
        let [one] = &connections[..] else { panic!("one connection, not {connections:?}") };
        if one.hungry {
            break one.clone();
        }
        assert!(Instant::now() < deadline, "{one:?}");
        sleep(Duration::from_millis(10));
    };
    assert!(one.timestamps && one.received_bytes > bytes, "{one:?}");
    assert_eq!(one.remote.ip().to_string(), SENDER);
    // The announced window exceeds the share only by the rounding of the window scale.
    assert!(one.announced_bytes < one.window_bytes + 4096, "{one:?}");
}

#[test]
fn a_download_yields_to_cubic_and_comes_back() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
    let primary = Primary::begin(&bed);
    let (own, other) = wait_for_parts(&receiving, Some(&primary), |own, other| own < 0.1 && other > 0.75);
    eprintln!("beside CUBIC: {own:.3} of the link and {other:.3}");
    drop(primary);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
}

/// Slow start leaves the window far above what the line carries; a law that fills the line for ever
/// after does not give way.
#[test]
fn a_download_alone_does_not_give_way() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    // Slow start doubles past the buffer, and the loss halves the window more than once.
    let receiving = receive("ledbat:target=100ms").attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
    sleep(Duration::from_secs(4));
    let Budget { watched_us, held_us, .. } = budget(&receiving);
    assert!(watched_us > 3_000_000, "{watched_us} us busy");
    assert!(held_us < watched_us / 5, "gave way for {held_us} of {watched_us} us");
}

#[test]
fn thirty_connections_yield_to_one() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, SENDER);
    let primary = Primary::begin(&bed);
    let endless = Downloads::begin(&cgroup, &bed, &server, 30, 0);
    let (own, other) = wait_for_parts(&receiving, Some(&primary), |own, other| own < 0.3 && other > 0.6);
    assert_eq!(receiving.connections().unwrap_or_else(|error| panic!("{error}")).len(), 30);
    eprintln!("thirty downloads beside CUBIC: {own:.3} of the link and {other:.3}");
    drop(endless);
    // As a browser does: objects of ten segments, each over a connection of its own.
    let _objects = Downloads::begin(&cgroup, &bed, &server, 30, 14_000);
    let (own, other) = wait_for_parts(&receiving, Some(&primary), |own, other| own < 0.3 && other > 0.6);
    eprintln!("thirty objects at a time beside CUBIC: {own:.3} of the link and {other:.3}");
    drop(primary);
    wait_for_parts(&receiving, None, |own, _| own > 0.5);
}

#[test]
fn what_was_announced_is_never_taken_back() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let mut capture = Capture::new(&bed);
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 3, 0);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
    capture.read();
    let primary = Primary::begin(&bed);
    wait_for_parts(&receiving, Some(&primary), |own, other| own < 0.15 && other > 0.75);
    capture.read();
    drop(primary);
    wait_for_parts(&receiving, None, |own, _| own > 0.75);
    capture.read();
    // The primary's connection was accepted here, so its first packet from here is not a SYN.
    assert!(capture.edges.len() >= 3, "{:?}", capture.edges);
    let mut downloads = 0;
    for edge in capture.edges.values().filter(|edge| edge.announcements > 200) {
        assert_eq!(edge.most_retreat_bytes, 0, "{edge:?}");
        if edge.first_window <= 10 * 1460 {
            downloads += 1;
            assert!(edge.least_window < 4 * 1448, "it was never held back: {edge:?}");
        }
    }
    assert_eq!(downloads, 3, "windows of the first packets: {:?}", capture.edges);
}

fn replay(law: &str) {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (Testbed::new("20mbit", "60k", Chance::MarkAndLoss), Cgroup::new());
    let spec: LawSpec = law.parse().expect("a law");
    let recording = receive(law).recorded(cgroup.open()).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 2, 0);
    let mut replay = Replay { spec: spec.clone(), law: None, number: 0, acks: 0, marks: 0, losses: 0 };
    let deadline = Instant::now() + Duration::from_secs(60);
    while replay.acks < 300 || replay.losses < 2 || replay.marks < 2 {
        let Replay { acks, losses, marks, .. } = replay;
        assert!(Instant::now() < deadline, "{spec}: {acks} acks, {losses} losses and {marks} marks");
        recording.read(Duration::from_millis(50), |record| replay.take(&record)).expect("the ring buffer");
    }
    let Replay { acks, losses, marks, .. } = replay;
    eprintln!("{spec}: {acks} acks, {losses} losses and {marks} marks lead to equal states");
}

#[test]
fn ledbat_does_the_same_here_and_in_the_kernel() {
    replay("ledbat:target=25ms,gain_down=10");
}

#[test]
fn ebb_does_the_same_here_and_in_the_kernel() {
    replay("ebb");
}

#[test]
fn ledbatpp_does_the_same_here_and_in_the_kernel() {
    replay("ledbatpp:delay=owd");
}

#[test]
fn ledbatpp_on_round_trips_does_the_same_here_and_in_the_kernel() {
    replay("ledbatpp");
}

/// The law in user space, which gets the events of the kernel's law.
struct Replay {
    spec: LawSpec,
    law: Option<Law>,
    number: u32,
    acks: usize,
    marks: usize,
    losses: usize,
}

impl Replay {
    fn take(&mut self, record: &Record) {
        let spec = &self.spec;
        self.number += 1;
        assert_eq!(record.number, self.number, "{spec}: an event was not recorded");
        let law = self.law.get_or_insert_with(|| spec.build_zeroed(&record.path));
        match &record.event {
            Event::Init => assert_eq!(self.number, 1, "{spec}: a budget begins once"),
            Event::Ack(ack) => {
                self.acks += 1;
                self.marks += usize::from(ack.ce_bytes > 0);
                law.on_ack(ack, &record.path);
            }
            Event::Loss(loss) => {
                self.losses += 1;
                law.on_loss(loss, &record.path);
            }
            Event::Undo => panic!("{spec}: a receiver undoes nothing"),
        }
        let bytes = law.state();
        assert!(bytes == record.state[..bytes.len()], "{spec}: another state after {:?}", record.event);
    }
}

/// One download from a peer of some kind. `timestamps`: whether its delays have to come from
/// timestamps.
fn hold_back(kind: &str, address: &str, prepare: impl Fn(&Testbed), timestamps: bool) {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    prepare(&bed);
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let server = Server::new(&bed, address);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
    let (own, _) = wait_for_parts(&receiving, None, |own, _| own > 0.75);
    let mut delays: Vec<u32> = Vec::new();
    while delays.len() < 100 {
        sleep(Duration::from_millis(10));
        delays.push(budget(&receiving).output.queuing_delay_us);
    }
    delays.sort_unstable();
    let median_ms = f64::from(delays[50]) / 1000.0;
    eprintln!("{kind}: {own:.3} of the link, queuing delay {median_ms:.1} ms");
    assert!((5.0..50.0).contains(&median_ms), "{kind}: {median_ms} ms");
    let connections = receiving.connections().unwrap_or_else(|error| panic!("{error}"));
    assert!(connections.iter().all(|one| one.timestamps == timestamps), "{kind}: {connections:?}");
}

#[test]
fn a_peer_of_ipv6_is_held_back() {
    hold_back("IPv6", "fd77:1::1", |_| {}, true);
}

#[test]
fn a_peer_with_microseconds_is_held_back() {
    hold_back("microseconds", SENDER, Testbed::microseconds, true);
}

#[test]
fn a_peer_without_timestamps_is_held_back() {
    let without = |bed: &Testbed| bed.sysctl(End::Receiver, "net/ipv4/tcp_timestamps", "0");
    hold_back("no timestamps", SENDER, without, false);
}

#[test]
fn a_window_without_a_scale_is_held_back() {
    // The window is 64 kB at most, which is 52 ms here: more than the target.
    let without = |bed: &Testbed| bed.sysctl(End::Receiver, "net/ipv4/tcp_window_scaling", "0");
    hold_back("no window scale", SENDER, without, true);
}

/// Largest window that any peer has announced to the sender. Unit: bytes.
fn announced(bed: &Testbed) -> u64 {
    let output = Command::new("ip").args(["netns", "exec", bed.netns(End::Sender), "ss", "-tinH"]).output();
    let text = String::from_utf8(output.expect("ss").stdout).expect("text");
    let windows = text.split_whitespace().filter_map(|word| word.strip_prefix("snd_wnd:")?.parse().ok());
    windows.max().unwrap_or(0)
}

fn wait_for_window(bed: &Testbed, what: &str, right: impl Fn(u64) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !right(announced(bed)) {
        assert!(Instant::now() < deadline, "{what}: {} bytes are announced", announced(bed));
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn connections_are_free_when_nobody_holds_them_back() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    // A target of 2 ms means a window of a few kB.
    let receive = receive("ledbat:target=2ms,gain_down=10,floor=1");
    let folder = BpfFolder::new();
    let server = Server::new(&bed, SENDER);
    for pinned in [false, true] {
        let receiving = if pinned {
            receive.pinned(cgroup.open(), &folder.0).unwrap_or_else(|error| panic!("{error}"));
            Receiving::find(&folder.0).unwrap_or_else(|error| panic!("{error}")).expect("it was pinned there")
        } else {
            assert!(Receiving::find(&folder.0).is_ok_and(|found| found.is_none()), "nothing is there yet");
            receive.attach(cgroup.open()).unwrap_or_else(|error| panic!("{error}"))
        };
        assert_eq!(receiving.spec(), receive.spec());
        let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
        wait_for_parts(&receiving, None, |own, _| own > 0.3);
        wait_for_window(&bed, "held back", |bytes| bytes < 20_000);
        drop(receiving);
        if pinned {
            sleep(Duration::from_millis(300));
            assert!(announced(&bed) < 20_000, "what is pinned holds back without us");
            Receive::unpin(&folder.0).unwrap_or_else(|error| panic!("{error}"));
            assert!(Receiving::find(&folder.0).is_ok_and(|found| found.is_none()), "nothing is left");
        }
        wait_for_window(&bed, "free", |bytes| bytes > 100_000);
    }
}

#[test]
fn connections_that_run_already_are_held_back() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 2, 0);
    wait_for_window(&bed, "not held back", |bytes| bytes > 100_000);
    let receiving = receive("ledbat:target=5ms,gain_down=10,floor=1").attach(cgroup.open());
    let receiving = receiving.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(receiving.connections().unwrap_or_else(|error| panic!("{error}")).len(), 2);
    wait_for_window(&bed, "held back", |bytes| bytes < 40_000);
    wait_for_parts(&receiving, None, |own, _| own > 0.3);
}

#[test]
fn connections_within_the_host_are_left_alone() {
    if !ready() {
        return;
    }
    let (bed, cgroup) = (bed(), Cgroup::new());
    let receiving = receive(Receive::DEFAULT_LAW).attach(cgroup.open()).unwrap_or_else(|e| panic!("{e}"));
    let servers = ["127.0.0.1", "10.77.2.1", "::1", "fd77:2::1"].map(|address| {
        let server = Server::at(&bed, End::Receiver, address);
        let downloads = Downloads::begin(&cgroup, &bed, &server, 1, 100_000);
        (server, downloads)
    });
    let server = Server::new(&bed, SENDER);
    let _downloads = Downloads::begin(&cgroup, &bed, &server, 1, 0);
    wait_for_parts(&receiving, None, |own, _| own > 0.6);
    let connections = receiving.connections().unwrap_or_else(|error| panic!("{error}"));
    let remotes: Vec<_> = connections.iter().map(|one| one.remote.ip().to_string()).collect();
    assert_eq!(remotes, [SENDER], "only what comes from elsewhere is held back");
    drop(servers);
}

/// A folder for pinned objects, which is removed at the end.
struct BpfFolder(PathBuf);

impl BpfFolder {
    fn new() -> BpfFolder {
        // Loading any law mounts the BPF file system.
        let path = Path::new("/sys/fs/bpf").join(unique("lwrcv"));
        std::fs::create_dir(&path).expect("a folder of the BPF file system");
        BpfFolder(path)
    }
}

impl Drop for BpfFolder {
    fn drop(&mut self) {
        let _ = Receive::unpin(&self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn only_laws_that_can_do_it_are_taken() {
    let refused = Receive::new("cubic".parse().expect("a law"));
    assert!(matches!(refused, Err(KernelError::NotForReceivers("cubic"))));
    let default = Receive::DEFAULT_LAW.parse().expect("the default is a law");
    assert!(Receive::new(default).is_ok());
}

/// The child process of the tests above. Run as a test, it does nothing.
#[test]
fn downloads_what_a_parent_asks_for() {
    Downloads::be_a_child();
}
