//! The properties that FlexiS claims (Li 2023, abstract), on a line of 50 ms with a buffer of one
//! BDP, for hosts of ns-2 and of Linux.

mod dumbbell;

use dumbbell::{flow, jain, line, rates};
use leeway_sim::results::Run;

/// A run of 60 s. The last 40 s count.
fn play(profile: &str, rate: &str, more: &str, flows: &str) -> Run {
    let bottleneck = format!("rate = \"{rate}\"\ndelay = \"25 ms\"\nbuffer = \"1 BDP\"\n{more}");
    dumbbell::play(profile, &bottleneck, flows, [20, 60])
}

/// (1) "generally has much lower impact on coexisting best effort traffic than LEDBAT".
#[test]
fn it_harms_less_than_ledbat() {
    for profile in ["ns2", "linux"] {
        for (rate, less) in [("10 Mbit/s", 0.4), ("50 Mbit/s", 0.8)] {
            for primary in ["newreno", "cubic"] {
                let takes = |law: &str| {
                    let run = play(profile, rate, "", &(flow("a", primary, "") + &flow("b", law, "")));
                    rates(&run)[1]
                };
                let (flexis, ledbat) = (takes("flexis"), takes("ledbat"));
                assert!(flexis < less * ledbat, "{profile}, {rate}, {primary}: {flexis}, LEDBAT {ledbat}");
            }
        }
    }
}

/// (2) "scalable across a wide range of available bandwidth". The queue stays short.
#[test]
fn it_uses_slow_and_fast_lines() {
    for profile in ["ns2", "linux"] {
        for (rate, most_ms) in [("1 Mbit/s", 13.0), ("10 Mbit/s", 2.0), ("100 Mbit/s", 1.0)] {
            let (used, wait_ms) = line(&play(profile, rate, "", &flow("a", "flexis", "")));
            assert!(used > 0.88 && wait_ms < most_ms, "{profile}, {rate}: {used}, {wait_ms} ms");
        }
    }
}

/// (3) "aggregate FlexiS traffic can effectively utilize available bandwidth"; (4) flows share it,
/// also with a latecomer.
#[test]
fn several_share_what_is_there() {
    for profile in ["ns2", "linux"] {
        for (flows, least) in [(2, 0.98), (5, 0.95)] {
            let text: String =
                (0..flows).map(|n| flow(&format!("f{n}"), "flexis", &format!("start = \"{n} s\""))).collect();
            let run = play(profile, "10 Mbit/s", "", &text);
            let (rates, used) = (rates(&run), line(&run).0);
            assert!(jain(&rates) > least && used > 0.9, "{profile}: {rates:?}, {used}");
        }
    }
}

/// (4) With different round-trip times the shares are less equal here than in the paper.
#[test]
fn round_trips_count_for_little() {
    for profile in ["ns2", "linux"] {
        for (access, least) in [("25 ms", 0.9), ("75 ms", 0.8)] {
            let far = format!("access_delay = \"{access}\"");
            let run = play(profile, "10 Mbit/s", "", &(flow("a", "flexis", "") + &flow("b", "flexis", &far)));
            assert!(jain(&rates(&run)) > least, "{profile}, {access}: {:?}", rates(&run));
        }
    }
}

/// (5) "almost not affected by route change and active queue management".
#[test]
fn a_change_of_route_and_managed_queues_change_little() {
    let change = "[[event]]\nat = \"30 s\"\ndelay = \"75 ms\"\n[[event]]\nat = \"45 s\"\ndelay = \"25 ms\"\n"
        .to_owned();
    for profile in ["ns2", "linux"] {
        let alone = flow("a", "flexis", "");
        let (plain, _) = line(&play(profile, "10 Mbit/s", "", &alone));
        for (queue, more) in
            [("droptail", change.as_str()), ("codel", ""), ("pie", ""), ("red", ""), ("fq_codel", "")]
        {
            let queue_line = format!("queue = \"{queue}\"\n");
            let (used, _) = line(&play(profile, "10 Mbit/s", &queue_line, &(alone.clone() + more)));
            assert!(used > plain - 0.05, "{profile}, {queue}: {used}, {plain}");
        }
    }
}
