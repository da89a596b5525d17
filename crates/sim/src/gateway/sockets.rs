//! Downloads through sockets. A program reads what `leeway_share::Downlink` lets it read, and a
//! kernel announces receive windows. The downlink is the code of the live gateway; this file
//! stands for the kernel, for the program's tasks, and for the traffic observer of a gateway that
//! may see packets.
//!
//! The kernel announces a window when bytes arrive and when bytes are read: as many whole segments
//! as there is room for. Its buffer has twice the bytes of the bound, and segments take more of it
//! than their payload, as in Linux.
//!
//! Scope and limitations: a task reads at once, or up to `read_delay` later. It reads the end of
//! an answer when the end arrives. The kernel's least round-trip time is the sum of the least
//! delays of both ways. Each server's clock counts milliseconds, and the gateway knows this from
//! the start.

use super::{Down, Engine, Gateway, GatewayFlow, milliseconds};
use crate::app::App;
use crate::engine::Timer;
use crate::packet::Packet;
use crate::scenario;
use leeway_share::{Downlink, FlowId, MSS_BYTES, Policy, Received, Receiver, Segment, UserId};
use leeway_units::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Interval at which waiting tasks look for new bytes, as in the live gateway. Unit: µs.
const TICK_US: u64 = 1_000;
/// Interval at which a window is announced again that the server has not heard of (RFC 9293,
/// 3.8.6.1). Unit: µs.
const AGAIN_US: u64 = 250_000;
/// Largest grant for one read, as in the live gateway. Unit: bytes.
const READ_BYTES: u64 = 64 * 1024;

/// The sockets of one gateway.
#[derive(Debug)]
pub struct Sockets {
    pub downlink: Downlink,
    read_delay: Option<Duration>,
    /// When waiting tasks look next. Unit: µs.
    look_us: u64,
    again_us: u64,
}

/// The socket of one download.
#[derive(Debug)]
pub struct Socket {
    kernel: Arc<Kernel>,
    /// Bytes received behind a gap.
    early: u64,
    /// Next segment expected, at the last arrival.
    next: u32,
    /// Bytes that the task may read: granted, and not read yet.
    granted: u64,
    /// A request that waits until its server may answer. Inside: bytes of the answer, if they are
    /// known.
    starts: Option<Option<u32>>,
    /// Whether the task waits for a grant to read.
    waits: bool,
    /// End of an answer of which nothing was read yet. Unit: bytes since the connection began.
    end: Option<u64>,
}

/// What a kernel knows of one connection.
#[derive(Debug, Default)]
struct Kernel {
    segment_bytes: u32,
    unread: AtomicU64,
    bound: AtomicU32,
    /// Unit: µs; 0 before the first measurement.
    least_rtt_us: AtomicU32,
    out_of_order: AtomicU32,
}

impl Kernel {
    /// The window that the kernel announces now. Unit: segments. Unread bytes count 4/5: half of
    /// what they take of a buffer of twice the bound, where a segment takes 1.6 times its payload.
    fn window(&self) -> u32 {
        let room = u64::from(self.bound.load(Relaxed)).saturating_sub(self.unread.load(Relaxed) * 4 / 5);
        (room / u64::from(self.segment_bytes.max(1))) as u32
    }
}

impl Receiver for Kernel {
    fn unread(&self) -> Option<u64> {
        Some(self.unread.load(Relaxed))
    }

    fn received(&self) -> Option<Received> {
        Some(Received {
            least_rtt_us: self.least_rtt_us.load(Relaxed),
            out_of_order: self.out_of_order.load(Relaxed),
        })
    }

    fn segment_bytes(&self) -> Option<u32> {
        Some(self.segment_bytes)
    }

    fn bound_window(&self, bytes: u32, _: u32) -> bool {
        self.bound.store(bytes, Relaxed);
        true
    }

    fn acknowledge_at_once(&self) {}
}

