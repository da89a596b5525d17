//! A rate as a bucket of tokens.

use super::Reason;
use super::limiter::View;
use super::verdict::Verdict;
use jiff::{SignedDuration, Timestamp};
use leeway_units::Rate;

/// Time that the bucket holds tokens for, in ns: 50 ms keep any second within 5 % of the rate
/// and any ten seconds within 1 %.
const DEPTH_NS: i128 = 50_000_000;

/// Bytes that it holds at least: two packets of Ethernet, or nothing could pass at a low rate.
const LEAST_BYTES: i128 = 3000;

/// Bytes that must be there before something passes, or everything would be cut into crumbs; at
/// high rates an eighth of the bucket, or a fast line would ask for each packet.
const QUANTUM_BYTES: i128 = 1500;

/// Bits times nanoseconds in a byte times seconds.
const UNIT: i128 = 8_000_000_000;

/// Passes bytes at a rate: in any time `t` at most `rate * t`, and 50 ms or 3,000 bytes more.
#[derive(Debug, Clone)]
pub struct Bucket {
    bps: i128,
    /// Bits times 1e9, exact at any rate.
    level: i128,
    at: Timestamp,
}

impl Bucket {
    /// Full.
    pub fn new(rate: Rate, at: Timestamp) -> Bucket {
        let mut bucket = Bucket { bps: i128::from(rate.bits_per_sec()).max(1), level: 0, at };
        bucket.level = bucket.depth();
        bucket
    }

    /// Another rate from now on.
    pub fn set(&mut self, rate: Rate, at: Timestamp) {
        self.fill(at);
        self.bps = i128::from(rate.bits_per_sec()).max(1);
        self.level = self.level.min(self.depth());
    }

    /// What may pass now, and why not more.
    pub fn view(&mut self, at: Timestamp, wish: u64, reason: Reason) -> View {
        self.fill(at);
        let bytes = u64::try_from((self.level / UNIT).max(0)).unwrap_or(u64::MAX);
        let quantum = QUANTUM_BYTES.max(self.depth() / UNIT / 8);
        let least = wish.min(u64::try_from(quantum).unwrap_or(u64::MAX));
        let rate = Rate::from_bits_per_sec(u64::try_from(self.bps).unwrap_or(u64::MAX));
        let verdict = Verdict::Slowed { rate, reason };
        if bytes >= least {
            return View { bytes, again: at, verdict };
        }
        let missing = i128::from(least) * UNIT - self.level;
        let wait_ns = i64::try_from((missing + self.bps - 1) / self.bps).unwrap_or(i64::MAX);
        View { bytes: 0, again: later(at, SignedDuration::from_nanos(wait_ns)), verdict }
    }

    /// Takes bytes out that `view` has offered.
    pub fn take(&mut self, bytes: u64) {
        self.level -= i128::from(bytes) * UNIT;
    }

    /// Puts back what was not used. More than was taken may have been used.
    pub fn put_back(&mut self, taken: u64, used: u64) {
        self.level = (self.level + (i128::from(taken) - i128::from(used)) * UNIT).min(self.depth());
    }

    fn depth(&self) -> i128 {
        (self.bps * DEPTH_NS).max(LEAST_BYTES * UNIT)
    }

    fn fill(&mut self, at: Timestamp) {
        // A clock that goes back gives nothing.
        let passed_ns = at.duration_since(self.at).as_nanos().max(0);
        self.level = (self.level + self.bps * passed_ns.min(i128::from(u64::MAX))).min(self.depth());
        self.at = at;
    }
}

/// An instant after another, or the last one there is.
pub fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
