//! The uplink: one line for everything that a gateway sends for its users, by TCP and in datagrams.
//!
//! A flow asks ([`Uplink::ask`]), is granted bytes ([`Uplink::grant`], [`Uplink::ready`]), and says
//! what it has sent ([`Uplink::sent`]). Bytes leave the ledger when the other end is known to have
//! them:
//!
//! - TCP: by acknowledgements, from the kernel ([`Uplink::told`]) or from packets
//!   ([`Uplink::acknowledged`]).
//! - Datagrams: by the echo of a small probe that was sent behind them ([`Uplink::echoed`]). The
//!   probe comes back when the datagrams before it have left the line's queue.
//!
//! A queue of the downlink is no queue of the uplink. Where packets show the clock of the other
//! end, the delay of the way back is taken out of the round trip ([`OneWay`]).
//!
//! This module has no clock and no sockets. Times are arguments, in microseconds.
//!
//! # Scope and limitations
//! Without the clock of another end, and for datagrams beside which nothing is sent by TCP, a delay
//! is that of a whole round trip. Retransmissions of TCP need no grant: the congestion window of
//! the kernel bounds them.

use crate::error::ShareError;
use crate::estimator::{Certainty, Heard, Sample};
use crate::foreground::Observation;
use crate::id::{FlowId, UserId};
use crate::line::{Line, Next, State};
use crate::oneway::{ClockReading, Excess, OneWay};
use crate::policy::Policy;
use crate::roundtrips::RoundTrips;
use leeway_control::LawSpec;
use std::collections::{BTreeMap, VecDeque};

/// The user of the flow of probes, which has no bytes.
const PROBES: UserId = UserId(u64::MAX);
/// Probes come back if one did so within the last second, in microseconds: longer than a queue and
/// the gap between two probes.
const ECHOING_US: u64 = 1_000_000;

/// What a kernel knows of the sending end of a connection (`TCP_INFO` of Linux).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Bytes of data that the other end has acknowledged since the connection began.
    pub bytes: u64,
    /// Number of segments that were retransmitted since the connection began.
    pub retransmissions: u32,
}

/// The uplink: a line and what is sent on it.
#[derive(Debug)]
pub struct Uplink {
    line: Line,
    segment_bytes: u64,
    probes: Option<FlowId>,
    flows: BTreeMap<FlowId, Entry>,
    /// The queue of the downlink, as the clocks of other ends show it.
    excess: Excess,
    /// Time of the last echo.
    echoed_us: Option<u64>,
}

/// One connection, or the datagrams of one port.
#[derive(Debug, Default)]
struct Entry {
    /// The network of the other end, which has one base delay. `None` where the other end is not
    /// beyond the line.
    path: Option<u64>,
    /// The other end acknowledges bytes, as TCP does.
    acknowledges: bool,
    /// Packets with acknowledgements are seen.
    observed: bool,
    /// One-way delay from the other end. `None` where its clock is not known.
    back: Option<OneWay>,
    /// The flow is closed. It stays until its bytes have arrived or are given up.
    closed: bool,
    /// Bytes that wait to be sent.
    wanted: u64,
    /// Granted bytes that were not sent yet, and the time of the last grant.
    credit: u64,
    credited_us: u64,
    /// Datagrams of which nothing is known yet: time of sending, and bytes; the oldest first.
    datagrams: VecDeque<(u64, u64)>,
    /// Bytes sent since the flow began, and the time at which the last ones were.
    sent: u64,
    sent_us: u64,
    acknowledged: Acknowledged,
    round_trips: RoundTrips,
}

impl Uplink {
    /// A line of which nothing is known, under the law of `spec`.
    pub fn new(spec: &LawSpec, policy: &Policy) -> Uplink {
        let policy = policy.for_sending();
        Uplink {
            line: Line::new(spec, &policy),
            segment_bytes: policy.segment_bytes,
            probes: None,
            flows: BTreeMap::new(),
            excess: Excess::default(),
            echoed_us: None,
        }
    }

