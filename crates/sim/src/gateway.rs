//! The gateway node: `leeway-share` in virtual time. Downloads come through sockets under the live
//! gateway's code (`leeway_share::Downlink`, see `sockets.rs`): what it grants goes to the server as a
//! receive window. What is granted to an upload lets the sender at the node send.
//!
//! With a relay, downloads are held where they are sent. The relay sees the delay of each packet, and the
//! gateway's reports tell the relay what the home expects. The gateway acknowledges each packet with one of its
//! own, as the tunnel's ends do whatever the connections inside do.
//!
//! A node that sees packets sees the home. It times bytes and acknowledgements by their packets, and
//! tells the queues of the two directions apart by the other end's clock. A node that does not see
//! packets times downloads by what a program reads, and learns some time later what was acknowledged.
//!
//! Scope and limitations: a window is told in a packet of its own, and a window of 0 is possible. The servers of
//! what comes through a relay are at the relay. Nobody sends probes, and requests through a relay do not wait.

mod requests;
mod sockets;
mod windows;

use crate::engine::{Engine, Timer};
use crate::packet::{Fields, Kind, Packet};
use crate::scenario::{self, Part};
use crate::tcp::rto::LazyTimer;
use leeway_share::{
    Certainty, FlowId, ForegroundReport, Heard, Line, Next, Observation, OneWay, Reporter, RoundTrips,
    Sample, State, UserId,
};
use leeway_units::{Duration, Time};
use requests::Asking;
use sockets::{Socket, Sockets};
use std::collections::BTreeMap;

/// One gateway.
#[derive(Debug)]
pub struct Gateway {
    /// What a relay sends to its node, and what leaves the node.
    lines: [Line; 2],
    owners: [BTreeMap<FlowId, u32>; 2],
    /// It has the right to see packets.
    sees_packets: bool,
    /// What comes to its node without a relay.
    sockets: Option<Sockets>,
    /// How long after an acknowledgement came the node knows of it, at the most, where it does not see packets.
    acked_within: Option<Duration>,
    /// What a gateway with a relay has to report.
    reporter: Option<Reporter>,
    /// The flow whose way the reports take.
    reports_by: Option<u32>,
    /// Packets that each flow of an upload of the home had sent when the uplink heard of it last.
    home_sent: BTreeMap<u32, u64>,
    pub(crate) timer: LazyTimer,
    pub(crate) report_timer: LazyTimer,
}

/// State of a flow at its gateway.
#[derive(Debug)]
pub struct GatewayFlow {
    id: FlowId,
    /// One past the last segment that may be sent, as the gateway knows it.
    edge: u32,
    /// What it has of the uplink for its requests, where they wait for that.
    asking: Option<Asking>,
    /// Least delay of a window on its way to the server, in microseconds.
    back_us: Option<u32>,
    /// That of acknowledgements from the server.
    way_back: OneWay,
    retransmitted: u64,
    /// The connection of a download.
    socket: Option<Socket>,
    /// Bytes that were acknowledged since the node looked last.
    unread: u64,
    /// A read is set.
    reading: bool,
    round_trips: RoundTrips,
    /// Bytes that have come from the relay, modulo 2^32: as they are here, and as the relay knows.
    came: [u32; 2],
}

impl GatewayFlow {
    /// Whether more was retransmitted than when this was asked last.
    fn sent_again(&mut self, retransmitted: u64) -> bool {
        retransmitted > std::mem::replace(&mut self.retransmitted, retransmitted)
    }
}

impl Gateway {
    /// The gateway of `spec`.
    pub fn new(spec: &scenario::Gateway) -> Gateway {
        let policy = spec.policy().unwrap_or_default(); // checked when the scenario was read
        let [down, up] = spec.laws();
        let reporter = spec.relay.as_ref().map(|_| Reporter::new(&policy));
        let down_policy = if reporter.is_some() { policy.for_sending() } else { policy };
        Gateway {
            lines: [Line::new(&down, &down_policy), Line::new(&up, &policy.for_sending())],
            owners: Default::default(),
            sees_packets: spec.sees_packets,
            sockets: reporter.is_none().then(|| Sockets::new(spec, &policy)),
            acked_within: (!spec.sees_packets).then(|| spec.read_delay.unwrap_or(ACKED)),
            reporter,
            reports_by: None,
            home_sent: BTreeMap::new(),
            timer: LazyTimer::new(),
            report_timer: LazyTimer::new(),
        }
    }

