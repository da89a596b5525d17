//! What all senders do around a law: the functions of `control/leeway_sender.h` and `control/leeway_rate.h`.
//!
//! For stacks in Rust (the simulator, the tunnel); the kernel's glue includes the same headers.

use crate::abi::{Ack, Output, Rate};
use crate::ffi;

/// One connection's sending side: pacing, marks, the window after idling, what round-trip samples are worth.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Limit of the window after idling (RFC 5681, 4.1), in bytes; `u64::MAX`: none.
    restart_bytes: u64,
    departure_ns: u64,
    sent_ns: u64,
    mark_end: u32,
    quantum_left: u32,
    least: u16,
    delays_acks: u16,
    reserved: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Sender {
            restart_bytes: u64::MAX,
            departure_ns: 0,
            sent_ns: 0,
            mark_end: 0,
            quantum_left: 0,
            least: 1,
            delays_acks: 0,
            reserved: 0,
        }
    }
}

impl Sender {
    /// The connection was idle for longer than its retransmission timeout (RFC 5681, 4.1).
    #[inline]
    pub fn idle(&mut self, initial_window_bytes: u32) {
        self.restart_bytes = initial_window_bytes.into();
    }

    /// Whether the window is a rate, because it holds less than leaves together; see [`Sender::gap_ns`].
    #[inline]
    pub fn is_slow(&self, output: &Output, mss_bytes: u32) -> bool {
        output.pacing_bytes_per_s == 0 && output.cwnd_q16 >> 16 < u64::from(self.least) * u64::from(mss_bytes)
    }

    /// Bytes that may be in flight. A law that paces is held by its rate: its window leaves room for a quantum that is
    /// about to leave, and for one segment whose ack waits. A window that is a rate holds what leaves together.
    #[inline]
    pub fn window(&self, output: &Output, mss_bytes: u32) -> u64 {
        let mss = u64::from(mss_bytes);
        let window = match (output.pacing_bytes_per_s, output.quantum.min(1000)) {
            (0, _) => (output.cwnd_q16 >> 16).max(u64::from(self.least) * mss),
            (_, 0 | 1) => (output.cwnd_q16 >> 16) + mss,
            (_, segments) => (output.cwnd_q16 >> 16) + u64::from(segments + 1) * mss,
        };
        window.min(self.restart_bytes)
    }

    /// Whether a part of a quantum has left, so that the rest leaves at once.
    #[inline]
    pub fn is_within_quantum(&self) -> bool {
        self.quantum_left != 0
    }

    /// What lies between the beginnings of two quanta where the window is a rate, in nanoseconds.
    pub fn gap_ns(&self, output: &Output, mss_bytes: u32, srtt_ns: u64) -> u64 {
        ffi::sender_gap_ns(self, output, mss_bytes, srtt_ns)
    }

    /// Whether the law is told that its window was not the limit, where `limited` says that the window is what stopped
    /// the sender. Call it for every acknowledgement.
    #[inline]
    pub fn app_limited(&mut self, output: &Output, acked_bytes: u64, limited: bool) -> bool {
        ffi::sender_app_limited(self, output, acked_bytes, limited)
    }

    /// Whether the law hears of the ECN echo of an acknowledgement up to `una`, while `next` is sent next: one in a
    /// window of data (RFC 3168, 6.1.2).
    #[inline]
    pub fn marked(&mut self, una: u32, next: u32) -> bool {
        ffi::sender_marked(self, una, next)
    }

    /// Keeps of `ack` the samples that are worth something, and sets its `last_kind`. Call it for every acknowledgement,
    /// with all other fields set: `rtt_us` and `owd_us` are those of the echoed segment. `repairs`: a hole is open, or
    /// closes with this acknowledgement.
    #[inline]
    pub fn samples(&mut self, ack: &mut Ack, mss_bytes: u32, repairs: bool) {
        ffi::sender_samples(self, ack, mss_bytes, repairs)
    }

    /// A segment of `bytes` leaves, paced at `rate` bytes/s; 0: nothing paces.
    #[inline]
    pub fn sent(&mut self, output: &Output, mss_bytes: u32, now_ns: u64, bytes: u64, rate: u64) {
        if rate != 0 || self.quantum_left != 0 || self.least != 1 {
            ffi::sender_sent(self, output, mss_bytes, now_ns, bytes, rate);
        }
    }

    /// When the next segment may leave as far as pacing goes, in nanoseconds.
    #[inline]
    pub fn departure_ns(&self, output: &Output) -> u64 {
        if self.departure_ns == 0 { 0 } else { ffi::sender_departure_ns(self, output) }
    }
}

/// `percent` of `bytes` each `srtt_us`, in bytes/s; 0 without a round-trip time.
pub fn pace(bytes: u64, percent: u32, srtt_us: u64) -> u64 {
    ffi::pace(bytes, percent, srtt_us)
}

