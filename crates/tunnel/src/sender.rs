//! Decides when a QUIC connection may send, by a line of the sharing ([`leeway_share`]).
//!
//! quinn reports acknowledgements and losses. The peer reports one-way delays
//! ([`owd`](crate::owd)) and the foreground at its end of the line
//! ([`foreground`](crate::foreground)). The line grants each packet.
//!
//! # Scope and limitations
//! - quinn's own window is unlimited, because packets are counted and paced before quinn gets
//!   them. Other packets of quinn (acknowledgements, reports, keep-alives) count as in flight, and
//!   are never held back.
//! - quinn reports the bytes in flight with acknowledgements only. Until the next one, packets
//!   that carry only acknowledgements count as well.
//! - quinn does not report how many bytes were marked. A mark counts as the loss of one segment
//!   (RFC 3168, 5).

use crate::owd::{Clock, Report};
use leeway_control::LawSpec;
use leeway_net::Observation;
use leeway_share::{FlowId, ForegroundReport, Line, Next, OneWay, Policy, Reporter, Sample, State, UserId};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The default law of both ends.
pub const LAW: &str = leeway_share::LAW;

/// quinn's window, in bytes: quinn never holds a packet back. Above 2^32 quinn does not pace
/// either.
const NO_WINDOW: u64 = 1 << 40;
/// Most bytes that may wait inside quinn for the socket.
const AHEAD_BYTES: u64 = 256 * 1024;
/// Reports about packets that were sent earlier than this are ignored, in microseconds.
const LONGEST_US: u32 = 60_000_000;

/// The sending side of one connection.
#[derive(Debug)]
pub(crate) struct Sender {
    clock: Clock,
    inner: Mutex<Inner>,
    /// Notified after every event that may allow a packet.
    room: Notify,
}

/// The state of a sender, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Steering {
    /// The law with its parameters.
    pub law: String,
    /// The state of the line.
    pub line: State,
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { window_bytes, granted_bytes, expected_bytes, srtt_us, queuing_us, .. } = self.line;
        write!(
            f,
            "{}: window {window_bytes} B, under way {granted_bytes} B, home expects {expected_bytes} B, round trip \
             {srtt_us} us, queuing {queuing_us} us",
            self.law
        )
    }
}

#[derive(Debug)]
struct Inner {
    law: LawSpec,
    line: Line,
    /// The only flow, for everything in the tunnel. The queue in front chooses the packet.
    flow: FlowId,
    /// Bytes sent, and neither acknowledged nor lost.
    in_flight: u64,
    /// Time of the last acknowledgement, or of the first packet sent after nothing was in flight.
    heard_us: u64,
    /// Losses of packets sent before this time belong to a loss event that already counted.
    recovery_us: u64,
    /// quinn's smoothed round-trip time, in microseconds; 0 before the first sample.
    srtt_us: u32,
    min_rtt_us: u32,
    back: OneWay,
    /// The foreground at this end.
    home: Reporter,
}

/// The decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The packet may go.
    Now,
    /// The packet has to wait until this time, in microseconds of the clock, or until an event.
    At(u64),
    /// The packet has to wait for an event.
    Blocked,
}

impl Sender {
    /// The sender of a new connection under `law`.
    pub fn new(law: LawSpec) -> Arc<Self> {
        let inner = Mutex::new(Inner::new(law));
        Arc::new(Sender { clock: Clock::start(), inner, room: Notify::new() })
    }

    /// The clock of this end's stamps.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Uses another law, which the server demands.
    pub fn demand(&self, law: LawSpec) {
        let mut inner = self.inner();
        inner.law = law;
        inner.restart();
    }

    /// Whether a packet of `bytes` may go. `waiting` bytes are in quinn and not yet in the socket.
    pub fn leave(&self, bytes: u64, waiting: u64) -> Leave {
        self.inner().leave(self.clock.micros(), bytes, waiting)
    }

    /// Waits for an event that may allow a packet.
    pub async fn room(&self) {
        self.room.notified().await;
    }

    /// Takes the peer's report of a one-way delay.
    pub fn report(&self, report: Report) {
        self.inner().report(self.clock.micros(), report);
        self.room.notify_one();
    }

    /// Takes the peer's report about the foreground at its end.
    pub fn foreground_reported(&self, report: ForegroundReport) {
        self.inner().line.foreground_reported(self.clock.micros(), report);
        self.room.notify_one();
    }

    /// Takes observations of the foreground at this end.
    pub fn home_observed(&self, observations: &[Observation]) {
        let now_us = self.clock.micros();
        let mut inner = self.inner();
        let Inner { home, line, srtt_us, min_rtt_us, .. } = &mut *inner;
        for observation in observations {
            let down = crate::foreground::down(observation.what);
            home.observed(now_us, observation.connection, down, (*srtt_us).into(), (*min_rtt_us).into());
            if let Some(up) = crate::foreground::up(observation.what) {
                line.foreground(now_us, observation.connection, up);
            }
        }
        drop(inner);
        self.room.notify_one();
    }

