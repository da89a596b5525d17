//! Whole runs, against values that can be computed by hand.

use leeway_sim::results::{GroupSummary, Run};
use leeway_sim::scenario::Scenario;
use std::fmt::Write;

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn play(text: &str) -> Run {
    let scenario = parse(text);
    leeway_sim::run(&scenario, scenario.seed).expect("the scenario has routes")
}

fn group<'a>(run: &'a Run, name: &str) -> &'a GroupSummary {
    run.windows[0].groups.iter().find(|group| group.name == name).expect("the scenario has this group")
}

/// A scenario with a line of 10 Mbit/s, 25 ms in each direction, and the given buffer.
fn dumbbell(seconds: u32, buffer: &str, rest: &str) -> String {
    format!(
        "duration = \"{seconds} s\"\nprofile = \"ns2\"\n[dumbbell.bottleneck]\nrate = \"10 Mbit/s\"\ndelay = \"25 ms\"\n\
         buffer = \"{buffer}\"\n{rest}"
    )
}

fn near(what: &str, here: f64, expected: f64, tolerance: f64) {
    assert!((here - expected).abs() <= tolerance, "{what}: {here}, expected {expected} within {tolerance}");
}

#[test]
fn ledbat_alone_keeps_the_queue_at_its_target() {
    for target_ms in [5.0, 25.0, 60.0] {
        let law = format!("ledbat:target={target_ms}ms,slow_start=none,floor=1");
        let rest = format!(
            "[[flow]]\nname = \"a\"\nlaw = \"{law}\"\n[[window]]\nname = \"w\"\nfrom = \"60 s\"\nto = \"120 s\"\n"
        );
        let run = play(&dumbbell(120, "200 pkt", &rest));
        let delay = run.windows[0].links[0].delay.expect("packets have waited");
        near("queuing delay in ms", delay.mean_s * 1e3, target_ms, 1.5);
    }
}

#[test]
fn fledbat_flows_find_the_equilibrium_of_the_fluid_model() {
    // Carofiglio 2013: queue = C tau + N alpha tau / (zeta R), equal shares.
    let (tau, zeta) = (0.025, 0.1);
    for flows in [2.0, 5.0] {
        let rest = format!(
            "[[flow]]\nname = \"a\"\ncount = {flows}\nlaw = \"fledbat:target=25ms,zeta={zeta},floor=1,slow_start=none\"\n\
             [[window]]\nname = \"w\"\nfrom = \"200 s\"\nto = \"300 s\"\n"
        );
        let run = play(&dumbbell(300, "400 pkt", &rest));
        let window = &run.windows[0];
        let capacity = 1e7 / 12_000.0;
        // R contains the queuing delay itself.
        let mut queue = capacity * tau;
        for _ in 0..50 {
            queue = capacity * tau + flows * tau / (zeta * (0.05 + queue / capacity));
        }
        near("queue in packets", window.links[0].queue_mean_pkt, queue, 0.12 * queue + 1.0);
        assert!(window.jain.unwrap() > 0.98, "{flows} flows: F = {:?}", window.jain);
    }
}

/// A scenario that draws every kind of random number.
const RANDOM: &str = r#"
duration = "8 s"
seed = 7
[[link]]
name = "first"
from = "a"
to = "b"
forward = { rate = "6 Mbit/s", delay = "10 ms", queue = "red", loss = "gilbert_elliott:p=1%,r=30%", jitter = "normal:deviation=1ms" }
reverse = { rate = "1 Mbit/s", delay = "10 ms", loss = "random:p=2%", arq = "tries=3,delay=5ms" }
[[link]]
name = "second"
from = "b"
to = "c"
forward = { rate = "5 Mbit/s", delay = "5 ms", queue = "pie", jitter = "uniform:range=2ms,reorder=true" }
[[flow]]
name = "bulk"
from = "a"
to = "c"
count = 3
start = { uniform = ["0 s", "1 s"] }
access_delay = { uniform = ["1 ms", "9 ms"] }
law = "cubic"
[[flow]]
name = "short"
from = "a"
to = "c"
app = { kind = "poisson", arrivals_per_s = 5.0, size = { pareto = { mean = "20 kB", shape = 1.4 } } }
[[flow]]
name = "web"
from = "a"
to = "c"
app = { kind = "request", size = { exponential = "10 kB" }, think = { exponential = "100 ms" } }
[[flow]]
name = "talk"
from = "a"
to = "c"
app = { kind = "on_off", on = { exponential = "300 ms" }, off = { exponential = "200 ms" } }
law = "ledbat"
[[event]]
at = "4 s"
link = "first"
loss = "random:p=3%"
[series]
every = "50 ms"
"#;

