//! Downloads through sockets: the window that all of them share, and the part of each connection,
//! which are receive windows that a [`Line`] opens.
//!
//! A grant of n bytes lets a server send n bytes more: they are read from the socket, which moves the
//! right edge of the receive window, or the window grows by them. Bytes that arrive without a grant
//! stay in the socket, where they close the window. Datagrams have no window: each waits for a grant
//! of its length, and counts as under way for a round trip.
//!
//! Where the packets of a connection are seen, they show round trips ([`Downlink::announced`],
//! [`Downlink::segment`]). A round trip contains the queue of the uplink and pauses of the server. The
//! server's clock shows the queue of the downlink alone ([`OneWay`]). Where packets are not seen, a
//! round trip is from a read to the first byte that the read lets through.
//!
//! No clock and no sockets here: times are arguments, in microseconds, and a connection is a [`Receiver`]. The
//! gateway has real ones, the simulator simulated ones.

use crate::early::Early;
use crate::error::ShareError;
use crate::estimator::{Certainty, Heard, Sample};
use crate::foreground::Observation;
use crate::id::{FlowId, UserId};
use crate::line::{Line, Next, State};
use crate::observed::{Arrived, Observed};
use crate::oneway::{ClockReading, OneWay};
use crate::policy::Policy;
use crate::receiver::Receiver;
use crate::roundtrips::RoundTrips;
use leeway_control::LawSpec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A full segment on Ethernet, in bytes: 1500 less the headers of IPv4 and TCP (RFC 9293, 3.7.1).
pub const MSS_BYTES: u32 = 1460;
/// What every host takes (RFC 9293, 3.7.1): a server that says less does not make windows smaller.
const LEAST_MSS_BYTES: u64 = 536;
/// The smallest window of one connection: two segments, because a sender cuts its segments to half of the window.
const LEAST_BYTES: u64 = 2 * MSS_BYTES as u64;
/// The largest: what Linux gives a connection by default.
const MOST_BYTES: u64 = 6 << 20;
/// Windows up to this are filled at once by a new connection (RFC 6928).
const BURST_BYTES: u64 = 10 * MSS_BYTES as u64;
/// Bytes that are read within this time have just come.
const AT_ONCE_US: u64 = 1000;

/// Segments out of order that say that one was lost (RFC 5681, 3.2).
const DUPLICATES: u32 = 3;
/// A queue that was seen less than 100 ms ago, in microseconds, is about the queue of now.
const RECENT_US: u64 = 100_000;

const KNOWN: &str = "the flow is known until it is dropped";

/// Segments of up to a segment divided by this are small: what a line takes for them differs little.
const SMALL: u64 = 4;

/// The line as downloads see it, and those who have some of it.
#[derive(Debug)]
pub struct Downlink {
    line: Line,
    flows: BTreeMap<FlowId, Entry>,
    /// Those that can go on without a grant.
    woken: Vec<FlowId>,
    /// Granted bytes of all flows that no announcement covers yet.
    idle_bytes: u64,
    /// When a server's clock showed the queue of the downlink last, and that queue, both in
    /// microseconds.
    excess: Option<(u64, u32)>,
}

/// A flow. Positions count bytes since the connection began.
#[derive(Debug)]
struct Entry {
    /// What has one base delay; 0 for datagrams.
    path: u64,
    /// What its packets show; nothing where they are not seen.
    observed: Option<Observed>,
    /// The way from the server, by the server's clock.
    back: Option<OneWay>,
    /// What came out of order, as its packets show it.
    early: Early,
    /// Granted bytes that no announcement covers yet.
    idle: u64,
    socket: Option<Arc<dyn Receiver>>,
    mss: u64,
    /// Its window; the server may send up to `read + window`.
    window: u64,
    /// What its buffer holds: after a larger window more than this one.
    held: u64,
    /// Up to here the server was ever let through.
    edge: u64,
    arrived: u64,
    arrived_us: u64,
    /// Where what came last begins.
    unread_from: u64,
    /// So far beyond `edge` the kernel has let the server through; nothing where it was not seen to.
    slack: Option<u64>,
    read: u64,
    /// Where the answer under way ends, if that is known.
    end: Option<u64>,
    /// Where the answer begins that was granted last.
    start: Option<u64>,
    /// Nothing came of what was granted last.
    silent: bool,
    round_trips: RoundTrips,
    asked_us: u64,
    /// Segments that came before their time, as the kernel counted them then.
    out_of_order: u32,
    /// Datagrams that count as under way: since when, and their bytes.
    datagrams: VecDeque<(u64, u64)>,
    waits: Waits,
}

