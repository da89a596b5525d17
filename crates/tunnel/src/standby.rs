//! Standing aside: while those to whom the line belongs are at work, what waits for the line goes on waiting.
//!
//! A law sees a transfer when that has made a queue, which is a round trip too late for an object of ten packets. Who sees
//! the request itself can be out of its way before the answer comes. To stand aside all the time would leave nothing to
//! others on a line that is always in use, so it is done on credit: a quarter of the time in which nobody was there, up to
//! two seconds. Whoever loads a page now and then has the line for himself meanwhile; beside somebody who never stops the
//! law yields alone, as ever.
//!
//! No clock here: times are arguments, in microseconds.

/// Who has been silent for so long, and not only between two requests, was not there since.
const AWAY_US: u64 = 500_000;
/// Of the time in which nobody was there, one in so many is credit.
const SHARE: u64 = 4;
/// What is saved up.
const MOST_US: u64 = 2_000_000;
/// With less it is not begun.
const LEAST_US: u64 = 100_000;
/// Who has been silent for so long, or for one and a half round trips, has what he wanted.
const QUIET_US: u64 = 60_000;
const QUIET_MOST_US: u64 = 1_000_000;

/// Whether to stand aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    credit_us: u64,
    /// When the credit was reckoned.
    at_us: u64,
    /// Until then what waits should stand aside.
    there_until_us: u64,
    /// From then on nobody was there.
    away_from_us: u64,
    aside: bool,
    /// The time stood aside.
    total_us: u64,
}

/// The silence after which they have what they wanted.
fn quiet_us(srtt_us: u64) -> u64 {
    (srtt_us * 3 / 2).clamp(QUIET_US, QUIET_MOST_US)
}

impl Default for Standby {
    fn default() -> Standby {
        Standby {
            credit_us: MOST_US,
            at_us: 0,
            there_until_us: 0,
            away_from_us: 0,
            aside: false,
            total_us: 0,
        }
    }
}

impl Standby {
    /// They are at work; `srtt_us` is the round-trip time, 0 where it is not known.
    pub fn seen(&mut self, now_us: u64, srtt_us: u64) {
        self.reckon(now_us);
        self.there_until_us = self.there_until_us.max(now_us + quiet_us(srtt_us));
        self.away_from_us = self.there_until_us.max(now_us + AWAY_US);
    }

    /// Something has come of what was permitted before: on a slow line that keeps back what they have asked for, so their silence
    /// says nothing yet. While it stands aside nothing new is permitted, so this has an end.
    pub fn ours(&mut self, now_us: u64, srtt_us: u64) {
        if self.aside && now_us < self.there_until_us {
            self.reckon(now_us);
            self.there_until_us = self.there_until_us.max(now_us + quiet_us(srtt_us));
            self.away_from_us = self.away_from_us.max(self.there_until_us);
        }
    }

    /// Until when to stand aside, if nothing else is seen; nothing: what waits may go. Where nothing waits it costs no credit.
    pub fn hold(&mut self, now_us: u64, waiting: bool) -> Option<u64> {
        self.reckon(now_us);
        let least_us = if self.aside { 1 } else { LEAST_US };
        self.aside = waiting && now_us < self.there_until_us && self.credit_us >= least_us;
        self.aside.then(|| self.there_until_us.min(now_us + self.credit_us))
    }

    /// From then on nobody is there any more, if nothing else is seen.
    pub fn there_until_us(&self) -> u64 {
        self.there_until_us
    }

    /// Whether it stood aside when it was asked last.
    pub fn is_aside(&self) -> bool {
        self.aside
    }

    /// The time stood aside.
    pub fn total_us(&self) -> u64 {
        self.total_us
    }

