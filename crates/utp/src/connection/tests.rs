//! Two connections and a network in virtual time.

use super::*;
use crate::wire::Packet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the network does to packets.
#[derive(Clone)]
struct Network {
    delay_us: u64,
    /// Every so many packets one is lost, delayed by a round trip, or doubled; 0: none.
    lose: u64,
    delay: u64,
    double: u64,
    /// Probes above this many bytes are lost, others are fragmented.
    mtu: usize,
    /// Packets of more bytes are lost, and fragments of them too.
    hole: usize,
    /// Bits a second, each way; 0: endless.
    rate: u64,
    /// Packets that wait for it.
    buffer_us: u64,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            delay_us: 20_000,
            lose: 0,
            delay: 0,
            double: 0,
            mtu: 9000,
            hole: 9000,
            rate: 0,
            buffer_us: 0,
        }
    }
}

/// When it arrives, a number that keeps the order, at which end, and its bytes.
type Flying = (u64, u64, usize, Vec<u8>);

struct Pair {
    now_us: u64,
    /// The clocks of the two ends, against virtual time.
    skew_us: [u64; 2],
    /// How far the clocks of their stamps have jumped.
    jump_us: [u32; 2],
    ends: [Option<Connection>; 2],
    accept: Config,
    network: Network,
    flying: BinaryHeap<Reverse<Flying>>,
    free_us: [u64; 2],
    count: u64,
    random: u64,
    sent_packets: [u64; 2],
    received: [Vec<u8>; 2],
}

impl Pair {
    fn new(connect: Config, accept: Config, network: Network) -> Self {
        let first = Connection::connect(connect, 7, 65_530, 0);
        Pair {
            now_us: 0,
            skew_us: [0, 5_000_000],
            jump_us: [0; 2],
            ends: [Some(first), None],
            accept,
            network,
            flying: BinaryHeap::new(),
            free_us: [0; 2],
            count: 0,
            random: 1,
            sent_packets: [0; 2],
            received: [Vec::new(), Vec::new()],
        }
    }

    fn one_in(&mut self, every: u64) -> bool {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        every > 0 && (self.random >> 33).is_multiple_of(every)
    }

    fn send(&mut self, from: usize, packet: Vec<u8>, whole: bool) {
        self.count += 1;
        self.sent_packets[from] += 1;
        let too_long = packet.len() > self.network.hole || (whole && packet.len() + 28 > self.network.mtu);
        if self.one_in(self.network.lose) || too_long {
            return;
        }
        let mut at_us = self.now_us;
        if self.network.rate > 0 {
            let start_us = self.free_us[from].max(self.now_us);
            if start_us - self.now_us > self.network.buffer_us {
                return;
            }
            at_us = start_us + (packet.len() as u64 * 8_000_000).div_ceil(self.network.rate);
            self.free_us[from] = at_us;
        }
        at_us += self.network.delay_us;
        if self.one_in(self.network.delay) {
            at_us += 2 * self.network.delay_us;
        }
        if self.one_in(self.network.double) {
            self.flying.push(Reverse((at_us + 7, self.count, 1 - from, packet.clone())));
        }
        self.flying.push(Reverse((at_us, self.count, 1 - from, packet)));
    }

    fn transmit(&mut self) {
        for from in 0..2 {
            loop {
                let clock_us = self.now_us + self.skew_us[from];
                let Some(end) = &mut self.ends[from] else { break };
                let mut packet = Vec::new();
                let Some(transmit) = end.transmit(clock_us, &mut packet) else { break };
                assert_eq!(transmit.bytes, packet.len());
                self.send(from, packet, transmit.whole);
            }
        }
    }

