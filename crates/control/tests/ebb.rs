//! `ebb` below one segment, where a receiver that may delay its acknowledgements answers each segment of a
//! pair at once.

mod common;

use common::{MSS, ack, build, packets, path};
use leeway_control::{Ack, Law, Phase};

/// Time of a segment on the line; 42 of them fill the path of 50 ms.
const SEGMENT_US: u32 = 1200;

/// Pairs of segments, each round trip, behind what the window does not fit in and `others_us`.
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

/// Pairs as the pacing lets them leave, their segments acknowledged one by one, until the time is over or the
/// law fills again. The sender cannot tell whether the receiver's timer held such an acknowledgement.
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

/// What lies between two pairs.
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
    assert!(pair_us(&law) <= 2_000_000, "{} us between pairs", pair_us(&law));
    let free_us = now_us;
    singly(&mut law, &mut now_us, free_us + 10_000_000, 0);
    assert_eq!(law.output().phase(), Phase::Avoidance);
    let after_us = now_us - free_us;
    assert!(after_us <= 4_100_000, "two pairs, two seconds apart at most: {after_us} us");
    pairs(&mut law, &mut now_us, 40, 0);
    assert!(packets(&law) >= full * 0.8, "two seconds later: {} of {full}", packets(&law));
}

#[test]
fn the_time_of_its_own_segments_is_no_queue_before_it_is_known() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    // The least round trip is of a handshake, whose segments are small; pairs, one ack for both, take 2.4 ms
    // longer.
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
