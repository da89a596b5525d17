//! Fair queues: SFQ, FQ-CoDel and DRR by bytes, sparse flows, buffer limits and changing hashes.

mod common;

use common::{MBIT8, Pkt, Served, build, context, ms, pkt, us};
use leeway_queue::{Dequeued, Log, Queue, Reason};
use leeway_units::{Duration, Size};

/// Flow 1 sends large packets at twice the link's rate, flow 2 small ones at the link's rate.
fn contest(spec: &str) -> (u64, u64) {
    let mut served = Served::new(build(spec, &context(60)), MBIT8);
    for n in 0..40_000 {
        served.offer(us(n * 500), Pkt { bytes: 1000, flow: 1, class: 0, ..pkt(2 * n) });
        if n % 2 == 0 {
            for _ in 0..4 {
                served.offer(us(n * 500), Pkt { bytes: 250, flow: 2, class: 1, ..pkt(2 * n + 1) });
            }
        }
    }
    (
        served.bytes_in(ms(1000), ms(20_000), |p| p.flow == 1),
        served.bytes_in(ms(1000), ms(20_000), |p| p.flow == 2),
    )
}

#[test]
fn flows_share_by_bytes() {
    for spec in [
        "sfq:quantum=1000B",
        "fq_codel:ecn=false",
        "fq_codel:quantum=300B",
        "drr",
        "drr:quantum=300B",
        "drr:by=class",
    ] {
        let (large, small) = contest(spec);
        assert!((18_998_000..=19_002_000).contains(&(large + small)), "{spec} keeps the link busy");
        let ratio = large as f64 / small as f64;
        assert!((0.97..1.03).contains(&ratio), "{spec}: {ratio}");
    }
    // ns-2's rounds count packets, so bytes are in proportion to the packet length.
    let (large, small) = contest("sfq:variant=ns2");
    assert!((3.8..4.2).contains(&(large as f64 / small as f64)), "{large} {small}");
    // Drop-tail shares in proportion to the load.
    let (large, small) = contest("droptail");
    assert!(large as f64 / small as f64 > 1.5, "{large} {small}");
}

#[test]
fn quanta_of_classes_set_their_shares() {
    for (spec, expected) in [
        ("drr:by=class,class0=3000B,class1=1500B", 2.0),
        ("drr:by=class,class0=1000B,class1=4000B", 0.25),
        ("drr:by=class,quantum=6000B,class1=1000B", 6.0),
    ] {
        let mut served = Served::new(build(spec, &context(200)), MBIT8);
        for n in 0..20_000 {
            served.offer(us(n * 500), Pkt { class: 0, bytes: 900, ..pkt(n) });
            served.offer(us(n * 500), Pkt { class: 1, bytes: 700, ..pkt(n) });
        }
        let bytes = |class| served.bytes_in(ms(1000), ms(9000), |p: &Pkt| p.class == class) as f64;
        let ratio = bytes(0) / bytes(1);
        assert!((ratio / expected - 1.0).abs() < 0.03, "{spec}: {ratio}");
    }
}

#[test]
fn a_deficit_is_carried_over_and_lost_when_empty() {
    let mut queue = build("drr:by=class,quantum=500B", &context(100));
    for id in 0..3 {
        queue.enqueue(ms(0), Pkt { class: 0, bytes: 700, ..pkt(id) }, &mut ());
    }
    for id in 10..16 {
        queue.enqueue(ms(0), Pkt { class: 1, bytes: 250, ..pkt(id) }, &mut ());
    }
    let mut order = Vec::new();
    while let Dequeued::Packet { packet, .. } = queue.dequeue(ms(0), &mut ()) {
        order.push(packet.id);
    }
    // Class 0 saves 500, sends 700 of 1000, saves 300 + 500, sends 700 of 800, then 100 + 500 +
    // 500.
    assert_eq!(order, [10, 11, 0, 12, 13, 1, 14, 15, 2]);
    // The rest of the deficit is gone, so the class waits for a second round again.
    queue.enqueue(ms(0), Pkt { class: 0, bytes: 900, ..pkt(20) }, &mut ());
    queue.enqueue(ms(0), Pkt { class: 1, bytes: 500, ..pkt(21) }, &mut ());
    assert!(matches!(queue.dequeue(ms(0), &mut ()), Dequeued::Packet { packet, .. } if packet.id == 21));
}

/// Longest wait of packets of flow 9, one every 50 ms, beside three flows that fill the buffer, in
/// microseconds.
fn sparse(spec: &str) -> (u64, usize) {
    let mut served = Served::new(build(spec, &context(90)), MBIT8);
    for n in 0..20_000 {
        for flow in 1..=3 {
            served.offer(us(n * 500), Pkt { flow, ..pkt(n) });
        }
        if n % 100 == 0 {
            served.offer(us(n * 500), Pkt { flow: 9, bytes: 200, ..pkt(n) });
        }
    }
    // At the start all flows are new.
    let own = served.left.iter().filter(|left| left.packet.flow == 9 && left.at > ms(100));
    let dropped = served.log.dropped.iter().filter(|(_, packet, _)| packet.flow == 9).count();
    (own.map(|left| left.sojourn().micros()).max().unwrap_or(0), dropped)
}

