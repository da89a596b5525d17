//! A ping and a telephone call beside the other load.

use crate::stats::{Times, histogram, micros};
use leeway_sim::scenario::Codec;
use leeway_sim::{Histogram, voice};
use leeway_units::Duration as Span;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Pings a second.
const PING_RATE: f64 = 10.0;
/// Longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of the RTP header (RFC 3550, 5.1) of each packet.
const RTP_BYTES: usize = 12;
/// ICMP's echo request (RFC 792), and the bytes of its header.
const ECHO: u8 = 8;
const ICMP_BYTES: usize = 8;

/// The outcome of the pings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// Pings without an answer.
    pub lost: u64,
    /// Round-trip times; `None` if none was answered.
    pub rtt: Option<Times>,
}

/// The quality of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The mean opinion score of the listener, 1 to 4.5 (ITU-T G.107).
    pub mos: f64,
    /// The part of its packets that did not arrive.
    pub loss: f64,
    /// The 99th percentile of the one-way delay, in seconds.
    pub owd_p99_s: f64,
}

/// Pings `to` ten times a second, and counts the pings that are due from `counted` to `end`. The
/// times are a Poisson process, which samples queues without bias even where queues come at equal
/// distances (RFC 2330, 11.1.1). A round-trip time begins when a ping is really sent, as with
/// `ping`. No ping waits for earlier ones.
///
/// # Errors
/// The socket cannot be opened or used.
pub fn ping(to: IpAddr, start: Instant, counted: Instant, end: Instant, seed: u64) -> io::Result<Ping> {
    let socket: UdpSocket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4))?.into();
    socket.connect(SocketAddr::new(to, 0))?;
    ping_by(&socket, start, counted, end, seed)
}

/// Pings by a connected socket.
fn ping_by(
    socket: &UdpSocket,
    start: Instant,
    counted: Instant,
    end: Instant,
    seed: u64,
) -> io::Result<Ping> {
    let dues = dues(start, end, seed);
    // The timeout of a socket ends up to 32 ms late; a sleep ends in time.
    std::thread::scope(|scope| {
        scope.spawn(|| echo(socket, start, &dues));
        answers(socket, start, &dues, counted, end)
    })
}

/// The times at which pings are due.
fn dues(start: Instant, end: Instant, seed: u64) -> Vec<Instant> {
    // The stream of random numbers differs from that of the requests of the same seed.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    random.jump();
    let mut gap = || Duration::from_secs_f64(-(1.0 - random.random::<f64>()).ln() / PING_RATE);
    let first = start + gap();
    std::iter::successors(Some(first), |&due| Some(due + gap())).take_while(|&due| due < end).collect()
}

