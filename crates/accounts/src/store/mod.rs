//! The store of the ledger: an SQLite file, or a PostgreSQL database for several gateways.

mod db;
mod shares;

pub(crate) use db::{Db, Value};

use crate::ledger::{Batch, Class, Direction};
use crate::time::Slot;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Version of the tables.
const VERSION: i64 = 1;

/// Rows of one INSERT. Each row has six parameters. SQLite takes 32,766 parameters, and PostgreSQL
/// 65,535.
const CHUNK: usize = 500;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL is not one of a store.
    #[error("`{0}` is no store: give the path of a file, or postgresql://user@host/database{1}")]
    Url(String, String),
    /// The store cannot be opened.
    #[error("cannot open {0}: {1}")]
    Open(String, String),
    /// The database refuses, or is gone.
    #[error("{0}")]
    Database(String),
    /// The file was removed or replaced, so what is written to the open file would be lost.
    #[error(
        "{0} was removed or replaced while it was in use: put the same file back, or restart the gateway to begin \
         with the file that is there now"
    )]
    Moved(PathBuf),
    /// The file is not one of a database, or parts of it were overwritten.
    #[error(
        "{0} is damaged: put back a copy of it, or move it away and restart the gateway to begin with an empty one"
    )]
    Damaged(PathBuf),
    /// The tables have a version that this program does not know.
    #[error("the tables of {0} are of version {1}, this program knows version {VERSION}: it is too old")]
    Version(String, i64),
    /// Another process has begun to write under the same name.
    #[error(
        "another process counts as gateway `{0}` in this store: give each gateway a name of its own, \
         and stop the other process"
    )]
    Taken(String),
    /// A voucher cannot be made or used.
    #[error(transparent)]
    Voucher(#[from] crate::vouchers::VoucherError),
}

enum Place {
    File(PathBuf),
    Server(Box<postgres::Config>),
}

/// The store of one gateway. After a lost connection, the next call connects again.
pub struct Store {
    url: String,
    place: Place,
    gateway: String,
    db: Option<Db>,
    /// Device and inode of the file.
    file: Option<(u64, u64)>,
    /// Number of this start of the gateway. Only the newest start may write.
    epoch: i64,
    sequence: u64,
    /// Queries and transactions so far.
    requests: u64,
}

/// Bytes of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The five minutes.
    pub slot: Slot,
    /// Name of the gateway.
    pub gateway: String,
    /// Name of the user; empty for the home.
    pub user: String,
    /// Direction.
    pub direction: Direction,
    /// Home or neighbours.
    pub class: Class,
    /// Number of bytes.
    pub bytes: u64,
}

impl Store {
    /// Opens the store at `url`, a file's path or `postgresql://...`, to write as `gateway`.
    /// Another process that writes under this name can no longer write.
    ///
    /// # Errors
    /// There is no such file or server, or its tables are of another version.
    pub fn open(url: &str, gateway: &str) -> Result<Store, StoreError> {
        let mut store = Store::reading(url)?;
        store.gateway = gateway.to_owned();
        store.enter()?;
        Ok(store)
    }

    /// Opens the store at `url` to read, beside the gateway that writes. Vouchers can be written,
    /// too.
    ///
    /// # Errors
    /// There is no such file or server, or its tables are of another version.
    pub fn reading(url: &str) -> Result<Store, StoreError> {
        let server = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        let place = if server {
            let config = url.parse::<postgres::Config>().map_err(|error| {
                StoreError::Url(redacted(url), format!(" ({})", db::postgres_words(&error)))
            })?;
            Place::Server(Box::new(config))
        } else if url.is_empty() || (url.contains("://") && !url.starts_with("sqlite://")) {
            return Err(StoreError::Url(redacted(url), String::new()));
        } else {
            Place::File(url.strip_prefix("sqlite://").unwrap_or(url).into())
        };
        let gateway = String::new();
        let mut store = Store {
            url: redacted(url),
            place,
            gateway,
            db: None,
            file: None,
            epoch: 0,
            sequence: 0,
            requests: 0,
        };
        store.define()?;
        Ok(store)
    }

