//! The connection observer: a packet socket that receives the headers of this host's own TCP
//! connections, with the time at which the kernel saw each packet.

use crate::Error;
use crate::connections::{Connections, Direction, Ends, Seen};
use crate::filter::{
    Code, DROP, Header, INCOMING, OUTGOING, TCP, by_family, join, member, op, open, plain, when,
};
use crate::traffic_observer::Watch;
use ipnet::IpNet;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, recvmmsg, setsockopt};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use socket2::{SockFilter, Socket};
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Bytes of packets that may wait to be read, enough for 1 ms at 10 Gbit/s. Packets beyond it are
/// not seen.
const BUFFER_BYTES: usize = 4 << 20;
/// Connections that are remembered; see [`Connections`] for the bound.
const CONNECTIONS: usize = 65_536;
/// Largest headers of IP and TCP, with all options.
const HEADER_BYTES: usize = 60 + 60;
/// Most packets of one `recvmmsg`. A report has the packets of one or more of these calls.
const PACKETS: usize = 64;
/// Pause between two reports. No reader needs a report earlier.
const PAUSE: Duration = Duration::from_millis(1);
/// A packet of this age or older has a wrong timestamp, because the clock was set after it
/// arrived. The time of reading counts instead.
const OLDEST: Duration = Duration::from_secs(1);

/// What a packet of one of this host's connections did, and when.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// The connection.
    pub ends: Ends,
    /// Time at which the kernel saw the packet.
    pub at: Instant,
    /// What the packet did.
    pub seen: Seen,
}

impl Segment {
    /// Time at which the kernel saw the packet, in microseconds since `start`. At most `now_us`,
    /// because the clock of packets differs a little from that of programs.
    pub fn at_us(&self, start: Instant, now_us: u64) -> u64 {
        let at_us = self.at.saturating_duration_since(start).as_micros();
        u64::try_from(at_us).unwrap_or(u64::MAX).min(now_us)
    }
}

/// The observer of this host's connections; see the module.
#[derive(Debug)]
pub struct ConnectionObserver(Socket);

impl ConnectionObserver {
    /// Observes the TCP connections that this host opens from now on. Connections with addresses
    /// in the networks `apart` are not observed.
    ///
    /// # Errors
    /// The right `CAP_NET_RAW` is missing, or the networks need more than the 4096 instructions of
    /// a filter. A hundred networks always fit.
    pub fn new(apart: &[IpNet]) -> Result<ConnectionObserver, Error> {
        let socket = open(&by_family(apart, of_family), BUFFER_BYTES).and_then(|socket| {
            setsockopt(&socket, ReceiveTimestampns, &true)?;
            Ok(ConnectionObserver(socket))
        });
        socket.map_err(|error| Error::System { what: "observe connections", error })
    }

    /// Calls `seen` with what packets did, in their order, at most a thousand times a second. The
    /// calls come from a thread that ends soon after the returned [`Watch`] is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn watch(self, seen: impl Fn(&[Segment]) + Send + 'static) -> Result<Watch, Error> {
        Watch::begin("connections", move |alive| {
            let mut reader = Reader::new(self.0);
            let mut segments = Vec::new();
            while alive() {
                if reader.read(MsgFlags::MSG_WAITFORONE, &mut segments) == PACKETS {
                    while reader.read(MsgFlags::MSG_DONTWAIT, &mut segments) == PACKETS {}
                }
                if !segments.is_empty() {
                    seen(&segments);
                    segments.clear();
                }
                std::thread::sleep(PAUSE);
            }
        })
    }
}

/// Reads many packets with one system call.
struct Reader {
    socket: Socket,
    connections: Connections,
    headers: MultiHeaders<LinkAddr>,
    bytes: Vec<[u8; HEADER_BYTES]>,
}

impl Reader {
    fn new(socket: Socket) -> Reader {
        Reader {
            socket,
            connections: Connections::new(CONNECTIONS),
            headers: MultiHeaders::preallocate(PACKETS, Some(nix::cmsg_space!(TimeSpec))),
            bytes: vec![[0; HEADER_BYTES]; PACKETS],
        }
    }

    /// Adds what the next packets did, and returns the number of packets.
    fn read(&mut self, flags: MsgFlags, segments: &mut Vec<Segment>) -> usize {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.bytes.iter_mut().map(|bytes| [IoSliceMut::new(bytes)]).collect();
        let received = recvmmsg(self.socket.as_raw_fd(), &mut self.headers, &mut slices, flags, None);
        // A device that is gone gives an error as well. The others go on.
        let Ok(received) = received else { return 0 };
        let (now, clock) = (Instant::now(), clock_gettime(ClockId::CLOCK_REALTIME).ok());
        let mut count = 0;
        for packet in received {
            count += 1;
            let direction = match packet.address.map(|address| u32::from(address.pkttype())) {
                Some(INCOMING) => Direction::In,
                Some(OUTGOING) => Direction::Out,
                _ => continue,
            };
            let stamp = packet.cmsgs().ok().and_then(|mut all| {
                all.find_map(|one| match one {
                    ControlMessageOwned::ScmTimestampns(at) => Some(at),
                    _ => None,
                })
            });
            let age = clock.zip(stamp).map_or(0, |(now, stamp)| (now - stamp).num_nanoseconds());
            let age = Duration::from_nanos(u64::try_from(age).unwrap_or(0));
            let at = now.checked_sub(age).filter(|_| age < OLDEST).unwrap_or(now);
            let length = packet.bytes.min(HEADER_BYTES);
            let header = packet.iovs().next().map_or(&[][..], |bytes| &bytes[..length.min(bytes.len())]);
            if let Some((ends, seen)) = self.connections.see(direction, header) {
                segments.extend(seen.into_iter().flatten().map(|seen| Segment { ends, at, seen }));
            }
        }
        count
    }
}

/// Passes the headers of TCP packets to and from this host, unless an address of them is in
/// `apart`.
fn of_family(header: &Header, apart: &[IpNet]) -> Code {
    let rest = || {
        join([
            vec![plain(op::LOAD_BYTE, header.protocol), SockFilter::new(op::IF_EQUAL, 1, 0, TCP), DROP],
            outside(apart, header.source),
            outside(apart, header.destination),
            vec![plain(op::RETURN, HEADER_BYTES as u32)],
        ])
    };
    join([
        vec![plain(op::LOAD_WORD, op::DIRECTION)],
        when(op::IF_EQUAL, INCOMING, rest()),
        when(op::IF_EQUAL, OUTGOING, rest()),
        vec![DROP],
    ])
}

/// Continues if the address at `offset` is in none of the networks, and otherwise drops the
/// packet.
fn outside(networks: &[IpNet], offset: u32) -> Code {
    join([member(networks, offset), vec![SockFilter::new(op::IF_EQUAL, 1, 0, 0), DROP]])
}
