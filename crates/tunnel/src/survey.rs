//! Computes a server's [`Standing`] from its pause and its traffic.

use crate::roster::Paused;
use crate::standing::Standing;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// Interval at which the server computes it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which clients are told without a change, because a datagram can be lost.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Time constant of the average load, in seconds.
const SMOOTHING_S: f64 = 10.0;
/// A client counts as a user for this time after its last traffic.
const USER: Duration = Duration::from_secs(15);
/// Bytes between two computations that count as traffic: more than keep-alives alone.
const TRAFFIC_BYTES: u64 = 2000;

/// The server's state at the last computation. Times are passed in, relative to any start.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    looked: Option<Duration>,
    told: Option<(Duration, Standing)>,
    pause: Option<(Paused, Option<Duration>)>,
    /// For each client, its bytes and the time of its last traffic.
    clients: HashMap<u32, (u64, Option<Duration>)>,
    /// Average rate, in bytes per second.
    rate: f64,
}

impl Survey {
    /// Computes the standing at `now`, while the wall clock shows `wall`. `clients` has each
    /// client's number and its bytes so far, in both directions. `rate_bps` is the rate of the
    /// line in each direction. Returns the standing to send, if one is due.
    pub fn look(
        &mut self,
        (now, wall): (Duration, SystemTime),
        pause: Option<Paused>,
        clients: impl IntoIterator<Item = (u32, u64)>,
        rate_bps: Option<u64>,
    ) -> Option<Standing> {
        let users = self.count(now, clients);
        let rate_kbps = rate_bps.map(|bps| u32::try_from((bps / 1000).max(1)).unwrap_or(u32::MAX));
        // Traffic for a client arrives and leaves by the same line, so each direction carries
        // both.
        let load = rate_kbps.map_or(0.0, |kbps| 8.0 * self.rate / (1000.0 * f64::from(kbps)));
        let load_permille = (1000.0 * load.clamp(0.0, 1.0)).round() as u16;
        let new = Standing { paused_s: self.paused_s(now, wall, pause), users, rate_kbps, load_permille };
        let due = self.told.is_none_or(|(at, before)| {
            now.saturating_sub(at) >= TELL_EVERY || ends_elsewhere(before.paused_s, new.paused_s)
        });
        due.then(|| self.told = Some((now, new)))?;
        Some(new)
    }

    fn count(&mut self, now: Duration, clients: impl IntoIterator<Item = (u32, u64)>) -> u16 {
        let mut fresh = HashMap::new();
        let mut moved = 0;
        for (client, bytes) in clients {
            let (before, traffic) = self.clients.get(&client).copied().unwrap_or((0, None));
            // A client that has connected again starts from 0.
            let more = bytes.checked_sub(before).unwrap_or(bytes);
            moved += more;
            fresh.insert(client, (bytes, if more >= TRAFFIC_BYTES { Some(now) } else { traffic }));
        }
        self.clients = fresh;
        if let Some(passed) = self.looked.map(|at| now.saturating_sub(at).as_secs_f64()).filter(|&s| s > 0.0)
        {
            let part = 1.0 - (-passed / SMOOTHING_S).exp();
            self.rate += part * (moved as f64 / passed - self.rate);
        }
        self.looked = Some(now);
        let user = |&&(_, traffic): &&(u64, Option<Duration>)| {
            traffic.is_some_and(|at| now.saturating_sub(at) <= USER)
        };
        u16::try_from(self.clients.values().filter(user).count()).unwrap_or(u16::MAX)
    }

    /// Seconds left of the pause. The wall clock counts only when a pause is first seen, so that a
    /// pause of an hour lasts an hour although the clock jumps.
    fn paused_s(&mut self, now: Duration, wall: SystemTime, pause: Option<Paused>) -> Option<u32> {
        if self.pause.map(|(known, _)| known) != pause {
            let left = |until: SystemTime| until.duration_since(wall).unwrap_or_default();
            self.pause = pause.map(|pause| (pause, pause.until.map(|until| now + left(until))));
        }
        match self.pause? {
            (_, None) => Some(Standing::OPEN_END),
            (_, Some(until)) => {
                let left = until.checked_sub(now).filter(|left| !left.is_zero())?;
                Some(
                    u32::try_from(left.as_secs() + 1)
                        .unwrap_or(Standing::OPEN_END)
                        .min(Standing::OPEN_END - 1),
                )
            }
        }
    }
}

