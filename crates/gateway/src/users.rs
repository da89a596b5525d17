//! Who is served, how much each may take, and what each has taken.

use crate::codes::Codes;
use crate::config::Config;
use crate::login::{Denied, Logins};
use jiff::Timestamp;
use leeway_guard::site;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Users that are remembered at a time; one more, and those without connections are forgotten.
const REMEMBERED: usize = 4096;

/// Datagrams of one user that wait for their turn, in bytes: half a second at 2 Mbit/s.
const QUEUED_BYTES: usize = 128 * 1024;

/// One user of the gateway.
#[derive(Debug)]
pub struct User {
    /// A number of its own.
    pub id: u64,
    /// The name given by the configuration, or the client's address.
    pub name: String,
    /// What it has taken.
    pub counts: Counts,
    /// When it came last, in seconds since 1970.
    seen: AtomicI64,
    clients: Arc<AtomicUsize>,
    upstream: Arc<AtomicUsize>,
    queued_bytes: Arc<AtomicUsize>,
    /// Whether the owner has taken back its access, and who waits for that.
    revoked: watch::Sender<bool>,
}

/// Sums since the gateway was started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Bytes from the Internet.
    pub down_bytes: AtomicU64,
    /// Bytes to the Internet.
    pub up_bytes: AtomicU64,
    /// Requests and tunnels.
    pub requests: AtomicU64,
    /// Refused by the policy or a limit.
    pub refused: AtomicU64,
    /// Of the bytes down and up, those that the accounts have.
    booked: [AtomicU64; 2],
}

