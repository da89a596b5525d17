//! Measures an emulated link against what it was asked for: the delay that it adds, the rate that
//! it lets through.
//!
//! Run as root: `cargo run --release -p leeway-emulator --example accuracy`. Datagrams go up the
//! link from a namespace to this process. The time of arrival is the kernel's (SO_TIMESTAMPNS), so
//! that the wake-up of the receiving program is not the link's; the sender, with a real-time
//! priority below the link's own, reads the same clock just before it sends.

use leeway_emulator::{Command, DirectionOptions, Outcome, enter, run};
use leeway_units::{Duration, Rate};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::time::Instant;
use thread_priority::{RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};

/// The propagation delay.
const DELAY: Duration = Duration::from_millis(25);
/// A datagram with its IP and UDP headers, and without.
const PACKET: usize = 1500;
const PAYLOAD: usize = PACKET - 28;
/// How long the link is loaded.
const SECONDS: u64 = 5;
/// How long a connection may take until its rate counts.
const WARM: std::time::Duration = std::time::Duration::from_secs(2);

type Outcomes<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match arguments.first().and_then(|first| first.to_str()) {
        None => measure(),
        Some("enter") => into_command(&arguments[1..]),
        Some("send") => send(&arguments[1..]),
        Some("stream") => stream(&arguments[1..]),
        Some(_) => Err("usage: accuracy".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accuracy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What `run` starts: the process id, `--` and the command.
fn into_command(arguments: &[OsString]) -> Outcomes<()> {
    let parent = text(arguments, 0)?.parse()?;
    Err(enter(parent, &arguments[2..]).into())
}

fn text(arguments: &[OsString], index: usize) -> Outcomes<&str> {
    Ok(arguments.get(index).and_then(|argument| argument.to_str()).ok_or("an argument is missing")?)
}

fn measure() -> Outcomes<()> {
    println!(
        "| rate | load | packets | added delay p50 / p99 / most | rate error | link late p50 / p99 / most | of a core |"
    );
    println!("|---|---|---|---|---|---|---|");
    for mbit in [10, 100, 200, 400] {
        for load in [30, 120] {
            one(Rate::from_bits_per_sec(mbit * 1_000_000), load)?;
        }
    }
    println!("\n| rate | TCP's goodput, of the rate | link late p50 / p99 / most | of a core |");
    println!("|---|---|---|---|");
    for mbit in [100, 400, 800, 1200, 1600, 2000, 3000, 4000] {
        tcp(Rate::from_bits_per_sec(mbit * 1_000_000))?;
    }
    Ok(())
}

/// What came about on a link while this program ran behind it, with these arguments.
fn through(rate: Rate, delay: Duration, arguments: &[&str]) -> Outcomes<Outcome> {
    let mut options = DirectionOptions::default();
    options.rates = Some(rate.into());
    options.delay = Some(delay);
    let specs = [options.spec()?, options.spec()?];
    let this: OsString = std::env::current_exe()?.into();
    let arguments = [this.clone()].into_iter().chain(arguments.iter().map(OsString::from)).collect();
    let command = Command { launcher: vec![this, "enter".into()], arguments };
    Ok(run(&specs, 1, None, &command, |_| {})?)
}

/// One row: what a connection of the kernel's own CUBIC carries, from [`WARM`] on.
fn tcp(rate: Rate) -> Outcomes<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let receiver = std::thread::spawn(move || drain(&listener));
    let outcome = through(rate, Duration::from_millis(5), &["stream", &port.to_string()])?;
    let (bytes, span) = receiver.join().map_err(|_| "the receiver has died")??;
    // 1448 of the 1500 bytes of a packet are the connection's.
    let part = bytes as f64 * 8.0 / span.as_secs_f64() / rate.bits_per_sec() as f64 * 1500.0 / 1448.0;
    let tally = &outcome.ended.tallies[0];
    let late = [500, 990, 1000]
        .map(|permille| format!("{:.0} us", tally.lateness.quantile(permille).nanos() as f64 * 1e-3));
    let busy = outcome.ended.busy.secs_f64() / (SECONDS as f64 + 1.0) * 100.0;
    println!("| {rate} | {:.1} % | {} / {} / {} | {busy:.0} % |", part * 100.0, late[0], late[1], late[2]);
    Ok(())
}

/// Reads a connection to its end: the bytes from [`WARM`] on, and the time for them.
fn drain(listener: &TcpListener) -> io::Result<(u64, std::time::Duration)> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(2)))?;
    let (start, mut buffer, mut bytes) = (Instant::now(), vec![0; 1 << 18], 0);
    let (mut first, mut last) = (start, start);
    loop {
        let read = stream.read(&mut buffer)? as u64;
        if read == 0 {
            return Ok((bytes, last - first));
        }
        if start.elapsed() < WARM {
            first = Instant::now();
        } else {
            (bytes, last) = (bytes + read, Instant::now());
        }
    }
}

/// Writes to a connection as fast as it takes.
fn stream(arguments: &[OsString]) -> Outcomes<()> {
    let port: u16 = text(arguments, 0)?.parse()?;
    let mut stream = TcpStream::connect((std::env::var("LEEWAY_GATEWAY")?, port))?;
    let (start, buffer) = (Instant::now(), vec![0; 1 << 18]);
    while start.elapsed().as_secs() < SECONDS + 1 {
        stream.write_all(&buffer)?;
    }
    stream.shutdown(Shutdown::Write)?;
    // The link ends with this process, and what is under way is lost then.
    std::thread::sleep(std::time::Duration::from_secs(1));
    Ok(())
}

