//! Holds back what the programs of a cgroup download and shows the budget:
//! `receive CGROUP [LAW] [FOR_MS EVERY_MS]`.

use leeway_kernel::{Receive, Receiving};
use std::error::Error;
use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let cgroup = File::open(args.first().ok_or("which cgroup? /sys/fs/cgroup/...")?)?;
    let law = args.get(1).map_or("ledbatpp:delay=owd", String::as_str);
    let ms = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    let (span, every) = (Duration::from_millis(ms(2, 60_000)?), Duration::from_millis(ms(3, 1000)?));
    let receiving: Receiving = Receive::new(law.parse()?)?.attach(&cgroup)?;
    let began = Instant::now();
    println!("{} holds back", receiving.spec());
    while began.elapsed() < span {
        sleep(every);
        let budget = receiving.budget()?;
        println!(
            "{:7.2} s  window {:7.1} kB  received {:9.1} kB  queuing {:6.1} ms  RTT {:6.1} ms (least {:.1})  {} active, {} hungry  {}",
            began.elapsed().as_secs_f64(),
            budget.window_bytes as f64 * 1e-3,
            budget.received_bytes as f64 * 1e-3,
            f64::from(budget.output.queuing_delay_us) * 1e-3,
            f64::from(budget.srtt_us) * 1e-3,
            f64::from(budget.min_rtt_us) * 1e-3,
            budget.active,
            budget.hungry,
            budget.output.phase(),
        );
        if std::env::var_os("CONNECTIONS").is_some() {
            for one in receiving.connections()? {
                println!("    {one:?}");
            }
        }
    }
    Ok(())
}
