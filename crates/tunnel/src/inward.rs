//! The destination of packets that came out of a tunnel.

use bytes::Bytes;

/// A destination for packets from a tunnel: a device, or a program that embeds one end.
pub trait Inward: Send + Sync + 'static {
    /// Delivers IP packets in the order of their arrival. Never waits; packets that do not fit are
    /// dropped.
    fn deliver(&self, packets: &[Bytes]);
}
