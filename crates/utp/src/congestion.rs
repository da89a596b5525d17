//! The control law of a connection: turns acknowledgements and losses into events for the law, and
//! answers how many bytes may leave and when.
//!
//! # Scope and limitations
//! uTP does not report bytes that were marked CE (congestion experienced), so laws never see
//! marks.

use crate::outgoing::{Acknowledged, Lost};
use crate::rtt::Rtt;
use leeway_control::sender::{self, RateStamp, RateState, Sender};
use leeway_control::{Ack, Law, LawSpec, Loss, Path, Phase};

/// Initial window in segments (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;
/// Time by which a packet may leave early. Timers of hosts have a resolution of 1 ms, and several
/// packets that leave together cost one system call.
const AHEAD_NS: u64 = 2_000_000;
/// Resolution of uTP's timestamps, in microseconds.
const RESOLUTION_US: u32 = 1;

/// Whether a packet may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    Now,
    /// It may leave at this time, in microseconds.
    At(u64),
    /// It may leave after a further acknowledgement.
    WindowFull,
}

/// The sender's position in the stream when an acknowledgement arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// Bytes in flight before the event.
    pub(crate) before_bytes: u64,
    /// Bytes in flight after it.
    pub(crate) bytes: u64,
    /// Number of the oldest packet that is not acknowledged.
    pub(crate) oldest: u64,
    /// Number of the next new packet.
    pub(crate) next: u64,
}

#[derive(Debug)]
pub(crate) struct Congestion {
    law: Law,
    path: Path,
    /// A round trip ends when this number is acknowledged.
    round_end: u64,
    /// Packets below this number were sent while the window was the limit.
    limited_until: u64,
    /// Loss recovery lasts until this number is acknowledged.
    recovery_end: u64,
    /// What all senders have in common: pacing, the window after idle time, whether samples are
    /// exact.
    common: Sender,
    /// Delivery-rate state, if the law uses delivery rates.
    rate: Option<RateState>,
    sent_us: Option<u64>,
    /// Whether packets are paced even if the law does not ask for pacing.
    paces: bool,
}

impl Congestion {
    pub(crate) fn new(spec: &LawSpec, mss_bytes: u32, paces: bool) -> Self {
        let path = Path { mss_bytes, initial_window_bytes: INITIAL_SEGMENTS * mss_bytes, ..Path::default() };
        let law = spec.build(&path);
        let rate = law.needs_rate().then(RateState::default);
        let common = Sender::default();
        Congestion {
            law,
            path,
            round_end: 0,
            limited_until: 0,
            recovery_end: 0,
            common,
            rate,
            sent_us: None,
            paces,
        }
    }

    pub(crate) fn set_mss(&mut self, mss_bytes: u32) {
        self.path.mss_bytes = mss_bytes;
    }

    /// The packets from number `next` on were taken back; their numbers will be used again.
    pub(crate) fn renumbered(&mut self, next: u64) {
        for number in [&mut self.round_end, &mut self.limited_until, &mut self.recovery_end] {
            *number = next.min(*number);
        }
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.common.window(self.law.output(), self.path.mss_bytes)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.law.output().phase()
    }

    pub(crate) fn queuing_delay_us(&self) -> u32 {
        self.law.output().queuing_delay_us
    }

    /// Packets were acknowledged. `owd_us`: the peer's clock minus our timestamp, if the peer sent
    /// it.
    pub(crate) fn acknowledged(
        &mut self,
        now_us: u64,
        result: &Acknowledged,
        owd_us: Option<u32>,
        rtt: &Rtt,
        flight: Flight,
    ) {
        self.look(rtt, flight);
        let largest = result.largest.unwrap_or(0);
        let round_start = largest >= self.round_end;
        if round_start {
            self.round_end = flight.next;
        }
        let recovering = flight.oldest < self.recovery_end;
        let limited = largest < self.limited_until;
        let app_limited = self.common.app_limited(self.law.output(), result.bytes, limited);
        let last_kind = self.common.last_kind(result.bytes, self.path.mss_bytes, recovering);
        let min_rtt_us = self.path.min_rtt_us;
        let rate = match (&mut self.rate, &result.stamp) {
            (Some(rate), Some(stamp)) => rate.sample(stamp, now_us, result.bytes, min_rtt_us),
            _ => Default::default(),
        };
        let rtt_us = result.rtt_us.map_or(0, |us| us.clamp(1, u32::MAX.into()) as u32);
        // A round trip that may include the peer's delayed-ACK timer is not a sample of the path.
        // A lone packet would look like a queue, and the law would keep the window below two
        // packets for ever.
        let exact_us = if last_kind == Ack::LAST_EXACT { rtt_us } else { 0 };
        let ack = Ack {
            now_us,
            acked_bytes: result.bytes,
            prior_inflight_bytes: flight.before_bytes,
            rtt_us: exact_us,
            owd_us: owd_us.unwrap_or(0),
            owd_resolution_us: if owd_us.is_some() { RESOLUTION_US } else { 0 },
            app_limited: u8::from(app_limited),
            round_start: u8::from(round_start),
            recovering: u8::from(recovering),
            last_kind: result.rtt_us.map_or(Ack::LAST_NONE, |_| last_kind),
            last_rtt_us: rtt_us,
            rate,
            ..Ack::default()
        };
        self.law.on_ack(&ack, &self.path);
    }

