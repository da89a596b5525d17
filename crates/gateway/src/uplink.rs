//! The window that everything shares which the gateway sends to the Internet for its users: TCP and datagrams.
//!
//! Observations go in: bytes that TCP has acknowledged ([`Uplink::acked`]), echoes of small probes ([`Uplink::echoed`]), packets
//! of the foreground ([`Uplink::home_seen`]). Grants come out ([`Uplink::grant`]): bytes that a flow may write now. A law keeps the bytes
//! that were granted and have not arrived below its window; users take turns by deficit round robin, as for downloads
//! ([`crate::admission`]), and the whole window yields to the foreground ([`leeway_tunnel::Standby`]).
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

use crate::admission::Admission;
use crate::budget::State;
use crate::delay::Route;
use crate::edges::RoundTrip;
use crate::feedback::{Arrival, Feedback};
use crate::window::MSS_BYTES;
use leeway_control::LawSpec;
use leeway_net::Sight;
use leeway_tunnel::Standby;
use probe::Probe;
pub use probe::Request;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::task::Waker;

/// The law of the uplink, if nothing else is asked for. 6 ms are a full packet at 2 Mbit/s. The floor is one packet,
/// half of the usual one, because on 512 kbit/s a packet takes 24 ms; with less a probe behind a packet would be taken for a queue.
pub const LAW: &str =
    "ledbat:target=6ms,gain_up=0.2,floor=1,filter_length=1,slow_start=delay,accelerate=0.04,retreat=2";

/// After so long without a delay sample the law knows nothing of the line. Longer than a probe and its repetitions take on any path.
const BLIND_US: u64 = 3_000_000;
/// How long bytes count as under way while nothing is known of the line: one initial window a second (RFC 6298, 2.1), 47 kbit/s.
const BLIND_HOLD_US: u64 = 1_000_000;
/// A grant for TCP is this part of the window at most, so that a window is several turns.
const WINDOW_PARTS: u64 = 4;
/// And so much at most, in bytes: what one write takes.
const GRANT_BYTES: u64 = 64 * 1024;

/// Of what comes without a sample.
const NOWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

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
    admission: Admission,
    standby: Standby,
    feedback: Feedback,
    probe: Probe,
    next: u64,
    flows: BTreeMap<u64, Flow>,
    /// Of flows that were closed while their bytes were under way.
    orphans: VecDeque<Sent>,
    /// The last delay sample.
    sampled_us: Option<u64>,
}

/// What one connection or one user's port has of it.
#[derive(Debug)]
struct Flow {
    user: u64,
    /// Where probes go; none where the peer is not beyond the line.
    server: Option<IpAddr>,
    /// The peer acknowledges bytes, as TCP does.
    acknowledges: bool,
    /// Granted, not sent.
    credit: u64,
    credited_us: u64,
    /// Sent, not arrived; the oldest first.
    ledger: VecDeque<Sent>,
    /// Bytes sent since the flow began.
    sent: u64,
    acknowledged: Acknowledged,
    asking: bool,
    waker: Option<Waker>,
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
    /// One under that law, of which nobody has anything. `landmarks` are addresses beyond the line that probes go to where a peer does
    /// not echo.
    pub fn new(spec: &LawSpec, landmarks: Vec<IpAddr>) -> Uplink {
        // A queue of 9 ms is as short as timers let it be on any line: the law is told what is seen.
        let feedback = Feedback::new(spec, false);
        Uplink {
            admission: Admission::new(feedback.window_bytes()),
            standby: Standby::default(),
            feedback,
            probe: Probe::new(landmarks),
            next: 0,
            flows: BTreeMap::new(),
            orphans: VecDeque::new(),
            sampled_us: None,
        }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        State {
            window_bytes: self.admission.window_bytes(),
            outstanding_bytes: self.admission.outstanding_bytes(),
            queuing_delay_us: self.feedback.queuing_delay_us(),
            srtt_us: self.feedback.srtt_us(),
            waiting: self.admission.waiting(),
            aside_us: self.standby.total_us(),
        }
    }

    /// The foreground is at work: who waits yields.
    pub fn home_seen(&mut self, now_us: u64, _sight: Sight) {
        self.standby.seen(now_us, self.feedback.srtt_us().into());
    }

