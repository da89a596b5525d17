//! The scheduler of downloads: one window, shared fairly among users, then among each user's flows.
//!
//! A flow asks for bytes before its server may send them: before its request, and before each read,
//! which opens the receive window again. Bytes that were granted and have not arrived are outstanding;
//! their sum stays within the window. Users and flows take turns by deficit round robin (Shreedhar and
//! Varghese 1995). A turn that was too long is paid back, so a user with 200 connections gets as much
//! as a user with one.
//!
//! A turn is as long as a web object. A flow in the middle of its turn comes before flows that wait for
//! theirs, and turns that began earlier come first. An object that has begun is therefore finished
//! before another goes on. With turns of one packet, a hundred objects would be on their way together
//! and none would end.
//!
//! There is no clock and no socket here: times are arguments, flows are numbers.

use std::collections::{BTreeMap, VecDeque};

/// Bytes of a turn: an initial window (RFC 6928), so that an object of ten packets takes one turn.
const QUANTUM_BYTES: i64 = 15_000;

/// Paced grants that are due within this time may come together: the caller looks every 2 ms at most.
const CREDIT_US: u64 = 4000;

/// Bytes that a flow's server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The flow's number.
    pub flow: u64,
    /// The bytes that the flow asked for.
    pub bytes: u64,
}

/// The window, and the flows that wait for grants.
#[derive(Debug)]
pub struct Admission {
    window_bytes: u64,
    srtt_us: u64,
    /// Grants are paced, at 1.25 windows a round trip (RFC 9002, 7.7).
    spread: bool,
    outstanding_bytes: u64,
    /// Earliest time of the next grant: after one larger than the window, and where grants are paced.
    not_before_us: u64,
    users: BTreeMap<u64, User>,
    /// Number of grants. A turn has the number of its first grant.
    grants: u64,
    /// User and flow of each turn that was begun and waits for its next grant, by the turn's number.
    going: BTreeMap<u64, (u64, u64)>,
    /// Users with a flow that waits for its turn.
    turns: VecDeque<u64>,
    asks: usize,
}

#[derive(Debug, Default)]
struct User {
    deficit: i64,
    /// Bytes that the begun turns of the user's flows may still take.
    promised: i64,
    flows: BTreeMap<u64, Flow>,
    /// Flows that wait for their turn.
    turns: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Flow {
    deficit: i64,
    /// The number of the flow's begun turn, if there is one; then the deficit is above zero.
    going: Option<u64>,
    ask_bytes: Option<u64>,
}

impl Admission {
    /// A scheduler with a window.
    pub fn new(window_bytes: u64) -> Admission {
        Admission {
            window_bytes,
            srtt_us: 0,
            spread: false,
            outstanding_bytes: 0,
            not_before_us: 0,
            users: BTreeMap::new(),
            grants: 0,
            going: BTreeMap::new(),
            turns: VecDeque::new(),
            asks: 0,
        }
    }

    /// Sets the law's window and the round-trip time. With `spread`, grants are paced; without, they come
    /// as soon as the window has room.
    pub fn set_window(&mut self, bytes: u64, srtt_us: u64, spread: bool) {
        self.window_bytes = bytes.max(1);
        self.srtt_us = srtt_us;
        self.spread = spread;
    }

    /// A flow begins.
    pub fn open(&mut self, user: u64, flow: u64) {
        self.users.entry(user).or_default().flows.entry(flow).or_default();
    }

    /// A flow ends, and its request with it.
    pub fn close(&mut self, user: u64, flow: u64) {
        let Some(entry) = self.users.get_mut(&user) else { return };
        let Some(one) = entry.flows.remove(&flow) else { return };
        entry.give_back(one.promised());
        if one.ask_bytes.is_some() {
            self.asks -= 1;
            if let Some(turn) = one.going {
                self.going.remove(&turn);
            } else {
                entry.turns.retain(|&waiting| waiting != flow);
                if entry.turns.is_empty() {
                    self.turns.retain(|&waiting| waiting != user);
                }
            }
        }
        if entry.flows.is_empty() {
            self.users.remove(&user);
        }
    }

    /// A flow asks for `bytes`. A flow has one request at a time.
    pub fn ask(&mut self, user: u64, flow: u64, bytes: u64) {
        let entry = self.users.entry(user).or_default();
        let one = entry.flows.entry(flow).or_default();
        if one.ask_bytes.replace(bytes).is_some() {
            return;
        }
        self.asks += 1;
        if let Some(turn) = one.going {
            self.going.insert(turn, (user, flow));
        } else {
            entry.wait(&mut self.turns, user, flow);
        }
    }

