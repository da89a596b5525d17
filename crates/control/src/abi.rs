//! Inputs and output of a law: the structs of `control/leeway.h`, field by field.

/// State of the path.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Bytes in flight after the event.
    pub inflight_bytes: u64,
    /// Segment size in which the window is counted, from 1 to 65535. A value outside counts as the
    /// nearest bound.
    pub mss_bytes: u32,
    /// The stack's initial window (RFC 6928: ten segments).
    pub initial_window_bytes: u32,
    /// Smoothed round-trip time (RFC 6298). Unit: µs. 0: no sample yet.
    pub srtt_us: u32,
    /// Smallest round-trip time of the connection. Unit: µs. 0: no sample yet.
    pub min_rtt_us: u32,
}

/// One acknowledgement.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Time on any clock that does not go back. Unit: µs.
    pub now_us: u64,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// Bytes in flight before the acknowledgement arrived.
    pub prior_inflight_bytes: u64,
    /// Bytes newly reported as marked CE (RFC 3168).
    pub ce_bytes: u64,
    /// Round-trip sample. Unit: µs. 0: no sample.
    pub rtt_us: u32,
    /// One-way delay plus the offset of the clocks: receiver's clock less sender's timestamp.
    /// Unit: µs modulo 2^32.
    pub owd_us: u32,
    /// Resolution of the clocks of `owd_us`. Unit: µs. 0: this acknowledgement has no one-way
    /// sample.
    pub owd_resolution_us: u32,
    /// 1: the window was not what limited the sender (app-limited).
    pub app_limited: u8,
    /// 1: this is the first acknowledgement of a round trip.
    pub round_start: u8,
    /// 1: the connection is in loss recovery. The law measures and may shrink its window, but does
    /// not grow it.
    pub recovering: u8,
    /// Kind of `last_rtt_us`: [`Ack::LAST_NONE`], [`Ack::LAST_EXACT`] or [`Ack::LAST_BOUND`].
    pub last_kind: u8,
    /// Round-trip time of the newest segment that is newly acknowledged, by the sender's own
    /// clock. Unit: µs.
    pub last_rtt_us: u32,
    /// Always 0.
    pub reserved: u32,
    /// Delivery rate, if [`Law::needs_rate`](crate::Law::needs_rate); otherwise no sample.
    pub rate: Rate,
}

impl Ack {
    /// No sample: no segment is newly acknowledged, or the newest one was retransmitted.
    pub const LAST_NONE: u8 = 0;
    /// The receiver acknowledged the segment when it arrived.
    pub const LAST_EXACT: u8 = 1;
    /// The acknowledgement may have waited for the receiver's timer, so the time is an upper
    /// bound.
    pub const LAST_BOUND: u8 = 2;
}

/// One delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, 3.3; draft-ietf-ccwg-bbr, 4.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// `C.delivered`: bytes that the connection has delivered, including this acknowledgement.
    pub delivered_bytes: u64,
    /// `RS.prior_delivered`: the same when the newest acknowledged segment was sent.
    pub prior_delivered_bytes: u64,
    /// `C.lost`: bytes that the connection has found lost.
    pub lost_bytes: u64,
    /// The same when the newest acknowledged segment was sent.
    pub prior_lost_bytes: u64,
    /// Bytes in flight right after that segment was sent, including it. 0: unknown.
    pub inflight_bytes: u64,
    /// Time in which `delivered_bytes - prior_delivered_bytes` were delivered. Unit: µs. 0: no
    /// sample.
    pub interval_us: u32,
    /// 1: the sender was app-limited then.
    pub app_limited: u32,
}

/// One loss event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Time on the clock of [`Ack::now_us`]. Unit: µs.
    pub now_us: u64,
    /// Bytes found lost by this event.
    pub lost_bytes: u64,
    /// When the first of the lost bytes was last sent. Unit: µs.
    pub sent_us: u64,
    /// [`Loss::DUPACK`] or [`Loss::TIMEOUT`].
    pub kind: u32,
    /// Timeouts in a row, including this one; 0 if the kind is [`Loss::DUPACK`].
    pub timeouts: u32,
}

