//! One flow: a sending host, a receiving host, and the connection between them.

use crate::app::App;
use crate::gateway::GatewayFlow;
use crate::packet::{self, CE, CWR, ECE, Fields, Kind, NO_SACK, Packet};
use crate::scenario::Clock;
use crate::swarm::message::Stream;
use crate::tcp::Options;
use crate::tcp::receiver::{Block, MAX_BLOCKS, Receiver, Reply};
use crate::tcp::rto::LazyTimer;
use crate::tcp::sender::{AckIn, Next, Sender};
use leeway_control::{LawSpec, Path};
use leeway_units::{Duration, Time};

/// Settings that all flows of a group share.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Settings of the TCP endpoints.
    pub options: Options,
    /// Control law of each connection.
    pub law: LawSpec,
    /// Payload bytes of a full segment.
    pub mss: u16,
    /// Header bytes of every packet.
    pub header: u16,
    /// Traffic class of every packet.
    pub class: u8,
    /// Clocks of the two hosts.
    pub clocks: Clocks,
}

impl Profile {
    /// What a control law knows of the path when a connection begins.
    pub fn path(&self) -> Path {
        let mss = u32::from(self.mss);
        Path {
            mss_bytes: mss,
            initial_window_bytes: mss.saturating_mul(self.options.tcp.initial_window),
            ..Path::default()
        }
    }
}

/// Clocks of the two hosts, as their timestamps show them.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    sender: Clock,
    receiver: Clock,
    resolution: Duration,
    /// Whether both clocks show true time at a resolution of 1 µs or better.
    exact: bool,
}

impl Clocks {
    /// Clocks that are read with `resolution`.
    pub fn new(sender: Clock, receiver: Clock, resolution: Duration) -> Self {
        let exact = sender.is_true() && receiver.is_true() && resolution <= Duration::from_micros(1);
        Clocks { sender, receiver, resolution, exact }
    }

    /// What `clock` shows at `time`, rounded down to the resolution. Unit: µs modulo 2^64.
    fn read(&self, clock: &Clock, time: Time) -> u64 {
        if clock.is_true() {
            let step = self.resolution.nanos().max(1);
            return time.nanos() / step * step / 1000;
        }
        let nanos = i128::from(time.nanos());
        let drift = (time.nanos() as f64 * clock.skew_ppm * 1e-6) as i128;
        let shown = nanos + drift + i128::from(clock.offset.nanos());
        let step = i128::from(self.resolution.nanos().max(1));
        (shown.div_euclid(step) * step).div_euclid(1000) as u64
    }

    /// Time between two departures by the sender's clock. Unit: µs modulo 2^32.
    #[inline]
    pub fn between(&self, earlier: Time, later: Time) -> u32 {
        if self.exact {
            return (later - earlier).micros() as u32;
        }
        self.read(&self.sender, later).wrapping_sub(self.read(&self.sender, earlier)) as u32
    }

    /// One-way delay plus the offset of the clocks: receiver's clock at `now` less sender's clock
    /// at `sent`. Unit: µs modulo 2^32.
    #[inline]
    pub fn one_way_delay(&self, sent: Time, now: Time) -> u32 {
        if self.exact {
            return (now - sent).micros() as u32;
        }
        self.read(&self.receiver, now).wrapping_sub(self.read(&self.sender, sent)) as u32
    }

    /// Round-trip time by the sender's clock; at least 1 µs, because 0 means that there is no
    /// sample.
    #[inline]
    pub fn round_trip(&self, sent: Time, now: Time) -> Duration {
        if self.exact {
            return now - sent;
        }
        let span = self.read(&self.sender, now).wrapping_sub(self.read(&self.sender, sent));
        Duration::from_micros(span.max(1))
    }
}

/// Counters of one flow. They only grow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Data packets sent.
    pub sent: u64,
    /// Retransmissions among `sent`.
    pub retransmitted: u64,
    /// Data packets among `sent` that were dropped. Filled in by a snapshot, from the books.
    pub dropped: u64,
    /// Bytes that reached the receiver, headers included.
    pub delivered_bytes: u64,
    /// Data packets that reached the receiver.
    pub delivered: u64,
    /// Payload bytes that reached the receiver for the first time.
    pub goodput_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Integral of the congestion window over time. Unit: bytes × s.
    pub window_area: f64,
}

