//! The largest packet that the path carries, found by probes (as libutp does it).
//!
//! A probe is an ordinary packet that must not be fragmented. One that arrives raises the size of
//! all packets; one that is lost lowers the bound of the search, and is no sign of congestion. All
//! other packets may be fragmented, so a path whose MTU shrinks keeps working.

/// The search ends when its bounds are this close.
const CLOSE_BYTES: usize = 16;
/// A path may have changed after this time: the search begins anew (libutp: 30 minutes).
const AGAIN_US: u64 = 30 * 60 * 1_000_000;
/// A size is given up after this many losses: one loss may be congestion.
const LOSSES: u32 = 2;

/// A search between a size that is known to pass and one that may.
#[derive(Debug, Clone)]
pub(crate) struct MtuSearch {
    /// Payload bytes of a packet that passes.
    passes: usize,
    /// Payload bytes of the largest packet that may pass.
    may: usize,
    most: usize,
    losses: u32,
    is_probing: bool,
    again_us: u64,
}

impl MtuSearch {
    /// `passes` and `most` are payload bytes of a packet.
    pub(crate) fn new(passes: usize, most: usize) -> Self {
        let most = most.max(passes);
        MtuSearch { passes, may: most, most, losses: 0, is_probing: false, again_us: 0 }
    }

    /// Payload bytes of a full packet.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.passes
    }

    /// Payload bytes of a probe that is due now. The largest size is tried first: it usually passes.
    pub(crate) fn probe(&mut self, now_us: u64) -> Option<usize> {
        if self.is_probing {
            return None;
        }
        if self.may.saturating_sub(self.passes) < CLOSE_BYTES {
            if now_us < self.again_us || self.passes == self.most {
                return None;
            }
            self.may = self.most;
        }
        let size = if self.may == self.most { self.most } else { (self.passes + self.may).div_ceil(2) };
        (size > self.passes).then_some(size)
    }

    /// The probe has left.
    pub(crate) fn sent(&mut self) {
        self.is_probing = true;
    }

    /// The probe has arrived; whether full packets are larger now.
    pub(crate) fn arrived(&mut self, size: usize) -> bool {
        self.is_probing = false;
        self.losses = 0;
        let grows = size > self.passes;
        self.passes = self.passes.max(size);
        self.may = self.may.max(self.passes);
        grows
    }

    /// A router says that the path takes `most` bytes of payload: no more are tried for a while.
    pub(crate) fn limited(&mut self, most: usize, now_us: u64) {
        self.is_probing = false;
        self.may = self.may.min(most.max(self.passes));
        self.again_us = now_us + AGAIN_US;
    }

    /// The probe was lost, or this host's network refuses its size.
    pub(crate) fn lost(&mut self, size: usize, now_us: u64) {
        self.is_probing = false;
        self.losses += 1;
        if self.losses >= LOSSES {
            self.losses = 0;
            self.may = (size - 1).max(self.passes);
            self.again_us = now_us + AGAIN_US;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes over a path that carries `limit` bytes of payload.
    fn search(limit: usize) -> (usize, u32) {
        let mut mtu = MtuSearch::new(1200, 1452);
        let mut probes = 0;
        while let Some(size) = mtu.probe(0) {
            mtu.sent();
            assert_eq!(mtu.probe(0), None, "one at a time");
            probes += 1;
            match size <= limit {
                true => assert!(mtu.arrived(size)),
                false => mtu.lost(size, 0),
            }
            assert!(probes < 50);
        }
        (mtu.payload_bytes(), probes)
    }

    #[test]
    fn it_finds_what_passes() {
        assert_eq!(search(1452), (1452, 1), "the usual path");
        for limit in [1200, 1201, 1300, 1399, 1451] {
            let (found, probes) = search(limit);
            assert!(found <= limit && limit - found < CLOSE_BYTES, "{found} of {limit}");
            assert!(probes <= 12, "{probes}");
        }
    }

    #[test]
    fn what_a_router_says_ends_the_search_above_it() {
        let mut mtu = MtuSearch::new(1200, 1452);
        assert_eq!(mtu.probe(0), Some(1452));
        mtu.sent();
        mtu.limited(1400, 0);
        assert_eq!(mtu.probe(0), Some(1300));
        // Less than what has passed is not believed: packets may be fragmented.
        mtu.limited(100, 0);
        assert_eq!((mtu.probe(0), mtu.payload_bytes()), (None, 1200));
    }

    #[test]
    fn it_looks_again_after_half_an_hour() {
        let mut mtu = MtuSearch::new(1200, 1452);
        while let Some(size) = mtu.probe(0) {
            mtu.sent();
            mtu.lost(size, 0);
        }
        assert_eq!(mtu.probe(AGAIN_US - 1), None);
        assert_eq!(mtu.probe(AGAIN_US), Some(1452));
    }
}
