//! Record and replay over paths of every kind.

use crate::replay::{Replayed, Seen};
use crate::testbed::{Chance, End, Flow, Testbed, clock, ready};
use std::time::{Duration, Instant};

/// Runs all laws at the same time, each on a path of its own, so that no law depends on traffic of
/// another.
fn each_law(path: impl Fn(&'static str) + Sync) {
    if ready() {
        std::thread::scope(|scope| {
            for law in leeway_control::laws() {
                scope.spawn(|| path(law.name));
            }
        });
    }
}

fn every_law(chance: Chance, enough: impl Fn(&Seen) -> bool + Sync) {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", chance);
        let mut replay = Replayed::new(law);
        one_after_another(&mut replay, |name| bed.flow(name), &enough);
        replay.report();
    });
}

/// Sends over connections of 3 s each. On a longer connection the kernel learns how far packets
/// are reordered, and then finds fewer losses. And after losses in a row, a law that yields sends
/// a segment every few seconds only.
fn one_after_another(replay: &mut Replayed, connect: impl Fn(&str) -> Flow, enough: impl Fn(&Seen) -> bool) {
    while !enough(&replay.seen) {
        let (mut flow, began) = (connect(&replay.name), Instant::now());
        let old = |_: &Seen| began.elapsed() > Duration::from_secs(3);
        replay.send_until(&mut flow, |seen| enough(seen) || old(seen));
    }
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel() {
    every_law(Chance::None, |seen| seen.acks >= 300);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_are_lost() {
    every_law(Chance::Loss, |seen| seen.acks >= 300 && seen.losses >= 2);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_are_marked() {
    every_law(Chance::Mark, |seen| seen.acks >= 300 && seen.marks >= 2);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_are_marked_and_lost() {
    every_law(Chance::MarkAndLoss, |seen| seen.acks >= 300 && seen.marks >= 2 && seen.losses >= 2);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_where_packets_overtake_others_and_losses_are_undone() {
    every_law(Chance::Reorder, |seen| seen.acks >= 300 && seen.undos >= 1);
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_after_a_timeout_that_was_none() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::None);
        let mut replay = Replayed::new(law);
        while replay.seen.undos == 0 {
            let mut flow = bed.flow(&replay.name);
            let Seen { acks, timeouts, .. } = replay.seen;
            // After a few acknowledgements, because the segments behind a lone segment are what
            // shows that it was not lost.
            replay.send_until(&mut flow, |seen| seen.acks >= acks + 20);
            bed.hold("60k");
            replay.send_until(&mut flow, |seen| seen.timeouts > timeouts);
            bed.release("20mbit", "60k");
            let released = Instant::now();
            let old = |_: &Seen| released.elapsed() > Duration::from_secs(2);
            replay.send_until(&mut flow, |seen| seen.undos > 0 || old(seen));
            let acks = replay.seen.acks;
            replay.send_until(&mut flow, |seen| seen.acks >= acks + 50 || old(seen));
        }
        replay.report();
    });
}

#[test]
fn every_law_does_the_same_here_and_in_the_kernel_after_idling() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::None);
        // Windows below one segment are paced over seconds, which is not idling.
        let floor = if crate::spec(law).law().param("floor").is_some() { ":floor=2" } else { "" };
        let mut replay = Replayed::new(&format!("{law}{floor}"));
        let mut flow = bed.flow(&replay.name);
        replay.send_until(&mut flow, |seen| seen.acks >= 100);
        replay.drain(&flow);
        // Longer than the retransmission timeout, which is 200 ms and a round trip.
        std::thread::sleep(Duration::from_millis(600));
        let before = replay.seen.acks;
        replay.send_until(&mut flow, |seen| seen.acks >= before + 100);
        let Seen { restarts, most_inflight_bytes, .. } = &replay.seen;
        // On a busy machine, the sender can be silent as long while its queue is not empty.
        let least = restarts.iter().min_by_key(|(ack, _)| ack.prior_inflight_bytes);
        let (restart, initial_bytes) = least.unwrap_or_else(|| panic!("{law}: it did not idle"));
        let inflight = restart.prior_inflight_bytes;
        assert!(
            inflight <= u64::from(*initial_bytes),
            "{law}: {inflight} bytes in flight after idling, more than the initial window"
        );
        if law == "newreno" {
            assert!(*most_inflight_bytes > 14_480, "the window was never above the initial one");
            assert_eq!(restart.app_limited, 1, "a window that idling made invalid must not grow");
        }
        replay.report();
    });
}

#[test]
fn ipv6() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::Loss);
        let mut replay = Replayed::new(law);
        let enough = |seen: &Seen| seen.acks >= 150 && seen.losses >= 1;
        one_after_another(&mut replay, |name| bed.flow6(name), enough);
        assert!(replay.seen.resolutions_us.contains(&1000), "{law}: timestamps in milliseconds");
        replay.report();
    });
}

