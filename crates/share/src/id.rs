//! Numbers of users and flows, and maps by them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a number that this program has given. No peer chooses the number, so the map needs no
/// keyed hash. The order of the map means nothing.
pub(crate) type ById<K, V> = HashMap<K, V, BuildHasherDefault<Numbers>>;

/// Hasher that spreads consecutive numbers (Knuth, The Art of Computer Programming 3, 6.4:
/// multiplicative hashing).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Numbers(u64);

impl Hasher for Numbers {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// A user: has one share of the line, whatever number of flows the user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u64);

/// A flow: one connection, or one port for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    pub(crate) fn new(number: u64) -> FlowId {
        FlowId(number)
    }

    /// The number, for logs.
    pub fn number(self) -> u64 {
        self.0
    }
}
