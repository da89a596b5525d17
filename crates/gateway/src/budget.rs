//! The window that all downloads share, in real time: one law, fed with the delays of all connections.

use crate::admission::Admission;
use crate::delay::Bases;
use crate::edges::{BURST_BYTES, Edges, RoundTrip};
use crate::socket::{bound_window, round_trips_us};
use leeway_control::{Ack, Law, LawSpec, Path};
use leeway_tunnel::Standby;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A full segment on Ethernet.
pub const MSS_BYTES: u32 = 1460;
/// The smallest window of one connection: two segments, because a sender cuts its segments to half of the window.
const LEAST_BYTES: u64 = 2 * MSS_BYTES as u64;
/// The largest: what Linux gives a connection by default.
const MOST_BYTES: u64 = 6 << 20;
/// Bytes that are read within this time have just come, in microseconds.
const AT_ONCE_US: u64 = 1000;
/// How often those who wait look for bytes that have arrived.
const TICK: Duration = Duration::from_millis(2);
/// The law's first window.
const INITIAL_BYTES: u32 = 4 * MSS_BYTES;

/// The shared window.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    shared: Mutex<Shared>,
    blocked: Notify,
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The law's window.
    pub window_bytes: u64,
    /// Granted, not arrived.
    pub outstanding_bytes: u64,
    /// The law's estimate.
    pub queuing_delay_us: u32,
    /// Smoothed over all connections.
    pub srtt_us: u32,
    /// Flows that wait.
    pub waiting: usize,
    /// How long they have stood aside for the home, in all.
    pub aside_us: u64,
}

/// One connection's part in it.
#[derive(Debug)]
pub struct Flow {
    budget: Arc<Budget>,
    number: u64,
    user: u64,
}

#[derive(Debug)]
struct Shared {
    admission: Admission,
    standby: Standby,
    law: Law,
    bases: Bases,
    srtt_us: u32,
    min_rtt_us: u32,
    round_end_us: u64,
    /// What has arrived in this round and in the one before.
    round_bytes: [u64; 2],
    next: u64,
    /// Other flows that receive, as counted then.
    others: usize,
    counted_us: u64,
    flows: BTreeMap<u64, Entry>,
}

/// A flow as the driver sees it. Positions count bytes since the connection began.
#[derive(Debug)]
struct Entry {
    server: IpAddr,
    /// Nobody sees datagrams arrive: the bytes of each that was granted, and when.
    datagrams: Option<VecDeque<(u64, u64)>>,
    socket: Option<Arc<TcpStream>>,
    /// Its window; the server may send up to `read + window`.
    window: u64,
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
    /// The next permission is for a request.
    starts: bool,
    /// When the request was permitted of which nothing has shown the round-trip time yet.
    asked_us: Option<u64>,
    /// The last arrival.
    arrived_us: u64,
    /// What was asked for and may be read now.
    granted: Option<u64>,
    wish: u64,
    asking: bool,
    waker: Option<Waker>,
    edges: Edges,
}

impl Budget {
    /// A budget under that law; [`Budget::drive`] keeps it going.
    pub fn new(spec: &LawSpec) -> Arc<Budget> {
        let path = Path { mss_bytes: MSS_BYTES, initial_window_bytes: INITIAL_BYTES, ..Path::default() };
        let law = spec.build(&path);
        let admission = Admission::new(law.output().cwnd_q16 >> 16);
        let shared = Shared {
            admission,
            standby: Standby::default(),
            law,
            bases: Bases::default(),
            srtt_us: 0,
            min_rtt_us: 0,
            round_end_us: 0,
            round_bytes: [0; 2],
            next: 0,
            others: 0,
            counted_us: 0,
            flows: BTreeMap::new(),
        };
        Arc::new(Budget { start: Instant::now(), shared: Mutex::new(shared), blocked: Notify::new() })
    }

