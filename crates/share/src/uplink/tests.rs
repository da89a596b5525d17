//! Users who always have something to send, on a line in virtual time.

use super::*;
use crate::line::LAW;

/// The paths of the server: of full segments, and of probes.
const PATH: u64 = 1;
const PROBE_PATH: u64 = 2;
/// Time between two probes.
const GAP_US: u64 = 20_000;
const STEP_US: u64 = 500;
const S: u64 = 1_000_000;
const PACKET: u64 = 1500;
const PROBE: u64 = 44;

/// A line whose queue has no end, and those who send.
struct Bed {
    uplink: Uplink,
    now_us: u64,
    bytes_per_s: u64,
    rtt_us: u64,
    free_at_us: u64,
    senders: Vec<Sender>,
    /// Acknowledgements on their way: time of arrival, sender, the sender's bytes in all, and the
    /// server's clock in microseconds.
    acks: VecDeque<(u64, usize, u64, u32)>,
    /// Echoes on their way: time of arrival, and time at which the probe was sent.
    echoes: VecDeque<(u64, u64)>,
    probed_us: u64,
    /// Nobody echoes.
    deaf: bool,
    /// Packets are seen, with the clock of a server that counts milliseconds.
    observed: bool,
    /// The queue of the downlink now, in microseconds.
    back_us: u64,
    /// Rate of the foreground, in bytes per second.
    foreground: u64,
    /// Time that a packet of the foreground would have waited, at each step.
    queues_us: Vec<u64>,
}

struct Sender {
    user: u64,
    flow: FlowId,
    tcp: bool,
    sent: u64,
    acked: u64,
    /// Bytes of this sender, also of closed connections.
    total: u64,
}

impl Bed {
    fn new(bytes_per_s: u64, rtt_us: u64) -> Bed {
        Bed {
            uplink: Uplink::new(&LAW.parse().unwrap(), &Policy::default().for_timers()),
            now_us: 0,
            bytes_per_s,
            rtt_us,
            free_at_us: 0,
            senders: vec![],
            acks: VecDeque::new(),
            echoes: VecDeque::new(),
            probed_us: 0,
            deaf: false,
            observed: false,
            back_us: 0,
            foreground: 0,
            queues_us: vec![],
        }
    }

    fn add(&mut self, user: u64, tcp: bool) {
        let flow = open(&mut self.uplink, user, tcp);
        self.senders.push(Sender { user, flow, tcp, sent: 0, acked: 0, total: 0 });
    }

    /// Sends `bytes` now. Returns when the line has carried them.
    fn carry(&mut self, bytes: u64) -> u64 {
        self.free_at_us = self.free_at_us.max(self.now_us) + bytes * S / self.bytes_per_s;
        self.free_at_us
    }

    fn step(&mut self) {
        self.now_us += STEP_US;
        let now_us = self.now_us;
        let sent = self.foreground * STEP_US / S;
        self.carry(sent);
        self.queues_us.push(self.free_at_us.saturating_sub(now_us));
        while let Some((_, sent_us)) = self.echoes.pop_front_if(|(at_us, _)| *at_us <= now_us) {
            self.uplink.echoed(now_us, PROBE_PATH, sent_us);
        }
        while let Some((at_us, at, bytes, us)) = self.acks.pop_front_if(|(at_us, ..)| *at_us <= now_us) {
            let sender = &mut self.senders[at];
            sender.acked = bytes;
            if self.observed {
                let clock = Some(ClockReading { us, is_known: true });
                self.uplink.acknowledged(now_us, at_us, sender.flow, bytes, clock);
            }
        }
        if now_us.is_multiple_of(2000) {
            let waiting: Vec<FlowId> = self.uplink.unacknowledged().collect();
            for sender in self.senders.iter().filter(|sender| waiting.contains(&sender.flow)) {
                let told = Acknowledged { bytes: sender.acked, retransmissions: 0 };
                self.uplink.told(now_us, sender.flow, told);
            }
            self.uplink.expire(now_us);
        }
        let _ = self.uplink.grant(now_us);
        for at in 0..self.senders.len() {
            let (flow, tcp) = (self.senders[at].flow, self.senders[at].tcp);
            let wanted = if tcp { 65_536 } else { PACKET };
            while let Some(granted) = self.uplink.ready(flow, wanted) {
                let bytes = granted.min(wanted);
                self.uplink.sent(now_us, flow, bytes);
                let there_us = self.carry(bytes) + self.rtt_us / 2;
                let heard_us = there_us + self.rtt_us / 2 + self.back_us;
                let heard_us = self.acks.back().map_or(0, |&(at_us, ..)| at_us).max(heard_us);
                let sender = &mut self.senders[at];
                (sender.sent, sender.total) = (sender.sent + bytes, sender.total + bytes);
                self.acks.push_back((heard_us, at, sender.sent, (there_us / 1000 * 1000) as u32));
            }
            self.uplink.ask(flow, wanted);
        }
        let _ = self.uplink.grant(now_us);
        if !self.deaf && now_us >= self.probed_us + GAP_US && self.uplink.is_sending() {
            let at_us = self.carry(PROBE) + self.rtt_us + self.back_us;
            self.echoes.push_back((at_us, now_us));
            self.probed_us = now_us;
        }
    }

