//! The state of the kernel's programs, read from bytes: the shared window of a cgroup, and its
//! connections.

use crate::shared::{Bytes, address};
use leeway_control::Output;
use std::net::SocketAddr;

/// The state that all connections of a cgroup share.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The window of all connections together, in bytes.
    pub window_bytes: u64,
    /// Bytes received since the beginning.
    pub received_bytes: u64,
    /// Connections that received something in the last two round trips and 40 ms.
    pub active: u32,
    /// Those of them whose sender was limited by the window.
    pub hungry: u32,
    /// Smoothed round-trip time in microseconds, of all connections.
    pub srtt_us: u32,
    /// The smallest one.
    pub min_rtt_us: u32,
    /// Time for which a sender filled its window, in microseconds.
    pub watched_us: u64,
    /// Part of it in seconds with less than half of the best second's rate so far, in microseconds.
    pub held_us: u64,
    /// Mean queuing delay of that time, in microseconds.
    pub mean_queue_us: u64,
    /// The law's decision, and its estimate of the queuing delay. Zeros before the first packet.
    pub output: Output,
}

impl Budget {
    pub(super) fn read(from: &[u8]) -> Option<Budget> {
        let mut bytes = Bytes(from);
        bytes.take(8)?;
        let window_bytes = bytes.u64()?;
        bytes.take(16)?;
        let received_bytes = bytes.u64()?;
        bytes.take(16 + 4)?;
        let [active, active_coming, hungry, hungry_coming] =
            [bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?];
        let (srtt_us, min_rtt_us) = (bytes.u32()?, bytes.u32()?);
        bytes.take(12 + 8)?;
        let (watched_us, queue_us2) = (bytes.u64()?, bytes.u64()?);
        bytes.take(4 * 8)?;
        let held_us = bytes.u64()?;
        bytes.take(4 * 8)?;
        Some(Budget {
            window_bytes,
            received_bytes,
            active: active.max(active_coming),
            hungry: hungry.max(hungry_coming),
            srtt_us,
            min_rtt_us,
            watched_us,
            held_us,
            mean_queue_us: queue_us2.checked_div(watched_us).unwrap_or(0),
            output: bytes.output()?,
        })
    }
}

/// One connection that is held back.
#[derive(Clone, Debug)]
pub struct Received {
    /// This end; the address of the network namespace it lives in.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// The largest segment seen, in bytes.
    pub segment_bytes: u16,
    /// Its share of the window, in bytes.
    pub window_bytes: u32,
    /// Announced bytes that have not arrived; above the share while an earlier announcement is
    /// used up.
    pub announced_bytes: u32,
    /// Queuing delay of the last packet, in microseconds.
    pub queuing_us: u32,
    /// The last round-trip time, in microseconds; 0: none yet.
    pub rtt_us: u32,
    /// Whether the window limits the sender.
    pub hungry: bool,
    /// Whether delays come from TCP timestamps; otherwise they come from round-trip times.
    pub timestamps: bool,
    /// Bytes received in sequence.
    pub received_bytes: u64,
    /// Inode number of the program's socket, as in `/proc/PID/fd`; 0 where the program has closed
    /// it.
    pub inode: u64,
    /// The user who owns the socket.
    pub uid: u32,
}

impl Received {
    /// Bytes of `struct leeway_received`.
    pub(super) const BYTES: usize = 88;

    pub(super) fn read(from: &[u8]) -> Option<Received> {
        let mut bytes = Bytes(from);
        let (local, remote) = (bytes.take(16)?, bytes.take(16)?);
        let family = bytes.u16()?;
        let (local_port, remote_port) = (bytes.u16()?, u16::from_be(bytes.u16()?));
        let segment_bytes = bytes.u16()?;
        let netns = bytes.u32()?;
        let (window_bytes, announced_bytes) = (bytes.u32()?, bytes.u32()?);
        let (queuing_us, rtt_us) = (bytes.u32()?, bytes.u32()?);
        let (hungry, timestamps) = (bytes.u8()? != 0, bytes.u8()? != 0);
        bytes.take(2)?;
        Some(Received {
            local: SocketAddr::new(address(family, local)?, local_port),
            remote: SocketAddr::new(address(family, remote)?, remote_port),
            netns,
            segment_bytes,
            window_bytes,
            announced_bytes,
            queuing_us,
            rtt_us,
            hungry,
            timestamps,
            received_bytes: bytes.u64()?,
            inode: bytes.u64()?,
            uid: bytes.u32()?,
        })
    }
}