    /// Packets came from the peer, so the peer has some that could wait for the foreground.
    pub fn packets_came(&self) {
        let now_us = self.clock.micros();
        if self.inner().home.background(now_us) {
            self.room.notify_one();
        }
    }

    /// The report for the peer about the foreground at this end, if one is due.
    pub fn home_report(&self) -> Option<ForegroundReport> {
        let now_us = self.clock.micros();
        let mut inner = self.inner();
        let srtt_us = inner.srtt_us.into();
        inner.home.report(now_us, srtt_us)
    }

    /// Time at which the next report may be due, in microseconds of the clock.
    pub fn home_report_us(&self) -> Option<u64> {
        let inner = self.inner();
        inner.home.due_us(inner.srtt_us.into())
    }

    /// The state of the law and the line.
    pub fn steering(&self) -> Steering {
        let now_us = self.clock.micros();
        let mut inner = self.inner();
        // quinn knows the round-trip time even if only keep-alives are sent.
        let line = State { srtt_us: inner.srtt_us.into(), ..inner.line.state(now_us) };
        Steering { law: inner.law.to_string(), line }
    }

    /// Total time for which packets waited while the foreground expected something.
    pub fn yielded(&self) -> Duration {
        Duration::from_micros(self.steering().line.yielded_us)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A time of quinn in microseconds of the clock.
    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.clock.epoch()).as_micros()).unwrap_or(u64::MAX)
    }
}

impl Inner {
    fn new(law: LawSpec) -> Inner {
        let mut line = Line::new(&law, &Policy::default().for_sending().for_timers());
        let flow = line.open(UserId(0)).expect("a new line has no flows");
        Inner {
            law,
            line,
            flow,
            in_flight: 0,
            heard_us: 0,
            recovery_us: 0,
            srtt_us: 0,
            min_rtt_us: 0,
            back: OneWay::default(),
            home: Reporter::new(&Policy::default()),
        }
    }

    /// Starts again for a new path or a new law. The state of the foreground stays.
    fn restart(&mut self) {
        let home = std::mem::replace(&mut self.home, Reporter::new(&Policy::default()));
        *self = Inner { home, ..Inner::new(self.law.clone()) };
    }

    fn leave(&mut self, now_us: u64, bytes: u64, waiting: u64) -> Leave {
        if waiting >= AHEAD_BYTES {
            return Leave::Blocked;
        }
        self.count(now_us, waiting);
        if self.line.ask_whole(self.flow, bytes).is_err() {
            return Leave::Blocked;
        }
        loop {
            let next = self.line.next(now_us);
            let expired = !self.line.take_expired().is_empty();
            return match next {
                Next::Grant { .. } => Leave::Now,
                _ if expired => continue,
                Next::Wait(at_us) => Leave::At(at_us),
                Next::Blocked => Leave::Blocked,
            };
        }
    }

    /// Charges the bytes that quinn has in flight to the line. A silent peer counts as having
    /// none, because quinn probes such a peer less and less often.
    fn count(&mut self, now_us: u64, waiting: u64) {
        if now_us > self.heard_us + self.line.hold_us(now_us) {
            self.in_flight = 0;
        }
        let (under_way, granted) = (self.in_flight + waiting, self.line.granted_to(self.flow));
        if under_way > granted {
            self.line.charge(now_us, self.flow, under_way - granted);
        } else {
            self.line.forgo(self.flow, granted - under_way);
        }
    }

    fn sent(&mut self, now_us: u64, bytes: u64) {
        if self.in_flight == 0 {
            self.heard_us = now_us;
        }
        self.in_flight += bytes;
    }

    fn acked(&mut self, now_us: u64, bytes: u64, in_flight: u64, (srtt_us, min_rtt_us): (u32, u32)) {
        (self.heard_us, self.srtt_us, self.min_rtt_us) = (now_us, srtt_us, min_rtt_us);
        self.line.arrived(now_us, self.flow, bytes, None);
        self.in_flight = in_flight;
    }

    fn lost(&mut self, now_us: u64, bytes: u64, sent_us: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        // One reaction in a round trip (RFC 9002, 7.3.1).
        if sent_us > self.recovery_us {
            self.recovery_us = now_us;
            self.line.lost(now_us, None, bytes.max(Policy::default().segment_bytes), sent_us);
        }
    }

