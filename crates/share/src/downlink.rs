//! This module has no clock and no sockets. Times are arguments, in microseconds. A connection is
//! a [`Receiver`]: in the gateway a socket, in the simulator a model.

use crate::early::Early;
use crate::error::ShareError;
use crate::estimator::{Certainty, Heard, Sample};
use crate::foreground::Observation;
use crate::id::{FlowId, UserId};
use crate::line::{Line, Next, State};
use crate::observed::{Arrived, Observed};
use crate::oneway::{ClockReading, Excess, OneWay};
use crate::policy::Policy;
use crate::receiver::Receiver;
use crate::roundtrips::RoundTrips;
use leeway_control::LawSpec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A full segment on Ethernet, in bytes: 1500 less the headers of IPv4 and TCP (RFC 9293, 3.7.1).
pub const MSS_BYTES: u32 = 1460;
/// The least segment size, in bytes: every host takes it (RFC 9293, 3.7.1).
const LEAST_MSS_BYTES: u64 = 536;
/// The smallest window of one connection, in bytes: two segments, because a sender cuts its
/// segments to half of the window (RFC 9293, 3.8.6.2.1).
const LEAST_BYTES: u64 = 2 * MSS_BYTES as u64;
/// The largest window of one connection, in bytes: that of Linux (`tcp_rmem`).
const MOST_BYTES: u64 = 6 << 20;
/// Windows up to this size, in bytes, are filled at once by a new connection (RFC 6928).
const BURST_BYTES: u64 = 10 * MSS_BYTES as u64;
/// Bytes read within this time after arrival, in microseconds, have not waited for the program.
const AT_ONCE_US: u64 = 1000;

/// Segments out of order that indicate a loss (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;

const KNOWN: &str = "the flow is known until it is dropped";

/// Segments of up to `mss / SMALL` bytes are small: a line takes about the same time for each.
const SMALL: u64 = 4;

/// The downlink: a line and its downloads.
#[derive(Debug)]
pub struct Downlink {
    line: Line,
    flows: BTreeMap<FlowId, Entry>,
    /// Flows whose waiting has ended. [`Downlink::grant`] returns them next.
    woken: Vec<FlowId>,
    /// Granted bytes of all flows that no announcement covers yet.
    idle_bytes: u64,
    /// The queue of the downlink, as servers' clocks show it.
    excess: Excess,
}

/// One connection, or the datagrams of one port. Positions count bytes since it began.
#[derive(Debug)]
struct Entry {
    /// The network of the server, which has one base delay. 0 for datagrams.
    path: u64,
    /// Round trips from the packets of the connection. `None` where packets are not seen.
    observed: Option<Observed>,
    /// One-way delay from the server. `None` where the server's clock is not known.
    back: Option<OneWay>,
    /// Segments that arrived out of order, from the packets of the connection.
    early: Early,
    /// Granted bytes that no announcement covers yet.
    idle: u64,
    socket: Option<Arc<dyn Receiver>>,
    mss: u64,
    /// The receive window, in bytes. The server may send up to `read + window`.
    window: u64,
    /// Bytes the server may still send. More than `window` right after it shrank, because TCP
    /// must not take back what it announced (RFC 9293, 3.8.6). 0: tell the kernel again.
    held: u64,
    /// The highest right edge of the window that was opened for the server.
    edge: u64,
    arrived: u64,
    arrived_us: u64,
    /// Position at which the bytes that arrived last begin.
    unread_from: u64,
    /// Bytes beyond `edge` that the kernel has let through. `None` before any has arrived.
    slack: Option<u64>,
    read: u64,
    /// Position at which the present response ends, if that is known.
    end: Option<u64>,
    /// Position at which the response to the last granted request begins.
    start: Option<u64>,
    /// The last grant was given up because nothing arrived.
    silent: bool,
    round_trips: RoundTrips,
    asked_us: u64,
    /// Value of the kernel's counter of segments out of order at the last look.
    out_of_order: u32,
    /// Datagrams that count as in flight: time of the grant in microseconds, and bytes.
    datagrams: VecDeque<(u64, u64)>,
    waits: Waits,
}

/// One segment with data that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The position of the first byte: bytes of the connection before it.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The server's clock when the segment left. `None` where the segment carries no timestamp.
    pub clock: Option<ClockReading>,
}

