//! Real traffic between hosts of a test network: bulk TCP connections and calls.

use crate::Outcome;
use leeway_emulator::Frame;
use leeway_emulator::testnet::Testnet;
use leeway_queue::Packet;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// UDP payload of 20 ms of G.711: 160 bytes and the RTP header of 12 bytes.
const VOICE_BYTES: usize = 172;
const VOICE_GAP: Duration = Duration::from_millis(20);

/// The host that receives all traffic.
const RECEIVER: &str = "receiver";

/// A connection that sends as much as its window allows.
pub struct Bulk {
    stop: Arc<AtomicBool>,
    stream: TcpStream,
    threads: Vec<JoinHandle<()>>,
    /// The emulator's number of the flow.
    pub flow: u32,
}

impl Bulk {
    /// Connects from a host under a congestion control, and starts to send.
    pub fn start(net: &Testnet, from: &str, congestion: &str) -> Outcome<Bulk> {
        let listener = net.inside(RECEIVER, || TcpListener::bind((address(net, RECEIVER)?, 0)))??;
        let to = v4(listener.local_addr()?)?;
        let stream = net.inside(from, || -> io::Result<TcpStream> {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            sockopt::set_tcp_congestion(&socket, congestion)?;
            connect(&socket, &to)?;
            Ok(TcpStream::from(socket))
        })??;
        let (mut peer, _) = listener.accept()?;
        let flow = flow(TCP, v4(stream.local_addr()?)?, to);
        stream.set_write_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (mut writer, stopped) = (stream.try_clone()?, Arc::clone(&stop));
        let reads = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            while let Ok(1..) = peer.read(&mut buffer) {}
        });
        let writes = std::thread::spawn(move || {
            let block = vec![0; 1 << 17];
            while !stopped.load(Ordering::Relaxed) {
                match writer.write(&block) {
                    Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        break;
                    }
                    _ => {}
                }
            }
        });
        Ok(Bulk { stop, stream, threads: vec![writes, reads], flow })
    }

    /// Ends the connection at once; unsent data are dropped.
    pub fn stop(self) -> Outcome<()> {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
        self.stop.store(true, Ordering::Relaxed);
        let mut threads = self.threads.into_iter();
        let died = |_| "a thread has died";
        threads.next().map_or(Ok(()), JoinHandle::join).map_err(died)?;
        drop(self.stream);
        threads.next().map_or(Ok(()), JoinHandle::join).map_err(died)?;
        Ok(())
    }
}

/// The packets of one direction of a call.
#[derive(Debug, Default)]
pub struct Heard {
    /// One-way delay of each packet that arrived.
    pub delays_s: Vec<f64>,
    /// Packets sent.
    pub sent: usize,
}

/// Sends one direction of a call for `span`. Counts packets that were sent after `settle`.
pub fn call(net: &Testnet, from: &str, span: Duration, settle: Duration) -> Outcome<(Heard, u32)> {
    let receiver = net.inside(RECEIVER, || UdpSocket::bind((address(net, RECEIVER)?, 0)))??;
    let to = v4(receiver.local_addr()?)?;
    let sender = net.inside(from, || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((address(net, from)?, 0))?;
        socket.connect(to)?;
        Ok(socket)
    })??;
    let flow = flow(UDP, v4(sender.local_addr()?)?, to);
    // Both ends read the same clock.
    let start = Instant::now();
    receiver.set_read_timeout(Some(Duration::from_secs(3)))?;
    let listening = std::thread::spawn(move || {
        let (mut delays, mut buffer) = (Vec::new(), [0; VOICE_BYTES]);
        while let Ok(length) = receiver.recv(&mut buffer) {
            let now = start.elapsed();
            let Some(sent) = buffer[..length].first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
                break;
            };
            let sent = Duration::from_nanos(sent);
            if sent >= settle {
                delays.push((now.saturating_sub(sent)).as_secs_f64());
            }
        }
        delays
    });
    let mut payload = [0; VOICE_BYTES];
    let mut sent = 0;
    for due in (0..).map(|i| VOICE_GAP * i).take_while(|&due| due < span) {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let now = start.elapsed();
        payload[..8].copy_from_slice(&(now.as_nanos() as u64).to_le_bytes());
        sender.send(&payload)?;
        sent += usize::from(now >= settle);
    }
    let delays_s = listening.join().map_err(|_| "a thread has died")?;
    Ok((Heard { delays_s, sent }, flow))
}

fn address(net: &Testnet, host: &str) -> io::Result<IpAddr> {
    let addresses = net.addresses(host).map_err(io::Error::other)?;
    addresses.first().copied().ok_or_else(|| io::Error::other("a host without a link"))
}

fn v4(address: std::net::SocketAddr) -> io::Result<SocketAddrV4> {
    match address {
        std::net::SocketAddr::V4(address) => Ok(address),
        std::net::SocketAddr::V6(_) => Err(io::Error::other("an IPv6 address where IPv4 was asked for")),
    }
}

/// The emulator's number of a flow.
fn flow(protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> u32 {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend([0; 4]);
    Frame::new(0, packet).flow()
}
