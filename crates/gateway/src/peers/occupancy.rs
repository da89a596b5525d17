//! How much of the line's spare capacity is in use, from samples about one second apart.

use std::collections::BTreeMap;

/// Time constant of the load, in seconds: longer than the gap between two objects of a page.
const LOAD_S: f64 = 10.0;
/// Time constant of the rate that the home leaves, in seconds: the home's bursts are shorter.
const SPARE_S: f64 = 60.0;
/// From this part of the window on, the throughput counts as all that the home leaves.
const FULL: f64 = 0.8;
/// A user without a byte for this time, in seconds, counts as absent.
const ACTIVE_S: f64 = 15.0;

/// The load of a gateway, as it is reported to others.
#[derive(Debug, Default)]
pub struct Occupancy {
    at_s: Option<f64>,
    load: Option<f64>,
    spare_bps: Option<f64>,
    users: BTreeMap<u64, Activity>,
}

/// One user's sums of bytes, and until when the user counts as present.
#[derive(Debug, Clone, Copy)]
struct Activity {
    down_bytes: u64,
    up_bytes: u64,
    until_s: f64,
}

impl Occupancy {
    /// Adds a sample at `at_s`, in seconds of any clock. `users` has each user's sums of bytes
    /// down and up. `fill` is the part of the window of downloads that is in use, if there is a
    /// window.
    pub fn sample(&mut self, at_s: f64, users: impl Iterator<Item = (u64, [u64; 2])>, fill: Option<f64>) {
        let mut down_bytes = 0;
        for (user, [down, up]) in users {
            let new = Activity { down_bytes: down, up_bytes: up, until_s: f64::NEG_INFINITY };
            let known = self.users.entry(user).or_insert(new);
            if (known.down_bytes, known.up_bytes) != (down, up) {
                down_bytes += down.saturating_sub(known.down_bytes);
                *known = Activity { until_s: at_s + ACTIVE_S, ..new };
            }
        }
        let elapsed_s = self.at_s.map(|before| at_s - before);
        self.at_s = Some(at_s);
        let Some(elapsed_s) = elapsed_s.filter(|&elapsed_s| elapsed_s > 0.0) else { return };
        self.load = fill.map(|fill| {
            let old = self.load.unwrap_or(0.0);
            old + gain(elapsed_s, LOAD_S) * (fill.clamp(0.0, 1.0) - old)
        });
        let rate_bps = 8.0 * down_bytes as f64 / elapsed_s;
        self.spare_bps = match (self.spare_bps, fill) {
            (Some(old), Some(fill)) if fill >= FULL => {
                Some(old + gain(elapsed_s, SPARE_S) * (rate_bps - old))
            }
            (None, Some(fill)) if fill >= FULL && rate_bps > 0.0 => Some(rate_bps),
            (old, _) => old.map(|old| old.max(rate_bps)),
        };
    }

    /// Forgets users that the gateway has forgotten.
    pub fn retain(&mut self, known: impl Fn(u64) -> bool) {
        self.users.retain(|user, _| known(*user));
    }

    /// The part of the spare capacity that is in use, 0 to 1; `None` without a window.
    pub fn load(&self) -> Option<f64> {
        self.load
    }

    /// What the home leaves, in bit/s; `None` before the window was full once.
    pub fn spare_bps(&self) -> Option<f64> {
        self.spare_bps
    }

    /// Number of users who had traffic in the last 15 s.
    pub fn users(&self) -> u32 {
        let now_s = self.at_s.unwrap_or(0.0);
        self.users.values().filter(|user| user.until_s >= now_s).count() as u32
    }
}

/// The weight of a value that lasted `elapsed_s`, in an average with this time constant.
fn gain(elapsed_s: f64, constant_s: f64) -> f64 {
    1.0 - (-elapsed_s / constant_s).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who downloads 1 MB a second from second 0 on.
    fn busy(seconds: u64, fill: f64) -> Occupancy {
        let mut occupancy = Occupancy::default();
        for second in 0..=seconds {
            occupancy.sample(second as f64, [(1, [1_000_000 * second, 0])].into_iter(), Some(fill));
        }
        occupancy
    }

    #[test]
    fn a_full_window_tells_what_the_home_leaves() {
        let full = busy(60, 1.0);
        assert!(full.load().unwrap() > 0.99 && full.users() == 1);
        assert!((full.spare_bps().unwrap() - 8e6).abs() < 1.0);
        let half = busy(60, 0.5);
        assert!((half.load().unwrap() - 0.5).abs() < 0.01);
        assert_eq!(half.spare_bps(), None, "nobody has tried how much it is");
    }

    #[test]
    fn an_idle_line_keeps_what_is_known_of_it_and_has_no_users() {
        let mut occupancy = busy(60, 1.0);
        for second in 61..200 {
            occupancy.sample(second as f64, [(1, [60_000_000, 0])].into_iter(), Some(0.0));
        }
        assert!(occupancy.load().unwrap() < 0.001 && occupancy.users() == 0);
        assert!((occupancy.spare_bps().unwrap() - 8e6).abs() < 1.0);
    }

    #[test]
    fn less_that_the_home_leaves_is_noticed() {
        let mut occupancy = busy(60, 1.0);
        for second in 61..400 {
            let bytes = 60_000_000 + 100_000 * (second - 60);
            occupancy.sample(second as f64, [(1, [bytes, 0])].into_iter(), Some(1.0));
        }
        assert!(occupancy.spare_bps().unwrap() < 0.9e6);
    }

    #[test]
    fn without_a_window_there_is_no_load() {
        let mut occupancy = Occupancy::default();
        occupancy.sample(0.0, [(1, [0, 0])].into_iter(), None);
        occupancy.sample(1.0, [(1, [9, 0])].into_iter(), None);
        assert_eq!((occupancy.load(), occupancy.spare_bps(), occupancy.users()), (None, None, 1));
    }

    #[test]
    fn a_user_who_sends_only_is_present() {
        let mut occupancy = Occupancy::default();
        occupancy.sample(0.0, [(1, [0, 0]), (2, [5, 5])].into_iter(), Some(0.0));
        occupancy.sample(1.0, [(1, [0, 9]), (2, [5, 5])].into_iter(), Some(0.0));
        assert_eq!(occupancy.users(), 1);
        occupancy.retain(|user| user != 1);
        assert_eq!(occupancy.users(), 0);
    }
}
