//! State of a flow's application: counters and random generators. The scenario says what the
//! application does; `drive.rs` does it.

use crate::scenario::{Dist, Quantity};
use leeway_units::Duration;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::tcp::rto::LazyTimer;

/// State of one flow's application.
#[derive(Debug, Clone)]
pub struct App {
    /// Expires at the application's next turn.
    pub timer: LazyTimer,
    /// Turns taken, transfers completed, requests made or voice packets sent, by kind of
    /// application.
    pub turn: u32,
    /// Times that the present request was sent; 0 when no request is outstanding.
    pub tries: u32,
    /// Number of the last request that the server has answered.
    pub answered: u32,
    rng: Xoshiro256PlusPlus,
    /// Generator for the host's processing delay. It is separate, so that a delay does not change
    /// what the application draws.
    host: Xoshiro256PlusPlus,
}

impl App {
    /// An application whose random generators are seeded with `seed`.
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

    /// Draws the host's processing delay before it sends, between 0 and `most`.
    pub fn host_delay(&mut self, most: Duration) -> Duration {
        Duration::from_nanos((most.nanos() as f64 * unit(&mut self.host)) as u64)
    }
}

/// Draws a number in [0, 1).
pub fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Kinds of parts that have random generators of their own. A flow group is a kind too: its index.
pub mod part {
    /// Channels.
    pub const LINK: u64 = 1 << 32;
    /// Arrival processes; the index of the group is added.
    pub const ARRIVALS: u64 = 2 << 32;
    /// Loss models that an event sets during the run.
    pub const LOSS_EVENT: u64 = 3 << 32;
    /// Processing delay of one flow's sending host.
    pub const HOST: u64 = 4 << 32;
    /// Choices of one peer of a swarm.
    pub const PEER: u64 = 5 << 32;
    /// Applications of the flows between peers.
    pub const PEER_FLOW: u64 = 6 << 32;
}

/// Seed of part `index` of `kind` in a run with seed `seed`. Parts are statistically independent,
/// and a new part leaves the seeds of all others unchanged (SplitMix64, Steele et al. 2014).
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
