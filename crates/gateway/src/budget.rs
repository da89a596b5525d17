//! The window that all downloads share, in real time and for tasks that wait.

use crate::window::{Want, Window};
use leeway_control::LawSpec;
use leeway_net::Sight;
use leeway_share::{FlowId, State};
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

/// One connection's part in it.
#[derive(Debug)]
pub struct Flow {
    budget: Arc<Budget>,
    id: FlowId,
}

impl Budget {
    /// One under that law; [`Budget::drive`] keeps it going.
    pub fn new(spec: &LawSpec) -> Arc<Budget> {
        let window = Mutex::new(Window::new(spec));
        Arc::new(Budget { start: Instant::now(), window, blocked: Notify::new() })
    }

    /// Wakes those who wait: bytes that arrive at a connection which waits itself, time that passes. Never ends.
    pub async fn drive(&self) {
        loop {
            self.blocked.notified().await;
            let mut look = tokio::time::Instant::now();
            loop {
                let now = tokio::time::Instant::now();
                let woken = {
                    let mut window = self.lock();
                    if !window.is_busy() {
                        break;
                    }
                    let now_us = self.now_us();
                    if now >= look {
                        look = now + TICK;
                        window.look(now_us);
                    }
                    window.grant(now_us)
                };
                woken.into_iter().for_each(Waker::wake);
                let wake = self.lock().wake_us().map(|at_us| self.start + Duration::from_micros(at_us));
                let wake = wake.map_or(look, |at| look.min(at.into()));
                tokio::time::sleep_until(wake).await;
            }
        }
    }

    /// A connection to `server` begins.
    pub fn flow(self: &Arc<Budget>, user: u64, server: IpAddr) -> Flow {
        Flow { budget: self.clone(), id: self.lock().open(user, server) }
    }

    /// Datagrams begin to come; [`Flow::poll_datagram`] lets them in.
    pub fn datagrams(self: &Arc<Budget>, user: u64) -> Flow {
        self.flow(user, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// How it stands.
    pub fn state(&self) -> State {
        let now_us = self.now_us();
        self.lock().state(now_us)
    }

    /// The home was seen.
    pub fn home_seen(&self, sights: &[Sight]) {
        let now_us = self.now_us();
        self.lock().home_seen(now_us, sights);
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
        self.budget.lock().window_bytes(self.id) as u32
    }

    /// Whether a connection that is made now may have more than 64 KiB.
    pub fn may_be_large(&self) -> bool {
        self.with(|window, now_us, _| window.share(now_us) > u64::from(u16::MAX))
    }

    /// The connection is there. Its handshake is no sample: small packets take less time on a slow line than full ones.
    pub fn connected(&self, socket: &Arc<TcpStream>) {
        self.budget.lock().connected(self.id, socket.clone());
    }

    /// A request is about to be sent: waits until the server may answer with the connection's window. While an answer is
    /// under way there is nothing to wait for.
    pub fn poll_start(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_ask(cx, Want::Start).map(drop)
    }

    /// `unread` bytes are in the socket: waits until others may follow them, and says how many to read.
    pub fn poll_read(&self, cx: &mut Context<'_>, unread: u64) -> Poll<u64> {
        self.poll_ask(cx, Want::Read(unread))
    }

    /// A datagram has come: waits until its turn.
    pub fn poll_datagram(&self, cx: &mut Context<'_>, bytes: u64) -> Poll<()> {
        self.poll_ask(cx, Want::Datagram(bytes)).map(drop)
    }

    /// So many bytes are in the socket now. What that leaves of the window is not given away before the flow has asked for
    /// more, by [`Flow::poll_read`].
    pub fn seen(&self, unread: u64) {
        let now_us = self.budget.now_us();
        self.budget.lock().seen(now_us, self.id, unread);
    }

    /// So many were read, which opened the window.
    pub fn read(&self, bytes: u64) {
        self.with(|window, now_us, id| window.read(now_us, id, bytes));
    }

    /// The answer under way ends at that position.
    pub fn expect(&self, end: u64) {
        self.with(|window, _, id| window.expect(id, end));
    }

    /// The answer has ended: nothing more will come until the next request.
    pub fn finish(&self) {
        self.with(|window, now_us, id| window.finish(now_us, id));
    }

    /// Bytes read since the connection began.
    pub fn position(&self) -> u64 {
        self.budget.lock().position(self.id)
    }

    fn poll_ask(&self, cx: &mut Context<'_>, want: Want) -> Poll<u64> {
        let (ready, woken) = {
            let now_us = self.budget.now_us();
            let mut window = self.budget.lock();
            let ready = window.ask(now_us, self.id, want);
            let woken = window.grant(now_us);
            // What was asked for may have been granted at once.
            (ready.or_else(|| window.granted(self.id, want, cx.waker())), woken)
        };
        woken.into_iter().for_each(Waker::wake);
        if let Some(ready) = ready {
            return Poll::Ready(ready);
        }
        self.budget.blocked.notify_one();
        Poll::Pending
    }

    /// Does `work`, and then gives away what there is of the window.
    fn with<T>(&self, work: impl FnOnce(&mut Window, u64, FlowId) -> T) -> T {
        let now_us = self.budget.now_us();
        let mut window = self.budget.lock();
        let result = work(&mut window, now_us, self.id);
        let woken = window.grant(now_us);
        drop(window);
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.with(|window, _, id| window.close(id));
    }
}
