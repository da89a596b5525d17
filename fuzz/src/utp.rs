//! uTP among strangers: a packet, and a socket with an honest connection, hostile peers and forgers.

use leeway_utp::{
    Address, Config, Connection, Endpoint, HEADER_BYTES, Handle, Header, Kind, Packet, SACK_BITS_MAX,
};
use std::collections::{BTreeSet, VecDeque};

/// One packet: what was read and written again reads the same.
pub fn utp_packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    assert!(bytes.len() >= HEADER_BYTES + packet.payload.len());
    assert!(packet.sack.is_none_or(|sack| !sack.is_empty()));
    let mut again = Vec::new();
    packet.header.write(packet.sack, &mut again);
    again.extend_from_slice(packet.payload);
    let second = Packet::parse(&again).expect("what was written is a packet");
    let cut = |sack: &[u8]| {
        let mut bits = sack[..sack.len().min(SACK_BITS_MAX / 8)].to_vec();
        bits.resize(bits.len().next_multiple_of(4), 0);
        bits
    };
    assert_eq!(second.header, packet.header);
    assert_eq!(second.payload, packet.payload);
    assert_eq!(second.sack.map(cut), packet.sack.map(cut));
}

/// Hosts of the play. The forger speaks in any name but hears nothing.
const VICTIM: Peer = Peer { host: 0, port: 1 };
const HONEST: Peer = Peer { host: 1, port: 1 };
const HOSTILE: u8 = 2;
const STRANGER: Peer = Peer { host: 3, port: 1 };

const DELAY_US: u64 = 10_000;
/// Bytes that the honest connection carries each way.
const HONEST_BYTES: usize = 40_000;
const BUFFER_BYTES: usize = 16_384;
const CONNECTIONS_MAX: usize = 24;
/// Packets that the victim may send at one instant: the buffers of all connections, and as much again.
const BURST_MAX: usize = 2 * CONNECTIONS_MAX * (BUFFER_BYTES / 1_200);
/// Wake-ups of the victim a second: paces and timers of all connections.
const WAKE_UPS_MAX: u64 = 20_000;
/// A forger who does not hear the connection: one of the two numbers at least is off by this.
const FAR: u16 = 5_000;
/// After ten minutes of silence, and a timeout, nothing is left of a peer.
const FORGOTTEN_US: u64 = 700_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Peer {
    host: u8,
    port: u8,
}

impl Address for Peer {
    const FIRST: Self = Peer { host: 0, port: 0 };

    fn is_same_host(&self, other: &Self) -> bool {
        self.host == other.host
    }
}

/// The input, read as commands: what is missing at its end is zero.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn take(&mut self, most: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

/// What a hostile peer knows of one connection with the victim.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    /// The identifier that its packets carry.
    id: u16,
    /// Number of the last packet that came, and what that one acknowledged.
    seq: u16,
    ack: u16,
}

struct Play {
    now_us: u64,
    random: u16,
    victim: Endpoint<Peer>,
    honest: Endpoint<Peer>,
    /// Between the two, in the order of arrival.
    flying: VecDeque<(u64, Peer, Vec<u8>)>,
    /// The two ends of the honest connection: what is written, how much of it was, what was read.
    ends: [Option<Handle>; 2],
    said: [Vec<u8>; 2],
    written: [usize; 2],
    got: [Vec<u8>; 2],
    /// Connections of the victim with others.
    others: BTreeSet<Handle>,
    reads: bool,
    heard: [Heard; 2],
    /// What a listener would know of the honest connection; forgers keep away from it.
    heard_honest: Heard,
    /// The ports that the hostile peer speaks from.
    ports: [u8; 2],
    /// Bytes to and from the stranger, and numbers that only its packets tell.
    stranger_bytes: [usize; 2],
    told: BTreeSet<u16>,
}

