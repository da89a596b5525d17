//! The gateway node: `leeway-share` in virtual time. It limits downloads and uploads of neighbours
//! by grants.
//!
//! Without a relay, downloads come through sockets, under the code of the live gateway
//! (`leeway_share::Downlink`, see `sockets.rs`). The server learns of a grant by its receive
//! window. Uploads and requests are under the code of the live gateway as well
//! (`leeway_share::Uplink`): a grant is permission for the sender at the node to send.
//!
//! With a relay, grants limit what the relay sends. The relay knows the delay of each packet from
//! the gateway, which acknowledges each one with a receipt, as QUIC does in the tunnel. The
//! gateway's reports tell the relay what the home expects.
//!
//! A gateway that may see packets sees the home's traffic. It times bytes and acknowledgements by
//! their packets, and separates the queues of the two directions by the other end's clock. A
//! gateway that may not see packets times downloads by what a program reads, and asks the kernel
//! at intervals what was acknowledged of uploads.
//!
//! Scope and limitations: a window is announced in a packet of its own, and may be 0. Servers
//! whose traffic comes through a relay are at the relay. Nothing probes the path, and requests do
//! not wait for grants if there is a relay.

mod requests;
mod sockets;
mod windows;

use crate::engine::{Engine, Timer};
use crate::flow::Flow;
use crate::packet::{Fields, Kind, Packet};
use crate::scenario::{self, Part};
use crate::tcp::rto::LazyTimer;
use leeway_share::{
    Acknowledged, ClockReading, FlowId, ForegroundReport, Line, Next, Observation, OneWay, Reporter, Sample,
    State, Uplink, UserId,
};
use leeway_units::{Duration, Time};
use requests::Asking;
use sockets::{Socket, Sockets};
use std::collections::BTreeMap;

/// A gateway at a node of the scenario.
#[derive(Debug)]
pub struct Gateway {
    down: Down,
    up: Uplink,
    /// When the gateway looks next at the uplink's grants. Unit: µs.
    up_look_us: u64,
    owners: [BTreeMap<FlowId, u32>; 2],
    /// Longest time from an acknowledgement until a gateway that may not see packets knows of it.
    /// `None`: the gateway may see packets.
    acked_within: Option<Duration>,
    /// Packets that each upload of the home had sent when the uplink was last told of them.
    home_sent: BTreeMap<u32, u64>,
    pub(crate) timer: LazyTimer,
    pub(crate) report_timer: LazyTimer,
}

/// How downloads come to the node.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has few gateways")]
enum Down {
    Sockets(Sockets),
    Relay(Relay),
}

/// The relay of a gateway: its line, and the reports that it gets.
#[derive(Debug)]
struct Relay {
    line: Line,
    reporter: Reporter,
    /// The flow whose reverse path the reports take: the last one that brought a packet.
    reports_by: Option<u32>,
}

/// State of a flow at its gateway.
#[derive(Debug)]
pub struct GatewayFlow {
    id: FlowId,
    user: UserId,
    /// One past the last segment that the flow may send, as the gateway knows it.
    edge: u32,
    /// State of the flow's requests at the uplink; absent if they need no grant.
    asking: Option<Asking>,
    /// Least delay of an announced window on its way to the server. Unit: µs.
    back_us: Option<u32>,
    /// Delay of the way back, for packets from a relay.
    way_back: OneWay,
    retransmitted: u64,
    /// Socket of a download; absent with a relay, and for uploads.
    socket: Option<Socket>,
    /// Whether the timer of the next read runs.
    reading: bool,
    /// Bytes that have come from the relay, modulo 2^32: as counted by the gateway, and as known
    /// to the relay.
    came: [u32; 2],
}

impl GatewayFlow {
    /// Whether the flow has retransmitted since the last call.
    fn sent_again(&mut self, retransmitted: u64) -> bool {
        retransmitted > std::mem::replace(&mut self.retransmitted, retransmitted)
    }
}