/// Data that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The position of the first byte: bytes of the connection before it.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What the server's clock showed when it left; nothing where it shows no time.
    pub clock: Option<ClockReading>,
}

/// What a flow waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Nothing.
    Not,
    /// So many bytes more, all of them.
    Whole(u64),
    /// Some that let it read what is there.
    Read,
    /// Some by which its window grows with what it reads next.
    More,
    /// The same, until it has missed more than its server can be told of when something comes.
    Ahead,
    /// It has got what it waited for, and does not know yet.
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
            excess: None,
        }
    }

    /// How it stands.
    pub fn state(&mut self, now_us: u64) -> State {
        self.line.state(now_us)
    }

    /// The foreground was seen on one of its connections.
    pub fn foreground(&mut self, now_us: u64, connection: u64, observation: Observation) {
        self.line.foreground(now_us, connection, observation);
    }

    /// A connection of `user` to a server on `path` begins; its number. Paths of one number have one base delay,
    /// and are not 0.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn open(&mut self, now_us: u64, user: UserId, path: u64) -> Result<FlowId, ShareError> {
        self.enter(user, Entry::new(now_us, path))
    }

    /// Datagrams of `user` begin to come; their number.
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

    /// A flow ends, and what it has under way with it.
    pub fn close(&mut self, flow: FlowId) {
        if let Some(entry) = self.flows.remove(&flow) {
            self.idle_bytes -= entry.idle;
            self.line.set_idle_bytes(self.idle_bytes);
        }
        self.line.close(flow);
    }

    /// The connection of `flow` is there. Its window is a whole number of segments: a sender keeps back
    /// less than one, which would count as under way and not come.
    pub fn connected(&mut self, flow: FlowId, socket: Arc<dyn Receiver>) {
        let entry = self.entry(flow);
        entry.mss =
            socket.segment_bytes().map_or(entry.mss, |mss| u64::from(mss).clamp(LEAST_MSS_BYTES, entry.mss));
        let least = 2 * entry.mss;
        if socket.bound_window(entry.bound(least), 0) {
            (entry.window, entry.edge) = (least, least);
            // The first segment changes what the kernel makes of that: it has to be told again.
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

    /// A part of a request is about to be sent: whether the server may answer with the connection's
    /// window. That is asked for once for a request, however long, and not while an answer is under way.
    /// [`Downlink::grant`] names the flow when it can ask again; so it is with the next two.
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
            // The answer begins a round trip after the last part. Until then its room is free for others.
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

    /// `unread` bytes are in the socket: how many of them may be read now, if any.
    pub fn follow(&mut self, flow: FlowId, unread: u64) -> Option<u64> {
        if let Some(false) = self.waited(flow) {
            return None;
        }
        let free = self.free(flow, unread);
        if free >= unread.min(self.entry(flow).mss) {
            return Some(free);
        }
        // A server that has as much under way as it can goes on when that has come, or is given up.
        if self.wait(flow, Waits::Read) > 0 || self.line.granted_to(flow) > 0 || free == 0 {
            return None;
        }
        self.entry(flow).waits = Waits::Not;
        Some(free)
    }

    /// A datagram of `bytes` has come: whether it may be let in.
    pub fn datagram(&mut self, flow: FlowId, bytes: u64) -> bool {
        self.waited(flow).unwrap_or_else(|| {
            self.wait(flow, Waits::Whole(bytes.max(1)));
            false
        })
    }

    /// Whether what `flow` waited for was granted; nothing where it did not wait.
    fn waited(&mut self, flow: FlowId) -> Option<bool> {
        let entry = self.entry(flow);
        match entry.waits {
            Waits::Not | Waits::More | Waits::Ahead => return None,
            Waits::Granted => entry.waits = Waits::Not,
            Waits::Whole(_) | Waits::Read => {}
        }
        Some(entry.waits == Waits::Not)
    }

    /// `flow` waits, until a grant ends that.
    fn wait(&mut self, flow: FlowId, waits: Waits) -> u64 {
        self.entry(flow).waits = waits;
        self.ask(flow)
    }

    /// How many of `unread` bytes `flow` may read without a grant: those that do not move the window's edge
    /// beyond what was granted, and all of the end of an answer, behind which nothing comes. A server that
    /// leaves a grant unused may wait for its client, who has not read the last segment: one segment may
    /// be read then.
    fn free(&self, flow: FlowId, unread: u64) -> u64 {
        let Some(entry) = self.flows.get(&flow) else { return 0 };
        let granted = entry.reached() + self.line.granted_to(flow);
        if entry.end.is_some_and(|end| granted >= end) {
            return unread;
        }
        let least = if entry.silent { entry.mss } else { 0 };
        granted.max(entry.edge).saturating_sub(entry.read + 2 * entry.mss).max(least).min(unread)
    }

    /// Counts the bytes that `flow` was granted and that no announcement covers yet.
    fn count_idle(&mut self, flow: FlowId) {
        let granted_to = self.line.granted_to(flow);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let idle = (entry.reached() + granted_to).saturating_sub(entry.announced().max(entry.arrived));
        self.idle_bytes = self.idle_bytes - std::mem::replace(&mut entry.idle, idle) + idle;
        self.line.set_idle_bytes(self.idle_bytes);
    }

    /// Asks for what `flow` waits for; how many bytes of it are asked for now.
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
                // Who sends less than a segment does not need a larger window, and one that does not fit would
                // let an answer wait until what is under way is given up.
                let short = entry.waits == Waits::Read && entry.arrived < entry.read + entry.mss;
                let growth = if short { 0 } else { reach.min(entry.most()).saturating_sub(entry.window) };
                self.line.ask(flow, (same + growth).min(to_come))
            }
        };
        asked.unwrap_or(0)
    }

    /// At `at_us` a packet to the server of `flow` acknowledged everything before a position, and
    /// announced an edge.
    pub fn announced(&mut self, now_us: u64, at_us: u64, flow: FlowId, acknowledged: u64, edge: u64) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.observed.get_or_insert_default().announced(at_us, acknowledged, edge);
            self.charge(now_us, flow, edge);
        }
    }

    /// At `at_us` data left for the server of `flow`.
    pub fn sent(&mut self, at_us: u64, flow: FlowId) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.observed.get_or_insert_default().sent(at_us);
        }
    }

    /// At `at_us` a segment of `flow` arrived.
    pub fn segment(&mut self, now_us: u64, at_us: u64, flow: FlowId, segment: Segment) {
        let Segment { from, bytes, clock } = segment;
        let recent = self.excess.filter(|&(known_us, _)| at_us <= known_us + RECENT_US);
        let known_us = recent.map_or(0, |(_, excess_us)| excess_us);
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let excess_us = entry.excess_us(at_us, clock, known_us);
        self.excess = excess_us.map(|excess_us| (at_us, excess_us)).or(self.excess);
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

    /// Bytes of `flow` came out of order.
    fn came_early(&mut self, now_us: u64, flow: FlowId, from: u64, bytes: u64) {
        let (srtt_us, present) = (self.line.srtt_us(), self.line.is_present(now_us));
        let entry = self.entry(flow);
        let bytes = entry.early.came(from, bytes);
        // With many small windows nearly every loss shows. While the foreground is away, only those
        // count to which a sender would react.
        let duplicates = if present { entry.duplicates() } else { DUPLICATES };
        let lost = entry.early.says_lost(duplicates).then_some(entry.mss);
        if let Some(mss) = lost {
            self.line.lost(now_us, Some(flow), mss, now_us.saturating_sub(srtt_us));
        }
        if bytes > 0 {
            self.line.arrived(now_us, flow, bytes, None);
        }
    }

    /// Limits the rate of grants from now on, in bytes per second
    /// ([`Line::acknowledged_bytes_per_s`]).
    pub fn set_most_bytes_per_s(&mut self, bytes_per_s: u64) {
        self.line.set_most_bytes_per_s(bytes_per_s);
    }

    /// The kernel has let the server of `flow` through up to `edge`. While something comes it announces the
    /// window again before anything was read, so that is more than was granted: it counts as under way.
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

    /// `unread` bytes of `flow` are in the socket now.
    pub fn seen(&mut self, now_us: u64, flow: FlowId, unread: u64) {
        self.arrived(now_us, flow, unread);
        let entry = self.entry(flow);
        if let Some(socket) = &entry.socket
            && entry.window <= BURST_BYTES
        {
            // A delayed acknowledgement of a small window lets the server time out.
            socket.acknowledge_at_once();
        }
    }

    /// `bytes` of `flow` were read, which opened the window as far as was granted.
    pub fn read(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let (granted_to, srtt_us) = (self.line.granted_to(flow), self.line.srtt_us());
        let entry = self.entry(flow);
        // A sample is exact if all that is read has just come, or if the server could send no more: it has
        // shown that, or nothing has come for a round trip.
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
            // However much was let through before, the last segment was not.
            let from = (entry.edge + entry.slack.unwrap_or(0)).min(edge - entry.mss);
            entry.round_trips.opened(from, now_us, certainty);
            entry.edge = edge;
        }
        // Who sends less than a segment does not need a larger window.
        let all = entry.read == entry.arrived && bytes >= entry.mss;
        self.count_idle(flow);
        let entry = self.entry(flow);
        if matches!(entry.waits, Waits::Not | Waits::More | Waits::Ahead) && all {
            entry.waits = Waits::More;
            self.ask(flow);
        }
    }

    /// The answer of `flow` ends at that position.
    pub fn expect(&mut self, flow: FlowId, end: u64) {
        let entry = self.entry(flow);
        entry.end = Some(end);
        let to_come = end.saturating_sub(entry.reached());
        let excess = self.line.granted_to(flow).saturating_sub(to_come);
        self.line.forgo(flow, excess);
        self.count_idle(flow);
    }

    /// The answer of `flow` has ended: nothing more will come until the next request.
    pub fn finish(&mut self, flow: FlowId) {
        self.line.withdraw(flow);
        self.line.rest(flow, self.line.granted_to(flow));
        let entry = self.entry(flow);
        entry.forget();
        entry.waits = Waits::Not;
        self.count_idle(flow);
    }

    /// Looks into the sockets of flows that wait, because their tasks do not. Datagrams count as arrived
    /// after a round trip.
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
            // All has come that was granted, and nothing more is to come.
            let over = !self.line.asks(flow) && self.line.granted_to(flow) == 0;
            let entry = self.entry(flow);
            if over && entry.waits == Waits::Read {
                entry.waits = Waits::Granted;
                self.woken.push(flow);
            }
        }
    }

    /// What of `flow` has come, and asks for more.
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

    /// Gives away what there is; the flows that can go on. They ask again for what they waited for.
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

    /// Whether time alone changes anything: somebody waits, if only for what he was granted to come or to be
    /// given up.
    pub fn is_busy(&self) -> bool {
        let waits = |entry: &Entry| matches!(entry.waits, Waits::Whole(_) | Waits::Read);
        self.line.asking() > 0 || self.flows.values().any(|entry| waits(entry) || !entry.datagrams.is_empty())
    }

    /// `flow` is granted `bytes`: whether that ends its waiting.
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
                    // The first byte of the answer comes a round trip after the request.
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

    /// `flow` asks for more if its server can be told of that when something comes.
    fn go_ahead(&mut self, flow: FlowId) {
        let granted = self.line.granted_to(flow);
        let most = self.line.ahead_bytes(flow);
        let entry = self.entry(flow);
        if (entry.reached() + granted).saturating_sub(entry.edge) < most {
            entry.waits = Waits::More;
            self.ask(flow);
        }
    }

    /// Nothing came of what `flow` was granted: its server has nothing to send, or round trips take longer
    /// than that.
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
            // The kernel opens the window when bytes come, read or not, while there is room in its buffer.
            let beyond = Some(position.saturating_sub(entry.edge)).filter(|&beyond| beyond > 0);
            entry.slack = entry.slack.max(beyond);
            round_trip = entry.round_trips.arrived(position, now_us);
        }
        let path = entry.path;
        let sample =
            round_trip.map(|(rtt_us, certainty)| Sample { certainty, ..Sample::exact(path, rtt_us) });
        self.came(now_us, flow, position, sample);
    }

    /// Everything before `position` has come, and shows this delay, if any.
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
                // What was sent twice says nothing of the path (RFC 6298, 3).
                sample = None;
                entry.forget();
            }
        }
        let (mss, end) = (entry.mss, entry.end);
        if lost {
            self.line.lost(now_us, Some(flow), mss, now_us.saturating_sub(srtt_us));
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

    /// The queue of the downlink that a segment met which came at `at_us`, in microseconds, where
    /// the server's clock shows it. Other connections met a queue of `known_us` a moment ago.
    fn excess_us(&mut self, at_us: u64, clock: Option<ClockReading>, known_us: u32) -> Option<u32> {
        let Some(left) = clock else {
            self.back = None;
            return None;
        };
        let came_us = at_us as u32;
        let back = self.back.get_or_insert_with(|| OneWay::new(at_us, left.us, came_us, known_us));
        let excess_us = back.excess_us(at_us, left.us, came_us);
        left.is_known.then_some(excess_us)
    }

    /// The right edge of the window that the server knows of. The kernel may announce more than was
    /// granted.
    fn announced(&self) -> u64 {
        self.edge.max(self.observed.as_ref().map_or(0, Observed::edge))
    }

    /// Bytes that have come, in order or not.
    fn reached(&self) -> u64 {
        self.arrived + self.early.bytes()
    }

    /// What is under way shows no round trip.
    fn forget(&mut self) {
        self.round_trips.clear();
        self.observed.iter_mut().for_each(Observed::clear);
    }

    /// What to tell the kernel for that window, which it rounds down to segments: half of one more, because
    /// memory is not counted to the byte.
    fn bound(&self, window: u64) -> u32 {
        (window + self.mss / 2) as u32
    }

    /// So many bytes in whole segments.
    fn whole(&self, bytes: u64) -> u64 {
        bytes / self.mss * self.mss
    }

    /// The number of segments out of order that says that one was lost: three (RFC 5681, 3.2), less in a
    /// window of fewer (RFC 5827, 3.1).
    fn duplicates(&self) -> u32 {
        (self.window / self.mss).saturating_sub(1).clamp(1, DUPLICATES.into()) as u32
    }

    /// Its largest window now. What may follow the answer under way is as much as on a new connection, so
    /// that the next one does not begin with all that the one before had in the end, at once and before
    /// anybody can see the home.
    fn most(&self) -> u64 {
        let rest = self.end.map_or(MOST_BYTES, |end| end.saturating_sub(self.read));
        (rest.div_ceil(self.mss) * self.mss + 2 * self.mss).min(MOST_BYTES)
    }
}

/// The number of small packets' path, where that of full segments is `path`: on a slow line small packets take
/// less time, so they have a base delay of their own.
pub fn small_path(path: u64) -> u64 {
    path | 1 << 63
}

#[cfg(test)]
mod tests;
