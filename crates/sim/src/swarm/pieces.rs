//! Piece selection: which block a peer requests next. Rarest piece first, begun pieces before
//! others, endgame (Cohen 2003, 2.4).

use crate::app::unit;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A block: the index of its piece, and its index in the piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Index of the piece.
    pub piece: u32,
    /// Index in the piece, from 0.
    pub block: u32,
}

/// The file as pieces of equal blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Pieces of the file.
    pub pieces: u32,
    /// Blocks of a piece.
    pub blocks: u32,
}

/// A set of pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitfield {
    words: Vec<u64>,
    count: u32,
}

impl Bitfield {
    /// None of `pieces` pieces.
    pub fn empty(pieces: u32) -> Self {
        Bitfield { words: vec![0; pieces.div_ceil(64) as usize], count: 0 }
    }

    /// All of `pieces` pieces.
    pub fn full(pieces: u32) -> Self {
        let mut all = Bitfield::empty(pieces);
        (0..pieces).for_each(|piece| {
            all.insert(piece);
        });
        all
    }

    /// Whether `piece` is in the set.
    pub fn has(&self, piece: u32) -> bool {
        self.words[piece as usize / 64] >> (piece % 64) & 1 == 1
    }

    /// Adds `piece`. Returns whether it is new.
    pub fn insert(&mut self, piece: u32) -> bool {
        let new = !self.has(piece);
        self.words[piece as usize / 64] |= 1 << (piece % 64);
        self.count += u32::from(new);
        new
    }

    /// Number of pieces in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether `other` has a piece that this set lacks: whether the owner of this set is
    /// interested in the other peer.
    pub fn lacks_of(&self, other: &Bitfield) -> bool {
        self.words.iter().zip(&other.words).any(|(own, theirs)| !own & theirs != 0)
    }
}

/// What the arrival of a block means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The block was here before.
    Again,
    /// The block is new.
    Block,
    /// The block is new and completes its piece.
    Piece,
}

/// State of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// Requested from this many peers.
    Asked(u8),
    Here,
}

/// The pieces of one peer, its requests, and how rare each piece is among its neighbours.
#[derive(Debug)]
pub struct Picker {
    shape: Shape,
    have: Bitfield,
    /// Number of neighbours that have each piece.
    copies: Vec<u32>,
    /// Pieces with a block that is requested or here, in the order in which they were begun.
    begun: Vec<(u32, Vec<State>)>,
}

impl Picker {
    /// A peer without pieces.
    pub fn new(shape: Shape) -> Self {
        let copies = vec![0; shape.pieces as usize];
        Picker { shape, have: Bitfield::empty(shape.pieces), copies, begun: Vec::new() }
    }

    /// A peer with all pieces.
    pub fn seed(shape: Shape) -> Self {
        Picker { have: Bitfield::full(shape.pieces), ..Picker::new(shape) }
    }

    /// Complete pieces.
    pub fn have(&self) -> &Bitfield {
        &self.have
    }

    /// Whether the peer has all pieces.
    pub fn is_complete(&self) -> bool {
        self.have.count() == self.shape.pieces
    }

    /// A neighbour with `pieces` is connected.
    pub fn joins(&mut self, pieces: &Bitfield) {
        (0..self.shape.pieces).filter(|&piece| pieces.has(piece)).for_each(|piece| self.announced(piece));
    }

    /// A neighbour with `pieces` has left.
    pub fn leaves(&mut self, pieces: &Bitfield) {
        for piece in (0..self.shape.pieces).filter(|&piece| pieces.has(piece)) {
            self.copies[piece as usize] = self.copies[piece as usize].saturating_sub(1);
        }
    }

    /// A neighbour has received `piece`.
    pub fn announced(&mut self, piece: u32) {
        self.copies[piece as usize] += 1;
    }

