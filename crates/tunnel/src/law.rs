//! A control law as the congestion controller of QUIC.
//!
//! quinn gives its controller acknowledgements and losses. [`Line`] adds the one-way delays that the
//! peer reports, and tells the sender when it may hand packets to quinn.
//!
//! # Scope and limitations
//! - quinn sends while `in_flight + mtu < window`, so the window it is given is at least one full
//!   packet. A window below one packet is kept by [`Line::gap`] instead.
//! - quinn's pacer lets ten packets go at once, then sends at 1.25 windows a round trip, whatever the
//!   law asks. Where ten packets are most of a long round trip's window, [`Line::gap`] paces them one
//!   by one.
//! - quinn says how much is in flight with each acknowledgement only. In between, packets that carry
//!   acknowledgements alone are counted as well.
//! - quinn reports no timeouts before persistent congestion (RFC 9002, 7.6).
//! - quinn does not say how many bytes were marked. A congestion event without loss counts as one
//!   marked packet.

use crate::base::Base;
use crate::owd::{Clock, RESOLUTION_US, Report};
use crate::scale::Scale;
use crate::standby::Standby;
use leeway_control::{LawSpec, Phase, sender};
use leeway_quinn::Driver;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The default law of both ends. The target is less than three segments at 1.72 Mbit/s. A gain of 1
/// would fill and empty that queue within a few round trips.
pub const LAW: &str = "ledbat:target=19ms,gain_up=0.3,gain_down=0.3,slow_start=delay,accelerate=0.04";

/// Packets that may wait inside quinn: 2 ms at the law's rate, at most 256 KiB.
const AHEAD_US: u64 = 2_000;
const AHEAD_BYTES: u64 = 256 * 1024;
/// Pacing: 1.25 windows a round trip (RFC 9002, 7.7), in slow start 2 windows, as Linux does.
const PACING_PERCENT: u32 = 125;
const SLOW_START_PACING_PERCENT: u32 = 200;
/// Acknowledgements are sparse when they are at least 2 ms apart on a path of at least 50 ms. A timer
/// can keep 2 ms. On a shorter path ten packets at once are a good part of a round trip, and the line
/// spreads them.
const SPARSE_US: u64 = 2_000;
const LONG_US: u64 = 50_000;
/// After three round trips and 200 ms without an acknowledgement, nothing counts as in flight.
const SILENCE_ROUNDS: u64 = 3;
const SILENCE_US: u64 = 200_000;

/// The inputs of pacing.
struct Pace {
    window: u64,
    mss: u64,
    srtt_us: u64,
    min_rtt_us: u64,
}

/// State of one connection that its controller, its sender and its receiver share.
#[derive(Debug)]
pub struct Line {
    clock: Clock,
    window_bytes: AtomicU64,
    mss_bytes: AtomicU64,
    srtt_us: AtomicU64,
    min_rtt_us: AtomicU64,
    in_flight_bytes: AtomicU64,
    /// When the last acknowledgement came.
    heard_us: AtomicU64,
    queuing_us: AtomicU32,
    phase: AtomicU32,
    report: Mutex<Option<Report>>,
    law: Mutex<LawSpec>,
    standby: Mutex<Standby>,
    /// Until when the peer's home is at work, on `clock`; 0 while it is not. Read for each packet, so it
    /// is outside the lock.
    there_until_us: AtomicU64,
    /// The peer has to be told that the home at this end is at work.
    at_work: AtomicBool,
    /// Notified when a packet was sent or acknowledged.
    room: Notify,
}

/// A law's state, for people to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Steering {
    /// The law with its parameters.
    pub law: String,
    /// Its window in bytes.
    pub window_bytes: u64,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u64,
    /// Its estimate of the queuing delay in microseconds.
    pub queuing_us: u32,
    /// Its phase.
    pub phase: Phase,
}

impl Line {
    /// The state of one connection under `law`.
    pub fn new(law: LawSpec) -> Arc<Self> {
        Arc::new(Line {
            clock: Clock::start(),
            window_bytes: AtomicU64::new(0),
            mss_bytes: AtomicU64::new(1200),
            srtt_us: AtomicU64::new(0),
            min_rtt_us: AtomicU64::new(0),
            in_flight_bytes: AtomicU64::new(0),
            heard_us: AtomicU64::new(0),
            queuing_us: AtomicU32::new(0),
            phase: AtomicU32::new(0),
            report: Mutex::new(None),
            law: Mutex::new(law),
            standby: Mutex::default(),
            there_until_us: AtomicU64::new(0),
            at_work: AtomicBool::new(false),
            room: Notify::new(),
        })
    }