    /// Wakes those who wait: bytes that arrive at a connection which waits itself, time that passes. Never ends.
    pub async fn drive(&self) {
        loop {
            self.blocked.notified().await;
            let mut tick = tokio::time::interval(TICK);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let mut shared = self.lock();
                if shared.admission.waiting() == 0 {
                    break;
                }
                let now_us = self.now_us();
                shared.look(now_us);
                shared.expire(now_us);
                let woken = shared.grant(now_us);
                drop(shared);
                woken.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// A connection to `server` begins.
    pub fn flow(self: &Arc<Budget>, user: u64, server: IpAddr) -> Flow {
        self.open(user, server, false)
    }

    /// Datagrams begin to come; [`Flow::poll_datagram`] lets them in.
    pub fn datagrams(self: &Arc<Budget>, user: u64) -> Flow {
        self.open(user, IpAddr::V4(Ipv4Addr::UNSPECIFIED), true)
    }

    fn open(self: &Arc<Budget>, user: u64, server: IpAddr, datagrams: bool) -> Flow {
        let now_us = self.now_us();
        let mut shared = self.lock();
        shared.next += 1;
        let number = shared.next;
        shared.admission.open(user, number);
        shared.flows.insert(number, Entry::new(server, datagrams, now_us));
        Flow { budget: self.clone(), number, user }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        let shared = self.lock();
        State {
            window_bytes: shared.admission.window_bytes(),
            outstanding_bytes: shared.admission.outstanding_bytes(),
            queuing_delay_us: shared.law.output().queuing_delay_us,
            srtt_us: shared.srtt_us,
            waiting: shared.admission.waiting(),
            aside_us: shared.standby.total_us(),
        }
    }

    /// The home is at work: who waits stands aside.
    pub fn home_seen(&self) {
        let mut shared = self.lock();
        let srtt_us = shared.srtt_us.into();
        shared.standby.seen(self.now_us(), srtt_us);
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    /// The window that the connection should have before it is made, in bytes.
    pub fn window_bytes(&self) -> u32 {
        self.with(|_, entry, _| entry.window as u32)
    }

    /// The connection is there. Its handshake is no sample: small packets take less time on a slow line than full ones.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        self.with(|_, entry, _| entry.socket = Some(socket.clone()));
    }

    /// A request is about to be sent: waits until the server may answer with the connection's window. While an answer is
    /// under way there is nothing to wait for.
    pub fn poll_start(&self, cx: &mut Context<'_>) -> Poll<()> {
        let asked = self.poll_ask(cx, 0, |shared, entry, now_us| {
            if entry.outstanding > 0 || entry.read < entry.arrived {
                return None;
            }
            shared.answered(entry, now_us);
            entry.end = None;
            entry.starts = true;
            Some(entry.window)
        });
        asked.map(drop)
    }

    /// `unread` bytes are in the socket: waits until as many may follow them, and says how many to read. Where the window of
    /// all has room, that of the connection grows to its part of it.
    pub fn poll_read(&self, cx: &mut Context<'_>, unread: u64) -> Poll<u64> {
        self.poll_ask(cx, unread, |shared, entry, now_us| {
            // What will not come needs no permission.
            let to_come = entry.end.map(|end| end.saturating_sub(entry.arrived + entry.outstanding));
            let to_come = to_come.unwrap_or(u64::MAX);
            let same = unread.min(to_come);
            let wanted = shared.share(now_us).saturating_sub(entry.window).min(to_come - same);
            let room =
                shared.admission.window_bytes().saturating_sub(shared.admission.outstanding_bytes() + same);
            // A quarter or nothing: not every read shall cost another system call.
            entry.growth =
                if wanted > entry.window / 4 && room >= u64::from(MSS_BYTES) { wanted.min(room) } else { 0 };
            Some(same + entry.growth).filter(|&bytes| bytes > 0)
        })
    }

    /// A datagram has come: waits until its turn.
    pub fn poll_datagram(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<()> {
        self.poll_ask(cx, bytes, |_, _, _| Some(bytes.max(1))).map(drop)
    }

    /// So many bytes are in the socket now. What that leaves of the window is not given away before the flow has asked for
    /// more, by [`Flow::poll_read`].
    pub fn seen(&self, unread: u64) {
        self.budget.lock().with(self.number, self.budget.now_us(), |shared, entry, now_us| {
            shared.arrived(entry, now_us, unread);
            if let Some(socket) = &entry.socket
                && entry.window <= BURST_BYTES
            {
                // A delayed acknowledgement of a small window lets the server time out.
                let _ = rustix::net::sockopt::set_tcp_quickack(&**socket, true);
            }
        });
    }

    /// So many were read, which opened the window.
    pub fn read(&self, bytes: u64) {
        self.with(|shared, entry, now_us| {
            entry.read += bytes;
            entry.arrived = entry.arrived.max(entry.read);
            let exact = entry.read == entry.arrived && now_us <= entry.arrived_us + AT_ONCE_US;
            entry.edges.moved(entry.read + entry.window, bytes, entry.window, now_us, exact);
            let growth = std::mem::take(&mut entry.growth);
            let share = shared.share(now_us);
            let wanted = match growth {
                0 if share < entry.window - entry.window / 4 => share,
                growth => entry.window + growth,
            };
            if wanted != entry.window
                && let Some(socket) = &entry.socket
                && bound_window(socket, wanted as u32).is_ok()
            {
                entry.window = wanted;
                entry.edges.resized(entry.read + wanted);
            }
        });
    }

    /// The answer under way ends at that position.
    pub fn expect(&self, end: u64) {
        self.with(|shared, entry, _| {
            entry.end = Some(end);
            let excess = entry.outstanding.saturating_sub(end.saturating_sub(entry.arrived));
            entry.outstanding -= excess;
            shared.admission.release(excess);
        });
    }

    /// The answer has ended: nothing more will come until the next request.
    pub fn finish(&self) {
        self.with(|shared, entry, now_us| {
            shared.answered(entry, now_us);
            shared.admission.release(std::mem::take(&mut entry.outstanding));
            entry.edges.clear();
            shared.admission.rest(self.user, self.number);
        });
    }

    /// Bytes read since the connection began.
    pub fn position(&self) -> u64 {
        self.with(|_, entry, _| entry.read)
    }

    /// Asks for what `want` says, none being no reason to wait; ready with `wish`, or with that of the question before.
    fn poll_ask(
        &self,
        cx: &mut Context<'_>,
        wish: u64,
        want: impl FnOnce(&mut Shared, &mut Entry, u64) -> Option<u64>,
    ) -> Poll<u64> {
        let ready = self.with(|shared, entry, now_us| {
            if let Some(granted) = entry.granted.take() {
                return Some(granted);
            }
            entry.waker = Some(cx.waker().clone());
            if !entry.asking {
                let Some(bytes) = want(shared, entry, now_us) else { return Some(wish) };
                entry.asking = true;
                entry.wish = wish;
                shared.admission.ask(self.user, self.number, bytes);
            }
            None
        });
        // What was asked for may have been granted at once.
        if let Some(granted) = ready.or_else(|| self.with(|_, entry, _| entry.granted.take())) {
            return Poll::Ready(granted);
        }
        self.budget.blocked.notify_one();
        Poll::Pending
    }

    /// Does `work`, and then gives away what there is of the window.
    fn with<T>(&self, work: impl FnOnce(&mut Shared, &mut Entry, u64) -> T) -> T {
        let now_us = self.budget.now_us();
        let mut shared = self.budget.lock();
        let result = shared.with(self.number, now_us, work);
        let woken = shared.grant(now_us);
        drop(shared);
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.with(|shared, entry, _| shared.admission.release(std::mem::take(&mut entry.outstanding)));
        let mut shared = self.budget.lock();
        shared.flows.remove(&self.number);
        shared.admission.close(self.user, self.number);
    }
}

impl Shared {
    /// The entry of a flow is taken out while `work` sees the rest.
    fn with<T>(&mut self, flow: u64, now_us: u64, work: impl FnOnce(&mut Shared, &mut Entry, u64) -> T) -> T {
        let mut entry = self.flows.remove(&flow).expect("the flow is known until it is dropped");
        let result = work(self, &mut entry, now_us);
        self.flows.insert(flow, entry);
        result
    }

    /// What one connection may have of the window: a part as large as that of the others which receive, not less than two
    /// segments.
    fn share(&mut self, now_us: u64) -> u64 {
        // Counting takes a while where there are thousands.
        if now_us >= self.counted_us + TICK.as_micros() as u64 {
            self.counted_us = now_us;
            self.others = self.flows.values().filter(|flow| flow.outstanding > 0).count();
        }
        (self.admission.window_bytes() / (self.others as u64 + 1)).clamp(LEAST_BYTES, MOST_BYTES)
    }

    fn arrived(&mut self, entry: &mut Entry, now_us: u64, unread: u64) {
        let position = entry.read + unread;
        let bytes = position.saturating_sub(entry.arrived);
        if bytes == 0 {
            return;
        }
        entry.arrived = position;
        entry.last_us = now_us;
        entry.arrived_us = now_us;
        let prior = self.admission.outstanding_bytes();
        let due = bytes.min(entry.outstanding);
        entry.outstanding -= due;
        let rest = entry.end.map_or(u64::MAX, |end| end.saturating_sub(entry.arrived));
        let excess = entry.outstanding.saturating_sub(rest);
        entry.outstanding -= excess;
        self.admission.release(due + excess);
        let mut round_trip = entry.edges.arrived(position, now_us);
        // Larger windows than a burst are not filled at once, but there are enough segments for the kernel's clock.
        let due_us = entry.sampled_us + u64::from(self.srtt_us);
        if entry.window > BURST_BYTES
            && now_us >= due_us
            && let Some(socket) = &entry.socket
        {
            entry.sampled_us = now_us;
            round_trip = round_trips_us(socket).map(|(_, rtt_us)| RoundTrip { rtt_us, exact: true });
        }
        // One that may have been longer can show that there is more of a queue, not that there is less.
        let known_us = self.law.output().queuing_delay_us;
        let round_trip = round_trip.filter(|&RoundTrip { rtt_us, exact }| {
            exact || self.bases.least_queuing_us(entry.server, rtt_us) > known_us
        });
        if round_trip.is_some() {
            entry.asked_us = None;
        }
        self.sample(now_us, entry.server, round_trip, bytes, prior);
    }

    /// An answer is over. One that fitted into the first window, so that no edge was met, shows the round-trip time as a whole.
    fn answered(&mut self, entry: &mut Entry, now_us: u64) {
        if let Some(asked_us) = entry.asked_us.take()
            && entry.arrived_us > asked_us
        {
            let round_trip = RoundTrip::between(asked_us, entry.arrived_us, true);
            let prior = self.admission.outstanding_bytes();
            self.sample(now_us, entry.server, round_trip, 0, prior);
        }
    }

    /// Tells the law.
    fn sample(&mut self, now_us: u64, server: IpAddr, round_trip: Option<RoundTrip>, bytes: u64, prior: u64) {
        let mut queuing_us = 0;
        if let Some(RoundTrip { rtt_us, exact }) = round_trip {
            queuing_us = if exact {
                self.bases.queuing_us(now_us, server, rtt_us)
            } else {
                self.bases.least_queuing_us(server, rtt_us)
            };
            self.srtt_us = match self.srtt_us {
                0 => rtt_us,
                srtt_us => (u64::from(srtt_us) * 7 / 8 + u64::from(rtt_us) / 8) as u32,
            };
            // The law's own base: that of the first server, to which every queue is added.
            if self.min_rtt_us == 0 {
                self.min_rtt_us = rtt_us;
            }
        }
        let round_start = now_us >= self.round_end_us;
        if round_start {
            self.round_end_us = now_us + u64::from(self.srtt_us);
            self.round_bytes = [0, self.round_bytes[0]];
        }
        self.round_bytes[0] += bytes;
        // A server that sends less than it may does not use the window, whatever is outstanding.
        let used = prior.min(self.round_bytes[0].max(self.round_bytes[1]));
        let waiting = self.admission.waiting() > 0;
        let ack = Ack {
            now_us,
            acked_bytes: bytes,
            prior_inflight_bytes: prior,
            rtt_us: round_trip.map_or(0, |_| self.min_rtt_us.saturating_add(queuing_us)),
            owd_us: queuing_us,
            owd_resolution_us: u32::from(round_trip.is_some()),
            app_limited: u8::from(
                self.standby.is_aside()
                    || !waiting && used + 2 * u64::from(MSS_BYTES) < self.admission.window_bytes(),
            ),
            round_start: round_start.into(),
            ..Ack::default()
        };
        let path = Path {
            inflight_bytes: self.admission.outstanding_bytes(),
            mss_bytes: MSS_BYTES,
            initial_window_bytes: INITIAL_BYTES,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
        };
        self.law.on_ack(&ack, &path);
        self.admission.set_window(self.law.output().cwnd_q16 >> 16, self.srtt_us.into());
    }

    /// Looks into the sockets of flows that wait, whose tasks do not.
    fn look(&mut self, now_us: u64) {
        let waiting: Vec<u64> =
            self.flows.iter().filter(|(_, flow)| flow.asking && flow.expects()).map(|(&n, _)| n).collect();
        for number in waiting {
            let Some(mut entry) = self.flows.remove(&number) else { continue };
            if let Some(socket) = &entry.socket
                && let Ok(unread) = rustix::io::ioctl_fionread(&**socket)
            {
                self.arrived(&mut entry, now_us, unread);
            }
            self.flows.insert(number, entry);
        }
    }

    /// A server that has not sent for two round trips has nothing to send: others may. Datagrams have arrived after one.
    fn expire(&mut self, now_us: u64) {
        let srtt_us = u64::from(self.srtt_us).max(1000);
        let hold_us = self.hold_us();
        let mut released = 0;
        for entry in self.flows.values_mut().filter(|flow| flow.outstanding > 0) {
            if let Some(due) = &mut entry.datagrams {
                while let Some((bytes, _)) = due.pop_front_if(|(_, at_us)| now_us - *at_us >= srtt_us) {
                    let bytes = bytes.min(entry.outstanding);
                    entry.outstanding -= bytes;
                    released += bytes;
                }
            } else if now_us.saturating_sub(entry.last_us) > hold_us {
                released += std::mem::take(&mut entry.outstanding);
                entry.edges.clear();
            }
        }
        self.admission.release(released);
    }

    fn hold_us(&self) -> u64 {
        2 * u64::from(self.srtt_us) + 50_000
    }

    #[must_use]
    fn grant(&mut self, now_us: u64) -> Vec<Waker> {
        if self.standby.hold(now_us, self.admission.waiting() > 0).is_some() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.admission.grant(now_us))
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|grant| self.give(now_us, grant))
            .collect()
    }

    fn give(&mut self, now_us: u64, grant: crate::admission::Grant) -> Option<Waker> {
        let Some(entry) = self.flows.get_mut(&grant.flow) else {
            self.admission.release(grant.bytes);
            return None;
        };
        entry.asking = false;
        entry.granted = Some(entry.wish);
        if std::mem::take(&mut entry.starts) {
            entry.asked_us = Some(now_us);
        }
        entry.hold(now_us, grant.bytes);
        entry.waker.take()
    }
}

impl Entry {
    fn new(server: IpAddr, datagrams: bool, now_us: u64) -> Entry {
        Entry {
            server,
            datagrams: datagrams.then(VecDeque::new),
            socket: None,
            window: LEAST_BYTES,
            growth: 0,
            outstanding: 0,
            arrived: 0,
            read: 0,
            end: None,
            last_us: now_us,
            sampled_us: 0,
            starts: false,
            asked_us: None,
            arrived_us: now_us,
            granted: None,
            wish: 0,
            asking: false,
            waker: None,
            edges: Edges::new(LEAST_BYTES),
        }
    }

    /// Whether bytes may be on their way.
    fn expects(&self) -> bool {
        self.outstanding > 0 || self.edges.is_timed()
    }

    fn hold(&mut self, now_us: u64, bytes: u64) {
        self.outstanding += bytes;
        self.last_us = now_us;
        if let Some(due) = &mut self.datagrams {
            due.push_back((bytes, now_us));
        }
    }
}
