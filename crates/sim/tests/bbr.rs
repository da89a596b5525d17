//! The properties of BBR on one line of 50 Mbit/s and 40 ms, for hosts of ns-2 and of Linux
//! (delayed acknowledgements), both with SACK.

mod dumbbell;

use dumbbell::{jain, line, rates, run};
use leeway_sim::results::Run;

/// A run of 60 s. The last 40 s count.
fn play(profile: &str, buffer: &str, more: &str, flows: &str) -> Run {
    let bottleneck = format!("rate = \"50 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"{buffer}\"\n{more}");
    dumbbell::play(profile, &bottleneck, flows, [20, 60])
}

fn flow(name: &str, law: &str, start: &str) -> String {
    dumbbell::flow(name, law, &format!("start = \"{start}\"\ntcp = {{ sack = true }}"))
}

#[test]
fn alone_it_uses_the_line_with_less_in_the_queue_than_cubic() {
    for profile in ["ns2", "linux"] {
        for buffer in ["0.25 BDP", "1 BDP", "4 BDP"] {
            let (used, wait_ms) = line(&play(profile, buffer, "", &flow("a", "bbr", "0 s")));
            assert!(used >= 0.93 && wait_ms < 5.0, "{profile}, {buffer}: {used}, {wait_ms} ms");
        }
        let (_, wait_ms) = line(&play(profile, "1 BDP", "", &flow("a", "cubic", "0 s")));
        assert!(wait_ms > 20.0, "{profile}: CUBIC, {wait_ms} ms");
    }
}

#[test]
fn two_of_a_kind_share() {
    for profile in ["ns2", "linux"] {
        for buffer in ["0.5 BDP", "1 BDP", "4 BDP"] {
            let run = play(profile, buffer, "", &(flow("a", "bbr", "0 s") + &flow("b", "bbr", "5 s")));
            let rates = rates(&run);
            assert!(jain(&rates) > 0.85 && rates[0] + rates[1] > 46.0, "{profile}, {buffer}: {rates:?}");
        }
    }
}

/// BBR does not starve CUBIC, and CUBIC does not starve BBR.
#[test]
fn beside_cubic_both_go_on() {
    for profile in ["ns2", "linux"] {
        for buffer in ["0.5 BDP", "1 BDP", "4 BDP"] {
            let run = play(profile, buffer, "", &(flow("a", "bbr", "0 s") + &flow("b", "cubic", "0 s")));
            let rates = rates(&run);
            assert!(rates[0] > 15.0 && rates[1] > 7.5, "{profile}, {buffer}: {rates:?}");
            assert!(rates[0] + rates[1] > 47.0, "{profile}, {buffer}: {rates:?}");
        }
    }
}

/// At random losses of 1 % BBR keeps most of the line, and CUBIC a twelfth.
#[test]
fn losses_by_chance_take_little() {
    for profile in ["ns2", "linux"] {
        let rate = |law| {
            let run = play(profile, "1 BDP", "loss = \"random:p=1%\"\n", &flow("a", law, "0 s"));
            rates(&run)[0]
        };
        let (bbr, cubic) = (rate("bbr"), rate("cubic"));
        assert!(bbr > 0.65 * 50.0 && cubic < 6.0, "{profile}: {bbr}, CUBIC {cubic}");
    }
}

/// Beside CUBIC, which fills a buffer of 4 BDP, BBR probes for the smallest round-trip time every
/// 5 s.
#[test]
fn it_looks_for_the_smallest_round_trip() {
    let text = "duration = \"40 s\"\nprofile = \"linux\"\n[dumbbell.bottleneck]\nrate = \"50 Mbit/s\"\ndelay = \"20 ms\"\n\
                buffer = \"4 BDP\"\n[[flow]]\nname = \"a\"\nlaw = \"bbr\"\n[[flow]]\nname = \"b\"\nlaw = \"cubic\"\n\
                [series]\nevery = \"50 ms\"\n";
    let run = run(text);
    let flows = &run.series.flows;
    let slow: Vec<bool> =
        (0..flows.time_s.len()).filter(|&at| flows.flow[at] == 0).map(|at| flows.phase[at] == 4).collect();
    let times = slow.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((5..=8).contains(&times), "{times} times in 40 s");
}
