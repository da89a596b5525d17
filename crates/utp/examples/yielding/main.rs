//! How much uTP leaves to a download that shares its line, and how long it takes alone: an emulated line of
//! 10 Mbit/s and 20 ms, real CUBIC and BBR beside, buffers from a quarter to four bandwidth-delay products,
//! CoDel and FQ-CoDel; libutp and libtorrent beside our laws. Medians of three runs. Needs root, iperf3,
//! Debian's python3-libtorrent, and BBR in the kernel.
//!
//! usage: cargo run --release -p leeway-utp --example yielding [SECONDS [QUEUE...]]

mod ends;

use ends::{Connection, Running};
use leeway_emulator::testnet::{Spec, Testnet};
use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Queues of the line; its bandwidth-delay product is 25 kB.
const QUEUES: [(&str, &str, &str); 7] = [
    ("0.25 BDP", "droptail", "6250 B"),
    ("0.5 BDP", "droptail", "12500 B"),
    ("1 BDP", "droptail", "25 kB"),
    ("2 BDP", "droptail", "50 kB"),
    ("4 BDP", "droptail", "100 kB"),
    ("CoDel", "codel", "100 kB"),
    ("FQ-CoDel", "fq_codel", "100 kB"),
];
const FOREGROUNDS: [&str; 2] = ["cubic", "bbr"];
/// Other programs' uTP; ours with the law that others have, and with our own, as `leeway send` has it.
const SENDERS: [&str; 4] = ["libutp", "libtorrent", "ledbat", "ebb"];
const RUNS: usize = 3;
/// uTP is there first; then both settle.
const HEAD_START: Duration = Duration::from_secs(2);
const SETTLE_S: u64 = 2;
/// What is carried where nobody else is there, from the first byte that arrives.
const ALONE_BYTES: u64 = 10_000_000;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", sender, at] => ends::end(false, sender, at),
        ["send", sender, to] => ends::end(true, sender, to),
        [] => table(10, &[]),
        [seconds, ref queues @ ..] => {
            seconds.parse().map_err(Into::into).and_then(|seconds| table(seconds, queues))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("yielding: {error}");
            ExitCode::FAILURE
        }
    }
}

/// All queues, or those of these names.
fn table(seconds: u64, queues: &[&str]) -> Outcome<()> {
    if let Some(unknown) = queues.iter().find(|&queue| QUEUES.iter().all(|(name, ..)| name != queue)) {
        let names = QUEUES.map(|(name, ..)| name).join(", ");
        return Err(format!("no queue is called {unknown:?}; there are {names}").into());
    }
    println!(
        "10 Mbit/s, 20 ms: Mbit/s of a download, and of uTP beside it, over {seconds} s; where there is no"
    );
    println!("download, seconds for {ALONE_BYTES} bytes. Medians of {RUNS}.\n");
    print!("| queue | download | alone |");
    SENDERS.iter().for_each(|sender| print!(" {sender} |"));
    println!("\n|---|---|---|{}", "---|".repeat(SENDERS.len()));
    for queue in QUEUES.into_iter().filter(|(name, ..)| queues.is_empty() || queues.contains(name)) {
        let name = queue.0;
        for foreground in FOREGROUNDS {
            let [alone, _] = medians(|| beside(queue, foreground, None, seconds))?;
            print!("| {name} | {foreground} | {alone:.1} |");
            for sender in SENDERS {
                let [left, taken] = medians(|| beside(queue, foreground, Some(sender), seconds))?;
                print!(" {left:.1} + {taken:.1} |");
            }
            println!();
        }
        print!("| {name} | none | |");
        for sender in SENDERS {
            let [took_s] = medians(|| Ok([alone(queue, sender)?]))?;
            print!(" {took_s:.1} s |");
        }
        println!();
    }
    Ok(())
}

/// The median of each of the figures of a run.
fn medians<const N: usize>(mut run: impl FnMut() -> Outcome<[f64; N]>) -> Outcome<[f64; N]> {
    let runs = (0..RUNS).map(|_| run()).collect::<Outcome<Vec<_>>>()?;
    Ok(std::array::from_fn(|which| {
        let mut found: Vec<f64> = runs.iter().map(|run| run[which]).collect();
        found.sort_by(f64::total_cmp);
        found[RUNS / 2]
    }))
}

/// Download and uTP come over one line from hosts of their own.
fn network((_, queue, buffer): (&str, &str, &str)) -> Outcome<Testnet> {
    let text = format!(
        "[host.foreground]\n[host.background]\n[host.router]\n[host.receiver]\n\
         [link.line]\nbetween = [\"router\", \"receiver\"]\ndelay = \"10 ms\"\n\
         up = {{ rate = \"10 Mbit/s\", queue = \"{queue}\", buffer = \"{buffer}\" }}\n\
         down = {{ rate = \"100 Mbit/s\" }}\n\
         [link.one]\nbetween = [\"foreground\", \"router\"]\n\
         [link.two]\nbetween = [\"background\", \"router\"]\n"
    );
    Ok(Testnet::up(&Spec::parse(&text, Path::new("yielding.toml"))?)?)
}

/// Mbit/s of the foreground, and of uTP beside it.
fn beside(
    queue: (&str, &str, &str),
    foreground: &str,
    sender: Option<&str>,
    seconds: u64,
) -> Outcome<[f64; 2]> {
    let net = network(queue)?;
    let utp = sender.map(|sender| ends::connect(&net, sender)).transpose()?;
    if let Some(utp) = &utp {
        utp.wait(0, LIMIT)?;
        sleep(HEAD_START);
    }
    let download = iperf(&net, ends::address(&net, "receiver")?, foreground, seconds)?;
    sleep(Duration::from_secs(SETTLE_S));
    let came = || utp.as_ref().map_or(0, Connection::came);
    let (before, began) = (came(), Instant::now());
    sleep(Duration::from_secs(seconds));
    let taken = (came() - before) as f64 * 8e-6 / began.elapsed().as_secs_f64();
    Ok([finished(download)?, taken])
}

/// Seconds for [`ALONE_BYTES`].
fn alone(queue: (&str, &str, &str), sender: &str) -> Outcome<f64> {
    let net = network(queue)?;
    let utp = ends::connect(&net, sender)?;
    utp.wait(0, LIMIT)?;
    let began = Instant::now();
    utp.wait(ALONE_BYTES, LIMIT)?;
    Ok(began.elapsed().as_secs_f64())
}

fn iperf(net: &Testnet, to: IpAddr, congestion: &str, seconds: u64) -> Outcome<(Running, Child)> {
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off"]).stdout(Stdio::null());
    let server = Running(net.spawn("receiver", server)?);
    sleep(Duration::from_millis(300));
    let mut client = Command::new("iperf3");
    client.args(["--client", &to.to_string(), "--congestion", congestion, "--format", "k"]);
    client.args(["--omit", &SETTLE_S.to_string(), "--time", &seconds.to_string()]).stdout(Stdio::piped());
    Ok((server, net.spawn("foreground", client)?))
}

/// What the receiver of a download got, in Mbit/s.
fn finished((_server, client): (Running, Child)) -> Outcome<f64> {
    let output = client.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.ends_with("receiver")).ok_or("iperf3 has no result")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| *word == "Kbits/sec").ok_or("iperf3 has no rate")?;
    Ok(words[unit - 1].parse::<f64>()? * 1e-3)
}
