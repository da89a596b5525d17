//! Transit billed by the 95th percentile, against the exact offline optimum.

use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Caps, CapsConfig, billed};
use leeway_accounts::ledger::{Class, Direction};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes that the line carries in five minutes: 100 Mbit/s.
const CAPACITY: u64 = 100_000_000 / 8 * 300;
/// Steps of a slot.
const STEPS: usize = 10;

/// What neighbours could have used at most, in bytes, without raising the bill: every slot up to
/// the level that the home sets, and as many as are free up to the line's capacity.
fn optimum(home: &[u64], level: u64, capacity: u64) -> u64 {
    let free = home.len() / 20;
    (home.len() - free) as u64 * level + free as u64 * capacity - home.iter().sum::<u64>()
}

#[test]
fn the_optimum_is_exact() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for round in 0..200 {
        let capacity = 50;
        let home: Vec<u64> =
            (0..40).map(|_| random.random_range(0..=if round % 2 == 0 { 50 } else { 5 })).collect();
        let level = billed(home.iter().copied(), home.len());
        // Every choice of two slots that are filled up to the capacity, all others up to the
        // level.
        let mut best = 0;
        for a in 0..home.len() {
            for b in 0..a {
                let filled =
                    |(n, &bytes): (usize, &u64)| bytes.max(if n == a || n == b { capacity } else { level });
                let total: Vec<u64> = home.iter().enumerate().map(filled).collect();
                if billed(total.iter().copied(), total.len()) <= level {
                    best = best.max(total.iter().sum::<u64>() - home.iter().sum::<u64>());
                }
            }
        }
        assert_eq!(best, optimum(&home, level, capacity));
    }
}

#[test]
fn of_8640_samples_the_433rd_is_billed() {
    assert_eq!(billed(1..=8640, 8640), 8640 - 432);
    assert_eq!(billed([7; 432], 8640), 0, "36 hours are free");
    assert_eq!(billed([7; 433], 8640), 7);
    assert_eq!(billed([], 8640), 0);
}

/// A home: busy in the evening, more at weekends, and never twice the same. Bytes of each step.
fn home(random: &mut Xoshiro256PlusPlus, slot: usize, factor: f64) -> [u64; STEPS] {
    let (hour, day) = (slot as f64 / 12.0 % 24.0, slot / 288 % 7);
    let evening = (-(hour - 21.0).powi(2) / 8.0).exp() + 0.3 * (-(hour - 9.0).powi(2) / 4.0).exp();
    let weekend = if day >= 5 { 1.3 } else { 1.0 };
    let mean = CAPACITY as f64 * (0.01 + 0.25 * evening * weekend) * factor;
    // Each slot is more or less busy, and so is each step.
    let busy = mean * -random.random_range(0.001..1.0_f64).ln();
    std::array::from_fn(|_| {
        let part = busy / STEPS as f64 * random.random_range(0.5..1.5);
        (part as u64).min(CAPACITY / STEPS as u64)
    })
}

struct Month {
    billed_home: u64,
    billed_all: u64,
    neighbours: u64,
    optimum: u64,
}

/// Months of greedy neighbours beside a home that is so busy in each.
fn months(caution: f64, factors: &[f64], seed: u64) -> Vec<Month> {
    months_with(caution, factors, seed, |_| true)
}

/// The same, with neighbours only on the days of each month that `shares` says.
fn months_with(caution: f64, factors: &[f64], seed: u64, shares: impl Fn(usize) -> bool) -> Vec<Month> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let text = format!("percentile = {{ billing = \"sum\", caution = {caution:?} }}");
    let config: CapsConfig = toml::from_str(&text).unwrap();
    let start: Timestamp = "2026-04-01T00:00:00Z".parse().unwrap();
    let mut caps = Caps::new(&config, start);
    let mut result = Vec::new();
    let mut now = start;
    for &factor in factors {
        let first = now;
        let (mut homes, mut totals) = (Vec::new(), Vec::new());
        // The calendar's month decides, of 30 or 31 days.
        let month = first.to_zoned_datetime(jiff::tz::TimeZone::UTC).days_in_month() as usize * 288;
        for slot in 0..month {
            let (mut of_home, mut of_neighbours) = (0, 0);
            for bytes in home(&mut random, slot, factor) {
                caps.count(now, "", Direction::Down, Class::Foreground, bytes);
                of_home += bytes;
                let room = CAPACITY / STEPS as u64 - bytes;
                if shares(slot / 288)
                    && let Some(grant) = caps.ask(now, "ann", Direction::Down, room).grant
                {
                    let used = grant.bytes();
                    of_neighbours += used;
                    caps.settle(now, grant, used);
                }
                now += SignedDuration::from_secs(300 / STEPS as i64);
            }
            homes.push(of_home);
            totals.push(of_home + of_neighbours);
        }
        let billed_home = billed(homes.iter().copied(), month);
        let sum = |all: &[u64]| all.iter().sum::<u64>();
        result.push(Month {
            billed_home,
            billed_all: billed(totals.iter().copied(), month),
            neighbours: sum(&totals) - sum(&homes),
            optimum: optimum(&homes, billed_home, CAPACITY),
        });
    }
    result
}

fn show(name: &str, months: &[Month]) -> Vec<(f64, f64)> {
    let figures = |month: &Month| {
        (month.billed_all as f64 / month.billed_home as f64, month.neighbours as f64 / month.optimum as f64)
    };
    let figures: Vec<(f64, f64)> = months.iter().map(figures).collect();
    for (n, (bill, part)) in figures.iter().enumerate() {
        eprintln!("{name}, month {}: bill {bill:.4}, {part:.3} of the optimum", n + 1);
    }
    figures
}

#[test]
fn what_the_home_has_set_already_is_free() {
    // The home is away in the second month, and busier than ever in the third.
    let months = show("sure", &months(0.0, &[1.0, 0.2, 1.5], 1));
    assert!(months.iter().all(|&(bill, part)| bill <= 1.01 && (0.2..=1.0).contains(&part)), "{months:?}");
}

#[test]
fn a_forecast_uses_more_and_risks_its_part_of_an_old_bill() {
    let steady = show("forecast", &months(0.8, &[1.0, 1.0, 1.0], 2));
    assert!(steady.iter().all(|&(bill, part)| bill <= 1.01 && part <= 1.0), "{steady:?}");
    assert!(steady[1..].iter().all(|&(_, part)| part > 0.55), "{steady:?}");
    let away = months(0.8, &[1.0, 0.3], 3);
    show("forecast, home away", &away);
    let most = away[1].billed_home.max(away[0].billed_home * 8 / 10) as f64;
    assert!(away[1].billed_all as f64 <= 1.05 * most);
}

/// After a pause of days, neighbours do not take what the pause has left: the bill counts slots and
/// not sums.
#[test]
fn a_pause_of_days_raises_no_bill() {
    let paused: [fn(usize) -> bool; 3] = [|day| day < 3, |day| day > 20, |day| day % 7 < 2];
    for shares in paused {
        for caution in [0.0, 0.8] {
            let months = show("paused", &months_with(caution, &[1.0, 1.0], 4, shares));
            assert!(months.iter().all(|&(bill, part)| bill <= 1.01 && part > 0.0), "{months:?}");
        }
    }
}
