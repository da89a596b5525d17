//! The scoreboard: state of each outstanding segment, and which segments are lost.
//!
//! With SACK this is the scoreboard of RFC 6675: `pipe` counts the bytes in flight, and a segment
//! is lost once `dupthresh` segments above it were received. Without SACK, RFC 6582 infers the
//! same: each duplicate acknowledgement means that one segment has left the network, and the lost
//! segment is the first outstanding one.

use super::receiver::Block;
use leeway_units::Time;

/// State of one segment.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    sent: Time,
    payload: u16,
    state: State,
    /// Whether it was sent more than once.
    again: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// In flight: counted in the pipe.
    #[default]
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Lost, and not sent again yet.
    Lost,
}

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Payload bytes that are newly acknowledged, cumulatively or selectively.
    pub bytes: u64,
    /// Segments by which the cumulative acknowledgement moved.
    pub advanced: u32,
    /// Segments that are newly acknowledged by SACK blocks.
    pub sacked: u32,
    /// Of the newly acknowledged segments, the one that was sent last.
    pub newest: Option<Newest>,
}

/// The segment that was sent last, among those that an acknowledgement covers for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// Segment number.
    pub seq: u32,
    /// When it was sent last.
    pub sent: Time,
    /// Whether it was sent more than once, so that its round-trip time is ambiguous (Karn's
    /// algorithm).
    pub again: bool,
}

impl Progress {
    /// Counts a newly acknowledged segment.
    #[inline]
    fn cover(&mut self, seq: u32, segment: &Segment) {
        self.bytes += u64::from(segment.payload);
        if self.newest.is_none_or(|newest| segment.sent >= newest.sent) {
            self.newest = Some(Newest { seq, sent: segment.sent, again: segment.again });
        }
    }
}

/// The segments from the first unacknowledged to the last sent.
#[derive(Debug, Clone, Default)]
pub struct Scoreboard {
    /// Segment `seq` is at `seq & mask`.
    ring: Vec<Segment>,
    mask: u32,
    /// One bit for each segment, placed as in `ring`: selectively acknowledged.
    received: Vec<u64>,
    /// First unacknowledged segment.
    una: u32,
    /// One past the last segment sent.
    next: u32,
    /// Payload bytes in flight (RFC 6675, `pipe`).
    pipe: u64,
    /// Segments in state `Lost`.
    lost: u32,
    /// Segments in state `Sacked`. Each has its bit in `received`.
    sacked: u32,
    /// One past the highest segment that was selectively acknowledged.
    sack_end: u32,
    /// Segments below this were examined for loss.
    examined: u32,
    /// No segment below this is in state `Lost`.
    first_lost: u32,
}

impl Scoreboard {
    /// First unacknowledged segment.
    #[inline]
    pub fn una(&self) -> u32 {
        self.una
    }

