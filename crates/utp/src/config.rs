//! The settings of a connection.

use crate::wire::HEADER_BYTES;
use leeway_control::LawSpec;

/// Settings of a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The control law of the sender. The default is `ledbat` (RFC 6817, target 100 ms), as in
    /// other uTP programs.
    pub law: LawSpec,
    /// Size of the receive buffer in bytes, which is also the largest announced window. 1 MiB, as
    /// in libutp.
    pub receive_bytes: usize,
    /// Size of the send buffer in bytes: written and not yet acknowledged. 1 MiB.
    pub send_bytes: usize,
    /// Bytes of a packet, header included, that every path carries: 548. That is what IPv4 and UDP
    /// leave of the 576 bytes that every host accepts (RFC 791, 3.1). On IPv6 the tokio driver
    /// uses `packet_bytes` instead.
    pub packet_bytes_min: usize,
    /// Bytes of a usual packet: 1,232, what IPv6 and UDP leave of the smallest IPv6 MTU of 1,280.
    /// The first full packet tests whether this size passes; on IPv4 it may be fragmented.
    pub packet_bytes: usize,
    /// Bytes of the largest packet that is tried: 1,472 for IPv4 over Ethernet, 1,452 for IPv6.
    pub packet_bytes_max: usize,
    /// Whether a packet that is not full waits while other packets are in flight (RFC 896).
    pub nagle: bool,
    /// Whether packets are paced even if the law does not ask for pacing. Without pacing, all that
    /// the window allows is sent at once; that is for drivers that cannot wake up in between.
    pub paces: bool,
    /// The longest delay of the acknowledgement of a single packet; 25 ms.
    pub ack_delay_us: u64,
    /// Interval at which an idle connection sends a packet; 29 s, as in libutp. That is just below
    /// the 30 s after which address translators (NAT) forget a connection.
    pub keep_alive_us: u64,
    /// Time after which an attempt to connect fails; 15 s.
    pub connect_us: u64,
    /// Time without progress, with unacknowledged data or a peer's window of zero, after which the
    /// connection ends; 60 s.
    pub stall_us: u64,
    /// Time of silence of the peer after which an idle connection ends; 10 minutes.
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