    /// The block to request from a neighbour that has `theirs` and already owes the blocks
    /// `asked`. The block counts as requested.
    ///
    /// Begun pieces come first, because only whole pieces can be passed on. Then comes the rarest
    /// piece, ties by lot. When every missing block has been requested, a neighbour that owes none
    /// is asked for one of them as well (endgame). A second one at a time would mostly arrive
    /// twice.
    pub fn pick(
        &mut self,
        theirs: &Bitfield,
        asked: &[Block],
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<Block> {
        if let Some(block) = self.begun_block(theirs, |state, _| state == State::Missing) {
            return Some(block);
        }
        if let Some(piece) = self.rarest(theirs, rng) {
            let mut states = vec![State::Missing; self.shape.blocks as usize];
            states[0] = State::Asked(1);
            self.begun.push((piece, states));
            return Some(Block { piece, block: 0 });
        }
        if !asked.is_empty() || !self.is_endgame() {
            return None;
        }
        self.begun_block(theirs, |state, _| matches!(state, State::Asked(_)))
    }

    /// Whether blocks are missing, and each of them has been requested.
    pub fn is_endgame(&self) -> bool {
        if self.is_complete() {
            return false;
        }
        let missing = self.shape.pieces - self.have.count();
        let wanted = |states: &[State]| states.contains(&State::Missing);
        missing as usize == self.begun.len() && !self.begun.iter().any(|(_, states)| wanted(states))
    }

    /// The first block of a begun piece that the neighbour has and `is_right` accepts. It counts
    /// as requested once more.
    fn begun_block(&mut self, theirs: &Bitfield, is_right: impl Fn(State, Block) -> bool) -> Option<Block> {
        for (piece, states) in self.begun.iter_mut().filter(|(piece, _)| theirs.has(*piece)) {
            for (place, state) in states.iter_mut().enumerate() {
                let block = Block { piece: *piece, block: place as u32 };
                if is_right(*state, block) {
                    *state = match *state {
                        State::Asked(times) => State::Asked(times.saturating_add(1)),
                        _ => State::Asked(1),
                    };
                    return Some(block);
                }
            }
        }
        None
    }

    /// The rarest piece of `theirs` that is neither here nor begun.
    fn rarest(&self, theirs: &Bitfield, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let is_begun = |piece: u32| self.begun.iter().any(|(begun, _)| *begun == piece);
        let (mut found, mut least, mut ties) = (None, u32::MAX, 0u32);
        for piece in 0..self.shape.pieces {
            let copies = self.copies[piece as usize];
            if copies > least || !theirs.has(piece) || self.have.has(piece) || is_begun(piece) {
                continue;
            }
            ties = if copies < least { 1 } else { ties + 1 };
            least = copies;
            // Each of n equals is kept with probability 1/n (Vitter 1985, algorithm R).
            if ties == 1 || unit(rng) * f64::from(ties) < 1.0 {
                found = Some(piece);
            }
        }
        found
    }

    /// `block` has arrived. Returns what that means.
    pub fn arrived(&mut self, block: Block) -> Arrival {
        let begun = self.begun.iter().position(|(piece, _)| *piece == block.piece);
        let Some(at) = begun else { return Arrival::Again };
        let states = &mut self.begun[at].1;
        if std::mem::replace(&mut states[block.block as usize], State::Here) == State::Here {
            return Arrival::Again;
        }
        if states.iter().any(|state| *state != State::Here) {
            return Arrival::Block;
        }
        self.begun.remove(at);
        self.have.insert(block.piece);
        Arrival::Piece
    }

    /// A neighbour will not send `block`: it choked this peer, it left, or the block came from
    /// another.
    pub fn withdrawn(&mut self, block: Block) {
        let Some((_, states)) = self.begun.iter_mut().find(|(piece, _)| *piece == block.piece) else {
            return;
        };
        let state = &mut states[block.block as usize];
        *state = match *state {
            State::Asked(times) if times > 1 => State::Asked(times - 1),
            State::Asked(_) => State::Missing,
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    const SHAPE: Shape = Shape { pieces: 70, blocks: 2 };

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    fn only(pieces: &[u32]) -> Bitfield {
        let mut some = Bitfield::empty(SHAPE.pieces);
        pieces.iter().for_each(|&piece| {
            some.insert(piece);
        });
        some
    }

    #[test]
    fn interest_is_a_piece_that_is_missing() {
        assert!(only(&[1]).lacks_of(&only(&[1, 69])));
        assert!(!only(&[1, 69]).lacks_of(&only(&[69])));
        assert_eq!(Bitfield::full(SHAPE.pieces).count(), 70);
    }

    #[test]
    fn the_rarest_piece_is_asked_for_first_and_finished_before_another() {
        let (mut picker, mut rng) = (Picker::new(SHAPE), rng());
        picker.joins(&only(&[3, 68, 69]));
        picker.joins(&only(&[3, 69]));
        let theirs = only(&[3, 68, 69]);
        assert_eq!(picker.pick(&theirs, &[], &mut rng), Some(Block { piece: 68, block: 0 }));
        assert_eq!(picker.pick(&theirs, &[], &mut rng), Some(Block { piece: 68, block: 1 }));
        assert_eq!(picker.arrived(Block { piece: 68, block: 1 }), Arrival::Block);
        assert_eq!(picker.arrived(Block { piece: 68, block: 1 }), Arrival::Again);
        assert_eq!(picker.arrived(Block { piece: 68, block: 0 }), Arrival::Piece);
        assert_eq!(picker.arrived(Block { piece: 68, block: 0 }), Arrival::Again);
        assert!(picker.have().has(68));
    }

    #[test]
    fn equally_rare_pieces_are_chosen_by_lot() {
        let theirs = Bitfield::full(SHAPE.pieces);
        let first = |seed| {
            let mut picker = Picker::new(SHAPE);
            picker.joins(&theirs);
            picker.pick(&theirs, &[], &mut Xoshiro256PlusPlus::seed_from_u64(seed)).unwrap().piece
        };
        let chosen: std::collections::BTreeSet<u32> = (0..200).map(first).collect();
        assert!(chosen.len() > 50, "only {} of 70 pieces in 200 lots", chosen.len());
    }

    #[test]
    fn a_block_is_asked_of_a_second_peer_only_in_the_endgame() {
        let shape = Shape { pieces: 2, blocks: 1 };
        let (mut picker, mut rng) = (Picker::new(shape), rng());
        assert!(!picker.is_endgame());
        let (all, mut one) = (Bitfield::full(2), Bitfield::empty(2));
        one.insert(0);
        let first = picker.pick(&one, &[], &mut rng).unwrap();
        assert_eq!(picker.pick(&one, &[], &mut rng), None, "piece 1 is not asked for yet");
        let second = picker.pick(&all, &[], &mut rng).unwrap();
        assert_ne!(first.piece, second.piece);
        assert!(picker.is_endgame());
        assert_eq!(picker.pick(&one, &[first], &mut rng), None, "this peer was asked");
        assert_eq!(picker.pick(&all, &[second], &mut rng), None, "this one owes a block");
        assert_eq!(picker.pick(&all, &[], &mut rng), Some(first));
        picker.withdrawn(first);
        assert!(picker.is_endgame(), "the other peer still owes it");
        picker.withdrawn(first);
        assert!(!picker.is_endgame());
        assert_eq!(picker.pick(&all, &[second], &mut rng), Some(first));
        picker.arrived(first);
        picker.arrived(second);
        assert!(picker.is_complete());
    }
}
