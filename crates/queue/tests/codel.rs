//! CoDel against RFC 8289: 5 ms and 100 ms, the first drop, the square-root law, the restart,
//! marks.

mod common;

use common::{MBIT8, Pkt, Served, build, context, ms, pkt, us};
use leeway_queue::{Ecn, Reason};
use leeway_units::Time;

/// Twice the rate of the link, for `millis`.
fn overload(spec: &str, millis: u64, ecn: Ecn) -> Served {
    let mut served = Served::new(build(spec, &context(100_000)), MBIT8);
    for id in 0..millis * 2 {
        served.offer(us(id * 500), Pkt { ecn, ..pkt(id) });
    }
    served
}

fn times(served: &Served) -> Vec<Time> {
    served.log.dropped.iter().map(|&(time, _, _)| time).collect()
}

#[test]
fn the_first_drop_comes_an_interval_after_the_delay_passed_the_target() {
    let served = overload("codel", 300, Ecn::NotEct);
    // The packet that leaves at t arrived at about t/2. So the delay reaches 5 ms with the packet
    // that leaves at 10 ms.
    let late = served.left.iter().find(|left| left.sojourn().nanos() >= 5_000_000).unwrap().at;
    assert_eq!(late, ms(10));
    assert_eq!(times(&served)[0], late + leeway_units::Duration::from_millis(100));
    assert!(served.log.dropped.iter().all(|&(_, _, reason)| reason == Reason::Aqm));
}

#[test]
fn drops_come_closer_by_the_square_root_of_their_number() {
    let served = overload("codel", 2000, Ecn::NotEct);
    let times = times(&served);
    let mut due = times[0].secs_f64();
    for (n, pair) in times.windows(2).take(40).enumerate() {
        // RFC 8289, 5.6: 100 ms, 100/sqrt(2), 100/sqrt(3) ... Each drop is at the first departure
        // from then on.
        due += 0.1 / f64::from(n as u32 + 1).sqrt();
        let at = pair[1].secs_f64();
        assert!(at >= due - 1e-8 && at < due + 0.001 + 1e-8, "drop {}: {at} for {due}", n + 2);
    }
}

#[test]
fn parameters_scale_the_law() {
    let served = overload("codel:target=20ms,interval=40ms", 1000, Ecn::NotEct);
    let times = times(&served);
    assert_eq!(times[0], ms(40 + 40));
    assert_eq!((times[1] - times[0]).nanos(), 40_000_000);
    assert_eq!((times[2] - times[1]).micros().div_ceil(1000), 29);
}

#[test]
fn the_2012_variant_waits_for_two_intervals() {
    let served = overload("codel:variant=2012", 400, Ecn::NotEct);
    assert_eq!(times(&served)[0], ms(10 + 200));
}

#[test]
fn a_queue_below_the_target_or_of_one_packet_is_left_alone() {
    // Four packets every four milliseconds: at most 3 ms.
    let mut served = Served::new(build("codel", &context(1000)), MBIT8);
    for id in 0..8000 {
        served.offer(ms(id / 4 * 4), pkt(id));
    }
    assert!(served.log.dropped.is_empty());
    assert_eq!(served.left.iter().map(|left| left.sojourn().micros()).max(), Some(3000));

    // On a link so slow that one packet takes longer than the target, one packet may always wait
    // (RFC 8289, 5.6).
    let slow = leeway_units::Rate::from_bits_per_sec(400_000);
    let mut served = Served::new(build("codel", &context(1000)), slow);
    for id in 0..500 {
        // 20 ms each; the second packet of a pair waits for 20 ms.
        served.offer(ms(id / 2 * 40), pkt(id));
    }
    assert!(served.log.dropped.is_empty());
    assert!(served.left.iter().any(|left| left.sojourn().micros() == 20_000));
}

#[test]
fn a_short_excursion_restarts_the_interval() {
    let mut served = Served::new(build("codel", &context(1000)), MBIT8);
    for burst in 0..20 {
        // A burst of 60 packets every 100 ms: above the target for about 55 ms, then empty.
        for id in 0..60 {
            served.offer(ms(burst * 100), pkt(burst * 60 + id));
        }
    }
    assert!(served.log.dropped.is_empty());
}

/// The gap after the first drop of a second overload, `idle` ms after a first one of `first` ms.
fn second_start(spec: &str, first: u64, idle: u64) -> f64 {
    let mut served = Served::new(build(spec, &context(100_000)), MBIT8);
    let mut id = 0;
    let mut flood = |served: &mut Served, from: u64, millis: u64| {
        for n in 0..millis * 2 {
            served.offer(ms(from) + leeway_units::Duration::from_micros(n * 500), pkt(id));
            id += 1;
        }
    };
    flood(&mut served, 0, first);
    served.run_until(ms(20_000));
    let end = served.left.last().unwrap().at.micros() / 1000 + 1;
    assert_eq!(leeway_queue::Queue::packets(&served.queue), 0);
    let before = served.log.dropped.len();
    flood(&mut served, end + idle, 800);
    let times: Vec<f64> = served.log.dropped[before..].iter().map(|(time, _, _)| time.secs_f64()).collect();
    times[1] - times[0]
}

#[test]
fn a_return_within_sixteen_intervals_resumes_the_drop_rate() {
    // After a long time the first gap is an interval. After a short time it is an interval over
    // the root of the drops before.
    assert!((second_start("codel", 1000, 5000) - 0.1).abs() < 0.0011);
    let soon = second_start("codel", 1000, 10);
    assert!(soon < 0.04, "{soon}");
    // `variant=2012` remembers for one interval only.
    assert!((second_start("codel:variant=2012", 1000, 500) - 0.1).abs() < 0.0011);
}

#[test]
fn marks_replace_drops_of_capable_packets() {
    let marks = overload("codel:ecn=true", 1000, Ecn::Ect0);
    let drops = overload("codel", 1000, Ecn::NotEct);
    assert!(marks.log.dropped.is_empty());
    // A mark removes no packet, so the delay grows faster, but the law gives the same times.
    let marked: Vec<_> = marks.log.marked.iter().map(|&(time, _, _)| time.micros() / 1000).collect();
    let dropped: Vec<_> = times(&drops).iter().map(|time| time.micros() / 1000).collect();
    assert_eq!(marked[..15], dropped[..15]);
    assert!(
        marks.log.marked.iter().all(|(_, packet, reason)| packet.ecn == Ecn::Ce && *reason == Reason::Aqm)
    );
    assert_eq!(overload("codel:ecn=true", 1000, Ecn::NotEct).log, drops.log);
}

#[test]
fn a_full_buffer_drops_at_the_tail() {
    let mut served = Served::new(build("codel", &context(50)), MBIT8);
    for id in 0..400 {
        served.offer(us(id * 250), pkt(id));
    }
    assert!(served.drops(Reason::Tail) > 200, "{}", served.drops(Reason::Tail));
    assert!(served.log.dropped.iter().all(|(_, _, reason)| *reason == Reason::Tail));
}
