//! The results of a run.

use serde::Serialize;

/// Means of one hour of the day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Hour {
    /// Rate that users wanted, in bit/s.
    pub wanted_bps: f64,
    /// Spare rate of open gateways, in bit/s.
    pub spare_bps: f64,
    /// Upper bound of what any choice of one gateway for each user could have given, in bit/s.
    pub bound_bps: f64,
    /// Rate that users got, in bit/s.
    pub served_bps: f64,
    /// Changes of gateway for each hour that a user spent in sessions.
    pub moves: f64,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Hours that users spent in sessions.
    pub user_hours: f64,
    /// Changes of gateway within sessions, for each hour that a user spent in sessions.
    pub moves_per_user_hour: f64,
    /// Changes to a better gateway.
    pub moves_better: u64,
    /// Changes because the earlier gateway was gone.
    pub moves_forced: u64,
    /// Most users that moved to one gateway within a minute.
    pub arrivals_most: u32,
    /// What users got, divided by the upper bound of what a scheduler that knows everything could
    /// have given them at the same instants.
    pub found: f64,
    /// What such a scheduler could certainly have given, divided by the same bound.
    pub feasible: f64,
    /// Rate that users wanted, divided by the spare rate of open gateways.
    pub demand: f64,
    /// Jain's index over users of the part that they got of what they wanted.
    pub jain: f64,
    /// Tenth percentile over users of the part that they got of what they wanted.
    pub least_tenth: f64,
    /// Mean round trip to the gateway in use, in seconds.
    pub rtt_s: f64,
    /// Failures of gateways.
    pub failures: u64,
    /// Users that were transferring through gateways that failed.
    pub affected: u64,
    /// Seconds without service of such users: mean, 95th percentile, and maximum.
    pub outage_mean_s: f64,
    /// See `outage_mean_s`.
    pub outage_p95_s: f64,
    /// See `outage_mean_s`.
    pub outage_most_s: f64,
    /// Rate of such users in the first step with service, divided by their rate before the
    /// failure.
    pub after_over_before: f64,
    /// Part of the time of transfers in which a user had no service, though it knew an open
    /// gateway.
    pub without_service: f64,
    /// Most that neighbours used beyond the spare rate, in bit/s.
    pub beyond_spare_bps: f64,
    /// Means of each hour.
    pub hours: Vec<Hour>,
}

/// Jain's index of fairness (Jain, Chiu and Hawe 1984); 1 without values.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// The value below which the part `part` of the values lies; 0 without values. Sorts the values.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// `part / whole`, or `otherwise` if `whole` is 0.
pub fn ratio(part: f64, whole: f64, otherwise: f64) -> f64 {
    if whole > 0.0 { part / whole } else { otherwise }
}
