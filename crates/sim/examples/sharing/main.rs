//! Judges the sharing on lines that are drawn by a seed:
//! `cargo run --release -p leeway-sim --example sharing -- WHAT [LINES]`, where WHAT is `tune`,
//! `held`, `blind`, `relay`, `one`, `sockets` or `sensitivity`; or `-- line MBPS MS BDP QUEUE`.
//!
//! Half of the lines are for choosing constants (`tune`), the other half is held back (`held`).
//! `blind` plays the half that is held back with a gateway that may not see packets, `relay` with
//! a relay at the other end of the line. `sockets` plays neighbours whose servers pause, are far
//! away or slow, with a gateway that reads bytes up to 2 ms late. `sensitivity` halves and doubles
//! each constant of the policy.
//!
//! The environment variable `GATEWAY` has further lines for the scenario's gateway, such as `law =
//! "ledbat:target=5ms"`.

mod lines;

use lines::{BLIND, HEAD, Home, Line, Neighbours, Outcome, RELAY, SOCKETS, draw, judge, median, row};

/// Seed of the draw. Half of the lines is for tuning, the other half is held back.
const SEED: u64 = 2911;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(16usize);
    let extra = std::env::var("GATEWAY").unwrap_or_default();
    let lines = draw(SEED, 2 * count);
    let half = match args.first().map(String::as_str) {
        Some("held" | "blind" | "relay") => &lines[count..],
        _ => &lines[..count],
    };
    match args.first().map(String::as_str) {
        Some("one") => table(&[Line { mbps: 1.72, rtt_ms: 20, bdp: 5.0, queue: "droptail" }], &extra),
        Some("line") => {
            let number = |at: usize| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(1.0);
            let queue = args.get(4).cloned().unwrap_or_else(|| "droptail".into());
            let line =
                Line { mbps: number(1), rtt_ms: number(2) as u64, bdp: number(3), queue: queue.leak() };
            table(&[line], &extra);
        }
        Some("sockets") => print!("{}", lines::on_sockets(&format!("{SOCKETS}\n{extra}"))),
        Some("blind") => table(half, &format!("{BLIND}\n{extra}")),
        Some("relay") => table(half, &format!("{RELAY}\n{extra}")),
        Some("sensitivity") => sensitivity(half),
        _ => table(half, &extra),
    }
}

fn table(lines: &[Line], extra: &str) {
    println!("{HEAD}");
    let mut all = Vec::new();
    for home in Home::ALL {
        for &line in lines {
            let outcome = judge(line, home, Neighbours::Overload, extra);
            println!("{}", row(line, home, outcome));
            all.push((line, home, outcome));
        }
    }
    for (home, neighbours) in [
        (Home::Idle, Neighbours::Small),
        (Home::Idle, Neighbours::Uploads),
        (Home::Upload, Neighbours::Uploads),
    ] {
        let outcome = |&line| {
            let outcome = judge(line, home, neighbours, extra);
            println!("{} {neighbours:?}", row(line, home, outcome));
            outcome
        };
        let outcomes: Vec<_> = lines.iter().map(outcome).collect();
        println!("{neighbours:?} beside {home:?}: {}", sum(&outcomes));
    }
    for home in Home::ALL {
        let outcomes: Vec<_> = all.iter().filter(|entry| entry.1 == home).map(|entry| entry.2).collect();
        println!("Overload beside {home:?}: {}", sum(&outcomes));
    }
}

/// Medians, and the worst values.
fn sum(outcomes: &[Outcome]) -> String {
    let column = |pick: fn(&Outcome) -> f64| outcomes.iter().map(pick).collect::<Vec<_>>();
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (mut mean, mut p99) = (column(|o| o.mean), column(|o| o.p99));
    let (mut ping, mut spare) = (column(|o| o.ping_ms), column(|o| o.spare));
    let (most, most99) = (worst(&mean), worst(&p99));
    let least = spare.iter().copied().fold(f64::INFINITY, f64::min);
    format!(
        "mean {:.2} (most {most:.2}), p99 {:.2} (most {most99:.2}), ping {:+.1} ms, spare {:.2} (least {least:.2})",
        median(&mut mean),
        median(&mut p99),
        median(&mut ping),
        median(&mut spare)
    )
}

fn sensitivity(lines: &[Line]) {
    println!(
        "{:<22} {:>10} {:>6} {:>6} {:>6} {:>8} {:>6}",
        "constant", "value", "mean", "p99", "pages", "ping ms", "spare"
    );
    let show = |name: &str, value: &str, extra: &str| {
        let of = |home| {
            lines.iter().map(|&line| judge(line, home, Neighbours::Overload, extra)).collect::<Vec<_>>()
        };
        let (busy, pages, idle) = (of(Home::Requests), of(Home::Pages), of(Home::Idle));
        let of = |outcomes: &[Outcome], pick: fn(&Outcome) -> f64| {
            median(&mut outcomes.iter().map(pick).collect::<Vec<_>>())
        };
        println!(
            "{name:<22} {value:>10} {:>6.3} {:>6.3} {:>6.3} {:>8.1} {:>6.3}",
            of(&busy, |o| o.mean),
            of(&busy, |o| o.p99),
            of(&pages, |o| o.mean),
            of(&busy, |o| o.ping_ms),
            of(&idle, |o| o.spare)
        );
    };
    show("(defaults)", "", "");
    for constant in leeway_share::Policy::CONSTANTS {
        for value in [constant.default / 2, constant.default * 2] {
            if value != constant.default && (constant.least..=constant.most).contains(&value) {
                show(
                    constant.name,
                    &value.to_string(),
                    &format!("policy = {{ {} = {value} }}", constant.name),
                );
            }
        }
    }
}
