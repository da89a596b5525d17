//! Time of one grant, with what belongs to it (an ask, an arrival with a delay sample), by the number of
//! users, beside a foreground of 64 connections with requests:
//! `cargo run --release -p leeway-share --example ns_per_grant`.

use leeway_share::{FlowId, LAW, Line, Next, Observation, Policy, Sample, UserId};
use std::collections::VecDeque;
use std::time::Instant;

const GRANTS: u64 = 200_000;
/// The fastest of so many: the others were disturbed.
const RUNS: usize = 7;

fn main() {
    println!("{:>8} {:>8} {:>12}", "users", "flows", "ns/grant");
    for (users, flows) in [(1, 1), (10, 100), (1_000, 1_000), (1_000, 10_000)] {
        let best = (0..RUNS).map(|_| run(users, flows)).fold(f64::INFINITY, f64::min);
        println!("{users:>8} {flows:>8} {best:>12.0}");
    }
}

fn run(users: u64, flows: u64) -> f64 {
    let mut line = Line::new(&LAW.parse().expect("the default law"), &Policy::default());
    let opened: Vec<FlowId> =
        (0..flows).map(|number| line.open(UserId(number % users)).expect("there is room")).collect();
    for &flow in &opened {
        line.ask(flow, u64::MAX).expect("it is open");
    }
    let mut under_way = VecDeque::new();
    let (mut now_us, mut grants) = (0, 0);
    let start = Instant::now();
    while grants < GRANTS {
        while let Next::Grant { flow, bytes } = line.next(now_us) {
            grants += 1;
            let connection = grants / 8 % 64;
            match grants % 8 {
                0 => line.foreground(now_us, connection, Observation::Request),
                4 => line.foreground(now_us, (connection + 60) % 64, Observation::Bytes(10_000)),
                _ => {}
            }
            under_way.push_back((now_us + 20_000, flow, bytes));
            line.ask(flow, u64::MAX).expect("it is open");
        }
        if let Some((at_us, flow, bytes)) = under_way.pop_front() {
            now_us = at_us.max(now_us + bytes / 12);
            let rtt_us = 20_000 + (now_us - at_us) as u32;
            let sample = Sample::exact(flow.number() % 50, rtt_us);
            line.arrived(now_us, flow, bytes, Some(sample));
            line.ask(flow, u64::MAX).expect("it is open");
        } else {
            now_us += 1_000;
        }
    }
    start.elapsed().as_nanos() as f64 / grants as f64
}