    /// A flow has all bytes that it needs: its turn ends, and the rest of the turn is not saved.
    pub fn rest(&mut self, user: u64, flow: u64) {
        let Some(entry) = self.users.get_mut(&user) else { return };
        let Some(one) = entry.flows.get_mut(&flow) else { return };
        let promised = one.promised();
        let turn = one.going.take();
        one.deficit = one.deficit.min(0);
        entry.give_back(promised);
        if turn.and_then(|turn| self.going.remove(&turn)).is_some() {
            entry.wait(&mut self.turns, user, flow);
        }
    }

    /// Bytes have arrived, or will not come any more.
    pub fn release(&mut self, bytes: u64) {
        self.outstanding_bytes = self.outstanding_bytes.saturating_sub(bytes);
    }

    /// The next permission, if the window has room for it. If nothing is outstanding there is room for one, however
    /// small the window; then the next one waits as long as the window needs for that many bytes.
    pub fn grant(&mut self, now_us: u64) -> Option<Grant> {
        if self.asks == 0 || now_us < self.not_before_us {
            return None;
        }
        let (user, flow) = self.next();
        let owner = self.users.get_mut(&user)?;
        let one = owner.flows.get_mut(&flow)?;
        let bytes = one.ask_bytes?;
        if self.outstanding_bytes > 0 && self.outstanding_bytes + bytes > self.window_bytes {
            return None;
        }
        let takes_us = u128::from(self.srtt_us) * u128::from(bytes) / u128::from(self.window_bytes);
        let takes_us = u64::try_from(takes_us).unwrap_or(u64::MAX).min(10_000_000);
        if bytes > self.window_bytes {
            self.not_before_us = now_us + takes_us;
        } else if self.spread {
            let due_us = self.not_before_us.max(now_us.saturating_sub(CREDIT_US));
            self.not_before_us = due_us + takes_us * 4 / 5;
        }
        self.outstanding_bytes += bytes;
        self.asks -= 1;
        one.ask_bytes = None;
        if one.going.is_some() {
            self.going.pop_first();
        } else {
            owner.turns.pop_front();
            self.turns.pop_front();
            if !owner.turns.is_empty() {
                self.turns.push_back(user);
            }
        }
        owner.promised -= one.promised();
        one.deficit -= bytes as i64;
        one.going = (one.deficit > 0).then(|| one.going.unwrap_or(self.grants));
        self.grants += 1;
        owner.promised += one.promised();
        owner.deficit -= bytes as i64;
        Some(Grant { flow, bytes })
    }

    /// When to ask again although nothing happens.
    pub fn deadline_us(&self) -> Option<u64> {
        (self.asks > 0 && self.not_before_us > 0).then_some(self.not_before_us)
    }

    /// The window.
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Granted and not arrived.
    pub fn outstanding_bytes(&self) -> u64 {
        self.outstanding_bytes
    }

    /// Flows that wait.
    pub fn waiting(&self) -> usize {
        self.asks
    }

    /// The user and the flow that are next; somebody waits.
    fn next(&mut self) -> (u64, u64) {
        if let Some((_, &next)) = self.going.first_key_value() {
            return next;
        }
        let user = first(&mut self.turns, |user| {
            let user = self.users.get_mut(&user).expect("a user with a turn is known");
            begins(&mut user.deficit, user.promised)
        });
        let owner = self.users.get_mut(&user).expect("a user with a turn is known");
        let flow = first(&mut owner.turns, |flow| {
            begins(&mut owner.flows.get_mut(&flow).expect("a flow with a turn is known").deficit, 0)
        });
        (user, flow)
    }
}

impl User {
    /// A flow waits for its turn, and the user for his if none did; `turns` are those of the users.
    fn wait(&mut self, turns: &mut VecDeque<u64>, user: u64, flow: u64) {
        if self.turns.is_empty() {
            turns.push_back(user);
        }
        self.turns.push_back(flow);
    }

