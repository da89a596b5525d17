//! What `ebb` promises, on one line of 10 Mbit/s and 50 ms with a buffer of one BDP, for hosts of
//! ns-2 and of Linux (delayed acknowledgements).

mod dumbbell;

use dumbbell::rates;
use leeway_sim::results::Run;
use leeway_sim::scenario::Scenario;

/// A run of 90 s. The last 60 s count.
fn play(profile: &str, flows: &str) -> Run {
    let bottleneck = "rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nbuffer = \"42 pkt\"";
    dumbbell::play(profile, bottleneck, flows, [30, 90])
}

#[test]
fn alone_it_uses_the_line_and_makes_no_queue() {
    for profile in ["ns2", "linux"] {
        let run = play(profile, "[[flow]]\nname = \"a\"\nlaw = \"ebb\"\n");
        let link = &run.windows[0].links[0];
        assert!(link.utilisation >= 0.9, "{profile}: {}", link.utilisation);
        let wait_ms = 1e3 * link.delay.expect("packets waited").p95_s;
        assert!(wait_ms < 10.0, "{profile}: {wait_ms} ms");
        assert_eq!(link.dropped, 0, "{profile}");
    }
}

#[test]
fn beside_others_it_runs_dry() {
    for (profile, law) in [("ns2", "newreno"), ("ns2", "cubic"), ("linux", "newreno"), ("linux", "cubic")] {
        let primary = format!("[[flow]]\nname = \"a\"\nlaw = \"{law}\"\n");
        let alone = rates(&play(profile, &primary))[0];
        let beside = rates(&play(
            profile,
            &format!("{primary}[[flow]]\nname = \"b\"\nlaw = \"ebb\"\nrole = \"background\"\n"),
        ))[0];
        assert!(beside >= 0.98 * alone, "{law}, {profile}: {beside} beside, {alone} alone");
    }
}

#[test]
fn two_of_a_kind_are_equal() {
    for profile in ["ns2", "linux"] {
        let rates = rates(&play(
            profile,
            "[[flow]]\nname = \"a\"\nlaw = \"ebb\"\n[[flow]]\nname = \"b\"\nlaw = \"ebb\"\nstart = \"10 s\"\n",
        ));
        let share = rates[1] / (rates[0] + rates[1]);
        assert!((0.4..0.6).contains(&share) && rates[0] + rates[1] > 8.8, "{profile}: {rates:?}");
    }
}

/// Utilisation of a line by one flow while acknowledgements come late, from 20 s to 60 s: median
/// of five seeds.
fn use_with_late_acks(mbit: u32, one_way_ms: u32, buffer: &str, jitter: &str) -> f64 {
    let text = format!(
        "duration = \"60 s\"\nprofile = \"linux\"\n\
         [dumbbell.bottleneck]\nrate = \"{mbit} Mbit/s\"\ndelay = \"{one_way_ms} ms\"\nbuffer = \"{buffer}\"\n\
         [dumbbell.reverse]\ndelay = \"{one_way_ms} ms\"\njitter = \"{jitter}\"\n\
         [[flow]]\nname = \"a\"\nlaw = \"ebb\"\n[[window]]\nname = \"w\"\nfrom = \"20 s\"\nto = \"60 s\"\n"
    );
    let scenario = Scenario::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut used: Vec<f64> = (1..=5)
        .map(|seed| leeway_sim::run(&scenario, seed).expect("the scenario has routes"))
        .map(|run| run.windows[0].links[0].utilisation)
        .collect();
    used.sort_by(f64::total_cmp);
    used[2]
}

/// Wi-Fi, cable and mobile networks hold acknowledgements back until the medium is granted.
#[test]
fn acknowledgements_that_are_held_are_no_queue() {
    let used = use_with_late_acks(50, 50, "1 BDP", "aggregate:wait=10ms");
    assert!(used >= 0.6, "{used}");
}

/// Jitter of one or a few packet times hides the spacing of two packets.
#[test]
fn a_delay_that_varies_by_a_packets_time_is_no_queue() {
    for (mbit, one_way_ms) in [(2, 25), (10, 10), (10, 25)] {
        for quarters in [2, 4, 8] {
            let jitter = format!("uniform:range={}us", quarters * 3000 / mbit);
            let used = use_with_late_acks(mbit, one_way_ms, "1 BDP", &jitter);
            assert!(used >= 0.6, "{mbit} Mbit/s, {one_way_ms} ms, {jitter}: {used}");
        }
    }
}

/// In a home network, a jitter of a few milliseconds is as long as the path's delay, or longer.
#[test]
fn jitter_that_is_longer_than_the_path_is_no_queue() {
    for (mbit, one_way_ms, jitter_ms) in [(100, 1, 2), (50, 3, 2), (50, 3, 5), (100, 5, 5)] {
        let jitter = format!("uniform:range={jitter_ms}ms");
        let used = use_with_late_acks(mbit, one_way_ms, "500 kB", &jitter);
        assert!(used >= 0.5, "{mbit} Mbit/s, {one_way_ms} ms, {jitter_ms} ms of jitter: {used}");
    }
}