    /// Runs for `span_us`. Returns the rate of users in bytes per second, and the 99th percentile
    /// of the time that a packet of the foreground waits, in microseconds.
    fn run(&mut self, span_us: u64) -> (u64, u64) {
        self.queues_us.clear();
        let before = self.total();
        let end_us = self.now_us + span_us;
        while self.now_us < end_us {
            self.step();
        }
        self.queues_us.sort_unstable();
        let p99_us = self.queues_us[self.queues_us.len() * 99 / 100];
        ((self.total() - before) * S / span_us, p99_us)
    }

    fn total(&self) -> u64 {
        self.senders.iter().map(|sender| sender.total).sum()
    }

    fn of(&self, user: u64) -> u64 {
        self.senders.iter().filter(|sender| sender.user == user).map(|sender| sender.total).sum()
    }
}

fn open(uplink: &mut Uplink, user: u64, tcp: bool) -> FlowId {
    if tcp {
        return uplink.open(UserId(user), Some(PATH)).unwrap();
    }
    let flow = uplink.datagrams(UserId(user)).unwrap();
    uplink.heads_for(flow, Some(PATH));
    flow
}

/// 2 Mbit/s.
const SLOW: u64 = 250_000;

#[test]
fn what_is_sent_keeps_the_queue_short_and_uses_the_line() {
    for (tcp, rtt_us) in [(true, 1_000), (true, 30_000), (false, 1_000), (false, 30_000)] {
        let mut line = Bed::new(SLOW, rtt_us);
        (0..4).for_each(|user| line.add(user, tcp));
        line.run(5 * S);
        let (rate, p99_us) = line.run(20 * S);
        assert!(p99_us <= 3 * PACKET * S / SLOW, "tcp {tcp}, {rtt_us} us: {p99_us} us");
        assert!(rate >= SLOW / 2, "tcp {tcp}, {rtt_us} us: {rate} B/s");
    }
}

#[test]
fn a_queue_of_the_downlink_is_no_queue_of_the_uplink() {
    for rtt_us in [1_000, 30_000] {
        let mut line = Bed { observed: true, ..Bed::new(SLOW, rtt_us) };
        for user in 0..4 {
            line.add(user, true);
        }
        line.run(20 * S);
        line.back_us = 100_000;
        line.run(10 * S);
        let (used, p99_us) = line.run(20 * S);
        assert!(used > SLOW * 95 / 100, "{rtt_us} us: {used} B/s beside a download");
        assert!(p99_us < 17_000, "{rtt_us} us: {p99_us} us beside a download");
        line.back_us = 0;
        line.run(3 * S);
        let (used, p99_us) = line.run(20 * S);
        assert!(used > SLOW * 95 / 100 && p99_us < 17_000, "{rtt_us} us: {used} B/s, {p99_us} us after it");
    }
}

#[test]
fn a_fast_line_is_used_too() {
    for tcp in [true, false] {
        let mut line = Bed::new(2_500_000, 20_000);
        (0..4).for_each(|user| line.add(user, tcp));
        line.run(20 * S);
        let (rate, p99_us) = line.run(10 * S);
        assert!(p99_us <= 18_000 && rate >= 1_250_000, "tcp {tcp}: {rate} B/s, {p99_us} us");
    }
}

