//! Properties of every law, under any events.

mod common;

use common::drive::{Event, Weather, drive};
use common::{Chance, MSS, build, dupack, timeout};
use leeway_control::{Ack, Law, LawSpec, Loss, Output, Path, Phase, Rate, laws};
use proptest::prelude::*;

/// Runs of each property; the environment variable PROPTEST_CASES sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

/// A law with some parameters drawn within their bounds.
fn any_spec() -> impl Strategy<Value = LawSpec> {
    (0..laws().len(), prop::collection::vec((any::<u16>(), any::<u32>()), 0..4)).prop_map(
        |(law, settings)| {
            let law = &laws()[law];
            let mut spec = LawSpec::new(law.name).expect("listed");
            for (which, value) in settings {
                let param = &law.params[usize::from(which) % law.params.len()];
                let span = u64::from(param.max - param.min) + 1;
                let raw = param.min + (u64::from(value) % span) as u32;
                spec.set(param.name, &param.show(raw)).expect("within bounds");
            }
            spec
        },
    )
}

fn any_weather() -> impl Strategy<Value = Weather> {
    let chances = (0..400u64, 0..600u64, 0..400u64, 0..300u64);
    let sizes =
        (1..400_000u32, 100..2_000_000u32, any::<u32>(), prop_oneof![Just(0u32), Just(1), Just(1000)]);
    (any::<u64>(), chances, sizes, 200..9000u32).prop_map(
        |(seed, (loss, timeout, mark, pause), (queue_us, rtt_us, offset_us, resolution_us), mss)| Weather {
            seed,
            acks: 600,
            loss,
            timeout,
            mark,
            pause,
            stretch: 3,
            queue_us,
            rtt_us,
            offset_us,
            resolution_us,
            mss,
        },
    )
}

fn raw(spec: &LawSpec, param: &str) -> f64 {
    spec.get(param).expect("every law has a floor").parse().expect("a number")
}