    /// One step; false when nothing will ever happen.
    fn step(&mut self) -> bool {
        self.transmit();
        let flying = self.flying.peek().map(|Reverse((at_us, ..))| *at_us);
        let timers = [0, 1].map(|end| {
            let deadline = self.ends[end].as_ref().and_then(Connection::deadline)?;
            Some(deadline.saturating_sub(self.skew_us[end]).max(self.now_us))
        });
        let Some(next_us) = [flying, timers[0], timers[1]].into_iter().flatten().min() else { return false };
        self.now_us = next_us;
        while let Some(Reverse((at_us, ..))) = self.flying.peek() {
            if *at_us > next_us {
                break;
            }
            let Some(Reverse((_, _, to, mut bytes))) = self.flying.pop() else { break };
            self.jump(1 - to, &mut bytes);
            let packet = Packet::parse(&bytes).unwrap();
            let clock_us = next_us + self.skew_us[to];
            match &mut self.ends[to] {
                Some(end) => end.receive(clock_us, &packet),
                None if packet.header.kind == Kind::Syn => {
                    self.ends[to] =
                        Some(Connection::accept(self.accept.clone(), &packet.header, 65_500, clock_us));
                }
                None => {}
            }
        }
        for end in 0..2 {
            let clock_us = next_us + self.skew_us[end];
            if let Some(connection) = &mut self.ends[end] {
                if connection.deadline().is_some_and(|at_us| at_us <= clock_us) {
                    connection.expire(clock_us);
                }
                let mut buffer = [0; 4096];
                while let Ok(Some(count @ 1..)) = connection.read(&mut buffer) {
                    self.received[end].extend_from_slice(&buffer[..count]);
                }
            }
        }
        true
    }

    /// Moves the clock of an end, as far as the other sees it.
    fn jump(&self, from: usize, packet: &mut [u8]) {
        for at in [4, 8] {
            let field: [u8; 4] = packet[at..at + 4].try_into().unwrap();
            let moved = u32::from_be_bytes(field).wrapping_add(self.jump_us[from]);
            packet[at..at + 4].copy_from_slice(&moved.to_be_bytes());
        }
    }

    fn end(&mut self, at: usize) -> &mut Connection {
        self.ends[at].as_mut().unwrap()
    }

    /// Sends `bytes` from both ends as there is room, finishes, and runs until both are over.
    fn exchange(&mut self, bytes: [&[u8]; 2]) {
        let mut written = [0; 2];
        let mut steps = 0;
        loop {
            for ((end, all), written) in self.ends.iter_mut().zip(bytes).zip(&mut written) {
                let Some(end) = end else { continue };
                if *written < all.len() {
                    *written += end.write(&all[*written..]).unwrap();
                }
                if *written == all.len() {
                    end.finish();
                }
            }
            if !self.step() || self.ends.iter().flatten().all(Connection::is_over) {
                break;
            }
            steps += 1;
            assert!(steps < 3_000_000 && self.now_us < 3_600_000_000, "no end: {:?}", self.ends);
        }
        for (at, sent) in bytes.into_iter().enumerate() {
            assert_eq!(self.end(at).error(), None, "end {at}");
            assert!(self.received[1 - at] == sent, "bytes of end {at} differ");
        }
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn bytes_go_both_ways_and_both_ends_close() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    pair.exchange([&pattern(200_000), &pattern(70_000)]);
    assert!(pair.now_us < 5_000_000 + LINGER_US, "{} us", pair.now_us);
}

#[test]
fn nothing_at_all_is_an_empty_stream() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    pair.exchange([b"", b""]);
    let packets = pair.sent_packets[0] + pair.sent_packets[1];
    assert!(packets <= 10, "{packets} packets");
}

#[test]
fn the_accepting_side_may_speak_first() {
    let network = Network { lose: 4, ..Network::default() };
    let patient = Config { connect_us: 200_000_000, ..Config::default() };
    for seed in 0..20 {
        let mut pair = Pair::new(patient.clone(), patient.clone(), network.clone());
        pair.random = seed;
        pair.exchange([b"", b"welcome"]);
    }
}

