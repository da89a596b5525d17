//! Other gateways beside this one: what each says about itself, and in which order a client tries
//! them.
//!
//! Every gateway asks its peers for their state. For each client that fetches the PAC file there
//! is a [`Selector`], which receives these states. So clients spread over the gateways, and stay
//! with their choice.

pub(crate) mod answer;
mod document;
mod occupancy;
mod pac;
mod peer;
mod probe;
pub(crate) mod route;

pub use document::{Document, Standing};
pub use peer::Peer;

use crate::language::Language;
use crate::notes::Note;
use crate::refusals::PEER_NOT_ASKED;
use crate::upstream::Connector;
use crate::users::Users;
use jiff::Timestamp;
use leeway_guard::{Attempts, site};
use leeway_selection::{Gateway, Observation, Policy, Selector};
use leeway_units::Time;
use occupancy::Occupancy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use utoipa::ToSchema;

/// Time between two samples of this gateway's own load.
const TICK: Duration = Duration::from_secs(1);
/// Time between two requests to a peer. A peer that fails is in no PAC file after this time and
/// two requests.
const EVERY: Duration = Duration::from_secs(3);
/// Requests of one site that are answered at once, and the time for one more. Fifty peers behind
/// one address send 17 requests a second.
const AT_ONCE: u32 = 100;
const QUESTION: Duration = Duration::from_millis(50);
/// Clients whose order is remembered.
const CLIENTS: usize = 4096;
/// Time for which a client that fetched the PAC file counts as using it. Browsers fetch it at
/// least once a day.
const FOLLOWS: Duration = Duration::from_secs(86_400);

/// The state of a peer, for the owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerStatus {
    /// Address of its HTTP proxy.
    #[schema(value_type = String)]
    pub address: SocketAddr,
    /// Name that the owner gave it, if any.
    #[serde(default)]
    pub name: Option<String>,
    /// What it says about itself; none while it does not answer.
    pub says: Option<Document>,
    /// Why it does not answer.
    pub error: Option<String>,
    /// Time from a request to its response, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// When it last answered; none before its first answer to this gateway.
    #[serde(default)]
    pub last_seen: Option<Timestamp>,
}

/// What this gateway knows about itself and its peers.
pub struct Peers {
    began: Instant,
    occupancy: Mutex<Occupancy>,
    known: Mutex<Vec<Known>>,
    clients: Mutex<BTreeMap<IpAddr, Client>>,
    asked: Mutex<Attempts>,
}

/// One peer.
#[derive(Debug, Clone)]
struct Known {
    address: SocketAddr,
    /// Name that the owner gave it.
    name: Option<String>,
    /// Result of the last request, and the number of that request.
    found: Option<(u64, Result<probe::Found, Note>)>,
    /// When it last answered.
    seen: Option<Timestamp>,
    due: Instant,
}

/// A client that fetches the PAC file.
struct Client {
    selector: Selector,
    /// For each peer, the number of the last result that the selector received.
    told: BTreeMap<SocketAddr, u64>,
    asked: Instant,
}

impl Peers {
    /// The peers of the configuration.
    pub fn new(peers: &[Peer]) -> Peers {
        let found = Peers {
            began: Instant::now(),
            occupancy: Mutex::default(),
            known: Mutex::default(),
            clients: Mutex::default(),
            asked: Mutex::new(Attempts::new(AT_ONCE, QUESTION)),
        };
        found.set(peers);
        found
    }

    /// Replaces the list. What is known about peers that stay is kept.
    pub fn set(&self, peers: &[Peer]) {
        let mut known = lock(&self.known);
        let before = std::mem::take(&mut *known);
        *known = peers
            .iter()
            .map(|Peer { address, name }| {
                let (address, name) = (*address, name.clone());
                let there = before.iter().find(|known| known.address == address).cloned();
                let known = there.unwrap_or(Known {
                    address,
                    name: None,
                    found: None,
                    seen: None,
                    due: Instant::now(),
                });
                Known { name, ..known }
            })
            .collect();
    }