    /// The `index`-th flow, of `user`, is held in that direction; where it `asks`, its requests are held as well.
    pub fn hold(&mut self, part: Part, user: u64, index: u32, asks: bool) -> Option<GatewayFlow> {
        let way = part.way();
        let (id, socket) = match &mut self.sockets {
            Some(sockets) if part == Part::Download => {
                let (id, socket) = sockets.open(0, user, 0)?;
                (id, Some(socket))
            }
            _ => (self.lines[way].open(UserId(user)).ok()?, None),
        };
        self.owners[way].insert(id, index);
        let asking = if asks { Asking::open(&mut self.lines[1], user) } else { None };
        self.owners[1].extend(asking.iter().map(|asking| (asking.id(), index)));
        Some(GatewayFlow {
            id,
            edge: 0,
            asking,
            back_us: None,
            way_back: OneWay::default(),
            retransmitted: 0,
            socket,
            unread: 0,
            reading: false,
            round_trips: RoundTrips::default(),
            came: [0; 2],
        })
    }
}

/// See [`Engine`]; this part of it asks gateways and does what they grant.
impl Engine {
    /// The gateway that meets the packets of flow `index`, and how.
    fn met(&self, index: u32) -> Option<(usize, Part)> {
        self.groups[self.flows[index as usize].group as usize].gateway
    }

    /// A connection of flow `index` begins.
    pub(crate) fn gateway_connects(&mut self, index: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        if matches!(part, Part::HomeDownload | Part::HomeUpload) {
            self.home_observed(gateway, index, Observation::Connect);
        }
        let flow = &mut self.flows[index as usize];
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        let lines = &mut self.gateways[gateway].lines;
        at_gateway.asking.iter_mut().for_each(|asking| asking.end(&mut lines[1]));
        if at_gateway.socket.is_some() {
            return self.socket_connects(gateway, index);
        }
        let line = &mut lines[part.way()];
        line.rest(at_gateway.id, line.granted_to(at_gateway.id));
        (at_gateway.edge, at_gateway.unread, at_gateway.came[1]) = (0, 0, at_gateway.came[0]);
        at_gateway.round_trips.clear();
        flow.sender.edge = 0;
        self.gateway_wants(index);
    }

    /// The client of flow `index` is about to ask for `size` bytes: whether it may now.
    pub(crate) fn gateway_lets_ask(&mut self, index: u32, size: u32) -> bool {
        let Some((gateway, part)) = self.met(index) else { return true };
        if part == Part::HomeDownload {
            self.home_observed(gateway, index, Observation::Request);
        }
        if part != Part::Download {
            return true;
        }
        let Some(at_gateway) = &self.flows[index as usize].at_gateway else { return true };
        if !at_gateway.asking.as_ref().is_some_and(Asking::waits) {
            self.socket_asks(gateway, index, size);
        }
        false
    }

    /// Flow `index` asks for what it still wants.
    pub(crate) fn gateway_wants(&mut self, index: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        if self.is_on_socket(index) {
            return self.gateway_serves(gateway);
        }
        let flow = &mut self.flows[index as usize];
        let mss = u64::from(self.groups[flow.group as usize].profile.mss);
        let Some(at_gateway) = flow.at_gateway.as_ref().filter(|_| flow.open) else { return };
        let node = &mut self.gateways[gateway];
        let line = &mut node.lines[part.way()];
        if part == Part::Relayed {
            // What is in hand at the relay: the connection inside sends up to its own window.
            let ahead = u64::from(at_gateway.edge.saturating_sub(flow.sender.next_seq()));
            let unsent = flow.sender.unsent_bytes().saturating_sub(ahead.saturating_mul(mss));
            if unsent > 0 && ahead < 2 {
                let _ = line.ask_whole(at_gateway.id, unsent.min(mss));
            } else {
                line.withdraw(at_gateway.id);
            }
            return self.gateway_serves(gateway);
        }
        let segments = flow.sender.unsent_bytes().div_ceil(mss);
        let _ = line.ask(at_gateway.id, segments.saturating_mul(mss));
        self.gateway_serves(gateway);
    }

