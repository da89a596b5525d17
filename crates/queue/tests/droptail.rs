//! Drop-tail: the limit in packets and in bytes, and order.

mod common;

use common::{Pkt, build, context, ms, pkt};
use leeway_queue::{AnyQueue, Dequeued, Log, Queue, Reason};
use leeway_units::{Bytes, Size, Time};

fn dropped(queue: &mut AnyQueue<Pkt>, sizes: &[u32]) -> Vec<u64> {
    let mut log = Log::default();
    for (id, &bytes) in sizes.iter().enumerate() {
        queue.enqueue(ms(id as u64), Pkt { bytes, ..pkt(id as u64) }, &mut log);
    }
    assert!(
        log.dropped.iter().all(|(time, packet, reason)| *time == ms(packet.id) && *reason == Reason::Tail)
    );
    log.dropped.iter().map(|(_, packet, _)| packet.id).collect()
}

#[test]
fn a_limit_in_packets_counts_packets() {
    let mut queue = build("droptail", &context(3));
    assert_eq!(dropped(&mut queue, &[1500, 1500, 40, 40, 40]), [3, 4]);
    assert_eq!((queue.packets(), queue.bytes()), (3, 3040));
    let first = queue.dequeue(ms(9), &mut ());
    assert_eq!(first, Dequeued::Packet { packet: Pkt { bytes: 1500, ..pkt(0) }, enqueued: ms(0) });
    assert!(matches!(queue.dequeue(ms(9), &mut ()), Dequeued::Packet { enqueued, .. } if enqueued == ms(1)));
    assert!(matches!(queue.dequeue(ms(9), &mut ()), Dequeued::Packet { packet, .. } if packet.id == 2));
    assert_eq!((queue.dequeue(ms(9), &mut ()), queue.packets(), queue.bytes()), (Dequeued::Empty, 0, 0));
}

#[test]
fn a_limit_in_bytes_counts_bytes() {
    let bytes = |n| {
        let mut context = context(0);
        context.capacity = Size::Bytes(Bytes::new(n));
        context
    };
    // Exactly full is allowed. A small packet fits after a large one did not.
    assert_eq!(dropped(&mut build("droptail", &bytes(3000)), &[1500, 1000, 501, 500, 1]), [2, 4]);
    assert_eq!(dropped(&mut build("droptail", &bytes(100)), &[1500, 100, 1]), [0, 2]);
}

#[test]
fn the_queue_s_own_limit_wins_and_none_is_taken_as_one() {
    assert_eq!(dropped(&mut build("droptail:limit=1pkt", &context(9)), &[1000; 3]), [1, 2]);
    assert_eq!(dropped(&mut build("droptail:limit=0pkt", &context(9)), &[1000; 3]), [1, 2]);
    assert!(dropped(&mut build("droptail:limit=unlimited", &context(9)), &[1000; 500]).is_empty());
}

#[test]
fn a_packet_passes_an_empty_queue_that_it_fits() {
    let AnyQueue::DropTail(mut queue) = build("droptail:limit=1000B", &context(0)) else { panic!() };
    assert!(queue.passes(&pkt(0)));
    assert!(!queue.passes(&Pkt { bytes: 1001, ..pkt(0) }));
    queue.enqueue(Time::ZERO, Pkt { bytes: 10, ..pkt(0) }, &mut ());
    assert!(!queue.passes(&Pkt { bytes: 10, ..pkt(1) }));
}
