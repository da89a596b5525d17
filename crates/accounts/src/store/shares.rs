//! Divides volumes of users among the gateways of a store.

use super::{Store, StoreError};
use crate::caps::{Share, Want};
use jiff::Timestamp;

/// Definition of the table of shares.
pub(super) const TABLE: &str = "shares (username TEXT NOT NULL, cap TEXT NOT NULL, start BIGINT NOT NULL, \
     gateway TEXT NOT NULL, until BIGINT NOT NULL, bytes BIGINT NOT NULL, \
     PRIMARY KEY (username, cap, start, gateway))";

impl Store {
    /// Whether gateways of several machines can use this store.
    pub fn is_server(&self) -> bool {
        matches!(self.place, super::Place::Server(_))
    }

    /// Gives a gateway the share of a user's volume that it wants, as far as the volume is free.
    /// Returns that share and the sum of the other gateways' shares. All shares together never
    /// exceed the volume, except for bytes that were used already. Repeating a call changes
    /// nothing.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn take_share(&mut self, gateway: &str, want: &Want) -> Result<Share, StoreError> {
        let volume = [want.user.as_str().into(), want.cap.into(), want.start.as_second().into()];
        let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.transaction(|db| {
            if let super::Db::Postgres(_) = db {
                // One gateway after the other. SQLite allows only one writer anyway.
                let lock = number_of(&want.user);
                db.query("SELECT 'x' FROM pg_advisory_xact_lock($1)", &[lock.into()])?;
            }
            let [user, cap, start] = volume.clone();
            let rows = db.query(
                "SELECT CAST(SUM(bytes) AS BIGINT) FROM shares \
                 WHERE username = $1 AND cap = $2 AND start = $3 AND gateway <> $4",
                &[user, cap, start, gateway.into()],
            )?;
            let others = rows.first().and_then(|row| row[0].some_int()).unwrap_or(0);
            let others = u64::try_from(others).unwrap_or(0);
            let free = want.limit.saturating_sub(others);
            let own = want.used.max(free.min(want.used.saturating_add(want.wish)));
            let [user, cap, start] = volume.clone();
            db.execute(
                "INSERT INTO shares (username, cap, start, gateway, until, bytes) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (username, cap, start, gateway) DO UPDATE SET bytes = excluded.bytes",
                &[user, cap, start, gateway.into(), want.end.as_second().into(), number(own).into()],
            )?;
            Ok(Share { own, others })
        })
    }

    /// Deletes the shares of periods that ended before `before`. Returns the number of rows.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn forget_shares(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        self.transaction(|db| db.execute("DELETE FROM shares WHERE until < $1", &[before.as_second().into()]))
    }
}

/// The number of a user's lock (FNV-1a). Two users with the same number wait for each other, which
/// harms nothing.
fn number_of(user: &str) -> i64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    user.bytes().fold(0xcbf2_9ce4_8422_2325, step) as i64
}
