//! The cases of the live measurements: networks, laws, competing flows and schedules.

use std::fmt::Write;

/// The laws of the control library. Laws with a target use 25 ms.
pub const LAWS: [&str; 10] = [
    "ledbat:target=25ms",
    "fledbat:target=25ms",
    "ledbatpp:target=25ms",
    "flower:target=25ms",
    "lp",
    "nice",
    "vegas",
    "newreno",
    "cubic",
    "ebb",
];
/// Variants for the base network only: LEDBAT with the target of RFC 6817 (100 ms), and FLOWER
/// with a lowest window of two segments, which delayed ACKs do not hold up.
pub const VARIANTS: [&str; 2] = ["ledbat", "flower:target=25ms,floor=2"];

/// A bottleneck link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Its rate.
    pub rate_mbit: u32,
    /// The round trip without a queue.
    pub rtt_ms: u32,
    /// The queue discipline.
    pub queue: &'static str,
    /// Size of the buffer, in bandwidth-delay products.
    pub buffer_bdp: f64,
}

/// The base network. Each of the others differs from it in one factor.
pub const BASE: Network = Network { rate_mbit: 10, rtt_ms: 50, queue: "droptail", buffer_bdp: 2.0 };

/// The other networks.
pub const NETWORKS: [Network; 10] = [
    Network { buffer_bdp: 0.5, ..BASE },
    Network { buffer_bdp: 1.0, ..BASE },
    Network { buffer_bdp: 4.0, ..BASE },
    Network { queue: "codel", buffer_bdp: 4.0, ..BASE },
    Network { queue: "pie", buffer_bdp: 4.0, ..BASE },
    Network { queue: "red", buffer_bdp: 4.0, ..BASE },
    Network { rate_mbit: 50, ..BASE },
    Network { rtt_ms: 20, ..BASE },
    Network { rtt_ms: 100, ..BASE },
    FAR,
];

/// A satellite's round trip.
pub const FAR: Network = Network { rtt_ms: 600, ..BASE };

/// A fast line, where a window takes long to grow back.
pub const FAST: Network = Network { rate_mbit: 50, ..BASE };
/// The laws on the fast line, which are observed for [`PATIENT_S`] after the primary flow.
pub const FAST_LAWS: [&str; 9] = [
    "ledbat:target=25ms",
    "ledbat:target=25ms,gain_up=4,gain_down=10",
    "fledbat:target=25ms",
    "ledbatpp:target=25ms",
    "flower:target=25ms,floor=2",
    "lp",
    "nice",
    "vegas",
    "ebb",
];
/// Seconds of observation after the primary flow, on the fast line.
const PATIENT_S: f64 = 40.0;

/// The flow that competes with the law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The kernel's CUBIC.
    Cubic,
    /// The kernel's BBR.
    Bbr,
    /// A second flow of the same law: a latecomer.
    Same,
    /// One direction of a call, 64 kbit/s.
    Voice,
}

impl Beside {
    /// All kinds.
    pub const ALL: [Beside; 4] = [Beside::Cubic, Beside::Bbr, Beside::Same, Beside::Voice];

    /// Its name in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Beside::Cubic => "cubic",
            Beside::Bbr => "bbr",
            Beside::Same => "same",
            Beside::Voice => "voice",
        }
    }
}

/// One case to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The bottleneck.
    pub network: Network,
    /// The law of the background flow; `None` measures the primary flow alone.
    pub law: Option<String>,
    /// The competing flow.
    pub beside: Beside,
    /// The schedule of the flows.
    pub schedule: Schedule,
    /// Whether every segment is acknowledged at once, without delayed ACKs (RFC 9293, 3.8.6.3).
    pub at_once: bool,
}

/// The three periods of a case, in seconds: the background flow alone, with the other flow, and
/// alone again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Time until the other flow starts.
    pub alone_s: f64,
    /// Time that the other flow lasts.
    pub beside_s: f64,
    /// Time from the stop of the other flow to the end.
    pub after_s: f64,
    /// Start of the measurement within the time alone.
    pub alone_from_s: f64,
    /// Start of the measurement within the time of both flows.
    pub beside_from_s: f64,
}

impl Schedule {
    fn of(beside: Beside, network: &Network) -> Schedule {
        // Over a satellite's round trip, every phase takes longer.
        let times = if network.rtt_ms > 200 { 4.0 } else { 1.0 };
        let [alone, beside, after, alone_from, beside_from] = match beside {
            Beside::Cubic | Beside::Bbr => [15.0, 18.0, 7.0, 7.5, 6.0],
            Beside::Same => [10.0, 40.0, 0.0, 5.0, 20.0],
            Beside::Voice => [8.0, 20.0, 0.0, 4.0, 2.0],
        };
        Schedule {
            alone_s: alone * times,
            beside_s: beside * times,
            after_s: after * times,
            alone_from_s: alone_from * times,
            beside_from_s: beside_from * times,
        }
    }

    /// Length of the whole case.
    pub fn seconds(&self) -> f64 {
        self.alone_s + self.beside_s + self.after_s
    }
}

impl Case {
    /// A case with its usual schedule.
    pub fn new(network: Network, law: Option<&str>, beside: Beside) -> Case {
        let mut schedule = Schedule::of(beside, &network);
        if law.is_none() {
            schedule = Schedule { alone_s: 0.0, after_s: 0.0, ..schedule };
        }
        Case { network, law: law.map(str::to_owned), beside, schedule, at_once: false }
    }

