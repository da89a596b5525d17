//! Scenario files: a scenario reads back as it was written, and no text makes the reader panic.

mod common;

use leeway_sim::scenario::*;
use leeway_units::{Bytes, Duration, Rate, Size, Time};
use proptest::prelude::*;

const SMALL: &str = r#"
duration = "10 s"
[dumbbell.bottleneck]
rate = "10 Mbit/s"     # the uplink
delay = "25 ms"
[[flow]]
name = "tcp"
[[flow]]
name = "backup"
role = "background"
law = "ledbat"
"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_scenario_reads_back_as_it_was(scenario in common::scenario()) {
        scenario.validate().unwrap();
        let text = scenario.to_toml().unwrap();
        let read = Scenario::parse(&text, "random.toml");
        prop_assert_eq!(read.as_ref(), Ok(&scenario), "{}", text);
    }

    #[test]
    fn no_text_is_too_odd_to_read(text in ".{0,300}") {
        let _ = Scenario::parse(&text, "odd.toml");
    }

    #[test]
    fn no_damage_is_too_odd_to_read(scenario in common::scenario(), at in any::<prop::sample::Index>(), damage in ".{0,6}", cut in 0usize..12) {
        let mut text = scenario.to_toml().unwrap();
        let mut start = at.index(text.len());
        let mut end = (start + cut).min(text.len());
        while !text.is_char_boundary(start) { start -= 1; }
        while !text.is_char_boundary(end) { end += 1; }
        text.replace_range(start..end, &damage);
        if let Err(error) = Scenario::parse(&text, "damaged.toml") {
            prop_assert!(error.to_string().starts_with("damaged.toml"));
            prop_assert!(text.get(error.span()).is_some());
        }
    }

    #[test]
    fn no_change_is_too_odd_to_make(path in "[a-z.\\[\\]0-9 ]{0,30}", value in ".{0,30}") {
        let mut file = ScenarioFile::new("small.toml", SMALL);
        if file.set(&format!("{path}={value}")).is_ok() {
            let _ = file.scenario();
        }
        let mut file = ScenarioFile::new("small.toml", SMALL);
        if file.sweep(&format!("{path}={value}")).is_ok() {
            let _ = file.points();
        }
    }
}

fn changed(assignments: &[&str]) -> Scenario {
    let mut file = ScenarioFile::new("small.toml", SMALL);
    assignments.iter().for_each(|assignment| file.set(assignment).unwrap());
    file.scenario().unwrap()
}

#[test]
fn changes_reach_every_kind_of_field() {
    let scenario = changed(&[
        "dumbbell.bottleneck.buffer=40 pkt",
        "flow.tcp.law=ledbat:target=25ms,gain_down=10",
        "flow[1].count=3",
        "flow.backup.tcp.sack=false",
        "flow.backup.start={ uniform = [\"0 s\", \"3 s\"] }",
        "dumbbell.reverse.delay=5 ms",
        "seed=9",
        "title=two words",
    ]);
    let bottleneck = &scenario.dumbbell.as_ref().unwrap().bottleneck;
    assert_eq!(bottleneck.buffer, Size::Packets(40));
    assert_eq!(scenario.flow[0].law.to_string(), "ledbat:target=25ms,gain_down=10");
    assert_eq!((scenario.flow[1].count, scenario.flow[1].tcp.sack), (3, Some(false)));
    let zero_to_three = Spread::Uniform([Time::ZERO, Time::from_secs(3)]);
    assert_eq!(scenario.flow[1].start, Some(Dist::Drawn(zero_to_three)));
    assert_eq!(scenario.links()[0].backward().delay, Duration::from_millis(5));
    assert_eq!((scenario.seed, scenario.title.as_str()), (9, "two words"));
}

#[test]
fn a_sweep_combines_every_value_with_every_other() {
    let mut file = ScenarioFile::new("small.toml", SMALL);
    file.sweep("dumbbell.bottleneck.buffer=10 pkt,40 pkt").unwrap();
    file.sweep("flow.backup.law=newreno,ledbat:target=5ms,gain_down=10").unwrap();
    let points = file.points().unwrap();
    let labels: Vec<String> = points.iter().map(SweepPoint::label).collect();
    assert_eq!(
        labels,
        [
            "dumbbell.bottleneck.buffer = 10 pkt, flow.backup.law = newreno",
            "dumbbell.bottleneck.buffer = 10 pkt, flow.backup.law = ledbat:target=5ms,gain_down=10",
            "dumbbell.bottleneck.buffer = 40 pkt, flow.backup.law = newreno",
            "dumbbell.bottleneck.buffer = 40 pkt, flow.backup.law = ledbat:target=5ms,gain_down=10",
        ]
    );
    let last = &points[3].scenario;
    assert_eq!(last.dumbbell.as_ref().unwrap().bottleneck.buffer, Size::Packets(40));
    assert_eq!(last.flow[1].law.to_string(), "ledbat:target=5ms,gain_down=10");
    assert!(last.sweep.is_empty());
}

