//! The receiving side: reassembly, selective and delayed acknowledgements, ECN echo.

use leeway_units::Time;

/// Half-open range of segment numbers.
pub type Block = (u32, u32);

/// Blocks an acknowledgement can carry beside timestamps (RFC 2018, section 3).
pub const MAX_BLOCKS: usize = 3;

/// What the receiver does about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Acknowledge at once.
    Now,
    /// Acknowledge when the timer expires, or with the next segment.
    Later,
}

/// Reassembly state of one connection.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    /// Next segment expected.
    next: u32,
    /// Segments above `next`, most recently changed first (RFC 2018, section 4).
    blocks: Vec<Block>,
    /// In-order segments since the last acknowledgement.
    unacknowledged: u32,
    /// RFC 7323, 4.3: an acknowledgement echoes the earliest segment it covers.
    echo: Option<Time>,
    /// RFC 3168, 6.1.3: echo the mark until the sender says that it has reacted.
    echo_congestion: bool,
}

impl Receiver {
    /// Next segment expected: the cumulative acknowledgement.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes segment `seq`, sent at `sent`; whether it is new, and when to acknowledge.
    ///
    /// Every `every`-th in-order segment is acknowledged at once, one that is out of order or fills a gap always
    /// (RFC 5681, 4.2).
    #[inline]
    pub fn accept(&mut self, seq: u32, sent: Time, every: u32) -> (bool, Reply) {
        self.unacknowledged += 1;
        self.echo.get_or_insert(sent);
        if seq == self.next {
            self.next += 1;
            if self.blocks.is_empty() {
                let reply = if self.unacknowledged >= every { Reply::Now } else { Reply::Later };
                return (true, reply);
            }
            if let Some(filled) = self.blocks.iter().position(|block| block.0 == self.next) {
                self.next = self.blocks.remove(filled).1;
            }
            return (true, Reply::Now);
        }
        let new = seq > self.next && self.insert(seq);
        // Out of order: the sample of this very segment is the one that says something.
        self.echo = Some(sent);
        (new, Reply::Now)
    }

    /// Adds an out-of-order segment; false if it was there.
    fn insert(&mut self, seq: u32) -> bool {
        let (mut low, mut high) = (seq, seq + 1);
        let mut at = 0;
        let mut found = 0;
        while at < self.blocks.len() {
            let (from, to) = self.blocks[at];
            if from <= seq && seq < to {
                self.blocks[..=at].rotate_right(1);
                return false;
            }
            if to == seq || from == seq + 1 {
                low = low.min(from);
                high = high.max(to);
                self.blocks.remove(at);
                found += 1;
                if found == 2 {
                    break;
                }
            } else {
                at += 1;
            }
        }
        self.blocks.insert(0, (low, high));
        true
    }

    /// Notes the ECN bits of a segment: marked, and "window reduced" from the sender.
    #[inline]
    pub fn note_ecn(&mut self, marked: bool, reduced: bool) {
        if reduced {
            self.echo_congestion = false;
        }
        self.echo_congestion |= marked;
    }

    /// Whether acknowledgements carry ECE.
    #[inline]
    pub fn echoes_congestion(&self) -> bool {
        self.echo_congestion
    }

    /// An acknowledgement goes out: the time it echoes.
    #[inline]
    pub fn acknowledge(&mut self) -> Option<Time> {
        self.unacknowledged = 0;
        self.echo.take()
    }

    /// Blocks for the acknowledgement, most recent first; empty when all is in order.
    #[inline]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks[..self.blocks.len().min(MAX_BLOCKS)]
    }

    /// Back to a connection that has received nothing, keeping the memory.
    pub fn reset(&mut self) {
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        *self = Receiver { blocks, ..Receiver::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn feed(receiver: &mut Receiver, seqs: &[u32]) {
        for &seq in seqs {
            receiver.accept(seq, Time::ZERO, 1);
        }
    }

    #[test]
    fn blocks_are_reported_most_recent_first() {
        // RFC 2018, section 4 (and its case 3 in section 5).
        let mut receiver = Receiver::default();
        feed(&mut receiver, &[0, 2, 4, 6, 8]);
        assert_eq!(receiver.next(), 1);
        assert_eq!(receiver.blocks(), [(8, 9), (6, 7), (4, 5)]);
        feed(&mut receiver, &[3]);
        assert_eq!(receiver.blocks(), [(2, 5), (8, 9), (6, 7)]);
        feed(&mut receiver, &[6]);
        assert_eq!(receiver.blocks(), [(6, 7), (2, 5), (8, 9)], "a duplicate is reported too");
        feed(&mut receiver, &[1]);
        assert_eq!((receiver.next(), receiver.blocks()), (5, &[(6, 7), (8, 9)][..]));
    }

    #[test]
    fn acknowledges_every_second_segment_but_gaps_at_once() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.accept(0, Time::from_secs(1), 2), (true, Reply::Later));
        assert_eq!(receiver.accept(1, Time::from_secs(2), 2), (true, Reply::Now));
        assert_eq!(receiver.acknowledge(), Some(Time::from_secs(1)), "the earliest is echoed");
        assert_eq!(receiver.accept(3, Time::from_secs(3), 2), (true, Reply::Now));
        assert_eq!(receiver.accept(2, Time::from_secs(4), 2), (true, Reply::Now));
        assert_eq!(receiver.accept(2, Time::from_secs(5), 2), (false, Reply::Now));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(seqs in prop::collection::vec(0u32..40, 0..200)) {
            let mut receiver = Receiver::default();
            let mut model = BTreeSet::new();
            for seq in seqs {
                let (new, _) = receiver.accept(seq, Time::ZERO, 1);
                prop_assert_eq!(new, model.insert(seq));
                let next = (0..).find(|n| !model.contains(n)).unwrap();
                prop_assert_eq!(receiver.next(), next);
                let mut covered: Vec<u32> = receiver.blocks.iter().flat_map(|&(a, b)| a..b).collect();
                covered.sort_unstable();
                let above: Vec<u32> = model.range(next..).copied().collect();
                prop_assert_eq!(covered, above);
            }
        }
    }
}
