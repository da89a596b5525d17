//! Fields of an IP packet that queues use: flow, ECN field, code point.
//!
//! The functions take any bytes. Bytes that are not IP have flow 0, no ECN and code point 0.

use crate::Ecn;

/// The version in the first header field.
pub fn version(packet: &[u8]) -> u8 {
    packet.first().map_or(0, |first| first >> 4)
}

/// The traffic class (in IPv4 the former type of service): code point and ECN field.
pub fn traffic_class(packet: &[u8]) -> u8 {
    match (version(packet), packet) {
        (4, [_, tos, ..]) => *tos,
        (6, [first, second, ..]) => (first << 4) | (second >> 4),
        _ => 0,
    }
}

/// The ECN field.
pub fn ecn(packet: &[u8]) -> Ecn {
    match traffic_class(packet) & 0b11 {
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        0b11 => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

/// Sets the mark CE (RFC 3168), and updates the header checksum.
pub fn set_ce(packet: &mut [u8]) {
    match version(packet) {
        4 if packet.len() >= 20 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 0b11;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&updated(sum, before, after).to_be_bytes());
        }
        6 if packet.len() >= 40 => packet[1] |= 0b11 << 4,
        _ => {}
    }
}

/// A hash of addresses, protocol and ports. Fragments are hashed without ports, because only the
/// first one has them.
pub fn flow(packet: &[u8]) -> u32 {
    let (addresses, protocol, ports) = match version(packet) {
        4 if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            // Behind a header that is too short there are no ports, but fields that differ between
            // packets.
            let ports = if fragment || header < 20 { None } else { packet.get(header..header + 4) };
            (&packet[12..20], packet[9], ports)
        }
        6 if packet.len() >= 40 => (&packet[8..40], packet[6], packet.get(40..44)),
        _ => return 0,
    };
    let ports = ports.filter(|_| [6, 17, 33, 132].contains(&protocol)).unwrap_or_default();
    // FNV-1a.
    let bytes = addresses.iter().chain(ports).chain(std::iter::once(&protocol));
    bytes.fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The Internet checksum `sum` after a change of one word (RFC 1624, equation 3).
fn updated(sum: u16, before: u16, after: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (total & 0xffff) + (total >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}
