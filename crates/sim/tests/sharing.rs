//! The sharing in the simulator: tables as snapshots, promises, and errors in files.

#[path = "../examples/sharing/lines.rs"]
#[allow(dead_code)]
mod lines;

use leeway_sim::scenario::Scenario;
use lines::{BLIND, HEAD, Home, Line, Neighbours, RELAY, SOCKETS, judge, row};

const SLOW: Line = Line { mbps: 1.72, rtt_ms: 20, bdp: 5.0, queue: "droptail" };

/// Lines with each queue discipline, and several round-trip times and buffers, whose runs take
/// seconds.
const LINES: [Line; 5] = [
    SLOW,
    Line { mbps: 0.5, rtt_ms: 40, bdp: 10.0, queue: "droptail" },
    Line { mbps: 5.0, rtt_ms: 80, bdp: 1.0, queue: "codel" },
    Line { mbps: 5.0, rtt_ms: 300, bdp: 0.5, queue: "droptail" },
    Line { mbps: 10.0, rtt_ms: 10, bdp: 2.0, queue: "fq_codel" },
];

#[test]
fn what_neighbours_do_to_a_home() {
    let mut table = format!("{HEAD}\n");
    for line in LINES {
        for home in Home::ALL {
            table += &row(line, home, judge(line, home, Neighbours::Overload, ""));
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_a_gateway_on_sockets_makes_of_it() {
    insta::assert_snapshot!(lines::on_sockets(SOCKETS));
}

#[test]
fn what_a_gateway_that_sees_no_packets_makes_of_it() {
    let mut table = format!("{HEAD}\n");
    for line in [SLOW, LINES[2], LINES[4], Line { mbps: 50.0, rtt_ms: 40, bdp: 1.0, queue: "droptail" }] {
        for home in Home::ALL {
            table += &row(line, home, judge(line, home, Neighbours::Overload, BLIND));
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

/// While little is read, the kernel lets a server send more than was granted. A round-trip sample
/// must not last until a later grant: it would then measure the wait for that grant, and make this
/// wait longer.
#[test]
fn without_packets_what_was_let_through_once_does_not_starve_neighbours() {
    for (mbps, rtt_ms, bdp, home, least) in
        [(50.0, 2, 4.0, Home::Requests, 0.5), (10.0, 10, 1.0, Home::Idle, 0.4)]
    {
        let line = Line { mbps, rtt_ms, bdp, queue: "droptail" };
        let outcome = judge(line, home, Neighbours::Pausing, BLIND);
        assert!(outcome.spare > least, "{line} {home:?}: {outcome:?}");
    }
}

#[test]
fn what_a_relay_makes_of_it() {
    let mut table = format!("{HEAD}\n");
    for line in [SLOW, LINES[2]] {
        for home in Home::ALL {
            table += &row(line, home, judge(line, home, Neighbours::Overload, RELAY));
            table.push('\n');
        }
    }
    insta::assert_snapshot!(table);
}

/// A relay does not see the home. It knows of the home by the gateway's reports. Under CUBIC, and
/// without the bound, the home has to wait.
#[test]
fn a_relay_leaves_the_line_to_a_home_that_it_does_not_see() {
    let line = Line { mbps: 10.0, rtt_ms: 40, bdp: 4.0, queue: "droptail" };
    let beside = judge(line, Home::Requests, Neighbours::Overload, RELAY);
    let idle = judge(line, Home::Idle, Neighbours::Overload, RELAY);
    assert!(beside.mean < 1.2 && idle.spare > 0.9, "{beside:?}, of an idle home {idle:?}");
    let careless = format!("{RELAY}\nlaw = \"cubic\"\npolicy = {{ answers = 1000, pipe_percent = 10000 }}");
    let greedy = judge(line, Home::Requests, Neighbours::Overload, &careless);
    assert!(greedy.mean > 1.2 * beside.mean, "{greedy:?} beside {beside:?}");
}

/// As the comment of the example promises, neighbours get most of the line, and the home's pages
/// load as if the home were alone, unless the law does not yield.
#[test]
fn the_example_of_a_shared_home_does_what_it_says() {
    let text = include_str!("../../../examples/shared-home.toml");
    let play = |change: &str| {
        let text = text.replace("node = \"right\"\n", &format!("node = \"right\"\n{change}\n"));
        let run = leeway_sim::run(&Scenario::parse(&text, "shared-home.toml").unwrap(), 1).unwrap();
        let of = |name: &str| run.windows[0].groups.iter().find(|group| group.name == name).unwrap();
        (of("pages").completion.unwrap().mean_s, of("neighbours").throughput_bps / 1e6)
    };
    let (gateway, relay, greedy) = (play(""), play(RELAY), play("law = \"cubic\""));
    for (pages_s, neighbours_mbps) in [gateway, relay] {
        assert!(pages_s < 0.85 * greedy.0 && neighbours_mbps > 5.0, "{gateway:?}, {relay:?}, {greedy:?}");
    }
}

/// Delays that are not a queue of the line: segments that are read together, a server that pauses,
/// a queue at a slow server, and servers far away. Neighbours of an idle home still get most of
/// the line, or in the worst case some of it.
#[test]
fn what_is_no_queue_of_the_line_does_not_take_it_from_neighbours() {
    let (ten, fifty) = (
        Line { mbps: 10.0, rtt_ms: 20, bdp: 4.0, queue: "droptail" },
        Line { mbps: 50.0, rtt_ms: 40, bdp: 1.0, queue: "droptail" },
    );
    for (line, neighbours, least) in [
        (ten, Neighbours::Overload, 0.95),
        (ten, Neighbours::Pausing, 0.3),
        (fifty, Neighbours::Pausing, 0.5),
        (ten, Neighbours::Far, 0.85),
        (fifty, Neighbours::Far, 0.85),
        (ten, Neighbours::Slow, 0.8),
        (ten, Neighbours::Uploads, 0.7),
    ] {
        let outcome = judge(line, Home::Idle, neighbours, SOCKETS);
        assert!(outcome.spare > least, "{neighbours:?} of {line}: {outcome:?}");
    }
}

/// A program that reads 2 ms late has grants that no announced window covers yet. Such bytes are not
/// in flight, so they do not count where the window is bounded by what the line carries.
#[test]
fn large_downloads_have_what_the_home_leaves() {
    for (mbps, bdp, least) in [(50.0, 1.0, 0.8), (25.0, 2.0, 0.5)] {
        let line = Line { mbps, rtt_ms: 40, bdp, queue: "droptail" };
        let outcome = judge(line, Home::Requests, Neighbours::Overload, SOCKETS);
        assert!(outcome.spare > least && outcome.mean < 1.25, "{line}: {outcome:?}");
    }
}

/// Many windows share the window of the law, and short buffers and CoDel often drop a segment of one
/// of them. A loss reduces the window of that one, not the window of all.
#[test]
fn losses_of_single_neighbours_leave_them_the_line_of_an_idle_home() {
    for (mbps, rtt_ms, bdp, queue) in [(25.0, 10, 0.25, "droptail"), (10.0, 150, 2.0, "codel")] {
        let line = Line { mbps, rtt_ms, bdp, queue };
        let outcome = judge(line, Home::Idle, Neighbours::Overload, "");
        assert!(outcome.spare > 0.8, "{line}: {outcome:?}");
    }
}

/// A download of the home keeps a queue, and the acknowledgements of the uploads wait in it. Behind
/// a long queue without an AQM the uploads have little, and the home notices nothing.
#[test]
fn uploads_have_the_uplink_beside_a_download_of_the_home() {
    for (line, least) in [
        (Line { mbps: 5.0, rtt_ms: 40, bdp: 10.0, queue: "codel" }, 0.8),
        (Line { mbps: 10.0, rtt_ms: 40, bdp: 2.0, queue: "droptail" }, 0.05),
        (Line { mbps: 100.0, rtt_ms: 40, bdp: 4.0, queue: "droptail" }, 0.6),
    ] {
        let outcome = judge(line, Home::Download, Neighbours::Uploads, "");
        assert!(outcome.spare > least && outcome.mean > 0.9, "{line}: {outcome:?}");
    }
}

/// An upload of the home keeps a queue, and the announced windows of the neighbours' downloads
/// wait in it. This wait is no queue of the downlink, so the window has to be larger by it.
/// Acknowledgements take little of the uplink.
#[test]
fn downloads_have_a_part_of_the_downlink_beside_an_upload_of_the_home() {
    for (mbps, rtt_ms, least) in [(10.0, 40, 0.2), (10.0, 80, 0.2), (50.0, 80, 0.1)] {
        let line = Line { mbps, rtt_ms, bdp: 2.0, queue: "droptail" };
        let outcome = judge(line, Home::Upload, Neighbours::Overload, "");
        let home = outcome.mean > 0.93 && outcome.ping_ms < 15.0;
        assert!(outcome.spare > least && home, "{line}: {outcome:?}");
    }
}

/// A receiver acknowledges a lone segment after 40 ms. With a window of one segment every segment
/// would be alone, and the 40 ms would look like a queue that keeps the window at one segment.
#[test]
fn late_acknowledgements_of_lone_segments_do_not_take_the_uplink_from_uploads() {
    for mbps in [6.88, 20.0] {
        let line = Line { mbps, rtt_ms: 20, bdp: 4.0, queue: "droptail" };
        let outcome = judge(line, Home::Idle, Neighbours::Uploads, "");
        assert!(outcome.spare > 0.95 && outcome.ping_ms < 30.0, "{line}: {outcome:?}");
    }
}

/// Each request of the home takes some bytes of the uplink. A home with 145 connections requests
/// 145 objects a second. None of these requests is a transfer that neighbours' requests have to
/// wait for.
#[test]
fn requests_of_neighbours_leave_beside_those_of_a_busy_home() {
    let play = |home: u32| {
        let text = format!(
            "duration = \"20 s\"\nwindow = [{{ name = \"steady\", from = \"5 s\", to = \"20 s\" }}]\n\
             [dumbbell.bottleneck]\nrate = \"50 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"100 pkt\"\n\
             [dumbbell.reverse]\nrate = \"50 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"100 pkt\"\n\
             [[gateway]]\nname = \"gateway\"\nnode = \"right\"\n\
             [[flow]]\nname = \"home\"\nlaw = \"cubic\"\ncount = {home}\n\
             app = {{ kind = \"request\", size = \"12.5 kB\", think = {{ exponential = \"1 s\" }} }}\n\
             [[flow]]\nname = \"neighbours\"\nrole = \"background\"\ngateway = \"gateway\"\nlaw = \"cubic\"\n\
             count = 50\nflows_per_user = 10\napp = {{ kind = \"request\", size = \"12.5 kB\" }}\n",
        );
        let run = leeway_sim::run(&Scenario::parse(&text, "busy.toml").unwrap(), 1).unwrap();
        let of = |name: &str| {
            run.windows[0].groups.iter().find(|group| group.name == name).unwrap().completion.unwrap()
        };
        (of("neighbours").count, of("home").mean_s)
    };
    let (quiet, busy) = (play(1), play(145));
    assert!(2 * busy.0 > quiet.0 && busy.1 < 1.1 * quiet.1, "{busy:?}, beside a quiet home {quiet:?}");
}

/// Each flow has a queue of its own, so the thirty flows of neighbours see almost no queue. The
/// home's single flow gets the line all the same.
#[test]
fn behind_a_fair_queue_a_download_of_the_home_has_the_line() {
    for (mbps, queue) in [(10.0, "fq_codel"), (50.0, "fq_codel"), (50.0, "codel")] {
        let line = Line { mbps, rtt_ms: 20, bdp: 4.0, queue };
        let outcome = judge(line, Home::Download, Neighbours::Overload, "");
        assert!(outcome.mean > 0.95, "{line}: {outcome:?}");
        let before = judge(line, Home::Download, Neighbours::Overload, "policy = { pipe_percent = 10000 }");
        assert!(queue == "codel" || before.mean < 0.3, "{line}: {before:?} without the bound");
    }
}

/// Under CUBIC, and without the bound, the same gateway lets neighbours take the line from the
/// home. It is the law that makes neighbours yield.
#[test]
fn under_a_law_that_does_not_yield_the_home_waits() {
    let beside = judge(SLOW, Home::Requests, Neighbours::Overload, "");
    let greedy = judge(
        SLOW,
        Home::Requests,
        Neighbours::Overload,
        "law = \"cubic\"\npolicy = { answers = 1000, pipe_percent = 10000 }",
    );
    assert!(beside.mean < 1.4, "{beside:?}");
    assert!(greedy.mean > 1.3 * beside.mean, "{greedy:?} beside {beside:?}");
}

/// A server with a single connection learns of a grant when a packet arrives there. So a user with
/// one connection gets a little less than half beside a user with 32 connections, and not 1/33.
#[test]
fn users_have_similar_shares_whatever_number_of_flows_they_have() {
    let text = "duration = \"30 s\"\n[dumbbell.bottleneck]\nrate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n\
        [[gateway]]\nname = \"gateway\"\nnode = \"right\"\n\
        [[flow]]\nname = \"many\"\nrole = \"background\"\ngateway = \"gateway\"\ncount = 32\nflows_per_user = 32\n\
        [[flow]]\nname = \"one\"\nrole = \"background\"\ngateway = \"gateway\"\n";
    let run = leeway_sim::run(&Scenario::parse(text, "users.toml").unwrap(), 1).unwrap();
    let rates: Vec<f64> = run.windows[0].groups.iter().map(|group| group.throughput_bps).collect();
    assert!(rates[1] > 0.55 * rates[0] && rates[0] + rates[1] > 4.2e6, "{rates:?}");
    let again = leeway_sim::run(&Scenario::parse(text, "users.toml").unwrap(), 1).unwrap();
    assert_eq!(run.work, again.work, "the same scenario gives the same run");
}

#[test]
fn what_is_wrong_with_a_gateway_is_told() {
    let wrong = |gateway: &str, flow: &str| {
        let text = format!(
            "duration = \"1 s\"\n[dumbbell.bottleneck]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n[[gateway]]\nname = \"g\"\n{gateway}\n\
             [[flow]]\nname = \"f\"\n{flow}"
        );
        format!("{:?}", Scenario::parse(&text, "wrong.toml").expect_err("it is wrong"))
    };
    let held = "role = \"background\"\ngateway = \"g\"";
    assert!(wrong("node = \"rihgt\"", held).contains("there is no node `rihgt`"));
    assert!(
        wrong("node = \"right\"\npolicy = { min_share = 1 }", held)
            .contains("a policy has no constant `min_share`")
    );
    assert!(wrong("node = \"right\"", "gateway = \"g\"").contains("this group is primary"));
    assert!(
        wrong("node = \"right\"", "role = \"background\"\ngateway = \"h\"")
            .contains("there is no gateway `h`")
    );
    let relayed = |relay: &str| wrong(&format!("node = \"right\"\n{relay}"), held);
    assert!(relayed("relay = \"lfet\"").contains("there is no node `lfet`"));
    assert!(relayed("relay = \"right\"").contains("the relay is where the gateway is"));
    assert!(relayed("relay = \"left\"\nread_delay = \"1 ms\"").contains("leave `read_delay` out"));
    assert!(relayed("relay = \"left\"\nsees_packets = false").contains("leave `sees_packets` out"));
    let voice = format!("{held}\napp = {{ kind = \"voice\" }}");
    assert!(wrong("node = \"right\"", &voice).contains("cannot limit this kind of application"));
}
