//! Finds the largest packet that the path carries, by probes (RFC 8899, in the way of libutp).
//!
//! The search starts at a size that every path carries. The first probe confirms the usual size,
//! and may be fragmented. Later probes look for the largest size, and must not be fragmented. A
//! probe that arrives raises the size of all packets. A lost probe lowers the upper bound of the
//! search, and is not a sign of congestion.
//!
//! A probe is a packet of the stream with padding after its header. Its bytes alone fit into a
//! packet that is known to pass, so they can be sent again without the padding. A path that drops
//! long packets silently (RFC 2923, 2.1) costs some probes, and does not stop the stream.

use crate::wire::PADDING_BYTES;

/// The search ends when its bounds differ by at most this many bytes.
const CLOSE_BYTES: usize = 16;
/// Time after which the search starts again, because the path may have changed (libutp: 30
/// minutes).
const AGAIN_US: u64 = 30 * 60 * 1_000_000;
/// A size is given up after this many losses, because one loss may be congestion (RFC 8899, 5.1.2:
/// MAX_PROBES).
const LOSSES: u32 = 3;

/// A probe that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Bytes of the stream in the probe; they fit into a packet that passes.
    pub(crate) payload: usize,
    /// Bytes of padding after the header.
    pub(crate) padding: usize,
    /// Whether it must not be fragmented.
    pub(crate) whole: bool,
}

impl Probe {
    /// Bytes after the header: the size that the probe tries.
    pub(crate) fn size(self) -> usize {
        self.payload + self.padding
    }
}

/// A search between a size that is known to pass and one that may.
#[derive(Debug, Clone)]
pub(crate) struct MtuSearch {
    /// Bytes after the header of a packet that every path carries.
    least: usize,
    /// Bytes after the header of a packet that passes.
    passes: usize,
    /// Bytes after the header of the largest packet that may pass.
    may: usize,
    most: usize,
    /// The usual size, until it is known whether it passes.
    usual: Option<usize>,
    losses: u32,
    is_probing: bool,
    again_us: u64,
}

impl MtuSearch {
    /// The arguments are bytes after the header: a size that passes, the usual size, and the
    /// largest size to try.
    pub(crate) fn new(passes: usize, usual: usize, most: usize) -> Self {
        let most = most.max(usual).max(passes);
        let usual = (usual > passes).then_some(usual);
        MtuSearch { least: passes, passes, may: most, most, usual, losses: 0, is_probing: false, again_us: 0 }
    }