    /// A case of a fast line.
    pub fn fast(law: Option<&str>) -> Case {
        let mut case = Case::new(FAST, law, Beside::Cubic);
        if law.is_some() {
            case.schedule.after_s = PATIENT_S;
        }
        case
    }

    /// This case without delayed ACKs.
    pub fn at_once(self) -> Case {
        Case { at_once: true, ..self }
    }

    /// The name in results.
    pub fn name(&self) -> String {
        let law = self.law.as_deref().unwrap_or("nothing");
        let patient = if self.schedule.after_s == PATIENT_S { ", then for long" } else { "" };
        let at_once = if self.at_once { ", acknowledged at once" } else { "" };
        format!("{} {law} beside {}{patient}{at_once}", self.network.name(), self.beside.as_str())
    }

    /// The simulator's law for the competing flow; `None` if the simulator has none.
    pub fn law_beside(&self) -> Option<&str> {
        match self.beside {
            // The kernel's CUBIC has HyStart (tcp_cubic.c: hystart = 1).
            Beside::Cubic => Some("cubic:hystart=on"),
            Beside::Same => self.law.as_deref(),
            Beside::Bbr | Beside::Voice => None,
        }
    }
}

impl Network {
    /// The name in results.
    pub fn name(&self) -> String {
        format!("{}Mbit/s {}ms {} {}BDP", self.rate_mbit, self.rtt_ms, self.queue, self.buffer_bdp)
    }

    /// The rate in bit/s.
    pub fn bits_per_s(&self) -> f64 {
        f64::from(self.rate_mbit) * 1e6
    }

    /// The one-way delay.
    pub fn delay_s(&self) -> f64 {
        f64::from(self.rtt_ms) * 5e-4
    }

    /// The fields of the channel to the receiver, as scenarios and test networks spell them.
    pub fn channel(&self) -> String {
        let Network { rate_mbit, rtt_ms, queue, buffer_bdp } = self;
        let half_us = rtt_ms * 500;
        format!(
            "rate = \"{rate_mbit} Mbit/s\"\ndelay = \"{half_us} us\"\nqueue = \"{queue}\"\nbuffer = \"{buffer_bdp} BDP\"\n"
        )
    }

    /// The test network: senders on hosts of their own, a router on each side of the bottleneck.
    pub fn testnet(&self, log: &str) -> String {
        let mut text = String::new();
        for host in ["background", "primary", "left", "right", "receiver"] {
            // Metrics of one connection must not influence the next. The send buffer is large
            // enough for a sender that gets the processor late on a busy machine.
            let _ = writeln!(
                text,
                "[host.{host}.sysctl]\n\"net.ipv4.tcp_no_metrics_save\" = 1\n\"net.ipv4.tcp_wmem\" = \"4096 4194304 16777216\""
            );
        }
        for (name, from, to) in [
            ("access-b", "background", "left"),
            ("access-p", "primary", "left"),
            ("exit", "right", "receiver"),
        ] {
            let _ = writeln!(text, "[link.{name}]\nbetween = [\"{from}\", \"{to}\"]");
        }
        let _ = writeln!(
            text,
            "[link.bottleneck]\nbetween = [\"left\", \"right\"]\nlog = \"{log}\"\ndelay = \"{} us\"\n[link.bottleneck.up]\n{}",
            self.rtt_ms * 500,
            self.channel()
        );
        text
    }
}

/// Cases in which simulator and kernel differ with delayed ACKs, to see whether delayed ACKs are
/// the cause.
pub fn without_delayed_acks() -> Vec<Case> {
    let [codel, fast, far] = [NETWORKS[3], FAST, FAR];
    let [flower, lp, nice, vegas] = [LAWS[3], LAWS[4], LAWS[5], LAWS[6]];
    [
        (BASE, flower, Beside::Cubic),
        (BASE, lp, Beside::Cubic),
        (BASE, vegas, Beside::Cubic),
        (BASE, flower, Beside::Same),
        (BASE, lp, Beside::Same),
        (BASE, nice, Beside::Same),
        (codel, lp, Beside::Cubic),
        (fast, nice, Beside::Cubic),
        (far, lp, Beside::Cubic),
    ]
    .map(|(network, law, beside)| Case::new(network, Some(law), beside).at_once())
    .into()
}

/// All cases: those that are compared, those of the fast line, and a few without delayed ACKs.
pub fn matrix() -> Vec<Case> {
    let mut cases = compared();
    cases.extend(FAST_LAWS.map(|law| Case::fast(Some(law))));
    cases.extend(without_delayed_acks());
    cases
}

/// The cases in which simulator and kernel are compared: every law on the base network with every
/// other flow, on the other networks with CUBIC, and CUBIC and BBR without any law.
pub fn compared() -> Vec<Case> {
    let mut cases = Vec::new();
    for beside in Beside::ALL {
        if matches!(beside, Beside::Cubic | Beside::Bbr) {
            cases.push(Case::new(BASE, None, beside));
        }
        cases.extend(LAWS.into_iter().chain(VARIANTS).map(|law| Case::new(BASE, Some(law), beside)));
    }
    for network in NETWORKS {
        cases.push(Case::new(network, None, Beside::Cubic));
        cases.extend(LAWS.map(|law| Case::new(network, Some(law), Beside::Cubic)));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_emulator::testnet::Spec;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_network_that_can_be() {
        let cases = matrix();
        let names: BTreeSet<String> = cases.iter().map(Case::name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            Spec::parse(&case.network.testnet("log.csv"), Path::new("live.toml")).unwrap();
        }
    }
}
