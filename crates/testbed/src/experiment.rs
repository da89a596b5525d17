//! The published experiments, and further ones, by their ids.

use crate::compare::Comparison;
use crate::judge;
use crate::load::{Arrivals, Direction, Load};
use crate::measure::Setup;
use crate::network::Line;
use leeway_units::{Rate, Size};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Several setups, and the mechanisms to play them with.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name: `paper:figure`.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The setups.
    pub points: Vec<Point>,
    /// The names of the mechanisms.
    pub mechanisms: &'static [&'static str],
    judge: fn(&[Outcome]) -> Vec<Claim>,
}

/// One setup of an experiment.
#[derive(Debug, Clone)]
pub struct Point {
    /// What distinguishes this setup; empty where there is only one.
    pub label: String,
    /// The setup.
    pub setup: Setup,
}

/// The outcome at one point.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// What distinguishes this point.
    pub label: String,
    /// The line, in words.
    pub line: String,
    /// Its rate in bit/s, where it has one.
    pub rate_bps: Option<u64>,
    /// The congestion control of servers and of clients that upload.
    pub congestion: String,
    /// The mechanisms.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// A published or required value, and the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub text: String,
    /// The value in the paper, or the required one.
    pub published: String,
    /// The outcome.
    pub found: String,
    /// Whether they agree; `None` where this cannot be decided.
    pub holds: Option<bool>,
}

impl Outcome {
    /// A claim about the point with this label.
    pub fn of(point: &Point, comparison: Comparison) -> Outcome {
        let Setup { line, congestion, .. } = &point.setup;
        Outcome {
            label: point.label.clone(),
            line: line.to_string(),
            rate_bps: line.steady_bps(),
            congestion: congestion.clone(),
            comparison,
        }
    }
}

impl Experiment {
    /// Compares the outcome with the published values. There is no claim about what was not
    /// measured.
    pub fn claims(&self, outcomes: &[Outcome]) -> Vec<Claim> {
        let mut claims = (self.judge)(outcomes);
        claims.retain(|claim| claim.holds.is_some());
        claims
    }
}

/// The paper's mechanisms, a queue that is newer than the paper, and Leeway's.
const EVERY: &[&str] = &[
    "prim_only",
    "best_effort",
    "borrowing",
    "borrowing-line",
    "sfq",
    "codel",
    "fq_codel",
    "tcpcubic",
    "tcpvegas",
    "tcplp",
    "tcplp+codel",
    "tcplp+sfq",
    "relay",
    "proxy",
    "proxy-relay",
];
/// The mechanisms whose sensitivity the paper studies, and Leeway's.
const SENSITIVE: &[&str] =
    &["prim_only", "best_effort", "borrowing", "codel", "tcpvegas", "tcplp", "relay", "proxy", "proxy-relay"];
/// The reference, the baseline, the mechanism that knows the rate, and Leeway's.
const FEW: &[&str] = &["prim_only", "best_effort", "borrowing", "relay", "proxy", "proxy-relay"];

/// All experiments.
pub fn all() -> Vec<Experiment> {
    let overload = overload();
    [objects, paths, homes, lines, changing_lines, neighbours]
        .iter()
        .flat_map(|some| some(&overload))
        .collect()
}

