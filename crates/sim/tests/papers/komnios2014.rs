//! Komnios, Sathiaseelan, Crowcroft: LEDBAT performance in sub-packet regimes, WiMob 2014. A test
//! for each backhaul.

use super::{claim, known_difference, points};
use leeway_sim::results::WindowSummary;
use leeway_sim::scenario::Scenario;

/// Seeds for each backhaul. The paper took 30; from 5 seeds on, the means move by less than their
/// tolerance.
const SEEDS: u64 = 5;

#[derive(Debug)]
struct Means {
    utilisation: f64,
    fairness: f64,
    fill: f64,
    again: f64,
    timeouts: f64,
}

/// Means of NewReno, LEDBAT and fLEDBAT, and the checks that hold on every backhaul.
fn backhaul(name: &str) -> Vec<Means> {
    let means = means(points(&format!("komnios2014/backhaul-{name}.toml"), &[]));
    for (law, means) in ["newreno", "ledbat", "fledbat"].iter().zip(&means) {
        println!("{name} {law:<8} {means:.3?}");
        claim(&format!("{name} {law}: utilisation"), "almost full", means.utilisation, 0.97..=1.0);
    }
    let [tcp, ledbat, fledbat] = &means[..] else { panic!("three laws") };
    for law in [ledbat, fledbat] {
        claim(&format!("{name}: retransmitted over NewReno's"), "< 1", law.again / tcp.again, 0.0..=0.95);
        claim(&format!("{name}: timeouts over NewReno's"), "< 1", law.timeouts / tcp.timeouts, 0.0..=0.95);
    }
    means
}

/// Means over the seeds, one entry for each scenario.
fn means(scenarios: Vec<Scenario>) -> Vec<Means> {
    let mean = |windows: &[WindowSummary], of: &dyn Fn(&WindowSummary) -> f64| {
        windows.iter().map(of).sum::<f64>() / windows.len() as f64
    };
    let of = |scenario: Scenario| {
        let windows: Vec<_> = (0..SEEDS)
            .map(|i| leeway_sim::run(&scenario, scenario.seed + i).unwrap().windows.remove(0))
            .collect();
        Means {
            utilisation: mean(&windows, &|w| w.links[0].utilisation),
            fairness: mean(&windows, &|w| w.jain.unwrap()),
            fill: mean(&windows, &|w| w.links[0].queue_fill.unwrap()),
            again: mean(&windows, &|w| w.groups[0].retransmitted as f64 / w.groups[0].sent as f64),
            timeouts: mean(&windows, &|w| w.groups[0].timeouts as f64),
        }
    };
    scenarios.into_iter().map(of).collect()
}

#[test]
fn backhaul_a() {
    let means = backhaul("a");
    claim("a: queue, of a full one", "never full", means[0].fill, 0.0..=0.95);
    known_difference(
        "a: fLEDBAT's fairness over NewReno's",
        "> 1",
        means[2].fairness / means[0].fairness,
        0.80..=1.0,
        "16 windows of at least one packet do not fit into the 13 places of path and buffer: who times out backs off, \
         and the others keep their packet. With a floor of a quarter all fit",
    );
    let quarter = r#"sweep={ "flow.ftp.law" = ["fledbat:alpha=1,zeta=5,floor=0.25"] }"#;
    let fair = self::means(points("komnios2014/backhaul-a.toml", &[quarter]))[0].fairness;
    claim("a: the same with a floor of 1/4 packet", "> 1", fair / means[0].fairness, 1.0..=2.0);
}

#[test]
fn backhaul_b() {
    let means = backhaul("b");
    claim("b: fLEDBAT's fairness over NewReno's", "> 1", means[2].fairness / means[0].fairness, 1.0..=2.0);
    claim("b: LEDBAT's fairness", "not unfair", means[1].fairness, 0.8..=1.0);
    claim("b: queue, of a full one", "to 1", means[0].fill, 0.8..=1.0);
}

#[test]
fn backhaul_c() {
    let means = backhaul("c");
    claim("c: fLEDBAT's fairness over NewReno's", "> 1", means[2].fairness / means[0].fairness, 1.0..=2.0);
    claim(
        "c: LEDBAT's fairness over NewReno's",
        "not unfair",
        means[1].fairness / means[0].fairness,
        1.0..=2.0,
    );
    claim("c: queue, of a full one", "to 1", means[0].fill, 0.8..=1.0);
}