impl Sockets {
    /// The sockets of the gateway that `spec` describes.
    pub fn new(spec: &scenario::Gateway, policy: &Policy) -> Sockets {
        let downlink = Downlink::new(&spec.laws()[0], &policy.for_timers());
        Sockets { downlink, read_delay: spec.read_delay, look_us: 0, again_us: 0 }
    }

    /// Opens a connection of `user` by `path`. `None`: the downlink has no room for another.
    pub fn open(&mut self, now_us: u64, user: UserId, path: u32) -> Option<(FlowId, Socket)> {
        let id = self.downlink.open(now_us, user, u64::from(path) + 1).ok()?;
        let kernel = Arc::new(Kernel { segment_bytes: MSS_BYTES, ..Kernel::default() });
        Some((id, Socket { kernel, early: 0, next: 0, granted: 0, starts: None, waits: false, end: None }))
    }
}

impl Gateway {
    /// The sockets, and the identity and socket of a flow with the state `at_gateway`.
    fn socket<'a>(
        &'a mut self,
        at_gateway: &'a mut Option<GatewayFlow>,
    ) -> Option<(&'a mut Sockets, FlowId, &'a mut Socket)> {
        let GatewayFlow { id, socket, .. } = at_gateway.as_mut()?;
        Some((self.sockets()?, *id, socket.as_mut()?))
    }
}

/// The part of [`Engine`] that stands for the tasks and the kernel of a gateway with sockets.
impl Engine {
    /// Whether flow `index` comes through a socket.
    pub(super) fn is_on_socket(&self, index: u32) -> bool {
        self.flows[index as usize].at_gateway.as_ref().is_some_and(|at_gateway| at_gateway.socket.is_some())
    }

    /// A connection of flow `index` begins.
    pub(super) fn socket_connects(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let group = &self.groups[flow.group as usize];
        let node = &mut self.gateways[gateway];
        let (Some(at_gateway), Down::Sockets(sockets)) = (&mut flow.at_gateway, &mut node.down) else {
            return;
        };
        let user = at_gateway.user;
        sockets.downlink.close(at_gateway.id);
        node.owners[0].remove(&at_gateway.id);
        let Some((id, mut socket)) = sockets.open(now_us, user, flow.group) else { return };
        node.owners[0].insert(id, index);
        let segment_bytes = u32::from(group.profile.mss);
        socket.kernel = Arc::new(Kernel { segment_bytes, ..Kernel::default() });
        sockets.downlink.connected(id, socket.kernel.clone());
        let asks = matches!(group.spec.app, scenario::App::Request { .. });
        (at_gateway.id, at_gateway.edge, at_gateway.reading) = (id, 0, false);
        socket.starts = (!asks).then_some(None);
        at_gateway.socket = Some(socket);
        flow.sender.edge = 0;
        if asks {
            self.socket_announces(index);
        } else {
            self.socket_starts(gateway, index);
        }
    }

    /// The client of flow `index` requests `size` bytes.
    pub(super) fn socket_asks(&mut self, gateway: usize, index: u32, size: u32) {
        if let Some(GatewayFlow { socket: Some(socket), .. }) = &mut self.flows[index as usize].at_gateway
            && socket.starts.is_none()
        {
            socket.starts = Some(Some(size));
            self.socket_starts(gateway, index);
        }
    }

    /// Sends the request of flow `index`, or announces its window, if the downlink lets its server
    /// begin.
    fn socket_starts(&mut self, gateway: usize, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some((sockets, id, socket)) = self.gateways[gateway].socket(&mut flow.at_gateway) else { return };
        if sockets.downlink.start(id) {
            let size = socket.starts.take().flatten();
            socket.end = size.map(|size| sockets.downlink.position(id) + u64::from(size));
            match size {
                Some(size) => self.gateway_asks(index, size),
                None => self.socket_announces(index),
            }
        }
        self.gateway_serves(gateway);
    }

    /// The downlink has granted what flow `index` waited for.
    fn socket_wakes(&mut self, gateway: usize, index: u32) {
        let flow = &mut self.flows[index as usize];
        let Some((_, _, socket)) = self.gateways[gateway].socket(&mut flow.at_gateway) else { return };
        match socket.starts {
            Some(_) => self.socket_starts(gateway, index),
            None => self.socket_reads(gateway, index),
        }
    }

