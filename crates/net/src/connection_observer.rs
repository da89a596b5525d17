//! Sees the packets of this host's own TCP connections: a packet socket that gets their headers, with
//! the times at which the kernel saw them.

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

/// Packets that wait to be read: a millisecond at 10 Gbit/s. Packets beyond it are not seen.
const BUFFER_BYTES: usize = 4 << 20;
/// Connections of which something is known; see [`Connections`].
const CONNECTIONS: usize = 65_536;
/// IP and TCP with all options.
const HEADER_BYTES: usize = 60 + 60;
/// Packets of one report.
const PACKETS: usize = 64;
/// Pause between two reports; nobody needs one earlier.
const PAUSE: Duration = Duration::from_millis(1);
/// A packet that is said to be older has a clock in between that was set.
const OLDEST: Duration = Duration::from_secs(1);

/// What a packet of one of this host's connections did, and when.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Its connection.
    pub ends: Ends,
    /// When the kernel saw it.
    pub at: Instant,
    /// What it did.
    pub seen: Seen,
}

impl Segment {
    /// When the kernel saw it, in microseconds since `start`; `now_us` at the latest, as the clocks of packets and
    /// of programs differ a little.
    pub fn at_us(&self, start: Instant, now_us: u64) -> u64 {
        let at_us = self.at.saturating_duration_since(start).as_micros();
        u64::try_from(at_us).unwrap_or(u64::MAX).min(now_us)
    }
}

/// The observer of this host's connections.
#[derive(Debug)]
pub struct ConnectionObserver(Socket);

impl ConnectionObserver {
    /// Observes the TCP connections that this host begins from now on, except those with machines of
    /// the networks `apart`.
    ///
    /// # Errors
    /// Rights (`CAP_NET_RAW`), or more networks than a filter of 4096 instructions holds, a hundred at
    /// the least.
    pub fn new(apart: &[IpNet]) -> Result<ConnectionObserver, Error> {
        let socket = open(&by_family(apart, of_family), BUFFER_BYTES).and_then(|socket| {
            setsockopt(&socket, ReceiveTimestampns, &true)?;
            Ok(ConnectionObserver(socket))
        });
        socket.map_err(|error| Error::System { what: "observe connections", error })
    }

    /// Calls `seen` with what packets did, in their order and at most a thousand times a second, in a
    /// thread of its own that ends soon after what this returns was dropped.
    ///
    /// # Errors
    /// There can be no more threads.
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

/// Reads packets, many at a time.
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

    /// Adds what the next packets did; how many there were.
    fn read(&mut self, flags: MsgFlags, segments: &mut Vec<Segment>) -> usize {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.bytes.iter_mut().map(|bytes| [IoSliceMut::new(bytes)]).collect();
        let received = recvmmsg(self.socket.as_raw_fd(), &mut self.headers, &mut slices, flags, None);
        // Also where a device has gone: there are others.
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

/// Passes the headers of TCP packets to and from this host whose addresses are not in the networks.
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

/// Goes on where the address at `offset` is in none of the networks, drops the rest.
fn outside(networks: &[IpNet], offset: u32) -> Code {
    join([member(networks, offset), vec![SockFilter::new(op::IF_EQUAL, 1, 0, 0), DROP]])
}
