//! How much uTP leaves to a download that shares its line: an emulated line of 10 Mbit/s and 20 ms, real
//! CUBIC and BBR beside, buffers from a quarter to four bandwidth-delay products, CoDel and FQ-CoDel;
//! libutp beside our laws. Needs root, iperf3, and BBR in the kernel.
//!
//! usage: cargo run --release -p leeway-utp --example yielding [SECONDS [QUEUE...]]

use leeway_emulator::testnet::{Spec, Testnet};
use leeway_utp::{Config, Socket};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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
/// A program's uTP, or laws of ours: as others have it, as `leeway send` has it, and our own.
const SENDERS: [&str; 4] = ["libutp", "ledbat", "ledbat:target=25ms", "ebb"];
const PORT: u16 = 6881;
/// uTP is there first; then both settle.
const HEAD_START: Duration = Duration::from_secs(2);
const SETTLE_S: u64 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", sender, at] => end(false, sender, at),
        ["send", sender, to] => end(true, sender, to),
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

/// One end of the uTP connection, in a process of its own.
fn end(sends: bool, sender: &str, address: &str) -> Outcome<()> {
    let address: SocketAddr = address.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let any = "0.0.0.0:0".parse()?;
        match (sender, sends) {
            ("libutp", true) => {
                let context = libutp_rs2::UtpUdpContext::new_udp(any).await?;
                send(context.connect(address).await?).await
            }
            ("libutp", false) => {
                let context = libutp_rs2::UtpUdpContext::new_udp(address).await?;
                receive(context.accept().await?).await
            }
            (law, true) => {
                let mut config = Config::default();
                config.law = law.parse()?;
                send(Socket::bind(any)?.connect(address, config).await?).await
            }
            (_, false) => {
                let socket = Socket::bind(address)?;
                socket.listen(Config::default());
                receive(socket.accept().await).await
            }
        }
    })
}

async fn send(mut stream: impl AsyncWrite + Unpin) -> Outcome<()> {
    let bytes = vec![7; 1 << 14];
    loop {
        stream.write_all(&bytes).await?;
    }
}

/// Says ten times a second how many bytes have come.
async fn receive(mut stream: impl AsyncRead + Unpin) -> Outcome<()> {
    let (mut buffer, mut bytes, mut said) = (vec![0; 1 << 16], 0, Instant::now());
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => bytes += count,
        }
        if said.elapsed() >= Duration::from_millis(100) {
            said = Instant::now();
            println!("{bytes}");
        }
    }
}

/// All queues, or those of these names.
fn table(seconds: u64, queues: &[&str]) -> Outcome<()> {
    println!("10 Mbit/s, 20 ms: Mbit/s of a download, and of uTP beside it, over {seconds} s\n");
    print!("| queue | download | alone |");
    SENDERS.iter().for_each(|sender| print!(" {sender} |"));
    println!("\n|---|---|---|{}", "---|".repeat(SENDERS.len()));
    let wanted = |(name, ..): &(&str, &str, &str)| queues.is_empty() || queues.contains(name);
    for (name, queue, buffer) in QUEUES.into_iter().filter(wanted) {
        for foreground in FOREGROUNDS {
            let (alone, _) = measure(queue, buffer, Some(foreground), None, seconds)?;
            print!("| {name} | {foreground} | {alone:.1} |");
            for sender in SENDERS {
                let (left, taken) = measure(queue, buffer, Some(foreground), Some(sender), seconds)?;
                print!(" {left:.1} + {taken:.1} |");
            }
            println!();
        }
        print!("| {name} | none | |");
        for sender in SENDERS {
            let (_, taken) = measure(queue, buffer, None, Some(sender), seconds)?;
            print!(" {taken:.1} |");
        }
        println!();
    }
    Ok(())
}

/// A child that ends with what holds it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Mbit/s of the foreground and of uTP.
fn measure(
    queue: &str,
    buffer: &str,
    foreground: Option<&str>,
    sender: Option<&str>,
    seconds: u64,
) -> Outcome<(f64, f64)> {
    let text = format!(
        "[host.foreground]\n[host.background]\n[host.router]\n[host.receiver]\n\
         [link.line]\nbetween = [\"router\", \"receiver\"]\ndelay = \"10 ms\"\n\
         up = {{ rate = \"10 Mbit/s\", queue = \"{queue}\", buffer = \"{buffer}\" }}\n\
         down = {{ rate = \"100 Mbit/s\" }}\n\
         [link.one]\nbetween = [\"foreground\", \"router\"]\n\
         [link.two]\nbetween = [\"background\", \"router\"]\n"
    );
    let net = Testnet::up(&Spec::parse(&text, Path::new("yielding.toml"))?)?;
    let receiver = *net.addresses("receiver")?.iter().find(|address| address.is_ipv4()).ok_or("no IPv4")?;
    let came = Arc::new(AtomicU64::new(0));
    let _ends = sender.map(|sender| start(&net, receiver, sender, &came)).transpose()?;
    if sender.is_some() {
        sleep(HEAD_START);
    }
    let download = foreground.map(|congestion| iperf(&net, receiver, congestion, seconds)).transpose()?;
    sleep(Duration::from_secs(SETTLE_S));
    let (before, began) = (came.load(Ordering::Relaxed), Instant::now());
    sleep(Duration::from_secs(seconds));
    let arrived = came.load(Ordering::Relaxed) - before;
    let taken = arrived as f64 * 8e-6 / began.elapsed().as_secs_f64();
    Ok((download.map(finished).transpose()?.unwrap_or(0.0), taken))
}

/// Both ends of a uTP connection; `came` counts what arrives.
fn start(net: &Testnet, to: IpAddr, sender: &str, came: &Arc<AtomicU64>) -> Outcome<[Running; 2]> {
    let command = |role: &str, address: String| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([role, sender, &address]);
        Ok::<_, std::io::Error>(command)
    };
    let mut receive = command("receive", SocketAddr::new(to, PORT).to_string())?;
    receive.stdout(Stdio::piped());
    let mut receiving = net.spawn("receiver", receive)?;
    let said = receiving.stdout.take().ok_or("no output")?;
    let came = Arc::clone(came);
    std::thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            came.store(line.parse().unwrap_or(0), Ordering::Relaxed);
        }
    });
    let receiving = Running(receiving);
    sleep(Duration::from_millis(300));
    let sending = net.spawn("background", command("send", SocketAddr::new(to, PORT).to_string())?)?;
    Ok([receiving, Running(sending)])
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
