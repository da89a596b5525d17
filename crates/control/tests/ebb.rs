//! `ebb` below one segment, beside a stack that sends lone segments to a receiver that delays its acknowledgements.

mod common;

use common::{MSS, ack, build, packets, path};
use leeway_control::{Ack, Law, Phase};

/// Between lone segments of a receiver that holds an acknowledgement for 40 ms; one that heard nothing for 250 ms answers
/// at once (Linux, net/ipv4/tcp_input.c, tcp_event_data_recv).
const HOLDS_US: u32 = 40_000;
const QUIET_US: u64 = 250_000;

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

/// Lone segments as the pacing lets them leave, until the time is over or the law fills again.
fn lone(law: &mut Law, now_us: &mut u64, until_us: u64, queue_us: u32) {
    while *now_us < until_us && law.output().phase() == Phase::Yielding {
        let gap_us = u64::from(MSS) * 1_000_000 / law.output().pacing_bytes_per_s;
        let held_us = if gap_us < QUIET_US { HOLDS_US } else { 0 };
        *now_us += gap_us;
        let sample = Ack { last_kind: Ack::LAST_BOUND, round_start: 1, ..ack(*now_us, queue_us + held_us) };
        law.on_ack(&sample, &path(10));
    }
}

#[test]
fn it_comes_back_where_lone_segments_wait_for_the_receivers_timer() {
    let (mut law, mut now_us) = (build("ebb", &path(10)), 1_000_000);
    pairs(&mut law, &mut now_us, 40, 0);
    let full = packets(&law);
    assert!(full > 4.0, "{full}");
    pairs(&mut law, &mut now_us, 20, 80_000);
    assert_eq!(law.output().phase(), Phase::Yielding);
    let until_us = now_us + 10_000_000;
    lone(&mut law, &mut now_us, until_us, 80_000);
    assert_eq!(law.output().phase(), Phase::Yielding, "beside a queue of somebody else");
    let gap_us = u64::from(MSS) * 1_000_000 / law.output().pacing_bytes_per_s;
    assert!((QUIET_US..=1_000_000).contains(&gap_us), "{gap_us} us between probes");
    let free_us = now_us;
    lone(&mut law, &mut now_us, free_us + 10_000_000, 0);
    assert_eq!(law.output().phase(), Phase::Avoidance);
    let after_us = now_us - free_us;
    assert!(after_us <= 2_100_000, "two probes, a second apart at most: {after_us} us");
    pairs(&mut law, &mut now_us, 40, 0);
    assert!(packets(&law) >= full * 0.8, "two seconds later: {} of {full}", packets(&law));
}