    /// One past the last segment sent.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Payload bytes in flight.
    #[inline]
    pub fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Segments selectively acknowledged.
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Whether no segment is outstanding.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.una == self.next
    }

    /// When the first unacknowledged segment was last sent.
    pub fn first_sent(&self) -> Time {
        self.segment(self.una).sent
    }

    #[inline]
    fn segment(&self, seq: u32) -> &Segment {
        &self.ring[(seq & self.mask) as usize]
    }

    #[inline]
    fn segment_mut(&mut self, seq: u32) -> &mut Segment {
        &mut self.ring[(seq & self.mask) as usize]
    }

    /// A new segment is sent. Returns its number.
    #[inline]
    pub fn send(&mut self, now: Time, payload: u16) -> u32 {
        if (self.next - self.una) as usize >= self.ring.len() {
            self.grow();
        }
        let seq = self.next;
        *self.segment_mut(seq) = Segment { sent: now, payload, state: State::InFlight, again: false };
        self.next += 1;
        self.pipe += u64::from(payload);
        seq
    }

    /// Makes room for twice as many segments.
    fn grow(&mut self) {
        let len = (self.ring.len() * 2).max(16);
        let mut ring = vec![Segment::default(); len];
        let mut received = vec![0; len.div_ceil(64)];
        let mask = len as u32 - 1;
        for seq in self.una..self.next {
            let segment = *self.segment(seq);
            ring[(seq & mask) as usize] = segment;
            received[((seq & mask) / 64) as usize] |= u64::from(segment.state == State::Sacked) << (seq % 64);
        }
        self.ring = ring;
        self.received = received;
        self.mask = mask;
    }

    /// The first lost segment that was not sent again, and its payload.
    #[inline]
    pub fn next_lost(&mut self) -> Option<(u32, u16)> {
        if self.lost == 0 {
            return None;
        }
        let mut seq = self.first_lost.max(self.una);
        while self.segment(seq).state != State::Lost {
            seq += 1;
        }
        self.first_lost = seq;
        Some((seq, self.segment(seq).payload))
    }

    /// Lost segment `seq` is retransmitted.
    pub fn send_again(&mut self, now: Time, seq: u32) {
        let segment = self.segment_mut(seq);
        debug_assert_eq!(segment.state, State::Lost);
        segment.state = State::InFlight;
        segment.sent = now;
        segment.again = true;
        let payload = u64::from(segment.payload);
        self.pipe += payload;
        self.lost -= 1;
    }

    /// Applies a cumulative acknowledgement up to `next_expected`, and SACK blocks.
    #[inline]
    pub fn acknowledge(&mut self, next_expected: u32, blocks: &[Block]) -> Progress {
        let mut progress = Progress::default();
        let ack = next_expected.min(self.next);
        while self.una < ack {
            let segment = *self.segment(self.una);
            match segment.state {
                State::InFlight => {
                    self.pipe -= u64::from(segment.payload);
                    progress.cover(self.una, &segment);
                }
                State::Lost => {
                    self.lost -= 1;
                    progress.cover(self.una, &segment);
                }
                State::Sacked => {
                    self.sacked -= 1;
                    self.received[((self.una & self.mask) / 64) as usize] &= !(1 << (self.una % 64));
                }
            }
            self.una += 1;
            progress.advanced += 1;
        }
        for &block in blocks {
            self.sack(block, &mut progress);
        }
        progress
    }

    fn sack(&mut self, (from, to): Block, progress: &mut Progress) {
        let (from, to) = (from.max(self.una), to.min(self.next));
        if from >= to {
            return;
        }
        // SACK blocks repeat what earlier ones said. The bitmap finds new segments, 64 at a time.
        let mut seq = from;
        while seq < to {
            let (word, bit) = (((seq & self.mask) / 64) as usize, seq % 64);
            let count = (64 - bit).min(to - seq);
            let mut unknown = (u64::MAX >> (64 - count) << bit) & !self.received[word];
            self.received[word] |= unknown;
            while unknown != 0 {
                self.mark_sacked(seq - bit + unknown.trailing_zeros(), progress);
                unknown &= unknown - 1;
            }
            seq += count;
        }
        self.sack_end = self.sack_end.max(to);
    }

    fn mark_sacked(&mut self, seq: u32, progress: &mut Progress) {
        let segment = self.segment_mut(seq);
        let before = *segment;
        segment.state = State::Sacked;
        match before.state {
            State::InFlight => self.pipe -= u64::from(before.payload),
            State::Lost => self.lost -= 1,
            State::Sacked => unreachable!("the map of received segments knows this one"),
        }
        self.sacked += 1;
        progress.sacked += 1;
        progress.cover(seq, &before);
    }

    /// Marks segments as lost that have `dupthresh` selectively acknowledged segments above them
    /// (RFC 6675, IsLost). Returns their bytes, and when the first of them was sent.
    #[inline]
    pub fn detect_losses(&mut self, dupthresh: u32) -> Option<(u64, Time)> {
        if self.sacked < dupthresh {
            return None;
        }
        // Segments below the `dupthresh`-th acknowledged one from above can be lost.
        let (mut bound, mut above) = (self.sack_end, 0);
        while above < dupthresh {
            bound -= 1;
            above += u32::from(self.segment(bound).state == State::Sacked);
        }
        let mut found = None;
        for seq in self.examined.max(self.una)..bound {
            if self.segment(seq).state == State::InFlight && !self.segment(seq).again {
                self.mark_lost(seq, &mut found);
            }
        }
        self.examined = self.examined.max(bound);
        found
    }

    /// Marks the first unacknowledged segment as lost (RFC 6582: after a partial acknowledgement
    /// or the third duplicate).
    pub fn lose_first(&mut self) -> Option<(u64, Time)> {
        let mut found = None;
        if !self.is_empty() && self.segment(self.una).state == State::InFlight {
            self.mark_lost(self.una, &mut found);
        }
        found
    }

    /// Marks all segments in flight as lost: the timer has expired (RFC 6298, 5.4).
    pub fn lose_all(&mut self) -> Option<(u64, Time)> {
        let mut found = None;
        for seq in self.una..self.next {
            if self.segment(seq).state == State::InFlight {
                self.mark_lost(seq, &mut found);
            }
        }
        self.first_lost = self.una;
        self.examined = self.next;
        found
    }

    fn mark_lost(&mut self, seq: u32, found: &mut Option<(u64, Time)>) {
        let segment = self.segment_mut(seq);
        segment.state = State::Lost;
        let (payload, sent) = (u64::from(segment.payload), segment.sent);
        self.pipe -= payload;
        self.lost += 1;
        self.first_lost = self.first_lost.min(seq);
        let (bytes, _) = found.get_or_insert((0, sent));
        *bytes += payload;
    }

    /// Starts over as a new connection, and keeps allocated memory.
    pub fn reset(&mut self) {
        let mut received = std::mem::take(&mut self.received);
        received.fill(0);
        let ring = std::mem::take(&mut self.ring);
        *self = Scoreboard { ring, received, mask: self.mask, ..Scoreboard::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(count: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..count {
            board.send(Time::from_millis(u64::from(n)), 1000);
        }
        board
    }

    #[test]
    fn three_segments_above_make_a_loss() {
        let mut board = sent(10);
        board.acknowledge(2, &[(3, 5)]);
        assert_eq!(board.detect_losses(3), None);
        let progress = board.acknowledge(2, &[(3, 6)]);
        assert_eq!((progress.bytes, progress.sacked), (1000, 1));
        assert_eq!(board.detect_losses(3), Some((1000, Time::from_millis(2))));
        assert_eq!((board.pipe(), board.lost), (4000, 1));
        assert_eq!(board.next_lost(), Some((2, 1000)));
        board.send_again(Time::from_secs(1), 2);
        assert_eq!(board.next_lost(), None);
        board.acknowledge(2, &[(3, 7)]);
        assert_eq!(board.detect_losses(3), None, "what was sent again is not lost by old news");
        board.acknowledge(7, &[]);
        assert_eq!((board.una(), board.pipe()), (7, 3000));
    }

    #[test]
    fn the_newest_is_the_one_sent_last() {
        let mut board = sent(6);
        board.acknowledge(0, &[(3, 6)]);
        board.detect_losses(3);
        board.send_again(Time::from_secs(1), 0);
        let progress = board.acknowledge(3, &[]);
        let newest = Newest { seq: 0, sent: Time::from_secs(1), again: true };
        assert_eq!((progress.bytes, progress.newest), (3000, Some(newest)));
        assert_eq!(board.acknowledge(6, &[]).newest, None, "known before");
        board.send(Time::from_secs(2), 1000);
        board.send(Time::from_secs(2), 1000);
        let newest = board.acknowledge(8, &[]).newest.unwrap();
        assert_eq!((newest.seq, newest.again), (7, false));
    }

    #[test]
    fn a_timeout_loses_all_but_the_received() {
        let mut board = sent(6);
        board.acknowledge(1, &[(3, 4)]);
        assert_eq!(board.lose_all(), Some((4000, Time::from_millis(1))));
        assert_eq!(board.pipe(), 0);
        let mut again = vec![];
        while let Some((seq, _)) = board.next_lost() {
            board.send_again(Time::from_secs(1), seq);
            again.push(seq);
        }
        assert_eq!(again, [1, 2, 4, 5]);
    }

    proptest! {
        #[test]
        fn the_counters_are_what_a_count_would_give(
            ops in prop::collection::vec((0u8..6, 0u32..24, 1u32..6), 1..120)
        ) {
            let mut board = Scoreboard::default();
            for (n, (op, a, b)) in ops.into_iter().enumerate() {
                let now = Time::from_nanos(n as u64);
                match op {
                    0 | 1 => for _ in 0..b { board.send(now, 100 + a as u16); },
                    2 => { board.acknowledge(board.una() + a.min(b), &[]); }
                    3 => {
                        let from = board.una() + 1 + a;
                        board.acknowledge(board.una(), &[(from, from + b), (from + 8, from + 9)]);
                        board.detect_losses(3);
                    }
                    4 => if let Some((seq, _)) = board.next_lost() { board.send_again(now, seq) },
                    _ => { if a == 0 { board.lose_all(); } else { board.lose_first(); } }
                }
                let (mut pipe, mut lost, mut sacked) = (0, 0, 0);
                for seq in board.una..board.next {
                    match board.segment(seq).state {
                        State::InFlight => pipe += u64::from(board.segment(seq).payload),
                        State::Lost => lost += 1,
                        State::Sacked => sacked += 1,
                    }
                }
                prop_assert_eq!((board.pipe, board.lost, board.sacked), (pipe, lost, sacked));
                let first = (board.una..board.next).find(|&s| board.segment(s).state == State::Lost);
                prop_assert_eq!(board.next_lost().map(|(seq, _)| seq), first);
            }
        }
    }
}
