//! `ebb` below one segment, and how it tells random losses, noise and its own segments from a
//! queue. A receiver that may delay acknowledgements acknowledges each segment of a pair at once.

mod common;

use common::{Chance, MSS, ack, build, dupack, packets, path, probe, timeout};
use leeway_control::{Ack, Law, Phase, Rate};

/// Time of a segment on the line. 42 segments fill the path of 50 ms.
const SEGMENT_US: u32 = 1200;

/// Acknowledges a pair of segments in each of `rounds` round trips. The queue is what does not fit
/// into the path, and `others_us`.
fn pairs(law: &mut Law, now_us: &mut u64, rounds: u64, others_us: u32) {
    for _ in 0..rounds {
        let window = packets(law).max(2.0) as u32;
        let queue_us = others_us + window.saturating_sub(42) * SEGMENT_US;
        *now_us += u64::from(42_u32.saturating_sub(window) * SEGMENT_US);
        for n in 0..window / 2 {
            *now_us += u64::from(2 * SEGMENT_US);
            let round_start = u8::from(n == 0);
            law.on_ack(
                &Ack { acked_bytes: 2 * u64::from(MSS), round_start, ..ack(*now_us, queue_us) },
                &path(10),
            );
        }
    }
}

/// Acknowledges the segments of pairs one by one, at the pace at which pairs are sent, until
/// `until_us` or until the law fills the path again. The sender cannot tell whether the receiver's
/// timer held back such an acknowledgement.
fn singly(law: &mut Law, now_us: &mut u64, until_us: u64, queue_us: u32) {
    while *now_us < until_us && law.output().phase() == Phase::Yielding {
        assert_eq!(law.output().quantum, 2);
        *now_us += pair_us(law);
        for n in 0..2 {
            let queue_us = queue_us + n * SEGMENT_US;
            let sample =
                Ack { last_kind: Ack::LAST_BOUND, round_start: u8::from(n == 0), ..ack(*now_us, queue_us) };
            law.on_ack(&sample, &path(10));
            *now_us += u64::from(SEGMENT_US);
        }
    }
}

/// Time between two pairs. Unit: µs.
fn pair_us(law: &Law) -> u64 {
    2 * u64::from(MSS) * 1_000_000 / law.output().pacing_bytes_per_s
}

#[test]
fn it_comes_back_where_pairs_are_acknowledged_one_by_one() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    pairs(&mut law, &mut now_us, 40, 0);
    let full = packets(&law);
    assert!(full > 4.0, "{full}");
    pairs(&mut law, &mut now_us, 20, 80_000);
    assert_eq!(law.output().phase(), Phase::Yielding);
    let until_us = now_us + 10_000_000;
    singly(&mut law, &mut now_us, until_us, 80_000);
    assert_eq!(law.output().phase(), Phase::Yielding, "beside a queue of somebody else");
    assert!(pair_us(&law) <= 1_000_000, "{} us between pairs", pair_us(&law));
    let free_us = now_us;
    singly(&mut law, &mut now_us, free_us + 10_000_000, 0);
    assert_eq!(law.output().phase(), Phase::Avoidance);
    let after_us = now_us - free_us;
    assert!(after_us <= 2_100_000, "two pairs, a second apart at most: {after_us} us");
    pairs(&mut law, &mut now_us, 40, 0);
    assert!(packets(&law) >= full * 0.8, "two seconds later: {} of {full}", packets(&law));
}

#[test]
fn the_time_of_its_own_segments_is_no_queue_before_it_is_known() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    // The least round-trip time is that of the handshake, whose segments are small. A pair with
    // one acknowledgement takes 2.4 ms longer.
    law.on_ack(&ack(now_us, 0), &path(10));
    for _ in 0..20 {
        now_us += 200_000;
        law.on_ack(&Ack { acked_bytes: 2 * u64::from(MSS), round_start: 1, ..ack(now_us, 2400) }, &path(10));
    }
    assert!(
        !matches!(law.output().phase(), Phase::Inference | Phase::Yielding),
        "{:?}",
        law.output().phase()
    );
}

