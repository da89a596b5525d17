//! The window that all downloads share, in real time and for tasks that wait.

use crate::clocks::Connections;
use crate::paths::{self, UNBOUNDED, policy};
use crate::socket::{self, Incoming};
use crate::upload::Upload;
use leeway_control::LawSpec;
use leeway_net::{Ends, Observation, Seen, Segment};
use leeway_share::{self as share, Downlink, FlowId, ShareError, UserId};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How often those who wait look for bytes that have arrived.
const TICK: Duration = Duration::from_millis(1);

/// The shared window.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    shared: Mutex<Shared>,
    blocked: Notify,
}

#[derive(Debug)]
struct Shared {
    downlink: Downlink,
    connections: Connections,
    /// Tasks that wait for grants.
    wakers: HashMap<FlowId, Waker>,
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
    /// Time for which downloads have yielded to the home, in all.
    pub yielded_us: u64,
}

impl State {
    /// That of a line.
    pub fn of(line: leeway_share::State) -> State {
        State {
            window_bytes: line.window_bytes,
            outstanding_bytes: line.granted_bytes,
            queuing_delay_us: line.queuing_us,
            srtt_us: u32::try_from(line.srtt_us).unwrap_or(u32::MAX),
            waiting: line.asking,
            yielded_us: line.yielded_us,
        }
    }
}

/// One connection's part in it.
#[derive(Debug)]
pub struct Flow {
    budget: Arc<Budget>,
    number: FlowId,
    /// Once it is connected.
    ends: OnceLock<Ends>,
}

impl Budget {
    /// A budget under that law; [`Budget::drive`] keeps it going.
    pub fn new(spec: &LawSpec) -> Arc<Budget> {
        let downlink = Downlink::new(spec, &policy());
        let shared = Shared { downlink, connections: Connections::default(), wakers: HashMap::new() };
        Arc::new(Budget { start: Instant::now(), shared: Mutex::new(shared), blocked: Notify::new() })
    }

    /// Wakes tasks that wait, as bytes arrive and time passes. Never ends. `upload` is the other
    /// direction of the same line, if any: acknowledgements of downloads leave an upload of the home
    /// its part of that direction.
    pub async fn drive(&self, upload: Option<&Upload>) {
        loop {
            self.blocked.notified().await;
            let mut tick = tokio::time::interval(TICK);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while self.work(|shared, now_us| {
                let most_bytes_per_s = upload.map_or(u64::MAX, Upload::acknowledged_bytes_per_s);
                shared.downlink.set_most_bytes_per_s(most_bytes_per_s);
                shared.downlink.look(now_us);
                shared.downlink.is_busy()
            }) {
                tick.tick().await;
            }
        }
    }

    /// A connection to `server` begins.
    pub fn flow(self: &Arc<Budget>, user: u64, server: IpAddr) -> Flow {
        self.enter(|downlink, now_us| downlink.open(now_us, UserId(user), paths::of(server)))
    }

    /// Datagrams begin to come; [`Flow::poll_datagram`] lets them in.
    pub fn datagrams(self: &Arc<Budget>, user: u64) -> Flow {
        self.enter(|downlink, now_us| downlink.datagrams(now_us, UserId(user)))
    }

    fn enter(
        self: &Arc<Budget>,
        open: impl FnOnce(&mut Downlink, u64) -> Result<FlowId, ShareError>,
    ) -> Flow {
        let number = open(&mut self.lock().downlink, self.now_us()).expect(UNBOUNDED);
        Flow { budget: self.clone(), number, ends: OnceLock::new() }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        State::of(self.lock().downlink.state(self.now_us()))
    }

    /// Neighbours yield to the requests that the home made.
    pub fn home_observed(&self, observations: &[Observation]) {
        let (mut shared, now_us) = (self.lock(), self.now_us());
        for observation in observations {
            let what = leeway_tunnel::foreground::down(observation.what);
            shared.downlink.foreground(now_us, observation.connection, what);
        }
    }

