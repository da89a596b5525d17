//! What every sender does around a law: pacing, ECN, the window after idling, delivery rates.
//!
//! The functions are those of `control/leeway_sender.h` and `control/leeway_rate.h`, for stacks in
//! Rust (simulator, tunnel). The kernel module includes the same headers.

use crate::abi::{Ack, Output, Rate};
use crate::ffi;

/// State of one connection's sender: pacing, ECN marks, the window after idling, delays of the
/// receiver's timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Limit of the window after idling (RFC 5681, 4.1). Unit: bytes. `u64::MAX`: no limit.
    restart_bytes: u64,
    departure_ns: u64,
    sent_ns: u64,
    mark_end: u32,
    quantum_left: u32,
    delays_acks: u32,
    answered_us: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Sender {
            restart_bytes: u64::MAX,
            departure_ns: 0,
            sent_ns: 0,
            mark_end: 0,
            quantum_left: 0,
            delays_acks: 0,
            answered_us: 0,
        }
    }
}

impl Sender {
    /// The connection has been idle for longer than its retransmission timeout (RFC 5681, 4.1).
    #[inline]
    pub fn idle(&mut self, initial_window_bytes: u32) {
        self.restart_bytes = initial_window_bytes.into();
    }

    /// Bytes that may be in flight. Below one segment the window is a rate; see
    /// [`gap_below_one_ns`]. A law that paces is limited by its pacing rate. So its window leaves
    /// room for one quantum that is about to be sent, and for one segment whose acknowledgement is
    /// delayed.
    #[inline]
    pub fn window(&self, output: &Output, mss_bytes: u32) -> u64 {
        let window = output.cwnd_q16 >> 16;
        let room = match (output.pacing_bytes_per_s, output.quantum.min(1000)) {
            (0, _) => 0,
            (_, 0 | 1) => 1,
            (_, segments) => u64::from(segments) + 1,
        };
        (window + room * u64::from(mss_bytes)).min(self.restart_bytes)
    }

    /// Whether to tell the law that its window was not the limit (app-limited). `limited`: the
    /// window stopped the sender. Has to be called for every acknowledgement.
    #[inline]
    pub fn app_limited(&mut self, output: &Output, acked_bytes: u64, limited: bool) -> bool {
        ffi::sender_app_limited(self, output, acked_bytes, limited)
    }

    /// Whether to tell the law of an ECN echo in an acknowledgement up to `una`, while `next` is
    /// the next segment to send. It is told of one echo in a window of data (RFC 3168, 6.1.2).
    #[inline]
    pub fn marked(&mut self, una: u32, next: u32) -> bool {
        ffi::sender_marked(self, una, next)
    }

    /// Whether the round-trip time of the newest acknowledged segment is exact
    /// ([`Ack::LAST_EXACT`](crate::Ack::LAST_EXACT)) or an upper bound
    /// ([`Ack::LAST_BOUND`](crate::Ack::LAST_BOUND)). Has to be called for every acknowledgement.
    #[inline]
    pub fn last_kind(&mut self, acked_bytes: u64, mss_bytes: u32, recovering: bool) -> u8 {
        ffi::sender_last(self, acked_bytes, mss_bytes, recovering)
    }

    /// Whether the acknowledgement has waited for the receiver's delayed-acknowledgement timer. If
    /// so, its delays are no samples, unless the window is below one segment. Has to be called for
    /// every acknowledgement, if the receiver may delay them.
    #[inline]
    pub fn waited(&mut self, ack: &Ack, mss_bytes: u32) -> bool {
        ffi::sender_waited(self, ack, mss_bytes)
    }

    /// A segment of `bytes` is sent, paced at `rate` bytes/s; 0 without pacing.
    #[inline]
    pub fn sent(&mut self, output: &Output, now_ns: u64, bytes: u64, rate: u64) {
        if rate != 0 || self.quantum_left != 0 {
            ffi::sender_sent(self, output, now_ns, bytes, rate);
        }
    }

    /// Earliest time at which pacing allows the next segment. Unit: ns.
    #[inline]
    pub fn departure_ns(&self, output: &Output) -> u64 {
        if self.departure_ns == 0 { 0 } else { ffi::sender_departure_ns(self, output) }
    }
}

