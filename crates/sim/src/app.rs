//! What a flow's application keeps between its turns. What it does is in the scenario, when it does it in the
//! engine.

use crate::scenario::{Dist, Quantity};
use leeway_units::Duration;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::tcp::rto::LazyTimer;

/// State of one flow's application.
#[derive(Debug, Clone)]
pub struct App {
    /// Its next turn.
    pub timer: LazyTimer,
    /// Turns, transfers or talk packets so far.
    pub turn: u32,
    /// Times the present request was sent; 0: none is outstanding.
    pub tries: u32,
    /// Requests that the server has answered.
    pub answered: u32,
    rng: Xoshiro256PlusPlus,
    /// Of the host's processing delay, apart from what the application draws.
    host: Xoshiro256PlusPlus,
}

impl App {
    /// An application with randomness of its own.
    pub fn new(seed: u64) -> Self {
        App {
            timer: LazyTimer::new(),
            turn: 0,
            tries: 0,
            answered: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            host: Xoshiro256PlusPlus::seed_from_u64(part_seed(seed, part::HOST, 0)),
        }
    }

    /// Draws from `dist`.
    pub fn draw<T: Quantity>(&mut self, dist: &Dist<T>) -> T {
        dist.quantile(unit(&mut self.rng))
    }

    /// How long the host takes this time to send what it may, `most` at most.
    pub fn host_delay(&mut self, most: Duration) -> Duration {
        Duration::from_nanos((most.nanos() as f64 * unit(&mut self.host)) as u64)
    }
}

/// A number in [0, 1).
pub fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Kinds of parts that randomness is drawn for, beside the groups, whose kind is their index.
pub mod part {
    /// Channels.
    pub const LINK: u64 = 1 << 32;
    /// Arrival processes, plus the index of the group.
    pub const ARRIVALS: u64 = 2 << 32;
    /// Changes of loss during the run.
    pub const LOSS_EVENT: u64 = 3 << 32;
    /// Processing delay of a flow's sending host.
    pub const HOST: u64 = 4 << 32;
    /// What a peer of a swarm chooses.
    pub const PEER: u64 = 5 << 32;
    /// Hosts of connections between peers.
    pub const PEER_FLOW: u64 = 6 << 32;
}

/// The seed of part `index` of kind `kind` in a run seeded with `seed`: different parts are unrelated, and
/// adding a part does not change the others (SplitMix64, Steele et al. 2014).
pub fn part_seed(seed: u64, kind: u64, index: u64) -> u64 {
    let mut z = seed ^ kind.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for _ in 0..2 {
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
    }
    z
}