    /// A flow of `user` begins; its number. `acknowledges` as for TCP. Probes go to `server`, which is beyond the line.
    pub fn open(&mut self, user: u64, server: Option<IpAddr>, acknowledges: bool) -> u64 {
        self.next += 1;
        self.admission.open(user, self.next);
        self.flows.insert(self.next, Flow::new(user, server, acknowledges));
        self.next
    }

    /// A flow ends. What it has sent stays under way.
    pub fn close(&mut self, flow: u64) {
        let Some(entry) = self.flows.remove(&flow) else { return };
        self.admission.release(entry.credit);
        self.orphans.extend(entry.ledger);
        self.orphans.make_contiguous().sort_by_key(|sent| sent.at_us);
        self.admission.close(entry.user, flow);
    }

    /// `flow` wants to send `bytes`: `waker` is woken once [`Uplink::ready`] says how many.
    pub fn ask(&mut self, flow: u64, bytes: u64, waker: &Waker) {
        if self.ready(flow, bytes).is_some() {
            return;
        }
        let most = (self.admission.window_bytes() / WINDOW_PARTS).clamp(MSS_BYTES.into(), GRANT_BYTES);
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.waker = Some(waker.clone());
        if !entry.asking {
            entry.asking = true;
            let wanted = if entry.acknowledges { bytes.min(most) } else { bytes - entry.credit };
            self.admission.ask(entry.user, flow, wanted.max(1));
        }
    }

    /// What `flow`, which wants to send `bytes`, may send now, if it may. A datagram goes whole or not at all.
    pub fn ready(&self, flow: u64, bytes: u64) -> Option<u64> {
        let entry = self.flows.get(&flow)?;
        let enough = if entry.acknowledges { 1 } else { bytes.max(1) };
        (entry.credit >= enough).then_some(entry.credit)
    }

    /// `flow` has sent so many bytes of what it was granted.
    pub fn sent(&mut self, now_us: u64, flow: u64, bytes: u64) {
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        entry.credit = entry.credit.saturating_sub(bytes);
        entry.sent += bytes;
        entry.ledger.push_back(Sent { bytes, end: entry.sent, at_us: now_us });
    }

    /// `flow` will not send what it was granted.
    pub fn unsent(&mut self, flow: u64) {
        let entry = self.flows.get_mut(&flow).expect(KNOWN);
        self.admission.release(std::mem::take(&mut entry.credit));
    }

    /// Where datagrams of `flow` go.
    pub fn heads_for(&mut self, flow: u64, server: Option<IpAddr>) {
        self.flows.get_mut(&flow).expect(KNOWN).server = server;
    }

    /// Flows that wait for acknowledgements of TCP.
    pub fn unacknowledged(&self) -> impl Iterator<Item = u64> {
        self.flows
            .iter()
            .filter(|(_, entry)| entry.acknowledges && !entry.ledger.is_empty())
            .map(|(&flow, _)| flow)
    }

    /// What the kernel knows of the connection of `flow`.
    pub fn acked(&mut self, now_us: u64, flow: u64, told: Acknowledged) {
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
        let sample = sample.map(|(server, at_us)| (Route::of(server), round_trip(now_us, at_us)));
        let prior = self.admission.outstanding_bytes();
        self.admission.release(released);
        if lost > 0 {
            // Sent a round trip ago at the earliest.
            self.feedback.lost(now_us, now_us, MSS_BYTES.into(), self.admission.outstanding_bytes());
        }
        if new > 0 || lost > 0 {
            self.tell(now_us, sample, released, prior);
        }
    }

    /// The echo of that probe has come.
    pub fn echoed(&mut self, now_us: u64, sequence: u16) {
        let Some((server, sent_us)) = self.probe.echoed(now_us, sequence) else { return };
        let prior = self.admission.outstanding_bytes();
        let before = |sent: &mut Sent| sent.at_us <= sent_us;
        let mut released = release(&mut self.orphans, before);
        for entry in self.flows.values_mut().filter(|entry| !entry.acknowledges) {
            released += release(&mut entry.ledger, before);
        }
        self.admission.release(released);
        self.tell(now_us, Some((Route::echo(server), round_trip(now_us, sent_us))), released, prior);
    }