    /// Packets were lost. `timeouts`: number of timeouts in a row; 0 if later packets overtook the
    /// lost ones.
    pub(crate) fn lost(&mut self, now_us: u64, lost: &Lost, timeouts: u32, rtt: &Rtt, flight: Flight) {
        self.look(rtt, flight);
        self.recovery_end = flight.next;
        if let Some(rate) = &mut self.rate {
            rate.lost(lost.bytes);
        }
        let loss = Loss {
            now_us,
            lost_bytes: lost.bytes,
            sent_us: lost.sent_us,
            kind: if timeouts > 0 { Loss::TIMEOUT } else { Loss::DUPACK },
            timeouts,
        };
        self.law.on_loss(&loss, &self.path);
    }

    fn look(&mut self, rtt: &Rtt, flight: Flight) {
        self.path.inflight_bytes = flight.bytes;
        self.path.srtt_us = u32::try_from(rtt.smoothed_us()).unwrap_or(u32::MAX);
        self.path.min_rtt_us = u32::try_from(rtt.min_us()).unwrap_or(u32::MAX);
    }

    /// Whether `bytes` more may leave while `in_flight` bytes are in flight. With nothing in
    /// flight the window always allows one packet; a window below one packet is enforced by
    /// pacing.
    pub(crate) fn grant(&self, now_us: u64, bytes: u64, in_flight: u64) -> Grant {
        let window = self.window_bytes();
        if in_flight > 0 && in_flight + bytes > window {
            return Grant::WindowFull;
        }
        let output = self.law.output();
        let mut earliest_ns = self.common.departure_ns(output).saturating_sub(AHEAD_NS);
        if let (Some(sent_us), true) = (self.sent_us, window < u64::from(self.path.mss_bytes)) {
            let srtt_ns = u64::from(self.path.srtt_us) * 1000;
            let gap_ns = sender::gap_below_one_ns(output, self.path.mss_bytes, srtt_ns);
            earliest_ns = earliest_ns.max((sent_us * 1000).saturating_add(gap_ns));
        }
        match earliest_ns.div_ceil(1000) {
            earliest_us if earliest_us > now_us => Grant::At(earliest_us),
            _ => Grant::Now,
        }
    }

    /// Called before sending when nothing is in flight. After more than `timeout_us` without a
    /// packet the window restarts (RFC 5681, 4.1).
    pub(crate) fn resume(&mut self, now_us: u64, timeout_us: u64) {
        if self.sent_us.is_some_and(|sent_us| now_us.saturating_sub(sent_us) > timeout_us) {
            self.common.idle(self.path.initial_window_bytes);
        }
    }

    /// A packet of `bytes` leaves while `in_flight` bytes are in flight. Returns the stamp to keep
    /// with the packet.
    pub(crate) fn sent(&mut self, now_us: u64, bytes: u64, in_flight: u64) -> RateStamp {
        self.sent_us = Some(now_us);
        let output = self.law.output();
        let pace = match output.pacing_bytes_per_s {
            0 if !self.paces => 0,
            0 => {
                let (window, srtt_us) =
                    (self.common.window(output, self.path.mss_bytes), u64::from(self.path.srtt_us));
                let pace = sender::pace_stack(window, window, output.ssthresh_bytes, srtt_us);
                pace.max(u64::from(srtt_us > 0))
            }
            asked => asked,
        };
        self.common.sent(output, now_us * 1000, bytes, pace);
        self.rate.as_mut().map_or_else(RateStamp::default, |rate| rate.sent(now_us, in_flight, bytes))
    }

    /// The window or the pacing limited the packets below number `next`.
    pub(crate) fn limited(&mut self, next: u64) {
        self.limited_until = next + 1;
    }

