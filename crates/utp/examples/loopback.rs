//! What uTP costs on this machine, ours beside libutp's, in one run: rate and processor time over the
//! loopback interface, memory of 10,000 connections, and one connection's cost beside them.
//!
//! usage: cargo run --release -p leeway-utp --example loopback [MEGABYTES [CONNECTIONS]]

use leeway_utp::{Config, Socket, Stream};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;

const ANY: &str = "127.0.0.1:0";

/// Seconds of processor time that this process has used.
fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Resident bytes of this process.
fn resident_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    Ok(kilobytes.unwrap_or(0) * 1024u64)
}

/// Sends so many bytes; Gbit/s, and seconds of processor time a GB of both ends together.
async fn transfer(
    mut from: impl AsyncWrite + Unpin + Send + 'static,
    mut to: impl AsyncRead + Unpin,
    bytes: u64,
) -> io::Result<(f64, f64)> {
    let (began, used_s) = (Instant::now(), processor_s());
    let sending = tokio::spawn(async move {
        let chunk = vec![7; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let count = from.write(&chunk[..chunk.len().min(left as usize)]).await?;
            left -= count as u64;
        }
        Ok::<_, io::Error>(from)
    });
    let mut chunk = vec![0; 1 << 16];
    let mut got = 0;
    while got < bytes {
        match to.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => got += count as u64,
        }
    }
    let (took_s, used_s) = (began.elapsed().as_secs_f64(), processor_s() - used_s);
    drop(sending.await);
    Ok((bytes as f64 * 8e-9 / took_s, used_s / (bytes as f64 * 1e-9)))
}

async fn pair(client: &Socket, server: &Socket, at: SocketAddr) -> io::Result<(Stream, Stream)> {
    let (near, far) = tokio::join!(client.connect(at, Config::default()), server.accept());
    Ok((near?, far))
}

fn sockets() -> io::Result<(Socket, Socket, SocketAddr)> {
    let any = ANY.parse().map_err(io::Error::other)?;
    let (client, server) = (Socket::bind(any)?, Socket::bind(any)?);
    server.listen(Config::default());
    let at = server.local_addr()?;
    Ok((client, server, at))
}

async fn ours(bytes: u64) -> io::Result<(f64, f64)> {
    let (client, server, at) = sockets()?;
    let (near, far) = pair(&client, &server, at).await?;
    transfer(near, far, bytes).await
}

async fn theirs(bytes: u64) -> io::Result<(f64, f64)> {
    let free = async || UdpSocket::bind(ANY).await?.local_addr();
    let (here, there) = (free().await?, free().await?);
    let client = libutp_rs2::UtpUdpContext::new_udp(here).await.map_err(io::Error::other)?;
    let server = libutp_rs2::UtpUdpContext::new_udp(there).await.map_err(io::Error::other)?;
    let (near, far) = tokio::join!(client.connect(there), server.accept());
    transfer(near.map_err(io::Error::other)?, far.map_err(io::Error::other)?, bytes).await
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let number = |word: Option<Result<u64, _>>, otherwise| word.transpose().map(|n| n.unwrap_or(otherwise));
    let megabytes = number(numbers.next(), 500).map_err(io::Error::other)?;
    let connections = number(numbers.next(), 10_000).map_err(io::Error::other)?;
    let bytes = megabytes * 1_000_000;

    println!("uTP over the loopback interface, {megabytes} MB, both ends in one process");
    println!("{:<10} {:>8} {:>22}", "", "Gbit/s", "processor seconds/GB");
    for (name, (rate, cost)) in [("libutp", theirs(bytes).await?), ("leeway", ours(bytes).await?)] {
        println!("{name:<10} {rate:>8.2} {cost:>22.2}");
    }

    let (client, server, at) = sockets()?;
    let before = resident_bytes()?;
    let mut idle = Vec::new();
    for _ in 0..connections {
        idle.push(pair(&client, &server, at).await?);
    }
    let grown = resident_bytes()?.saturating_sub(before);
    let each = grown as f64 / (2 * connections.max(1)) as f64;
    println!(
        "\n{connections} idle connections, both ends: {:.1} MB, {each:.0} B an end",
        grown as f64 * 1e-6
    );
    let (near, far) = pair(&client, &server, at).await?;
    let (rate, cost) = transfer(near, far, bytes).await?;
    println!("one more beside them: {rate:.2} Gbit/s, {cost:.2} processor seconds/GB");
    Ok(())
}
