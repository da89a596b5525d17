//! The receive windows of all downloads: sockets are observed for [`leeway_share::Line`], and what it grants opens windows.
//!
//! A window has a right edge: up to there the server may send. Reading moves it, so a read needs a grant of as many bytes. What
//! is granted beyond that lets the window grow at the read, because the kernel announces an edge when something is read or comes.
//! So a flow asks for grants while it has something unread, or is about to send a request. A window is
//! no larger than the part of a flow that is one of those under way: what is unread beside a larger one would only lie there.
//!
//! No clock here: times are arguments, in microseconds. [`crate::budget`] has the real one.

use crate::edges::{BURST_BYTES, Edges, Question, RoundTrip};
use crate::path::path;
use crate::socket::Receiver;
use leeway_control::LawSpec;
use leeway_net::{Sight, What};
use leeway_share::{Certainty, FlowId, Line, Next, Policy, Sample, State, UserId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

/// A full segment on Ethernet.
pub const MSS_BYTES: u32 = 1460;
/// What every host takes (RFC 9293, 3.7.1): a server that says less does not make windows smaller.
const LEAST_MSS_BYTES: u64 = 536;
/// The smallest window of one connection: two segments, because a sender cuts its segments to half of the window.
const LEAST_BYTES: u64 = 2 * MSS_BYTES as u64;
/// Bytes that are read within this time have just come.
const AT_ONCE_US: u64 = 1000;

const KNOWN: &str = "the flow is known until it is closed";

/// All downloads, and the line that they share.
#[derive(Debug)]
pub struct Window {
    line: Line,
    flows: BTreeMap<FlowId, Entry>,
    /// Those that wait for a grant.
    waiting: BTreeSet<FlowId>,
    /// Those that may go on; they ask until nothing more is granted at once.
    served: Vec<FlowId>,
    /// Datagrams that were let in, and when they count as arrived: nobody sees the next ones come.
    datagrams: VecDeque<(u64, FlowId, u64)>,
    /// When to grant again although nothing happens.
    wake_us: Option<u64>,
}

/// What a flow waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To send a request: for a window full of its answer.
    Start,
    /// To read so many bytes, which are in the socket.
    Read(u64),
    /// To let in a datagram of so many bytes.
    Datagram(u64),
}

/// A flow. Positions count bytes since the connection began.
#[derive(Debug)]
pub struct Entry {
    path: u64,
    socket: Option<Arc<dyn Receiver>>,
    mss: u64,
    /// Its window; the server may send up to `read + window`.
    window: u64,
    /// The largest that it can have.
    most: u64,
    /// What its buffer holds of whole segments: after a larger window more than this one.
    permitted: u64,
    edges: Edges,
    arrived: u64,
    read: u64,
    /// Where the answer under way ends, if that is known.
    end: Option<u64>,
    /// Granted and in no window yet.
    credit: u64,
    /// The bytes of each grant that have not come, and when it was given; the oldest first.
    held: VecDeque<(u64, u64)>,
    /// What was given up of the window while the server was silent, or is too much of it: it goes with the next reads.
    unused: u64,
    /// Its server has not sent what it was granted, and not yet all that is under way since.
    trickles: bool,
    ask: Option<Ask>,
    ready: bool,
    waker: Option<Waker>,
    arrived_us: u64,
    sampled_us: u64,
    /// Segments that came before their time, as the kernel counted them then.
    out_of_order: u32,
    /// The request that was let go and of which nothing has shown the round-trip time yet, and how far its answer may come at once.
    asked: Option<(Question, u64)>,
}

/// What a flow has asked for.
#[derive(Debug, Clone, Copy)]
struct Ask {
    want: Want,
    /// It can go on with so much.
    need: u64,
    /// It can use so much.
    most: u64,
}

impl Window {
    /// One under that law, on a line of which nothing is known.
    pub fn new(spec: &LawSpec) -> Window {
        let policy = Policy { flows_max: u64::MAX, ..Policy::default() };
        Window {
            line: Line::new(spec, &policy),
            flows: BTreeMap::new(),
            waiting: BTreeSet::new(),
            served: Vec::new(),
            datagrams: VecDeque::new(),
            wake_us: None,
        }
    }

