//! The window that everything shares which the gateway sends to the Internet for its users: TCP and datagrams.
//!
//! Observations go in: bytes that TCP has acknowledged ([`Uplink::acked`]), echoes of small probes ([`Uplink::echoed`]), packets
//! of the foreground ([`Uplink::home_seen`]). Grants come out ([`Uplink::grant`]): bytes that a flow may write now. Who is next, and how
//! much there is, says a [`leeway_share::Line`] of its own.
//!
//! Datagrams have no acknowledgements. A probe that is sent behind a datagram comes back when the datagram has left the queue of the
//! line, so an echo acknowledges every datagram that was sent before the probe.
//!
//! No clock and no sockets here: times are arguments, in microseconds. [`crate::upload`] has the real ones.
//!
//! # Scope and limitations
//! A delay is a round trip, so a queue on the downlink counts as one of the uplink. What TCP sends again is not granted anew: it is
//! bounded by the congestion window of the kernel.

mod probe;

use crate::path::{echo_path, path};
use crate::window::MSS_BYTES;
use leeway_control::LawSpec;
use leeway_net::{Sight, What};
use leeway_share::{Certainty, FlowId, Line, Next, Policy, Sample, State, UserId};
use probe::Probe;
pub use probe::Request;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::task::Waker;

/// After so long without a delay sample the law knows nothing of the line. Longer than a probe and its repetitions take on any path.
const BLIND_US: u64 = 3_000_000;

const KNOWN: &str = "the flow is known until it is closed";

/// What the kernel knows of the sending end of a connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Bytes of data that the other end has acknowledged since the connection began.
    pub bytes: u64,
    /// Segments that were sent again since then.
    pub retransmissions: u32,
}

/// The line, and those who send.
#[derive(Debug)]
pub struct Uplink {
    line: Line,
    probe: Probe,
    flows: BTreeMap<FlowId, Flow>,
    /// The last delay sample.
    sampled_us: Option<u64>,
}

/// One connection, or one user's port.
#[derive(Debug)]
struct Flow {
    /// Where probes go; none where the peer is not beyond the line.
    server: Option<IpAddr>,
    /// The peer acknowledges bytes, as TCP does.
    acknowledges: bool,
    /// Granted, not sent.
    credit: u64,
    /// Sent, not arrived; the oldest first.
    ledger: VecDeque<Sent>,
    /// Bytes sent since the flow began.
    sent: u64,
    acknowledged: Acknowledged,
    /// What it waits to send.
    asking: Option<u64>,
    waker: Option<Waker>,
    /// It has ended, and what it sent is under way.
    closed: bool,
}

/// Bytes that were sent together.
#[derive(Debug, Clone, Copy)]
struct Sent {
    bytes: u64,
    /// Where they end, counted since the flow began.
    end: u64,
    at_us: u64,
}

impl Uplink {
    /// One under that law, on a line of which nothing is known. `landmarks` are addresses beyond the line that probes go to where a
    /// peer does not echo.
    pub fn new(spec: &LawSpec, landmarks: Vec<IpAddr>) -> Uplink {
        let policy = Policy { flows_max: u64::MAX, ..Policy::default() };
        Uplink {
            line: Line::new(spec, &policy),
            probe: Probe::new(landmarks),
            flows: BTreeMap::new(),
            sampled_us: None,
        }
    }

    /// How it stands.
    pub fn state(&mut self, now_us: u64) -> State {
        self.line.state(now_us)
    }

    /// The home was seen. What it sends goes over this line.
    pub fn home_seen(&mut self, now_us: u64, sights: &[Sight]) {
        for sight in sights {
            if let What::Asks(bytes) = sight.what {
                self.line.foreground(now_us, sight.connection, leeway_share::Sight::Bytes(bytes));
            }
        }
    }

    /// A flow of `user` begins. `acknowledges` as for TCP. Probes go to `server`, which is beyond the line.
    pub fn open(&mut self, user: u64, server: Option<IpAddr>, acknowledges: bool) -> FlowId {
        let flow = self.line.open(UserId(user)).expect("flows are not counted");
        self.flows.insert(flow, Flow::new(server, acknowledges));
        flow
    }

