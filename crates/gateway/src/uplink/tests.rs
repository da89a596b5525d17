//! Users who always have something to send, on a line in virtual time.

use super::*;
use leeway_net::What;

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(9, 9, 9, 9));
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
    /// What has arrived is known then: to whom, how many bytes of his in all, and what the server's clock showed.
    acks: VecDeque<(u64, usize, u64, u32)>,
    echoes: VecDeque<(u64, u16)>,
    /// Nobody echoes.
    deaf: bool,
    /// Packets are seen, with the time of a server that counts milliseconds.
    observed: bool,
    /// The queue of the downlink now, in microseconds.
    back_us: u64,
    /// What the foreground sends, in bytes a second.
    foreground: u64,
    /// How long a packet of the foreground would have waited, from step to step.
    queues_us: Vec<u64>,
}

struct Sender {
    user: u64,
    flow: FlowId,
    tcp: bool,
    sent: u64,
    acked: u64,
    /// Of closed connections as well.
    total: u64,
}

impl Bed {
    fn new(bytes_per_s: u64, rtt_us: u64) -> Bed {
        Bed {
            uplink: Uplink::new(&LAW.parse().unwrap(), vec![]),
            now_us: 0,
            bytes_per_s,
            rtt_us,
            free_at_us: 0,
            senders: vec![],
            acks: VecDeque::new(),
            echoes: VecDeque::new(),
            deaf: false,
            observed: false,
            back_us: 0,
            foreground: 0,
            queues_us: vec![],
        }
    }

    fn add(&mut self, user: u64, tcp: bool) {
        let flow = self.uplink.open(user, Some(SERVER), tcp);
        self.uplink.connected(flow, ends(self.senders.len()));
        self.senders.push(Sender { user, flow, tcp, sent: 0, acked: 0, total: 0 });
    }

    /// When so many bytes that are sent now are through the line.
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
        while let Some((_, sequence)) = self.echoes.pop_front_if(|(at_us, _)| *at_us <= now_us) {
            self.uplink.echoed(now_us, sequence);
        }
        while let Some((at_us, at, bytes, ticks)) = self.acks.pop_front_if(|(at_us, ..)| *at_us <= now_us) {
            self.senders[at].acked = bytes;
            if self.observed {
                let seen = Seen::Acknowledged { position: bytes, ticks: Some(ticks) };
                self.uplink.observed(now_us, at_us, &ends(at), seen);
            }
        }
        if now_us.is_multiple_of(2000) {
            let waiting: Vec<FlowId> = self.uplink.unacknowledged().collect();
            for sender in self.senders.iter().filter(|sender| waiting.contains(&sender.flow)) {
                let told = Acknowledged { bytes: sender.acked, retransmissions: 0 };
                self.uplink.acked(now_us, sender.flow, told);
            }
            self.uplink.expire(now_us);
        }
        drop(self.uplink.grant(now_us));
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
                self.acks.push_back((heard_us, at, sender.sent, (there_us / 1000) as u32));
            }
            self.uplink.ask(flow, wanted, Waker::noop());
        }
        drop(self.uplink.grant(now_us));
        if let Some(Request { sequence, .. }) = self.uplink.probe(now_us) {
            let at_us = self.carry(PROBE) + self.rtt_us + self.back_us;
            if !self.deaf {
                self.echoes.push_back((at_us, sequence));
            }
        }
    }

    /// Bytes a second that leave for users in `span_us`, and the 99th percentile of the time that a packet of the
    /// foreground waits, in microseconds.
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

fn ends(number: usize) -> Ends {
    Ends { here: ([10, 0, 0, 1], 40_000 + number as u16).into(), there: (SERVER, 443).into() }
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
fn a_queue_of_the_downlink_is_none_of_the_uplink() {
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
fn without_echoes_acknowledgements_of_tcp_steer() {
    let mut line = Bed::new(SLOW, 20_000);
    line.deaf = true;
    (0..2).for_each(|user| line.add(user, true));
    line.run(10 * S);
    let (rate, p99_us) = line.run(20 * S);
    assert!(p99_us <= 25_000 && rate >= SLOW / 5, "{rate} B/s, {p99_us} us");
}

#[test]
fn datagrams_of_which_nothing_is_heard_are_few() {
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
        // The window is four segments, and a connection has two of them at most before it is acknowledged.
        assert!(many.abs_diff(other) < many / 5, "{many}, {one}, {datagrams}");
    }
}

#[test]
fn who_closes_connections_does_not_get_more() {
    let mut line = Bed::new(SLOW, 20_000);
    (0..4).for_each(|user| line.add(user, true));
    line.run(5 * S);
    let mut worst_us = 0;
    for n in 0..400 {
        let (_, p99_us) = line.run(50_000);
        worst_us = worst_us.max(p99_us);
        let sender = &mut line.senders[n % 4];
        line.uplink.close(sender.flow);
        sender.flow = line.uplink.open(sender.user, Some(SERVER), true);
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

/// A home that sends as much as the line carries, a packet each 6 ms, with no queue of its own.
#[test]
fn what_waits_yields_to_the_foreground() {
    for tcp in [true, false] {
        let mut line = Bed::new(SLOW, 20_000);
        line.add(1, tcp);
        line.run(5 * S);
        line.foreground = SLOW;
        let observation = Observation { connection: 1, what: What::Sends(PACKET) };
        let sends = |line: &mut Bed, packets: usize| {
            let before = line.total();
            for _ in 0..packets {
                line.uplink.home_observed(line.now_us, observation);
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
fn who_does_not_use_what_he_was_granted_does_not_keep_it() {
    let mut line = Bed::new(SLOW, 20_000);
    line.add(1, true);
    line.run(2 * S);
    let idle = line.uplink.open(2, Some(SERVER), true);
    let held = |line: &Bed| line.uplink.ready(idle, 1).is_some();
    line.uplink.ask(idle, 65_536, Waker::noop());
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
        drop(line.uplink.grant(line.now_us));
    }
    assert_eq!(line.uplink.state(line.now_us).outstanding_bytes, 0);
    assert!(!line.uplink.is_busy());
}