impl Gateway {
    /// The gateway that `spec` describes.
    pub fn new(spec: &scenario::Gateway) -> Gateway {
        // a wrong policy was reported when the scenario was checked
        let policy = spec.policy().unwrap_or_default();
        let [down, up] = spec.laws();
        Gateway {
            down: match &spec.relay {
                None => Down::Sockets(Sockets::new(spec, &policy)),
                Some(_) => Down::Relay(Relay {
                    line: Line::new(&down, &policy.for_sending()),
                    reporter: Reporter::new(&policy),
                    reports_by: None,
                }),
            },
            up: Uplink::new(&up, &policy.for_timers()),
            up_look_us: 0,
            owners: Default::default(),
            acked_within: (!spec.sees_packets).then(|| spec.read_delay.unwrap_or(ACKED)),
            home_sent: BTreeMap::new(),
            timer: LazyTimer::new(),
            report_timer: LazyTimer::new(),
        }
    }

    /// Puts flow `index` of `user` under this gateway. `path` is a number of the network of its
    /// other end. With `asks`, its requests need grants of the uplink. `None`: the gateway has no
    /// room for another flow.
    pub fn hold(&mut self, part: Part, user: u64, index: u32, path: u32, asks: bool) -> Option<GatewayFlow> {
        let user = UserId(user);
        let (id, socket) = match (part, &mut self.down) {
            (Part::Upload, _) => (self.up.open(user, Some(path.into())).ok()?, None),
            (Part::Download, Down::Sockets(sockets)) => {
                let (id, socket) = sockets.open(0, user, path)?;
                (id, Some(socket))
            }
            (_, Down::Relay(relay)) => (relay.line.open(user).ok()?, None),
            _ => return None,
        };
        self.owners[part.way()].insert(id, index);
        let asking = if asks { Asking::open(self, user, index, path) } else { None };
        Some(GatewayFlow {
            id,
            user,
            edge: 0,
            asking,
            back_us: None,
            way_back: OneWay::default(),
            retransmitted: 0,
            socket,
            reading: false,
            came: [0; 2],
        })
    }

    fn sockets(&mut self) -> Option<&mut Sockets> {
        match &mut self.down {
            Down::Sockets(sockets) => Some(sockets),
            Down::Relay(_) => None,
        }
    }

    fn relay(&mut self) -> Option<&mut Relay> {
        match &mut self.down {
            Down::Relay(relay) => Some(relay),
            Down::Sockets(_) => None,
        }
    }

    /// Whether the gateway may see packets.
    fn sees_packets(&self) -> bool {
        self.acked_within.is_none()
    }
}

