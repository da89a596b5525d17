//! What goes into a law and what comes out: the structs of `control/leeway.h`, field by field.

/// What the path looks like now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Sent, neither acknowledged nor known lost, after the event.
    pub inflight_bytes: u64,
    /// One full segment as counted in the window; 1 to 65535, anything else is taken as the nearest of those.
    pub mss_bytes: u32,
    /// The stack's initial window (RFC 6928: ten segments).
    pub initial_window_bytes: u32,
    /// Smoothed round-trip time (RFC 6298) in microseconds; 0: no sample yet.
    pub srtt_us: u32,
    /// Smallest round-trip time of the connection in microseconds; 0: no sample yet.
    pub min_rtt_us: u32,
}

/// What one acknowledgement said.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Microseconds on any clock that does not go back.
    pub now_us: u64,
    /// Newly acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// In flight before it arrived.
    pub prior_inflight_bytes: u64,
    /// Newly reported as marked congestion-experienced.
    pub ce_bytes: u64,
    /// Round-trip sample in microseconds; 0: none.
    pub rtt_us: u32,
    /// Relative one-way delay modulo 2^32 microseconds: receiver clock - sender timestamp.
    pub owd_us: u32,
    /// Resolution of that sample's clocks in microseconds; 0: no one-way sample with this ack.
    pub owd_resolution_us: u32,
    /// 1: the window was not what limited sending.
    pub app_limited: u8,
    /// 1: the first ack of a round trip.
    pub round_start: u8,
    /// 1: loss recovery is under way: the law measures, may shrink, does not grow.
    pub recovering: u8,
    /// [`Ack::LAST_NONE`], [`Ack::LAST_EXACT`] or [`Ack::LAST_BOUND`]: what `last_rtt_us` says.
    pub last_kind: u8,
    /// Round-trip time of the newest segment newly acknowledged, by the sender's own clock, in microseconds.
    pub last_rtt_us: u32,
    /// Zero.
    pub reserved: u32,
    /// Delivery rate, where [`Law::needs_rate`](crate::Law::needs_rate); otherwise no sample.
    pub rate: Rate,
}

impl Ack {
    /// No sample of the newest segment: nothing new, or it was sent twice.
    pub const LAST_NONE: u8 = 0;
    /// The acknowledgement left when the segment arrived.
    pub const LAST_EXACT: u8 = 1;
    /// It may have waited for the receiver's timer: an upper bound.
    pub const LAST_BOUND: u8 = 2;
}

/// One delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, 3.3; draft-ietf-ccwg-bbr, 4.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// C.delivered: bytes that the connection has delivered, this acknowledgement included.
    pub delivered_bytes: u64,
    /// RS.prior_delivered: the same when the newest acknowledged segment left.
    pub prior_delivered_bytes: u64,
    /// C.lost: bytes that the connection has found lost.
    pub lost_bytes: u64,
    /// The same when the newest acknowledged segment left.
    pub prior_lost_bytes: u64,
    /// In flight right after that segment left, it included; 0: unknown.
    pub inflight_bytes: u64,
    /// In which `delivered_bytes - prior_delivered_bytes` came, in microseconds; 0: no sample.
    pub interval_us: u32,
    /// 1: the application was what limited sending then.
    pub app_limited: u32,
}

/// What one loss event said.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Microseconds on the clock of [`Ack::now_us`].
    pub now_us: u64,
    /// Bytes found lost by this event.
    pub lost_bytes: u64,
    /// When the first of the lost bytes was last sent.
    pub sent_us: u64,
    /// [`Loss::DUPACK`] or [`Loss::TIMEOUT`].
    pub kind: u32,
    /// Timeouts in a row, this one included; 0 for a duplicate-ack loss.
    pub timeouts: u32,
}

impl Loss {
    /// Fast retransmit: duplicate or selective acknowledgements.
    pub const DUPACK: u32 = 0;
    /// The retransmission timer expired.
    pub const TIMEOUT: u32 = 1;
}

/// A law's decision, kept up to date after every event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Window in bytes with 16 fractional bits; may be below one segment.
    pub cwnd_q16: u64,
    /// Slow-start threshold; [`Output::UNLIMITED`]: not set.
    pub ssthresh_bytes: u64,
    /// Pacing rate the law asks for; 0: none.
    pub pacing_bytes_per_s: u64,
    /// The law's estimate of the queuing delay in microseconds; 0 where it has none.
    pub queuing_delay_us: u32,
    /// A [`Phase`] as a number.
    pub phase: u32,
    /// A quantum leaves by then, whatever the pacing, in microseconds; 0: the pacing alone decides.
    pub probe_us: u64,
    /// Segments that leave together where the law paces; 0: one.
    pub quantum: u32,
    /// Zero.
    pub reserved: u32,
}

impl Output {
    /// A threshold that was never set.
    pub const UNLIMITED: u64 = u64::MAX;

    /// The window in bytes with its fraction.
    pub fn window_bytes_f64(&self) -> f64 {
        self.cwnd_q16 as f64 / 65536.0
    }

    /// The phase as an enum.
    pub fn phase(&self) -> Phase {
        Phase::from(self.phase)
    }
}

/// What a law is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Doubling every round trip, up to the threshold.
    SlowStart,
    /// Congestion avoidance, or the law's own steady state.
    Avoidance,
    /// Decreasing because the delay is above the target.
    Yielding,
    /// Holding still to see whether others are there (TCP-LP).
    Inference,
    /// Periodic slowdown to see the base delay (LEDBAT++).
    Slowdown,
    /// The queue fell sharply: somebody else lost packets (FLOWER).
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

    /// The name as it appears in series and legends.
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
    /// A number that no phase has is [`Phase::Avoidance`].
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
