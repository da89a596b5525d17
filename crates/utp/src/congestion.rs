//! A control law at work in a connection: what it is told, how much and when it lets packets go.
//!
//! # Scope and limitations
//! uTP does not say how many bytes were marked congestion-experienced, so no law hears of marks.

use crate::outgoing::{Acknowledged, Lost};
use crate::rtt::Rtt;
use leeway_control::{Ack, Law, LawSpec, Loss, Path, Phase};

/// RFC 6928: ten segments.
const INITIAL_SEGMENTS: u32 = 10;
/// RFC 9002, 7.7: packets go a quarter faster than the window needs; in slow start at twice its
/// rate, as Linux has it.
const PACING_PERMILLE: u64 = 1250;
const SLOW_START_PACING_PERMILLE: u64 = 2000;
/// What goes at once after a pause: this many segments, or what the pace has in 2 ms, because
/// timers of hosts have 1 ms.
const BURST_SEGMENTS: u64 = 10;
const BURST_US: u64 = 2_000;
/// Clocks of uTP's stamps have microseconds.
const RESOLUTION_US: u32 = 1;

/// Whether a packet may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    Now,
    /// At that time, in microseconds.
    At(u64),
    /// When something was acknowledged.
    WindowFull,
}

/// Where the sender stands when something arrives.
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
    /// Bytes that the pace allows now, and when that was reckoned. Negative after a burst.
    allowance_bytes: i64,
    reckoned_us: u64,
}

impl Congestion {
    pub(crate) fn new(spec: &LawSpec, mss_bytes: u32, now_us: u64) -> Self {
        let path = Path { mss_bytes, initial_window_bytes: INITIAL_SEGMENTS * mss_bytes, ..Path::default() };
        Congestion {
            law: spec.build(&path),
            path,
            round_end: 0,
            limited_until: 0,
            recovery_end: 0,
            allowance_bytes: (BURST_SEGMENTS * u64::from(mss_bytes)) as i64,
            reckoned_us: now_us,
        }
    }

    pub(crate) fn set_mss(&mut self, mss_bytes: u32) {
        self.path.mss_bytes = mss_bytes;
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.law.output().cwnd_q16 >> 16
    }

    pub(crate) fn phase(&self) -> Phase {
        self.law.output().phase()
    }

    pub(crate) fn queuing_delay_us(&self) -> u32 {
        self.law.output().queuing_delay_us
    }