#[test]
fn sparse_flows_hardly_wait() {
    // New flows first (RFC 8290, 4.2): only the packet in service comes before.
    let (wait, dropped) = sparse("fq_codel:ecn=false");
    assert!(wait <= 1000 && dropped == 0, "{wait} {dropped}");
    // One round of the other flows.
    for spec in ["sfq", "drr:quantum=1000B"] {
        let (wait, dropped) = sparse(spec);
        assert!((1001..=6000).contains(&wait) && dropped == 0, "{spec}: {wait} {dropped}");
    }
    assert!(sparse("droptail").1 > 100, "a full buffer has no room for it");
}

#[test]
fn an_emptied_new_flow_becomes_old_and_cannot_jump_again() {
    let mut queue = build("fq_codel:quantum=1000B", &context(100));
    let next = |queue: &mut leeway_queue::AnyQueue<Pkt>| match queue.dequeue(ms(0), &mut ()) {
        Dequeued::Packet { packet, .. } => (packet.flow, packet.id),
        other => panic!("{other:?}"),
    };
    for id in 0..6 {
        queue.enqueue(ms(0), Pkt { flow: 1, ..pkt(id) }, &mut ());
    }
    // Flow 1 uses up its quantum and becomes old.
    assert_eq!(next(&mut queue), (1, 0));
    queue.enqueue(ms(0), Pkt { flow: 2, bytes: 100, ..pkt(10) }, &mut ());
    assert_eq!(next(&mut queue), (2, 10));
    // Flow 2 sends again before its queue was found empty. It is still new, with 900 bytes of its
    // quantum.
    queue.enqueue(ms(0), Pkt { flow: 2, bytes: 900, ..pkt(11) }, &mut ());
    assert_eq!(next(&mut queue), (2, 11));
    // The quantum is used up, so flow 2 goes behind flow 1.
    queue.enqueue(ms(0), Pkt { flow: 2, bytes: 100, ..pkt(12) }, &mut ());
    assert_eq!(next(&mut queue), (1, 1));
    assert_eq!(next(&mut queue), (2, 12));
    assert_eq!(next(&mut queue), (1, 2));
    // Meanwhile flow 2 was found empty among the old flows. So it left the list, and is new again.
    assert_eq!(next(&mut queue), (1, 3));
    queue.enqueue(ms(0), Pkt { flow: 2, bytes: 100, ..pkt(13) }, &mut ());
    assert_eq!(next(&mut queue), (2, 13));
}

#[test]
fn each_flow_has_its_own_codel() {
    // Flow 1 overloads the link. Flow 2 uses a tenth of it.
    let mut served = Served::new(build("fq_codel:ecn=false", &context(100_000)), MBIT8);
    for n in 0..10_000 {
        served.offer(us(n * 500), Pkt { flow: 1, ..pkt(n) });
        if n % 20 == 0 {
            served.offer(us(n * 500), Pkt { flow: 2, ..pkt(n) });
        }
    }
    assert!(served.drops(Reason::Aqm) > 100);
    assert!(served.log.dropped.iter().all(|(_, packet, _)| packet.flow == 1));
}

#[test]
fn fq_codel_takes_half_of_the_fattest_flow() {
    let full = |spec: &str, fat: u64| {
        let (mut queue, mut log) = (build(spec, &context(200)), Log::default());
        for id in 0..fat {
            queue.enqueue(ms(0), Pkt { flow: 1, ..pkt(id) }, &mut log);
        }
        for id in fat..201 {
            queue.enqueue(ms(0), Pkt { flow: 2 + id as u32, bytes: 400, ..pkt(id) }, &mut log);
        }
        assert!(
            log.dropped.iter().all(|(_, packet, reason)| packet.flow == 1 && *reason == Reason::Overflow)
        );
        log.dropped.iter().map(|(_, packet, _)| packet.id).collect::<Vec<_>>()
    };
    // From the head: half of 100 kB.
    assert_eq!(full("fq_codel", 100), (0..50).collect::<Vec<_>>());
    assert_eq!(full("fq_codel:batch=7", 100), (0..7).collect::<Vec<_>>());
    // At most 64 at once.
    assert_eq!(full("fq_codel", 180), (0..64).collect::<Vec<_>>());
}