    /// The number of the last stored batch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Adds a batch. A batch that was added before is not added again.
    ///
    /// # Errors
    /// The database refuses or is gone. The same batch may be given again.
    pub fn add(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (gateway, epoch) = (self.gateway.clone(), self.epoch);
        let sequence = batch.sequence as i64;
        self.transaction(|db| {
            let entered = db.execute(
                "UPDATE writers SET sequence = $1 WHERE gateway = $2 AND epoch = $3 AND sequence < $1",
                &[sequence.into(), gateway.as_str().into(), epoch.into()],
            )?;
            if entered == 0 {
                return match writer(db, &gateway)? {
                    // The batch was stored before, and the answer was lost.
                    Some((of, stored)) if of == epoch && stored >= sequence => Ok(()),
                    _ => Err(StoreError::Taken(gateway.clone())),
                };
            }
            let rows: Vec<_> = batch.rows.iter().collect();
            for chunk in rows.chunks(CHUNK) {
                let mut values = Vec::with_capacity(6 * chunk.len());
                for (key, bytes) in chunk {
                    values.extend([
                        key.slot.second().into(),
                        gateway.as_str().into(),
                        key.user.as_str().into(),
                        key.direction.name().into(),
                        key.class.name().into(),
                        i64::try_from(**bytes).unwrap_or(i64::MAX).into(),
                    ]);
                }
                db.execute(&insert(chunk.len()), &values)?;
            }
            // By name, so that two gateways take the locks of rows in one order.
            let neighbours = batch.rows.keys().filter(|key| key.class == Class::Background);
            let seen: BTreeMap<&str, Slot> = neighbours.map(|key| (key.user.as_str(), key.slot)).collect();
            for (user, slot) in seen {
                db.execute(SEE, &[user.into(), slot.second().into()])?;
            }
            Ok(())
        })?;
        self.sequence = self.sequence.max(batch.sequence);
        Ok(())
    }