/// What a flow waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// No grant.
    Not,
    /// All of this many bytes, in one or several grants.
    Whole(u64),
    /// A grant of any size, so that bytes in the socket may be read.
    Read,
    /// A grant of any size, with which the window grows at the next read.
    More,
    /// No grant before the bytes granted ahead are below [`Line::ahead_bytes`]; then `More`.
    Ahead,
    /// The grant was given, and the flow's task has not asked again yet.
    Granted,
}

impl Downlink {
    /// A line of which nothing is known, under the law of `spec`.
    pub fn new(spec: &LawSpec, policy: &Policy) -> Downlink {
        Downlink {
            line: Line::new(spec, policy),
            flows: BTreeMap::new(),
            woken: Vec::new(),
            idle_bytes: 0,
            excess: Excess::default(),
        }
    }

    /// The present state of the line.
    pub fn state(&mut self, now_us: u64) -> State {
        self.line.state(now_us)
    }

    /// Records an observation of the foreground on one of its connections.
    pub fn foreground(&mut self, now_us: u64, connection: u64, observation: Observation) {
        self.line.foreground(now_us, connection, observation);
    }

    /// Opens a connection of `user` to a server on `path`, and returns its flow. Paths of the
    /// same number share one base delay. 0 is no path.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn open(&mut self, now_us: u64, user: UserId, path: u64) -> Result<FlowId, ShareError> {
        self.enter(user, Entry::new(now_us, path))
    }

    /// Opens a flow for datagrams of `user`.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn datagrams(&mut self, now_us: u64, user: UserId) -> Result<FlowId, ShareError> {
        self.enter(user, Entry::new(now_us, 0))
    }

    fn enter(&mut self, user: UserId, entry: Entry) -> Result<FlowId, ShareError> {
        let flow = self.line.open(user)?;
        self.flows.insert(flow, entry);
        Ok(flow)
    }

    /// Ends a flow. Its bytes in flight leave the ledger.
    pub fn close(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.remove(&flow) {
            self.idle_bytes -= entry.idle;
            self.line.set_idle_bytes(self.idle_bytes);
        }
        self.line.close(flow);
    }

    /// Attaches the socket of `flow` after its connection is established. The window is a whole
    /// number of segments: a sender keeps back a part of a segment, which would count as in
    /// flight and not arrive.
    pub fn connected(&mut self, flow: FlowId, socket: Arc<dyn Receiver>) {
        let entry = self.entry(flow);
        entry.mss =
            socket.segment_bytes().map_or(entry.mss, |mss| u64::from(mss).clamp(LEAST_MSS_BYTES, entry.mss));
        let least = 2 * entry.mss;
        if socket.bound_window(entry.bound(least), 0) {
            (entry.window, entry.edge) = (least, least);
            // The kernel sizes its window anew with the first segment: tell it again.
            entry.held = 0;
        }
        entry.socket = Some(socket);
    }

    /// The window of `flow`, in bytes.
    pub fn window_bytes(&self, flow: FlowId) -> u64 {
        self.flows.get(&flow).map_or(LEAST_BYTES, |entry| entry.window)
    }

    /// Bytes of `flow` that were read since its connection began.
    pub fn position(&self, flow: FlowId) -> u64 {
        self.flows.get(&flow).map_or(0, |entry| entry.read)
    }

    /// Returns whether a part of a request may be sent, so that the server may respond with the
    /// window of the connection. Room is requested once per request, and not while a response
    /// arrives. After `false`, [`Downlink::grant`] returns the flow when it can ask again. The
    /// same holds for [`Downlink::follow`] and [`Downlink::datagram`].
    pub fn start(&mut self, flow: FlowId) -> bool {
        let entry = self.entry(flow);
        if entry.read < entry.arrived {
            return true;
        }
        if let Some(ready) = self.waited(flow) {
            return ready;
        }
        let under_way = self.line.granted_to(flow) > 0;
        let entry = self.entry(flow);
        let goes_on = entry.start == Some(entry.arrived);
        if goes_on {
            // The response begins a round trip after the last part of the request. Until then its
            // room is free for other flows.
            entry.forget();
            entry.observed.iter_mut().for_each(Observed::ask);
            self.line.forgo(flow, u64::MAX);
            return true;
        }
        if under_way {
            return true;
        }
        entry.end = None;
        entry.forget();
        let window = entry.whole(entry.window);
        self.wait(flow, Waits::Whole(window));
        false
    }

    /// Returns how many of the `unread` bytes in the socket may be read now. `None`: wait.
    pub fn follow(&mut self, flow: FlowId, unread: u64) -> Option<u64> {
        if let Some(false) = self.waited(flow) {
            return None;
        }
        let free = self.free(flow, unread);
        if free >= unread.min(self.entry(flow).mss) {
            return Some(free);
        }
        // The server's bytes in flight are at its limit. It goes on when they arrive or expire.
        if self.wait(flow, Waits::Read) > 0 || self.line.granted_to(flow) > 0 || free == 0 {
            return None;
        }
        self.entry(flow).waits = Waits::Not;
        Some(free)
    }

    /// Returns whether a datagram of `bytes` that has arrived may be let in.
    pub fn datagram(&mut self, flow: FlowId, bytes: u64) -> bool {
        self.waited(flow).unwrap_or_else(|| {
            self.wait(flow, Waits::Whole(bytes.max(1)));
            false
        })
    }

    /// Whether the grant that `flow` waited for was given. `None` if it did not wait.
    fn waited(&mut self, flow: FlowId) -> Option<bool> {
        let entry = self.entry(flow);
        match entry.waits {
            Waits::Not | Waits::More | Waits::Ahead => return None,
            Waits::Granted => entry.waits = Waits::Not,
            Waits::Whole(_) | Waits::Read => {}
        }
        Some(entry.waits == Waits::Not)
    }

    /// Lets `flow` wait for a grant. Returns the bytes that are requested now.
    fn wait(&mut self, flow: FlowId, waits: Waits) -> u64 {
        self.entry(flow).waits = waits;
        self.ask(flow)
    }

    /// Bytes of `unread` that `flow` may read without a grant: those that do not move the
    /// window's edge beyond the granted bytes, and all of a response's end, because nothing
    /// follows. After a grant was given up, one segment: the server may wait for a client that
    /// has not read the last segment.
    fn free(&self, flow: FlowId, unread: u64) -> u64 {
        let Some(entry) = self.flows.get(&flow) else { return 0 };
        let granted = entry.reached() + self.line.granted_to(flow);
        if entry.end.is_some_and(|end| granted >= end) {
            return unread;
        }
        let least = if entry.silent { entry.mss } else { 0 };
        granted.max(entry.edge).saturating_sub(entry.read + 2 * entry.mss).max(least).min(unread)
    }

    /// Updates the granted bytes of `flow` that no announcement covers yet, and their sum.
    fn count_idle(&mut self, flow: FlowId) {
        let granted_to = self.line.granted_to(flow);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let idle = (entry.reached() + granted_to).saturating_sub(entry.announced().max(entry.arrived));
        self.idle_bytes = self.idle_bytes - std::mem::replace(&mut entry.idle, idle) + idle;
        self.line.set_idle_bytes(self.idle_bytes);
    }

    /// Requests the grant that `flow` waits for. Returns the bytes that are requested now.
    fn ask(&mut self, flow: FlowId) -> u64 {
        let reach = self.line.reach_bytes(flow);
        let granted_to = self.line.granted_to(flow);
        let Some(entry) = self.flows.get(&flow) else { return 0 };
        let asked = match entry.waits {
            Waits::Not | Waits::Granted | Waits::Ahead => return 0,
            Waits::Whole(bytes) if entry.path == 0 => self.line.ask_whole(flow, bytes),
            Waits::Whole(bytes) => self.line.ask(flow, bytes),
            Waits::Read | Waits::More => {
                let granted = entry.reached() + granted_to;
                let to_come = entry.end.map_or(u64::MAX, |end| end.saturating_sub(granted));
                let same = entry.edge.max(entry.arrived + entry.window).saturating_sub(granted);
                // A server that sends less than a segment needs no larger window. A larger grant
                // that does not fit would delay a response until bytes in flight are given up.
                let short = entry.waits == Waits::Read && entry.arrived < entry.read + entry.mss;
                let growth = if short { 0 } else { reach.min(entry.most()).saturating_sub(entry.window) };
                self.line.ask(flow, (same + growth).min(to_come))
            }
        };
        asked.unwrap_or(0)
    }

    /// A packet to the server of `flow` left at `at_us`. It acknowledged everything before a
    /// position, and announced a right edge of the window.
    pub fn announced(&mut self, now_us: u64, at_us: u64, flow: FlowId, acknowledged: u64, edge: u64) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.observed.get_or_insert_default().announced(at_us, acknowledged, edge);
            self.charge(now_us, flow, edge);
        }
    }

    /// Records that data left for the server of `flow` at `at_us`.
    pub fn sent(&mut self, at_us: u64, flow: FlowId) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.observed.get_or_insert_default().sent(at_us);
        }
    }

    /// Records a segment of `flow` that arrived at `at_us`.
    pub fn segment(&mut self, now_us: u64, at_us: u64, flow: FlowId, segment: Segment) {
        let Segment { from, bytes, clock } = segment;
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let excess_us = self.excess.read(entry.path, &mut entry.back, at_us, clock);
        let observed = entry.observed.get_or_insert_default();
        let arrived = observed.arrived(at_us, from, bytes, entry.mss);
        let Some(Arrived { position, round_trip }) = arrived else {
            if from > entry.arrived && from.saturating_add(bytes) <= entry.announced() {
                self.came_early(now_us, flow, from, bytes);
            }
            return;
        };
        let position = position.max(entry.arrived);
        let is_small = bytes * SMALL <= entry.mss;
        let path = if is_small { small_path(entry.path) } else { entry.path };
        let sample = round_trip.map(|(rtt_us, certainty)| {
            let base_us = self.line.base_us(path).zip(excess_us);
            let queued_us =
                base_us.map_or(u32::MAX, |(base_us, excess_us)| base_us.saturating_add(excess_us));
            let certainty = if is_small { Certainty::Exact } else { certainty };
            Sample { known_us: rtt_us, certainty, ..Sample::exact(path, rtt_us.min(queued_us)) }
        });
        self.came(now_us, flow, position, sample);
    }

    fn came_early(&mut self, now_us: u64, flow: FlowId, from: u64, bytes: u64) {
        let (srtt_us, present) = (self.line.srtt_us(), self.line.is_present(now_us));
        let entry = self.entry(flow);
        let bytes = entry.early.came(from, bytes);
        // While the foreground is present, small windows need fewer than three segments to
        // indicate a loss, so nearly every loss counts. While it is away, three are needed, as
        // for any sender.
        let duplicates = if present { entry.duplicates() } else { DUPLICATES };
        let lost = entry.early.says_lost(duplicates).then_some(entry.mss);
        if let Some(mss) = lost {
            self.line.lost(now_us, Some(flow), mss, now_us.saturating_sub(srtt_us));
        }
        if bytes > 0 {
            self.line.arrived(now_us, flow, bytes, None);
        }
    }

    /// Limits the rate of grants from now on, in bytes per second (see
    /// [`Line::acknowledged_bytes_per_s`]).
    pub fn set_most_bytes_per_s(&mut self, bytes_per_s: u64) {
        self.line.set_most_bytes_per_s(bytes_per_s);
    }

    /// Counts the bytes up to `edge` that the kernel let the server of `flow` send beyond the
    /// grants. The kernel announces the window again when bytes arrive, before the program reads
    /// them.
    fn charge(&mut self, now_us: u64, flow: FlowId, edge: u64) {
        let granted_to = self.line.granted_to(flow);
        let entry = self.entry(flow);
        let granted = entry.reached() + granted_to;
        let edge = edge.min(entry.end.unwrap_or(u64::MAX));
        let beyond = entry.whole(edge.saturating_sub(granted));
        if granted_to > 0 && beyond > 0 {
            self.line.charge(now_us, flow, beyond);
            self.ask(flow);
        }
        self.count_idle(flow);
    }

    /// Records that `unread` bytes of `flow` are in the socket now.
    pub fn seen(&mut self, now_us: u64, flow: FlowId, unread: u64) {
        self.arrived(now_us, flow, unread);
        let entry = self.entry(flow);
        if let Some(socket) = &entry.socket
            && entry.window <= BURST_BYTES
        {
            // A delayed acknowledgement of a small window could let the server time out.
            socket.acknowledge_at_once();
        }
    }

    /// Records that `bytes` of `flow` were read. The window opens as far as was granted.
    pub fn read(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let (granted_to, srtt_us) = (self.line.granted_to(flow), self.line.srtt_us());
        let entry = self.entry(flow);
        // A sample is exact if all bytes read have just arrived, or if the server could send no
        // more: bytes beyond the edge have arrived, or nothing has arrived for a round trip.
        let at_once = now_us <= entry.arrived_us + AT_ONCE_US && entry.unread_from == entry.read;
        let waited = entry.slack.is_some() || now_us >= entry.arrived_us + srtt_us;
        let full = entry.arrived + entry.mss > entry.edge + entry.slack.unwrap_or(0) && waited;
        entry.read += bytes;
        entry.silent = false;
        entry.arrived = entry.arrived.max(entry.read);
        let exact = full || at_once && entry.read == entry.arrived;
        let edge = entry.edge.max(entry.reached() + granted_to);
        let wanted = entry.whole(edge.saturating_sub(entry.read)).min(entry.most()).max(2 * entry.mss);
        let held = wanted.max(entry.edge.saturating_sub(entry.read));
        let told = |socket: &Arc<dyn Receiver>| socket.bound_window(entry.bound(wanted), entry.bound(held));
        if (wanted, held) != (entry.window, entry.held) && entry.socket.as_ref().is_none_or(told) {
            entry.held = held;
            entry.window = wanted;
        }
        let edge = entry.read + entry.window;
        if edge > entry.edge && entry.observed.is_some() {
            entry.edge = edge;
        } else if edge > entry.edge {
            let certainty = if exact { Certainty::Exact } else { Certainty::LowerBound };
            // The last segment was not allowed before this read, whatever the kernel allowed.
            let from = (entry.edge + entry.slack.unwrap_or(0)).min(edge - entry.mss);
            entry.round_trips.opened(from, now_us, certainty);
            entry.edge = edge;
        }
        // A server that sends less than a segment needs no larger window.
        let all = entry.read == entry.arrived && bytes >= entry.mss;
        self.count_idle(flow);
        let entry = self.entry(flow);
        if matches!(entry.waits, Waits::Not | Waits::More | Waits::Ahead) && all {
            entry.waits = Waits::More;
            self.ask(flow);
        }
    }

    /// The response of `flow` ends at position `end`. Grants beyond the end are returned.
    pub fn expect(&mut self, flow: FlowId, end: u64) {
        let entry = self.entry(flow);
        entry.end = Some(end);
        let to_come = end.saturating_sub(entry.reached());
        let excess = self.line.granted_to(flow).saturating_sub(to_come);
        self.line.forgo(flow, excess);
        self.count_idle(flow);
    }

    /// The response of `flow` has ended: nothing arrives until the next request.
    pub fn finish(&mut self, flow: FlowId) {
        self.line.withdraw(flow);
        self.line.rest(flow, self.line.granted_to(flow));
        let entry = self.entry(flow);
        entry.forget();
        entry.waits = Waits::Not;
        self.count_idle(flow);
    }

    /// Looks for arrived bytes in the sockets of flows that wait, because their tasks do not.
    /// Datagrams count as arrived after a round trip.
    pub fn look(&mut self, now_us: u64) {
        let srtt_us = self.line.srtt_us();
        let waits =
            |entry: &Entry| matches!(entry.waits, Waits::Read | Waits::Ahead) || !entry.datagrams.is_empty();
        let waiting = self.flows.iter().filter(|(_, entry)| waits(entry));
        let waiting: Vec<FlowId> = waiting.map(|(&flow, _)| flow).collect();
        for flow in waiting {
            if self.entry(flow).waits == Waits::Ahead {
                self.go_ahead(flow);
                continue;
            }
            if self.line.granted_to(flow) > 0 {
                self.look_at(now_us, flow, srtt_us);
            }
            // All granted bytes have arrived, and nothing more is requested.
            let over = !self.line.asks(flow) && self.line.granted_to(flow) == 0;
            let entry = self.entry(flow);
            if over && entry.waits == Waits::Read {
                entry.waits = Waits::Granted;
                self.woken.push(flow);
            }
        }
    }

    fn look_at(&mut self, now_us: u64, flow: FlowId, srtt_us: u64) {
        let entry = self.entry(flow);
        let over = entry.datagrams.partition_point(|&(at_us, _)| at_us + srtt_us <= now_us);
        let bytes: u64 = entry.datagrams.drain(..over).map(|(_, bytes)| bytes).sum();
        let unread = entry.socket.as_ref().and_then(|socket| socket.unread());
        if bytes > 0 {
            self.line.arrived(now_us, flow, bytes, None);
        }
        if let Some(unread) = unread {
            self.arrived(now_us, flow, unread);
        }
        self.ask(flow);
    }

    /// Gives all grants that are possible now. Returns the flows whose waiting has ended: each
    /// repeats its call.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<FlowId> {
        loop {
            let next = self.line.next(now_us);
            let expired = self.line.take_expired();
            let again = !expired.is_empty();
            for flow in expired {
                self.given_up(now_us, flow);
                self.count_idle(flow);
            }
            match next {
                Next::Grant { flow, bytes } => {
                    if self.granted(now_us, flow, bytes) {
                        self.woken.push(flow);
                    }
                    self.count_idle(flow);
                }
                _ if again => {}
                _ => return std::mem::take(&mut self.woken),
            }
        }
    }

    /// Whether time alone changes anything: a flow waits for a grant, an arrival or an expiry.
    pub fn is_busy(&self) -> bool {
        let waits = |entry: &Entry| matches!(entry.waits, Waits::Whole(_) | Waits::Read);
        self.line.asking() > 0 || self.flows.values().any(|entry| waits(entry) || !entry.datagrams.is_empty())
    }

    /// Gives `flow` a grant of `bytes`. Returns whether its waiting ends.
    fn granted(&mut self, now_us: u64, flow: FlowId, bytes: u64) -> bool {
        let Some(entry) = self.flows.get_mut(&flow) else { return false };
        match &mut entry.waits {
            Waits::Not | Waits::Granted | Waits::Ahead => return false,
            Waits::Whole(missing) if *missing > bytes => {
                *missing -= bytes;
                self.ask(flow);
                return false;
            }
            Waits::Whole(_) if entry.path == 0 => entry.datagrams.push_back((now_us, bytes)),
            Waits::Whole(_) => {
                entry.start = Some(entry.arrived);
                match &mut entry.observed {
                    Some(observed) => observed.ask(),
                    // The first byte of the response arrives a round trip after the request.
                    None => entry.round_trips.opened(entry.arrived, now_us, Certainty::Exact),
                }
            }
            Waits::More => {
                entry.waits = Waits::Ahead;
                self.go_ahead(flow);
                return false;
            }
            Waits::Read => {}
        }
        entry.waits = Waits::Granted;
        true
    }

    /// Requests the next grant if the bytes granted ahead are below [`Line::ahead_bytes`].
    fn go_ahead(&mut self, flow: FlowId) {
        let granted = self.line.granted_to(flow);
        let most = self.line.ahead_bytes(flow);
        let entry = self.entry(flow);
        if (entry.reached() + granted).saturating_sub(entry.edge) < most {
            entry.waits = Waits::More;
            self.ask(flow);
        }
    }

    /// Nothing of the grant of `flow` arrived: its server has nothing to send, or a round trip
    /// takes longer than grants are held.
    fn given_up(&mut self, now_us: u64, flow: FlowId) {
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let least_us = match &mut entry.observed {
            Some(observed) => observed.given_up(now_us),
            None => entry.round_trips.given_up(now_us),
        };
        if let Some(least_us) = least_us {
            let sample = Sample::bound(entry.path, least_us);
            self.line.arrived(now_us, flow, 0, Some(sample));
        }
        let entry = self.entry(flow);
        match entry.waits {
            Waits::More | Waits::Ahead => entry.waits = Waits::Not,
            Waits::Read => {
                (entry.waits, entry.silent) = (Waits::Granted, true);
                self.woken.push(flow);
            }
            _ => {}
        }
        self.ask(flow);
    }

    fn arrived(&mut self, now_us: u64, flow: FlowId, unread: u64) {
        let entry = self.entry(flow);
        let position = entry.read + unread;
        if position <= entry.arrived {
            return;
        }
        (entry.unread_from, entry.arrived_us) = (entry.arrived, now_us);
        let mut round_trip = None;
        if entry.observed.is_none() {
            // The kernel opens the window when bytes arrive, before they are read, while its
            // buffer has room.
            let beyond = Some(position.saturating_sub(entry.edge)).filter(|&beyond| beyond > 0);
            entry.slack = entry.slack.max(beyond);
            round_trip = entry.round_trips.arrived(position, now_us);
        }
        let path = entry.path;
        let sample =
            round_trip.map(|(rtt_us, certainty)| Sample { certainty, ..Sample::exact(path, rtt_us) });
        self.came(now_us, flow, position, sample);
    }

    /// Everything before `position` has arrived, with this delay sample, if any.
    fn came(&mut self, now_us: u64, flow: FlowId, position: u64, mut sample: Option<Sample>) {
        let srtt_us = self.line.srtt_us();
        let entry = self.entry(flow);
        let bytes = position.saturating_sub(entry.arrived);
        let bytes = bytes.saturating_sub(entry.early.passed(position));
        entry.arrived = position;
        entry.silent &= bytes == 0;
        let reached = entry.reached();
        let mut lost = false;
        if (now_us >= entry.asked_us + srtt_us || sample.is_some())
            && entry.observed.is_none()
            && let Some(received) = entry.socket.as_ref().and_then(|socket| socket.received())
        {
            entry.asked_us = now_us;
            let before = std::mem::replace(&mut entry.out_of_order, received.out_of_order);
            let early = received.out_of_order.wrapping_sub(before);
            lost = early >= entry.duplicates();
            let least_us = received.least_rtt_us;
            sample = sample.map(|sample| Sample {
                rtt_us: sample.rtt_us.max(least_us),
                known_us: sample.known_us.max(least_us),
                ..sample
            });
            if early > 0 {
                // A retransmitted segment gives no round-trip sample (RFC 6298, 3).
                sample = None;
                entry.forget();
            }
        }
        let (mss, end) = (entry.mss, entry.end);
        if lost {
            self.line.lost(now_us, None, mss, now_us.saturating_sub(srtt_us));
        }
        if self.line.arrived(now_us, flow, bytes, sample) == Heard::Doubt {
            self.entry(flow).forget();
        }
        if let Some(end) = end {
            let excess = self.line.granted_to(flow).saturating_sub(end.saturating_sub(reached));
            self.line.forgo(flow, excess);
        }
        self.count_idle(flow);
    }

    fn entry(&mut self, flow: FlowId) -> &mut Entry {
        self.flows.get_mut(&flow).expect(KNOWN)
    }
}

