//! The lines, homes and neighbours that the sharing is judged on, and the outcome.

use leeway_sim::results::{GroupSummary, WindowSummary};
use leeway_sim::scenario::Scenario;
use std::fmt::Write;

/// The home's line to the Internet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Rate of the downlink. Unit: Mbit/s. The uplink has a quarter of it.
    pub mbps: f64,
    /// Round-trip time without queues. Unit: ms.
    pub rtt_ms: u64,
    /// Buffer of the downlink. Unit: BDP.
    pub bdp: f64,
    /// Queue discipline of the downlink.
    pub queue: &'static str,
}

const RATES: [f64; 7] = [0.5, 1.72, 5.0, 10.0, 25.0, 50.0, 200.0];
const RTTS: [u64; 7] = [10, 20, 40, 80, 150, 300, 600];
const BUFFERS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 10.0];
const QUEUES: [&str; 3] = ["droptail", "codel", "fq_codel"];

/// What the home does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Nothing, except for its ping.
    Idle,
    /// A request for 100 kB about every 4 s.
    Pages,
    /// Ten requests a second, for at most two fifths of the line.
    Requests,
    /// One large download.
    Download,
    /// One large upload.
    Upload,
    /// A voice call.
    Call,
}

impl Home {
    /// All kinds.
    pub const ALL: [Home; 6] =
        [Home::Idle, Home::Pages, Home::Requests, Home::Download, Home::Upload, Home::Call];
}

/// What the neighbours do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbours {
    /// Requests for objects of 12.5 kB, and endless downloads: more than the line carries.
    Overload,
    /// Requests for objects of 2.5 kB.
    Small,
    /// Uploads.
    Uploads,
    /// Downloads from servers that pause half of the time, beside one that does not pause.
    Pausing,
    /// Downloads from servers nearby, and from servers that are 300 ms further away.
    Far,
    /// Downloads from servers that send at a fiftieth of the line each, beside two without a
    /// limit.
    Slow,
}

/// `count` different lines, drawn by `seed`.
pub fn draw(seed: u64, count: usize) -> Vec<Line> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % n
    };
    let mut lines = Vec::new();
    while lines.len() < count {
        let line = Line {
            mbps: RATES[below(7)],
            rtt_ms: RTTS[below(7)],
            bdp: BUFFERS[below(6)],
            queue: QUEUES[below(3)],
        };
        // Lines of 600 ms are satellites, which are not faster than 50 Mbit/s.
        if !lines.contains(&line) && (line.rtt_ms < 600 || line.mbps <= 50.0) {
            lines.push(line);
        }
    }
    lines
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>6} {:>4} {:>5} {:<9}", self.mbps, self.rtt_ms, self.bdp, self.queue)
    }
}

impl Line {
    /// How long to play: some transfers of a slow line, some round trips of a long one. Unit: s.
    fn seconds(self) -> u64 {
        match self.mbps {
            slow if slow < 10.0 => 50,
            middle if middle < 100.0 => 30,
            _ => 20,
        }
    }

