mod bare;
fn main() {
    for (name, b) in [("s4", bare::Bare{flows:2,buffer:2084,service_ns:240_000,rtt_ns:500_000_000,duration_ns:1_000_000_000_000*3}),("s3", bare::Bare{flows:200,buffer:84,service_ns:1_200_000,rtt_ns:100_000_000,duration_ns:1_200_000_000_000*8})] {
        let best = (0..9).map(|_| { let t=std::time::Instant::now(); let n=b.run(); t.elapsed().as_secs_f64()*1e9/n as f64}).fold(1e9, f64::min);
        println!("{name} bare {best:.1} ns/pkt");
    }
}
