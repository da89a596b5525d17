//! The window that everything shares which the gateway sends to the Internet for its users: TCP and datagrams.
//!
//! Observations go in: bytes that TCP has acknowledged ([`Uplink::acked`], and [`Uplink::observed`] where
//! packets are seen), echoes of small probes ([`Uplink::echoed`]), packets of the foreground
//! ([`Uplink::home_observed`]). Grants come out ([`Uplink::grant`]): bytes that a flow may write now. A [`Line`]
//! of the sharing says which, and leaves the home its part of the window.
//!
//! Datagrams have no acknowledgements. A probe that is sent behind a datagram comes back when the datagram
//! has left the queue of the line, so an echo acknowledges every datagram that was sent before the probe.
//!
//! No clock and no sockets here: times are arguments, in microseconds. [`crate::upload`] has the real ones.
//!
//! A queue of the downlink is no queue of the uplink: where the observer sees the acknowledgements of a
//! server that counts milliseconds ([`crate::clocks`]), a round trip is taken without it.
//!
//! # Scope and limitations
//! Where no server counts milliseconds, and for datagrams where nobody uploads by TCP, a delay is a whole
//! round trip. What TCP sends again is not granted anew: it is bounded by the congestion window of the
//! kernel.

mod probe;

use crate::budget::State;
use crate::clocks::{Clock, Clocks};
use crate::paths::{self, UNBOUNDED, policy};
use leeway_control::LawSpec;
use leeway_net::{Ends, Observation, Seen};
use leeway_share::{Certainty, FlowId, Heard, Line, Next, OneWay, Policy, RoundTrips, Sample, UserId};
use probe::Probe;
pub use probe::Request;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::task::Waker;

/// The law of the uplink, if nothing else is asked for.
pub const LAW: &str = leeway_share::LAW;

/// Of the flow that probes are: it has no bytes.
const PROBES: UserId = UserId(u64::MAX);

/// The queue of the downlink of less than this ago is about that of now.
const RECENT_US: u64 = 100_000;

const KNOWN: &str = "the flow is known until it is closed";

/// What the kernel knows of the sending end of a connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Bytes of data that the other end has acknowledged since the connection began.
    pub bytes: u64,
    /// Segments that were sent again since then.
    pub retransmissions: u32,
}

/// The window, and those who have some of it.
#[derive(Debug)]
pub struct Uplink {
    line: Line,
    policy: Policy,
    probe: Probe,
    probes: FlowId,
    flows: BTreeMap<FlowId, Flow>,
    /// Whose packets are observed.
    connections: HashMap<Ends, FlowId>,
    clocks: Clocks,
    /// By how much the last acknowledgement took a longer way back than at its least, and when it came.
    excess: Option<(u64, u32)>,
}

/// What one connection or one user's port has of it.
#[derive(Debug)]
struct Flow {
    /// Where probes go; none where the peer is not beyond the line.
    server: Option<IpAddr>,
    /// The peer acknowledges bytes, as TCP does.
    acknowledges: bool,
    ends: Option<Ends>,
    /// Its acknowledgements are observed.
    observed: bool,
    /// The peer's, as its acknowledgements show it.
    clock: Option<Clock>,
    /// The way back, by that clock.
    back: Option<OneWay>,
    /// It is closed, and stays until its bytes have arrived or are given up.
    closed: bool,
    /// Bytes that it waits to send.
    wanted: u64,
    /// Granted, not sent.
    credit: u64,
    credited_us: u64,
    /// Datagrams that were sent and have not arrived, with their times; the oldest first.
    datagrams: VecDeque<(u64, u64)>,
    /// Bytes sent since the flow began, and when the last ones were.
    sent: u64,
    sent_us: u64,
    acknowledged: Acknowledged,
    round_trips: RoundTrips,
    waker: Option<Waker>,
}

impl Uplink {
    /// One under that law, of which nobody has anything. `landmarks` are addresses beyond the line that
    /// probes go to where a peer does not echo.
    pub fn new(spec: &LawSpec, landmarks: Vec<IpAddr>) -> Uplink {
        let policy = policy().for_sending();
        let mut line = Line::new(spec, &policy);
        let probes = line.open(PROBES).expect(UNBOUNDED);
        let probe = Probe::new(landmarks);
        Uplink {
            line,
            policy,
            probe,
            probes,
            flows: BTreeMap::new(),
            connections: HashMap::new(),
            clocks: Clocks::default(),
            excess: None,
        }
    }