    /// A data packet of flow `index` has arrived; `new` bytes of it were not there before.
    pub(crate) fn gateway_receives(&mut self, index: u32, packet: &Packet, new: bool) {
        let Some((gateway, part)) = self.met(index) else { return };
        if part == Part::Download && new {
            let seen = self.gateways[gateway].sees_packets;
            self.request_answered(gateway, index, Some(packet).filter(|_| seen));
        }
        if self.is_on_socket(index) {
            return self.socket_receives(gateway, index, packet, new);
        }
        let flow = &mut self.flows[index as usize];
        let bytes = if new { u64::from(packet.value()) } else { 0 };
        match (part, &mut flow.at_gateway) {
            (Part::HomeDownload, _) => self.home_observed(gateway, index, Observation::Bytes(packet.size())),
            (Part::Relayed, Some(at_gateway)) => {
                at_gateway.came[0] = at_gateway.came[0].wrapping_add(bytes as u32);
                let receipt = Fields {
                    sent: packet.sent,
                    seq: at_gateway.came[0],
                    value: u32::try_from((self.world.now - packet.sent).micros()).unwrap_or(u32::MAX),
                    ..self.to_relay(index, Kind::Receipt, RECEIPT_BYTES)
                };
                self.world.send(receipt.pack());
                return self.background_came(gateway, index);
            }
            _ => return,
        }
        self.gateway_serves(gateway);
    }

    /// Flow `index` has got what it asked for.
    pub(crate) fn gateway_rests(&mut self, index: u32) {
        if let Some((gateway, Part::Download)) = self.met(index) {
            self.socket_rests(gateway, index);
        }
    }

    /// An acknowledgement of `bytes` has arrived at the sender of flow `index`, and said these delays.
    pub(crate) fn gateway_is_acked(&mut self, index: u32, bytes: u64, rtt_us: u64, owd_us: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        if part == Part::Upload && self.gateways[gateway].acked_within.is_some() {
            return self.comes(index, bytes);
        }
        let flow = &mut self.flows[index as usize];
        let line = &mut self.gateways[gateway].lines[part.way()];
        match (part, &mut flow.at_gateway) {
            (Part::Relayed, Some(at_gateway)) => {
                if at_gateway.sent_again(flow.counts.retransmitted) {
                    line.lost(now_us, None, 1, now_us.saturating_sub(rtt_us));
                }
            }
            (Part::Upload, Some(at_gateway)) => {
                let back_us = rtt_us.saturating_sub(owd_us.into()) as u32;
                let excess_us = at_gateway.way_back.excess_us(
                    now_us,
                    (now_us as u32).wrapping_sub(back_us),
                    now_us as u32,
                );
                let mss = u64::from(self.groups[flow.group as usize].profile.mss);
                let position = u64::from(flow.sender.first_unacked()) * mss;
                let sample = at_gateway.round_trips.arrived(position, now_us).map(|(rtt_us, _)| {
                    let forward_us = rtt_us.saturating_sub(excess_us);
                    let certainty = if bytes <= mss { Certainty::UpperBound } else { Certainty::Exact };
                    Sample { known_us: rtt_us, certainty, ..exact(flow.group, forward_us.into()) }
                });
                line.arrived(now_us, at_gateway.id, bytes, sample);
                if at_gateway.sent_again(flow.counts.retransmitted) {
                    at_gateway.round_trips.clear(); // RFC 6298, 3
                    line.lost(now_us, Some(at_gateway.id), 1, now_us.saturating_sub(rtt_us));
                }
            }
            _ => return,
        }
        self.gateway_wants(index);
    }

    /// The home was seen on flow `index`, which comes to gateway `gateway`.
    fn home_observed(&mut self, gateway: usize, index: u32, observation: Observation) {
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if !node.sees_packets {
            return;
        }
        if let Some(sockets) = &mut node.sockets {
            return sockets.downlink.foreground(now_us, index.into(), observation);
        }
        let Some(reporter) = &mut node.reporter else { return };
        let State { srtt_us, queuing_us, .. } = node.lines[0].state(now_us);
        reporter.observed(
            now_us,
            index.into(),
            observation,
            srtt_us,
            srtt_us.saturating_sub(queuing_us.into()),
        );
        self.gateway_reports(gateway);
    }