/// The part of [`Engine`] that runs gateways: asks them for grants, and does what they grant.
impl Engine {
    /// The gateway on the path of flow `index`, and how the flow passes it.
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
        let node = &mut self.gateways[gateway];
        let (user, path) = (at_gateway.user, flow.group);
        if let Some(asking) = at_gateway.asking.take() {
            asking.close(node);
            at_gateway.asking = Asking::open(node, user, index, path);
        }
        if at_gateway.socket.is_some() {
            return self.socket_connects(gateway, index);
        }
        match &mut node.down {
            _ if part == Part::Upload => {
                node.up.close(at_gateway.id);
                node.owners[1].remove(&at_gateway.id);
                let Ok(id) = node.up.open(user, Some(path.into())) else { return };
                node.owners[1].insert(id, index);
                at_gateway.id = id;
            }
            Down::Relay(Relay { line, .. }) => line.rest(at_gateway.id, line.granted_to(at_gateway.id)),
            Down::Sockets(_) => {}
        }
        (at_gateway.edge, at_gateway.came[1]) = (0, at_gateway.came[0]);
        flow.sender.edge = 0;
        self.gateway_wants(index);
    }

    /// The client of flow `index` wants to request `size` bytes. Returns whether it may do so now;
    /// if not, the gateway sends the request later.
    pub(crate) fn gateway_lets_ask(&mut self, index: u32, size: u32) -> bool {
        let Some((gateway, part)) = self.met(index) else { return true };
        if part == Part::HomeDownload {
            self.home_observed(gateway, index, Observation::Request);
        }
        if part != Part::Download {
            return true;
        }
        let flow = &self.flows[index as usize];
        let Some(at_gateway) = &flow.at_gateway else { return true };
        match &at_gateway.asking {
            Some(asking) if asking.waits() => false,
            Some(asking) if asking.has_left(flow.app.turn) => {
                self.request_again(gateway, index);
                true
            }
            _ => {
                self.socket_asks(gateway, index, size);
                false
            }
        }
    }

    /// Asks for grants for the bytes that flow `index` has to send.
    pub(crate) fn gateway_wants(&mut self, index: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        if self.is_on_socket(index) {
            return self.gateway_serves(gateway);
        }
        let flow = &mut self.flows[index as usize];
        let mss = u64::from(self.groups[flow.group as usize].profile.mss);
        let Some(at_gateway) = flow.at_gateway.as_ref().filter(|_| flow.open) else { return };
        // Segments that are granted: the connection sends them when its own window allows.
        let ahead = u64::from(at_gateway.edge.saturating_sub(flow.sender.next_seq()));
        let unsent = flow.sender.unsent_bytes().saturating_sub(ahead.saturating_mul(mss));
        let node = &mut self.gateways[gateway];
        match (part, &mut node.down) {
            (Part::Upload, _) if unsent > 0 => node.up.ask(at_gateway.id, unsent),
            (Part::Relayed, Down::Relay(Relay { line, .. })) if unsent > 0 && ahead < 2 => {
                let _ = line.ask_whole(at_gateway.id, unsent.min(mss));
            }
            (Part::Relayed, Down::Relay(Relay { line, .. })) => line.withdraw(at_gateway.id),
            _ => {}
        }
        self.gateway_serves(gateway);
    }

    /// A data packet of flow `index` has arrived. `new`: it has bytes that had not arrived before.
    pub(crate) fn gateway_receives(&mut self, index: u32, packet: &Packet, new: bool) {
        let Some((gateway, part)) = self.met(index) else { return };
        if part == Part::Download && new {
            let seen = self.gateways[gateway].sees_packets();
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

    /// Flow `index` has received the whole answer to its request.
    pub(crate) fn gateway_rests(&mut self, index: u32) {
        if let Some((gateway, Part::Download)) = self.met(index) {
            self.socket_rests(gateway, index);
        }
    }

    /// An acknowledgement has arrived at the sender of flow `index`, with these delays.
    pub(crate) fn gateway_is_acked(&mut self, index: u32, rtt_us: u64, owd_us: u32) {
        let Some((gateway, part)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let node = &mut self.gateways[gateway];
        match (part, &mut flow.at_gateway, &mut node.down) {
            (Part::Relayed, Some(at_gateway), Down::Relay(Relay { line, .. })) => {
                if at_gateway.sent_again(flow.counts.retransmitted) {
                    line.lost(now_us, None, 1, now_us.saturating_sub(rtt_us));
                }
            }
            (Part::Upload, Some(at_gateway), _) => match node.acked_within {
                None => {
                    let id = at_gateway.id;
                    let back_us = rtt_us.saturating_sub(owd_us.into());
                    let clock = milliseconds(now_us.saturating_sub(back_us));
                    let mss = self.groups[flow.group as usize].profile.mss;
                    let told = acknowledged(flow, mss);
                    node.up.acknowledged(now_us, now_us, id, told.bytes, clock);
                    node.up.told(now_us, id, told);
                }
                Some(most) => {
                    if !std::mem::replace(&mut at_gateway.reading, true) {
                        let at = self.world.now + flow.app.host_delay(most);
                        self.world.set(at, Timer::Read(index));
                    }
                    return;
                }
            },
            _ => return,
        }
        self.gateway_wants(index);
    }

    /// Tells gateway `gateway` what it has seen of the home on flow `index`.
    fn home_observed(&mut self, gateway: usize, index: u32, observation: Observation) {
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if !node.sees_packets() {
            return;
        }
        match &mut node.down {
            Down::Sockets(sockets) => sockets.downlink.foreground(now_us, index.into(), observation),
            Down::Relay(Relay { line, reporter, .. }) => {
                let State { srtt_us, queuing_us, .. } = line.state(now_us);
                let base_us = srtt_us.saturating_sub(queuing_us.into());
                reporter.observed(now_us, index.into(), observation, srtt_us, base_us);
                self.gateway_reports(gateway);
            }
        }
    }

    /// A packet of flow `index` has come from the relay of gateway `gateway`.
    fn background_came(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        let Some(relay) = self.gateways[gateway].relay() else { return };
        relay.reports_by = Some(index);
        if relay.reporter.background(now_us) {
            self.gateway_reports(gateway);
        }
    }

    /// Sends a report to the relay of gateway `gateway` if one is due, and sets the time of the
    /// next one.
    pub(crate) fn gateway_reports(&mut self, gateway: usize) {
        let now = self.world.now;
        let node = &mut self.gateways[gateway];
        let Down::Relay(Relay { line, reporter, reports_by: Some(index) }) = &mut node.down else { return };
        let (index, srtt_us) = (*index, line.state(now.micros()).srtt_us);
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

    /// A packet from a gateway to its relay, on the path of flow `index`'s acknowledgements.
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

    /// A receipt has arrived at the relay.
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
        let Some(Relay { line, .. }) = self.gateways[gateway].relay() else { return };
        line.arrived(now_us, at_gateway.id, bytes.into(), Some(Sample { known_us: rtt_us, ..sample }));
        self.gateway_wants(packet.flow());
    }

    /// A report has arrived at the relay.
    pub(crate) fn report_arrives(&mut self, packet: &Packet) {
        let Some((gateway, _)) = self.met(packet.flow()) else { return };
        let report = ForegroundReport { expected_bytes: packet.value(), came_bytes: packet.seq() };
        let Some(Relay { line, .. }) = self.gateways[gateway].relay() else { return };
        line.foreground_reported(self.world.now.micros(), report);
        self.gateway_serves(gateway);
    }

    /// The gateway reads what has come of flow `index`, or asks the kernel what was acknowledged
    /// of it.
    pub(crate) fn gateway_reads(&mut self, index: u32) {
        let Some((gateway, _)) = self.met(index) else { return };
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        at_gateway.reading = false;
        if at_gateway.socket.is_some() {
            return self.socket_reads(gateway, index);
        }
        let id = at_gateway.id;
        let told = acknowledged(flow, self.groups[flow.group as usize].profile.mss);
        self.gateways[gateway].up.told(now_us, id, told);
        self.gateway_wants(index);
    }

    /// Does all that gateway `gateway` grants now, and sets the time at which to ask it again.
    pub(crate) fn gateway_serves(&mut self, gateway: usize) {
        if std::mem::replace(&mut self.serving, true) {
            // A grant can lead to a call of this function. The running loop then goes on and
            // serves it.
            return;
        }
        let now_us = self.world.now.micros();
        let Gateway { down, up, .. } = &mut self.gateways[gateway];
        if let Down::Sockets(sockets) = down {
            sockets.downlink.set_most_bytes_per_s(up.acknowledged_bytes_per_s(now_us));
        }
        let downlink_us = self.sockets_serve(gateway);
        let relay_us = self.relay_serves(gateway);
        let uplink_us = self.uplink_serves(gateway);
        self.serving = false;
        if let Some(wake_us) = [downlink_us, relay_us, uplink_us].into_iter().flatten().min() {
            let at = self.gateways[gateway].timer.set(Time::from_micros(wake_us));
            if let Some(at) = at {
                self.world.set(at, Timer::Gateway(gateway as u32));
            }
        }
    }

    /// Does all that the relay of gateway `gateway` grants now. Returns when to ask it again. Unit:
    /// µs.
    fn relay_serves(&mut self, gateway: usize) -> Option<u64> {
        let now_us = self.world.now.micros();
        loop {
            let Relay { line, .. } = self.gateways[gateway].relay()?;
            let (next, expired) = (line.next(now_us), line.take_expired());
            let again = !expired.is_empty();
            let owners = &self.gateways[gateway].owners[0];
            let wanting: Vec<u32> = expired.iter().filter_map(|id| owners.get(id).copied()).collect();
            wanting.into_iter().for_each(|index| self.gateway_wants(index));
            match next {
                Next::Grant { flow, bytes } => {
                    if let Some(&index) = self.gateways[gateway].owners[0].get(&flow) {
                        self.granted(index, bytes);
                        self.gateway_wants(index);
                    }
                }
                _ if again => {}
                Next::Wait(at_us) => return Some(at_us),
                Next::Blocked => return None,
            }
        }
    }

    /// Does all that the uplink of gateway `gateway` grants now. Returns when to ask it again,
    /// while anything waits or is in flight. Unit: µs.
    fn uplink_serves(&mut self, gateway: usize) -> Option<u64> {
        let now_us = self.world.now.micros();
        let node = &mut self.gateways[gateway];
        if now_us >= node.up_look_us {
            node.up_look_us = (now_us / TICK_US + 1) * TICK_US;
            node.up.expire(now_us);
        }
        loop {
            let woken = self.gateways[gateway].up.grant(now_us);
            if woken.is_empty() {
                break;
            }
            for id in woken {
                let Some(&index) = self.gateways[gateway].owners[1].get(&id) else { continue };
                let Some((_, part)) = self.met(index) else { continue };
                if part == Part::Download {
                    self.request_granted(index);
                } else if let Some(bytes) = self.gateways[gateway].up.ready(id, 1) {
                    let sent_bytes = self.granted(index, bytes);
                    self.gateways[gateway].up.sent(now_us, id, bytes.max(sent_bytes));
                    self.gateway_wants(index);
                }
            }
        }
        let node = &self.gateways[gateway];
        node.up.is_busy().then_some(node.up_look_us)
    }
}

/// Interval at which the live gateway looks at the uplink, and asks sockets what was
/// acknowledged. Unit: µs.
const TICK_US: u64 = 2_000;
/// [`TICK_US`] as a duration.
const ACKED: Duration = Duration::from_micros(TICK_US);

/// Bytes of a report in a datagram of the tunnel, without headers.
const REPORT_BYTES: u16 = 9;
/// Bytes of a receipt: a delay report (11 bytes) beside QUIC's own acknowledgement.
const RECEIPT_BYTES: u16 = 20;

/// What the kernel at the sending end of `flow` knows. When everything is acknowledged, that is
/// all that was granted: a grant may be longer than its segments of `mss` bytes.
fn acknowledged(flow: &Flow, mss: u16) -> Acknowledged {
    let first = flow.sender.first_unacked();
    let all = flow.at_gateway.as_ref().is_some_and(|at_gateway| first >= at_gateway.edge);
    Acknowledged {
        bytes: if all { u64::MAX } else { u64::from(first) * u64::from(mss) },
        retransmissions: flow.counts.retransmitted as u32,
    }
}

/// The clock of another end, which counts milliseconds, at `us`.
fn milliseconds(us: u64) -> Option<ClockReading> {
    Some(ClockReading { us: (us / 1000 * 1000) as u32, is_known: true })
}

fn exact(path: u32, rtt_us: u64) -> Sample {
    Sample::exact(path.into(), u32::try_from(rtt_us).unwrap_or(u32::MAX).max(1))
}
