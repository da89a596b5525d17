//! The central property: the times of polling change nothing. The same arrivals give the same
//! departures, drops and marks.

mod common;

use common::{Pkt, mbit, us};
use leeway_link::{Arrival, LinkSpec, Rates, Service, Trace};
use leeway_queue::{Ecn, Log, Queue};
use leeway_units::{Duration, Size, Time};
use proptest::prelude::*;
use std::sync::Arc;

const QUEUES: &[&str] = &[
    "droptail",
    "droptail:limit=6000B",
    "red:min=1pkt,max=5pkt,weight=0.3,max_p=0.3,ecn=true",
    "codel:target=1ms,interval=5ms",
    "codel:target=1ms,interval=5ms,variant=2012,ecn=true",
    "pie:burst=0s,target=1ms,update=1ms,ecn=true",
    "pie:variant=early,burst=2ms,target=1ms,update=700us,threshold=2kB",
    "sfq:buckets=3,perturb=3ms",
    "sfq:variant=ns2,buckets=4",
    "fq_codel:target=1ms,interval=3ms,flows=3",
    "drr:queues=3,quantum=500B",
    "priority",
    "borrowing:class0=2Mbit/s@0,class1=1Mbit/s..3Mbit/s@1,class2=0..500kbit/s@1",
    "borrowing:rate=4Mbit/s,burst=0B,class0=2Mbit/s..3Mbit/s@1,class1=1Mbit/s@0",
];

const CHANNELS: &[(Option<&str>, Option<&str>)] = &[
    (None, None),
    (Some("random:p=20%"), None),
    (Some("gilbert_elliott:p=10%,r=40%"), None),
    (Some("random:p=40%"), Some("tries=3,delay=1500us")),
    (Some("gilbert_elliott:p=20%,r=30%,h=10%"), Some("tries=2,delay=0s")),
];

const JITTERS: &[Option<&str>] = &[
    None,
    Some("uniform:range=3ms"),
    Some("uniform:range=3ms,reorder=true"),
    Some("normal:deviation=1ms,reorder=true"),
    Some("exponential:mean=2ms"),
];

/// Actions on a link from outside.
#[derive(Debug, Clone)]
enum Action {
    Offer(Pkt),
    SetRate(u64),
    SetDelay(u64),
    /// Polls until no event is due, which must have no effect.
    Poll,
    /// Polls once only.
    PollOnce,
}

fn actions() -> impl Strategy<Value = Vec<(Time, Action)>> {
    let gap = prop_oneof![Just(0u64), 0..300u64, 0..2500u64, Just(1000u64), Just(25_000u64)];
    let bytes = prop_oneof![Just(1000u32), 40..1500u32, Just(1504u32)];
    let offer = (bytes, 0..5u32, 0..4u8, any::<bool>()).prop_map(|(bytes, flow, class, capable)| {
        let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
        Action::Offer(Pkt { id: 0, bytes, flow, class, ecn })
    });
    let action = prop_oneof![
        12 => offer,
        1 => prop_oneof![Just(0u64), 100..20_000u64].prop_map(Action::SetRate),
        1 => (0..9000u64).prop_map(Action::SetDelay),
        4 => Just(Action::Poll),
        4 => Just(Action::PollOnce),
    ];
    proptest::collection::vec((gap, action), 1..150).prop_map(|list| {
        let mut now = 0;
        let number = |(id, (gap, action)): (usize, (u64, Action))| {
            now += gap;
            let action = match action {
                Action::Offer(packet) => Action::Offer(Pkt { id: id as u64, ..packet }),
                other => other,
            };
            (us(now), action)
        };
        list.into_iter().enumerate().map(number).collect()
    })
}

fn services() -> impl Strategy<Value = Service> {
    let stamps = proptest::collection::vec(0..12u64, 1..8).prop_filter_map("needs time", |mut stamps| {
        stamps.sort_unstable();
        Trace::from_millis(&stamps).ok()
    });
    let changes = proptest::collection::vec((0..60u64, prop_oneof![Just(0u64), 1..16u64]), 0..5);
    prop_oneof![
        Just(Service::Rates(mbit(8).into())),
        changes.prop_map(|changes| {
            let mut changes: Vec<_> =
                changes.into_iter().map(|(at, rate)| (common::ms(at), mbit(rate))).collect();
            changes.sort_by_key(|&(at, _)| at);
            // The rate must not end at zero, or packets stay for ever.
            changes.push((common::ms(70), mbit(5)));
            Service::Rates(Rates { first: mbit(8), changes })
        }),
        stamps.prop_map(|trace| Service::Trace(Arc::new(trace))),
    ]
}

