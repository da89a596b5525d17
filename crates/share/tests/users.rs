//! Users share alike, whatever their servers do and however many connections they have.

use leeway_share::{Certainty, FlowId, LAW, Line, Next, Policy, Sample, UserId};
use std::collections::BTreeMap;

const RTT_US: u64 = 20_000;
const SEGMENT: u64 = 1460;
const SPAN_US: u64 = 30_000_000;

/// How a flow's server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// At once, as much as it may.
    Eager,
    /// The same for two seconds, and then one segment in this time.
    Trickles(u64),
}

/// What each of the users got in the last 20 of 30 seconds, in bytes per second, on a line of `rate` bytes per second; `flows` are of
/// users 0, 1 and so on.
fn play(rate: u64, flows: &[(usize, Server)]) -> Vec<f64> {
    let mut line = Line::new(&LAW.parse().unwrap(), &Policy::default());
    let known: Vec<FlowId> = flows.iter().map(|&(user, _)| line.open(UserId(user as u64)).unwrap()).collect();
    let at = |flow: FlowId| known.iter().position(|&one| one == flow).unwrap();
    known.iter().for_each(|&flow| assert!(line.ask(0, flow, u64::MAX).unwrap() > 0));
    // What each server may send and has not sent; and when one that trickles may go on.
    let mut owed: Vec<u64> = vec![0; flows.len()];
    let mut free_us: Vec<u64> = vec![0; flows.len()];
    // Arrivals: (time, order) to (flow, bytes, when its server sent it, less the way).
    let mut events: BTreeMap<(u64, u64), (usize, u64, u64)> = BTreeMap::new();
    let users = 1 + flows.iter().map(|&(user, _)| user).max().unwrap();
    let mut got = vec![0.0; users];
    let (mut busy_us, mut order, mut now_us) = (0, 0, 0);
    while now_us < SPAN_US {
        while let Some((&(at_us, key), &(one, bytes, sent_us))) = events.first_key_value() {
            if at_us > now_us {
                break;
            }
            events.remove(&(at_us, key));
            if now_us > SPAN_US / 3 {
                got[flows[one].0] += bytes as f64 / (SPAN_US as f64 / 1.5e6);
            }
            let rtt_us = (at_us - sent_us) as u32;
            // Only what was sent at once shows how long the way is.
            let sample = (flows[one].1 == Server::Eager).then_some(Sample {
                path: 1,
                rtt_us,
                certainty: Certainty::Exact,
            });
            line.arrived(now_us, known[one], bytes, sample);
            line.ask(now_us, known[one], u64::MAX).unwrap();
        }
        let wake_us = loop {
            match line.next(now_us) {
                Next::Grant { flow, bytes } => {
                    owed[at(flow)] += bytes;
                    line.ask(now_us, flow, u64::MAX).unwrap();
                }
                Next::Wait(at_us) => break at_us,
                Next::Blocked => break u64::MAX,
            }
        };
        for flow in line.take_expired() {
            line.ask(now_us, flow, u64::MAX).unwrap();
        }
        let mut due_us = u64::MAX;
        for one in 0..flows.len() {
            while owed[one] > 0 {
                let slow = match flows[one].1 {
                    Server::Trickles(gap_us) if now_us > 2_000_000 => gap_us,
                    _ => 0,
                };
                if now_us < free_us[one] {
                    due_us = due_us.min(free_us[one]);
                    break;
                }
                free_us[one] = now_us + slow;
                let bytes = owed[one].min(SEGMENT);
                owed[one] -= bytes;
                order += 1;
                busy_us = busy_us.max(now_us + RTT_US) + bytes * 1_000_000 / rate;
                events.insert((busy_us, order), (one, bytes, now_us));
            }
        }
        let event_us = events.first_key_value().map_or(u64::MAX, |(&(at_us, _), _)| at_us);
        now_us = event_us.min(wake_us).min(due_us).max(now_us + 1);
    }
    got
}

#[test]
fn a_user_whose_servers_trickle_does_not_take_what_is_anothers() {
    for connections in [2, 4, 8, 16, 32] {
        let mut flows = vec![(0, Server::Eager)];
        flows.extend(vec![(1, Server::Trickles(50_000)); connections]);
        let got = play(1_250_000, &flows);
        // What the other really takes is its own, up to a half.
        let fair = (1_250_000.0 - got[1]).max(625_000.0);
        assert!(got[0] > 0.75 * fair, "{connections} connections that trickle: {got:?}");
    }
}

#[test]
fn a_user_with_one_connection_gets_what_one_with_64_gets() {
    for rate in [215_000, 1_250_000, 12_500_000] {
        let mut flows = vec![(0, Server::Eager)];
        flows.extend([(1, Server::Eager); 64]);
        let got = play(rate, &flows);
        assert!(got[0] > 0.85 * got[1] && got[1] > 0.85 * got[0], "{rate} B/s: {got:?}");
        assert!(got[0] + got[1] > 0.9 * rate as f64, "{rate} B/s: {got:?}");
    }
}

#[test]
fn users_who_come_and_are_slow_leave_the_rest_to_others() {
    // Ten users whose servers give a hundredth of the line each, and one who takes all he can.
    let mut flows = vec![(0, Server::Eager)];
    flows.extend((1..=10).map(|user| (user, Server::Trickles(120_000))));
    let got = play(1_250_000, &flows);
    let slow: f64 = got[1..].iter().sum();
    assert!(got[0] > 0.65 * (1_250_000.0 - slow), "{got:?}");
}
