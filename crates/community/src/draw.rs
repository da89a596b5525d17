//! Random numbers. Each part of a community has its own stream, so that a change in one part does
//! not change another.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The kinds of parts.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The places, and the lines.
    Town = 1,
    /// The home's own use of a line.
    Home,
    /// Failures and pauses of a gateway.
    Outage,
    /// Sessions of a user.
    User,
    /// The random choices of a client.
    Client,
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub fn new(seed: u64, part: Part, index: u64) -> Draw {
        let mixed = (seed ^ (part as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
        Draw(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Log-normal (method of Box and Muller).
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        median * (sigma * radius * (std::f64::consts::TAU * self.unit()).cos()).exp()
    }
}

/// How active people are at an hour of the day, 0 to 1: low at night, constant by day, with a peak
/// at 21 h.
pub fn of_the_day(hour: f64) -> f64 {
    const EACH_THIRD_HOUR: [f64; 9] = [0.45, 0.1, 0.12, 0.4, 0.5, 0.55, 0.75, 1.0, 0.45];
    let place = hour.rem_euclid(24.0) / 3.0;
    let at = place as usize;
    let part = place - at as f64;
    EACH_THIRD_HOUR[at] * (1.0 - part) + EACH_THIRD_HOUR[at + 1] * part
}