    /// Window and pacing would allow a packet, but there is nothing to send.
    pub(crate) fn app_limited(&mut self, in_flight: u64) {
        if let Some(rate) = &mut self.rate {
            rate.app_limited(in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLIGHT: Flight = Flight { before_bytes: 0, bytes: 0, oldest: 10, next: 10 };

    fn sampled(law: &str, rtt_us: u64) -> (Congestion, Rtt) {
        let mut congestion = Congestion::new(&law.parse().unwrap(), 1000, true);
        let mut rtt = Rtt::default();
        rtt.sample(rtt_us);
        let result = Acknowledged { bytes: 1, packets: 1, rtt_us: Some(rtt_us), ..Default::default() };
        congestion.acknowledged(0, &result, None, &rtt, FLIGHT);
        (congestion, rtt)
    }

    #[test]
    fn the_window_is_a_limit_but_for_the_first_packet() {
        let congestion = Congestion::new(&"newreno".parse().unwrap(), 1000, true);
        assert_eq!(congestion.window_bytes(), 10_000);
        assert_eq!(congestion.grant(0, 1000, 9_000), Grant::Now);
        assert_eq!(congestion.grant(0, 1000, 9_001), Grant::WindowFull);
        assert_eq!(congestion.grant(0, 20_000, 0), Grant::Now);
    }

    #[test]
    fn packets_are_paced_and_leave_2_ms_ahead_at_most() {
        let (mut congestion, _) = sampled("newreno", 100_000);
        // Slow start: twice 11,000 B (ten segments, and one that was acknowledged) each 100 ms.
        let mut times = Vec::new();
        let mut now_us = 0;
        while times.len() < 20 {
            match congestion.grant(now_us, 1000, 1) {
                Grant::Now => {
                    congestion.sent(now_us, 1000, 0);
                    times.push(now_us);
                }
                Grant::At(at_us) => now_us = at_us,
                Grant::WindowFull => panic!("1 byte is in flight"),
            }
        }
        let rate = (times.len() - 1) as f64 * 1000.0 / (times[19] - times[0]) as f64 * 1e6;
        assert!((200_000.0..=235_000.0).contains(&rate), "{rate}");
        // A fast pace with timers of 1 ms still carries its rate.
        let (mut congestion, _) = sampled("newreno", 1_000);
        let mut bytes = 0;
        for now_us in (0..1_000_000).step_by(1000) {
            while congestion.grant(now_us, 1000, 1) == Grant::Now {
                congestion.sent(now_us, 1000, 0);
                bytes += 1000;
            }
        }
        assert!((20_000_000..=23_500_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn after_idling_the_window_begins_anew_and_grows_with_what_is_acknowledged() {
        let (mut congestion, rtt) = sampled("newreno", 100_000);
        let result = Acknowledged { bytes: 1000, packets: 1, rtt_us: Some(100_000), ..Default::default() };
        congestion.limited(10);
        for _ in 0..30 {
            congestion.acknowledged(0, &result, None, &rtt, FLIGHT);
        }
        assert!(congestion.window_bytes() > 30_000, "{}", congestion.window_bytes());
        congestion.sent(0, 1000, 0);
        congestion.resume(500_000, 500_000);
        assert!(congestion.window_bytes() > 30_000, "not longer than the timeout");
        congestion.resume(500_001, 500_000);
        assert_eq!(congestion.window_bytes(), 10_000);
        let result = Acknowledged { bytes: 5_000, ..result };
        congestion.acknowledged(600_000, &result, None, &rtt, FLIGHT);
        assert_eq!(congestion.window_bytes(), 15_000);
    }

    #[test]
    fn a_window_below_a_segment_is_a_packet_every_1_by_w_round_trips() {
        let (mut congestion, rtt) = sampled("ledbat:floor=0.25", 100_000);
        for now_us in 1..=8 {
            let lost = Lost { bytes: 1000, sent_us: now_us * 1_000_000, probe_bytes: None };
            congestion.lost(now_us * 1_000_000 + 1, &lost, 0, &rtt, FLIGHT);
        }
        assert_eq!(congestion.window_bytes(), 250);
        let mut times = Vec::new();
        for now_us in (10_000_000..14_000_000).step_by(1000) {
            if congestion.grant(now_us, 1000, 0) == Grant::Now {
                congestion.sent(now_us, 1000, 0);
                times.push(now_us);
            }
        }
        assert!((10..=11).contains(&times.len()), "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 399_000), "{times:?}");
    }
}