    /// How it stands.
    pub fn state(&mut self, now_us: u64) -> State {
        State { asking: self.waiting.len(), ..self.line.state(now_us) }
    }

    /// The home was seen.
    pub fn home_seen(&mut self, now_us: u64, sights: &[Sight]) {
        for &Sight { connection, what } in sights {
            let sight = match what {
                What::Connects => leeway_share::Sight::Connect,
                What::Asks(_) => leeway_share::Sight::Request,
                What::Brings(bytes) => leeway_share::Sight::Bytes(bytes),
            };
            self.line.foreground(now_us, connection, sight);
        }
    }

    /// A flow of `user` from `server` begins.
    pub fn open(&mut self, user: u64, server: IpAddr) -> FlowId {
        let flow = self.line.open(UserId(user)).expect("flows are not counted");
        self.flows.insert(flow, Entry::new(path(server)));
        flow
    }

    /// A flow ends.
    pub fn close(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
        self.waiting.remove(&flow);
        self.line.close(flow);
    }

    /// The window of `flow`, in bytes.
    pub fn window_bytes(&self, flow: FlowId) -> u64 {
        self.flows[&flow].window
    }

    /// Bytes of `flow` that were read.
    pub fn position(&self, flow: FlowId) -> u64 {
        self.flows[&flow].read
    }

    /// What a connection that begins now may come to have, in bytes.
    pub fn share(&mut self, now_us: u64) -> u64 {
        let state = self.line.state(now_us);
        state.window_bytes / (state.granted_flows as u64 + 1)
    }

    /// What the window of `flow` may be, as one of those that have something under way: two segments more and a quarter, because a
    /// law's window is never more than a segment ahead of what is used of it.
    fn part(&mut self, now_us: u64, flow: FlowId) -> u64 {
        let state = self.line.state(now_us);
        let others = state.granted_flows - usize::from(self.line.granted_to(flow) > 0);
        let share = state.window_bytes / (others as u64 + 1);
        share + share / 4 + LEAST_BYTES
    }

    /// The connection of `flow` is there.
    pub fn connected(&mut self, flow: FlowId, socket: Arc<dyn Receiver>) {
        self.entry(flow).connected(socket);
    }

