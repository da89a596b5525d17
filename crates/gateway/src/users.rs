//! The users: log-in, places for connections, and the bytes that each has used.

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

/// Users that are remembered. At one more, users without connections are forgotten.
const REMEMBERED: usize = 4096;

/// Bytes of one user's datagrams that may wait to be sent: half a second at 2 Mbit/s.
const QUEUED_BYTES: usize = 128 * 1024;

/// One user of the gateway.
#[derive(Debug)]
pub struct User {
    /// The user's number, for the scheduler.
    pub id: u64,
    /// The name in the configuration, or the client's address.
    pub name: String,
    /// What the user has used.
    pub counts: Counts,
    /// Last request, in seconds since 1970.
    seen: AtomicI64,
    clients: Arc<AtomicUsize>,
    upstream: Arc<AtomicUsize>,
    queued_bytes: Arc<AtomicUsize>,
    /// Whether the owner revoked the user's access; connections wait for a change.
    revoked: watch::Sender<bool>,
}

/// Sums since the gateway was started.
#[derive(Debug, Default)]
pub struct Counts {
    /// Bytes from the Internet.
    pub down_bytes: AtomicU64,
    /// Bytes to the Internet.
    pub up_bytes: AtomicU64,
    /// Requests and CONNECT tunnels.
    pub requests: AtomicU64,
    /// Requests that the policy or a limit refused.
    pub refused: AtomicU64,
    /// Bytes down and up that are in the accounts already.
    booked: [AtomicU64; 2],
}

/// All users of a gateway.
#[derive(Debug)]
pub struct Users {
    /// Users with a password, where a password is needed.
    logins: Option<Logins>,
    /// Holders of vouchers and invitations, where the gateway takes codes.
    codes: Option<Codes>,
    per_user: usize,
    upstream_per_user: usize,
    total: usize,
    clients: Arc<AtomicUsize>,
    upstream: Arc<AtomicUsize>,
    known: Mutex<Known>,
    /// What the forgotten users had used.
    gone: Counts,
    /// Whether there are accounts. If so, a user is forgotten only when its bytes are in the
    /// accounts.
    booked: bool,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    users: BTreeMap<String, Arc<User>>,
}

/// A place for a connection, given back on drop.
#[derive(Debug)]
pub struct Place(Vec<Arc<AtomicUsize>>);

