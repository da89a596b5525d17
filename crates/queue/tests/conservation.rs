//! Properties of every discipline: no packet is lost or made up, counters are right, limits hold,
//! flows keep their order, and the same seed gives the same outcome.

mod common;

use common::{ALL, Pkt, Served, build, context, us};
use leeway_queue::{Ecn, Queue};
use leeway_units::Size;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn arrivals() -> impl Strategy<Value = Vec<(u64, Pkt)>> {
    let gap = prop_oneof![Just(0u64), 0..400u64, 0..3000u64, Just(30_000u64)];
    let bytes = prop_oneof![Just(1000u32), 40..1500u32];
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0)];
    let packet = (gap, bytes, 0..6u32, 0..4u8, ecn);
    proptest::collection::vec(packet, 1..300).prop_map(|list| {
        let mut now = 0;
        let number = |(id, (gap, bytes, flow, class, ecn))| {
            now += gap;
            // A flow has one class, so it has one path through every discipline.
            let class = if flow < 4 { flow as u8 } else { class };
            let flow = if flow < 4 { flow } else { 4 + u32::from(class) };
            (now, Pkt { id: id as u64, bytes, flow, class, ecn })
        };
        list.into_iter().enumerate().map(number).collect()
    })
}

fn run(spec: &str, seed: u64, arrivals: &[(u64, Pkt)]) -> Served {
    let mut context = context(12);
    context.seed = seed;
    let mut served = Served::new(build(spec, &context), common::MBIT8);
    for (now, packet) in arrivals {
        served.offer(us(*now), packet.clone());
        let waiting = served.queue.packets();
        assert!(waiting <= 12 || spec.contains("limit") || spec.contains("borrowing"), "{spec}: {waiting}");
    }
    served
}

fn check(spec: &str, seed: u64, arrivals: &[(u64, Pkt)]) -> Result<(), TestCaseError> {
    let mut served = run(spec, seed, arrivals);
    let end = arrivals.last().map_or(0, |(now, _)| *now);

    // At half time, each offered packet has left, was dropped, or waits.
    let count = |served: &Served| {
        let bytes = |packets: &mut dyn Iterator<Item = u32>| packets.map(u64::from).sum::<u64>();
        let left = bytes(&mut served.left.iter().map(|left| left.packet.bytes));
        let dropped = bytes(&mut served.log.dropped.iter().map(|(_, packet, _)| packet.bytes));
        (
            served.left.len() + served.log.dropped.len() + served.queue.packets(),
            left + dropped + served.queue.bytes(),
        )
    };
    let offered = (arrivals.len(), arrivals.iter().map(|(_, packet)| u64::from(packet.bytes)).sum::<u64>());
    prop_assert_eq!(count(&served), offered, "{}", spec);

    // At the end no packet waits, and each came out once.
    served.run_until(us(end + 1_000_000_000));
    prop_assert_eq!(count(&served), offered, "{}", spec);
    prop_assert_eq!((served.queue.packets(), served.queue.bytes()), (0, 0), "{}", spec);
    prop_assert_eq!(served.queue.deadline(), None);
    let mut ids: Vec<u64> = served.left.iter().map(|left| left.packet.id).collect();
    ids.extend(served.log.dropped.iter().map(|(_, packet, _)| packet.id));
    ids.sort_unstable();
    prop_assert_eq!(ids, (0..arrivals.len() as u64).collect::<Vec<_>>(), "{}", spec);

    // A flow keeps its order, each packet keeps its time of entry, and only capable packets are
    // marked.
    let mut last = BTreeMap::new();
    for left in &served.left {
        let before = last.insert(left.packet.flow, left.packet.id);
        prop_assert!(before.is_none_or(|before| before < left.packet.id), "{}: reordered", spec);
        let (entered, packet) = &arrivals[left.packet.id as usize];
        prop_assert_eq!(left.enqueued, us(*entered));
        let marked = served.log.marked.iter().any(|(_, marked, _)| marked.id == packet.id);
        let expected = if marked { Ecn::Ce } else { packet.ecn };
        prop_assert_eq!(left.packet.ecn, expected, "{}", spec);
        prop_assert!(
            !marked || packet.ecn.is_capable() && spec.contains("codel") || spec.contains("ecn=true")
        );
    }

    // The same seed gives the same outcome.
    let mut again = run(spec, seed, arrivals);
    again.run_until(us(end + 1_000_000_000));
    prop_assert_eq!(&again.left, &served.left);
    prop_assert_eq!(&again.log, &served.log);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_discipline_conserves_packets(arrivals in arrivals(), seed in any::<u64>()) {
        for spec in ALL {
            check(spec, seed, &arrivals)?;
        }
    }
}

#[test]
fn a_limit_in_bytes_holds_everywhere() {
    for spec in ALL.iter().filter(|spec| !spec.contains("limit")) {
        let mut context = context(0);
        context.capacity = Size::Bytes(leeway_units::Bytes::new(5_000));
        let mut served = Served::new(build(spec, &context), common::MBIT8);
        for id in 0..200 {
            let packet = Pkt { bytes: 300 + (id as u32 * 37) % 900, ..common::pkt(id) };
            served.offer(us(id * 500), packet);
            assert!(served.queue.bytes() <= 5_000, "{spec}: {}", served.queue.bytes());
        }
        assert!(!served.log.dropped.is_empty(), "{spec}");
    }
}
