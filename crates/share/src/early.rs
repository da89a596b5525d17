//! Bytes of a connection that came before others which were sent earlier: out of order.
//!
//! They have left the line, so they count as arrived at once. Their connection cannot read them before
//! what is missing has come, after a round trip or a timeout.

use std::collections::BTreeMap;

/// Segments that are remembered; more come from a server that sends tiny ones, and count when they are in
/// order.
const MOST: usize = 8192;

/// What came out of order of one connection. Positions count bytes since it began.
#[derive(Debug, Default)]
pub struct Early {
    /// The length of each segment in bytes, by its first position.
    segments: BTreeMap<u64, u64>,
    bytes: u64,
    /// Segments out of order since the last one in order.
    in_a_row: u32,
}

impl Early {
    /// Bytes that came and are not in order.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A segment came that is not the next one: its bytes where all of them are new. A segment that
    /// overlaps another one counts when it is in order, so that no server counts bytes twice.
    pub fn came(&mut self, from: u64, bytes: u64) -> u64 {
        self.in_a_row += 1;
        let end = from.saturating_add(bytes);
        let overlaps = self.segments.range(..end).next_back().is_some_and(|(at, len)| at + len > from);
        if self.segments.len() >= MOST || overlaps {
            return 0;
        }
        self.segments.insert(from, bytes);
        self.bytes += bytes;
        bytes
    }

    /// Whether the segments out of order say that one was lost: they are `duplicates` now (RFC 5681, 3.2).
    pub fn says_lost(&self, duplicates: u32) -> bool {
        self.in_a_row == duplicates
    }

    /// Everything before `position` is in order now: how many of these bytes had come before.
    pub fn passed(&mut self, position: u64) -> u64 {
        self.in_a_row = 0;
        let later = self.segments.split_off(&position);
        let bytes = std::mem::replace(&mut self.segments, later).into_values().sum();
        self.bytes -= bytes;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1460;

    /// The second of six segments is lost, and comes when it is sent again.
    #[test]
    fn bytes_out_of_order_count_once() {
        let mut early = Early::default();
        let came: Vec<u64> = (2..6).map(|n| early.came(n * MSS, MSS)).collect();
        assert_eq!((came, early.bytes()), (vec![MSS; 4], 4 * MSS));
        assert_eq!(early.came(3 * MSS, MSS), 0, "it was sent twice");
        assert_eq!(early.passed(2 * MSS), 0, "the second has come, the third is the next");
        assert_eq!(early.passed(6 * MSS), 4 * MSS);
        assert_eq!((early.passed(9 * MSS), early.bytes()), (0, 0));
    }

    #[test]
    fn three_in_a_row_say_that_one_was_lost_and_say_it_once() {
        let mut early = Early::default();
        let said: Vec<bool> = (2..8)
            .map(|n| {
                early.came(n * MSS, MSS);
                early.says_lost(3)
            })
            .collect();
        assert_eq!(said, [false, false, true, false, false, false]);
        early.passed(8 * MSS);
        early.came(9 * MSS, MSS);
        assert!(early.says_lost(1), "the next loss");
    }

    /// A server sends the same bytes again and again, each time one byte later.
    #[test]
    fn overlapping_segments_count_once() {
        let mut early = Early::default();
        let counted: u64 = (0..1000).map(|n| early.came(10 * MSS + n, MSS)).sum();
        assert_eq!((counted, early.bytes()), (MSS, MSS));
        assert_eq!(early.came(9 * MSS, MSS), MSS, "it ends where the other begins");
        assert_eq!(early.came(8 * MSS + 1, MSS), 0);
        assert_eq!(early.passed(11 * MSS), 2 * MSS);
    }

    #[test]
    fn tiny_segments_take_bounded_memory() {
        let mut early = Early::default();
        (0..3 * MOST as u64).for_each(|n| {
            early.came(2 * n, 1);
        });
        assert_eq!(early.bytes(), MOST as u64);
    }
}
