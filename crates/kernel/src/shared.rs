//! The structs of `bpf/glue.h`, read from and written to bytes.

use leeway_control::{Ack, Loss, Output, Path, Rate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const PARAMS_MAX: usize = 64;
pub(crate) const SPEC_MAX: usize = 512;
const PARAMS_AT: usize = 16;
const SPEC_AT: usize = PARAMS_AT + 4 * PARAMS_MAX;
/// Bytes of `struct leeway_config`.
pub(crate) const CONFIG_BYTES: usize = SPEC_AT + SPEC_MAX;

/// `struct leeway_config`.
pub(crate) struct Config {
    pub loaded_unix_s: u64,
    pub timestamps_off: bool,
    pub record: bool,
    pub params: Vec<u32>,
    pub spec: String,
}

impl Config {
    /// Writes the configuration where the kernel's programs read it; `spec` and `params` have been
    /// checked.
    pub fn write(&self, to: &mut [u8]) {
        to.fill(0);
        to[..8].copy_from_slice(&self.loaded_unix_s.to_ne_bytes());
        to[8..12].copy_from_slice(&u32::from(self.timestamps_off).to_ne_bytes());
        to[12..16].copy_from_slice(&u32::from(self.record).to_ne_bytes());
        for (word, at) in self.params.iter().zip(to[PARAMS_AT..].as_chunks_mut::<4>().0) {
            *at = word.to_ne_bytes();
        }
        to[SPEC_AT..][..self.spec.len()].copy_from_slice(self.spec.as_bytes());
    }

    pub fn read(from: &[u8]) -> Option<Config> {
        let mut bytes = Bytes(from);
        let loaded_unix_s = bytes.u64()?;
        let (timestamps, record) = (bytes.u32()?, bytes.u32()?);
        let params = (0..PARAMS_MAX).map(|_| bytes.u32()).collect::<Option<_>>()?;
        let spec = bytes.take(SPEC_MAX)?.split(|&byte| byte == 0).next()?;
        let spec = std::str::from_utf8(spec).ok()?.to_owned();
        Some(Config { loaded_unix_s, timestamps_off: timestamps == 1, record: record != 0, params, spec })
    }
}

/// One socket under a law.
#[derive(Clone, Debug)]
pub struct Socket {
    /// The law's decision.
    pub output: Output,
    /// This end; the address of the network namespace it lives in.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Segment size.
    pub mss_bytes: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Packets in flight.
    pub inflight: u32,
    /// Bytes acknowledged since the connection began.
    pub acked_bytes: u64,
    /// Inode number of the program's socket, as in `/proc/PID/fd`; 0 where the program has closed
    /// it.
    pub inode: u64,
    /// The user who owns the socket.
    pub uid: u32,
    /// Whether the program has more to send than the law allows.
    pub busy: bool,
}

impl Socket {
    /// Bytes of `struct leeway_socket`.
    pub(crate) const BYTES: usize = 128;

    pub(crate) fn read(from: &[u8]) -> Option<Socket> {
        let mut bytes = Bytes(from);
        let output = bytes.output()?;
        let (local, remote) = (bytes.take(16)?, bytes.take(16)?);
        let family = bytes.u16()?;
        let (local_port, remote_port) = (bytes.u16()?, u16::from_be(bytes.u16()?));
        bytes.u16()?;
        Some(Socket {
            output,
            local: SocketAddr::new(address(family, local)?, local_port),
            remote: SocketAddr::new(address(family, remote)?, remote_port),
            netns: bytes.u32()?,
            mss_bytes: bytes.u32()?,
            srtt_us: bytes.u32()?,
            inflight: bytes.u32()?,
            acked_bytes: bytes.u64()?,
            inode: bytes.u64()?,
            uid: bytes.u32()?,
            busy: bytes.u32()? != 0,
        })
    }
}

pub(crate) fn address(family: u16, bytes: &[u8]) -> Option<IpAddr> {
    if family == 2 {
        return Some(Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[..4]).ok()?).into());
    }
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical())
}

/// One event of a law in the kernel, and the law's state after it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Identifies the socket during its life.
    pub socket: u64,
    /// Number of the event within its socket, from 1.
    pub number: u32,
    /// What happened.
    pub event: Event,
    /// The path as the law saw it.
    pub path: Path,
    /// The law's state after the event; bytes behind the state have no meaning.
    pub state: Vec<u8>,
}

/// What a law was told.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection begins, or comes under this law.
    Init,
    /// `on_ack`.
    Ack(Ack),
    /// `on_loss`.
    Loss(Loss),
    /// A loss was spurious: window and threshold were set to those of the output.
    Undo,
}

impl Record {
    pub(crate) fn read(from: &[u8]) -> Option<Record> {
        let mut bytes = Bytes(from);
        let socket = bytes.u64()?;
        let (number, kind) = (bytes.u32()?, bytes.u32()?);
        let path = Path {
            inflight_bytes: bytes.u64()?,
            mss_bytes: bytes.u32()?,
            initial_window_bytes: bytes.u32()?,
            srtt_us: bytes.u32()?,
            min_rtt_us: bytes.u32()?,
        };
        let mut event = Bytes(bytes.take(size_of::<Ack>())?);
        let event = match kind {
            0 => Event::Init,
            1 => Event::Ack(event.ack()?),
            2 => Event::Loss(event.loss()?),
            _ => Event::Undo,
        };
        Some(Record { socket, number, event, path, state: bytes.0.to_vec() })
    }
}

/// Bytes in the machine's order, taken from the front.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    pub fn output(&mut self) -> Option<Output> {
        Some(Output {
            cwnd_q16: self.u64()?,
            ssthresh_bytes: self.u64()?,
            pacing_bytes_per_s: self.u64()?,
            queuing_delay_us: self.u32()?,
            phase: self.u32()?,
            probe_us: self.u64()?,
            quantum: self.u32()?,
            reserved: self.u32()?,
        })
    }

    fn ack(&mut self) -> Option<Ack> {
        Some(Ack {
            now_us: self.u64()?,
            acked_bytes: self.u64()?,
            prior_inflight_bytes: self.u64()?,
            ce_bytes: self.u64()?,
            rtt_us: self.u32()?,
            owd_us: self.u32()?,
            owd_resolution_us: self.u32()?,
            app_limited: self.u8()?,
            round_start: self.u8()?,
            recovering: self.u8()?,
            last_kind: self.u8()?,
            last_rtt_us: self.u32()?,
            reserved: self.u32()?,
            rate: Rate {
                delivered_bytes: self.u64()?,
                prior_delivered_bytes: self.u64()?,
                lost_bytes: self.u64()?,
                prior_lost_bytes: self.u64()?,
                inflight_bytes: self.u64()?,
                interval_us: self.u32()?,
                app_limited: self.u32()?,
            },
        })
    }

    fn loss(&mut self) -> Option<Loss> {
        Some(Loss {
            now_us: self.u64()?,
            lost_bytes: self.u64()?,
            sent_us: self.u64()?,
            kind: self.u32()?,
            timeouts: self.u32()?,
        })
    }
}
