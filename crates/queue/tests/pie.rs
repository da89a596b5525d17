//! PIE in use: the delay that it holds, the burst that it lets pass, de-randomised drops, marks.

mod common;

use common::{MBIT8, Pkt, Served, build, context, ms, pkt, us};
use leeway_queue::{AnyQueue, Ecn, Queue, Reason};

fn load(spec: &str, gap_us: u64, packets: u64, ecn: Ecn) -> Served {
    let mut served = Served::new(build(spec, &context(100_000)), MBIT8);
    for id in 0..packets {
        served.offer(us(id * gap_us), Pkt { ecn, ..pkt(id) });
    }
    served
}

fn probability(served: &Served) -> f64 {
    match &served.queue {
        AnyQueue::Pie(pie) => pie.probability(),
        _ => unreachable!(),
    }
}

/// Mean delay of the packets that left in the last third, in milliseconds.
fn late_delay(served: &Served) -> f64 {
    let late = &served.left[served.left.len() * 2 / 3..];
    late.iter().map(|left| left.sojourn().millis_f64()).sum::<f64>() / late.len() as f64
}

#[test]
fn the_delay_is_held_at_the_reference_and_the_excess_is_dropped() {
    for (spec, reference) in [
        ("pie", 15.0),
        ("pie:target=30ms", 30.0),
        ("pie:delay=rate", 15.0),
        ("pie:variant=early", 20.0),
        ("pie:variant=early,delay=timestamp", 20.0),
    ] {
        // The load is 1.25 times the rate, so a fifth has to be dropped.
        let served = load(spec, 800, 100_000, Ecn::NotEct);
        let delay = late_delay(&served);
        assert!((delay / reference - 1.0).abs() < 0.15, "{spec}: {delay} ms");
        let share = served.log.dropped.len() as f64 / 100_000.0;
        assert!((share - 0.2).abs() < 0.02, "{spec}: {share}");
        // De-randomisation (RFC 8033, 5.4) lets 0.85/p packets pass before each random choice. So
        // p has to be 1.85 times the share of drops.
        let p = if spec.contains("early") { 0.2 } else { 0.37 };
        assert!((probability(&served) - p).abs() < 0.06, "{spec}: {}", probability(&served));
        assert_eq!(served.drops(Reason::Early), served.log.dropped.len());
    }
}

#[test]
fn a_load_below_the_rate_is_left_alone() {
    let served = load("pie:burst=0s", 1100, 20_000, Ecn::NotEct);
    assert!(served.log.dropped.is_empty());
    assert_eq!(probability(&served), 0.0);
}

#[test]
fn a_burst_passes_without_drops() {
    // Three times the rate from the start. The burst allowance is 150 ms.
    let first = |spec| load(spec, 333, 3000, Ecn::NotEct).log.dropped[0].0;
    assert!(first("pie") >= ms(150), "{}", first("pie"));
    assert!(first("pie") < ms(300), "{}", first("pie"));
    assert!(first("pie:burst=0s") < ms(200), "{}", first("pie:burst=0s"));
    assert!(first("pie:burst=600ms") >= ms(600), "{}", first("pie:burst=600ms"));
    // After a second without congestion the allowance is full again.
    let mut served = load("pie", 333, 3000, Ecn::NotEct);
    served.run_until(ms(20_000));
    let before = served.log.dropped.len();
    for id in 0..400 {
        served.offer(ms(20_000) + leeway_units::Duration::from_micros(id * 333), pkt(3000 + id));
    }
    assert_eq!(served.log.dropped.len(), before, "133 ms of burst");
}

#[test]
fn two_packets_may_always_wait() {
    // On a link that is slow against the reference, a single packet has a delay above it.
    let mut served =
        Served::new(build("pie:burst=0s", &context(1000)), leeway_units::Rate::from_bits_per_sec(80_000));
    for id in 0..4000 {
        served.offer(ms(id * 105), pkt(id));
        if id % 40 == 0 {
            served.offer(ms(id * 105), pkt(100_000 + id));
        }
    }
    assert!(served.log.dropped.is_empty());
}

#[test]
fn drops_are_neither_in_a_row_nor_too_far_apart() {
    // With a probability of about 4 %, RFC 8033, 5.4, gives 0.85/p to 8.5/p packets between two
    // drops.
    let served = load("pie", 960, 200_000, Ecn::NotEct);
    let late: Vec<u64> =
        served.log.dropped.iter().map(|(_, packet, _)| packet.id).filter(|id| *id > 100_000).collect();
    let gaps: Vec<u64> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(late.len() > 2000, "{}", late.len());
    assert!(*gaps.iter().min().unwrap() >= 8, "{:?}", gaps.iter().min());
    assert!(*gaps.iter().max().unwrap() <= 300, "{:?}", gaps.iter().max());
    // The early variant chooses at random each time.
    let served = load("pie:variant=early", 960, 200_000, Ecn::NotEct);
    let late: Vec<u64> =
        served.log.dropped.iter().map(|(_, packet, _)| packet.id).filter(|id| *id > 100_000).collect();
    assert!(late.windows(2).any(|pair| pair[1] - pair[0] == 1));
}

#[test]
fn capable_packets_are_marked_up_to_the_threshold() {
    // A load of 4 % above the rate. Marks help only if a sender reacts, so the probability soon
    // exceeds 10 % and drops begin.
    let served = load("pie:ecn=true", 960, 20_000, Ecn::Ect0);
    let (marked, dropped) = (served.log.marked.len(), served.drops(Reason::Early));
    assert!(marked > 10 && dropped > 10, "{marked} {dropped}");
    assert!(served.log.marked[0].0 < served.log.dropped[0].0);
    assert!(
        served.log.marked.iter().all(|(_, packet, reason)| packet.ecn == Ecn::Ce && *reason == Reason::Early)
    );
    let served = load("pie:ecn=true,ecn_max=1", 960, 20_000, Ecn::Ect0);
    assert!(served.log.dropped.is_empty());
    let served = load("pie:ecn=true", 960, 20_000, Ecn::NotEct);
    assert!(served.log.marked.is_empty() && !served.log.dropped.is_empty());
}

#[test]
fn a_full_buffer_drops_at_the_tail() {
    let mut served = Served::new(build("pie", &context(10)), MBIT8);
    for id in 0..1000 {
        served.offer(us(id * 500), pkt(id));
        assert!(served.queue.packets() <= 10);
    }
    assert!(served.drops(Reason::Tail) > 100);
}
