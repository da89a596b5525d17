//! Queues of classes: strict priority and borrowing.

mod common;

use common::{MBIT8, Pkt, Served, build, context, ms, pkt, us};
use leeway_queue::{Dequeued, Log, Queue, Reason};
use leeway_units::{Duration, Rate, Time};

#[test]
fn the_most_important_class_goes_first() {
    let mut queue = build("priority", &context(100));
    for (id, class) in [(0, 2), (1, 1), (2, 0), (3, 7), (4, 1), (5, 0)] {
        queue.enqueue(ms(0), Pkt { class, ..pkt(id) }, &mut ());
    }
    let mut order = Vec::new();
    while let Dequeued::Packet { packet, .. } = queue.dequeue(ms(0), &mut ()) {
        order.push(packet.id);
    }
    // Class 7 shares the last band with class 2.
    assert_eq!(order, [2, 5, 1, 4, 0, 3]);
}

#[test]
fn an_important_arrival_takes_a_lesser_place_in_a_full_buffer() {
    let arrivals = [(0, 1), (1, 2), (2, 2), (3, 0), (4, 2), (5, 1), (6, 0), (7, 0), (8, 0), (9, 1)];
    let run = |spec: &str| {
        let (mut queue, mut log) = (build(spec, &context(4)), Log::default());
        for (id, class) in arrivals {
            queue.enqueue(ms(0), Pkt { class, ..pkt(id) }, &mut log);
        }
        log.dropped.iter().map(|(_, packet, reason)| (packet.id, *reason)).collect::<Vec<_>>()
    };
    use Reason::{Overflow, Tail};
    assert_eq!(
        run("priority"),
        [(4, Tail), (2, Overflow), (1, Overflow), (5, Overflow), (0, Overflow), (9, Tail)]
    );
    assert_eq!(run("priority:pushout=false"), [4, 5, 6, 7, 8, 9].map(|id| (id, Tail)));
}

#[test]
fn nothing_is_pushed_out_in_vain() {
    let mut context = context(0);
    context.capacity = leeway_units::Size::Bytes(leeway_units::Bytes::new(3000));
    let (mut queue, mut log) = (build("priority", &context), Log::default());
    queue.enqueue(ms(0), Pkt { class: 0, bytes: 2000, ..pkt(0) }, &mut log);
    queue.enqueue(ms(0), Pkt { class: 2, bytes: 1000, ..pkt(1) }, &mut log);
    // 1500 bytes do not fit even without the less important packet.
    queue.enqueue(ms(0), Pkt { class: 1, bytes: 1500, ..pkt(2) }, &mut log);
    assert_eq!(log.dropped.iter().map(|(_, packet, _)| packet.id).collect::<Vec<_>>(), [2]);
    queue.enqueue(ms(0), Pkt { class: 1, bytes: 1000, ..pkt(3) }, &mut log);
    assert_eq!(log.dropped.iter().map(|(_, packet, _)| packet.id).collect::<Vec<_>>(), [2, 1]);
}

/// Loads of classes in kbit/s on a link of 8 Mbit/s. Returns the rate of each in kbit/s, from 1 s
/// to 11 s.
fn shares(spec: &str, loads: &[u64]) -> Vec<f64> {
    let mut served = Served::new(build(spec, &context(50)), MBIT8);
    let mut arrivals = Vec::new();
    for (class, &load) in loads.iter().enumerate() {
        let Some(gap) = 8_000_000u64.checked_div(load) else { continue };
        let packets = 11_000_000 / gap;
        arrivals.extend((0..packets).map(|n| (n * gap, class as u8)));
    }
    arrivals.sort_unstable();
    for (id, (at, class)) in arrivals.into_iter().enumerate() {
        served.offer(us(at), Pkt { class, ..pkt(id as u64) });
    }
    let of =
        |class| served.bytes_in(ms(1000), ms(11_000), |p: &Pkt| p.class == class) as f64 * 8.0 / 10_000.0;
    (0..loads.len() as u8).map(of).collect()
}

