//! The cost of a gateway: seconds to fetch one object through it. A cost is positive and finite,
//! whatever the arguments are.

use crate::policy::Policy;

/// Lowest rate that counts, in bit/s. It keeps costs finite.
const LEAST_BPS: f64 = 1_000.0;
/// Highest rate that counts, in bit/s. No line has more.
const MOST_BPS: f64 = 1e12;
/// Longest round trip that counts, in seconds.
const MOST_S: f64 = 60.0;

/// The parts of a cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Smoothed round trip, in seconds.
    pub round_trip_s: f64,
    /// Expected rate, in bit/s.
    pub rate_bps: f64,
    /// Number of recent faults, which decays exponentially.
    pub faults: f64,
}

/// `(round_trips * RTT + 8 * object / rate) * (1 + fault_weight * faults)`, in seconds.
pub(crate) fn seconds(policy: &Policy, terms: Terms) -> f64 {
    let round_trip_s =
        if terms.round_trip_s.is_finite() { terms.round_trip_s.clamp(0.0, MOST_S) } else { MOST_S };
    let fetch_s = 8.0 * policy.object_bytes / bounded(terms.rate_bps);
    (policy.round_trips * round_trip_s + fetch_s) * (1.0 + policy.fault_weight * terms.faults.clamp(0.0, 1e3))
}

/// A rate within the limits that count. NaN gives the lowest.
pub(crate) fn bounded(rate_bps: f64) -> f64 {
    if rate_bps.is_nan() { LEAST_BPS } else { rate_bps.clamp(LEAST_BPS, MOST_BPS) }
}

/// Rate that one more user can expect: what nobody uses, or an equal share with the present users.
pub(crate) fn as_newcomer(spare_bps: f64, load: f64, users: f64) -> f64 {
    (spare_bps * (1.0 - load)).max(spare_bps / (users + 1.0))
}

/// Rate that a present user can expect: its own rate and what nobody uses, or an equal share.
pub(crate) fn as_member(spare_bps: f64, load: f64, users: f64, own_bps: f64) -> f64 {
    (spare_bps * (1.0 - load) + own_bps).min(spare_bps).max(spare_bps / users.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(round_trip_s: f64, rate_bps: f64, faults: f64) -> f64 {
        seconds(&Policy::default(), Terms { round_trip_s, rate_bps, faults })
    }

    #[test]
    fn a_fetch_is_round_trips_and_bytes_over_the_rate() {
        assert!((cost(0.05, 8e6, 0.0) - (11.0 * 0.05 + 2.0)).abs() < 1e-12);
        assert!((cost(0.05, 8e6, 1.0) - 2.0 * cost(0.05, 8e6, 0.0)).abs() < 1e-12, "a fault doubles it");
    }

    #[test]
    fn no_number_makes_a_cost_that_is_none() {
        let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300];
        for round_trip in strange {
            for rate in strange {
                let found = cost(round_trip, rate, 0.0);
                assert!(found.is_finite() && found > 0.0, "{round_trip} {rate}: {found}");
            }
        }
    }

    #[test]
    fn a_full_line_is_shared_and_an_idle_one_is_whole() {
        assert_eq!(as_newcomer(10e6, 1.0, 4.0), 2e6);
        assert_eq!(as_newcomer(10e6, 0.0, 0.0), 10e6);
        assert_eq!(as_newcomer(10e6, 0.3, 9.0), 7e6, "nine who take little leave the rest");
        assert_eq!(as_member(10e6, 1.0, 5.0, 2e6), 2e6);
        assert_eq!(as_member(10e6, 1.0, 5.0, 6e6), 6e6);
        assert_eq!(as_member(10e6, 0.5, 1.0, 8e6), 10e6, "never above the spare part");
    }
}
