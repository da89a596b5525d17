//! Slots of five minutes, and the time of the accounts from two clocks.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Length of a slot in seconds, which is the sample of transit billing.
pub const SLOT_S: i64 = 300;

/// Difference between wall clock and steady clock that counts as a jump. NTP slews by at most 0.5
/// ms a second, and while it runs its steps are smaller than this.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// Time for which the wall clock must keep a new time before the time is accepted.
const SETTLE: Duration = Duration::from_secs(600);

/// Five minutes that begin at a multiple of 300 s since 1970 (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(i64);

impl Slot {
    /// The slot that contains `at`.
    pub fn of(at: Timestamp) -> Slot {
        Slot(at.as_second().div_euclid(SLOT_S) * SLOT_S)
    }

    /// Beginning of the slot.
    pub fn start(self) -> Timestamp {
        Timestamp::from_second(self.0).unwrap_or(Timestamp::MAX)
    }

    /// Beginning in seconds since 1970 (UTC).
    pub fn second(self) -> i64 {
        self.0
    }

    /// The next slot.
    pub fn next(self) -> Slot {
        Slot(self.0 + SLOT_S)
    }
}

/// Both clocks, read at one instant.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// A clock that never jumps: the time since some beginning.
    pub steady: Duration,
}

/// The time of the accounts: that of the wall clock, but a jump is accepted only after ten
/// minutes.
///
/// A machine without a battery for its clock boots in 1970, or at the time of its last shutdown. A
/// wrong time would count bytes in another month, where no cap sees them.
#[derive(Debug)]
pub struct Clock {
    anchor: Moment,
    jump: Option<Jump>,
    /// The clock was behind the ledger at the start, so any later time is better.
    behind: bool,
}

/// A time of the wall clock that differs from the expected one, and is not accepted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Size of the jump; positive into the future.
    pub by: SignedDuration,
    /// Steady time of the jump.
    pub since: Duration,
}

impl Clock {
    /// Starts at `now`, or at the newest slot of the ledger if the wall clock is behind it.
    pub fn new(now: Moment, newest: Option<Slot>) -> Clock {
        let behind = newest.filter(|slot| slot.start() > now.wall + TOLERANCE);
        let wall = behind.map_or(now.wall, Slot::start);
        Clock { anchor: Moment { wall, ..now }, jump: None, behind: behind.is_some() }
    }

    /// The present time of the accounts.
    pub fn at(&mut self, now: Moment) -> Timestamp {
        let passed = now.steady.saturating_sub(self.anchor.steady);
        let expected = self.anchor.wall.saturating_add(passed).unwrap_or(Timestamp::MAX);
        let by = now.wall.duration_since(expected);
        let forward = self.behind && by > SignedDuration::ZERO;
        if by.abs() <= TOLERANCE || forward || self.settled(by, now.steady) {
            *self = Clock { anchor: now, jump: None, behind: false };
            return now.wall;
        }
        if self.jump.is_none_or(|jump| (by - jump.by).abs() > TOLERANCE) {
            self.jump = Some(Jump { by, since: now.steady });
        }
        expected
    }

    /// The jump that is not accepted yet.
    pub fn jump(&self) -> Option<Jump> {
        self.jump
    }

    fn settled(&self, by: SignedDuration, steady: Duration) -> bool {
        self.jump.is_some_and(|jump| {
            (by - jump.by).abs() <= TOLERANCE && steady.saturating_sub(jump.since) >= SETTLE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_795_000_000;

    fn moment(wall_s: i64, steady_s: u64) -> Moment {
        Moment { wall: Timestamp::from_second(wall_s).unwrap(), steady: Duration::from_secs(steady_s) }
    }

    #[test]
    fn a_slot_is_five_minutes_of_utc() {
        let at = |second| Slot::of(Timestamp::from_second(second).unwrap()).second();
        assert_eq!([at(0), at(299), at(300), at(-1)], [0, 0, 300, -300]);
        assert_eq!(Slot::of(Timestamp::MAX).next().start(), Timestamp::MAX);
    }

    #[test]
    fn a_jump_and_back_is_never_believed() {
        for by in [86_400 * 365, -86_400 * 365 * 50, 3600, -3600] {
            let mut clock = Clock::new(moment(START, 0), None);
            for second in 1..500 {
                let off = if (100..400).contains(&second) { by } else { 0 };
                let at = clock.at(moment(START + second + off, second as u64));
                assert_eq!(at.as_second(), START + second);
                assert_eq!(clock.jump().is_some(), off != 0);
            }
        }
    }

    #[test]
    fn a_jump_that_stays_is_believed_after_ten_minutes() {
        let mut clock = Clock::new(moment(START, 0), None);
        let mut believed = None;
        for second in 1..2000 {
            let at = clock.at(moment(START - 7200 + second, second as u64));
            if believed.is_none() && at.as_second() == START - 7200 + second {
                believed = Some(second);
            }
        }
        assert_eq!(believed, Some(601));
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        let mut clock = Clock::new(moment(START, 0), None);
        for second in 1..100_000 {
            let wall = START + second + second / 2000;
            assert_eq!(clock.at(moment(wall, second as u64)).as_second(), wall);
        }
    }

    #[test]
    fn a_machine_that_boots_in_1970_goes_on_where_its_ledger_ended() {
        let newest = Slot::of(Timestamp::from_second(START).unwrap());
        let mut clock = Clock::new(moment(5, 0), Some(newest));
        for second in 0..300 {
            let at = clock.at(moment(5 + second, second as u64));
            assert_eq!(at, newest.start().saturating_add(SignedDuration::from_secs(second)).unwrap());
        }
        // NTP answers: three days have passed.
        let at = clock.at(moment(START + 3 * 86_400, 301));
        assert_eq!(at.as_second(), START + 3 * 86_400);
        assert_eq!(clock.jump(), None);
    }
}
