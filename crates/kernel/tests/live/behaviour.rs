//! Behaviour of a loaded law.

use crate::replay::Replayed;
use crate::testbed::{Chance, Testbed, ready, unique};
use crate::{Pinned, spec};
use leeway_control::{Ack, Path};
use leeway_kernel::{KernelError, Load, Loaded};
use std::time::{Duration, Instant};

#[test]
fn a_pinned_law_is_shown_and_leaves_its_flows_running() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::None);
    let load = Load { name: unique("pin"), ..Load::new(spec("ledbat:target=5ms")) };
    let _unload = Pinned(load.name.clone());
    load.pinned().unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(load.pinned(), Err(KernelError::Exists(_))), "the name is taken");
    let mut flow = bed.flow(&load.name);
    (0..20).for_each(|_| flow.send());
    let loaded = Loaded::find(&load.name).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.spec, load.spec);
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
    let law = Pinned::new("del", "ledbat:target=25ms,ssthresh=8");
    let loaded = law.loaded();
    let mut flow = bed.flow(&law.0);
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
    assert!(mbps > 5.0, "{mbps} Mbit/s of 10");
}

#[test]
fn a_window_below_one_segment_still_sends() {
    if !ready() {
        return;
    }
    // CUBIC keeps 60 kB in the queue at 2 Mbit/s, which is 240 ms. That is far above the target,
    // so the window falls to its floor.
    let bed = Testbed::new("2mbit", "60k", Chance::None);
    let law = Pinned::new("sub", "ledbat:target=10ms,floor=0.2,gain_down=10");
    let loaded = law.loaded();
    let (mut flow, mut primary) = (bed.flow(&law.0), bed.flow("cubic"));
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
    // The clock is read outside of the counted interval, because this thread may be suspended in
    // between. A dozen segments outweigh those that were sent before the window was at its floor.
    let began = Instant::now();
    let before = (flow.acknowledged(), primary.acknowledged());
    while flow.acknowledged() < before.0 + 16_000 {
        assert!(Instant::now() < deadline, "it stands still: {:?}", loaded.sockets());
        primary.send();
        flow.send();
    }
    let after = (flow.acknowledged(), primary.acknowledged());
    let span = began.elapsed().as_secs_f64();
    let kbps = |bytes: u64| bytes as f64 * 8e-3 / span;
    let (own, other) = (kbps(after.0 - before.0), kbps(after.1 - before.1));
    eprintln!("below one segment: {own:.0} kbit/s beside {other:.0} of CUBIC");
    // One segment in every round trip would be 48 kbit/s or more.
    assert!(own < 40.0 && other > 1000.0, "{own} beside {other} kbit/s");
}

/// A receiver that delays acknowledgements holds that of a lone segment back for 40 ms, which
/// looks like a queue.
#[test]
fn a_window_of_one_segment_leaves_as_pairs_at_its_rate() {
    if !ready() {
        return;
    }
    // CUBIC keeps 60 kB in the queue at 10 Mbit/s, which is 48 ms. That is far above the target,
    // so the window falls to its floor.
    let bed = Testbed::new("10mbit", "60k", Chance::None);
    let mut primary = bed.flow("cubic");
    let mut replay = Replayed::new("ledbat:target=5ms,floor=1,gain_down=10");
    let mut flow = bed.flow(&replay.name);
    while replay.seen.below_two.len() < 90 {
        primary.send();
        flow.send();
        replay.read();
    }
    // Without the segments that were sent before the window was at its floor.
    let settled = &replay.seen.below_two[30..];
    let segments = |bytes: u64, path: &Path| bytes / u64::from(path.mss_bytes);
    let inflight = |(ack, path): &(Ack, Path)| segments(ack.prior_inflight_bytes, path);
    // The receiver answers a pair with one acknowledgement or, after a pause, with two.
    let pairs = settled.iter().filter(|seen| inflight(seen) == 2).count();
    let lone = settled.windows(2).filter(|two| inflight(&two[0]) != 2 && inflight(&two[1]) == 1).count();
    // One segment in a round trip, in pairs or not. A busy machine only takes longer.
    let spans =
        settled[1..].iter().map(|(ack, path)| segments(ack.acked_bytes, path) * u64::from(path.srtt_us));
    let (due_us, took_us) = (spans.sum::<u64>(), settled[59].0.now_us - settled[0].0.now_us);
    eprintln!("{pairs} pairs and {lone} lone segments, {took_us} us for what is due in {due_us} us");
    assert!(pairs > 4 * lone, "{pairs} pairs and {lone} lone segments");
    assert!(took_us * 10 > due_us * 6, "{took_us} us for what is due in {due_us} us");
    replay.report();
}