#[test]
fn loss_reordering_and_doubles_leave_the_bytes_alone() {
    for (seed, law) in (0..).zip(["ledbat", "newreno", "ledbat:target=25ms", "cubic", "flower", "ledbatpp"]) {
        let config = Config { law: law.parse().unwrap(), ..Config::default() };
        let network = Network { lose: 33, delay: 20, double: 20, ..Network::default() };
        let mut pair = Pair::new(config.clone(), config, network);
        pair.random = seed;
        pair.exchange([&pattern(300_000), &pattern(300_000)]);
    }
}

#[test]
fn heavy_loss_is_survived() {
    let network = Network { lose: 4, ..Network::default() };
    let mut pair = Pair::new(Config::default(), Config::default(), network);
    pair.exchange([&pattern(60_000), &pattern(60_000)]);
}

#[test]
fn a_reader_that_stops_stops_the_writer_and_starts_it_again() {
    let small = Config { receive_bytes: 10_000, ..Config::default() };
    let mut pair = Pair::new(Config::default(), small, Network::default());
    pair.exchange([&pattern(300_000), b""]);
}

#[test]
fn room_that_a_larger_buffer_makes_is_told() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    while pair.ends[1].as_ref().is_none_or(|end| !end.is_open()) {
        assert!(pair.step());
    }
    pair.end(1).set_buffers(1 << 20, 0);
    pair.end(0).write(b"there is no room for this").unwrap();
    for _ in 0..20 {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).peer_window_bytes, 0);
    pair.end(1).set_buffers(1 << 20, 1 << 20);
    let told_us = pair.now_us + 2 * pair.network.delay_us;
    while pair.end(0).peer_window_bytes == 0 {
        assert!(pair.step());
    }
    assert!(pair.now_us <= told_us);
}

#[test]
fn a_window_of_zero_is_probed_and_given_up_in_the_end() {
    let small = Config { receive_bytes: 0, ..Config::default() };
    let mut pair = Pair::new(Config::default(), small, Network::default());
    pair.end(0).write(b"there is no room for this").unwrap();
    let mut packets = 0;
    while pair.end(0).error().is_none() && pair.step() {
        packets = pair.sent_packets[0];
        assert!(pair.now_us < 100_000_000);
    }
    assert_eq!(pair.end(0).error(), Some(UtpError::Stalled));
    assert!(packets < 60, "{packets} packets");
}

#[test]
fn nobody_there_is_said_after_a_few_tries() {
    let mut alone = Connection::connect(Config::default(), 7, 1, 0);
    let mut now_us = 0;
    let mut packets = 0;
    while !alone.is_over() {
        while alone.transmit(now_us, &mut Vec::new()).is_some() {
            packets += 1;
        }
        if let Some(at_us) = alone.deadline() {
            assert!(at_us >= now_us);
            now_us = at_us;
            alone.expire(now_us);
        }
    }
    assert_eq!((alone.error(), packets), (Some(UtpError::Unanswered), 4));
}

#[test]
fn packets_grow_to_what_the_path_carries() {
    for (mtu, most) in [(9000, 1452), (1400, 1352), (1280, 1232), (576, 1212)] {
        let network = Network { mtu, ..Network::default() };
        let mut pair = Pair::new(Config::default(), Config::default(), network);
        pair.end(0).write(&pattern(1_000_000)).unwrap();
        pair.end(0).finish();
        let mut largest = 0;
        while pair.ends[1].as_ref().is_none_or(|end| !end.is_readable()) || pair.received[1].len() < 1_000_000
        {
            assert!(pair.step());
            largest = largest.max(pair.end(0).steering().segment_bytes);
        }
        assert!(largest <= most && largest + 16 > most.min(mtu - 48).max(1212), "{largest} at {mtu}");
    }
}