    /// Whether time alone changes anything.
    pub fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.datagrams.is_empty()
    }

    /// When time alone changes something, in microseconds.
    pub fn wake_us(&self) -> Option<u64> {
        self.wake_us
    }

    /// What `flow` may do of what it wants, in bytes, if it need not wait; [`Window::grant`] and [`Window::granted`] come next.
    pub fn ask(&mut self, now_us: u64, flow: FlowId, want: Want) -> Option<u64> {
        let entry = self.flows.get(&flow).expect(KNOWN);
        if entry.ask.is_none() && !entry.ready {
            let Some(ask) = self.needs(now_us, flow, want) else { return Some(want.bytes()) };
            if want == Want::Start {
                self.answered(now_us, flow);
                let entry = self.entry(flow);
                entry.edges.clear();
                entry.edges.begin(entry.arrived);
                entry.end = None;
            }
            self.entry(flow).ask = Some(ask);
            self.waiting.insert(flow);
            self.request(now_us, flow);
        }
        None
    }

    /// What `flow` may do since it asked, in bytes, if it may do anything; else `waker` is woken when it may.
    pub fn granted(&mut self, flow: FlowId, want: Want, waker: &Waker) -> Option<u64> {
        let entry = self.entry(flow);
        if std::mem::take(&mut entry.ready) {
            return Some(entry.allows(want));
        }
        entry.waker = Some(waker.clone());
        None
    }

    /// What `flow` has to ask for; nothing where it need not wait.
    fn needs(&mut self, now_us: u64, flow: FlowId, want: Want) -> Option<Ask> {
        let part = self.part(now_us, flow);
        let entry = &self.flows[&flow];
        let (need, most) = match want {
            Want::Datagram(bytes) => (bytes.max(1), 0),
            // While an answer is under way, this is the rest of the same request, or one of many.
            Want::Start if self.line.granted_to(flow) > 0 || entry.read < entry.arrived => return None,
            Want::Start => (entry.whole(entry.window), 0),
            Want::Read(unread) => {
                // What will not come needs no grant, nor does what was granted before.
                let edge = entry.edge();
                let to_come = entry.end.map_or(u64::MAX, |end| end.saturating_sub(edge));
                let moves = (entry.read + unread + entry.window).saturating_sub(edge).min(to_come);
                let need = moves.min(entry.mss).saturating_sub(entry.credit);
                if need == 0 {
                    return None;
                }
                // It doubles at most, and not where little comes.
                let growth = entry.whole(part.min(entry.most).saturating_sub(entry.window).min(unread));
                (need, to_come.min(moves + growth).saturating_sub(entry.credit).max(need))
            }
        };
        Some(Ask { want, need, most })
    }

    /// Asks the line for what `flow` waits for.
    fn request(&mut self, now_us: u64, flow: FlowId) {
        let Some(Ask { want, need, most }) = self.entry(flow).ask else { return };
        let asked = match want {
            Want::Read(_) if most > 0 => self.line.ask(now_us, flow, most).map(drop),
            Want::Read(_) => Ok(self.line.withdraw(flow)),
            Want::Start | Want::Datagram(_) => self.line.ask_whole(flow, need),
        };
        asked.expect(KNOWN);
    }

    /// `unread` bytes are in the socket of `flow` now.
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

    /// `bytes` of `flow` were read, which opened the window.
    pub fn read(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let (srtt_us, part) = (self.line.srtt_us(), self.part(now_us, flow));
        let entry = self.entry(flow);
        if entry.window > part + part / 3 {
            entry.unused = entry.unused.max(entry.window - part);
        }
        entry.read += bytes;
        entry.arrived = entry.arrived.max(entry.read);
        // Either they have just come, or all that the server was permitted has come and waited, and nothing followed.
        let before = entry.edge();
        let full = entry.arrived + entry.mss > before;
        let at_once = now_us <= entry.arrived_us + AT_ONCE_US;
        let waited = now_us >= entry.arrived_us + srtt_us;
        let exact = entry.read == entry.arrived && (at_once || full && waited);
        // What was given up, or is too much, is taken back first: the edge stays where it is.
        let back = entry.unused.min(bytes).min(entry.window.saturating_sub(2 * entry.mss));
        let back = entry.whole(back);
        entry.unused -= back;
        entry.edges.moved(
            entry.read + entry.window - back,
            bytes,
            entry.window - back,
            now_us,
            exact && back == 0,
        );
        let moved = (entry.read + entry.window - back).saturating_sub(before);
        entry.credit = entry.credit.saturating_sub(moved);
        let growth = entry.whole(entry.credit);
        let rest = entry.end.map_or(u64::MAX, |end| end.saturating_sub(entry.read));
        // What may follow the answer under way is as much as on a new connection, so that the next one does not begin with all
        // that the one before had in the end, at once and before anybody can see the home.
        let most =
            entry.most.min(rest.div_ceil(entry.mss).saturating_mul(entry.mss).saturating_add(2 * entry.mss));
        let wanted = (entry.window - back + growth).min(most);
        entry.credit -= wanted.saturating_sub(entry.window - back).min(growth);
        entry.resize(wanted);
    }

    /// The answer under way ends at that position.
    pub fn expect(&mut self, flow: FlowId, end: u64) {
        let granted = self.line.granted_to(flow);
        let entry = self.entry(flow);
        entry.end = Some(end);
        let excess = granted.saturating_sub(end.saturating_sub(entry.arrived));
        entry.credit = entry.credit.saturating_sub(excess);
        self.line.forgo(flow, excess);
    }

    /// The answer of `flow` has ended: nothing more will come until the next request.
    pub fn finish(&mut self, now_us: u64, flow: FlowId) {
        self.answered(now_us, flow);
        let entry = self.entry(flow);
        entry.edges.clear();
        entry.held.clear();
        (entry.credit, entry.unused) = (0, 0);
        self.line.rest(flow, u64::MAX);
    }

    fn entry(&mut self, flow: FlowId) -> &mut Entry {
        self.flows.get_mut(&flow).expect(KNOWN)
    }

    fn arrived(&mut self, now_us: u64, flow: FlowId, unread: u64) {
        let (hold_us, srtt_us) = (self.line.hold_us(), self.line.srtt_us());
        let entry = self.entry(flow);
        let position = entry.read + unread;
        let bytes = position.saturating_sub(entry.arrived);
        if bytes == 0 {
            return;
        }
        // Nobody knows who has asked for what through CONNECT.
        if now_us > entry.arrived_us + hold_us {
            entry.edges.begin(entry.arrived);
        }
        (entry.arrived, entry.arrived_us) = (position, now_us);
        entry.unused = entry.unused.min(entry.edge() - position);
        entry.let_go(bytes);
        let mut round_trip = entry.edges.arrived(position, now_us);
        let mut lost = None;
        if (now_us >= entry.sampled_us + srtt_us || round_trip.is_some())
            && let Some(received) = entry.socket.as_ref().and_then(|socket| socket.received())
        {
            // Whatever was lost has come after this; a server may take long to send it again.
            let since_us = std::mem::replace(&mut entry.sampled_us, now_us);
            let before = std::mem::replace(&mut entry.out_of_order, received.out_of_order);
            let early = received.out_of_order.wrapping_sub(before);
            lost = (early >= entry.duplicates()).then_some(since_us.saturating_sub(srtt_us));
            if early > 0 {
                // What was sent twice says nothing of the way (RFC 6298, 3).
                round_trip = None;
                entry.edges.clear();
                entry.asked = None;
            } else if round_trip.is_none() && entry.window > BURST_BYTES && received.rtt_us > 0 {
                // The kernel's own clock goes by timestamps (RFC 7323, 4) to the millisecond. Since Linux 6.16 it takes no longer
                // time while anything is unread.
                round_trip = Some(RoundTrip { rtt_us: received.rtt_us, exact: false, late: false });
            }
        }
        // All that it might send has come: it is as fast as the way.
        entry.trickles &= entry.arrived + entry.mss <= entry.edge();
        let sample = round_trip.and_then(|round_trip| round_trip.sample(entry.path, entry.trickles));
        let (mss, end, arrived) = (entry.mss, entry.end, entry.arrived);
        if sample.is_some() {
            entry.asked = None;
        }
        self.line.arrived(now_us, flow, bytes, sample);
        if let Some(sent_us) = lost {
            self.line.lost(now_us, flow, mss, sent_us);
        }
        let rest = end.map_or(u64::MAX, |end| end.saturating_sub(arrived));
        self.line.forgo(flow, self.line.granted_to(flow).saturating_sub(rest));
        // Its sender can have more under way now.
        self.request(now_us, flow);
    }

    /// An answer is over. One that fitted into the first window, so that no edge was met, shows the round-trip time as a whole.
    fn answered(&mut self, now_us: u64, flow: FlowId) {
        let entry = self.entry(flow);
        let asked = entry.asked.take().filter(|&(_, at_once)| entry.arrived <= at_once);
        let round_trip = asked.and_then(|(asked, _)| asked.answered(entry.arrived_us));
        if let Some(sample) = round_trip.and_then(|round_trip| round_trip.sample(entry.path, entry.trickles))
        {
            self.line.sampled(now_us, sample);
        }
    }

    /// Looks into the sockets of flows that wait, whose tasks do not. And what a server was granted twice as long ago as a silent one
    /// may keep it is not used by it, though it sends: others may have that.
    pub fn look(&mut self, now_us: u64) {
        let old_us = now_us.saturating_sub(2 * self.line.hold_us());
        for (&flow, entry) in &mut self.flows {
            let old = entry.held.iter().take_while(|&&(_, at_us)| at_us <= old_us);
            let old: u64 = old.map(|&(bytes, _)| bytes).sum();
            if old > 0 {
                entry.let_go(old);
                entry.trickles = true;
                entry.unused = entry.unused.max(old.min(entry.edge() - entry.arrived));
                self.line.forgo(flow, old);
            }
        }
        let waiting: Vec<FlowId> = self.waiting.iter().copied().collect();
        for flow in waiting {
            let entry = &self.flows[&flow];
            if (self.line.granted_to(flow) > 0 || entry.edges.is_timed())
                && let Some(unread) = entry.socket.as_ref().and_then(|socket| socket.unread())
            {
                self.arrived(now_us, flow, unread);
            }
        }
    }

    /// Gives away what there is; who can go on.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        while let Some((_, flow, bytes)) = self.datagrams.pop_front_if(|(at_us, ..)| *at_us <= now_us) {
            self.line.arrived(now_us, flow, bytes, None);
        }
        loop {
            let next = self.line.next(now_us);
            let expired = self.line.take_expired();
            let again = !expired.is_empty();
            expired.into_iter().for_each(|flow| self.expired(now_us, flow));
            self.wake_us = match next {
                Next::Grant { flow, bytes } => {
                    self.give(now_us, flow, bytes);
                    continue;
                }
                _ if again => continue,
                Next::Wait(at_us) => Some(at_us),
                Next::Blocked => None,
            };
            break;
        }
        let mut woken = Vec::new();
        for flow in std::mem::take(&mut self.served) {
            self.line.withdraw(flow);
            self.waiting.remove(&flow);
            if let Some(entry) = self.flows.get_mut(&flow) {
                entry.ask = None;
                woken.extend(entry.waker.take());
            }
        }
        woken
    }

    /// `flow` was granted `bytes`.
    fn give(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        let srtt_us = self.line.srtt_us();
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        let Some(ask) = &mut entry.ask else {
            self.line.forgo(flow, bytes);
            return;
        };
        ask.need = ask.need.saturating_sub(bytes);
        ask.most = ask.most.saturating_sub(bytes);
        let (want, done) = (ask.want, ask.need == 0);
        if !matches!(want, Want::Datagram(_)) {
            entry.held.push_back((bytes, now_us));
        }
        match want {
            Want::Read(_) => entry.credit += bytes,
            Want::Start => {
                let at_once = entry.edges.furthest().min(entry.arrived + BURST_BYTES);
                entry.asked = Some((Question::new(now_us), at_once));
            }
            Want::Datagram(_) => self.datagrams.push_back((now_us + srtt_us, flow, bytes)),
        }
        if done && !std::mem::replace(&mut entry.ready, true) {
            self.served.push(flow);
        }
        if !done || matches!(want, Want::Read(_)) {
            self.request(now_us, flow);
        }
    }

    /// What `flow` was granted was given up: its server was silent.
    fn expired(&mut self, now_us: u64, flow: FlowId) {
        let hold_us = self.line.hold_us();
        let Some(entry) = self.flows.get_mut(&flow) else { return };
        entry.held.clear();
        entry.trickles = true;
        entry.unused = entry.edge() - entry.arrived;
        if entry.ask.is_none() && !entry.ready {
            entry.credit = 0;
        }
        entry.edges.late(hold_us);
        if let Some((asked, _)) = &mut entry.asked {
            asked.late(hold_us);
        }
        self.request(now_us, flow);
    }
}