fn is_reduction(before: &Output, after: &Output) -> bool {
    after.cwnd_q16 < before.cwnd_q16
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// The window stays above the floor, or above one segment after a timeout (below that if
    /// timeouts halve it). It does not grow while the application or recovery forbids it, and
    /// never by more than what was acknowledged. It changes only at events.
    ///
    /// A law that paces is limited by its rate, so a step of its window is not sent as a burst.
    /// Such a law may grow in recovery, and may return at once to a window that it had on this
    /// path (as draft-ietf-tsvwg-careful-resume does).
    #[test]
    fn windows_keep_to_their_bounds(spec in any_spec(), weather in any_weather()) {
        let start = Path { mss_bytes: weather.mss, initial_window_bytes: 10 * weather.mss, ..Path::default() };
        let mut law = spec.build(&start);
        let mut before = *law.output();
        let floor = raw(&spec, "floor") * f64::from(weather.mss) * 65536.0;
        let lowest = floor.min(f64::from(weather.mss) * 65536.0).min(before.cwnd_q16 as f64) * 0.499;
        let mut acked_since_loss = before.cwnd_q16 as f64 / 65536.0;
        let mut largest = before.cwnd_q16;
        drive(&mut law, &weather, |event, path, law| {
            let after = *law.output();
            let grown = after.cwnd_q16.saturating_sub(before.cwnd_q16);
            match event {
                Event::Ack(ack) => {
                    acked_since_loss += ack.acked_bytes as f64;
                    let paces = after.pacing_bytes_per_s != 0;
                    // FLOWER begins a recovery at its floor, and grows from there.
                    let recovering = ack.recovering != 0 && spec.name() != "flower" && !paces;
                    if ack.app_limited != 0 || recovering {
                        assert_eq!(grown, 0, "{spec}: grew though it may not: {ack:?}");
                    }
                    // The end of a round trip may add what the round acknowledged, at most one
                    // segment.
                    let step = if ack.round_start != 0 { u64::from(path.mss_bytes) } else { 0 };
                    let resumes = paces && after.cwnd_q16 <= largest;
                    let most = ack.acked_bytes.max(step) << 16;
                    assert!(grown <= most || resumes, "{spec}: grew by {grown} with {ack:?}");
                }
                Event::Loss(loss) => {
                    let one = u64::from(path.mss_bytes) << 16;
                    assert!(after.cwnd_q16 <= before.cwnd_q16.max(one), "{spec}: a loss raised the window: {loss:?}");
                }
            }
            assert!(after.cwnd_q16 as f64 / 65536.0 <= acked_since_loss + f64::from(path.mss_bytes), "{spec}: too fast");
            let kept = spec.get("timeout").is_ok_and(|mode| mode == "halve")
                || spec.get("climb").is_ok_and(|part| part != "0");
            let bound = if kept { 65536.0 } else { lowest * 2.0 };
            assert!(after.cwnd_q16 as f64 >= bound.min(floor), "{spec}: window {} below the floor", after.cwnd_q16);
            assert!(after.ssthresh_bytes >= 2 * u64::from(path.mss_bytes) || after.ssthresh_bytes >= before.ssthresh_bytes
                || after.ssthresh_bytes == after.cwnd_q16 >> 16, "{spec}: ssthresh {}", after.ssthresh_bytes);
            assert!(after.phase < 6);
            largest = largest.max(after.cwnd_q16);
            before = after;
        });
    }

    /// One reaction to loss in a round trip. Losses of segments that were sent before the last
    /// reaction do not count, however many there are and however they are reported.
    #[test]
    fn one_reaction_per_round_trip(spec in any_spec(), weather in any_weather(), more in 1..30u64) {
        let start = Path { mss_bytes: weather.mss, initial_window_bytes: 10 * weather.mss, ..Path::default() };
        let path = Path { srtt_us: weather.rtt_us, min_rtt_us: weather.rtt_us, ..start };
        let mut law = spec.build(&start);
        let mut now_us = 0;
        drive(&mut law, &Weather { loss: 0, timeout: 0, ..weather }, |event, _, _| {
            if let Event::Ack(ack) = event {
                now_us = ack.now_us;
            }
        });
        law.on_loss(&dupack(now_us, now_us), &path);
        let reacted = *law.output();
        for i in 0..more {
            law.on_loss(&dupack(now_us + i, now_us - i), &path);
            prop_assert_eq!(*law.output(), reacted, "{}: a second reaction", spec);
        }
        // Marks in that round trip do not count either.
        let mark = Ack { now_us: now_us + 1, acked_bytes: 1, ce_bytes: 1, recovering: 1, ..Ack::default() };
        law.on_ack(&mark, &path);
        // The delay may reduce the window, and with it the threshold, by what one byte is worth.
        let threshold = law.output().ssthresh_bytes;
        let unmoved = threshold == reacted.ssthresh_bytes || threshold == law.output().cwnd_q16 >> 16;
        prop_assert!(unmoved && threshold >= reacted.ssthresh_bytes / 4 * 3, "{}: a mark counted too", spec);
        // A timeout empties the pipe. The threshold of this round trip stays for the whole series.
        law.on_loss(&timeout(now_us + 2, now_us, 1), &path);
        law.on_loss(&timeout(now_us + 3, now_us + 2, 2), &path);
        law.on_loss(&timeout(now_us + 9, now_us + 8, 3), &path);
        prop_assert_eq!(law.output().ssthresh_bytes, threshold, "{}: threshold halved again", spec);
        prop_assert!(law.output().cwnd_q16 <= u64::from(path.mss_bytes) << 16);
    }

    /// Neither the offset of the clocks nor a wrap of the delays changes a decision.
    #[test]
    fn clock_offsets_change_nothing(spec in any_spec(), weather in any_weather(), offset_us in any::<u32>()) {
        // A queuing delay that the caller computes has no offset.
        prop_assume!(!spec.to_string().contains("delay=queue"));
        let run = |offset_us| {
            let start = Path { mss_bytes: weather.mss, initial_window_bytes: 10 * weather.mss, ..Path::default() };
            let mut law = spec.build(&start);
            let mut outputs = Vec::new();
            drive(&mut law, &Weather { offset_us, ..weather }, |_, _, law| outputs.push(*law.output()));
            outputs
        };
        let wrapping = u32::MAX - weather.rtt_us / 2 - weather.queue_us / 2;
        let reference = run(0);
        prop_assert!(reference == run(offset_us), "{}: offset {}", spec, offset_us);
        prop_assert!(reference == run(wrapping), "{}: wrap", spec);
    }

    /// Random values in every field: no panic, no division by zero, no overflow, and a window
    /// within its range.
    #[test]
    fn nonsense_is_survived(spec in any_spec(), seed in any::<u64>()) {
        let mut chance = Chance(seed | 1);
        let mut odd = || match chance.below(7) {
            0 => 0,
            1 => u64::MAX,
            2 => 1,
            3 => chance.next() >> 32,
            4 => chance.next() >> 50,
            _ => chance.next(),
        };
        let mut path = Path::default();
        let mut law = spec.build(&path);
        for _ in 0..300 {
            if odd() % 4 == 0 {
                let (mss, srtt) = (odd() as u32, odd() as u32);
                path = Path { inflight_bytes: odd(), mss_bytes: mss, initial_window_bytes: 1, srtt_us: srtt, min_rtt_us: odd() as u32 };
            }
            if odd() % 5 == 0 {
                let kind = (odd() % 3) as u32;
                law.on_loss(&Loss { now_us: odd(), lost_bytes: odd(), sent_us: odd(), kind, timeouts: odd() as u32 }, &path);
            } else {
                let ack = Ack {
                    now_us: odd(), acked_bytes: odd(), prior_inflight_bytes: odd(), ce_bytes: odd() & odd(),
                    rtt_us: odd() as u32, owd_us: odd() as u32, owd_resolution_us: odd() as u32 & 1,
                    app_limited: (odd() % 3) as u8, round_start: (odd() % 2) as u8, recovering: (odd() % 5) as u8,
                    last_kind: (odd() % 4) as u8, last_rtt_us: odd() as u32, reserved: 0,
                    rate: Rate {
                        delivered_bytes: odd(), prior_delivered_bytes: odd(), lost_bytes: odd(), prior_lost_bytes: odd(),
                        inflight_bytes: odd(), interval_us: odd() as u32, app_limited: odd() as u32 & 1,
                    },
                };
                law.on_ack(&ack, &path);
            }
            prop_assert!(law.output().cwnd_q16 <= 1 << 56, "{}: {:?}", spec, law.output());
            prop_assert!(law.output().cwnd_q16 > 0, "{}: {:?}", spec, law.output());
            law.probe(&mut |info, value| assert!(value.is_finite(), "{}", info.name));
        }
    }

    /// Equal events give equal decisions, and a clone continues like the original.
    #[test]
    fn clones_decide_alike(spec in any_spec(), weather in any_weather()) {
        let start = Path { mss_bytes: weather.mss, initial_window_bytes: 10 * weather.mss, ..Path::default() };
        let mut law = spec.build(&start);
        let mut clones: Vec<Law> = Vec::new();
        drive(&mut law, &weather, |event, path, law| {
            for clone in &mut clones {
                match event {
                    Event::Ack(ack) => clone.on_ack(ack, path),
                    Event::Loss(loss) => clone.on_loss(loss, path),
                }
                assert_eq!(clone.output(), law.output(), "{spec}");
            }
            if clones.len() < 3 {
                clones.push(law.clone());
            }
        });
    }
}

