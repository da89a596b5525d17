//! Caps hold to the byte at any rate, and say why and until when.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Caps, CapsConfig, Grant, Period, Reason, Verdict};
use leeway_accounts::ledger::{Class, Direction};
use proptest::prelude::*;
use std::collections::VecDeque;

const USERS: [&str; 3] = ["ann", "bob", "eve"];

fn config(text: &str) -> CapsConfig {
    let config: CapsConfig = toml::from_str(text).unwrap();
    config.check().unwrap();
    config
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Asks as fast as `bps` allows until `end`; what is granted is used and settled `delay` later.
/// Returns the bytes, and calls `see` with each time and amount.
fn greedy(
    caps: &mut Caps,
    [mut now, end]: [Timestamp; 2],
    (bps, wish): (u64, u64),
    delay: SignedDuration,
    mut see: impl FnMut(Timestamp, u64),
) -> u64 {
    let mut flight = VecDeque::<(Timestamp, Grant)>::new();
    let (mut sum, mut n) = (0, 0);
    let settle = |caps: &mut Caps, (at, grant): (Timestamp, Grant)| {
        let bytes = grant.bytes();
        caps.settle(at, grant, bytes);
    };
    while now < end {
        while flight.front().is_some_and(|(due, _)| *due <= now) {
            let due = flight.pop_front().unwrap();
            settle(caps, due);
        }
        n += 1;
        let answer = caps.ask(now, USERS[n % 3], Direction::ALL[n / 3 % 2], wish);
        let Some(grant) = answer.grant else {
            assert!(answer.again > now, "{answer:?}");
            now = answer.again.min(end);
            continue;
        };
        sum += grant.bytes();
        see(now, grant.bytes());
        let took_ns = (u128::from(grant.bytes()) * 8_000_000_000).div_ceil(u128::from(bps));
        flight.push_back((now + delay, grant));
        now += SignedDuration::from_nanos(took_ns as i64);
    }
    flight.into_iter().for_each(|due| settle(caps, due));
    sum
}

/// A rate from 10 kbit/s to 10 Gbit/s, each decade as often.
fn any_rate() -> impl Strategy<Value = u64> {
    (4.0..10.0_f64).prop_map(|exponent| 10_f64.powf(exponent) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_volume_is_kept_to_the_byte(
        bps in any_rate(),
        hours in 0.2..12.0_f64,
        delay_ms in 0..3000_i64,
        pieces in 100..3000_u64,
        kind in 0..3_usize,
    ) {
        let limit = (bps as f64 / 8.0 * 3600.0 * hours) as u64;
        let text = [
            format!("all = {{ daily = \"{limit} B\", slow_at = 1 }}"),
            format!("month = {{ volume = \"{limit} B\", slow_at = 1 }}"),
            format!("user = {{ daily = \"{limit} B\", slow_at = 1 }}"),
        ];
        let limit = if kind == 2 { 3 * limit } else { limit };
        let start = at("2026-11-30T00:00:00Z");
        let mut caps = Caps::new(&config(&text[kind]), start);
        let wish = (limit / pieces).max(1);
        let end = at("2026-12-01T00:00:00Z");
        // Three users with a quota each take longer.
        let bps = if kind == 2 { 3 * bps } else { bps };
        let sum = greedy(&mut caps, [start, end], (bps, wish), SignedDuration::from_millis(delay_ms), |_, _| {});
        prop_assert!(sum <= limit, "{sum} of {limit}");
        prop_assert!(sum as f64 >= 0.99 * limit as f64, "{sum} of {limit}");
        // It is over, until the first instant of the next day or month.
        let last = end - SignedDuration::from_millis(1);
        let paused = matches!(caps.verdict(last, "ann"), Verdict::Paused { until: Some(until), .. } if until == end);
        prop_assert!(paused, "{:?}", caps.verdict(last, "ann"));
        prop_assert_eq!(caps.verdict(end, "ann"), Verdict::Free);
    }

    #[test]
    fn a_rate_is_kept_within_one_percent(bps in any_rate(), grain_ms in 1..20_u64, delay_ms in 0..3000_i64) {
        let start = at("2026-11-30T00:00:00Z");
        let wish = (bps / 8 * grain_ms / 1000).max(1500);
        // Long enough for the bucket's 3,000 bytes to be little.
        let seconds = (2_400_000.0 / bps as f64 * 4.0).max(8.0);
        let end = start + SignedDuration::from_secs_f64(seconds);
        for (text, users) in [("all", 1), ("user", 3)] {
            let mut caps = Caps::new(&config(&format!("{text} = {{ rate = \"{bps} bit/s\" }}")), start);
            let (mut sum, depth) = (0, (bps / 8 / 20).max(3000));
            let mut over = None;
            let delay = SignedDuration::from_millis(delay_ms);
            let flows = 2 * users;
            let line = (40 * bps, wish);
            greedy(&mut caps, [start, end], line, delay, |now, bytes| {
                sum += bytes;
                let passed = now.duration_since(start).as_secs_f64();
                let most = flows as f64 * (bps as f64 / 8.0 * passed + depth as f64);
                if sum as f64 > most + 1.0 {
                    over = over.or(Some((now, sum, most)));
                }
            });
            prop_assert_eq!(over, None);
            let whole = flows as f64 * bps as f64 / 8.0 * seconds;
            let ratio = sum as f64 / whole;
            prop_assert!((0.99..=1.01).contains(&ratio), "{text}: {ratio} at {bps}");
        }
    }
}

#[test]
fn the_last_part_of_a_volume_lasts_until_the_period_ends() {
    let start = at("2026-11-24T00:00:00Z");
    let mut caps = Caps::new(&config("all = { daily = \"10 GB\", slow_at = 0.8 }"), start);
    let mut hours = [0; 24];
    let end = start + SignedDuration::from_hours(24);
    let sum = greedy(
        &mut caps,
        [start, end],
        (20_000_000, 10_000),
        SignedDuration::from_millis(100),
        |now, bytes| {
            hours[now.duration_since(start).as_hours() as usize] += bytes;
        },
    );
    assert!((9_900_000_000..=10_000_000_000).contains(&sum), "{sum}");
    // 8 GB at 20 Mbit/s take 53 minutes; what is left is spread over 23 hours.
    assert!(
        hours[0] > 8_000_000_000 && hours[1..].iter().all(|&bytes| (80_000_000..95_000_000).contains(&bytes)),
        "{hours:?}"
    );
}

#[test]
fn the_home_counts_for_the_volume_of_the_line_and_what_is_kept_for_it_stays() {
    let start = at("2026-11-01T00:00:00Z");
    let text = "month = { volume = \"100 GB\", keep_for_home = \"60 GB\", slow_at = 1 }";
    let mut caps = Caps::new(&config(text), start);
    let left =
        |caps: &mut Caps| caps.left(start, "ann").iter().map(|left| (left.used, left.limit)).next().unwrap();
    assert_eq!(left(&mut caps), (0, 40_000_000_000));
    caps.count(start, "", Direction::Down, Class::Foreground, 50_000_000_000);
    assert_eq!(left(&mut caps), (0, 40_000_000_000));
    caps.count(start, "", Direction::Up, Class::Foreground, 25_000_000_000);
    assert_eq!(left(&mut caps), (0, 25_000_000_000));
    let granted = caps.ask(start, "ann", Direction::Up, 30_000_000_000).grant.unwrap();
    assert_eq!(granted.bytes(), 25_000_000_000);
    // Nothing is left for bob, but it may be given back.
    let answer = caps.ask(start, "bob", Direction::Up, 1);
    assert!(answer.grant.is_none() && answer.again < start + SignedDuration::from_secs(1));
    caps.settle(start, granted, 5_000_000_000);
    let granted = caps.ask(start, "bob", Direction::Up, 30_000_000_000).grant.unwrap();
    assert_eq!(granted.bytes(), 20_000_000_000);
    caps.settle(start, granted, 20_000_000_000);
    let end = at("2026-12-01T00:00:00Z");
    let until = Some(end);
    assert_eq!(caps.verdict(start, "eve"), Verdict::Paused { until, reason: Reason::Month });
    assert_eq!(caps.verdict(end, "eve"), Verdict::Free);
    // The clock goes back: what was used is not forgotten.
    assert_eq!(caps.verdict(start, "eve"), Verdict::Paused { until, reason: Reason::Month });
}

#[test]
fn hours_hold_by_the_local_clock() {
    let zone = TimeZone::get("Europe/Madrid").unwrap();
    let text = r#"
        time_zone = "Europe/Madrid"
        [[hours]]
        days = ["mon", "tue", "wed", "thu", "fri"]
        from = "08:00"
        to = "18:00"
        rate = "2 Mbit/s"
        [[hours]]
        days = ["fri"]
        from = "22:00"
        to = "06:30"
        [[hours]]
        from = "03:00"
        to = "03:30"
    "#;
    let mut caps = Caps::new(&config(text), at("2026-01-01T00:00:00Z"));
    // Local time, as there is no summer time in November.
    for (local, expected) in [
        ("2026-11-24T07:59:59", "free"),
        ("2026-11-24T08:00:00", "2 Mbit/s"),
        ("2026-11-24T17:59:59", "2 Mbit/s"),
        ("2026-11-24T18:00:00", "free"),
        ("2026-11-24T03:00:00", "2026-11-24T03:30:00"),
        ("2026-11-27T21:59:59", "free"),
        ("2026-11-27T22:00:00", "2026-11-28T06:30:00"),
        ("2026-11-28T03:10:00", "2026-11-28T06:30:00"),
        ("2026-11-28T06:29:59", "2026-11-28T06:30:00"),
        ("2026-11-28T06:30:00", "free"),
        ("2026-11-28T12:00:00", "free"),
        // Summer time.
        ("2026-07-01T08:00:00", "2 Mbit/s"),
        ("2026-07-03T23:00:00", "2026-07-04T06:30:00"),
    ] {
        let now = zone.to_timestamp(local.parse().unwrap()).unwrap();
        let found = match caps.verdict(now, "ann") {
            Verdict::Free => "free".to_owned(),
            Verdict::Slowed { rate, .. } => rate.to_string(),
            Verdict::Paused { until, .. } => zone.to_datetime(until.unwrap()).to_string(),
        };
        assert_eq!(found, expected, "{local}");
    }
    // The night on which the clock goes forward has no 02:30 to 03:00; a pause there ends all
    // the same.
    let mut caps = Caps::new(
        &config("time_zone = \"Europe/Madrid\"\nhours = [{ from = \"01:30\", to = \"02:30\" }]"),
        at("2026-01-01T00:00:00Z"),
    );
    let verdict = caps.verdict(at("2026-03-29T00:45:00Z"), "ann");
    assert!(
        matches!(verdict, Verdict::Paused { until: Some(until), .. } if until <= at("2026-03-29T01:30:00Z"))
    );
    assert_eq!(caps.verdict(at("2026-03-29T01:31:00Z"), "ann"), Verdict::Free);
    // Always.
    let mut caps =
        Caps::new(&config("hours = [{ from = \"00:00\", to = \"24:00\" }]"), at("2026-01-01T00:00:00Z"));
    assert!(matches!(caps.verdict(at("2026-03-29T00:45:00Z"), "ann"), Verdict::Paused { .. }));
}

#[test]
fn the_strictest_cap_speaks_and_a_neighbour_has_limits_of_his_own() {
    let start = at("2026-11-24T12:00:00Z");
    let text = r#"
        time_zone = "Europe/Madrid"
        all = { rate = "50 Mbit/s" }
        user = { rate = "5 Mbit/s", daily = "1 GB" }
        users.ann = {}
        hours = [{ from = "13:00", to = "14:00", rate = "1 Mbit/s" }]
    "#;
    let config = config(text);
    let mut caps = Caps::new(&config, start);
    let zone = &config.time_zone;
    let words = |caps: &mut Caps, now: Timestamp, user| caps.verdict(now, user).words(zone);
    assert!(words(&mut caps, start, "bob").starts_with("Slowed to 1 Mbit/s: the owner wants the line"));
    let later = start + SignedDuration::from_hours(2);
    assert_eq!(words(&mut caps, later, "bob"), "Slowed to 5 Mbit/s: each neighbour has a rate limit.");
    assert!(words(&mut caps, later, "ann").starts_with("Slowed to 50 Mbit/s: all neighbours together"));
    caps.count(later, "bob", Direction::Down, Class::Background, 1_000_000_000);
    assert_eq!(
        words(&mut caps, later, "bob"),
        "Paused until Wednesday 25 November, 00:00: you have used nearly all, or all, of what you may use today."
    );
    caps.set_stored(false);
    assert!(words(&mut caps, later, "ann").starts_with("Paused: the accounts cannot be stored"));
    assert!(caps.ask(later, "ann", Direction::Up, 1).grant.is_none());
    caps.set_stored(true);
    assert!(caps.verdict(later, "ann") != Verdict::Free);
}

#[test]
fn a_voucher_is_over_with_its_data_or_its_days() {
    let start = at("2026-11-24T12:00:00Z");
    let mut caps = Caps::new(&CapsConfig::default(), start);
    let end = start + SignedDuration::from_hours(24 * 7);
    caps.redeem(start, "ann", Period { start, end }, Some(5_000_000_000), 0);
    let grant = caps.ask(start, "ann", Direction::Down, 6_000_000_000).grant.unwrap();
    assert_eq!(grant.bytes(), 5_000_000_000);
    caps.settle(start, grant, 4_000_000_000);
    let reason = |verdict| match verdict {
        Verdict::Paused { until: None, reason } => Some(reason),
        _ => None,
    };
    assert_eq!(caps.verdict(end - SignedDuration::from_secs(1), "ann"), Verdict::Free);
    assert_eq!(reason(caps.verdict(end, "ann")), Some(Reason::VoucherOver));
    caps.count(start, "ann", Direction::Up, Class::Background, 1_000_000_000);
    assert_eq!(reason(caps.verdict(start, "ann")), Some(Reason::Voucher));
    // What was used before the redemption does not count.
    caps.redeem(end, "ann", Period { start: end, end: end + SignedDuration::from_hours(1) }, Some(10), 0);
    caps.count(start, "ann", Direction::Up, Class::Background, 10);
    assert_eq!(caps.left(end, "ann")[0].used, 0);
    assert_eq!(caps.verdict(end, "bob"), Verdict::Free);
}

/// The last tenth is spread over an hour, however long the voucher is good for; what another gateway
/// has given counts.
#[test]
fn the_last_of_a_voucher_is_slow_and_then_it_pauses() {
    let start = at("2026-11-24T12:00:00Z");
    let end = start + SignedDuration::from_hours(24 * 7);
    for end in [end, Timestamp::MAX] {
        let mut caps = Caps::new(&CapsConfig::default(), start);
        caps.redeem(start, "ann", Period { start, end }, Some(5_000_000_000), 4_400_000_000);
        assert_eq!(caps.verdict(start, "ann"), Verdict::Free);
        caps.count(start, "ann", Direction::Down, Class::Background, 150_000_000);
        // 450 MB in an hour.
        let said = caps.verdict(start, "ann").words(&TimeZone::UTC);
        assert_eq!(
            said,
            "Slowed to 1 Mbit/s: you have used nearly all, or all, of the data of your voucher."
        );
        let (mut now, mut passed) = (start, 0);
        while now < start + SignedDuration::from_mins(10) {
            match caps.ask(now, "ann", Direction::Down, 100_000) {
                leeway_accounts::caps::Answer { grant: Some(grant), .. } => {
                    passed += grant.bytes();
                    let bytes = grant.bytes();
                    caps.settle(now, grant, bytes);
                }
                answer => now = answer.again,
            }
        }
        // A rate that falls with what is left: 450 MB * (1 - e^(-1/6)).
        assert!((68_000_000..70_500_000).contains(&passed), "{passed}");
        caps.count(start, "ann", Direction::Up, Class::Background, 450_000_000 - passed);
        let said = caps.verdict(now, "ann").words(&TimeZone::UTC);
        assert_eq!(said, "Paused: you have used nearly all, or all, of the data of your voucher.");
    }
}

#[test]
fn many_users_are_not_remembered_for_nothing() {
    let start = at("2026-11-24T12:00:00Z");
    let mut caps = Caps::new(&config("user = { daily = \"1 GB\" }"), start);
    caps.count(start, "ann", Direction::Down, Class::Background, 1_000_000_000);
    for n in 0..20_000 {
        caps.verdict(start, &format!("2001:db8:{n:x}::/64"));
    }
    assert!(matches!(caps.verdict(start, "ann"), Verdict::Paused { .. }));
}