#[test]
fn a_path_that_drops_long_packets_and_says_nothing_costs_probes_alone() {
    for hole in [548, 600, 1000, 1200, 1231, 1232, 1300, 1471] {
        let network = Network { hole, ..Network::default() };
        let mut pair = Pair::new(Config::default(), Config::default(), network);
        pair.exchange([&pattern(2_000_000), &pattern(2_000_000)]);
        let steering = pair.end(0).steering();
        let packet_bytes = steering.segment_bytes + HEADER_BYTES;
        assert!(packet_bytes <= hole && packet_bytes + 16 > hole, "{packet_bytes} of {hole}");
        assert!(
            steering.resent_packets <= 24,
            "{} packets were sent again at {hole}",
            steering.resent_packets
        );
        assert!(pair.now_us < 10_000_000 + LINGER_US, "{} us at {hole}", pair.now_us);
    }
}

/// Writes until `at` bytes have arrived, and lets the path shrink to `hole` then. Seconds of the longest pause.
fn shrinks(pair: &mut Pair, end: usize, at: usize, hole: usize) -> u64 {
    let all = pattern(3_000_000);
    let (mut written, mut count, mut heard_us, mut pause_us) = (0, 0, 0, 0);
    while pair.received[1 - end].len() < all.len()
        && pair.ends.iter().flatten().all(|end| end.error().is_none())
    {
        if pair.received[1 - end].len() >= at {
            pair.network.hole = hole;
        }
        if pair.end(end).is_open() {
            written += pair.end(end).write(&all[written..]).unwrap();
        }
        assert!(pair.step());
        if pair.received[1 - end].len() > count {
            count = pair.received[1 - end].len();
            pause_us = pause_us.max(pair.now_us - heard_us);
            heard_us = pair.now_us;
        }
    }
    assert!(pair.received[1 - end] == all[..pair.received[1 - end].len()], "bytes differ");
    pause_us / 1_000_000
}

fn open_pair(network: Network) -> Pair {
    let mut pair = Pair::new(Config::default(), Config::default(), network);
    while pair.ends[1].as_ref().is_none_or(|end| !end.is_open()) {
        assert!(pair.step());
    }
    pair
}

#[test]
fn a_path_that_shrinks_is_found_out_and_the_transfer_goes_on() {
    for hole in [548, 600, 1200, 1400, 1471] {
        for end in 0..2 {
            let mut pair = open_pair(Network { rate: 50_000_000, buffer_us: 50_000, ..Network::default() });
            let pause_s = shrinks(&mut pair, end, 1_000_000, hole);
            assert_eq!(pair.received[1 - end].len(), 3_000_000, "{hole}, end {end}");
            assert!((30..40).contains(&pause_s), "{pause_s} s at {hole}");
            let packet_bytes = pair.end(end).steering().segment_bytes + HEADER_BYTES;
            assert!(packet_bytes <= hole && packet_bytes + 16 > hole, "{packet_bytes} of {hole}");
        }
    }
}

#[test]
fn an_outage_is_no_path_that_shrinks() {
    for seconds in [2, 5, 10, 40] {
        let mut pair = open_pair(Network { rate: 50_000_000, buffer_us: 50_000, ..Network::default() });
        let all = pattern(3_000_000);
        let mut written = 0;
        let mut ends_us = None;
        while pair.received[1].len() < all.len() {
            written += pair.end(0).write(&all[written..]).unwrap();
            if pair.received[1].len() >= 1_000_000 {
                let end_us = *ends_us.get_or_insert(pair.now_us + seconds * 1_000_000);
                pair.network.hole = if pair.now_us < end_us { 0 } else { 9000 };
            }
            assert!(pair.step());
        }
        assert_eq!(pair.end(0).steering().segment_bytes, 1452, "after {seconds} s");
        assert!(pair.received[1] == all);
    }
}

/// The short end of the stream arrives: the numbers of the long packets before it cannot hold fewer bytes.
#[test]
fn packets_before_one_that_the_peer_has_are_not_cut_again() {
    let mut pair = open_pair(Network::default());
    let (first, last) = (pattern(1_000_000), pattern(3 * 1452 + 10));
    pair.end(0).write(&first).unwrap();
    while !pair.end(0).is_flushed() {
        assert!(pair.step());
    }
    pair.network.hole = 1200;
    pair.end(0).write(&last).unwrap();
    pair.end(0).finish();
    while pair.end(0).error().is_none() {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).error(), Some(UtpError::Stalled));
    assert!(pair.received[1] == first);
}