/// What a stack that paces gives a law that does not, in bytes/s (Linux, tcp_update_pacing_rate): 2 windows each round
/// trip in slow start, 1.2 after.
pub fn pace_stack(bytes: u64, window_bytes: u64, ssthresh_bytes: u64, srtt_us: u64) -> u64 {
    ffi::pace_stack(bytes, window_bytes, ssthresh_bytes, srtt_us)
}

/// Whether `used_bytes` are a used window: nearly all of it, or half of it in slow start (RFC 7661).
pub fn uses_window(output: &Output, used_bytes: u64) -> bool {
    ffi::uses_window(output, used_bytes)
}

/// Delivery rate of a connection (draft-cheng-iccrg-delivery-rate-estimation): `C.*`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateState {
    delivered_bytes: u64,
    delivered_us: u64,
    first_sent_us: u64,
    lost_bytes: u64,
    app_limited_bytes: u64,
}

/// What a segment remembers of its departure: `P.*`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateStamp {
    delivered_bytes: u64,
    delivered_us: u64,
    first_sent_us: u64,
    sent_us: u64,
    lost_bytes: u64,
    inflight_bytes: u64,
    app_limited: u64,
}

impl RateState {
    /// A segment of `bytes` leaves while `inflight_bytes` are in flight.
    pub fn sent(&mut self, now_us: u64, inflight_bytes: u64, bytes: u64) -> RateStamp {
        let mut stamp = RateStamp::default();
        ffi::rate_sent(self, &mut stamp, now_us, inflight_bytes, bytes);
        stamp
    }

    /// There is nothing to send although the window would let it go.
    pub fn app_limited(&mut self, inflight_bytes: u64) {
        ffi::rate_app_limited(self, inflight_bytes);
    }

