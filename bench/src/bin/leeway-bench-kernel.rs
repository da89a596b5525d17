//! Measures the cost of the glue between the laws and the kernel (as root): throughput on loopback
//! compared with the kernel's own laws, nanoseconds per acknowledgement, and ten thousand sockets.
//!
//! Each round runs the kernel's law and the same law of Leeway one after the other, in alternating
//! order, so that the ratio is valid on a busy machine too. Everything runs in a network namespace
//! of its own.

use leeway_kernel::{Load, Loaded};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const PAIRS: [(&str, &str); 2] = [("reno", "newreno"), ("cubic", "cubic")];
const SOCKETS: usize = 10_000;
/// Length of a transfer, and the part at its beginning that is not measured.
const RUN: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_millis(200);
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).map_or(Ok(15), |text| text.parse());
    let outcome = match rounds {
        Ok(rounds @ 1..) => measure(rounds),
        _ => Err("usage: leeway-bench-kernel [ROUNDS]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(rounds: usize) -> Outcome<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("a network namespace needs root: {error}"))?;
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    if !up.success() {
        return Err("ip link set lo up failed".into());
    }
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65000")?;
    throughput(rounds)?;
    println!();
    per_ack(rounds)?;
    println!();
    many(rounds)
}

/// A law that is loaded until this value is dropped.
struct Pinned(String);

impl Pinned {
    fn new(law: &str) -> Outcome<Pinned> {
        let mut name = format!("b{:x}{law}", std::process::id() & 0xf_ffff);
        name.truncate(15);
        let load = Load { name, ..Load::new(law.parse()?) };
        load.pinned()?;
        Ok(Pinned(load.name))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = leeway_kernel::unload(&self.0);
    }
}

fn throughput(rounds: usize) -> Outcome<()> {
    println!("loopback, one connection, {rounds} rounds: medians");
    println!(
        "{:8}  {:>13}  {:>13}  {:>6}  {:>9}  {:>10}",
        "law", "kernel Gbit/s", "leeway Gbit/s", "ratio", "quartiles", "CPU a byte"
    );
    for (own, law) in PAIRS {
        let ours = Pinned::new(law)?;
        let (mut kernel, mut leeway, mut ratios, mut cpu) = (vec![], vec![], vec![], vec![]);
        for round in 0..rounds {
            let (a, b) = if round % 2 == 0 {
                let first = transfer(own)?;
                (first, transfer(&ours.0)?)
            } else {
                let second = transfer(&ours.0)?;
                (transfer(own)?, second)
            };
            kernel.push(a.gbps);
            leeway.push(b.gbps);
            ratios.push(b.gbps / a.gbps);
            cpu.push(b.cpu_ns_per_byte / a.cpu_ns_per_byte);
        }
        println!(
            "{law:8}  {:>13.1}  {:>13.1}  {:>6.3}  {:.2}-{:.2}  {:>10.3}",
            quantile(&mut kernel, 0.5),
            quantile(&mut leeway, 0.5),
            quantile(&mut ratios, 0.5),
            quantile(&mut ratios, 0.25),
            quantile(&mut ratios, 0.75),
            quantile(&mut cpu, 0.5),
        );
    }
    println!(
        "quartiles: of the ratio; CPU a byte: processor time of sender and receiver, beside the kernel's law"
    );
    Ok(())
}

/// The figures of one transfer.
struct Transfer {
    gbps: f64,
    cpu_ns_per_byte: f64,
}

fn transfer(law: &str) -> Outcome<Transfer> {
    let (mut sender, mut receiver) = pair(law)?;
    let sending = std::thread::spawn(move || {
        let buffer = vec![0; 1 << 18];
        // The receiver closes.
        while sender.write_all(&buffer).is_ok() {}
    });
    let mut buffer = vec![0; 1 << 18];
    let mut read_for = |span: Duration| -> Outcome<u64> {
        let (began, mut bytes) = (Instant::now(), 0);
        while began.elapsed() < span {
            bytes += receiver.read(&mut buffer)? as u64;
        }
        Ok(bytes)
    };
    read_for(WARM_UP)?;
    let (began, cpu) = (Instant::now(), cpu_ns());
    let bytes = read_for(RUN)? as f64;
    let (took, cpu) = (began.elapsed(), cpu_ns() - cpu);
    drop(receiver);
    sending.join().map_err(|_| "the sender has died")?;
    Ok(Transfer { gbps: bytes * 8e-9 / took.as_secs_f64(), cpu_ns_per_byte: cpu as f64 / bytes })
}

fn pair(law: &str) -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    set_tcp_congestion(&sender, law)?;
    Ok((sender, listener.accept()?.0))
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Makes the kernel count the run time of BPF programs, until this value is dropped.
struct Stats(String);

impl Stats {
    fn new() -> Outcome<Stats> {
        let before = std::fs::read_to_string(STATS)?;
        std::fs::write(STATS, "1")?;
        Ok(Stats(before))
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        let _ = std::fs::write(STATS, &self.0);
    }
}

fn per_ack(rounds: usize) -> Outcome<()> {
    println!("cong_control on loopback, glue and law together, {rounds} rounds: medians");
    println!("{:8}  {:>10}  {:>7}", "law", "ns an ack", "acks/s");
    let _stats = Stats::new()?;
    for law in leeway_control::laws() {
        let ours = Pinned::new(law.name)?;
        let loaded = Loaded::find(&ours.0)?;
        let so_far = || {
            let costs = loaded.costs();
            let acks = costs.iter().find(|cost| cost.hook == "cong_control");
            acks.map(|cost| (cost.run_time_ns, cost.runs)).ok_or("the kernel does not tell of cong_control")
        };
        let (mut nanos, mut rates) = (vec![], vec![]);
        for _ in 0..rounds {
            let before = so_far()?;
            transfer(&ours.0)?;
            let after = so_far()?;
            let acks = (after.1 - before.1) as f64;
            nanos.push((after.0 - before.0) as f64 / acks);
            rates.push(acks / (RUN + WARM_UP).as_secs_f64());
        }
        println!("{:8}  {:>10.0}  {:>7.0}", law.name, quantile(&mut nanos, 0.5), quantile(&mut rates, 0.5));
    }
    println!("the kernel's counting included (two readings of the clock)");
    Ok(())
}

fn many(rounds: usize) -> Outcome<()> {
    // The other ends are never accepted, so they need no descriptors.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    std::fs::write("/proc/sys/net/core/somaxconn", "20000")?;
    println!("{SOCKETS} connections, {rounds} rounds: medians");
    println!(
        "{:8}  {:>10}  {:>9}  {:>11}  {:>10}  {:>12}",
        "law", "connect us", "list ms", "load ms", "unload ms", "bytes/socket"
    );
    let (mut plain, mut connects) = (vec![], vec![]);
    for _ in 0..rounds {
        let (connect, slab) = crowd("reno", || Ok(()))?;
        connects.push(connect);
        plain.push(slab);
    }
    let plain = quantile(&mut plain, 0.5);
    println!("{:8}  {:>10.1}", "reno", quantile(&mut connects, 0.5));
    for law in ["newreno", "ledbat", "flower"] {
        let (mut connects, mut lists, mut loads, mut unloads, mut slabs) =
            (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            let began = Instant::now();
            let ours = Pinned::new(law)?;
            loads.push(milliseconds(began));
            let loaded = Loaded::find(&ours.0)?;
            let name = ours.0.clone();
            let (connect, slab) = crowd(&name, || {
                let began = Instant::now();
                let listed = loaded.sockets()?.len();
                lists.push(milliseconds(began));
                if listed != SOCKETS {
                    return Err(format!("{listed} sockets are listed").into());
                }
                let began = Instant::now();
                drop(ours);
                unloads.push(milliseconds(began));
                Ok(())
            })?;
            connects.push(connect);
            slabs.push(slab - plain);
        }
        println!(
            "{law:8}  {:>10.1}  {:>9.1}  {:>11.1}  {:>10.2}  {:>12.0}",
            quantile(&mut connects, 0.5),
            quantile(&mut lists, 0.5),
            quantile(&mut loads, 0.5),
            quantile(&mut unloads, 0.5),
            quantile(&mut slabs, 0.5),
        );
    }
    println!("unload: under all these sockets; bytes/socket: kernel slabs beyond those of reno");
    Ok(())
}

/// Opens connections, calls `meanwhile`, and closes them. Returns microseconds per connection and
/// bytes of the kernel's slabs per connection.
fn crowd(law: &str, meanwhile: impl FnOnce() -> Outcome<()>) -> Outcome<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    rustix::net::listen(&listener, 2 * SOCKETS as i32)?;
    let address = listener.local_addr()?;
    let before = slab_bytes()?;
    let began = Instant::now();
    let mut open = Vec::with_capacity(SOCKETS);
    for _ in 0..SOCKETS {
        let sender = TcpStream::connect(address)?;
        set_tcp_congestion(&sender, law)?;
        open.push(sender);
    }
    let connect = began.elapsed().as_secs_f64() * 1e6 / SOCKETS as f64;
    let slab = (slab_bytes()? - before) / SOCKETS as f64;
    meanwhile()?;
    // A reset avoids the minute in TIME_WAIT, so that the next round can use the ports.
    for sender in &open {
        rustix::net::sockopt::set_socket_linger(sender, Some(Duration::ZERO))?;
    }
    Ok((connect, slab))
}

/// Bytes of the objects in use, of all slabs.
fn slab_bytes() -> Outcome<f64> {
    let info = std::fs::read_to_string("/proc/slabinfo")?;
    let bytes = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let (active, _, size) = (words.next()?, words.next()?, words.next()?);
        // Only the slabs of sockets and socket storage: other programs use the others meanwhile.
        let ours = name.starts_with("kmalloc") || name.contains("TCP") || name.contains("bpf");
        ours.then_some(active.parse::<f64>().ok()? * size.parse::<f64>().ok()?)
    };
    Ok(info.lines().filter_map(bytes).sum())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The quantile of a list that is not empty, without interpolation.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
