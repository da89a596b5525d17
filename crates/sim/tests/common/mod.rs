//! Strategies for small, random, valid scenarios.

use leeway_sim::scenario::*;
use leeway_units::{Bytes, Duration, Rate, Size, Time};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn ms(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn at(range: std::ops::Range<u64>) -> impl Strategy<Value = Time> {
    range.prop_map(Time::from_millis)
}

fn spread<T: Quantity + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + Clone + 'static,
) -> impl Strategy<Value = Dist<T>> {
    let pareto = |mean: bool| {
        move |(value, shape): (T, u32)| {
            let (min, mean) = if mean { (None, Some(value)) } else { (Some(value), None) };
            Dist::Drawn(Spread::Pareto(Pareto { min, mean, shape: f64::from(shape) / 8.0 }))
        }
    };
    prop_oneof![
        value.clone().prop_map(Dist::Constant),
        (value.clone(), value.clone()).prop_map(|(a, b)| {
            let (low, high) = if a.base() <= b.base() { (a, b) } else { (b, a) };
            Dist::Drawn(Spread::Uniform([low, high]))
        }),
        value.clone().prop_map(|mean| Dist::Drawn(Spread::Exponential(mean))),
        (value.clone(), 9u32..40).prop_map(pareto(true)),
        (value, 9u32..40).prop_map(pareto(false)),
    ]
}

fn bytes() -> impl Strategy<Value = Bytes> + Clone {
    (1u64..200_000).prop_map(Bytes::new)
}

fn rate() -> impl Strategy<Value = Rate> + Clone {
    (50u64..20_000).prop_map(|kbit| Rate::from_bits_per_sec(kbit * 1000))
}

fn buffer() -> impl Strategy<Value = Size> {
    prop_oneof![
        (1u32..200).prop_map(Size::Packets),
        (1_500u64..300_000).prop_map(|n| Size::Bytes(Bytes::new(n))),
        (1u64..3_000_000).prop_map(Size::Bdp),
        Just(Size::Unlimited),
    ]
}

fn channel() -> impl Strategy<Value = Channel> {
    let rates = vec(rate(), 1..4).prop_map(|rates| {
        let at = |i: usize| Time::from_millis(700 * i as u64);
        rates.into_iter().enumerate().map(|(i, rate)| RateChange { at: at(i), rate }).collect::<Vec<_>>()
    });
    let speed = prop_oneof![3 => rate().prop_map(|rate| (Some(rate), Vec::new())), 1 => rates.prop_map(|r| (None, r))];
    let names: Vec<&str> = leeway_queue::disciplines().iter().map(|queue| queue.name).collect();
    let queue =
        proptest::sample::select(names).prop_map(|name| name.parse().expect("a name with its defaults"));
    let losses = ["random:p=1%", "gilbert_elliott:p=1%,r=30%"];
    let loss = proptest::sample::select(losses.to_vec()).prop_map(|text| text.parse().expect("a loss model"));
    let jitter = Just("uniform:range=5ms".parse().expect("a jitter"));
    let arq = Just("tries=2,delay=10ms".parse().expect("a retransmission"));
    (
        speed,
        ms(0..150),
        buffer(),
        queue,
        option::weighted(0.2, loss),
        option::weighted(0.2, jitter),
        option::weighted(0.2, arq),
    )
        .prop_map(|((rate, rates), delay, buffer, queue, loss, jitter, arq)| Channel {
            rate,
            rates,
            trace: None,
            delay,
            jitter,
            buffer,
            queue,
            loss,
            arq,
        })
}

fn app() -> impl Strategy<Value = App> {
    let span = || ms(1..500).boxed();
    prop_oneof![
        3 => Just(App::Bulk),
        1 => (spread(bytes()), 1u32..20, ms(0..200)).prop_map(|(size, count, gap)| App::Transfer { size, count, gap }),
        1 => (spread(span()), spread(span())).prop_map(|(on, off)| App::OnOff { on, off }),
        1 => (1u32..40, spread(bytes())).prop_map(|(n, size)| App::Poisson { arrivals_per_s: f64::from(n) / 4.0, size }),
        1 => (spread(bytes()), (1u64..500).prop_map(Bytes::new), spread(span()))
            .prop_map(|(size, request, think)| App::Request { size, request, think }),
        1 => prop_oneof![Just(Codec::G711), Just(Codec::G729)].prop_map(|codec| App::Voice { codec }),
    ]
}

fn tcp() -> impl Strategy<Value = TcpOptions> {
    let delayed = prop_oneof![
        Just(AckPolicy(None)),
        (1u32..4, ms(1..200)).prop_map(|(every, timeout)| AckPolicy(Some(DelayedAck { every, timeout }))),
    ];
    let window = prop_oneof![(2u32..1000).prop_map(Size::Packets), Just(Size::Unlimited)];
    let flags = (
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
        option::of(any::<bool>()),
    );
    (
        flags,
        option::of(1u32..20),
        option::of(delayed),
        option::of(window),
        option::of(ms(10..500)),
        option::of(ms(0..20)),
    )
        .prop_map(
            |(
                (sack, ecn, pacing, one_way_delay),
                initial_window,
                delayed_ack,
                receive_window,
                min_rto,
                resolution,
            )| {
                let mut tcp = TcpOptions::default();
                tcp.sack = sack;
                tcp.ecn = ecn;
                tcp.pacing = pacing;
                tcp.one_way_delay = one_way_delay;
                tcp.initial_window = initial_window;
                tcp.delayed_ack = delayed_ack;
                tcp.receive_window = receive_window;
                tcp.min_rto = min_rto;
                tcp.timestamp_resolution = resolution;
                tcp
            },
        )
}