/// Losses before leave packets behind a gap: each byte arrives in its place, or the connection ends.
#[test]
fn a_path_that_shrinks_and_loses_never_changes_bytes() {
    let mut ended = 0;
    for seed in 0..20 {
        let network = Network {
            rate: 50_000_000,
            buffer_us: 50_000,
            lose: 20,
            delay: 30,
            double: 30,
            ..Network::default()
        };
        let mut pair = open_pair(network);
        pair.random = seed;
        shrinks(&mut pair, 0, 100_000, 1200);
        let error = pair.end(0).error();
        assert!(error.is_none() || error == Some(UtpError::Stalled), "{error:?}");
        ended += u32::from(error.is_some());
    }
    assert!(ended < 20, "some go on");
}

#[test]
fn a_clock_that_jumps_disturbs_neither_bytes_nor_speed() {
    let mut pair = Pair::new(
        Config::default(),
        Config::default(),
        Network { rate: 10_000_000, buffer_us: 200_000, ..Network::default() },
    );
    pair.end(0).write(&pattern(1_000_000)).unwrap();
    pair.end(0).finish();
    let mut jumped = 0;
    while pair.received[1].len() < 1_000_000 {
        assert!(pair.step());
        if pair.received[1].len() > (jumped + 1) * 200_000 && jumped < 4 {
            jumped += 1;
            pair.jump_us[jumped % 2] =
                pair.jump_us[jumped % 2].wrapping_add([7_000_000, 3_600_000_000][(jumped - 1) / 2]);
        }
    }
    assert_eq!(jumped, 4);
    assert!(pair.now_us < 20_000_000, "{} us", pair.now_us);
}

#[test]
fn the_law_keeps_the_queue_at_its_target() {
    let config =
        Config { law: "ledbat:target=25ms".parse().unwrap(), send_bytes: 1 << 22, ..Config::default() };
    let network = Network { rate: 10_000_000, buffer_us: 400_000, ..Network::default() };
    let mut pair = Pair::new(config.clone(), config, network);
    let bytes = pattern(4_000_000);
    pair.end(0).write(&bytes).unwrap();
    let mut delays = Vec::new();
    let mut before = 0;
    while pair.now_us < 30_000_000 && pair.received[1].len() < 3_900_000 {
        let written = pair.end(0).writable_bytes();
        if written > 100_000 {
            pair.end(0).write(&bytes[..written]).unwrap();
        }
        assert!(pair.step());
        if pair.now_us < 2_000_000 {
            before = pair.received[1].len();
        } else {
            delays.push(pair.end(0).steering().queuing_delay_us);
        }
    }
    delays.sort_unstable();
    let median_us = delays[delays.len() / 2];
    assert!((15_000..35_000).contains(&median_us), "{median_us} us");
    let rate = (pair.received[1].len() - before) as u64 * 8_000_000 / (pair.now_us - 2_000_000);
    assert!(rate > 9_300_000, "{rate} bit/s");
}

#[test]
fn a_reset_is_believed_only_with_a_number_that_was_sent() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    pair.end(0).write(b"hello").unwrap();
    while pair.received[1].len() < 5 {
        assert!(pair.step());
    }
    let forged = |ack| Header {
        kind: Kind::Reset,
        connection_id: 7,
        timestamp_us: 0,
        timestamp_difference_us: 0,
        window_bytes: 0,
        seq: 0,
        ack,
    };
    let now_us = pair.now_us;
    let next = pair.end(0).outgoing.next() as u16;
    for ack in [next.wrapping_add(1), next.wrapping_sub(5000), next.wrapping_add(30_000)] {
        pair.end(0).receive(now_us, &Packet { header: forged(ack), sack: None, payload: &[] });
        assert_eq!(pair.end(0).error(), None);
    }
    pair.end(0).receive(now_us, &Packet { header: forged(next.wrapping_sub(1)), sack: None, payload: &[] });
    assert_eq!(pair.end(0).error(), Some(UtpError::Reset));
    assert_eq!(pair.end(0).write(b"x"), Err(UtpError::Reset));
}

