//! Chooses the next grant: deficit round robin over users, then over each user's flows (Shreedhar
//! and Varghese 1995).
//!
//! The first turns of a flow are as long as a web object ([`Policy::turn_bytes`]); a flow that
//! had that much gets shorter ones ([`Scheduler::set_quantum`]). A flow in the middle of its turn
//! comes before all flows that wait for a turn, and the turn that began first comes first. So an
//! object that has begun is finished before another one goes on. A flow pays back the bytes that
//! it took beyond its quantum, so flows share bytes, not turns.
//!
//! [`Policy::turn_bytes`]: crate::Policy::turn_bytes

use crate::id::{ById, FlowId, UserId};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// Users, their flows, and the flows that request a grant.
#[derive(Debug)]
pub struct Scheduler {
    turn_bytes: i64,
    /// Quantum, in bytes, of a user, and of a flow that has had a turn.
    quantum_bytes: i64,
    users: ById<UserId, User>,
    flows: ById<FlowId, Flow>,
    /// Flows that request a grant in the middle of their turn, by the number of the turn.
    going: BTreeMap<u64, FlowId>,
    /// Users with a flow that waits for its turn, by their place in the round.
    round: BTreeMap<Place, UserId>,
    /// The next place in a round, and the number of the next turn.
    place: u64,
    asking: usize,
    /// Bytes granted to all users since the start.
    given_bytes: i64,
}

/// A place in a round. Users or flows with a saved deficit (`false`) come first, then the others
/// (`true`), each in the order of their numbers.
type Place = (bool, u64);

#[derive(Debug, Default)]
struct User {
    deficit: i64,
    /// Bytes that the user's flows may still take in turns that have begun.
    promised: i64,
    flows: usize,
    /// Bytes granted to the user's flows since the start.
    given_bytes: i64,
    /// `Scheduler::given_bytes` at the grant after which no flow of the user waited. From that on
    /// the user saves up its share.
    left: Option<i64>,
    place: Place,
    /// The user's flows that wait for their turn, by their place.
    round: BTreeMap<Place, FlowId>,
}

#[derive(Debug)]
struct Flow {
    user: UserId,
    deficit: i64,
    /// Bytes granted to the flow since it rested.
    given_bytes: i64,
    /// Number of the turn that the flow is in the middle of. During a turn the deficit is above
    /// 0.
    turn: Option<u64>,
    /// The user's `given_bytes` at the last grant of this flow. From that on the flow saves up
    /// its share.
    left: Option<i64>,
    place: Place,
    ask_bytes: Option<u64>,
}

impl Scheduler {
    /// A scheduler without users. A turn is `turn_bytes` long.
    pub fn new(turn_bytes: u64) -> Scheduler {
        Scheduler {
            turn_bytes: signed(turn_bytes),
            quantum_bytes: signed(turn_bytes),
            users: ById::default(),
            flows: ById::default(),
            going: BTreeMap::new(),
            round: BTreeMap::new(),
            place: 0,
            asking: 0,
            given_bytes: 0,
        }
    }

    /// Sets the quantum of users, and of flows that have had a turn, to `bytes` (at most a turn).
    pub fn set_quantum(&mut self, bytes: u64) {
        self.quantum_bytes = signed(bytes).min(self.turn_bytes);
    }

    /// Opens a flow of `user`.
    pub fn open(&mut self, user: UserId, flow: FlowId) {
        if let Entry::Vacant(vacant) = self.flows.entry(flow) {
            let place = Place::default();
            vacant.insert(Flow {
                user,
                deficit: 0,
                given_bytes: 0,
                turn: None,
                left: None,
                place,
                ask_bytes: None,
            });
            self.users.entry(user).or_default().flows += 1;
        }
    }

    /// Ends a flow, and its request.
    pub fn close(&mut self, flow: FlowId) {
        self.withdraw(flow);
        self.rest(flow);
        let Some(closed) = self.flows.remove(&flow) else { return };
        let user = self.users.get_mut(&closed.user).expect("a flow's user is known");
        user.flows -= 1;
        if user.flows == 0 {
            self.users.remove(&closed.user);
        }
    }

    /// Sets the request of `flow` to `bytes`. An earlier request is replaced, and its place is
    /// kept.
    pub fn ask(&mut self, flow: FlowId, bytes: u64) {
        let Some(one) = self.flows.get_mut(&flow) else { return };
        if one.ask_bytes.replace(bytes).is_none() {
            self.asking += 1;
            self.enter(flow);
        }
    }

