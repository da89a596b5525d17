//! A context of the library: its endpoint, its sockets, and the callbacks to the program.
//!
//! A callback may call the library again, so only shared references live across it. All state is
//! in cells, and nothing of the endpoint is borrowed during a callback. The loop that is already
//! running ([`Context::run`]) handles what happens in a callback.

use crate::abi::*;
use crate::log::LOG_KINDS;
use leeway_control::LawSpec;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::time::Instant;
use utp::{Config, Connection, Endpoint, HEADER_BYTES, Handle, Kind, Packet, UtpError};

/// Most connections of a context. A program that wants fewer must limit itself.
const CONNECTIONS_MAX: usize = 1 << 20;
/// Time that a closed socket, whose bytes are all acknowledged, waits for the end of the peer's
/// stream.
const GRACE_US: u64 = 1_000_000;
/// Least number of bytes that a program may write ahead, however small the window is.
const AHEAD_BYTES: u64 = 32_768;
/// Most bytes in one UTP_ON_READ.
const READ_BYTES: usize = 65_536;
/// UDP payload of an Ethernet packet, over IPv4 and over IPv6.
const PACKET_BYTES_MAX: [usize; 2] = [1472, 1452];
/// Bytes of the IP and UDP headers, for IPv4 and IPv6.
const OVERHEAD_BYTES: [usize; 2] = [28, 48];

/// `utp_context`.
pub struct Context {
    endpoint: RefCell<Endpoint<SocketAddr>>,
    sockets: RefCell<BTreeMap<Handle, *mut Socket>>,
    /// Sockets that the program has closed and that are not destroyed yet.
    closing: RefCell<BTreeSet<*mut Socket>>,
    callbacks: [Cell<Option<Callback>>; ARRAY_SIZE],
    pub(crate) userdata: Cell<*mut c_void>,
    law: RefCell<LawSpec>,
    target_us: Cell<c_int>,
    /// Sizes of the send and receive buffers of new sockets.
    buffers: Cell<[usize; 2]>,
    began: Instant,
    now_us: Cell<u64>,
    is_running: Cell<bool>,
    /// Whether the program wants lines of each kind.
    pub(crate) logs: Cell<[bool; LOG_KINDS]>,
    packets: RefCell<Vec<u8>>,
    stats: UnsafeCell<ContextStats>,
}

/// `utp_socket`.
pub struct Socket {
    pub(crate) context: *const Context,
    pub(crate) userdata: Cell<*mut c_void>,
    handle: Cell<Option<Handle>>,
    peer: Cell<Option<SocketAddr>>,
    buffers: Cell<[usize; 2]>,
    /// Unread bytes in the program, by its last answer.
    unread: Cell<usize>,
    is_connected: Cell<bool>,
    is_at_end: Cell<bool>,
    has_failed: Cell<bool>,
    /// Whether the last write took less than the program offered.
    wants_room: Cell<bool>,
    pub(crate) is_deaf: Cell<bool>,
    is_finished: Cell<bool>,
    /// For a closed socket: since when only the end of the peer's stream is missing.
    closing_since_us: Cell<Option<u64>>,
    /// The highest number that was sent.
    highest: Cell<Option<u16>>,
    /// Bytes of a full packet, as the program was last told.
    packet_bytes: Cell<usize>,
    stats: UnsafeCell<SocketStats>,
}

impl Context {
    pub(crate) fn new(law: LawSpec) -> Context {
        let Config { send_bytes, receive_bytes, .. } = Config::default();
        Context {
            endpoint: RefCell::new(Endpoint::new(CONNECTIONS_MAX)),
            sockets: RefCell::default(),
            closing: RefCell::default(),
            callbacks: [const { Cell::new(None) }; ARRAY_SIZE],
            userdata: Cell::new(std::ptr::null_mut()),
            law: RefCell::new(law),
            target_us: Cell::new(100_000),
            buffers: Cell::new([send_bytes, receive_bytes]),
            began: Instant::now(),
            now_us: Cell::new(0),
            is_running: Cell::new(false),
            logs: Cell::default(),
            packets: RefCell::default(),
            stats: UnsafeCell::default(),
        }
    }

    pub(crate) fn set_callback(&self, which: usize, callback: Option<Callback>) {
        if let Some(place) = self.callbacks.get(which) {
            place.set(callback);
        }
        self.listen();
    }

