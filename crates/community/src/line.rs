//! A gateway: its line, its home's own use, its failures and pauses.

use crate::config::Community;
use crate::draw::{Draw, Part, of_the_day};
use leeway_selection::Status;
use leeway_units::{Rate, Time};

/// Mean time between two changes of the home's use of its line, in seconds.
const USE_S: f64 = 600.0;
/// Part of the time in which a home uses its line at the busiest hour.
const USED: f64 = 0.7;
/// Rate of a use, log-normal: median in bit/s (a video stream) and sigma.
const USE_BPS: (f64, f64) = (5e6, 1.0);
/// Part of the uses that take the whole line.
const WHOLE: f64 = 0.1;
/// Least part of a line for neighbours: `min_share_permille` of leeway-share.
const LEAST: f64 = 0.01;

/// The state of a gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Presence {
    Open,
    /// Paused until this time, in seconds. The gateway announces it.
    Paused(f64),
    Failed,
}

/// A gateway in a run.
#[derive(Debug)]
pub struct Line {
    pub rate_bps: f64,
    /// Rate that the home leaves, in bit/s.
    pub spare_bps: f64,
    pub presence: Presence,
    /// Users with traffic, and the sum of their rates in bit/s.
    pub users: u32,
    pub taken_bps: f64,
    home: Draw,
    outage: Draw,
    home_until: f64,
    /// Times of the next failure, of the next pause, and of the end of the present one, in
    /// seconds.
    fails: f64,
    pauses: f64,
    back: f64,
    /// Averages that the gateway reports: spare rate, load, users.
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

    /// A step at `now_s`. Returns true if the gateway has failed in this step.
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
        // An outage that would begin during another one is left out, for all schemes alike.
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

    /// Adds the present step to the averages that the gateway reports.
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

    /// The response to a probe; `None` if the gateway has failed.
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

    /// Rate that a newcomer can expect from the reported averages, in bit/s; `None` if the gateway
    /// is not open.
    pub fn newcomer_bps(&self) -> Option<f64> {
        let (spare, load, users) = self.said;
        (self.presence == Presence::Open).then(|| (spare * (1.0 - load)).max(spare / (users.round() + 1.0)))
    }

    /// Rate that neighbours can use, in bit/s.
    pub fn capacity_bps(&self) -> f64 {
        if self.presence == Presence::Open { self.spare_bps } else { 0.0 }
    }
}

/// The time of the next event of a Poisson process.
fn after(draw: &mut Draw, from_s: f64, per_day: f64) -> f64 {
    if per_day > 0.0 { from_s + draw.exponential(86_400.0 / per_day) } else { f64::INFINITY }
}

/// Max-min fair shares of `capacity` by progressive filling. `wants` has (index, wanted rate); its
/// order changes. Calls `give` with each index and its share.
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
