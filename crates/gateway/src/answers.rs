//! Leaving room for the home's responses.
//!
//! A server answers a request with up to ten segments at once (RFC 6928). On a slow line they make a
//! queue, and the neighbours' packets come behind or between them. A gateway that sees the home's
//! request knows of that queue a round trip before it is there. So it grants nothing for as long as
//! the line will take for the response. What is granted afterwards reaches the line when the line has
//! just become free. A law alone would learn of the queue when it is there, yield to it, and leave the
//! line idle afterwards.
//!
//! - *A new connection* of the home foretells a request. The request is counted for the time at which
//!   it would be sent if there were no queue. The queue drains meanwhile, and the response finds none.
//! - *A request on a connection that exists* is seen too late for that: its response meets the law's
//!   queue. After 500 ms of silence the line is kept for the response all the same. Requests that follow
//!   each other sooner are left to the law, which sees their queues and yields.
//!
//! The size of a response is not known. It is taken from the last responses. A response that arrives
//! more slowly than the line's rate goes on as slowly. The rate is a guess where little has arrived, so
//! grants are withheld for at most two thirds of the time.
//!
//! There is no clock here: times are arguments, in microseconds.

use crate::edges::BURST_BYTES;
use leeway_net::Sight;
use std::collections::VecDeque;

/// Weight of the last response in the mean size: 1/8.
const MEMORY: u64 = 8;
/// Connections of the home that are remembered.
const CONNECTIONS: usize = 64;
/// A request comes within 200 ms of its connection.
const ASKS_US: u64 = 200_000;
/// Credit for each microsecond in which nothing is withheld: 2, which is two thirds of the time.
const SHARE: u64 = 2;
/// The longest time in a row. A line of 0.5 Mbit/s needs 500 ms for two responses.
const MOST_US: u64 = 500_000;
/// A response's rate is known after 10 ms of it.
const TRAIN_US: u64 = 10_000;
/// Bytes 50 ms after the last ones belong to another response.
const APART_US: u64 = 50_000;
/// The home was silent if nothing of its traffic was seen for 500 ms.
const SILENT_US: u64 = 500_000;
/// Withholding does not begin with less credit than this.
const LEAST_US: u64 = 50_000;

/// The responses that the home waits for.
#[derive(Debug, Default)]
pub struct Answers {
    /// Bytes granted from this time on arrive behind all responses.
    until_us: u64,
    at_us: u64,
    /// Bytes of responses that have not arrived.
    due_bytes: u64,
    train: Train,
    /// When each connection will be established, and whether its request is counted already.
    connections: VecDeque<(u64, bool)>,
    usual_bytes: u64,
    /// Part of the last requests that the line was kept for, in thousandths.
    kept_permille: u64,
    /// When the home last sent a request or received data.
    heard_us: u64,
    /// Bytes that arrived since the last requests, and the number of those requests.
    brought_bytes: u64,
    asked: u64,
    /// Time for which grants may still be withheld, and whether they are.
    credit_us: u64,
    holds: bool,
}

/// Bytes that arrive without a gap of [`APART_US`].
#[derive(Debug, Default)]
struct Train {
    from_us: u64,
    last_us: u64,
    /// Bytes after the first arrival.
    bytes: u64,
}

impl Answers {
    /// Traffic of the home was seen. Granted bytes arrive after `way_us`, a connection is established
    /// after `connects_us`. `rate` is the line's rate in bytes a second, 0 where it is not known.
    pub fn seen(&mut self, now_us: u64, sight: Sight, [way_us, connects_us]: [u64; 2], rate: u64) {
        self.advance(now_us, rate);
        if sight.brought_bytes > 0 {
            self.came(now_us, sight.brought_bytes, way_us, rate);
        }
        if sight.asked > 0 {
            self.learn(sight.asked);
        }
        let silent = now_us > self.heard_us + SILENT_US;
        for _ in 0..sight.asked.min(CONNECTIONS as u64) {
            let connection = self.connections.pop_front();
            let kept = connection.is_some() || silent;
            if kept && !matches!(connection, Some((_, true))) {
                self.add(rate, 0);
            }
            let kept_permille = if kept { 1000 } else { 0 };
            self.kept_permille = (self.kept_permille * (MEMORY - 1) + kept_permille).div_ceil(MEMORY);
        }
        if sight.asked > 0 || sight.brought_bytes > 0 {
            self.heard_us = now_us;
        }
        let room = CONNECTIONS - self.connections.len();
        for _ in 0..sight.connects.min(room as u64) {
            self.connections.push_back((now_us + connects_us, false));
        }
    }

    /// Whether grants are withheld now. `waiting` says whether a neighbour waits for one.
    pub fn hold(&mut self, now_us: u64, rate: u64, waiting: bool) -> bool {
        self.advance(now_us, rate);
        let least_us = if self.holds { 1 } else { LEAST_US };
        self.holds = waiting && now_us < self.until_us && self.credit_us >= least_us;
        self.holds
    }

