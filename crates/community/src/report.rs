//! What is counted, and what is reported.

use serde::Serialize;

/// An hour of the day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Hour {
    /// What users wanted, in bit/s.
    pub wanted_bps: f64,
    /// What gateways that were open had to spare.
    pub spare_bps: f64,
    /// The most that any choice of one gateway for each user could have given.
    pub bound_bps: f64,
    /// What users got.
    pub served_bps: f64,
    /// Moves of a user in an hour of use.
    pub moves: f64,
}

/// What a run found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Hours that users spent in sessions.
    pub user_hours: f64,
    /// Changes of gateway within sessions, of a user in an hour of use.
    pub moves_per_user_hour: f64,
    /// Those for a better gateway.
    pub moves_better: u64,
    /// Those because the one before was gone.
    pub moves_forced: u64,
    /// The most users that moved to one gateway within a minute.
    pub arrivals_most: u32,
    /// What users got over the upper bound of what a scheduler that knows everything could have given them,
    /// at the same instants.
    pub found: f64,
    /// What such a scheduler surely could have given, over the same bound.
    pub feasible: f64,
    /// What users wanted, over the spare capacity of open gateways.
    pub demand: f64,
    /// Jain's index over users of what they got of what they wanted.
    pub jain: f64,
    /// The tenth percentile, over users, of what they got of what they wanted.
    pub least_tenth: f64,
    /// Mean round trip to the gateway in use, in seconds.
    pub rtt_s: f64,
    /// Failures of gateways.
    pub failures: u64,
    /// Users that were transferring through them.
    pub affected: u64,
    /// Seconds without service of such a user: mean, 95th percentile, and the most.
    pub outage_mean_s: f64,
    /// See `outage_mean_s`.
    pub outage_p95_s: f64,
    /// See `outage_mean_s`.
    pub outage_most_s: f64,
    /// What they got in the first step with service, over what they got before.
    pub after_over_before: f64,
    /// Part of the time of transfers in which a user had no service, though it knew an open gateway.
    pub without_service: f64,
    /// The most that neighbours took beyond what the home left, in bit/s.
    pub beyond_spare_bps: f64,
    /// Hour by hour.
    pub hours: Vec<Hour>,
}

/// Jain's index of fairness (Jain, Chiu and Hawe 1984); 1 for nobody.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// The value below which a part of the values is; 0 for none. Sorts.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// A ratio that is `otherwise` where there is nothing to divide by.
pub fn ratio(part: f64, whole: f64, otherwise: f64) -> f64 {
    if whole > 0.0 { part / whole } else { otherwise }
}
