//! The same checks on both stores: nothing is lost or counted twice.

mod common;

use common::{Check, Server, on_postgres, on_sqlite};
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::ledger::{Class, Direction, Key, Ledger, PERIOD, State};
use leeway_accounts::store::{Store, StoreError, Usage};
use leeway_accounts::time::{Moment, Slot};
use leeway_accounts::vouchers::{Terms, Voucher, VoucherError};
use leeway_accounts::{Accounts, Books, export, write};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const START: i64 = 1_795_000_000;
const PATIENCE: Duration = Duration::from_secs(3600);
/// Set in a process that these tests start: the store it writes to.
const CHILD: &str = "LEEWAY_ACCOUNTS_TEST_CHILD";

const CHECKS: &[(&str, Check)] = &[
    ("sums", sums),
    ("a_batch_counts_once", a_batch_counts_once),
    ("one_process_a_gateway", one_process_a_gateway),
    ("several_gateways_at_a_time", several_gateways_at_a_time),
    ("killed_at_any_moment", killed_at_any_moment),
    ("a_clock_that_jumps", a_clock_that_jumps),
    ("a_year_is_forgotten", a_year_is_forgotten),
    ("by_the_real_clocks", by_the_real_clocks),
    ("exports", exports),
    ("vouchers", vouchers),
    ("invitations", invitations),
    ("a_voucher_begins_once", a_voucher_begins_once),
];

#[test]
fn sqlite() {
    on_sqlite(CHECKS);
}

