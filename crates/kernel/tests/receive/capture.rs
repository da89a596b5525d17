//! Captures the windows that the receiver's TCP announces, with a packet socket in its namespace.

use crate::testbed::{End, Testbed, inside};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket, sockopt};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

/// ETH_P_ALL in network byte order.
const ALL: u32 = 0x0003_u16.to_be() as u32;

/// The announced windows of connections, by their local port.
pub struct Capture {
    socket: OwnedFd,
    pub edges: BTreeMap<u16, Edge>,
}

/// What one connection has announced.
#[derive(Debug, Default)]
pub struct Edge {
    scale: u8,
    /// Right edge of the last window: acknowledgement plus window. `None` before the handshake has
    /// ended.
    pub right: Option<u32>,
    /// Largest distance by which the right edge ever moved back.
    pub most_retreat_bytes: u32,
    pub announcements: usize,
    /// Window in the SYN.
    pub first_window: u32,
    pub least_window: u32,
}

impl Capture {
    pub fn new(bed: &Testbed) -> Capture {
        let protocol = Protocol::from_raw(NonZeroU32::new(ALL).expect("not zero"));
        let socket = inside(bed.netns(End::Receiver), || {
            Ok(socket(AddressFamily::PACKET, SocketType::RAW, Some(protocol))?)
        })
        .expect("a packet socket");
        sockopt::set_socket_recv_buffer_size(&socket, 1 << 24).expect("room for packets");
        Capture { socket, edges: BTreeMap::new() }
    }

    /// Reads all packets that have arrived.
    pub fn read(&mut self) {
        let mut frame = [0; 2048];
        while let Ok((length, _)) = recv(&self.socket, &mut frame, RecvFlags::DONTWAIT) {
            self.see(&frame[..length.min(frame.len())]);
        }
    }

    /// Evaluates an Ethernet frame with IPv4 and TCP that this end has sent.
    fn see(&mut self, frame: &[u8]) {
        let Some(ip) = frame.get(14..34).filter(|_| frame[12..14] == [8, 0]) else { return };
        if ip[9] != 6 || ip[12..16] != [10, 77, 2, 1] {
            return;
        }
        let Some(tcp) = frame.get(14 + usize::from(ip[0] & 15) * 4..).filter(|tcp| tcp.len() >= 20) else {
            return;
        };
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().expect("four bytes"));
        let port = u16::from_be_bytes([tcp[0], tcp[1]]);
        let window = u32::from(u16::from_be_bytes([tcp[14], tcp[15]]));
        let (syn, reset) = (tcp[13] & 2 != 0, tcp[13] & 4 != 0);
        if syn {
            let header = &tcp[20..(usize::from(tcp[12] >> 4) * 4).min(tcp.len())];
            let scale = header.windows(3).find(|option| option[..2] == [3, 3]).map_or(0, |option| option[2]);
            let fresh = Edge { scale, first_window: window, least_window: u32::MAX, ..Edge::default() };
            self.edges.insert(port, fresh);
        } else if let Some(edge) = self.edges.get_mut(&port).filter(|_| !reset) {
            let window = window << edge.scale;
            let right = word(8).wrapping_add(window);
            if let Some(before) = edge.right {
                let back = before.wrapping_sub(right);
                if back < 1 << 31 {
                    edge.most_retreat_bytes = edge.most_retreat_bytes.max(back);
                }
            }
            edge.right = Some(right);
            edge.least_window = edge.least_window.min(window);
            edge.announcements += 1;
        }
    }
}
