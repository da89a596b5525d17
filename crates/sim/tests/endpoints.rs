//! Effect of each TCP option: two runs that differ in this option alone.

use leeway_sim::results::{GroupSummary, Run};
use leeway_sim::scenario::Scenario;

fn play(text: &str) -> Run {
    let scenario = Scenario::parse(text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"));
    leeway_sim::run(&scenario, scenario.seed).expect("the scenario has routes")
}

/// One flow on a link of 10 Mbit/s with a buffer of 1000 packets.
fn line(profile: &str, seconds: u32, delay_ms: u32, flow: &str) -> GroupSummary {
    let run = play(&format!(
        "duration = \"{seconds} s\"\nprofile = \"{profile}\"\n[dumbbell.bottleneck]\nrate = \"10 Mbit/s\"\n\
         delay = \"{delay_ms} ms\"\nbuffer = \"1000 pkt\"\n[[flow]]\nname = \"a\"\n{flow}\n"
    ));
    run.windows[0].groups[0].clone()
}

#[test]
fn a_steady_path_of_linux_brings_no_timeout() {
    // Round trips around 300 ms with delayed ACKs. Many timely ACKs bring SRTT + 4 RTTVAR close to
    // the round-trip time, which is above the minimum of 200 ms. Then the ACK of a single segment
    // is late by 40 ms.
    let app = "app = { kind = \"request\", size = { exponential = \"30 kB\" }, think = \"300 ms\" }";
    let timeouts = |delay_ms: u32, floor: &str| {
        let flow = format!("{app}\ntcp.rto_floor = \"{floor}\"\n");
        let group = line("linux", 200, delay_ms, &flow);
        assert_eq!(group.dropped, 0);
        group.timeouts
    };
    let with = |floor: &str| (150..=160).step_by(5).map(|delay| timeouts(delay, floor)).sum::<u64>();
    assert_eq!(with("variance"), 0);
    assert!(with("timeout") > 0, "a minimum of the whole timeout brings some, without a drop");
}

#[test]
fn a_round_trip_above_one_second_needs_no_timeout() {
    let flow = |handshake: bool| {
        format!("app = {{ kind = \"transfer\", size = \"200 kB\" }}\ntcp.handshake = {handshake}\n")
    };
    let (with, without) = (line("linux", 60, 600, &flow(true)), line("linux", 60, 600, &flow(false)));
    assert_eq!((with.timeouts, with.retransmitted), (0, 0));
    assert!(without.timeouts > 0 && without.retransmitted > 0, "the first timeout is one second");
    // SYN and SYN-ACK, then 10, 15, 23, 34 and 51 of 137 segments (ACKs are delayed): six and a
    // half round trips.
    let completion = with.completion.expect("it ends").mean_s;
    assert!((5.0..6.0).contains(&completion), "{completion} s");
}

#[test]
fn a_handshake_takes_a_round_trip_and_is_repeated_when_it_is_lost() {
    let transfer = "app = { kind = \"transfer\", size = \"1460 B\" }\n";
    let request = "app = { kind = \"request\", size = \"1460 B\", think = \"100 s\" }\n";
    for app in [transfer, request] {
        let took = |handshake: bool, rest: &str| {
            let flow = format!("{app}tcp.handshake = {handshake}\n{rest}");
            line("linux", 30, 50, &flow).completion.expect("it ends").mean_s
        };
        let extra = took(true, "") - took(false, "");
        assert!((extra - 0.100).abs() < 0.001, "{app}: {extra} s");
        // Everything is lost for the first 0.5 s. The second SYN is sent after 1 s.
        let lost = "[[event]]\nat = \"0 s\"\nloss = \"random:p=100%\"\n[[event]]\nat = \"0.5 s\"\nloss = \"random:p=0\"\n";
        let late = took(true, lost) - took(true, "");
        // A request takes the reverse direction, which loses nothing. Its SYN-ACK takes the
        // direction that does.
        assert!((late - 1.0).abs() < 0.002, "{app}: {late} s");
    }
}

#[test]
fn a_doubled_timeout_stays_until_something_new_is_acknowledged() {
    // Half of the packets are lost for 20 s, then none. By Karn's algorithm a retransmitted
    // segment ends no backoff.
    let lossy =
        "[[event]]\nat = \"2 s\"\nloss = \"random:p=50%\"\n[[event]]\nat = \"42 s\"\nloss = \"random:p=0\"\n";
    let timeouts =
        |until: &str| line("ns2", 42, 50, &format!("tcp.backoff_until = \"{until}\"\n{lossy}")).timeouts;
    let (fresh, progress) = (timeouts("fresh"), timeouts("progress"));
    assert!(fresh * 3 < progress * 2, "{fresh} and {progress} timeouts in 40 s");
}

#[test]
fn limited_transmit_of_ns2_sends_again_what_the_receiver_has() {
    let text = |again: bool| {
        format!(
            "duration = \"300 s\"\nprofile = \"ns2\"\n[dumbbell.bottleneck]\nrate = \"600 kbit/s\"\ndelay = \"225 ms\"\n\
             buffer = \"22 pkt\"\n[[flow]]\nname = \"a\"\ncount = 48\nstart = {{ uniform = [\"0 s\", \"30 s\"] }}\n\
             tcp.limited_retransmit = {again}\n"
        )
    };
    let needless = |again: bool| {
        let run = play(&text(again));
        let flow = &run.windows[0].groups[0];
        (flow.loss, 1.0 - flow.goodput_bps / (flow.throughput_bps * 1460.0 / 1500.0))
    };
    let ((loss, twice), (loss_without, twice_without)) = (needless(true), needless(false));
    // In ns-2.35 with `singledup_` 1 and 0, 10 % and 1.6 % were received twice, and loss was 0.19
    // and 0.21.
    assert!(twice > 0.06 && twice_without < 0.03, "received twice: {twice:.3} and {twice_without:.3}");
    assert!(loss < loss_without, "loss {loss:.3} and {loss_without:.3}");
}

#[test]
fn a_host_takes_its_time_before_it_sends() {
    // One segment at a time: each round trip takes longer by half of the overhead, in the mean.
    let rate = |overhead: &str| {
        let flow = format!("tcp.receive_window = \"1 pkt\"\ntcp.overhead = \"{overhead}\"\n");
        line("ns2", 100, 25, &flow).sent as f64 / 100.0
    };
    let (plain, late) = (1.0 / rate("0 s"), 1.0 / rate("10 ms"));
    assert!((late - plain - 0.005).abs() < 0.0005, "{} s", late - plain);
}
