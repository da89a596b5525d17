//! The bytes that the foreground (the line's owner) has requested and not received.
//!
//! A request is seen a round trip before its response makes a queue. Bytes that are granted to
//! the background after the request arrive with the response or behind it. So the expected bytes
//! count in the window from the request on:
//!
//! ```text
//! expected = sum over connections of (usual response - bytes of it that have arrived);
//! of a transfer: 2 x the bytes that arrived in a round trip
//! ```
//!
//! A new connection will carry a request as soon as it is established. Its response is expected
//! from one base RTT after the SYN. While the queue delays the request, the queue drains, and the
//! response meets none.
//!
//! Scope and limitations: a response longer than usual is expected by its rate. If something other
//! than the line limits such a transfer, the background gets the rest. A request that is not seen
//! (QUIC) is expected when its response begins.

use crate::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// An observation of the foreground on one of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The foreground opened the connection (SYN).
    Connect,
    /// The foreground sent data: a request, or a part of an upload.
    Request,
    /// So many bytes arrived for the foreground. For the uplink: so many bytes left it.
    Bytes(u64),
}

/// The foreground's connections, and the bytes that they expect.
#[derive(Debug)]
pub struct Foreground {
    policy: Policy,
    connections: BTreeMap<u64, Connection>,
    /// Time at which each connection is looked at again if nothing is seen, and its number.
    due: BTreeSet<(u64, u64)>,
    /// Sum over the connections. It is updated with each change, because every grant reads it.
    expected_bytes: u64,
    /// Moving average of the lengths of responses, in bytes; `None` before the first response.
    usual_bytes: Option<u64>,
    seen_us: Option<u64>,
    /// Expected bytes by the last report of the foreground's own end of the line, and the time
    /// until which the report is valid.
    told: (u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    stage: Stage,
    seen_us: u64,
    /// The arriving bytes follow a request: they are a response, and no call or push.
    asked: bool,
    /// The last request brought no response, so the foreground uploads. Nothing is expected until
    /// data arrive.
    unanswered: bool,
    /// The usual length of a response at the time of the request, in bytes.
    usual_bytes: u64,
    /// Bytes of the present response that have arrived.
    got_bytes: u64,
    /// Start of the present round trip, and the bytes that arrived in it and in the one before.
    round_us: u64,
    round_bytes: [u64; 2],
    /// This connection's part of `Foreground::expected_bytes`, and its time in `Foreground::due`.
    expected_bytes: u64,
    due_us: u64,
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The connection is being established. A request follows at `there_us`, not before.
    Connecting { there_us: u64 },
    /// A request was sent, or is about to be, and nothing has arrived.
    Asked,
    /// A response or a transfer arrives.
    Receiving,
    /// Nothing is expected.
    Idle,
}

impl Foreground {
    /// A foreground that was not seen yet.
    pub fn new(policy: &Policy) -> Foreground {
        Foreground {
            policy: *policy,
            connections: BTreeMap::new(),
            due: BTreeSet::new(),
            expected_bytes: 0,
            usual_bytes: None,
            seen_us: None,
            told: (0, 0),
        }
    }

    /// Records a report from the foreground's own end of the line: it expects `bytes`. A report
    /// is valid until the next one, and for [`Policy::wait_percent`] and 50 ms (`hold_least_us`)
    /// at most, because reports can be lost.
    pub fn told(&mut self, now_us: u64, bytes: u64, srtt_us: u64) {
        self.seen_us = Some(now_us);
        self.told = (
            bytes,
            now_us + self.policy.hold_least_us + Policy::round_trips(self.policy.wait_percent, srtt_us),
        );
    }