    /// Withdraws the request of `flow`.
    pub fn withdraw(&mut self, flow: FlowId) {
        let Some(one) = self.flows.get_mut(&flow) else { return };
        if one.ask_bytes.take().is_some() {
            self.asking -= 1;
            self.leave(flow);
        }
    }

    /// Ends the turn of `flow`, which has received what it wanted. The rest of the turn is not
    /// saved up.
    pub fn rest(&mut self, flow: FlowId) {
        let Some(one) = self.flows.get(&flow) else { return };
        let (user, asks) = (one.user, one.ask_bytes.is_some());
        let turn_rest = one.promised();
        if asks {
            self.leave(flow);
        }
        let one = self.flows.get_mut(&flow).expect("found above");
        (one.turn, one.left) = (None, None);
        one.given_bytes = 0;
        one.deficit = one.deficit.min(0);
        let owner = self.users.get_mut(&user).expect("a flow's user is known");
        owner.left = None;
        owner.promised -= turn_rest;
        // The user saves up at most one turn beside those that its flows have begun.
        owner.deficit = owner.deficit.min(owner.promised + self.turn_bytes);
        if asks {
            self.enter(flow);
        }
    }

    /// Number of flows with a request.
    pub fn asking(&self) -> usize {
        self.asking
    }

    /// The request of `flow`, in bytes.
    pub fn wants(&self, flow: FlowId) -> Option<u64> {
        self.flows.get(&flow)?.ask_bytes
    }

    /// The deficit that `flow` has saved up, in bytes.
    pub fn saved_bytes(&self, flow: FlowId) -> u64 {
        self.flows.get(&flow).map_or(0, |one| u64::try_from(one.deficit).unwrap_or(0))
    }

    /// The flow whose turn it is, and its request in bytes.
    pub fn head(&mut self) -> Option<(FlowId, u64)> {
        let flow = match self.going.first_key_value() {
            Some((_, &flow)) => flow,
            None => self.first()?,
        };
        Some((flow, self.flows.get(&flow)?.ask_bytes?))
    }

    /// Counts a grant of `bytes` to `flow`, which [`Scheduler::head`] named, and ends its
    /// request. The flow requests again if it wants more.
    pub fn grant(&mut self, flow: FlowId, bytes: u64) {
        self.withdraw(flow);
        let Some(one) = self.flows.get_mut(&flow) else { return };
        let owner = self.users.get_mut(&one.user).expect("a flow's user is known");
        let bytes = signed(bytes);
        owner.promised -= one.promised();
        one.deficit = one.deficit.saturating_sub(bytes);
        one.given_bytes = one.given_bytes.saturating_add(bytes);
        one.turn = if one.deficit > 0 { one.turn.or(Some(self.place)) } else { None };
        owner.promised += one.promised();
        owner.deficit = owner.deficit.saturating_sub(bytes);
        owner.given_bytes = owner.given_bytes.saturating_add(bytes);
        self.given_bytes = self.given_bytes.saturating_add(bytes);
        one.left = Some(owner.given_bytes);
        owner.left = Some(self.given_bytes).filter(|_| owner.round.is_empty());
        self.place += 1;
        // A user without a deficit beyond begun turns lets the next user go first.
        if !owner.round.is_empty() && owner.deficit <= owner.promised {
            let user = one.user;
            self.round.remove(&owner.place);
            owner.place = (true, self.place);
            self.round.insert(owner.place, user);
            self.place += 1;
        }
    }

    /// The first flow that may begin a turn, in the order of the rounds. Users and flows before
    /// it without a deficit get their quantum and go to the end.
    fn first(&mut self) -> Option<FlowId> {
        let user = loop {
            let (&place, &user) = self.round.first_key_value()?;
            let owner = self.users.get_mut(&user)?;
            if begins(&mut owner.deficit, owner.promised, self.quantum_bytes) {
                break user;
            }
            self.round.remove(&place);
            owner.place = (true, self.place);
            self.round.insert(owner.place, user);
            self.place += 1;
        };
        let owner = self.users.get_mut(&user)?;
        loop {
            let (&place, &flow) = owner.round.first_key_value()?;
            let one = self.flows.get_mut(&flow)?;
            let turn_bytes =
                if one.given_bytes < self.turn_bytes { self.turn_bytes } else { self.quantum_bytes };
            if begins(&mut one.deficit, 0, turn_bytes) {
                return Some(flow);
            }
            owner.round.remove(&place);
            one.place = (true, self.place);
            owner.round.insert(one.place, flow);
            self.place += 1;
        }
    }

