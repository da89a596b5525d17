//! Limits that the owner sets while the gateway runs. They are kept in the store, and replace
//! those of the configuration.

use crate::caps::{CapsConfig, LimitConfig};
use crate::store::{Store, StoreError, Value};
use leeway_units::{Bytes, Rate};

/// Definition of the table of limits. Limits of users hold at all gateways of the store; their
/// `gateway` is empty.
pub(crate) const TABLE: &str = "limits (gateway TEXT NOT NULL, whose TEXT NOT NULL, username TEXT NOT NULL, \
     daily BIGINT, rate BIGINT, PRIMARY KEY (gateway, whose, username))";

/// Whose limit it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// All neighbours of a gateway together: `[caps.all]`.
    All,
    /// Each neighbour without a limit of its own: `[caps.user]`.
    Each,
    /// One neighbour: `[caps.users.NAME]`.
    User(String),
}

/// A limit. What is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Bytes from midnight to midnight, both directions together.
    pub daily: Option<Bytes>,
    /// Rate in each direction.
    pub rate: Option<Rate>,
}

impl Whose {
    fn columns(&self) -> (&'static str, &str) {
        match self {
            Whose::All => ("all", ""),
            Whose::Each => ("each", ""),
            Whose::User(name) => ("user", name),
        }
    }

    /// The name of the gateway in the table.
    fn at<'a>(&self, gateway: &'a str) -> &'a str {
        if *self == Whose::All { gateway } else { "" }
    }
}

impl CapsConfig {
    /// The limit of the configuration, or the one that counts for a neighbour without an entry.
    pub fn limit(&self, whose: &Whose) -> Limit {
        let LimitConfig { daily, rate, .. } = *match whose {
            Whose::All => &self.all,
            Whose::Each => &self.user,
            Whose::User(name) => self.users.get(name).unwrap_or(&self.user),
        };
        Limit { daily, rate }
    }

    /// The configuration with other limits. The part of a volume after which neighbours are slowed
    /// stays as it was.
    pub fn with(&self, limits: &[(Whose, Limit)]) -> CapsConfig {
        let mut caps = self.clone();
        for (whose, Limit { daily, rate }) in limits.iter().cloned() {
            let entry = match whose {
                Whose::All => &mut caps.all,
                Whose::Each => &mut caps.user,
                Whose::User(name) => {
                    let each = self.user.clone();
                    caps.users.entry(name).or_insert(each)
                }
            };
            *entry = LimitConfig { daily, rate, slow_at: entry.slow_at };
        }
        caps
    }
}

impl Store {
    /// The limits that were set for `gateway`, and for users at all gateways.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn limits(&mut self, gateway: &str) -> Result<Vec<(Whose, Limit)>, StoreError> {
        let rows = self.query(
            "SELECT whose, username, daily, rate FROM limits WHERE gateway = $1 OR gateway = '' \
             ORDER BY whose, username",
            &[gateway.into()],
        )?;
        let number = |value: &Value| value.some_int().and_then(|number| u64::try_from(number).ok());
        let limit = |row: Vec<Value>| {
            let whose = match row[0].text() {
                "all" => Whose::All,
                "each" => Whose::Each,
                _ => Whose::User(row[1].text().to_owned()),
            };
            let (daily, rate) =
                (number(&row[2]).map(Bytes::new), number(&row[3]).map(Rate::from_bits_per_sec));
            (whose, Limit { daily, rate })
        };
        Ok(rows.into_iter().map(limit).collect())
    }

    /// Sets a limit; `None` gives the configuration's back.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn set_limit(
        &mut self,
        gateway: &str,
        whose: &Whose,
        limit: Option<&Limit>,
    ) -> Result<(), StoreError> {
        let (kind, name) = whose.columns();
        let row = || [whose.at(gateway).into(), kind.into(), name.into()];
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.transaction(|db| {
            db.execute("DELETE FROM limits WHERE gateway = $1 AND whose = $2 AND username = $3", &row())?;
            if let Some(Limit { daily, rate }) = limit {
                let [gateway, kind, name] = row();
                let daily = daily.map(|daily| number(daily.get())).into();
                let rate = rate.map(|rate| number(rate.bits_per_sec())).into();
                db.execute(
                    "INSERT INTO limits (gateway, whose, username, daily, rate) VALUES ($1, $2, $3, $4, $5)",
                    &[gateway, kind, name, daily, rate],
                )?;
            }
            Ok(())
        })
    }
}