    /// The probe to send now, right behind what was sent, if one is due.
    pub fn probe(&mut self, now_us: u64) -> Option<Request> {
        if self.admission.outstanding_bytes() == 0 {
            return None;
        }
        let (missed, hold_us) =
            (self.probe.give_up(now_us, self.feedback.hold_us()), self.feedback.hold_us());
        if let Some((server, sent_us)) = missed {
            // It has taken so long at least.
            let rtt_us = u32::try_from((now_us - sent_us).min(hold_us)).unwrap_or(u32::MAX);
            let late = RoundTrip { rtt_us, exact: false, late: true };
            let prior = self.admission.outstanding_bytes();
            self.tell(now_us, Some((Route::echo(server), late)), 0, prior);
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

    /// Gives up what has not arrived for so long that it never will, or is not used.
    pub fn expire(&mut self, now_us: u64) {
        let hold_us = self.feedback.hold_us();
        // Nothing but the time says when a datagram has arrived, if no probe comes back.
        let blind_us = if self.is_blind(now_us) { hold_us.max(BLIND_HOLD_US) } else { hold_us };
        let mut released = release(&mut self.orphans, |sent| now_us >= sent.at_us + blind_us);
        for entry in self.flows.values_mut() {
            let hold_us = if entry.acknowledges { hold_us } else { blind_us };
            released += release(&mut entry.ledger, |sent| now_us >= sent.at_us + hold_us);
            if entry.credit > 0 && now_us >= entry.credited_us + hold_us {
                released += std::mem::take(&mut entry.credit);
            }
        }
        self.admission.release(released);
    }

    /// Gives away what there is; who can go on.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        if self.standby.hold(now_us, self.admission.waiting() > 0).is_some() {
            return Vec::new();
        }
        let mut woken = Vec::new();
        while let Some(grant) = self.admission.grant(now_us) {
            let Some(entry) = self.flows.get_mut(&grant.flow) else {
                self.admission.release(grant.bytes);
                continue;
            };
            entry.asking = false;
            entry.credit += grant.bytes;
            entry.credited_us = now_us;
            woken.extend(entry.waker.take());
        }
        woken
    }

    /// Whether time alone changes anything.
    pub fn is_busy(&self) -> bool {
        self.admission.waiting() > 0 || self.admission.outstanding_bytes() > 0
    }

    fn is_blind(&self, now_us: u64) -> bool {
        self.sampled_us.is_none_or(|sampled_us| now_us >= sampled_us + BLIND_US)
    }

    /// Tells the law what has arrived, of `prior_bytes` that were outstanding, and a delay sample if there is one.
    fn tell(&mut self, now_us: u64, sample: Option<(Route, RoundTrip)>, bytes: u64, prior_bytes: u64) {
        self.standby.ours(now_us, self.feedback.srtt_us().into());
        let waiting = self.admission.waiting() > 0;
        // Who waits does so because the next packet does not fit: the window is used as far as packets go.
        let prior_bytes = if waiting { prior_bytes.max(self.admission.window_bytes()) } else { prior_bytes };
        let arrival = Arrival {
            bytes,
            prior_bytes,
            outstanding_bytes: self.admission.outstanding_bytes(),
            waiting,
            aside: self.standby.is_aside(),
        };
        let route = sample.map_or(Route::of(NOWHERE), |(route, _)| route);
        if self.feedback.arrived(now_us, route, sample.map(|(_, round_trip)| round_trip), arrival) {
            self.sampled_us = Some(now_us);
        }
        // Datagrams are acknowledged no more often than probes go out.
        let pace_us = u64::from(self.feedback.srtt_us()).max(probe::GAP_US);
        self.admission.set_window(self.feedback.window_bytes(), pace_us, true);
    }
}

/// From then to now.
fn round_trip(now_us: u64, at_us: u64) -> RoundTrip {
    let rtt_us = u32::try_from(now_us.saturating_sub(at_us).max(1)).unwrap_or(u32::MAX);
    RoundTrip { rtt_us, exact: true, late: false }
}

/// Takes the oldest out while `gone`; their bytes.
fn release(ledger: &mut VecDeque<Sent>, gone: impl Fn(&mut Sent) -> bool) -> u64 {
    std::iter::from_fn(|| ledger.pop_front_if(&gone)).map(|sent| sent.bytes).sum()
}

impl Flow {
    fn new(user: u64, server: Option<IpAddr>, acknowledges: bool) -> Flow {
        Flow {
            user,
            server,
            acknowledges,
            credit: 0,
            credited_us: 0,
            ledger: VecDeque::new(),
            sent: 0,
            acknowledged: Acknowledged::default(),
            asking: false,
            waker: None,
        }
    }
}

#[cfg(test)]
mod tests;