/// One row: datagrams at `load` percent of the rate.
fn one(rate: Rate, load: u64) -> Outcomes<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(1500)))?;
    let receiver = std::thread::spawn(move || receive(&socket));
    let gap = rate.time_for(leeway_units::Bytes::new(PACKET as u64)).nanos() * 100 / load;
    let outcome = through(rate, DELAY, &["send", &port.to_string(), &gap.to_string()])?;
    let arrivals = receiver.join().map_err(|_| "the receiver has died")?;
    print(rate, load, &arrivals, &outcome)
}

fn print(rate: Rate, load: u64, arrivals: &[(u64, u64)], outcome: &Outcome) -> Outcomes<()> {
    let [(_, first), .., (_, last)] = arrivals else { return Err("nothing came through".into()) };
    let tally = &outcome.ended.tallies[0];
    let us = |ns: u64| format!("{:.0} us", ns as f64 * 1e-3);
    let sent_in = rate.time_for(leeway_units::Bytes::new(PACKET as u64)) + DELAY;
    // Under overload the delay is the queue's, not the emulator's.
    let added = if load < 100 {
        let mut added: Vec<u64> =
            arrivals.iter().map(|(sent, at)| at.saturating_sub(sent + sent_in.nanos())).collect();
        added.sort_unstable();
        let at = |permille: usize| us(added[(added.len() - 1) * permille / 1000]);
        format!("{} / {} / {}", at(500), at(990), at(1000))
    } else {
        "-".into()
    };
    let error = if load > 100 {
        let bits = (arrivals.len() - 1) as f64 * PACKET as f64 * 8.0;
        let measured = bits / ((last - first) as f64 * 1e-9);
        format!("{:+.3} %", (measured / rate.bits_per_sec() as f64 - 1.0) * 100.0)
    } else {
        "-".into()
    };
    let late = [500, 990, 1000].map(|permille| us(tally.lateness.quantile(permille).nanos()));
    let note = if outcome.ended.real_time { "" } else { " (no real-time priority)" };
    println!(
        "| {rate} | {load} % | {} of {}, {} overrun{note} | {added} | {error} | {} / {} / {} | {:.0} % |",
        arrivals.len(),
        tally.arrived,
        outcome.overruns[0],
        late[0],
        late[1],
        late[2],
        outcome.ended.busy.secs_f64() / SECONDS as f64 * 100.0
    );
    Ok(())
}

/// Times at which each datagram was sent and received, until none comes for a while.
fn receive(socket: &UdpSocket) -> Vec<(u64, u64)> {
    take_priority();
    let mut buffer = [0; PACKET];
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut arrivals = Vec::with_capacity(1 << 20);
    if let Err(error) = setsockopt(socket, sockopt::ReceiveTimestampns, &true) {
        eprintln!("accuracy: no times of arrival: {error}");
        return arrivals;
    }
    // The first may take its time: the sender has to start.
    let mut waited = 0;
    while waited < 3 {
        let mut space = [IoSliceMut::new(&mut buffer)];
        let got = recvmsg::<()>(socket.as_raw_fd(), &mut space, Some(&mut control), MsgFlags::empty());
        let at = got.ok().filter(|message| message.bytes >= 8).and_then(|message| {
            message.cmsgs().ok()?.find_map(|entry| match entry {
                ControlMessageOwned::ScmTimestampns(at) => Some(nanos(at)),
                _ => None,
            })
        });
        match at {
            Some(at) => {
                waited = 2;
                let sent = buffer[..8].try_into().map(u64::from_le_bytes).unwrap_or_default();
                arrivals.push((sent, at));
            }
            None => waited += 1,
        }
    }
    arrivals
}

/// Sends a datagram every `gap` nanoseconds.
fn send(arguments: &[OsString]) -> Outcomes<()> {
    let (port, gap): (u16, u64) = (text(arguments, 0)?.parse()?, text(arguments, 1)?.parse()?);
    take_priority();
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((std::env::var("LEEWAY_GATEWAY")?, port))?;
    let mut payload = [0; PAYLOAD];
    let start = now();
    for i in 0.. {
        let due = start + i * gap;
        if due > start + SECONDS * 1_000_000_000 {
            break;
        }
        let wait = due.saturating_sub(now());
        if wait > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(wait));
        }
        payload[..8].copy_from_slice(&now().to_le_bytes());
        // A full device queue refuses; the row then shows fewer packets.
        let _ = socket.send(&payload);
    }
    // The last packets are still on the link.
    std::thread::sleep(std::time::Duration::from_secs(1));
    Ok(())
}

/// The clock of the kernel's times of arrival.
fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, nanos)
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn take_priority() {
    let Ok(priority) = 20u8.try_into() else { return };
    let got = thread_priority::set_thread_priority_and_policy(
        thread_priority::thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
    );
    if got.is_err() {
        eprintln!("accuracy: an end without real-time priority; its own delays count");
    }
}
