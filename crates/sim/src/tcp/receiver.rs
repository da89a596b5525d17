//! The receiving side of TCP: reassembly, selective and delayed acknowledgements, ECN echo.

use leeway_units::Time;

/// A half-open range of segment numbers, as in a SACK block.
pub type Block = (u32, u32);

/// SACK blocks that fit into an acknowledgement beside timestamps (RFC 2018, 3).
pub const MAX_BLOCKS: usize = 3;

/// When the receiver acknowledges a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Acknowledge at once.
    Now,
    /// When the delayed-acknowledgement timer expires, or with a later segment.
    Later,
}

/// State of the receiving side of one connection.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    /// Next segment expected.
    next: u32,
    /// One past the highest segment received.
    end: u32,
    /// In-order segments since the last acknowledgement.
    unacknowledged: u32,
    /// Whether acknowledgements carry ECE, until the sender answers with CWR (RFC 3168, 6.1.3).
    echo_congestion: bool,
    /// Send time of the earliest segment that the next acknowledgement covers (RFC 7323, 4.3).
    echo: Option<Time>,
    /// Received segments above `next`, one bit each. Segment `seq` is in word `seq / 64` of this
    /// ring.
    received: Vec<u64>,
    /// One segment of each SACK block, the most recently changed block first (RFC 2018, 4).
    recent: Vec<u32>,
}

impl Receiver {
    /// Next segment expected: the cumulative acknowledgement.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Receives segment `seq`, sent at `sent`. Returns whether it is new, and when to acknowledge
    /// it.
    ///
    /// Every `every`-th in-order segment is acknowledged at once. So is every segment that is out
    /// of order or fills a gap (RFC 5681, 4.2).
    #[inline]
    pub fn accept(&mut self, seq: u32, sent: Time, every: u32) -> (bool, Reply) {
        self.unacknowledged += 1;
        self.echo.get_or_insert(sent);
        if seq == self.next && self.end <= seq {
            self.next += 1;
            let reply = if self.unacknowledged >= every { Reply::Now } else { Reply::Later };
            return (true, reply);
        }
        if seq == self.next {
            self.advance();
            return (true, Reply::Now);
        }
        let new = seq > self.next && self.keep(seq);
        // Out of order: echo this segment, because only its delay is current.
        self.echo = Some(sent);
        (new, Reply::Now)
    }

    /// The first gap is filled: moves `next` past the segments received behind it.
    fn advance(&mut self) {
        let end = self.run_end(self.next + 1);
        for seq in self.next + 1..end {
            let word = self.word(seq);
            self.received[word] &= !(1 << (seq % 64));
        }
        self.next = end;
        self.recent.retain(|&seq| seq >= end);
    }

    /// Stores an out-of-order segment. False if it was received before.
    fn keep(&mut self, seq: u32) -> bool {
        self.make_room(seq);
        let (word, bit) = (self.word(seq), 1 << (seq % 64));
        let new = self.received[word] & bit == 0;
        self.received[word] |= bit;
        self.end = self.end.max(seq + 1);
        let (from, to) = self.block_around(seq);
        self.recent.retain(|&other| other < from || to <= other);
        self.recent.insert(0, seq);
        self.recent.truncate(MAX_BLOCKS);
        new
    }

    #[inline]
    fn word(&self, seq: u32) -> usize {
        (seq / 64) as usize & (self.received.len() - 1)
    }

    /// Enlarges the ring to hold all words from that of `next` to that of `seq`.
    fn make_room(&mut self, seq: u32) {
        let needed = (seq / 64 - self.next / 64) as usize + 2;
        if needed <= self.received.len() {
            return;
        }
        let mut ring = vec![0; needed.next_power_of_two()];
        if !self.received.is_empty() {
            for word in self.next / 64..self.end.max(self.next).div_ceil(64) {
                ring[word as usize & (needed.next_power_of_two() - 1)] = self.received[self.word(word * 64)];
            }
        }
        self.received = ring;
    }

    /// The first segment from `seq` on that was not received.
    fn run_end(&self, mut seq: u32) -> u32 {
        while seq < self.end {
            let missing = !self.received[self.word(seq)] >> (seq % 64);
            if missing != 0 {
                return (seq + missing.trailing_zeros()).min(self.end);
            }
            seq = (seq / 64 + 1) * 64;
        }
        self.end.max(seq.min(self.end))
    }

