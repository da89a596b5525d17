//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation), for laws that need it.

use super::scoreboard::Progress;
use leeway_control::Rate;
use leeway_control::sender::{RateStamp, RateState};

/// State of the estimator: one of the connection, and a stamp of each outstanding segment. Does
/// nothing if the law needs no rates.
#[derive(Debug, Clone)]
pub struct Delivery {
    wanted: bool,
    state: RateState,
    /// Stamp of each outstanding segment. That of segment `seq` is at `seq` modulo the length,
    /// which is a power of two.
    stamps: Vec<RateStamp>,
    /// First unacknowledged segment.
    una: u32,
}

impl Delivery {
    /// The state of a new connection. `wanted`: whether its law needs rates.
    pub fn new(wanted: bool) -> Self {
        Delivery { wanted, state: RateState::default(), stamps: Vec::new(), una: 0 }
    }

    /// Segment `seq` is sent, for the first time or again, while `pipe` bytes are in flight.
    #[inline]
    pub fn sent(&mut self, now_us: u64, seq: u32, pipe: u64, bytes: u64) {
        if !self.wanted {
            return;
        }
        while (seq - self.una) as usize >= self.stamps.len() {
            self.grow(seq);
        }
        let at = self.at(seq);
        self.stamps[at] = self.state.sent(now_us, pipe, bytes);
    }

    /// The sender has nothing to send, although the window has room: the connection is
    /// app-limited.
    #[inline]
    pub fn app_limited(&mut self, pipe: u64) {
        if self.wanted {
            self.state.app_limited(pipe);
        }
    }

    /// `bytes` were found lost.
    #[inline]
    pub fn lost(&mut self, bytes: u64) {
        self.state.lost(bytes);
    }

    /// The rate sample of an acknowledgement. `una` is the first unacknowledged segment after it.
    #[inline]
    pub fn acknowledged(&mut self, now_us: u64, una: u32, progress: &Progress, min_rtt_us: u32) -> Rate {
        if !self.wanted {
            return Rate::default();
        }
        self.una = una;
        let Some(newest) = progress.newest else { return Rate::default() };
        let stamp = self.stamps[self.at(newest.seq)];
        self.state.sample(&stamp, now_us, progress.bytes, min_rtt_us)
    }

    fn at(&self, seq: u32) -> usize {
        seq as usize & (self.stamps.len() - 1)
    }

    /// Makes room for twice as many segments. Those below `next` are in use.
    fn grow(&mut self, next: u32) {
        let len = (self.stamps.len() * 2).max(16);
        let mut stamps = vec![RateStamp::default(); len];
        if !self.stamps.is_empty() {
            for seq in self.una..next {
                stamps[seq as usize & (len - 1)] = self.stamps[self.at(seq)];
            }
        }
        self.stamps = stamps;
    }
}