/// A socket under attack: nothing panics or spins, nobody gets more than came before the address is
/// proven, buffers keep their bounds, the honest connection carries its bytes in time, and in the
/// end nothing is left of the others.
pub fn utp(bytes: &[u8]) {
    let mut play = Play::new();
    let mut script = Script(bytes);
    while !script.0.is_empty() {
        play.command(&mut script);
        play.run(play.now_us);
    }
    let began_us = play.now_us;
    while play.got.iter().any(|got| got.len() < HONEST_BYTES) {
        play.run(play.now_us + 100_000);
        assert!(play.now_us < began_us + 20_000_000, "the honest connection stands still");
    }
    for (end, got) in play.got.iter().enumerate() {
        assert!(*got == play.said[1 - end], "the honest bytes differ");
    }
    play.reads = true;
    play.run(play.now_us + 1_000);
    for handle in play.ends.into_iter().flatten() {
        play.victim.release(handle);
        play.honest.release(handle);
    }
    for handle in std::mem::take(&mut play.others) {
        play.victim.release(handle);
    }
    play.run(play.now_us + FORGOTTEN_US);
    assert!(play.victim.is_empty(), "{} connections are left", play.victim.len());
}

fn pattern(end: usize) -> Vec<u8> {
    (0..HONEST_BYTES).map(|at| (at * 31 + at / 251 + end) as u8).collect()
}

fn config() -> Config {
    let mut config = Config::default();
    config.send_bytes = BUFFER_BYTES;
    config.receive_bytes = BUFFER_BYTES;
    config
}

/// Numbers that nobody in the play can guess, the same in each run.
fn draw(random: &mut u16) -> u16 {
    *random = random.wrapping_mul(25_173).wrapping_add(13_849);
    *random
}

impl Play {
    /// The honest connection is open, a hostile peer has one in each role.
    fn new() -> Play {
        let mut play = Play {
            now_us: 1_000_000,
            random: 0xbeef,
            victim: Endpoint::new(CONNECTIONS_MAX),
            honest: Endpoint::new(CONNECTIONS_MAX),
            flying: VecDeque::new(),
            ends: [None; 2],
            said: [0, 1].map(pattern),
            written: [0; 2],
            got: [Vec::new(), Vec::new()],
            others: BTreeSet::new(),
            reads: true,
            heard: [Heard { id: 101, ..Heard::default() }, Heard::default()],
            heard_honest: Heard::default(),
            ports: [1; 2],
            stranger_bytes: [0; 2],
            told: BTreeSet::new(),
        };
        play.victim.listen(Some(config()));
        let Play { honest, random, now_us, .. } = &mut play;
        play.ends[1] = honest.connect(VICTIM, config(), &mut || draw(random), *now_us);
        play.run(play.now_us + 100_000);
        assert!(play.ends[0].is_some(), "the honest connection is open");

        let hostile = Peer { host: HOSTILE, port: 1 };
        let Play { victim, random, now_us, .. } = &mut play;
        let handle = victim.connect(hostile, config(), &mut || draw(random), *now_us);
        play.others.extend(handle);
        play.hostile(0, Kind::Syn, 100, [5, 0], 1 << 20, None, &[]);
        play.run(play.now_us);
        for which in 0..2 {
            let Heard { id, seq, ack } = play.heard[which];
            play.hostile(which, Kind::State, id, [ack.wrapping_add(1), seq], 1 << 20, None, &[]);
            play.run(play.now_us);
        }
        play
    }

    /// Plays until `until_us`: packets, timers, applications.
    fn run(&mut self, until_us: u64) {
        let (began_us, mut wake_ups) = (self.now_us, 0);
        loop {
            self.settle();
            let arrival_us = self.flying.front().map(|(at_us, ..)| *at_us);
            let timers_us = [self.victim.deadline(), self.honest.deadline()];
            for timer_us in timers_us.into_iter().flatten() {
                assert!(timer_us > self.now_us, "a timer that is due was not served");
            }
            let next_us = timers_us.into_iter().chain([arrival_us]).flatten().min().unwrap_or(u64::MAX);
            if next_us > until_us {
                self.now_us = until_us;
                return;
            }
            self.now_us = next_us;
            wake_ups += 1;
            let seconds = 1 + (self.now_us - began_us) / 1_000_000;
            assert!(wake_ups < WAKE_UPS_MAX * seconds, "{wake_ups} wake-ups in {seconds} s");
            self.victim.expire(next_us);
            self.honest.expire(next_us);
            while self.flying.front().is_some_and(|(at_us, ..)| *at_us <= next_us) {
                let Some((_, to, datagram)) = self.flying.pop_front() else { break };
                match to {
                    VICTIM => self.deliver(HONEST, &datagram),
                    _ => self.honest.receive(VICTIM, &datagram, &mut || draw(&mut self.random), next_us),
                }
            }
        }
    }

