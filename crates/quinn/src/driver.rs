//! Turns what quinn reports into the events of a law.

use leeway_control::sender::{self, RateStamp, RateState};
use leeway_control::{Ack, Law, LawSpec, Loss, Path, Rate};
use quinn_proto::congestion::ControllerMetrics;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Segments in the initial window (RFC 6928, 2).
const INITIAL_SEGMENTS: u32 = 10;
/// Stamps of departures that are kept. One is kept for each instant at which something left, so more
/// than a window's worth means that acknowledgements stopped; the oldest are dropped then.
const STAMPS: usize = 1 << 16;

/// One path's law, and what it needs to know between two events.
///
/// A controller of quinn calls the methods of the same names. [`Driver::on_end_acks`] returns the
/// event instead of handing it to the law, so that a stack that knows more (a one-way delay, say)
/// can add it before it calls [`Driver::acknowledged`].
#[derive(Clone, Debug)]
pub struct Driver {
    law: Law,
    path: Path,
    common: sender::Sender,
    epoch: Instant,
    /// Whether there was a round-trip sample; quinn has a guess of 333 ms until then.
    has_sample: bool,
    /// Bytes of this batch of acknowledgements.
    acked_bytes: u64,
    /// When the newest packet of this batch was sent.
    newest_sent: Option<Instant>,
    /// A round trip ends when a packet sent at this instant or later is acknowledged.
    round: Option<Instant>,
    /// Losses of packets sent up to this instant belong to a loss event that the law knows.
    recovery: Option<Instant>,
    ce_bytes: u64,
    timeouts: u32,
    departures: Option<Departures>,
}

/// Delivery-rate state, for laws that need it.
#[derive(Clone, Debug, Default)]
struct Departures {
    rate: RateState,
    inflight_bytes: u64,
    stamps: VecDeque<(Instant, RateStamp)>,
    /// The stamp of the packet that left last among those acknowledged.
    newest: RateStamp,
}

impl Driver {
    /// A law for a path whose packets hold `mtu` bytes. Times are told to the law in microseconds
    /// since `epoch`.
    pub fn new(spec: &LawSpec, mtu: u16, epoch: Instant) -> Self {
        let path = Path {
            mss_bytes: mtu.into(),
            initial_window_bytes: INITIAL_SEGMENTS * u32::from(mtu),
            ..Path::default()
        };
        let law = spec.build(&path);
        Driver {
            departures: law.needs_rate().then(Departures::default),
            law,
            path,
            common: sender::Sender::default(),
            epoch,
            has_sample: false,
            acked_bytes: 0,
            newest_sent: None,
            round: None,
            recovery: None,
            ce_bytes: 0,
            timeouts: 0,
        }
    }

    /// Another law from now on, which starts on the path as it is known.
    pub fn replace(&mut self, spec: &LawSpec) {
        self.law = spec.build(&self.path);
        self.departures = self.law.needs_rate().then(Departures::default);
    }

    /// The law.
    pub fn law(&self) -> &Law {
        &self.law
    }