    fn report(&mut self, now_us: u64, report: Report) {
        let seen_us = (now_us as u32).wrapping_sub(report.stamp_us);
        if self.srtt_us == 0 || seen_us > LONGEST_US {
            return;
        }
        // The newest packet arrived at this time, by the peer's clock.
        let arrived_us = report.stamp_us.wrapping_add(report.delay_us);
        let excess_us = self.back.excess_us(now_us, arrived_us, now_us as u32);
        let rtt_us = seen_us.wrapping_sub(excess_us);
        let sample = Sample { known_us: self.srtt_us, ..Sample::exact(0, rtt_us) };
        self.line.arrived(now_us, self.flow, 0, Some(sample));
    }
}

/// Makes quinn's congestion controllers, one for each path of a connection.
#[derive(Debug)]
pub(crate) struct Factory(pub Arc<Sender>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        self.0.inner().restart();
        Box::new(Ear { sender: Arc::clone(&self.0), acked: None })
    }
}

/// Forwards quinn's events of one path to the sender.
#[derive(Clone)]
struct Ear {
    sender: Arc<Sender>,
    /// Bytes of the present batch of acknowledgements, and quinn's round-trip times: smoothed and
    /// smallest, in microseconds.
    acked: Option<(u64, (u32, u32))>,
}