    /// A packet of flow `index` came from the relay of gateway `gateway`.
    fn background_came(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        node.reports_by = Some(index);
        if node.reporter.as_mut().is_some_and(|reporter| reporter.background(now_us)) {
            self.gateway_reports(gateway);
        }
    }

    /// Gateway `gateway` reports to its relay what is due, and sets when to look again.
    pub(crate) fn gateway_reports(&mut self, gateway: usize) {
        let now = self.world.now;
        let node = &mut self.gateways[gateway];
        let srtt_us = node.lines[0].state(now.micros()).srtt_us;
        let (Some(reporter), Some(index)) = (&mut node.reporter, node.reports_by) else { return };
        let report = reporter.report(now.micros(), srtt_us);
        if let Some(due_us) = reporter.due_us(srtt_us) {
            let at = node.report_timer.set(Time::from_micros(due_us).max(now + Duration::from_micros(1)));
            if let Some(at) = at {
                self.world.set(at, Timer::Report(gateway as u32));
            }
        }
        let Some(ForegroundReport { expected_bytes, came_bytes }) = report else { return };
        let packet = Fields {
            seq: came_bytes,
            value: expected_bytes,
            ..self.to_relay(index, Kind::Report, REPORT_BYTES)
        };
        self.world.send(packet.pack());
    }

    /// A packet of a gateway to its relay, the way that acknowledgements of flow `index` take.
    fn to_relay(&self, index: u32, kind: Kind, bytes: u16) -> Fields {
        let flow = &self.flows[index as usize];
        let profile = &self.groups[flow.group as usize].profile;
        Fields {
            sent: self.world.now,
            step: flow.reverse,
            size: profile.header + bytes,
            kind,
            class: profile.class,
            bits: Packet::bits(flow.epoch, false),
            ..Fields::blank(index)
        }
    }

    /// A gateway's receipt is at its relay.
    pub(crate) fn receipt_arrives(&mut self, packet: &Packet) {
        let Some((gateway, _)) = self.met(packet.flow()) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[packet.flow() as usize];
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        let bytes = packet.seq().wrapping_sub(at_gateway.came[1]);
        at_gateway.came[1] = packet.seq();
        let rtt_us = u32::try_from((self.world.now - packet.sent).micros()).unwrap_or(u32::MAX);
        let back_us = rtt_us.saturating_sub(packet.value());
        let excess_us =
            at_gateway.way_back.excess_us(now_us, (now_us as u32).wrapping_sub(back_us), now_us as u32);
        let sample = exact(flow.group, rtt_us.saturating_sub(excess_us).into());
        let line = &mut self.gateways[gateway].lines[0];
        line.arrived(now_us, at_gateway.id, bytes.into(), Some(Sample { known_us: rtt_us, ..sample }));
        self.gateway_wants(packet.flow());
    }

    /// A gateway's report is at its relay.
    pub(crate) fn report_arrives(&mut self, packet: &Packet) {
        let Some((gateway, _)) = self.met(packet.flow()) else { return };
        let report = ForegroundReport { expected_bytes: packet.value(), came_bytes: packet.seq() };
        self.gateways[gateway].lines[0].foreground_reported(self.world.now.micros(), report);
        self.gateway_serves(gateway);
    }

    /// `bytes` of flow `index` are acknowledged, and the node does not see packets.
    fn comes(&mut self, index: u32, bytes: u64) {
        let Some((gateway, _)) = self.met(index) else { return };
        let Some(most) = self.gateways[gateway].acked_within else { return };
        let flow = &mut self.flows[index as usize];
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        at_gateway.unread += bytes;
        if !std::mem::replace(&mut at_gateway.reading, true) {
            let at = self.world.now + flow.app.host_delay(most);
            self.world.set(at, Timer::Read(index));
        }
    }