/// A window without congestion grows, and a window that is halved shrinks: at 100 Gbit/s x 1 s, as
/// in theory.
#[test]
fn large_windows_do_not_lose_precision() {
    let window = 12_500_000_000.0;
    let path = Path {
        mss_bytes: MSS,
        initial_window_bytes: u32::MAX,
        srtt_us: 1_000_000,
        min_rtt_us: 1_000_000,
        inflight_bytes: 0,
    };
    for text in [
        "newreno:slow_start=none",
        "ledbat:floor=1",
        "fledbat",
        "vegas",
        "nice",
        "lp:slow_start=none",
        "ledbatpp:slow_start=none,slowdown=off",
    ] {
        // Reaches the window by slow start over a clear path, then enters congestion avoidance by
        // a loss and grows again.
        let mut law = build(&text.replace("slow_start=none", "slow_start=standard"), &path);
        let mut now_us = 0;
        while law.output().window_bytes_f64() < window && now_us < 4_000_000_000 {
            now_us += 1_000_000;
            let bytes = law.window_bytes();
            for part in 0..64u64 {
                law.on_ack(&clear(now_us + part, bytes / 64, part == 0), &path);
            }
            if text.starts_with("ledbat") || text.starts_with("fledbat") {
                break;
            }
        }
        let before = law.output().window_bytes_f64();
        law.on_loss(&dupack(now_us + 100, now_us + 99), &path);
        let halved = law.output().window_bytes_f64();
        assert!(halved == before || (halved / before - 0.5).abs() < 1e-6, "{text}: {before} {halved}");
        for rtt in 1..=4u64 {
            let acks = 100_000;
            let bytes = law.window_bytes();
            for i in 0..acks {
                law.on_ack(&clear(now_us + rtt * 1_000_000 + i, bytes / acks, i == 0), &path);
            }
        }
        let packets = (law.output().window_bytes_f64() - halved) / f64::from(MSS);
        let least = if text.starts_with("ledbatpp") { 3.9 } else { 2.9 };
        assert!((least..4.1).contains(&packets), "{text}: four round trips added {packets} packets");
    }
}

