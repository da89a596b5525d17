//! The laws in this machine's kernel, over TCP between network namespaces. Needs root; skips elsewhere.

mod testbed;

use leeway_control::LawSpec;
use leeway_kernel::{Event, KernelError, Load, Loaded, Record, State};
use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{Chance, Testbed, ready, unique};

/// Fails where an event does not lead the law of user space to the same state, byte by byte.
#[derive(Default)]
struct Replay {
    sockets: HashMap<u64, (u32, State)>,
    acks: usize,
    losses: usize,
    marks: usize,
}

impl Replay {
    fn take(&mut self, spec: &LawSpec, record: &Record) {
        let Record { socket, number, path, .. } = record;
        if let Event::Init = record.event {
            assert_eq!(*number, 1, "{spec}: a connection begins once");
            self.sockets.insert(*socket, (0, State::new(spec, path)));
        }
        let (last, state) = self.sockets.get_mut(socket).expect("a connection begins with its init");
        assert_eq!(*number, *last + 1, "{spec}: an event was not recorded");
        *last = *number;
        match &record.event {
            Event::Init => {}
            Event::Ack(ack) => {
                self.acks += 1;
                self.marks += usize::from(ack.ce_bytes > 0);
                state.on_ack(ack, path);
            }
            Event::Loss(loss) => {
                self.losses += 1;
                state.on_loss(loss, path);
            }
            Event::Undo => {
                let word =
                    |at: usize| u64::from_ne_bytes(record.state[at..at + 8].try_into().expect("eight bytes"));
                state.set_window(word(0), word(8));
            }
        }
        let bytes = state.bytes();
        assert!(
            bytes == record.state[..bytes.len()],
            "{spec}: event {number} ({:?}) left another state in the kernel:\n{:?}\nthan here:\n{bytes:?}",
            record.event,
            &record.state[..bytes.len()]
        );
    }
}

fn replay_all(chance: Chance) {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", chance);
    for law in leeway_control::laws() {
        let spec = LawSpec::new(law.name).expect("a law of the table");
        let load = Load { name: unique(&law.name[..law.name.len().min(7)]), ..Load::new(spec.clone()) };
        let recording = load.recorded().unwrap_or_else(|error| panic!("{error}"));
        let mut flow = bed.flow(&load.name);
        let mut replay = Replay::default();
        let deadline = Instant::now() + Duration::from_secs(60);
        let enough = |replay: &Replay| match chance {
            Chance::None => replay.acks >= 300,
            Chance::Loss => replay.acks >= 300 && replay.losses >= 2,
            Chance::Mark => replay.acks >= 300 && replay.marks >= 2,
        };
        while !enough(&replay) {
            let Replay { acks, losses, marks, .. } = &replay;
            assert!(Instant::now() < deadline, "{spec}: only {acks} acks, {losses} losses and {marks} marks");
            flow.send();
            recording.read(Duration::ZERO, |record| replay.take(&spec, &record)).expect("the ring buffer");
        }
        let Replay { acks, losses, marks, .. } = &replay;
        eprintln!("{spec}: {acks} acks, {losses} losses and {marks} marks lead to equal states");
    }
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel() {
    replay_all(Chance::None);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_are_lost() {
    replay_all(Chance::Loss);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_are_marked() {
    replay_all(Chance::Mark);
}

/// Takes a pin out at the end of a test, however it ends.
struct Unload(String);

impl Drop for Unload {
    fn drop(&mut self) {
        let _ = leeway_kernel::unload(&self.0);
    }
}

#[test]
fn a_pinned_law_is_shown_and_leaves_its_flows_running() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::None);
    let spec: LawSpec = "ledbat:target=5ms".parse().expect("a law");
    let load = Load { name: unique("pin"), ..Load::new(spec.clone()) };
    let _unload = Unload(load.name.clone());
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(load.pinned(), Err(KernelError::Exists(_))), "the name is taken");
    let mut flow = bed.flow(&load.name);
    (0..20).for_each(|_| flow.send());
    let loaded = Loaded::find(&load.name).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.spec, spec);
    let sockets = loaded.sockets().unwrap_or_else(|error| panic!("{error}"));
    let [socket] = &sockets[..] else { panic!("one socket, not {sockets:?}") };
    assert_eq!((socket.local, socket.remote), flow.ends());
    assert!(socket.output.cwnd_q16 > 0 && socket.srtt_us > 0, "{socket:?}");
    leeway_kernel::unload(&load.name).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(Loaded::find(&load.name), Err(KernelError::Unknown { .. })));
    assert!(matches!(leeway_kernel::unload(&load.name), Err(KernelError::Unknown { .. })));
    let before = flow.acknowledged();
    let deadline = Instant::now() + Duration::from_secs(30);
    while flow.acknowledged() < before + 200_000 {
        assert!(Instant::now() < deadline, "the flow stands still after unload");
        flow.send();
    }
    drop(loaded);
    assert!(bed.try_flow(&load.name).is_err(), "new connections cannot choose what was unloaded");
}