    /// The present state of the line.
    pub fn state(&mut self, now_us: u64) -> State {
        self.line.state(now_us)
    }

    /// The rate of downloads, in bytes per second, whose acknowledgements leave an upload of the
    /// foreground its part ([`Line::acknowledged_bytes_per_s`]).
    pub fn acknowledged_bytes_per_s(&mut self, now_us: u64) -> u64 {
        self.line.acknowledged_bytes_per_s(now_us)
    }

    /// Records an observation of the foreground on one of its connections.
    pub fn foreground(&mut self, now_us: u64, connection: u64, observation: Observation) {
        self.line.foreground(now_us, connection, observation);
    }

    /// Opens a connection of `user` to an end on `path`. `None`: the end is not beyond the line.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn open(&mut self, user: UserId, path: Option<u64>) -> Result<FlowId, ShareError> {
        self.enter(user, Entry { path, acknowledges: true, ..Entry::default() })
    }

    /// Opens a flow for datagrams of `user`.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn datagrams(&mut self, user: UserId) -> Result<FlowId, ShareError> {
        self.enter(user, Entry::default())
    }

    fn enter(&mut self, user: UserId, entry: Entry) -> Result<FlowId, ShareError> {
        let flow = self.line.open(user)?;
        self.flows.insert(flow, entry);
        Ok(flow)
    }

    /// Closes a flow. What it has sent stays in flight.
    pub fn close(&mut self, flow: FlowId) {
        self.line.withdraw(flow);
        self.unsent(flow);
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.closed = true;
            self.end(flow);
        }
    }

    /// Requests grants for `bytes` that wait to be sent on `flow`. [`Uplink::grant`] returns the
    /// flow when [`Uplink::ready`] says how many may be sent.
    pub fn ask(&mut self, flow: FlowId, bytes: u64) {
        if self.ready(flow, bytes).is_some() {
            return;
        }
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.wanted = bytes.max(1);
            self.want(flow);
        }
    }

    /// How many bytes `flow`, which wants to send `bytes`, may send now. `None`: it has to wait. A
    /// datagram is sent whole or not at all.
    pub fn ready(&self, flow: FlowId, bytes: u64) -> Option<u64> {
        let entry = self.flows.get(&flow)?;
        let enough = if entry.acknowledges { 1 } else { bytes.max(1) };
        (entry.credit >= enough).then_some(entry.credit)
    }

    /// Records that `flow` has sent `bytes` of what it was granted.
    pub fn sent(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.credit = entry.credit.saturating_sub(bytes);
        if !entry.acknowledges {
            entry.datagrams.push_back((now_us, bytes));
        } else if entry.acknowledged.bytes <= entry.sent {
            entry.round_trips.opened(entry.sent, now_us, Certainty::Exact);
        }
        (entry.sent, entry.sent_us) = (entry.sent + bytes, now_us);
    }

    /// Records that `flow` will not send what it was granted.
    pub fn unsent(&mut self, flow: FlowId) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let credit = std::mem::take(&mut entry.credit);
        if credit > 0 {
            self.line.rest(flow, credit);
        }
    }

    /// Records that datagrams of `flow` go to an end on `path` now. `None`: it is not beyond the
    /// line.
    pub fn heads_for(&mut self, flow: FlowId, path: Option<u64>) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.path = path;
        }
    }

    /// Flows with bytes of which no acknowledgement of TCP is known.
    pub fn unacknowledged(&self) -> impl Iterator<Item = FlowId> {
        let waits = |entry: &Entry| entry.acknowledges && entry.acknowledged.bytes < entry.sent;
        self.flows.iter().filter(move |(_, entry)| waits(entry)).map(|(&flow, _)| flow)
    }

    /// Records what the kernel knows of the connection of `flow`.
    pub fn told(&mut self, now_us: u64, flow: FlowId, told: Acknowledged) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let lost = told.retransmissions.wrapping_sub(entry.acknowledged.retransmissions);
        entry.acknowledged.retransmissions = told.retransmissions;
        if lost > 0 {
            entry.round_trips.clear(); // RFC 6298, 3: no samples from retransmitted segments
            let sent_us = now_us.saturating_sub(self.line.srtt_us());
            let flow = Some(flow).filter(|_| entry.observed);
            self.line.lost(now_us, flow, self.segment_bytes, sent_us);
        }
        let rtt_us = if entry.observed { None } else { entry.round_trip(told.bytes, now_us) };
        self.reached(now_us, flow, told.bytes, rtt_us);
    }

    /// Records an acknowledgement of everything before `position` that a packet of `flow` brought
    /// at `at_us`. `clock` is the clock of the other end when the packet left. `None` where the
    /// packet does not tell it.
    pub fn acknowledged(
        &mut self,
        now_us: u64,
        at_us: u64,
        flow: FlowId,
        position: u64,
        clock: Option<ClockReading>,
    ) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.observed = true;
        let rtt_us = entry.round_trip(position, at_us);
        if let Some(path) = entry.path {
            self.excess.read(path, &mut entry.back, at_us, clock);
        }
        self.reached(now_us, flow, position, rtt_us);
    }

    /// Records that the other end of `flow` has everything before `position`.
    fn reached(&mut self, now_us: u64, flow: FlowId, position: u64, rtt_us: Option<u32>) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        // An end of stream is acknowledged as one byte more.
        let new = position.min(entry.sent).saturating_sub(entry.acknowledged.bytes);
        entry.acknowledged.bytes += new;
        let path = entry.path;
        // A shorter segment is most likely a request, which the response acknowledges.
        let lone = (self.segment_bytes / 2..=self.segment_bytes).contains(&new);
        let certainty = if lone { Certainty::UpperBound } else { Certainty::Exact };
        let sample = path.zip(rtt_us).map(|(path, rtt_us)| Sample {
            known_us: rtt_us,
            certainty,
            ..Sample::exact(path, self.forward_us(now_us, rtt_us))
        });
        if new > 0 || sample.is_some() {
            self.arrived(now_us, flow, new, sample);
        }
    }

    /// A round trip without the queue of the way back, as far as that queue is known.
    fn forward_us(&self, now_us: u64, rtt_us: u32) -> u32 {
        rtt_us.saturating_sub(self.excess.since(now_us.saturating_sub(rtt_us.into()))).max(1)
    }

    /// Records the echo of a probe that was sent at `sent_us` to an end on `path`. The echo
    /// acknowledges all datagrams that were sent before the probe.
    pub fn echoed(&mut self, now_us: u64, path: u64, sent_us: u64) {
        self.echoed_us = Some(now_us);
        let datagrams = self.flows.values().filter_map(|entry| entry.datagrams.front());
        let oldest_us = datagrams.map(|&(at_us, _)| at_us).fold(sent_us, u64::min);
        let line = &self.line;
        let sent: Vec<(FlowId, u64)> = self
            .flows
            .iter_mut()
            .map(|(&flow, entry)| match entry.closed && entry.acknowledges {
                // Nobody can be asked what was acknowledged of a closed connection.
                true if entry.sent_us <= sent_us => (flow, line.granted_to(flow)),
                true => (flow, 0),
                false => (flow, entry.left_before(sent_us)),
            })
            .filter(|&(_, bytes)| bytes > 0)
            .collect();
        for (flow, bytes) in sent {
            self.arrived(now_us, flow, bytes, None);
        }
        // Echoes are few, so datagrams are known to have arrived some time after they have.
        let rtt_us = passed_us(sent_us, now_us);
        let known_us = passed_us(oldest_us, now_us).max(rtt_us);
        self.probed(now_us, Sample { known_us, ..Sample::exact(path, self.forward_us(now_us, rtt_us)) });
    }

    /// Records that the echo of a probe to an end on `path` has not come for `waited_us`.
    pub fn unechoed(&mut self, now_us: u64, path: u64, waited_us: u32) {
        self.probed(now_us, Sample::bound(path, waited_us));
    }

    fn probed(&mut self, now_us: u64, sample: Sample) {
        if self.probes.is_none() {
            self.probes = self.line.open(PROBES).ok();
        }
        if let Some(probes) = self.probes {
            self.line.arrived(now_us, probes, 0, Some(sample));
        }
    }

    /// Whether anything is in flight, behind which a probe can be sent.
    pub fn is_sending(&self) -> bool {
        self.line.granted_bytes() > 0
    }

    /// How long a grant or a probe of which nothing is heard is waited for, in microseconds.
    pub fn hold_us(&self, now_us: u64) -> u64 {
        self.line.hold_us(now_us)
    }

    /// Takes back grants that were not used in time.
    pub fn expire(&mut self, now_us: u64) {
        let hold_us = self.line.hold_us(now_us);
        let idle = |entry: &Entry| entry.credit > 0 && now_us >= entry.credited_us + hold_us;
        let idle: Vec<FlowId> =
            self.flows.iter().filter(|(_, entry)| idle(entry)).map(|(&flow, _)| flow).collect();
        idle.into_iter().for_each(|flow| self.unsent(flow));
    }

    /// Gives all grants that are possible now. Returns the flows that may send.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<FlowId> {
        let mut woken = Vec::new();
        loop {
            let next = self.line.next(now_us);
            let expired = self.line.take_expired();
            let again = !expired.is_empty();
            expired.into_iter().for_each(|flow| self.given_up(now_us, flow));
            match next {
                Next::Grant { flow, bytes } => {
                    if let Some(entry) = self.flows.get_mut(&flow) {
                        entry.credit += bytes;
                        (entry.credited_us, entry.wanted) = (now_us, 0);
                        woken.push(flow);
                    }
                }
                _ if again => {}
                _ => return woken,
            }
        }
    }

    /// Whether time alone changes anything: a flow waits for a grant, an arrival or an expiry.
    pub fn is_busy(&self) -> bool {
        self.line.asking() > 0 || self.is_sending()
    }

    /// Records that `bytes` of `flow` have arrived.
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
        let is_probed = self.echoed_us.is_some_and(|at_us| now_us < at_us + ECHOING_US);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.datagrams.clear();
        entry.credit = 0;
        let least_us = entry.round_trips.given_up(now_us).filter(|_| !is_probed);
        if let Some((path, rtt_us)) = entry.path.zip(least_us) {
            self.line.arrived(now_us, flow, 0, Some(Sample::bound(path, rtt_us)));
        }
        self.want(flow);
        self.end(flow);
    }

    /// Requests a grant for what `flow` still waits to send.
    fn want(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.get(&flow).filter(|entry| entry.wanted > 0 && !entry.closed) {
            let _ = match entry.acknowledges {
                true => self.line.ask(flow, entry.wanted),
                false => self.line.ask_whole(flow, entry.wanted),
            };
        }
    }

    /// Forgets a closed flow when nothing of it is in flight.
    fn end(&mut self, flow: FlowId) {
        if self.flows.get(&flow).is_some_and(|entry| entry.closed) && self.line.granted_to(flow) == 0 {
            self.flows.remove(&flow);
            self.line.close(flow);
        }
    }
}

impl Entry {
    /// Everything before `position` has arrived. Returns the round-trip time that this shows, in
    /// microseconds.
    fn round_trip(&mut self, position: u64, at_us: u64) -> Option<u32> {
        self.round_trips.arrived(position.min(self.sent), at_us).map(|(rtt_us, _)| rtt_us)
    }

    /// Takes the datagrams that were sent by `sent_us` out of those in flight. Returns their bytes.
    fn left_before(&mut self, sent_us: u64) -> u64 {
        let gone = self.datagrams.partition_point(|&(at_us, _)| at_us <= sent_us);
        self.datagrams.drain(..gone).map(|(_, bytes)| bytes).sum()
    }
}

fn passed_us(at_us: u64, now_us: u64) -> u32 {
    u32::try_from(now_us.saturating_sub(at_us).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