    /// A flow ends. What it has sent stays under way.
    pub fn close(&mut self, flow: FlowId) {
        self.unsent(flow);
        self.line.withdraw(flow);
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        (entry.closed, entry.asking) = (true, None);
        self.forget(flow);
    }

    /// `flow` wants to send `bytes`: `waker` is woken once [`Uplink::ready`] says how many.
    pub fn ask(&mut self, now_us: u64, flow: FlowId, bytes: u64, waker: &Waker) {
        if self.ready(flow, bytes).is_some() {
            return;
        }
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.waker = Some(waker.clone());
        if entry.asking.replace(bytes).is_none() {
            self.request(now_us, flow);
        }
    }

    /// Asks the line for what `flow` waits to send.
    fn request(&mut self, now_us: u64, flow: FlowId) {
        let entry = &self.flows[&flow];
        let Some(bytes) = entry.asking else { return };
        let asked = match entry.acknowledges {
            true => self.line.ask(now_us, flow, bytes).map(drop),
            false => self.line.ask_whole(flow, bytes - entry.credit.min(bytes)),
        };
        asked.expect(KNOWN);
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
        entry.sent += bytes;
        entry.ledger.push_back(Sent { bytes, end: entry.sent, at_us: now_us });
    }

    /// `flow` will not send what it was granted.
    pub fn unsent(&mut self, flow: FlowId) {
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        self.line.forgo(flow, std::mem::take(&mut entry.credit));
    }

    /// A flow that has ended is forgotten once nothing of it is under way.
    fn forget(&mut self, flow: FlowId) {
        if self.flows[&flow].closed && self.line.granted_to(flow) == 0 {
            self.flows.remove(&flow);
            self.line.close(flow);
        }
    }

    /// Where datagrams of `flow` go.
    pub fn heads_for(&mut self, flow: FlowId, server: Option<IpAddr>) {
        self.flows.get_mut(&flow).expect(KNOWN).server = server;
    }

    /// Flows that wait for acknowledgements of TCP.
    pub fn unacknowledged(&self) -> impl Iterator<Item = FlowId> {
        self.flows
            .iter()
            .filter(|(_, entry)| entry.acknowledges && !entry.ledger.is_empty())
            .map(|(&flow, _)| flow)
    }

    /// What the kernel knows of the connection of `flow`.
    pub fn acked(&mut self, now_us: u64, flow: FlowId, told: Acknowledged) {
        let blind = self.is_blind(now_us);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let before = std::mem::replace(&mut entry.acknowledged, told);
        // An end of stream is acknowledged as one byte more.
        let arrived = told.bytes.min(entry.sent);
        let new = arrived.saturating_sub(before.bytes);
        let lost = told.retransmissions.wrapping_sub(before.retransmissions);
        let (mut released, mut last_us) = (0, None);
        while let Some(front) = entry.ledger.front_mut() {
            if front.end > arrived {
                let rest = front.bytes.min(front.end - arrived);
                released += front.bytes - rest;
                front.bytes = rest;
                break;
            }
            (released, last_us) = (released + front.bytes, Some(front.at_us));
            entry.ledger.pop_front();
        }
        // A single segment may be acknowledged late (RFC 9293, 3.8.6.3), two or more are not (RFC 5681, 4.2).
        let prompt = new >= 2 * u64::from(MSS_BYTES);
        let since_us = last_us.filter(|_| (prompt || blind) && lost == 0);
        let since_us = since_us.filter(|_| !self.probe.is_live(now_us));
        let sample = entry.server.zip(since_us);
        let sample = sample.map(|(server, at_us)| round_trip(path(server), now_us - at_us, Certainty::Exact));
        if new > 0 {
            self.sampled_us = sample.map_or(self.sampled_us, |_| Some(now_us));
            self.line.arrived(now_us, flow, released, sample);
        }
        if lost > 0 {
            // Sent a round trip ago at the earliest.
            self.line.lost(now_us, flow, MSS_BYTES.into(), now_us.saturating_sub(self.line.srtt_us()));
        }
        self.request(now_us, flow);
        self.forget(flow);
    }