/// A law that fills the path, and the time.
fn filling() -> (Law, u64) {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    pairs(&mut law, &mut now_us, 40, 0);
    assert_eq!(law.output().phase(), Phase::Avoidance);
    (law, now_us)
}

#[test]
fn a_loss_beside_half_a_segment_of_somebody_else_is_not_by_chance() {
    // The second segment of a pair waits 1.2 ms for the first one. A sample shows other traffic
    // from 2.64 ms on.
    for (queue_us, left) in [(1700, 0.95), (1900, 0.05)] {
        let (mut law, mut now_us) = filling();
        pairs(&mut law, &mut now_us, 1, queue_us);
        assert_eq!(law.output().phase(), Phase::Avoidance, "{queue_us} us are not busy");
        let before = packets(&law);
        law.on_loss(&dupack(now_us + 10, now_us - 30_000), &path(10));
        assert!((packets(&law) / before - left).abs() < 0.01, "{queue_us} us: {} of {before}", packets(&law));
    }
}

/// Whether the law yields within `acks` acknowledgements of two segments each, in one recovery during
/// which the stack reports no loss event. At every `one_in`-th of them, `lost` more bytes are lost.
fn leaves(acks: u64, one_in: u64, lost: u32) -> bool {
    let (mut law, mut now_us) = filling();
    let mut rate = Rate::default();
    (0..acks).any(|n| {
        now_us += u64::from(2 * SEGMENT_US);
        rate.lost_bytes += if n % one_in == 0 { u64::from(lost) } else { 0 };
        let sample = Ack { acked_bytes: 2 * u64::from(MSS), recovering: 1, rate, ..ack(now_us, 0) };
        law.on_ack(&sample, &path(10));
        law.output().phase() == Phase::Yielding
    })
}

#[test]
fn what_one_recovery_loses_is_counted() {
    assert!(!leaves(400, 15, MSS), "one segment in 30 may be lost by chance");
    assert!(leaves(50, 3, MSS), "one in six may not");
    assert!(!leaves(25, 3, MSS), "a burst of nine may");
    assert!(leaves(50, 1, MSS / 2), "packets that are not full count by their bytes");
}

#[test]
fn a_timeout_of_what_was_lost_before_says_nothing_new() {
    let (mut law, mut now_us) = filling();
    pairs(&mut law, &mut now_us, 20, 80_000);
    law.on_loss(&timeout(now_us, now_us - 40_000, 1), &path(10));
    let left = packets(&law);
    law.on_loss(&timeout(now_us + 300_000, now_us - 30_000, 1), &path(10));
    assert!((packets(&law) - left).abs() < 1e-9, "{left}, {}", packets(&law));
    law.on_loss(&timeout(now_us + 600_000, now_us + 400_000, 2), &path(10));
    assert!(packets(&law) < left, "its retransmission was lost");
}

#[test]
fn it_comes_back_half_a_round_trip_after_the_first_clear_sample() {
    let (mut law, mut now_us) = filling();
    while law.output().phase() != Phase::Yielding {
        pairs(&mut law, &mut now_us, 1, 8_000);
    }
    now_us += 50_000;
    law.on_ack(&Ack { acked_bytes: 2 * u64::from(MSS), ..ack(now_us, 30_000) }, &path(10));
    let busy_us = now_us;
    while law.output().phase() == Phase::Yielding && now_us < busy_us + 1_000_000 {
        assert!(packets(&law) > 1.0, "{}", packets(&law));
        now_us += u64::from(2 * SEGMENT_US);
        law.on_ack(&Ack { acked_bytes: 2 * u64::from(MSS), ..ack(now_us, 0) }, &path(10));
    }
    assert_eq!(law.output().phase(), Phase::Avoidance);
    assert!((75_000..=80_000).contains(&(now_us - busy_us)), "{} us", now_us - busy_us);
}