    /// Records an observation on the foreground's `connection`. `srtt_us` is the line's present
    /// round-trip time, and `base_us` is the round-trip time without a queue.
    pub fn observed(
        &mut self,
        now_us: u64,
        connection: u64,
        observation: Observation,
        srtt_us: u64,
        base_us: u64,
    ) {
        self.sweep(now_us, srtt_us);
        self.seen_us = Some(now_us);
        let mut known = self.take(connection).unwrap_or_else(|| {
            // If there are too many connections, the one that is due first is dropped: it is most
            // likely over.
            if self.connections.len() as u64 >= self.policy.remembered_max
                && let Some(&(_, next)) = self.due.first()
            {
                self.take(next);
            }
            Connection::new(now_us)
        });
        match observation {
            Observation::Connect => known.stage = Stage::Connecting { there_us: now_us + base_us },
            // More packets of one request, or of an upload: the first packet says when the
            // response is due.
            Observation::Request if known.stage == Stage::Asked && known.asked => {
                return self.put(connection, known, srtt_us);
            }
            Observation::Request => {
                self.learn(&mut known);
                let stage = if known.unanswered { Stage::Idle } else { Stage::Asked };
                let Connection { unanswered, .. } = known;
                let usual_bytes = self.usual_bytes();
                known = Connection { stage, asked: true, unanswered, usual_bytes, ..Connection::new(now_us) };
            }
            Observation::Bytes(bytes) => {
                if known.stage == Stage::Idle {
                    self.learn(&mut known);
                }
                if now_us >= known.round_us + srtt_us {
                    let empty = now_us >= known.round_us + 2 * srtt_us;
                    known.round_bytes = [0, if empty { 0 } else { known.round_bytes[0] }];
                    known.round_us = now_us;
                }
                known.got_bytes += bytes;
                known.round_bytes[0] += bytes;
                known.stage = Stage::Receiving;
                known.unanswered = false;
            }
        }
        known.seen_us = now_us;
        self.put(connection, known, srtt_us);
    }

    /// Bytes that the foreground has requested and not received.
    pub fn expected_bytes(&mut self, now_us: u64, srtt_us: u64) -> u64 {
        self.sweep(now_us, srtt_us);
        if now_us >= self.told.1 {
            self.told = (0, 0);
        }
        self.expected_bytes + self.told.0
    }

    /// The usual length of a response, in bytes; 0 before the first response.
    pub fn usual_bytes(&self) -> u64 {
        self.usual_bytes.unwrap_or(0)
    }

    /// Whether the foreground sent or received a packet within the last [`Policy::away_us`].
    pub fn is_present(&self, now_us: u64) -> bool {
        self.seen_us.is_some_and(|seen_us| now_us < seen_us + self.policy.away_us)
    }

    /// The time at which the expected bytes may change although nothing is seen, in microseconds.
    pub fn deadline_us(&self) -> Option<u64> {
        let told_us = (self.told.0 > 0).then_some(self.told.1);
        self.due.first().map(|&(due_us, _)| due_us).into_iter().chain(told_us).min()
    }

    /// Takes a connection out of the map and out of the sum.
    fn take(&mut self, connection: u64) -> Option<Connection> {
        let known = self.connections.remove(&connection)?;
        self.due.remove(&(known.due_us, connection));
        self.expected_bytes -= known.expected_bytes;
        Some(known)
    }

    /// Puts a connection into the map and into the sum.
    fn put(&mut self, connection: u64, mut known: Connection, srtt_us: u64) {
        known.expected_bytes = known.expects(&self.policy, self.usual_bytes.is_some());
        known.due_us = known.looked_at_us(srtt_us, &self.policy);
        self.expected_bytes += known.expected_bytes;
        self.due.insert((known.due_us, connection));
        self.connections.insert(connection, known);
    }

