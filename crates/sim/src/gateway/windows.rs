//! Grants at work: a receive window that is announced to a server, or segments that a sender at
//! the node may send.

use crate::engine::Engine;
use crate::packet::{Fields, Kind, Packet};

/// The part of [`Engine`] that passes grants on to senders.
impl Engine {
    /// A receive window has arrived at the sender of a flow.
    pub(crate) fn window_arrives(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow() as usize];
        flow.sender.edge = flow.sender.edge.max(packet.value());
        if let Some(at_gateway) = &mut flow.at_gateway {
            let back_us = u32::try_from((self.world.now - packet.sent).micros()).unwrap_or(u32::MAX);
            at_gateway.back_us = Some(at_gateway.back_us.map_or(back_us, |known_us| known_us.min(back_us)));
        }
        self.pump(packet.flow());
    }

    /// Grants `bytes` more to the sender of flow `index`, which is at the node or at its relay.
    /// Returns the bytes of the segments that the sender may send for that.
    pub(super) fn granted(&mut self, index: u32, bytes: u64) -> u64 {
        let flow = &mut self.flows[index as usize];
        let mss = u64::from(self.groups[flow.group as usize].profile.mss);
        let Some(at_gateway) = &mut flow.at_gateway else { return 0 };
        let segments = u32::try_from(bytes / mss).unwrap_or(u32::MAX).max(1);
        at_gateway.edge = at_gateway.edge.max(flow.sender.next_seq()).saturating_add(segments);
        flow.sender.edge = at_gateway.edge;
        self.pump(index);
        u64::from(segments) * mss
    }

    /// Announces its receive window to the server of flow `index`, in a packet of its own.
    pub(super) fn tell_window(&mut self, index: u32) {
        let flow = &self.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        let window = Fields {
            sent: self.world.now,
            step: flow.reverse,
            value: flow.at_gateway.as_ref().map_or(0, |at_gateway| at_gateway.edge),
            size: profile.header,
            kind: Kind::Window,
            class: profile.class,
            bits: Packet::bits(flow.epoch, false),
            ..Fields::blank(index)
        };
        self.world.send(window.pack());
    }
}