    /// A datagram reaches the victim, which answers what it wants to answer.
    fn deliver(&mut self, from: Peer, datagram: &[u8]) {
        if from == STRANGER {
            self.stranger_bytes[0] += datagram.len();
        }
        self.victim.receive(from, datagram, &mut || draw(&mut self.random), self.now_us);
        self.settle();
    }

    /// Applications read and write, endpoints send, until there is nothing left to do at this instant.
    fn settle(&mut self) {
        while self.victim.changed().is_some() || self.honest.changed().is_some() {}
        while let Some(handle) = self.victim.accept() {
            match self.victim.peer(handle) {
                Some(HONEST) if self.ends[0].is_none() => self.ends[0] = Some(handle),
                _ => drop(self.others.insert(handle)),
            }
        }
        assert!(self.victim.len() <= CONNECTIONS_MAX);
        self.honest_application();
        let mut buffer = [0; 4096];
        for &handle in self.others.iter().filter(|_| self.reads) {
            let Some(connection) = self.victim.get_mut(handle) else { continue };
            let mut bytes = 0;
            while let Ok(Some(count @ 1..)) = connection.read(&mut buffer) {
                bytes += count;
            }
            assert!(bytes <= BUFFER_BYTES, "{bytes} bytes were kept");
        }
        let mut packets = 0;
        let mut out = Vec::new();
        while let Some(batch) = self.victim.transmit(self.now_us, &mut out) {
            for datagram in out.chunks(batch.segment_bytes) {
                packets += 1;
                assert!(packets <= BURST_MAX, "{packets} packets at one instant");
                self.sent(batch.to, datagram);
            }
            out.clear();
        }
        while let Some(batch) = self.honest.transmit(self.now_us, &mut out) {
            for datagram in out.chunks(batch.segment_bytes) {
                self.flying.push_back((self.now_us + DELAY_US, VICTIM, datagram.to_vec()));
            }
            out.clear();
        }
    }

    /// The honest connection carries its bytes, both ways.
    fn honest_application(&mut self) {
        let mut buffer = [0; 4096];
        for (end, endpoint) in [&mut self.victim, &mut self.honest].into_iter().enumerate() {
            let Some(connection) = self.ends[end].and_then(|handle| endpoint.get_mut(handle)) else {
                continue;
            };
            assert_eq!(connection.error(), None, "the honest connection is hurt");
            let all = &self.said[end];
            if self.written[end] < all.len() {
                self.written[end] += connection.write(&all[self.written[end]..]).expect("it is open");
            }
            while let Ok(Some(count @ 1..)) = connection.read(&mut buffer) {
                self.got[end].extend_from_slice(&buffer[..count]);
            }
        }
    }