    /// The scenario in TOML. The home's ping goes in the direction of the neighbours' data. It is
    /// a background group without a gateway, because a ping does not make the home present, and so
    /// the gateway does not see it.
    fn scenario(self, home: Home, neighbours: Option<Neighbours>, upload: bool, extra: &str) -> String {
        let Line { mbps, rtt_ms, bdp, queue } = self;
        let (up, delay, to) = (mbps / 4.0, rtt_ms as f64 / 2.0, self.seconds());
        let up_bytes = (up * 1e6 / 8.0 * 0.1).max(15_000.0) as u64;
        let mut text = format!(
            "duration = \"{to} s\"\nseed = 1\n\
             window = [{{ name = \"steady\", from = \"10 s\", to = \"{to} s\" }}]\n\
             [dumbbell.bottleneck]\nrate = \"{mbps} Mbit/s\"\ndelay = \"{delay} ms\"\nbuffer = \"{bdp} BDP\"\nqueue = \"{queue}\"\n\
             [dumbbell.reverse]\nrate = \"{up} Mbit/s\"\ndelay = \"{delay} ms\"\nbuffer = \"{up_bytes} B\"\n\
             [[gateway]]\nname = \"gateway\"\nnode = \"right\"\n{extra}\n",
        );
        let mut flow = |name: &str, body: &str| {
            let _ = writeln!(text, "[[flow]]\nname = \"{name}\"\n{body}");
        };
        let up = "from = \"right\"\nto = \"left\"\n";
        let ping = "role = \"background\"\napp = { kind = \"voice\", codec = \"g729\" }";
        flow("ping", &format!("{}{ping}", if upload { up } else { "" }));
        let object = (mbps * 1e6 * 0.4 / 8.0 / 10.0).min(12_500.0) as u64;
        match home {
            Home::Idle => {}
            Home::Pages => flow(
                "home",
                "law = \"cubic\"\napp = { kind = \"request\", size = \"100 kB\", think = { exponential = \"4 s\" } }",
            ),
            Home::Requests => flow(
                "home",
                &format!(
                    "law = \"cubic\"\ncount = 10\napp = {{ kind = \"request\", size = \"{object} B\", think = {{ exponential = \"1 s\" }} }}"
                ),
            ),
            Home::Download => flow("home", "law = \"cubic\""),
            Home::Upload => flow("home", &format!("{up}law = \"cubic\"")),
            Home::Call => flow("home", "app = { kind = \"voice\" }"),
        }
        let held = "role = \"background\"\ngateway = \"gateway\"\nlaw = \"cubic\"\n";
        match neighbours {
            None => {}
            Some(Neighbours::Overload) => {
                flow("bulk", &format!("{held}count = 10\nflows_per_user = 2"));
                flow(
                    "objects",
                    &format!(
                        "{held}count = 20\nflows_per_user = 4\napp = {{ kind = \"request\", size = \"12.5 kB\" }}"
                    ),
                );
            }
            Some(Neighbours::Small) => {
                flow(
                    "objects",
                    &format!(
                        "{held}count = 200\nflows_per_user = 20\napp = {{ kind = \"request\", size = \"2.5 kB\" }}"
                    ),
                );
            }
            Some(Neighbours::Pausing) => {
                flow("bulk", held);
                flow(
                    "pausing",
                    &format!(
                        "{held}count = 10\napp = {{ kind = \"on_off\", on = {{ exponential = \"300 ms\" }}, off = {{ exponential = \"300 ms\" }} }}"
                    ),
                );
            }
            Some(Neighbours::Far) => {
                flow("near", &format!("{held}count = 5"));
                flow("far", &format!("{held}count = 5\naccess_delay = \"150 ms\""));
            }
            Some(Neighbours::Slow) => {
                flow("bulk", &format!("{held}count = 2"));
                flow("slow", &format!("{held}count = 10\naccess_rate = \"{} kbit/s\"", mbps * 20.0));
            }
            Some(Neighbours::Uploads) => {
                flow("uploads", &format!("{held}{up}count = 10\nflows_per_user = 2"))
            }
        }
        text
    }

    /// Plays the scenario. Returns the metrics after the first 10 s.
    pub fn play(
        self,
        home: Home,
        neighbours: Option<Neighbours>,
        upload: bool,
        extra: &str,
    ) -> WindowSummary {
        let text = self.scenario(home, neighbours, upload, extra);
        let scenario =
            Scenario::parse(&text, "sharing.toml").unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        leeway_sim::run(&scenario, 1).expect("it can be run").windows.remove(0)
    }
}

/// What the neighbours did to the home, and what they got.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Mean completion time of the home's answers over that of the home alone. For a transfer: its
    /// throughput over that alone.
    pub mean: f64,
    /// The same for the 99th percentile; 0 for a transfer.
    pub p99: f64,
    /// Increase of the 99th percentile of the home's ping. Unit: ms.
    pub ping_ms: f64,
    /// What the neighbours got, over what the home alone leaves.
    pub spare: f64,
}