    /// The block of received segments around `seq`.
    fn block_around(&self, seq: u32) -> Block {
        let mut from = seq;
        while from > self.next + 1 {
            let below = from - 1;
            let missing = !self.received[self.word(below)] << (63 - below % 64);
            let run = missing.leading_zeros().min(below % 64 + 1);
            from -= run;
            if run == 0 || missing != 0 && !from.is_multiple_of(64) {
                break;
            }
        }
        (from.max(self.next + 1), self.run_end(seq))
    }

    /// Whether no received segment is behind a gap.
    #[inline]
    pub fn is_in_order(&self) -> bool {
        self.recent.is_empty()
    }

    /// Notes the ECN bits of a segment: CE from a queue, CWR from the sender.
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

    /// An acknowledgement is sent. Returns the send time that it echoes; `None` if no segment has
    /// arrived since the last one.
    #[inline]
    pub fn acknowledge(&mut self) -> Option<Time> {
        self.unacknowledged = 0;
        self.echo.take()
    }

    /// SACK blocks for an acknowledgement, the most recently changed first, and their number.
    #[inline]
    pub fn blocks(&self) -> ([Block; MAX_BLOCKS], usize) {
        let mut blocks = [(0, 0); MAX_BLOCKS];
        for (block, &seq) in blocks.iter_mut().zip(&self.recent) {
            *block = self.block_around(seq);
        }
        (blocks, self.recent.len())
    }

    /// Starts over as a new connection, and keeps allocated memory.
    pub fn reset(&mut self) {
        let mut received = std::mem::take(&mut self.received);
        received.fill(0);
        let mut recent = std::mem::take(&mut self.recent);
        recent.clear();
        *self = Receiver { received, recent, ..Receiver::default() };
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

    fn blocks(receiver: &Receiver) -> Vec<Block> {
        let (blocks, len) = receiver.blocks();
        blocks[..len].to_vec()
    }

    #[test]
    fn blocks_are_reported_most_recent_first() {
        // RFC 2018, section 4 (and its case 3 in section 5).
        let mut receiver = Receiver::default();
        feed(&mut receiver, &[0, 2, 4, 6, 8]);
        assert_eq!(receiver.next(), 1);
        assert_eq!(blocks(&receiver), [(8, 9), (6, 7), (4, 5)]);
        feed(&mut receiver, &[3]);
        assert_eq!(blocks(&receiver), [(2, 5), (8, 9), (6, 7)]);
        feed(&mut receiver, &[6]);
        assert_eq!(blocks(&receiver), [(6, 7), (2, 5), (8, 9)], "a duplicate is reported too");
        feed(&mut receiver, &[1]);
        assert_eq!((receiver.next(), blocks(&receiver)), (5, vec![(6, 7), (8, 9)]));
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
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn agrees_with_a_set(seqs in prop::collection::vec(0u32..300, 0..200), offset in 0u32..200) {
            let mut receiver = Receiver::default();
            feed(&mut receiver, &(0..offset).collect::<Vec<_>>());
            let mut model: BTreeSet<u32> = (0..offset).collect();
            let mut latest: Vec<u32> = vec![];
            for seq in seqs {
                let seq = seq / 3 + offset / 2 + seq % 7 * 20;
                let (new, _) = receiver.accept(seq, Time::ZERO, 1);
                prop_assert_eq!(new, model.insert(seq));
                let next = (0..).find(|n| !model.contains(n)).unwrap();
                prop_assert_eq!(receiver.next(), next);
                latest.insert(0, seq);
                // The blocks by brute force: those around the latest segments, each once.
                let mut expected: Vec<Block> = vec![];
                for &seq in latest.iter().filter(|&&seq| seq >= next) {
                    let from = (0..=seq).rev().find(|n| !model.contains(n)).unwrap() + 1;
                    let to = (seq..).find(|n| !model.contains(n)).unwrap();
                    if !expected.contains(&(from, to)) {
                        expected.push((from, to));
                    }
                }
                let reported = blocks(&receiver);
                prop_assert_eq!(&reported[..], &expected[..reported.len()]);
                prop_assert!(expected.is_empty() == reported.is_empty());
            }
        }
    }
}