    /// The victim has sent a packet.
    fn sent(&mut self, to: Peer, datagram: &[u8]) {
        let packet = Packet::parse(datagram).expect("the victim sends packets");
        let header = packet.header;
        assert!(header.window_bytes as usize <= BUFFER_BYTES);
        let last = if header.kind == Kind::State { header.seq.wrapping_sub(1) } else { header.seq };
        match to {
            HONEST => {
                let end = self.ends[0].and_then(|handle| self.victim.get(handle));
                let is_of_it = end.is_none_or(|end| end.send_id() == header.connection_id);
                if is_of_it && header.kind != Kind::Reset {
                    self.heard_honest = Heard { id: 0, seq: last, ack: header.ack };
                }
                self.flying.push_back((self.now_us + DELAY_US, HONEST, datagram.to_vec()));
            }
            STRANGER => {
                self.stranger_bytes[1] += datagram.len();
                let [came, left] = self.stranger_bytes;
                assert!(left <= came, "{left} bytes to an address that is not proven, {came} from it");
                self.told.insert(last);
            }
            _ if header.kind == Kind::Reset => {}
            _ => {
                if header.kind == Kind::Syn {
                    self.heard[1].id = header.connection_id;
                }
                let ids = [self.heard[0].id.wrapping_sub(1), self.heard[1].id.wrapping_add(1)];
                let of_syn = (header.kind == Kind::Syn).then_some(1);
                let which = of_syn.or_else(|| ids.iter().position(|&id| id == header.connection_id));
                if let Some(which) = which {
                    self.heard[which] = Heard { seq: last, ack: header.ack, ..self.heard[which] };
                }
            }
        }
    }

    fn command(&mut self, script: &mut Script<'_>) {
        match script.byte() % 8 {
            0 => {
                let wait = script.byte();
                let unit_us = if wait & 0x80 == 0 { 1_000 } else { 250_000 };
                self.run(self.now_us + u64::from(wait & 0x7f) * unit_us);
            }
            1..=3 => self.near_packet(script),
            4 => self.forged(script),
            5 => {
                let length = script.byte();
                let port = script.byte() & 3;
                let datagram = script.take(length.into());
                self.deliver(Peer { host: HOSTILE, port }, &datagram);
            }
            6 => self.application(script.byte()),
            _ => self.network(script),
        }
    }

    /// A packet of a hostile peer that knows its connection.
    fn near_packet(&mut self, script: &mut Script<'_>) {
        let choice = script.byte();
        let kind = [Kind::Data, Kind::State, Kind::Fin, Kind::Reset, Kind::Syn][usize::from(choice % 5)];
        let which = usize::from(choice >> 3 & 1);
        let (seq_off, ack_off) = (script.byte() as i8, script.byte() as i8);
        // Small steps, or to the ends of what numbers mean.
        let stride = if choice >> 4 & 1 == 1 { 257 } else { 1 };
        let shape = script.byte();
        let window = [0, 1, 3_000, 1 << 20, u32::MAX][usize::from(shape % 5)];
        let sack = (shape >> 3 & 3 > 0).then(|| {
            let length = 4 << (2 * (shape >> 3 & 3) - 2);
            let fill = script.byte();
            vec![fill; length]
        });
        let payload = vec![shape; [0, 1, 1_200, 9_000][usize::from(shape >> 5 & 3)]];
        let Heard { id, seq, ack } = self.heard[which];
        let numbers = [
            ack.wrapping_add(1).wrapping_add_signed(i16::from(seq_off).wrapping_mul(stride)),
            seq.wrapping_add_signed(i16::from(ack_off).wrapping_mul(stride)),
        ];
        let id = if choice >> 6 == 3 { id.wrapping_sub(1) } else { id };
        self.hostile(which, kind, id, numbers, window, sack.as_deref(), &payload);
    }

    #[expect(clippy::too_many_arguments, reason = "a packet has that many fields")]
    fn hostile(
        &mut self,
        which: usize,
        kind: Kind,
        connection_id: u16,
        [seq, ack]: [u16; 2],
        window_bytes: u32,
        sack: Option<&[u8]>,
        payload: &[u8],
    ) {
        let header = Header {
            kind,
            connection_id,
            timestamp_us: self.now_us as u32,
            timestamp_difference_us: 77,
            window_bytes,
            seq,
            ack,
        };
        let mut datagram = Vec::new();
        header.write(sack, &mut datagram);
        datagram.extend_from_slice(payload);
        self.deliver(Peer { host: HOSTILE, port: self.ports[which] }, &datagram);
    }