    /// The clock of this end's timestamps.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The peer reported a one-way delay.
    pub fn report(&self, report: Report) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The peer's home is at work: packets for its line are held back ([`Standby`]).
    pub fn stand_aside(&self) {
        let srtt_us = self.srtt_us.load(Ordering::Relaxed);
        let mut standby = self.standby();
        standby.seen(self.clock.micros(), srtt_us);
        self.there_until_us.store(standby.there_until_us(), Ordering::Relaxed);
    }

    /// A packet of this end arrived at the peer.
    fn arrived(&self, now_us: u64) {
        if self.there_until_us.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut standby = self.standby();
        standby.ours(now_us, self.srtt_us.load(Ordering::Relaxed));
        self.there_until_us.store(standby.there_until_us(), Ordering::Relaxed);
    }

    /// How much longer waiting packets are held back. `waiting` says whether packets wait.
    pub fn aside(&self, waiting: impl FnOnce() -> bool) -> Option<Duration> {
        if self.there_until_us.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut standby = self.standby();
        let now_us = self.clock.micros();
        let until_us = standby.hold(now_us, waiting());
        if now_us >= standby.there_until_us() {
            self.there_until_us.store(0, Ordering::Relaxed);
        }
        Some(Duration::from_micros(until_us? - now_us))
    }

    /// Time for which packets were held back, in all.
    pub fn stood_aside(&self) -> Duration {
        Duration::from_micros(self.standby().total_us())
    }

    fn standby(&self) -> MutexGuard<'_, Standby> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the home at this end is at work, for the peer.
    pub fn at_work(&self) {
        self.at_work.store(true, Ordering::Relaxed);
        self.room.notify_one();
    }

    /// Whether the peer has to be told. The next call returns false.
    pub fn take_at_work(&self) -> bool {
        self.at_work.swap(false, Ordering::Relaxed)
    }

    /// Sets another law, which the server asked for.
    pub fn demand(&self, law: LawSpec) {
        *self.law.lock().unwrap_or_else(PoisonError::into_inner) = law;
    }

    /// How long to wait before more is handed to quinn, unless a packet is sent or acknowledged before;
    /// `None`: hand over now. `waiting` bytes are in quinn and not sent yet.
    ///
    /// At least one packet may wait there, so that quinn always has something to send, and little more,
    /// so that no packet grows old. Where acknowledgements are sparse even one packet grows old: it has
    /// its timestamp already, and the law would take its wait for a queue of the line. There a packet is
    /// handed over when the window has room for it.
    pub fn full(&self, waiting: u64) -> Option<Duration> {
        let Pace { window, mss, srtt_us, .. } = self.pace();
        let patience_us = (SILENCE_ROUNDS * srtt_us).max(SILENCE_US);
        if !self.is_sparse() {
            let ahead = window.saturating_mul(AHEAD_US).checked_div(srtt_us).unwrap_or(0);
            return (waiting >= ahead.clamp(mss / 2, AHEAD_BYTES))
                .then(|| Duration::from_micros(patience_us));
        }
        let silent_us = self.clock.micros().saturating_sub(self.heard_us.load(Ordering::Relaxed));
        let in_flight = match self.in_flight_bytes.load(Ordering::Relaxed) {
            _ if silent_us >= patience_us => 0,
            bytes => bytes,
        };
        let has_room = waiting < mss / 2 && in_flight + mss <= window.max(mss);
        (!has_room).then(|| Duration::from_micros(patience_us - silent_us.min(patience_us / 2)))
    }

    /// How long the next packet waits after `bytes` were sent, where acknowledgements are sparse. A window
    /// of W < 1 packets sends one packet every 1/W round trips.
    pub fn gap(&self, bytes: u64) -> Option<Duration> {
        let Pace { window, mss, srtt_us, .. } = self.pace();
        if !self.is_sparse() {
            return None;
        }
        let percent = match Phase::from(self.phase.load(Ordering::Relaxed)) {
            _ if window < mss => 100,
            Phase::SlowStart => SLOW_START_PACING_PERCENT,
            _ => PACING_PERCENT,
        };
        let bytes = if window < mss { mss } else { bytes };
        let rate = sender::pace(window, percent, srtt_us).max(1);
        Some(Duration::from_micros(bytes.saturating_mul(1_000_000) / rate))
    }

    /// Whether acknowledgements are sparse ([`SPARSE_US`], [`LONG_US`]). Ten packets that leave together
    /// would then be acknowledged together, with nothing for the rest of the round trip.
    fn is_sparse(&self) -> bool {
        let Pace { window, mss, min_rtt_us, .. } = self.pace();
        let is_far = || min_rtt_us >= LONG_US && min_rtt_us.saturating_mul(mss) / window >= SPARSE_US;
        window > 0 && (window < mss || is_far())
    }

    fn pace(&self) -> Pace {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Pace {
            window: get(&self.window_bytes),
            mss: get(&self.mss_bytes),
            srtt_us: get(&self.srtt_us),
            min_rtt_us: get(&self.min_rtt_us),
        }
    }

