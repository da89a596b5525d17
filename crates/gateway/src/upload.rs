//! The uplink in real time: [`leeway_share::Uplink`] with the sockets that it watches, the tasks
//! that wait for its grants, and the probes.

use crate::budget::State;
use crate::clocks::Connections;
use crate::echo::Echo;
use crate::paths::{self, UNBOUNDED, policy};
use crate::probe::Probe;
use crate::socket;
use leeway_control::LawSpec;
use leeway_net::{Ends, Observation, Seen, Segment};
use leeway_share::{FlowId, Uplink, UserId};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The default law of the uplink.
pub const LAW: &str = leeway_share::LAW;

/// Interval at which sockets are asked what was acknowledged, while anything is in flight.
const TICK: Duration = Duration::from_millis(2);

/// Bytes that a handshake sends: a SYN, two acknowledgements and a FIN, of at most 60 bytes each
/// (RFC 9293, 3.1; RFC 791).
pub const HANDSHAKE_BYTES: u64 = 240;

/// The uplink that all users share.
#[derive(Debug)]
pub struct Upload {
    start: Instant,
    shared: Mutex<Shared>,
    busy: Notify,
    echo: io::Result<Echo>,
}

#[derive(Debug)]
struct Shared {
    uplink: Uplink,
    probe: Probe,
    /// Where datagrams of a flow go, or its connection. Absent where that is not beyond the line.
    servers: HashMap<FlowId, IpAddr>,
    /// Where the last bytes went, if that is beyond the line.
    last: Option<IpAddr>,
    sockets: BTreeMap<FlowId, Arc<TcpStream>>,
    connections: Connections,
    /// Tasks that wait for grants.
    wakers: HashMap<FlowId, Waker>,
}

/// A connection's part of the uplink, or that of a client's datagrams.
#[derive(Debug)]
pub struct Sender {
    upload: Arc<Upload>,
    flow: FlowId,
    /// The ends of the connection, once it is connected.
    ends: OnceLock<Ends>,
}

impl Upload {
    /// An uplink under the law of `spec`. [`Upload::drive`] keeps it going. `landmarks` are addresses
    /// beyond the line that are probed where the servers of users do not echo. `echo` sends the
    /// probes.
    pub fn new(spec: &LawSpec, landmarks: Vec<IpAddr>, echo: io::Result<Echo>) -> Arc<Upload> {
        let shared = Shared {
            uplink: Uplink::new(spec, &policy()),
            probe: Probe::new(landmarks),
            servers: HashMap::new(),
            last: None,
            sockets: BTreeMap::new(),
            connections: Connections::default(),
            wakers: HashMap::new(),
        };
        Arc::new(Upload { start: Instant::now(), shared: Mutex::new(shared), busy: Notify::new(), echo })
    }

    /// The error for which no probe can be sent, if there is one.
    pub fn blindness(&self) -> Option<&io::Error> {
        self.echo.as_ref().err()
    }

    /// The present state.
    pub fn state(&self) -> State {
        State::of(self.lock().uplink.state(self.now_us()))
    }

    /// The rate of downloads, in bytes per second, whose acknowledgements leave an upload of the home
    /// its part of the uplink.
    pub fn acknowledged_bytes_per_s(&self) -> u64 {
        self.lock().uplink.acknowledged_bytes_per_s(self.now_us())
    }

    /// Records what the home does: neighbours yield to it.
    pub fn home_observed(&self, observations: &[Observation]) {
        let (mut shared, now_us) = (self.lock(), self.now_us());
        for &Observation { connection, what } in observations {
            if let Some(up) = leeway_tunnel::foreground::up(what) {
                shared.uplink.foreground(now_us, connection, up);
            }
        }
    }

    /// Records packets of this host's connections: what was acknowledged, and when.
    pub fn observed(&self, segments: &[Segment]) {
        self.work(|shared, now_us| {
            for segment in segments {
                let Seen::Acknowledged { position, ticks } = segment.seen else { continue };
                let Some(flow) = shared.connections.flow(&segment.ends) else { continue };
                let at_us = segment.at_us(self.start, now_us);
                let clock = shared.connections.clock(&segment.ends, at_us, ticks);
                shared.uplink.acknowledged(now_us, at_us, flow, position, clock);
            }
        });
    }

    /// Opens a connection of `user` to `server`; `None` where the connection does not leave by the line.
    pub fn connection(self: &Arc<Upload>, user: u64, server: Option<IpAddr>) -> Sender {
        self.enter(|shared| {
            let flow = shared.uplink.open(UserId(user), server.map(paths::of)).expect(UNBOUNDED);
            shared.servers.extend(server.map(|server| (flow, server)));
            flow
        })
    }

    /// Opens a flow for datagrams of `user`.
    pub fn datagrams(self: &Arc<Upload>, user: u64) -> Sender {
        self.enter(|shared| shared.uplink.datagrams(UserId(user)).expect(UNBOUNDED))
    }

