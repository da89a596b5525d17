//! The window that all downloads share, and what each connection has of it.
//!
//! No clock here: times are arguments, in microseconds. [`crate::budget`] has the real one.

use crate::admission::{Admission, Grant};
use crate::answers::Answers;
use crate::budget::State;
use crate::delay::Route;
use crate::edges::{BURST_BYTES, Edges, Question, RoundTrip};
use crate::feedback::{Arrival, Feedback};
use crate::socket::Receiver;
use leeway_control::LawSpec;
use leeway_net::Sight;
use leeway_tunnel::Standby;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

/// A full segment on Ethernet.
pub const MSS_BYTES: u32 = 1460;
/// What every host takes (RFC 9293, 3.7.1): a server that says less does not make windows smaller.
const LEAST_MSS_BYTES: u64 = 536;
/// The smallest window of one connection: two segments, because a sender cuts its segments to half of the window.
const LEAST_BYTES: u64 = 2 * MSS_BYTES as u64;
/// The largest: what Linux gives a connection by default.
const MOST_BYTES: u64 = 6 << 20;
/// Bytes that are read within this time have just come.
const AT_ONCE_US: u64 = 1000;
/// A count of those who receive is good for so long: it takes a while where there are thousands.
const COUNT_US: u64 = 2000;

const KNOWN: &str = "the flow is known until it is dropped";

/// The window, and those who have some of it.
#[derive(Debug)]
pub struct Window {
    admission: Admission,
    standby: Standby,
    answers: Answers,
    feedback: Feedback,
    next: u64,
    /// Flows that receive, by user, and what is outstanding of them, as counted then.
    receiving: BTreeMap<u64, (u64, u64)>,
    counted_us: u64,
    /// When a server that uses what it is granted last showed a round trip.
    timed_us: u64,
    flows: BTreeMap<u64, Entry>,
}

/// A flow as the driver sees it. Positions count bytes since the connection began.
#[derive(Debug)]
pub struct Entry {
    user: u64,
    server: IpAddr,
    /// Nobody sees datagrams arrive.
    datagrams: bool,
    /// The bytes of each grant that are outstanding, and when it was given; the oldest first.
    held: VecDeque<(u64, u64)>,
    /// Whether it was among those that receive when they were counted.
    counted: bool,
    /// Some of its grants were not used while others were.
    unused: bool,
    /// Its server has not sent what it was granted, and not yet all that is outstanding since.
    trickles: bool,
    socket: Option<Arc<dyn Receiver>>,
    mss: u64,
    /// Its window; the server may send up to `read + window`.
    window: u64,
    /// What its buffer holds of whole segments: after a larger window more than this one.
    permitted: u64,
    /// By which the next read opens it further.
    growth: u64,
    /// Granted, not arrived.
    outstanding: u64,
    arrived: u64,
    read: u64,
    /// Where the answer under way ends, if that is known.
    end: Option<u64>,
    last_us: u64,
    sampled_us: u64,
    /// Segments that came before their time, as the kernel counted them then.
    out_of_order: u32,
    /// The next permission is for a request.
    starts: bool,
    /// The request that was permitted and of which nothing has shown the round-trip time yet, and how far its answer may come at once.
    asked: Option<(Question, u64)>,
    /// The last arrival.
    arrived_us: u64,
    /// What was asked for and may be read now.
    granted: Option<u64>,
    wish: u64,
    asking: bool,
    waker: Option<Waker>,
    edges: Edges,
}