/// Memory for bytes that wait to be sent, given back on drop.
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
    /// When the last request came.
    pub fn seen(&self) -> Timestamp {
        Timestamp::from_second(self.seen.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Number of connections and UDP associations to the Internet that the gateway has for the
    /// user.
    pub fn connections(&self) -> usize {
        self.upstream.load(Ordering::Relaxed)
    }

    /// Revokes the user's access, or gives it back. Revoking ends the user's connections.
    pub fn set_revoked(&self, revoked: bool) {
        self.revoked.send_replace(revoked);
    }

    /// Whether the user's access is revoked.
    pub fn is_revoked(&self) -> bool {
        *self.revoked.borrow()
    }

    /// Waits until the user's access is revoked.
    pub async fn revoked(&self) {
        // The sender is a field of `self`, so the channel stays open.
        let _ = self.revoked.subscribe().wait_for(|&revoked| revoked).await;
    }

    /// Room for a datagram of `bytes` that waits to be sent; `None` if [`QUEUED_BYTES`] are
    /// waiting.
    pub fn room(&self, bytes: usize) -> Option<Room> {
        let queued = self.queued_bytes.try_update(Ordering::AcqRel, Ordering::Relaxed, |queued| {
            Some(queued + bytes).filter(|&queued| queued <= QUEUED_BYTES)
        });
        queued.is_ok().then(|| Room { queued_bytes: self.queued_bytes.clone(), bytes })
    }
}

impl Users {
    /// The remembered users, sorted by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).users.values().cloned().collect()
    }

    /// What the forgotten users had used.
    pub fn gone(&self) -> &Counts {
        &self.gone
    }

    /// Calls `book` with each user's bytes, down and up, since the last call.
    pub fn unbooked(&self, mut book: impl FnMut(&str, [u64; 2])) {
        for user in self.all() {
            let bytes = user.counts.book();
            if bytes != [0; 2] {
                book(&user.name, bytes);
            }
        }
    }

    /// The users of a configuration. With `logins`, a name and a password are needed.
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

    /// The same users, and the holders of codes.
    pub fn with_codes(self, codes: Option<Codes>) -> Users {
        Users { codes, ..self }
    }

    /// The holders of codes, where the gateway takes codes.
    pub fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    /// Whether there is a user of this name with a password.
    pub fn has_password(&self, name: &str) -> bool {
        self.logins.as_ref().is_some_and(|logins| logins.has(name.as_bytes()))
    }

    /// Whether a name and a password, or a code, are needed.
    pub fn need_password(&self) -> bool {
        self.logins.is_some() || self.codes.is_some()
    }

    /// The user at an address.
    pub fn at(&self, address: IpAddr) -> Arc<User> {
        self.of(&address_name(address))
    }

    /// The user of this name, if the password is right; or the holder of the code, which may be
    /// given as name or as password.
    ///
    /// # Errors
    /// A wrong password, or too many attempts from the address.
    pub async fn log_in(&self, from: IpAddr, name: &[u8], password: &[u8]) -> Result<Arc<User>, Denied> {
        let named = self.logins.as_ref().filter(|logins| logins.has(name));
        let name = match (named, self.codes.as_ref().zip(Codes::given(name, password)), &self.logins) {
            (None, Some((codes, code)), _) => codes.check(from, &code).await?,
            (Some(logins), ..) | (_, _, Some(logins)) => logins.check(from, name, password).await?,
            _ => return Err(Denied::Wrong),
        };
        Ok(self.of(&name))
    }

    /// The users with a password, where a password is needed.
    pub fn logins(&self) -> Option<&Logins> {
        self.logins.as_ref()
    }

    /// Number of log-ins with a wrong password, and of log-ins refused for too many attempts.
    pub fn refused_logins(&self) -> (u64, u64) {
        let passwords = self.logins.as_ref().map_or((0, 0), Logins::refused);
        let codes = self.codes.as_ref().map_or((0, 0), Codes::refused);
        (passwords.0 + codes.0, passwords.1 + codes.1)
    }

    /// A place for a client's connection. `None` if the user or the gateway has no free place, or
    /// the user has as many places as are free.
    pub fn admit(&self, user: &User) -> Option<Place> {
        shared(&user.clients, self.per_user, &self.clients, self.total)
    }

    /// A place for a connection to the Internet, by the rule of [`Users::admit`].
    pub fn admit_upstream(&self, user: &User) -> Option<Place> {
        shared(&user.upstream, self.upstream_per_user, &self.upstream, self.total)
    }

    /// Number of the clients' connections.
    pub fn connections(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Visits every remembered user, then all forgotten users as one.
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

/// One of `total` places, for a user who may have `per_user`. A user who has as many places as are
/// free gets no more (the dynamic threshold of Choudhury and Hahne 1998, with a factor of 1). One
/// user has at most half of the places, and `n` greedy users leave one part in `n + 1` free for
/// users with few connections.
fn shared(own: &Arc<AtomicUsize>, per_user: usize, all: &Arc<AtomicUsize>, total: usize) -> Option<Place> {
    let free = total.saturating_sub(all.load(Ordering::Relaxed));
    let place = Place::take(own, per_user.min(free))?;
    Some(place.and(Place::take(all, total)?))
}

impl Counts {
    /// Bytes down and up that are not in the accounts yet.
    fn unbooked(&self) -> [u64; 2] {
        let taken = [&self.down_bytes, &self.up_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
        let [down, up] = [0, 1].map(|way| taken[way] - self.booked[way].load(Ordering::Relaxed));
        [down, up]
    }

    /// Bytes down and up that are not in the accounts yet; counts them as booked. One caller at a
    /// time.
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

/// The name of a user without one: the address. With IPv6 a machine has a whole /64, so the /64 is
/// one user.
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
            // Places come back to others before a user with many has more.
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
