//! Chance from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded source of chance: the same seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// The source that `seed` stands for.
    pub fn new(seed: u64) -> Self {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number in [0, 1), uniformly.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        // The 53 bits that a double holds.
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Any 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
