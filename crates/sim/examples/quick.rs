//! Runs scenario files and prints the bare numbers.
use leeway_sim::scenario::Scenario;
fn main() {
    for file in std::env::args().skip(1) {
        let s = Scenario::load(std::path::Path::new(&file)).unwrap();
        let t = std::time::Instant::now();
        let run = leeway_sim::run_with_baseline(&s, s.seed).unwrap();
        let e = t.elapsed().as_secs_f64();
        println!(
            "{file}: {:.3} s, {:?} {:.2} Mpkt/s {:.1} ns/pkt",
            e,
            run.work,
            run.work.delivered_packets as f64 / e / 1e6,
            e * 1e9 / run.work.delivered_packets as f64
        );
        for w in &run.windows {
            println!("{}", serde_json::to_string(w).unwrap());
        }
    }
}