#[derive(Debug, PartialEq)]
struct Outcome {
    arrivals: Vec<Arrival<Pkt>>,
    log: Log<Pkt>,
}

/// Plays the actions. With `exact`, each event is polled at its own time. Otherwise the link is
/// polled only by the actions, and late at the end.
fn play(spec: &LinkSpec, actions: &[(Time, Action)], end: Time, exact: bool) -> Outcome {
    let (mut link, mut log, mut arrivals) = (spec.build::<Pkt>(7), Log::default(), Vec::new());
    for (now, action) in actions {
        if exact {
            while let Some(time) = link.next().filter(|time| time <= now) {
                arrivals.extend(link.poll(time, &mut log));
            }
        }
        match action {
            Action::Offer(packet) => link.offer(*now, packet.clone(), &mut log),
            Action::SetRate(kbit) => {
                link.set_rate(*now, leeway_units::Rate::from_bits_per_sec(kbit * 1000));
            }
            Action::SetDelay(delay) => link.set_delay(*now, Duration::from_micros(*delay), &mut log),
            Action::Poll if !exact => {
                while let Some(arrival) = link.poll(*now, &mut log) {
                    assert!(arrival.at <= *now);
                    arrivals.push(arrival);
                }
                assert!(link.next().is_none_or(|next| next > *now));
            }
            Action::PollOnce if !exact => arrivals.extend(link.poll(*now, &mut log)),
            Action::Poll | Action::PollOnce => {}
        }
    }
    link.set_rate(end, mbit(3));
    let late = end + Duration::from_secs(1000);
    if exact {
        while let Some(time) = link.next().filter(|&time| time <= late) {
            arrivals.extend(link.poll(time, &mut log));
        }
    }
    while let Some(arrival) = link.poll(late, &mut log) {
        assert!(!exact);
        arrivals.push(arrival);
    }
    assert_eq!((link.next(), link.flying(), link.transmitter().queue().packets()), (None, 0, 0));
    assert!(!link.transmitter().is_busy());
    Outcome { arrivals, log }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn polling_changes_nothing(actions in actions(), service in services(), jitter in 0..JITTERS.len()) {
        let end = actions.last().map_or(Time::ZERO, |(now, _)| *now);
        for queue in QUEUES {
            for (loss, arq) in CHANNELS {
                let mut spec = LinkSpec::new(service.rate(), Size::Packets(8));
                spec.service = service.clone();
                spec.queue = queue.parse().unwrap();
                spec.delay = Duration::from_millis(4);
                spec.jitter = JITTERS[jitter].map(|text| text.parse().unwrap());
                spec.loss = loss.map(|text| text.parse().unwrap());
                spec.arq = arq.map(|text| text.parse().unwrap());
                spec.mean_packet = 1000;
                let exact = play(&spec, &actions, end, true);
                let loose = play(&spec, &actions, end, false);
                let never_polled: Vec<_> = actions
                    .iter()
                    .filter(|(_, action)| !matches!(action, Action::Poll | Action::PollOnce))
                    .cloned()
                    .collect();
                let late = play(&spec, &never_polled, end, false);
                prop_assert_eq!(&exact, &loose, "{} {:?} {:?}", queue, loss, arq);
                prop_assert_eq!(&exact, &late, "{} {:?} {:?}", queue, loss, arq);

                // Each packet arrived or was dropped, once, and times are in order.
                let offered: Vec<u64> = actions.iter().filter_map(|(_, action)| match action {
                    Action::Offer(packet) => Some(packet.id),
                    _ => None,
                }).collect();
                let mut seen: Vec<u64> = exact.arrivals.iter().map(|arrival| arrival.packet.id).collect();
                seen.extend(exact.log.dropped.iter().map(|(_, packet, _)| packet.id));
                seen.sort_unstable();
                prop_assert_eq!(seen, offered);
                prop_assert!(exact.arrivals.is_sorted_by_key(|arrival| arrival.at));
                prop_assert!(exact.log.dropped.is_sorted_by_key(|(time, _, _)| *time));
                for arrival in &exact.arrivals {
                    prop_assert!(arrival.enqueued <= arrival.sent && arrival.sent <= arrival.at);
                }
            }
        }
    }
}