/// Everybody.
#[derive(Debug)]
pub struct Users {
    /// Those with a password, where one is needed.
    logins: Option<Logins>,
    /// Those with a code, where one is needed.
    codes: Option<Codes>,
    per_user: usize,
    upstream_per_user: usize,
    total: usize,
    clients: Arc<AtomicUsize>,
    upstream: Arc<AtomicUsize>,
    known: Mutex<Known>,
    /// What those who were forgotten had taken.
    gone: Counts,
    /// Whether somebody books what users take; nobody is forgotten before that.
    booked: bool,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    users: BTreeMap<String, Arc<User>>,
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
pub struct Place(Vec<Arc<AtomicUsize>>);

/// Memory for bytes that wait, free again when this is dropped.
#[derive(Debug)]
pub struct Room {
    queued_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl User {
    /// When it came last.
    pub fn seen(&self) -> Timestamp {
        Timestamp::from_second(self.seen.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Its connections to the gateway now.
    pub fn connections(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Takes its access, or gives it back; what runs ends when it is taken.
    pub fn set_revoked(&self, revoked: bool) {
        self.revoked.send_replace(revoked);
    }

    /// Whether its access was taken.
    pub fn is_revoked(&self) -> bool {
        *self.revoked.borrow()
    }

    /// Ready when its access is taken.
    pub async fn revoked(&self) {
        // The other end is this user's, so it does not go before.
        let _ = self.revoked.subscribe().wait_for(|&revoked| revoked).await;
    }

    /// Room for a datagram of so many bytes that waits for its turn; none if the user has too many of them.
    pub fn room(&self, bytes: usize) -> Option<Room> {
        let queued = self.queued_bytes.try_update(Ordering::AcqRel, Ordering::Relaxed, |queued| {
            Some(queued + bytes).filter(|&queued| queued <= QUEUED_BYTES)
        });
        queued.is_ok().then(|| Room { queued_bytes: self.queued_bytes.clone(), bytes })
    }
}

impl Users {
    /// Those that are remembered, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).users.values().cloned().collect()
    }

    /// What those who are forgotten had taken.
    pub fn gone(&self) -> &Counts {
        &self.gone
    }

    /// Gives `book` the bytes, down and up, that each user has taken since the last time.
    pub fn unbooked(&self, mut book: impl FnMut(&str, [u64; 2])) {
        for user in self.all() {
            let bytes = user.counts.book();
            if bytes != [0; 2] {
                book(&user.name, bytes);
            }
        }
    }

    /// Everybody that a configuration serves; those with a password where there are any.
    pub fn new(config: &Config, logins: Option<Logins>) -> Users {
        Users {
            logins,
            codes: None,
            per_user: config.limits.connections_per_user,
            upstream_per_user: config.limits.upstream_per_user,
            total: config.limits.connections,
            clients: Arc::default(),
            upstream: Arc::default(),
            known: Mutex::default(),
            gone: Counts::default(),
            booked: config.accounts.is_some(),
        }
    }

    /// The same, and those with codes.
    pub fn with_codes(self, codes: Option<Codes>) -> Users {
        Users { codes, ..self }
    }

    /// Those with codes, where one is needed.
    pub fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    /// Whether somebody has that name and a password.
    pub fn has_password(&self, name: &str) -> bool {
        self.logins.as_ref().is_some_and(|logins| logins.has(name.as_bytes()))
    }

    /// Whether users have to give a name and a password, or a code.
    pub fn need_password(&self) -> bool {
        self.logins.is_some() || self.codes.is_some()
    }

    /// The user at an address.
    pub fn at(&self, address: IpAddr) -> Arc<User> {
        self.of(&address_name(address))
    }

    /// The user of that name, if the password is right; or who has the code that is one of the two.
    ///
    /// # Errors
    /// Why not, and whether to come again.
    pub async fn log_in(&self, from: IpAddr, name: &[u8], password: &[u8]) -> Result<Arc<User>, Denied> {
        let named = self.logins.as_ref().filter(|logins| logins.has(name));
        let name = match (named, self.codes.as_ref().zip(Codes::given(name, password)), &self.logins) {
            (None, Some((codes, code)), _) => codes.check(from, &code).await?,
            (Some(logins), ..) | (_, _, Some(logins)) => logins.check(from, name, password).await?,
            _ => return Err(Denied::Wrong),
        };
        Ok(self.of(&name))
    }

    /// Those with a password, where one is needed.
    pub fn logins(&self) -> Option<&Logins> {
        self.logins.as_ref()
    }

    /// Log-ins that were wrong, and that were refused without a look.
    pub fn refused_logins(&self) -> (u64, u64) {
        let passwords = self.logins.as_ref().map_or((0, 0), Logins::refused);
        let codes = self.codes.as_ref().map_or((0, 0), Codes::refused);
        (passwords.0 + codes.0, passwords.1 + codes.1)
    }

    /// A place for a client's connection; none if the user or the gateway has no more, or the user has as many as are free.
    pub fn admit(&self, user: &User) -> Option<Place> {
        shared(&user.clients, self.per_user, &self.clients, self.total)
    }

    /// A place for a connection to the Internet, by the same rule.
    pub fn admit_upstream(&self, user: &User) -> Option<Place> {
        shared(&user.upstream, self.upstream_per_user, &self.upstream, self.total)
    }

    /// Connections of clients now.
    pub fn connections(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Visits every known user, and at the end those who are forgotten as one.
    pub fn visit(&self, mut see: impl FnMut(&str, &Counts)) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.users.values().for_each(|user| see(&user.name, &user.counts));
        see("(forgotten)", &self.gone);
    }

    fn of(&self, name: &str) -> Arc<User> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now().as_second();
        if let Some(user) = known.users.get(name) {
            user.seen.store(now, Ordering::Relaxed);
            return user.clone();
        }
        if known.users.len() >= REMEMBERED {
            known.users.retain(|_, user| {
                let here = Arc::strong_count(user) > 1 || (self.booked && user.counts.unbooked() != [0; 2]);
                if !here {
                    self.gone.add(&user.counts);
                }
                here
            });
        }
        known.next += 1;
        let user = Arc::new(User {
            id: known.next,
            name: name.to_owned(),
            counts: Counts::default(),
            seen: now.into(),
            clients: Arc::default(),
            upstream: Arc::default(),
            queued_bytes: Arc::default(),
            revoked: watch::Sender::new(false),
        });
        known.users.insert(name.to_owned(), user.clone());
        user
    }
}

/// A place of `total` for a user who has at most `per_user`. A user who has as many as are free gets no more (the dynamic threshold of
/// Choudhury and Hahne 1998, with a factor of 1): one user has half of the places at most, `n` greedy ones leave one part in `n + 1`, so
/// that nobody takes the last ones from somebody who has few.
fn shared(own: &Arc<AtomicUsize>, per_user: usize, all: &Arc<AtomicUsize>, total: usize) -> Option<Place> {
    let free = total.saturating_sub(all.load(Ordering::Relaxed));
    let place = Place::take(own, per_user.min(free))?;
    Some(place.and(Place::take(all, total)?))
}

impl Counts {
    /// Bytes down and up that are not booked.
    fn unbooked(&self) -> [u64; 2] {
        let taken = [&self.down_bytes, &self.up_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
        let [down, up] = [0, 1].map(|way| taken[way] - self.booked[way].load(Ordering::Relaxed));
        [down, up]
    }

    /// The same, which count as booked from now on. One caller at a time.
    fn book(&self) -> [u64; 2] {
        let rest = self.unbooked();
        for (booked, rest) in self.booked.iter().zip(rest) {
            booked.fetch_add(rest, Ordering::Relaxed);
        }
        rest
    }

    fn add(&self, other: &Counts) {
        for (to, from) in [
            (&self.down_bytes, &other.down_bytes),
            (&self.up_bytes, &other.up_bytes),
            (&self.requests, &other.requests),
            (&self.refused, &other.refused),
        ] {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Place {
    fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let taken = count.try_update(Ordering::AcqRel, Ordering::Relaxed, |n| (n < most).then_some(n + 1));
        taken.is_ok().then(|| Place(vec![count.clone()]))
    }

    fn and(mut self, mut other: Place) -> Place {
        self.0.append(&mut other.0);
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for count in &self.0 {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A machine with IPv6 has a whole /64 of addresses, so that is one user.
pub fn address_name(address: IpAddr) -> String {
    match site(address) {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(network) => format!("{network}/64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;

    #[test]
    fn places_are_bounded_and_come_back() {
        let limits =
            Limits { connections: 5, connections_per_user: 2, upstream_per_user: 1, ..Limits::default() };
        let users = Users::new(&Config { limits, ..Config::default() }, None);
        let [ann, bob] = ["10.0.0.1", "10.0.0.2"].map(|text| users.at(text.parse().unwrap()));
        let first = users.admit(&ann).unwrap();
        let _second = users.admit(&ann).unwrap();
        assert!(users.admit(&ann).is_none(), "two a user");
        let _bobs = [(); 2].map(|()| users.admit(&bob).unwrap());
        let [eve, dan] = ["10.0.0.3", "10.0.0.4"].map(|text| users.at(text.parse().unwrap()));
        let _last = users.admit(&eve).unwrap();
        assert!(users.admit(&dan).is_none(), "five together");
        assert_eq!(users.connections(), 5);
        drop(first);
        assert!(users.admit(&dan).is_some());
        let place = users.admit_upstream(&ann).unwrap();
        assert!(users.admit_upstream(&ann).is_none() && users.admit_upstream(&bob).is_some());
        drop(place);
        assert!(users.admit_upstream(&ann).is_some());
    }

    #[test]
    fn a_user_with_many_connections_leaves_places_for_users_with_few() {
        let limits = Limits { connections: 1000, connections_per_user: 1000, ..Limits::default() };
        let limits = Limits { upstream_per_user: 1000, ..limits };
        for admit in [Users::admit, Users::admit_upstream] {
            let users = Users::new(&Config { limits: limits.clone(), ..Config::default() }, None);
            let of = |n: u32| users.at(IpAddr::V4(n.into()));
            let take = |n: u32| -> Vec<Place> { std::iter::from_fn(|| admit(&users, &of(n))).collect() };
            let first = take(1);
            assert_eq!(first.len(), 500);
            let second = take(2);
            assert_eq!(second.len(), 250);
            let _few: Vec<Place> =
                (10..110).map(|n| admit(&users, &of(n)).expect("a place for each")).collect();
            // The others' places come back before the greedy have more.
            drop(second);
            assert_eq!(take(1).len(), 0);
            assert!(take(3).len() >= 200);
            drop(first);
        }
    }

    #[test]
    fn what_waits_of_a_user_is_bounded() {
        let users = Users::new(&Config::default(), None);
        let [ann, bob] = ["10.0.0.1", "10.0.0.2"].map(|text| users.at(text.parse().unwrap()));
        let rooms: Vec<Room> = std::iter::from_fn(|| ann.room(1200)).collect();
        assert_eq!(rooms.len(), QUEUED_BYTES / 1200);
        assert!(bob.room(1200).is_some());
        drop(rooms);
        assert!(ann.room(QUEUED_BYTES).is_some());
    }

    #[test]
    fn a_machine_is_one_user_whatever_its_address() {
        let users = Users::new(&Config::default(), None);
        let id = |text: &str| users.at(text.parse().unwrap()).id;
        assert_eq!(id("2a00:1::1"), id("2a00:1::ffff:1"));
        assert_ne!(id("2a00:1::1"), id("2a00:1:0:1::1"));
        assert_eq!(id("10.0.0.1"), id("::ffff:10.0.0.1"));
    }

    #[test]
    fn the_memory_of_users_is_bounded_and_sums_are_kept() {
        let users = Users::new(&Config::default(), None);
        for n in 0..3 * REMEMBERED as u32 {
            users.at(IpAddr::V4(n.into())).counts.down_bytes.fetch_add(1, Ordering::Relaxed);
        }
        let (mut seen, mut bytes) = (0, 0);
        users.visit(|_, counts| {
            seen += 1;
            bytes += counts.down_bytes.load(Ordering::Relaxed);
        });
        assert!(seen <= REMEMBERED + 1);
        assert_eq!(bytes, 3 * REMEMBERED as u64);
    }
}
