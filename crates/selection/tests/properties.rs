//! What holds for any observations in any order.

use leeway_selection::{Choice, Gateway, NoGateway, Observation, Policy, Reason, Selector, Status};
use leeway_units::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;

const GATEWAYS: u64 = 5;

#[derive(Debug, Clone, Copy)]
enum Event {
    Observe(u64, Observation),
    Used(u64, u64, u64),
    Choose,
}

fn status() -> impl Strategy<Value = Status> {
    let load = prop_oneof![
        Just(None),
        (0.0..=1.0).prop_map(Some),
        prop::sample::select(vec![f64::NAN, f64::INFINITY, -1.0, 1e300]).prop_map(Some),
    ];
    let spare =
        prop_oneof![Just(None), (0..30_000_000_u64).prop_map(Some), Just(Some(u64::MAX)), Just(Some(0))];
    let users = prop::option::of(prop_oneof![0..40_u32, Just(u32::MAX)]);
    let left = prop::option::of(prop_oneof![0..100_000_000_u64, Just(u64::MAX)]);
    (prop::bool::weighted(0.8), prop::option::of(any::<u64>()), load, users, spare, left).prop_map(
        |(open, until, load, users, spare, left)| Status {
            open,
            paused_until: until.map(Time::from_nanos),
            load,
            users,
            spare: spare.map(Rate::from_bits_per_sec),
            left: left.map(Bytes::new),
        },
    )
}

fn observation() -> impl Strategy<Value = Observation> {
    let round_trip = prop_oneof![4 => 0..500_000_000_u64, 1 => Just(u64::MAX)];
    let answered = (round_trip, status()).prop_map(|(round_trip, status)| Observation::Answered {
        round_trip: Duration::from_nanos(round_trip),
        status,
    });
    prop_oneof![4 => answered, 1 => Just(Observation::Failed)]
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        (0..GATEWAYS, observation()).prop_map(|(gateway, found)| Event::Observe(gateway, found)),
        (0..GATEWAYS, any::<u64>(), any::<u64>())
            .prop_map(|(gateway, bytes, ns)| Event::Used(gateway, bytes, ns)),
        Just(Event::Choose),
    ];
    let gap = prop_oneof![9 => 0..90_000_u64, 1 => 0..1_000_000_u64];
    prop::collection::vec((gap, event), 1..200)
}

fn is_open(found: Observation) -> bool {
    matches!(found, Observation::Answered { status, .. } if status.open && status.left != Some(Bytes::ZERO))
}

/// Plays events, and calls `check` for each choice with what was observed last of each gateway.
fn play(
    seed: u64,
    events: &[(u64, Event)],
    mut check: impl FnMut(&Selector, Time, &[Option<Observation>], Option<Gateway>, Result<Choice, NoGateway>),
) {
    let mut selector = Selector::new(Policy::default(), seed, (0..GATEWAYS).map(Gateway));
    let mut last = vec![None; GATEWAYS as usize];
    let mut now = Time::ZERO;
    for (ms, event) in events {
        now += Duration::from_millis(*ms);
        match *event {
            Event::Observe(gateway, found) => {
                selector.observe(Gateway(gateway), now, found);
                last[gateway as usize] = Some(found);
            }
            Event::Used(gateway, bytes, ns) => {
                selector.used(Gateway(gateway), now, Bytes::new(bytes), Duration::from_nanos(ns));
            }
            Event::Choose => {}
        }
        let (before, earlier) = (selector.clone(), selector.current());
        let choice = selector.choose(now);
        check(&before, now, &last, earlier, choice);
    }
}

proptest! {
    #[test]
    fn a_gateway_that_is_not_open_is_never_chosen(seed: u64, events in events()) {
        play(seed, &events, |before, now, last, _, choice| {
            let usable = |gateway: Gateway| {
                // What the client used is taken from what was left, so only the selector knows.
                last[gateway.0 as usize].is_some_and(is_open) && before.cost(now, gateway).is_some()
            };
            match choice {
                Ok(choice) => assert!(usable(choice.gateway), "{choice:?}"),
                Err(_) => assert!(!(0..GATEWAYS).map(Gateway).any(usable), "{choice:?} though one is open"),
            }
        });
    }

    #[test]
    fn no_move_is_for_less_than_the_hysteresis(seed: u64, events in events()) {
        let policy = Policy::default();
        let mut moved: Option<Time> = None;
        play(seed, &events, |before, now, _, earlier, choice| {
            let Ok(Choice { gateway, reason }) = choice else { return };
            match reason {
                Reason::Better => {
                    let cost = |gateway| before.cost(now, gateway).unwrap();
                    let (old, new) = (cost(earlier.unwrap()), cost(gateway));
                    assert!(new < old * (1.0 - policy.hysteresis), "from {old} s to {new} s");
                    assert!(new < old - policy.least_gain_s, "from {old} s to {new} s");
                    assert!(moved.is_none_or(|at| (now - at).secs_f64() >= policy.dwell_s));
                    moved = Some(now);
                }
                Reason::Stays => assert_eq!(Some(gateway), earlier),
                _ => {}
            }
        });
    }

    #[test]
    fn costs_are_positive_and_finite_and_the_order_has_everybody_once(seed: u64, events in events()) {
        play(seed, &events, |before, now, _, _, _| {
            for cost in (0..GATEWAYS).filter_map(|gateway| before.cost(now, Gateway(gateway))) {
                assert!(cost.is_finite() && cost > 0.0, "{cost}");
            }
            let mut order = before.order(now);
            order.sort();
            assert_eq!(order, (0..GATEWAYS).map(Gateway).collect::<Vec<_>>());
        });
    }

    #[test]
    fn equal_seeds_and_observations_give_equal_choices(seed: u64, events in events()) {
        let mut first = Vec::new();
        play(seed, &events, |before, _, _, _, choice| first.push((choice, before.next_probe())));
        let mut second = Vec::new();
        play(seed, &events, |before, _, _, _, choice| second.push((choice, before.next_probe())));
        assert_eq!(first, second);
    }

    #[test]
    fn a_client_that_follows_its_probes_always_has_one_to_do(seed: u64, found in prop::collection::vec(observation(), 1..100)) {
        let mut selector = Selector::new(Policy::default(), seed, (0..GATEWAYS).map(Gateway));
        let mut now = Time::ZERO;
        for found in found {
            let probe = selector.next_probe().expect("a probe");
            now = now.max(probe.at);
            selector.observe(probe.gateway, now, found);
            let _ = selector.choose(now);
        }
    }
}
