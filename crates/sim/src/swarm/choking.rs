//! Choking: whom a peer serves. Tit-for-tat with an optimistic unchoke (Cohen 2003, 3.2), decided
//! by byte counts, without a clock.

use crate::app::unit;
use leeway_units::Duration;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Time between two choices of one peer (Cohen 2003, 3.2).
pub const ROUND: Duration = Duration::from_secs(10);
/// Rounds that an optimistic unchoke lasts: 30 s (Cohen 2003, 3.2).
pub const OPTIMISTIC_ROUNDS: u32 = 3;

/// What a peer knows of a neighbour at a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index among the peer's neighbours.
    pub peer: u32,
    /// Whether the neighbour is interested in a piece that the peer has.
    pub interested: bool,
    /// Bytes received from the neighbour since the last choice. If the peer has the whole file,
    /// bytes sent to it.
    pub bytes: u64,
}

/// The choices of one peer.
#[derive(Debug)]
pub struct Choker {
    /// Neighbours served at a time, the optimistic unchoke included.
    slots: usize,
    round: u32,
    optimistic: Option<u32>,
}

impl Choker {
    /// A peer that serves `slots` neighbours at a time.
    pub fn new(slots: u32) -> Self {
        Choker { slots: slots as usize, round: 0, optimistic: None }
    }

    /// Neighbours served at a time.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The neighbours to serve until the next choice: those with the most bytes, and one drawn by
    /// lot that keeps its place for [`OPTIMISTIC_ROUNDS`] (the optimistic unchoke). Ties are in
    /// random order, so that no index is preferred.
    pub fn choose(&mut self, candidates: &[Candidate], rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
        let mut wanting: Vec<Candidate> =
            candidates.iter().copied().filter(|other| other.interested).collect();
        shuffle(&mut wanting, rng);
        wanting.sort_by_key(|other| std::cmp::Reverse(other.bytes));
        let is_there = |peer: u32| wanting.iter().any(|other| other.peer == peer);
        let stays = self.optimistic.filter(|&peer| is_there(peer));
        let is_new_round = self.round.is_multiple_of(OPTIMISTIC_ROUNDS);
        self.round += 1;
        self.optimistic = stays.filter(|_| !is_new_round);

        let regular = self.slots.saturating_sub(1);
        let lucky = self.optimistic;
        let mut served: Vec<u32> = wanting
            .iter()
            .map(|other| other.peer)
            .filter(|&peer| Some(peer) != lucky)
            .take(regular)
            .collect();
        if lucky.is_none() {
            let rest: Vec<u32> =
                wanting.iter().map(|other| other.peer).filter(|peer| !served.contains(peer)).collect();
            self.optimistic = lot(rest.len(), rng).map(|at| rest[at]);
        }
        served.extend(self.optimistic.filter(|_| self.slots > 0));
        served
    }
}

/// A random index below `count`; `None` for 0.
fn lot(count: usize, rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
    (count > 0).then(|| (unit(rng) * count as f64) as usize)
}

/// Puts `list` into random order (Fisher and Yates).
pub fn shuffle<T>(list: &mut [T], rng: &mut Xoshiro256PlusPlus) {
    for last in (1..list.len()).rev() {
        if let Some(at) = lot(last + 1, rng) {
            list.swap(last, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;
    use std::collections::BTreeSet;

    fn others(bytes: &[u64]) -> Vec<Candidate> {
        let other = |(peer, &bytes): (usize, &u64)| Candidate { peer: peer as u32, interested: true, bytes };
        bytes.iter().enumerate().map(other).collect()
    }

    #[test]
    fn those_that_gave_most_are_served_and_one_by_lot() {
        let (mut choker, mut rng) = (Choker::new(4), Xoshiro256PlusPlus::seed_from_u64(1));
        let served = choker.choose(&others(&[5, 90, 0, 70, 0, 80, 0]), &mut rng);
        assert_eq!(served[..3], [1, 5, 3]);
        assert_eq!(served.len(), 4);
        assert!([0, 2, 4, 6].contains(&served[3]));
    }

    #[test]
    fn the_lot_lasts_three_rounds_and_reaches_everybody() {
        let (mut choker, mut rng) = (Choker::new(4), Xoshiro256PlusPlus::seed_from_u64(2));
        let candidates = others(&[90, 80, 70, 0, 0, 0]);
        let drawn: Vec<u32> = (0..180).map(|_| choker.choose(&candidates, &mut rng)[3]).collect();
        assert!(drawn.chunks(3).all(|round| round.iter().all(|peer| *peer == round[0])));
        assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([3, 4, 5]));
    }

    #[test]
    fn who_wants_nothing_is_not_served_and_its_place_is_drawn_again() {
        let (mut choker, mut rng) = (Choker::new(2), Xoshiro256PlusPlus::seed_from_u64(3));
        let mut candidates = others(&[9, 0, 0]);
        let lucky = choker.choose(&candidates, &mut rng)[1];
        candidates[lucky as usize].interested = false;
        let served = choker.choose(&candidates, &mut rng);
        assert!(!served.contains(&lucky));
        assert_eq!(served.len(), 2);
    }

    #[test]
    fn a_peer_without_slots_serves_nobody() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        assert!(Choker::new(0).choose(&others(&[1, 2]), &mut rng).is_empty());
    }
}
