//! Many connections behind one socket: finds the connection of a packet, the next one that may
//! send, and the next timer.
//!
//! Like [`Connection`] it has no clock and no socket. `A` is the type of a peer's address. Random
//! numbers come from the caller.

use crate::config::Config;
use crate::connection::{Connection, Transmit};
use crate::cookie::Cookies;
use crate::wire::{HEADER_BYTES, Header, Kind, Packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Bound;

/// Most incoming connections whose peer address is not proven. One more is answered, and not kept
/// (see [`crate::cookie`]).
const HALF_OPEN_MAX: usize = 1024;
/// Proven connections that wait for [`Endpoint::accept`], at most. No more are answered meanwhile, and
/// their peers ask again, as with listen(2) of Linux.
const BACKLOG_MAX: usize = 512;
/// Bytes that each of them keeps at most.
const BACKLOG_BYTES: usize = 65_536;
/// Packets without a connection that wait to be sent, at most.
const REPLIES_MAX: usize = 1024;
/// Most packets of one size that leave together, and their bytes (UDP GSO allows 64 segments and
/// one datagram's length).
const BATCH_PACKETS: usize = 40;
const BATCH_BYTES: usize = 60_000;

/// The address of a peer.
pub trait Address: Copy + Ord + std::hash::Hash + std::fmt::Debug {
    /// The smallest address in the order.
    const FIRST: Self;

    /// Whether the two addresses differ at most in the port. An address translator (NAT) may
    /// change the port.
    fn is_same_host(&self, other: &Self) -> bool;
}

impl Address for SocketAddr {
    const FIRST: Self = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

    fn is_same_host(&self, other: &Self) -> bool {
        self.ip() == other.ip()
    }
}

/// The handle of a connection of an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    index: u32,
    /// Distinguishes connections that used the same index one after the other.
    generation: u32,
}

/// Packets to send to one peer. All have `segment_bytes`, except the last, which may be smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<A> {
    /// The peer.
    pub to: A,
    /// Bytes of each packet.
    pub segment_bytes: usize,
    /// Whether the packets must not be fragmented on their way.
    pub whole: bool,
}

#[derive(Debug)]
struct Entry<A> {
    connection: Connection,
    peer: A,
    generation: u32,
    /// Whether the connection is in the list of those that may send, and in the list of changed
    /// ones.
    is_ready: bool,
    is_changed: bool,
    /// The owner has released the handle: the connection is removed when it is over.
    is_released: bool,
    /// An incoming connection that [`Endpoint::accept`] has not returned yet.
    is_half_open: bool,
    /// Bytes that it may keep once it is handed out.
    receive_bytes: usize,
    /// When its timer is due; not later than its deadline.
    timer_us: u64,
}

/// Connections by peer and identifier.
#[derive(Debug)]
pub struct Endpoint<A> {
    entries: Vec<Option<Entry<A>>>,
    free: Vec<u32>,
    generation: u32,
    by_name: BTreeMap<(u16, A), Handle>,
    /// At most one entry per connection.
    timers: BTreeSet<(u64, Handle)>,
    ready: VecDeque<Handle>,
    changed: VecDeque<Handle>,
    accepted: VecDeque<Handle>,
    half_open: VecDeque<Handle>,
    /// RESETs, and answers to requests that are kept nowhere.
    replies: VecDeque<(A, Header)>,
    cookies: Cookies,
    held: Option<(A, Vec<u8>, bool)>,
    /// Settings of incoming connections; `None` refuses them.
    listens: Option<Config>,
    connections_max: usize,
}

impl<A: Address> Endpoint<A> {
    /// An endpoint for at most `connections_max` connections.
    pub fn new(connections_max: usize) -> Self {
        Endpoint {
            entries: Vec::new(),
            free: Vec::new(),
            generation: 0,
            by_name: BTreeMap::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            changed: VecDeque::new(),
            accepted: VecDeque::new(),
            half_open: VecDeque::new(),
            replies: VecDeque::new(),
            cookies: Cookies::default(),
            held: None,
            listens: None,
            connections_max,
        }
    }

