//! The users of the line: vouchers, invitations, and everybody who has used it.

use super::{OperationError, Operations, UserStatus, Volume};
use crate::gateway::Kind;
use crate::metering::Meter;
use crate::notes::{Note, Value};
use crate::policy::Policy;
use crate::refusals as phrase;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::vouchers::{Code, Terms, Voucher};
use leeway_net::Surroundings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use utoipa::ToSchema;

/// The body of a request to `/v1/vouchers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoucherRequest {
    /// Days from the first use.
    #[serde(default)]
    pub days: Option<u32>,
    /// Data in bytes, both directions together.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Number of vouchers.
    pub count: usize,
    /// Days until which the first use has to happen.
    #[serde(default)]
    pub valid_days: Option<u32>,
}

/// The body of a request to `/v1/invitations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// Name of the invited person.
    pub name: String,
    /// Days from the first use; none: until it is revoked.
    #[serde(default)]
    pub days: Option<u32>,
    /// Data in bytes, both directions together; none: as much as the caps allow.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// New codes, which cannot be shown again, and what their holders need to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// The codes, each with its holder.
    pub codes: Vec<IssuedCode>,
    /// Days from the first use.
    pub days: Option<u32>,
    /// Data in bytes, both directions together.
    pub bytes: Option<u64>,
    /// When a code that was not used expires.
    pub valid_until: Option<Timestamp>,
    /// Addresses of the proxies.
    pub entrance: Entrance,
}

/// A code. It is shown once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IssuedCode {
    /// The code: four groups of four characters.
    pub code: String,
    /// User name of the holder at this gateway.
    pub holder: String,
    /// Address of the holder's page: what is left, and how to use the line.
    pub link: Option<String>,
}

/// A voucher or an invitation, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoucherStatus {
    /// User name of the holder at this gateway.
    pub holder: String,
    /// `new`, `redeemed`, `over`, `void` or `revoked`.
    pub standing: String,
    /// Days from the first use.
    pub days: Option<u32>,
    /// Data in bytes, both directions together.
    pub bytes: Option<u64>,
    /// Bytes that were used, as far as they are stored.
    pub used_bytes: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was first used.
    pub redeemed: Option<Timestamp>,
    /// When it ends; before its first use, when it expires.
    pub expires: Option<Timestamp>,
}

/// The addresses at which neighbours find the proxies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entrance {
    /// The HTTP proxy, which also serves the neighbour's page.
    #[schema(value_type = Option<String>)]
    pub http: Option<SocketAddr>,
    /// The SOCKS proxy.
    #[schema(value_type = Option<String>)]
    pub socks: Option<SocketAddr>,
}

impl Entrance {
    /// The first listener of each kind. For a listener at all addresses, the address that this
    /// machine has in the neighbours' networks.
    pub(crate) fn of(listeners: &[(Kind, TcpListener)], policy: &Policy) -> Entrance {
        let first = |wanted: Kind| {
            let mut all = listeners.iter().filter(|(kind, _)| *kind == wanted);
            let address = all.find_map(|(_, listener)| listener.local_addr().ok())?;
            Some(reachable(address, &policy.attached.surroundings(), policy))
        };
        Entrance { http: first(Kind::Http), socks: first(Kind::Socks) }
    }
}

fn reachable(listener: SocketAddr, here: &Surroundings, policy: &Policy) -> SocketAddr {
    if !listener.ip().is_unspecified() {
        return listener;
    }
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let usable = |ip: &&IpAddr| !ip.is_loopback() && !link_local(ip) && (ip.is_ipv4() || listener.is_ipv6());
    let own: Vec<&IpAddr> = here.own.iter().filter(usable).collect();
    let within = |ip: &IpAddr, networks: &[IpNet]| networks.iter().any(|network| network.contains(ip));
    let theirs = own.iter().find(|ip| within(ip, &policy.clients));
    let other = || own.iter().find(|ip| !within(ip, &policy.home));
    let ip = theirs.or_else(other).map_or(listener.ip(), |ip| **ip);
    SocketAddr::new(ip, listener.port())
}

impl Operations {
    /// Makes vouchers, stores them, and returns their codes.
    ///
    /// # Errors
    /// The gateway takes no codes, the request is not allowed, or the store fails.
    pub fn make_vouchers(&self, request: &VoucherRequest) -> Result<Issued, OperationError> {
        let meter = self.of_codes()?;
        let VoucherRequest { days, bytes, count, valid_days } = *request;
        let valid = |days: u32| {
            let until = meter.now().checked_add(SignedDuration::from_hours(24 * i64::from(days)));
            until
                .ok()
                .filter(|_| days > 0)
                .ok_or_else(|| OperationError::Wrong(Note::new(&phrase::VALID_DAYS, [Value::same(days)])))
        };
        let valid_until = valid_days.map(valid).transpose()?;
        let terms = Terms { days, bytes, valid_until };
        Ok(self.issued(terms.clone(), meter.make_vouchers(&terms, count)?))
    }

    /// Invites somebody by name, stores the invitation, and returns its code.
    ///
    /// # Errors
    /// The gateway takes no codes, the name is not allowed or is taken, or the store fails.
    pub fn invite(&self, request: &InviteRequest) -> Result<Issued, OperationError> {
        let meter = self.of_codes()?;
        let InviteRequest { name, days, bytes } = request;
        if self.proxy.users.has_password(name) {
            return Err(OperationError::Wrong(Note::new(&phrase::HAS_PASSWORD, [Value::same(name)])));
        }
        let terms = Terms { days: *days, bytes: *bytes, valid_until: None };
        let code = meter.invite(name, &terms)?;
        Ok(self.issued(terms, vec![code]))
    }