impl Window {
    /// One under that law, of which nobody has anything. `yields` as in [`Feedback::new`].
    pub fn new(spec: &LawSpec, yields: bool) -> Window {
        let feedback = Feedback::new(spec, yields);
        Window {
            admission: Admission::new(feedback.window_bytes()),
            standby: Standby::default(),
            answers: Answers::default(),
            feedback,
            next: 0,
            receiving: BTreeMap::new(),
            counted_us: 0,
            timed_us: 0,
            flows: BTreeMap::new(),
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

    /// The home is at work: who waits stands aside, and what it has asked for is under way.
    pub fn home_seen(&mut self, now_us: u64, sight: Sight) {
        let [srtt_us, way_us, queuing_us] =
            [self.feedback.srtt_us(), self.feedback.way_us(), self.feedback.queuing_delay_us()]
                .map(u64::from);
        self.standby.seen(now_us, srtt_us);
        // Through a queue a connection takes longer, but not always by as much: earlier by half of it.
        let connects_us = way_us - (queuing_us / 2).min(way_us / 2);
        self.feedback.others_arrived(now_us, sight.brought_bytes);
        self.answers.seen(now_us, sight, [way_us, connects_us], self.kept_rate());
        self.feedback.kept(self.answers.kept_permille());
    }

    /// A flow of `user` begins; its number. Nobody sees `datagrams` arrive before they are granted.
    pub fn open(&mut self, now_us: u64, user: u64, server: IpAddr, datagrams: bool) -> u64 {
        self.next += 1;
        self.admission.open(user, self.next);
        self.flows.insert(self.next, Entry::new(user, server, datagrams, now_us));
        self.next
    }

    /// A flow ends. It gives back what it had before anybody gets it, so that it is not itself who does.
    pub fn close(&mut self, user: u64, flow: u64) {
        if let Some(entry) = self.flows.remove(&flow) {
            self.admission.release(entry.outstanding);
        }
        self.admission.close(user, flow);
    }

    /// What there is of `flow`.
    pub fn entry(&mut self, flow: u64) -> &mut Entry {
        self.flows.get_mut(&flow).expect(KNOWN)
    }

    /// Flows that wait.
    pub fn waiting(&self) -> usize {
        self.admission.waiting()
    }

    /// What was granted to `flow`, if it was.
    pub fn granted(&mut self, flow: u64) -> Option<u64> {
        self.flows.get_mut(&flow)?.granted.take()
    }

    /// `flow` asks for what `want` says, none being no reason to wait. `wish` where it need not wait, or that of the question before.
    pub fn ask(
        &mut self,
        (user, flow): (u64, u64),
        now_us: u64,
        waker: &Waker,
        wish: u64,
        want: impl FnOnce(&mut Window, &mut Entry, u64) -> Option<u64>,
    ) -> Option<u64> {
        self.with(flow, now_us, |window, entry, now_us| {
            if let Some(granted) = entry.granted.take() {
                return Some(granted);
            }
            entry.waker = Some(waker.clone());
            if !entry.asking {
                let Some(bytes) = want(window, entry, now_us) else { return Some(wish) };
                entry.asking = true;
                entry.wish = wish;
                window.admission.ask(user, flow, bytes);
            }
            None
        })
    }

    /// A request is about to be sent: the question for a window full of its answer. None while an answer is under way.
    pub fn start(&mut self, entry: &mut Entry, now_us: u64) -> Option<u64> {
        if entry.outstanding > 0 || entry.read < entry.arrived {
            return None;
        }
        self.answered(entry, now_us);
        entry.edges.clear();
        entry.edges.begin(entry.arrived);
        entry.end = None;
        entry.starts = true;
        Some(entry.whole(entry.window))
    }

    /// `unread` bytes are in the socket: the question for as many that may follow them, and for more where there is room.
    pub fn follow(&mut self, entry: &mut Entry, now_us: u64, unread: u64) -> Option<u64> {
        // What will not come needs no permission.
        let permitted = entry.arrived + entry.outstanding;
        let to_come = entry.end.map_or(u64::MAX, |end| end.saturating_sub(permitted));
        // Where the window has become smaller, the server may go on to the edge of the larger one.
        let edge = entry.edges.furthest().max(entry.read + unread + entry.window);
        let needed = edge.saturating_sub(permitted).min(to_come);
        let same = unread.min(needed);
        // The rest was given up when the server was silent. Who sends less than a segment does not need it.
        let part = self.part(entry, now_us);
        let room = self.admission.window_bytes().saturating_sub(self.admission.outstanding_bytes() + same);
        // Where less came than was granted it comes back as the server shows that it sends: it doubles with what has come.
        let most = if entry.unused { 2 * unread } else { u64::MAX };
        let again = if unread < entry.mss { 0 } else { (needed - same).min(room).min(most) };
        let wanted = part.saturating_sub(entry.window).min(to_come - same - again);
        // Where there is no room because other users have more than their part, it is waited for, as much as has come at a time.
        let due = self.due(entry, same + again).min(same.max(2 * entry.mss));
        entry.growth = entry.whole(wanted.min((room - again).max(due)));
        Some(same + again + entry.growth).filter(|&bytes| bytes > 0)
    }

    /// So many bytes are in the socket now. What that leaves of the window is not given away before the flow has asked for more.
    pub fn seen(&mut self, entry: &mut Entry, now_us: u64, unread: u64) {
        self.arrived(entry, now_us, unread);
        if let Some(socket) = &entry.socket
            && entry.window <= BURST_BYTES
        {
            // A delayed acknowledgement of a small window lets the server time out.
            socket.acknowledge_at_once();
        }
    }

    /// So many were read, which opened the window.
    pub fn read(&mut self, entry: &mut Entry, now_us: u64, bytes: u64) {
        entry.read += bytes;
        entry.arrived = entry.arrived.max(entry.read);
        // Either they have just come, or all that the server was permitted has come and waited, and nothing followed.
        let full = entry.arrived + entry.mss > entry.edges.furthest();
        let at_once = now_us <= entry.arrived_us + AT_ONCE_US;
        let waited = now_us >= entry.arrived_us + u64::from(self.feedback.srtt_us());
        let exact = entry.read == entry.arrived && (at_once || full && waited);
        entry.edges.moved(entry.read + entry.window, bytes, entry.window, now_us, exact);
        let growth = std::mem::take(&mut entry.growth);
        let part = self.part(entry, now_us);
        let used = 2 * (entry.outstanding + bytes);
        let part = if std::mem::take(&mut entry.unused) { part.min(used.max(LEAST_BYTES)) } else { part };
        let wanted = match growth {
            0 if part < entry.window - entry.window / 4 => entry.whole(part),
            growth => entry.window + growth,
        };
        let wanted = wanted.min(entry.most());
        let permitted = wanted.max(entry.edges.furthest().saturating_sub(entry.read));
        let told = |socket: &Arc<dyn Receiver>| {
            socket.bound_window(entry.bound(wanted), entry.bound(permitted)).is_ok()
        };
        if (wanted, permitted) == (entry.window, entry.permitted) || !entry.socket.as_ref().is_none_or(told) {
            return;
        }
        entry.permitted = permitted;
        if wanted != entry.window {
            // Up to now the kernel has let through as much after what has come, read or not, as its buffer had room for.
            let unread = entry.socket.as_ref().and_then(|socket| socket.unread()).unwrap_or(0);
            let let_through = entry.arrived.max(entry.read + unread) + entry.window;
            entry.window = wanted;
            entry.edges.resized(let_through.max(entry.read + wanted));
        }
    }

    /// The answer under way ends at that position.
    pub fn expect(&mut self, entry: &mut Entry, end: u64) {
        entry.end = Some(end);
        let excess = entry.outstanding.saturating_sub(end.saturating_sub(entry.arrived));
        self.admission.release(entry.let_go(excess));
    }

    /// The answer of `flow` has ended: nothing more will come until the next request.
    pub fn finish(&mut self, entry: &mut Entry, now_us: u64, (user, flow): (u64, u64)) {
        self.answered(entry, now_us);
        self.admission.release(entry.let_go(entry.outstanding));
        entry.edges.clear();
        self.admission.rest(user, flow);
    }

    /// The entry of a flow is taken out while `work` sees the rest.
    pub fn with<T>(
        &mut self,
        flow: u64,
        now_us: u64,
        work: impl FnOnce(&mut Window, &mut Entry, u64) -> T,
    ) -> T {
        let mut entry = self.flows.remove(&flow).expect(KNOWN);
        let result = work(self, &mut entry, now_us);
        self.flows.insert(flow, entry);
        result
    }

    /// What a connection may grow to. Where nobody waits that is a quarter and two segments more than its share: LEDBAT's window is
    /// never more than a segment ahead of what is used of it, and if that had to be shared out in whole segments, all would
    /// stay where they are.
    fn part(&mut self, entry: &mut Entry, now_us: u64) -> u64 {
        let share = self.share(entry, now_us);
        if self.admission.waiting() == 0 { share + share / 4 + 2 * u64::from(MSS_BYTES) } else { share }
    }

    /// What one connection may have of the window: a part of its user's as large as that of his others which receive, not less than two
    /// segments. Users who receive have equal parts, however many connections each has.
    pub fn share(&mut self, entry: &mut Entry, now_us: u64) -> u64 {
        if now_us >= self.counted_us + COUNT_US {
            self.counted_us = now_us;
            self.receiving.clear();
            entry.counted = false;
            for flow in self.flows.values_mut() {
                flow.counted = flow.outstanding > 0;
                if flow.counted {
                    let (flows, bytes) = self.receiving.entry(flow.user).or_default();
                    (*flows, *bytes) = (*flows + 1, *bytes + flow.outstanding);
                }
            }
        }
        let own = self.receiving.get(&entry.user).map_or(0, |&(flows, _)| flows) - u64::from(entry.counted);
        (self.users_part(entry) / (own + 1)).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// The part of the window of the user of that flow.
    fn users_part(&self, entry: &Entry) -> u64 {
        let others = self.receiving.len() - usize::from(self.receiving.contains_key(&entry.user));
        self.admission.window_bytes() / (others as u64 + 1)
    }

    /// By how much the user of that flow has less than his part, beside `asked` that he asks for now; 0 where no others receive.
    fn due(&self, entry: &Entry, asked: u64) -> u64 {
        if self.receiving.keys().all(|&user| user == entry.user) {
            return 0;
        }
        let outstanding =
            self.receiving.get(&entry.user).map_or(0, |&(_, bytes)| bytes).max(entry.outstanding);
        self.users_part(entry).saturating_sub(outstanding + asked)
    }

    fn arrived(&mut self, entry: &mut Entry, now_us: u64, unread: u64) {
        let position = entry.read + unread;
        let bytes = position.saturating_sub(entry.arrived);
        if bytes == 0 {
            return;
        }
        // Nobody knows who has asked for what through CONNECT.
        if now_us > entry.arrived_us + self.feedback.hold_us() {
            entry.edges.begin(entry.arrived);
        }
        entry.arrived = position;
        entry.last_us = now_us;
        entry.arrived_us = now_us;
        self.standby.ours(now_us, self.feedback.srtt_us().into());
        let prior = self.admission.outstanding_bytes();
        let due = entry.let_go(bytes);
        entry.trickles &= due < bytes || entry.outstanding > 0;
        let rest = entry.end.map_or(u64::MAX, |end| end.saturating_sub(entry.arrived));
        let excess = entry.let_go(entry.outstanding.saturating_sub(rest));
        self.admission.release(due + excess);
        let is_large = entry.window > BURST_BYTES;
        let is_long = self.feedback.is_long();
        // Once a round trip is enough for what is large and long.
        let mut round_trip = entry.edges.arrived(position, now_us).filter(|_| !is_large || !is_long);
        let due = now_us >= entry.sampled_us + u64::from(self.feedback.srtt_us());
        if (due || round_trip.is_some())
            && let Some(received) = entry.socket.as_ref().and_then(|socket| socket.received())
        {
            // Whatever was lost has come after this; a server may take long to send it again.
            let since_us = std::mem::replace(&mut entry.sampled_us, now_us);
            let before = std::mem::replace(&mut entry.out_of_order, received.out_of_order);
            let early = received.out_of_order.wrapping_sub(before);
            if early >= entry.duplicates() {
                self.feedback.lost(now_us, since_us, entry.mss, self.admission.outstanding_bytes());
            }
            if early > 0 {
                // What was sent twice says nothing of the way (RFC 6298, 3).
                round_trip = None;
                entry.edges.clear();
                entry.asked = None;
            }
            // The kernel's own clock goes by timestamps (RFC 7323, 4) to the millisecond. Since Linux 6.16 it takes no longer time while
            // anything is unread, which is so whenever others are held up, and then it shows the queue that there was at least. Over
            // long ways it is better for all that: the kernel announces what a read opens with its next acknowledgement, which is
            // then a round trip later in the worst case.
            if is_long || round_trip.is_none() && is_large {
                round_trip = Some(RoundTrip { rtt_us: received.rtt_us, exact: is_long, late: false })
                    .filter(|round_trip| round_trip.rtt_us > 0);
            }
        }
        let round_trip = round_trip.filter(|_| self.is_of_the_way(entry, now_us));
        if self.tell(now_us, entry.server, round_trip, bytes, prior) {
            entry.asked = None;
        }
    }

    /// Whether a round trip that `entry` shows now is one of the way. The pauses of a server that
    /// trickles look like a queue, to which the law would give way for everybody. They say nothing
    /// while other servers use what they are granted; without such, the way may have become longer.
    fn is_of_the_way(&mut self, entry: &Entry, now_us: u64) -> bool {
        if !entry.trickles {
            self.timed_us = now_us;
        }
        !entry.trickles || now_us >= self.timed_us + 2 * self.feedback.hold_us()
    }

    /// An answer is over. One that fitted into the first window, so that no edge was met, shows the round-trip time as a whole.
    fn answered(&mut self, entry: &mut Entry, now_us: u64) {
        let asked = entry.asked.take().filter(|&(_, at_once)| entry.arrived <= at_once);
        let round_trip = asked.and_then(|(asked, _)| asked.answered(entry.arrived_us));
        if round_trip.is_some() {
            self.tell(now_us, entry.server, round_trip, 0, self.admission.outstanding_bytes());
        }
    }

    /// Tells the law what has arrived, of `prior_bytes` that were outstanding; whether the round trip was of use.
    fn tell(
        &mut self,
        now_us: u64,
        server: IpAddr,
        round_trip: Option<RoundTrip>,
        bytes: u64,
        prior_bytes: u64,
    ) -> bool {
        let arrival = Arrival {
            bytes,
            prior_bytes,
            outstanding_bytes: self.admission.outstanding_bytes(),
            waiting: self.admission.waiting() > 0,
            aside: self.standby.is_aside(),
        };
        let useful = self.feedback.arrived(now_us, Route::of(server), round_trip, arrival);
        self.admission.set_window(
            self.feedback.window_bytes(),
            self.feedback.srtt_us().into(),
            self.feedback.is_long(),
        );
        useful
    }

    /// Looks into the sockets of flows that wait, whose tasks do not.
    pub fn look(&mut self, now_us: u64) {
        let waiting: Vec<u64> =
            self.flows.iter().filter(|(_, flow)| flow.asking && flow.expects()).map(|(&n, _)| n).collect();
        for number in waiting {
            let Some(mut entry) = self.flows.remove(&number) else { continue };
            if let Some(socket) = &entry.socket
                && let Some(unread) = socket.unread()
            {
                self.arrived(&mut entry, now_us, unread);
            }
            self.flows.insert(number, entry);
        }
    }

    /// A server that has not sent for two round trips has nothing to send: others may. One that sends less than it may does not use what
    /// it was granted twice as long ago. Datagrams have arrived after one round trip.
    pub fn expire(&mut self, now_us: u64) {
        let srtt_us = u64::from(self.feedback.srtt_us()).max(1000);
        let hold_us = self.feedback.hold_us();
        let mut released = 0;
        for entry in self.flows.values_mut().filter(|flow| flow.outstanding > 0) {
            let silent = !entry.datagrams && now_us.saturating_sub(entry.last_us) > hold_us;
            let old_us = if entry.datagrams { srtt_us } else { 2 * hold_us };
            if !silent {
                let old = entry.let_go_since(now_us.saturating_sub(old_us));
                entry.unused |= old > 0;
                entry.trickles |= old > 0;
                released += old;
            } else {
                released += entry.let_go(entry.outstanding);
                entry.trickles = true;
                entry.edges.late(hold_us);
                if let Some((asked, _)) = &mut entry.asked {
                    asked.late(hold_us);
                }
            }
        }
        self.admission.release(released);
    }

    /// Gives away what there is; who can go on.
    #[must_use]
    pub fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        let waiting = self.admission.waiting() > 0;
        if self.standby.hold(now_us, waiting).is_some()
            || self.answers.hold(now_us, self.kept_rate(), waiting)
        {
            return Vec::new();
        }
        std::iter::from_fn(|| self.admission.grant(now_us))
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|grant| self.give(now_us, grant))
            .collect()
    }

    /// What the line brings, where it is kept for the home's answers. Over long ways it is not: permissions are spread over the round trip
    /// there, and a window that was emptied for an answer is not full again before the next one.
    fn kept_rate(&self) -> u64 {
        if self.feedback.is_long() { 0 } else { self.feedback.rate() }
    }

    fn give(&mut self, now_us: u64, grant: Grant) -> Option<Waker> {
        let Some(entry) = self.flows.get_mut(&grant.flow) else {
            self.admission.release(grant.bytes);
            return None;
        };
        entry.asking = false;
        entry.granted = Some(entry.wish);
        if std::mem::take(&mut entry.starts) {
            let at_once = entry.edges.furthest().min(entry.arrived + BURST_BYTES);
            entry.asked = Some((Question::new(now_us), at_once));
        }
        entry.hold(now_us, grant.bytes);
        entry.waker.take()
    }
}

impl Entry {
    fn new(user: u64, server: IpAddr, datagrams: bool, now_us: u64) -> Entry {
        Entry {
            user,
            server,
            datagrams,
            held: VecDeque::new(),
            counted: false,
            unused: false,
            trickles: false,
            socket: None,
            mss: MSS_BYTES.into(),
            window: LEAST_BYTES,
            permitted: LEAST_BYTES,
            growth: 0,
            outstanding: 0,
            arrived: 0,
            read: 0,
            end: None,
            last_us: now_us,
            sampled_us: 0,
            out_of_order: 0,
            starts: false,
            asked: None,
            arrived_us: now_us,
            granted: None,
            wish: 0,
            asking: false,
            waker: None,
            edges: Edges::new(LEAST_BYTES, MSS_BYTES.into()),
        }
    }