    /// A flow needs no more of its turn. More than a turn of its own is not saved up.
    fn give_back(&mut self, bytes: i64) {
        self.promised -= bytes;
        self.deficit = self.deficit.min(self.promised + QUANTUM_BYTES);
    }
}

impl Flow {
    fn promised(&self) -> i64 {
        if self.going.is_some() { self.deficit } else { 0 }
    }
}

/// Brings the first to the front who may begin a turn.
fn first(turns: &mut VecDeque<u64>, mut may: impl FnMut(u64) -> bool) -> u64 {
    while !may(turns[0]) {
        turns.rotate_left(1);
    }
    turns[0]
}

/// Whoever has given away all it has, or owes more than a turn, lets the next go first.
fn begins(deficit: &mut i64, promised: i64) -> bool {
    if *deficit <= promised {
        *deficit += QUANTUM_BYTES;
    }
    *deficit > promised
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every flow asks again at once; what each got after so many grants that arrive at once.
    fn shares(flows: &[(u64, u64, u64)], grants: usize) -> BTreeMap<u64, u64> {
        let mut admission = Admission::new(6000);
        let mut got = BTreeMap::new();
        for &(user, flow, bytes) in flows {
            admission.ask(user, flow, bytes);
        }
        for _ in 0..grants {
            let grant = admission.grant(0).expect("there is room");
            let &(user, ..) = flows.iter().find(|&&(_, flow, _)| flow == grant.flow).unwrap();
            *got.entry(user).or_default() += grant.bytes;
            admission.release(grant.bytes);
            admission.ask(user, grant.flow, grant.bytes);
        }
        got
    }

    #[test]
    fn a_user_with_200_flows_gets_what_a_user_with_one_gets() {
        let mut flows: Vec<_> = (0..200).map(|flow| (1, flow, 1448)).collect();
        flows.push((2, 1000, 1448));
        let got = shares(&flows, 4000);
        assert!(got[&1].abs_diff(got[&2]) <= 2 * 15_000, "{got:?}");
    }

    #[test]
    fn bytes_are_shared_not_turns() {
        let got = shares(&[(1, 1, 5800), (2, 2, 500)], 4000);
        assert!(got[&1].abs_diff(got[&2]) <= 3 * 15_000, "{got:?}");
    }

    #[test]
    fn the_flows_of_a_user_share_alike() {
        let mut admission = Admission::new(3000);
        let mut got = [0; 4];
        (0..4).for_each(|flow| admission.ask(1, flow, 700 * (flow + 1)));
        for _ in 0..2000 {
            let Grant { flow, bytes } = admission.grant(0).unwrap();
            got[flow as usize] += bytes;
            admission.release(bytes);
            admission.ask(1, flow, bytes);
        }
        assert!(got.iter().max().unwrap() - got.iter().min().unwrap() <= 3 * 15_000, "{got:?}");
    }

    #[test]
    fn an_object_that_has_begun_is_finished_before_another_begins() {
        let mut admission = Admission::new(3000);
        (0..50).for_each(|flow| admission.ask(1, flow, 3000));
        let mut got = [0; 50];
        while got.iter().sum::<u64>() < 600_000 {
            let Grant { flow, bytes } = admission.grant(0).unwrap();
            admission.release(bytes);
            got[flow as usize] += bytes;
            assert!(got.iter().filter(|&&bytes| bytes > 0 && bytes < 12_000).count() <= 1, "{got:?}");
            if got[flow as usize] < 12_000 {
                admission.ask(1, flow, bytes);
            } else {
                admission.rest(1, flow);
            }
        }
    }

    #[test]
    fn of_those_in_the_middle_of_their_turn_who_began_first_goes_on_first() {
        let mut admission = Admission::new(9000);
        (0..3).for_each(|flow| admission.ask(1, flow, 3000));
        let begun: Vec<u64> = std::iter::from_fn(|| admission.grant(0)).map(|grant| grant.flow).collect();
        assert_eq!(begun, [0, 1, 2]);
        (0..3).rev().for_each(|flow| admission.ask(1, flow, 1500));
        admission.release(9000);
        assert_eq!(admission.grant(0).unwrap().flow, 0);
        admission.ask(1, 0, 1500);
        assert_eq!(admission.grant(0).unwrap().flow, 0);
    }

    /// A hundred users with ten flows each, every object 12,500 bytes, begun with 3000 and read by packets.
    #[test]
    fn many_users_with_many_flows_finish_what_they_begin() {
        let mut admission = Admission::new(9000);
        (0..100).for_each(|user| (0..10).for_each(|n| admission.ask(user, user * 10 + n, 3000)));
        let (mut got, mut done, mut sum) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new(), 0);
        let mut arriving = VecDeque::new();
        while sum < 100 * 13_000 * 3 {
            arriving.extend(std::iter::from_fn(|| admission.grant(0)));
            let Grant { flow, bytes } = arriving.pop_front().expect("something is under way");
            admission.release(bytes);
            sum += bytes;
            let has = got.entry(flow).or_default();
            *has += bytes;
            if *has < 12_500 {
                admission.ask(flow / 10, flow, 1500);
            } else {
                *has = 0;
                *done.entry(flow / 10).or_default() += 1;
                admission.rest(flow / 10, flow);
                admission.ask(flow / 10, flow, 3000);
            }
            let begun = got.values().filter(|&&bytes| bytes > 0).count();
            // A window of six packets.
            assert!(begun <= 7, "{begun} objects under way");
        }
        let [least, most] = [done.values().min(), done.values().max()].map(|n| *n.unwrap());
        assert!(done.len() == 100 && most - least <= 1, "{least} to {most} objects a user");
    }

