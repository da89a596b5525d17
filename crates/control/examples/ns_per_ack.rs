//! Time per acknowledgement of every law with its defaults:
//! `cargo run --release -p leeway-control --example ns_per_ack`.

use leeway_control::{Ack, Law, LawSpec, Loss, Path, laws};
use std::hint::black_box;
use std::time::Instant;

const ACKS: u64 = 300_000;
/// Number of measurements. The fastest one counts, because the others were disturbed.
const RUNS: usize = 60;
/// Flows that run in turn, as in a simulation of many flows.
const FLOWS: usize = 64;

fn main() {
    let empty = (0..RUNS).map(|_| run(&mut [], &Path::default())).fold(f64::INFINITY, f64::min);
    println!("{:<10} {:>8} {:>12}   (loop of {empty:.1} ns taken off)", "law", "ns/ack", "state bytes");
    for law in laws() {
        let path = Path {
            mss_bytes: 1500,
            initial_window_bytes: 150_000,
            srtt_us: 50_000,
            min_rtt_us: 50_000,
            inflight_bytes: 0,
        };
        let spec = LawSpec::new(law.name).expect("a listed law");
        let mut flows: Vec<_> = (0..FLOWS).map(|_| spec.build(&path)).collect();
        for flow in &mut flows {
            flow.on_loss(&Loss { kind: Loss::DUPACK, ..Loss::default() }, &path); // out of slow start
        }
        let best = (0..RUNS).map(|_| run(&mut flows, &path)).fold(f64::INFINITY, f64::min);
        println!("{:<10} {:>8.1} {:>12}", law.name, best - empty, law.state_bytes);
    }
}

fn run(flows: &mut [Law], path: &Path) -> f64 {
    let start = Instant::now();
    for i in 0..ACKS {
        let delay_us = 20_000 + (i / 7 % 120_000) as u32; // sweeps over every target
        let ack = Ack {
            now_us: i * 50,
            acked_bytes: 1500,
            prior_inflight_bytes: 1_500_000,
            rtt_us: 50_000 + delay_us,
            owd_us: 25_000 + delay_us,
            owd_resolution_us: 1,
            round_start: u8::from(i % (100 * FLOWS as u64) < FLOWS as u64),
            ..Ack::default()
        };
        let ack = black_box(&ack);
        if let Some(flow) = flows.get_mut(i as usize % FLOWS) {
            flow.on_ack(ack, path);
        }
    }
    start.elapsed().as_nanos() as f64 / ACKS as f64
}