/// Whether a pause started, ended or got another end.
fn ends_elsewhere(before: Option<u32>, new: Option<u32>) -> bool {
    match (before, new) {
        (Some(before), Some(new)) => {
            new > before || new.saturating_add(TELL_EVERY.as_secs() as u32 + 2) < before
        }
        _ => before != new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const WALL_S: u64 = 1_795_000_000;

    fn at(second: u64) -> (Duration, SystemTime) {
        (Duration::from_secs(second), UNIX_EPOCH + Duration::from_secs(WALL_S + second))
    }

    fn until(second: u64) -> Option<Paused> {
        Some(Paused { until: Some(at(second).1) })
    }

    #[test]
    fn clients_are_told_at_once_of_a_pause_and_else_every_five_seconds() {
        let mut survey = Survey::default();
        let mut told = Vec::new();
        for second in 0..20 {
            let pause = until(100).filter(|_| (7..12).contains(&second));
            told.extend(survey.look(at(second), pause, [], None).map(|new| (second, new.paused_s)));
        }
        assert_eq!(told, [(0, None), (5, None), (7, Some(94)), (12, None), (17, None)]);
        // A pause with a new end.
        assert!(survey.look(at(20), until(100), [], None).is_some());
        assert_eq!(survey.look(at(21), until(100), [], None), None);
        assert_eq!(survey.look(at(22), until(60), [], None).unwrap().paused_s, Some(39));
        assert_eq!(survey.look(at(23), until(500), [], None).unwrap().paused_s, Some(478));
        let open = Some(Paused { until: None });
        assert_eq!(survey.look(at(24), open, [], None).unwrap().paused_s, Some(Standing::OPEN_END));
        assert_eq!(survey.look(at(25), open, [], None), None);
        assert_eq!(survey.look(at(26), None, [], None).unwrap().paused_s, None);
    }

    #[test]
    fn a_pause_ends_in_time_whatever_the_wall_clock_does() {
        for jump in [-3600, 0, 3600] {
            let mut survey = Survey::default();
            let ends = |survey: &mut Survey, second: u64| {
                let (now, wall) = at(second);
                let wall = if second < 10 {
                    wall
                } else {
                    UNIX_EPOCH + Duration::from_secs((WALL_S as i64 + jump) as u64)
                };
                survey.paused_s(now, wall, until(60)).is_none()
            };
            let ended = (0..100).find(|&second| ends(&mut survey, second));
            assert_eq!(ended, Some(60), "a jump by {jump} s");
        }
    }

    #[test]
    fn the_load_is_the_used_part_of_the_line() {
        let mut survey = Survey::default();
        let rate = Some(8_000_000);
        let mut last = Standing::default();
        for second in 0..=60 {
            // One client with 500 kB/s, and another with keep-alives only.
            let clients = [(1, second * 500_000), (2, second * 20)];
            last = survey.look(at(second), None, clients, rate).unwrap_or(last);
        }
        assert_eq!((last.users, last.rate_kbps), (1, Some(8000)));
        assert!((480..=500).contains(&last.load_permille), "{last:?}");
        // The client is gone. A line of unknown rate has no load.
        for second in 61..=130 {
            last = survey.look(at(second), None, [(2, second * 20)], rate).unwrap_or(last);
        }
        assert!(last.users == 0 && last.load_permille <= 1, "{last:?}");
        let unknown = Survey::default().look(at(0), None, [(1, 1 << 40)], None).unwrap();
        assert_eq!((unknown.rate_kbps, unknown.load_permille), (None, 0));
    }

    #[test]
    fn a_client_that_connects_anew_counts_from_nothing() {
        let mut survey = Survey::default();
        survey.look(at(0), None, [(1, 900_000_000)], Some(8_000_000));
        let told =
            (1..=5).filter_map(|second| survey.look(at(second), None, [(1, second * 1000)], Some(8_000_000)));
        assert!(told.last().unwrap().load_permille < 10);
    }
}