impl Entry {
    fn new(now_us: u64, path: u64) -> Entry {
        Entry {
            path,
            observed: None,
            back: None,
            early: Early::default(),
            idle: 0,
            socket: None,
            mss: MSS_BYTES.into(),
            window: LEAST_BYTES,
            held: LEAST_BYTES,
            edge: LEAST_BYTES,
            arrived: 0,
            arrived_us: now_us,
            unread_from: 0,
            slack: None,
            read: 0,
            end: None,
            start: None,
            silent: false,
            round_trips: RoundTrips::default(),
            asked_us: 0,
            out_of_order: 0,
            datagrams: VecDeque::new(),
            waits: Waits::Not,
        }
    }

    /// The highest right edge that the server knows. The kernel may announce more than granted.
    fn announced(&self) -> u64 {
        self.edge.max(self.observed.as_ref().map_or(0, Observed::edge))
    }

    /// Bytes that have arrived, in order or not.
    fn reached(&self) -> u64 {
        self.arrived + self.early.bytes()
    }

    /// Drops the pending round-trip samples: bytes in flight show no round trip.
    fn forget(&mut self) {
        self.round_trips.clear();
        self.observed.iter_mut().for_each(Observed::clear);
    }

    /// The value to tell the kernel for `window` bytes. The kernel rounds down to segments, and
    /// does not count memory to the byte: half a segment is added.
    fn bound(&self, window: u64) -> u32 {
        (window + self.mss / 2) as u32
    }

    /// `bytes` rounded down to whole segments.
    fn whole(&self, bytes: u64) -> u64 {
        bytes / self.mss * self.mss
    }

    /// Segments out of order that indicate a loss: three (RFC 5681, 3.2), fewer in a window of
    /// fewer segments (RFC 5827, 3.1).
    fn duplicates(&self) -> u32 {
        (self.window / self.mss).saturating_sub(1).clamp(1, DUPLICATES.into()) as u32
    }

    /// The largest window now, in bytes. Beyond the end of the present response only two segments
    /// are allowed, as on a new connection. Otherwise the next response would begin with the full
    /// window at once, before anybody can see the home.
    fn most(&self) -> u64 {
        let rest = self.end.map_or(MOST_BYTES, |end| end.saturating_sub(self.read));
        (rest.div_ceil(self.mss) * self.mss + 2 * self.mss).min(MOST_BYTES)
    }
}

/// The path number of small packets where `path` is that of full segments. On a slow line small
/// packets take less time, so they have a base delay of their own.
pub fn small_path(path: u64) -> u64 {
    path | 1 << 63
}

#[cfg(test)]
mod tests;