    /// The state of each peer, with errors in `language`.
    pub fn status(&self, language: Language) -> Vec<PeerStatus> {
        let status = |known: &Known| {
            let found = known.found.as_ref().map(|(_, found)| found.as_ref());
            let answered = found.and_then(Result::ok);
            PeerStatus {
                address: known.address,
                name: known.name.clone(),
                says: answered.map(|found| found.document.clone()),
                error: match found {
                    None => Some(Note::new(&PEER_NOT_ASKED, []).words(language)),
                    Some(found) => found.err().map(|note| note.words(language)),
                },
                round_trip_ms: answered.map(|found| 1000.0 * found.round_trip.as_secs_f64()),
                last_seen: known.seen,
            }
        };
        lock(&self.known).iter().map(status).collect()
    }

    /// Load, what the home leaves in bit/s, and number of users with traffic.
    fn occupancy(&self) -> (Option<f64>, Option<f64>, u32) {
        let occupancy = lock(&self.occupancy);
        (occupancy.load(), occupancy.spare_bps(), occupancy.users())
    }

    /// Whether one more request of `client` is answered; if not, how long to wait.
    fn admit(&self, client: IpAddr) -> Result<(), Duration> {
        let (now, mut asked) = (Instant::now(), lock(&self.asked));
        asked.admit(client, now)?;
        asked.failed(client, now);
        Ok(())
    }

    /// The gateways that take connections, in the order for this client. `own` is this gateway,
    /// whose state is `document`.
    fn order(&self, client: IpAddr, own: SocketAddr, document: &Document) -> Vec<SocketAddr> {
        let (place, now, known) = (site(client), self.now(), lock(&self.known).clone());
        let name = |address: SocketAddr| Gateway::named(&address.to_string());
        let all: Vec<SocketAddr> = [own].into_iter().chain(known.iter().map(|peer| peer.address)).collect();
        let mut clients = lock(&self.clients);
        if clients.len() >= CLIENTS && !clients.contains_key(&place) {
            let oldest = clients.iter().min_by_key(|(_, client)| client.asked).map(|(place, _)| *place);
            oldest.and_then(|place| clients.remove(&place));
        }
        let new = || {
            let seed = Gateway::named(&place.to_string()).0;
            // Round trips are measured at this gateway, not at the client. So they are no reason
            // for all clients to take the same one of two gateways: each draws.
            let policy = Policy { draws: 1.0, ..Policy::default() };
            let selector = Selector::new(policy, seed, all.iter().copied().map(name));
            Client { selector, told: BTreeMap::new(), asked: Instant::now() }
        };
        let client = clients.entry(place).or_insert_with(new);
        client.asked = Instant::now();
        client.selector.set_gateways(now, all.iter().copied().map(name));
        client.told.retain(|address, _| all.contains(address));
        let itself = Observation::Answered { round_trip: Default::default(), status: document.status(now) };
        client.selector.observe(name(own), now, itself);
        for peer in &known {
            let Some((number, found)) = &peer.found else { continue };
            if client.told.insert(peer.address, *number) == Some(*number) {
                continue;
            }
            let observation = match found {
                Ok(found) => Observation::Answered {
                    round_trip: leeway_units::Duration::from_secs_f64(found.round_trip.as_secs_f64()),
                    status: found.document.status(now),
                },
                Err(_) => Observation::Failed,
            };
            client.selector.observe(name(peer.address), now, observation);
        }
        // If no gateway is open, the caller puts this one into the file, which then says why it
        // refuses.
        let _ = client.selector.choose(now);
        let takes = |gateway: &Gateway| client.selector.cost(now, *gateway).is_some();
        let open = client.selector.order(now).into_iter().filter(takes);
        open.filter_map(|gateway| all.iter().copied().find(|&address| name(address) == gateway)).collect()
    }

    /// All gateways: `own`, and the peers.
    fn all(&self, own: SocketAddr) -> Vec<SocketAddr> {
        [own].into_iter().chain(lock(&self.known).iter().map(|peer| peer.address)).collect()
    }