fn bytes(run: &Run) -> String {
    format!("{}\n{:?}", serde_json::to_string(run).unwrap(), run.series)
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let scenario = parse(RANDOM);
    let expected: Vec<String> =
        (7..13).map(|seed| bytes(&leeway_sim::run(&scenario, seed).unwrap())).collect();
    assert_ne!(expected[0], expected[1], "seeds matter");
    for threads in [1, 2, 5] {
        let here: Vec<String> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|worker| {
                    let scenario = &scenario;
                    scope.spawn(move || {
                        let mine = (7..13).filter(move |seed| *seed as usize % threads == worker);
                        mine.map(|seed| (seed, bytes(&leeway_sim::run(scenario, seed).unwrap())))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut runs: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
            runs.sort_by_key(|(seed, _)| *seed);
            runs.into_iter().map(|(_, bytes)| bytes).collect()
        });
        assert!(here == expected, "{threads} threads");
    }
}

#[test]
fn a_recovery_needs_no_timeout_and_repeats_nothing() {
    // The RTT is steady, so the timeout is hardly longer than the RTT. The timer expires unless a
    // retransmission restarts it.
    for sack in [true, false] {
        let rest = format!(
            "[[flow]]\nname = \"tcp\"\ntcp.sack = {sack}\n[[flow]]\nname = \"ledbat\"\nlaw = \"ledbat:slow_start=standard,floor=1\"\n\
             start = \"30 s\"\ntcp.sack = true\n[[window]]\nname = \"w\"\nfrom = \"50 s\"\nto = \"200 s\"\n"
        );
        let run = play(&dumbbell(200, "70 pkt", &rest));
        let tcp = group(&run, "tcp");
        assert!(tcp.dropped > 10, "there was something to repair");
        assert_eq!(tcp.timeouts, 0, "SACK {sack}");
        // The last drop may be repaired after the end of the run.
        assert!(
            tcp.retransmitted.abs_diff(tcp.dropped) <= 1,
            "SACK {sack}: {} of {}",
            tcp.retransmitted,
            tcp.dropped
        );
    }
}

/// One flow that overshoots a buffer in slow start and then loses packets at random: each kind of
/// recovery.
#[test]
fn table_of_recovery_by_kind_and_loss() {
    let mut table = String::from("loss  recovery   Mbit/s  sent again  dropped  timeouts\n");
    for loss in ["0%", "0.1%", "1%", "3%"] {
        for (name, sack) in [("NewReno", false), ("SACK", true)] {
            let rest = format!(
                "loss = \"random:p={loss}\"\n[[flow]]\nname = \"a\"\nlaw = \"newreno\"\ntcp.sack = {sack}\n"
            );
            let run = play(&dumbbell(60, "40 pkt", &rest));
            let flow = group(&run, "a");
            writeln!(
                table,
                "{loss:>4}  {name:8} {:8.2}  {:10}  {:7}  {:8}",
                flow.throughput_bps / 1e6,
                flow.retransmitted,
                flow.dropped,
                flow.timeouts
            )
            .expect("writing to a string");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn yielding_is_not_undone_by_slow_start() {
    // The first flow leaves slow start by a loss, at a high threshold. The second flow has a
    // larger base delay, and pushes the first below that threshold and on to its floor.
    let law = |name: &str| format!("{name}:target=25ms,slow_start=standard,floor=1");
    for law in [law("ledbat"), law("fledbat")] {
        let rest = format!("[[flow]]\nname = \"a\"\nlaw = \"{law}\"\n[series]\nevery = \"10 ms\"\n");
        let run = play(&dumbbell(60, "120 pkt", &rest));
        let flows = &run.series.flows;
        let last = flows.cwnd_pkt.len() - 1;
        assert!(flows.queuing_delay_ms[last] < 32.0, "{law}: {} ms", flows.queuing_delay_ms[last]);
    }
}

#[test]
fn flower_repairs_a_burst_of_losses_while_it_grows() {
    let rest = "[[flow]]\nname = \"a\"\nlaw = \"flower\"\ntcp.sack = true\n[series]\nevery = \"10 ms\"\n";
    let run = play(&dumbbell(6, "100 pkt", rest));
    assert!(group(&run, "a").dropped > 50, "slow start overshoots");
    assert!(*run.series.flows.cwnd_pkt.last().unwrap() > 30.0, "the window is controlled during the repair");
}

#[test]
fn the_receive_window_limits_the_rate() {
    let run = play(&dumbbell(30, "200 pkt", "[[flow]]\nname = \"a\"\ntcp.receive_window = \"20 pkt\"\n"));
    // 20 packets a round trip of 50 ms and one transmission.
    near("rate", group(&run, "a").throughput_bps, 20.0 * 12_000.0 / 0.0512, 5e4);
    assert_eq!(run.windows[0].links[0].dropped, 0);
}

#[test]
fn clocks_change_nothing_for_one_way_delays_but_drift() {
    let with = |clock: &str| {
        let flow = format!("[[flow]]\nname = \"a\"\nlaw = \"ledbat\"\n{clock}\n");
        group(&play(&dumbbell(30, "200 pkt", &flow)), "a").sent
    };
    let plain = with("");
    for clock in ["receiver_clock = { offset = \"100 s\" }", "sender_clock = { offset = \"71 min\" }"] {
        assert_eq!(with(clock), plain, "{clock}");
    }
}

/// A receiver's clock that is 100 ppm fast adds 54 ms to the delay during a base history of 9 to
/// 10 minutes.
#[test]
fn a_fast_clock_starves_ledbat_unless_its_drift_is_corrected() {
    let delay_ms = |law: &str| {
        let rest = format!(
            "[[flow]]\nname = \"a\"\nlaw = \"{law}\"\nreceiver_clock = {{ skew_ppm = 100.0 }}\n\
             [[window]]\nname = \"w\"\nfrom = \"500 s\"\nto = \"600 s\"\n"
        );
        let link = &play(&dumbbell(600, "200 pkt", &rest)).windows[0].links[0];
        (link.utilisation, link.delay.map_or(0.0, |delay| delay.mean_s * 1e3))
    };
    let (used, _) = delay_ms("ledbat:target=25ms");
    assert!(used < 0.1, "the drift looks like a queue above the target: {used}");
    let (used, queue_ms) = delay_ms("ledbat:target=25ms,skew=minima");
    near("queuing delay in ms", queue_ms, 25.0, 2.0);
    assert!(used > 0.99, "{used}");
}

#[test]
fn timeouts_double_while_nothing_passes() {
    // The link loses everything from 5 s on. Tries are at most 60 s apart.
    let rest = "[[flow]]\nname = \"a\"\n[[event]]\nat = \"5 s\"\nloss = \"random:p=100%\"\n";
    let run = play(&dumbbell(305, "50 pkt", rest));
    // The timeout is 0.2 s or a little more, doubled up to 60 s: 8 tries in about a minute, then
    // one a minute.
    let timeouts = group(&run, "a").timeouts;
    assert!((10..=13).contains(&timeouts), "{timeouts} timeouts");
}

#[test]
fn a_window_below_one_is_one_packet_in_several_round_trips() {
    // The queue never empties, so the flow stays at its floor of a quarter: one packet in four
    // round trips.
    let rest =
        "[[flow]]\nname = \"a\"\ntcp.receive_window = \"100 pkt\"\n[[flow]]\nname = \"b\"\nstart = \"-\"\n";
    let rest = rest.replace("start = \"-\"", "law = \"fledbat:target=5ms,zeta=5,floor=0.25\"");
    let window = "[[window]]\nname = \"w\"\nfrom = \"30 s\"\nto = \"90 s\"\n";
    let run = play(&dumbbell(90, "200 pkt", &format!("{rest}{window}")));
    let (a, b) = (group(&run, "a"), group(&run, "b"));
    let round_trips = 60.0 / b.rtt.expect("it has sent").mean_s;
    near("packets", b.sent as f64, round_trips / 4.0, round_trips / 40.0);
    assert!(a.throughput_bps > 9e6);
}

#[test]
fn delayed_acks_halve_their_number_and_lost_ones_do_little_harm() {
    // The ACKs have a link of their own. At 100 kbit/s three in eight of them fit.
    let with = |delayed: &str, kbit: u32| {
        let reverse =
            format!("[dumbbell.reverse]\nrate = \"{kbit} kbit/s\"\ndelay = \"25 ms\"\nbuffer = \"20 pkt\"\n");
        let flow = format!("[[flow]]\nname = \"a\"\ntcp.sack = true\ntcp.delayed_ack = {delayed}\n");
        let run = play(&dumbbell(30, "100 pkt", &format!("{reverse}{flow}")));
        let links = &run.windows[0].links;
        (links[1].utilisation, links[1].dropped, group(&run, "a").throughput_bps)
    };
    let (each, _, _) = with("\"off\"", 1000);
    let (second, _, _) = with("{ every = 2, timeout = \"40 ms\" }", 1000);
    near("ACKs with delay over those without", second / each, 0.5, 0.05);
    let (_, dropped, rate) = with("\"off\"", 100);
    assert!(dropped > 1000 && rate > 7e6, "{dropped} ACKs lost, {rate} bit/s");
}

#[test]
fn marks_take_the_place_of_drops() {
    for queue in ["codel:ecn=true", "red:ecn=true"] {
        let with = |ecn: bool| {
            let rest = format!("queue = \"{queue}\"\n[[flow]]\nname = \"a\"\ncount = 2\ntcp.ecn = {ecn}\n");
            let run = play(&dumbbell(40, "200 pkt", &rest));
            (
                run.windows[0].links[0].marked,
                run.windows[0].links[0].dropped,
                run.windows[0].links[0].utilisation,
            )
        };
        let (marked, dropped, utilisation) = with(true);
        let (none, more, _) = with(false);
        assert!(
            marked > 0 && none == 0 && dropped < more,
            "{queue}: {marked} marks, {dropped} drops; else {more}"
        );
        assert!(utilisation > 0.8, "{queue}: {utilisation}");
    }
}

#[test]
fn a_voice_call_on_an_idle_link_is_good() {
    let run = play(&dumbbell(20, "50 pkt", "[[flow]]\nname = \"v\"\napp = { kind = \"voice\" }\n"));
    let voice = group(&run, "v");
    near("opinion score", voice.mos.unwrap(), 4.38, 0.06);
    near("packets", voice.sent as f64, 1000.0, 1.0);
}

#[test]
fn transfers_take_as_long_as_computed_by_hand() {
    let app = "app = { kind = \"transfer\", size = \"14600 B\", count = 5, gap = \"1 s\" }";
    let run = play(&dumbbell(20, "50 pkt", &format!("[[flow]]\nname = \"t\"\n{app}\n")));
    let transfer = group(&run, "t");
    assert_eq!(transfer.completed, 5);
    // 10 segments from a window of 2 are sent as 2, 4 and 4: two round trips, one way, and the
    // transmission of the last four.
    near("completion", transfer.completion.unwrap().mean_s, 2.0 * 0.0512 + 0.025 + 4.0 * 0.0012, 0.003);
}

#[test]
fn poisson_load_is_arrivals_times_size() {
    let app = "app = { kind = \"poisson\", arrivals_per_s = 20.0, size = \"14600 B\" }";
    let run = play(&dumbbell(200, "200 pkt", &format!("[[flow]]\nname = \"p\"\n{app}\n")));
    let poisson = group(&run, "p");
    near("arrivals", poisson.completed as f64, 4000.0, 4.0 * 4000f64.sqrt());
    near("load", poisson.goodput_bps / (poisson.completed as f64 / 200.0 * 14_600.0 * 8.0), 1.0, 0.01);
}

#[test]
fn every_connection_of_a_series_has_a_name() {
    let app = "app = { kind = \"poisson\", arrivals_per_s = 20.0, size = \"14600 B\" }";
    let flows =
        format!("[series]\nevery = \"10 ms\"\n[[flow]]\nname = \"bulk\"\n[[flow]]\nname = \"p\"\n{app}\n");
    let series = play(&dumbbell(5, "50 pkt", &flows)).series;
    assert_eq!(series.flow_names[..3], ["bulk", "p.1", "p.2"]);
    assert!(series.flows.flow.iter().all(|&flow| (flow as usize) < series.flow_names.len()));
}

#[test]
fn a_closed_loop_thinks_between_answers() {
    let app = "app = { kind = \"request\", size = \"1460 B\", think = \"450 ms\" }";
    let run = play(&dumbbell(50, "50 pkt", &format!("[[flow]]\nname = \"r\"\n{app}\n")));
    let request = group(&run, "r");
    near("one exchange", request.completion.unwrap().mean_s, 0.0512, 0.002);
    near("exchanges", request.completed as f64, 50.0 / (0.45 + 0.0512), 2.0);
}

#[test]
fn the_tighter_of_two_links_sets_the_rate_and_a_route_change_the_delay() {
    let text = r#"
duration = "20 s"
profile = "ns2"
[[link]]
name = "wide"
from = "a"
to = "b"
forward = { rate = "20 Mbit/s", delay = "5 ms", buffer = "50 pkt" }
[[link]]
name = "narrow"
from = "b"
to = "c"
forward = { rate = "5 Mbit/s", delay = "5 ms", buffer = "20 pkt" }
[[flow]]
name = "x"
from = "a"
to = "c"
access_delay = "10 ms"
tcp.receive_window = "5 pkt"
[[event]]
at = "10 s"
link = "narrow"
delay = "45 ms"
[[window]]
name = "before"
from = "1 s"
to = "10 s"
[[window]]
name = "after"
from = "11 s"
to = "20 s"
"#;
    let run = play(text);
    let owd = |window: usize| run.windows[window].groups[0].owd.unwrap().p50_s;
    near("delay before", owd(0), 0.020 + 0.0006 + 0.0024, 0.0105);
    near("change of delay", owd(1) - owd(0), 0.040, 0.011);
    assert_eq!(run.windows[0].links[0].dropped + run.windows[0].links[1].dropped, 0);
}

#[test]
fn a_queue_is_part_full_only_where_the_rate_is_always_the_same() {
    let dumbbell = |rate: &str| {
        format!(
            "duration = \"20 s\"\n[dumbbell.bottleneck]\n{rate}\ndelay = \"10 ms\"\nbuffer = \"20 pkt\"\n[[flow]]\nname = \"x\"\n"
        )
    };
    let fill = |text: &str| play(text).windows[0].links[0].queue_fill;
    assert!(fill(&dumbbell("rate = \"5 Mbit/s\"")).is_some_and(|fill| (0.2..1.0).contains(&fill)));
    let falling = "rates = [{ at = \"0 s\", rate = \"5 Mbit/s\" }, { at = \"2 s\", rate = \"50 kbit/s\" }]";
    assert_eq!(fill(&dumbbell(falling)), None, "a full buffer took 100 times as long at the end");
    let event = "[[event]]\nat = \"2 s\"\nrate = \"50 kbit/s\"\n";
    assert_eq!(fill(&(dumbbell("rate = \"5 Mbit/s\"") + event)), None);
}

/// A flow that got nothing for 5 s sends again only when its doubled timeout expires. The scenario
/// bounds the timeout to 1 s.
#[test]
fn a_lower_class_of_strict_priority_takes_what_the_higher_one_leaves() {
    let share = |class: u32, app: &str| {
        let text = format!(
            "duration = \"60 s\"\n[dumbbell]\nbottleneck = {{ rate = \"8 Mbit/s\", delay = \"20 ms\", queue = \"priority\" }}\n\
             [[flow]]\nname = \"first\"\napp = {{ {app} }}\n[[flow]]\nname = \"second\"\nlaw = \"cubic\"\nclass = {class}\n\
             tcp.max_rto = \"1 s\"\n"
        );
        let run = play(&text);
        ["first", "second"].map(|name| group(&run, name).share.unwrap())
    };
    let bulk = "kind = \"bulk\"";
    let [first, second] = share(0, bulk);
    assert!(first < 0.8 && second > 0.2, "one class: they share, {first:.2} to {second:.2}");
    let [first, second] = share(1, bulk);
    assert!(first > 0.97 && second < 0.03, "two classes: {first:.2} to {second:.2}");
    let [first, second] = share(1, "kind = \"on_off\", on = \"5 s\", off = \"5 s\"");
    assert!((0.4..0.6).contains(&first) && (0.4..0.6).contains(&second), "pauses: {first:.2} to {second:.2}");
}

#[test]
fn the_slowest_of_several_flows_is_told() {
    let rest = "[[flow]]\nname = \"a\"\ncount = 3\nstagger = \"5 s\"\n[[flow]]\nname = \"b\"\n";
    let run = play(&dumbbell(20, "40 pkt", rest));
    let a = group(&run, "a");
    let slowest = a.slowest_bps.unwrap();
    assert!(slowest > 0.0 && slowest < a.throughput_bps / 3.0, "{slowest} of {}", a.throughput_bps);
    assert_eq!(group(&run, "b").slowest_bps, None);
}

#[test]
fn table_of_buffers_laws_and_numbers_of_flows() {
    let mut table = String::from("law      buffer | Mbit/s  loss %  delay ms\n");
    for law in [
        "newreno",
        "cubic",
        "vegas",
        "ledbat:target=25ms",
        "fledbat:target=25ms",
        "lp",
        "nice",
        "flower:target=25ms",
    ] {
        for buffer in [10, 40, 160] {
            let rest = format!("[[flow]]\nname = \"a\"\nlaw = \"{law}\"\ntcp.sack = true\n");
            let run = play(&dumbbell(60, &format!("{buffer} pkt"), &rest));
            let link = &run.windows[0].links[0];
            let (rate, delay) = (group(&run, "a").throughput_bps / 1e6, link.delay.unwrap().mean_s * 1e3);
            let name = law.split(':').next().unwrap();
            writeln!(table, "{name:<8} {buffer:>6} | {rate:>6.2} {:>7.3} {delay:>9.1}", link.loss * 100.0)
                .unwrap();
        }
    }
    table.push_str("\nlaw      flows | Jain\n");
    for law in ["newreno", "cubic", "fledbat:target=25ms"] {
        for flows in [2, 8, 32] {
            let rest = format!(
                "[[flow]]\nname = \"a\"\ncount = {flows}\nstagger = \"500 ms\"\nlaw = \"{law}\"\ntcp.sack = true\n"
            );
            let run = play(&dumbbell(90, "80 pkt", &rest));
            let name = law.split(':').next().unwrap();
            writeln!(table, "{name:<8} {flows:>5} | {:.2}", run.windows[0].jain.unwrap()).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