/// Sends echo requests, each with its number and the microseconds since `start`.
fn echo(socket: &UdpSocket, start: Instant, dues: &[Instant]) {
    for (number, due) in dues.iter().enumerate() {
        let mut echo = [0; ICMP_BYTES + 56];
        echo[0] = ECHO;
        echo[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        echo[8..16].copy_from_slice(&(number as u64).to_be_bytes());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        echo[16..24].copy_from_slice(&micros(start.elapsed()).to_be_bytes());
        // A full queue of the sender counts as a loss.
        let _ = socket.send(&echo);
    }
}

/// The answers to pings that are due from `counted` on.
fn answers(
    socket: &UdpSocket,
    start: Instant,
    dues: &[Instant],
    counted: Instant,
    end: Instant,
) -> io::Result<Ping> {
    let first = dues.partition_point(|&due| due < counted);
    let asked = (dues.len() - first) as u64;
    let mut rtts = histogram();
    let mut buffer = [0; 1500];
    loop {
        let left = (end + PATIENCE).saturating_duration_since(Instant::now());
        if rtts.len() == asked || left.is_zero() {
            return Ok(Ping { lost: asked - rtts.len(), rtt: Times::of(&rtts) });
        }
        socket.set_read_timeout(Some(left))?;
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let now_us = micros(start.elapsed());
        let payload = buffer[..length].get(ICMP_BYTES..).unwrap_or(&[]);
        let Some(([number, sent_us], _)) = payload.as_chunks::<8>().0.split_first_chunk() else { continue };
        let [number, sent_us] = [*number, *sent_us].map(u64::from_be_bytes);
        if (first as u64..dues.len() as u64).contains(&number) {
            rtts.saturating_record(now_us.saturating_sub(sent_us));
        }
    }
}

/// The speaker of a G.711 call: a packet every 20 ms from the calling thread's network to `to`,
/// until `end`.
///
/// # Errors
/// The socket cannot be opened.
pub fn speak(from: IpAddr, to: SocketAddr, start: Instant, end: Instant) -> io::Result<()> {
    let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
    let mut packet = vec![0; RTP_BYTES + usize::from(voice::payload(Codec::G711))];
    for number in 0u32.. {
        let due = start + number * std_span(voice::INTERVAL);
        if due >= end {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // Both ends are on this machine and share its clock. Delays begin at the intended time of
        // sending.
        packet[..4].copy_from_slice(&number.to_be_bytes());
        let _ = socket.send_to(&packet, to);
    }
    Ok(())
}

/// The listener at `at` of the call that [`speak`] makes; counts packets sent from `counted` on.
///
/// # Errors
/// The socket cannot be opened or used.
pub fn listen(at: SocketAddr, start: Instant, counted: Instant, end: Instant) -> io::Result<Call> {
    let socket = UdpSocket::bind(at)?;
    let interval = std_span(voice::INTERVAL);
    let first = counted.saturating_duration_since(start).div_duration_f64(interval).ceil() as u32;
    let after = end.saturating_duration_since(start).div_duration_f64(interval).ceil() as u32;
    let asked = u64::from(after.saturating_sub(first));
    let mut delays = Histogram::default();
    let mut buffer = [0; 1500];
    loop {
        let left = (end + PATIENCE).saturating_duration_since(Instant::now());
        if delays.count() == asked || left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        let now = Instant::now();
        let Some(bytes) = buffer[..length].first_chunk() else { continue };
        let number = u32::from_be_bytes(*bytes);
        if (first..after).contains(&number) {
            let delay = now.saturating_duration_since(start + number * interval);
            delays.add(Span::from_nanos(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)));
        }
    }
    let mos = voice::mos(Codec::G711, asked, &delays).unwrap_or(1.0);
    let loss = 1.0 - delays.count().min(asked) as f64 / asked.max(1) as f64;
    Ok(Call { mos, loss, owd_p99_s: delays.quantile(0.99).unwrap_or(f64::MAX) })
}

/// The standard library's span for one of ours.
fn std_span(span: Span) -> Duration {
    Duration::from_nanos(span.nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer at a distance of `FAR` that does not answer every fifth ping.
    #[test]
    fn a_ping_takes_as_long_as_its_answer_and_no_answer_is_a_loss() {
        const FAR: Duration = Duration::from_millis(20);
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        let start = Instant::now() + Duration::from_millis(50);
        let (counted, end) = (start + Duration::from_millis(500), start + Duration::from_millis(2500));
        let dues = dues(start, end, 7);
        let asked = dues.iter().filter(|&&due| due >= counted).count() as u64;
        assert!(dues.is_sorted() && asked > 10);
        std::thread::spawn(move || {
            let mut echo = [0; 1500];
            for number in 1.. {
                let length = far.recv(&mut echo).unwrap();
                let (echo, far) = (echo[..length].to_vec(), far.try_clone().unwrap());
                if number % 5 > 0 {
                    std::thread::spawn(move || {
                        std::thread::sleep(FAR);
                        far.send(&echo).unwrap();
                    });
                }
            }
        });
        let pinged = ping_by(&near, start, counted, end, 7).unwrap();
        let counted = dues.len() - asked as usize..dues.len();
        assert_eq!(pinged.lost, counted.filter(|number| number % 5 == 4).count() as u64);
        let rtt = pinged.rtt.unwrap();
        assert!(rtt.p50_s >= FAR.as_secs_f64() && rtt.p50_s < 1.5 * FAR.as_secs_f64(), "{rtt:?}");
    }

    #[test]
    fn a_call_at_home_is_clear() {
        let at: SocketAddr = {
            let free = UdpSocket::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap()
        };
        let start = Instant::now() + Duration::from_millis(50);
        let end = start + Duration::from_millis(600);
        let call = std::thread::scope(|scope| {
            let listener = scope.spawn(move || listen(at, start, start + Duration::from_millis(100), end));
            speak(at.ip(), at, start, end).unwrap();
            listener.join().unwrap().unwrap()
        });
        assert!(call.mos > 3.5 && call.loss < 0.5, "{call:?}");
    }
}
