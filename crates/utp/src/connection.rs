//! One connection: the state machine of BEP 29, without a clock and without a socket.
//!
//! The driver of a connection passes in packets ([`Connection::receive`]) and asks for packets to
//! send ([`Connection::transmit`]) until there is none, then waits until something arrives, or
//! until [`Connection::deadline`]. Times are microseconds on any clock that does not go back.
//!
//! # Where BEP 29 is unclear, and what is done here
//! - *First sequence number of the accepting side.* BEP 29 increases it with the answer to a SYN,
//!   libutp does not. As in libutp, the first packet with data has the same number as the answer.
//! - *Who sends first.* Only the peer's next packet proves the peer's address to the accepting
//!   side. Until then the accepting side sends nothing. So the connecting side sends a packet at
//!   once, and repeats it until the accepting side answers.
//! - *Half-close.* A FIN ends one direction. The other stays open until it is finished as well.
//! - *RESET.* It is accepted only if it names a packet that was sent recently.
//! - *Cutting again.* A packet keeps its bytes, unless the peer shows that it has none of the
//!   packets in flight and no copy is under way (RFC 8899, 4.3).
//! - *Selective acknowledgements* go in packets without data, so that full packets stay full.

mod inbound;
mod shrunk;
mod steering;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::congestion::{Congestion, Flight, Grant};
use crate::error::UtpError;
use crate::hole::BlackHole;
use crate::mtu::{MtuSearch, Probe};
use crate::outgoing::{Lost, Outgoing};
use crate::peer_delay::PeerDelay;
use crate::reassembly::Reassembly;
use crate::rtt::Rtt;
use crate::wire::{HEADER_BYTES, Header, Kind, SACK_BITS_MAX};

pub use steering::Steering;

/// First and longest interval between probes of a zero window. The interval doubles with each
/// probe.
const WINDOW_PROBE_US: u64 = 500_000;
const WINDOW_PROBE_MAX_US: u64 = 15_000_000;
/// Time for which a finished connection answers late packets: five timeouts, the first of 500 ms,
/// each twice the one before.
const LINGER_US: u64 = 15_500_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A SYN was sent.
    Connecting,
    /// A SYN was answered; the peer's address is not proven.
    Accepting,
    Open,
    Over,
}

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit {
    /// Bytes of the packet.
    pub bytes: usize,
    /// Whether it must not be fragmented on its way: a probe of the path's MTU.
    pub whole: bool,
}

/// A packet that could be sent next.
#[derive(Debug, Clone, Copy)]
struct Next {
    /// Bytes of the stream.
    bytes: usize,
    kind: Kind,
    /// The probe, if the packet probes the MTU.
    probe: Option<Probe>,
}

impl Next {
    fn plain(bytes: usize, kind: Kind) -> Self {
        Next { bytes, kind, probe: None }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    state: State,
    error: Option<UtpError>,
    receive_id: u16,
    send_id: u16,
    outgoing: Outgoing,
    /// `None` until the peer's first sequence number is known.
    incoming: Option<Reassembly>,
    congestion: Congestion,
    rtt: Rtt,
    mtu: MtuSearch,
    hole: BlackHole,
    /// The receive window that the peer announced.
    peer_window_bytes: u64,
    /// The delays of the peer's packets. The last one goes back to the peer.
    peer_delay: PeerDelay,
    /// The FIN of this side: requested (`finishing`), and put into a packet (`finished`).
    finishing: bool,
    finished: bool,
    /// Received packets that are not acknowledged yet, and whether to acknowledge at once.
    unacknowledged: u32,
    ack_now: bool,
    ack_at_us: Option<u64>,
    /// The receive window in the last packet that was sent.
    announced_bytes: usize,
    /// Whether the answer to a SYN is due, and when the connecting side repeats its first packet.
    answer_due: bool,
    greet_at_us: Option<u64>,
    greet_wait_us: u64,
    timeout_at_us: Option<u64>,
    paced_until_us: Option<u64>,
    /// Whether window or pacing kept back what could be sent last.
    limited: bool,
    window_probe_at_us: Option<u64>,
    window_probe_wait_us: u64,
    linger_until_us: Option<u64>,
    started_us: u64,
    heard_us: u64,
    spoke_us: u64,
    /// Since when data or a zero window waits without progress.
    waiting_since_us: Option<u64>,
    reset_due: bool,
    /// Nobody reads or writes any more.
    is_abandoned: bool,
    sent_bytes: u64,
    resent_bytes: u64,
    sent_packets: u64,
    resent_packets: u64,
    resent_after_timeout_packets: u64,
    received_bytes: u64,
    received_packets: u64,
    repeated_packets: u64,
}

impl Connection {
    /// Starts to connect. The peer's packets will carry `receive_id`; `first` is the sequence
    /// number of the SYN. The caller draws both at random, so that strangers cannot guess them.
    pub fn connect(config: Config, receive_id: u16, first: u16, now_us: u64) -> Self {
        let send_id = receive_id.wrapping_add(1);
        let mut connection = Connection::new(config, State::Connecting, receive_id, send_id, first, now_us);
        connection.timeout_at_us = Some(now_us + connection.rtt.timeout_us());
        connection
    }