impl Want {
    fn bytes(self) -> u64 {
        match self {
            Want::Start => 0,
            Want::Read(bytes) | Want::Datagram(bytes) => bytes,
        }
    }
}

impl Entry {
    fn new(path: u64) -> Entry {
        Entry {
            path,
            socket: None,
            mss: MSS_BYTES.into(),
            window: LEAST_BYTES,
            most: u64::from(u16::MAX),
            permitted: LEAST_BYTES,
            edges: Edges::new(LEAST_BYTES, MSS_BYTES.into()),
            arrived: 0,
            read: 0,
            end: None,
            credit: 0,
            held: VecDeque::new(),
            unused: 0,
            trickles: false,
            ask: None,
            ready: false,
            waker: None,
            arrived_us: 0,
            sampled_us: 0,
            out_of_order: 0,
            asked: None,
        }
    }

    /// A window is so many of its segments, because a sender keeps back what is less than one: that would be under way and not come.
    fn connected(&mut self, socket: Arc<dyn Receiver>) {
        self.mss =
            socket.segment_bytes().map_or(self.mss, |mss| u64::from(mss).clamp(LEAST_MSS_BYTES, self.mss));
        self.most = self.whole(socket.largest_window());
        let least = 2 * self.mss;
        if socket.bound_window(self.bound(least), 0).is_ok() {
            self.window = least;
            // The first segment changes what the kernel makes of that: it has to be told again.
            self.permitted = 0;
            self.edges = Edges::new(least, self.mss);
        }
        self.socket = Some(socket);
    }

