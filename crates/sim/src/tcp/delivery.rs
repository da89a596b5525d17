//! Delivery rates (draft-cheng-iccrg-delivery-rate-estimation) of a connection whose law looks at them.

use super::scoreboard::Progress;
use leeway_control::Rate;
use leeway_control::sender::{RateStamp, RateState};

/// What the estimator keeps of the connection and of every outstanding segment; nothing where no law asks.
#[derive(Debug, Clone)]
pub struct Delivery {
    wanted: bool,
    state: RateState,
    /// Segment `seq` is at `seq` modulo the length, a power of two.
    stamps: Vec<RateStamp>,
    /// Every segment below is acknowledged.
    una: u32,
}

impl Delivery {
    /// Of a new connection; `wanted`: its law looks at rates.
    pub fn new(wanted: bool) -> Self {
        Delivery { wanted, state: RateState::default(), stamps: Vec::new(), una: 0 }
    }

    /// Segment `seq` leaves, for the first time or again, while `pipe` bytes are in flight.
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

    /// Nothing is there to send, although the window would let it go.
    #[inline]
    pub fn app_limited(&mut self, pipe: u64) {
        if self.wanted {
            self.state.app_limited(pipe);
        }
    }

    /// So many bytes were found lost.
    #[inline]
    pub fn lost(&mut self, bytes: u64) {
        self.state.lost(bytes);
    }

    /// The sample of an acknowledgement after which `una` is the first segment outstanding.
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

    /// Makes room for twice as many segments, those below `next` being in use.
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
