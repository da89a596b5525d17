//! Propagation: every packet comes out later.

use leeway_queue::Packet;
use leeway_units::{Duration, Time};
use std::collections::VecDeque;

/// A delay line.
#[derive(Debug)]
pub struct Delay<P> {
    delay: Duration,
    /// Times ascend.
    flying: VecDeque<(Time, P)>,
}

impl<P: Packet> Delay<P> {
    /// A line on which every packet takes `delay`.
    pub fn fixed(delay: Duration) -> Self {
        Delay { delay, flying: VecDeque::new() }
    }

    /// A packet enters.
    #[inline]
    pub fn push(&mut self, now: Time, packet: P) {
        self.flying.push_back((now + self.delay, packet));
    }

    /// When the next packet comes out.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.flying.front().map(|&(at, _)| at)
    }

    /// The next packet that has come out by `now`, with the time at which it did; one a call.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<(Time, P)> {
        match self.flying.front() {
            Some(&(at, _)) if at <= now => self.flying.pop_front(),
            _ => None,
        }
    }

    /// Packets on their way.
    pub fn len(&self) -> usize {
        self.flying.len()
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }
}