    /// Up to here the server may send, or has sent: the kernel lets a little through while bytes are unread.
    fn edge(&self) -> u64 {
        self.edges.furthest().max(self.arrived)
    }

    /// What may be done of what is wanted.
    fn allows(&self, want: Want) -> u64 {
        let Want::Read(unread) = want else { return want.bytes() };
        let edge = self.edge();
        let free = edge.saturating_sub(self.read + self.window) + self.credit;
        if unread <= free || self.end.is_some_and(|end| end <= edge + self.credit) {
            return unread;
        }
        self.whole(free).max(self.mss).min(unread)
    }

    /// So much of what was granted is not waited for any more.
    fn let_go(&mut self, mut bytes: u64) {
        while let Some((held, _)) = self.held.front_mut() {
            if *held > bytes {
                *held -= bytes;
                return;
            }
            bytes -= *held;
            self.held.pop_front();
        }
    }

    /// The window has another size from now on, if the kernel agrees.
    fn resize(&mut self, wanted: u64) {
        let permitted = wanted.max(self.edges.furthest().saturating_sub(self.read));
        let told = |socket: &Arc<dyn Receiver>| {
            socket.bound_window(self.bound(wanted), self.bound(permitted)).is_ok()
        };
        if (wanted, permitted) == (self.window, self.permitted) || !self.socket.as_ref().is_none_or(told) {
            return;
        }
        self.permitted = permitted;
        if wanted != self.window {
            // Up to now the kernel has let through as much after what has come, read or not, as its buffer had room for.
            let unread = self.socket.as_ref().and_then(|socket| socket.unread()).unwrap_or(0);
            let let_through = self.arrived.max(self.read + unread) + self.window;
            let edge = self.read + wanted;
            self.edges.resized(if wanted > self.window { let_through.max(edge) } else { edge });
            self.window = wanted;
        }
    }

    /// What to tell the kernel for that window, which it rounds down to segments: half of one more, because memory is not counted to
    /// the byte.
    fn bound(&self, window: u64) -> u32 {
        (window + self.mss / 2) as u32
    }

    /// So many bytes in whole segments.
    fn whole(&self, bytes: u64) -> u64 {
        bytes / self.mss * self.mss
    }

    /// So many segments that come before their time say that one was lost: three (RFC 5681, 3.2), less where there are not so many
    /// (RFC 5827, 3.1).
    fn duplicates(&self) -> u32 {
        (self.window / self.mss).saturating_sub(1).clamp(1, 3) as u32
    }
}

impl RoundTrip {
    /// What it says of the way. A server that trickles, or was silent, may have kept the bytes for a part of the time; of
    /// a round trip that may also have begun earlier, nothing is known.
    fn sample(self, path: u64, trickles: bool) -> Option<Sample> {
        let certainty = match (self.exact, self.late || trickles) {
            (true, false) => Certainty::Exact,
            (false, false) => Certainty::LowerBound,
            (true, true) => Certainty::UpperBound,
            (false, true) => return None,
        };
        Some(Sample { path, rtt_us: self.rtt_us, certainty })
    }
}

#[cfg(test)]
mod tests;