    /// All vouchers and invitations, in the order in which they were made.
    ///
    /// # Errors
    /// The gateway takes no codes, or the store cannot be read.
    pub fn vouchers(&self) -> Result<Vec<VoucherStatus>, OperationError> {
        let meter = self.of_codes()?;
        let now = meter.now();
        Ok(meter.vouchers()?.iter().map(|(voucher, used)| VoucherStatus::of(voucher, *used, now)).collect())
    }

    /// All users by name: those who have used the gateway since its start, those in the accounts,
    /// and those who are invited.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn people(&self) -> Result<Vec<UserStatus>, OperationError> {
        let users = self.users().into_iter().map(|user| (user.name.clone(), user));
        let mut people: BTreeMap<String, UserStatus> = users.collect();
        let Some(meter) = self.gate().meter() else { return Ok(people.into_values().collect()) };
        for (name, seen) in meter.last_seen()? {
            let user = people.entry(name.clone()).or_insert_with(|| UserStatus::absent(name, self.gate()));
            user.last_seen.get_or_insert(seen);
        }
        let now = meter.now();
        for (voucher, used) in meter.vouchers()? {
            let standing = voucher.standing(now);
            let expected = voucher.invited.is_some() || voucher.redeemed.is_some();
            if !expected || standing == "revoked" {
                continue;
            }
            let name = voucher.holder();
            let user = people.entry(name.clone()).or_insert_with(|| UserStatus::absent(name, self.gate()));
            user.expires = VoucherStatus::of(&voucher, used, now).expires;
            // If the voucher was used since the start, the caps know better than the store how
            // much is left.
            if let Some(bytes) = voucher.terms.bytes
                && !user.volumes.iter().any(|volume| volume.cap == "voucher")
            {
                let until = user.expires.unwrap_or(Timestamp::MAX);
                let volume = Volume { cap: "voucher".into(), used_bytes: used, limit_bytes: bytes, until };
                user.volumes.push(volume);
            }
            if standing != "redeemed" {
                user.standing = if standing == "new" { "invited" } else { standing }.into();
            }
        }
        // Access that the owner has revoked counts more than a code.
        Ok(people.into_values().map(|user| user.judged(self.gate())).collect())
    }

    /// Whether the gateway takes codes.
    pub fn takes_codes(&self) -> bool {
        self.of_codes().is_ok()
    }

    /// The meter with the store of codes, or why the gateway takes no codes.
    fn of_codes(&self) -> Result<&Arc<Meter>, OperationError> {
        let taken = self.proxy.users.codes().and_then(|_| self.gate().meter());
        taken.ok_or_else(|| {
            let accounts = match self.gate().meter() {
                Some(_) => Value::same(""),
                None => Value::of(&phrase::AND_ACCOUNTS),
            };
            OperationError::Wrong(Note::new(&phrase::NO_VOUCHERS, [accounts]))
        })
    }

    fn issued(&self, terms: Terms, codes: Vec<Code>) -> Issued {
        let Terms { days, bytes, valid_until } = terms;
        let entrance = self.proxy.entrance();
        let link = |code: &str| Some(format!("http://{}/c/{}", entrance.http?, code.replace('-', "")));
        let codes = codes.into_iter().map(|Code { text, holder }| IssuedCode {
            link: link(&text),
            code: text,
            holder,
        });
        Issued { codes: codes.collect(), days, bytes, valid_until, entrance }
    }
}

impl VoucherStatus {
    fn of(voucher: &Voucher, used_bytes: u64, now: Timestamp) -> VoucherStatus {
        let void = voucher.terms.valid_until.filter(|_| voucher.redeemed.is_none());
        VoucherStatus {
            holder: voucher.holder(),
            standing: voucher.standing(now).into(),
            days: voucher.terms.days,
            bytes: voucher.terms.bytes,
            used_bytes,
            created: voucher.created,
            redeemed: voucher.redeemed,
            expires: voucher.ends().or(void),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_sent_to_the_address_in_their_network() {
        let here = |own: &[&str]| {
            let own = own.iter().map(|ip| ip.parse().unwrap()).collect();
            Surroundings { own, ..Surroundings::default() }
        };
        let networks = |text: &str| vec![text.parse::<IpNet>().unwrap()];
        let (home, clients) = (networks("192.168.1.0/24"), networks("10.20.0.0/16"));
        let policy = Policy { home, clients, ..Policy::default() };
        for (listener, own, found) in [
            ("10.20.0.1:3128", &["127.0.0.1"][..], "10.20.0.1:3128"),
            ("0.0.0.0:3128", &["127.0.0.1", "10.20.3.4", "192.168.1.2"], "10.20.3.4:3128"),
            ("0.0.0.0:3128", &["127.0.0.1", "172.16.0.1", "192.168.1.2"], "172.16.0.1:3128"),
            ("[::]:3128", &["::1", "fe80::1", "10.20.3.4"], "10.20.3.4:3128"),
            ("0.0.0.0:3128", &["127.0.0.1", "2001:db8::1"], "0.0.0.0:3128"),
        ] {
            let (listener, found) = (listener.parse().unwrap(), found.parse().unwrap());
            assert_eq!(reachable(listener, &here(own), &policy), found, "{own:?}");
        }
    }
}
