//! Faults from outside: programs and loaders that are killed, namespaces that vanish, kernels that
//! refuse a law.

use crate::replay::Replayed;
use crate::testbed::{Chance, End, Testbed, ready, unique};
use crate::{Pinned, spec};
use leeway_kernel::{
    Asker, Confinement, KernelError, Load, Loaded, Policy, Process, check_btf, confinements,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An object that the build script makes from `tests/bpf`.
macro_rules! object {
    ($name:literal) => {
        concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")
    };
}

/// Starts this test binary as a child, with `LEEWAY_TEST_LAW` set. It runs the test `test`, which
/// then does what its name says.
fn child(test: &str, law: &str) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test])
        .env("LEEWAY_TEST_LAW", law)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test runs")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "in a minute not {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_loader_leaves_a_whole_law_or_nothing() {
    if !ready() {
        return;
    }
    let (mut whole, mut nothing) = (0, 0);
    for round in 0..12 {
        let name = unique("kil");
        let _unload = Pinned(name.clone());
        let mut child = child("faults::loads_what_a_parent_asks_for", &name);
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
                // The name is free as well: another law can be loaded under it.
                let load = Load { name: name.clone(), ..Load::new(spec("newreno")) };
                load.pinned().unwrap_or_else(|error| panic!("after a kill: {error}"));
                nothing += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("killed loaders left {whole} whole laws and {nothing} times nothing");
}

/// The child process of the test above. Run as a test, it does nothing.
#[test]
fn loads_what_a_parent_asks_for() {
    if let Ok(name) = std::env::var("LEEWAY_TEST_LAW") {
        Load { name, ..Load::new(spec("newreno")) }.pinned().expect("the parent checked the rights");
    }
}

/// If there is no memory for a law's state when a connection begins, the law begins later.
#[test]
fn a_law_begins_when_there_is_memory_for_its_state() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::None);
    let mut replay = Replayed::new("newreno");
    // Bytes that a socket may use beside its buffers. The state of a law is among them.
    bed.sysctl(End::Sender, "net/core/optmem_max", "1");
    let mut flow = bed.flow(&replay.name);
    let enough = 300_000;
    while flow.acknowledged() < enough {
        flow.send();
        replay.read();
    }
    assert_eq!(replay.seen.acks, 0, "the sysctl leaves no memory, so that nothing began");
    bed.sysctl(End::Sender, "net/core/optmem_max", "131072");
    replay.send_until(&mut flow, |seen| seen.acks >= 100);
    replay.report();
}

/// The verifier takes a few µs for each instruction. Their number does not depend on the machine.
#[test]
fn who_cleans_up_waits_for_a_cgroup_in_the_making() {
    if !ready() {
        return;
    }
    let policy = Policy { law: spec("newreno"), dscp: None, receive: None };
    let asker = Asker { uid: 0, what: "a test".to_owned() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let all = confinements().expect("they can be listed");
                for one in all.into_iter().filter(|one| one.asker.what == asker.what) {
                    scope.spawn(move || one.remove_when_empty());
                }
            }
        });
        let outcomes: Vec<bool> = (0..20)
            .map(|_| {
                let mut child = Command::new("sleep").arg("60").spawn().expect("a process");
                let process = Process::of(child.id()).expect("it runs");
                let made = Confinement::of_process(&process, &policy, &asker).expect("a cgroup");
                std::thread::sleep(Duration::from_millis(20));
                let confined = !made.is_over() && made.account().is_ok();
                child.kill().and_then(|()| child.wait().map(drop)).expect("it can be killed");
                confined
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(|confined| *confined), "{outcomes:?}");
    });
    wait_for("all cleaned up", || {
        confinements().is_ok_and(|all| all.iter().all(|one| one.asker.what != asker.what))
    });
}

#[test]
fn the_verifier_is_done_with_a_law_soon() {
    if !ready() {
        return;
    }
    for law in leeway_control::laws() {
        let pinned = Pinned::new("ver", law.name);
        let steps: u64 = pinned.loaded().costs().iter().map(|cost| u64::from(cost.verified_insns)).sum();
        assert!((1..=60_000).contains(&steps), "{}: {steps} instructions", law.name);
    }
}

#[test]
fn the_sockets_of_a_killed_program_are_gone() {
    if !ready() {
        return;
    }
    let law = Pinned::new("prg", "ledbat");
    let loaded = law.loaded();
    let sockets = || loaded.sockets().expect("the sockets").len();
    let mut program = child("faults::sends_what_a_parent_asks_for", &law.0);
    wait_for("sending", || sockets() == 1);
    program.kill().expect("a child can be killed");
    program.wait().expect("a killed child ends");
    wait_for("all sockets gone", || sockets() == 0);
    nothing_stays(law, loaded);
}

/// Unloads the law, whose sockets are gone, and checks that its programs go too.
fn nothing_stays(law: Pinned, loaded: Loaded) {
    assert!(!loaded.costs().is_empty(), "its programs are there");
    drop(law);
    wait_for("all programs gone", || loaded.costs().is_empty());
}

