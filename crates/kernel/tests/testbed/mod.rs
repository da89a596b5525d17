//! Two hosts and a router between them, each a network namespace; the router has the bottleneck.

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Whether the live tests can run; says why not. Under LEEWAY_REQUIRE_ALL=1 they have to.
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

/// A name that no other process uses, of at most 15 characters.
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

/// What happens to packets at random.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// Nothing.
    None,
    /// Three percent are lost.
    Loss,
    /// Three percent are marked congestion-experienced.
    Mark,
}

impl Chance {
    fn rule(self) -> Option<&'static str> {
        match self {
            Chance::None => None,
            Chance::Loss => Some("numgen random mod 100 < 3 drop"),
            Chance::Mark => Some("ip ecn ect0 numgen random mod 100 < 3 ip ecn set ce"),
        }
    }
}

/// The namespaces; dropping it removes them.
pub struct Testbed {
    sender: String,
    router: String,
    receiver: String,
}

impl Testbed {
    /// A bottleneck of that rate and queue towards the receiver, where chance does something to packets.
    pub fn new(rate: &str, queue: &str, chance: Chance) -> Testbed {
        let bed = Testbed { sender: unique("lws"), router: unique("lwr"), receiver: unique("lwd") };
        let Testbed { sender: s, router: r, receiver: d } = &bed;
        sh(&format!(
            "for n in {s} {r} {d}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {s} link add name left gso_max_segs 1 type veth peer name left netns {r}
             ip -n {r} link add name right type veth peer name right netns {d}
             ip -n {s} addr add 10.77.1.1/24 dev left; ip -n {r} addr add 10.77.1.2/24 dev left
             ip -n {r} addr add 10.77.2.2/24 dev right; ip -n {d} addr add 10.77.2.1/24 dev right
             for n in {s} {r}; do ip -n $n link set left up; done
             for n in {r} {d}; do ip -n $n link set right up; done
             ip -n {s} route add default via 10.77.1.2; ip -n {d} route add default via 10.77.2.2
             for n in {s} {d}; do ip netns exec $n sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_ecn'; done
             ip netns exec {r} sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
             tc -n {r} qdisc add dev right root tbf rate {rate} burst 5k limit {queue}"
        ));
        if let Some(rule) = chance.rule() {
            sh(&format!(
                "ip netns exec {r} nft -f - <<END
                 table ip loss {{
                     chain forwarded {{
                         type filter hook forward priority 0;
                         oifname right {rule}
                     }}
                 }}
END"
            ));
        }
        bed
    }

    /// A connection from the sender to the receiver under that congestion control.
    pub fn flow(&self, congestion: &str) -> Flow {
        self.try_flow(congestion).unwrap_or_else(|error| panic!("a connection under {congestion}: {error}"))
    }

    /// The same, where it may fail.
    pub fn try_flow(&self, congestion: &str) -> io::Result<Flow> {
        let listener = inside(&self.receiver, || TcpListener::bind("10.77.2.1:0"))?;
        let to = listener.local_addr()?;
        let SocketAddr::V4(to) = to else { unreachable!("bound to an IPv4 address") };
        let stream = inside(&self.sender, || {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            sockopt::set_tcp_congestion(&socket, congestion)?;
            connect(&socket, &SocketAddrV4::new(Ipv4Addr::from(to.ip().octets()), to.port()))?;
            Ok(TcpStream::from(socket))
        })?;
        stream.set_write_timeout(Some(Duration::from_millis(50)))?;
        let (mut peer, _) = listener.accept()?;
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(bytes @ 1..) = peer.read(&mut buffer) {
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        Ok(Flow { stream, received })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for name in [&self.sender, &self.router, &self.receiver] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Runs a step in a namespace, on a thread of its own.
fn inside<T: Send>(netns: &str, step: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let file = File::open(format!("/run/netns/{netns}"))?;
    let work = move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        step()
    };
    thread::scope(|scope| scope.spawn(work).join().expect("no panic in a namespace"))
}

/// One connection.
pub struct Flow {
    stream: TcpStream,
    received: Arc<AtomicU64>,
}

impl Flow {
    /// Sends a little, or waits a little where there is no room.
    pub fn send(&mut self) {
        match self.stream.write(&[0; 65536]) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("sending: {error}"),
        }
    }

    /// Bytes that the other end has read.
    pub fn acknowledged(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Both addresses.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.stream.local_addr().expect("connected"), self.stream.peer_addr().expect("connected"))
    }
}