    /// Packets of this host's connections: what they let through, and what arrived.
    pub fn observed(&self, segments: &[Segment]) {
        self.work(|shared, now_us| {
            for segment in segments {
                let Some(flow) = shared.connections.flow(&segment.ends) else { continue };
                let at_us = segment.at_us(self.start, now_us);
                let downlink = &mut shared.downlink;
                match segment.seen {
                    Seen::Announced { acknowledged, edge } => {
                        downlink.announced(now_us, at_us, flow, acknowledged, edge);
                    }
                    Seen::Sent => downlink.sent(at_us, flow),
                    Seen::Arrived { from, bytes, ticks } => {
                        let clock = shared.connections.clock(&segment.ends, at_us, ticks);
                        downlink.segment(now_us, at_us, flow, share::Segment { from, bytes, clock });
                    }
                    Seen::Acknowledged { .. } => {}
                }
            }
        });
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work`, and then gives away what there is.
    fn work<T>(&self, work: impl FnOnce(&mut Shared, u64) -> T) -> T {
        let (result, woken) = {
            let now_us = self.now_us();
            let mut shared = self.lock();
            let result = work(&mut shared, now_us);
            let woken = shared.downlink.grant(now_us);
            let wakers: Vec<Waker> = woken.iter().filter_map(|flow| shared.wakers.remove(flow)).collect();
            (result, wakers)
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Flow {
    /// The window that the connection should have before it is made, in bytes.
    pub fn window_bytes(&self) -> u32 {
        self.budget.lock().downlink.window_bytes(self.number) as u32
    }

    /// Whether a connection that is made now may have more than 64 KiB.
    pub fn may_be_large(&self) -> bool {
        let window_bytes = self.budget.state().window_bytes;
        window_bytes > u64::from(u16::MAX)
    }

    /// The connection is there. Its handshake is no sample: small packets take less time on a slow line than
    /// full ones.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        let mut shared = self.budget.lock();
        if let Some(ends) = socket::ends(socket) {
            shared.connections.insert(*self.ends.get_or_init(|| ends), self.number);
        }
        shared.downlink.connected(self.number, Arc::new(Incoming(socket.clone())));
    }

    /// A request is about to be sent: waits until the server may answer with the connection's window. While
    /// an answer is under way there is nothing to wait for.
    pub fn poll_start(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |downlink| downlink.start(self.number).then_some(()))
    }

    /// `unread` bytes are in the socket: waits until as many may follow them as are to be read, and says how many.
    pub fn poll_read(&self, cx: &mut Context<'_>, unread: u64) -> Poll<u64> {
        self.poll(cx, |downlink| downlink.follow(self.number, unread))
    }

    /// A datagram has come: waits until its turn.
    pub fn poll_datagram(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<()> {
        self.poll(cx, |downlink| downlink.datagram(self.number, bytes).then_some(()))
    }

    /// So many bytes are in the socket now.
    pub fn seen(&self, unread: u64) {
        let now_us = self.budget.now_us();
        self.budget.lock().downlink.seen(now_us, self.number, unread);
    }

    /// So many were read, which opened the window.
    pub fn read(&self, bytes: u64) {
        self.budget.work(|shared, now_us| shared.downlink.read(now_us, self.number, bytes));
    }

    /// The answer under way ends at that position.
    pub fn expect(&self, end: u64) {
        self.budget.work(|shared, _| shared.downlink.expect(self.number, end));
    }

    /// The answer has ended: nothing more will come until the next request.
    pub fn finish(&self) {
        self.budget.work(|shared, _| shared.downlink.finish(self.number));
    }

    /// Bytes read since the connection began.
    pub fn position(&self) -> u64 {
        self.budget.lock().downlink.position(self.number)
    }

    fn poll<T>(&self, cx: &mut Context<'_>, ask: impl Fn(&mut Downlink) -> Option<T>) -> Poll<T> {
        let wait = |shared: &mut Shared, _: u64| {
            let ready = ask(&mut shared.downlink);
            match ready {
                Some(_) => shared.wakers.remove(&self.number),
                None => shared.wakers.insert(self.number, cx.waker().clone()),
            };
            ready
        };
        // What was asked for may be granted at once.
        let ready = self.budget.work(wait).or_else(|| self.budget.work(wait));
        if ready.is_none() {
            self.budget.blocked.notify_one();
        }
        ready.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.budget.work(|shared, _| {
            shared.downlink.close(self.number);
            shared.wakers.remove(&self.number);
            if let Some(ends) = self.ends.get() {
                shared.connections.remove(ends);
            }
        });
    }
}