    /// The newest slot of all gateways.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn newest(&mut self) -> Result<Option<Slot>, StoreError> {
        let rows = self.query("SELECT MAX(slot) FROM usage", &[])?;
        Ok(rows.first().and_then(|row| row[0].some_int()).map(slot))
    }

    /// What was used from slot `from` until before `to`, ordered by slot, gateway, user, direction
    /// and class.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn usage(&mut self, from: Slot, to: Slot) -> Result<Vec<Usage>, StoreError> {
        let rows = self.query(
            "SELECT slot, gateway, username, direction, class, bytes FROM usage \
             WHERE slot >= $1 AND slot < $2 ORDER BY slot, gateway, username, direction, class",
            &[from.second().into(), to.second().into()],
        )?;
        Ok(rows.into_iter().map(usage).collect())
    }

    /// The home's bytes at one gateway from slot `from` until before `to`, by slot.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn usage_of_home(&mut self, gateway: &str, from: Slot, to: Slot) -> Result<Vec<Usage>, StoreError> {
        let rows = self.query(
            "SELECT slot, gateway, username, direction, class, bytes FROM usage \
             WHERE slot >= $1 AND slot < $2 AND gateway = $3 AND class = 'home'",
            &[from.second().into(), to.second().into(), gateway.into()],
        )?;
        Ok(rows.into_iter().map(usage).collect())
    }

    /// The bytes of each neighbour at one gateway from slot `from` until before `to`, as one sum
    /// for each direction. A month of a busy gateway has too many rows to read them all.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn usage_of_neighbours(
        &mut self,
        gateway: &str,
        from: Slot,
        to: Slot,
    ) -> Result<Vec<Usage>, StoreError> {
        let rows = self.query(
            "SELECT CAST($1 AS BIGINT), gateway, username, direction, class, CAST(SUM(bytes) AS BIGINT) \
             FROM usage WHERE slot >= $1 AND slot < $2 AND gateway = $3 AND class = 'neighbours' \
             GROUP BY gateway, username, direction, class",
            &[from.second().into(), to.second().into(), gateway.into()],
        )?;
        Ok(rows.into_iter().map(usage).collect())
    }

    /// Bytes of each user, down and up, from slot `from` until before `to`. The home has the empty
    /// name.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn totals(&mut self, from: Slot, to: Slot) -> Result<Vec<(String, [u64; 2])>, StoreError> {
        let rows = self.query(
            "SELECT username, \
             CAST(SUM(CASE WHEN direction = 'down' THEN bytes ELSE 0 END) AS BIGINT), \
             CAST(SUM(CASE WHEN direction = 'up' THEN bytes ELSE 0 END) AS BIGINT) \
             FROM usage WHERE slot >= $1 AND slot < $2 GROUP BY username ORDER BY username",
            &[from.second().into(), to.second().into()],
        )?;
        let bytes = |value: &Value| u64::try_from(value.int()).unwrap_or(0);
        Ok(rows.iter().map(|row| (row[0].text().to_owned(), [bytes(&row[1]), bytes(&row[2])])).collect())
    }

    /// The start of the last slot in which each neighbour has used something. The slot may not be
    /// over yet.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn last_seen(&mut self) -> Result<BTreeMap<String, Timestamp>, StoreError> {
        let rows = self.query("SELECT username, slot FROM seen", &[])?;
        Ok(rows.iter().map(|row| (row[0].text().to_owned(), slot(row[1].int()).start())).collect())
    }

    /// The first and the last slot.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn range(&mut self) -> Result<Option<(Slot, Slot)>, StoreError> {
        let rows = self.query("SELECT MIN(slot), MAX(slot) FROM usage", &[])?;
        let range = rows.first().and_then(|row| row[0].some_int().zip(row[1].some_int()));
        Ok(range.map(|(first, last)| (slot(first), slot(last))))
    }

    /// Deletes what is older than `before`. Returns the number of rows.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn forget(&mut self, before: Slot) -> Result<u64, StoreError> {
        self.transaction(|db| db.execute("DELETE FROM usage WHERE slot < $1", &[before.second().into()]))
    }

    /// Does all of `work`, or nothing of it.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Db) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.requests += 1;
        let done = self.db()?.transaction(work);
        self.keep(done)
    }

    /// All rows of a query.
    pub(crate) fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, StoreError> {
        self.requests += 1;
        let done = self.db()?.query(sql, values);
        self.keep(done)
    }

    /// The connection; a new one if it was lost.
    fn db(&mut self) -> Result<&mut Db, StoreError> {
        if let (Place::File(path), Some(_)) = (&self.place, self.file)
            && self.file != identity(path)
        {
            return Err(StoreError::Moved(path.clone()));
        }
        if self.db.is_none() {
            self.db = Some(match &self.place {
                Place::File(path) => {
                    let db = Db::sqlite(path)?;
                    self.file = identity(path);
                    db
                }
                Place::Server(config) => Db::postgres(config, &self.url)?,
            });
        }
        Ok(self.db.as_mut().expect("it was opened above"))
    }

    /// Closes the connection after a failure, which ends its transaction.
    fn keep<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(StoreError::Database(_) | StoreError::Damaged(_)) = done {
            self.db = None;
        }
        match (done, &self.place) {
            (Err(StoreError::Damaged(_)), Place::File(path)) => Err(StoreError::Damaged(path.clone())),
            (done, _) => done,
        }
    }

    fn define(&mut self) -> Result<(), StoreError> {
        let url = self.url.clone();
        self.transaction(|db| {
            if let Db::Postgres(_) = db {
                // CREATE TABLE IF NOT EXISTS fails if two processes run it at once. The number of
                // the lock is "leeway" in ASCII.
                db.query("SELECT 'x' FROM pg_advisory_xact_lock($1)", &[0x6c65_6577_6179.into()])?;
            }
            let end = db.table_suffix();
            for table in TABLES {
                db.execute(&format!("CREATE TABLE IF NOT EXISTS {table} {end}"), &[])?;
            }
            let insert = "INSERT INTO leeway (name, version) VALUES ('version', $1) ON CONFLICT DO NOTHING";
            db.execute(insert, &[VERSION.into()])?;
            let rows = db.query("SELECT version FROM leeway WHERE name = 'version'", &[])?;
            match rows.first().map_or(0, |row| row[0].int()) {
                VERSION => Ok(()),
                other => Err(StoreError::Version(url, other)),
            }
        })
    }

    fn enter(&mut self) -> Result<(), StoreError> {
        let gateway = self.gateway.clone();
        let (epoch, sequence) = self.transaction(|db| {
            db.execute(
                "INSERT INTO writers (gateway, epoch, sequence) VALUES ($1, 1, 0) \
                 ON CONFLICT (gateway) DO UPDATE SET epoch = writers.epoch + 1",
                &[gateway.as_str().into()],
            )?;
            Ok(writer(db, &gateway)?.unwrap_or((1, 0)))
        })?;
        (self.epoch, self.sequence) = (epoch, sequence as u64);
        Ok(())
    }
}

impl Drop for Store {
    /// Closes the connection in another thread: the client of PostgreSQL has a runtime, which must
    /// not end inside another one.
    fn drop(&mut self) {
        let Some(db @ Db::Postgres(_)) = self.db.take() else { return };
        std::thread::scope(|scope| drop(scope.spawn(move || drop(db)).join()));
    }
}

