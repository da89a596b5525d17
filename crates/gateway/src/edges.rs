//! Round-trip times of a receive window: from the moment at which a position came within it to the arrival of the last
//! segment that this let through.
//!
//! No clock and no sockets here: times are arguments, positions count bytes since the connection began.

use crate::window::MSS_BYTES;
use std::collections::VecDeque;

/// Windows up to this are filled at once by a new connection (RFC 6928), so filling them takes one round trip; and with each byte
/// that has come, by one more (RFC 5681, 3.1).
pub const BURST_BYTES: u64 = 10 * MSS_BYTES as u64;
/// Edges that are timed at a time.
const TIMED: usize = 32;

/// The right edge of one connection's window, as it moves.
#[derive(Debug)]
pub struct Edges {
    /// Up to here the server was ever permitted to send.
    furthest: u64,
    /// What is left of a window and less than this is not sent.
    mss: u64,
    /// Where the server began with its first window.
    begun: u64,
    timed: VecDeque<Edge>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    position: u64,
    question: Question,
}

/// What was asked of a server, and is not answered yet.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    at_us: u64,
    exact: bool,
    /// It was given up after so long.
    late_us: Option<u64>,
}

/// What comes so many times as late as it was given up was not asked for, or thought about: it says nothing of the way.
const MUCH_LATER: u64 = 10;

/// A round-trip time; one that is not exact may have been longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// In microseconds, above 0.
    pub rtt_us: u32,
    /// Whether it is known to be this and no longer.
    pub exact: bool,
    /// Whether it was given up before.
    pub late: bool,
}

impl Edges {
    /// A connection whose first window is that large, of segments of `mss` bytes.
    pub fn new(window: u64, mss: u64) -> Edges {
        Edges { furthest: window, mss, begun: 0, timed: VecDeque::new() }
    }

    /// `bytes` were read from before a `window`, which moves its edge to `position`. `exact`: they had just come, so that
    /// the edge did not move before; the kernel moves it when bytes come, read or not, while there is room in its buffer.
    pub fn moved(&mut self, position: u64, bytes: u64, window: u64, now_us: u64, exact: bool) {
        let filled_at_once = BURST_BYTES + (position - window).saturating_sub(self.begun);
        // Else some of it was let through before, by a window that was larger.
        if position >= self.furthest + bytes && window <= filled_at_once {
            if self.timed.len() == TIMED {
                self.timed.pop_front();
            }
            self.timed.push_back(Edge { position, question: Question { exact, ..Question::new(now_us) } });
        }
        self.furthest = self.furthest.max(position);
    }

    /// The window has another size now, and its edge this position. One that has grown lets through what it did before at the same times.
    pub fn resized(&mut self, position: u64) {
        if position > self.furthest {
            self.furthest = position;
        } else {
            self.timed.clear();
        }
    }

    /// Up to here the server was ever permitted to send.
    pub fn furthest(&self) -> u64 {
        self.furthest
    }

    /// What has not come after `late_us` is late.
    pub fn late(&mut self, late_us: u64) {
        self.timed.iter_mut().for_each(|edge| edge.question.late(late_us));
    }

    /// After that position the server begins again: it has sent nothing for a while.
    pub fn begin(&mut self, position: u64) {
        self.begun = position;
    }

    /// Nothing more will come, or not by these.
    pub fn clear(&mut self) {
        self.timed.clear();
    }

    /// Whether any is timed.
    pub fn is_timed(&self) -> bool {
        !self.timed.is_empty()
    }

    /// Everything before `position` has arrived: what the last edge whose bytes are all here says.
    pub fn arrived(&mut self, position: u64, now_us: u64) -> Option<RoundTrip> {
        let mut last = None;
        while let Some(edge) = self.timed.pop_front_if(|edge| position + self.mss > edge.position) {
            last = edge.question.answered(now_us);
        }
        last
    }
}

impl Question {
    /// One that is asked now.
    pub fn new(now_us: u64) -> Question {
        Question { at_us: now_us, exact: true, late_us: None }
    }

    /// What has not come after `late_us` is late.
    pub fn late(&mut self, late_us: u64) {
        self.late_us.get_or_insert(late_us);
    }