#[test]
fn a_sweep_in_the_file_keeps_its_order() {
    let text = format!(
        "{SMALL}\n[sweep]\n\"flow.tcp.count\" = [2, 1]\n\"dumbbell.bottleneck.delay\" = [\"1 ms\"]\n"
    );
    let points = ScenarioFile::new("small.toml", text).points().unwrap();
    assert_eq!(points[0].label(), "flow.tcp.count = 2, dumbbell.bottleneck.delay = 1 ms");
    assert_eq!(points.len(), 2);
}

#[test]
fn buffers_are_resolved_as_the_literature_does() {
    let limit = |rate: u64, owd: u64, buffer: &str| {
        let mut channel = Channel::with_delay(Duration::from_millis(owd));
        channel.buffer = buffer.parse().unwrap();
        channel.buffer_limit(Rate::from_bits_per_sec(rate), Bytes::new(1500))
    };
    // Trang 2014: C = 10 Mb/s, owd 50 ms, B = ceil(n BDP).
    for (n, packets) in [("0.1 BDP", 9), ("0.5 BDP", 42), ("1 BDP", 84), ("1.1 BDP", 92), ("2 BDP", 167)] {
        assert_eq!(limit(10_000_000, 50, n), BufferLimit::Packets(packets), "{n}");
    }
    assert_eq!(limit(10_000_000, 0, "1 BDP"), BufferLimit::Packets(1));
    assert_eq!(limit(1_000_000_000_000, 1_000_000, "1000 BDP"), BufferLimit::Packets(u32::MAX));
    assert_eq!(limit(1, 1, "unlimited"), BufferLimit::Unlimited);
    assert_eq!(limit(1, 1, "150 kB"), BufferLimit::Bytes(Bytes::new(150_000)));
}

#[test]
fn draws_follow_their_distribution() {
    let mean = |dist: Dist<Bytes>| {
        let draws = 100_000;
        let sum: f64 =
            (0..draws).map(|i| dist.quantile((f64::from(i) + 0.5) / f64::from(draws)).base()).sum();
        sum / f64::from(draws)
    };
    let size = Bytes::new(50_000);
    for spread in [
        Spread::Uniform([Bytes::new(20_000), Bytes::new(80_000)]),
        Spread::Exponential(size),
        Spread::Pareto(Pareto { min: None, mean: Some(size), shape: 3.0 }),
    ] {
        let dist = Dist::Drawn(spread);
        assert!((mean(dist) / 50_000.0 - 1.0).abs() < 0.01, "{dist:?}: {}", mean(dist));
        assert!((dist.mean() / 50_000.0 - 1.0).abs() < 1e-9);
    }
    assert_eq!(Dist::Constant(size).quantile(0.3), size);
}

#[test]
fn profiles_say_what_they_stand_for() {
    let ns2 = TcpOptions::default().resolve(Profile::Ns2);
    assert_eq!((ns2.initial_window, ns2.sack, ns2.delayed_ack), (2, false, None));
    let mut sack = TcpOptions::default();
    sack.sack = Some(true);
    sack.delayed_ack = Some(AckPolicy(None));
    let linux = sack.resolve(Profile::Linux);
    assert_eq!((linux.sack, linux.delayed_ack, linux.initial_window), (true, None, 10));
}

#[test]
fn routes_are_the_shortest_and_the_first() {
    let text = r#"
duration = "1 s"
link = [
    { name = "a-b", from = "a", to = "b", forward = { rate = "1 Mbit/s" } },
    { name = "c-b", from = "c", to = "b", forward = { rate = "1 Mbit/s" } },
    { name = "a-c slow", from = "a", to = "c", forward = { rate = "1 Mbit/s" } },
    { name = "a-c", from = "a", to = "c", forward = { rate = "1 Mbit/s" } },
]
flow = [{ name = "x", from = "a", to = "c" }, { name = "y", from = "a", to = "c", via = ["a-b", "c-b"] }]
"#;
    let scenario = Scenario::parse(text, "graph.toml").unwrap();
    let routes = scenario.routes(&scenario.links()).unwrap();
    let route = |flow: usize| routes[flow].iter().map(|hop| (hop.link, hop.direction)).collect::<Vec<_>>();
    assert_eq!(route(0), [(2, Direction::Forward)]);
    assert_eq!(route(1), [(0, Direction::Forward), (1, Direction::Reverse)]);
}

#[test]
fn traces_are_looked_for_beside_the_file() {
    let text = SMALL.replace("rate = \"10 Mbit/s\"", "trace = \"lte.trace\"");
    let scenario = Scenario::parse(&text, "some/folder/a.toml").unwrap();
    let trace = scenario.dumbbell.unwrap().bottleneck.trace.unwrap();
    assert_eq!(trace, std::path::Path::new("some/folder/lte.trace"));
}

#[test]
fn a_class_is_as_wide_as_a_dscp() {
    let text = |class: u32| {
        format!(
            "duration = \"1 s\"\ndumbbell = {{ bottleneck = {{ rate = \"1 Mbit/s\" }} }}\n[[flow]]\nname = \"a\"\nclass = {class}\n"
        )
    };
    assert_eq!(Scenario::parse(&text(63), "x.toml").unwrap().flow[0].class, 63);
    let error = Scenario::parse(&text(64), "x.toml").unwrap_err().to_string();
    assert_eq!(error, "x.toml:5:9: 64 is out of bounds (from 0 to 63)");
}
