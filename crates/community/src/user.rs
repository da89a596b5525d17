//! What a user wants, whatever it gets: sessions with transfers.

use crate::config::Community;
use crate::draw::{Draw, Part, of_the_day};

/// Sessions of a user in a day, and their mean length in seconds.
const SESSIONS_PER_DAY: f64 = 5.0;
const SESSION_S: f64 = 2400.0;
/// Wanted rate of a transfer, log-normal: median in bit/s and sigma.
const WANT_BPS: (f64, f64) = (6e6, 0.8);
const MOST_BPS: f64 = 50e6;
/// Mean of `of_the_day`.
const DAY_MEAN: f64 = 0.48;

/// What a user wants over time.
#[derive(Debug)]
pub struct User {
    /// Wanted rate in bit/s; 0 between transfers.
    pub want_bps: f64,
    pub is_here: bool,
    draw: Draw,
    /// Times at which the session, and then the transfer, begins or ends next.
    changes: f64,
    turns: f64,
}

impl User {
    pub fn new(seed: u64, index: usize) -> User {
        let mut draw = Draw::new(seed, Part::User, index as u64);
        let changes = next_session(&mut draw, 0.0);
        User { want_bps: 0.0, is_here: false, draw, changes, turns: f64::INFINITY }
    }

    /// A step at `now_s`. Returns true if a session has begun.
    pub fn step(&mut self, community: &Community, now_s: f64) -> bool {
        let mut begins = false;
        if now_s >= self.changes {
            self.is_here = !self.is_here;
            (self.changes, self.turns, self.want_bps) = match self.is_here {
                true => (now_s + self.draw.exponential(SESSION_S), now_s, 0.0),
                false => (next_session(&mut self.draw, now_s), f64::INFINITY, 0.0),
            };
            begins = self.is_here;
        }
        if now_s >= self.turns {
            let is_resting = self.want_bps == 0.0;
            let want = community.demand * self.draw.log_normal(WANT_BPS.0, WANT_BPS.1).min(MOST_BPS);
            self.want_bps = if is_resting { want } else { 0.0 };
            self.turns = now_s + self.draw.exponential(community.transfer_s);
        }
        begins
    }
}

/// The next event of a Poisson process whose rate follows the day, by thinning (Lewis and Shedler
/// 1979).
fn next_session(draw: &mut Draw, from_s: f64) -> f64 {
    let peak_per_s = SESSIONS_PER_DAY / DAY_MEAN / 86_400.0;
    let mut now_s = from_s;
    loop {
        now_s += draw.exponential(1.0 / peak_per_s);
        if draw.unit() < of_the_day(now_s / 3600.0) {
            return now_s;
        }
    }
}
