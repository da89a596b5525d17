//! The calendar: which event is next.
//!
//! Nearly every event comes from a source that is in order by itself: a delay line delivers
//! packets in the order in which they entered, and a transmitter finishes one packet at a time. So
//! the heap has one entry for each busy source, not for each packet in flight. Entries of equal
//! time are played in the order of insertion, so that a run does not depend on the shape of the
//! heap.

use leeway_units::Time;
use std::collections::VecDeque;

/// Time of an event and its number of insertion, compared as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u128);

impl Key {
    /// Later than every event.
    pub const NEVER: Key = Key(u128::MAX);

    /// An event at `time` that was the `order`-th insertion.
    #[inline]
    pub fn new(time: Time, order: u64) -> Self {
        Key(u128::from(time.nanos()) << 64 | u128::from(order))
    }

    /// Time of the event.
    #[inline]
    pub fn time(self) -> Time {
        Time::from_nanos((self.0 >> 64) as u64)
    }
}

/// A four-ary min-heap of keys with a small payload.
///
/// Which of four children is least is close to random, and a mispredicted branch costs more than
/// the comparisons. So the choice is computed without a branch. Sentinels after the last entry
/// make sure that there are always four children.
#[derive(Debug)]
pub struct Heap<T> {
    /// The entries of the heap, then sentinels with [`Key::NEVER`].
    entries: Vec<(Key, T)>,
    len: usize,
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Heap { entries: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Heap<T> {
    /// The earliest entry.
    #[inline]
    pub fn first(&self) -> Option<&(Key, T)> {
        self.entries.first().filter(|_| self.len > 0)
    }

    /// Key of the earliest entry; [`Key::NEVER`] if the heap is empty.
    #[inline]
    pub fn next(&self) -> Key {
        self.entries.first().map_or(Key::NEVER, |entry| entry.0)
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, key: Key, payload: T) {
        let mut at = self.len;
        self.len += 1;
        if self.entries.len() < self.len + 4 {
            self.entries.resize(self.len + 4, (Key::NEVER, payload));
        }
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.entries[parent].0 <= key {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = (key, payload);
    }

    /// Removes the earliest entry.
    #[inline]
    pub fn pop(&mut self) {
        if self.len == 0 {
            return;
        }
        self.len -= 1;
        let last = self.entries[self.len];
        self.entries[self.len].0 = Key::NEVER;
        if self.len > 0 {
            self.sink(last);
        }
    }

    /// Removes the entries for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(T) -> bool) {
        let all = std::mem::take(self);
        for &(key, payload) in all.entries[..all.len].iter().filter(|(_, payload)| keep(*payload)) {
            self.push(key, payload);
        }
    }

    /// Gives the earliest entry a later key.
    #[inline]
    pub fn delay_first(&mut self, key: Key) {
        let payload = self.entries[0].1;
        self.sink((key, payload));
    }

    /// Replaces the first entry by `entry`, and restores the order of the heap.
    #[inline]
    fn sink(&mut self, entry: (Key, T)) {
        let mut at = 0;
        loop {
            let child = 4 * at + 1;
            if child >= self.len {
                break;
            }
            let children = &self.entries[child..child + 4];
            let left = usize::from(children[1].0 < children[0].0);
            let right = 2 + usize::from(children[3].0 < children[2].0);
            let least = left + (right - left) * usize::from(children[right].0 < children[left].0);
            if children[least].0 >= entry.0 {
                break;
            }
            self.entries[at] = children[least];
            at = child + least;
        }
        self.entries[at] = entry;
    }
}

/// A fixed delay: packets leave in the order in which they entered.
#[derive(Debug)]
pub struct Pipe<P> {
    /// Time between entering and leaving.
    pub delay: leeway_units::Duration,
    ring: VecDeque<(Key, P)>,
}

impl<P> Pipe<P> {
    /// A pipe without packets.
    pub fn new(delay: leeway_units::Duration) -> Self {
        Pipe { delay, ring: VecDeque::new() }
    }

    /// Puts `packet` in at `now`. Returns its key if it is the only packet.
    #[inline]
    pub fn push(&mut self, now: Time, order: u64, packet: P) -> Option<Key> {
        let key = Key::new(now + self.delay, order);
        self.ring.push_back((key, packet));
        (self.ring.len() == 1).then_some(key)
    }

    /// Takes the first packet out. Returns it with the key of the next packet.
    #[inline]
    pub fn pop(&mut self) -> Option<(P, Option<Key>)> {
        let (_, packet) = self.ring.pop_front()?;
        Some((packet, self.ring.front().map(|(key, _)| *key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_come_out_in_order_and_none_is_lost(
            ops in prop::collection::vec((0u64..50, 0u8..3), 1..300)
        ) {
            let mut heap = Heap::default();
            let mut model = std::collections::BTreeSet::new();
            for (order, (time, op)) in ops.into_iter().enumerate() {
                let key = Key::new(Time::from_nanos(time), order as u64);
                match op {
                    0 => {
                        heap.pop();
                        model.pop_first();
                    }
                    1 if model.first().is_some_and(|first: &(Key, usize)| first.0 < key) => {
                        let (_, payload) = model.pop_first().unwrap();
                        model.insert((key, payload));
                        heap.delay_first(key);
                    }
                    _ => {
                        heap.push(key, order);
                        model.insert((key, order));
                    }
                }
                prop_assert_eq!(heap.first(), model.first());
            }
        }
    }
}