const TABLES: &[&str] = &[
    "leeway (name TEXT PRIMARY KEY, version BIGINT NOT NULL)",
    "usage (slot BIGINT NOT NULL, gateway TEXT NOT NULL, username TEXT NOT NULL, \
     direction TEXT NOT NULL, class TEXT NOT NULL, bytes BIGINT NOT NULL, \
     PRIMARY KEY (slot, gateway, username, direction, class))",
    "seen (username TEXT PRIMARY KEY, slot BIGINT NOT NULL)",
    "writers (gateway TEXT PRIMARY KEY, epoch BIGINT NOT NULL, sequence BIGINT NOT NULL)",
    "vouchers (selector TEXT PRIMARY KEY, salt TEXT NOT NULL, hash TEXT NOT NULL, \
     days BIGINT, bytes BIGINT, created BIGINT NOT NULL, valid_until BIGINT, \
     username TEXT, redeemed BIGINT, revoked BIGINT)",
    shares::TABLE,
    crate::limits::TABLE,
];

/// Records when a neighbour was seen last. The ledger of years is too long to search for that.
const SEE: &str = "INSERT INTO seen (username, slot) VALUES ($1, $2) ON CONFLICT (username) DO UPDATE \
     SET slot = CASE WHEN excluded.slot > seen.slot THEN excluded.slot ELSE seen.slot END";

/// Device and inode of a file, which tell it from another file of the same name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn writer(db: &mut Db, gateway: &str) -> Result<Option<(i64, i64)>, StoreError> {
    let sql = "SELECT epoch, sequence FROM writers WHERE gateway = $1";
    let rows = db.query(sql, &[gateway.into()])?;
    Ok(rows.first().map(|row| (row[0].int(), row[1].int())))
}

/// The statement that adds `rows` rows to the present counts.
fn insert(rows: usize) -> String {
    let row = |n: usize| {
        let names: Vec<String> = (1..=6).map(|column| format!("${}", 6 * n + column)).collect();
        format!("({})", names.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO usage (slot, gateway, username, direction, class, bytes) VALUES {} \
         ON CONFLICT (slot, gateway, username, direction, class) \
         DO UPDATE SET bytes = usage.bytes + excluded.bytes",
        rows.join(", ")
    )
}

/// A row with slot, gateway, user, direction, class and bytes.
fn usage(row: Vec<Value>) -> Usage {
    Usage {
        slot: slot(row[0].int()),
        gateway: row[1].text().to_owned(),
        user: row[2].text().to_owned(),
        direction: if row[3].text() == "up" { Direction::Up } else { Direction::Down },
        class: if row[4].text() == "home" { Class::Foreground } else { Class::Background },
        bytes: u64::try_from(row[5].int()).unwrap_or(0),
    }
}

fn slot(second: i64) -> Slot {
    Slot::of(Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// A URL without its password and parameters, for messages.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((user, host)) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Class, Direction, Key, Ledger};
    use crate::vouchers::Terms;
    use std::time::Duration;

    /// A server may be far away, so a list is one query.
    #[test]
    fn a_list_is_one_request_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("accounts.db").display().to_string();
        let mut store = Store::open(&url, "attic").unwrap();
        let start = Timestamp::from_second(1_795_000_000).unwrap();
        let terms = Terms { days: Some(3), bytes: Some(1 << 30), valid_until: None };
        let codes = store.make_vouchers(start, &terms, 50).unwrap();
        let mut ledger = Ledger::new(0, Duration::from_secs(3600));
        for code in &codes {
            store.redeem(start, &code.text).unwrap();
            let (slot, user) = (Slot::of(start), code.holder.clone());
            ledger.count(Key { slot, user, direction: Direction::Down, class: Class::Background }, 1000);
        }
        store.add(&ledger.batch(Duration::ZERO).unwrap()).unwrap();
        let before = store.requests;
        let list = store.vouchers().unwrap();
        assert!(list.len() == 50 && list.iter().all(|(_, used)| *used == 1000), "{list:?}");
        assert_eq!(store.requests, before + 1);
        assert_eq!(store.last_seen().unwrap().len(), 50);
        assert_eq!(store.requests, before + 2);
    }

    #[test]
    fn a_password_is_in_no_message() {
        for (url, shown) in [
            ("postgresql://ann:p@ss@db/leeway", "postgresql://ann@db/leeway"),
            ("postgresql://ann:p/a@db/leeway?password=x", "postgresql://ann@db/leeway"),
            ("postgres://db:5432/x", "postgres://db:5432/x"),
            ("/var/lib/leeway/accounts.db", "/var/lib/leeway/accounts.db"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }
}