    /// So many bytes were found lost.
    pub fn lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes;
    }

    /// An acknowledgement of `acked_bytes`; `stamp` is that of the segment sent last among them.
    pub fn sample(&mut self, stamp: &RateStamp, now_us: u64, acked_bytes: u64, min_rtt_us: u32) -> Rate {
        ffi::rate_sample(self, stamp, now_us, acked_bytes, min_rtt_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(window: u64, rate: u64, quantum: u32) -> Output {
        Output { cwnd_q16: window << 16, pacing_bytes_per_s: rate, quantum, ..Output::default() }
    }

    #[test]
    fn layout_is_that_of_the_header() {
        assert_eq!((size_of::<Sender>(), size_of::<RateState>(), size_of::<RateStamp>()), (40, 40, 56));
        assert!(ffi::sender_default() == Sender::default());
    }

    #[test]
    fn a_quantum_leaves_at_once_and_pays_for_all_of_it() {
        let (out, mut sender) = (output(10_000, 1_000_000, 2), Sender::default());
        let mut left = vec![];
        let mut now_ns = 5_000_000;
        for _ in 0..6 {
            now_ns = now_ns.max(sender.departure_ns(&out));
            left.push(now_ns / 1_000_000);
            sender.sent(&out, 1000, now_ns, 1000, out.pacing_bytes_per_s);
        }
        assert_eq!(left, [5, 5, 7, 7, 9, 9]);
        let early = Output { probe_us: 9_500, ..out };
        assert_eq!((sender.departure_ns(&early), sender.departure_ns(&out)), (9_500_000, 11_000_000));
        sender.sent(&early, 1000, 9_500_000, 1000, 1_000_000);
        sender.sent(&early, 1000, 9_500_000, 1000, 1_000_000);
        assert_eq!(sender.departure_ns(&early), 11_500_000, "a probe leaves once");
    }

    #[test]
    fn a_window_below_what_leaves_together_is_a_rate() {
        // A fiftieth of a segment, 100 ms: a segment each five seconds.
        let out = Output { cwnd_q16: (1500 << 16) / 50, ..Output::default() };
        let mut sender = Sender::default();
        let gap = sender.gap_ns(&out, 1500, 100_000_000);
        assert!(gap.abs_diff(5_000_000_000) < 100_000, "{gap}");
        assert_eq!(sender.gap_ns(&Output { cwnd_q16: 1, ..out }, 65535, u64::MAX), 1 << 62);
        assert!(sender.is_slow(&out, 1500) && !sender.is_slow(&output(1500, 0, 0), 1500));
        // Where the receiver answers two segments at once, two leave, and half as often.
        sender.samples(&mut Ack { acked_bytes: 3000, ..Ack::default() }, 1500, false);
        let gap = sender.gap_ns(&out, 1500, 100_000_000);
        assert!(gap.abs_diff(10_000_000_000) < 200_000, "{gap}");
        assert_eq!(sender.window(&out, 1500), 3000);
        sender.sent(&out, 1500, 0, 1500, 0);
        assert!(sender.is_within_quantum());
        sender.sent(&out, 1500, 0, 1500, 0);
        assert!(!sender.is_within_quantum());
        assert!(sender.is_slow(&output(2999, 0, 0), 1500) && !sender.is_slow(&output(3000, 0, 0), 1500));
        assert!(!sender.is_slow(&output(1500, 1_000, 0), 1500), "a law that paces has its own quantum");
    }

    #[test]
    fn a_lone_segment_of_a_receiver_that_delays_is_no_sample() {
        let mut sender = Sender::default();
        let echoed = Ack { rtt_us: 50_000, owd_us: 30_000, owd_resolution_us: 1000, ..Ack::default() };
        let mut take = |segments: u64, last_rtt_us, in_flight: u64, repairs| {
            let (acked_bytes, prior_inflight_bytes) = (segments * 1000, in_flight * 1000);
            let mut ack = Ack { acked_bytes, last_rtt_us, prior_inflight_bytes, ..echoed };
            sender.samples(&mut ack, 1000, repairs);
            (ack.last_kind, ack.rtt_us, ack.owd_us, ack.owd_resolution_us)
        };
        let exact = (Ack::LAST_EXACT, 50_000, 30_000, 1000);
        assert_eq!(take(1, 50_000, 1, false), exact, "nobody delays yet");
        assert_eq!(take(2, 45_000, 2, true).0, Ack::LAST_EXACT);
        assert_eq!(take(1, 50_000, 1, false), exact, "a hole was filled, nobody delays");
        // The second of two left 5 ms after the first, which is echoed.
        assert_eq!(take(2, 45_000, 2, false), (Ack::LAST_EXACT, 45_000, 25_000, 1000));
        for _ in 0..9 {
            let (kind, rtt_us, _, resolution_us) = take(1, 50_000, 1, false);
            assert_eq!((kind, rtt_us, resolution_us), (Ack::LAST_BOUND, 0, 0));
        }
        assert_eq!(take(1, 50_000, 1, true), exact, "a hole is answered at once");
        assert_eq!(take(2, 0, 2, false), (Ack::LAST_NONE, 50_000, 30_000, 1000), "sent twice");
        // One that has two segments, and answers each of them, does not wait for a second one.
        (0..4).for_each(|_| assert_eq!(take(1, 50_000, 2, false).0, Ack::LAST_BOUND));
        assert_eq!(take(1, 50_000, 2, false), exact);
        assert_eq!(take(1, 50_000, 1, false), exact);
        assert_eq!(sender.window(&output(1000, 0, 0), 1000), 2000, "it may delay again");
    }

    #[test]
    fn the_window_after_idling_grows_with_what_is_acknowledged() {
        let (out, mut sender) = (output(30_000, 0, 0), Sender::default());
        assert!(!sender.app_limited(&out, 1000, true));
        sender.idle(10_000);
        assert_eq!(sender.window(&out, 1000), 10_000);
        assert!(sender.app_limited(&out, 19_000, true));
        assert_eq!(sender.window(&out, 1000), 29_000);
        assert!(!sender.app_limited(&out, 1000, true));
        assert_eq!(sender.window(&out, 1000), 30_000);
    }

    #[test]
    fn one_mark_counts_in_a_window_of_data() {
        let mut sender = Sender::default();
        assert!(sender.marked(1, 20));
        assert!(!sender.marked(19, 40));
        assert!(sender.marked(20, 41));
        let mut wrapped = Sender { mark_end: u32::MAX - 1, ..Sender::default() };
        assert!(!wrapped.marked(u32::MAX - 2, 7) && wrapped.marked(3, 7));
    }

    #[test]
    fn the_rate_is_that_of_the_link_whatever_bunches_acknowledgements() {
        // 1000 B each 10 ms leave the link; all left the host at once, and come back in one acknowledgement of ten.
        let mut state = RateState::default();
        let stamps: Vec<_> = (0..20).map(|n| state.sent(0, n * 1000, 1000)).collect();
        let first = state.sample(&stamps[9], 200_000, 10_000, 100_000);
        assert_eq!((first.delivered_bytes, first.interval_us), (10_000, 200_000));
        let again = state.sent(200_000, 10_000, 1000);
        state.sample(&stamps[19], 300_000, 10_000, 100_000);
        state.lost(500);
        let sample = state.sample(&again, 310_000, 1000, 100_000);
        assert_eq!((sample.delivered_bytes, sample.prior_delivered_bytes), (21_000, 10_000));
        assert_eq!((sample.interval_us, sample.inflight_bytes, sample.app_limited), (200_000, 11_000, 0));
        assert_eq!((sample.lost_bytes, sample.prior_lost_bytes), (500, 0));
        state.app_limited(0);
        let limited = state.sent(400_000, 0, 1000);
        assert_eq!(
            state.sample(&limited, 450_000, 1000, 100_000).interval_us,
            0,
            "shorter than a round trip"
        );
        assert_eq!(state.sample(&limited, 500_000, 1000, 100_000).app_limited, 1);
    }
}
