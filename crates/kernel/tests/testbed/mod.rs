//! Two hosts with a router between them. Each is a network namespace, and the router has the
//! bottleneck.
// Each test binary uses its part.
#![allow(dead_code)]

pub mod clock;
mod route;

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Whether the live tests can run; prints why not. With LEEWAY_REQUIRE_ALL=1 they have to.
pub fn ready() -> bool {
    let missing = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        "a kernel with BTF"
    } else if !(runs("ip -V") && runs("tc -V") && runs("nft -v")) {
        "ip, tc and nft (apt-get install iproute2 nftables)"
    } else {
        return true;
    };
    assert!(std::env::var("LEEWAY_REQUIRE_ALL").as_deref() != Ok("1"), "this test needs {missing}");
    eprintln!("skipped: this test needs {missing}");
    false
}

/// A name of at most 15 characters that no other process uses.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}{:x}x{number:x}", &what[..what.len().min(5)], std::process::id() & 0xff_ffff)
}

fn runs(command: &str) -> bool {
    Command::new("sh").args(["-c", command]).output().is_ok_and(|output| output.status.success())
}

fn sh(command: &str) {
    let output = Command::new("sh").args(["-ec", command]).output().expect("there is a shell");
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Random events of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chance {
    /// Nothing.
    None,
    /// 3 % of the packets are lost.
    Loss,
    /// 3 % of the packets are marked CE.
    Mark,
    /// 3 % of the packets are marked, and 3 % are lost.
    MarkAndLoss,
    /// 5 % of the packets wait in a queue with a tenth of the rate, so that others overtake them.
    Reorder,
}

impl Chance {
    fn rules(self) -> &'static [&'static str] {
        const LOSE: &str = "numgen random mod 100 < 3 drop";
        const MARK: &str = "ip ecn ect0 numgen random mod 100 < 3 ip ecn set ce";
        match self {
            Chance::None => &[],
            Chance::Loss => &[LOSE],
            Chance::Mark => &[MARK],
            Chance::MarkAndLoss => &[MARK, LOSE],
            Chance::Reorder => &["numgen random mod 100 < 5 meta priority set 1:20"],
        }
    }
}

/// One end of the path.
#[derive(Clone, Copy)]
pub enum End {
    /// The end with the congestion control.
    Sender,
    /// The other end.
    Receiver,
}

/// The namespaces. They are removed when this is dropped.
pub struct Testbed {
    sender: String,
    router: String,
    receiver: String,
}

impl Testbed {
    /// A bottleneck towards the receiver with this rate and this queue, and random events of
    /// packets.
    pub fn new(rate: &str, queue: &str, chance: Chance) -> Testbed {
        let bed = Testbed { sender: unique("lws"), router: unique("lwr"), receiver: unique("lwd") };
        let Testbed { sender: s, router: r, receiver: d } = &bed;
        sh(&format!(
            "for n in {s} {r} {d}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {s} link add name left gso_max_segs 1 type veth peer name left netns {r}
             ip -n {r} link add name right type veth peer name right netns {d}
             ip -n {s} addr add 10.77.1.1/24 dev left; ip -n {r} addr add 10.77.1.2/24 dev left
             ip -n {r} addr add 10.77.2.2/24 dev right; ip -n {d} addr add 10.77.2.1/24 dev right
             ip -n {s} addr add fd77:1::1/64 dev left nodad; ip -n {r} addr add fd77:1::2/64 dev left nodad
             ip -n {r} addr add fd77:2::2/64 dev right nodad; ip -n {d} addr add fd77:2::1/64 dev right nodad
             for n in {s} {r}; do ip -n $n link set left up; done
             for n in {r} {d}; do ip -n $n link set right up; done
             ip -n {s} route add default via 10.77.1.2; ip -n {d} route add default via 10.77.2.2
             ip -n {s} route add default via fd77:1::2; ip -n {d} route add default via fd77:2::2
             for n in {s} {d}; do ip netns exec $n sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_ecn'; done
             ip netns exec {r} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward
                                      echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'"
        ));
        if chance == Chance::Reorder {
            sh(&format!(
                "tc -n {r} qdisc add dev right root handle 1: htb default 10
                 tc -n {r} class add dev right parent 1: classid 1:10 htb rate {rate} quantum 3000
                 tc -n {r} class add dev right parent 1: classid 1:20 htb rate 2mbit quantum 3000
                 tc -n {r} qdisc add dev right parent 1:10 bfifo limit {queue}
                 tc -n {r} qdisc add dev right parent 1:20 bfifo limit {queue}"
            ));
        } else {
            sh(&format!("tc -n {r} qdisc add dev right root tbf rate {rate} burst 5k limit {queue}"));
        }
        for (number, rule) in chance.rules().iter().enumerate() {
            sh(&format!(
                "ip netns exec {r} nft -f - <<END
                 table inet chance{number} {{
                     chain forwarded {{
                         type filter hook forward priority {number};
                         oifname right {rule}
                     }}
                 }}
END"
            ));
        }
        bed
    }

    /// Lets at most one packet in 10 s through the bottleneck. The others wait in its queue.
    pub fn hold(&self, queue: &str) {
        self.change_rate("1kbit", queue);
    }

