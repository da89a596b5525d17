//! A week of a community: a hundred users, five gateways, day and night, caps, gateways that
//! die, a clock that jumps. What the ledger has at the end is what the generator made, to the
//! byte.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Caps, CapsConfig, Every};
use leeway_accounts::ledger::{Class, Direction};
use leeway_accounts::store::Store;
use leeway_accounts::time::{Moment, Slot};
use leeway_accounts::{Books, write};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

const GATEWAYS: usize = 5;
const USERS: usize = 100;
const MINUTES: u64 = 7 * 24 * 60;
const PATIENCE: Duration = Duration::from_secs(3600);
const DAILY: u64 = 1_000_000_000;
const CAPS: &str = r#"
    time_zone = "Europe/Madrid"
    user = { daily = "1 GB", slow_at = 1 }
    all = { daily = "12 GB", slow_at = 1 }
    hours = [{ days = ["mon", "wed"], from = "09:00", to = "12:00" }]
"#;

/// Slot, gateway, user, direction, class.
type Key = (i64, usize, String, &'static str, &'static str);

struct Gateway {
    name: String,
    store: Store,
    books: Mutex<Books>,
    caps: Caps,
    /// What the generator has counted since the last write.
    unwritten: Vec<(Key, u64)>,
    /// By how much the wall clock is off.
    off: SignedDuration,
}

impl Gateway {
    fn start(url: &str, number: usize, now: Moment) -> Gateway {
        let name = format!("gateway {number}");
        let mut store = Store::open(url, &name).unwrap();
        let mut books = Books::new(&mut store, now, PATIENCE).unwrap();
        let at = books.at(now);
        let config: CapsConfig = toml::from_str(CAPS).unwrap();
        let mut caps = Caps::new(&config, at);
        let usage = store.usage(Slot::of(caps.since(at)), Slot::of(at).next()).unwrap();
        caps.restore(&name, &usage);
        let off = SignedDuration::ZERO;
        Gateway { name, store, books: Mutex::new(books), caps, unwritten: vec![], off }
    }

