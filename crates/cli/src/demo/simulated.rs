//! The demo's community in the simulator, for users without root: the same line, traffic and
//! gateway.

use super::figures::Figures;
use super::{Asks, BUFFER, DELAY, DOWN, NEIGHBOURS, PAGE_BYTES, PAGES_A_SECOND, UP};
use crate::Failure;
use leeway_sim::results::GroupSummary;
use leeway_sim::scenario::Scenario;
use std::fmt::Write;

/// Whether the neighbours send, and through what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbours {
    /// They are silent.
    Away,
    /// They send through the gateway.
    Sharing,
    /// They send on the line directly, as the home does.
    Unheld,
}

/// Simulated seconds before anything is counted.
const WARMUP_S: u64 = 5;

/// Runs the demo's scenario in the simulator for `seconds` of simulated time, after the warm-up.
///
/// # Errors
/// The simulator's, which would be a mistake of this program.
pub fn play(label: &str, neighbours: Neighbours, seconds: u64) -> Result<Figures, Failure> {
    let text = scenario(neighbours, seconds);
    let scenario = Scenario::parse(&text, "the demo")?;
    let run = leeway_sim::run(&scenario, 1).map_err(|error| Failure::Run(error.to_string()))?;
    let groups = run.windows.first().map_or(&[][..], |window| &window.groups);
    let group = |name: &str| groups.iter().find(|group| group.name == name);
    let rate = |name: &str| group(name).map_or(0.0, |group: &GroupSummary| group.goodput_bps);
    let pages = group("home").and_then(|home| home.completion.as_ref());
    let ping = group("ping").and_then(|ping| ping.completion.as_ref());
    let rates = NEIGHBOURS.iter().map(|one| rate(one.name)).collect();
    Ok(Figures {
        label: label.into(),
        pages: pages.map(|times| [times.mean_s, times.p95_s]),
        ping: ping.map(|times| [times.p50_s, times.p95_s]),
        neighbours_bps: (neighbours != Neighbours::Away).then_some(rates),
    })
}

fn scenario(neighbours: Neighbours, seconds: u64) -> String {
    let to = WARMUP_S + seconds;
    let mut text = format!(
        "duration = \"{to} s\"\n\
         window = [{{ name = \"all\", from = \"{WARMUP_S} s\", to = \"{to} s\" }}]\n\
         [[link]]\nname = \"line\"\nfrom = \"isp\"\nto = \"gateway\"\n\
         forward = {{ rate = \"{DOWN}\", delay = \"{DELAY}\", buffer = \"{BUFFER}\" }}\n\
         reverse = {{ rate = \"{UP}\", delay = \"{DELAY}\", buffer = \"{BUFFER}\" }}\n\
         [[link]]\nname = \"lan\"\nfrom = \"gateway\"\nto = \"laptop\"\nforward = {{ rate = \"1 Gbit/s\" }}\n\
         [[gateway]]\nname = \"gateway\"\nnode = \"gateway\"\n"
    );
    let mut flow = |name: &str, to: &str, body: &str| {
        let _ = writeln!(
            text,
            "[[flow]]\nname = \"{name}\"\nfrom = \"isp\"\nto = \"{to}\"\nlaw = \"cubic\"\n{body}"
        );
    };
    let ask = |bytes: u64, think: &str| {
        format!("app = {{ kind = \"request\", size = \"{bytes} B\", think = {think} }}")
    };
    // The simulator has no open arrivals: six users with long pauses request pages at the same
    // mean rate.
    let home = 6;
    let think = format!("{{ exponential = \"{:.0} ms\" }}", 1e3 * f64::from(home) / PAGES_A_SECOND);
    flow("home", "gateway", &format!("count = {home}\n{}", ask(PAGE_BYTES, &think)));
    // It is not the gateway's node where a ping ends, so nobody yields to it.
    flow("ping", "laptop", &ask(64, "\"100 ms\""));
    for one in NEIGHBOURS.iter().filter(|_| neighbours != Neighbours::Away) {
        let Asks { connections: count, object_bytes, think } = one.uses.asks();
        let think = match think {
            Some((least, most)) if least < most => format!("{{ uniform = [\"{least:?}\", \"{most:?}\"] }}"),
            Some((always, _)) => format!("\"{always:?}\""),
            None => "\"0 s\"".into(),
        };
        let app = ask(object_bytes, &think);
        let held = match neighbours {
            Neighbours::Sharing => {
                format!("role = \"background\"\ngateway = \"gateway\"\nflows_per_user = {count}\n")
            }
            _ => "role = \"background\"\n".to_owned(),
        };
        flow(one.name, "gateway", &format!("count = {count}\n{held}{app}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_keeps_the_homes_pages_fast() {
        let play = |neighbours| play("", neighbours, 30).unwrap_or_else(|_| panic!("{neighbours:?}"));
        let page = |figures: &Figures| figures.pages.unwrap()[0];
        let alone = play(Neighbours::Away);
        let (sharing, unheld) = (play(Neighbours::Sharing), play(Neighbours::Unheld));
        assert_eq!(alone.neighbours_bps, None);
        assert!(page(&sharing) < 1.6 * page(&alone), "{sharing:?} beside {alone:?}");
        assert!(page(&unheld) > 1.5 * page(&sharing), "{unheld:?} beside {sharing:?}");
        assert!(sharing.neighbours_bps.as_ref().unwrap().iter().all(|&bps| bps > 1e5), "{sharing:?}");
    }
}
