//! LEDBAT's option `accelerate`: growth by more than a packet in a round trip.

mod common;

use common::{ack, build, dupack, packets, path};
use leeway_control::{Ack, Law};

/// Plays a round trip of `count` acknowledgements. Returns what it adds to the window, in packets.
fn round(law: &mut Law, now_us: &mut u64, count: u64, queue_us: u32) -> f64 {
    let before = packets(law);
    for i in 0..count {
        *now_us += 50_000 / count;
        let round_start = u8::from(i == 0);
        law.on_ack(&Ack { round_start, ..ack(*now_us, queue_us) }, &path(10));
    }
    packets(law) - before
}

/// `accelerate`: each round trip adds twice as much as the one before, up to a part of the window.
#[test]
fn growth_doubles_while_there_is_no_queue() {
    let mut law = build("ledbat:target=20ms,accelerate=0.1", &path(100));
    let mut now_us = 0;
    for expected in [1.0, 2.0, 4.0, 8.0] {
        let grown = round(&mut law, &mut now_us, 100, 0);
        assert!((0.8..1.01).contains(&(grown / expected)), "{grown} packets for {expected}");
    }
    for _ in 0..3 {
        let grown = round(&mut law, &mut now_us, 100, 0);
        assert!((grown - 10.0).abs() < 0.01, "{grown} packets with 100 acked");
    }
    // A queue of three quarters of the target stops the acceleration; one that is 1 µs shorter
    // does not.
    let grown = round(&mut law, &mut now_us, 100, 14_999);
    assert!(grown > 2.0, "{grown} packets");
    round(&mut law, &mut now_us, 100, 15_001);
    let grown = round(&mut law, &mut now_us, 100, 15_001);
    assert!(grown < 0.26, "{grown} packets");
    // After that, growth starts again with the gain.
    now_us += 1_000_000;
    let grown = round(&mut law, &mut now_us, 100, 0);
    assert!((0.5..1.01).contains(&grown), "{grown} packets");
}

#[test]
fn growth_is_that_of_the_gain_after_a_loss_and_without_acceleration() {
    for (text, lost) in [("ledbat:target=20ms,accelerate=0.1", true), ("ledbat:target=20ms", false)] {
        let mut law = build(text, &path(100));
        let mut now_us = 0;
        (0..6).for_each(|_| _ = round(&mut law, &mut now_us, 100, 0));
        if lost {
            law.on_loss(&dupack(now_us, now_us - 1), &path(10));
        }
        let acks = packets(&law) as u64;
        let grown = round(&mut law, &mut now_us, acks, 0);
        assert!((0.9..1.01).contains(&grown), "{text}: {grown} packets");
    }
}

/// A window that its sender does not use says nothing of the path.
#[test]
fn growth_does_not_double_while_the_window_is_not_used() {
    let mut law = build("ledbat:target=20ms,accelerate=0.1", &path(100));
    for round in 0..10 {
        for i in 0..100 {
            let unused =
                Ack { app_limited: 1, round_start: u8::from(i == 0), ..ack(round * 50_000 + i * 500, 0) };
            law.on_ack(&unused, &path(10));
        }
    }
    assert_eq!(packets(&law), 100.0);
    let grown = round(&mut law, &mut 500_000, 100, 0);
    assert!((0.9..1.01).contains(&grown), "{grown} packets");
}

/// Under any gain, an acknowledgement adds at most what it acknowledges (RFC 6817, 2.4.2).
#[test]
fn growth_is_at_most_what_was_acknowledged() {
    let mut law = build("ledbat:target=20ms,gain_up=10", &path(2));
    let before = packets(&law);
    law.on_ack(&ack(50_000, 0), &path(2));
    let grown = packets(&law) - before;
    assert!((grown - 1.0).abs() < 0.01, "{grown} packets with one acknowledged");
}