    /// The round trip that an answer at that time shows; nothing where no time has passed, or much more than the way takes.
    pub fn answered(&self, at_us: u64) -> Option<RoundTrip> {
        let took_us = at_us.saturating_sub(self.at_us);
        if self.late_us.is_some_and(|late_us| took_us > late_us.saturating_mul(MUCH_LATER)) {
            return None;
        }
        let (rtt_us, late) = (u32::try_from(took_us).unwrap_or(u32::MAX), self.late_us.is_some());
        (rtt_us > 0).then_some(RoundTrip { rtt_us, exact: self.exact, late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1448;

    fn exactly(rtt_us: u32) -> Option<RoundTrip> {
        Some(RoundTrip { rtt_us, exact: true, late: false })
    }

    #[test]
    fn a_window_that_opens_by_a_segment_is_filled_by_a_segment() {
        let mut edges = Edges::new(2920, SEGMENT);
        // Two segments come, and are read, 7 ms apart; what each read lets through comes a round trip later.
        for (n, at_us) in [(1, 0), (2, 7_000)] {
            assert_eq!(edges.arrived(n * SEGMENT, at_us), None);
            edges.moved(n * SEGMENT + 2920, SEGMENT, 2920, at_us, true);
        }
        assert_eq!(edges.arrived(3 * SEGMENT, 27_000), exactly(27_000));
        assert_eq!(edges.arrived(4 * SEGMENT, 34_000), exactly(27_000));
        assert!(!edges.is_timed());
    }

    #[test]
    fn a_window_of_whole_segments_is_filled_by_its_last_one() {
        let mut edges = Edges::new(2 * SEGMENT, SEGMENT);
        edges.moved(3 * SEGMENT, SEGMENT, 2 * SEGMENT, 0, true);
        assert_eq!(edges.arrived(2 * SEGMENT, 1_000), None);
        assert_eq!(edges.arrived(3 * SEGMENT, 27_000), exactly(27_000));
    }

    #[test]
    fn what_a_larger_window_let_through_is_no_answer_to_a_smaller_one() {
        let mut edges = Edges::new(2920, SEGMENT);
        edges.resized(5840);
        // The window shrinks to two segments; the third of the larger one is still on its way.
        edges.resized(SEGMENT + 2920);
        edges.moved(2 * SEGMENT + 2920, SEGMENT, 2920, 0, true);
        assert_eq!(edges.arrived(3 * SEGMENT, 5_000), None);
        assert_eq!(edges.arrived(4 * SEGMENT, 6_000), None);
        // One segment beyond the larger window's edge.
        edges.moved(5840 + SEGMENT, SEGMENT, 2920, 7_000, true);
        assert_eq!(edges.arrived(5 * SEGMENT, 34_000), exactly(27_000));
    }

    #[test]
    fn a_window_that_grows_is_timed_all_the_while() {
        let mut edges = Edges::new(2 * SEGMENT, SEGMENT);
        edges.moved(3 * SEGMENT, SEGMENT, 2 * SEGMENT, 0, true);
        edges.resized(4 * SEGMENT);
        assert_eq!(edges.arrived(3 * SEGMENT, 27_000), exactly(27_000));
    }

    #[test]
    fn a_server_that_has_sent_much_fills_a_large_window_at_once_until_it_begins_again() {
        let window = 2 * BURST_BYTES;
        let timed = |begun| {
            let mut edges = Edges::new(window, SEGMENT);
            edges.begin(begun);
            edges.moved(100_000 + window, SEGMENT, window, 0, true);
            edges.arrived(100_000 + window, 27_000)
        };
        assert_eq!(timed(100_000 - BURST_BYTES), exactly(27_000));
        assert_eq!(timed(100_001 - BURST_BYTES), None);
    }

    #[test]
    fn bytes_that_waited_may_have_let_others_through_before() {
        let mut edges = Edges::new(2920, SEGMENT);
        edges.moved(SEGMENT + 2920, SEGMENT, 2920, 20_000, false);
        assert_eq!(
            edges.arrived(3 * SEGMENT, 29_000),
            Some(RoundTrip { rtt_us: 9_000, exact: false, late: false })
        );
    }

    #[test]
    fn what_is_late_took_so_long_at_most_and_what_is_much_later_says_nothing() {
        let late = |after_us| {
            let mut edges = Edges::new(2920, SEGMENT);
            edges.moved(SEGMENT + 2920, SEGMENT, 2920, 0, true);
            edges.late(90_000);
            // Given up once.
            edges.late(180_000);
            edges.arrived(3 * SEGMENT, after_us)
        };
        assert_eq!(late(120_000), Some(RoundTrip { rtt_us: 120_000, exact: true, late: true }));
        assert_eq!(late(900_000), Some(RoundTrip { rtt_us: 900_000, exact: true, late: true }));
        assert_eq!(late(900_001), None);
    }

    #[test]
    fn windows_that_are_not_filled_at_once_are_not_timed_and_neither_is_any_number() {
        let mut edges = Edges::new(2920, SEGMENT);
        edges.begin(SEGMENT);
        edges.moved(SEGMENT + BURST_BYTES + 1, SEGMENT, BURST_BYTES + 1, 0, true);
        assert!(!edges.is_timed());
        for n in 0..1000 {
            edges.moved(200_000 + n * SEGMENT, SEGMENT, 2920, n, true);
        }
        assert_eq!(edges.timed.len(), TIMED);
        edges.clear();
        assert_eq!(edges.arrived(u64::MAX / 2, 1), None);
    }
}
