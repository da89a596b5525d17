//! Tables of what the laws do, as snapshots. A change of behaviour shows as a change of numbers.

mod common;

use common::{ack, build, dupack, packets, path, timeout};
use leeway_control::{Ack, Law, laws};
use std::fmt::Write;

/// Plays round trips until `until_us` at a queuing delay of `queue_us`, with one acknowledgement
/// for each packet of the window.
fn play(law: &mut Law, now_us: &mut u64, until_us: u64, queue_us: u32) {
    while *now_us < until_us {
        let window = packets(law).max(0.02);
        let acks = window.max(1.0) as u64;
        let round_us = (f64::from(50_000 + queue_us) / window.min(1.0)) as u64;
        for i in 0..acks {
            let ack = Ack { round_start: u8::from(i == 0), ..ack(*now_us + i * round_us / acks, queue_us) };
            law.on_ack(&ack, &path(10));
        }
        *now_us += round_us;
    }
}

/// One column for each law, all from a window of 40 packets without slow start.
fn columns(sets: &[(&str, &str)]) -> (String, Vec<Law>) {
    let mut head = String::new();
    let mut all = Vec::new();
    for (title, text) in sets {
        write!(head, "{title:>10}").expect("a string");
        all.push(build(text, &path(40)));
    }
    (head, all)
}

const CALM: [(&str, &str); 10] = [
    ("newreno", "newreno:slow_start=none"),
    ("cubic", "cubic:slow_start=none"),
    ("vegas", "vegas:slow_start=none"),
    ("nice", "nice:slow_start=none"),
    ("lp", "lp:slow_start=none"),
    ("ledbat", "ledbat:slow_start=none"),
    ("fledbat", "fledbat:slow_start=none"),
    ("ledbatpp", "ledbatpp:slow_start=none,slowdown=off"),
    ("flower", "flower:slow_start=none"),
    ("ebb", "ebb"),
];

#[test]
fn delay_steps() {
    let (head, mut all) = columns(&CALM);
    let mut table = format!("window in packets; RTT 50 ms + queue\n   t/s  queue{head}\n");
    let mut clocks = vec![0; all.len()];
    for tick in 1..=32u64 {
        let queue_us = match tick {
            ..=4 => 0,
            5..=10 => 60_000,
            11..=18 => 130_000,
            19..=24 => 20_000,
            _ => 0,
        };
        write!(table, "{:6.2} {:6}", tick as f64 / 4.0, queue_us / 1000).expect("a string");
        for (law, clock) in all.iter_mut().zip(&mut clocks) {
            play(law, clock, tick * 250_000, queue_us);
            write!(table, "{:10.2}", packets(law)).expect("a string");
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

#[test]
fn losses() {
    let (head, mut all) = columns(&CALM);
    let mut table = format!("window in packets, queue 20 ms\n                        {head}\n");
    let mut clocks = vec![0; all.len()];
    let mut row = |what: &str, all: &mut Vec<Law>, act: &mut dyn FnMut(&mut Law, &mut u64)| {
        write!(table, "{what:24}").expect("a string");
        for (law, clock) in all.iter_mut().zip(&mut clocks) {
            act(law, clock);
            write!(table, "{:10.2}", packets(law)).expect("a string");
        }
        table.push('\n');
    };
    let on =
        |seconds: u64| move |law: &mut Law, now: &mut u64| play(law, now, *now + seconds * 1_000_000, 20_000);
    row("1 s", &mut all, &mut on(1));
    row("duplicate acks", &mut all, &mut |law, now| law.on_loss(&dupack(*now, *now - 1), &path(10)));
    row("again, same round trip", &mut all, &mut |law, now| {
        law.on_loss(&dupack(*now + 9, *now - 1), &path(10))
    });
    row("2 s", &mut all, &mut on(2));
    row("10 s", &mut all, &mut on(8));
    row("timeout", &mut all, &mut |law, now| law.on_loss(&timeout(*now, *now - 1, 1), &path(10)));
    row("second timeout", &mut all, &mut |law, now| law.on_loss(&timeout(*now + 9, *now + 8, 2), &path(10)));
    row("1 s", &mut all, &mut on(1));
    row("5 s", &mut all, &mut on(4));
    insta::assert_snapshot!(table);
}

#[test]
fn slow_starts() {
    let sets = [
        ("newreno", "newreno"),
        ("abc 1", "newreno:abc_limit=1"),
        ("hystart++", "cubic:hystart=on"),
        ("vegas", "vegas"),
        ("lp", "lp"),
        ("ledbat", "ledbat:slow_start=standard,ssthresh=100"),
        ("ledbatpp", "ledbatpp"),
        ("flower", "flower:ssthresh=300"),
        ("ebb", "ebb"),
    ];
    let mut head = String::new();
    let mut all = Vec::new();
    for (title, text) in sets {
        write!(head, "{title:>10}").expect("a string");
        all.push(build(text, &path(4)));
    }
    let mut table =
        format!("window in packets; the queue grows by 10 ms every 0.05 s from 0.3 s on\n   t/s{head}\n");
    let mut clocks = vec![0; all.len()];
    for tick in 1..=16u64 {
        write!(table, "{:6.2}", tick as f64 / 20.0).expect("a string");
        for (law, clock) in all.iter_mut().zip(&mut clocks) {
            play(law, clock, tick * 50_000, 10_000 * tick.saturating_sub(6) as u32);
            write!(table, "{:10.2}", packets(law)).expect("a string");
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

/// Names, parameters, defaults and bounds of the laws.
#[test]
fn parameters() {
    let mut table = String::new();
    for law in laws() {
        writeln!(table, "{}: {} [{}]", law.name, law.summary, law.source).expect("a string");
        for param in &law.params {
            let (default, kind) = (param.show(param.default), param.kind.as_str());
            writeln!(table, "  {:16} {:9} {:>9}  {}", param.name, kind, default, param.range())
                .expect("a string");
        }
        let probes: Vec<_> =
            law.probes.iter().map(|probe| format!("{} [{}]", probe.name, probe.unit)).collect();
        writeln!(table, "  probes: {}", probes.join(", ")).expect("a string");
    }
    insta::assert_snapshot!(table);
}