fn group<'a>(window: &'a WindowSummary, name: &str) -> Option<&'a GroupSummary> {
    window.groups.iter().find(|group| group.name == name)
}

/// Compares the home beside neighbours with the home alone. `extra`: lines for the scenario's
/// gateway.
pub fn judge(line: Line, home: Home, neighbours: Neighbours, extra: &str) -> Outcome {
    let upload = neighbours == Neighbours::Uploads;
    let (alone, beside) =
        (line.play(home, None, upload, extra), line.play(home, Some(neighbours), upload, extra));
    let owd =
        |window: &WindowSummary| group(window, "ping").and_then(|ping| ping.owd).map_or(0.0, |owd| owd.p99_s);
    let (before, after) = (group(&alone, "home"), group(&beside, "home"));
    let completions =
        Option::zip(before.and_then(|group| group.completion), after.and_then(|group| group.completion));
    let (mean, p99) = match completions {
        Some((before, after)) => (after.mean_s / before.mean_s, after.p99_s / before.p99_s),
        None => (Option::zip(before, after).map_or(1.0, |(a, b)| b.throughput_bps / a.throughput_bps), 0.0),
    };
    let link = &alone.links[usize::from(upload)];
    let home_bps: f64 = alone
        .groups
        .iter()
        .filter(|group| group.role == "primary" && (home == Home::Upload && group.name == "home") == upload)
        .map(|group| group.throughput_bps)
        .sum();
    let got: f64 = beside
        .groups
        .iter()
        .filter(|group| group.role == "background" && group.name != "ping")
        .map(|group| group.throughput_bps)
        .sum();
    let spare_bps = (link.capacity_bps - home_bps).max(0.02 * link.capacity_bps);
    Outcome { mean, p99, ping_ms: (owd(&beside) - owd(&alone)) * 1e3, spare: got / spare_bps }
}

/// One row of a table.
pub fn row(line: Line, home: Home, outcome: Outcome) -> String {
    let Outcome { mean, p99, ping_ms, spare } = outcome;
    let home = format!("{home:?}").to_lowercase();
    format!("{line} {home:<8} {mean:>5.2} {p99:>5.2} {ping_ms:>7.1} {spare:>5.2}")
}

/// Header of the table.
pub const HEAD: &str = "Mbit/s   ms   BDP queue     home      mean   p99 ping ms spare";

/// The median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A gateway that reads bytes up to 2 ms late, as a program on sockets does.
pub const SOCKETS: &str = "read_delay = \"2 ms\"";

/// A gateway that may not see packets, not even those of the home.
pub const BLIND: &str = "sees_packets = false";

/// A relay at the other end of the line.
pub const RELAY: &str = "relay = \"left\"";

/// A table for a gateway on sockets, with neighbours whose servers pause, are far away or slow,
/// and with uploads.
pub fn on_sockets(extra: &str) -> String {
    let lines = [
        Line { mbps: 1.72, rtt_ms: 20, bdp: 5.0, queue: "droptail" },
        Line { mbps: 10.0, rtt_ms: 20, bdp: 4.0, queue: "droptail" },
        Line { mbps: 50.0, rtt_ms: 40, bdp: 1.0, queue: "droptail" },
    ];
    let mut table = format!("neighbours {HEAD}\n");
    use Neighbours::{Far, Overload, Pausing, Slow, Uploads};
    for neighbours in [Overload, Pausing, Far, Slow, Uploads] {
        let name = format!("{neighbours:?}").to_lowercase();
        for line in lines {
            let homes = match neighbours {
                Uploads => [Home::Idle, Home::Upload],
                _ => [Home::Idle, Home::Requests],
            };
            for home in homes {
                let _ =
                    writeln!(table, "{name:<10} {}", row(line, home, judge(line, home, neighbours, extra)));
            }
        }
    }
    table
}