fn clock() -> impl Strategy<Value = Clock> {
    (-5_000_000_000i64..5_000_000_000, -200i32..200).prop_map(|(offset, skew)| Clock {
        offset: Offset::from_nanos(offset),
        skew_ppm: f64::from(skew) / 2.0,
    })
}

fn group() -> impl Strategy<Value = FlowGroup> {
    let names: Vec<&str> = leeway_control::laws().iter().map(|law| law.name).collect();
    let law =
        proptest::sample::select(names).prop_map(|name| name.parse().expect("a name with its defaults"));
    let role = prop_oneof![Just(Role::Primary), Just(Role::Background)];
    let access = (option::weighted(0.2, spread(ms(1..100).boxed())), option::weighted(0.2, rate()));
    let clocks = (option::weighted(0.3, clock()), option::weighted(0.3, clock()));
    let backward = any::<bool>();
    (
        1u32..4,
        law,
        role,
        option::weighted(0.7, spread(at(0..900).boxed())),
        ms(0..300),
        app(),
        (600u64..1600),
        access,
        clocks,
        tcp(),
        backward,
    )
        .prop_map(
            |(
                count,
                law,
                role,
                start,
                stagger,
                app,
                packet,
                (access_delay, access_rate),
                clocks,
                tcp,
                backward,
            )| FlowGroup {
                name: String::new(),
                count,
                role,
                law,
                gateway: None,
                flows_per_user: 1,
                from: backward.then(|| "right".to_owned()),
                to: backward.then(|| "left".to_owned()),
                via: Vec::new(),
                start,
                stagger,
                stop: None,
                intervals: Vec::new(),
                app,
                packet: Bytes::new(packet),
                header: Bytes::new(40),
                class: count as u8 - 1,
                access_delay,
                access_rate,
                sender_clock: clocks.0.unwrap_or_default(),
                receiver_clock: clocks.1.unwrap_or_default(),
                tcp,
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    (at(0..1000), ms(0..200)).prop_map(|(at, delay)| Event {
        at,
        link: "bottleneck".into(),
        direction: Direction::Forward,
        rate: None,
        delay: Some(delay),
        loss: None,
    })
}

fn swarm() -> impl Strategy<Value = Swarm> {
    (1u32..30, 1u64..5, 1u64..20_000, 1u32..5, 1u32..12).prop_map(
        |(pieces, blocks, block, neighbours, requests)| Swarm {
            pieces,
            piece: Bytes::new(blocks * block),
            block: Bytes::new(block),
            neighbours,
            requests,
        },
    )
}

/// A valid scenario of a few seconds, with a few flows and one bottleneck.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    let sampling = prop_oneof![ms(5..500).prop_map(Sampling::Every), Just(Sampling::Event)];
    let topology = (channel(), channel());
    let rest = (
        option::weighted(0.3, sampling),
        vec(event(), 0..3),
        any::<bool>(),
        any::<bool>(),
        option::weighted(0.3, swarm()),
    );
    (1_000u64..4_000, 1u64..1 << 40, topology, vec(group(), 1..4), rest).prop_map(
        |(length, seed, (bottleneck, reverse), mut flow, (every, event, ns2, baseline, swarm))| {
            if swarm.is_some() {
                flow[0].app = App::Peer { seed: true, slots: 4, stay: None };
                flow[0].intervals.clear();
                flow[0].access_rate = None;
                let leech = App::Peer { seed: false, slots: 1, stay: Some(Duration::from_millis(300)) };
                flow.push(FlowGroup { count: 3, app: leech, ..flow[0].clone() });
            }
            for (i, group) in flow.iter_mut().enumerate() {
                group.name = format!("group {i}");
            }
            let primary = flow.iter().filter(|group| group.role.is_primary()).count();
            Scenario {
                title: "random \"one\" \\ ü".into(),
                description: String::new(),
                duration: Duration::from_millis(length),
                seed,
                repetitions: 1,
                profile: if ns2 { Profile::Ns2 } else { Profile::Linux },
                baseline: baseline && primary > 0 && primary < flow.len(),
                dumbbell: Some(Dumbbell { bottleneck, reverse: Some(reverse) }),
                link: Vec::new(),
                gateway: Vec::new(),
                swarm,
                flow,
                event,
                window: vec![Window { name: "first".into(), from: Time::ZERO, to: Time::from_millis(500) }],
                series: every.map(|every| Series { every }),
                sweep: Sweep::default(),
            }
        },
    )
}
