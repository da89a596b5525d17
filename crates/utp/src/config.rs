//! What a connection is told when it is made.

use crate::wire::HEADER_BYTES;
use leeway_control::LawSpec;

/// Settings of a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The control law of what is sent; `ledbat` (RFC 6817, 100 ms), as other uTP programs have it.
    pub law: LawSpec,
    /// Bytes that may wait to be read: the window that is announced at most. 1 MiB, as in libutp.
    pub receive_bytes: usize,
    /// Bytes that may be written ahead of what is acknowledged. 1 MiB.
    pub send_bytes: usize,
    /// Bytes of a packet, header included, that every path carries: 548, what IPv4 leaves of the 576
    /// bytes that each host takes (RFC 791, 3.1). The tokio driver has `packet_bytes` on IPv6 instead.
    pub packet_bytes_min: usize,
    /// Bytes of a packet that are usual: 1,232, what is left of IPv6's smallest MTU. The first full packet
    /// tries whether they pass; it may be fragmented on IPv4.
    pub packet_bytes: usize,
    /// Bytes of a packet that are tried at most: 1,472 for IPv4 over Ethernet, 1,452 for IPv6.
    pub packet_bytes_max: usize,
    /// Whether a packet that is not full waits while others are in flight (RFC 896).
    pub nagle: bool,
    /// Whether packets are paced where the law does not ask for it. Without, what the window lets go
    /// leaves at once; for drivers that cannot wake up in between.
    pub paces: bool,
    /// How long the acknowledgement of a single packet may wait; 25 ms.
    pub ack_delay_us: u64,
    /// A connection that sends nothing says that it is there this often; 29 s, as libutp does, before
    /// the 30 s after which address translators forget.
    pub keep_alive_us: u64,
    /// How long a connection may be tried; 15 s.
    pub connect_us: u64,
    /// How long unacknowledged data, or a window of zero, may wait for a sign of progress; 60 s.
    pub stall_us: u64,
    /// How long a peer may be silent although nothing waits; 10 minutes.
    pub idle_us: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            law: LawSpec::new("ledbat").expect("ledbat is a law"),
            receive_bytes: 1 << 20,
            send_bytes: 1 << 20,
            packet_bytes_min: 548,
            packet_bytes: 1232,
            packet_bytes_max: 1472,
            nagle: true,
            paces: true,
            ack_delay_us: 25_000,
            keep_alive_us: 29_000_000,
            connect_us: 15_000_000,
            stall_us: 60_000_000,
            idle_us: 600_000_000,
        }
    }
}

impl Config {
    /// Payload bytes of a packet on any path, at least one.
    pub(crate) fn payload_bytes_min(&self) -> usize {
        self.packet_bytes_min.saturating_sub(HEADER_BYTES).clamp(1, self.payload_bytes())
    }

    /// Payload bytes of a packet on a usual path.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.packet_bytes.saturating_sub(HEADER_BYTES).clamp(1, 65_000)
    }

    /// Payload bytes of the largest packet that is tried.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.packet_bytes_max.saturating_sub(HEADER_BYTES).clamp(self.payload_bytes(), 65_000)
    }
}
