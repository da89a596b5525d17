//! Limits a rate with a token bucket.

use super::Reason;
use super::limiter::View;
use super::verdict::Verdict;
use jiff::{SignedDuration, Timestamp};
use leeway_units::Rate;

/// Depth of the bucket, in nanoseconds. With 50 ms, any second is within 5 % of the rate, and any
/// ten seconds within 1 %.
const DEPTH_NS: i128 = 50_000_000;

/// Least depth, in bytes: two Ethernet packets. With less, nothing could pass at a low rate.
const LEAST_BYTES: i128 = 3000;

/// Least bytes that pass at a time, so that transfers are not cut into tiny pieces. At high rates
/// it is an eighth of the bucket, or a fast line would have to ask for each packet.
const QUANTUM_BYTES: i128 = 1500;

/// One byte in the unit of `level`.
const UNIT: i128 = 8_000_000_000;

/// Passes bytes at a rate. In any time `t`, at most `rate * t` pass, and 50 ms or 3,000 bytes
/// more.
#[derive(Debug, Clone)]
pub struct Bucket {
    bps: i128,
    /// Bits times 10^9, which is exact at any rate.
    level: i128,
    at: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate, at: Timestamp) -> Bucket {
        let mut bucket = Bucket { bps: i128::from(rate.bits_per_sec()).max(1), level: 0, at };
        bucket.level = bucket.depth();
        bucket
    }

    /// Changes the rate from now on.
    pub fn set(&mut self, rate: Rate, at: Timestamp) {
        self.fill(at);
        self.bps = i128::from(rate.bits_per_sec()).max(1);
        self.level = self.level.min(self.depth());
    }

    /// What may pass now, and the reason for the limit.
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

    /// Takes bytes that `view` has offered.
    pub fn take(&mut self, bytes: u64) {
        self.level -= i128::from(bytes) * UNIT;
    }

    /// Gives back what was not used. `used` may be more than `taken`.
    pub fn put_back(&mut self, taken: u64, used: u64) {
        self.level = (self.level + (i128::from(taken) - i128::from(used)) * UNIT).min(self.depth());
    }

    fn depth(&self) -> i128 {
        (self.bps * DEPTH_NS).max(LEAST_BYTES * UNIT)
    }

    fn fill(&mut self, at: Timestamp) {
        // If the clock goes back, nothing is added.
        let passed_ns = at.duration_since(self.at).as_nanos().max(0);
        self.level = (self.level + self.bps * passed_ns.min(i128::from(u64::MAX))).min(self.depth());
        self.at = at;
    }
}

/// The instant `by` after `at`, or the last possible one.
pub fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