/// Whether a window of one to two segments is sent in pairs: two segments every 2/W round trips,
/// with nothing else in flight. Such a window is, because a receiver that delays acknowledgements
/// holds back that of a lone segment, and acknowledges a pair at once.
///
/// `srtt` is 0 before the first sample, in any unit. `recovering`: a loss is being repaired, so
/// the receiver acknowledges every segment at once.
pub fn in_pairs(output: &Output, mss_bytes: u32, srtt: u64, recovering: bool) -> bool {
    ffi::in_pairs(output.cwnd_q16 >> 16, output.pacing_bytes_per_s, mss_bytes, srtt, recovering)
}

/// `percent` of `bytes` in each `srtt_us`. Unit: bytes/s. 0 without a round-trip time.
pub fn pace(bytes: u64, percent: u32, srtt_us: u64) -> u64 {
    ffi::pace(bytes, percent, srtt_us)
}

/// Pacing rate that a stack gives to a law which asks for none (Linux, `tcp_update_pacing_rate`):
/// 2 windows a round trip in slow start, 1.2 after. Unit: bytes/s.
pub fn pace_stack(bytes: u64, window_bytes: u64, ssthresh_bytes: u64, srtt_us: u64) -> u64 {
    ffi::pace_stack(bytes, window_bytes, ssthresh_bytes, srtt_us)
}

/// Time between two segments if the window is a rate: one segment every 1/W round trips. Unit: ns.
pub fn gap_below_one_ns(output: &Output, mss_bytes: u32, srtt_ns: u64) -> u64 {
    ffi::gap_below_one_ns(output, mss_bytes, srtt_ns)
}

/// Whether `used_bytes` use the window: nearly all of it, or half of it in slow start (RFC 7661).
pub fn uses_window(output: &Output, used_bytes: u64) -> bool {
    ffi::uses_window(output, used_bytes)
}

/// State of the delivery-rate estimation of a connection
/// (draft-cheng-iccrg-delivery-rate-estimation): its variables `C.*`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateState {
    delivered_bytes: u64,
    delivered_us: u64,
    first_sent_us: u64,
    lost_bytes: u64,
    app_limited_bytes: u64,
}