    /// Answers a SYN. `first` is the sequence number of the first packet with data, which the
    /// caller draws at random.
    pub fn accept(config: Config, syn: &Header, first: u16, now_us: u64) -> Self {
        let (receive_id, send_id) = (syn.connection_id.wrapping_add(1), syn.connection_id);
        let mut connection = Connection::new(config, State::Accepting, receive_id, send_id, first, now_us);
        let received = u64::from(syn.seq) + 0x1_0000;
        connection.incoming = Some(Reassembly::new(received, connection.config.receive_bytes));
        connection.peer_delay.sample(now_us, syn.timestamp_us);
        connection.peer_window_bytes = syn.window_bytes.into();
        connection.answer_due = true;
        connection
    }

    fn new(config: Config, state: State, receive_id: u16, send_id: u16, first: u16, now_us: u64) -> Self {
        let mtu =
            MtuSearch::new(config.payload_bytes_min(), config.payload_bytes(), config.payload_bytes_max());
        let congestion = Congestion::new(&config.law, mtu.segment_bytes() as u32, config.paces);
        let mut outgoing = Outgoing::new(u64::from(first) + 0x1_0000);
        if state == State::Connecting {
            outgoing.queue(Kind::Syn);
        }
        Connection {
            announced_bytes: config.receive_bytes,
            config,
            state,
            error: None,
            receive_id,
            send_id,
            outgoing,
            incoming: None,
            congestion,
            rtt: Rtt::default(),
            mtu,
            hole: BlackHole::new(),
            peer_window_bytes: 0,
            peer_delay: PeerDelay::default(),
            finishing: false,
            finished: false,
            unacknowledged: 0,
            ack_now: false,
            ack_at_us: None,
            answer_due: false,
            greet_at_us: None,
            greet_wait_us: 0,
            timeout_at_us: None,
            paced_until_us: None,
            limited: false,
            window_probe_at_us: None,
            window_probe_wait_us: WINDOW_PROBE_US,
            linger_until_us: None,
            started_us: now_us,
            heard_us: now_us,
            spoke_us: now_us,
            waiting_since_us: None,
            reset_due: false,
            is_abandoned: false,
            sent_bytes: 0,
            resent_bytes: 0,
            sent_packets: 0,
            resent_packets: 0,
            resent_after_timeout_packets: 0,
            received_bytes: 0,
            received_packets: 0,
            repeated_packets: 0,
        }
    }

    /// The identifier that the peer's packets carry.
    pub fn receive_id(&self) -> u16 {
        self.receive_id
    }