    /// Payload bytes of a full packet.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.passes
    }

    /// Whether a packet with this payload, in bytes, is longer than what every path carries.
    pub(crate) fn is_long(&self, bytes: usize) -> bool {
        bytes > self.least
    }

    /// Payload bytes of a segment for the law: the usual size until a probe shows otherwise, so
    /// that the first window is that of a usual path.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.usual.unwrap_or(self.passes)
    }

    /// The probe that is due now. After the usual size, the largest size is tried, because it
    /// mostly passes.
    pub(crate) fn probe(&mut self, now_us: u64) -> Option<Probe> {
        if self.is_probing {
            return None;
        }
        if let Some(usual) = self.usual {
            return self.padded(usual, false);
        }
        if self.may.saturating_sub(self.passes) < CLOSE_BYTES {
            if now_us < self.again_us || self.passes == self.most {
                return None;
            }
            self.may = self.most;
        }
        let size = if self.may == self.most { self.most } else { (self.passes + self.may).div_ceil(2) };
        self.padded(size, true)
    }

    /// A probe of this size. It carries as many bytes of the stream as would pass without padding,
    /// or a little less.
    fn padded(&self, size: usize, whole: bool) -> Option<Probe> {
        let padding = size.checked_sub(self.passes)?.next_multiple_of(PADDING_BYTES);
        let payload = size.checked_sub(padding)?;
        (padding > 0 && payload > 0).then_some(Probe { payload, padding, whole })
    }

    /// The probe has left.
    pub(crate) fn sent(&mut self) {
        self.is_probing = true;
    }

    /// A probe of this size has arrived.
    pub(crate) fn arrived(&mut self, size: usize) {
        self.is_probing = false;
        self.losses = 0;
        self.usual = self.usual.filter(|&usual| usual > size);
        self.passes = self.passes.max(size);
        self.may = self.may.max(self.passes);
    }

    /// A router says that the path takes `most` bytes after the header. Larger sizes are not tried
    /// for a while.
    pub(crate) fn limited(&mut self, most: usize, now_us: u64) {
        self.is_probing = false;
        self.may = self.may.min(most.max(self.passes));
        self.usual = self.usual.filter(|&usual| usual <= self.may);
        self.again_us = now_us + AGAIN_US;
    }

    /// Packets with this payload, in bytes, no longer pass (RFC 8899, 4.3): the search starts
    /// again below this size, from the size that every path carries.
    pub(crate) fn shrank(&mut self, bytes: usize, now_us: u64) {
        self.is_probing = false;
        self.losses = 0;
        self.usual = None;
        self.passes = self.least;
        self.may = bytes.saturating_sub(1).max(self.least);
        self.again_us = now_us + AGAIN_US;
    }

    /// The probe of this size was lost, or this host's network refuses its size.
    pub(crate) fn lost(&mut self, size: usize, now_us: u64) {
        self.is_probing = false;
        self.losses += 1;
        if self.losses >= LOSSES {
            self.losses = 0;
            self.usual = self.usual.filter(|&usual| usual < size);
            self.may = (size - 1).max(self.passes);
            self.again_us = now_us + AGAIN_US;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes over a path that carries `limit` bytes whole, and `fragmented` bytes otherwise.
    fn search(limit: usize, fragmented: usize) -> (usize, u32) {
        let mut mtu = MtuSearch::new(528, 1212, 1452);
        let mut probes = 0;
        while let Some(probe) = mtu.probe(0) {
            mtu.sent();
            assert_eq!(mtu.probe(0), None, "one at a time");
            assert!(probe.payload <= mtu.payload_bytes(), "it can be sent again without padding");
            assert_eq!(probe.padding % PADDING_BYTES, 0);
            probes += 1;
            let passes = if probe.whole { limit } else { fragmented };
            match probe.size() <= passes {
                true => mtu.arrived(probe.size()),
                false => mtu.lost(probe.size(), 0),
            }
            assert!(probes < 50);
        }
        assert_eq!(mtu.segment_bytes(), mtu.payload_bytes(), "nothing is left open");
        (mtu.payload_bytes(), probes)
    }

    #[test]
    fn it_finds_what_passes() {
        assert_eq!(search(1452, 1452), (1452, 2), "the usual path");
        assert_eq!(search(548, 9000).0, 1212, "a path that fragments");
        for limit in [528, 529, 580, 1100, 1180, 1211, 1212, 1213, 1300, 1399, 1451] {
            let (found, probes) = search(limit, limit);
            assert!(found <= limit && limit - found < CLOSE_BYTES, "{found} of {limit}");
            assert!(probes <= 24, "{probes}");
        }
    }

    #[test]
    fn the_first_window_is_that_of_the_usual_size_until_it_is_lost() {
        let mut mtu = MtuSearch::new(528, 1212, 1452);
        for _ in 0..LOSSES {
            assert_eq!((mtu.segment_bytes(), mtu.payload_bytes()), (1212, 528));
            let probe = mtu.probe(0).unwrap();
            assert_eq!((probe.size(), probe.whole), (1212, false));
            mtu.sent();
            mtu.lost(1212, 0);
        }
        assert_eq!((mtu.segment_bytes(), mtu.payload_bytes()), (528, 528));
    }

    #[test]
    fn sizes_of_a_few_bytes_are_never_padded() {
        for least in 1..40 {
            for most in least..60 {
                let mut mtu = MtuSearch::new(least, most, most);
                while let Some(probe) = mtu.probe(0) {
                    assert!(probe.payload > 0 && probe.payload <= least && probe.size() <= most);
                    mtu.sent();
                    mtu.lost(probe.size(), 0);
                }
            }
        }
    }

    #[test]
    fn what_a_router_says_ends_the_search_above_it() {
        let mut mtu = MtuSearch::new(1200, 1200, 1452);
        let size = |mtu: &mut MtuSearch| mtu.probe(0).map(Probe::size);
        assert_eq!(size(&mut mtu), Some(1452));
        mtu.sent();
        mtu.limited(1400, 0);
        assert_eq!(size(&mut mtu), Some(1300));
        // Less than what has passed is not believed: packets may be fragmented.
        mtu.limited(100, 0);
        assert_eq!((size(&mut mtu), mtu.payload_bytes()), (None, 1200));
    }

    #[test]
    fn a_path_that_shrinks_is_searched_again_from_below() {
        let mut mtu = MtuSearch::new(528, 1212, 1452);
        while let Some(probe) = mtu.probe(0) {
            mtu.sent();
            mtu.arrived(probe.size());
        }
        assert!(mtu.is_long(mtu.payload_bytes()) && !mtu.is_long(528));
        mtu.shrank(1452, 0);
        assert_eq!((mtu.payload_bytes(), mtu.segment_bytes()), (528, 528));
        while let Some(probe) = mtu.probe(0) {
            mtu.sent();
            match probe.size() <= 1180 {
                true => mtu.arrived(probe.size()),
                false => mtu.lost(probe.size(), 0),
            }
        }
        assert!((1180 - CLOSE_BYTES..=1180).contains(&mtu.payload_bytes()), "{}", mtu.payload_bytes());
    }

    #[test]
    fn it_looks_again_after_half_an_hour() {
        let mut mtu = MtuSearch::new(1200, 1200, 1452);
        while let Some(probe) = mtu.probe(0) {
            mtu.sent();
            mtu.lost(probe.size(), 0);
        }
        assert_eq!(mtu.probe(AGAIN_US - 1), None);
        assert_eq!(mtu.probe(AGAIN_US).map(Probe::size), Some(1452));
    }
}