    /// Whether a client that is refused here can continue at a peer: it uses the PAC file, and a
    /// peer is open.
    pub fn goes_on(&self, client: IpAddr) -> bool {
        let open = |peer: &Known| matches!(&peer.found, Some((_, Ok(found))) if found.document.sharing == Standing::On);
        let follows = lock(&self.clients).get(&site(client)).is_some_and(|it| it.asked.elapsed() < FOLLOWS);
        follows && lock(&self.known).iter().any(open)
    }

    /// Samples this gateway's load, and asks the peers. Never ends.
    pub async fn drive(self: Arc<Self>, connector: Arc<Connector>, users: Arc<Users>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut questions = JoinSet::new();
        loop {
            ticks.tick().await;
            self.look(&connector, &users);
            let now = Instant::now();
            for peer in lock(&self.known).iter_mut().filter(|peer| peer.due <= now) {
                peer.due = now + EVERY;
                let (peers, address) = (self.clone(), peer.address);
                questions.spawn(async move {
                    let found = probe::ask(address).await;
                    peers.found(address, found);
                });
            }
            while questions.try_join_next().is_some() {}
        }
    }

    fn found(&self, address: SocketAddr, found: Result<probe::Found, Note>) {
        let mut known = lock(&self.known);
        if let Some(peer) = known.iter_mut().find(|peer| peer.address == address) {
            let number = peer.found.as_ref().map_or(0, |(number, _)| number + 1);
            peer.seen = found.as_ref().ok().map(|_| Timestamp::now()).or(peer.seen);
            peer.found = Some((number, found));
        }
    }

