//! Trang: thesis on LEDBAT and FLOWER, 2014.

use super::{claim, cwnd_at, example, halving, known_difference, play, samples, share, when, window};

/// `leeway_control::Phase::LossZone` as series number it.
const LOSS_ZONE: u8 = 5;

#[test]
fn fig3_1_a_buffer_below_the_target_is_shared_equally() {
    let run = play(&example("trang2014/fig3.1.toml", &[]));
    let whole = window(&run, "run");
    let apart = (share(whole, "tcp") - share(whole, "ledbat")).abs();
    claim("3.1: difference of the shares", "0", apart, 0.0..=0.10);
}

#[test]
fn fig3_2_ledbat_takes_more_than_tcp() {
    for order in ["A", "B", "C"] {
        let run = play(&example(&format!("trang2014/fig3.2{order}.toml"), &[]));
        let both = window(&run, "both");
        let ratio = share(both, "ledbat") / share(both, "tcp");
        claim(&format!("3.2 {order}: LEDBAT's bytes over TCP's"), "> 1", ratio, 1.0..=100.0);
    }
}

#[test]
fn fig3_2a_in_time() {
    let run = play(&example("trang2014/fig3.2A.toml", &[]));
    let (tcp, ledbat) = (samples(&run, "tcp"), samples(&run, "ledbat"));
    let cause = "SACK repairs what slow start lost without a timeout, so that LEDBAT goes on from half its window; in the \
                 thesis it timed out. Without SACK on both sides the delay passes the target at 11 s";
    let after_slow_start = ledbat.iter().filter(|s| (1.0..3.0).contains(&s.time)).map(|s| s.cwnd);
    let smallest = after_slow_start.fold(f64::INFINITY, f64::min);
    known_difference("3.2 A: LEDBAT after slow start (packets)", "1", smallest, 30.0..=80.0, cause);
    let over = |samples: &[_]| when(samples, 3.0, |s: &super::Sample| s.delay_ms > 100.0);
    known_difference("3.2 A: delay above the target (s)", "about 11", over(&ledbat), 7.0..=9.0, cause);
    known_difference("3.2 A: TCP overflows (s)", "15", halving(&tcp, 4.0), 9.0..=11.0, cause);
    let without = play(&example("trang2014/fig3.2A.toml", &["flow.ledbat.tcp.sack=false"]));
    let over = over(&samples(&without, "ledbat"));
    claim("3.2 A without SACK: delay above the target (s)", "about 11", over, 10.0..=12.0);
}

/// FLOWER's window before TCP's first loss in congestion avoidance, the time of that loss, and
/// whether FLOWER enters the loss zone after it.
fn flower(changes: &[&str]) -> (f64, f64, bool) {
    let run = play(&example("trang2014/fig5.1-flower.toml", changes));
    let flower = samples(&run, "flower");
    let loss = halving(&samples(&run, "tcp"), 5.0);
    let zone = when(&flower, loss - 0.3, |s| s.phase == LOSS_ZONE);
    (cwnd_at(&flower, loss - 0.3), loss, zone < loss + 15.0)
}

#[test]
fn fig5_1_flower_yields() {
    let run = play(&example("trang2014/fig5.1-flower.toml", &[]));
    claim("5.1: FLOWER's share", "far below TCP", share(window(&run, "run"), "flower"), 0.0..=0.2);
    let after =
        samples(&run, "flower").iter().filter(|s| s.time < 2.0).map(|s| s.cwnd).fold(f64::INFINITY, f64::min);
    claim("5.1: FLOWER restarts at (packets)", "1", after, 1.0..=1.0);
    let (before, loss, zone) = flower(&[]);
    let cause = "84 packets are 100.8 ms, 0.8 ms above the target: TCP overflows before the delay has been above the target \
                 for long. With 92 packets, as in chapter 3, both times are the published ones";
    known_difference("5.1: FLOWER before TCP's loss (packets)", "1", before, 20.0..=35.0, cause);
    known_difference("5.1: TCP halves (s)", "21.8", loss, 14.0..=17.0, cause);
    assert!(zone, "the fall of the delay trips the loss-detection zone");
    let (before, loss, zone) = flower(&["dumbbell.bottleneck.buffer=92 pkt"]);
    claim("5.1 with 92 packets: FLOWER before TCP's loss (packets)", "1", before, 1.0..=1.0);
    claim("5.1 with 92 packets: TCP halves (s)", "21.8", loss, 20.0..=24.0);
    assert!(zone, "the fall of the delay trips the loss-detection zone");
}

#[test]
fn fig5_1_ledbat_does_not() {
    let run = play(&example("trang2014/fig5.1-ledbat.toml", &[]));
    claim("5.1: LEDBAT's share", "aggressive", share(window(&run, "run"), "ledbat"), 0.5..=0.9);
}

#[test]
fn fig5_3_ledbat_starves_its_elder() {
    let run = play(&example("trang2014/fig5.3-ledbat.toml", &[]));
    let first = samples(&run, "first");
    let minimum = when(&first, 21.0, |s| s.cwnd < 1.1);
    claim("5.3: LEDBAT's first flow at its minimum (s)", "131", minimum, 80.0..=140.0);
    let last = window(&run, "last 50 s");
    claim("5.3: share of LEDBAT's first flow, last 50 s", "minimum", share(last, "first"), 0.0..=0.1);
}

#[test]
fn fig5_3_flower_shares_fairly() {
    let run = play(&example("trang2014/fig5.3-flower.toml", &[]));
    claim(
        "5.3: FLOWER, Jain's index, last 50 s",
        "fair",
        window(&run, "last 50 s").jain.unwrap(),
        0.95..=1.0,
    );
}