#[test]
fn timestamps_in_microseconds() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::None);
        bed.microseconds();
        let mut replay = Replayed::new(law);
        let mut flow = bed.flow(&replay.name);
        replay.send_until(&mut flow, |seen| seen.acks >= 150);
        // While a segment is missing, an acknowledgement has no delay sample, and its resolution
        // is 0.
        let resolutions_us = &replay.seen.resolutions_us;
        assert!(resolutions_us.contains(&1) && !resolutions_us.contains(&1000), "{law}: {resolutions_us:?}");
        let owd_us = &replay.seen.owd_us;
        let finer = owd_us.iter().filter(|owd| owd.wrapping_sub(owd_us[0]) % 1000 != 0).count();
        assert!(finer * 10 > owd_us.len() * 9, "{law}: of {} delays only {finer} are finer", owd_us.len());
        replay.report();
    });
}

#[test]
fn a_peer_without_timestamps() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::Loss);
        bed.sysctl(End::Receiver, "net/ipv4/tcp_timestamps", "0");
        let mut replay = Replayed::new(law);
        let enough = |seen: &Seen| seen.acks >= 150 && seen.losses >= 1;
        one_after_another(&mut replay, |name| bed.flow(name), enough);
        assert_eq!(replay.seen.resolutions_us, [0], "{law}: no one-way delays");
        replay.report();
    });
}

#[test]
fn a_peer_without_window_scaling() {
    each_law(|law| {
        // With a buffer of 200 kB, windows would grow beyond the 64 kB that can be announced.
        let bed = Testbed::new("20mbit", "200k", Chance::None);
        bed.sysctl(End::Receiver, "net/ipv4/tcp_window_scaling", "0");
        let mut replay = Replayed::new(law);
        let mut flow = bed.flow(&replay.name);
        replay.send_until(&mut flow, |seen| seen.acks >= 250);
        let Seen { most_inflight_bytes, app_limited, .. } = &replay.seen;
        // The kernel counts whole segments. The last one of a window may be a partial one.
        assert!(
            *most_inflight_bytes <= 65_535u64.div_ceil(1448) * 1448,
            "{law}: {most_inflight_bytes} bytes in flight"
        );
        if law == "newreno" {
            assert!(*app_limited > 50, "what the receiver limits is not limited by the window");
        }
        replay.report();
    });
}

/// Differences between consecutive delay samples.
fn steps_us(seen: &Seen) -> impl Iterator<Item = i32> {
    seen.owd_us.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed())
}

#[test]
fn timestamps_that_wrap_are_no_jump() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::None);
        let mut replay = Replayed::new(law);
        let mut flow = bed.flow("reno");
        // The clocks of the two ends reach zero within a second, one after the other.
        clock::set(&mut flow, End::Sender, 0u32.wrapping_sub(1000));
        clock::set(&mut flow, End::Receiver, 0u32.wrapping_sub(1200));
        flow.choose(&replay.name);
        let wrapped =
            |flow: &_| [End::Sender, End::Receiver].iter().all(|end| clock::read(flow, *end) < 1 << 30);
        assert!(!wrapped(&flow), "it wraps while the law runs");
        while !wrapped(&flow) {
            flow.send();
            replay.read();
        }
        let after = replay.seen.acks + 100;
        replay.send_until(&mut flow, |seen| seen.acks >= after);
        let most = steps_us(&replay.seen).map(i32::unsigned_abs).max().expect("delays");
        // The queue holds 24 ms.
        assert!(most < 1_000_000, "{law}: a delay {most} us away from the last");
        replay.report();
    });
}

#[test]
fn a_peer_whose_clock_jumps_is_survived() {
    each_law(|law| {
        let bed = Testbed::new("20mbit", "60k", Chance::None);
        let mut replay = Replayed::new(law);
        let mut flow = bed.flow(&replay.name);
        replay.send_until(&mut flow, |seen| seen.acks >= 100);
        replay.drain(&flow);
        let ahead = (clock::read(&flow, End::Receiver) & !1).wrapping_add(10_000);
        clock::set(&mut flow, End::Receiver, ahead);
        let after = replay.seen.acks + 50;
        replay.send_until(&mut flow, |seen| seen.acks >= after);
        assert!(steps_us(&replay.seen).any(|step| step > 9_000_000), "{law} sees the jump");
        replay.report();
    });
}

/// `settimeofday` and `adjtime` change CLOCK_REALTIME. The laws get CLOCK_MONOTONIC.
#[test]
fn the_laws_are_told_the_monotonic_time() {
    if !ready() {
        return;
    }
    let bed = Testbed::new("20mbit", "60k", Chance::None);
    let mut replay = Replayed::new("ledbat");
    let now_us = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
    };
    let before = now_us();
    let mut flow = bed.flow(&replay.name);
    replay.send_until(&mut flow, |seen| seen.acks >= 50);
    let told = replay.seen.now_us;
    assert!((before..=now_us()).contains(&told), "{told} us");
}
