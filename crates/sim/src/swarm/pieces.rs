//! Which block a peer asks for next: rarest first, pieces that were begun before others, endgame
//! (Cohen 2003, 2.4).

use crate::app::unit;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A block, by the index of its piece and its place in the piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Index of the piece.
    pub piece: u32,
    /// Place in the piece, from 0.
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

    /// Whether `piece` is in it.
    pub fn has(&self, piece: u32) -> bool {
        self.words[piece as usize / 64] >> (piece % 64) & 1 == 1
    }

    /// Puts `piece` in; whether it is new.
    pub fn insert(&mut self, piece: u32) -> bool {
        let new = !self.has(piece);
        self.words[piece as usize / 64] |= 1 << (piece % 64);
        self.count += u32::from(new);
        new
    }

    /// Number of pieces in it.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether `other` has a piece that is not in it: whether its owner is interested in `other`'s.
    pub fn lacks_of(&self, other: &Bitfield) -> bool {
        self.words.iter().zip(&other.words).any(|(own, theirs)| !own & theirs != 0)
    }
}

/// What the arrival of a block comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It was here already.
    Again,
    /// It is new.
    Block,
    /// It is new and completes its piece.
    Piece,
}

/// How far a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// Asked of so many peers.
    Asked(u8),
    Here,
}

/// What one peer has and wants, and how rare each piece is among the peers it is connected to.
#[derive(Debug)]
pub struct Picker {
    shape: Shape,
    have: Bitfield,
    /// Connected peers that have the piece.
    copies: Vec<u32>,
    /// Pieces with a block that is asked for or here; in the order they were begun.
    begun: Vec<(u32, Vec<State>)>,
}

impl Picker {
    /// A peer that has nothing.
    pub fn new(shape: Shape) -> Self {
        let copies = vec![0; shape.pieces as usize];
        Picker { shape, have: Bitfield::empty(shape.pieces), copies, begun: Vec::new() }
    }

    /// A seed.
    pub fn seed(shape: Shape) -> Self {
        Picker { have: Bitfield::full(shape.pieces), ..Picker::new(shape) }
    }

    /// Complete pieces.
    pub fn have(&self) -> &Bitfield {
        &self.have
    }

    /// Whether every piece is here.
    pub fn is_complete(&self) -> bool {
        self.have.count() == self.shape.pieces
    }

    /// A peer that has `pieces` is connected.
    pub fn joins(&mut self, pieces: &Bitfield) {
        (0..self.shape.pieces).filter(|&piece| pieces.has(piece)).for_each(|piece| self.announced(piece));
    }

    /// A peer that has `pieces` has left.
    pub fn leaves(&mut self, pieces: &Bitfield) {
        for piece in (0..self.shape.pieces).filter(|&piece| pieces.has(piece)) {
            self.copies[piece as usize] = self.copies[piece as usize].saturating_sub(1);
        }
    }

    /// A connected peer has `piece` now.
    pub fn announced(&mut self, piece: u32) {
        self.copies[piece as usize] += 1;
    }

    /// The block to ask of a peer that has `theirs`, and that owes `asked` already; it counts as asked.
    ///
    /// A piece that was begun comes first: only whole pieces can be passed on. Then the rarest, ties by lot.
    /// When every missing block was asked of somebody, a peer that owes none is asked for one of them, too:
    /// endgame. (More than one at a time would come twice as a rule.)
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

    /// Whether blocks are missing, and every one was asked of somebody.
    pub fn is_endgame(&self) -> bool {
        if self.is_complete() {
            return false;
        }
        let missing = self.shape.pieces - self.have.count();
        let wanted = |states: &[State]| states.contains(&State::Missing);
        missing as usize == self.begun.len() && !self.begun.iter().any(|(_, states)| wanted(states))
    }

    /// The first block of a begun piece that the peer has and `is_right` likes; it counts as asked once more.
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

    /// `block` has arrived.
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

    /// A peer that was asked for `block` will not send it: choked, gone, or the block came from elsewhere.
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