/// An acknowledgement of a path without a queue.
fn clear(now_us: u64, acked_bytes: u64, round_start: bool) -> Ack {
    Ack {
        now_us,
        acked_bytes,
        prior_inflight_bytes: 1 << 40,
        rtt_us: 1_000_000,
        owd_us: 500_000,
        owd_resolution_us: 1,
        round_start: u8::from(round_start),
        ..Ack::default()
    }
}

/// At one byte a second a packet takes 25 minutes, and delays use all 32 bits.
#[test]
fn one_byte_per_second() {
    for law in laws() {
        let path = Path {
            mss_bytes: MSS,
            initial_window_bytes: MSS,
            srtt_us: 1_500_000_000,
            min_rtt_us: 1_500_000_000,
            inflight_bytes: 0,
        };
        let mut flow = build(law.name, &path);
        let mut largest: u64 = 0;
        for round in 0..200u64 {
            // Every other round the queue is one packet longer, up to a one-way delay of 2000 s
            // above the base.
            let queue_us = (round % 3) as u32 * 1_000_000_000 / 2;
            let ack = Ack {
                now_us: round * 1_500_000_000,
                acked_bytes: u64::from(MSS),
                prior_inflight_bytes: flow.window_bytes(),
                rtt_us: 1_500_000_000 + queue_us,
                owd_us: (u32::MAX - 77).wrapping_add(queue_us),
                owd_resolution_us: 1,
                round_start: 1,
                ..Ack::default()
            };
            flow.on_ack(&ack, &path);
            largest = largest.max(flow.window_bytes());
        }
        assert!(largest <= 202 * u64::from(MSS), "{}: {largest}", law.name);
        assert!(flow.output().queuing_delay_us <= 1_000_000_000, "{}: {:?}", law.name, flow.output());
        assert!(flow.output().phase() as u32 <= Phase::LossZone as u32);
    }
}

/// The guard against several reactions: the second of two marks in a round trip does nothing, the
/// next one after it counts.
#[test]
fn marks_count_once_per_round_trip() {
    for law in laws() {
        let path = common::path(100);
        let text = if law.name == "ledbatpp" { "ledbatpp:slowdown=off" } else { law.name };
        let mut flow = build(text, &path);
        let mark = |now_us| Ack { ce_bytes: 1500, app_limited: 1, ..common::ack(now_us, 0) };
        let mut reductions = Vec::new();
        for now_us in (0..=200_000).step_by(1000) {
            let before = *flow.output();
            flow.on_ack(&mark(now_us), &path);
            if is_reduction(&before, flow.output()) {
                reductions.push(now_us);
            }
        }
        match law.name {
            "flower" => assert_eq!(reductions, [0]), // at its floor by then
            _ => assert_eq!(reductions, [0, 50_000, 100_000, 150_000, 200_000], "{}", law.name),
        }
    }
}