    /// The gateway reads what has come of flow `index`, or looks for what was acknowledged.
    pub(crate) fn gateway_reads(&mut self, index: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let line = &mut self.gateways[gateway].lines[part.way()];
        let mss = u64::from(self.groups[flow.group as usize].profile.mss);
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        at_gateway.reading = false;
        if at_gateway.socket.is_some() {
            return self.socket_reads(gateway, index);
        }
        if at_gateway.sent_again(flow.counts.retransmitted) {
            // What was sent twice says nothing of the delay (RFC 6298, 3).
            at_gateway.round_trips.clear();
            let sent_us = now_us.saturating_sub(line.state(now_us).srtt_us);
            line.lost(now_us, Some(at_gateway.id), mss, sent_us);
        }
        let position = u64::from(flow.sender.first_unacked()) * mss;
        let rtt_us = at_gateway.round_trips.arrived(position, now_us);
        let sample = rtt_us.map(|(rtt_us, _)| exact(flow.group, rtt_us.into()));
        let bytes = std::mem::take(&mut at_gateway.unread);
        if line.arrived(now_us, at_gateway.id, bytes, sample) == Heard::Doubt {
            at_gateway.round_trips.clear();
        }
        self.gateway_wants(index);
    }

    /// Does what gateway `gateway` grants now, and sets when to ask it again.
    pub(crate) fn gateway_serves(&mut self, gateway: usize) {
        if std::mem::replace(&mut self.serving, true) {
            return; // what a grant brings about asks again: this loop is not over
        }
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if let Some(sockets) = &mut node.sockets {
            sockets.downlink.set_most_bytes_per_s(node.lines[1].acknowledged_bytes_per_s(now_us));
        }
        let mut wake_us = self.sockets_serve(gateway).unwrap_or(u64::MAX);
        for way in [0, 1] {
            loop {
                let next = self.gateways[gateway].lines[way].next(now_us);
                let expired = self.gateways[gateway].lines[way].take_expired();
                let again = !expired.is_empty();
                for id in expired {
                    if let Some(&index) = self.gateways[gateway].owners[way].get(&id) {
                        match self.met(index) {
                            Some((_, Part::Download)) if way == 1 => self.request_given_up(gateway, index),
                            _ => {
                                self.given_up(gateway, way, index);
                                self.gateway_wants(index);
                            }
                        }
                    }
                }
                match next {
                    Next::Grant { flow, bytes } => {
                        let owner = self.gateways[gateway].owners[way].get(&flow).copied();
                        if let Some(index) = owner {
                            match self.met(index) {
                                Some((_, Part::Download)) if way == 1 => self.request_granted(index, bytes),
                                _ => {
                                    self.granted(index, bytes);
                                    self.gateway_wants(index);
                                }
                            }
                        }
                    }
                    _ if again => {}
                    Next::Wait(at_us) => {
                        wake_us = wake_us.min(at_us);
                        break;
                    }
                    Next::Blocked => break,
                }
            }
        }
        self.serving = false;
        if wake_us != u64::MAX {
            let at = self.gateways[gateway].timer.set(Time::from_micros(wake_us));
            if let Some(at) = at {
                self.world.set(at, Timer::Gateway(gateway as u32));
            }
        }
    }

    /// Nothing came of what flow `index` was granted: its round trips are longer than this, or its server has
    /// paused.
    fn given_up(&mut self, gateway: usize, way: usize, index: u32) {
        let flow = &mut self.flows[index as usize];
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if let Some(at_gateway) = flow.at_gateway.as_mut().filter(|_| node.acked_within.is_some())
            && let Some(least_us) = at_gateway.round_trips.given_up(now_us)
        {
            let bound = Sample { certainty: Certainty::LowerBound, ..exact(flow.group, least_us.into()) };
            node.lines[way].arrived(now_us, at_gateway.id, 0, Some(bound));
        }
    }
}

/// How often sockets are asked for what was acknowledged where packets are not seen, as live.
const ACKED: Duration = Duration::from_millis(2);

/// A report in a datagram of the tunnel, without headers.
const REPORT_BYTES: u16 = 9;
/// A report of a delay there (11 bytes) beside QUIC's own acknowledgement.
const RECEIPT_BYTES: u16 = 20;

fn exact(path: u32, rtt_us: u64) -> Sample {
    Sample::exact(path.into(), u32::try_from(rtt_us).unwrap_or(u32::MAX).max(1))
}