    /// The identifier that packets to the peer carry.
    pub fn send_id(&self) -> u16 {
        self.send_id
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether the peer has answered the SYN of this side, or this side has answered the peer's.
    #[cfg(feature = "tokio")]
    pub(crate) fn was_answered(&self) -> bool {
        self.incoming.is_some()
    }

    /// Whether nothing is left to send, to answer or to wait for. The connection can be dropped
    /// after the readable bytes were read.
    pub fn is_over(&self) -> bool {
        self.state == State::Over && !self.reset_due
    }

    /// Why the connection ended before it was finished.
    pub fn error(&self) -> Option<UtpError> {
        self.error
    }

    /// Takes as many bytes as fit into the send buffer, and returns their number; 0 if it is full.
    ///
    /// # Errors
    /// [`UtpError::Finished`] after [`Connection::finish`], otherwise why the connection ended.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, UtpError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.finishing || self.state == State::Over {
            return Err(UtpError::Finished);
        }
        let room = self.writable_bytes();
        let taken = &bytes[..bytes.len().min(room)];
        self.outgoing.write(taken);
        Ok(taken.len())
    }

    /// Bytes that [`Connection::write`] would take.
    pub fn writable_bytes(&self) -> usize {
        self.config.send_bytes.saturating_sub(self.outgoing.kept_bytes())
    }