#[test]
fn a_file_is_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("accounts.db");
    let _store = Store::open(path.to_str().unwrap(), "home").unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let (path, rights) = file.map(|file| (file.path(), file.metadata().unwrap().permissions())).unwrap();
        assert_eq!(rights.mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn postgres() {
    let Some(mut server) = Server::start() else { return };
    on_postgres(&server, CHECKS);
    the_server_dies_under_load(&mut server);
}

fn moment(second: u64) -> Moment {
    let steady = Duration::from_secs(second);
    Moment { wall: Timestamp::from_second(START).unwrap() + steady, steady }
}

fn slot(second: i64) -> Slot {
    Slot::of(Timestamp::from_second(START + second).unwrap())
}

fn key(second: i64, user: &str, direction: Direction) -> Key {
    let class = if user.is_empty() { Class::Foreground } else { Class::Background };
    Key { slot: slot(second), user: user.to_owned(), direction, class }
}

/// All of it.
fn usage(url: &str) -> Vec<Usage> {
    let mut store = Store::reading(url).unwrap();
    let Some((first, last)) = store.range().unwrap() else { return vec![] };
    store.usage(first, last.next()).unwrap()
}

fn total(url: &str) -> u64 {
    usage(url).iter().map(|usage| usage.bytes).sum()
}

fn sums(url: &str) {
    let mut store = Store::open(url, "attic").unwrap();
    assert_eq!((store.sequence(), store.newest().unwrap()), (0, None));
    let mut ledger = Ledger::new(0, PATIENCE);
    let mut expected = BTreeMap::new();
    // 3,000 rows in the largest batch: several INSERTs, among them one that is not full.
    for round in 0..4_u64 {
        for n in 0..750 * (round + 1) {
            let user =
                if n % 7 == 0 { String::new() } else { format!("u{}; DROP TABLE usage --'\"", n % 50) };
            let direction = Direction::ALL[n as usize % 2];
            let key = key(300 * (n as i64 / 100), &user, direction);
            let bytes = n * n + round + (1 << 40);
            ledger.count(key.clone(), bytes);
            *expected.entry(key).or_insert(0) += bytes;
        }
        store.add(&ledger.batch(Duration::from_secs(10 * round)).unwrap()).unwrap();
        ledger.stored();
    }
    let stored: BTreeMap<Key, u64> = usage(url)
        .into_iter()
        .map(|Usage { slot, gateway, user, direction, class, bytes }| {
            assert_eq!(gateway, "attic");
            (Key { slot, user, direction, class }, bytes)
        })
        .collect();
    assert_eq!(stored, expected);
    let (from, to) = (slot(600), slot(1500));
    let totals: BTreeMap<String, [u64; 2]> = store.totals(from, to).unwrap().into_iter().collect();
    let mut sums = BTreeMap::<String, [u64; 2]>::new();
    for (key, bytes) in expected.iter().filter(|(key, _)| (from..to).contains(&key.slot)) {
        sums.entry(key.user.clone()).or_default()[key.direction as usize] += bytes;
    }
    assert_eq!(totals, sums);
    assert_eq!(store.newest().unwrap(), Some(expected.keys().last().unwrap().slot));
    let seen = store.last_seen().unwrap();
    for (user, at) in &seen {
        let last = expected.keys().rev().find(|key| key.user == *user).unwrap().slot;
        assert_eq!(*at, last.start(), "{user}");
    }
    assert_eq!(seen.len(), 50, "the home is no neighbour");
}

fn a_batch_counts_once(url: &str) {
    let mut ledger = Ledger::new(0, PATIENCE);
    ledger.count(key(0, "ann", Direction::Up), 1000);
    let batch = ledger.batch(Duration::ZERO).unwrap();
    let mut store = Store::open(url, "attic").unwrap();
    for _ in 0..3 {
        // As if the answer was lost each time.
        store.add(&batch).unwrap();
    }
    assert_eq!(total(url), 1000);
    // A later start goes on with the next number.
    let mut later = Store::open(url, "attic").unwrap();
    assert_eq!(later.sequence(), 1);
    let mut ledger = Ledger::new(later.sequence(), PATIENCE);
    ledger.count(key(0, "ann", Direction::Up), 1);
    later.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
    assert_eq!(total(url), 1001);
}

fn one_process_a_gateway(url: &str) {
    let mut first = Store::open(url, "attic").unwrap();
    let mut other = Store::open(url, "cellar").unwrap();
    let _second = Store::open(url, "attic").unwrap();
    let mut ledger = Ledger::new(0, PATIENCE);
    ledger.count(key(0, "ann", Direction::Up), 1000);
    let batch = ledger.batch(Duration::ZERO).unwrap();
    let error = first.add(&batch).unwrap_err();
    assert!(matches!(error, StoreError::Taken(_)), "{error}");
    assert!(error.to_string().contains("`attic`"));
    other.add(&batch).unwrap();
    assert_eq!(total(url), 1000);
    // Books of the process that was shut out say so at once.
    let books = Mutex::new(Books::new(&mut first, moment(0), PATIENCE).unwrap());
    books.lock().unwrap().count(moment(0), "ann", Direction::Up, Class::Background, 1);
    write(&books, &mut first, moment(0), false);
    let state = books.lock().unwrap().ledger().state(Duration::ZERO);
    assert!(matches!(state, State::Stopped { unwritten_bytes: 1, .. }), "{state}");
}

fn several_gateways_at_a_time(url: &str) {
    std::thread::scope(|scope| {
        for gateway in 0..4 {
            scope.spawn(move || {
                let mut store = Store::open(url, &format!("gateway {gateway}")).unwrap();
                let mut ledger = Ledger::new(0, PATIENCE);
                for round in 0..10 {
                    for user in 0..40 {
                        ledger.count(key(0, &format!("user {user}"), Direction::Down), 100 + gateway);
                    }
                    let batch = ledger.batch(Duration::from_secs(10 * round)).unwrap();
                    // SQLite lets one write at a time.
                    while let Err(error) = store.add(&batch) {
                        assert!(error.to_string().contains("locked"), "{error}");
                    }
                    ledger.stored();
                }
            });
        }
    });
    assert_eq!(total(url), (0..4).map(|gateway| 10 * 40 * (100 + gateway)).sum::<u64>());
}

fn killed_at_any_moment(url: &str) {
    let mut before = 0;
    for lines in [1, 5, 37, 90, 200, 411] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Some(lines);
        let (mut counted, mut stored) = (vec![0], 0);
        let mut seen = 0;
        for line in output.lines() {
            // The last line may have been cut.
            let line = line.unwrap();
            let Some((what, number)) = line.split_once(' ') else { continue };
            let Some(number) = number.strip_suffix('.').and_then(|number| number.parse::<u64>().ok()) else {
                continue;
            };
            match what {
                "counted" => counted.push(number),
                "stored" => stored = number,
                _ => continue,
            }
            seen += 1;
            if lines.is_some_and(|lines| seen >= lines) {
                lines = None;
                // SIGKILL.
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        let after = total(url) - before;
        before += after;
        assert!(after >= stored, "{after} of {stored} bytes that were stored are there");
        assert!(BTreeSet::from_iter(&counted).contains(&after), "{after} is no sum of whole batches");
        // The child counts once in a second of its clock, and may have been killed before it
        // said so.
        let lost = counted.iter().filter(|&&sum| sum > after).count();
        assert!(lost <= 10, "the last {lost} seconds are lost");
    }
    assert!(before > 0);
}

/// The process that [`killed_at_any_moment`] kills: counts as fast as it can.
#[test]
fn child() {
    let Ok(url) = std::env::var(CHILD) else { return };
    let mut store = Store::open(&url, "attic").unwrap();
    let books = Mutex::new(Books::new(&mut store, moment(0), PATIENCE).unwrap());
    let mut out = std::io::stdout().lock();
    let mut total = 0;
    for second in 0..100_000 {
        for user in 0..20 {
            let user = format!("user {user}");
            books.lock().unwrap().count(
                moment(second),
                &user,
                Direction::Down,
                Class::Background,
                100 + second,
            );
            total += 100 + second;
        }
        writeln!(out, "counted {total}.").unwrap();
        write(&books, &mut store, moment(second), false);
        if books.lock().unwrap().ledger().unwritten_bytes() == 0 {
            writeln!(out, "stored {total}.").unwrap();
        }
    }
}

fn a_clock_that_jumps(url: &str) {
    let mut store = Store::open(url, "attic").unwrap();
    let books = Mutex::new(Books::new(&mut store, moment(0), PATIENCE).unwrap());
    let mut counted = BTreeMap::<i64, u64>::new();
    let hours = |hours| SignedDuration::from_hours(hours);
    for second in 0..6000_u64 {
        let off = match second {
            1000..1300 => hours(24 * 400),
            2000..2500 => hours(-24 * 365 * 50),
            4000.. => hours(-1),
            _ => SignedDuration::ZERO,
        };
        let now = moment(second);
        let at = books.lock().unwrap().count(
            Moment { wall: now.wall + off, ..now },
            "ann",
            Direction::Down,
            Class::Background,
            1000 + second,
        );
        *counted.entry(Slot::of(at).second()).or_default() += 1000 + second;
        write(&books, &mut store, now, false);
        assert!(books.lock().unwrap().ledger().state(now.steady).shares());
    }
    write(&books, &mut store, moment(6000), true);
    let usage = usage(url);
    let stored: BTreeMap<i64, u64> = usage.iter().map(|usage| (usage.slot.second(), usage.bytes)).collect();
    assert_eq!((stored.len(), &stored), (usage.len(), &counted), "each slot once, each byte once");
    // The jumps there and back were never believed; the last one is, after ten minutes.
    let (first, last) = (slot(-3600 + 4600).second(), slot(4600).second());
    assert!(
        counted.keys().all(|second| (first.min(slot(0).second())..=last).contains(second)),
        "{counted:?}"
    );
    assert_eq!(counted.values().sum::<u64>(), (0..6000).map(|second| 1000 + second).sum::<u64>());
}

fn a_year_is_forgotten(url: &str) {
    let mut store = Store::open(url, "attic").unwrap();
    let mut ledger = Ledger::new(0, PATIENCE);
    for day in 0..730 {
        ledger.count(key(86_400 * day, "ann", Direction::Up), 10);
    }
    store.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
    assert_eq!(store.forget(slot(86_400 * 365)).unwrap(), 365);
    assert_eq!(total(url), 3650);
}

fn by_the_real_clocks(url: &str) {
    let accounts = Accounts::open(url, "attic", PATIENCE).unwrap();
    std::thread::scope(|scope| {
        for user in ["ann", "bob", "eve"] {
            let accounts = &accounts;
            scope.spawn(move || {
                for _ in 0..10_000 {
                    accounts.count(user, Direction::Down, Class::Background, 1400);
                }
            });
        }
    });
    assert_eq!((accounts.state(), accounts.jump()), (State::Current, None));
    drop(accounts);
    assert_eq!(total(url), 3 * 10_000 * 1400);
}

fn exports(url: &str) {
    let mut store = Store::open(url, "attic, left").unwrap();
    let mut ledger = Ledger::new(0, PATIENCE);
    for day in [0, 1, 5] {
        for user in ["", "ann", "bob \"b\""] {
            ledger.count(key(86_400 * day, user, Direction::Down), 100 + day as u64);
        }
    }
    store.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
    let (from, to) = (slot(0), slot(86_400 * 5));
    let mut text = Vec::new();
    assert_eq!(export::csv(&mut store, from, to, &mut text).unwrap(), 6);
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time,gateway,user,direction,class,bytes");
    assert_eq!(lines[1], "2026-11-18T11:05:00Z,\"attic, left\",,down,home,100");
    assert_eq!(lines[6], "2026-11-19T11:05:00Z,\"attic, left\",\"bob \"\"b\"\"\",down,neighbours,101");
    let (_, last) = store.range().unwrap().unwrap();
    let mut none = Vec::new();
    assert_eq!(export::csv(&mut store, last.next(), to, &mut none).unwrap(), 0);
    let mut parquet = Vec::new();
    assert_eq!(export::parquet(&mut store, from, to, &mut parquet).unwrap(), 6);
    assert_eq!(csv_of(parquet), text);
    let mut none = Vec::new();
    assert_eq!(export::parquet(&mut store, last.next(), to, &mut none).unwrap(), 0);
    assert_eq!(csv_of(none), text.lines().next().unwrap().to_owned() + "\n");
}

/// The CSV that has the rows of a Parquet file.
fn csv_of(file: Vec<u8>) -> String {
    let mut text = String::new();
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    text += &(names.join(",") + "\n");
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let fields = row.get_column_iter().map(|(_, field)| match field {
            Field::TimestampMillis(at) => Timestamp::from_millisecond(*at).unwrap().to_string(),
            Field::Long(bytes) => bytes.to_string(),
            Field::Str(text) if text.contains([',', '"']) => format!("\"{}\"", text.replace('"', "\"\"")),
            Field::Str(text) => text.clone(),
            other => panic!("{other:?}"),
        });
        text += &(fields.collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// A ledger of more rows than a group of Parquet has.
#[test]
fn a_year_of_a_hundred_users_is_the_same_in_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path().join("year").to_str().unwrap(), "attic").unwrap();
    let mut ledger = Ledger::new(0, PATIENCE);
    for hour in 0..8760_i64 / 6 {
        for user in 0..100 {
            let bytes = (hour as u64 * 7919 + user * 104_729) % 1_000_000_007 + 1;
            ledger.count(key(6 * 3600 * hour, &format!("user {user}"), Direction::Down), bytes);
        }
    }
    store.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
    let (from, to) = (slot(0), slot(366 * 86_400));
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    assert_eq!(export::csv(&mut store, from, to, &mut csv).unwrap(), 146_000);
    assert_eq!(export::parquet(&mut store, from, to, &mut parquet).unwrap(), 146_000);
    eprintln!("{} bytes of CSV, {} of Parquet", csv.len(), parquet.len());
    assert!(parquet.len() * 4 < csv.len(), "{} of {}", parquet.len(), csv.len());
    assert!(csv_of(parquet) == String::from_utf8(csv).unwrap(), "the same to the byte");
}

fn vouchers(url: &str) {
    let mut store = Store::reading(url).unwrap();
    let (start, day) = (moment(0).wall, SignedDuration::from_hours(24));
    let terms = |days, bytes| Terms { days, bytes, valid_until: None };
    for nothing in [terms(None, None), terms(Some(0), None), terms(None, Some(0)), terms(Some(1), Some(0))] {
        assert!(store.make_vouchers(start, &nothing, 1).is_err(), "{nothing:?}");
    }
    for bytes in [1_000_000_000_000_001, u64::MAX] {
        let endless = terms(None, Some(bytes));
        for refused in [
            store.make_vouchers(start, &endless, 1),
            store.invite(start, "ann", &endless).map(|code| vec![code]),
        ] {
            assert!(refused.unwrap_err().to_string().contains("at most a petabyte"));
        }
    }
    assert!(store.make_vouchers(start, &terms(Some(1), None), 1001).is_err());
    let codes = store.make_vouchers(start, &terms(Some(7), Some(5_000_000_000)), 20).unwrap();
    assert_eq!(BTreeSet::from_iter(codes.iter().map(|code| &code.text)).len(), 20);
    let text = |n: usize| codes[n].text.as_str();
    // Looking begins nothing, the first use does, and every later one finds the same.
    assert_eq!(store.look_at(text(0)).unwrap().redeemed, None);
    // Typed as people do.
    let typed = text(0).to_lowercase().replace('-', " ");
    let voucher = store.redeem(start + day, &typed).unwrap();
    assert_eq!((voucher.terms.bytes, voucher.ends()), (Some(5_000_000_000), Some(start + day * 8)));
    assert_eq!(
        (voucher.holder(), &voucher.holder()),
        (format!("voucher-{}", &text(0)[..4]), &codes[0].holder)
    );
    assert_eq!(store.redeem(start + day * 20, text(0)).unwrap(), voucher);
    let almost =
        format!("{}{}", &text(1)[..text(1).len() - 1], if text(1).ends_with('A') { 'C' } else { 'A' });
    for code in ["", "AAAA", &almost, &text(1)[..10], &format!("{}A", text(1)), "' OR 1=1 --", &text(1)[5..]]
    {
        assert_eq!(wrong(store.redeem(start, code)), VoucherError::Unknown, "{code}");
        assert_eq!(wrong(store.look_at(code)), VoucherError::Unknown, "{code}");
    }
    assert_eq!(store.revoke_vouchers(start, &text(2)[..4]).unwrap(), 1);
    assert_eq!(store.revoke_vouchers(start, &text(2)[..4]).unwrap(), 0);
    assert_eq!(store.revoke_vouchers(start, "").unwrap(), 0);
    assert_eq!(wrong(store.redeem(start, text(2))), VoucherError::Revoked);
    // One that is in use ends with its revocation.
    store.redeem(start + day, text(3)).unwrap();
    assert_eq!(store.revoke_vouchers(start + day * 2, &codes[3].holder).unwrap(), 1);
    let revoked = store.voucher(&text(3)[..4]).unwrap().unwrap();
    assert_eq!(revoked.period().map(|period| period.end), Some(start + day * 2));
    let until = start + day * 30;
    let short = Terms { valid_until: Some(until), ..terms(None, Some(1)) };
    let code = &store.make_vouchers(start, &short, 1).unwrap()[0];
    assert_eq!(wrong(store.redeem(until, &code.text)), VoucherError::Void(until));
    let all = Store::reading(url).unwrap().vouchers().unwrap();
    let count = |word| all.iter().filter(|(voucher, _)| voucher.standing(start + day * 40) == word).count();
    assert_eq!(["over", "revoked", "void", "new", "redeemed"].map(count), [1, 2, 1, 17, 0]);
    // The store has no code.
    for code in &codes {
        let secret = code.text[5..].replace('-', "");
        assert!(!format!("{all:?}").contains(&secret));
    }
}

fn wrong(result: Result<Voucher, StoreError>) -> VoucherError {
    match result {
        Err(StoreError::Voucher(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn invitations(url: &str) {
    let mut store = Store::reading(url).unwrap();
    let (start, day) = (moment(0).wall, SignedDuration::from_hours(24));
    let endless = Terms { days: None, bytes: None, valid_until: None };
    for name in [
        "",
        "nna\u{202e}",
        "a b",
        "a:b",
        "#a",
        "(forgotten)",
        "10.0.0.1",
        "fe80::/64",
        "voucher-AC3D",
        "ac3defhjkmprtwxy",
    ] {
        let error = store.invite(start, name, &endless).unwrap_err();
        assert!(error.to_string().contains("cannot be invited"), "{name}: {error}");
    }
    assert!(store.invite(start, "ann", &Terms { days: Some(0), ..endless.clone() }).is_err());
    let code = store.invite(start, "ann", &endless).unwrap();
    assert_eq!(code.holder, "ann");
    assert!(store.invite(start, "ann", &endless).unwrap_err().to_string().contains("invited already"));
    let voucher = store.redeem(start + day, &code.text).unwrap();
    assert_eq!((voucher.holder(), voucher.ends()), ("ann".to_owned(), None));
    assert_eq!(voucher.standing(start + day * 1000), "redeemed");
    // What counts is what was used since, whatever the gateway.
    for (gateway, at) in [("attic", 0), ("cellar", 200_000)] {
        let mut writer = Store::open(url, gateway).unwrap();
        let rows = BTreeMap::from([(key(at, "ann", Direction::Up), 7), (key(at, "bob", Direction::Up), 1)]);
        writer.add(&leeway_accounts::ledger::Batch { sequence: 1, rows }).unwrap();
    }
    assert_eq!(store.used_of(&voucher).unwrap(), 7);
    assert_eq!(store.revoke_vouchers(start + day * 2, "ann").unwrap(), 1);
    let again = store.invite(start + day * 2, "ann", &endless).unwrap();
    assert_ne!(again.text, code.text);
    assert_eq!(wrong(store.redeem(start + day * 2, &code.text)), VoucherError::Revoked);
    assert_eq!(store.redeem(start + day * 2, &again.text).unwrap().holder(), "ann");
}

/// Whichever gateway asks first decides when a voucher's days begin; all others are told the same.
fn a_voucher_begins_once(url: &str) {
    let terms = Terms { days: Some(1), bytes: None, valid_until: None };
    let codes = Store::reading(url).unwrap().make_vouchers(moment(0).wall, &terms, 10).unwrap();
    let begun: Vec<Vec<Voucher>> = std::thread::scope(|scope| {
        let codes = &codes;
        let redeem = move |second: u64| {
            let mut store = Store::reading(url).unwrap();
            let mut once = |code: &str| loop {
                match store.redeem(moment(second).wall, code) {
                    Ok(voucher) => return voucher,
                    Err(error) => assert!(error.to_string().contains("locked"), "{error}"),
                }
            };
            codes.iter().map(|code| once(&code.text)).collect()
        };
        let threads: Vec<_> = (1..5).map(|second| scope.spawn(move || redeem(second))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(begun.iter().all(|vouchers| *vouchers == begun[0]), "{begun:?}");
}

fn the_server_dies_under_load(server: &mut Server) {
    let url = server.database("dies");
    let mut store = Store::open(&url, "attic").unwrap();
    let books = Mutex::new(Books::new(&mut store, moment(0), PATIENCE).unwrap());
    let mut total_bytes = 0;
    let mut states = Vec::new();
    for second in 0..600 {
        match second {
            105 | 305 => server.crash(),
            201 | 401 => server.restart(),
            _ => {}
        }
        books.lock().unwrap().count(moment(second), "ann", Direction::Up, Class::Background, 100 + second);
        total_bytes += 100 + second;
        write(&books, &mut store, moment(second), false);
        let state = books.lock().unwrap().ledger().state(moment(second).steady);
        assert!(state.shares());
        states.push(state);
    }
    write(&books, &mut store, moment(600), true);
    write(&books, &mut store, moment(600), true);
    assert_eq!(total(&url), total_bytes);
    let behind = states.iter().filter(|state| matches!(state, State::Behind { .. })).count();
    let write = |second: usize| second.next_multiple_of(PERIOD.as_secs() as usize);
    let outages = (write(201) - write(105)) + (write(401) - write(305));
    assert_eq!(behind, outages, "from the first refusal to the first write after the restart");
    assert_eq!(states.last(), Some(&State::Current));
}
