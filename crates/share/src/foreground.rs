//! What the foreground, to whom the line belongs, has asked for and has not got.
//!
//! A request is seen a round trip before its answer makes a queue. What is granted to the background after it
//! arrives with the answer or behind it, so the expected bytes count in the window from the request on:
//!
//! ```text
//! expected = sum over connections of (usual answer - what has come), or 2 x what came in a round trip, of a transfer
//! ```
//!
//! A connection that is being made will ask for something once it is there. Its answer is expected from one
//! base round trip after the SYN: in the time by which a queue delays the request, the queue drains, and the
//! answer finds none.
//!
//! Scope and limitations: an answer longer than usual is expected by its rate, so the background has what is
//! left of a transfer that somebody else limits. A request that is not seen (QUIC) is expected when its
//! answer begins.

use crate::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// What was seen of the foreground on one of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// It asked for a connection.
    Connect,
    /// It asked for something.
    Request,
    /// So many bytes came to it; for the uplink: left it.
    Bytes(u64),
}

/// See the module.
#[derive(Debug)]
pub struct Foreground {
    policy: Policy,
    connections: BTreeMap<u64, Connection>,
    /// When each connection is looked at again although nothing is seen.
    due: BTreeSet<(u64, u64)>,
    /// Sum over the connections, kept as they change: every grant asks for it.
    expected_bytes: u64,
    /// Moving average of answers, in bytes; nothing before the first.
    usual_bytes: Option<u64>,
    seen_us: Option<u64>,
    /// What its own end of the line says that it expects, in bytes, and until when that counts.
    told: (u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    stage: Stage,
    seen_us: u64,
    /// What comes was asked for: it is an answer, not a call or a push.
    asked: bool,
    /// Nothing came of its last request: what it sends is an upload, and nothing is expected until something
    /// comes.
    unanswered: bool,
    /// What answers were when this one was asked for.
    usual_bytes: u64,
    /// Of the present answer.
    got_bytes: u64,
    /// In the present round trip, which began then, and in the one before.
    round_us: u64,
    round_bytes: [u64; 2],
    /// Its part of the sum, and its time in `due`.
    expected_bytes: u64,
    due_us: u64,
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It will ask when it is there, not before then.
    Connecting { there_us: u64 },
    /// It has asked, or is about to, and nothing has come.
    Asked,
    /// Something is coming.
    Receiving,
    /// Nothing is expected.
    Idle,
}

impl Foreground {
    /// Nobody was seen yet.
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

    /// The foreground's own end of the line says that it expects `bytes`. That counts until the next message of
    /// that end, and for [`Policy::wait_percent`] at most: messages can be lost.
    pub fn told(&mut self, now_us: u64, bytes: u64, srtt_us: u64) {
        self.seen_us = Some(now_us);
        self.told = (
            bytes,
            now_us + self.policy.hold_least_us + Policy::round_trips(self.policy.wait_percent, srtt_us),
        );
    }

    /// Something was seen on the foreground's `connection`, on a line whose round trip is `srtt_us` now and
    /// `base_us` without a queue.
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
            // Of too many the one that is looked at next goes: most likely it is over.
            if self.connections.len() as u64 >= self.policy.remembered_max
                && let Some(&(_, next)) = self.due.first()
            {
                self.take(next);
            }
            Connection::new(now_us)
        });
        match observation {
            Observation::Connect => known.stage = Stage::Connecting { there_us: now_us + base_us },
            // Packets of one request, or of an upload: the first of them says when the answer is due.
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

    /// What the foreground has asked for and not got, in bytes.
    pub fn expected_bytes(&mut self, now_us: u64, srtt_us: u64) -> u64 {
        self.sweep(now_us, srtt_us);
        if now_us >= self.told.1 {
            self.told = (0, 0);
        }
        self.expected_bytes + self.told.0
    }

    /// What an answer usually is, in bytes; 0 before the first.
    pub fn usual_bytes(&self) -> u64 {
        self.usual_bytes.unwrap_or(0)
    }

    /// Whether it was there within [`Policy::away_us`].
    pub fn is_present(&self, now_us: u64) -> bool {
        self.seen_us.is_some_and(|seen_us| now_us < seen_us + self.policy.away_us)
    }

    /// When the expectation may change although nothing is seen, in microseconds.
    pub fn deadline_us(&self) -> Option<u64> {
        let told_us = (self.told.0 > 0).then_some(self.told.1);
        self.due.first().map(|&(due_us, _)| due_us).into_iter().chain(told_us).min()
    }

    /// A connection, out of the sum.
    fn take(&mut self, connection: u64) -> Option<Connection> {
        let known = self.connections.remove(&connection)?;
        self.due.remove(&(known.due_us, connection));
        self.expected_bytes -= known.expected_bytes;
        Some(known)
    }

    /// Into the sum.
    fn put(&mut self, connection: u64, mut known: Connection, srtt_us: u64) {
        known.expected_bytes = known.expects(&self.policy, self.usual_bytes.is_some());
        known.due_us = known.looked_at_us(srtt_us, &self.policy);
        self.expected_bytes += known.expected_bytes;
        self.due.insert((known.due_us, connection));
        self.connections.insert(connection, known);
    }

    /// Forgets what will not come, or has come.
    fn sweep(&mut self, now_us: u64, srtt_us: u64) {
        while let Some(&(due_us, connection)) = self.due.first()
            && due_us <= now_us
            && let Some(mut known) = self.take(connection)
        {
            // The round trip may have become longer since.
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

    /// The answer of a connection is over.
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

    /// More has come than an answer that is a little longer than usual, or nothing was asked for.
    fn is_transfer(&self) -> bool {
        self.stage == Stage::Receiving && !(self.asked && self.got_bytes <= 2 * self.usual_bytes)
    }

    /// What more will come of it, in bytes. `answers` says whether any answer has come on this line. On an
    /// uplink none does: less than a segment is then a request or a push, of which all has come.
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

    /// When it is looked at again where nothing is seen.
    fn looked_at_us(&self, srtt_us: u64, policy: &Policy) -> u64 {
        match self.stage {
            Stage::Connecting { there_us } => there_us,
            Stage::Asked => {
                let late_us = policy.hold_least_us.min(srtt_us);
                self.seen_us + late_us + Policy::round_trips(policy.wait_percent, srtt_us)
            }
            Stage::Receiving => {
                let gap_us = Policy::round_trips(policy.gap_percent, srtt_us).max(1);
                // A transfer that has lost something waits for its timeout. Less than a segment is a request, or a
                // push: all of it has come.
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

    /// One that knows that answers are 10 kB long.
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

    /// Of an uplink only bytes are seen. A hundred and fifty requests a second are as many connections, of which
    /// none is a transfer.
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
        /// Whatever is seen: what is expected is bounded, and over some round trips after the last of it; so
        /// is the memory.
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
