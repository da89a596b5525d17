//! Small communities: what holds in any of them, and what the schemes do.

use leeway_community::{Community, Report, Scheme, Wrong, run};

/// Twenty gateways and four hundred users from midnight to noon.
fn small(scheme: Scheme) -> Community {
    Community { gateways: 20, users: 400, hours: 12.0, scheme, ..Community::default() }
}

fn play(community: &Community, seed: u64) -> Report {
    run(community, seed, &|| false).unwrap().unwrap()
}

#[test]
fn equal_seeds_give_equal_reports_and_others_do_not() {
    let community = Community { hours: 3.0, ..small(Scheme::Selector) };
    assert_eq!(play(&community, 1), play(&community, 1));
    assert_ne!(play(&community, 1).found, play(&community, 2).found);
}

#[test]
fn schemes_meet_the_same_day() {
    let of = |scheme| play(&small(scheme), 3);
    let (one, other) = (of(Scheme::Selector), of(Scheme::Random));
    assert_eq!(one.user_hours, other.user_hours);
    assert_eq!(one.failures, other.failures);
    for (a, b) in one.hours.iter().zip(&other.hours) {
        assert_eq!((a.wanted_bps, a.spare_bps, a.bound_bps), (b.wanted_bps, b.spare_bps, b.bound_bps));
    }
}

#[test]
fn the_selector_finds_more_than_simple_ways_and_does_not_herd() {
    let of = |scheme| play(&Community { demand: 2.0, ..small(scheme) }, 4);
    let (selector, nearest, random, loaded) =
        (of(Scheme::Selector), of(Scheme::Nearest), of(Scheme::Random), of(Scheme::LeastLoaded));
    assert!(selector.found > nearest.found + 0.1, "{} and {}", selector.found, nearest.found);
    assert!(selector.found > random.found + 0.1, "{} and {}", selector.found, random.found);
    assert!(selector.jain > nearest.jain, "{} and {}", selector.jain, nearest.jain);
    assert!(selector.moves_per_user_hour < 2.0, "{}", selector.moves_per_user_hour);
    assert!(
        loaded.moves_per_user_hour > 10.0 * selector.moves_per_user_hour,
        "{}",
        loaded.moves_per_user_hour
    );
    for report in [selector, nearest, random, loaded] {
        assert!(report.found <= 1.0 && report.feasible <= 1.0, "{report:?}");
        assert_eq!(report.beyond_spare_bps, 0.0);
    }
}

#[test]
fn without_failures_and_pauses_nobody_is_without_service() {
    let steady = Community { failures_per_day: 0.0, pauses_per_day: 0.0, ..small(Scheme::Selector) };
    let report = play(&steady, 5);
    assert_eq!((report.failures, report.moves_forced, report.affected), (0, 0, 0));
    assert!(report.without_service < 1e-3, "{}", report.without_service);
}

#[test]
fn a_failed_gateway_costs_little_time() {
    let rough = Community { failures_per_day: 20.0, ..small(Scheme::Selector) };
    let report = play(&rough, 6);
    assert!(report.failures > 50 && report.affected > 20, "{report:?}");
    assert!(report.outage_mean_s < 30.0, "{}", report.outage_mean_s);
    assert!(report.without_service < 0.02, "{}", report.without_service);
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = Community { gateways: 0, ..Community::default() };
    assert_eq!(wrong.check().unwrap_err().to_string(), "`gateways` is 0; it has to be from 1 to 10000");
    let nan = Community { hours: f64::NAN, ..Community::default() };
    assert!(matches!(nan.check(), Err(Wrong::Number { field: "hours", .. })));
    let unknown = Community { policy: [("hysterisis".to_owned(), 0.1)].into(), ..Community::default() };
    let text = unknown.check().unwrap_err().to_string();
    assert!(text.starts_with("`policy.hysterisis` cannot be 0.1; the constants are round_trips"), "{text}");
    let outside = Community { policy: [("hysteresis".to_owned(), 7.0)].into(), ..Community::default() };
    let text = outside.check().unwrap_err().to_string();
    assert_eq!(text, "`policy.hysteresis` cannot be 7; it has to be from 0 to 0.95");
}

#[test]
fn a_run_that_is_not_wanted_stops() {
    assert_eq!(run(&Community::default(), 1, &|| true), Ok(None));
}
