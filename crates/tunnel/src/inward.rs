//! The destination of packets that came out of a tunnel.

use bytes::Bytes;

/// Takes packets that came out of a tunnel: a device, or a program that embeds one end.
pub trait Inward: Send + Sync + 'static {
    /// IP packets, in the order of their arrival. What cannot be taken is dropped: this does not wait.
    fn deliver(&self, packets: &[Bytes]);
}