/// Objects and requests, as the paper's figures 3 to 12 have them.
fn objects(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "dimogerontakis2017:overload",
            title: "Web users under overload: 5 and 25 requests a second of 12.5 kB (figures 5 to 8)",
            points: plain(overload),
            mechanisms: EVERY,
            judge: judge::overload,
        },
        Experiment {
            id: "dimogerontakis2017:underload",
            title: "Web users below the capacity of the line: objects of 100 kB (figures 3 and 4)",
            points: plain(&underload()),
            mechanisms: EVERY,
            judge: judge::underload,
        },
        Experiment {
            id: "dimogerontakis2017:objectsize",
            title: "The same load in objects of other sizes (figure 9)",
            points: [(2_500, "2.5 kB"), (12_500, "12.5 kB"), (62_500, "62.5 kB")]
                .map(|(bytes, label)| point(label, sized(overload, bytes)))
                .into(),
            mechanisms: SENSITIVE,
            judge: judge::close,
        },
        Experiment {
            id: "dimogerontakis2017:ratio",
            title: "More and fewer secondaries for the same primary (figure 10)",
            points: [12.5, 25.0, 50.0]
                .map(|rate| {
                    let label = format!("1:{}", rate / 5.0);
                    point(&label, Setup { secondary: web(5, 10, rate, 12_500), ..overload.clone() })
                })
                .into(),
            mechanisms: SENSITIVE,
            judge: judge::close,
        },
        Experiment {
            id: "dimogerontakis2017:edge",
            title: "Small objects of one class beside objects 150 times as large of the other, at equal load (figures 11 and 12)",
            points: vec![
                point(
                    "small primary",
                    Setup {
                        primary: Some(web(1, 32, 12.0, 10_000)),
                        secondary: web(5, 10, 0.08, 1_500_000),
                        ..overload.clone()
                    },
                ),
                point(
                    "large primary",
                    Setup {
                        primary: Some(web(1, 32, 0.08, 1_500_000)),
                        secondary: web(5, 10, 12.0, 10_000),
                        duration: Duration::from_secs(60),
                        ..overload.clone()
                    },
                ),
            ],
            mechanisms: SENSITIVE,
            judge: judge::close,
        },
    ]
}

/// Other measurements of the paper, and an access link that loses packets.
fn paths(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "dimogerontakis2017:ping",
            title: "The primary's ping under overload (figure 13)",
            points: plain(overload),
            mechanisms: &["prim_only", "best_effort", "codel", "sfq", "tcplp", "tcplp+codel", "tcplp+sfq"],
            judge: judge::ping,
        },
        Experiment {
            id: "dimogerontakis2017:tunnel",
            title: "What a tunnel costs by itself: secondaries below the capacity, in the open, in IP in IP and in a tunnel under CUBIC",
            // The rate differs from the primary's, so that the distances between both classes'
            // requests vary.
            points: plain(&Setup { secondary: web(5, 10, 4.3, 12_500), ..overload.clone() }),
            mechanisms: &["prim_only", "best_effort", "ipip", "tcpcubic", "relay"],
            judge: judge::tunnel,
        },
        Experiment {
            id: "dimogerontakis2017:wireless",
            title: "Overload with clients behind an access that loses a packet in a hundred",
            points: vec![point("", line(overload, &|line| line.access_loss = Some("random:p=1%".into())))],
            mechanisms: EVERY,
            judge: judge::overload,
        },
    ]
}

/// Other primaries.
fn homes(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "leeway:call",
            title: "A telephone call and a ping of the primary beside secondaries under overload",
            points: vec![point("", Setup { call: true, ..overload.clone() })],
            mechanisms: FEW,
            judge: judge::call,
        },
        Experiment {
            id: "leeway:transfer",
            title: "A primary that transfers large objects, one after the other, beside secondaries under overload",
            points: vec![point("", Setup { primary: Some(greedy(1, 500_000)), ..overload.clone() })],
            mechanisms: FEW,
            judge: judge::nothing,
        },
    ]
}

/// Other lines.
fn lines(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "leeway:rate",
            title: "Overload in proportion on faster lines",
            points: [(1_720_000, "1.72 Mbit/s"), (10_000_000, "10 Mbit/s"), (50_000_000, "50 Mbit/s")]
                .map(|(bits, label)| {
                    let factor = f64::from(bits) / 1.72e6;
                    let mut setup = line(overload, &|line| {
                        line.rate = Rate::from_bits_per_sec(u64::from(bits as u32)).into();
                        line.buffer = Size::Packets((100.0 * factor) as u32);
                    });
                    setup.primary = Some(web(1, 32, 5.0 * factor, 12_500));
                    setup.secondary = web(5, 10, 25.0 * factor, 12_500);
                    point(label, setup)
                })
                .into(),
            mechanisms: FEW,
            judge: judge::nothing,
        },
        Experiment {
            id: "leeway:rtt",
            title: "Overload over longer ways",
            points: [20, 100, 600]
                .map(|ms| {
                    let rtt = leeway_units::Duration::from_millis(ms);
                    point(&format!("{ms} ms"), line(overload, &|line| line.rtt = rtt))
                })
                .into(),
            mechanisms: FEW,
            judge: judge::nothing,
        },
        Experiment {
            id: "leeway:buffer",
            title: "Overload with other buffers at a round trip of 100 ms",
            points: [500_000, 1_000_000, 3_000_000, 10_000_000]
                .map(|millionths| {
                    let buffer = Size::Bdp(millionths);
                    let setup = line(overload, &|line| {
                        line.buffer = buffer;
                        line.rtt = leeway_units::Duration::from_millis(100);
                    });
                    point(&buffer.to_string(), setup)
                })
                .into(),
            mechanisms: FEW,
            judge: judge::nothing,
        },
        Experiment {
            id: "leeway:deep",
            title: "Overload with a buffer of 300 packets",
            points: vec![point("", line(overload, &|line| line.buffer = Size::Packets(300)))],
            mechanisms: FEW,
            judge: judge::ours,
        },
    ]
}