    fn count(
        &mut self,
        number: usize,
        now: Moment,
        user: &str,
        direction: Direction,
        class: Class,
        bytes: u64,
    ) {
        let at = self.books.lock().unwrap().count(now, user, direction, class, bytes);
        let key = (Slot::of(at).second(), number, user.to_owned(), direction.name(), class.name());
        self.unwritten.push((key, bytes));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a week, day by day")]
fn a_week_is_counted_to_the_byte() {
    // Thousands of transactions: in memory, if there is such a folder.
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let url = folder.path().join("accounts.db").to_str().unwrap().to_owned();
    let start: Timestamp = "2026-11-23T00:00:00Z".parse().unwrap();
    let moment = |minute: u64| {
        let steady = Duration::from_secs(60 * minute);
        Moment { wall: start + steady, steady }
    };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(30);
    let mut gateways: Vec<Gateway> = (0..GATEWAYS).map(|n| Gateway::start(&url, n, moment(0))).collect();
    let mut expected = BTreeMap::<Key, u64>::new();
    let (mut lost, mut deaths, mut refused) = (0, 0, 0_u64);
    for minute in 0..MINUTES {
        let hour = minute / 60 % 24;
        for (number, gateway) in gateways.iter_mut().enumerate() {
            if random.random_range(0..3000) == 0 {
                // Killed: what was not written is lost, and known to the byte.
                lost += gateway.unwritten.iter().map(|(_, bytes)| bytes).sum::<u64>();
                deaths += 1;
                *gateway = Gateway::start(&url, number, moment(minute));
            }
            gateway.off = match (number, minute) {
                (3, 2000..2006) => SignedDuration::from_hours(24 * 300),
                (4, 3000..3008) => SignedDuration::from_hours(-24 * 9000),
                _ => SignedDuration::ZERO,
            };
            let now = Moment { wall: moment(minute).wall + gateway.off, ..moment(minute) };
            let at = gateway.books.lock().unwrap().at(now);
            let home = random.random_range(0..if hour > 17 { 20_000_000 } else { 2_000_000 });
            gateway.count(number, now, "", Direction::Down, Class::Foreground, home);
            gateway.caps.count(at, "", Direction::Down, Class::Foreground, home);
            for user in (number..USERS).step_by(GATEWAYS) {
                // Some are greedy, most come in the evening.
                let greedy = user < 2 * GATEWAYS;
                if !greedy && random.random_range(0..24) > hour / 2 {
                    continue;
                }
                let name = format!("user {user}");
                let direction = Direction::ALL[usize::from(random.random_range(0..5) == 0)];
                let wish = random.random_range(1..if greedy { 60_000_000 } else { 3_000_000 });
                let Some(grant) = gateway.caps.ask(at, &name, direction, wish).grant else {
                    refused += 1;
                    continue;
                };
                let used = random.random_range(0..=grant.bytes());
                gateway.count(number, now, &name, direction, Class::Background, used);
                gateway.caps.settle(at, grant, used);
            }
            if minute % 10 == number as u64 {
                write(&gateway.books, &mut gateway.store, moment(minute), false);
                assert_eq!(gateway.books.lock().unwrap().ledger().unwritten_bytes(), 0);
                for (key, bytes) in gateway.unwritten.drain(..).filter(|(_, bytes)| *bytes > 0) {
                    *expected.entry(key).or_default() += bytes;
                }
            }
        }
    }
    for gateway in &mut gateways {
        write(&gateway.books, &mut gateway.store, moment(MINUTES), true);
        for (key, bytes) in gateway.unwritten.drain(..).filter(|(_, bytes)| *bytes > 0) {
            *expected.entry(key).or_default() += bytes;
        }
    }
    let mut store = Store::reading(&url).unwrap();
    let (first, last) = store.range().unwrap().unwrap();
    let usage = store.usage(first, last.next()).unwrap();
    let stored: BTreeMap<Key, u64> = usage
        .iter()
        .map(|usage| {
            let number = gateways.iter().position(|gateway| gateway.name == usage.gateway).unwrap();
            let key =
                (usage.slot.second(), number, usage.user.clone(), usage.direction.name(), usage.class.name());
            (key, usage.bytes)
        })
        .collect();
    assert!(stored == expected, "{} rows, {} expected", stored.len(), expected.len());
    let total: u64 = stored.values().sum();
    eprintln!("{} rows, {total} bytes, {deaths} deaths lost {lost} bytes, {refused} refusals", stored.len());
    assert!(deaths > 5 && refused > 1000 && lost > 0, "the week was too quiet");
    // The caps: days by the local clock, and hours in which nothing passes.
    let zone = TimeZone::get("Europe/Madrid").unwrap();
    let day = Every::Day(zone.clone());
    let (mut users, mut all) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
    for ((second, gateway, user, _, class), bytes) in &stored {
        if *class == "home" {
            continue;
        }
        let at = Timestamp::from_second(*second).unwrap();
        let local = zone.to_datetime(at);
        let paused =
            [1, 3].contains(&local.weekday().to_monday_one_offset()) && (9..12).contains(&local.hour());
        assert!(!paused, "{local}");
        *users.entry((day.period(at).start, user)).or_default() += bytes;
        *all.entry((day.period(at).start, gateway)).or_default() += bytes;
    }
    // What a gateway had counted when it died, it does not know afterwards.
    assert!(users.values().all(|&bytes| bytes <= DAILY), "{:?}", users.values().max());
    assert!(all.values().all(|&bytes| bytes <= 12 * DAILY));
    let full = |bytes: &&u64| **bytes >= DAILY / 100 * 99;
    assert!(users.values().filter(full).count() >= 2 * GATEWAYS * 5, "greedy users have their day's volume");
}