    /// How it stands.
    pub fn state(&mut self, now_us: u64) -> State {
        State::of(self.line.state(now_us))
    }

    /// The rate of downloads, in bytes per second, whose acknowledgements leave an upload of the home
    /// what it should have ([`Line::acknowledged_bytes_per_s`]).
    pub fn acknowledged_bytes_per_s(&mut self, now_us: u64) -> u64 {
        self.line.acknowledged_bytes_per_s(now_us)
    }

    /// The home is at work.
    pub fn home_observed(&mut self, now_us: u64, observation: Observation) {
        if let Some(up) = leeway_tunnel::foreground::up(observation.what) {
            self.line.foreground(now_us, observation.connection, up);
        }
    }

    /// A flow of `user` begins; its number. `acknowledges` as for TCP. Probes go to `server`, which is beyond
    /// the line.
    pub fn open(&mut self, user: u64, server: Option<IpAddr>, acknowledges: bool) -> FlowId {
        let flow = self.line.open(UserId(user)).expect(UNBOUNDED);
        self.flows.insert(flow, Flow::new(server, acknowledges));
        flow
    }

    /// The connection of `flow` is between these.
    pub fn connected(&mut self, flow: FlowId, ends: Ends) {
        self.flows.get_mut(&flow).expect(KNOWN).ends = Some(ends);
        self.connections.insert(ends, flow);
    }

    /// A flow ends. What it has sent stays under way.
    pub fn close(&mut self, flow: FlowId) {
        self.line.withdraw(flow);
        self.unsent(flow);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.closed = true;
        if let Some(ends) = entry.ends.take() {
            self.connections.remove(&ends);
        }
        self.end(flow);
    }

    /// `flow` wants to send `bytes`: `waker` is woken once [`Uplink::ready`] says how many.
    pub fn ask(&mut self, flow: FlowId, bytes: u64, waker: &Waker) {
        if self.ready(flow, bytes).is_some() {
            return;
        }
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.waker = Some(waker.clone());
        entry.wanted = bytes.max(1);
        self.want(flow);
    }

    /// What `flow`, which wants to send `bytes`, may send now, if it may. A datagram goes whole or not at all.
    pub fn ready(&self, flow: FlowId, bytes: u64) -> Option<u64> {
        let entry = self.flows.get(&flow)?;
        let enough = if entry.acknowledges { 1 } else { bytes.max(1) };
        (entry.credit >= enough).then_some(entry.credit)
    }

    /// `flow` has sent so many bytes of what it was granted.
    pub fn sent(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.credit = entry.credit.saturating_sub(bytes);
        if entry.acknowledges && entry.acknowledged.bytes <= entry.sent {
            entry.round_trips.opened(entry.sent, now_us, Certainty::Exact);
        } else if !entry.acknowledges {
            entry.datagrams.push_back((now_us, bytes));
        }
        (entry.sent, entry.sent_us) = (entry.sent + bytes, now_us);
    }

