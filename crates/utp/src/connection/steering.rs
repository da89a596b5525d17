//! What a connection tells of itself.

use super::Connection;
use leeway_control::Phase;

/// The state of a connection, for monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steering {
    /// The law's window in bytes of payload.
    pub window_bytes: u64,
    /// Payload bytes sent, and neither acknowledged nor known to be lost.
    pub in_flight_bytes: u64,
    /// Whether there is more to send than the law lets leave. Otherwise the program has nothing more
    /// to send, or the peer's window is full.
    pub limited: bool,
    /// Smoothed round-trip time in microseconds; 0: none yet.
    pub srtt_us: u64,
    /// The law's estimate of the queuing delay in microseconds.
    pub queuing_delay_us: u32,
    /// Queuing delay of the peer's packets in microseconds: that of the last three, above the least of the
    /// last minutes.
    pub peer_queuing_delay_us: u32,
    /// When a packet of the peer last measured a delay; `None`: none has yet.
    pub measured_us: Option<u64>,
    /// The law's phase.
    pub phase: Phase,
    /// Payload bytes of a full packet.
    pub segment_bytes: usize,
    /// Payload bytes sent in all, repetitions included.
    pub sent_bytes: u64,
    /// Payload bytes that were sent again.
    pub resent_bytes: u64,
    /// Packets of the stream that were sent, repetitions included.
    pub sent_packets: u64,
    /// The repetitions among them.
    pub resent_packets: u64,
    /// Those of them that followed an older packet that had timed out.
    pub resent_after_timeout_packets: u64,
    /// Payload bytes received, each counted once.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Those of them whose payload had arrived before.
    pub repeated_packets: u64,
}

impl Connection {
    /// The state of the connection.
    pub fn steering(&self) -> Steering {
        Steering {
            window_bytes: self.congestion.window_bytes(),
            in_flight_bytes: self.outgoing.in_flight_bytes(),
            limited: self.limited,
            srtt_us: self.rtt.smoothed_us(),
            queuing_delay_us: self.congestion.queuing_delay_us(),
            peer_queuing_delay_us: self.peer_delay.queuing_us(),
            measured_us: self.peer_delay.measured_us(),
            phase: self.congestion.phase(),
            segment_bytes: self.mtu.payload_bytes(),
            sent_bytes: self.sent_bytes,
            resent_bytes: self.resent_bytes,
            sent_packets: self.sent_packets,
            resent_packets: self.resent_packets,
            resent_after_timeout_packets: self.resent_after_timeout_packets,
            received_bytes: self.received_bytes,
            received_packets: self.received_packets,
            repeated_packets: self.repeated_packets,
        }
    }
}
