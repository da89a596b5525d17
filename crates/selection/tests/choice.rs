//! What a client does when gateways answer, pause, fail and come back.

use leeway_selection::{Choice, Gateway, NoGateway, Observation, Policy, Reason, Selector, Status};
use leeway_units::{Bytes, Duration, Rate, Time};

const A: Gateway = Gateway(1);
const B: Gateway = Gateway(2);
const C: Gateway = Gateway(3);

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn with(status: Status) -> Observation {
    Observation::Answered { round_trip: Duration::from_millis(10), status }
}

/// A gateway whose one more user gets this many Mbit/s.
fn gives(mbit: f64) -> Observation {
    with(Status { spare: Some(Rate::from_bits_per_sec((mbit * 1e6) as u64)), ..Status::open() })
}

fn selector(gateways: &[Gateway]) -> Selector {
    Selector::new(Policy::default(), 1, gateways.iter().copied())
}

/// A client that uses A, and knows B.
fn settled(b: Observation) -> Selector {
    let mut selector = selector(&[A, B]);
    selector.observe(A, at(0), gives(4.0));
    assert_eq!(selector.choose(at(0)), Ok(Choice { gateway: A, reason: Reason::First }));
    selector.observe(B, at(0), b);
    selector
}

/// Observations once a minute from the first minute on; the choice after each.
fn minutes(selector: &mut Selector, count: u64, a: Observation, b: Observation) -> Vec<Gateway> {
    let mut chosen = Vec::new();
    for minute in 1..=count {
        selector.observe(A, at(60 * minute), a);
        selector.observe(B, at(60 * minute), b);
        chosen.push(selector.choose(at(60 * minute)).unwrap().gateway);
    }
    chosen
}

/// Observations in one minute.
fn minutes_at(selector: &mut Selector, minute: u64, a: Observation, b: Observation) {
    selector.observe(A, at(60 * minute), a);
    selector.observe(B, at(60 * minute), b);
    selector.choose(at(60 * minute)).unwrap();
}

#[test]
fn a_slightly_better_gateway_is_not_moved_to() {
    let mut selector = settled(gives(6.5));
    assert_eq!(minutes(&mut selector, 30, gives(4.0), gives(6.5)), vec![A; 30]);
}

#[test]
fn a_much_better_one_is_moved_to_when_two_probes_agree() {
    let mut selector = settled(gives(1.0));
    assert_eq!(selector.choose(at(0)).unwrap().gateway, A, "all first probes have answered");
    let chosen = minutes(&mut selector, 10, gives(4.0), gives(40.0));
    assert_eq!((chosen[0], chosen[1], chosen[9]), (A, B, B));
}

#[test]
fn after_a_move_a_client_stays_for_the_dwell() {
    let mut selector = settled(gives(40.0));
    assert_eq!(minutes(&mut selector, 1, gives(4.0), gives(40.0)), [B]);
    let mut back = Vec::new();
    for minute in 2..=8 {
        selector.observe(B, at(60 * minute), gives(1.0));
        selector.observe(A, at(60 * minute), gives(40.0));
        back.push(selector.choose(at(60 * minute)).unwrap().gateway);
    }
    assert_eq!(back, [B, B, B, B, A, A, A], "moved at 1 minute, dwells for 5");
}

#[test]
fn a_gateway_that_fails_or_pauses_is_left_at_once() {
    let found = [
        (Observation::Failed, Reason::Failed),
        (with(Status::paused(None)), Reason::Paused),
        (with(Status { left: Some(Bytes::ZERO), ..Status::open() }), Reason::UsedUp),
    ];
    for (observation, reason) in found {
        let mut selector = settled(gives(0.1));
        selector.observe(A, at(7), observation);
        assert_eq!(selector.choose(at(7)), Ok(Choice { gateway: B, reason }));
        assert_eq!(selector.choose(at(8)), Ok(Choice { gateway: B, reason: Reason::Stays }));
    }
}

#[test]
fn one_that_has_failed_comes_back_late_and_one_that_flaps_later() {
    let minutes_away = |flaps: u64| {
        let mut selector = settled(gives(2.0));
        for flap in 0..flaps {
            selector.observe(A, at(60 + 2 * flap), Observation::Failed);
            selector.choose(at(60 + 2 * flap)).unwrap();
            selector.observe(A, at(61 + 2 * flap), gives(4.0));
        }
        let away = (2..200).find(|minute| {
            selector.observe(B, at(60 * minute), gives(2.0));
            selector.observe(A, at(60 * minute), gives(4.0));
            selector.choose(at(60 * minute)).unwrap().gateway == A
        });
        away.unwrap()
    };
    let (once, often) = (minutes_away(1), minutes_away(4));
    assert!(once >= 10 && often > once + 20, "{once} and {often} minutes");
}

