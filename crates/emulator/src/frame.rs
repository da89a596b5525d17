//! IP packets as a queue sees them.

use leeway_queue::{Ecn, Packet, ip};

/// Differentiated-services code points for less than best effort: LE (RFC 8622) and its
/// predecessor CS1 (RFC 4594, 4.9).
const LESS_THAN_BEST_EFFORT: [u8; 2] = [1, 8];

/// A packet of a TUN device, with its IP header first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Number of the packet in its direction, from 0.
    pub id: u64,
    bytes: u32,
    flow: u32,
    ecn: Ecn,
    class: u8,
    data: Vec<u8>,
}

impl Frame {
    /// The packet in `data`. A packet that is not IP has flow 0 and no ECN.
    pub fn new(id: u64, data: Vec<u8>) -> Self {
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let class = u8::from(LESS_THAN_BEST_EFFORT.contains(&(ip::traffic_class(&data) >> 2)));
        Frame { id, bytes, flow: ip::flow(&data), ecn: ip::ecn(&data), class, data }
    }

    /// A packet without contents, for links, which read only these fields.
    pub(crate) fn described(id: u64, bytes: u32, flow: u32, ecn: Ecn, class: u8) -> Self {
        Frame { id, bytes, flow, ecn, class, data: Vec::new() }
    }

    /// Bytes on the wire.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The buffer, for use by another packet.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.data
    }
}

impl Packet for Frame {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
        ip::set_ce(&mut self.data);
    }

    /// Traffic class: 1 for packets marked as less than best effort, otherwise 0.
    fn class(&self) -> u8 {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet from 10.0.0.1:1000 to 10.0.0.2:`port` with a right header checksum.
    fn udp(tos: u8, port: u16) -> Vec<u8> {
        let mut data = vec![0x45, tos, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum(&data);
        data[10..12].copy_from_slice(&sum.to_be_bytes());
        data.extend_from_slice(&[3, 232]);
        data.extend_from_slice(&port.to_be_bytes());
        data.extend_from_slice(&[0, 8, 0, 0]);
        data
    }

    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let mut total: u32 = words.sum();
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        !(total as u16)
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for tos in [0b01, 0b10, 0b1011_1010, 0xfe, 0xfd] {
            let mut frame = Frame::new(0, udp(tos, 53));
            assert!(frame.ecn().is_capable(), "{tos:#b}");
            frame.set_ce();
            assert_eq!(frame.ecn(), Ecn::Ce);
            assert_eq!(frame.data()[1], tos | 0b11);
            // A header with its own right checksum sums to zero.
            assert_eq!(checksum(&frame.data()[..20]), 0, "{tos:#b}");
        }
    }

    #[test]
    fn a_mark_on_ipv6_touches_only_the_field() {
        let mut data = vec![0x60; 48];
        data[1] = 0x2f; // ECT(0), a flow label that begins with 0xf
        let mut frame = Frame::new(0, data);
        assert_eq!(frame.ecn(), Ecn::Ect0);
        frame.set_ce();
        assert_eq!((frame.data()[0], frame.data()[1], frame.data()[2]), (0x60, 0x3f, 0x60));
    }

    #[test]
    fn flows_go_by_ports_unless_fragmented() {
        let flow = |data: Vec<u8>| Frame::new(0, data).flow();
        assert_eq!(flow(udp(0, 53)), flow(udp(2, 53)));
        assert_ne!(flow(udp(0, 53)), flow(udp(0, 54)));
        let fragment = |port| {
            let mut data = udp(0, port);
            data[6] = 0x20;
            data
        };
        assert_eq!(flow(fragment(53)), flow(fragment(54)));
    }

    #[test]
    fn less_than_best_effort_is_a_class_of_its_own() {
        let class = |dscp: u8| Frame::new(0, udp(dscp << 2, 53)).class();
        assert_eq!([0, 1, 8, 46].map(class), [0, 1, 1, 0]);
    }

    #[test]
    fn anything_is_a_packet() {
        for length in 0..60 {
            for first in [0u8, 0x40, 0x45, 0x4f, 0x60, 0xff] {
                let mut frame = Frame::new(0, vec![first; length]);
                frame.set_ce();
                assert_eq!(frame.bytes() as usize, length);
            }
        }
    }
}
