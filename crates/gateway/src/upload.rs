//! The window of the uplink in real time, for tasks that wait, with the sockets that it watches.

use crate::budget::State;
use crate::echo::Echo;
use crate::socket;
use crate::uplink::Uplink;
use leeway_control::LawSpec;
use leeway_net::{Observation, Segment};
use leeway_share::FlowId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How often sockets are asked for what was acknowledged, while anything is under way.
const TICK: Duration = Duration::from_millis(2);

/// What a handshake sends: a SYN, two acknowledgements and an end, of 60 bytes at the most each (RFC 9293,
/// 3.1; RFC 791).
pub const HANDSHAKE_BYTES: u64 = 240;

/// The shared window of all that leaves for users.
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
    sockets: BTreeMap<FlowId, Arc<TcpStream>>,
}

/// One connection's part in it, or that of one client's datagrams.
#[derive(Debug)]
pub struct Sender {
    upload: Arc<Upload>,
    number: FlowId,
}

impl Upload {
    /// One under that law; [`Upload::drive`] keeps it going. `landmarks` as in [`Uplink::new`], and
    /// `echo` with which it probes.
    pub fn new(spec: &LawSpec, landmarks: Vec<IpAddr>, echo: io::Result<Echo>) -> Arc<Upload> {
        let shared = Shared { uplink: Uplink::new(spec, landmarks), sockets: BTreeMap::new() };
        Arc::new(Upload { start: Instant::now(), shared: Mutex::new(shared), busy: Notify::new(), echo })
    }

    /// Why no probe can be sent, if none can.
    pub fn blindness(&self) -> Option<&io::Error> {
        self.echo.as_ref().err()
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.lock().uplink.state(self.now_us())
    }

    /// The rate of downloads, in bytes per second, whose acknowledgements leave an upload of the home
    /// what it should have.
    pub fn acknowledged_bytes_per_s(&self) -> u64 {
        self.lock().uplink.acknowledged_bytes_per_s(self.now_us())
    }

    /// The home is at work: neighbours yield.
    pub fn home_observed(&self, observations: &[Observation]) {
        let (mut shared, now_us) = (self.lock(), self.now_us());
        observations.iter().for_each(|observation| shared.uplink.home_observed(now_us, *observation));
    }

    /// Packets of this host's connections: what was acknowledged, and when.
    pub fn observed(&self, segments: &[Segment]) {
        self.work(|uplink, now_us| {
            for segment in segments {
                let at_us = segment.at_us(self.start, now_us);
                uplink.observed(now_us, at_us, &segment.ends, segment.seen);
            }
        });
    }

    /// A connection of `user` to `server` begins, or nothing that leaves by the line.
    pub fn connection(self: &Arc<Upload>, user: u64, server: Option<IpAddr>) -> Sender {
        self.open(user, server, true)
    }

    /// Datagrams of `user` begin.
    pub fn datagrams(self: &Arc<Upload>, user: u64) -> Sender {
        self.open(user, None, false)
    }

    fn open(self: &Arc<Upload>, user: u64, server: Option<IpAddr>, acknowledges: bool) -> Sender {
        let number = self.lock().uplink.open(user, server, acknowledges);
        Sender { upload: self.clone(), number }
    }

    /// Looks for what was acknowledged, and wakes those who wait. Never ends.
    pub async fn drive(&self) {
        let echoes = async {
            let Ok(echo) = &self.echo else { return std::future::pending().await };
            loop {
                let sequence = echo.receive().await;
                self.work(|uplink, now_us| uplink.echoed(now_us, sequence));
            }
        };
        let ticks = async {
            loop {
                self.busy.notified().await;
                let mut tick = tokio::time::interval(TICK);
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                while self.lock().uplink.is_busy() {
                    tick.tick().await;
                    self.look();
                    self.work(|uplink, now_us| uplink.expire(now_us));
                }
            }
        };
        tokio::join!(echoes, ticks);
    }

    /// Asks the sockets.
    fn look(&self) {
        let mut shared = self.lock();
        let waiting: Vec<FlowId> = shared.uplink.unacknowledged().collect();
        for flow in waiting {
            if let Some(told) = shared.sockets.get(&flow).and_then(socket::acknowledged) {
                shared.uplink.acked(self.now_us(), flow, told);
            }
        }
    }

    /// Does `work`, gives away what there is of the window, and sends a probe if one is due.
    fn work<T>(&self, work: impl FnOnce(&mut Uplink, u64) -> T) -> T {
        let (result, woken) = {
            let mut shared = self.lock();
            let now_us = self.now_us();
            let result = work(&mut shared.uplink, now_us);
            let woken = shared.uplink.grant(now_us);
            if let Ok(echo) = &self.echo
                && let Some(request) = shared.uplink.probe(now_us)
                && echo.send(request).is_err()
            {
                shared.uplink.probe_failed(now_us, request.server);
            }
            (result, woken)
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// The connection is there.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        let mut shared = self.upload.lock();
        shared.sockets.insert(self.number, socket.clone());
        if let Some(ends) = socket::ends(socket) {
            shared.uplink.connected(self.number, ends);
        }
    }

    /// `bytes` wait to be sent: waits until some of them may be, and says how many.
    pub fn poll_grant(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<u64> {
        let number = self.number;
        self.upload.work(|uplink, _| uplink.ask(number, bytes, cx.waker()));
        // What was asked for may have been granted at once.
        let granted = self.upload.lock().uplink.ready(number, bytes);
        match granted {
            Some(granted) => Poll::Ready(granted),
            None => {
                self.upload.busy.notify_one();
                Poll::Pending
            }
        }
    }

    /// So many bytes were sent.
    pub fn sent(&self, bytes: u64) {
        self.upload.work(|uplink, now_us| uplink.sent(now_us, self.number, bytes));
        self.upload.busy.notify_one();
    }

    /// What was granted is not used.
    pub fn unsent(&self) {
        self.upload.work(|uplink, _| uplink.unsent(self.number));
    }

    /// Waits for the turn of a datagram, or of a handshake, of `bytes`. `server` is its destination; nothing where
    /// the destination is not beyond the line.
    pub async fn turn(&self, bytes: u64, server: Option<IpAddr>) {
        std::future::poll_fn(|cx| self.poll_grant(cx, bytes)).await;
        self.upload.lock().uplink.heads_for(self.number, server);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.upload.work(|uplink, _| uplink.close(self.number));
        self.upload.lock().sockets.remove(&self.number);
        self.upload.busy.notify_one();
    }
}