#[test]
fn without_echoes_the_acknowledgements_of_tcp_limit() {
    let mut line = Bed::new(SLOW, 20_000);
    line.deaf = true;
    (0..2).for_each(|user| line.add(user, true));
    line.run(10 * S);
    let (rate, p99_us) = line.run(20 * S);
    assert!(p99_us <= 25_000 && rate >= SLOW / 5, "{rate} B/s, {p99_us} us");
}

#[test]
fn datagrams_without_echoes_are_few() {
    let mut line = Bed::new(SLOW, 20_000);
    line.deaf = true;
    line.add(1, false);
    let (rate, _) = line.run(30 * S);
    assert!((1_000..8_000).contains(&rate), "{rate} B/s");
}

#[test]
fn a_user_with_64_connections_sends_what_a_user_with_one_sends() {
    let mut line = Bed::new(SLOW, 20_000);
    (0..64).for_each(|_| line.add(1, true));
    line.add(2, true);
    line.add(3, false);
    line.run(60 * S);
    let [many, one, datagrams] = [1, 2, 3].map(|user| line.of(user));
    for other in [one, datagrams] {
        // The window is four segments, and a connection may have two of them before it is acknowledged.
        assert!(many.abs_diff(other) < many / 5, "{many}, {one}, {datagrams}");
    }
}

#[test]
fn a_user_who_closes_connections_does_not_get_more() {
    let mut line = Bed::new(SLOW, 20_000);
    (0..4).for_each(|user| line.add(user, true));
    line.run(5 * S);
    let mut worst_us = 0;
    for n in 0..400 {
        let (_, p99_us) = line.run(50_000);
        worst_us = worst_us.max(p99_us);
        let sender = &mut line.senders[n % 4];
        line.uplink.close(sender.flow);
        sender.flow = open(&mut line.uplink, sender.user, true);
        (sender.sent, sender.acked) = (0, 0);
        line.acks.retain(|&(_, at, ..)| at != n % 4);
    }
    assert!(worst_us <= 40_000, "{worst_us} us");
}

#[test]
fn beside_a_foreground_that_fills_the_line_little_is_sent() {
    for tcp in [true, false] {
        let mut line = Bed::new(SLOW, 20_000);
        line.add(1, tcp);
        line.run(10 * S);
        line.foreground = SLOW;
        // A queue of 100 ms stands there, and the foreground keeps it.
        line.free_at_us = line.now_us + 100_000;
        line.run(5 * S);
        let (rate, _) = line.run(5 * S);
        assert!(rate < SLOW / 20, "tcp {tcp}: {rate} B/s");
    }
}

/// The foreground sends as much as the line carries, a packet each 6 ms, without a queue of its own.
#[test]
fn users_yield_to_the_foreground() {
    for tcp in [true, false] {
        let mut line = Bed::new(SLOW, 20_000);
        line.add(1, tcp);
        line.run(5 * S);
        line.foreground = SLOW;
        let sends = |line: &mut Bed, packets: usize| {
            let before = line.total();
            for _ in 0..packets {
                line.uplink.foreground(line.now_us, 1, Observation::Bytes(PACKET));
                line.run(6_000);
            }
            line.total() - before
        };
        sends(&mut line, 50);
        let sent = sends(&mut line, 500);
        assert!(sent < 3 * SLOW / 10, "tcp {tcp}: {sent} of {} bytes", 3 * SLOW);
        assert!(line.uplink.state(line.now_us).yielded_us > 2_000_000);
        line.foreground = 0;
        line.run(5 * S);
        let (rate, _) = line.run(5 * S);
        assert!(rate > SLOW / 2, "tcp {tcp}: {rate} B/s");
    }
}

#[test]
fn a_grant_that_is_not_used_is_taken_back() {
    let mut line = Bed::new(SLOW, 20_000);
    line.add(1, true);
    line.run(2 * S);
    let idle = open(&mut line.uplink, 2, true);
    let held = |line: &Bed| line.uplink.ready(idle, 1).is_some();
    line.uplink.ask(idle, 65_536);
    while !held(&line) {
        line.step();
    }
    line.run(2 * S);
    assert!(!held(&line));
    line.uplink.close(idle);
    let flow = line.senders[0].flow;
    line.senders.clear();
    line.uplink.close(flow);
    for _ in 0..1000 {
        line.now_us += 2000;
        line.uplink.expire(line.now_us);
        let _ = line.uplink.grant(line.now_us);
    }
    assert_eq!(line.uplink.state(line.now_us).granted_bytes, 0);
    assert!(!line.uplink.is_busy());
}