    /// Gives a flow that requests a grant its place. The flow waited for earlier grants to arrive
    /// before it requested again. Its share of the bytes that others were granted meanwhile is
    /// added to its deficit. The same holds for its user if no other flow of the user waited.
    fn enter(&mut self, flow: FlowId) {
        let one = self.flows.get_mut(&flow).expect("the caller has found it");
        if let Some(turn) = one.turn {
            self.going.insert(turn, flow);
            return;
        }
        let owner = self.users.get_mut(&one.user).expect("a flow's user is known");
        let saved = |given: i64, left: Option<i64>, others: usize| {
            left.map_or(0, |left| (given - left) / (others as i64 + 1))
        };
        if owner.round.is_empty() {
            let saved = saved(self.given_bytes, owner.left.take(), self.round.len());
            owner.deficit = (owner.deficit + saved).min(owner.deficit.max(owner.promised + self.turn_bytes));
            owner.place = (owner.deficit <= owner.promised, self.place);
            self.round.insert(owner.place, one.user);
        }
        let saved = saved(owner.given_bytes, one.left.take(), owner.round.len());
        one.deficit = (one.deficit + saved).min(one.deficit.max(self.turn_bytes));
        one.place = (one.deficit <= 0, self.place);
        owner.round.insert(one.place, flow);
        self.place += 1;
    }

    /// Takes a flow's place away. Its user keeps a place if another flow of the user waits.
    fn leave(&mut self, flow: FlowId) {
        let one = self.flows.get(&flow).expect("the caller has found it");
        if let Some(turn) = one.turn {
            self.going.remove(&turn);
            return;
        }
        let owner = self.users.get_mut(&one.user).expect("a flow's user is known");
        owner.round.remove(&one.place);
        if owner.round.is_empty() {
            self.round.remove(&owner.place);
        }
    }
}

impl Flow {
    fn promised(&self) -> i64 {
        if self.turn.is_some() { self.deficit } else { 0 }
    }
}