    /// Gives the bottleneck this rate again.
    pub fn release(&self, rate: &str, queue: &str) {
        self.change_rate(rate, queue);
        // The queue uses its new rate from the next packet on.
        let knock = || UdpSocket::bind("0.0.0.0:0")?.send_to(&[0], "10.77.2.1:9");
        inside(&self.sender, knock).expect("a datagram to the receiver");
    }

    fn change_rate(&self, rate: &str, queue: &str) {
        let router = &self.router;
        sh(&format!("tc -n {router} qdisc change dev right root tbf rate {rate} burst 5k limit {queue}"));
    }

    /// Sets `/proc/sys/NAME` of one end.
    pub fn sysctl(&self, end: End, name: &str, value: &str) {
        let netns = self.netns(end);
        sh(&format!("ip netns exec {netns} sh -c 'echo {value} > /proc/sys/{name}'"));
    }

    /// Enables timestamps in microseconds on the routes of both ends.
    pub fn microseconds(&self) {
        for (end, to, via) in
            [(End::Sender, [10, 77, 2, 0], [10, 77, 1, 2]), (End::Receiver, [10, 77, 1, 0], [10, 77, 2, 2])]
        {
            inside(self.netns(end), || route::with_microseconds(to, 24, via)).expect("a route with features");
        }
    }

    /// Removes the names of the namespaces. What no open socket keeps alive goes with them.
    pub fn delete(&self) {
        for name in [&self.sender, &self.router, &self.receiver] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }

    /// Name of the end's namespace.
    pub fn netns(&self, end: End) -> &str {
        match end {
            End::Sender => &self.sender,
            End::Receiver => &self.receiver,
        }
    }

    /// A connection from the sender to the receiver under the given congestion control.
    pub fn flow(&self, congestion: &str) -> Flow {
        self.try_flow(congestion).unwrap_or_else(|error| panic!("a connection under {congestion}: {error}"))
    }

    /// The same over IPv6.
    pub fn flow6(&self, congestion: &str) -> Flow {
        self.connect("fd77:2::1", congestion)
            .unwrap_or_else(|error| panic!("IPv6 under {congestion}: {error}"))
    }

    /// A connection over IPv4 that may fail.
    pub fn try_flow(&self, congestion: &str) -> io::Result<Flow> {
        self.connect("10.77.2.1", congestion)
    }

    fn connect(&self, address: &str, congestion: &str) -> io::Result<Flow> {
        let address: IpAddr = address.parse().expect("an address");
        let listener = inside(&self.receiver, || TcpListener::bind((address, 0)))?;
        let to = listener.local_addr()?;
        let stream = inside(&self.sender, || {
            let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket(family, SocketType::STREAM, None)?;
            sockopt::set_tcp_congestion(&socket, congestion)?;
            connect(&socket, &to)?;
            Ok(TcpStream::from(socket))
        })?;
        stream.set_write_timeout(Some(Duration::from_millis(50)))?;
        let (peer, _) = listener.accept()?;
        let received = Arc::new(AtomicU64::new(0));
        let (count, mut reader) = (Arc::clone(&received), peer.try_clone()?);
        thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(bytes @ 1..) = reader.read(&mut buffer) {
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        Ok(Flow { stream, peer, received, sent: 0 })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.delete();
    }
}

/// Runs `step` in a namespace, on a thread of its own.
pub fn inside<T: Send>(netns: &str, step: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let file = File::open(format!("/run/netns/{netns}"))?;
    let work = move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        step()
    };
    thread::scope(|scope| scope.spawn(work).join().expect("no panic in a namespace"))
}

/// Congestion control and progress of the connection, for messages of failed tests.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let congestion = sockopt::tcp_congestion(&self.stream);
        write!(f, "{congestion:?} with {} of {} bytes at the receiver", self.acknowledged(), self.sent)
    }
}

/// One connection.
pub struct Flow {
    stream: TcpStream,
    peer: TcpStream,
    received: Arc<AtomicU64>,
    sent: u64,
}

impl Flow {
    /// Sends a little, or waits a little if the socket's buffer is full.
    pub fn send(&mut self) {
        match self.stream.write(&[0; 65536]) {
            Ok(bytes) => self.sent += bytes as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("sending: {error}"),
        }
    }

    /// Bytes that the other end has read.
    pub fn acknowledged(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether the other end has read all that was sent.
    pub fn drained(&self) -> bool {
        self.acknowledged() == self.sent
    }

    /// The addresses of both ends.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.stream.local_addr().expect("connected"), self.stream.peer_addr().expect("connected"))
    }

    /// The socket of one end.
    pub fn socket(&self, end: End) -> &TcpStream {
        match end {
            End::Sender => &self.stream,
            End::Receiver => &self.peer,
        }
    }

    /// Switches the connection to another congestion control.
    pub fn choose(&self, congestion: &str) {
        sockopt::set_tcp_congestion(&self.stream, congestion)
            .unwrap_or_else(|error| panic!("{congestion}: {error}"));
    }

    /// Exchanges a byte in each direction, so that both ends see each other's timestamps.
    pub fn exchange(&mut self) {
        let mut byte = [0];
        self.stream.write_all(&byte).expect("a byte to the receiver");
        self.sent += 1;
        self.peer.write_all(&byte).expect("a byte to the sender");
        self.stream.read_exact(&mut byte).expect("a byte from the receiver");
        while !self.drained() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