#[test]
fn a_failed_gateway_is_retried_with_growing_intervals() {
    let mut selector = selector(&[A]);
    let mut gaps = Vec::new();
    let mut now = at(0);
    for _ in 0..12 {
        selector.observe(A, now, Observation::Failed);
        let next = selector.next_probe().unwrap().at;
        gaps.push((next - now).secs_f64());
        now = next;
    }
    assert!((3.75..=6.25).contains(&gaps[0]), "{gaps:?}");
    assert!((7.5..=12.5).contains(&gaps[1]), "{gaps:?}");
    assert!(gaps[8..].iter().all(|gap| (225.0..=375.0).contains(gap)), "{gaps:?}");
}

#[test]
fn clients_look_at_a_gateway_whose_pause_ends_at_different_times() {
    let look = |seed| {
        let mut selector = Selector::new(Policy::default(), seed, [A]);
        selector.observe(A, at(0), with(Status::paused(Some(at(1000)))));
        selector.next_probe().unwrap().at
    };
    let mut looks: Vec<Time> = (0..100).map(look).collect();
    looks.sort();
    assert!(looks[0] >= at(1000) && looks[99] <= at(1060));
    assert!(looks[25] > at(1005) && looks[75] < at(1055), "spread over the minute");
}

#[test]
fn without_a_gateway_the_reason_is_told() {
    assert_eq!(selector(&[]).choose(at(0)), Err(NoGateway::None));
    let mut selector = selector(&[A, B, C]);
    assert_eq!(selector.choose(at(0)), Err(NoGateway::Unasked));
    for gateway in [A, B, C] {
        selector.observe(gateway, at(1), Observation::Failed);
    }
    assert_eq!(selector.choose(at(1)), Err(NoGateway::Failed));
    selector.observe(C, at(2), with(Status { left: Some(Bytes::ZERO), ..Status::open() }));
    assert_eq!(selector.choose(at(2)), Err(NoGateway::UsedUp));
    selector.observe(A, at(2), with(Status::paused(None)));
    selector.observe(B, at(2), with(Status::paused(Some(at(900)))));
    assert_eq!(selector.choose(at(2)), Err(NoGateway::Paused { until: Some(at(900)) }));
    selector.observe(C, at(3), gives(1.0));
    assert_eq!(selector.choose(at(3)).unwrap().gateway, C);
}

#[test]
fn after_a_rest_a_client_looks_anew_and_moves_at_once() {
    let mut selector = settled(gives(3.0));
    selector.choose(at(60)).unwrap();
    assert_eq!(selector.choose(at(3600)), Ok(Choice { gateway: A, reason: Reason::Stays }));
    let asked: Vec<Gateway> = selector.probes(at(3600)).collect();
    assert_eq!(asked, [A, B], "both are asked");
    selector.observe(A, at(3600), gives(4.0));
    assert_eq!(selector.choose(at(3600)).unwrap().gateway, A, "B has not answered yet");
    selector.observe(B, at(3600), gives(40.0));
    assert_eq!(selector.choose(at(3600)), Ok(Choice { gateway: B, reason: Reason::Better }));
}

#[test]
fn what_was_observed_just_now_is_not_asked_again_after_a_rest() {
    let mut selector = settled(gives(3.0));
    selector.choose(at(60)).unwrap();
    for hour in 1..=2 {
        selector.observe(A, at(3600 * hour), gives(4.0));
        selector.observe(B, at(3600 * hour), gives(if hour == 2 { 40.0 } else { 3.0 }));
        let chosen = selector.choose(at(3600 * hour)).unwrap().gateway;
        assert_eq!(chosen, if hour == 2 { B } else { A }, "hour {hour}");
    }
}

#[test]
fn a_client_does_not_move_for_a_rate_that_it_would_not_use() {
    let with_use = |mbit: u64| {
        let mut selector = settled(gives(1.0));
        for minute in 1..=5 {
            selector.used(A, at(60 * minute), Bytes::new(mbit * 1_000_000), Duration::from_secs(8));
            minutes_at(&mut selector, minute, gives(8.0), gives(100.0));
        }
        selector.current().unwrap()
    };
    assert_eq!(with_use(1), A, "it uses 1 Mbit/s of 8");
    assert_eq!(with_use(8), B, "it uses all of them");
}