fn assert_shares(spec: &str, loads: &[u64], expected: &[f64]) {
    let got = shares(spec, loads);
    for (got_one, expected_one) in got.iter().zip(expected) {
        assert!(
            (got_one - expected_one).abs() <= 0.01 * 8000.0,
            "{spec} {loads:?}: {got:?}, not {expected:?}"
        );
    }
}

#[test]
fn guarantees_hold_whatever_the_others_do() {
    let spec = "borrowing:class0=5Mbit/s@1,class1=2Mbit/s@1,class2=1Mbit/s@0";
    assert_shares(spec, &[20_000, 20_000, 20_000], &[5000.0, 2000.0, 1000.0]);
    assert_shares(spec, &[4900, 20_000, 400], &[4900.0, 2700.0, 400.0]);
}

#[test]
fn unused_rate_is_lent_and_the_higher_priority_borrows_first() {
    let spec = "borrowing:class0=2Mbit/s@0,class1=2Mbit/s@1,class2=2Mbit/s@2";
    // 8 Mbit/s, 6 guaranteed: the other 2 go to class 0.
    assert_shares(spec, &[20_000, 20_000, 20_000], &[4000.0, 2000.0, 2000.0]);
    // Class 0 uses 3 Mbit/s, and the rest of the excess goes to class 1.
    assert_shares(spec, &[3000, 20_000, 20_000], &[3000.0, 3000.0, 2000.0]);
    // Class 2 alone gets everything.
    assert_shares(spec, &[0, 0, 20_000], &[0.0, 0.0, 8000.0]);
}

#[test]
fn equals_borrow_in_proportion_to_their_guarantees() {
    assert_shares("borrowing:class0=3Mbit/s,class1=1Mbit/s", &[20_000, 20_000], &[6000.0, 2000.0]);
    assert_shares("borrowing:class0=1Mbit/s,class1=1Mbit/s", &[20_000, 20_000], &[4000.0, 4000.0]);
}

#[test]
fn a_ceiling_holds_even_on_an_idle_link() {
    let spec = "borrowing:class0=1Mbit/s..3Mbit/s@0,class1=500kbit/s..500kbit/s@1";
    assert_shares(spec, &[20_000, 20_000], &[3000.0, 500.0]);
    assert_shares(spec, &[20_000, 0], &[3000.0, 0.0]);
    assert_shares(spec, &[2000, 400], &[2000.0, 400.0]);
    // A class without a guarantee gets what is left, up to its ceiling.
    let spec = "borrowing:class0=1Mbit/s@0,class1=0..2Mbit/s@1";
    assert_shares(spec, &[7000, 20_000], &[7000.0, 1000.0]);
    assert_shares(spec, &[1000, 20_000], &[1000.0, 2000.0]);
    assert_shares(spec, &[20_000, 20_000], &[8000.0, 0.0]);
}

#[test]
fn all_classes_together_keep_to_the_rate() {
    let spec = "borrowing:rate=4Mbit/s,class0=1Mbit/s@1,class1=1Mbit/s@0";
    assert_shares(spec, &[20_000, 20_000], &[1000.0, 3000.0]);
    assert_shares(spec, &[20_000, 500], &[3500.0, 500.0]);
}

