//! Bytes of a connection that arrived out of order: before others which were sent earlier.
//!
//! Such bytes have left the line, so they count as arrived at once. The program can read them
//! only after the missing segment has arrived, a round trip or a timeout later.

use std::collections::BTreeMap;

/// Segments that are remembered. Only a server that sends tiny segments needs more; further
/// segments count when they are in order.
const MOST: usize = 8192;

/// The bytes of one connection that arrived out of order. Positions count bytes since the
/// connection began.
#[derive(Debug, Default)]
pub struct Early {
    /// The length of each segment in bytes, by its first position.
    segments: BTreeMap<u64, u64>,
    bytes: u64,
    /// Segments out of order since the last one in order.
    in_a_row: u32,
}

impl Early {
    /// Bytes that arrived and are not yet in order.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records a segment that is not the next one. Returns its length if all its bytes are new. A
    /// segment that overlaps another one counts when it is in order, so no byte counts twice.
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

    /// Whether a loss is indicated now: the number of segments out of order in a row has just
    /// reached `duplicates` (RFC 5681, 3.2).
    pub fn says_lost(&self, duplicates: u32) -> bool {
        self.in_a_row == duplicates
    }

    /// Records that everything before `position` is in order now. Returns how many of these bytes
    /// had been counted before.
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

    /// The second of six segments is lost, and arrives when it is sent again.
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