    /// A hundred who come together, and a window that holds them all.
    #[test]
    fn permissions_are_spread_over_the_round_trip() {
        let mut admission = Admission::new(1);
        admission.set_window(100_000, 500_000, true);
        (0..100).for_each(|flow| admission.ask(1, flow, 1000));
        let times: Vec<u64> = (1000..1500)
            .map(|step| step * 2000)
            .flat_map(|now_us| {
                std::iter::from_fn(|| admission.grant(now_us)).map(move |_| now_us).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(times.len(), 100);
        // At once what 4 ms bring; the last one after 99 spaces of 4 ms but for those.
        assert_eq!((times[0], times[1]), (2_000_000, 2_000_000));
        assert!((2_385_000..=2_400_000).contains(&times[99]), "{times:?}");
        assert!(times.windows(2).skip(2).all(|pair| pair[1] - pair[0] == 4000), "{times:?}");
    }

    #[test]
    fn a_window_below_a_request_is_paced() {
        let mut admission = Admission::new(1000);
        admission.set_window(1000, 50_000, false);
        admission.ask(1, 1, 3000);
        admission.ask(1, 2, 3000);
        assert_eq!(admission.grant(0).unwrap().flow, 1);
        admission.release(3000);
        // 3000 bytes of 1000 in 50 ms take 150 ms.
        assert_eq!((admission.grant(149_000), admission.deadline_us()), (None, Some(150_000)));
        assert_eq!(admission.grant(150_000).unwrap().flow, 2);
    }

    #[test]
    fn a_flow_that_ends_leaves_its_place() {
        let mut admission = Admission::new(10_000);
        (1..=3).for_each(|flow| admission.ask(flow, flow, 1000));
        admission.close(2, 2);
        assert_eq!(admission.waiting(), 2);
        let order: Vec<u64> = std::iter::from_fn(|| admission.grant(0)).map(|grant| grant.flow).collect();
        assert_eq!(order, [1, 3]);
        admission.close(1, 1);
        admission.close(3, 3);
        assert!(admission.users.is_empty() && admission.turns.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask(u64, u64, u64),
        Close(u64, u64),
        Rest(u64, u64),
        Arrive,
        Window(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0u64..5, 0u64..4, 1u64..20_000).prop_map(|(user, flow, bytes)| Step::Ask(user, flow, bytes)),
            1 => (0u64..5, 0u64..4).prop_map(|(user, flow)| Step::Close(user, flow)),
            1 => (0u64..5, 0u64..4).prop_map(|(user, flow)| Step::Rest(user, flow)),
            4 => Just(Step::Arrive),
            1 => (0u64..30_000).prop_map(Step::Window),
        ];
        proptest::collection::vec(step, 1..200)
    }

    proptest! {
        /// Never more outstanding than the window or one grant; nobody waits while there is room; no grant without a
        /// question.
        #[test]
        fn the_window_holds_and_is_used(steps in steps()) {
            let mut admission = Admission::new(6000);
            let mut asked: BTreeMap<(u64, u64), u64> = BTreeMap::new();
            let mut arriving = VecDeque::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Ask(user, flow, bytes) => {
                        admission.ask(user, user * 10 + flow, bytes);
                        asked.insert((user, user * 10 + flow), bytes);
                    }
                    Step::Close(user, flow) => {
                        admission.close(user, user * 10 + flow);
                        asked.remove(&(user, user * 10 + flow));
                    }
                    Step::Rest(user, flow) => admission.rest(user, user * 10 + flow),
                    Step::Arrive => {
                        if let Some(bytes) = arriving.pop_front() {
                            admission.release(bytes);
                        }
                    }
                    Step::Window(bytes) => admission.set_window(bytes, 1000, false),
                }
                // Late enough for any pacing.
                let now_us = n as u64 * 1_000_000_000;
                while let Some(Grant { flow, bytes }) = admission.grant(now_us) {
                    prop_assert_eq!(asked.remove(&(flow / 10, flow)), Some(bytes));
                    prop_assert!(admission.outstanding_bytes() <= admission.window_bytes().max(bytes));
                    arriving.push_back(bytes);
                }
                prop_assert_eq!(admission.waiting(), asked.len());
                prop_assert_eq!(admission.outstanding_bytes(), arriving.iter().sum::<u64>());
                prop_assert!(asked.is_empty() || !arriving.is_empty() || admission.deadline_us() > Some(now_us));
            }
        }
    }
}
