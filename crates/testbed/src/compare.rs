//! Comparison of several mechanisms on one setup.

use crate::measure::{Measured, Setup, measure};
use crate::mechanism::{self, Mechanism};
use crate::{Class, Error, Times};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The outcome of several mechanisms on one setup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// A row for each mechanism, in the order of the request.
    pub rows: Vec<Row>,
}

/// The outcome of one mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub mechanism: String,
    /// The median of each figure over the rounds.
    pub median: Summary,
    /// Medians of the ratios to `prim_only` in the same round; `None` without `prim_only`.
    pub of_prim_only: Option<Ratios>,
    /// Every round.
    pub rounds: Vec<Measured>,
}

/// The figures of one round, or their medians; `None` where nothing was measured. Times in
/// seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The primary's service time: mean.
    pub primary_mean_s: Option<f64>,
    /// The primary's service time: median.
    pub primary_p50_s: Option<f64>,
    /// The primary's service time: 95th percentile.
    pub primary_p95_s: Option<f64>,
    /// The primary's service time: 99th percentile.
    pub primary_p99_s: Option<f64>,
    /// The primary's answers a second.
    pub primary_per_s: Option<f64>,
    /// The secondaries' service time: mean.
    pub secondary_mean_s: Option<f64>,
    /// The secondaries' answers a second.
    pub secondary_per_s: Option<f64>,
    /// Bits of answers to the secondaries a second, in the counted time.
    pub secondary_goodput_bps: Option<f64>,
    /// The mean service time over the requests of both classes.
    pub both_mean_s: Option<f64>,
    /// The 99th percentile of the primary's ping.
    pub ping_p99_s: Option<f64>,
    /// The mean of the primary's ping.
    pub ping_mean_s: Option<f64>,
    /// The score of the primary's call.
    pub mos: Option<f64>,
    /// Segments sent again.
    pub retransmitted: Option<f64>,
    /// What the line carried towards the homes.
    pub down_bps: Option<f64>,
}

/// Ratios to the primary alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Mean service time of the primary.
    pub primary_mean: Option<f64>,
    /// Its 99th percentile.
    pub primary_p99: Option<f64>,
    /// Seconds added to the 99th percentile of the ping.
    pub ping_p99_added_s: Option<f64>,
    /// Points that the call's score loses.
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
    /// The figures of one round.
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
            secondary_goodput_bps: secondary.map(|class| class.goodput_bps),
            both_mean_s: (count > 0).then(|| sum / count as f64),
            ping_p99_s: rtt.map(|rtt| rtt.p99_s),
            ping_mean_s: rtt.map(|rtt| rtt.mean_s),
            mos: measured.call.as_ref().map(|call| call.mos),
            retransmitted: Some(measured.retransmitted as f64),
            down_bps: Some(measured.line.down_bps),
        }
    }

    /// The medians of several rounds.
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
            secondary_goodput_bps: of(|s| s.secondary_goodput_bps),
            both_mean_s: of(|s| s.both_mean_s),
            ping_p99_s: of(|s| s.ping_p99_s),
            ping_mean_s: of(|s| s.ping_mean_s),
            mos: of(|s| s.mos),
            retransmitted: of(|s| s.retransmitted),
            down_bps: of(|s| s.down_bps),
        }
    }
}

/// How [`compare`] plays.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The program that gateways and relays run: `leeway`.
    pub leeway: &'a Path,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the first round's requests; each round takes the next one.
    pub seed: u64,
    /// Lines of [`SLOT_BPS`] that may be played at the same time; a faster one takes the place of
    /// several.
    pub jobs: usize,
}

/// The rate of a line that takes one of the places of [`Plan::jobs`].
pub const SLOT_BPS: u64 = 2_000_000;