/// Lines whose rate changes.
fn changing_lines(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "leeway:changing",
            title: "Overload on a line whose rate is halved and doubled every few seconds",
            points: vec![point(
                "",
                Setup { duration: CYCLE, ..line(overload, &|line| line.rate = changing()) },
            )],
            mechanisms: FEW,
            judge: judge::ours,
        },
        Experiment {
            id: "leeway:lte",
            title: "Overload on a line like LTE: 0.5 to 8 Mbit/s, another rate every 200 ms, at a round trip of 50 ms",
            points: vec![point(
                "",
                line(overload, &|line| {
                    line.rate = wandering();
                    line.rtt = leeway_units::Duration::from_millis(50);
                    line.buffer = Size::Packets(300);
                }),
            )],
            mechanisms: FEW,
            judge: judge::nothing,
        },
        Experiment {
            id: "leeway:satellite",
            title: "Overload over a satellite: a round trip of 600 ms, and clouds every few seconds",
            points: vec![point(
                "",
                Setup {
                    duration: CYCLE,
                    ..line(overload, &|line| {
                        line.rate = changing();
                        line.rtt = leeway_units::Duration::from_millis(600);
                    })
                },
            )],
            mechanisms: FEW,
            judge: judge::nothing,
        },
    ]
}

/// Other secondaries.
fn neighbours(overload: &Setup) -> Vec<Experiment> {
    vec![
        Experiment {
            id: "leeway:upload",
            title: "Secondaries that upload",
            points: {
                let secondary = Load { direction: Direction::Up, ..overload.secondary.clone() };
                let plain = Setup { secondary, ..overload.clone() };
                vec![
                    point("", plain.clone()),
                    point("large primary", Setup { primary: Some(greedy(1, 500_000)), ..plain }),
                ]
            },
            mechanisms: FEW,
            judge: judge::nothing,
        },
        Experiment {
            id: "leeway:users",
            title: "One, ten and a hundred secondaries at the same load",
            points: [1, 10, 100]
                .map(|users| {
                    point(
                        &format!("{users}"),
                        Setup { secondary: web(users, 10, 25.0, 12_500), ..overload.clone() },
                    )
                })
                .into(),
            mechanisms: FEW,
            judge: judge::ours,
        },
        Experiment {
            id: "leeway:greedy",
            title: "A secondary that always has 200 requests under way",
            points: vec![point("", Setup { secondary: greedy(200, 12_500), ..overload.clone() })],
            mechanisms: FEW,
            judge: judge::ours,
        },
        Experiment {
            id: "leeway:idle",
            title: "Secondaries while the primary is away: how much of the line they use",
            points: vec![point(
                "",
                Setup { primary: None, secondary: greedy(10, 100_000), ..overload.clone() },
            )],
            mechanisms: &["best_effort", "borrowing", "relay", "proxy", "proxy-relay"],
            judge: judge::idle,
        },
    ]
}

fn plain(setup: &Setup) -> Vec<Point> {
    vec![point("", setup.clone())]
}

fn point(label: &str, setup: Setup) -> Point {
    Point { label: label.into(), setup }
}

/// Overload on another line.
fn line(overload: &Setup, change: &dyn Fn(&mut Line)) -> Setup {
    let mut setup = overload.clone();
    change(&mut setup.line);
    setup
}

/// The experiments of `name`: an id, a paper, a figure without its paper, or `all`. Empty for an
/// unknown name.
pub fn named(name: &str) -> Vec<Experiment> {
    let is = |experiment: &Experiment| {
        let (paper, figure) = experiment.id.split_once(':').unwrap_or(("", experiment.id));
        name == "all" || name == experiment.id || name == paper || name == figure
    };
    all().into_iter().filter(is).collect()
}