impl Loss {
    /// Found by duplicate or selective acknowledgements (fast retransmit).
    pub const DUPACK: u32 = 0;
    /// Found by expiry of the retransmission timer.
    pub const TIMEOUT: u32 = 1;
}

/// The law's decision, updated after every event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Congestion window in bytes with 16 fractional bits. It may be below one segment.
    pub cwnd_q16: u64,
    /// Slow-start threshold in bytes; [`Output::UNLIMITED`] if not set.
    pub ssthresh_bytes: u64,
    /// Pacing rate that the law asks for. Unit: bytes/s. 0: the law does not pace.
    pub pacing_bytes_per_s: u64,
    /// The law's estimate of the queuing delay. Unit: µs. 0 if the law has none.
    pub queuing_delay_us: u32,
    /// The phase, as the number of a [`Phase`].
    pub phase: u32,
    /// Time by which a quantum is sent even if pacing does not allow it. Unit: µs. 0: none.
    pub probe_us: u64,
    /// Segments that are sent together if the law paces (quantum). 0: one.
    pub quantum: u32,
    /// Always 0.
    pub reserved: u32,
}

impl Output {
    /// A slow-start threshold that was never set.
    pub const UNLIMITED: u64 = u64::MAX;

    /// The window in bytes, with its fraction.
    pub fn window_bytes_f64(&self) -> f64 {
        self.cwnd_q16 as f64 / 65536.0
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        Phase::from(self.phase)
    }
}

/// What a law is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Slow start: the window doubles in each round trip, up to the threshold.
    SlowStart,
    /// Congestion avoidance, or the law's own steady state.
    Avoidance,
    /// Decreases, because the delay is above the target.
    Yielding,
    /// Holds its window to find out whether other flows are there (TCP-LP).
    Inference,
    /// Periodic slowdown to measure the base delay (LEDBAT++).
    Slowdown,
    /// Loss zone: the queue fell sharply, so another flow has lost packets (FLOWER).
    LossZone,
}

impl Phase {
    /// All phases, in the order of their numbers.
    pub const ALL: [Phase; 6] = [
        Phase::SlowStart,
        Phase::Avoidance,
        Phase::Yielding,
        Phase::Inference,
        Phase::Slowdown,
        Phase::LossZone,
    ];

    /// Name in series and legends.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::SlowStart => "slow_start",
            Phase::Avoidance => "avoidance",
            Phase::Yielding => "yielding",
            Phase::Inference => "inference",
            Phase::Slowdown => "slowdown",
            Phase::LossZone => "loss_zone",
        }
    }
}

impl From<u32> for Phase {
    /// The phase with this number; [`Phase::Avoidance`] if there is none.
    fn from(number: u32) -> Phase {
        *Phase::ALL.get(number as usize).unwrap_or(&Phase::Avoidance)
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn layout_is_that_of_the_header() {
        assert_eq!((size_of::<Path>(), align_of::<Path>()), (24, 8));
        assert_eq!((size_of::<Ack>(), offset_of!(Ack, rtt_us), offset_of!(Ack, app_limited)), (104, 32, 44));
        assert_eq!((offset_of!(Ack, last_rtt_us), offset_of!(Ack, rate), size_of::<Rate>()), (48, 56, 48));
        assert_eq!((size_of::<Loss>(), offset_of!(Loss, kind)), (32, 24));
        assert_eq!((size_of::<Output>(), offset_of!(Output, phase)), (48, 28));
    }

    #[test]
    fn phases_number_like_the_header() {
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!((phase as usize, Phase::from(number as u32)), (number, phase));
        }
        assert_eq!(Phase::from(77), Phase::Avoidance);
    }
}