#[test]
fn losses_by_chance_are_forgiven_again_after_two_hundred_segments() {
    let (mut law, mut now_us) = filling();
    let rate = Rate { lost_bytes: 50 * u64::from(MSS), ..Rate::default() };
    for _ in 0..110 {
        now_us += u64::from(2 * SEGMENT_US);
        law.on_ack(&Ack { acked_bytes: 2 * u64::from(MSS), rate, ..ack(now_us, 0) }, &path(10));
    }
    assert_eq!(law.output().phase(), Phase::Avoidance);
    // The events count nothing that the acknowledgements count already.
    for n in 0..3 {
        let before = packets(&law);
        law.on_loss(&dupack(now_us + 10 * (n + 1), now_us + 10 * n + 5), &path(10));
        assert!((packets(&law) / before - 0.95).abs() < 0.01, "{n}: {} of {before}", packets(&law));
    }
}

#[test]
fn a_stack_that_does_not_count_what_it_loses_has_one_segment_lost_with_each_event() {
    let (mut law, mut now_us) = filling();
    let mut lost = 0;
    while law.output().phase() == Phase::Avoidance {
        for _ in 0..4 {
            now_us += u64::from(2 * SEGMENT_US);
            law.on_ack(&Ack { acked_bytes: 2 * u64::from(MSS), ..ack(now_us, 0) }, &path(10));
        }
        law.on_loss(&dupack(now_us + 10, now_us + 5), &path(10));
        lost += 1;
        assert!(lost < 100);
    }
    // Eight segments are acknowledged for each one that is lost: 12 of 200 remain of each.
    assert_eq!(lost, 18);
}

#[test]
fn a_loss_by_chance_does_not_end_the_begin() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    for _ in 0..6 {
        now_us += u64::from(SEGMENT_US);
        law.on_ack(&ack(now_us, 0), &path(10));
    }
    assert_eq!(law.output().phase(), Phase::SlowStart);
    let before = packets(&law);
    law.on_loss(&dupack(now_us + 10, now_us - 30_000), &path(10));
    assert_eq!(law.output().phase(), Phase::SlowStart);
    assert!((packets(&law) / before - 0.95).abs() < 0.01, "{} of {before}", packets(&law));
}

#[test]
fn losses_near_the_longest_queue_lower_the_threshold_and_others_do_not() {
    for near in [true, false] {
        let (mut law, mut now_us) = filling();
        let before = probe(&law, "threshold");
        for _ in 0..30 {
            pairs(&mut law, &mut now_us, 1, if near { 3_000 } else { 0 });
            now_us += 400_000;
            law.on_loss(&dupack(now_us, now_us - 50_000), &path(10));
        }
        pairs(&mut law, &mut now_us, 1, 0);
        let after = probe(&law, "threshold");
        assert_eq!(after < before, near, "{near}: {before} to {after}");
    }
}

/// The room of docs/ebb-spec.md: its size in µs, and the share of losses that came near it, in
/// 1/1024.
#[derive(Default)]
struct Room {
    peak_us: u64,
    room_us: u64,
    near: u64,
}

impl Room {
    fn round(&mut self) {
        self.peak_us /= 2;
    }

    fn sample(&mut self, queue_us: u64) {
        self.peak_us = self.peak_us.max(queue_us);
        self.room_us = self.room_us.max(queue_us);
    }

    fn loss(&mut self) {
        self.room_us = (self.room_us - self.room_us / 8).max(self.peak_us);
        let to = if 4 * self.peak_us >= self.room_us { 1024 } else { 1 };
        self.near = match self.near {
            0 => to,
            near if to > near => near + (to - near) / 4,
            near => near - (near - to) / 4,
        };
    }

    fn threshold_us(&self, long_us: u64, segment_us: u64, noise_us: u64) -> u64 {
        if self.near <= 512 || self.room_us / 4 >= long_us {
            return long_us;
        }
        (self.room_us / 4).max(segment_us / 2).max(noise_us.min(self.room_us / 2))
    }
}

