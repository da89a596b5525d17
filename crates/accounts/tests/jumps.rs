//! A clock that jumps and stays where it is: every period's volume holds, and nothing counts twice.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Caps, CapsConfig};
use leeway_accounts::ledger::{Class, Direction};
use leeway_accounts::store::Store;
use leeway_accounts::time::{Moment, Slot};
use leeway_accounts::{Books, write};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

const DAILY: u64 = 300_000;
const CAPS: &str =
    "month = { volume = \"10 MB\", slow_at = 1.0 }\nuser = { daily = \"300 kB\", slow_at = 1.0 }";

/// A neighbour who takes a kilobyte a second where it is granted, while the wall clock is off by what `off`
/// says at each second; returns the bytes by the day that the accounts count them for.
fn taken(start: &str, seconds: u64, off: impl Fn(u64) -> SignedDuration) -> BTreeMap<Date, u64> {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("accounts.db").to_str().unwrap().to_owned();
    let mut store = Store::open(&url, "attic").unwrap();
    let begin: Timestamp = start.parse().unwrap();
    let moment = |second| {
        let steady = Duration::from_secs(second);
        Moment { wall: begin + off(second) + steady, steady }
    };
    let config: CapsConfig = toml::from_str(CAPS).unwrap();
    let books = Mutex::new(Books::new(&mut store, moment(0), Duration::from_secs(3600)).unwrap());
    let mut caps = Caps::new(&config, begin);
    let mut days = BTreeMap::new();
    for second in 0..seconds {
        let now = moment(second);
        let at = books.lock().unwrap().at(now);
        if let Some(grant) = caps.ask(at, "ann", Direction::Down, 1000).grant {
            let bytes = grant.bytes();
            caps.settle(at, grant, bytes);
            books.lock().unwrap().count(now, "ann", Direction::Down, Class::Background, bytes);
            *days.entry(at.to_zoned_datetime(TimeZone::UTC).date()).or_insert(0) += bytes;
        }
        write(&books, &mut store, now, false);
    }
    write(&books, &mut store, moment(seconds), true);
    let mut stored = BTreeMap::<Date, u64>::new();
    for usage in store.usage(Slot::of(Timestamp::UNIX_EPOCH), Slot::of(Timestamp::MAX)).unwrap() {
        *stored.entry(usage.slot.start().to_zoned_datetime(TimeZone::UTC).date()).or_insert(0) += usage.bytes;
    }
    assert_eq!(stored, days, "the store has what was granted, each byte once");
    days
}

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

#[test]
fn a_month_forward_and_back_gives_each_day_its_volume_once() {
    let month = |second| SignedDuration::from_hours(if (1000..3000).contains(&second) { 24 * 31 } else { 0 });
    let days = taken("2026-11-18T12:00:00Z", 5000, month);
    // The other month is believed after ten minutes, and then this one again, whose day is used up.
    assert_eq!(days, BTreeMap::from([(day("2026-11-18"), DAILY), (day("2026-12-19"), DAILY)]));
}

#[test]
fn a_month_forward_for_a_few_minutes_gives_nothing() {
    let month = |second| SignedDuration::from_hours(if (1000..1500).contains(&second) { 24 * 31 } else { 0 });
    assert_eq!(taken("2026-11-18T12:00:00Z", 3000, month), BTreeMap::from([(day("2026-11-18"), DAILY)]));
}

#[test]
fn an_hour_back_over_midnight_gives_no_day_a_second_volume() {
    let hour = |second| SignedDuration::from_hours(if second >= 1800 { -1 } else { 0 });
    // From 23:50; at 00:20 it is 23:20 again, and midnight comes a second time.
    let days = taken("2026-11-18T23:50:00Z", 3 * 3600, hour);
    assert_eq!(days, BTreeMap::from([(day("2026-11-18"), DAILY), (day("2026-11-19"), DAILY)]));
}