    /// Part of the last requests that the line was kept for, in thousandths.
    pub fn kept_permille(&self) -> u64 {
        self.kept_permille
    }

    /// Time passes: credit changes, and requests of new connections are counted.
    fn advance(&mut self, now_us: u64, rate: u64) {
        let passed_us = now_us.saturating_sub(self.at_us);
        self.at_us = self.at_us.max(now_us);
        self.credit_us = match self.holds {
            true => self.credit_us.saturating_sub(passed_us),
            false => (self.credit_us + passed_us * SHARE).min(MOST_US),
        };
        self.connections.retain(|&(at_us, _)| now_us < at_us + ASKS_US);
        for n in 0..self.connections.len() {
            let (at_us, counted) = &mut self.connections[n];
            if !*counted && now_us >= *at_us {
                *counted = true;
                let late_us = now_us - *at_us;
                self.add(rate, late_us);
            }
        }
    }

    /// Adds a response that was expected `late_us` ago.
    fn add(&mut self, rate: u64, late_us: u64) {
        let takes_us = (self.usual_bytes * 1_000_000).checked_div(rate).unwrap_or(0);
        let from_us = self.at_us.saturating_sub(late_us);
        if self.until_us < from_us {
            self.due_bytes = 0;
        }
        self.due_bytes += self.usual_bytes;
        self.until_us = (self.until_us.max(from_us) + takes_us).min(self.at_us + MOST_US);
    }

    /// Bytes of responses arrived.
    fn came(&mut self, now_us: u64, bytes: u64, way_us: u64, rate: u64) {
        self.brought_bytes += bytes;
        self.due_bytes = self.due_bytes.saturating_sub(bytes);
        let train = &mut self.train;
        if now_us > train.last_us + APART_US {
            *train = Train { from_us: now_us, last_us: now_us, bytes: 0 };
            return;
        }
        (train.last_us, train.bytes) = (now_us, train.bytes + bytes);
        let passed_us = now_us - train.from_us;
        if passed_us >= TRAIN_US {
            let rate = rate.min(train.bytes * 1_000_000 / passed_us);
            let rest_us = (self.due_bytes * 1_000_000).checked_div(rate).unwrap_or(0).min(MOST_US);
            self.until_us = self.until_us.max(now_us + rest_us.saturating_sub(way_us));
        }
    }