/// State of the estimation when a segment was sent: the draft's variables `P.*`.
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
    /// A segment of `bytes` is sent, while `inflight_bytes` are in flight. Returns its stamp.
    pub fn sent(&mut self, now_us: u64, inflight_bytes: u64, bytes: u64) -> RateStamp {
        let mut stamp = RateStamp::default();
        ffi::rate_sent(self, &mut stamp, now_us, inflight_bytes, bytes);
        stamp
    }

    /// The sender has nothing to send, although the window has room (app-limited).
    pub fn app_limited(&mut self, inflight_bytes: u64) {
        ffi::rate_app_limited(self, inflight_bytes);
    }

    /// `bytes` were found lost.
    pub fn lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes;
    }

    /// The sample of an acknowledgement of `acked_bytes`. `stamp` is that of the acknowledged
    /// segment which was sent last.
    pub fn sample(&mut self, stamp: &RateStamp, now_us: u64, acked_bytes: u64, min_rtt_us: u32) -> Rate {
        ffi::rate_sample(self, stamp, now_us, acked_bytes, min_rtt_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ack, Phase};

    fn output(window: u64, rate: u64, quantum: u32) -> Output {
        Output { cwnd_q16: window << 16, pacing_bytes_per_s: rate, quantum, ..Output::default() }
    }

    #[test]
    fn layout_is_that_of_the_header() {
        assert_eq!((size_of::<Sender>(), size_of::<RateState>(), size_of::<RateStamp>()), (40, 40, 56));
    }

    #[test]
    fn a_sender_begins_anew_whatever_it_was() {
        let mut sender = Sender {
            restart_bytes: 1,
            departure_ns: 2,
            sent_ns: 3,
            mark_end: 4,
            quantum_left: 5,
            delays_acks: 6,
            answered_us: 7,
        };
        ffi::sender_init(&mut sender);
        assert_eq!(sender, Sender::default());
    }

    #[test]
    fn a_pace_is_a_part_of_the_window_each_round_trip() {
        assert_eq!(pace(10_000, 120, 100_000), 120_000);
        assert_eq!(pace(1, 100, 1), 1_000_000);
        assert_eq!(pace(10_000, 120, 0), 0, "nothing paces without a round trip");
        assert_eq!(pace(u64::MAX, 100, 1_000_000), 1 << 39, "the largest window");
        for (window, expected) in [(4999, 200_000), (5000, 120_000), (20_000, 120_000)] {
            assert_eq!(pace_stack(10_000, window, 10_000, 100_000), expected, "{window} B");
        }
    }

    #[test]
    fn a_window_is_used_when_it_is_full_or_half_full_in_slow_start() {
        let [begun, later] = [Phase::SlowStart, Phase::Avoidance]
            .map(|phase| Output { phase: phase as u32, ..output(1001, 0, 0) });
        for (used, full, half) in
            [(500, false, false), (501, false, true), (1000, false, true), (1001, true, true)]
        {
            assert_eq!(uses_window(&later, used), full, "{used} B");
            assert_eq!(uses_window(&begun, used), half, "{used} B in slow start");
        }
    }

    #[test]
    fn a_quantum_leaves_at_once_and_pays_for_all_of_it() {
        let (out, mut sender) = (output(10_000, 1_000_000, 2), Sender::default());
        let mut left = vec![];
        let mut now_ns = 5_000_000;
        for _ in 0..6 {
            now_ns = now_ns.max(sender.departure_ns(&out));
            left.push(now_ns / 1_000_000);
            sender.sent(&out, now_ns, 1000, out.pacing_bytes_per_s);
        }
        assert_eq!(left, [5, 5, 7, 7, 9, 9]);
        let early = Output { probe_us: 9_500, ..out };
        assert_eq!((sender.departure_ns(&early), sender.departure_ns(&out)), (9_500_000, 11_000_000));
        sender.sent(&early, 9_500_000, 1000, 1_000_000);
        sender.sent(&early, 9_500_000, 1000, 1_000_000);
        assert_eq!(sender.departure_ns(&early), 11_500_000, "a probe leaves once");
    }

    #[test]
    fn what_does_not_pace_ends_a_quantum_and_moves_no_departure() {
        let (out, mut sender) = (output(10_000, 1_000_000, 3), Sender::default());
        sender.sent(&out, 5_000_000, 1000, 1_000_000);
        assert_eq!(sender.departure_ns(&out), 0, "two more of the quantum");
        sender.sent(&out, 5_000_000, 1000, 0);
        assert_eq!(sender.departure_ns(&out), 6_000_000);
        // A law that does not pace has no quantum, even if the stack paces.
        let mut sender = Sender::default();
        sender.sent(&output(10_000, 0, 3), 5_000_000, 1000, 1_000_000);
        assert_eq!(sender.departure_ns(&out), 6_000_000);
        let (none, mut sender) = (output(10_000, 1_000_000, 0), Sender::default());
        sender.sent(&none, 5_000_000, u64::MAX, 1_000_000_000);
        assert_eq!(sender.departure_ns(&none), 5_000_000 + (1 << 32), "4 GiB at most");
    }

    #[test]
    fn what_leaves_early_moves_the_departure_by_its_own_time() {
        let (out, mut sender) = (output(10_000, 1_000_000, 1), Sender::default());
        sender.sent(&out, 0, 1000, 1_000_000);
        sender.sent(&out, 0, 1000, 1_000_000);
        assert_eq!(sender.departure_ns(&out), 2_000_000);
        let never = Output { probe_us: u64::MAX / 1000 + 2, ..out };
        assert_eq!(sender.departure_ns(&never), 2_000_000, "a probe beyond all nanoseconds");
    }

    #[test]
    fn below_one_segment_the_window_is_a_rate() {
        // A fiftieth of a segment in 100 ms is a segment every 5 s.
        let out = Output { cwnd_q16: (1500 << 16) / 50, ..Output::default() };
        let gap = gap_below_one_ns(&out, 1500, 100_000_000);
        assert!(gap.abs_diff(5_000_000_000) < 100_000, "{gap}");
        let least = |cwnd_q16: u64| Output { cwnd_q16, ..out };
        assert_eq!(gap_below_one_ns(&least(1), 65535, u64::MAX), 1 << 62);
        // At the bound, and half above it.
        for mss_bytes in [512, 768] {
            assert_eq!(gap_below_one_ns(&least(2), mss_bytes, (1 << 38) + 1), 1 << 62, "{mss_bytes} B");
        }
        assert_eq!(gap_below_one_ns(&least(0), 1, 1), 1 << 16, "no window counts as the least");
        let slow = gap_below_one_ns(&output(1000, 0, 0), 1000, u64::MAX);
        assert!(slow.abs_diff(1 << 38) < 1000 << 16, "round trips of 275 s at most: {slow}");
    }

    #[test]
    fn samples_of_single_segments_are_bounds_where_acknowledgements_are_delayed() {
        let mut sender = Sender::default();
        assert_eq!(sender.last_kind(1000, 1000, false), Ack::LAST_EXACT, "nobody delays yet");
        assert_eq!(sender.last_kind(999, 1000, false), Ack::LAST_BOUND, "it is not full, and may be delayed");
        assert_eq!(sender.last_kind(2000, 1000, true), Ack::LAST_EXACT);
        assert_eq!(sender.last_kind(1000, 1000, false), Ack::LAST_EXACT, "a hole was filled, nobody delays");
        assert_eq!(sender.last_kind(2000, 1000, false), Ack::LAST_EXACT);
        assert_eq!(sender.last_kind(1000, 1000, false), Ack::LAST_BOUND);
        assert_eq!(sender.last_kind(1000, 1000, true), Ack::LAST_EXACT, "recovery answers at once");
    }

    #[test]
    fn what_waited_for_the_timer_is_late_and_alone_in_a_small_flight() {
        let ack = |last_kind: u8, last_rtt_us: u32, segments: u64| Ack {
            last_kind,
            last_rtt_us,
            prior_inflight_bytes: segments * 1000,
            ..Ack::default()
        };
        let mut sender = Sender::default();
        assert!(!sender.waited(&ack(Ack::LAST_BOUND, 90_000, 1), 1000), "nothing to compare with yet");
        assert!(!sender.waited(&ack(Ack::LAST_EXACT, 50_000, 2), 1000));
        for (late_us, segments, waited) in
            [(40_000, 1, true), (30_000, 4, true), (29_999, 1, false), (40_000, 5, false), (0, 1, false)]
        {
            let told = ack(Ack::LAST_BOUND, 50_000 + late_us, segments);
            assert_eq!(sender.waited(&told, 1000), waited, "{late_us} us late, {segments} segments");
        }
        assert!(!sender.waited(&ack(Ack::LAST_BOUND, 49_000, 1), 1000), "earlier than the last one");
        assert!(!sender.waited(&ack(Ack::LAST_EXACT, 90_000, 2), 1000), "a queue has grown");
        assert!(!sender.waited(&ack(Ack::LAST_BOUND, 95_000, 1), 1000));
    }

    #[test]
    fn one_segment_up_to_two_leaves_in_pairs() {
        for (window, pairs) in [(999, false), (1000, true), (1999, true), (2000, false)] {
            assert_eq!(in_pairs(&output(window, 0, 0), 1000, 1, false), pairs, "{window} B");
        }
        let out = output(1500, 0, 0);
        assert!(!in_pairs(&out, 1000, 0, false), "no rate without a round trip");
        assert!(!in_pairs(&out, 1000, 1, true), "recovery answers at once");
        assert!(!in_pairs(&output(1500, 1, 2), 1000, 1, false), "the law paces");
        assert!(gap_below_one_ns(&out, 1000, 60_000_000).abs_diff(40_000_000) < 10);
        // Windows of 4 GB / 65536 and more count as that.
        let long = gap_below_one_ns(&output(100_000, 0, 0), 60_000, 60_000_000);
        assert!((54_000_000..60_000_000).contains(&long), "{long} ns");
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
        // 1000 B leave the link every 10 ms. All of them left the host at once, and one
        // acknowledgement covers ten.
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