#[test]
fn the_threshold_follows_the_room() {
    for noisy in [false, true] {
        let (mut law, mut now_us) = filling();
        if noisy {
            varying(&mut law, &mut now_us, 60, 900);
        }
        // At the beginning the window grew to 80 segments, of which the path holds 42.
        let mut room = Room { room_us: 38 * u64::from(SEGMENT_US), ..Room::default() };
        let (mut chance, mut short) = (Chance(7), 0);
        for step in 0..240 {
            now_us += 60_000;
            let queue_us = [0, 1_500, 2_000, 2_500, 4_000, 7_000][chance.below(6) as usize];
            let waits = u64::from(law.output().quantum - 1);
            law.on_ack(&Ack { round_start: 1, ..ack(now_us, queue_us) }, &path(10));
            room.round();
            let [segment_us, noise_us, found_us] =
                ["packet_time", "noise", "threshold"].map(|name| probe(&law, name) as u64);
            let long_us = 1000.max(segment_us * 6 / 5).max(noise_us);
            let expected_us = room.threshold_us(long_us, segment_us, noise_us);
            assert_eq!(found_us, expected_us + waits * segment_us, "step {step}, noisy: {noisy}");
            short += u32::from(expected_us != long_us);
            room.sample(u64::from(queue_us).saturating_sub(waits * segment_us));
            // Losses become more frequent, and so the room becomes short.
            if chance.below(120) < step {
                now_us += 100;
                law.on_loss(&dupack(now_us, now_us - 50), &path(10));
                room.loss();
            }
        }
        assert!((20..220).contains(&short), "{short} steps with a short room, noisy: {noisy}");
    }
}

#[test]
fn a_loss_below_two_segments_is_somebody_elses() {
    let (mut law, mut now_us) = filling();
    while packets(&law) >= 2.0 {
        pairs(&mut law, &mut now_us, 1, 8_000);
    }
    let before = packets(&law);
    assert!(before > 0.5, "{before}");
    law.on_loss(&dupack(now_us + 200_000, now_us + 150_000), &path(10));
    assert!((packets(&law) / before - 0.05).abs() < 0.01, "{} of {before}", packets(&law));
}

#[test]
fn two_segments_leave_every_second_however_long_others_are_there() {
    let (mut law, mut now_us) = filling();
    pairs(&mut law, &mut now_us, 20, 80_000);
    for _ in 0..40 {
        now_us += pair_us(&law);
        law.on_ack(
            &Ack { acked_bytes: 2 * u64::from(MSS), round_start: 1, ..ack(now_us, 80_000) },
            &path(10),
        );
    }
    assert!((packets(&law) - 0.01).abs() < 0.001, "the floor: {}", packets(&law));
    assert!(pair_us(&law) <= 1_000_000, "{} us", pair_us(&law));
}

/// Acknowledges `pairs` pairs, each segment by itself: the second one `SEGMENT_US` after the
/// first, later or earlier by `varies_us` in turn.
fn varying(law: &mut Law, now_us: &mut u64, pairs: u32, varies_us: u32) {
    for pair in 0..pairs {
        let gap_us = if pair % 2 == 0 { SEGMENT_US + varies_us } else { SEGMENT_US - varies_us };
        *now_us += 10_000;
        law.on_ack(&ack(*now_us, 0), &path(10));
        *now_us += u64::from(gap_us);
        law.on_ack(&ack(*now_us, gap_us), &path(10));
    }
}

/// While the gap counts as varying, twice as many segments are sent together.
#[test]
fn a_gap_that_varies_by_an_eighth_is_hazy_until_it_varies_by_less_than_a_sixteenth() {
    let (mut law, mut now_us) = filling();
    for (varies_us, quantum) in [(60, 2), (140, 2), (160, 4), (140, 4), (85, 4), (65, 2), (140, 2)] {
        varying(&mut law, &mut now_us, 60, varies_us);
        assert_eq!(law.output().phase(), Phase::Avoidance);
        assert_eq!(law.output().quantum, quantum, "{varies_us} us of {SEGMENT_US}");
    }
}