impl Counts {
    /// What was counted since `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        self.combine(before, |now, then| now - then, self.window_area - before.window_area)
    }

    /// The sum of both.
    pub fn plus(&self, other: &Counts) -> Counts {
        self.combine(other, |a, b| a + b, self.window_area + other.window_area)
    }

    fn combine(&self, other: &Counts, op: impl Fn(u64, u64) -> u64, window_area: f64) -> Counts {
        Counts {
            sent: op(self.sent, other.sent),
            retransmitted: op(self.retransmitted, other.retransmitted),
            dropped: op(self.dropped, other.dropped),
            delivered_bytes: op(self.delivered_bytes, other.delivered_bytes),
            delivered: op(self.delivered, other.delivered),
            goodput_bytes: op(self.goodput_bytes, other.goodput_bytes),
            timeouts: op(self.timeouts, other.timeouts),
            window_area,
        }
    }
}

/// A flow: one connection at a time between two hosts.
#[derive(Debug)]
pub struct Flow {
    /// The sending side.
    pub sender: Sender,
    /// The receiving side.
    pub receiver: Receiver,
    /// Index of the group.
    pub group: u32,
    /// First step of the route of data.
    pub forward: u32,
    /// First step of the route of acknowledgements.
    pub reverse: u32,
    /// Number of the connection modulo 16. Packets of earlier connections are ignored.
    pub epoch: u8,
    /// Whether a connection exists.
    pub open: bool,
    /// Whether the handshake is not complete yet: no data is sent.
    pub opening: bool,
    /// Times that the SYN was sent.
    pub syns: u32,
    /// Time of the sending host's last SYN-ACK to a client, until the client's request arrives.
    pub answered_syn: Option<Time>,
    /// Whether the application waits for the arrival of a message.
    pub waiting: bool,
    /// When the message, or the connection, began. Completion times count from here.
    pub since: Time,
    /// Expires when the delayed acknowledgement is due.
    pub ack_timer: LazyTimer,
    /// Expires when pacing allows the next segment.
    pub pace_timer: LazyTimer,
    /// Expires when the host's processing delay is over.
    pub send_timer: LazyTimer,
    /// Counters.
    pub counts: Counts,
    /// State of the flow at its gateway; absent without one.
    pub at_gateway: Option<GatewayFlow>,
    /// Messages from one peer of a swarm to another; absent for other applications.
    pub stream: Option<Box<Stream>>,
    /// State of the application.
    pub app: App,
    window_since: Time,
}

/// SACK blocks of the acknowledgements in flight. A packet carries the number of its slot.
#[derive(Debug, Default)]
pub struct Sacks {
    slots: Vec<([Block; MAX_BLOCKS], u8)>,
    free: Vec<u32>,
}

impl Sacks {
    /// Stores `blocks`; returns the number of their slot.
    #[inline]
    fn keep(&mut self, blocks: ([Block; MAX_BLOCKS], usize)) -> u32 {
        let slot = (blocks.0, blocks.1 as u8);
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Removes and returns the SACK blocks of `packet`, and their number.
    #[inline]
    pub fn take(&mut self, packet: &Packet) -> ([Block; MAX_BLOCKS], usize) {
        if packet.kind() != Kind::Ack || packet.sack() == NO_SACK {
            return ([(0, 0); MAX_BLOCKS], 0);
        }
        self.free.push(packet.sack());
        let (blocks, len) = self.slots[packet.sack() as usize];
        (blocks, usize::from(len))
    }
}

impl Flow {
    /// A flow without a connection.
    pub fn new(group: u32, profile: &Profile, forward: u32, reverse: u32, app: App) -> Self {
        let path = profile.path();
        Flow {
            sender: Sender::new(profile.law.build(&path), path),
            receiver: Receiver::default(),
            group,
            forward,
            reverse,
            epoch: 0,
            open: false,
            opening: false,
            syns: 0,
            answered_syn: None,
            waiting: false,
            since: Time::ZERO,
            ack_timer: LazyTimer::new(),
            pace_timer: LazyTimer::new(),
            send_timer: LazyTimer::new(),
            counts: Counts::default(),
            at_gateway: None,
            stream: None,
            app,
            window_since: Time::ZERO,
        }
    }

    /// Begins a new connection, and forgets all state of an earlier one.
    pub fn connect(&mut self, now: Time, profile: &Profile) {
        if self.epoch != 0 || self.open || self.sender.next_seq() != 0 {
            let path = profile.path();
            self.sender.reset(profile.law.build(&path), path);
            self.receiver.reset();
        }
        self.epoch = (self.epoch + 1) % 16;
        self.open = true;
        self.opening = false;
        self.syns = 0;
        self.answered_syn = None;
        self.waiting = false;
        self.since = now;
        self.window_since = now;
    }

