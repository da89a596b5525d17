//! A user's volume holds across gateways, whatever the gateways do; volumes of a line do not.

mod common;

use common::{Check, Server, on_postgres, on_sqlite};
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::{Caps, CapsConfig, Period, Verdict};
use leeway_accounts::ledger::Direction;
use leeway_accounts::store::Store;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const CAPS: &str = "user = { daily = \"100 MB\", slow_at = 1 }\nall = { daily = \"1 GB\", slow_at = 1 }";
const DAILY: u64 = 100_000_000;
/// Between two looks at what is wanted.
const TICK: SignedDuration = SignedDuration::from_millis(50);

const CHECKS: &[(&str, Check)] = &[
    ("two_at_once", two_at_once),
    ("one_after_the_other", one_after_the_other),
    ("one_is_killed", one_is_killed),
    ("the_store_is_gone", the_store_is_gone),
    ("another_day", another_day),
    ("vouchers", vouchers),
    ("the_line", the_line),
];

#[test]
fn sqlite() {
    on_sqlite(CHECKS);
}

#[test]
fn postgres() {
    let Some(server) = Server::start() else { return };
    on_postgres(&server, CHECKS);
}

fn start() -> Timestamp {
    "2026-11-23T08:00:00Z".parse().unwrap()
}

/// A gateway of the store, by a clock of the test's.
struct Gateway {
    name: &'static str,
    caps: Caps,
    store: Option<Store>,
    moved: u64,
}

impl Gateway {
    fn new(url: &str, name: &'static str) -> Gateway {
        let config: CapsConfig = toml::from_str(CAPS).unwrap();
        let caps = Caps::new(&config, start()).across();
        Gateway { name, caps, store: Some(Store::open(url, name).unwrap()), moved: 0 }
    }

    /// The user wants to move so many bytes until the next look.
    fn tick(&mut self, at: Timestamp, user: &str, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let Some(grant) = self.caps.ask(at, user, Direction::Down, left.min(20_000)).grant else { break };
            let moved = grant.bytes();
            self.caps.settle(at, grant, moved);
            self.moved += moved;
            left -= moved;
        }
        self.share(at);
    }

    fn share(&mut self, at: Timestamp) {
        for want in self.caps.wants(at) {
            let share = self.store.as_mut().map(|store| store.take_share(self.name, &want).unwrap());
            self.caps.set_share(at, &want, share);
        }
    }

    fn is_paused(&mut self, at: Timestamp, user: &str) -> bool {
        matches!(self.caps.verdict(at, user), Verdict::Paused { .. })
    }
}

fn pair(url: &str) -> [Gateway; 2] {
    [Gateway::new(url, "attic"), Gateway::new(url, "cellar")]
}

/// Both move for `user` until neither can, at most that many bytes a tick.
fn exhaust(gateways: &mut [Gateway], user: &str, mut at: Timestamp, most: u64) -> Timestamp {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(most);
    let mut quiet = 0;
    // After 45 s without a byte nothing comes any more: what others give back is seen after 30 s.
    while quiet < 900 {
        let before: u64 = gateways.iter().map(|gateway| gateway.moved).sum();
        gateways.iter_mut().for_each(|gateway| gateway.tick(at, user, rng.random_range(0..=most)));
        let after: u64 = gateways.iter().map(|gateway| gateway.moved).sum();
        quiet = if after == before { quiet + 1 } else { 0 };
        at += TICK;
    }
    at
}

#[track_caller]
fn holds(gateways: &[Gateway], limit: u64) {
    let moved: u64 = gateways.iter().map(|gateway| gateway.moved).sum();
    assert!((limit - limit / 100..=limit).contains(&moved), "{moved} of {limit}");
}

/// From 800 kbit/s to 800 Mbit/s at each.
fn two_at_once(url: &str) {
    for (user, most) in [("ann", 10_000), ("bob", 500_000), ("eve", 10_000_000)] {
        let mut gateways = pair(url);
        let end = exhaust(&mut gateways, user, start(), most);
        holds(&gateways, DAILY);
        assert!(gateways.iter_mut().all(|gateway| gateway.is_paused(end, user)), "{user}");
        assert!(gateways.iter().all(|gateway| gateway.moved > DAILY / 10), "each has its part");
    }
}

