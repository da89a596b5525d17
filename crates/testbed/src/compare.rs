//! Several mechanisms on one setup, and how they compare.

use crate::measure::{Measured, Setup, measure};
use crate::mechanism::{Mechanism, Way};
use crate::{Class, Error, Times};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What came out for several mechanisms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// A row for each, in the order that they were asked for.
    pub rows: Vec<Row>,
}

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub mechanism: String,
    /// The medians over the rounds, each by itself.
    pub median: Summary,
    /// Medians of what it is of `prim_only` in the same round; nothing without `prim_only`.
    pub of_prim_only: Option<Ratios>,
    /// Every round.
    pub rounds: Vec<Measured>,
}

/// The figures that matter, of one round or their medians; nothing where nothing was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The primary's service time: mean.
    pub primary_mean_s: Option<f64>,
    /// Median.
    pub primary_p50_s: Option<f64>,
    /// 95th percentile.
    pub primary_p95_s: Option<f64>,
    /// 99th percentile.
    pub primary_p99_s: Option<f64>,
    /// The primary's answers a second.
    pub primary_per_s: Option<f64>,
    /// The secondaries' service time: mean.
    pub secondary_mean_s: Option<f64>,
    /// The secondaries' answers a second.
    pub secondary_per_s: Option<f64>,
    /// The mean over the requests of both classes.
    pub both_mean_s: Option<f64>,
    /// The 99th percentile of the primary's ping.
    pub ping_p99_s: Option<f64>,
    /// The mean of it.
    pub ping_mean_s: Option<f64>,
    /// The score of the primary's call.
    pub mos: Option<f64>,
    /// Segments sent again.
    pub retransmitted: Option<f64>,
    /// What the line carried towards the homes.
    pub down_bps: Option<f64>,
}

/// How something is to the primary alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Mean service time of the primary.
    pub primary_mean: Option<f64>,
    /// Its 99th percentile.
    pub primary_p99: Option<f64>,
    /// Seconds that are added to the 99th percentile of the ping.
    pub ping_p99_added_s: Option<f64>,
    /// What the call's score loses.
    pub mos_lost: Option<f64>,
}

impl Row {
    fn of(mechanism: &Mechanism, rounds: Vec<Measured>, alone: Option<&[Measured]>) -> Row {
        let summaries: Vec<Summary> = rounds.iter().map(Summary::of).collect();
        let of_prim_only = alone.map(|alone| {
            let pairs: Vec<(&Summary, Summary)> =
                summaries.iter().zip(alone.iter().map(Summary::of)).collect();
            let over = |what: fn(&Summary) -> Option<f64>, how: fn(f64, f64) -> f64| {
                median(pairs.iter().filter_map(|(one, alone)| Some(how(what(one)?, what(alone)?))))
            };
            Ratios {
                primary_mean: over(|s| s.primary_mean_s, |one, alone| one / alone),
                primary_p99: over(|s| s.primary_p99_s, |one, alone| one / alone),
                ping_p99_added_s: over(|s| s.ping_p99_s, |one, alone| one - alone),
                mos_lost: over(|s| s.mos, |one, alone| alone - one),
            }
        });
        Row { mechanism: mechanism.to_string(), median: Summary::median(&summaries), of_prim_only, rounds }
    }
}

impl Summary {
    /// Of one round.
    pub fn of(measured: &Measured) -> Summary {
        let primary = measured.primary.as_ref();
        let secondary = measured.secondary.as_ref();
        let service = |class: Option<&Class>, what: fn(&Times) -> f64| class?.service.as_ref().map(what);
        let sums = [primary, secondary].into_iter().flatten().filter_map(|class| class.service);
        let (sum, count) = sums.fold((0.0, 0), |(sum, count), times| {
            (sum + times.mean_s * times.count as f64, count + times.count)
        });
        let rtt = measured.ping.as_ref().and_then(|ping| ping.rtt);
        Summary {
            primary_mean_s: service(primary, |times| times.mean_s),
            primary_p50_s: service(primary, |times| times.p50_s),
            primary_p95_s: service(primary, |times| times.p95_s),
            primary_p99_s: service(primary, |times| times.p99_s),
            primary_per_s: primary.map(|class| class.answered_per_s),
            secondary_mean_s: service(secondary, |times| times.mean_s),
            secondary_per_s: secondary.map(|class| class.answered_per_s),
            both_mean_s: (count > 0).then(|| sum / count as f64),
            ping_p99_s: rtt.map(|rtt| rtt.p99_s),
            ping_mean_s: rtt.map(|rtt| rtt.mean_s),
            mos: measured.call.as_ref().map(|call| call.mos),
            retransmitted: Some(measured.retransmitted as f64),
            down_bps: Some(measured.line.down_bps),
        }
    }

    /// The medians of several.
    fn median(all: &[Summary]) -> Summary {
        let of = |what: fn(&Summary) -> Option<f64>| median(all.iter().filter_map(what));
        Summary {
            primary_mean_s: of(|s| s.primary_mean_s),
            primary_p50_s: of(|s| s.primary_p50_s),
            primary_p95_s: of(|s| s.primary_p95_s),
            primary_p99_s: of(|s| s.primary_p99_s),
            primary_per_s: of(|s| s.primary_per_s),
            secondary_mean_s: of(|s| s.secondary_mean_s),
            secondary_per_s: of(|s| s.secondary_per_s),
            both_mean_s: of(|s| s.both_mean_s),
            ping_p99_s: of(|s| s.ping_p99_s),
            ping_mean_s: of(|s| s.ping_mean_s),
            mos: of(|s| s.mos),
            retransmitted: of(|s| s.retransmitted),
            down_bps: of(|s| s.down_bps),
        }
    }
}

/// Plays `setup` with each of `mechanisms`, in turn, in so many rounds; in one round all of them meet the same requests.
/// Gateways and relays run the program `leeway`. `progress` hears of each measurement before it begins.
///
/// # Errors
/// A measurement cannot be had.
pub fn compare(
    setup: &Setup,
    mechanisms: &[Mechanism],
    leeway: &Path,
    rounds: u32,
    seed: u64,
    mut progress: impl FnMut(u32, &Mechanism),
) -> Result<Comparison, Error> {
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); mechanisms.len()];
    for round in 0..rounds {
        for (mechanism, measured) in mechanisms.iter().zip(&mut measured) {
            progress(round, mechanism);
            measured.push(measure(setup, mechanism, leeway, seed + u64::from(round))?);
        }
    }
    let reference = mechanisms.iter().position(|m| m.way == Way::PrimaryOnly && m.queue.is_none());
    let alone = reference.map(|at| measured[at].clone());
    let rows = mechanisms.iter().zip(measured);
    Ok(Comparison { rows: rows.map(|(m, rounds)| Row::of(m, rounds, alone.as_deref())).collect() })
}

/// The median; of an even number the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(mean_s: f64) -> Measured {
        let times = Times { count: 10, mean_s, p99_s: 2.0 * mean_s, ..Times::default() };
        Measured { primary: Some(Class { service: Some(times), ..Class::default() }), ..Measured::default() }
    }

    #[test]
    fn ratios_are_within_a_round() {
        let alone = [round(0.1), round(0.2), round(0.4)];
        let row = Row::of(&"codel".parse().unwrap(), vec![round(0.2), round(0.6), round(0.4)], Some(&alone));
        assert_eq!(row.median.primary_mean_s, Some(0.4));
        let ratios = row.of_prim_only.unwrap();
        // 2, 3 and 1; not 0.4 / 0.2.
        assert!((ratios.primary_mean.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(ratios.mos_lost, None);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }
}
