//! Plays communities, one after the other, and prints a line for each.
//!
//! `cargo run --release -p leeway-community --example community -- '{"demand": 2}' '{"scheme": "nearest"}' [seeds=3]`

use leeway_community::{Community, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seeds = 1..=1;
    println!(
        "scheme demand feasible found moves better forced most jain tenth rtt_ms outage p95 max after without seconds"
    );
    for argument in std::env::args().skip(1) {
        if let Some(text) = argument.strip_prefix("seeds=") {
            let (first, last) = text.split_once('-').unwrap_or(("1", text));
            seeds = first.parse()?..=last.parse()?;
            continue;
        }
        let community: Community = serde_json::from_str(&argument)?;
        for seed in seeds.clone() {
            let begun = std::time::Instant::now();
            let Some(found) = run(&community, seed, &|| false)? else { continue };
            let seconds = begun.elapsed().as_secs_f64();
            println!(
                "{:?} {:.2} {:.3} {:.4} {:.3} {} {} {} {:.4} {:.3} {:.1} {:.1} {} {} {:.2} {:.5} {seconds:.1} {argument}",
                community.scheme,
                found.demand,
                found.feasible,
                found.found,
                found.moves_per_user_hour,
                found.moves_better,
                found.moves_forced,
                found.arrivals_most,
                found.jain,
                found.least_tenth,
                1e3 * found.rtt_s,
                found.outage_mean_s,
                found.outage_p95_s,
                found.outage_most_s,
                found.after_over_before,
                found.without_service,
            );
        }
    }
    Ok(())
}