/// The child process of the test above. Run as a test, it does nothing.
#[test]
fn sends_what_a_parent_asks_for() {
    let Ok(law) = std::env::var("LEEWAY_TEST_LAW") else { return };
    // If the parent is killed, the child must not go on sending.
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).expect("any signal will do");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    rustix::net::sockopt::set_tcp_congestion(&stream, &law).expect("the law is loaded");
    let (mut peer, _) = listener.accept().expect("connected");
    let mut buffer = [0; 4096];
    while stream.write_all(&buffer).and_then(|()| peer.read_exact(&mut buffer)).is_ok() {}
}

#[test]
fn flows_of_a_namespace_that_is_deleted_end_and_leave_nothing() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::Loss);
    // A closed socket with unsent data lives for this number of timeouts, because nothing answers
    // any more.
    bed.sysctl(End::Sender, "net/ipv4/tcp_orphan_retries", "2");
    let law = Pinned::new("nsd", "flower");
    let loaded = law.loaded();
    let mut flows: Vec<_> = (0..3).map(|_| bed.flow(&law.0)).collect();
    flows.iter_mut().for_each(|flow| flow.send());
    let sockets = || loaded.sockets().expect("the sockets").len();
    assert_eq!(sockets(), 3);
    // The names of the namespaces are removed now, the namespaces with their last socket. In
    // between nobody can enter them to list the socket.
    bed.delete();
    flows.iter_mut().for_each(|flow| flow.send());
    assert_eq!(sockets(), 0);
    drop(flows);
    nothing_stays(law, loaded);
}

#[test]
fn a_law_is_loaded_with_different_parameters_side_by_side() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::None);
    let (near, far) = (Pinned::new("nea", "ledbat:target=5ms"), Pinned::new("far", "ledbat:target=50ms"));
    let mut flows = [bed.flow(&near.0), bed.flow(&far.0), bed.flow(&far.0)];
    (0..10).for_each(|_| flows.iter_mut().for_each(|flow| flow.send()));
    let of = |law: &Pinned| {
        let loaded = law.loaded();
        (loaded.spec.to_string(), loaded.sockets().expect("the sockets").len())
    };
    assert_eq!(of(&near), ("ledbat:target=5ms".to_owned(), 1));
    assert_eq!(of(&far), ("ledbat:target=50ms".to_owned(), 2));
    drop(near);
    // A namespace as `ip netns add` leaves it while it is being made.
    let unfinished = format!("/run/netns/{}", unique("unf"));
    std::fs::write(&unfinished, "").expect("a file");
    let left = of(&far).1;
    std::fs::remove_file(&unfinished).expect("the file");
    assert_eq!(left, 2, "one goes, the other stays");
    assert!(leeway_kernel::names().expect("the names").contains(&far.0));
}

#[test]
fn a_law_of_another_version_is_named_and_can_be_unloaded() {
    if !ready() {
        return;
    }
    let load = Load { name: unique("oth"), ..Load::new(spec("newreno")) };
    let law = Pinned(load.name.clone());
    load.pinned_from(include_bytes!(object!("foreign"))).unwrap_or_else(|error| panic!("{error}"));
    assert!(leeway_kernel::names().expect("the names").contains(&law.0));
    let error = Loaded::find(&law.0).expect_err("it is not ours");
    assert!(error.to_string().contains("another version of leeway loaded it"), "{error}");
    assert!(matches!(load.pinned(), Err(KernelError::Exists(_))), "the name is taken");
    leeway_kernel::unload(&law.0).unwrap_or_else(|error| panic!("{error}"));
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_the_verifier_says_is_shown() {
    if !ready() {
        return;
    }
    let load = Load { name: unique("ref"), ..Load::new(spec("newreno")) };
    let error = load.pinned_from(include_bytes!(object!("refused"))).expect_err("the verifier refuses it");
    let KernelError::Refused { law, log, .. } = &error else { panic!("{error}") };
    assert_eq!(*law, "newreno");
    assert!(log.contains("no write support to tcp_sock"), "{log}");
    assert!(error.to_string().contains(log.as_str()));
    // Nothing stays loaded: the name is free.
    assert!(matches!(Loaded::find(&load.name), Err(KernelError::Unknown { .. })));
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
    drop(Pinned(load.name));
}

#[test]
fn kernels_without_btf_and_before_6_10_are_told_apart() {
    let missing = check_btf(Path::new("/nonexistent/vmlinux")).expect_err("there is no such file");
    assert!(matches!(missing, KernelError::NoBtf(_)), "{missing}");
    let old = check_btf(Path::new(object!("old"))).expect_err("it has the types of 6.9");
    assert!(matches!(old, KernelError::TooOld { found: 2, .. }), "{old}");
    assert!(old.to_string().contains("Linux 6.10 or newer"), "{old}");
    if ready() {
        check_btf(&leeway_kernel::btf_path()).unwrap_or_else(|error| panic!("{error}"));
    }
}