    /// Applies the present options to incoming connections.
    fn listen(&self) {
        let accepts = self.callbacks[ON_ACCEPT].get().is_some();
        let config = accepts.then(|| self.config(self.buffers.get(), None));
        self.endpoint.borrow_mut().listen(config);
    }

    pub(crate) fn set_law(&self, law: LawSpec) {
        self.law.replace(law);
        self.listen();
    }

    pub(crate) fn set_option(&self, option: c_int, value: c_int) -> c_int {
        let (Ok(size), [send, receive]) = (usize::try_from(value), self.buffers.get()) else { return -1 };
        match option {
            SNDBUF => self.buffers.set([size, receive]),
            RCVBUF => self.buffers.set([send, size]),
            TARGET_DELAY => {
                let Ok(law) = format!("ledbat:target={value}us").parse() else { return -1 };
                self.target_us.set(value);
                self.law.replace(law);
            }
            _ => return self.set_log(option, value != 0),
        }
        self.listen();
        0
    }

    pub(crate) fn option(&self, option: c_int) -> c_int {
        let [send, receive] = self.buffers.get().map(|bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX));
        match option {
            SNDBUF => send,
            RCVBUF => receive,
            TARGET_DELAY => self.target_us.get(),
            _ => self.is_logged(option).map_or(-1, c_int::from),
        }
    }

    /// Settings of a new connection. Packets are not paced and acknowledgements are not delayed,
    /// because the program calls the library only when something arrives, or after half a second.
    fn config(&self, [send_bytes, receive_bytes]: [usize; 2], peer: Option<SocketAddr>) -> Config {
        let mut config = Config::default();
        config.law = self.law.borrow().clone();
        (config.send_bytes, config.receive_bytes) = (send_bytes, receive_bytes);
        (config.paces, config.ack_delay_us) = (false, 0);
        let is_six = usize::from(peer.is_none_or(|peer| peer.is_ipv6()));
        let told = peer.and_then(|peer| {
            let raw = raw_address(peer);
            self.call(GET_UDP_MTU, std::ptr::null_mut(), |arguments| arguments.set_address(&raw))
        });
        config.packet_bytes_max = match told {
            Some(bytes @ 64..=65_000) => bytes as usize,
            _ => PACKET_BYTES_MAX[is_six],
        };
        config.packet_bytes = config.packet_bytes.min(config.packet_bytes_max);
        if peer.is_some_and(|peer| peer.is_ipv6()) {
            config.packet_bytes_min = config.packet_bytes;
        }
        config
    }

    /// Calls the program's callback, if there is one.
    pub(crate) fn call(
        &self,
        which: usize,
        socket: *mut Socket,
        fill: impl FnOnce(&mut Arguments),
    ) -> Option<u64> {
        let callback = self.callbacks[which].get()?;
        let mut arguments = Arguments {
            context: std::ptr::from_ref(self).cast_mut().cast(),
            socket: socket.cast(),
            len: 0,
            flags: 0,
            callback_type: which as c_int,
            buf: std::ptr::null(),
            first: First { address: std::ptr::null() },
            address_len: 0,
        };
        fill(&mut arguments);
        // SAFETY: the program registered this function for these arguments, which live until it
        // returns.
        Some(unsafe { callback(&raw mut arguments) })
    }

    fn tell_state(&self, socket: *mut Socket, state: c_int) {
        self.call(ON_STATE_CHANGE, socket, |arguments| arguments.first = First { number: state });
    }

    /// The time of the program's clock, the finer one if there are two, or of this library's. It never goes back.
    fn now_us(&self) -> u64 {
        let ask = |which| self.call(which, std::ptr::null_mut(), |_| {});
        let told =
            ask(GET_MICROSECONDS).or_else(|| ask(GET_MILLISECONDS).map(|now_ms| now_ms.saturating_mul(1000)));
        let now_us = told.unwrap_or_else(|| self.began.elapsed().as_micros() as u64);
        self.now_us.set(now_us.max(self.now_us.get()));
        self.now_us.get()
    }

    fn random(&self) -> u16 {
        let told = self.call(GET_RANDOM, std::ptr::null_mut(), |_| {});
        told.map_or_else(|| getrandom::u32().unwrap_or(self.now_us.get() as u32) as u16, |drawn| drawn as u16)
    }

    pub(crate) fn create(&self) -> *mut Socket {
        Box::into_raw(Box::new(Socket::new(self, None)))
    }

    pub(crate) fn connect(&self, socket: &Socket, to: SocketAddr) -> c_int {
        if socket.handle.get().is_some() || socket.closing_since_us.get().is_some() {
            return -1;
        }
        let (config, now_us) = (self.config(socket.buffers.get(), Some(to)), self.now_us());
        let handle = self.endpoint.borrow_mut().connect(to, config, &mut || self.random(), now_us);
        let Some(handle) = handle else { return -1 };
        socket.handle.set(Some(handle));
        socket.peer.set(Some(to));
        self.sockets.borrow_mut().insert(handle, socket.as_ptr());
        self.log(LOG_NORMAL, socket.as_ptr(), || format!("connects to {to}"));
        self.run();
        0
    }

    /// Processes a datagram. Returns whether it is a uTP packet.
    pub(crate) fn process(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let Ok(packet) = Packet::parse(bytes) else { return false };
        self.count(bytes.len(), |stats| &mut stats.received);
        self.log_packet(std::ptr::null_mut(), "from", from, &packet);
        let handle = self.endpoint.borrow().addressed(from, &packet.header);
        if packet.header.kind == Kind::Syn && handle.is_none() {
            if self.callbacks[ON_ACCEPT].get().is_none() {
                return true; // as in libutp, nobody answers
            }
            let raw = raw_address(from);
            let refuses =
                self.call(ON_FIREWALL, std::ptr::null_mut(), |arguments| arguments.set_address(&raw));
            if refuses.is_some_and(|refuses| refuses != 0) {
                return true;
            }
        }
        let in_flight = |connection: &Connection| connection.steering().in_flight_bytes;
        let before = handle.and_then(|handle| self.look(handle, in_flight)).unwrap_or(0);
        let now_us = self.now_us();
        self.endpoint.borrow_mut().receive(from, bytes, &mut || self.random(), now_us);
        // Nothing is destroyed while the program is told.
        let was_running = self.is_running.replace(true);
        if let Some(pointer) = handle.and_then(|handle| self.pointer(handle)) {
            // SAFETY: sockets in the map live; see `changed`.
            unsafe { &*pointer }.count(|stats| stats.of(false), bytes.len());
            let kind = if packet.header.kind == Kind::Reset { CLOSE_OVERHEAD } else { HEADER_OVERHEAD };
            self.tell_overhead(pointer, from, false, bytes.len() - packet.payload.len(), kind);
            let left = handle.and_then(|handle| self.look(handle, Connection::steering));
            if let Some(steering) = left.filter(|steering| steering.in_flight_bytes < before) {
                let number = (steering.queuing_delay_us / 1000) as c_int;
                self.call(ON_DELAY_SAMPLE, pointer, |arguments| arguments.first = First { number });
                self.log_state(pointer, &steering);
            }
        }
        self.is_running.set(was_running);
        self.run();
        true
    }

    fn pointer(&self, handle: Handle) -> Option<*mut Socket> {
        self.sockets.borrow().get(&handle).copied()
    }

    /// Tells the program of bytes that are not of its streams, UDP and IP included.
    fn tell_overhead(&self, socket: *mut Socket, peer: SocketAddr, sends: bool, bytes: usize, kind: u32) {
        if self.callbacks[ON_OVERHEAD_STATISTICS].get().is_none() {
            return;
        }
        let raw = raw_address(peer);
        let told = self.call(GET_UDP_OVERHEAD, socket, |arguments| arguments.set_address(&raw));
        let overhead = told.map_or(OVERHEAD_BYTES[usize::from(peer.is_ipv6())], |bytes| bytes as usize);
        self.call(ON_OVERHEAD_STATISTICS, socket, |arguments| {
            (arguments.len, arguments.address_len) = (bytes + overhead, kind);
            arguments.first = First { number: sends.into() };
        });
    }

    /// Counts a packet that leaves, and tells the program what of it is overhead: of one with new bytes its
    /// header, of others all.
    fn note_sent(&self, to: SocketAddr, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let handle = self.endpoint.borrow().sent(to, &packet.header);
        let pointer = handle.and_then(|handle| self.pointer(handle));
        self.log_packet(pointer.unwrap_or(std::ptr::null_mut()), "to", to, &packet);
        let Some(pointer) = pointer else { return };
        // SAFETY: sockets in the map live; see `changed`.
        let socket = unsafe { &*pointer };
        socket.count(|stats| stats.of(true), bytes.len());
        let (bytes, kind) = match packet.header.kind {
            Kind::Syn => (bytes.len(), CONNECT_OVERHEAD),
            Kind::State => (bytes.len(), ACK_OVERHEAD),
            Kind::Reset => return,
            Kind::Data | Kind::Fin => {
                let (seq, highest) = (packet.header.seq, socket.highest.get());
                if highest.is_some_and(|highest| seq.wrapping_sub(highest) as i16 <= 0) {
                    self.log(LOG_NORMAL, pointer, || format!("packet {seq} is sent again"));
                    (bytes.len(), RETRANSMIT_OVERHEAD)
                } else {
                    socket.highest.set(Some(seq));
                    (bytes.len() - packet.payload.len(), HEADER_OVERHEAD)
                }
            }
        };
        self.tell_overhead(pointer, to, true, bytes, kind);
    }

    /// Processes an ICMP message about a sent packet. With an MTU of the next hop, the packet was
    /// too long.
    pub(crate) fn process_icmp(&self, to: SocketAddr, bytes: &[u8], next_hop_mtu: Option<u16>) -> bool {
        let Ok(packet) = Packet::parse(bytes) else { return false };
        let Some(handle) = self.endpoint.borrow().sent(to, &packet.header) else { return false };
        let now_us = self.now_us();
        let overhead = OVERHEAD_BYTES[usize::from(to.is_ipv6())];
        if let Some(connection) = self.endpoint.borrow_mut().get_mut(handle) {
            match next_hop_mtu {
                Some(mtu) => {
                    connection.too_long(&packet.header, usize::from(mtu).saturating_sub(overhead), now_us)
                }
                None => connection.unreachable(&packet.header),
            }
        }
        self.endpoint.borrow_mut().note_changed(handle);
        self.run();
        true
    }

    /// Runs the timers and sends what is due.
    pub(crate) fn check(&self) {
        let now_us = self.now_us();
        self.endpoint.borrow_mut().expire(now_us);
        self.run();
        if !self.is_running.get() {
            self.destroy_closed(now_us);
        }
    }

    /// Sends the acknowledgements that waited for more packets.
    pub(crate) fn acknowledge(&self) {
        let now_us = self.now_us();
        self.endpoint.borrow_mut().expire(now_us);
        self.run();
    }

    /// Microseconds until [`Context::check`] must be called.
    pub(crate) fn next_timeout_us(&self) -> Option<u64> {
        let deadline_us = self.endpoint.borrow().deadline();
        let grace_us = (!self.closing.borrow().is_empty()).then_some(self.now_us.get() + GRACE_US);
        let now_us = self.now_us();
        deadline_us.into_iter().chain(grace_us).min().map(|at_us| at_us.saturating_sub(now_us))
    }

    /// Sends packets and reports changes to the program, until there are neither.
    fn run(&self) {
        if self.is_running.replace(true) {
            return;
        }
        loop {
            self.send();
            let accepted = self.endpoint.borrow_mut().accept();
            if let Some(handle) = accepted {
                self.accepted(handle);
            }
            let changed = accepted.or_else(|| self.endpoint.borrow_mut().changed());
            match changed {
                Some(handle) => self.changed(handle),
                None if self.endpoint.borrow().is_ready() => {}
                None => break,
            }
        }
        self.is_running.set(false);
    }

    fn send(&self) {
        let mut packets = self.packets.take();
        loop {
            packets.clear();
            let now_us = self.now_us();
            let Some(batch) = self.endpoint.borrow_mut().transmit(now_us, &mut packets) else { break };
            let raw = raw_address(batch.to);
            for packet in packets.chunks(batch.segment_bytes) {
                self.count(packet.len(), |stats| &mut stats.sent);
                self.note_sent(batch.to, packet);
                self.call(SENDTO, std::ptr::null_mut(), |arguments| {
                    (arguments.buf, arguments.len) = (packet.as_ptr(), packet.len());
                    arguments.flags = if batch.whole { DONTFRAG } else { 0 };
                    arguments.set_address(&raw);
                });
            }
        }
        self.packets.replace(packets);
    }

    /// Reports an incoming connection whose peer address is proven.
    fn accepted(&self, handle: Handle) {
        let Some(peer) = self.endpoint.borrow().peer(handle) else { return };
        let socket = Box::into_raw(Box::new(Socket::new(self, Some((handle, peer)))));
        self.sockets.borrow_mut().insert(handle, socket);
        self.log(LOG_NORMAL, socket, || format!("accepts a connection of {peer}"));
        let raw = raw_address(peer);
        self.call(ON_ACCEPT, socket, |arguments| arguments.set_address(&raw));
        // The SYN and its answer, and the packet that has proven the address.
        // SAFETY: see `changed`.
        let accepted = unsafe { &*socket };
        let payload_bytes = self.look(handle, |one| one.steering().received_bytes).unwrap_or(0);
        accepted.count(|stats| stats.of(false), payload_bytes as usize);
        for (sends, kind) in [(false, HEADER_OVERHEAD), (true, ACK_OVERHEAD), (false, HEADER_OVERHEAD)] {
            accepted.count(|stats| stats.of(sends), HEADER_BYTES);
            self.tell_overhead(socket, peer, sends, HEADER_BYTES, kind);
        }
    }

    /// Reports the new state of a connection to the program.
    fn changed(&self, handle: Handle) {
        let Some(pointer) = self.pointer(handle) else { return };
        // SAFETY: sockets in the map are boxes that live until `destroy_closed`, which does not run
        // while this does.
        let socket = unsafe { &*pointer };
        if socket.has_failed.get() {
            return;
        }
        let is_open = self.look(handle, Connection::is_open).unwrap_or(false);
        if is_open && !socket.is_connected.replace(true) {
            self.call(ON_CONNECT, pointer, |_| {});
            self.tell_state(pointer, STATE_CONNECT);
        }
        self.hand_over(socket, handle);
        let at_end = self.look(handle, Connection::is_at_end).unwrap_or(false);
        if at_end && !socket.is_at_end.replace(true) && !socket.is_closing() {
            self.tell_state(pointer, STATE_EOF);
        }
        let segment_bytes = |connection: &Connection| connection.steering().segment_bytes;
        if let Some(packet_bytes) = self.look(handle, segment_bytes).map(|bytes| bytes + HEADER_BYTES)
            && packet_bytes != socket.packet_bytes.replace(packet_bytes)
        {
            self.log_mtu(pointer, packet_bytes);
        }
        if let Some(error) = self.look(handle, Connection::error).flatten() {
            socket.has_failed.set(true);
            self.log(LOG_NORMAL, pointer, || format!("ended: {error}"));
            let number = match error {
                UtpError::Reset if !socket.is_connected.get() => ECONNREFUSED,
                UtpError::Reset => ECONNRESET,
                UtpError::Unanswered | UtpError::Stalled | UtpError::Silent => ETIMEDOUT,
                _ => return,
            };
            self.call(ON_ERROR, pointer, |arguments| arguments.first = First { number });
            return;
        }
        if socket.wants_room.get() && !socket.is_finished.get() && self.room(socket, handle) > 0 {
            socket.wants_room.set(false);
            self.tell_state(pointer, STATE_WRITABLE);
        }
    }

    fn look<T>(&self, handle: Handle, what: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.endpoint.borrow().get(handle).map(what)
    }

    /// Passes arrived bytes to the program, or drops them after the program has closed the socket.
    fn hand_over(&self, socket: &Socket, handle: Handle) {
        let waits = |connection: &Connection| connection.is_readable() && !connection.is_at_end();
        let mut buffer = Vec::new();
        while self.look(handle, waits).unwrap_or(false) {
            buffer.resize(READ_BYTES, 0);
            let read =
                self.endpoint.borrow_mut().get_mut(handle).map(|connection| connection.read(&mut buffer));
            let Some(Ok(Some(count @ 1..))) = read else { break };
            if !socket.is_closing() && !socket.is_deaf.get() {
                self.call(ON_READ, socket.as_ptr(), |arguments| {
                    (arguments.buf, arguments.len) = (buffer.as_ptr(), count);
                });
            }
            self.refresh_window(socket);
        }
    }

    /// Sets the receive buffer to its size less the bytes that the program reports as unread.
    pub(crate) fn refresh_window(&self, socket: &Socket) {
        let Some(handle) = socket.handle.get() else { return };
        let told = self.call(GET_READ_BUFFER_SIZE, socket.as_ptr(), |_| {});
        let unread = usize::try_from(told.unwrap_or(0)).unwrap_or(usize::MAX);
        if unread != socket.unread.replace(unread) {
            let [send, receive] = socket.buffers.get();
            if let Some(connection) = self.endpoint.borrow_mut().get_mut(handle) {
                connection.set_buffers(send, receive.saturating_sub(unread));
            }
        }
    }

    /// The program has read all bytes that it received.
    pub(crate) fn drained(&self, socket: &Socket) {
        self.refresh_window(socket);
        self.run();
    }

    /// Bytes that the program may write now: up to two windows beyond what is acknowledged, so
    /// that written bytes are sent soon.
    fn room(&self, socket: &Socket, handle: Handle) -> usize {
        let [send, _] = socket.buffers.get();
        let room = |connection: &Connection| {
            let ahead = (2 * connection.steering().window_bytes).max(AHEAD_BYTES);
            let kept = send.saturating_sub(connection.writable_bytes());
            send.min(usize::try_from(ahead).unwrap_or(usize::MAX)).saturating_sub(kept)
        };
        self.look(handle, room).unwrap_or(0)
    }

    /// Takes bytes to send. Returns 0 if there is no room, or no connection yet.
    pub(crate) fn write(&self, socket: &Socket, parts: &[&[u8]]) -> usize {
        let Some(handle) = socket.handle.get().filter(|_| socket.is_connected.get()) else { return 0 };
        let mut written = 0;
        for part in parts {
            let part = &part[..part.len().min(self.room(socket, handle))];
            let Some(Ok(count)) = self.endpoint.borrow_mut().get_mut(handle).map(|one| one.write(part))
            else {
                return written;
            };
            written += count;
        }
        socket.wants_room.set(written < parts.iter().map(|part| part.len()).sum());
        self.run();
        written
    }

    /// Ends the stream of this side.
    pub(crate) fn finish(&self, socket: &Socket) {
        socket.is_finished.set(true);
        if let Some(handle) = socket.handle.get()
            && let Some(connection) = self.endpoint.borrow_mut().get_mut(handle)
        {
            connection.finish();
        }
        self.run();
    }

    /// Closes the socket. The program only learns of its destruction.
    pub(crate) fn close(&self, socket: &Socket) {
        if socket.is_closing() {
            return;
        }
        socket.closing_since_us.set(Some(self.now_us()));
        self.closing.borrow_mut().insert(socket.as_ptr());
        self.finish(socket);
    }

    /// Destroys closed sockets that have nothing left to do.
    fn destroy_closed(&self, now_us: u64) {
        let done = |&pointer: &*mut Socket| {
            // SAFETY: closed sockets live until they are removed from the set below.
            self.is_done(unsafe { &*pointer }, now_us)
        };
        // What the program does when it is told is served below.
        self.is_running.set(true);
        let done: Vec<*mut Socket> = self.closing.borrow().iter().copied().filter(done).collect();
        for pointer in done {
            // SAFETY: as above.
            let socket = unsafe { &*pointer };
            self.stats_of(socket);
            self.tell_state(pointer, STATE_DESTROYING);
            self.closing.borrow_mut().remove(&pointer);
            if let Some(handle) = socket.handle.get() {
                self.sockets.borrow_mut().remove(&handle);
                self.endpoint.borrow_mut().release(handle);
            }
            // SAFETY: the pointer came from a box, and no map or set contains it any more.
            drop(unsafe { Box::from_raw(pointer) });
        }
        self.is_running.set(false);
        self.run();
    }

    fn is_done(&self, socket: &Socket, now_us: u64) -> bool {
        let [send, _] = socket.buffers.get();
        let Some(handle) = socket.handle.get().filter(|_| socket.is_connected.get()) else { return true };
        let state = |connection: &Connection| {
            let ended = connection.is_over() || (connection.is_flushed() && connection.is_at_end());
            (ended, connection.writable_bytes() >= send)
        };
        let Some((has_ended, is_acknowledged)) = self.look(handle, state) else { return true };
        if !is_acknowledged {
            socket.closing_since_us.set(Some(now_us));
        }
        let since_us = socket.closing_since_us.get().unwrap_or(now_us);
        has_ended || now_us - since_us >= GRACE_US
    }

    fn count(&self, bytes: usize, which: impl FnOnce(&mut ContextStats) -> &mut [u32; 5]) {
        let class = [23, 373, 723, 1400].iter().filter(|&&limit| bytes > limit).count();
        // SAFETY: the program reads it between calls only, and nothing else of this is borrowed.
        let counts = which(unsafe { &mut *self.stats.get() });
        counts[class] = counts[class].wrapping_add(1);
    }

    pub(crate) fn stats(&self) -> *mut ContextStats {
        self.stats.get()
    }

    pub(crate) fn stats_of(&self, socket: &Socket) -> *mut SocketStats {
        let steering = socket.handle.get().and_then(|handle| self.look(handle, Connection::steering));
        if let Some(steering) = steering {
            let after_timeout = steering.resent_after_timeout_packets;
            // SAFETY: the program reads the statistics only between calls.
            let stats = unsafe { &mut *socket.stats.get() };
            stats.resent = (steering.resent_packets - after_timeout) as u32;
            stats.resent_fast = after_timeout as u32;
            stats.repeated = steering.repeated_packets as u32;
            stats.mtu = (steering.segment_bytes + HEADER_BYTES) as u32;
        }
        socket.stats.get()
    }

    /// The queuing delays of what this side and the peer send, in microseconds, and the age of the last measurement
    /// in milliseconds; `u32::MAX`: there was none.
    pub(crate) fn delays(&self, socket: &Socket) -> Option<[u32; 3]> {
        let steering = self.look(socket.handle.get()?, Connection::steering)?;
        let age_us = steering.measured_us.map(|at_us| self.now_us().saturating_sub(at_us));
        let age_ms = age_us.map_or(u32::MAX, |age_us| u32::try_from(age_us / 1000).unwrap_or(u32::MAX));
        Some([steering.queuing_delay_us, steering.peer_queuing_delay_us, age_ms])
    }

    pub(crate) fn set_buffers(&self, socket: &Socket, buffers: [usize; 2]) {
        socket.buffers.set(buffers);
        if let Some(handle) = socket.handle.get()
            && let Some(connection) = self.endpoint.borrow_mut().get_mut(handle)
        {
            connection.set_buffers(buffers[0], buffers[1].saturating_sub(socket.unread.get()));
        }
    }

    pub(crate) fn peer(&self, socket: &Socket) -> Option<SocketAddr> {
        let moved = socket.handle.get().and_then(|handle| self.endpoint.borrow().peer(handle));
        moved.or(socket.peer.get())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let sockets = self.sockets.take().into_values();
        let all: BTreeSet<*mut Socket> = sockets.chain(self.closing.take()).collect();
        for pointer in all {
            // SAFETY: each pointer came from a box and is in the set once.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

impl Socket {
    fn new(context: &Context, accepted: Option<(Handle, SocketAddr)>) -> Socket {
        Socket {
            context,
            userdata: Cell::new(std::ptr::null_mut()),
            handle: Cell::new(accepted.map(|(handle, _)| handle)),
            peer: Cell::new(accepted.map(|(_, peer)| peer)),
            buffers: context.buffers.clone(),
            unread: Cell::new(0),
            is_connected: Cell::new(accepted.is_some()),
            is_at_end: Cell::new(false),
            has_failed: Cell::new(false),
            wants_room: Cell::new(false),
            is_deaf: Cell::new(false),
            is_finished: Cell::new(false),
            closing_since_us: Cell::new(None),
            highest: Cell::new(None),
            packet_bytes: Cell::new(0),
            stats: UnsafeCell::default(),
        }
    }

    fn as_ptr(&self) -> *mut Socket {
        std::ptr::from_ref(self).cast_mut()
    }

    fn is_closing(&self) -> bool {
        self.closing_since_us.get().is_some()
    }

    pub(crate) fn buffers(&self) -> [usize; 2] {
        self.buffers.get()
    }

    /// Counts a packet, with its header.
    fn count(&self, which: impl FnOnce(&mut SocketStats) -> (&mut u32, &mut u64), bytes: usize) {
        // SAFETY: the program reads it between calls only, and nothing else of this is borrowed.
        let (packets, all) = which(unsafe { &mut *self.stats.get() });
        *packets = packets.wrapping_add(1);
        *all += bytes as u64;
    }
}

impl Arguments {
    fn set_address(&mut self, raw: &Raw) {
        self.first = First { address: raw.as_ptr() };
        self.address_len = raw.len;
    }
}
