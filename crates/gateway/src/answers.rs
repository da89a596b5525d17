//! What the home has asked for and has not got yet.
//!
//! A server answers a request with up to ten segments at once (RFC 6928), which makes a queue on a slow line, and what others
//! are permitted meanwhile comes behind them or between them. Who sees the request knows of that queue a round trip before
//! it is there: for as long as the line will take for the answer nobody is permitted anything, and what is permitted then
//! comes to the line when it has just become free. A law alone would hear of the queue when it is there, give way to it, and
//! leave the line idle afterwards.
//!
//! Whoever asks for a connection asks for something else once that is there. It is counted when it would be asked
//! without a queue: in the time that a queue takes from that, it goes away, and the answer finds none. A request that no
//! connection foretells comes too late for that: its answer meets the law's queue. Where the home has been silent before
//! it, the line is kept for it all the same; where one comes soon after another, the law hears of their queues and gives
//! way to them, and they are left to it.
//!
//! How long an answer will be nobody knows: it is taken to be as long as the last ones were, and where it comes more slowly
//! than the line was thought to be, the rest of it will, too. Nor is the rate known where little has come, so nobody is held
//! up for more than two thirds of the time.
//!
//! No clock here: times are arguments, in microseconds.

use crate::edges::BURST_BYTES;
use leeway_net::Sight;
use std::collections::VecDeque;

/// One answer in so many decides how long they are taken to be.
const MEMORY: u64 = 8;
/// Connections that are being made.
const CONNECTIONS: usize = 64;
/// Who has made a connection asks within that.
const ASKS_US: u64 = 200_000;
/// For each moment in which nobody is held up, so many in which somebody may be.
const SHARE: u64 = 2;
/// And so long in a row: a line of half a megabit a second takes that for two answers.
const MOST_US: u64 = 500_000;
/// What has come for so long shows how fast it comes.
const TRAIN_US: u64 = 10_000;
/// And what comes so long after the last does not belong to it.
const APART_US: u64 = 50_000;
/// A request that comes so long after what the home had before does not belong to that.
const SILENT_US: u64 = 500_000;
/// With less it is not begun.
const LEAST_US: u64 = 50_000;

/// The answers to the home.
#[derive(Debug, Default)]
pub struct Answers {
    /// What is permitted from then on comes behind all that was asked for.
    until_us: u64,
    at_us: u64,
    /// What was asked for and has not come.
    due_bytes: u64,
    train: Train,
    /// When a connection will be there, and whether what is asked for then is counted already.
    connections: VecDeque<(u64, bool)>,
    usual_bytes: u64,
    /// How many of the last requests the line was kept for, of a thousand.
    kept_permille: u64,
    /// When the home last asked for something or got it.
    heard_us: u64,
    /// What has come since the last requests, and how many those were.
    brought_bytes: u64,
    asked: u64,
    /// How long somebody may be held up yet, and whether somebody is.
    credit_us: u64,
    holds: bool,
}

/// What comes without a gap.
#[derive(Debug, Default)]
struct Train {
    from_us: u64,
    last_us: u64,
    /// After the first of it.
    bytes: u64,
}

impl Answers {
    /// What was seen of the home. A permission brings something after `way_us`, and a connection is there after `connects_us`; the line
    /// brings `rate` bytes a second, 0 where that is not known.
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

    /// Whether those who wait, if anybody does, are held up for what comes to the home.
    pub fn hold(&mut self, now_us: u64, rate: u64, waiting: bool) -> bool {
        self.advance(now_us, rate);
        let least_us = if self.holds { 1 } else { LEAST_US };
        self.holds = waiting && now_us < self.until_us && self.credit_us >= least_us;
        self.holds
    }

    /// How many of the last requests the line was kept for, of a thousand.
    pub fn kept_permille(&self) -> u64 {
        self.kept_permille
    }

    /// Time passes, the line brings what was asked for, and connections are there.
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

    /// Another answer, which has been on its way for so long.
    fn add(&mut self, rate: u64, late_us: u64) {
        let takes_us = (self.usual_bytes * 1_000_000).checked_div(rate).unwrap_or(0);
        let from_us = self.at_us.saturating_sub(late_us);
        if self.until_us < from_us {
            self.due_bytes = 0;
        }
        self.due_bytes += self.usual_bytes;
        self.until_us = (self.until_us.max(from_us) + takes_us).min(self.at_us + MOST_US);
    }

    /// Something has come of what was asked for.
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

    /// Of how much the last requests have brought.
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

        /// So many connections that ask at once.
        fn ask_on_new(&mut self, now_us: u64, times: u64) {
            self.at(now_us, connect(times));
            self.at(now_us, ask(times));
        }

        /// From then on, the milliseconds in which somebody is held up within half a second, and the first of them.
        fn held(&mut self, from_us: u64) -> (usize, Option<usize>) {
            let held: Vec<usize> =
                (0..500).filter(|&n| self.hold(from_us + n as u64 * 1000, RATE, true)).collect();
            (held.len(), held.first().copied())
        }
    }

    /// After many requests of which each brought so much; and a second of silence.
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
    fn who_waits_is_held_up_for_as_long_as_the_line_takes_for_an_answer() {
        let (mut answers, t) = used_to(13_500);
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (68, Some(0)));
        // One behind the other.
        let (mut answers, t) = used_to(13_500);
        answers.ask_on_new(t, 2);
        assert_eq!(answers.held(t + 8000), (127, Some(0)));
        // Where nobody waits nobody is held up, and the answer comes all the same.
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
        // One that asks before it was foreseen.
        let (mut answers, t) = used_to(13_500);
        answers.at(t, connect(1));
        answers.at(t + WAY_US / 2, ask(1));
        assert_eq!(answers.held(t + WAY_US / 2), (68, Some(0)));
        // Nobody asks on a connection that was made, and then somebody does on another.
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
    fn what_comes_more_slowly_takes_longer() {
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
        // Half as fast: nine segments, until the last comes within a way. And no longer where the others never come.
        for segments in [9, 3] {
            let held = slow(15_000, segments);
            assert!((125..=140).contains(&held), "{segments}: {held}");
        }
    }

    #[test]
    fn how_long_answers_are_is_learnt_and_forgotten() {
        let mut answers = Answers::default();
        answers.ask_on_new(1_000_000, 1);
        assert_eq!(answers.held(1_000_000), (0, None));
        // No more than what comes at once.
        let (mut answers, t) = used_to(1_000_000);
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (73, Some(0)));
        // An upload: thousands of packets that bring nothing.
        (0..1000).for_each(|n| answers.at(t + n * 1000, ask(1)));
        let t = t + 3_000_000;
        answers.ask_on_new(t, 1);
        assert_eq!(answers.held(t), (0, None));
    }

    #[test]
    fn where_nothing_comes_nothing_is_known_of_the_line() {
        let (mut answers, t) = used_to(13_500);
        answers.seen(t, connect(1), [0; 2], 0);
        assert!(!answers.hold(t, 0, true));
    }

    proptest! {
        /// Whatever is seen when: never more than two thirds of the time and what was saved up, and over when nothing comes.
        #[test]
        fn what_holds_somebody_up_is_bounded_and_ends(
            sights in proptest::collection::vec((0u64..20_000, 0u64..3, 0u64..200, 0u64..100_000), 1..300),
        ) {
            let mut answers = Answers::default();
            let (mut now_us, mut held_us) = (0, 0);
            for (step_us, connects, asked, brought_bytes) in sights {
                // It ends with the credit, however late it is asked.
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