    /// A packet of flow `index` has arrived.
    pub(super) fn socket_receives(&mut self, gateway: usize, index: u32, packet: &Packet, new: bool) {
        let now = self.world.now;
        let flow = &mut self.flows[index as usize];
        let back_us = flow.at_gateway.as_ref().and_then(|at_gateway| at_gateway.back_us);
        let sees_packets = self.gateways[gateway].sees_packets();
        let Some((sockets, id, socket)) = self.gateways[gateway].socket(&mut flow.at_gateway) else { return };
        let kernel = &socket.kernel;
        if let Some(back_us) = back_us {
            let rtt_us =
                u32::try_from((now - packet.sent).micros()).unwrap_or(u32::MAX).saturating_add(back_us);
            let least_us = kernel.least_rtt_us.load(Relaxed);
            kernel.least_rtt_us.store(if least_us == 0 { rtt_us } else { rtt_us.min(least_us) }, Relaxed);
        }
        socket.early += if new { u64::from(packet.value()) } else { 0 };
        if sees_packets {
            let came = sockets.downlink.position(id) + kernel.unread.load(Relaxed);
            let next = flow.receiver.next();
            // The next byte expected, a later one, or one that had arrived before.
            let later = u64::from(packet.seq().saturating_sub(next)) * u64::from(kernel.segment_bytes);
            let from = if new { came + later } else { came.saturating_sub(1) };
            let clock = milliseconds(packet.sent.micros());
            let segment = Segment { from, bytes: packet.value().into(), clock };
            sockets.downlink.segment(now.micros(), now.micros(), id, segment);
        }
        let passed = u64::from(flow.receiver.next() - socket.next) * u64::from(kernel.segment_bytes);
        socket.next = flow.receiver.next();
        let in_order = if flow.receiver.is_in_order() { socket.early } else { socket.early.min(passed) };
        if in_order == 0 {
            kernel.out_of_order.fetch_add(u32::from(new), Relaxed);
            return;
        }
        socket.early -= in_order;
        kernel.unread.fetch_add(in_order, Relaxed);
        let (waits, read_delay) = (socket.waits, sockets.read_delay);
        self.socket_announces(index);
        match read_delay {
            _ if waits => {} // it looks at its next tick
            Some(most) => self.socket_reads_later(index, most),
            None => self.socket_reads(gateway, index),
        }
        self.gateway_serves(gateway);
    }

    fn socket_reads_later(&mut self, index: u32, most: Duration) {
        let flow = &mut self.flows[index as usize];
        let Some(at_gateway) = &mut flow.at_gateway else { return };
        if !std::mem::replace(&mut at_gateway.reading, true) {
            let at = self.world.now + App::host_delay(&mut flow.app, most);
            self.world.set(at, Timer::Read(index));
        }
    }

    /// The task of flow `index` reads what it may read, and follows the downlink for more.
    pub(super) fn socket_reads(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        loop {
            let flow = &mut self.flows[index as usize];
            let Some((sockets, id, socket)) = self.gateways[gateway].socket(&mut flow.at_gateway) else {
                return;
            };
            let downlink = &mut sockets.downlink;
            let unread = socket.kernel.unread.load(Relaxed);
            socket.waits = false;
            if unread == 0 {
                socket.granted = 0;
                break;
            }
            if socket.granted == 0 {
                downlink.seen(now_us, id, unread);
                match downlink.follow(id, unread.min(READ_BYTES)) {
                    Some(bytes) => socket.granted = bytes.max(1),
                    None => {
                        socket.waits = true;
                        break;
                    }
                }
            }
            let bytes = unread.min(socket.granted);
            socket.granted -= bytes;
            socket.kernel.unread.fetch_sub(bytes, Relaxed);
            downlink.read(now_us, id, bytes);
            if let Some(end) = socket.end.take() {
                downlink.expect(id, end);
            }
            self.socket_announces(index);
        }
        self.gateway_serves(gateway);
    }