    /// Ends the connection at once, on both hosts.
    pub fn disconnect(&mut self, now: Time) {
        self.note_window(now);
        self.open = false;
        self.opening = false;
        self.waiting = false;
        self.sender.timer.clear();
        self.ack_timer.clear();
        self.pace_timer.clear();
        self.send_timer.clear();
    }

    /// Adds the congestion window since the last call to its integral over time.
    #[inline]
    pub fn note_window(&mut self, now: Time) {
        if self.open {
            let window = (self.sender.law.output().cwnd_q16 >> 16) as f64;
            self.counts.window_area += window * (now - self.window_since).secs_f64();
            self.window_since = now;
        }
    }

    /// The next data packet. `Err`: nothing may be sent now, or with a time, not before that time
    /// (pacing).
    // Inlined, so that the packet is not passed in memory.
    #[inline(always)]
    pub fn next_packet(&mut self, index: u32, now: Time, profile: &Profile) -> Result<Packet, Option<Time>> {
        match self.sender.next(now, &profile.options) {
            Next::Send { seq, payload, again } => {
                self.counts.sent += 1;
                self.counts.retransmitted += u64::from(again);
                if let Some(stream) = self.stream.as_mut().filter(|_| !again) {
                    stream.sent(payload);
                }
                let mut bits = Packet::bits(self.epoch, profile.options.tcp.ecn && !again);
                if !again && self.sender.take_reduced() {
                    bits |= CWR;
                }
                Ok(Fields {
                    sent: now,
                    flow: index,
                    seq,
                    value: u32::from(payload),
                    sack: NO_SACK,
                    step: self.forward,
                    size: payload + profile.header,
                    kind: Kind::Data,
                    class: profile.class,
                    bits,
                }
                .pack())
            }
            Next::Wait(until) => Err(Some(until)),
            Next::Idle => Err(None),
        }
    }

    /// An acknowledgement of all segments that have arrived. `None` if none has arrived since the
    /// last one.
    // Inlined, so that the packet is not passed in memory.
    #[inline(always)]
    pub fn acknowledge(
        &mut self,
        index: u32,
        now: Time,
        profile: &Profile,
        sacks: &mut Sacks,
    ) -> Option<Packet> {
        let sent = self.receiver.acknowledge()?;
        let sack = match profile.options.tcp.sack && !self.receiver.is_in_order() {
            true => sacks.keep(self.receiver.blocks()),
            false => NO_SACK,
        };
        let mut bits = Packet::bits(self.epoch, false);
        if self.receiver.echoes_congestion() {
            bits |= ECE;
        }
        Some(
            Fields {
                sent,
                flow: index,
                seq: self.receiver.next(),
                // RFC 7323, 3.2: TSval is the clock when the acknowledgement is sent. So the wait
                // of a delayed acknowledgement adds to the one-way delay.
                value: profile.clocks.one_way_delay(sent, now),
                sack,
                step: self.reverse,
                size: profile.header,
                kind: Kind::Ack,
                class: profile.class,
                bits,
            }
            .pack(),
        )
    }

    /// A data packet arrives. Returns whether to acknowledge it at once.
    #[inline]
    pub fn accept(&mut self, packet: &Packet, profile: &Profile) -> Reply {
        let tcp = &profile.options.tcp;
        if tcp.ecn {
            self.receiver.note_ecn(packet.has(CE), packet.has(CWR));
        }
        let every = tcp.delayed_ack.map_or(1, |policy| policy.every);
        let (new, reply) = self.receiver.accept(packet.seq(), packet.sent, every);
        self.counts.delivered += 1;
        self.counts.delivered_bytes += packet.size();
        self.counts.goodput_bytes += if new { u64::from(packet.value()) } else { 0 };
        reply
    }

    /// An acknowledgement arrives. Returns the round-trip sample, and a time if the retransmission
    /// timer needs a calendar entry.
    #[inline]
    pub fn on_ack(
        &mut self,
        now: Time,
        packet: &Packet,
        profile: &Profile,
        sacks: &mut Sacks,
    ) -> (Duration, Option<Time>) {
        self.note_window(now);
        let (blocks, len) = sacks.take(packet);
        let rtt = profile.clocks.round_trip(packet.sent, now);
        let ack = AckIn {
            next: packet.seq(),
            blocks: &blocks[..len],
            rtt,
            owd_us: packet.value(),
            echoed: packet.sent,
            clocks: &profile.clocks,
            ece: packet.has(packet::ECE),
        };
        (rtt, self.sender.on_ack(now, &ack, &profile.options))
    }

    /// Whether the receiver has everything that the application has written.
    #[inline]
    pub fn is_delivered(&self) -> bool {
        self.sender.is_drained() && self.receiver.next() == self.sender.next_seq()
    }
}