    /// Looks again at the connections whose time has come: a response is over or will not arrive,
    /// or a new connection carries its request.
    fn sweep(&mut self, now_us: u64, srtt_us: u64) {
        while let Some(&(due_us, connection)) = self.due.first()
            && due_us <= now_us
            && let Some(mut known) = self.take(connection)
        {
            // The round trip may have become longer since `due_us` was set.
            if known.looked_at_us(srtt_us, &self.policy) > now_us {
                self.put(connection, known, srtt_us);
                continue;
            }
            match known.stage {
                Stage::Connecting { there_us } => {
                    known.stage = Stage::Asked;
                    (known.seen_us, known.usual_bytes) = (there_us, self.usual_bytes());
                }
                Stage::Idle => continue,
                Stage::Asked | Stage::Receiving => {
                    let mut over = known;
                    let Connection { seen_us, unanswered, stage, asked, .. } = known;
                    let unanswered = unanswered || stage == Stage::Asked && asked;
                    known = Connection { seen_us, unanswered, ..Connection::new(now_us) };
                    self.learn(&mut over);
                }
            }
            self.put(connection, known, srtt_us);
        }
    }

    /// Counts the response of a connection, which is over, in the usual length.
    fn learn(&mut self, known: &mut Connection) {
        let got_bytes = std::mem::take(&mut known.got_bytes).min(self.policy.answer_max_bytes);
        if !std::mem::take(&mut known.asked) || got_bytes == 0 {
            return;
        }
        self.usual_bytes = Some(match self.usual_bytes {
            None => got_bytes,
            Some(usual_bytes) => (usual_bytes * (self.policy.answers - 1) + got_bytes) / self.policy.answers,
        });
    }
}

impl Connection {
    fn new(now_us: u64) -> Connection {
        Connection {
            stage: Stage::Idle,
            seen_us: now_us,
            asked: false,
            unanswered: false,
            usual_bytes: 0,
            got_bytes: 0,
            round_us: now_us,
            round_bytes: [0; 2],
            expected_bytes: 0,
            due_us: 0,
        }
    }

    /// Whether this is a transfer: more has arrived than a response a little longer than usual
    /// has, or nothing was requested.
    fn is_transfer(&self) -> bool {
        self.stage == Stage::Receiving && !(self.asked && self.got_bytes <= 2 * self.usual_bytes)
    }

    /// Bytes that are still expected on the connection. `answers` says whether any response has
    /// arrived on this line. On an uplink none does: less than a segment is then a request or a
    /// push that has arrived completely.
    fn expects(&self, policy: &Policy, answers: bool) -> u64 {
        match self.stage {
            Stage::Receiving if !answers && self.got_bytes < policy.segment_bytes => 0,
            Stage::Asked => self.usual_bytes,
            Stage::Receiving if self.is_transfer() => {
                Policy::round_trips(policy.transfer_percent, self.round_bytes[0].max(self.round_bytes[1]))
            }
            Stage::Receiving => self.usual_bytes.saturating_sub(self.got_bytes),
            Stage::Connecting { .. } | Stage::Idle => 0,
        }
    }

