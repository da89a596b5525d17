//! Parts of a scenario that share nothing are played on several threads, with the results of one
//! thread.

mod common;

use leeway_sim::SimError;
use leeway_sim::results::Run;
use leeway_sim::scenario::{App, FlowGroup, Link, Scenario};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

fn on(threads: usize, scenario: &Scenario) -> Run {
    leeway_sim::run_with_baseline_unless(scenario, scenario.seed, threads, &|| false).unwrap()
}

fn bytes(run: &Run) -> String {
    format!("{}\n{:?}", serde_json::to_string(run).unwrap(), run.series)
}

/// A home with a gateway; a lossy radio link with arrivals; a line with voice and access links;
/// and two links that no flow uses.
const THREE: &str = r#"
duration = "6 s"
seed = 11
baseline = true

[[link]]
name = "line"
from = "net"
to = "home"
forward = { rate = "5 Mbit/s", delay = "10 ms", buffer = "3 BDP" }
reverse = { rate = "1 Mbit/s", delay = "10 ms", buffer = "40 pkt" }

[[link]]
name = "idle"
from = "nobody"
to = "home"
forward = { rate = "1 Mbit/s", delay = "1 ms", loss = "random:p=50%" }

[[link]]
name = "radio"
from = "mast"
to = "hill"
forward.rate = "6 Mbit/s"
forward.delay = "10 ms"
forward.queue = "red"
forward.loss = "gilbert_elliott:p=1%,r=30%"
forward.jitter = "normal:deviation=1ms"
reverse = { rate = "1 Mbit/s", delay = "10 ms", loss = "random:p=2%", arq = "tries=3,delay=5ms" }

[[link]]
name = "valley"
from = "hill"
to = "farm"
count = 3
forward = { rate = "4 Mbit/s", delay = "10 ms", queue = "pie" }

[[link]]
name = "cable"
from = "left"
to = "right"
forward = { rate = "3 Mbit/s", delay = "10 ms", queue = "fq_codel" }

[[link]]
name = "unlimited"
from = "nobody"
to = "nowhere"
forward = { delay = "10 ms" }

[[gateway]]
name = "gateway"
node = "home"
read_delay = "3 ms"

[[flow]]
name = "pages"
from = "net"
to = "home"
count = 2
app = { kind = "request", size = { pareto = { mean = "60 kB", shape = 1.3 } }, think = { exponential = "300 ms" } }

[[flow]]
name = "calls"
from = "left"
to = "right"
count = 2
app = { kind = "voice" }

[[flow]]
name = "short"
from = "mast"
to = "hill"
count = 2
tcp.overhead = "1 ms"
app = { kind = "poisson", arrivals_per_s = 6.0, size = { pareto = { mean = "20 kB", shape = 1.4 } } }

[[flow]]
name = "neighbours"
role = "background"
from = "net"
to = "home"
gateway = "gateway"
count = 6
flows_per_user = 2

[[flow]]
name = "uploads"
role = "background"
from = "home"
to = "net"
gateway = "gateway"
count = 2

[[flow]]
name = "bulk"
from = "mast"
to = "farm"
count = 3
law = "cubic"
tcp.overhead = "1 ms"
start = { uniform = ["0 s", "1 s"] }

[[flow]]
name = "files"
from = "right"
to = "left"
count = 2
access_rate = "2 Mbit/s"
access_delay = { uniform = ["1 ms", "9 ms"] }
app = { kind = "transfer", size = { exponential = "80 kB" }, count = 9, gap = "40 ms" }

[[flow]]
name = "talk"
role = "background"
from = "left"
to = "right"
law = "ledbat"
stop = "5 s"
app = { kind = "on_off", on = { exponential = "300 ms" }, off = { exponential = "200 ms" } }

[[event]]
at = "2 s"
link = "radio"
loss = "random:p=3%"

[[event]]
at = "3 s"
link = "cable"
rate = "2 Mbit/s"
delay = "20 ms"

[[event]]
at = "6 s"
link = "unlimited"
delay = "20 ms"

[[window]]
name = "early"
from = "500 ms"
to = "2500 ms"

[[window]]
name = "late"
from = "2500 ms"
to = "6 s"

[series]
every = "20 ms"
"#;

#[test]
fn several_threads_give_the_bytes_of_one() {
    let mut scenario = Scenario::parse(THREE, "three.toml").unwrap();
    for every in ["20 ms", "7 ms", "event", ""] {
        scenario.series = every.parse().ok().map(|every| leeway_sim::scenario::Series { every });
        let one = on(1, &scenario);
        assert!(one.windows[1].groups.iter().all(|group| group.throughput_bps > 0.0), "everybody sends");
        assert_eq!(one.series.flows.time_s.is_empty(), every.is_empty());
        for threads in [2, 3, 8] {
            assert!(bytes(&on(threads, &scenario)) == bytes(&one), "{threads} threads, every {every:?}");
        }
    }
}

#[test]
fn all_threads_give_up_a_run_that_is_not_wanted() {
    let text = THREE.replace("duration = \"6 s\"", "duration = \"50000 s\"");
    let text = text.replace("[series]\nevery = \"20 ms\"\n", "");
    let scenario = Scenario::parse(&text, "three.toml").unwrap();
    let asked = AtomicU32::new(0);
    let outcome = leeway_sim::run_unless(&scenario, 1, 3, &|| asked.fetch_add(1, Ordering::Relaxed) == 2);
    assert!(matches!(outcome, Err(SimError::Cancelled)), "{:?}", outcome.map(|run| run.work));
    assert_eq!(asked.into_inner(), 3, "nobody is asked again");
}

/// `scenario`, and its groups again over two more links.
fn three_times(scenario: &Scenario) -> Scenario {
    let mut three = scenario.clone();
    let dumbbell = scenario.dumbbell.as_ref().unwrap();
    for copy in [1, 2] {
        let end =
            |given: &Option<String>, usual: &str| format!("{}{copy}", given.as_deref().unwrap_or(usual));
        three.link.push(Link {
            name: format!("link {copy}"),
            count: 1,
            from: format!("left{copy}"),
            to: format!("right{copy}"),
            forward: dumbbell.bottleneck.clone(),
            reverse: dumbbell.reverse.clone(),
        });
        let others = scenario.flow.iter().filter(|group| !matches!(group.app, App::Peer { .. }));
        three.flow.extend(others.map(|group| FlowGroup {
            name: format!("{} {copy}", group.name),
            from: Some(end(&group.from, "left")),
            to: Some(end(&group.to, "right")),
            ..group.clone()
        }));
    }
    three
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_parts_on_threads_give_the_bytes_of_one(scenario in common::scenario()) {
        let scenario = three_times(&scenario);
        let one = bytes(&on(1, &scenario));
        prop_assert!(bytes(&on(2, &scenario)) == one);
        prop_assert!(bytes(&on(3, &scenario)) == one);
    }
}
