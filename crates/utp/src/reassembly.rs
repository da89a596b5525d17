//! The receiving half of a stream: puts packets in order, keeps bytes until they are read, and
//! builds selective acknowledgements.

use crate::wire::SACK_BITS_MAX;
use std::collections::{BTreeMap, VecDeque};

/// Most packets that are kept ahead of a missing one. libutp has the same limit.
const AHEAD_MAX: u64 = SACK_BITS_MAX as u64;
/// An empty buffer above this many bytes is freed, so that idle connections use little memory.
const KEEP_BYTES: usize = 4096;

/// The result of inserting a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It was the next one.
    InOrder,
    /// It was the next one, and filled a gap before packets that had arrived.
    FilledGap,
    /// It is kept until a missing packet arrives.
    Ahead,
    /// It had arrived before.
    Duplicate,
    /// There is no room for it, or it is after the end of the stream. It is not acknowledged.
    Refused,
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// Number of the next packet in order.
    next: u64,
    /// Bytes in order that were not read yet.
    readable: VecDeque<u8>,
    ahead: BTreeMap<u64, Box<[u8]>>,
    ahead_bytes: usize,
    capacity: usize,
    /// Number of the last packet of the stream, once it is known.
    fin: Option<u64>,
    /// Nobody reads: payload is thrown away.
    discards: bool,
}

impl Reassembly {
    /// Starts after packet `received` of the peer; keeps at most `capacity` bytes.
    pub(crate) fn new(received: u64, capacity: usize) -> Self {
        Reassembly {
            next: received + 1,
            readable: VecDeque::new(),
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            capacity,
            fin: None,
            discards: false,
        }
    }

    /// Throws payload away from now on, and what is kept already.
    pub(crate) fn discard(&mut self) {
        self.discards = true;
        self.readable = VecDeque::new();
        self.ahead.values_mut().for_each(|payload| *payload = Box::default());
        self.ahead_bytes = 0;
    }

    /// Keeps at most `capacity` bytes from now on; what is kept already stays.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Number of the last packet before the first gap.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.next - 1
    }

    /// Inserts a packet of the stream; `fin` marks the last one.
    pub(crate) fn insert(&mut self, number: u64, payload: &[u8], fin: bool) -> Arrival {
        if number < self.next || self.ahead.contains_key(&number) {
            return Arrival::Duplicate;
        }
        let payload = if self.discards { &[] } else { payload };
        let behind_end = self.fin.is_some_and(|end| number > end || (fin && number != end));
        let ends_early = fin && self.ahead.last_key_value().is_some_and(|(&last, _)| last > number);
        if behind_end || ends_early || number - self.next > AHEAD_MAX || payload.len() > self.room() {
            return Arrival::Refused;
        }
        if fin {
            self.fin = Some(number);
        }
        if number > self.next {
            self.ahead_bytes += payload.len();
            self.ahead.insert(number, payload.into());
            return Arrival::Ahead;
        }
        self.readable.extend(payload);
        self.next += 1;
        let mut arrival = Arrival::InOrder;
        while let Some(waiting) = self.ahead.remove(&self.next) {
            self.ahead_bytes -= waiting.len();
            self.readable.extend(waiting);
            self.next += 1;
            arrival = Arrival::FilledGap;
        }
        arrival
    }

    /// Bytes that may still arrive: the window to announce.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.readable.len() + self.ahead_bytes)
    }

    /// Bytes that are kept, in order or not.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.readable.len() + self.ahead.values().map(|payload| payload.len()).sum::<usize>()
    }

    /// Bytes that can be read now.
    pub(crate) fn readable_bytes(&self) -> usize {
        self.readable.len()
    }

    /// Whether all packets of the stream have arrived; some bytes may be unread.
    pub(crate) fn is_complete(&self) -> bool {
        self.fin.is_some_and(|end| end < self.next)
    }

    /// Moves bytes into `out`. Returns their number.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let mut read = 0;
        while read < out.len() {
            let (first, _) = self.readable.as_slices();
            let count = first.len().min(out.len() - read);
            if count == 0 {
                break;
            }
            out[read..read + count].copy_from_slice(&first[..count]);
            self.readable.drain(..count);
            read += count;
        }
        if self.readable.is_empty() && self.readable.capacity() > KEEP_BYTES {
            self.readable = VecDeque::new();
        }
        read
    }

    /// Whether packets are kept until a missing one arrives.
    pub(crate) fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// The selective acknowledgement: bit i is packet `acknowledged + 2 + i`. Empty without a gap.
    pub(crate) fn sack(&self) -> Vec<u8> {
        let mut bits = Vec::new();
        for &number in self.ahead.keys() {
            let bit = (number - self.next - 1) as usize;
            if bits.len() <= bit / 8 {
                bits.resize(bit / 8 + 1, 0);
            }
            bits[bit / 8] |= 1 << (bit % 8);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(stream: &mut Reassembly) -> Vec<u8> {
        let mut out = vec![0; stream.readable_bytes()];
        let count = stream.read(&mut out);
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn a_gap_is_told_and_filled() {
        let mut stream = Reassembly::new(9, 100);
        assert_eq!(stream.insert(11, b"b", false), Arrival::Ahead);
        assert_eq!(stream.insert(13, b"d", true), Arrival::Ahead);
        assert_eq!(stream.sack(), [0b101]);
        assert_eq!(stream.insert(13, b"d", true), Arrival::Duplicate);
        assert_eq!(stream.insert(10, b"a", false), Arrival::FilledGap);
        assert_eq!((stream.acknowledged(), stream.sack()), (11, vec![1]));
        assert_eq!(stream.insert(12, b"c", false), Arrival::FilledGap);
        assert!(stream.is_complete());
        assert_eq!(read_all(&mut stream), b"abcd");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut stream = Reassembly::new(0, 4);
        assert_eq!(stream.insert(2, b"bcd", false), Arrival::Ahead);
        assert_eq!(stream.insert(3, b"ef", false), Arrival::Refused);
        assert_eq!(stream.insert(2000, b"", false), Arrival::Refused);
        assert_eq!(stream.room(), 1);
        assert_eq!(stream.insert(1, b"a", true), Arrival::Refused, "an end before what is here");
        assert_eq!(stream.insert(2, b"bcd", true), Arrival::Duplicate);
        assert_eq!(stream.insert(1, b"a", false), Arrival::FilledGap);
        assert_eq!(stream.room(), 0);
        assert_eq!(read_all(&mut stream), b"abcd");
        assert_eq!(stream.room(), 4);
    }

    #[test]
    fn nothing_comes_behind_the_end() {
        let mut stream = Reassembly::new(0, 100);
        assert_eq!(stream.insert(2, b"", true), Arrival::Ahead);
        assert_eq!(stream.insert(3, b"x", false), Arrival::Refused);
        assert_eq!(stream.insert(1, b"x", true), Arrival::Refused);
        assert!(!stream.is_complete());
    }

    proptest! {
        #[test]
        fn any_order_gives_the_same_stream(order in Just((1u64..=60).collect::<Vec<_>>()).prop_shuffle()) {
            let mut stream = Reassembly::new(0, 10_000);
            for &number in &order {
                stream.insert(number, &[number as u8; 3], number == 60);
                let bits: u32 = stream.sack().iter().map(|byte| byte.count_ones()).sum();
                prop_assert_eq!(bits as usize, stream.ahead.len());
            }
            let expected: Vec<u8> = (1..=60u8).flat_map(|number| [number; 3]).collect();
            prop_assert!(stream.is_complete());
            prop_assert_eq!(read_all(&mut stream), expected);
        }
    }
}