#[test]
fn noise_is_three_mean_deviations_from_the_sixth_gap() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    let mut noise_us = Vec::new();
    for pair in 0..6 {
        varying(&mut law, &mut now_us, 1, 100 * pair);
        noise_us.push(probe(&law, "noise"));
    }
    // Mean and mean deviation follow a new gap by 1/k.
    let (mut mean_us, mut deviation_us) = (0.0, 0.0);
    for (k, gap_us) in
        [(1.0, 1200.0), (2.0, 1300.0), (3.0, 1400.0), (4.0, 1500.0), (5.0, 1600.0), (6.0, 1700.0)]
    {
        let away_us = if k > 1.0 { f64::abs(gap_us - mean_us) } else { 0.0 };
        mean_us += (gap_us - mean_us) / k;
        deviation_us += (away_us - deviation_us) / k;
    }
    assert_eq!(noise_us[..5], [0.0; 5]);
    assert!(
        (noise_us[5] - 3.0 * deviation_us).abs() < 2.0,
        "{noise_us:?} us, expected {}",
        3.0 * deviation_us
    );
}

#[test]
fn the_most_noise_of_twenty_to_forty_seconds_counts() {
    let (mut law, mut now_us) = filling();
    // A sample shows other traffic above the noise and the time that its segment waits for those
    // sent with it.
    let above_noise =
        |law: &Law| probe(law, "threshold") - f64::from(law.output().quantum - 1) * probe(law, "packet_time");
    varying(&mut law, &mut now_us, 60, 900);
    let noise_us = probe(&law, "noise");
    assert!(noise_us > 2400.0, "{noise_us} us");
    for (seconds, least_us) in [(0, noise_us), (10, noise_us), (16, noise_us), (20, 1000.0)] {
        varying(&mut law, &mut now_us, seconds * 1_000_000 / 11_200, 0);
        let least = above_noise(&law);
        assert!((least - least_us).abs() < 100.0, "{seconds} s later: {least} us, {noise_us} us of noise");
    }
}

/// A round trip of 20 segments that were sent 2 ms apart, whose last segments are acknowledged
/// together. Six of them or more would look like a queue, so what held them back counts as noise.
/// What holds back fewer does not, however long.
#[test]
fn what_holds_three_tenths_of_a_round_trip_is_noise() {
    for (held, noise_us) in [(2, 0.0), (5, 0.0), (6, 10_000.0)] {
        let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
        for i in 0..41_u64 {
            now_us += 2_000;
            let later = 19 - i % 20; // segments of the round trip that are not acknowledged yet
            let waits_us = if later < held { 2_000 * later as u32 } else { 0 };
            let sample = ack(now_us + u64::from(waits_us), waits_us);
            law.on_ack(&Ack { round_start: u8::from(i % 20 == 0), ..sample }, &path(10));
        }
        assert_eq!(probe(&law, "noise"), noise_us, "{held} of 20");
    }
}

/// If the gap varies, the time of a segment is that of the largest delivery rate, if this is
/// shorter than the mean gap. A rate over few segments is that of a moment only.
#[test]
fn a_delivery_rate_counts_from_sixteen_segments_on() {
    let (mut law, mut now_us) = filling();
    varying(&mut law, &mut now_us, 60, 300);
    let mean_us = probe(&law, "packet_time");
    assert!((mean_us - f64::from(SEGMENT_US)).abs() < 30.0, "{mean_us} us");
    for (segments, at_most_us) in [(15, mean_us), (16, 650.0)] {
        for _ in 0..40 {
            let delivered_bytes = segments * u64::from(MSS);
            let interval_us = segments as u32 * SEGMENT_US / 2;
            let rate = Rate { delivered_bytes, interval_us, ..Rate::default() };
            now_us += 10_000;
            law.on_ack(&Ack { rate, ..ack(now_us, 0) }, &path(10));
        }
        let segment_us = probe(&law, "packet_time");
        assert!((segment_us - at_most_us).abs() < 60.0, "{segments} segments: {segment_us} us");
    }
}