    /// The time at which the connection is looked at again if nothing is seen, in microseconds.
    fn looked_at_us(&self, srtt_us: u64, policy: &Policy) -> u64 {
        match self.stage {
            Stage::Connecting { there_us } => there_us,
            Stage::Asked => {
                let late_us = policy.hold_least_us.min(srtt_us);
                self.seen_us + late_us + Policy::round_trips(policy.wait_percent, srtt_us)
            }
            Stage::Receiving => {
                let gap_us = Policy::round_trips(policy.gap_percent, srtt_us).max(1);
                // A transfer that lost a segment waits for its timeout. Less than a segment is a
                // request or a push, which has arrived completely.
                let long = self.got_bytes >= policy.segment_bytes;
                let pause_us = if self.is_transfer() && long { policy.away_us } else { 0 };
                self.seen_us + gap_us.max(pause_us)
            }
            Stage::Idle => self.seen_us + policy.away_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT_US: u64 = 20_000;
    const ANSWER: u64 = 10_000;

    /// A foreground whose responses are 10 kB long.
    fn taught() -> Foreground {
        let mut foreground = Foreground::new(&Policy::default());
        foreground.observed(0, 9, Observation::Request, RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(1, RTT_US), 0, "nothing is usual yet");
        foreground.observed(RTT_US, 9, Observation::Bytes(ANSWER), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(1_000_000, RTT_US), 0);
        assert_eq!(foreground.usual_bytes(), ANSWER);
        foreground
    }

    const T: u64 = 2_000_000;

    #[test]
    fn what_was_asked_for_is_expected_until_it_has_come() {
        let mut foreground = taught();
        foreground.observed(T, 1, Observation::Request, RTT_US, RTT_US);
        foreground.observed(T, 2, Observation::Request, RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(T, RTT_US), 2 * ANSWER);
        foreground.observed(T + RTT_US, 1, Observation::Bytes(4_000), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(T + RTT_US, RTT_US), 2 * ANSWER - 4_000);
        foreground.observed(T + RTT_US, 1, Observation::Bytes(6_000), RTT_US, RTT_US);
        foreground.observed(T + RTT_US, 2, Observation::Bytes(10_000), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(T + RTT_US, RTT_US), 0);
    }

    /// On an uplink only bytes are seen. 150 requests a second are as many connections, and none
    /// of them is a transfer.
    #[test]
    fn of_small_sendings_nothing_more_is_expected_and_a_transfer_that_pauses_is_not() {
        let mut foreground = Foreground::new(&Policy::default());
        for n in 0..300 {
            let now_us = T + n * 1_000_000 / 150;
            foreground.observed(now_us, n, Observation::Bytes(300), RTT_US, RTT_US);
            assert_eq!(foreground.expected_bytes(now_us, RTT_US), 0, "{n} requests");
        }
        (0..4).for_each(|n| foreground.observed(2 * T + n, 999, Observation::Bytes(1_460), RTT_US, RTT_US));
        foreground.observed(2 * T + 4, 999, Observation::Bytes(1_460), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(2 * T + 10 * RTT_US, RTT_US), 2 * 5 * 1_460);
    }

    #[test]
    fn a_server_that_thinks_is_not_waited_for_and_an_answer_that_stops_is_over() {
        let mut foreground = taught();
        foreground.observed(T, 1, Observation::Request, RTT_US, RTT_US);
        let until_us = foreground.deadline_us().unwrap();
        assert_eq!(until_us, T + 4 * RTT_US);
        assert_eq!(foreground.expected_bytes(until_us - 1, RTT_US), ANSWER);
        assert_eq!(foreground.expected_bytes(until_us, RTT_US), 0);
        foreground.observed(2 * T, 1, Observation::Request, RTT_US, RTT_US);
        foreground.observed(2 * T + RTT_US, 1, Observation::Bytes(1_000), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(2 * T + 2 * RTT_US, RTT_US), ANSWER - 1_000);
        assert_eq!(foreground.expected_bytes(2 * T + 5 * RTT_US / 2, RTT_US), 0);
        assert_eq!(foreground.usual_bytes(), (7 * ANSWER + 1_000) / 8);
    }

    #[test]
    fn the_answer_of_a_connection_is_expected_when_it_would_be_asked_without_a_queue() {
        let mut foreground = taught();
        foreground.observed(T, 1, Observation::Connect, 2 * RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(T + RTT_US - 1, 2 * RTT_US), 0);
        assert_eq!(foreground.deadline_us(), Some(T + RTT_US));
        assert_eq!(foreground.expected_bytes(T + RTT_US, 2 * RTT_US), ANSWER);
        foreground.observed(T + RTT_US + 5_000, 1, Observation::Request, 2 * RTT_US, RTT_US);
        assert_eq!(
            foreground.expected_bytes(T + RTT_US + 5_000, 2 * RTT_US),
            ANSWER,
            "it is not expected twice"
        );
    }

    #[test]
    fn an_answer_a_little_longer_than_usual_is_no_transfer() {
        let mut foreground = taught();
        foreground.observed(T, 1, Observation::Request, RTT_US, RTT_US);
        foreground.observed(T + RTT_US, 1, Observation::Bytes(ANSWER + 500), RTT_US, RTT_US);
        assert_eq!(foreground.expected_bytes(T + RTT_US, RTT_US), 0);
    }

    #[test]
    fn a_transfer_is_expected_by_its_rate() {
        let mut foreground = taught();
        foreground.observed(T, 1, Observation::Request, RTT_US, RTT_US);
        for n in 0..100 {
            foreground.observed(T + RTT_US + n * 1_000, 1, Observation::Bytes(1_500), RTT_US, RTT_US);
        }
        assert_eq!(foreground.expected_bytes(T + RTT_US + 100_000, RTT_US), 60_000);
        assert_eq!(foreground.usual_bytes(), ANSWER, "it is no answer before it is over");
    }

    #[test]
    fn of_an_upload_no_answer_is_expected_for_long() {
        let mut foreground = taught();
        let mut expected_us = 0;
        for at_us in (T..T + 4_000_000).step_by(1_000) {
            foreground.observed(at_us, 1, Observation::Request, RTT_US, RTT_US);
            expected_us += if foreground.expected_bytes(at_us, RTT_US) > 0 { 1_000 } else { 0 };
        }
        assert_eq!(expected_us, 4 * RTT_US);
        foreground.observed(T + 4_000_000, 1, Observation::Bytes(500), RTT_US, RTT_US);
        foreground.observed(T + 4_500_000, 1, Observation::Request, RTT_US, RTT_US);
        assert_eq!(
            foreground.expected_bytes(T + 4_500_000, RTT_US),
            foreground.usual_bytes(),
            "it is answered again"
        );
    }

    #[test]
    fn it_is_away_after_half_a_second_of_silence() {
        let mut foreground = taught();
        assert!(!foreground.is_present(T));
        foreground.observed(T, 1, Observation::Bytes(100), RTT_US, RTT_US);
        assert!(foreground.is_present(T + 499_999) && !foreground.is_present(T + 500_000));
    }

    #[test]
    fn what_its_own_end_says_counts_until_it_says_something_else() {
        let mut foreground = Foreground::new(&Policy::default());
        foreground.told(T, ANSWER, RTT_US);
        let until_us = foreground.deadline_us().unwrap();
        assert_eq!(until_us, T + 3 * RTT_US + 50_000);
        assert_eq!(foreground.expected_bytes(until_us - 1, RTT_US), ANSWER);
        assert_eq!(foreground.expected_bytes(until_us, RTT_US), 0, "what ended it was lost");
        foreground.told(2 * T, ANSWER, RTT_US);
        foreground.told(2 * T + 1, 0, RTT_US);
        assert_eq!((foreground.expected_bytes(2 * T + 1, RTT_US), foreground.deadline_us()), (0, None));
        assert!(foreground.is_present(2 * T + 2));
    }

    proptest! {
        /// After any observations: the expected bytes are bounded and become 0 some round trips
        /// after the last observation. The memory is bounded.
        #[test]
        fn expectations_end(observations in proptest::collection::vec((0u64..9, 0u8..3, 0u64..100_000, 0u64..300_000), 1..200)) {
            let policy = Policy::default().with("remembered_max", 4).unwrap();
            let mut foreground = Foreground::new(&policy);
            let (mut now_us, mut sum) = (1, 0);
            for (connection, kind, bytes, step_us) in observations {
                now_us += step_us;
                let observation = match kind { 0 => Observation::Connect, 1 => Observation::Request, _ => Observation::Bytes(bytes) };
                sum += bytes;
                foreground.observed(now_us, connection, observation, RTT_US, RTT_US);
                let expected = foreground.expected_bytes(now_us, RTT_US);
                prop_assert!(expected <= 4 * policy.answer_max_bytes + 2 * sum);
                prop_assert!(foreground.connections.len() <= 4);
                prop_assert!(expected == 0 || foreground.deadline_us().is_some());
            }
            prop_assert_eq!(foreground.expected_bytes(now_us + policy.away_us, RTT_US), 0);
            foreground.expected_bytes(now_us + 2 * policy.away_us, RTT_US);
            prop_assert!(foreground.connections.is_empty());
        }
    }
}
