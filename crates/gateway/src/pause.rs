//! A pause that the owner asked for. It lasts as long as was asked for, even if the wall clock
//! jumps meanwhile.
//!
//! Two clocks measure it:
//! - The clock since the machine's boot (`CLOCK_BOOTTIME`) never jumps, and continues while the
//!   machine sleeps. It is used until the next boot, also over a restart of the gateway.
//! - After a boot, only the wall clock can tell how much of the pause remains. The rest is never
//!   longer than the whole pause, so that a machine that boots in 1970 shares again.

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Difference of the wall clock after which another end of the pause is shown. NTP slews the clock
/// by at most 0.5 ms a second.
const SLEW: SignedDuration = SignedDuration::from_secs(5);

/// A pause as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Beginning of the pause.
    pub since: Timestamp,
    /// End of the pause; none if the owner ends it.
    pub until: Option<Timestamp>,
}

/// Both clocks, read at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The wall clock.
    pub wall: Timestamp,
    /// Time since the machine's boot.
    pub boot: SignedDuration,
}

impl Reading {
    /// Reads both clocks now.
    pub fn now() -> Reading {
        let boot = clock_gettime(ClockId::Boottime);
        let boot = SignedDuration::new(boot.tv_sec, i32::try_from(boot.tv_nsec).unwrap_or(0));
        Reading { wall: Timestamp::now(), boot }
    }
}

/// A pause with its times on both clocks. This is the format of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    #[serde(flatten)]
    pause: Pause,
    /// `None` in a file that somebody wrote by hand: then the wall clock decides.
    #[serde(default)]
    boot: Option<Boot>,
}

/// Times of a pause on the clock since a boot, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Boot {
    /// The kernel's ID of that boot; empty if it is not known.
    id: String,
    since_ns: i64,
    until_ns: Option<i64>,
}

impl Held {
    /// A pause of `length` from `now` on, or without an end. If it changes `earlier`, it keeps its
    /// beginning.
    pub fn begin(earlier: Option<&Held>, length: Option<SignedDuration>, now: Reading, id: &str) -> Held {
        let until = length.map(|length| now.wall.saturating_add(length).unwrap_or(Timestamp::MAX));
        let until_ns = length.map(|length| nanoseconds(now.boot).saturating_add(nanoseconds(length)));
        let new = (now.wall, nanoseconds(now.boot));
        let (since, since_ns) =
            earlier.map_or(new, |held| (held.pause.since, nanoseconds(now.boot - held.lasted(now))));
        let boot = Some(Boot { id: id.to_owned(), since_ns, until_ns });
        Held { pause: Pause { since, until }, boot }
    }

    /// The pause after a restart. After another boot, its end is converted to the clock since that
    /// boot.
    pub fn restored(self, now: Reading, id: &str) -> Held {
        if self.boot.as_ref().is_some_and(|boot| !boot.id.is_empty() && boot.id == id) {
            return self;
        }
        let Pause { since, until } = self.pause;
        let rest = until.map(|until| until.duration_since(now.wall).min(until.duration_since(since)));
        let lasted = now.wall.duration_since(since).max(SignedDuration::ZERO);
        let ns = nanoseconds(now.boot);
        let until_ns = rest.map(|rest| ns.saturating_add(nanoseconds(rest)));
        let boot = Boot { id: id.to_owned(), since_ns: ns.saturating_sub(nanoseconds(lasted)), until_ns };
        Held { boot: Some(boot), ..self }
    }

    /// The pause as it is shown at `now`; `None` if it is over.
    pub fn at(&self, now: Reading) -> Option<Pause> {
        let until_ns = self.boot.as_ref().and_then(|boot| boot.until_ns);
        let (Some(until_ns), Some(told)) = (until_ns, self.pause.until) else { return Some(self.pause) };
        let rest = SignedDuration::from_nanos(until_ns.saturating_sub(nanoseconds(now.boot)));
        if rest <= SignedDuration::ZERO {
            return None;
        }
        let until = now.wall.saturating_add(rest).unwrap_or(Timestamp::MAX);
        let jumped = until.duration_since(told).abs() > SLEW;
        Some(Pause { until: Some(if jumped { until } else { told }), ..self.pause })
    }

    /// Time since the beginning of the pause.
    pub fn lasted(&self, now: Reading) -> SignedDuration {
        let since_ns = self.boot.as_ref().map_or(0, |boot| boot.since_ns);
        SignedDuration::from_nanos(nanoseconds(now.boot).saturating_sub(since_ns))
    }
}