#[test]
fn ledbat_keeps_the_delay_near_its_target() {
    if !ready() {
        return;
    }
    // 250 kB at 10 Mbit/s are 200 ms: eight times the target.
    let bed = Testbed::new("10mbit", "250k", Chance::None);
    let load =
        Load { name: unique("del"), ..Load::new("ledbat:target=25ms,ssthresh=8".parse().expect("a law")) };
    let _unload = Unload(load.name.clone());
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
    let loaded = Loaded::find(&load.name).unwrap_or_else(|error| panic!("{error}"));
    let mut flow = bed.flow(&load.name);
    let began = Instant::now();
    let mut rtts = Vec::new();
    while began.elapsed() < Duration::from_secs(8) {
        flow.send();
        if began.elapsed() > Duration::from_secs(4) {
            rtts.extend(loaded.sockets().expect("the sockets").iter().map(|socket| socket.srtt_us));
        }
    }
    rtts.sort_unstable();
    let median_ms = f64::from(rtts[rtts.len() / 2]) / 1000.0;
    let mbps = flow.acknowledged() as f64 * 8e-6 / began.elapsed().as_secs_f64();
    eprintln!("ledbat with a target of 25 ms: median RTT {median_ms:.1} ms at {mbps:.1} Mbit/s");
    assert!((12.0..45.0).contains(&median_ms), "median RTT {median_ms} ms");
    assert!(mbps > 7.0, "{mbps} Mbit/s of 10");
}

#[test]
fn a_window_below_one_segment_still_sends() {
    if !ready() {
        return;
    }
    // CUBIC holds 60 kB at 2 Mbit/s, 240 ms: far above the target, so the window falls to its floor.
    let bed = Testbed::new("2mbit", "60k", Chance::None);
    let spec = "ledbat:target=10ms,floor=0.2,gain_down=10".parse().expect("a law");
    let load = Load { name: unique("sub"), ..Load::new(spec) };
    let _unload = Unload(load.name.clone());
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
    let loaded = Loaded::find(&load.name).unwrap_or_else(|error| panic!("{error}"));
    let (mut flow, mut primary) = (bed.flow(&load.name), bed.flow("cubic"));
    let below = || {
        let socket = &loaded.sockets().expect("the sockets")[0];
        socket.output.cwnd_q16 >> 16 < 500 && socket.inflight <= 1
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !below() {
        assert!(Instant::now() < deadline, "the window does not fall: {:?}", loaded.sockets());
        primary.send();
        flow.send();
    }
    let (before, began) = ((flow.acknowledged(), primary.acknowledged()), Instant::now());
    while flow.acknowledged() < before.0 + 5000 {
        assert!(Instant::now() < deadline, "it stands still: {:?}", loaded.sockets());
        primary.send();
        flow.send();
    }
    let span = began.elapsed().as_secs_f64();
    let kbps = |bytes: u64| bytes as f64 * 8e-3 / span;
    let (own, other) = (kbps(flow.acknowledged() - before.0), kbps(primary.acknowledged() - before.1));
    eprintln!("below one segment: {own:.0} kbit/s beside {other:.0} of CUBIC");
    // One segment every round trip would be 48 kbit/s or more.
    assert!(own < 40.0 && other > 1000.0, "{own} beside {other} kbit/s");
}

#[test]
fn a_killed_loader_leaves_a_whole_law_or_nothing() {
    if !ready() {
        return;
    }
    let (mut whole, mut nothing) = (0, 0);
    for round in 0..12 {
        let name = unique("kil");
        let _unload = Unload(name.clone());
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "loads_what_a_parent_asks_for"])
            .env("LEEWAY_TEST_LOAD", &name)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("this test runs");
        std::thread::sleep(Duration::from_millis(round * 15));
        child.kill().expect("a child can be killed");
        child.wait().expect("a killed child ends");
        match Loaded::find(&name) {
            Ok(loaded) => {
                assert_eq!(loaded.spec.to_string(), "newreno");
                loaded.sockets().expect("a whole law can be listed");
                whole += 1;
            }
            Err(KernelError::Unknown { .. }) => {
                // Nothing holds the name either: it can be loaded.
                let load = Load { name: name.clone(), ..Load::new("newreno".parse().expect("a law")) };
                load.pinned().unwrap_or_else(|error| panic!("after a kill: {error}"));
                nothing += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("killed loaders left {whole} whole laws and {nothing} times nothing");
}

/// The child of the test above; by itself it has nothing to do.
#[test]
fn loads_what_a_parent_asks_for() {
    if let Ok(name) = std::env::var("LEEWAY_TEST_LOAD") {
        Load { name, ..Load::new("newreno".parse().expect("a law")) }
            .pinned()
            .expect("the parent checked the rights");
    }
}
