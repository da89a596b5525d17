//! Limits that are changed at run time, and caps that continue where their predecessors were.

mod common;

use common::{Check, Server, on_postgres, on_sqlite};
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::Store;
use leeway_accounts::caps::{Caps, CapsConfig, Period, Reason};
use leeway_accounts::ledger::{Batch, Class, Direction, Key};
use leeway_accounts::limits::{Limit, Whose};
use leeway_accounts::time::Slot;
use leeway_units::{Bytes, Rate};
use std::collections::BTreeMap;

const CHECKS: &[(&str, Check)] = &[("limits", limits), ("sums_are_enough", sums_are_enough)];

#[test]
fn sqlite() {
    on_sqlite(CHECKS);
}

#[test]
fn postgres() {
    let Some(server) = Server::start() else { return };
    on_postgres(&server, CHECKS);
}

fn config(text: &str) -> CapsConfig {
    toml::from_str(text).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn daily(bytes: u64) -> Limit {
    Limit { daily: Some(Bytes::new(bytes)), rate: None }
}

fn limits(url: &str) {
    let (mut attic, mut cellar) = (Store::reading(url).unwrap(), Store::reading(url).unwrap());
    assert_eq!(attic.limits("attic").unwrap(), []);
    let fast = Limit { daily: None, rate: Some(Rate::from_bits_per_sec(5_000_000)) };
    let ann = Whose::User("ann".into());
    attic.set_limit("attic", &ann, Some(&daily(1))).unwrap();
    attic.set_limit("attic", &ann, Some(&daily(7))).unwrap();
    attic.set_limit("attic", &Whose::All, Some(&fast)).unwrap();
    attic.set_limit("attic", &Whose::Each, Some(&Limit::default())).unwrap();
    let users = [(Whose::Each, Limit::default()), (ann.clone(), daily(7))];
    // The limit of a line is that of its gateway; those of users are everywhere.
    assert_eq!(cellar.limits("cellar").unwrap(), users);
    assert_eq!(attic.limits("attic").unwrap(), [&[(Whose::All, fast)], &users[..]].concat());

    let before =
        config("all.daily = \"9 B\"\nuser = { daily = \"2 B\", slow_at = 0.5 }\nusers.bob.daily = \"3 B\"");
    let now = before.with(&attic.limits("attic").unwrap());
    assert_eq!((now.limit(&Whose::All), now.limit(&Whose::Each)), (fast, Limit::default()));
    assert_eq!((now.limit(&ann), now.users["ann"].slow_at), (daily(7), 0.5));
    assert_eq!(now.limit(&Whose::User("bob".into())), daily(3), "he has his own");
    assert_eq!(now.limit(&Whose::User("eve".into())), Limit::default());

    cellar.set_limit("cellar", &ann, None).unwrap();
    cellar.set_limit("cellar", &Whose::All, None).unwrap();
    let left = [(Whose::All, fast), (Whose::Each, Limit::default())];
    assert_eq!(attic.limits("attic").unwrap(), left);
}

/// What caps are restored from: sums of days instead of all rows of a month.
fn sums_are_enough(url: &str) {
    let caps = config(
        "time_zone = \"Europe/Madrid\"\nbilling_day = 15\nall.daily = \"1 GB\"\nuser.daily = \"1 GB\"\n\
         month.volume = \"1 TB\"\npercentile = {}",
    );
    let now = at("2026-11-02T10:07:00Z");
    let mut rows = BTreeMap::new();
    let mut n = 0;
    // Twenty days, with the end of summer time among them.
    let mut slot = Slot::of(at("2026-10-13T21:55:00Z"));
    while slot <= Slot::of(now) {
        for (user, class) in [("ann", Class::Background), ("bob", Class::Background), ("", Class::Foreground)]
        {
            for direction in Direction::ALL {
                n += 1;
                rows.insert(Key { slot, user: user.into(), direction, class }, 1 + n % 1000);
            }
        }
        slot = slot.next();
    }
    let add = |gateway: &str, rows: &BTreeMap<Key, u64>| {
        let mut store = Store::open(url, gateway).unwrap();
        store.add(&Batch { sequence: 1, rows: rows.clone() }).unwrap();
        store
    };
    let mut store = add("attic", &rows);
    drop(add("cellar", &rows));

    let (mut whole, mut sums) = (Caps::new(&caps, now), Caps::new(&caps, now));
    let (from, to) = (Slot::of(whole.since(now)), Slot::of(now).next());
    whole.restore("attic", &store.usage(from, to).unwrap());
    let home = store.usage_of_home("attic", from, to).unwrap();
    sums.restore("attic", &home);
    let days = sums.days(now);
    assert_eq!((days.len(), days[0].start), (20, at("2026-10-14T22:00:00Z")), "{days:?}");
    assert!(days.windows(2).all(|pair| pair[0].end == pair[1].start));
    for Period { start, end } in days {
        let usage = store.usage_of_neighbours("attic", Slot::of(start), Slot::of(end)).unwrap();
        assert_eq!(usage.len(), 4, "two users, two directions");
        sums.restore("attic", &usage);
    }
    for user in ["ann", "bob", "eve"] {
        assert_eq!(whole.left(now, user), sums.left(now, user));
        assert_eq!(whole.verdict(now, user), sums.verdict(now, user));
    }
    assert!(whole.left(now, "ann").iter().all(|left| left.used > 0));
    assert_eq!(whole.level_bytes(now), sums.level_bytes(now));
    // Used in this slot, which counts against its level.
    let up = |caps: &mut Caps| caps.ask(now, "ann", Direction::Up, u64::MAX).grant.map(|grant| grant.bytes());
    assert_eq!(up(&mut whole), up(&mut sums));
}

#[test]
fn new_caps_continue_to_the_byte_where_the_earlier_ones_were() {
    let now = at("2026-11-23T08:00:00Z");
    let text = "all = { daily = \"500 B\", slow_at = 1 }\nuser = { daily = \"100 B\", slow_at = 1 }";
    let mut caps = Caps::new(&config(text), now);
    let end = now.checked_add(SignedDuration::from_hours(24)).unwrap();
    caps.redeem(now, "ann", Period { start: now, end }, Some(90), 10);
    let first = caps.ask(now, "ann", Direction::Down, 30).grant.unwrap();
    caps.settle(now, first, 30);
    let running = caps.ask(now, "ann", Direction::Down, 20).grant.unwrap();

    // Half as much a day, twice as much for all. Nothing is in the store yet.
    let text = "all = { daily = \"1000 B\", slow_at = 1 }\nuser = { daily = \"60 B\", slow_at = 1 }";
    let mut next = Caps::new(&config(text), now);
    next.replaces(now, caps);
    let last = next.ask(now, "ann", Direction::Down, 1000).grant.unwrap();
    assert_eq!(last.bytes(), 10, "30 are used and 20 run");
    next.settle(now, running, 5);
    next.settle(now, last, 10);
    let used = |caps: &mut Caps, reason| {
        let left = caps.left(now, "ann").into_iter().find(|left| left.reason == reason).unwrap();
        (left.used, left.limit)
    };
    assert_eq!(used(&mut next, Reason::UserDaily), (45, 60));
    assert_eq!(used(&mut next, Reason::AllDaily), (45, 1000));
    assert_eq!(used(&mut next, Reason::Voucher), (55, 90));
    let rest = next.ask(now, "ann", Direction::Down, 1000).grant.unwrap();
    assert_eq!(rest.bytes(), 15);
}
