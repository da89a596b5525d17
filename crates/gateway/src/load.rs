//! Web-like load for measurements: an open-loop generator without coordinated omission, and a server of objects.
//!
//! Requests are sent when the schedule says, however many are unanswered; a service time counts from the intended
//! moment, so that a stalled server is seen by all who would have asked it.

use hdrhistogram::Histogram;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Service times up to an hour, to three digits, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;
/// The longest head that is read.
const HEAD_BYTES: usize = 8192;

/// What one class of users asks for.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub server: SocketAddr,
    /// Through this HTTP proxy.
    pub proxy: Option<SocketAddr>,
    /// Addresses to ask from, in turn; any if empty.
    pub from: Vec<IpAddr>,
    /// Requests per second.
    pub rate: f64,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Bytes of an object.
    pub object_bytes: u64,
    /// How long requests are sent.
    pub duration: Duration,
    /// How long the last ones are waited for.
    pub patience: Duration,
}

/// The schedule of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// Independent of each other, from this seed.
    Poisson(u64),
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Service times in microseconds of all that were answered.
    pub service_us: Histogram<u64>,
    /// Requests sent.
    pub sent: u64,
    /// Answered while requests were still being sent.
    pub in_time: u64,
    /// Refused, broken off, or without an answer at the end.
    pub failed: u64,
    /// How long requests were sent.
    pub duration: Duration,
}

impl Report {
    /// Mean service time in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.service_us.mean() / 1e3
    }

    /// A quantile of the service time in milliseconds.
    pub fn quantile_ms(&self, q: f64) -> f64 {
        self.service_us.value_at_quantile(q) as f64 / 1e3
    }

    /// Objects answered per second while requests were sent.
    pub fn per_second(&self) -> f64 {
        self.in_time as f64 / self.duration.as_secs_f64()
    }
}

impl Load {
    /// Sends the requests and waits for the answers.
    pub async fn run(&self) -> Report {
        let start = Instant::now();
        let end = start + self.duration;
        let give_up = end + self.patience;
        let service_us = Histogram::new_with_max(LONGEST_US, 3).expect("valid bounds");
        let seen = Arc::new(Mutex::new((service_us, 0)));
        let mut requests = JoinSet::new();
        let mut sent = 0;
        for (turn, offset) in
            self.arrivals.offsets(self.rate).take_while(|&at| at < self.duration).enumerate()
        {
            let intended = start + offset;
            sleep_until(intended).await;
            sent += 1;
            let from = (!self.from.is_empty()).then(|| self.from[turn % self.from.len()]);
            let (load, seen) = (self.clone(), seen.clone());
            requests.spawn(async move {
                let answered = timeout_at(give_up, load.fetch(from)).await;
                if matches!(answered, Ok(Ok(()))) {
                    let now = Instant::now();
                    let (times, in_time) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
                    times.saturating_record((now - intended).as_micros() as u64);
                    *in_time += u64::from(now <= end);
                }
            });
            while requests.try_join_next().is_some() {}
        }
        while requests.join_next().await.is_some() {}
        let (service_us, in_time) = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failed = sent - service_us.len();
        Report { service_us, sent, in_time, failed, duration: self.duration }
    }

    async fn fetch(&self, from: Option<IpAddr>) -> io::Result<()> {
        let to = self.proxy.unwrap_or(self.server);
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(address) = from {
            socket.bind(SocketAddr::new(address, 0))?;
        }
        let mut stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        let base = if self.proxy.is_some() { format!("http://{}", self.server) } else { String::new() };
        let request = format!(
            "GET {base}/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.object_bytes, self.server
        );
        stream.write_all(request.as_bytes()).await?;
        let (status, length, rest) = answer_head(&mut stream).await?;
        let mut left = length.saturating_sub(rest);
        let mut buffer = [0; 16384];
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => left = left.saturating_sub(bytes as u64),
            }
        }
        if status == 200 { Ok(()) } else { Err(io::Error::other(format!("status {status}"))) }
    }
}

impl Arrivals {
    fn offsets(self, rate: f64) -> impl Iterator<Item = Duration> {
        let mean_s = 1.0 / rate;
        let mut state = match self {
            Arrivals::Even => 0,
            Arrivals::Poisson(seed) => seed,
        };
        let mut at_s = 0.0;
        std::iter::repeat_with(move || {
            let now = Duration::from_secs_f64(at_s);
            at_s += match self {
                Arrivals::Even => mean_s,
                Arrivals::Poisson(_) => {
                    let uniform = (splitmix(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
                    -mean_s * (1.0 - uniform).ln()
                }
            };
            now
        })
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Serves objects: the path `/12500` has 12500 bytes. Ends with the listener.
pub async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move { drop(serve_one(stream).await) });
    }
}

async fn serve_one(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
        let path = head.split(' ').nth(1).unwrap_or("/");
        let length: usize = path.trim_start_matches('/').parse().unwrap_or(0);
        let close = head.to_ascii_lowercase().contains("connection: close");
        let last = if close { "Connection: close\r\n" } else { "" };
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{last}\r\n").into_bytes();
        let head_bytes = answer.len();
        answer.resize(head_bytes + length.min(1 << 26), b'x');
        stream.write_all(&answer).await?;
        if close {
            return stream.shutdown().await;
        }
    }
}

/// Up to the empty line; none if the other end has nothing more to ask.
async fn read_head<S: AsyncReadExt + Unpin>(stream: &mut S) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return Ok(None),
            Err(error) => return Err(error),
        }
        if head.len() > HEAD_BYTES {
            return Err(io::Error::other("the head is too long"));
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// Status, length of the body, and bytes of the body that came with the head.
async fn answer_head(stream: &mut TcpStream) -> io::Result<(u16, u64, u64)> {
    let mut head = Vec::with_capacity(1024);
    let end = loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if head.len() > HEAD_BYTES {
            return Err(io::Error::other("the head is too long"));
        }
    };
    let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let length = length.ok_or_else(|| io::Error::other("an answer without Content-Length"))?;
    Ok((status, length, (head.len() - end) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let even: Vec<_> = Arrivals::Even.offsets(4.0).take(3).collect();
        assert_eq!(even, [0, 250, 500].map(Duration::from_millis));
        let count = Arrivals::Poisson(1).offsets(50.0).take_while(|at| at.as_secs() < 100).count();
        assert!((4700..5300).contains(&count), "{count} of 5000");
    }

    #[tokio::test]
    async fn a_stall_is_seen_by_all_who_would_have_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        // Nobody accepts for 400 ms, so nobody is answered before.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            serve(listener).await
        });
        let load = Load {
            server,
            proxy: None,
            from: vec![],
            rate: 50.0,
            arrivals: Arrivals::Even,
            object_bytes: 100,
            duration: Duration::from_millis(400),
            patience: Duration::from_secs(20),
        };
        let report = load.run().await;
        assert_eq!((report.sent, report.failed), (20, 0));
        assert!(report.quantile_ms(1.0) >= 400.0 && report.mean_ms() >= 200.0, "{} ms", report.mean_ms());
    }
}