    /// The echo of that probe has come.
    pub fn echoed(&mut self, now_us: u64, sequence: u16) {
        let Some((server, sent_us)) = self.probe.echoed(now_us, sequence) else { return };
        let datagrams = self.flows.iter().filter(|(_, entry)| !entry.acknowledges || entry.closed);
        for flow in datagrams.map(|(&flow, _)| flow).collect::<Vec<_>>() {
            let entry = self.flows.get_mut(&flow).expect(KNOWN);
            let released = release(&mut entry.ledger, |sent| sent.at_us <= sent_us);
            if released > 0 {
                self.line.arrived(now_us, flow, released, None);
                self.forget(flow);
            }
        }
        self.sampled_us = Some(now_us);
        self.line.sampled(now_us, round_trip(echo_path(server), now_us - sent_us, Certainty::Exact));
    }

    /// The probe to send now, right behind what was sent, if one is due.
    pub fn probe(&mut self, now_us: u64) -> Option<Request> {
        if self.line.granted_bytes() == 0 {
            return None;
        }
        let hold_us = self.line.hold_us();
        if let Some((server, sent_us)) = self.probe.give_up(now_us, hold_us) {
            // It has taken so long at least.
            let took_us = (now_us - sent_us).min(hold_us);
            self.line.sampled(now_us, round_trip(echo_path(server), took_us, Certainty::LowerBound));
        }
        // The flow that has sent last.
        let newest = self.flows.values().filter(|entry| !entry.ledger.is_empty());
        let newest = newest.max_by_key(|entry| entry.ledger.back().map(|sent| sent.at_us));
        self.probe.due(now_us, newest.and_then(|entry| entry.server))
    }

    /// A probe could not be sent to there.
    pub fn probe_failed(&mut self, now_us: u64, server: IpAddr) {
        self.probe.failed(now_us, server);
    }

    /// Gives away what there is; who can go on.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        let mut woken = Vec::new();
        loop {
            let next = self.line.next(now_us);
            let expired = self.line.take_expired();
            let again = !expired.is_empty();
            for flow in expired {
                let Some(entry) = self.flows.get_mut(&flow) else { continue };
                (entry.credit, entry.ledger) = (0, VecDeque::new());
                self.request(now_us, flow);
                self.forget(flow);
            }
            match next {
                Next::Grant { flow, bytes } => {
                    let entry = self.flows.get_mut(&flow).expect(KNOWN);
                    entry.credit += bytes;
                    entry.asking = None;
                    woken.extend(entry.waker.take());
                }
                _ if again => {}
                _ => return woken,
            }
        }
    }

    /// Whether time alone changes anything.
    pub fn is_busy(&self) -> bool {
        self.line.granted_bytes() > 0 || self.flows.values().any(|entry| entry.asking.is_some())
    }

    fn is_blind(&self, now_us: u64) -> bool {
        self.sampled_us.is_none_or(|sampled_us| now_us >= sampled_us + BLIND_US)
    }
}

fn round_trip(path: u64, took_us: u64, certainty: Certainty) -> Sample {
    Sample { path, rtt_us: u32::try_from(took_us.max(1)).unwrap_or(u32::MAX), certainty }
}

/// Takes the oldest out while `gone`; their bytes.
fn release(ledger: &mut VecDeque<Sent>, gone: impl Fn(&mut Sent) -> bool) -> u64 {
    std::iter::from_fn(|| ledger.pop_front_if(&gone)).map(|sent| sent.bytes).sum()
}

impl Flow {
    fn new(server: Option<IpAddr>, acknowledges: bool) -> Flow {
        Flow {
            server,
            acknowledges,
            credit: 0,
            ledger: VecDeque::new(),
            sent: 0,
            acknowledged: Acknowledged::default(),
            asking: None,
            waker: None,
            closed: false,
        }
    }
}

#[cfg(test)]
mod tests;