    fn enter(self: &Arc<Upload>, open: impl FnOnce(&mut Shared) -> FlowId) -> Sender {
        let flow = open(&mut self.lock());
        Sender { upload: self.clone(), flow, ends: OnceLock::new() }
    }

    /// Asks sockets what was acknowledged, and wakes tasks that may send. Never ends.
    pub async fn drive(&self) {
        let echoes = async {
            let Ok(echo) = &self.echo else { return std::future::pending().await };
            loop {
                let sequence = echo.receive().await;
                self.work(|shared, now_us| {
                    if let Some((server, sent_us)) = shared.probe.echoed(sequence) {
                        shared.uplink.echoed(now_us, paths::echo(server), sent_us);
                    }
                });
            }
        };
        let ticks = async {
            loop {
                self.busy.notified().await;
                let mut tick = tokio::time::interval(TICK);
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                while self.lock().uplink.is_busy() {
                    tick.tick().await;
                    self.work(|shared, now_us| {
                        shared.look(now_us);
                        shared.uplink.expire(now_us);
                    });
                }
            }
        };
        tokio::join!(echoes, ticks);
    }

    /// Does `work`, gives all grants that are possible, and sends a probe if one is due.
    fn work<T>(&self, work: impl FnOnce(&mut Shared, u64) -> T) -> T {
        let (result, wakers) = {
            let mut shared = self.lock();
            let now_us = self.now_us();
            let result = work(&mut shared, now_us);
            let woken = shared.uplink.grant(now_us);
            if let Ok(echo) = &self.echo {
                shared.probe(now_us, echo);
            }
            let wakers: Vec<Waker> = woken.iter().filter_map(|flow| shared.wakers.remove(flow)).collect();
            (result, wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Asks the sockets of connections with bytes in flight what was acknowledged.
    fn look(&mut self, now_us: u64) {
        let waiting: Vec<FlowId> = self.uplink.unacknowledged().collect();
        for flow in waiting {
            if let Some(told) = self.sockets.get(&flow).and_then(socket::acknowledged) {
                self.uplink.told(now_us, flow, told);
            }
        }
    }

    /// Sends a probe behind what was sent, if one is due.
    fn probe(&mut self, now_us: u64, echo: &Echo) {
        if !self.uplink.is_sending() {
            return;
        }
        let hold_us = self.uplink.hold_us(now_us);
        if let Some((server, sent_us)) = self.probe.give_up(now_us, hold_us) {
            let waited_us = u32::try_from((now_us - sent_us).min(hold_us)).unwrap_or(u32::MAX);
            self.uplink.unechoed(now_us, paths::echo(server), waited_us);
        }
        if let Some(request) = self.probe.due(now_us, self.last)
            && echo.send(request).is_err()
        {
            self.probe.failed(now_us, request.server);
        }
    }
}

impl Sender {
    /// Records that the connection is established.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        let mut shared = self.upload.lock();
        shared.sockets.insert(self.flow, socket.clone());
        if let Some(ends) = socket::ends(socket) {
            shared.connections.insert(*self.ends.get_or_init(|| ends), self.flow);
        }
    }

    /// Waits until some of `bytes` may be sent. Returns how many may be.
    pub fn poll_grant(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<u64> {
        self.upload.work(|shared, _| shared.uplink.ask(self.flow, bytes));
        // The bytes may have been granted at once.
        let mut shared = self.upload.lock();
        if let Some(granted) = shared.uplink.ready(self.flow, bytes) {
            return Poll::Ready(granted);
        }
        shared.wakers.insert(self.flow, cx.waker().clone());
        self.upload.busy.notify_one();
        Poll::Pending
    }

    /// Records that `bytes` were sent.
    pub fn sent(&self, bytes: u64) {
        self.upload.work(|shared, now_us| {
            shared.last = shared.servers.get(&self.flow).copied();
            shared.uplink.sent(now_us, self.flow, bytes);
        });
        self.upload.busy.notify_one();
    }

    /// Records that granted bytes will not be sent.
    pub fn unsent(&self) {
        self.upload.work(|shared, _| shared.uplink.unsent(self.flow));
    }

    /// Waits for the turn of a datagram, or of a handshake, of `bytes`. `server` is its destination;
    /// `None` where the destination is not beyond the line.
    pub async fn turn(&self, bytes: u64, server: Option<IpAddr>) {
        std::future::poll_fn(|cx| self.poll_grant(cx, bytes)).await;
        let mut shared = self.upload.lock();
        shared.uplink.heads_for(self.flow, server.map(paths::of));
        match server {
            Some(server) => shared.servers.insert(self.flow, server),
            None => shared.servers.remove(&self.flow),
        };
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.upload.work(|shared, _| {
            shared.uplink.close(self.flow);
            shared.servers.remove(&self.flow);
            shared.sockets.remove(&self.flow);
            shared.wakers.remove(&self.flow);
            if let Some(ends) = self.ends.get() {
                shared.connections.remove(ends);
            }
        });
        self.upload.busy.notify_one();
    }
}