    /// Packets were acknowledged. `owd_us`: the peer's clock minus our stamp, where it told one.
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
        let ack = Ack {
            now_us,
            acked_bytes: result.bytes,
            prior_inflight_bytes: flight.before_bytes,
            rtt_us: result.rtt_us.map_or(0, |us| us.clamp(1, u32::MAX.into()) as u32),
            owd_us: owd_us.unwrap_or(0),
            owd_resolution_us: if owd_us.is_some() { RESOLUTION_US } else { 0 },
            app_limited: u8::from(largest >= self.limited_until),
            round_start: u8::from(round_start),
            recovering: u8::from(flight.oldest < self.recovery_end),
            ..Ack::default()
        };
        self.law.on_ack(&ack, &self.path);
    }

    /// Packets were lost. `timeouts`: how many timeouts in a row; 0 where others overtook them.
    pub(crate) fn lost(&mut self, now_us: u64, lost: &Lost, timeouts: u32, rtt: &Rtt, flight: Flight) {
        self.look(rtt, flight);
        self.recovery_end = flight.next;
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

    /// Whether `bytes` more may go beside `in_flight` bytes. The first packet always finds room in
    /// the window: a window below one packet is kept by the pace.
    pub(crate) fn grant(&mut self, now_us: u64, bytes: u64, in_flight: u64) -> Grant {
        let window = self.window_bytes();
        if in_flight > 0 && in_flight + bytes > window {
            return Grant::WindowFull;
        }
        let Some(pace) = self.pace() else { return Grant::Now };
        self.reckon(now_us, pace);
        if self.allowance_bytes > 0 {
            return Grant::Now;
        }
        let missing = u128::from(self.allowance_bytes.unsigned_abs()) + 1;
        let wait_us = (missing * 1_000_000).div_ceil(u128::from(pace));
        Grant::At(now_us.saturating_add(wait_us as u64))
    }

    /// A packet of `bytes` has left.
    pub(crate) fn sent(&mut self, now_us: u64, bytes: u64) {
        if let Some(pace) = self.pace() {
            self.reckon(now_us, pace);
            let whole = if self.is_below_segment() { self.path.mss_bytes.into() } else { bytes };
            self.allowance_bytes -= i64::try_from(whole.max(bytes)).unwrap_or(i64::MAX);
        }
    }

    /// All packets below `next` were sent, or wait, because the window or the pace was the limit.
    pub(crate) fn limited(&mut self, next: u64) {
        self.limited_until = next + 1;
    }

    /// Bytes a second; nothing before a round trip was measured.
    fn pace(&self) -> Option<u64> {
        let asked = self.law.output().pacing_bytes_per_s;
        if asked > 0 {
            return Some(asked);
        }
        let srtt_us = u64::from(self.path.srtt_us);
        if srtt_us == 0 {
            return None;
        }
        let permille = match self.phase() {
            _ if self.is_below_segment() => 1000,
            Phase::SlowStart => SLOW_START_PACING_PERMILLE,
            _ => PACING_PERMILLE,
        };
        let rate = u128::from(self.law.output().cwnd_q16) * 1_000_000 * u128::from(permille)
            / (u128::from(srtt_us) * 1000 * 65_536);
        Some((rate as u64).max(1))
    }

    fn is_below_segment(&self) -> bool {
        self.window_bytes() < u64::from(self.path.mss_bytes)
    }

    fn reckon(&mut self, now_us: u64, pace: u64) {
        let passed_us = now_us.saturating_sub(self.reckoned_us);
        let mss = u64::from(self.path.mss_bytes);
        let burst = match self.is_below_segment() {
            true => 1,
            false => (BURST_SEGMENTS * mss).max(pace.saturating_mul(BURST_US) / 1_000_000),
        };
        let earned = u128::from(pace) * u128::from(passed_us) / 1_000_000;
        if earned == 0 {
            return; // what is less than a byte is earned later
        }
        // The rest of a byte that was earned is not lost.
        self.reckoned_us += (earned * 1_000_000).div_ceil(u128::from(pace)) as u64;
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        self.allowance_bytes = self.allowance_bytes.saturating_add(earned).min(burst as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLIGHT: Flight = Flight { before_bytes: 0, bytes: 0, oldest: 10, next: 10 };

    fn sampled(law: &str, rtt_us: u64) -> (Congestion, Rtt) {
        let mut congestion = Congestion::new(&law.parse().unwrap(), 1000, 0);
        let mut rtt = Rtt::default();
        rtt.sample(rtt_us);
        let result = Acknowledged { bytes: 1, packets: 1, rtt_us: Some(rtt_us), ..Default::default() };
        congestion.acknowledged(0, &result, None, &rtt, FLIGHT);
        (congestion, rtt)
    }

    #[test]
    fn the_window_is_a_limit_but_for_the_first_packet() {
        let mut congestion = Congestion::new(&"newreno".parse().unwrap(), 1000, 0);
        assert_eq!(congestion.window_bytes(), 10_000);
        assert_eq!(congestion.grant(0, 1000, 9_000), Grant::Now);
        assert_eq!(congestion.grant(0, 1000, 9_001), Grant::WindowFull);
        assert_eq!(congestion.grant(0, 20_000, 0), Grant::Now);
    }

    #[test]
    fn after_a_burst_packets_are_paced() {
        let (mut congestion, _) = sampled("newreno", 100_000);
        let mut sent = 0;
        while congestion.grant(0, 1000, 1) == Grant::Now {
            congestion.sent(0, 1000);
            sent += 1;
        }
        assert_eq!(sent, 10);
        let Grant::At(at_us) = congestion.grant(0, 1000, 1) else { panic!("not paced") };
        assert_eq!(congestion.grant(at_us, 1000, 1), Grant::Now);
        // A second of trying every millisecond carries the pace: slow start, twice 10 windows.
        let mut bytes = 0;
        for now_us in (0..1_000_000).step_by(1000) {
            while congestion.grant(now_us, 1000, 1) == Grant::Now {
                congestion.sent(now_us, 1000);
                bytes += 1000;
            }
        }
        assert!((195_000..=215_000).contains(&bytes), "{bytes}");
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
                congestion.sent(now_us, 1000);
                times.push(now_us);
            }
        }
        assert!((10..=11).contains(&times.len()), "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 399_000), "{times:?}");
    }
}