/// Plays each of `setups` with each of `mechanisms`, round after round. In a round all mechanisms
/// meet the same requests. Measurements whose lines are slow enough run at the same time, each on
/// hosts of its own. `progress` is called with the numbers of finished and of all measurements.
///
/// # Errors
/// A measurement fails.
pub fn compare(
    setups: &[Setup],
    mechanisms: &[Mechanism],
    plan: Plan<'_>,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Vec<Comparison>, Error> {
    let of_round = |round| {
        let all =
            setups.iter().enumerate().flat_map(|(at, setup)| mechanisms.iter().map(move |m| (at, setup, m)));
        all.map(move |(at, setup, mechanism)| (at, setup, mechanism, plan.seed + u64::from(round)))
    };
    let tasks: Vec<_> = (0..plan.rounds).flat_map(of_round).collect();
    let total = tasks.len();
    let slots = Slots::new(plan.jobs);
    let next = Mutex::new(tasks.iter().enumerate());
    let results: Mutex<BTreeMap<usize, Result<Measured, Error>>> = Mutex::default();
    progress(0, total);
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.clamp(1, total.max(1)) {
            scope.spawn(|| {
                loop {
                    // The task is taken together with its places, so that slower lines do not
                    // overtake a fast line that waits.
                    let (number, &(_, setup, mechanism, seed), place) = {
                        let mut next = lock(&next);
                        let Some((number, task)) = next.next() else { break };
                        (number, task, slots.take(task.1.line.peak_bps()))
                    };
                    let measured = measure(setup, mechanism, plan.leeway, seed);
                    drop(place);
                    if measured.is_err() {
                        // No further measurement starts.
                        lock(&next).by_ref().for_each(drop);
                    }
                    let mut results = lock(&results);
                    results.insert(number, measured);
                    progress(results.len(), total);
                }
            });
        }
    });
    let mut measured: Vec<Vec<Vec<Measured>>> = vec![vec![Vec::new(); mechanisms.len()]; setups.len()];
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (number, result) in results {
        measured[tasks[number].0][number % mechanisms.len()].push(result?);
    }
    Ok(measured.into_iter().map(|measured| Comparison::of(mechanisms, measured)).collect())
}

impl Comparison {
    fn of(mechanisms: &[Mechanism], measured: Vec<Vec<Measured>>) -> Comparison {
        let reference =
            mechanisms.iter().position(|m| m.path == mechanism::Path::PrimaryOnly && m.queue.is_none());
        let alone = reference.map(|at| measured[at].clone());
        let rows = mechanisms.iter().zip(measured);
        Comparison { rows: rows.map(|(m, rounds)| Row::of(m, rounds, alone.as_deref())).collect() }
    }
}

/// Places for lines.
struct Slots {
    all: usize,
    free: Mutex<usize>,
    freed: Condvar,
}

/// Places that are taken until this is dropped.
struct Place<'a>(&'a Slots, usize);

impl Slots {
    fn new(all: usize) -> Slots {
        let all = all.max(1);
        Slots { all, free: Mutex::new(all), freed: Condvar::new() }
    }

    /// Waits for the places of a line of that rate; the fastest lines take all places.
    fn take(&self, bps: u64) -> Place<'_> {
        let wanted = usize::try_from(bps.div_ceil(SLOT_BPS)).unwrap_or(usize::MAX).clamp(1, self.all);
        let free = lock(&self.free);
        let mut free =
            self.freed.wait_while(free, |free| *free < wanted).unwrap_or_else(PoisonError::into_inner);
        *free -= wanted;
        Place(self, wanted)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += self.1;
        self.0.freed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The median; of an even number of values the mean of the two in the middle.
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
        // The median of the ratios 2, 3 and 1, not 0.4 / 0.2.
        assert!((ratios.primary_mean.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(ratios.mos_lost, None);
    }

    #[test]
    fn fast_lines_take_the_place_of_several() {
        let slots = Slots::new(4);
        let places = [slots.take(1_720_000), slots.take(4_000_000)];
        assert_eq!(*slots.free.lock().unwrap(), 1);
        std::thread::scope(|scope| {
            let all = scope.spawn(|| slots.take(50_000_000).1);
            drop(places);
            assert_eq!(all.join().unwrap(), 4);
        });
        assert_eq!(*slots.free.lock().unwrap(), 4);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }
}