    fn look(&self, connector: &Connector, users: &Users) {
        let fill = connector.budget(connector.path()).map(|budget| {
            let state = budget.state();
            match state.waiting {
                0 => state.outstanding_bytes as f64 / (state.window_bytes.max(1)) as f64,
                _ => 1.0,
            }
        });
        let all = users.all();
        let sums = all.iter().map(|user| {
            let [down, up] = [&user.counts.down_bytes, &user.counts.up_bytes];
            (user.id, [down.load(Ordering::Relaxed), up.load(Ordering::Relaxed)])
        });
        let mut occupancy = lock(&self.occupancy);
        occupancy.sample(self.began.elapsed().as_secs_f64(), sums, fill);
        occupancy.retain(|id| all.iter().any(|user| user.id == id));
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusals::PEER_HUNG_UP;

    const OWN: &str = "10.20.0.1:3128";

    fn document(sharing: Standing) -> Document {
        let (until, resumes_s, left_bytes) = Default::default();
        let (load, spare_bps, users) = (Some(0.0), Some(8_000_000), Some(0));
        Document { sharing, until, resumes_s, load, spare_bps, users, left_bytes }
    }

    fn answered(document: Document) -> Result<probe::Found, Note> {
        Ok(probe::Found { round_trip: Duration::from_millis(5), document })
    }

    fn peer(address: &str) -> Peer {
        Peer { address: address.parse().unwrap(), name: None }
    }

    /// A gateway with these peers, all of them open.
    fn with(peers: &[&str]) -> Peers {
        let list: Vec<Peer> = peers.iter().copied().map(peer).collect();
        let found = Peers::new(&list);
        list.iter().for_each(|peer| found.found(peer.address, answered(document(Standing::On))));
        found
    }

    fn order(peers: &Peers, client: &str) -> Vec<String> {
        let own = document(Standing::On);
        let order = peers.order(client.parse().unwrap(), OWN.parse().unwrap(), &own);
        order.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn clients_are_spread_and_each_stays() {
        let peers = with(&["10.20.0.2:3128", "10.20.0.3:3128", "10.20.0.4:3128"]);
        let mut first = BTreeMap::<String, usize>::new();
        for n in 0..400 {
            let client = format!("10.20.{}.{}", 1 + n / 200, 1 + n % 200);
            let order_now = order(&peers, &client);
            assert_eq!(order_now.len(), 4);
            assert_eq!(order(&peers, &client), order_now, "it stays");
            *first.entry(order_now[0].clone()).or_default() += 1;
        }
        assert_eq!(first.len(), 4, "{first:?}");
        assert!(first.values().all(|&clients| clients > 50), "{first:?}");
    }

    #[test]
    fn a_peer_that_pauses_or_fails_leaves_at_once_and_comes_back_behind() {
        let peers = with(&["10.20.0.2:3128"]);
        // A client whose first gateway is the peer.
        let client = (1..200).map(|n| format!("10.20.9.{n}")).find(|client| order(&peers, client)[0] != OWN);
        let client = client.expect("one of them");
        let peer: SocketAddr = "10.20.0.2:3128".parse().unwrap();
        for gone in [answered(document(Standing::Paused)), Err(Note::new(&PEER_HUNG_UP, []))] {
            peers.found(peer, gone);
            assert_eq!(order(&peers, &client), [OWN]);
            peers.found(peer, answered(document(Standing::On)));
            assert_eq!(order(&peers, &client), [OWN, "10.20.0.2:3128"], "the client stays where it went");
        }
        let other = (1..200).map(|n| format!("10.20.8.{n}")).find(|client| order(&peers, client)[0] != OWN);
        assert!(other.is_some(), "new clients come to it");
    }

    #[test]
    fn a_paused_gateway_sends_on_only_who_follows_the_file_and_has_somewhere_to_go() {
        let peers = with(&["10.20.0.2:3128"]);
        let client: IpAddr = "10.20.9.1".parse().unwrap();
        assert!(!peers.goes_on(client));
        order(&peers, "10.20.9.1");
        assert!(peers.goes_on(client));
        peers.found("10.20.0.2:3128".parse().unwrap(), Err(Note::new(&PEER_HUNG_UP, [])));
        assert!(!peers.goes_on(client));
    }

    #[test]
    fn the_owner_sees_when_a_peer_answered_last() {
        let peers = with(&["10.20.0.2:3128"]);
        let address: SocketAddr = "10.20.0.2:3128".parse().unwrap();
        let seen = peers.status(Language::English)[0].last_seen.expect("it has answered");
        peers.found(address, Err(Note::new(&PEER_HUNG_UP, [])));
        let gone = &peers.status(Language::English)[0];
        assert_eq!(
            (gone.last_seen, gone.says.is_some(), gone.error.as_deref()),
            (Some(seen), false, Some("it closed the connection"))
        );
        peers.set(&["10.20.0.2:3128", "10.20.0.3:3128"].map(peer));
        assert_eq!(
            peers.status(Language::English).iter().map(|peer| peer.last_seen).collect::<Vec<_>>(),
            [Some(seen), None]
        );
    }

    #[test]
    fn a_new_name_keeps_what_is_known() {
        let peers = with(&["10.20.0.2:3128"]);
        peers.set(&[Peer { name: Some("attic".into()), ..peer("10.20.0.2:3128") }]);
        let status = &peers.status(Language::English)[0];
        assert_eq!((status.name.as_deref(), status.says.is_some()), (Some("attic"), true));
        peers.set(&[peer("10.20.0.2:3128")]);
        assert_eq!(peers.status(Language::English)[0].name, None);
    }

    #[test]
    fn a_list_that_changes_keeps_what_is_known() {
        let peers = with(&["10.20.0.2:3128"]);
        order(&peers, "10.20.9.1");
        peers.set(&["10.20.0.2:3128", "10.20.0.3:3128"].map(peer));
        assert_eq!(order(&peers, "10.20.9.1").len(), 2, "the new one was not asked yet");
        assert_eq!(peers.status(Language::English)[1].error.as_deref(), Some("not asked yet"));
        peers.set(&[]);
        assert_eq!(order(&peers, "10.20.9.1"), [OWN]);
    }

    #[test]
    fn who_asks_too_often_waits() {
        let (peers, eve) = (with(&[]), "10.20.9.1".parse().unwrap());
        let refused = (0..10 * AT_ONCE).filter(|_| peers.admit(eve).is_err()).count();
        assert!(refused > 0 && peers.admit("10.20.9.2".parse().unwrap()).is_ok());
    }
}