#[test]
fn defaults_without_a_buffer_are_those_of_the_originals() {
    let holds = |spec: &str, flows: u32| {
        let mut unlimited = context(0);
        unlimited.capacity = Size::Unlimited;
        let mut queue = build(spec, &unlimited);
        for id in 0..30_000 {
            queue.enqueue(ms(0), Pkt { flow: id as u32 % flows, ..pkt(id) }, &mut ());
        }
        queue.packets()
    };
    assert_eq!(holds("sfq", 1), 127);
    assert_eq!(holds("sfq", 50), 127);
    assert_eq!(holds("sfq:limit=unlimited", 1), 127, "the depth of one queue");
    assert!(holds("sfq:limit=unlimited", 50) > 4000);
    assert!((10_000..=10_240).contains(&holds("fq_codel", 200)));
    assert_eq!(holds("drr", 7), 30_000);
    // ns-2: a flow alone stops at half of the rest of 40 packets.
    assert_eq!(holds("sfq:variant=ns2", 1), 13);
    assert!((33..=40).contains(&holds("sfq:variant=ns2", 300)), "{}", holds("sfq:variant=ns2", 300));
}

#[test]
fn the_longest_queue_gives_way_to_a_newcomer() {
    for spec in ["sfq", "drr"] {
        let (mut queue, mut log) = (build(spec, &context(20)), Log::default());
        for id in 0..20 {
            queue.enqueue(ms(0), Pkt { flow: if id < 14 { 1 } else { 2 }, ..pkt(id) }, &mut log);
        }
        queue.enqueue(ms(0), Pkt { flow: 3, ..pkt(20) }, &mut log);
        queue.enqueue(ms(0), Pkt { flow: 1, ..pkt(21) }, &mut log);
        let dropped: Vec<_> = log.dropped.iter().map(|(_, packet, reason)| (packet.id, *reason)).collect();
        assert_eq!(dropped, [(13, Reason::Overflow), (21, Reason::Tail)], "{spec}");
    }
}

#[test]
fn the_hash_changes_every_ten_seconds() {
    // With two queues, the order of service shows which of forty flows share one.
    let order = |spec: &str, at: u64| {
        let mut queue = build(spec, &context(100));
        for id in 0..40 {
            queue.enqueue(ms(at), Pkt { flow: id as u32, ..pkt(id) }, &mut ());
        }
        let mut order = Vec::new();
        while let Dequeued::Packet { packet, .. } = queue.dequeue(ms(at), &mut ()) {
            order.push(packet.id);
        }
        order
    };
    let sfq = "sfq:buckets=2";
    assert_eq!(order(sfq, 0), order(sfq, 9_999));
    assert_ne!(order(sfq, 0), order(sfq, 10_000));
    assert_eq!(order(sfq, 10_000), order(sfq, 19_999));
    assert_ne!(order(sfq, 10_000), order(sfq, 20_000));
    let fixed = "sfq:buckets=2,perturb=0s";
    assert_eq!(order(fixed, 0), order(fixed, 100_000));
    let ns2 = "sfq:buckets=2,variant=ns2,limit=200pkt";
    assert_eq!(order(ns2, 0), order(ns2, 100_000));

    // Waiting packets move to the new queues in order, and none is lost.
    let mut queue = build(sfq, &context(100));
    for id in 0..40 {
        queue.enqueue(ms(9_000) + Duration::from_millis(id), Pkt { flow: id as u32 % 8, ..pkt(id) }, &mut ());
    }
    let mut last = [None; 8];
    let mut count = 0;
    while let Dequeued::Packet { packet, .. } = queue.dequeue(ms(10_500), &mut ()) {
        let before = last[packet.flow as usize].replace(packet.id);
        assert!(before < Some(packet.id));
        count += 1;
    }
    assert_eq!((count, queue.bytes()), (40, 0));
}

#[test]
fn a_deficit_is_lost_when_the_last_packet_gives_way() {
    let (mut queue, mut log) = (build("drr:by=class,quantum=500B,limit=2000B", &context(0)), Log::default());
    let packet = |class, bytes, id| Pkt { class, bytes, ..pkt(id) };
    let next = |queue: &mut leeway_queue::AnyQueue<Pkt>| match queue.dequeue(ms(0), &mut ()) {
        Dequeued::Packet { packet, .. } => packet.id,
        other => panic!("{other:?}"),
    };
    queue.enqueue(ms(0), packet(0, 1400, 0), &mut log);
    queue.enqueue(ms(0), packet(1, 250, 1), &mut log);
    // Class 0 saves a quantum. Then its packet is dropped for one of class 1.
    assert_eq!(next(&mut queue), 1);
    queue.enqueue(ms(0), packet(1, 1000, 2), &mut log);
    assert_eq!(log.dropped, [(ms(0), packet(0, 1400, 0), Reason::Overflow)]);
    // Class 0 starts from 0 again: 600 bytes need two rounds, as do the 1000 before them.
    queue.enqueue(ms(0), packet(0, 600, 3), &mut log);
    assert_eq!(next(&mut queue), 2);
    assert_eq!(next(&mut queue), 3);
}