    /// Flow `index` has received the whole answer to its request: the task reads the rest.
    pub(super) fn socket_rests(&mut self, gateway: usize, index: u32) {
        let now_us = self.world.now.micros();
        let flow = &mut self.flows[index as usize];
        let Some((sockets, id, socket)) = self.gateways[gateway].socket(&mut flow.at_gateway) else { return };
        let unread = socket.kernel.unread.swap(0, Relaxed);
        if unread > 0 {
            sockets.downlink.seen(now_us, id, unread);
            if let Some(end) = socket.end {
                sockets.downlink.expect(id, end);
            }
            sockets.downlink.read(now_us, id, unread);
        }
        sockets.downlink.finish(id);
        (socket.granted, socket.waits, socket.end) = (0, false, None);
        self.socket_announces(index);
        self.gateway_serves(gateway);
    }

    /// The kernel announces the receive window of flow `index`, if it is larger than before.
    fn socket_announces(&mut self, index: u32) {
        let now_us = self.world.now.micros();
        let Some((gateway, _)) = self.met(index) else { return };
        let flow = &mut self.flows[index as usize];
        let Some(GatewayFlow { socket: Some(socket), edge, id, .. }) = &mut flow.at_gateway else { return };
        let next = flow.receiver.next();
        let window = next.saturating_add(socket.kernel.window());
        let larger = window > *edge;
        *edge = window.max(*edge);
        let ahead_bytes = u64::from(edge.saturating_sub(next)) * u64::from(socket.kernel.segment_bytes);
        let node = &mut self.gateways[gateway];
        if node.sees_packets()
            && let Some(sockets) = node.sockets()
        {
            let came = sockets.downlink.position(*id) + socket.kernel.unread.load(Relaxed);
            sockets.downlink.announced(now_us, now_us, *id, came, came + ahead_bytes);
        }
        if larger {
            self.tell_window(index);
        }
    }

    /// A request of flow `index` leaves. The traffic observer sees it, if the gateway may see
    /// packets.
    pub(super) fn request_is_seen(&mut self, index: u32) {
        let now_us = self.world.now.micros();
        let Some((gateway, _)) = self.met(index) else { return };
        let flow = &mut self.flows[index as usize];
        let node = &mut self.gateways[gateway];
        if node.sees_packets()
            && let Some((sockets, id, _)) = node.socket(&mut flow.at_gateway)
        {
            sockets.downlink.sent(now_us, id);
        }
    }

    /// Does all that the downlink of gateway `gateway` grants now. Returns when to look again,
    /// while tasks wait. Unit: µs.
    pub(super) fn sockets_serve(&mut self, gateway: usize) -> Option<u64> {
        let now_us = self.world.now.micros();
        let sockets = self.gateways[gateway].sockets()?;
        if now_us >= sockets.look_us {
            sockets.look_us = (now_us / TICK_US + 1) * TICK_US;
            sockets.downlink.look(now_us);
        }
        if now_us >= sockets.again_us {
            sockets.again_us = now_us + AGAIN_US;
            self.sockets_tell_again(gateway);
        }
        loop {
            let woken = self.gateways[gateway].sockets()?.downlink.grant(now_us);
            if woken.is_empty() {
                break;
            }
            for id in woken {
                if let Some(&index) = self.gateways[gateway].owners[0].get(&id) {
                    self.socket_wakes(gateway, index);
                }
            }
        }
        let sockets = self.gateways[gateway].sockets()?;
        sockets.downlink.is_busy().then_some(sockets.look_us)
    }

    /// Announces windows again that have not reached their servers.
    fn sockets_tell_again(&mut self, gateway: usize) {
        let missed: Vec<u32> = self.gateways[gateway].owners[0]
            .values()
            .copied()
            .filter(|&index| {
                let flow = &self.flows[index as usize];
                flow.open
                    && flow.at_gateway.as_ref().is_some_and(|at_gateway| flow.sender.edge < at_gateway.edge)
            })
            .collect();
        missed.into_iter().for_each(|index| self.tell_window(index));
    }
}