    fn reckon(&mut self, now_us: u64) {
        if self.aside {
            // Until there was no credit left, however late it is asked.
            let aside_us = self.there_until_us.min(now_us).saturating_sub(self.at_us).min(self.credit_us);
            self.credit_us -= aside_us;
            self.total_us += aside_us;
        }
        let away_us = now_us.saturating_sub(self.away_from_us.max(self.at_us));
        self.credit_us = (self.credit_us + away_us / SHARE).min(MOST_US);
        self.at_us = self.at_us.max(now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000;

    /// The time stood aside of `span_us`, beside people who are at work for `busy_us` of every `every_us`.
    fn aside(busy_us: u64, every_us: u64, span_us: u64) -> u64 {
        let mut standby = Standby::default();
        for now_us in (0..span_us).step_by(5_000) {
            if now_us % every_us < busy_us {
                standby.seen(now_us, 0);
            }
            standby.hold(now_us, true);
        }
        standby.total_us()
    }

    #[test]
    fn who_comes_now_and_then_has_the_line_for_himself() {
        // Half a second of every four, and the moment after it.
        let each_us = S / 2 - 5_000 + QUIET_US;
        assert_eq!(aside(S / 2, 4 * S, 40 * S), 10 * each_us);
    }

    #[test]
    fn beside_who_never_stops_the_law_yields_alone() {
        assert_eq!(aside(S, S, 60 * S), MOST_US);
        // Five requests a second: the pauses are too short to be called absence.
        let much_us = aside(120_000, 200_000, 60 * S);
        assert!((MOST_US - LEAST_US..=MOST_US).contains(&much_us), "{much_us}");
    }

    #[test]
    fn it_ends_when_nothing_was_seen_for_a_while_or_the_credit_is_used_up() {
        let mut standby = Standby::default();
        assert_eq!(standby.hold(0, true), None);
        standby.seen(10, 0);
        assert_eq!(standby.hold(20, true), Some(10 + QUIET_US));
        assert_eq!(standby.hold(10 + QUIET_US, true), None);
        // A long way: one and a half round trips.
        standby.seen(S, 200_000);
        assert_eq!(standby.hold(S, true), Some(S + 300_000));
        standby.seen(S + 200_000, 10 * S);
        assert_eq!(standby.hold(S + 200_000, true), Some(S + 200_000 + QUIET_MOST_US));
        for now_us in (S + 200_000..4 * S).step_by(10_000) {
            standby.seen(now_us, 0);
            standby.hold(now_us, true);
        }
        assert_eq!((standby.hold(4 * S, true), standby.credit_us), (None, 0));
    }

    #[test]
    fn their_silence_does_not_count_while_something_comes_that_keeps_their_answer_back() {
        let mut standby = Standby::default();
        standby.seen(0, 0);
        standby.hold(0, true);
        standby.ours(50_000, 0);
        assert_eq!(standby.hold(QUIET_US, true), Some(50_000 + QUIET_US));
        // What comes is of what has been permitted since.
        assert_eq!(standby.hold(50_000 + QUIET_US, true), None);
        standby.ours(60_000 + QUIET_US, 0);
        assert_eq!(standby.hold(60_000 + QUIET_US, true), None);
        // Nobody stands aside, so whatever comes is not the last.
        standby.seen(S, 0);
        standby.hold(S, false);
        standby.ours(S + 50_000, 0);
        assert_eq!(standby.there_until_us(), S + QUIET_US);
    }

    #[test]
    fn where_nothing_waits_it_costs_nothing() {
        let mut standby = Standby::default();
        for now_us in (0..60 * S).step_by(10_000) {
            standby.seen(now_us, 0);
            assert_eq!(standby.hold(now_us, false), None);
        }
        assert_eq!((standby.total_us(), standby.credit_us), (0, MOST_US));
    }

    proptest! {
        /// Whatever happens when: no more than a quarter of the time and what was saved up.
        #[test]
        fn credit_is_never_overdrawn(
            steps in proptest::collection::vec((0u64..3 * S, 0u64..2 * S, 0..3, any::<bool>()), 1..200),
        ) {
            let mut standby = Standby::default();
            let mut now_us = 0;
            for (step_us, srtt_us, event, waiting) in steps {
                now_us += step_us;
                match event {
                    0 => standby.seen(now_us, srtt_us),
                    1 => standby.ours(now_us, srtt_us),
                    _ => {}
                }
                let until_us = standby.hold(now_us, waiting);
                prop_assert!(until_us.is_none_or(|until_us| until_us > now_us && waiting));
                prop_assert_eq!(standby.is_aside(), until_us.is_some());
            }
            prop_assert!(standby.total_us() <= MOST_US + now_us / SHARE);
        }
    }
}
