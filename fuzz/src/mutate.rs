//! Inputs near those that are known, from a seed alone.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes at which parsers turn: ends of ranges, separators, digits.
const TELLING: &[u8] =
    b"\0\x01\x04\x05\x06\x10\x11\x3f\x40\x45\x60\x7f\x80\xc0\xff\r\n\t \"'#%,-./:;=?@[]{}0189AZaz\\";

/// A source of inputs: the same seed and the same known inputs give the same inputs.
#[derive(Debug)]
pub struct Mutator<'a> {
    chance: Xoshiro256PlusPlus,
    known: &'a [Vec<u8>],
    longest_bytes: usize,
}

impl<'a> Mutator<'a> {
    /// One around `known` inputs; none of what it makes is longer than `longest_bytes`.
    pub fn new(seed: u64, known: &'a [Vec<u8>], longest_bytes: usize) -> Mutator<'a> {
        Mutator { chance: Xoshiro256PlusPlus::seed_from_u64(seed), known, longest_bytes }
    }

    /// The next input: a known one, or nothing, after one to eight changes.
    pub fn input(&mut self) -> Vec<u8> {
        let mut bytes = self.one_known().to_vec();
        for _ in 0..1 << self.below(4) {
            self.change(&mut bytes);
        }
        bytes.truncate(self.longest_bytes);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = at + self.below((bytes.len() - at).min(32) + 1);
        match self.below(9) {
            // One bit, one byte, a number one off.
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.telling(),
            2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add([1, 255][self.below(2)]),
            // Less, more, the same twice.
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            5 => {
                let more: Vec<u8> = (0..=self.below(8)).map(|_| self.telling()).collect();
                bytes.splice(at..at, more);
            }
            6 => {
                let piece = bytes[at..end].to_vec();
                let times = 1 + self.below(8);
                bytes.splice(at..at, piece.repeat(times));
            }
            // A piece of another input, in place of this one's or between.
            7 => {
                let other = self.one_known();
                let from = self.below(other.len() + 1);
                let to = from + self.below((other.len() - from).min(64) + 1);
                bytes.splice(at..[at, end][self.below(2)], other[from..to].iter().copied());
            }
            // The rest of another one.
            _ => {
                let other = self.one_known();
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }

    fn one_known(&mut self) -> &'a [u8] {
        let which = self.below(self.known.len() + 1);
        self.known.get(which).map_or(&[], Vec::as_slice)
    }

    fn telling(&mut self) -> u8 {
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => self.below(256) as u8,
        }
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.chance.next_u64() % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_and_many_of_them() {
        let known = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"\x05\x01\x00".to_vec()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed, &known, 20);
            (0..500).map(|_| mutator.input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let different: std::collections::BTreeSet<_> = inputs(1).into_iter().collect();
        assert!(different.len() > 300, "{} of 500", different.len());
        assert!(different.iter().all(|input| input.len() <= 20));
    }
}
