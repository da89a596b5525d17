//! A window of one segment under receivers that delay acknowledgements: two segments are sent
//! together, and the wait at the receiver is not in a delay sample.

mod dumbbell;

use dumbbell::flow;

/// Utilisation of a line of 10 Mbit/s by one flow alone, from 7.5 s to 15 s, as in docs/live.md.
fn alone(law: &str, rtt_ms: u32, buffer_bdp: u32) -> f64 {
    let line = format!("rate = \"10 Mbit/s\"\ndelay = \"{} ms\"\nbuffer = \"{buffer_bdp} BDP\"", rtt_ms / 2);
    let text = format!(
        "duration = \"15 s\"\nprofile = \"linux\"\n[dumbbell.bottleneck]\n{line}\n{}\
         [[window]]\nname = \"w\"\nfrom = \"7.5 s\"\nto = \"15 s\"\n",
        flow("a", law, "header = \"52 B\"")
    );
    dumbbell::run(&text).windows[0].links[0].utilisation
}

#[test]
fn no_wait_at_the_receiver_makes_a_law_stand_still() {
    for law in ["flower:target=25ms", "lp"] {
        for rtt_ms in [20, 50, 100] {
            for buffer_bdp in [1, 2] {
                let share = alone(law, rtt_ms, buffer_bdp);
                assert!(share > 0.5, "{law}, {rtt_ms} ms, {buffer_bdp} BDP: {share}");
            }
        }
    }
}

#[test]
fn a_window_of_one_segment_leaves_as_pairs_at_its_rate() {
    // CUBIC keeps a queue above the target, so the window stays at its floor.
    let line = "rate = \"10 Mbit/s\"\ndelay = \"25 ms\"\nbuffer = \"2 BDP\"";
    let flows = |delayed: &str| {
        let law = "ledbat:target=5ms,floor=1,gain_down=10";
        let background = format!("role = \"background\"\nstart = \"1 s\"\ntcp.delayed_ack = {delayed}");
        [flow("a", "cubic", ""), flow("b", law, &background)].concat()
    };
    for delayed in ["{ every = 2, timeout = \"40 ms\" }", "\"off\""] {
        let run = dumbbell::play("linux", line, &flows(delayed), [30, 150]);
        let [primary, background] = &run.windows[0].groups[..] else { panic!("two groups") };
        let [own_s, other_s] = [background, primary].map(|group| group.rtt.expect("samples").mean_s);
        // The acknowledgement of a lone segment takes 40 ms more.
        assert!((own_s - other_s).abs() < 0.01, "{delayed}: {own_s} s beside {other_s} s");
        let each_round = background.sent as f64 * own_s / 120.0;
        assert!((0.85..1.1).contains(&each_round), "{delayed}: {each_round} segments a round trip");
    }
}