#[test]
fn a_ceiling_holds_over_any_stretch_up_to_burst_and_packet() {
    let spec = "borrowing:burst=5kB,class0=1Mbit/s..2Mbit/s";
    let mut served = Served::new(build(spec, &context(1000)), MBIT8);
    for id in 0..5000u64 {
        // Bursts and pauses.
        served.offer(us(id / 100 * 700_000 + id % 100), pkt(id));
    }
    served.run_until(ms(60_000));
    let ceiling = Rate::from_bits_per_sec(2_000_000);
    for (first, from) in served.left.iter().enumerate() {
        let mut bytes = 0;
        for to in &served.left[first..(first + 40).min(served.left.len())] {
            bytes += 1000;
            let allowed = ceiling.data_in(to.at - from.at).get() + 5000 + 1000;
            assert!(bytes <= allowed, "{bytes} bytes from {} to {}", from.at, to.at);
        }
    }
    // The rate is reached: a hundred packets at 2 Mbit/s take 400 ms, less the burst.
    let spans: Vec<_> = served.left.chunks(100).map(|chunk| (chunk[99].at - chunk[0].at).micros()).collect();
    assert!(spans.iter().all(|span| (370_000..=376_000).contains(span)), "{spans:?}");
}

#[test]
fn a_queue_that_is_held_back_says_until_when() {
    let mut queue = build("borrowing:burst=0B,class0=1Mbit/s..2Mbit/s,class1=1Mbit/s..4Mbit/s", &context(10));
    let start = ms(5);
    for id in 0..3 {
        queue.enqueue(start, pkt(id), &mut ());
    }
    assert_eq!(queue.deadline(), None);
    assert!(matches!(queue.dequeue(start, &mut ()), Dequeued::Packet { .. }));
    // 1000 bytes at 2 Mbit/s.
    let free = start + Duration::from_millis(4);
    assert_eq!(queue.dequeue(ms(6), &mut ()), Dequeued::NotBefore(free));
    assert_eq!(queue.deadline(), Some(free));
    // Another class is not delayed.
    queue.enqueue(ms(6), Pkt { class: 1, ..pkt(9) }, &mut ());
    assert!(matches!(queue.dequeue(ms(6), &mut ()), Dequeued::Packet { packet, .. } if packet.id == 9));
    assert_eq!(queue.dequeue(ms(6), &mut ()), Dequeued::NotBefore(free));
    let almost = Time::from_nanos(free.nanos() - 1);
    assert_eq!(queue.dequeue(almost, &mut ()), Dequeued::NotBefore(free));
    assert!(matches!(queue.dequeue(free, &mut ()), Dequeued::Packet { packet, .. } if packet.id == 1));
}

#[test]
fn each_class_has_its_own_buffer_and_unknown_ones_join_the_last() {
    let (mut queue, mut log) =
        (build("borrowing:class1=1Mbit/s,class4=1Mbit/s", &context(3)), Log::default());
    for (id, class) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 4), (5, 0), (6, 9), (7, 2)] {
        queue.enqueue(ms(0), Pkt { class, ..pkt(id) }, &mut log);
    }
    assert_eq!(log.dropped.iter().map(|(_, packet, _)| packet.id).collect::<Vec<_>>(), [3, 7]);
    let leeway_queue::AnyQueue::Borrowing(queue) = queue else { panic!() };
    assert_eq!((queue.backlog(1), queue.backlog(4), queue.packets()), ((3, 3000), (3, 3000), 6));
}

#[test]
fn what_a_class_overdrew_stays_with_it_when_it_is_empty() {
    let mut queue = build("borrowing:class0=0,class1=0", &context(10));
    let packet = |class, bytes, id| Pkt { class, bytes, ..pkt(id) };
    let next = |queue: &mut leeway_queue::AnyQueue<Pkt>| match queue.dequeue(ms(0), &mut ()) {
        Dequeued::Packet { packet, .. } => packet.id,
        other => panic!("{other:?}"),
    };
    // Classes of equal priority with a quantum of 1500 bytes. The first class sends 4000 at once
    // and owes 2500.
    queue.enqueue(ms(0), packet(0, 4000, 0), &mut ());
    assert_eq!(next(&mut queue), 0);
    for id in 1..4 {
        queue.enqueue(ms(0), packet(0, 1000, id), &mut ());
        queue.enqueue(ms(0), packet(1, 1000, 10 + id), &mut ());
    }
    assert_eq!([next(&mut queue), next(&mut queue), next(&mut queue)], [11, 12, 1]);
}