/// Adds a turn to a deficit that is used up. Returns whether a turn can begin: who owes more than
/// a turn lets the next go first.
fn begins(deficit: &mut i64, promised: i64, turn_bytes: i64) -> bool {
    if *deficit <= promised {
        *deficit += turn_bytes;
    }
    *deficit > promised
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TURN: u64 = 15_000;

    fn flow(number: u64) -> FlowId {
        FlowId::new(number)
    }

    /// Bytes that each user got after `grants`. `flows` are (user, flow, bytes of each request),
    /// and each flow requests again at once.
    fn shares(flows: &[(u64, u64, u64)], grants: usize) -> BTreeMap<u64, u64> {
        let mut scheduler = Scheduler::new(TURN);
        let mut got: BTreeMap<u64, u64> = flows.iter().map(|&(user, ..)| (user, 0)).collect();
        for &(user, number, bytes) in flows {
            scheduler.open(UserId(user), flow(number));
            scheduler.ask(flow(number), bytes);
        }
        for _ in 0..grants {
            let (next, bytes) = scheduler.head().expect("somebody asks");
            let &(user, ..) = flows.iter().find(|&&(_, number, _)| flow(number) == next).unwrap();
            *got.entry(user).or_default() += bytes;
            scheduler.grant(next, bytes);
            scheduler.ask(next, bytes);
        }
        got
    }

    #[test]
    fn a_user_with_200_flows_gets_what_a_user_with_one_gets() {
        let mut flows: Vec<_> = (0..200).map(|number| (1, number, 1448)).collect();
        flows.push((2, 1000, 1448));
        let got = shares(&flows, 4000);
        assert!(got[&1].abs_diff(got[&2]) <= 2 * TURN, "{got:?}");
    }

    #[test]
    fn an_object_that_has_begun_is_finished_before_another_begins() {
        let mut scheduler = Scheduler::new(TURN);
        let mut got = [0u64; 50];
        for number in 0..50 {
            scheduler.open(UserId(1), flow(number));
            scheduler.ask(flow(number), 3000);
        }
        while got.iter().sum::<u64>() < 600_000 {
            let (next, bytes) = scheduler.head().unwrap();
            scheduler.grant(next, bytes);
            let number = next.number() as usize;
            got[number] += bytes;
            let under_way = got.iter().filter(|&&bytes| bytes > 0 && bytes < 12_000).count();
            assert!(under_way <= 1, "{got:?}");
            if got[number] < 12_000 {
                scheduler.ask(next, 3000);
            } else {
                scheduler.rest(next);
            }
        }
    }

    /// A far server's turn would arrive a round trip later, together with later turns of near
    /// servers.
    #[test]
    fn long_transfers_go_a_grant_at_a_time() {
        let mut scheduler = Scheduler::new(TURN);
        scheduler.set_quantum(3000);
        for user in 0..3 {
            scheduler.open(UserId(user), flow(user));
            scheduler.ask(flow(user), 3000);
        }
        let mut next = || {
            let (next, bytes) = scheduler.head().unwrap();
            scheduler.grant(next, bytes);
            scheduler.ask(next, bytes);
            next.number()
        };
        let turns: Vec<u64> = (0..15).map(|_| next()).collect();
        assert_eq!(turns, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2], "as long as each may be an object");
        let mut after: Vec<u64> = (0..30).map(|_| next()).collect();
        assert!(after.windows(2).all(|pair| pair[0] != pair[1]), "{after:?}");
        after.sort_unstable();
        assert!((0..3).all(|user| after.iter().filter(|&&next| next == user).count() == 10));
    }

    #[test]
    fn whoever_was_silent_has_saved_up_nothing() {
        let mut scheduler = Scheduler::new(TURN);
        for user in 1..=2 {
            scheduler.open(UserId(user), flow(user));
            scheduler.ask(flow(user), 1500);
        }
        scheduler.withdraw(flow(2));
        for _ in 0..1000 {
            let (next, bytes) = scheduler.head().unwrap();
            assert_eq!(next, flow(1));
            scheduler.grant(next, bytes);
            scheduler.ask(next, bytes);
        }
        scheduler.ask(flow(2), 1500);
        let mut got = [0u64; 3];
        for _ in 0..100 {
            let (next, bytes) = scheduler.head().unwrap();
            got[next.number() as usize] += bytes;
            scheduler.grant(next, bytes);
            scheduler.ask(next, bytes);
        }
        assert!(got[1].abs_diff(got[2]) <= 2 * TURN, "{got:?}");
    }

    proptest! {
        /// Users that always request are equal except for a turn and a request, in any order of
        /// requests and for any size.
        #[test]
        fn users_are_equal(
            mut flows in proptest::collection::vec((0u64..6, 1u64..20_000), 2..40),
            rounds in 20usize..60,
        ) {
            flows.sort_by_key(|&(user, bytes)| (bytes, user));
            let flows: Vec<_> =
                flows.into_iter().enumerate().map(|(number, (user, bytes))| (user, number as u64, bytes)).collect();
            let got = shares(&flows, rounds * flows.len() * 10);
            let largest = flows.iter().map(|&(.., bytes)| bytes).max().unwrap();
            let (least, most) = (got.values().min().unwrap(), got.values().max().unwrap());
            prop_assert!(most - least <= 3 * TURN + 2 * largest, "{got:?} of {flows:?}");
        }

        /// After any steps: exactly the flows with a request are found, and nothing is left
        /// behind.
        #[test]
        fn the_books_agree(steps in proptest::collection::vec((0u8..6, 0u64..12, 1u64..30_000), 1..300)) {
            let mut scheduler = Scheduler::new(TURN);
            let mut asks: BTreeMap<FlowId, u64> = BTreeMap::new();
            let mut open = std::collections::BTreeSet::new();
            for (step, number, bytes) in steps {
                let one = flow(number);
                match step {
                    0 => { scheduler.open(UserId(number % 4), one); if open.insert(one) { asks.remove(&one); } }
                    1 => { scheduler.close(one); open.remove(&one); asks.remove(&one); }
                    2 => { scheduler.withdraw(one); asks.remove(&one); }
                    3 => scheduler.rest(one),
                    4 => { scheduler.ask(one, bytes); if open.contains(&one) { asks.insert(one, bytes); } }
                    _ => if let Some((next, bytes)) = scheduler.head() {
                        prop_assert_eq!(asks.remove(&next), Some(bytes));
                        scheduler.grant(next, bytes);
                    },
                }
                prop_assert_eq!(scheduler.asking(), asks.len());
                prop_assert_eq!(scheduler.head().is_some(), !asks.is_empty());
                let promised: i64 = scheduler.users.values().map(|user| user.promised).sum();
                prop_assert_eq!(promised, scheduler.flows.values().map(Flow::promised).sum::<i64>());
            }
            for number in 0..12 {
                scheduler.close(flow(number));
            }
            prop_assert!(scheduler.users.is_empty() && scheduler.going.is_empty() && scheduler.round.is_empty());
        }
    }
}
