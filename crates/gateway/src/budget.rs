//! The window that all downloads share, in real time and for tasks that wait.

use crate::window::{Entry, Window};
use leeway_control::LawSpec;
use leeway_net::Sight;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How often those who wait look for bytes that have arrived.
const TICK: Duration = Duration::from_millis(2);

/// The shared window.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    window: Mutex<Window>,
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

impl Budget {
    /// A budget under that law for the line that the home uses, too; [`Budget::drive`] keeps it going.
    pub fn new(spec: &LawSpec) -> Arc<Budget> {
        Budget::with(Window::new(spec, true))
    }

    /// One for a way on which somebody else yields to the home.
    pub fn sharing(spec: &LawSpec) -> Arc<Budget> {
        Budget::with(Window::new(spec, false))
    }

    fn with(window: Window) -> Arc<Budget> {
        Arc::new(Budget { start: Instant::now(), window: Mutex::new(window), blocked: Notify::new() })
    }

    /// Wakes those who wait: bytes that arrive at a connection which waits itself, time that passes. Never ends.
    pub async fn drive(&self) {
        loop {
            self.blocked.notified().await;
            let mut tick = tokio::time::interval(TICK);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                let mut window = self.lock();
                if window.waiting() == 0 {
                    break;
                }
                let now_us = self.now_us();
                window.look(now_us);
                window.expire(now_us);
                let woken = window.grant(now_us);
                drop(window);
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
        let number = self.lock().open(self.now_us(), user, server, datagrams);
        Flow { budget: self.clone(), number, user }
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.lock().state()
    }

    /// The home is at work: who waits stands aside, or for what it has asked for.
    pub fn home_seen(&self, sight: Sight) {
        self.lock().home_seen(self.now_us(), sight);
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    /// The window that the connection should have before it is made, in bytes.
    pub fn window_bytes(&self) -> u32 {
        self.budget.lock().entry(self.number).window_bytes() as u32
    }

    /// Whether a connection that is made now may have more than 64 KiB.
    pub fn may_be_large(&self) -> bool {
        self.with(|window, entry, now_us| window.share(entry, now_us) > u64::from(u16::MAX))
    }

    /// The connection is there. Its handshake is no sample: small packets take less time on a slow line than full ones.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        self.budget.lock().entry(self.number).connected(socket.clone());
    }

    /// A request is about to be sent: waits until the server may answer with the connection's window. While an answer is
    /// under way there is nothing to wait for.
    pub fn poll_start(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_ask(cx, 0, Window::start).map(drop)
    }

    /// `unread` bytes are in the socket: waits until as many may follow them, and says how many to read. Where the window of
    /// all has room, that of the connection grows to its part of it.
    pub fn poll_read(&self, cx: &mut Context<'_>, unread: u64) -> Poll<u64> {
        self.poll_ask(cx, unread, |window, entry, now_us| window.follow(entry, now_us, unread))
    }

    /// A datagram has come: waits until its turn.
    pub fn poll_datagram(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<()> {
        self.poll_ask(cx, bytes, |_, _, _| Some(bytes.max(1))).map(drop)
    }

    /// So many bytes are in the socket now. What that leaves of the window is not given away before the flow has asked for
    /// more, by [`Flow::poll_read`].
    pub fn seen(&self, unread: u64) {
        let now_us = self.budget.now_us();
        let mut window = self.budget.lock();
        window.with(self.number, now_us, |window, entry, now_us| window.seen(entry, now_us, unread));
    }

    /// So many were read, which opened the window.
    pub fn read(&self, bytes: u64) {
        self.with(|window, entry, now_us| window.read(entry, now_us, bytes));
    }

    /// The answer under way ends at that position.
    pub fn expect(&self, end: u64) {
        self.with(|window, entry, _| window.expect(entry, end));
    }

    /// The answer has ended: nothing more will come until the next request.
    pub fn finish(&self) {
        self.with(|window, entry, now_us| window.finish(entry, now_us, (self.user, self.number)));
    }

    /// Bytes read since the connection began.
    pub fn position(&self) -> u64 {
        self.budget.lock().entry(self.number).position()
    }

    fn poll_ask(
        &self,
        cx: &mut Context<'_>,
        wish: u64,
        want: impl FnOnce(&mut Window, &mut Entry, u64) -> Option<u64>,
    ) -> Poll<u64> {
        let (ready, woken) = {
            let now_us = self.budget.now_us();
            let mut window = self.budget.lock();
            let ready = window.ask((self.user, self.number), now_us, cx.waker(), wish, want);
            let woken = window.grant(now_us);
            // What was asked for may have been granted at once.
            (ready.or_else(|| window.granted(self.number)), woken)
        };
        woken.into_iter().for_each(Waker::wake);
        if let Some(ready) = ready {
            return Poll::Ready(ready);
        }
        self.budget.blocked.notify_one();
        Poll::Pending
    }

    /// Does `work`, and then gives away what there is of the window.
    fn with<T>(&self, work: impl FnOnce(&mut Window, &mut Entry, u64) -> T) -> T {
        let now_us = self.budget.now_us();
        let mut window = self.budget.lock();
        let result = window.with(self.number, now_us, work);
        let woken = window.grant(now_us);
        drop(window);
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let now_us = self.budget.now_us();
        let mut window = self.budget.lock();
        window.close(self.user, self.number);
        let woken = window.grant(now_us);
        drop(window);
        woken.into_iter().for_each(Waker::wake);
    }
}
