//! Requests of downloads, which leave the gateway's node by the uplink.
//!
//! The uplink is told of the home's requests and uploads when their bytes leave. If the uplink has
//! a queue, a neighbour's request waits for a grant of the uplink, after the downlink has granted
//! its answer. The first packet of the answer acknowledges the request.

use super::{Gateway, GatewayFlow, milliseconds};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::scenario::{self, Part};
use leeway_share::{Acknowledged, FlowId, Observation, UserId};
use leeway_units::Bytes;

/// State of a flow's requests at the uplink.
#[derive(Debug)]
pub struct Asking {
    id: FlowId,
    /// Bytes of the answer, while the request waits for a grant.
    waits: Option<u32>,
    /// Bytes of the request that are not sent yet.
    missing: u64,
    /// Number of the last request that has left.
    turn: u32,
    /// Bytes of requests that have left, and of those that are known to have arrived.
    sent: u64,
    arrived: u64,
    /// Requests that were repeated.
    repeated: u32,
}

impl Asking {
    /// Opens a flow of `user` at the uplink of `gateway`. `None`: the uplink has no room for
    /// another flow.
    pub fn open(gateway: &mut Gateway, user: UserId, index: u32, path: u32) -> Option<Asking> {
        let id = gateway.up.open(user, Some(path.into())).ok()?;
        gateway.owners[1].insert(id, index);
        Some(Asking { id, waits: None, missing: 0, turn: 0, sent: 0, arrived: 0, repeated: 0 })
    }

    /// Whether a request waits for a grant.
    pub fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// Whether the request of number `turn` has left.
    pub fn has_left(&self, turn: u32) -> bool {
        self.turn == turn
    }

    /// What a kernel knows of the requests.
    fn acknowledged(&self) -> Acknowledged {
        Acknowledged { bytes: self.arrived, retransmissions: self.repeated }
    }

    /// The connection has ended: gives up its request and grants.
    pub fn close(self, gateway: &mut Gateway) {
        gateway.up.close(self.id);
        gateway.owners[1].remove(&self.id);
    }
}

impl GatewayFlow {
    /// State of the flow's requests; absent if they need no grant.
    fn asking(&mut self) -> Option<&mut Asking> {
        self.asking.as_mut()
    }
}

/// The part of [`Engine`] that sends requests of downloads.
impl Engine {
    /// The downlink has room for the answer of `size` bytes to flow `index`. Asks the uplink for a
    /// grant for the request, or sends the request if it needs none.
    pub(super) fn gateway_asks(&mut self, index: u32, size: u32) {
        let bytes = self.request_bytes(index);
        match self.flows[index as usize].at_gateway.as_mut().and_then(GatewayFlow::asking) {
            Some(asking) => {
                (asking.waits, asking.missing) = (Some(size), bytes);
                self.request_granted(index);
            }
            None => self.sends_request(index, size),
        }
    }

    /// Sends what the uplink has granted of the request of flow `index`, and asks for the rest.
    pub(super) fn request_granted(&mut self, index: u32) {
        let Some((gateway, _)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let turn = flow.app.turn;
        let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) else { return };
        let Some(size) = asking.waits else { return };
        let up = &mut self.gateways[gateway].up;
        up.ask(asking.id, asking.missing);
        let Some(granted) = up.ready(asking.id, asking.missing) else { return };
        let bytes = granted.min(asking.missing);
        up.sent(now_us, asking.id, bytes);
        asking.missing -= bytes;
        asking.sent += bytes;
        if asking.missing > 0 {
            return self.request_granted(index);
        }
        (asking.waits, asking.turn) = (None, turn);
        self.sends_request(index, size);
    }

    /// The present request of flow `index` leaves again, as TCP retransmits without a grant.
    pub(super) fn request_again(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        if let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) {
            asking.repeated += 1;
            self.gateways[gateway].up.told(now_us, asking.id, asking.acknowledged());
        }
        self.request_is_seen(index);
    }

    /// An answer has come to flow `index`, so all its requests have arrived. If the gateway may
    /// see packets, `packet` tells the delay of the way back.
    pub(super) fn request_answered(&mut self, gateway: usize, index: u32, packet: Option<&Packet>) {
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) else { return };
        asking.arrived = asking.sent;
        let up = &mut self.gateways[gateway].up;
        if let Some(packet) = packet {
            up.acknowledged(now_us, now_us, asking.id, asking.sent, milliseconds(packet.sent.micros()));
        }
        up.told(now_us, asking.id, asking.acknowledged());
    }

    /// Sends the present request of flow `index`, for an answer of `size` bytes.
    fn sends_request(&mut self, index: u32, size: u32) {
        if let scenario::App::Request { request, .. } =
            self.groups[self.flows[index as usize].group as usize].spec.app
        {
            self.request_is_seen(index);
            self.send_request(index, Bytes::new(size.into()), request);
        }
    }

    /// Size of a request of flow `index`, in bytes of the application.
    fn request_bytes(&self, index: u32) -> u64 {
        match self.groups[self.flows[index as usize].group as usize].spec.app {
            scenario::App::Request { request, .. } => request.get().max(1),
            _ => 1,
        }
    }

    /// A request of flow `index` leaves with `bytes` on the wire. If it is the home's, the uplink
    /// is told.
    pub(crate) fn request_leaves(&mut self, index: u32, bytes: u64) {
        if let Some((gateway, Part::HomeDownload)) = self.met(index) {
            self.home_leaves(gateway, index, bytes);
        }
    }

    /// Flow `index` may have sent data. If it is an upload of the home, the uplink is told of the
    /// bytes, and the downlink that an answer may be due.
    pub(crate) fn home_sends(&mut self, index: u32) {
        let Some((gateway, Part::HomeUpload)) = self.met(index) else { return };
        let flow = &self.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        let packet_bytes = u64::from(profile.mss) + u64::from(profile.header);
        let sent = flow.counts.sent;
        let before = self.gateways[gateway].home_sent.insert(index, sent).unwrap_or(0);
        if sent > before {
            self.home_observed(gateway, index, Observation::Request);
            self.home_leaves(gateway, index, (sent - before) * packet_bytes);
        }
    }

    /// Tells the uplink that `bytes` of the home leave, if the gateway may see packets.
    fn home_leaves(&mut self, gateway: usize, index: u32, bytes: u64) {
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if node.sees_packets() {
            node.up.foreground(now_us, index.into(), Observation::Bytes(bytes));
            self.gateway_serves(gateway);
        }
    }
}