#[test]
fn who_guesses_one_of_the_two_numbers_changes_nothing() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    pair.end(0).write(b"hello").unwrap();
    while pair.received[1].len() < 5 {
        assert!(pair.step());
    }
    let now_us = pair.now_us + 5_000_000;
    let end = pair.end(1);
    let (next, acknowledged) = (end.outgoing.next() as u16, end.incoming.as_ref().unwrap().acknowledged());
    let forged = |seq, ack| Header {
        kind: Kind::Data,
        connection_id: 8,
        timestamp_us: 1,
        timestamp_difference_us: 1,
        window_bytes: 1 << 30,
        seq,
        ack,
    };
    let seq = acknowledged.wrapping_add(1) as u16;
    let difference_us = end.peer_delay.last_us();
    for header in
        [forged(seq, next.wrapping_sub(2_000)), forged(seq.wrapping_add(5_000), next.wrapping_sub(1))]
    {
        end.receive(now_us, &Packet { header, sack: None, payload: b"forged" });
        assert_eq!(end.read(&mut [0; 10]), Ok(None));
        assert_eq!(end.peer_delay.last_us(), difference_us);
    }
    end.receive(now_us, &Packet { header: forged(seq, next.wrapping_sub(1)), sack: None, payload: b"both" });
    assert_eq!(end.read(&mut [0; 10]), Ok(Some(4)));
}

#[test]
fn giving_up_tells_the_peer() {
    let mut pair = Pair::new(Config::default(), Config::default(), Network::default());
    pair.end(0).write(b"hello").unwrap();
    while pair.received[1].len() < 5 {
        assert!(pair.step());
    }
    pair.end(1).reset();
    while pair.end(0).error().is_none() {
        assert!(pair.step());
    }
    assert_eq!(pair.end(0).error(), Some(UtpError::Reset));
    assert_eq!(pair.end(1).error(), Some(UtpError::Aborted));
    assert!(pair.end(0).is_over() && pair.end(1).is_over());
}

#[test]
fn the_accepting_side_sends_no_more_than_came_before_it_is_answered() {
    let syn = Header {
        kind: Kind::Syn,
        connection_id: 9,
        timestamp_us: 0,
        timestamp_difference_us: 0,
        window_bytes: 1 << 20,
        seq: 1,
        ack: 0,
    };
    let mut server = Connection::accept(Config::default(), &syn, 77, 0);
    server.write(&[0; 50_000]).unwrap();
    let mut bytes = 0;
    for now_us in (0..20_000_000).step_by(100_000) {
        server.expire(now_us);
        let mut out = Vec::new();
        while let Some(transmit) = server.transmit(now_us, &mut out) {
            bytes += transmit.bytes;
        }
    }
    assert_eq!(bytes, HEADER_BYTES);
    assert!(server.is_over());
}

/// Also where a law reduces its window to one packet, whose acknowledgement waits for the peer's timer.
#[test]
fn every_law_carries_the_bytes_and_none_stands_still() {
    for law in leeway_control::laws() {
        for lose in [0, 200] {
            let config = Config { law: law.name.parse().unwrap(), ..Config::default() };
            let network = Network { rate: 10_000_000, buffer_us: 50_000, lose, ..Network::default() };
            let mut pair = Pair::new(config.clone(), config, network);
            pair.exchange([&pattern(500_000), &pattern(1_000)]);
            let seconds = pair.now_us / 1_000_000;
            assert!(seconds < 60, "{} takes {seconds} s where 1 in {lose} is lost", law.name);
        }
    }
}