    /// Waits until a packet was sent or acknowledged since the last wait.
    pub async fn room(&self) {
        self.room.notified().await;
    }

    /// What the law is doing.
    pub fn steering(&self) -> Steering {
        Steering {
            law: self.law.lock().unwrap_or_else(PoisonError::into_inner).to_string(),
            window_bytes: self.window_bytes.load(Ordering::Relaxed),
            srtt_us: self.srtt_us.load(Ordering::Relaxed),
            queuing_us: self.queuing_us.load(Ordering::Relaxed),
            phase: Phase::from(self.phase.load(Ordering::Relaxed)),
        }
    }
}

/// Makes the controllers of one connection: one for each path.
#[derive(Debug)]
pub struct LawFactory(pub Arc<Line>);

impl ControllerFactory for LawFactory {
    fn build(self: Arc<Self>, _: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(LawController::new(Arc::clone(&self.0), current_mtu))
    }
}

/// One path's law.
#[derive(Clone)]
struct LawController {
    line: Arc<Line>,
    spec: LawSpec,
    driver: Driver,
    scale: Scale,
    /// The base of the one-way delays.
    base: Option<Base>,
}

impl LawController {
    fn new(line: Arc<Line>, mtu: u16) -> Self {
        let spec = line.law.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let controller = LawController {
            driver: Driver::new(&spec, mtu, line.clock.epoch()),
            line,
            scale: Scale::new(&spec),
            spec,
            base: None,
        };
        controller.publish();
        controller
    }

    fn publish(&self) {
        let (output, path) = (self.driver.law().output(), self.driver.path());
        let Line { window_bytes, mss_bytes, srtt_us, min_rtt_us, queuing_us, phase, .. } = &*self.line;
        // 0 means that there is no window yet.
        window_bytes.store((output.cwnd_q16 >> 16).max(1), Ordering::Relaxed);
        mss_bytes.store(path.mss_bytes.into(), Ordering::Relaxed);
        srtt_us.store(path.srtt_us.into(), Ordering::Relaxed);
        min_rtt_us.store(path.min_rtt_us.into(), Ordering::Relaxed);
        queuing_us.store(self.scale.seen_us(output.queuing_delay_us), Ordering::Relaxed);
        phase.store(output.phase, Ordering::Relaxed);
        self.line.room.notify_one();
    }

    fn take_demand(&mut self) {
        let wanted = self.line.law.lock().unwrap_or_else(PoisonError::into_inner);
        if *wanted != self.spec {
            self.spec = wanted.clone();
            self.driver.replace(&self.spec);
            self.scale = Scale::new(&self.spec);
        }
    }
}