impl Controller for Ear {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        let now_us = self.sender.micros(now);
        self.sender.inner().sent(now_us, bytes);
    }

    fn on_ack(&mut self, _: Instant, _: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let before = self.acked.map_or(0, |(bytes, _)| bytes);
        self.acked = Some((before + bytes, (micros(rtt.get()), micros(rtt.min()))));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        let Some((bytes, rtt_us)) = self.acked.take() else { return };
        self.sender.inner().acked(self.sender.micros(now), bytes, in_flight, rtt_us);
        self.sender.room.notify_one();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _: bool, lost_bytes: u64) {
        let (now_us, sent_us) = (self.sender.micros(now), self.sender.micros(sent));
        self.sender.inner().lost(now_us, lost_bytes, sent_us);
        self.sender.room.notify_one();
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        NO_WINDOW
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.sender.inner().line.window_bytes();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        NO_WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const PACKET: u64 = 1400;
    /// One-way delay without a queue, in microseconds.
    const WAY_US: u64 = 20_000;

    /// A line that needs `packet_us` for each packet. Packets always wait to be sent.
    struct Bottleneck {
        inner: Inner,
        now_us: u64,
        packet_us: u64,
        /// Time at which each packet was sent, and at which it leaves the line.
        under_way: VecDeque<(u64, u64)>,
        arrived: u64,
        queuing_us: Vec<u64>,
        /// Difference of the other end's clock to this one, and its drift in parts per million.
        apart_us: u32,
        drift_ppm: i64,
        reported_us: u64,
    }

    impl Bottleneck {
        fn new(packet_us: u64) -> Bottleneck {
            Bottleneck {
                inner: Inner::new(LAW.parse().unwrap()),
                now_us: 1_000_000,
                packet_us,
                under_way: VecDeque::new(),
                arrived: 0,
                queuing_us: Vec::new(),
                apart_us: 0,
                drift_ppm: 0,
                reported_us: 0,
            }
        }

        /// Runs in steps of 0.5 ms.
        fn until(&mut self, end_us: u64) {
            while self.now_us < end_us {
                self.now_us += 500;
                self.hear();
                while self.inner.leave(self.now_us, PACKET, 0) == Leave::Now {
                    self.inner.sent(self.now_us, PACKET);
                    let free_us = self.under_way.back().map_or(0, |&(_, leaves_us)| leaves_us);
                    self.under_way.push_back((self.now_us, free_us.max(self.now_us) + self.packet_us));
                }
            }
        }

        fn hear(&mut self) {
            while let Some((sent_us, leaves_us)) =
                self.under_way.pop_front_if(|&mut (_, leaves_us)| leaves_us + 2 * WAY_US <= self.now_us)
            {
                let queuing_us = leaves_us - self.packet_us - sent_us;
                let rtt_us = (self.now_us - sent_us) as u32;
                let Inner { srtt_us, min_rtt_us, .. } = self.inner;
                let rtt_us = match srtt_us {
                    0 => (rtt_us, rtt_us),
                    _ => ((7 * srtt_us + rtt_us) / 8, rtt_us.min(min_rtt_us)),
                };
                self.inner.acked(self.now_us, PACKET, self.under_way.len() as u64 * PACKET, rtt_us);
                self.arrived += 1;
                self.queuing_us.push(queuing_us);
                if self.now_us >= self.reported_us + 5_000 {
                    self.reported_us = self.now_us;
                    let gained_us = (self.now_us as i64 * self.drift_ppm / 1_000_000) as u32;
                    let way_us = (leaves_us + WAY_US - sent_us) as u32;
                    let delay_us = way_us.wrapping_add(self.apart_us).wrapping_add(gained_us);
                    let stamp_us = sent_us as u32;
                    self.inner.report(self.now_us, Report { delay_us, stamp_us, packets: 1 });
                }
            }
        }

        /// Runs for a second. Returns the arrived part of the line's capacity, and the longest
        /// queue of those packets.
        fn second(&mut self) -> (f64, u64) {
            let (before, first) = (self.arrived, self.queuing_us.len());
            self.until(self.now_us + 1_000_000);
            let longest_us = self.queuing_us[first..].iter().copied().max().unwrap_or(0);
            ((self.arrived - before) as f64 * self.packet_us as f64 / 1e6, longest_us)
        }
    }

    #[test]
    fn a_line_is_filled_with_a_short_queue_whatever_the_clocks_say() {
        for (packet_us, apart_us) in [(6_000, 0), (6_000, u32::MAX - 40_000), (1_000, 7), (200, 1 << 31)] {
            let mut line = Bottleneck { apart_us, ..Bottleneck::new(packet_us) };
            line.until(15_000_000);
            let (used, longest_us) = line.second();
            assert!(used > 0.93, "{packet_us} us a packet: {used}");
            assert!(
                longest_us < 8 * packet_us.max(2_000),
                "{packet_us} us a packet: {longest_us} us of queue"
            );
        }
    }

    #[test]
    fn clocks_that_drift_apart_do_no_harm() {
        for drift_ppm in [-100, 100] {
            let mut line = Bottleneck { drift_ppm, ..Bottleneck::new(6_000) };
            line.until(1_800_000_000);
            let (used, longest_us) = line.second();
            assert!(used > 0.9 && longest_us < 60_000, "{drift_ppm} ppm: {used}, {longest_us} us of queue");
        }
    }

    #[test]
    fn packets_wait_for_what_the_foreground_expects_and_go_on_when_it_has_come() {
        let mut line = Bottleneck::new(1_000);
        line.until(15_000_000);
        let told = |line: &mut Bottleneck, expected_bytes| {
            let report = ForegroundReport { expected_bytes, came_bytes: 0 };
            line.inner.line.foreground_reported(line.now_us, report);
        };
        let (before, window) = (line.arrived, line.inner.line.window_bytes());
        // The packets in flight arrive, and then none until the expectation ends.
        for n in 1..=20 {
            told(&mut line, 2 * window as u32);
            line.until(15_000_000 + n * 10_000);
        }
        assert!(line.arrived - before <= 1 + window / PACKET, "{} packets", line.arrived - before);
        assert!(line.inner.line.state(line.now_us).yielded_us > 100_000);
        told(&mut line, 0);
        line.until(line.now_us + 100_000);
        assert!(line.second().0 > 0.8, "it goes on");
        // The message that ends the expectation is lost.
        told(&mut line, 2 * window as u32);
        line.until(line.now_us + 1_000_000);
        assert!(line.second().0 > 0.8, "it goes on by itself");
    }

    #[test]
    fn a_home_that_always_expects_something_leaves_a_hundredth() {
        let mut line = Bottleneck::new(1_000);
        line.until(15_000_000);
        line.until(15_100_000);
        let before = line.arrived;
        for n in 1..=4_000 {
            let report = ForegroundReport { expected_bytes: 1 << 30, came_bytes: n as u32 * 12_500 };
            line.inner.line.foreground_reported(line.now_us, report);
            line.until(15_100_000 + n * 10_000);
        }
        let share = (line.arrived - before) as f64 / 40_000.0;
        assert!((0.005..0.03).contains(&share), "{share}");
    }

    #[test]
    fn of_a_peer_that_is_silent_nothing_is_under_way() {
        let mut line = Bottleneck::new(6_000);
        line.until(15_000_000);
        let under_way = line.under_way.len();
        assert!(under_way > 0);
        // From here on all packets are lost.
        line.under_way.clear();
        let mut sent = 0;
        while line.now_us < 17_000_000 {
            line.now_us += 500;
            if line.inner.leave(line.now_us, PACKET, 0) == Leave::Now {
                line.inner.sent(line.now_us, PACKET);
                sent += 1;
            }
        }
        assert!((1..200).contains(&sent), "{sent} packets in two seconds");
    }

    #[test]
    fn losses_of_one_round_trip_are_one_loss() {
        let mut line = Bottleneck::new(1_000);
        line.until(15_000_000);
        let windows: Vec<u64> = [14_990_000, 14_995_000, 15_000_001]
            .into_iter()
            .map(|sent_us| {
                line.inner.lost(15_000_000, PACKET, sent_us);
                line.inner.line.window_bytes()
            })
            .collect();
        assert!(windows[1] == windows[0] && windows[2] < windows[1], "{windows:?}");
    }
}
