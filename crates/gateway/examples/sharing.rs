//! Measures what a home loses when it shares its line: primary users alone, with everybody's traffic mixed, and with
//! secondary users behind the gateway's proxy, in one run.
//!
//! `cargo run --release -p leeway-gateway --example sharing -- --leeway target/release/leeway --repetitions 5`

use leeway_gateway::load::{Arrivals, Load, Report, serve};
use leeway_gateway::{Config, Gateway};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        return serve_objects();
    }
    let option = |name: &str, default: &str| -> String {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default, String::as_str).to_owned()
    };
    let leeway = option("--leeway", "target/release/leeway");
    let link = option("--link", "--up 1.72mbit --up-buffer 100pkt --delay 10ms");
    let seconds: u64 = option("--seconds", "30").parse()?;
    let repetitions: u64 = option("--repetitions", "1").parse()?;
    let law = option("--law", "ledbat:target=10ms");
    let users: u8 = option("--users", "5").parse()?;
    let poisson = option("--arrivals", "even") == "poisson";
    let verbose = arguments.iter().any(|argument| argument == "--verbose");
    let modes = option("--modes", "prim_only,best_effort,proxy");

    let (_line, server) = line(&leeway, &link)?;
    let runtime = tokio::runtime::Runtime::new()?;
    println!(
        "link {link}; law {law}; {seconds} s a run; arrivals {}",
        if poisson { "poisson" } else { "even" }
    );
    println!(
        "run  mode         primary: mean  p50    p99 ms  ratio mean p99   secondary: req/s  mean ms  failed"
    );
    for run in 1..=repetitions {
        let mut alone: Option<Report> = None;
        for mode in modes.split(',') {
            let text = format!(
                "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.0/8\"]\nallow = [\"198.18.0.0/15\"]\n\
                 ports = [8000]\nlaw = \"{law}\"\nupload = []\n"
            );
            let config = Config::parse(&text)?;
            let arrivals = |seed| if poisson { Arrivals::Poisson(run * 10 + seed) } else { Arrivals::Even };
            let shared = mode != "prim_only";
            let (primary, other) = runtime.block_on(async {
                let gateway = Gateway::open(&config)?;
                let proxy = gateway.addresses()[0];
                let budget = gateway.budget().cloned();
                let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
                let gateway = tokio::spawn(gateway.run(async { drop(stopped.await) }));
                let load = |rate: f64, arrivals| Load {
                    server,
                    proxy: None,
                    from: vec![],
                    rate,
                    arrivals,
                    object_bytes: 12_500,
                    duration: Duration::from_secs(seconds),
                    patience: Duration::from_millis(500),
                };
                let mut others = load(25.0, arrivals(2));
                if mode == "proxy" {
                    others.proxy = Some(proxy);
                    others.from = (1..=users).map(|n| IpAddr::V4(Ipv4Addr::new(127, 0, 1, n))).collect();
                }
                let watch = tokio::spawn(async move {
                    while verbose && let Some(budget) = &budget {
                        tokio::time::sleep(Duration::from_millis(500)).await;
                        eprintln!("{:?}", budget.state());
                    }
                });
                let secondary =
                    tokio::spawn(async move { if shared { Some(others.run().await) } else { None } });
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut first = load(5.0, arrivals(1));
                first.duration = Duration::from_secs(seconds.saturating_sub(1));
                first.patience = Duration::from_secs(30);
                let primary = first.run().await;
                let other = secondary.await?;
                watch.abort();
                drop(stop);
                gateway.abort();
                // What is left on the line goes first.
                tokio::time::sleep(Duration::from_secs(2)).await;
                Ok::<_, Failure>((primary, other))
            })?;
            let base = alone.get_or_insert_with(|| primary.clone());
            print!(
                "{run:3}  {mode:12} {:13.1} {:6.1} {:7.1} {:10.2} {:5.2}",
                primary.mean_ms(),
                primary.quantile_ms(0.5),
                primary.quantile_ms(0.99),
                primary.mean_ms() / base.mean_ms(),
                primary.quantile_ms(0.99) / base.quantile_ms(0.99),
            );
            match other {
                Some(other) => {
                    println!("   {:12.1} {:13.0} {:7}", other.per_second(), other.mean_ms(), other.failed)
                }
                None => println!(),
            }
        }
    }
    Ok(())
}

/// Starts the server behind a link; its address.
fn line(leeway: &str, link: &str) -> Result<(Line, SocketAddr), Failure> {
    let this = std::env::current_exe()?;
    let mut child = Command::new(leeway)
        .arg("link")
        .args(link.split_whitespace())
        .arg("--")
        .arg(this)
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("no output")?;
    let line = Line(child);
    let mut address = String::new();
    BufReader::new(stdout).read_line(&mut address)?;
    Ok((line, address.trim().parse()?))
}

/// Ends with the measurement.
struct Line(Child);

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve_objects() -> Result<(), Failure> {
    let gateway: Ipv4Addr = std::env::var("LEEWAY_GATEWAY")?.parse()?;
    let inside = Ipv4Addr::from(u32::from(gateway) + 1);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind((inside, 8000)).await?;
        println!("{}", listener.local_addr()?);
        serve(listener).await?;
        Ok(())
    })
}
