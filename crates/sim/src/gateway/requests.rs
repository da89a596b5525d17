//! Requests of downloads, which leave the gateway's node by the uplink.
//!
//! The uplink is told of the home's requests and uploads when their bytes leave. If the uplink has
//! a queue, a neighbour's request waits for a grant of the uplink, after the downlink has granted
//! its answer. The first packet of the answer acknowledges the request.

use super::{GatewayFlow, exact};
use crate::engine::Engine;
use crate::packet::Packet;
use crate::scenario::{self, Part};
use leeway_share::{Certainty, FlowId, Line, Observation, OneWay, RoundTrips, Sample, UserId};
use leeway_units::Bytes;

/// State of a flow's requests at the uplink.
#[derive(Debug)]
pub struct Asking {
    id: FlowId,
    /// Bytes of the answer, and of the request, while the request waits for a grant.
    waits: Option<(u32, u64)>,
    /// Bytes of the request that are not granted yet.
    missing: u64,
    /// Bytes of requests that have left, and of those that are known to have arrived.
    sent: u64,
    arrived: u64,
    round_trips: RoundTrips,
    /// Delay of the way back, which answers take.
    way_back: OneWay,
}

impl Asking {
    /// Opens a flow of `user` at the uplink. `None`: the uplink has no room for another flow.
    pub fn open(line: &mut Line, user: u64) -> Option<Asking> {
        let id = line.open(UserId(user)).ok()?;
        let (round_trips, way_back) = (RoundTrips::default(), OneWay::default());
        Some(Asking { id, waits: None, missing: 0, sent: 0, arrived: 0, round_trips, way_back })
    }

    /// The flow's identity at the uplink.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Whether a request waits for a grant.
    pub fn waits(&self) -> bool {
        self.waits.is_some()
    }

    /// The connection has ended: forgets its request and grants.
    pub fn end(&mut self, line: &mut Line) {
        line.withdraw(self.id);
        line.rest(self.id, line.granted_to(self.id));
        self.round_trips.clear();
        (self.waits, self.missing, self.arrived) = (None, 0, self.sent);
    }

    /// An answer has come, so all requests sent have arrived. Returns their bytes, and the round
    /// trip in µs.
    fn is_answered(&mut self, now_us: u64) -> Option<(u64, Option<u32>)> {
        let bytes = self.sent - std::mem::replace(&mut self.arrived, self.sent);
        (bytes > 0).then(|| (bytes, self.round_trips.arrived(self.sent, now_us).map(|(rtt_us, _)| rtt_us)))
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
        let Some((gateway, _)) = self.met(index) else { return };
        let bytes = self.request_bytes(index);
        match self.flows[index as usize].at_gateway.as_mut().and_then(GatewayFlow::asking) {
            Some(asking) => {
                (asking.waits, asking.missing) = (Some((size, bytes)), bytes);
                let _ = self.gateways[gateway].up.ask(asking.id, bytes);
            }
            None => self.sends_request(index, size),
        }
    }

    /// The uplink has granted `bytes` to the request of flow `index`. Sends the request once it is
    /// granted in full.
    pub(super) fn request_granted(&mut self, index: u32, bytes: u64) {
        let Some((gateway, _)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let again = flow.app.tries > 1;
        let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) else { return };
        asking.missing = asking.missing.saturating_sub(bytes);
        if asking.missing > 0 {
            let _ = self.gateways[gateway].up.ask(asking.id, asking.missing);
            return;
        }
        let Some((size, bytes)) = asking.waits.take() else { return };
        if again {
            asking.round_trips.clear(); // RFC 6298, 3: no samples from repeated requests
        } else {
            asking.round_trips.opened(asking.sent, now_us, Certainty::Exact);
        }
        asking.sent += bytes;
        self.sends_request(index, size);
    }

    /// Nothing came of the request of flow `index` in time: a round trip takes at least that long.
    pub(super) fn request_given_up(&mut self, gateway: usize, index: u32) {
        let flow = &mut self.flows[index as usize];
        let now_us = self.world.now.micros();
        let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) else { return };
        asking.arrived = asking.sent;
        let line = &mut self.gateways[gateway].up;
        if let Some(least_us) = asking.round_trips.given_up(now_us) {
            let bound = Sample { certainty: Certainty::LowerBound, ..exact(flow.group, least_us.into()) };
            line.arrived(now_us, asking.id, 0, Some(bound));
        }
        if asking.missing > 0 {
            let _ = line.ask(asking.id, asking.missing);
        }
    }

    /// An answer has come to flow `index`. If the gateway may see packets, `packet` tells the
    /// delay of the way back.
    pub(super) fn request_answered(&mut self, gateway: usize, index: u32, packet: Option<&Packet>) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        let Some(asking) = flow.at_gateway.as_mut().and_then(GatewayFlow::asking) else { return };
        let Some((bytes, rtt_us)) = asking.is_answered(now.micros()) else { return };
        let excess_us = packet.map_or(0, |packet| {
            asking.way_back.excess_us(now.micros(), packet.sent.micros() as u32, now.micros() as u32)
        });
        let sample = rtt_us.map(|rtt_us| Sample {
            known_us: rtt_us,
            ..exact(flow.group, rtt_us.saturating_sub(excess_us).into())
        });
        self.gateways[gateway].up.arrived(now.micros(), asking.id, bytes, sample);
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
