//! Holding packets back while the home is at work, for as long as a credit lasts.
//!
//! A law learns of a transfer of the home by the queue that the transfer makes. For an object of ten
//! packets that is a round trip too late. Who sees the home's request can hold back before the
//! response comes. Holding back all the time would leave nothing to neighbours on a line that the
//! home always uses. So holding back costs credit: a quarter of the time in which the home was away,
//! at most two seconds. A home that loads a page now and then has the line for itself meanwhile.
//! Beside a home that never pauses, the credit is soon used up, and the law alone yields.
//!
//! There is no clock here: times are arguments, in microseconds.

/// The home counts as away after 500 ms without a packet, which is longer than the gap between two
/// requests of one page.
const AWAY_US: u64 = 500_000;
/// The credit is the time away divided by this.
const SHARE: u64 = 4;
/// The most credit.
const MOST_US: u64 = 2_000_000;
/// Holding back does not begin with less credit than this.
const LEAST_US: u64 = 100_000;
/// The home has its response after a silence of 1.5 round trips, at least 60 ms and at most 1 s.
const QUIET_US: u64 = 60_000;
const QUIET_MOST_US: u64 = 1_000_000;

/// Whether to hold back, and the credit for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    credit_us: u64,
    /// When `credit_us` was computed.
    at_us: u64,
    /// The home is at work until this time.
    there_until_us: u64,
    /// The home is away from this time on.
    away_from_us: u64,
    aside: bool,
    /// Time held back, in all.
    total_us: u64,
}

/// The silence after which the home has its response.
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
    /// The home sent or received a packet. `srtt_us` is the round-trip time, 0 where it is not known.
    pub fn seen(&mut self, now_us: u64, srtt_us: u64) {
        self.reckon(now_us);
        self.there_until_us = self.there_until_us.max(now_us + quiet_us(srtt_us));
        self.away_from_us = self.there_until_us.max(now_us + AWAY_US);
    }

    /// A neighbour's packet arrived that was sent before holding back began. On a slow line such
    /// packets delay the home's response, so the home's silence does not count yet. Nothing new is sent
    /// meanwhile, so the packets on the way come to an end.
    pub fn ours(&mut self, now_us: u64, srtt_us: u64) {
        if self.aside && now_us < self.there_until_us {
            self.reckon(now_us);
            self.there_until_us = self.there_until_us.max(now_us + quiet_us(srtt_us));
            self.away_from_us = self.away_from_us.max(self.there_until_us);
        }
    }

    /// Until when to hold back, unless the home is seen again; `None`: packets may go. Where nothing
    /// is waiting, no credit is used.
    pub fn hold(&mut self, now_us: u64, waiting: bool) -> Option<u64> {
        self.reckon(now_us);
        let least_us = if self.aside { 1 } else { LEAST_US };
        self.aside = waiting && now_us < self.there_until_us && self.credit_us >= least_us;
        self.aside.then(|| self.there_until_us.min(now_us + self.credit_us))
    }

    /// When the home has its response, unless it is seen again.
    pub fn there_until_us(&self) -> u64 {
        self.there_until_us
    }

    /// The answer of the last [`Standby::hold`].
    pub fn is_aside(&self) -> bool {
        self.aside
    }

    /// Time held back, in all, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.total_us
    }

    fn reckon(&mut self, now_us: u64) {
        if self.aside {
            // Holding back ended when the credit was used up, even if nobody called in between.
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

    /// Time held back in `span_us`, beside a home that is at work for `busy_us` of every `every_us`.
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
    fn a_home_that_comes_now_and_then_has_the_line_for_itself() {
        // Half a second of every four, and the moment after it.
        let each_us = S / 2 - 5_000 + QUIET_US;
        assert_eq!(aside(S / 2, 4 * S, 40 * S), 10 * each_us);
    }

    #[test]
    fn beside_a_home_that_never_pauses_the_law_alone_yields() {
        assert_eq!(aside(S, S, 60 * S), MOST_US);
        // Five requests a second: the pauses are shorter than 500 ms, so the home is never away.
        let much_us = aside(120_000, 200_000, 60 * S);
        assert!((MOST_US - LEAST_US..=MOST_US).contains(&much_us), "{much_us}");
    }

    #[test]
    fn holding_back_ends_after_a_silence_or_with_the_credit() {
        let mut standby = Standby::default();
        assert_eq!(standby.hold(0, true), None);
        standby.seen(10, 0);
        assert_eq!(standby.hold(20, true), Some(10 + QUIET_US));
        assert_eq!(standby.hold(10 + QUIET_US, true), None);
        // A long path: one and a half round trips.
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
    fn the_homes_silence_does_not_count_while_packets_arrive_that_delay_its_response() {
        let mut standby = Standby::default();
        standby.seen(0, 0);
        standby.hold(0, true);
        standby.ours(50_000, 0);
        assert_eq!(standby.hold(QUIET_US, true), Some(50_000 + QUIET_US));
        // This packet was sent after holding back had ended.
        assert_eq!(standby.hold(50_000 + QUIET_US, true), None);
        standby.ours(60_000 + QUIET_US, 0);
        assert_eq!(standby.hold(60_000 + QUIET_US, true), None);
        // Nothing is held back, so further packets follow.
        standby.seen(S, 0);
        standby.hold(S, false);
        standby.ours(S + 50_000, 0);
        assert_eq!(standby.there_until_us(), S + QUIET_US);
    }

    #[test]
    fn where_nothing_waits_no_credit_is_used() {
        let mut standby = Standby::default();
        for now_us in (0..60 * S).step_by(10_000) {
            standby.seen(now_us, 0);
            assert_eq!(standby.hold(now_us, false), None);
        }
        assert_eq!((standby.total_us(), standby.credit_us), (0, MOST_US));
    }

    proptest! {
        /// In any order of events: at most a quarter of the time and the initial credit.
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
