//! Limits of neighbours that the owner changes while the gateway runs.

use super::{OperationError, Operations};
use crate::notes::{Note, Value};
use crate::refusals as phrase;
use crate::users::address_name;
use leeway_accounts::limits::{Limit, Whose};
use leeway_units::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;
use utoipa::ToSchema;

/// Least rate of a limit, in bit/s.
const LEAST_BPS: u64 = 1000;

/// The body of a request to `/v1/limits`. Without `user` and `all`, the limit is for each
/// neighbour without a limit of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// A neighbour's name or address.
    #[serde(default)]
    pub user: Option<String>,
    /// Whether the limit is for all neighbours together.
    #[serde(default)]
    pub all: bool,
    /// Bytes of a day, both directions together; none: no limit.
    #[serde(default)]
    pub daily_bytes: Option<u64>,
    /// Rate in each direction, in bit/s; none: no limit.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Whether to give the limit of the configuration back.
    #[serde(default)]
    pub undo: bool,
}

/// A limit that counts now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitStatus {
    /// A neighbour with a limit of its own; none for all neighbours, or for each.
    pub user: Option<String>,
    /// Whether it is the limit of all neighbours together.
    pub all: bool,
    /// Bytes of a day, both directions together; none: no limit.
    pub daily_bytes: Option<u64>,
    /// Rate in each direction, in bit/s; none: no limit.
    pub rate_bps: Option<u64>,
    /// Whether the owner has set it while the gateway ran. Otherwise it is in the configuration.
    pub set: bool,
}

impl Operations {
    /// The limits that count now: of all neighbours, of each, and of those with their own.
    ///
    /// # Errors
    /// The gateway keeps no accounts.
    pub fn limits(&self) -> Result<Vec<LimitStatus>, OperationError> {
        let meter = self.accountant()?;
        let set: BTreeSet<Whose> = meter.limits().into_iter().map(|(whose, _)| whose).collect();
        let configured = meter.configured_users().into_iter().map(Whose::User);
        let own: BTreeSet<Whose> = configured.chain(set.iter().cloned()).collect();
        let everybody = BTreeSet::from([Whose::All, Whose::Each]);
        let status = |whose: &Whose| LimitStatus::of(whose, meter.limit(whose), set.contains(whose));
        Ok(everybody.iter().chain(own.difference(&everybody)).map(status).collect())
    }

    /// Sets a limit, or gives that of the configuration back. It holds at once, and for a user at
    /// all gateways of the store. Returns the limit that counts now.
    ///
    /// # Errors
    /// There is no such user, the limit is not allowed, or the store fails.
    pub fn limit(&self, request: &LimitRequest) -> Result<LimitStatus, OperationError> {
        let meter = self.accountant()?;
        let whose = self.whose(request)?;
        let limit = limit_of(request)?;
        meter.set_limit(&whose, Some(&limit).filter(|_| !request.undo))?;
        Ok(LimitStatus::of(&whose, meter.limit(&whose), !request.undo))
    }

    fn whose(&self, request: &LimitRequest) -> Result<Whose, OperationError> {
        match &request.user {
            Some(_) if request.all => Err(OperationError::Wrong(Note::new(&phrase::ONE_OR_ALL, []))),
            None if request.all => Ok(Whose::All),
            None => Ok(Whose::Each),
            Some(given) => {
                let address = given.strip_suffix("/64").unwrap_or(given).parse::<IpAddr>().ok();
                let name = address.map_or_else(|| given.clone(), address_name);
                // A limit can be taken back, even if its user is gone.
                let whose = Whose::User(name.clone());
                if (request.undo && self.limits()?.iter().any(|limit| limit.user.as_ref() == Some(&name)))
                    || self.knows(&name, address)?
                {
                    return Ok(whose);
                }
                Err(OperationError::Wrong(Note::new(&phrase::NOBODY, [Value::same(format!("{name:?}"))])))
            }
        }
    }
}

/// The limit of a request.
fn limit_of(request: &LimitRequest) -> Result<Limit, OperationError> {
    let LimitRequest { daily_bytes, rate_bps, .. } = *request;
    if daily_bytes == Some(0) {
        return Err(OperationError::Wrong(Note::new(&phrase::LIMIT_ZERO, [])));
    }
    if let Some(rate) = rate_bps.filter(|&rate| rate < LEAST_BPS) {
        return Err(OperationError::Wrong(Note::new(&phrase::LIMIT_RATE, [Value::same(rate)])));
    }
    Ok(Limit { daily: daily_bytes.map(Bytes::new), rate: rate_bps.map(Rate::from_bits_per_sec) })
}

impl LimitStatus {
    fn of(whose: &Whose, limit: Limit, set: bool) -> LimitStatus {
        let user = if let Whose::User(name) = whose { Some(name.clone()) } else { None };
        LimitStatus {
            user,
            all: *whose == Whose::All,
            daily_bytes: limit.daily.map(Bytes::get),
            rate_bps: limit.rate.map(Rate::bits_per_sec),
            set,
        }
    }
}