fn one_after_the_other(url: &str) {
    let mut gateways = pair(url);
    let mut at = start();
    for _ in 0..100 {
        gateways[0].tick(at, "ann", 300_000);
        gateways[1].share(at);
        at += TICK;
    }
    assert!(gateways[0].moved > 20_000_000);
    // The second gets all that the first has left, after the first has given its share back.
    for _ in 0..4000 {
        gateways[0].share(at);
        gateways[1].tick(at, "ann", 300_000);
        at += TICK;
    }
    holds(&gateways, DAILY);
    assert!(gateways[1].is_paused(at, "ann") && gateways[0].caps.left(at, "ann").len() == 2);
}

fn one_is_killed(url: &str) {
    let [mut attic, cellar] = pair(url);
    let mut at = start();
    for _ in 0..100 {
        attic.tick(at, "ann", 300_000);
        at += TICK;
    }
    let moved = attic.moved;
    drop(attic);
    let mut rest = [cellar];
    exhaust(&mut rest, "ann", at, 300_000);
    // What the killed one had in advance is lost for the day: a part in a hundred.
    let all = moved + rest[0].moved;
    assert!((DAILY - DAILY * 3 / 200..=DAILY).contains(&all), "{all}");
}

fn the_store_is_gone(url: &str) {
    let mut gateways = pair(url);
    let mut at = start();
    for _ in 0..20 {
        gateways.iter_mut().for_each(|gateway| gateway.tick(at, "ann", 300_000));
        at += TICK;
    }
    let mut store = gateways[0].store.take();
    let before = gateways[0].moved;
    for _ in 0..40 {
        gateways[0].tick(at, "ann", 300_000);
        at += TICK;
    }
    assert!(gateways[0].moved > before + 10_000_000, "sharing goes on");
    // What was used meanwhile counts when the store is there again.
    std::mem::swap(&mut gateways[0].store, &mut store);
    exhaust(&mut gateways, "ann", at, 300_000);
    holds(&gateways, DAILY);
}

fn another_day(url: &str) {
    let mut gateways = pair(url);
    let end = exhaust(&mut gateways, "ann", start(), 500_000);
    let tomorrow = start() + SignedDuration::from_hours(24);
    assert!(end < tomorrow);
    exhaust(&mut gateways, "ann", tomorrow, 500_000);
    holds(&gateways, 2 * DAILY);
    let mut store = gateways[0].store.take().unwrap();
    let midnight: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
    assert_eq!(store.forget_shares(midnight).unwrap(), 0);
    assert_eq!(store.forget_shares(midnight + SignedDuration::from_secs(1)).unwrap(), 2);
}

fn vouchers(url: &str) {
    let mut gateways = pair(url);
    let end = start() + SignedDuration::from_hours(7 * 24);
    for gateway in &mut gateways {
        let period = Period { start: start(), end };
        gateway.caps.redeem(start(), "voucher-AC3D", period, Some(30_000_000), 0);
    }
    // From 90 % on the rest is spread over an hour: enough for the test are two.
    let mut at = start();
    while at < start() + SignedDuration::from_hours(2) {
        gateways.iter_mut().for_each(|gateway| gateway.tick(at, "voucher-AC3D", 1_000_000));
        at += SignedDuration::from_secs(1);
    }
    holds(&gateways, 30_000_000);
}

/// The volume of all is that of each line.
fn the_line(url: &str) {
    let mut gateways = pair(url);
    let mut at = start();
    for second in 0..400 {
        for gateway in &mut gateways {
            for user in 0..30 {
                gateway.tick(at, &format!("user {user}"), 2_000_000 * u64::from(second % 2 == 0));
            }
        }
        at += SignedDuration::from_secs(1);
    }
    let all: u64 = gateways.iter().map(|gateway| gateway.moved).sum();
    assert!(all > 1_500_000_000, "more than one line's volume: {all}");
    assert!(gateways.iter().all(|gateway| gateway.moved <= 1_000_000_000));
}
