//! Round trips of a receive window, from the packets of its connection: from the announcement
//! that let a segment through to the segment's arrival.
//!
//! A server sends a segment when the window has room for all of it. So the segment was let
//! through by the first announcement whose right edge is at or beyond the segment's end. Only the
//! first segment of each announcement counts, because the later ones wait for it. This module has
//! no clock: times are arguments, in microseconds.

use crate::estimator::Certainty;
use std::collections::VecDeque;

/// What the packets of one connection show. Positions count bytes since the connection began.
#[derive(Debug, Default)]
pub struct Observed {
    /// Everything before it has arrived.
    arrived: u64,
    /// The right edge of the window that was announced last.
    edge: u64,
    /// Announcements that may still let a segment through, the oldest first.
    announced: VecDeque<Announced>,
    /// Segments that end at or before this position give no sample: they were let through before
    /// the samples were dropped, and may arrive late.
    silent: u64,
    /// A request was granted, and has not left yet.
    asks: bool,
}

#[derive(Debug)]
struct Announced {
    edge: u64,
    at_us: u64,
    /// A segment that this announcement let through has arrived.
    used: bool,
}

/// Data that arrived in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Everything before it has arrived.
    pub position: u64,
    /// The round-trip sample that this gives, in microseconds.
    pub round_trip: Option<(u32, Certainty)>,
}

impl Observed {
    /// Records that a request is about to leave. Its response begins a round trip later.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Records a packet that left at `at_us`. It acknowledged everything before a position and
    /// announced a right edge of the window.
    pub fn announced(&mut self, at_us: u64, acknowledged: u64, edge: u64) {
        self.arrived = self.arrived.max(acknowledged);
        if edge > self.edge {
            self.edge = edge;
            self.announced.push_back(Announced { edge, at_us, used: false });
        }
    }

    /// Records that data left at `at_us`. If that is a request, its response is let through by
    /// the window that was announced before, from this time on.
    pub fn sent(&mut self, at_us: u64) {
        if std::mem::take(&mut self.asks) {
            self.announced.clear();
            self.announced.push_back(Announced { edge: self.edge, at_us, used: false });
            self.silent = self.arrived;
        }
    }

    /// Records a segment that arrived at `at_us`. `None` if it is not the next one, or ends
    /// beyond the window.
    pub fn arrived(&mut self, at_us: u64, from: u64, bytes: u64, segment_bytes: u64) -> Option<Arrived> {
        let position = from.saturating_add(bytes);
        if from != self.arrived || position > self.edge {
            // A retransmission, a segment behind a lost one (no sample: RFC 6298, 3), or a server
            // that ignores the window.
            self.clear();
            return None;
        }
        self.arrived = position;
        while self.announced.pop_front_if(|announced| announced.edge < position).is_some() {}
        let speaks = position > self.silent;
        let first = self.announced.front_mut().filter(|announced| speaks && !announced.used);
        let round_trip = first.map(|announced| {
            announced.used = true;
            // On a slow line a short segment takes less time than the full segments of the base
            // delay.
            let whole = bytes >= segment_bytes;
            let certainty = if whole { Certainty::Exact } else { Certainty::LowerBound };
            (passed_us(announced.at_us, at_us), certainty)
        });
        Some(Arrived { position, round_trip })
    }

    /// The right edge of the window that was announced last.
    pub fn edge(&self) -> u64 {
        self.edge
    }

    /// Gives up the pending samples. Returns the age of the last announcement, in microseconds,
    /// if it let nothing through: a round trip takes at least this long.
    pub fn given_up(&mut self, now_us: u64) -> Option<u32> {
        let last = self.announced.pop_back().filter(|announced| !announced.used);
        self.clear();
        last.map(|announced| passed_us(announced.at_us, now_us))
    }

    /// Drops the pending samples.
    pub fn clear(&mut self) {
        self.announced.clear();
        self.silent = self.edge;
    }
}