    /// Takes connections that others ask for from now on, or refuses them: those too that wait for
    /// [`Endpoint::accept`].
    pub fn listen(&mut self, config: Option<Config>) {
        self.listens = config;
        if self.listens.is_some() {
            return;
        }
        for handle in std::mem::take(&mut self.half_open) {
            if self.entry(handle).is_some_and(|entry| entry.is_half_open) {
                self.remove(handle);
            }
        }
        for handle in std::mem::take(&mut self.accepted) {
            if let Some(entry) = self.entry(handle) {
                entry.is_released = true;
                entry.connection.reset();
                self.touch(handle);
            }
        }
    }

    /// Starts to connect to `peer`. Returns `None` if there are too many connections.
    pub fn connect(
        &mut self,
        peer: A,
        config: Config,
        random: &mut dyn FnMut() -> u16,
        now_us: u64,
    ) -> Option<Handle> {
        if self.len() >= self.connections_max {
            return None;
        }
        let taken = |id: u16| self.by_name.contains_key(&(id, peer));
        let receive_id = (0..1000).map(|_| random()).find(|&id| !taken(id) && !taken(id.wrapping_add(1)))?;
        let connection = Connection::connect(config, receive_id, random(), now_us);
        Some(self.insert(peer, connection))
    }

    /// Number of connections, including closing ones.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn insert(&mut self, peer: A, connection: Connection) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        self.generation = self.generation.wrapping_add(1);
        let handle = Handle { index, generation: self.generation };
        self.by_name.insert((connection.receive_id(), peer), handle);
        self.entries[index as usize] = Some(Entry {
            connection,
            peer,
            generation: handle.generation,
            is_ready: false,
            is_changed: false,
            is_released: false,
            is_half_open: false,
            receive_bytes: 0,
            timer_us: u64::MAX,
        });
        self.touch(handle);
        handle
    }

    fn entry(&mut self, handle: Handle) -> Option<&mut Entry<A>> {
        let entry = self.entries.get_mut(handle.index as usize)?.as_mut()?;
        (entry.generation == handle.generation).then_some(entry)
    }

    /// The connection, to read its state.
    pub fn get(&self, handle: Handle) -> Option<&Connection> {
        let entry = self.entries.get(handle.index as usize)?.as_ref()?;
        (entry.generation == handle.generation).then_some(&entry.connection)
    }

    /// The peer's present address.
    pub fn peer(&self, handle: Handle) -> Option<A> {
        let entry = self.entries.get(handle.index as usize)?.as_ref()?;
        (entry.generation == handle.generation).then_some(entry.peer)
    }

    /// The connection, to read and write. The endpoint then checks whether it has something to
    /// send.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Connection> {
        self.entry(handle)?;
        self.touch(handle);
        self.entry(handle).map(|entry| &mut entry.connection)
    }

    /// Nobody holds the handle any more. What was written is still sent and the stream ended; a
    /// connection with unread bytes is reset, and so is one whose peer goes on afterwards. One that is
    /// asked for and has nothing to send is given up.
    pub fn release(&mut self, handle: Handle) {
        let Some(entry) = self.entry(handle) else { return };
        entry.is_released = true;
        let is_unread = entry.connection.is_readable() && !entry.connection.is_at_end();
        if is_unread || entry.connection.is_needless() {
            entry.connection.reset();
        } else {
            entry.connection.finish();
            entry.connection.abandon();
        }
        self.touch(handle);
    }

    /// The next incoming connection whose peer address is proven.
    pub fn accept(&mut self) -> Option<Handle> {
        let handle = self.accepted.pop_front()?;
        if let Some(entry) = self.entry(handle) {
            entry.connection.set_receive_bytes(entry.receive_bytes);
            self.touch(handle);
        }
        Some(handle)
    }

    /// Whether [`Endpoint::accept`] would return a connection.
    pub fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Whether [`Endpoint::transmit`] may have packets.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty() || self.held.is_some() || !self.replies.is_empty()
    }

    /// The next connection that has received something or has ended.
    pub fn changed(&mut self) -> Option<Handle> {
        loop {
            let handle = self.changed.pop_front()?;
            if let Some(entry) = self.entry(handle) {
                entry.is_changed = false;
                return Some(handle);
            }
        }
    }

    /// Processes a datagram. One that is not a uTP packet changes nothing. A packet of an unknown
    /// connection is answered by a RESET of 20 bytes, which is not longer than the packet.
    pub fn receive(&mut self, from: A, bytes: &[u8], random: &mut dyn FnMut() -> u16, now_us: u64) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let handle = self.addressed(from, &packet.header).or_else(|| match packet.header.kind {
            Kind::Syn | Kind::Reset => None,
            _ => self.moved(from, &packet).or_else(|| self.returned(from, &packet.header, now_us)),
        });
        match (handle, packet.header.kind) {
            (Some(handle), _) => self.deliver(handle, &packet, now_us),
            (None, Kind::Syn) => self.receive_syn(from, &packet, random, now_us),
            (None, Kind::Reset) => {}
            // Its sender's first packet may be on its way still, with the number that proves his address.
            (None, _) if self.cookies.are_out(now_us) => {}
            (None, _) => self.refuse(from, &packet.header, now_us),
        }
    }

    /// The connection that a packet with this header from `from` is for.
    pub fn addressed(&self, from: A, header: &Header) -> Option<Handle> {
        let id = header.connection_id;
        match header.kind {
            Kind::Syn => self.by_name.get(&(id.wrapping_add(1), from)).copied(),
            Kind::Reset => self.of_reset(from, id),
            _ => self.by_name.get(&(id, from)).copied(),
        }
    }

    /// The connection that sent a packet with this header to `peer`. ICMP messages contain the
    /// header of the packet that they are about.
    pub fn sent(&self, peer: A, header: &Header) -> Option<Handle> {
        let id = header.connection_id;
        let of = |id: u16| self.by_name.get(&(id, peer)).copied();
        if header.kind == Kind::Syn {
            return of(id);
        }
        let sends_with = |handle: &Handle| self.get(*handle).is_some_and(|one| one.send_id() == id);
        [id.wrapping_add(1), id.wrapping_sub(1)].into_iter().filter_map(of).find(sends_with)
    }

    /// The host of the only peer says that nobody listens there.
    #[cfg(feature = "tokio")]
    pub(crate) fn refused(&mut self) {
        for handle in self.by_name.values().copied().collect::<Vec<_>>() {
            if let Some(entry) = self.entry(handle) {
                entry.connection.refused();
                self.note_changed(handle);
            }
        }
    }

    /// [`Endpoint::changed`] names it again, and it may have something to send.
    pub fn note_changed(&mut self, handle: Handle) {
        let Some(entry) = self.entry(handle) else { return };
        if !std::mem::replace(&mut entry.is_changed, true) {
            self.changed.push_back(handle);
        }
        self.touch(handle);
    }

    /// Finds the connection of a RESET. Some programs put their own identifier into it, others
    /// that of the refused packet.
    fn of_reset(&self, from: A, id: u16) -> Option<Handle> {
        let of = |id: u16| self.by_name.get(&(id, from)).copied();
        let sends_with = |handle: &Handle| self.get(*handle).is_some_and(|c| c.send_id() == id);
        of(id)
            .or_else(|| [id.wrapping_add(1), id.wrapping_sub(1)].into_iter().filter_map(of).find(sends_with))
    }

    /// Finds the connection of a peer whose port has changed, if both numbers of the packet fit to
    /// exactly one connection.
    fn moved(&mut self, from: A, packet: &Packet<'_>) -> Option<Handle> {
        let id = packet.header.connection_id;
        let of_id = self.by_name.range((Bound::Included((id, A::FIRST)), Bound::Unbounded));
        let of_id = of_id.take_while(|((of, _), _)| *of == id);
        let mut candidates = of_id.filter(|((_, peer), handle)| {
            peer.is_same_host(&from)
                && self.get(**handle).is_some_and(|connection| connection.expects(&packet.header))
        });
        let (&name, &handle) = candidates.next()?;
        if candidates.next().is_some() {
            return None;
        }
        self.by_name.remove(&name);
        self.by_name.insert((id, from), handle);
        self.entry(handle)?.peer = from;
        Some(handle)
    }

    fn receive_syn(&mut self, from: A, packet: &Packet<'_>, random: &mut dyn FnMut() -> u16, now_us: u64) {
        let Some(config) = &self.listens else { return self.refuse(from, &packet.header, now_us) };
        if self.accepted.len() >= BACKLOG_MAX {
            return;
        }
        if self.half_open.len() >= HALF_OPEN_MAX {
            self.half_open.retain(|handle| {
                let entry = self.entries[handle.index as usize].as_ref();
                entry.is_some_and(|entry| entry.generation == handle.generation && entry.is_half_open)
            });
        }
        if self.half_open.len() < HALF_OPEN_MAX {
            let config = config.clone();
            if let Some(handle) = self.half_open(from, &packet.header, config, random(), now_us) {
                self.half_open.push_back(handle);
            }
            return;
        }
        let syn = &packet.header;
        let reply = Header {
            kind: Kind::State,
            connection_id: syn.connection_id,
            timestamp_us: now_us as u32,
            timestamp_difference_us: (now_us as u32).wrapping_sub(syn.timestamp_us),
            window_bytes: config.receive_bytes.min(BACKLOG_BYTES) as u32,
            seq: self.cookies.give(&from, syn, random, now_us),
            ack: syn.seq,
        };
        self.reply(from, reply);
    }

    /// A connection that this packet asks for. `first`: the number of this side's first packet.
    fn half_open(
        &mut self,
        from: A,
        syn: &Header,
        mut config: Config,
        first: u16,
        now_us: u64,
    ) -> Option<Handle> {
        if self.len() >= self.connections_max {
            return None;
        }
        let receive_bytes = config.receive_bytes;
        config.receive_bytes = receive_bytes.min(BACKLOG_BYTES);
        let handle = self.insert(from, Connection::accept(config, syn, first, now_us));
        let entry = self.entry(handle)?;
        entry.is_half_open = true;
        entry.receive_bytes = receive_bytes;
        Some(handle)
    }

    /// The connection of a peer whose request was answered and not kept, if he has the answer.
    fn returned(&mut self, from: A, header: &Header, now_us: u64) -> Option<Handle> {
        let (syn, first) = self.cookies.request(&from, header, now_us)?;
        let config = self.listens.clone().filter(|_| self.accepted.len() < BACKLOG_MAX)?;
        self.half_open(from, &syn, config, first, now_us)
    }

    fn refuse(&mut self, from: A, header: &Header, now_us: u64) {
        let reset = Header {
            kind: Kind::Reset,
            connection_id: header.connection_id,
            timestamp_us: now_us as u32,
            timestamp_difference_us: 0,
            window_bytes: 0,
            seq: 0,
            ack: header.seq,
        };
        self.reply(from, reset);
    }

    /// Sends a packet that belongs to no connection, unless too many wait.
    fn reply(&mut self, to: A, header: Header) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back((to, header));
        }
    }

    fn deliver(&mut self, handle: Handle, packet: &Packet<'_>, now_us: u64) {
        let is_full = self.accepted.len() >= BACKLOG_MAX;
        let Some(entry) = self.entry(handle) else { return };
        if entry.is_half_open && is_full {
            return; // as if it were lost
        }
        entry.connection.receive(now_us, packet);
        let opens = entry.is_half_open && entry.connection.is_open();
        if opens {
            entry.is_half_open = false;
        }
        if opens {
            self.accepted.push_back(handle);
        }
        self.note_changed(handle);
    }

    /// After a change: the connection may have something to send, and its timer may have changed.
    fn touch(&mut self, handle: Handle) {
        let Some(entry) = self.entry(handle) else { return };
        let newly = !std::mem::replace(&mut entry.is_ready, true);
        if newly {
            self.ready.push_back(handle);
        }
    }

    /// Appends a batch of packets to `out`; `None` if there are none now.
    pub fn transmit(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Batch<A>> {
        if let Some((to, packet, whole)) = self.held.take() {
            out.extend_from_slice(&packet);
            return Some(Batch { to, segment_bytes: packet.len(), whole });
        }
        if let Some((to, header)) = self.replies.pop_front() {
            header.write(None, out);
            return Some(Batch { to, segment_bytes: HEADER_BYTES, whole: false });
        }
        while let Some(handle) = self.ready.pop_front() {
            let Some(entry) = self.entry(handle) else { continue };
            entry.is_ready = false;
            let peer = entry.peer;
            let start = out.len();
            let first = entry.connection.transmit(now_us, out);
            let Some(Transmit { bytes: segment_bytes, whole }) = first else {
                self.settle(handle);
                continue;
            };
            let mut packets = 1;
            loop {
                let at = out.len();
                if whole || packets == BATCH_PACKETS || at - start + segment_bytes > BATCH_BYTES {
                    self.touch(handle);
                    break;
                }
                let Some(next) = self.entry(handle).and_then(|entry| entry.connection.transmit(now_us, out))
                else {
                    self.settle(handle);
                    break;
                };
                packets += 1;
                if next.whole || next.bytes > segment_bytes {
                    self.held = Some((peer, out.split_off(at), next.whole));
                }
                if self.held.is_some() || next.bytes < segment_bytes {
                    self.touch(handle);
                    break;
                }
            }
            return Some(Batch { to: peer, segment_bytes, whole });
        }
        None
    }

    /// After a connection has nothing more to send: sets its timer, or removes the connection if
    /// it is over.
    fn settle(&mut self, handle: Handle) {
        let Some(entry) = self.entry(handle) else { return };
        if entry.connection.is_over() {
            if entry.is_released || entry.is_half_open {
                self.remove(handle);
            } else if !entry.is_changed {
                entry.is_changed = true;
                self.changed.push_back(handle);
            }
            return;
        }
        let deadline_us = entry.connection.deadline().unwrap_or(u64::MAX);
        if deadline_us < entry.timer_us {
            let before_us = std::mem::replace(&mut entry.timer_us, deadline_us);
            self.timers.remove(&(before_us, handle));
            self.timers.insert((deadline_us, handle));
        }
    }

    fn remove(&mut self, handle: Handle) {
        let Some(entry) = self.entry(handle) else { return };
        let (name, timer_us) = ((entry.connection.receive_id(), entry.peer), entry.timer_us);
        self.by_name.remove(&name);
        self.timers.remove(&(timer_us, handle));
        self.entries[handle.index as usize] = None;
        self.free.push(handle.index);
    }

    /// When [`Endpoint::expire`] must be called next. Valid after [`Endpoint::transmit`] has
    /// returned `None`.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|(at_us, _)| *at_us)
    }

    /// Does what is due at the time that [`Endpoint::deadline`] returned.
    pub fn expire(&mut self, now_us: u64) {
        while let Some(&(at_us, handle)) = self.timers.first() {
            if at_us > now_us {
                return;
            }
            self.timers.pop_first();
            let Some(entry) = self.entry(handle) else { continue };
            entry.timer_us = u64::MAX;
            if entry.connection.deadline().is_some_and(|deadline_us| deadline_us <= now_us) {
                entry.connection.expire(now_us);
            }
            self.touch(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of somebody who opens connections by hand: `[connection_id, seq, ack]`.
    fn packet(kind: Kind, [connection_id, seq, ack]: [u16; 3], payload: &[u8]) -> Vec<u8> {
        let header = Header {
            kind,
            connection_id,
            timestamp_us: 0,
            timestamp_difference_us: 0,
            window_bytes: 1 << 20,
            seq,
            ack,
        };
        let mut bytes = Vec::new();
        header.write(None, &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    const STRANGER: &str = "[::1]:2";
    /// The number of an accepting side's first packet, where all lots are 9.
    const FIRST: u16 = 9;

    /// Everything that leaves.
    fn sent(endpoint: &mut Endpoint<SocketAddr>, now_us: u64) -> Vec<Header> {
        let (mut out, mut headers) = (Vec::new(), Vec::new());
        while let Some(batch) = endpoint.transmit(now_us, &mut out) {
            let packets = out.chunks(batch.segment_bytes);
            headers.extend(packets.map(|packet| Packet::parse(packet).unwrap().header));
            out.clear();
        }
        headers
    }

    fn receive(endpoint: &mut Endpoint<SocketAddr>, bytes: &[u8]) {
        endpoint.receive(STRANGER.parse().unwrap(), bytes, &mut || FIRST, 0);
        sent(endpoint, 0);
    }

    /// A stranger's connection `id`, proven by a packet that leaves the first one out.
    fn opened(endpoint: &mut Endpoint<SocketAddr>, id: u16) {
        receive(endpoint, &packet(Kind::Syn, [id, 1, 0], &[]));
        receive(endpoint, &packet(Kind::Data, [id + 1, 3, FIRST - 1], &[7; 1000]));
    }

    #[test]
    fn connections_that_wait_to_be_accepted_are_few_and_keep_little() {
        let mut endpoint: Endpoint<SocketAddr> = Endpoint::new(10_000);
        endpoint.listen(Some(Config::default()));
        for id in 0..2_000 {
            opened(&mut endpoint, 2 * id);
            for seq in 4..200 {
                receive(&mut endpoint, &packet(Kind::Data, [2 * id + 1, seq, FIRST - 1], &[7; 1000]));
            }
        }
        assert_eq!(endpoint.accepted.len(), BACKLOG_MAX);
        let kept_bytes = |endpoint: &Endpoint<SocketAddr>| {
            endpoint.entries.iter().flatten().map(|entry| entry.connection.kept_bytes()).sum::<usize>()
        };
        assert!(kept_bytes(&endpoint) <= BACKLOG_MAX * BACKLOG_BYTES, "{} bytes", kept_bytes(&endpoint));

        // One that is taken may keep as much as others, and says so.
        let taken = endpoint.accept().unwrap();
        let windows: Vec<u32> = sent(&mut endpoint, 0).iter().map(|header| header.window_bytes).collect();
        assert!(matches!(windows[..], [window] if window > 900_000), "{windows:?}");
        // Its place is free for another one.
        opened(&mut endpoint, 5_000);
        assert_eq!(endpoint.accepted.len(), BACKLOG_MAX);

        // Who stops listening refuses those that nobody has taken.
        endpoint.listen(None);
        let resets = sent(&mut endpoint, 0);
        assert_eq!((resets.len(), endpoint.len()), (BACKLOG_MAX, 1));
        assert!(resets.iter().all(|header| header.kind == Kind::Reset));
        endpoint.release(taken);
        assert!(endpoint.accept().is_none());
    }

    #[test]
    fn who_does_not_wait_for_an_answer_any_more_asks_no_more() {
        let mut endpoint: Endpoint<SocketAddr> = Endpoint::new(10);
        let mut asks = |writes: &[u8]| {
            let to = STRANGER.parse().unwrap();
            let handle = endpoint.connect(to, Config::default(), &mut || 7, 0).unwrap();
            endpoint.get_mut(handle).unwrap().write(writes).unwrap();
            assert_eq!(sent(&mut endpoint, 0).len(), 1);
            endpoint.release(handle);
            assert_eq!(sent(&mut endpoint, 0).len(), 0);
            endpoint.len()
        };
        assert_eq!(asks(b""), 0);
        assert_eq!(asks(b"to be sent"), 1);
    }

    #[test]
    fn a_connection_that_nobody_holds_keeps_nothing_and_ends() {
        let mut endpoint: Endpoint<SocketAddr> = Endpoint::new(10);
        endpoint.listen(Some(Config::default()));
        let keeps_nothing = |endpoint: &Endpoint<SocketAddr>| {
            endpoint.entries.iter().flatten().all(|entry| entry.connection.kept_bytes() == 0)
        };
        // A peer that says nothing more.
        opened(&mut endpoint, 10);
        let silent = endpoint.accept().unwrap();
        endpoint.release(silent);
        assert!(keeps_nothing(&endpoint), "its bytes are kept");
        // One that has our FIN, and goes on.
        opened(&mut endpoint, 20);
        let endless = endpoint.accept().unwrap();
        endpoint.release(endless);
        sent(&mut endpoint, 0);
        receive(&mut endpoint, &packet(Kind::State, [21, 4, FIRST], &[]));
        assert_eq!(endpoint.len(), 2);
        let from = STRANGER.parse().unwrap();
        endpoint.receive(from, &packet(Kind::Data, [21, 4, FIRST], &[7; 1000]), &mut || FIRST, 0);
        assert!(matches!(sent(&mut endpoint, 0)[..], [Header { kind: Kind::Reset, .. }]));
        assert_eq!(endpoint.len(), 1);
        // One that has our FIN, shows now and then that it is there, and never ends its stream.
        opened(&mut endpoint, 30);
        let open = endpoint.accept().unwrap();
        endpoint.release(open);
        sent(&mut endpoint, 0);
        for now_us in (0..70_000_000).step_by(1_000_000) {
            endpoint.receive(from, &packet(Kind::State, [31, 4, FIRST], &[]), &mut || FIRST, now_us);
            endpoint.expire(now_us);
            sent(&mut endpoint, now_us);
        }
        assert!(endpoint.is_empty(), "{} connections are left", endpoint.len());
    }

    #[test]
    fn a_flood_of_requests_keeps_nobody_out() {
        let (here, there): (SocketAddr, SocketAddr) =
            ("[::1]:1".parse().unwrap(), "[::1]:2".parse().unwrap());
        let mut ends: [Endpoint<SocketAddr>; 2] = [Endpoint::new(10), Endpoint::new(10_000)];
        ends[1].listen(Some(Config::default()));
        let handle = ends[0].connect(there, Config::default(), &mut || 7, 0).unwrap();
        ends[0].get_mut(handle).unwrap().write(&[7; 30_000]).unwrap();
        let mut random = 1_u16;
        for now_us in (0..400_000).step_by(10_000) {
            // A forged address asks once, and sends another packet without having the answer.
            for _ in 0..2_000 {
                random = random.wrapping_mul(25_173).wrapping_add(13_849);
                let forged = SocketAddr::new([10, 0, (random >> 8) as u8, random as u8].into(), 9);
                for bytes in [packet(Kind::Syn, [8, 1, 0], &[]), packet(Kind::Data, [9, 2, random], &[])] {
                    ends[1].receive(forged, &bytes, &mut || random, now_us);
                }
            }
            for from in 0..2 {
                ends[from].expire(now_us);
                let mut out = Vec::new();
                while let Some(batch) = ends[from].transmit(now_us, &mut out) {
                    let is_ours = [there, here][from] == batch.to;
                    for packet in out.chunks(batch.segment_bytes).filter(|_| is_ours) {
                        ends[1 - from].receive([here, there][from], packet, &mut || random, now_us);
                    }
                    out.clear();
                }
            }
            assert!(ends[1].len() <= HALF_OPEN_MAX + BACKLOG_MAX, "{} connections", ends[1].len());
        }
        assert_eq!(ends[0].get(handle).unwrap().error(), None);
        let mut came = 0;
        while let Some(accepted) = ends[1].accept() {
            let mut buffer = [0; 40_000];
            let read = ends[1].get_mut(accepted).unwrap().read(&mut buffer);
            came = came.max(read.ok().flatten().unwrap_or(0));
        }
        assert_eq!(came, 30_000);
    }

    /// Packets that arrive set short timers again and again.
    #[test]
    fn a_connection_has_one_timer_however_much_arrives() {
        let (here, there) = ("[::1]:1".parse().unwrap(), "[::1]:2".parse().unwrap());
        let mut ends: [Endpoint<SocketAddr>; 2] = [Endpoint::new(10), Endpoint::new(10)];
        ends[1].listen(Some(Config::default()));
        let handle = ends[0].connect(there, Config::default(), &mut || 7, 0).unwrap();
        for now_us in (0..5_000_000).step_by(1_000) {
            if now_us % 40_000 == 0 {
                ends[0].get_mut(handle).unwrap().write(b"a little").unwrap();
            }
            for from in 0..2 {
                ends[from].expire(now_us);
                let mut out = Vec::new();
                while let Some(batch) = ends[from].transmit(now_us, &mut out) {
                    for packet in out.chunks(batch.segment_bytes) {
                        ends[1 - from].receive([here, there][from], packet, &mut || 9, now_us);
                    }
                    out.clear();
                }
                assert!(ends[from].timers.len() <= 1, "{} timers", ends[from].timers.len());
            }
        }
        assert!(ends[1].accept().is_some());
    }
}