/// Requests at equal distances, as the papers' load generators send them.
fn web(users: usize, connections: usize, rate: f64, object_bytes: u64) -> Load {
    Load {
        users,
        connections,
        arrivals: Arrivals::Even(rate),
        object_bytes,
        direction: Direction::Down,
        think: None,
        keep: false,
    }
}

/// A user who always has this many requests under way.
fn greedy(connections: usize, object_bytes: u64) -> Load {
    Load { arrivals: Arrivals::Closed, keep: true, ..web(1, connections, 1.0, object_bytes) }
}

fn overload() -> Setup {
    Setup {
        line: Line::default(),
        primary: Some(web(1, 32, 5.0, 12_500)),
        secondary: web(5, 10, 25.0, 12_500),
        ping: true,
        call: false,
        // As in the paper; a machine's default may differ.
        congestion: "cubic".into(),
        duration: Duration::from_secs(12),
        warmup: Duration::from_secs(5),
        patience: Duration::from_secs(5),
    }
}

/// 0.3 and 1.2 requests of 100 kB per second are 1.2 Mbit/s, which is 70 % of the line.
fn underload() -> Setup {
    let think = Some((Duration::from_millis(10), Duration::from_millis(50)));
    let user =
        |users, connections, rate| Load { think, keep: true, ..web(users, connections, rate, 100_000) };
    Setup {
        primary: Some(user(1, 2, 0.3)),
        secondary: user(5, 10, 1.2),
        duration: Duration::from_secs(60),
        patience: Duration::from_secs(10),
        ..overload()
    }
}

/// The load of `setup` in objects of another size.
fn sized(setup: &Setup, bytes: u64) -> Setup {
    let factor = 12_500.0 / bytes as f64;
    Setup {
        primary: Some(web(1, 32, 5.0 * factor, bytes)),
        secondary: web(5, 10, 25.0 * factor, bytes),
        ..setup.clone()
    }
}

/// Duration of a period of [`changing`].
const CYCLE: Duration = Duration::from_secs(20);

/// Rates of 1.72 Mbit/s, half of it, 1.72 Mbit/s and twice as much come in turn, for 5 s each.
fn changing() -> leeway_link::Rates {
    let rates = [860_000, 1_720_000, 3_440_000, 1_720_000].map(Rate::from_bits_per_sec);
    let at = |i: u64| leeway_units::Time::ZERO + leeway_units::Duration::from_millis(5000 * (i + 1));
    let changes = (0..60).map(|i| (at(i), rates[i as usize % rates.len()])).collect();
    leeway_link::Rates { first: Rate::from_bits_per_sec(1_720_000), changes }
}

/// A rate that is multiplied by 1.25 or 0.8 every 200 ms, between 0.5 and 8 Mbit/s, for three
/// minutes. Every run has the same rates.
fn wandering() -> leeway_link::Rates {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut rate = 2e6_f64;
    let changes = (1..900).map(|i| {
        let step = if random.random::<bool>() { 1.25 } else { 0.8 };
        rate = (rate * step).clamp(0.5e6, 8e6);
        let at = leeway_units::Time::ZERO + leeway_units::Duration::from_millis(200 * i);
        (at, Rate::from_bits_per_sec(rate as u64))
    });
    leeway_link::Rates { first: Rate::from_bits_per_sec(2_000_000), changes: changes.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;

    #[test]
    fn every_experiment_can_be_built_and_has_a_name_of_its_own() {
        let all = all();
        for (i, experiment) in all.iter().enumerate() {
            assert!(!experiment.points.is_empty());
            assert!(all[..i].iter().all(|other| other.id != experiment.id));
            for mechanism in experiment.mechanisms {
                mechanism.parse::<Mechanism>().unwrap();
            }
            // Nothing was measured, so nothing can be decided.
            let comparison = Comparison { rows: Vec::new() };
            let nothing = [Outcome::of(&experiment.points[0], comparison)];
            assert_eq!(experiment.claims(&nothing), []);
        }
        assert_eq!(named("overload").len(), 1);
        assert!(named("dimogerontakis2017").len() >= 7);
        assert_eq!(named("all").len(), all.len());
        assert!(named("overlode").is_empty());
    }
}
