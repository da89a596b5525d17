//! Metrics that have bounds stay within them, on any link and in windows of any length.

use leeway_sim::results::{LinkSummary, Run};
use leeway_sim::scenario::Scenario;
use std::fmt::Write;

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn play(text: &str) -> Run {
    let scenario = parse(text);
    leeway_sim::run(&scenario, scenario.seed).expect("the scenario has routes")
}

/// Windows of `ms` milliseconds each, from 2 s on.
fn windows(count: u32, ms: u32) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        let (from, to) = (2000 + i * ms, 2000 + (i + 1) * ms);
        writeln!(text, "[[window]]\nname = \"w{i}\"\nfrom = \"{from} ms\"\nto = \"{to} ms\"").expect("text");
        text
    })
}

fn links(channel: &str, windows: &str) -> Vec<LinkSummary> {
    let run = play(&format!(
        "duration = \"12 s\"\n[dumbbell.bottleneck]\n{channel}\ndelay = \"10 ms\"\n\
         [[flow]]\nname = \"a\"\ncount = 3\n[[flow]]\nname = \"b\"\nlaw = \"cubic\"\n{windows}"
    ));
    run.windows.into_iter().map(|window| window.links[0].clone()).collect()
}

#[test]
fn a_short_window_of_a_busy_link_is_used_to_one_hundred_percent() {
    // A packet takes 12 ms. Without partial packets, a window of 5 ms would count a whole packet
    // or none.
    let each = links("rate = \"1 Mbit/s\"\nbuffer = \"50 pkt\"", &windows(40, 5));
    for (i, link) in each.iter().enumerate() {
        assert!((link.utilisation - 1.0).abs() < 1e-6, "window {i}: {}", link.utilisation);
    }
    let rates = "rates = [{ at = \"0 s\", rate = \"1 Mbit/s\" }, { at = \"2.013 s\", rate = \"700 kbit/s\" }, \
                 { at = \"2.05 s\", rate = \"3 Mbit/s\" }]\nbuffer = \"50 pkt\"";
    for (i, link) in links(rates, &windows(40, 5)).iter().enumerate() {
        assert!((link.utilisation - 1.0).abs() < 1e-6, "window {i}: {}", link.utilisation);
    }
}

#[test]
fn a_traced_link_is_used_as_far_as_the_window_has_opportunities() {
    // Trace: an opportunity each millisecond for 10 ms, then one each 50 ms for 1000 ms.
    let stamps = (1..=10).chain((1..=20).map(|i| 10 + i * 50));
    let text = stamps.fold(String::new(), |mut text, ms| {
        writeln!(text, "{ms}").expect("text");
        text
    });
    let file = std::env::temp_dir().join(format!("leeway-metrics-{}.trace", std::process::id()));
    std::fs::write(&file, text).expect("the folder for temporary files is writable");
    let channel = format!("trace = \"{}\"\nbuffer = \"50 pkt\"", file.display());
    let each = links(&channel, &windows(60, 20));
    std::fs::remove_file(&file).expect("it is there");
    let capacities: Vec<f64> = each.iter().map(|link| link.capacity_bps).collect();
    assert!(capacities.contains(&0.0) && capacities.iter().any(|&bps| bps > 4e6), "{capacities:?}");
    for (i, link) in each.iter().enumerate() {
        assert!(link.utilisation <= 1.0 + 1e-9, "window {i}: {}", link.utilisation);
        assert!(link.capacity_bps == 0.0 || link.utilisation > 0.8, "window {i}: {}", link.utilisation);
    }
}

#[test]
fn a_queue_is_at_most_full() {
    let fill = |rest: &str| links(&format!("rate = \"2 Mbit/s\"\n{rest}"), "")[0].queue_fill;
    for queue in
        ["droptail", "droptail:limit=300pkt", "red", "codel", "pie", "sfq", "drr", "fq_codel", "priority"]
    {
        let fill = fill(&format!("buffer = \"20 pkt\"\nqueue = \"{queue}\""));
        assert!(fill.is_some_and(|fill| (0.0..=1.0).contains(&fill)), "{queue}: {fill:?}");
    }
    // Classes have buffers and rates of their own, and on a link that retransmits a full buffer
    // takes longer.
    let own = "buffer = \"20 pkt\"\nqueue = \"borrowing:class0=20kbit/s..30kbit/s@0\"";
    assert_eq!(fill(own), None);
    assert_eq!(fill("buffer = \"20 pkt\"\nloss = \"random:p=50%\"\narq = \"tries=8,delay=5ms\""), None);
}

#[test]
fn droptail_of_ns2_lets_one_packet_less_wait() {
    let longest = |profile: &str, buffer: u32| {
        let run = play(&format!(
            "duration = \"30 s\"\nprofile = \"{profile}\"\n[dumbbell.bottleneck]\nrate = \"1 Mbit/s\"\ndelay = \"20 ms\"\n\
             buffer = \"{buffer} pkt\"\n[[flow]]\nname = \"a\"\n[series]\nevery = \"event\"\n"
        ));
        run.series.links.queue_pkt.iter().copied().max().expect("packets have waited")
    };
    assert_eq!((longest("linux", 10), longest("ns2", 10)), (10, 9));
    assert_eq!(longest("ns2", 1), 1, "at least one");
}

#[test]
fn flows_of_a_group_do_not_start_together_unless_it_says_so() {
    let text = |start: &str| {
        format!(
            "duration = \"60 s\"\nprofile = \"ns2\"\n[dumbbell.bottleneck]\nrate = \"10 Mbit/s\"\ndelay = \"25 ms\"\n\
             buffer = \"40 pkt\"\n[[flow]]\nname = \"a\"\ncount = 250\n{start}\n[[flow]]\nname = \"b\"\ncount = 250\n{start}\n"
        )
    };
    let share = |start: &str| play(&text(start)).windows[0].groups[1].share.expect("something arrives");
    let together = share("start = \"0 s\"");
    assert!(together < 0.01, "the second group's share where all start at 0: {together}");
    for start in ["", "start = \"0 s\"\ntcp.overhead = \"1 ms\""] {
        let share = share(start);
        assert!((0.4..0.6).contains(&share), "{start}: {share}");
    }
    let warned = |start: &str| {
        let warnings = parse(&text(start)).warnings();
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(
        warned("start = \"0 s\"").starts_with("flow[0].start: 500 flows start at 0"),
        "{}",
        warned("start = \"0 s\"")
    );
    for fine in ["", "start = \"0 s\"\ntcp.overhead = \"1 ms\"", "start = \"0 s\"\nstagger = \"3 ms\""] {
        assert_eq!(warned(fine), "", "{fine}");
    }
}

#[test]
fn what_is_wrong_with_a_quantity_is_said_with_its_unit() {
    let error = |app: &str| {
        let text = format!(
            "duration = \"5 s\"\n[dumbbell.bottleneck]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n[[flow]]\nname = \"a\"\n{app}\n"
        );
        Scenario::parse(&text, "test").expect_err("it is refused").to_string()
    };
    let late = error("start = \"7 s\"");
    assert!(late.contains("at most 5 s"), "{late}");
    let large = error("app = { kind = \"transfer\", size = \"2000 GB\" }");
    assert!(large.contains("at most 1000 GB"), "{large}");
    for size in ["\"0 B\"", "{ uniform = [\"0 B\", \"0 B\"] }", "{ exponential = \"0 B\" }"] {
        let nothing = error(&format!("app = {{ kind = \"transfer\", size = {size} }}"));
        assert!(nothing.contains("there is nothing to transfer (1 B or more)"), "{nothing}");
    }
}