    /// Learns the mean size of responses from the last requests.
    fn learn(&mut self, asked: u64) {
        if let Some(each) = self.brought_bytes.checked_div(self.asked) {
            self.usual_bytes = (self.usual_bytes * (MEMORY - 1) + each.min(BURST_BYTES)) / MEMORY;
        }
        (self.asked, self.brought_bytes) = (asked, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WAY_US: u64 = 20_000;
    /// 1.6 Mbit/s: a segment in 7.5 ms.
    const RATE: u64 = 200_000;

    fn connect(times: u64) -> Sight {
        Sight { connects: times, ..Sight::default() }
    }

    fn ask(times: u64) -> Sight {
        Sight { asked: times, ..Sight::default() }
    }

    fn bring(bytes: u64) -> Sight {
        Sight { brought_bytes: bytes, ..Sight::default() }
    }

    impl Answers {
        fn at(&mut self, now_us: u64, sight: Sight) {
            self.seen(now_us, sight, [WAY_US; 2], RATE);
            self.hold(now_us, RATE, true);
        }

        /// `times` new connections, each with a request at once.
        fn ask_on_new(&mut self, now_us: u64, times: u64) {
            self.at(now_us, connect(times));
            self.at(now_us, ask(times));
        }

        /// Milliseconds of the next half second in which grants are withheld, and the first of them.
        fn held(&mut self, from_us: u64) -> (usize, Option<usize>) {
            let held: Vec<usize> =
                (0..500).filter(|&n| self.hold(from_us + n as u64 * 1000, RATE, true)).collect();
            (held.len(), held.first().copied())
        }
    }

    /// After a hundred requests with responses of `bytes`, and a second of silence.
    fn used_to(bytes: u64) -> (Answers, u64) {
        let mut answers = Answers::default();
        for n in 0..100 {
            answers.at(n * 200_000, ask(1));
            (0..bytes).step_by(1500).for_each(|_| answers.at(n * 200_000 + WAY_US, bring(1500)));
        }
        (0..1000).for_each(|n| assert!(!answers.hold(20_000_000 + n * 1000, RATE, n > 900)));
        (answers, 21_000_000)
    }

    #[test]
    fn grants_are_withheld_for_as_long_as_the_line_takes_for_a_response() {
        let (mut answers, t) = used_to(13_500);
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (68, Some(0)));
        // One behind the other.
        let (mut answers, t) = used_to(13_500);
        answers.ask_on_new(t, 2);
        assert_eq!(answers.held(t + 8000), (127, Some(0)));
        // Where nobody waits nothing is withheld, and the response arrives all the same.
        let (mut answers, t) = used_to(13_500);
        answers.ask_on_new(t, 1);
        assert!(!answers.hold(t + 1000, RATE, false));
        assert_eq!(answers.held(t + 30_000), (38, Some(0)));
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        assert_eq!(answers.held(t + WAY_US + 30_000), (38, Some(0)));
    }

    #[test]
    fn a_request_is_foreseen_once() {
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        assert_eq!(answers.held(t), (68, Some(20)));
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        answers.hold(t + WAY_US, RATE, true);
        answers.at(t + WAY_US + 8000, ask(1));
        assert_eq!(answers.held(t + WAY_US + 8000), (60, Some(0)));
        // A request that comes before its time.
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        answers.at(t + WAY_US / 2, ask(1));
        assert_eq!(answers.held(t + WAY_US / 2), (68, Some(0)));
        // No request on the new connection, and then one on another connection.
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        assert_eq!(answers.held(t), (68, Some(20)));
        answers.at(t + 500_000, ask(1));
        assert_eq!(answers.held(t + 500_000), (68, Some(0)));
    }

    #[test]
    fn requests_that_nothing_foretold_are_left_to_the_law_but_for_one_after_a_silence() {
        let (mut answers, t) = used_to(13_500);
        (0..50).for_each(|n| answers.ask_on_new(t + n * 200_000, 1));
        assert_eq!(answers.kept_permille(), 1000);
        let t = t + 11_000_000;
        (0..50).for_each(|n| answers.at(t + n * 200_000, ask(1)));
        assert_eq!(answers.held(t + 50 * 200_000), (0, None));
        assert!(answers.kept_permille() < 10, "{}", answers.kept_permille());
        let t = t + 11_000_000;
        (0..50).for_each(|n| answers.at(t + n * 600_000, ask(1)));
        assert_eq!(answers.kept_permille(), 1000);
    }

    #[test]
    fn a_slower_response_takes_longer() {
        let slow = |segment_us: u64, segments: u64| {
            let (mut answers, t) = used_to(13_500);
            answers.ask_on_new(t, 1);
            let mut held = 0;
            for n in 0..500 {
                let since_us = (n * 1000_u64).saturating_sub(WAY_US);
                if since_us >= segment_us && since_us % segment_us < 1000 && since_us / segment_us <= segments
                {
                    answers.at(t + n * 1000, bring(1500));
                }
                held += usize::from(answers.hold(t + n * 1000, RATE, true));
            }
            held
        };
        assert_eq!(slow(7500, 9), 68);
        // Half as fast: nine segments, until the last is a path away. No longer where the rest never arrives.
        for segments in [9, 3] {
            let held = slow(15_000, segments);
            assert!((125..=140).contains(&held), "{segments}: {held}");
        }
    }

    #[test]
    fn the_size_of_responses_is_learnt_and_forgotten() {
        let mut answers = Answers::default();
        answers.ask_on_new(1_000_000, 1);
        assert_eq!(answers.held(1_000_000), (0, None));
        // No more than one burst.
        let (mut answers, t) = used_to(1_000_000);
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (73, Some(0)));
        // An upload: a thousand packets without a response.
        (0..1000).for_each(|n| answers.at(t + n * 1000, ask(1)));
        let t = t + 3_000_000;
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (0, None));
    }

    #[test]
    fn without_a_rate_nothing_is_withheld() {
        let (mut answers, t) = used_to(13_500);
        answers.seen(t, connect(1), [0; 2], 0);
        assert!(!answers.hold(t, 0, true));
    }

    proptest! {
        /// In any order of events: at most two thirds of the time and the saved credit, and it ends.
        #[test]
        fn what_holds_somebody_up_is_bounded_and_ends(
            sights in proptest::collection::vec((0u64..20_000, 0u64..3, 0u64..200, 0u64..100_000), 1..300),
        ) {
            let mut answers = Answers::default();
            let (mut now_us, mut held_us) = (0, 0);
            for (step_us, connects, asked, brought_bytes) in sights {
                // Withholding ends with the credit, even if nobody calls in between.
                held_us += if answers.holds { step_us.min(answers.credit_us) } else { 0 };
                now_us += step_us;
                answers.at(now_us, Sight { connects, asked, brought_bytes });
                prop_assert!(answers.connections.len() <= CONNECTIONS);
                prop_assert!(held_us <= MOST_US + now_us * SHARE / (SHARE + 1));
            }
            answers.hold(now_us + WAY_US, RATE, true);
            let later_us = now_us + WAY_US + MOST_US;
            prop_assert!(!answers.hold(later_us, RATE, true));
        }
    }
}
