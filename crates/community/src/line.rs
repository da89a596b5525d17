//! A gateway: its line, its home's own use, and when it is not there.

use crate::config::Community;
use crate::draw::{Draw, Part, of_the_day};
use leeway_selection::Status;
use leeway_units::{Rate, Time};

/// Mean length of one use of the line by its home, and of the time between two looks at it, in seconds.
const USE_S: f64 = 600.0;
/// Part of the time in which a home uses its line at the busiest hour.
const USED: f64 = 0.7;
/// Rate of a use: log-normal. A stream of 5 Mbit/s is the median.
const USE_BPS: (f64, f64) = (5e6, 1.0);
/// Part of the uses that take the whole line.
const WHOLE: f64 = 0.1;
/// What neighbours get of a line at least: `min_share_permille` of leeway-share.
const LEAST: f64 = 0.01;

/// Whether a gateway is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Presence {
    Open,
    /// It says until when, in seconds.
    Paused(f64),
    Failed,
}

/// A gateway in a run.
#[derive(Debug)]
pub struct Line {
    pub rate_bps: f64,
    /// What the home leaves.
    pub spare_bps: f64,
    pub presence: Presence,
    /// Users with traffic, and what they take.
    pub users: u32,
    pub taken_bps: f64,
    home: Draw,
    outage: Draw,
    home_until: f64,
    /// When it fails, pauses, and is open again.
    fails: f64,
    pauses: f64,
    back: f64,
    /// What it says of itself: averages.
    said: (f64, f64, f64),
}

impl Line {
    pub fn new(community: &Community, seed: u64, index: usize, rate_bps: f64) -> Line {
        let mut outage = Draw::new(seed, Part::Outage, index as u64);
        let fails = after(&mut outage, 0.0, community.failures_per_day);
        let pauses = after(&mut outage, 0.0, community.pauses_per_day);
        Line {
            rate_bps,
            spare_bps: rate_bps,
            presence: Presence::Open,
            users: 0,
            taken_bps: 0.0,
            home: Draw::new(seed, Part::Home, index as u64),
            outage,
            home_until: 0.0,
            fails,
            pauses,
            back: 0.0,
            said: (rate_bps, 0.0, 0.0),
        }
    }

    /// The time is `now_s`; true if it has failed in this step.
    pub fn step(&mut self, community: &Community, now_s: f64) -> bool {
        if now_s >= self.home_until {
            self.home_until = now_s + self.home.exponential(USE_S);
            let used_bps = match self.home.unit() < USED * of_the_day(now_s / 3600.0) {
                true if self.home.unit() < WHOLE => self.rate_bps,
                true => self.home.log_normal(USE_BPS.0, USE_BPS.1),
                false => 0.0,
            };
            self.spare_bps = (self.rate_bps - used_bps).max(LEAST * self.rate_bps);
        }
        if self.presence != Presence::Open && now_s >= self.back {
            self.presence = Presence::Open;
        }
        // What would begin during another outage is left out, in the same way for all schemes.
        let mut has_failed = false;
        if now_s >= self.pauses {
            let length_s = self.outage.exponential(60.0 * community.pause_min);
            self.pauses = after(&mut self.outage, now_s + length_s, community.pauses_per_day);
            if self.presence == Presence::Open {
                (self.presence, self.back) = (Presence::Paused(now_s + length_s), now_s + length_s);
            }
        }
        if now_s >= self.fails {
            let length_s = self.outage.exponential(60.0 * community.failure_min);
            self.fails = after(&mut self.outage, now_s + length_s, community.failures_per_day);
            if self.presence == Presence::Open {
                (self.presence, self.back) = (Presence::Failed, now_s + length_s);
                has_failed = true;
            }
        }
        has_failed
    }

    /// What the step was is averaged into what the gateway says.
    pub fn note(&mut self, community: &Community) {
        let gain = 1.0 - (-community.step_s / community.status_s).exp();
        let load = if self.spare_bps > 0.0 { (self.taken_bps / self.spare_bps).min(1.0) } else { 1.0 };
        for (said, is) in [
            (&mut self.said.0, self.spare_bps),
            (&mut self.said.1, load),
            (&mut self.said.2, f64::from(self.users)),
        ] {
            *said += gain * (is - *said);
        }
    }

    /// What it answers to a probe; None if it has failed.
    pub fn status(&self) -> Option<Status> {
        let (spare, load, users) = self.said;
        match self.presence {
            Presence::Failed => None,
            Presence::Paused(until_s) => Some(Status::paused(Some(Time::from_nanos((until_s * 1e9) as u64)))),
            Presence::Open => Some(Status {
                load: Some(load),
                users: Some(users.round() as u32),
                spare: Some(Rate::from_bits_per_sec(spare as u64)),
                ..Status::open()
            }),
        }
    }

    /// What a newcomer could expect from what it says, in bit/s; None if it is not open.
    pub fn newcomer_bps(&self) -> Option<f64> {
        let (spare, load, users) = self.said;
        (self.presence == Presence::Open).then(|| (spare * (1.0 - load)).max(spare / (users.round() + 1.0)))
    }

    /// What neighbours can have.
    pub fn capacity_bps(&self) -> f64 {
        if self.presence == Presence::Open { self.spare_bps } else { 0.0 }
    }
}

/// The next event of a Poisson process.
fn after(draw: &mut Draw, from_s: f64, per_day: f64) -> f64 {
    if per_day > 0.0 { from_s + draw.exponential(86_400.0 / per_day) } else { f64::INFINITY }
}

/// Max-min fair shares of `capacity` for those who want `wants`: progressive filling. Changes the order of
/// `wants`, which are (index, rate wanted), and calls `give` with each index and its share.
pub fn share(capacity: f64, wants: &mut [(u32, f64)], mut give: impl FnMut(u32, f64)) {
    wants.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let (mut left, mut count) = (capacity, wants.len() as f64);
    for &mut (index, want) in wants {
        let got = want.min(left / count);
        left -= got;
        count -= 1.0;
        give(index, got);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_max_min_fair() {
        let mut got = [0.0; 4];
        share(10.0, &mut [(0, 1.0), (1, 8.0), (2, 2.0), (3, 9.0)], |index, share| {
            got[index as usize] = share
        });
        assert_eq!(got, [1.0, 3.5, 2.0, 3.5]);
        share(100.0, &mut [(0, 1.0), (1, 8.0)], |index, share| got[index as usize] = share);
        assert_eq!(got[..2], [1.0, 8.0]);
        share(0.0, &mut [(0, 1.0)], |index, share| got[index as usize] = share);
        assert_eq!(got[0], 0.0);
    }

    #[test]
    fn a_home_leaves_between_nothing_and_everything_and_less_in_the_evening() {
        let community = Community { failures_per_day: 0.0, pauses_per_day: 0.0, ..Community::default() };
        let mean = |from_h: f64| {
            let lines = (0..200).map(|index| {
                let mut line = Line::new(&community, 1, index, 10e6);
                line.step(&community, from_h * 3600.0);
                assert!((0.1e6..=10e6).contains(&line.spare_bps));
                assert_eq!(line.presence, Presence::Open);
                line.spare_bps
            });
            lines.sum::<f64>() / 200.0
        };
        assert!(mean(21.0) < 0.7 * mean(4.0), "{} at 21 h, {} at 4 h", mean(21.0), mean(4.0));
    }
}
