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

/// What all flows of a group share.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Choices of the endpoints.
    pub options: Options,
    /// The law that each connection starts with.
    pub law: LawSpec,
    /// Payload bytes of a full segment.
    pub mss: u16,
    /// Header bytes of every packet.
    pub header: u16,
    /// Traffic class of every packet.
    pub class: u8,
    /// Clocks of the hosts.
    pub clocks: Clocks,
}

impl Profile {
    /// The path as a new connection knows it.
    pub fn path(&self) -> Path {
        let mss = u32::from(self.mss);
        Path {
            mss_bytes: mss,
            initial_window_bytes: mss.saturating_mul(self.options.tcp.initial_window),
            ..Path::default()
        }
    }
}

/// Clocks of two hosts, as their timestamps show them.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    sender: Clock,
    receiver: Clock,
    resolution: Duration,
    /// Both clocks true and no coarser than a microsecond.
    exact: bool,
}

impl Clocks {
    /// Clocks read at `resolution`.
    pub fn new(sender: Clock, receiver: Clock, resolution: Duration) -> Self {
        let exact = sender.is_true() && receiver.is_true() && resolution <= Duration::from_micros(1);
        Clocks { sender, receiver, resolution, exact }
    }

    /// Microseconds that `clock` shows at `time`, modulo 2^64, to the resolution.
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

    /// What the sender's clock shows to have passed between two departures, in microseconds modulo 2^32.
    #[inline]
    pub fn between(&self, earlier: Time, later: Time) -> u32 {
        if self.exact {
            return (later - earlier).micros() as u32;
        }
        self.read(&self.sender, later).wrapping_sub(self.read(&self.sender, earlier)) as u32
    }

    /// Receiver's clock at `now` minus the sender's timestamp of `sent`: microseconds modulo 2^32.
    #[inline]
    pub fn one_way_delay(&self, sent: Time, now: Time) -> u32 {
        if self.exact {
            return (now - sent).micros() as u32;
        }
        self.read(&self.receiver, now).wrapping_sub(self.read(&self.sender, sent)) as u32
    }

    /// The round-trip time by the sender's clock; at least one microsecond, so that it is a sample.
    #[inline]
    pub fn round_trip(&self, sent: Time, now: Time) -> Duration {
        if self.exact {
            return now - sent;
        }
        let span = self.read(&self.sender, now).wrapping_sub(self.read(&self.sender, sent));
        Duration::from_micros(span.max(1))
    }
}

/// What a flow has done so far; only ever added to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Data packets sent.
    pub sent: u64,
    /// Of them retransmissions.
    pub retransmitted: u64,
    /// Of them dropped on the way; the books count these, and a snapshot fills them in.
    pub dropped: u64,
    /// Bytes that reached the receiver, headers included.
    pub delivered_bytes: u64,
    /// Data packets that reached the receiver.
    pub delivered: u64,
    /// Payload bytes that reached the receiver for the first time.
    pub goodput_bytes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Window in bytes x seconds.
    pub window_area: f64,
}

impl Counts {
    /// What was counted since `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        self.combine(before, |now, then| now - then, self.window_area - before.window_area)
    }

    /// The sum.
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

/// One slot for connections, one at a time.
#[derive(Debug)]
pub struct Flow {
    /// The sending side.
    pub sender: Sender,
    /// The receiving side.
    pub receiver: Receiver,
    /// Index of the group.
    pub group: u32,
    /// Where the route of data begins.
    pub forward: u32,
    /// Where the route of acknowledgements begins.
    pub reverse: u32,
    /// Which connection of the slot this is, modulo 16: what is left of earlier ones is ignored.
    pub epoch: u8,
    /// Whether a connection is there.
    pub open: bool,
    /// The handshake is under way: nothing is sent yet.
    pub opening: bool,
    /// Times that the SYN was sent.
    pub syns: u32,
    /// When the sending host, asked by a client, last answered a SYN; until the client's next packet.
    pub answered_syn: Option<Time>,
    /// A message is on its way that the application waits for.
    pub waiting: bool,
    /// When the message, or the connection, began.
    pub since: Time,
    /// A delayed acknowledgement is due.
    pub ack_timer: LazyTimer,
    /// Pacing lets the next segment go.
    pub pace_timer: LazyTimer,
    /// The host has got round to sending.
    pub send_timer: LazyTimer,
    /// What it has done.
    pub counts: Counts,
    /// Its state at a gateway.
    pub at_gateway: Option<GatewayFlow>,
    /// What one peer of a swarm says to another.
    pub stream: Option<Box<Stream>>,
    /// What the application is at.
    pub app: App,
    window_since: Time,
}

/// Selective acknowledgement blocks of the acknowledgements that carry any, in slots that packets point to.
#[derive(Debug, Default)]
pub struct Sacks {
    slots: Vec<([Block; MAX_BLOCKS], u8)>,
    free: Vec<u32>,
}

impl Sacks {
    /// Keeps `blocks`; where.
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

    /// Takes the blocks of `packet` out.
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
    /// A slot without a connection.
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

    /// A new connection begins; whatever is left of an earlier one is forgotten.
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

    /// The connection ends at once, on both hosts.
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

    /// Adds the window since the last change to the average.
    #[inline]
    pub fn note_window(&mut self, now: Time) {
        if self.open {
            let window = (self.sender.law.output().cwnd_q16 >> 16) as f64;
            self.counts.window_area += window * (now - self.window_since).secs_f64();
            self.window_since = now;
        }
    }

    /// The next data packet, if the connection may send one now.
    #[inline(always)] // so that the packet is not handed over in memory
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

    /// An acknowledgement of everything that has arrived; nothing if nothing has since the last one.
    #[inline(always)] // so that the packet is not handed over in memory
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
                // RFC 7323, 3.2: TSval is the clock when the acknowledgement is sent, so a delayed one says
                // more than the path took.
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

    /// A data packet arrives: whether to acknowledge at once.
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

    /// An acknowledgement arrives; the round-trip sample, and an instant if the timer needs a calendar entry.
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

    /// Whether everything that was written has arrived.
    #[inline]
    pub fn is_delivered(&self) -> bool {
        self.sender.is_drained() && self.receiver.next() == self.sender.next_seq()
    }
}