    /// The window that its connection should have, in bytes.
    pub fn window_bytes(&self) -> u64 {
        self.window
    }

    /// Its connection is there. A window is so many of its segments, because a sender keeps back what is less than one: that would
    /// be outstanding and not come.
    pub fn connected(&mut self, socket: Arc<dyn Receiver>) {
        self.mss =
            socket.segment_bytes().map_or(self.mss, |mss| u64::from(mss).clamp(LEAST_MSS_BYTES, self.mss));
        let least = 2 * self.mss;
        if socket.bound_window(self.bound(least), 0).is_ok() {
            self.window = least;
            // The first segment changes what the kernel makes of that: it has to be told again.
            self.permitted = 0;
            self.edges = Edges::new(least, self.mss);
        }
        self.socket = Some(socket);
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

    /// Bytes read since the connection began.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Its largest window now. What may follow the answer under way is as much as on a new connection, so that the next one does not
    /// begin with all that the one before had in the end, all at once and before anybody can see the home.
    fn most(&self) -> u64 {
        let rest = self.end.map_or(MOST_BYTES, |end| end.saturating_sub(self.read));
        rest.div_ceil(self.mss) * self.mss + 2 * self.mss
    }

    /// Whether bytes may be on their way.
    fn expects(&self) -> bool {
        self.outstanding > 0 || self.edges.is_timed()
    }

    fn hold(&mut self, now_us: u64, bytes: u64) {
        self.outstanding += bytes;
        self.last_us = now_us;
        self.held.push_back((bytes, now_us));
    }

    /// So many bytes, or all there are, are not outstanding any more; how many. The oldest grants go first.
    fn let_go(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.outstanding);
        self.outstanding -= bytes;
        let mut rest = bytes;
        while let Some((held, _)) = self.held.front_mut() {
            if *held > rest {
                *held -= rest;
                break;
            }
            rest -= *held;
            self.held.pop_front();
        }
        bytes
    }

    /// What was granted by then is not outstanding any more; how much that was.
    fn let_go_since(&mut self, until_us: u64) -> u64 {
        let old =
            self.held.iter().take_while(|&&(_, at_us)| at_us <= until_us).map(|&(bytes, _)| bytes).sum();
        self.let_go(old)
    }
}

#[cfg(test)]
mod tests;