    /// A packet in the name of somebody else, by one who hears nothing of what is answered.
    fn forged(&mut self, script: &mut Script<'_>) {
        let choice = script.byte();
        let kind = [Kind::Data, Kind::State, Kind::Fin, Kind::Reset, Kind::Syn][usize::from(choice % 5)];
        let (id, mut seq, mut ack) = (script.word(), script.word(), script.word());
        let in_honest_name = choice & 0x80 != 0;
        let mut connection_id = id;
        if in_honest_name {
            // The identifier was guessed, and one number at most. A packet of another connection with
            // the right number would be a RESET that the honest side has to believe.
            let Some(end) = self.ends[0].and_then(|handle| self.victim.get(handle)) else { return };
            let ids = [end.receive_id(), end.send_id(), id];
            connection_id = ids[usize::from(choice >> 5 & 3).min(2)];
            let is_near = |number: u16, to: u16| number.wrapping_sub(to).wrapping_add(FAR) < 2 * FAR;
            let Heard { seq: ours, ack: theirs, .. } = self.heard_honest;
            if choice & 8 != 0 {
                (connection_id, seq) = (ids[0], theirs.wrapping_add(1 + (seq & 3)));
            }
            while choice & 8 == 0 && is_near(seq, theirs) {
                seq = seq.wrapping_add(2 * FAR);
            }
            while is_near(ack, ours) {
                ack = ack.wrapping_add(2 * FAR);
            }
        } else if self.told.contains(&ack) {
            return; // one in 65,536
        }
        let header = Header {
            kind,
            connection_id,
            timestamp_us: script.word().into(),
            timestamp_difference_us: 1 << 30,
            window_bytes: u32::from(script.byte()) << 12,
            seq,
            ack,
        };
        let mut datagram = Vec::new();
        let sack = [0xff; 128];
        header.write((choice & 0x10 != 0).then_some(&sack), &mut datagram);
        datagram.resize(datagram.len() + usize::from(script.byte()), 0xee);
        self.deliver(if in_honest_name { HONEST } else { STRANGER }, &datagram);
    }

    /// The victim's application does something with its other connections.
    fn application(&mut self, what: u8) {
        if what & 7 == 7 {
            // A translator of addresses gives the hostile peer another port.
            self.ports[usize::from(what >> 3 & 1)] = 1 + (what >> 4 & 3);
            return;
        }
        let handles: Vec<Handle> = self.others.iter().copied().collect();
        let Some(&handle) = handles.get(usize::from(what >> 3) % handles.len().max(1)) else { return };
        match what % 8 {
            0 | 1 => self.reads = !self.reads,
            2 => {
                self.others.remove(&handle);
                self.victim.release(handle);
            }
            3 => self.connection(handle, Connection::finish),
            4 => self.connection(handle, Connection::reset),
            _ => self.connection(handle, |connection| {
                let _ = connection.write(&[0x55; BUFFER_BYTES]);
            }),
        }
    }

    fn connection(&mut self, handle: Handle, what: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.victim.get_mut(handle) {
            what(connection);
        }
    }

    /// The network says something of a packet, or somebody pretends that it does.
    fn network(&mut self, script: &mut Script<'_>) {
        let (choice, seq, bytes) = (script.byte(), script.word(), script.word());
        let Heard { id, seq: last, .. } = self.heard[usize::from(choice >> 1 & 1)];
        let send_id = id.wrapping_add_signed(if choice & 2 == 0 { -1 } else { 1 });
        let header = Header {
            kind: if choice & 4 == 0 { Kind::Data } else { Kind::Syn },
            connection_id: send_id,
            timestamp_us: 0,
            timestamp_difference_us: 0,
            window_bytes: 0,
            seq: if choice & 8 == 0 { last } else { seq },
            ack: 0,
        };
        let Some(handle) = self.victim.sent(Peer { host: HOSTILE, port: 1 }, &header) else { return };
        let now_us = self.now_us;
        self.connection(handle, |connection| match choice & 1 {
            0 => connection.too_long(&header, bytes.into(), now_us),
            _ => connection.unreachable(&header),
        });
        self.victim.note_changed(handle);
    }
}