/// The kernel's ID of this boot; empty if the kernel does not tell.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn nanoseconds(time: SignedDuration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(if time.is_negative() { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_795_000_000;
    const HOURS_2: SignedDuration = SignedDuration::from_hours(2);

    fn reading(wall_s: i64, boot_s: i64) -> Reading {
        Reading { wall: Timestamp::from_second(wall_s).unwrap(), boot: SignedDuration::from_secs(boot_s) }
    }

    fn begun() -> Held {
        Held::begin(None, Some(HOURS_2), reading(START, 1000), "first")
    }

    /// Seconds that remain on the wall clock.
    fn left(held: &Held, wall_s: i64, boot_s: i64) -> Option<i64> {
        held.at(reading(wall_s, boot_s)).map(|pause| pause.until.unwrap().as_second() - wall_s)
    }

    #[test]
    fn two_hours_are_two_hours_whatever_the_wall_clock_does() {
        let held = begun();
        for jump in [0, 3 * 3600, 31 * 86_400, -3 * 3600, -START] {
            let wall = START + jump;
            assert_eq!(left(&held, wall + 60, 1060), Some(7140), "a jump by {jump} s");
            assert_eq!(left(&held, wall + 7199, 8199), Some(1));
            assert_eq!(left(&held, wall + 7200, 8200), None);
            assert_eq!(held.lasted(reading(wall + 60, 1060)).as_secs(), 60);
        }
    }

    #[test]
    fn the_end_that_is_told_stays_while_the_clock_is_slewed() {
        let held = begun();
        let until = |wall_s, boot_s| held.at(reading(wall_s, boot_s)).unwrap().until.unwrap().as_second();
        assert_eq!(until(START + 3602, 4600), START + 7200);
        assert_eq!(until(START + 3620, 4600), START + 7220);
    }

    #[test]
    fn a_restart_of_the_gateway_changes_nothing() {
        let held: Held = serde_json::from_str(&serde_json::to_string(&begun()).unwrap()).unwrap();
        let again = held.clone().restored(reading(START + 86_400, 1600), "first");
        assert_eq!(again, held);
        assert_eq!(left(&again, START + 86_400, 1600), Some(6600));
    }

    #[test]
    fn after_a_boot_the_wall_clock_says_what_remains() {
        let after = |wall_s| begun().restored(reading(wall_s, 20), "second");
        assert_eq!(left(&after(START + 3600), START + 3600, 20), Some(3600));
        assert_eq!(left(&after(START + 3600), START + 3700, 120), Some(3500));
        assert_eq!(left(&after(START + 7200), START + 7200, 20), None);
        // The machine boots in 1970; NTP answers ten minutes later.
        assert_eq!(left(&after(30), 30, 20), Some(7200));
        assert_eq!(left(&after(30), START + 4000, 620), Some(6600));
        assert_eq!(left(&after(30), START + 9000, 7220), None);
        // The ID of the boot is not known, which is treated like another boot.
        let unknown = Held::begin(None, Some(HOURS_2), reading(START, 1000), "");
        assert_eq!(left(&unknown.restored(reading(START + 3600, 20), ""), START + 3600, 20), Some(3600));
    }

    #[test]
    fn a_file_with_the_wall_clock_alone_is_understood() {
        let since = Timestamp::from_second(START).unwrap();
        let text = format!("{{\"since\": \"{since}\", \"until\": \"{}\"}}", since + HOURS_2);
        let held = serde_json::from_str::<Held>(&text).unwrap().restored(reading(START + 600, 20), "first");
        assert_eq!(left(&held, START + 600, 20), Some(6600));
        let text = format!("{{\"since\": \"{since}\", \"until\": null}}");
        let held = serde_json::from_str::<Held>(&text).unwrap().restored(reading(START + 600, 20), "first");
        assert_eq!(held.at(reading(START * 2, 30)).unwrap().until, None);
    }

    #[test]
    fn another_end_keeps_the_beginning() {
        let longer = Held::begin(Some(&begun()), None, reading(START + 86_400, 1020), "first");
        assert_eq!(longer.lasted(reading(START, 1030)).as_secs(), 30);
        assert_eq!(longer.at(reading(START, 1_000_000)).unwrap().until, None);
    }
}