    /// Whether everything written, and the FIN if there is one, is acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.outgoing.is_acknowledged()
            && self.outgoing.pending_bytes() == 0
            && (self.finished || !self.finishing)
    }

    /// Ends the stream of this side: the peer reads an end behind the last byte.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Moves arrived bytes into `out`. `Some(0)` means the end of the stream, `None` that nothing
    /// has arrived yet.
    ///
    /// # Errors
    /// Why the connection ended, after everything that arrived before was read.
    pub fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, UtpError> {
        let read = self.incoming.as_mut().map_or(0, |incoming| incoming.read(out));
        if read > 0 {
            self.announce();
            return Ok(Some(read));
        }
        let is_complete = self.incoming.as_ref().is_some_and(Reassembly::is_complete);
        match self.error {
            _ if is_complete || out.is_empty() => Ok(Some(0)),
            Some(error) => Err(error),
            None if self.state == State::Over => Ok(Some(0)),
            None => Ok(None),
        }
    }

    /// Whether [`Connection::read`] would return bytes, the end or an error.
    pub fn is_readable(&self) -> bool {
        let ready = |incoming: &Reassembly| incoming.readable_bytes() > 0 || incoming.is_complete();
        self.incoming.as_ref().is_some_and(ready) || self.error.is_some() || self.state == State::Over
    }

    /// Whether a packet is due that announces the room that reading has made.
    pub fn has_announcement(&self) -> bool {
        self.ack_now
    }

    /// Whether the peer's stream has ended and all of it was read.
    pub fn is_at_end(&self) -> bool {
        let at_end = |incoming: &Reassembly| incoming.is_complete() && incoming.readable_bytes() == 0;
        self.incoming.as_ref().is_some_and(at_end)
    }

    /// Whether sequence and acknowledgement number fit to an open connection. A stranger would
    /// have to guess both numbers.
    pub fn expects(&self, header: &Header) -> bool {
        let Some(incoming) = self.incoming.as_ref().filter(|_| self.is_open()) else { return false };
        let ahead = header.seq.wrapping_sub(incoming.acknowledged() as u16);
        self.outgoing.acknowledges(header.ack).is_some_and(|through| through + 1 >= self.outgoing.oldest())
            && ahead <= SACK_BITS_MAX as u16
    }

    /// Changes the sizes of the send and receive buffers, in bytes.
    pub fn set_buffers(&mut self, send_bytes: usize, receive_bytes: usize) {
        self.config.send_bytes = send_bytes;
        self.config.receive_bytes = receive_bytes;
        if let Some(incoming) = &mut self.incoming {
            incoming.set_capacity(receive_bytes);
        }
        self.announce();
    }

    /// Bytes that have arrived and were not read.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.incoming.as_ref().map_or(0, Reassembly::kept_bytes)
    }

    /// Another size of the buffer of what arrives.
    pub(crate) fn set_receive_bytes(&mut self, receive_bytes: usize) {
        self.set_buffers(self.config.send_bytes, receive_bytes);
    }

    /// Whether it is asked for, and nothing was written that its peer could get.
    pub(crate) fn is_needless(&self) -> bool {
        self.state == State::Connecting && self.outgoing.kept_bytes() == 0
    }

    /// Nobody reads any more: what arrives is thrown away while what was written is on its way. After that
    /// the connection is reset when more arrives, or when the peer has not ended its stream in time.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
        if let Some(incoming) = &mut self.incoming {
            incoming.discard();
        }
    }

    /// The network says that the packet with this header cannot be delivered. Whoever can forge that
    /// could end any connection (RFC 5927), so it only ends one that nobody has answered yet.
    pub fn unreachable(&mut self, header: &Header) {
        if self.state == State::Connecting && header.kind == Kind::Syn {
            self.end(Some(UtpError::Reset));
        }
    }

    /// The peer's host says that nobody listens there. It only ends a connection that nobody has answered yet, as
    /// above.
    #[cfg(feature = "tokio")]
    pub(crate) fn refused(&mut self) {
        if self.state == State::Connecting {
            self.end(Some(UtpError::Reset));
        }
    }

    /// The network says that the packet with this header was too long: a hop takes `packet_bytes` bytes
    /// of UDP payload. It only ends the search for longer packets above that.
    pub fn too_long(&mut self, header: &Header, packet_bytes: usize, now_us: u64) {
        if self.is_open() && self.outgoing.acknowledges(header.seq).is_some() {
            self.mtu.limited(packet_bytes.saturating_sub(HEADER_BYTES), now_us);
            self.congestion.set_mss(self.mtu.segment_bytes() as u32);
        }
    }

    /// Ends the connection at once with a RESET to the peer.
    pub fn reset(&mut self) {
        if self.state != State::Over {
            self.reset_due = self.state != State::Connecting;
            self.end(Some(UtpError::Aborted));
        }
    }

    /// When [`Connection::expire`] is to be called next.
    pub fn deadline(&self) -> Option<u64> {
        if self.state == State::Over {
            return self.reset_due.then_some(self.spoke_us);
        }
        let give_up = match (self.state, self.waiting_since_us) {
            (State::Connecting | State::Accepting, _) => self.started_us + self.config.connect_us,
            (_, Some(since_us)) => since_us + self.config.stall_us,
            (_, None) => self.heard_us + self.config.idle_us,
        };
        let keep_alive = (self.state == State::Open).then(|| self.spoke_us + self.config.keep_alive_us);
        let timers = [
            Some(give_up),
            keep_alive,
            self.ack_at_us,
            self.greet_at_us,
            self.timeout_at_us,
            self.paced_until_us,
            self.window_probe_at_us,
            self.linger_until_us,
            self.hole.deadline(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Notes since when data waits for the peer.
    fn note_waiting(&mut self, now_us: u64) {
        let is_idle = self.outgoing.is_acknowledged() && self.outgoing.pending_bytes() == 0;
        if is_idle && (!self.is_abandoned || self.linger_until_us.is_some()) {
            self.waiting_since_us = None;
        } else {
            self.waiting_since_us.get_or_insert(now_us);
        }
    }

    /// Does what is due at the time that [`Connection::deadline`] returned.
    pub fn expire(&mut self, now_us: u64) {
        let due = |at: Option<u64>| at.is_some_and(|at_us| at_us <= now_us);
        if self.state == State::Over {
            return;
        }
        if due(self.linger_until_us) {
            return self.end(None);
        }
        self.note_waiting(now_us);
        let opening = matches!(self.state, State::Connecting | State::Accepting);
        if opening && now_us >= self.started_us + self.config.connect_us {
            return self.end(Some(UtpError::Unanswered));
        }
        if !opening && due(self.waiting_since_us.map(|since_us| since_us + self.config.stall_us)) {
            self.reset_due = true;
            return self.end(Some(UtpError::Stalled));
        }
        if !opening && now_us >= self.heard_us + self.config.idle_us {
            self.reset_due = true;
            return self.end(Some(UtpError::Silent));
        }
        if due(self.ack_at_us) {
            self.ack_now = true;
        }
        if due(self.greet_at_us) {
            self.greet_wait_us *= 2;
            let again = self.greet_wait_us < self.config.keep_alive_us;
            self.greet_at_us = again.then(|| now_us + self.greet_wait_us);
            self.ack_now = true;
        }
        if due(self.paced_until_us) {
            self.paced_until_us = None;
        }
        if due(self.timeout_at_us) {
            self.time_out(now_us);
        }
        if due(self.hole.deadline()) {
            self.hole.expire(now_us);
        }
    }

    /// The retransmission timer ran out (RFC 6298, 5.4 to 5.6).
    fn time_out(&mut self, now_us: u64) {
        self.timeout_at_us = None;
        let before_bytes = self.outgoing.in_flight_bytes();
        if let Some(lost) = self.outgoing.lose_all() {
            self.note_lost_probe(now_us, &lost);
            let timeouts = self.rtt.expired();
            self.hole.timed_out(timeouts, self.is_oldest_long());
            if lost.bytes > 0 && self.state != State::Connecting {
                let flight = self.flight(before_bytes);
                self.congestion.lost(now_us, &lost, timeouts, &self.rtt, flight);
            }
        }
    }

    fn note_lost_probe(&mut self, now_us: u64, lost: &Lost) {
        if let Some(size) = lost.probe_bytes {
            self.mtu.lost(size, now_us);
            self.congestion.set_mss(self.mtu.segment_bytes() as u32);
        }
    }

    fn flight(&self, before_bytes: u64) -> Flight {
        Flight {
            before_bytes,
            bytes: self.outgoing.in_flight_bytes(),
            oldest: self.outgoing.oldest(),
            next: self.outgoing.next(),
        }
    }

    /// Appends the next packet to `out`. Returns `None` if none may leave now.
    pub fn transmit(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.reset_due {
            self.reset_due = false;
            return Some(self.bare(Kind::Reset, now_us, out));
        }
        match self.state {
            State::Over => None,
            State::Accepting => self.answer_due.then(|| self.answer(now_us, out)),
            State::Connecting => self.repeat(now_us, out),
            State::Open if self.answer_due => Some(self.answer(now_us, out)),
            State::Open => {
                self.note_waiting(now_us);
                self.transmit_open(now_us, out)
            }
        }
    }

    fn transmit_open(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let has_gap = self.incoming.as_ref().is_some_and(Reassembly::has_gap);
        if self.ack_now && has_gap {
            return Some(self.acknowledge(now_us, out));
        }
        if let Some(transmit) = self.data(now_us, out) {
            return Some(transmit);
        }
        if self.hole.ask(now_us, self.outgoing.is_oldest_in_flight()) {
            return Some(self.ask(now_us, out));
        }
        if self.ack_now {
            return Some(self.acknowledge(now_us, out));
        }
        if now_us >= self.spoke_us + self.config.keep_alive_us {
            return Some(self.keep_alive(now_us, out));
        }
        None
    }

    /// Sends a packet of the stream, new or repeated, if the window, the pacing and the peer allow
    /// it.
    fn data(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.hole.is_quiet() || self.paced_until_us.is_some_and(|at_us| now_us < at_us) {
            return None;
        }
        self.paced_until_us = None;
        self.limited = false;
        let again = self.outgoing.next_lost_bytes();
        let next = match again {
            Some(bytes) => Next::plain(bytes, Kind::Data),
            None => match self.next_packet(now_us) {
                Some(next) => next,
                None => {
                    self.congestion.app_limited(self.outgoing.in_flight_bytes());
                    return None;
                }
            },
        };
        if self.outgoing.is_acknowledged() {
            self.congestion.resume(now_us, self.rtt.timeout_us());
        }
        match self.congestion.grant(now_us, next.bytes as u64, self.outgoing.in_flight_bytes()) {
            Grant::Now => {}
            wait => {
                self.congestion.limited(self.outgoing.next());
                self.limited = true;
                if let Grant::At(at_us) = wait {
                    self.paced_until_us = Some(at_us);
                }
                return None;
            }
        }
        if again.is_some() {
            return self.repeat(now_us, out);
        }
        Some(self.send(now_us, next, out))
    }

    /// Sends a packet of new bytes, or the FIN.
    fn send(&mut self, now_us: u64, next: Next, out: &mut Vec<u8>) -> Transmit {
        let Next { bytes, kind, probe } = next;
        let (padding, whole) = probe.map_or((0, false), |probe| (probe.padding, probe.whole));
        let probe_bytes = probe.map_or(0, |probe| probe.size() as u16);
        let header = self.header(kind, now_us);
        let stamp = self.congestion.sent(now_us, bytes as u64, self.outgoing.in_flight_bytes());
        let outbound = self.outgoing.send(now_us, kind, bytes, probe_bytes, stamp);
        Header { seq: outbound.number as u16, ..header }.write_padded(padding, out);
        out.extend_from_slice(outbound.payload);
        if probe.is_some() {
            self.mtu.sent();
        }
        if kind == Kind::Fin {
            self.finished = true;
        }
        self.left(now_us, bytes);
        Transmit { bytes: HEADER_BYTES + padding + bytes, whole }
    }

    fn next_packet(&mut self, now_us: u64) -> Option<Next> {
        let pending = self.outgoing.pending_bytes();
        if pending == 0 {
            return (self.finishing && !self.finished).then(|| Next::plain(0, Kind::Fin));
        }
        if !self.outgoing.has_span() {
            return None;
        }
        let full = self.mtu.payload_bytes();
        let room = self.peer_window_bytes.saturating_sub(self.outgoing.in_flight_bytes());
        let bytes = pending.min(full);
        if room < bytes as u64 {
            return self.probe_window(now_us, bytes);
        }
        self.window_probe_at_us = None;
        self.window_probe_wait_us = WINDOW_PROBE_US;
        if bytes < full && self.config.nagle && !self.finishing && self.outgoing.has_flight() {
            return None;
        }
        let probe = self.mtu.probe(now_us).filter(|_| bytes == full);
        let bytes = probe.map_or(bytes, |probe| probe.payload);
        Some(Next { bytes, kind: Kind::Data, probe })
    }

    /// A packet although the peer announced no room. The peer answers with its present window.
    fn probe_window(&mut self, now_us: u64, bytes: usize) -> Option<Next> {
        if self.outgoing.has_flight() {
            self.window_probe_at_us = None;
            return None;
        }
        let due_us = *self.window_probe_at_us.get_or_insert(now_us + self.window_probe_wait_us);
        if now_us < due_us {
            return None;
        }
        self.window_probe_at_us = None;
        self.window_probe_wait_us = (2 * self.window_probe_wait_us).min(WINDOW_PROBE_MAX_US);
        Some(Next::plain(bytes, Kind::Data))
    }

    /// Repeats a lost packet.
    fn repeat(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<Transmit> {
        let header = self.header(Kind::Data, now_us);
        let bytes = self.outgoing.next_lost_bytes()? as u64;
        let stamp = self.congestion.sent(now_us, bytes, self.outgoing.in_flight_bytes());
        let outbound = self.outgoing.retransmit(now_us, stamp)?;
        let (kind, bytes, after_timeout) = (outbound.kind, outbound.payload.len(), outbound.after_timeout);
        // The first packet of a connection that asks for another one waits here as well.
        let repeats = outbound.repetitions > 0;
        let mut header = Header { kind, seq: outbound.number as u16, ..header };
        if kind == Kind::Syn {
            header.connection_id = self.receive_id;
        }
        header.write(None, out);
        out.extend_from_slice(outbound.payload);
        self.resent_bytes += bytes as u64;
        self.resent_packets += u64::from(repeats);
        self.resent_after_timeout_packets += u64::from(after_timeout);
        self.left(now_us, bytes);
        Some(Transmit { bytes: HEADER_BYTES + bytes, whole: false })
    }

    /// Counts a packet of the stream that has left. It also carries an acknowledgement.
    fn left(&mut self, now_us: u64, bytes: usize) {
        self.sent_bytes += bytes as u64;
        self.sent_packets += 1;
        if self.timeout_at_us.is_none() {
            self.timeout_at_us = Some(now_us + self.rtt.timeout_us());
        }
        self.spoke(now_us, self.incoming.as_ref().is_none_or(|incoming| !incoming.has_gap()));
    }

    /// The answer to a SYN.
    fn answer(&mut self, now_us: u64, out: &mut Vec<u8>) -> Transmit {
        self.answer_due = false;
        self.bare(Kind::State, now_us, out)
    }

    fn keep_alive(&mut self, now_us: u64, out: &mut Vec<u8>) -> Transmit {
        let header = self.header(Kind::State, now_us);
        Header { ack: header.ack.wrapping_sub(1), ..header }.write(None, out);
        self.spoke(now_us, false);
        Transmit { bytes: HEADER_BYTES, whole: false }
    }

    fn bare(&mut self, kind: Kind, now_us: u64, out: &mut Vec<u8>) -> Transmit {
        self.header(kind, now_us).write(None, out);
        self.spoke(now_us, true);
        Transmit { bytes: HEADER_BYTES, whole: false }
    }

    fn acknowledge(&mut self, now_us: u64, out: &mut Vec<u8>) -> Transmit {
        let before = out.len();
        let sack = self.incoming.as_ref().filter(|incoming| incoming.has_gap()).map(Reassembly::sack);
        self.header(Kind::State, now_us).write(sack.as_deref(), out);
        self.spoke(now_us, true);
        Transmit { bytes: out.len() - before, whole: false }
    }

    fn spoke(&mut self, now_us: u64, acknowledges: bool) {
        self.spoke_us = now_us;
        if acknowledges {
            self.unacknowledged = 0;
            self.ack_now = false;
            self.ack_at_us = None;
            self.announced_bytes = self.room_bytes();
        }
    }

    fn header(&self, kind: Kind, now_us: u64) -> Header {
        Header {
            kind,
            connection_id: self.send_id,
            timestamp_us: now_us as u32,
            timestamp_difference_us: self.peer_delay.last_us(),
            window_bytes: u32::try_from(self.room_bytes()).unwrap_or(u32::MAX),
            seq: self.outgoing.next() as u16,
            ack: self.incoming.as_ref().map_or(0, Reassembly::acknowledged) as u16,
        }
    }

    fn room_bytes(&self) -> usize {
        self.incoming.as_ref().map_or(self.config.receive_bytes, Reassembly::room)
    }

    /// After a read: announces the window if it has become much larger (RFC 9293, 3.8.6.2.2).
    fn announce(&mut self) {
        let grown = self.room_bytes().saturating_sub(self.announced_bytes);
        let full = 2 * self.mtu.payload_bytes();
        if self.state == State::Open && self.announced_bytes < self.config.receive_bytes / 2 && grown >= full
        {
            self.ack_now = true;
        }
    }

    fn end(&mut self, error: Option<UtpError>) {
        self.state = State::Over;
        // A peer that has sent and received everything may drop the connection before our FIN
        // arrives.
        let only_fin = self.finished && self.outgoing.kept_bytes() == 0;
        let is_done = only_fin && self.incoming.as_ref().is_some_and(Reassembly::is_complete);
        if !is_done {
            self.error = self.error.or(error);
        }
        self.outgoing.clear();
        self.timeout_at_us = None;
    }
}