impl Controller for LawController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.driver.on_sent(now, bytes);
        self.line.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.line.room.notify_one();
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.driver.on_ack(sent, bytes, rtt.get(), rtt.min());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.take_demand();
        let Some(mut ack) = self.driver.on_end_acks(now, in_flight, app_limited) else { return };
        self.line.in_flight_bytes.store(in_flight, Ordering::Relaxed);
        self.line.heard_us.store(ack.now_us, Ordering::Relaxed);
        // Packets with reports alone are small and never end: they do not delay the home.
        if ack.acked_bytes >= u64::from(self.driver.path().mss_bytes) / 2 {
            self.line.arrived(ack.now_us);
        }
        self.scale.arrived(ack.now_us, ack.acked_bytes);
        if ack.round_start != 0 {
            self.scale.begin_round(self.driver.law());
        }
        let report = self.line.report.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(report) = report {
            let base = self.base.get_or_insert(Base::new(ack.now_us, report.delay_us));
            ack.owd_us = self.scale.told_us(base.queuing_us(ack.now_us, report.delay_us));
            ack.owd_resolution_us = RESOLUTION_US;
        }
        ack.acked_bytes = self.scale.told_bytes(ack.acked_bytes);
        self.driver.acknowledged(&ack);
        self.publish();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let in_flight = &self.line.in_flight_bytes;
        in_flight.store(in_flight.load(Ordering::Relaxed).saturating_sub(lost_bytes), Ordering::Relaxed);
        self.line.room.notify_one();
        if self.driver.on_congestion_event(now, sent, is_persistent, lost_bytes) {
            self.publish();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.on_mtu_update(new_mtu);
        self.publish();
    }

    fn window(&self) -> u64 {
        self.driver.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.driver.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.driver.path().initial_window_bytes.into()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// The queuing delay that the law is given for 10 ms, after one segment every `segment_us`, while the
    /// clocks wrap.
    fn told_us(law: &str, segment_us: u64) -> u32 {
        let line = Line::new(law.parse().unwrap());
        let mut controller = LawController::new(Arc::clone(&line), 1200);
        let start = Instant::now();
        let mut acked = |n: u64, queuing_us: u32| {
            let now = start + Duration::from_micros(n * segment_us);
            line.report(Report {
                delay_us: (u32::MAX - 5000).wrapping_add(queuing_us),
                stamp_us: 0,
                packets: 1,
            });
            let sent = now - Duration::from_micros(20_000 + u64::from(queuing_us));
            controller.driver.on_ack(sent, 1460, RTT, RTT);
            controller.on_end_acks(now, 60_000, false, None);
            controller.driver.law().output().queuing_delay_us
        };
        (0..20_000).for_each(|n| {
            acked(n, 0);
        });
        let told_us = acked(20_000, 10_000);
        assert!(line.steering().queuing_us.abs_diff(10_000) < 10, "{:?}", line.steering());
        told_us
    }

    /// A line with a window of `packets` and a round trip of `rtt_us`.
    fn line(packets: u64, rtt_us: u64, phase: Phase) -> Arc<Line> {
        let line = Line::new("ledbat".parse().unwrap());
        line.window_bytes.store(packets * 1200, Ordering::Relaxed);
        line.srtt_us.store(rtt_us, Ordering::Relaxed);
        line.min_rtt_us.store(rtt_us, Ordering::Relaxed);
        line.phase.store(phase as u32, Ordering::Relaxed);
        line
    }

    #[test]
    fn holding_back_lasts_until_the_packets_on_the_way_have_arrived() {
        let line = Line::new("ledbat".parse().unwrap());
        let mut controller = LawController::new(Arc::clone(&line), 1200);
        line.stand_aside();
        let until_us = || line.standby().there_until_us();
        let first_us = until_us();
        let mut acked = |bytes| {
            let now = Instant::now() + Duration::from_millis(1);
            controller.driver.on_ack(now - RTT, bytes, RTT, RTT);
            controller.on_end_acks(now, 0, false, None);
        };
        acked(1200);
        assert_eq!(until_us(), first_us, "nobody waited");
        assert!(line.aside(|| true).is_some());
        acked(60);
        assert_eq!(until_us(), first_us, "a report");
        acked(1200);
        assert!(until_us() > first_us);
    }

    #[test]
    fn packets_are_spread_over_a_long_round_trip() {
        let gap_us =
            |packets, rtt_us, phase| line(packets, rtt_us, phase).gap(1200).map(|gap| gap.as_micros() as u64);
        assert_eq!(gap_us(10, 600_000, Phase::Avoidance), Some(48_000));
        assert_eq!(gap_us(10, 600_000, Phase::SlowStart), Some(30_000));
        // Gaps that are too short for a timer, and a path as short as a burst.
        assert_eq!(gap_us(400, 600_000, Phase::Avoidance), None);
        assert_eq!(gap_us(2, 20_000, Phase::Avoidance), None);
        // After a short packet the gap is shorter. A window below one packet counts packets.
        let far = line(10, 600_000, Phase::Avoidance);
        assert_eq!(far.gap(120), Some(Duration::from_micros(4800)));
        far.window_bytes.store(600, Ordering::Relaxed);
        assert_eq!(far.gap(120), Some(Duration::from_micros(1_200_000)));
    }

    #[test]
    fn no_packet_is_handed_over_to_wait_for_a_late_acknowledgement() {
        let (near, far) = (line(3, 20_000, Phase::Avoidance), line(3, 600_000, Phase::Avoidance));
        for line in [&near, &far] {
            line.heard_us.store(line.clock.micros(), Ordering::Relaxed);
            assert_eq!(line.full(0), None);
            line.in_flight_bytes.store(2400, Ordering::Relaxed);
            assert_eq!(line.full(0), None, "the third packet");
            assert!(line.full(1200).is_some(), "one waits already");
            line.in_flight_bytes.store(2401, Ordering::Relaxed);
        }
        assert_eq!(near.full(0), None);
        let until = far.full(0).unwrap();
        assert!(until > Duration::from_secs(1) && until <= Duration::from_millis(1800), "{until:?}");
        // After SILENCE_US without an acknowledgement nothing is in flight.
        let clock = Clock::start();
        let silent = line(3, 60_000, Phase::Avoidance);
        silent.in_flight_bytes.store(2401, Ordering::Relaxed);
        assert!(silent.full(0).is_some());
        while clock.micros() < SILENCE_US {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(silent.full(0), None);
        assert!(silent.full(1200).is_some_and(|until| !until.is_zero()));
    }

    #[test]
    fn the_law_is_given_queues_in_segments_of_two_mbits() {
        assert_eq!(told_us("ledbat:filter_length=1", 7000), 10_000);
        let told_us_twice = told_us("ledbat:filter_length=1", 2920);
        assert!(told_us_twice.abs_diff(20_000) < 500, "{told_us_twice}");
        assert_eq!(told_us("ledbat:filter_length=1", 100), 25_000);
    }
}