    /// The path as the law is told of it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Microseconds from the epoch to `instant`.
    pub fn micros(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.epoch).as_micros() as u64
    }

    /// Packets with `bytes` in all have left.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        let now_us = self.micros(now);
        let Some(departures) = &mut self.departures else { return };
        let stamp = departures.rate.sent(now_us, departures.inflight_bytes, bytes);
        departures.inflight_bytes += bytes;
        match departures.stamps.back_mut() {
            Some((sent, last)) if *sent == now => *last = stamp,
            _ => departures.stamps.push_back((now, stamp)),
        }
        if departures.stamps.len() > STAMPS {
            departures.stamps.pop_front();
        }
    }

    /// A packet of `bytes` that left at `sent` was acknowledged: part of a batch that
    /// [`Driver::on_end_acks`] ends. `smoothed` and `min` are quinn's round-trip times.
    pub fn on_ack(&mut self, sent: Instant, bytes: u64, smoothed: Duration, min: Duration) {
        self.acked_bytes += bytes;
        self.newest_sent = self.newest_sent.max(Some(sent));
        if self.has_sample {
            self.path.srtt_us = micros_u32(smoothed);
            self.path.min_rtt_us = micros_u32(min);
        }
    }

    /// The batch is over and `inflight_bytes` are in flight. `app_limited`: the connection had
    /// nothing more to send. Returns the event for [`Driver::acknowledged`]; `None` after a batch
    /// that acknowledged nothing.
    pub fn on_end_acks(&mut self, now: Instant, inflight_bytes: u64, app_limited: bool) -> Option<Ack> {
        let acked_bytes = std::mem::take(&mut self.acked_bytes);
        let sent = self.newest_sent.take()?;
        let prior_inflight_bytes = inflight_bytes + acked_bytes;
        // Linux counts a window as used from one half in slow start and nearly all of it after; two
        // segments more, because quinn stops two packets early.
        let used_bytes = prior_inflight_bytes + 2 * u64::from(self.path.mss_bytes);
        let is_limited = sender::uses_window(self.law.output(), used_bytes);
        self.path.inflight_bytes = inflight_bytes;
        let rtt_us = micros_u32(now.saturating_duration_since(sent)).max(1);
        if !self.has_sample {
            self.has_sample = true;
            self.path.srtt_us = rtt_us;
            self.path.min_rtt_us = rtt_us;
        }
        self.timeouts = 0;
        let round_start = self.round.is_none_or(|round| sent >= round);
        if round_start {
            self.round = Some(now);
        }
        let recovering = self.recovery.is_some_and(|recovery| sent <= recovery);
        let now_us = self.micros(now);
        let mut ack = Ack {
            now_us,
            acked_bytes,
            prior_inflight_bytes,
            ce_bytes: std::mem::take(&mut self.ce_bytes),
            rtt_us,
            app_limited: u8::from(!is_limited),
            round_start: u8::from(round_start),
            recovering: u8::from(recovering),
            last_rtt_us: rtt_us,
            rate: self.rate_sample(sent, now_us, acked_bytes, app_limited),
            ..Ack::default()
        };
        self.common.samples(&mut ack, self.path.mss_bytes, recovering);
        Some(ack)
    }

    /// The law hears of an acknowledgement.
    pub fn acknowledged(&mut self, ack: &Ack) {
        self.law.on_ack(ack, &self.path);
    }

    /// Packets were lost, or marked where `lost_bytes` is 0; the last of them left at `sent`.
    /// Returns whether the law was told: it reacts once a round trip (RFC 9002, 7.3.1), and hears of
    /// a mark with the next acknowledgement.
    pub fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        lost_bytes: u64,
    ) -> bool {
        self.path.inflight_bytes = self.path.inflight_bytes.saturating_sub(lost_bytes);
        if let Some(departures) = &mut self.departures {
            departures.rate.lost(lost_bytes);
            departures.inflight_bytes = departures.inflight_bytes.saturating_sub(lost_bytes);
        }
        if !is_persistent && self.recovery.is_some_and(|recovery| sent <= recovery) {
            return false;
        }
        if lost_bytes == 0 {
            self.ce_bytes = self.path.mss_bytes.into();
            return false;
        }
        self.recovery = Some(now);
        self.timeouts = if is_persistent { self.timeouts.saturating_add(1) } else { 0 };
        let loss = Loss {
            now_us: self.micros(now),
            lost_bytes,
            sent_us: self.micros(sent),
            kind: if is_persistent { Loss::TIMEOUT } else { Loss::DUPACK },
            timeouts: self.timeouts,
        };
        self.law.on_loss(&loss, &self.path);
        true
    }

    /// Packets hold `mtu` bytes from now on.
    pub fn on_mtu_update(&mut self, mtu: u16) {
        self.path.mss_bytes = mtu.into();
    }

    /// The window for quinn, in bytes. quinn sends while `in_flight + mtu < window`, so this is at
    /// least one byte more than a packet.
    pub fn window(&self) -> u64 {
        (self.law.output().cwnd_q16 >> 16).max(self.path.mss_bytes.into()) + 1
    }

    /// What quinn writes into its qlog.
    pub fn metrics(&self) -> ControllerMetrics {
        let output = self.law.output();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = output.cwnd_q16 >> 16;
        metrics.ssthresh = (output.ssthresh_bytes != u64::MAX).then_some(output.ssthresh_bytes);
        metrics.pacing_rate = match output.pacing_bytes_per_s {
            0 => None,
            rate => Some(rate.saturating_mul(8)),
        };
        metrics
    }

    fn rate_sample(&mut self, sent: Instant, now_us: u64, acked_bytes: u64, app_limited: bool) -> Rate {
        let Some(departures) = &mut self.departures else { return Rate::default() };
        departures.inflight_bytes = self.path.inflight_bytes;
        let mut is_newer = false;
        while let Some((_, stamp)) = departures.stamps.pop_front_if(|(departed, _)| *departed <= sent) {
            departures.newest = stamp;
            is_newer = true;
        }
        let mut sample =
            departures.rate.sample(&departures.newest, now_us, acked_bytes, self.path.min_rtt_us);
        if !is_newer {
            // A packet overtaken by one that was acknowledged before: its bytes count as delivered,
            // and the rate is that of the next sample.
            sample.interval_us = 0;
        }
        if app_limited {
            departures.rate.app_limited(departures.inflight_bytes);
        }
        sample
    }
}

fn micros_u32(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}
