//! The lists of a large community, on both stores.

mod common;

use common::{Check, Server, on_postgres, on_sqlite};
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::ledger::{Class, Direction, Key, Ledger};
use leeway_accounts::store::Store;
use leeway_accounts::time::Slot;
use leeway_accounts::vouchers::Terms;
use std::time::{Duration, Instant};

const START: i64 = 1_795_000_000;
const USERS: usize = 300;
const DAY: SignedDuration = SignedDuration::from_hours(24);

const CHECKS: &[(&str, Check)] = &[("many_vouchers", many_vouchers), ("none", none)];

#[test]
fn sqlite() {
    on_sqlite(CHECKS);
}

#[test]
fn postgres() {
    let Some(server) = Server::start() else { return };
    on_postgres(&server, CHECKS);
}

/// Every second one is in use since another day, for some days or without end; some were taken back, before their
/// first use or after it, and one user has a second invitation.
fn many_vouchers(url: &str) {
    let start = Timestamp::from_second(START).unwrap();
    let mut store = Store::open(url, "attic").unwrap();
    let terms = |days| Terms { days, bytes: Some(1 << 30), valid_until: None };
    let mut codes = store.make_vouchers(start, &terms(Some(3)), USERS - 100).unwrap();
    for n in 0..99 {
        codes.push(store.invite(start, &format!("user-{n}"), &terms(None)).unwrap());
    }
    // Off the border of a slot: the whole slot of the first use counts.
    let first_use = |n: usize| start + DAY * (n % 6) as i32 + SignedDuration::from_secs(n as i64);
    for (n, code) in codes.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
        store.redeem(first_use(n), &code.text).unwrap();
    }
    for n in (0..codes.len()).step_by(7) {
        store.revoke_vouchers(start + DAY * 4, &codes[n].holder).unwrap();
    }
    let again = store.invite(start + DAY * 5, "user-10", &terms(Some(1))).unwrap();
    store.redeem(start + DAY * 6, &again.text).unwrap();
    for gateway in ["attic", "cellar"] {
        let mut store = Store::open(url, gateway).unwrap();
        let mut ledger = Ledger::new(0, Duration::from_secs(3600));
        for day in 0..10_i32 {
            for (n, code) in codes.iter().enumerate() {
                let at = start + DAY * day + SignedDuration::from_secs(n as i64 / 2);
                for direction in Direction::ALL {
                    let (slot, user) = (Slot::of(at), code.holder.clone());
                    let bytes = 1 + n as u64 * 1000 + day as u64;
                    ledger.count(Key { slot, user, direction, class: Class::Background }, bytes);
                }
            }
        }
        store.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
    }

    let began = Instant::now();
    let list = store.vouchers().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(list.len(), USERS);
    let began = Instant::now();
    for (voucher, used) in &list {
        assert_eq!(*used, store.used_of(voucher).unwrap(), "{voucher:?}");
        assert_eq!(store.voucher(&voucher.selector).unwrap().as_ref(), Some(voucher));
    }
    eprintln!("one query: {seconds:.3} s; one for each: {:.3} s", began.elapsed().as_secs_f64());
    let users = list.iter().filter(|(_, used)| *used > 0).count();
    assert!((USERS / 3..USERS / 2 + 5).contains(&users), "{users} have used something");

    assert_eq!(store.last_seen().unwrap().len(), codes.len());
}

fn none(url: &str) {
    let mut store = Store::open(url, "attic").unwrap();
    assert_eq!(store.vouchers().unwrap(), []);
    store
        .invite(
            Timestamp::from_second(START).unwrap(),
            "ann",
            &Terms { days: None, bytes: None, valid_until: None },
        )
        .unwrap();
    let list = store.vouchers().unwrap();
    assert_eq!(
        list.iter().map(|(voucher, used)| (voucher.holder(), *used)).collect::<Vec<_>>(),
        [("ann".into(), 0)]
    );
}