    /// `flow` will not send what it was granted.
    pub fn unsent(&mut self, flow: FlowId) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let credit = std::mem::take(&mut entry.credit);
        if credit > 0 {
            self.line.rest(flow, credit);
        }
    }

    /// Where datagrams of `flow` go.
    pub fn heads_for(&mut self, flow: FlowId, server: Option<IpAddr>) {
        self.flows.get_mut(&flow).expect(KNOWN).server = server;
    }

    /// Flows that wait for acknowledgements of TCP.
    pub fn unacknowledged(&self) -> impl Iterator<Item = FlowId> {
        let waits = |entry: &Flow| entry.acknowledges && entry.acknowledged.bytes < entry.sent;
        self.flows.iter().filter(move |(_, entry)| waits(entry)).map(|(&flow, _)| flow)
    }

    /// What the kernel knows of the connection of `flow`.
    pub fn acked(&mut self, now_us: u64, flow: FlowId, told: Acknowledged) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let lost = told.retransmissions.wrapping_sub(entry.acknowledged.retransmissions);
        entry.acknowledged.retransmissions = told.retransmissions;
        if lost > 0 {
            entry.round_trips.clear(); // RFC 6298, 3
            let sent_us = now_us.saturating_sub(self.line.srtt_us());
            self.line.lost(now_us, Some(flow), self.policy.segment_bytes, sent_us);
        }
        let rtt_us = if entry.observed { None } else { entry.round_trip(told.bytes, now_us) };
        self.reached(now_us, flow, told.bytes, rtt_us);
    }

    /// A packet between these ends did that at `at_us`.
    pub fn observed(&mut self, now_us: u64, at_us: u64, ends: &Ends, seen: Seen) {
        let Seen::Acknowledged { position, ticks } = seen else { return };
        let Some(&flow) = self.connections.get(ends) else { return };
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.observed = true;
        let rtt_us = entry.round_trip(position, at_us);
        if let Some(ticks) = ticks {
            let recent = self.excess.filter(|&(known_us, _)| at_us <= known_us + RECENT_US);
            let known_us = recent.map_or(0, |(_, excess_us)| excess_us);
            let reading = self.clocks.read(&mut entry.clock, at_us, ends.there.ip(), ticks);
            if reading.is_none() {
                entry.back = None;
            }
            if let Some(left) = reading {
                let new = || OneWay::new(at_us, left.us, at_us as u32, known_us);
                let back = entry.back.get_or_insert_with(new);
                let excess_us = back.excess_us(at_us, left.us, at_us as u32);
                self.excess = left.is_known.then_some((at_us, excess_us)).or(self.excess);
            }
        }
        self.reached(now_us, flow, position, rtt_us);
    }

    /// The peer of `flow` has everything before a position.
    fn reached(&mut self, now_us: u64, flow: FlowId, position: u64, rtt_us: Option<u32>) {
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        // An end of stream is acknowledged as one byte more.
        let new = position.min(entry.sent).saturating_sub(entry.acknowledged.bytes);
        entry.acknowledged.bytes += new;
        let server = entry.server;
        // A shorter segment is most likely a request, which the answer acknowledges.
        let segment = self.policy.segment_bytes;
        let lone = (segment / 2..=segment).contains(&new);
        let certainty = if lone { Certainty::UpperBound } else { Certainty::Exact };
        let sample = server.zip(rtt_us).map(|(server, rtt_us)| Sample {
            known_us: rtt_us,
            certainty,
            ..Sample::exact(paths::of(server), self.forward_us(now_us, rtt_us))
        });
        if new > 0 || sample.is_some() {
            self.arrived(now_us, flow, new, sample);
        }
    }

    /// A round trip without the queue of the way back, as far as that is known.
    fn forward_us(&self, now_us: u64, rtt_us: u32) -> u32 {
        let recent = self.excess.filter(|(at_us, _)| now_us <= at_us + u64::from(rtt_us));
        rtt_us.saturating_sub(recent.map_or(0, |(_, excess_us)| excess_us)).max(1)
    }

    /// The echo of that probe has come.
    pub fn echoed(&mut self, now_us: u64, sequence: u16) {
        let Some((server, sent_us)) = self.probe.echoed(now_us, sequence) else { return };
        let rtt_us = u32::try_from(now_us.saturating_sub(sent_us).max(1)).unwrap_or(u32::MAX);
        let datagrams = self.flows.values().filter_map(|entry| entry.datagrams.front());
        let oldest_us = datagrams.map(|&(at_us, _)| at_us).fold(sent_us, u64::min);
        let sent: Vec<(FlowId, u64)> = self
            .flows
            .iter_mut()
            .map(|(&flow, entry)| match entry.closed && entry.acknowledges {
                // Nobody can be asked what was acknowledged of a connection that is closed.
                true if entry.sent_us <= sent_us => (flow, self.line.granted_to(flow)),
                true => (flow, 0),
                false => (flow, entry.left_before(sent_us)),
            })
            .filter(|&(_, bytes)| bytes > 0)
            .collect();
        for (flow, bytes) in sent {
            self.arrived(now_us, flow, bytes, None);
        }
        // After what it waited for. Echoes are few, so datagrams are known to have arrived some time after
        // they have.
        let known_us = u32::try_from(now_us.saturating_sub(oldest_us)).unwrap_or(u32::MAX).max(rtt_us);
        let sample =
            Sample { known_us, ..Sample::exact(paths::echo(server), self.forward_us(now_us, rtt_us)) };
        self.line.arrived(now_us, self.probes, 0, Some(sample));
    }

    /// The probe to send now, right behind what was sent, if one is due.
    pub fn probe(&mut self, now_us: u64) -> Option<Request> {
        if self.line.granted_bytes() == 0 {
            return None;
        }
        let hold_us = self.line.hold_us(now_us);
        if let Some((server, sent_us)) = self.probe.give_up(now_us, hold_us) {
            // It has taken so long at least.
            let rtt_us = u32::try_from((now_us - sent_us).min(hold_us)).unwrap_or(u32::MAX);
            let bound = Sample::bound(paths::echo(server), rtt_us);
            self.line.arrived(now_us, self.probes, 0, Some(bound));
        }
        // The flow that has sent last.
        let newest = self.flows.values().filter(|entry| entry.sent > 0).max_by_key(|entry| entry.sent_us);
        self.probe.due(now_us, newest.and_then(|entry| entry.server))
    }

    /// A probe could not be sent to there.
    pub fn probe_failed(&mut self, now_us: u64, server: IpAddr) {
        self.probe.failed(now_us, server);
    }

    /// Gives up what is not used.
    pub fn expire(&mut self, now_us: u64) {
        let hold_us = self.line.hold_us(now_us);
        let idle = |entry: &Flow| entry.credit > 0 && now_us >= entry.credited_us + hold_us;
        let idle: Vec<FlowId> =
            self.flows.iter().filter(|(_, entry)| idle(entry)).map(|(&flow, _)| flow).collect();
        idle.into_iter().for_each(|flow| self.unsent(flow));
    }

    /// Gives away what there is; who can go on.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        let mut woken = Vec::new();
        loop {
            let next = self.line.next(now_us);
            let expired = self.line.take_expired();
            let again = !expired.is_empty();
            expired.into_iter().for_each(|flow| self.given_up(now_us, flow));
            let (flow, bytes) = match next {
                Next::Grant { flow, bytes } => (flow, bytes),
                _ if again => continue,
                _ => return woken,
            };
            let Some(entry) = self.flows.get_mut(&flow) else { continue };
            entry.credit += bytes;
            entry.credited_us = now_us;
            entry.wanted = 0;
            woken.extend(entry.waker.take());
        }
    }

    /// Whether time alone changes anything.
    pub fn is_busy(&self) -> bool {
        self.line.asking() > 0 || self.line.granted_bytes() > 0
    }

    /// `bytes` of `flow` have arrived.
    fn arrived(&mut self, now_us: u64, flow: FlowId, bytes: u64, sample: Option<Sample>) {
        if self.line.arrived(now_us, flow, bytes, sample) == Heard::Doubt
            && let Some(entry) = self.flows.get_mut(&flow)
        {
            entry.round_trips.clear();
        }
        self.want(flow);
        self.end(flow);
    }

    /// Nothing came of what `flow` was granted.
    fn given_up(&mut self, now_us: u64, flow: FlowId) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.datagrams.clear();
        entry.credit = 0;
        let least_us = entry.round_trips.given_up(now_us).filter(|_| !self.probe.is_live(now_us));
        if let Some((server, rtt_us)) = entry.server.zip(least_us) {
            let bound = Sample::bound(paths::of(server), rtt_us);
            self.line.arrived(now_us, flow, 0, Some(bound));
        }
        self.want(flow);
        self.end(flow);
    }

    /// `flow` asks for what it still waits for.
    fn want(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.get(&flow).filter(|entry| entry.wanted > 0 && !entry.closed) {
            let _ = match entry.acknowledges {
                true => self.line.ask(flow, entry.wanted),
                false => self.line.ask_whole(flow, entry.wanted),
            };
        }
    }

    /// A flow that is closed is over when nothing of it is under way.
    fn end(&mut self, flow: FlowId) {
        if self.flows.get(&flow).is_some_and(|entry| entry.closed) && self.line.granted_to(flow) == 0 {
            self.flows.remove(&flow);
            self.line.close(flow);
        }
    }
}

impl Flow {
    fn new(server: Option<IpAddr>, acknowledges: bool) -> Flow {
        Flow {
            server,
            acknowledges,
            ends: None,
            observed: false,
            clock: None,
            back: None,
            closed: false,
            wanted: 0,
            credit: 0,
            credited_us: 0,
            datagrams: VecDeque::new(),
            sent: 0,
            sent_us: 0,
            acknowledged: Acknowledged::default(),
            round_trips: RoundTrips::default(),
            waker: None,
        }
    }

    /// Everything before a position has arrived: the round-trip time that this shows, in microseconds.
    fn round_trip(&mut self, position: u64, at_us: u64) -> Option<u32> {
        self.round_trips.arrived(position.min(self.sent), at_us).map(|(rtt_us, _)| rtt_us)
    }

    /// Datagrams that had been sent by `sent_us` are not under way any more: how many bytes.
    fn left_before(&mut self, sent_us: u64) -> u64 {
        let gone = self.datagrams.partition_point(|&(at_us, _)| at_us <= sent_us);
        self.datagrams.drain(..gone).map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests;
