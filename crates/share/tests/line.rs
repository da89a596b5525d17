//! One direction of the line as a whole: properties that always hold.

use leeway_share::{FlowId, Heard, LAW, Line, Next, Observation, Policy, Sample, UserId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RTT_US: u64 = 20_000;

fn line(policy: &Policy) -> Line {
    Line::new(&LAW.parse().unwrap(), policy)
}

fn exact(rtt_us: u64) -> Option<Sample> {
    Some(Sample::exact(1, rtt_us as u32))
}

/// Bytes that background gets in `span_us` on a line of `rate` bytes per second. Background
/// always wants more. The foreground requests `answer` bytes whenever the last ones have arrived;
/// 0 means no foreground.
fn play(policy: &Policy, rate: u64, span_us: u64, answer: u64) -> u64 {
    let mut line = line(policy);
    let flows: Vec<FlowId> = (0..10).map(|user| line.open(UserId(user)).unwrap()).collect();
    flows.iter().for_each(|&flow| assert!(line.ask(flow, u64::MAX).unwrap() > 0));
    // Arrivals at the head of the queue: (time, flow, bytes, sent); the foreground has no flow.
    let mut events: BTreeMap<(u64, u64), (Option<FlowId>, u64, u64)> = BTreeMap::new();
    let (mut busy_us, mut order, mut got, mut missing, mut now_us) = (0, 0, 0, 0, 0);
    while now_us < span_us {
        if answer > 0 && missing == 0 {
            line.foreground(now_us, 7, Observation::Request);
            missing = answer / 1460 * 1460;
            for _ in 0..answer / 1460 {
                order += 1;
                busy_us = busy_us.max(now_us + RTT_US) + 1460 * 1_000_000 / rate;
                events.insert((busy_us, order), (None, 1460, now_us));
            }
        }
        while let Some((&(at_us, key), &(flow, bytes, sent_us))) = events.first_key_value() {
            if at_us > now_us {
                break;
            }
            events.remove(&(at_us, key));
            let Some(flow) = flow else {
                missing -= bytes;
                line.foreground(now_us, 7, Observation::Bytes(bytes));
                continue;
            };
            got += bytes;
            line.arrived(now_us, flow, bytes, exact(at_us - sent_us));
            line.ask(flow, u64::MAX).unwrap();
        }
        let wake_us = loop {
            match line.next(now_us) {
                Next::Grant { flow, bytes } => {
                    order += 1;
                    busy_us = busy_us.max(now_us + RTT_US) + bytes * 1_000_000 / rate;
                    events.insert((busy_us, order), (Some(flow), bytes, now_us));
                    line.ask(flow, u64::MAX).unwrap();
                }
                Next::Wait(at_us) => break at_us,
                Next::Blocked => break u64::MAX,
            }
        };
        let event_us = events.first_key_value().map_or(u64::MAX, |(&(at_us, _), _)| at_us);
        now_us = event_us.min(wake_us).max(now_us + 1);
    }
    got
}

#[test]
fn an_idle_line_is_used_whatever_its_rate() {
    for rate in [62_500u64, 215_000, 1_250_000, 12_500_000] {
        let got = play(&Policy::default(), rate, 20_000_000, 0);
        let used = got as f64 / (rate as f64 * 20.0);
        assert!(used > 0.92, "{rate} B/s: {used:.3}");
    }
}

#[test]
fn beside_a_foreground_that_takes_all_background_gets_its_min_share() {
    for permille in [0u64, 10, 200] {
        let policy = Policy::default().with("min_share_permille", permille).unwrap();
        // A response of 204 kB takes two seconds, and the window is free for a round trip before
        // the next one.
        let got = play(&policy, 100_000, 60_000_000, 204_400);
        let share = got as f64 / (100_000.0 * 60.0) * 1000.0;
        let permille = permille as f64;
        assert!(share >= permille * 0.95 && share < permille + 40.0, "{share:.1} of {permille} per mille");
    }
}

/// Ten connections of the home get responses of fifteen segments in turn, 1.46 MB/s in all. That
/// is more than a window after losses, so background gets its least share, with which alone the
/// window would take minutes to grow. `pipe_percent` is out of the way, because it would end the
/// growth earlier.
#[test]
fn what_comes_for_the_foreground_opens_the_window() {
    let mut line = line(&Policy::default().with("pipe_percent", 10_000).unwrap());
    let flow = line.open(UserId(1)).unwrap();
    line.ask(flow, u64::MAX).unwrap();
    let mut due = BTreeMap::new();
    for ms in 0..10_000u64 {
        let (now_us, connection) = (ms * 1_000, ms % 10);
        if ms % 150 < 10 {
            line.foreground(now_us, connection, Observation::Request);
        }
        line.foreground(now_us, connection, Observation::Bytes(1460));
        while let Some(bytes) = due.first_entry().filter(|due| *due.key() <= now_us).map(|due| due.remove()) {
            line.arrived(now_us, flow, bytes, exact(RTT_US));
            line.ask(flow, u64::MAX).unwrap();
        }
        while let Next::Grant { bytes, .. } = line.next(now_us) {
            *due.entry(now_us + RTT_US).or_default() += bytes;
            line.ask(flow, u64::MAX).unwrap();
        }
        if ms < 2_000 && ms % 100 == 0 {
            line.lost(now_us, None, 1460, now_us - RTT_US.min(now_us));
        }
        if ms == 2_000 {
            assert!(line.window_bytes() < 30_000, "{} bytes after losses", line.window_bytes());
        }
    }
    assert!(line.window_bytes() > 200_000, "{} bytes", line.window_bytes());
}

/// 1.25 MB/s behind a fair queue, where no flow meets a delay. While the foreground is present,
/// at most one and a half times what the line delivers in a round trip is in flight. That holds
/// also after the highest rate of the time before is forgotten.
#[test]
fn where_nothing_is_delayed_the_window_ends_at_the_pipe_while_the_foreground_is_there() {
    const PIPE: u64 = 1_250 * RTT_US / 1_000;
    let mut line = line(&Policy::default());
    for user in 0..20 {
        let flow = line.open(UserId(user)).unwrap();
        line.ask(flow, u64::MAX).unwrap();
    }
    let mut due = std::collections::VecDeque::new();
    let (mut room, mut came) = (0, [0; 2]);
    for ms in 0..60_000u64 {
        let (now_us, there) = (ms * 1_000, ms >= 20_000);
        room = (room + 1_250).min(3_000);
        if there {
            line.foreground(now_us, 1, Observation::Bytes(250));
            room -= 250;
        }
        while let Some(&(at_us, flow, bytes)) = due.front()
            && at_us <= now_us
            && bytes <= room
        {
            due.pop_front();
            room -= bytes;
            came[usize::from(there)] += bytes;
            line.arrived(now_us, flow, bytes, exact(RTT_US));
            line.ask(flow, u64::MAX).unwrap();
        }
        while let Next::Grant { flow, bytes } = line.next(now_us) {
            due.extend(
                (0..bytes).step_by(1460).map(|from| (now_us + RTT_US, flow, (bytes - from).min(1460))),
            );
            line.ask(flow, u64::MAX).unwrap();
        }
        if ms == 19_999 {
            assert!(line.granted_bytes() > 2 * PIPE, "{} bytes", line.granted_bytes());
        }
        if ms >= 21_000 {
            let under_way = line.granted_bytes();
            assert!(under_way <= PIPE * 3 / 2, "{under_way} bytes after {ms} ms, of {PIPE} in a round trip");
        }
    }
    let rates = [came[0] / 20, came[1] / 40];
    assert!(rates[0] > 1_100_000 && rates[1] > 900_000, "{rates:?} bytes a second");
}

/// An uplink of 1.72 Mbit/s. Ten requests of 113 bytes leave the home each second, so a few bytes
/// are always expected. After losses the window is a segment. Uploading neighbours get the line
/// back in the time that a window takes to grow, without the least share.
#[test]
fn a_few_bytes_of_the_foreground_do_not_hold_a_window_of_one_segment() {
    const RATE: u64 = 215_000;
    let mut line = line(&Policy::default().with("min_share_permille", 0).unwrap().for_sending());
    let flow = line.open(UserId(1)).unwrap();
    line.ask(flow, u64::MAX).unwrap();
    let mut due = std::collections::VecDeque::new();
    let (mut busy_us, mut came) = (0, 0);
    for ms in 0..20_000u64 {
        let now_us = ms * 1_000;
        if ms % 100 == 0 {
            line.foreground(now_us, ms / 100, Observation::Bytes(113));
        }
        while let Some(&(at_us, sent_us, bytes)) = due.front()
            && at_us <= now_us
        {
            due.pop_front();
            came += if ms >= 5_000 { bytes } else { 0 };
            line.arrived(now_us, flow, bytes, exact(now_us - sent_us));
            line.ask(flow, u64::MAX).unwrap();
        }
        if (1_000..2_000).contains(&ms) && ms % 20 == 0 {
            line.lost(now_us, None, 1460, now_us - RTT_US);
        }
        while let Next::Grant { bytes, .. } = line.next(now_us) {
            busy_us = busy_us.max(now_us + RTT_US) + bytes * 1_000_000 / RATE;
            due.push_back((busy_us, now_us, bytes));
            line.ask(flow, u64::MAX).unwrap();
        }
    }
    let part = came as f64 / (RATE * 15) as f64;
    assert!(part > 0.8, "{part:.2} of the line");
}

/// Ten flows share the window. While the foreground is away, one loss of each flow is one loss
/// for the law, and two losses of one flow are none. While the foreground is present, each loss
/// counts.
#[test]
fn losses_of_some_flows_reduce_the_window_by_their_part() {
    let started = || {
        let mut line = line(&Policy::default());
        let flows: Vec<FlowId> = (0..10).map(|user| line.open(UserId(user)).unwrap()).collect();
        for step in 0..200 {
            let now_us = step * RTT_US / 4;
            for &flow in &flows {
                line.arrived(now_us, flow, line.granted_to(flow), exact(RTT_US));
                line.ask(flow, 2 * 1460).unwrap();
            }
            while let Next::Grant { .. } = line.next(now_us) {}
        }
        (line, flows)
    };
    let (now_us, sent_us) = (50 * RTT_US + 1, 49 * RTT_US);

    let (mut line, flows) = started();
    let before = line.window_bytes();
    line.lost(now_us, Some(flows[0]), 1460, sent_us);
    line.lost(now_us, Some(flows[0]), 1460, sent_us);
    assert_eq!(line.window_bytes(), before);
    flows[1..].iter().for_each(|&flow| line.lost(now_us, Some(flow), 1460, sent_us));
    assert!(line.window_bytes() <= before / 2 + 1, "{before} and {}", line.window_bytes());

    for (present, flow) in [(true, true), (false, false)] {
        let (mut line, flows) = started();
        if present {
            line.foreground(now_us, 1, Observation::Request);
        }
        line.lost(now_us, Some(flows[0]).filter(|_| flow), 1460, sent_us);
        assert!(line.window_bytes() <= before / 2 + 1, "{present}: {before} and {}", line.window_bytes());
    }
}

#[test]
fn one_who_asks_without_being_open_is_told() {
    let mut other = line(&Policy::default());
    let flow = other.open(UserId(1)).unwrap();
    let mut line = line(&Policy::default().with("flows_max", 2).unwrap());
    assert!(line.ask(flow, 1).unwrap_err().to_string().contains("flow 1 is not open"));
    line.open(UserId(1)).unwrap();
    line.open(UserId(1)).unwrap();
    assert!(line.open(UserId(2)).unwrap_err().to_string().contains("`flows_max`"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// After any requests, arrivals, losses and observations: bytes in flight and expected bytes
    /// fit into the window at each grant. Exceptions are grants under `min_share`, and a grant
    /// with nothing else in flight while the foreground expects less than a segment or no delay
    /// is known. Bytes are conserved. A wake-up time is in the future.
    #[test]
    fn the_window_holds(
        steps in proptest::collection::vec((0u8..8, 0u64..6, 1u64..20_000, 0u64..50_000), 1..400),
        min_share in prop_oneof![Just(0u64), Just(10), Just(500)],
    ) {
        let policy = Policy::default().with("min_share_permille", min_share).unwrap();
        let mut line = line(&policy);
        let mut flows: Vec<FlowId> = (0..6).map(|user| line.open(UserId(user % 3)).unwrap()).collect();
        let mut due = [0u64; 6];
        let (mut now_us, mut beyond, mut sampled) = (0, 0, false);
        for (step, which, bytes, step_us) in steps {
            now_us += step_us;
            let (at, flow) = (which as usize, flows[which as usize]);
            match step {
                0 | 1 => { line.ask(flow, bytes).unwrap(); }
                2 | 3 => {
                    let arrived = bytes.min(due[at]);
                    let sample = exact(RTT_US + bytes);
                    let heard = line.arrived(now_us, flow, arrived, if step == 2 { sample } else { None });
                    sampled |= matches!(heard, Heard::New(_));
                    due[at] -= arrived;
                }
                4 => line.lost(now_us, None, bytes, now_us.saturating_sub(RTT_US)),
                5 => line.foreground(now_us, which, if bytes % 2 == 0 { Observation::Request } else { Observation::Bytes(bytes) }),
                6 => { line.rest(flow, bytes); due[at] = line.granted_to(flow); }
                _ => {
                    line.close(flow);
                    flows[at] = line.open(UserId(which)).unwrap();
                    due[at] = 0;
                }
            }
            for _ in 0..100 {
                let before = line.state(now_us);
                match line.next(now_us) {
                    Next::Grant { flow, bytes } => {
                        let after = line.state(now_us);
                        let under_way = after.granted_bytes + after.expected_bytes;
                        let little = before.expected_bytes < policy.segment_bytes || !sampled;
                        let first = after.granted_bytes == bytes && little;
                        if !first && under_way > after.window_bytes {
                            beyond += bytes;
                        }
                        let at = flows.iter().position(|&known| known == flow).expect("it is open");
                        due[at] = line.granted_to(flow);
                        line.ask(flow, 5_000).unwrap();
                    }
                    Next::Wait(at_us) => { prop_assert!(at_us > now_us); break; }
                    Next::Blocked => break,
                }
            }
            // Expired grants have left the ledger.
            for (at, &flow) in flows.iter().enumerate() {
                due[at] = line.granted_to(flow);
            }
            prop_assert_eq!(line.state(now_us).granted_bytes, due.iter().sum::<u64>());
        }
        let rate = 1e3 * 400.0 * 20_000.0;
        let most = rate * min_share as f64 / 1e3 * (now_us as f64 / 1e6) + 15_000.0;
        prop_assert!(beyond as f64 <= most, "{beyond} bytes beyond the window, of {most:.0}");
        prop_assert!(min_share > 0 || beyond == 0);
    }
}

/// An uplink of 430 kbit/s carries a segment in 28 ms, and the receiver acknowledges every second
/// one. A queue of two segments is 56 ms.
#[test]
fn a_queue_of_less_than_an_acknowledgement_is_one() {
    let each = [("part_samples", 1), ("round_parts", 64), ("quantile_percent", 99)];
    let policy =
        each.into_iter().fold(Policy::default(), |policy, (name, value)| policy.with(name, value).unwrap());
    let mut line = line(&policy);
    let flow = line.open(UserId(1)).unwrap();
    for n in 1..=40 {
        let rtt_us = if n == 1 { RTT_US } else { RTT_US + 56_000 };
        let heard = line.arrived(n * 58_000, flow, 2 * 1460, exact(rtt_us));
        if n > 20 {
            assert_eq!(heard, Heard::New(56_000), "acknowledgement {n}");
        }
    }
}