fn passed_us(at_us: u64, now_us: u64) -> u32 {
    u32::try_from(now_us.saturating_sub(at_us).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Certainty::{Exact, LowerBound};

    const MSS: u64 = 1448;

    fn round_trip(observed: &mut Observed, at_us: u64, from: u64, bytes: u64) -> Option<(u32, Certainty)> {
        observed.arrived(at_us, from, bytes, MSS).and_then(|arrived| arrived.round_trip)
    }

    /// Linux announces two segments again when the first has arrived: that lets the third
    /// through.
    #[test]
    fn each_segment_is_timed_from_what_let_it_through() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 2 * MSS);
        assert_eq!(round_trip(&mut observed, 28_000, 0, MSS), Some((28_000, Exact)));
        observed.announced(28_100, MSS, 3 * MSS);
        assert_eq!(round_trip(&mut observed, 35_000, MSS, MSS), None, "it waited for the first");
        assert_eq!(round_trip(&mut observed, 56_000, 2 * MSS, MSS), Some((27_900, Exact)));
    }

    /// After a response that ended with a short segment, segments begin at other positions.
    #[test]
    fn segments_begin_anywhere() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 2 * MSS);
        observed.arrived(28_000, 0, 1000, MSS);
        observed.announced(28_100, 1000, 1000 + 2 * MSS);
        observed.ask();
        observed.sent(100_000);
        assert_eq!(round_trip(&mut observed, 128_000, 1000, MSS), Some((28_000, Exact)));
        observed.announced(128_100, 1000 + MSS, 1000 + 3 * MSS);
        assert_eq!(round_trip(&mut observed, 135_000, 1000 + MSS, MSS), None);
        assert_eq!(round_trip(&mut observed, 156_000, 1000 + 2 * MSS, MSS), Some((27_900, Exact)));
    }

    #[test]
    fn a_short_segment_is_a_bound() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 2 * MSS);
        assert_eq!(round_trip(&mut observed, 22_000, 0, 300), Some((22_000, LowerBound)));
    }

    #[test]
    fn what_is_sent_again_shows_nothing() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 4 * MSS);
        assert_eq!(observed.arrived(28_000, MSS, MSS, MSS), None, "the first is missing");
        observed.announced(300_000, 2 * MSS, 6 * MSS);
        assert_eq!(observed.arrived(301_000, 0, MSS, MSS), None, "it was late");
        observed.announced(302_000, 2 * MSS, 7 * MSS);
        for n in 2..6 {
            assert_eq!(round_trip(&mut observed, 330_000, n * MSS, MSS), None, "it was let through before");
        }
        assert_eq!(round_trip(&mut observed, 330_000, 6 * MSS, MSS), Some((28_000, Exact)));
    }

    /// Segments arrive after they were given up, while later announcements let more through.
    #[test]
    fn what_comes_late_is_not_timed_from_what_was_let_through_meanwhile() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 2 * MSS);
        assert_eq!(observed.given_up(300_000), Some(300_000));
        observed.announced(600_000, 0, 3 * MSS);
        assert_eq!(round_trip(&mut observed, 610_000, 0, MSS), None);
        assert_eq!(round_trip(&mut observed, 620_000, MSS, MSS), None);
        assert_eq!(round_trip(&mut observed, 650_000, 2 * MSS, MSS), Some((50_000, Exact)));
    }

    #[test]
    fn what_is_beyond_the_window_did_not_arrive() {
        let mut observed = Observed::default();
        observed.announced(0, 0, 2 * MSS);
        assert_eq!(observed.arrived(28_000, 0, 1 << 40, MSS), None);
    }

    #[test]
    fn an_announcement_of_which_nothing_comes_says_how_long_it_takes_at_least() {
        let mut observed = Observed::default();
        observed.announced(10_000, 0, 2 * MSS);
        assert_eq!(observed.given_up(110_000), Some(100_000));
        assert_eq!(round_trip(&mut observed, 120_000, 0, MSS), None);
    }
}
