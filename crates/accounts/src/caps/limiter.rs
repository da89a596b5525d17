//! The interface that all kinds of caps have in common.

use super::Reason;
use super::bucket::Bucket;
use super::hours::Hours;
use super::percentile::Percentile;
use super::quota::Quota;
use super::verdict::Verdict;
use crate::ledger::Direction;
use jiff::Timestamp;
use leeway_units::Rate;

/// The state of a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Bytes that may pass now: 0, or at least one packet, unless less is left or wished.
    pub bytes: u64,
    /// When to ask again if nothing may pass.
    pub again: Timestamp,
    /// What the cap says to the neighbour.
    pub verdict: Verdict,
}

/// A cap.
#[derive(Debug, Clone)]
pub enum Limiter {
    /// A rate in each direction.
    Rate([Bucket; 2], Reason),
    /// A volume.
    Quota(Quota),
    /// Hours of the week.
    Hours(Hours),
    /// The bill of transit.
    Percentile(Percentile),
}

impl Limiter {
    /// A rate in each direction.
    pub fn rate(rate: Rate, reason: Reason, at: Timestamp) -> Limiter {
        Limiter::Rate([Bucket::new(rate, at), Bucket::new(rate, at)], reason)
    }

    /// What may pass now, and the reason for the limit.
    pub fn view(&mut self, at: Timestamp, direction: Direction, wish: u64) -> View {
        match self {
            Limiter::Rate(buckets, reason) => buckets[direction as usize].view(at, wish, *reason),
            Limiter::Quota(quota) => quota.view(at, wish),
            Limiter::Hours(hours) => hours.view(at, direction, wish),
            Limiter::Percentile(percentile) => percentile.view(at, direction, wish),
        }
    }

    /// Reserves bytes that `view` has offered.
    pub fn reserve(&mut self, direction: Direction, bytes: u64) {
        match self {
            Limiter::Rate(buckets, _) => buckets[direction as usize].take(bytes),
            Limiter::Quota(quota) => quota.reserve(bytes),
            Limiter::Hours(hours) => hours.reserve(direction, bytes),
            Limiter::Percentile(percentile) => percentile.reserve(direction, bytes),
        }
    }

    /// Counts what was used of a reservation, and frees the rest.
    pub fn settle(&mut self, at: Timestamp, direction: Direction, reserved: u64, used: u64) {
        match self {
            Limiter::Rate(buckets, _) => buckets[direction as usize].put_back(reserved, used),
            Limiter::Quota(quota) => quota.settle(at, reserved, used),
            Limiter::Hours(hours) => hours.settle(direction, reserved, used),
            Limiter::Percentile(percentile) => percentile.settle(at, direction, reserved, used),
        }
    }

    /// Counts bytes of neighbours that are in the ledger already.
    pub fn count(&mut self, at: Timestamp, direction: Direction, bytes: u64) {
        match self {
            Limiter::Quota(quota) => quota.count(at, bytes),
            Limiter::Percentile(percentile) => percentile.count(at, direction, bytes),
            Limiter::Rate(..) | Limiter::Hours(_) => {}
        }
    }

    /// Counts bytes of the home.
    pub fn count_home(&mut self, at: Timestamp, direction: Direction, bytes: u64) {
        match self {
            Limiter::Quota(quota) => quota.count_home(at, bytes),
            Limiter::Percentile(percentile) => percentile.count_home(at, direction, bytes),
            Limiter::Rate(..) | Limiter::Hours(_) => {}
        }
    }
}