#[test]
fn what_is_left_of_a_quota_slows_a_gateway() {
    let mut selector = selector(&[A, B]);
    let left = |bytes| Status {
        left: Some(Bytes::new(bytes)),
        spare: Some(Rate::from_bits_per_sec(8_000_000)),
        ..Status::open()
    };
    selector.observe(A, at(0), with(left(60_000_000)));
    selector.observe(B, at(0), with(left(6_000_000_000)));
    // 60 MB in ten minutes are 0.8 Mbit/s: 20 s for 2 MB.
    assert!((selector.cost(at(0), A).unwrap() - 20.11).abs() < 1e-9);
    assert!((selector.cost(at(0), B).unwrap() - 2.11).abs() < 1e-9);
    selector.used(A, at(1), Bytes::new(30_000_000), Duration::from_secs(30));
    assert!((selector.cost(at(1), A).unwrap() - 40.11).abs() < 1e-9, "what was used is not left");
}

#[test]
fn who_promises_much_and_delivers_little_is_not_believed() {
    let mut selector = selector(&[A]);
    selector.observe(A, at(0), gives(1000.0));
    assert!(selector.cost(at(0), A).unwrap() < 0.15);
    selector.used(A, at(5), Bytes::new(1_000_000), Duration::from_secs(8));
    assert!((selector.cost(at(5), A).unwrap() - 8.11).abs() < 1e-9, "twice the 1 Mbit/s that it gave");
}

#[test]
fn an_own_measurement_stands_in_for_what_a_gateway_does_not_say() {
    let mut selector = selector(&[A]);
    selector.observe(A, at(0), with(Status::open()));
    assert!((selector.cost(at(0), A).unwrap() - 16.11).abs() < 1e-9);
    selector.used(A, at(1), Bytes::new(4_000_000), Duration::from_secs(4));
    assert!((selector.cost(at(1), A).unwrap() - 2.11).abs() < 1e-9);
}

#[test]
fn the_order_is_current_open_unasked_failed_paused() {
    let mut selector = Selector::new(Policy::default(), 3, (0..6).map(Gateway));
    selector.observe(Gateway(4), at(0), gives(2.0));
    selector.choose(at(0)).unwrap();
    selector.observe(Gateway(2), at(0), gives(2.5));
    selector.observe(Gateway(5), at(0), gives(9.0));
    selector.observe(Gateway(0), at(0), Observation::Failed);
    selector.observe(Gateway(1), at(0), with(Status::paused(None)));
    let order: Vec<u64> = selector.order(at(0)).into_iter().map(|gateway| gateway.0).collect();
    assert_eq!(order, [4, 5, 2, 3, 0, 1]);
}

#[test]
fn probes_cost_three_a_minute_whatever_the_number_of_gateways() {
    let mut selector = Selector::new(Policy::default(), 9, (0..200).map(Gateway));
    let mut probes = 0;
    let mut asked = std::collections::BTreeSet::new();
    while let Some(probe) = selector.next_probe().filter(|probe| probe.at < at(3600)) {
        selector.observe(probe.gateway, probe.at, gives(3.0));
        selector.choose(probe.at).unwrap();
        asked.insert(probe.gateway);
        probes += 1;
    }
    assert!((150..=220).contains(&probes), "{probes} probes in an hour");
    assert!(asked.len() > 30, "{} gateways were looked at", asked.len());
}

#[test]
fn many_clients_that_lose_a_gateway_spread_over_the_others() {
    let mut taken = [0; 4];
    for seed in 0..1000 {
        let mut selector = Selector::new(Policy::default(), seed, (0..5).map(Gateway));
        selector.observe(Gateway(0), at(0), gives(9.0));
        selector.choose(at(0)).unwrap();
        for (other, mbit) in [(1, 8.0), (2, 8.1), (3, 7.9), (4, 8.0)] {
            selector.observe(Gateway(other), at(0), gives(mbit));
        }
        selector.observe(Gateway(0), at(1), Observation::Failed);
        taken[selector.choose(at(1)).unwrap().gateway.0 as usize - 1] += 1;
    }
    assert!(taken.iter().all(|&count| count < 600), "{taken:?}: the best of all would take everybody");
    assert!(
        taken.iter().filter(|&&count| count > 150).count() == 3,
        "{taken:?}: of two, the worst is never the better"
    );
    assert!(taken[1] > taken[0] && taken[1] > taken[3], "{taken:?}: the best takes most");
}

#[test]
fn another_list_keeps_what_is_known() {
    let mut selector = settled(gives(2.0));
    selector.set_gateways(at(5), [A, C]);
    assert_eq!(selector.choose(at(5)).unwrap(), Choice { gateway: A, reason: Reason::Stays });
    assert_eq!(selector.order(at(5)), [A, C]);
    selector.set_gateways(at(6), [C]);
    assert_eq!(selector.choose(at(6)), Err(NoGateway::Unasked));
    assert_eq!(selector.next_probe().unwrap().gateway, C);
}
