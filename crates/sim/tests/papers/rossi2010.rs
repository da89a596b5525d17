//! Rossi, Testa, Valenti, Muscariello: LEDBAT: the new BitTorrent congestion control protocol, ICCCN 2010.

use super::{
    claim, cwnd_at, example, group, halving, jain, known_difference, play, samples, share, when, window,
};

#[test]
fn fig2a() {
    let run = play(&example("rossi2010/fig2a.toml", &[]));
    let whole = window(&run, "run");
    let (tcp, ledbat) = (group(whole, "tcp"), group(whole, "ledbat"));
    claim("2a: Jain's index", "0.65", whole.jain.unwrap(), 0.58..=0.72);
    claim("2a: TCP's bytes over LEDBAT's", "6", tcp.throughput_bps / ledbat.throughput_bps, 5.0..=8.0);
    let law = samples(&run, "ledbat");
    claim("2a: LEDBAT at its target (s)", "just after 2", when(&law, 0.0, |s| s.delay_ms >= 24.0), 1.5..=3.0);
    let floor = when(&law, 3.0, |s| s.cwnd < 2.0);
    claim("2a: LEDBAT at one packet (s)", "just before 6", floor, 5.0..=7.0);
    let loss = halving(&samples(&run, "tcp"), 3.0);
    claim("2a: TCP overflows the buffer (s)", "slightly later", loss, floor - 0.2..=floor + 1.0);
    let again = when(&law, loss + 0.3, |s| s.delay_ms >= 24.0);
    claim("2a: LEDBAT at its target again (s)", "about 7", again, 6.5..=8.0);

    let utilisation = whole.links[0].utilisation;
    let mut alone = example("rossi2010/fig2a.toml", &["baseline=false"]);
    alone.flow.retain(|group| group.name == "tcp");
    let alone = play(&alone).windows[0].links[0].utilisation;
    known_difference(
        "2a: utilisation above TCP alone (%)",
        "16",
        100.0 * (utilisation / alone - 1.0),
        2.0..=5.0,
        "TCP alone fills 94 % of the link, as a window that grows from 1 to the BDP in 42 round trips must; nothing can \
         be 16 % above that",
    );
    claim(
        "2a: utilisation above TCP's part of it (%)",
        "16",
        100.0 * ledbat.throughput_bps / tcp.throughput_bps,
        10.0..=22.0,
    );
}

#[test]
fn fig2b() {
    let run = play(&example("rossi2010/fig2b.toml", &[]));
    claim("2b: Jain's index", "> 0.99", run.windows[0].jain.unwrap(), 0.99..=1.0);
    let beside_tcp = play(&example("rossi2010/fig2a.toml", &[])).windows[0].links[0].utilisation;
    let loss = 100.0 * (1.0 - run.windows[0].links[0].utilisation / beside_tcp);
    claim("2b: efficiency below figure 2a (%)", "0.7", loss, -0.3..=1.7);
}

#[test]
fn fig3_close_together_the_first_keeps_the_larger_window() {
    let run = play(&example("rossi2010/fig3-2s-40pkt.toml", &[]));
    claim("3 (2 s, 40): share of the first", "> half", share(&run.windows[0], "first"), 0.55..=0.95);
    assert_eq!(run.windows[0].links[0].dropped, 0);
}

#[test]
fn fig3_the_latecomer_takes_over_until_a_loss() {
    let file = "rossi2010/fig3-10s-40pkt.toml";
    let run = play(&example(file, &[]));
    let (first, second) = (samples(&run, "first"), samples(&run, "second"));
    let minimum = when(&first, 10.0, |s| s.cwnd < 1.1);
    claim("3 (10 s, 40): first at its minimum (s)", "slightly > 20", minimum, 20.0..=23.0);
    claim("3 (10 s, 40): a loss (s)", "about 25", halving(&second, 12.0), 23.0..=27.0);
    let after = |run: &_| jain(cwnd_at(&samples(run, "first"), 50.0), cwnd_at(&samples(run, "second"), 50.0));
    known_difference(
        "3 (10 s, 40): Jain's index after the loss",
        "close to fair",
        after(&run),
        0.65..=0.80,
        "one packet is lost and repaired at once, which halves the late-comer and no more; from equal base delays on, \
         both grow alike and keep their distance. After a timeout both begin from one packet, and are fair",
    );
    let timeout = play(&example(file, &["flow.second.tcp.dupthresh=1000"]));
    claim("3 (10 s, 40): the same, repaired by a timeout", "close to fair", after(&timeout), 0.98..=1.0);
}

#[test]
fn fig3_without_a_loss_the_first_starves_for_good() {
    let run = play(&example("rossi2010/fig3-10s-100pkt.toml", &[]));
    claim("3 (10 s, 100): losses", "0", run.windows[0].links[0].dropped as f64, 0.0..=0.0);
    let first = samples(&run, "first");
    let best = first.iter().filter(|s| s.time > 25.0).map(|s| s.cwnd).fold(0.0, f64::max);
    claim("3 (10 s, 100): best window of the first after 25 s", "1", best, 1.0..=1.1);
}
