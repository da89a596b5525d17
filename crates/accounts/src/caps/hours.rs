//! Hours of the week in which neighbours are slowed or paused.

use super::Reason;
use super::bucket::{Bucket, later};
use super::config::{Day, HoursConfig};
use super::limiter::View;
use super::verdict::Verdict;
use crate::ledger::Direction;
use crate::time::Slot;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use leeway_units::Rate;

const DAY_MINUTES: u16 = 24 * 60;

/// The hours of a configuration.
#[derive(Debug, Clone)]
pub struct Hours {
    zone: TimeZone,
    rules: Vec<HoursConfig>,
    buckets: [Bucket; 2],
    /// The slot of the last call.
    slot: Option<Slot>,
    /// The present rule, and the next instant at which another rule may begin.
    now: (Rule, Timestamp),
}

/// What is allowed at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Free,
    Slow(Rate),
    Pause,
}

impl Hours {
    /// The hours of `rules` in a time zone.
    pub fn new(zone: TimeZone, rules: Vec<HoursConfig>, at: Timestamp) -> Hours {
        let bucket = Bucket::new(Rate::from_bits_per_sec(1), at);
        Hours {
            zone,
            rules,
            buckets: [bucket.clone(), bucket],
            slot: None,
            now: (Rule::Free, Timestamp::MIN),
        }
    }

    /// What may pass now, and the reason for the limit.
    pub fn view(&mut self, at: Timestamp, direction: Direction, wish: u64) -> View {
        let reason = Reason::Hours;
        // Checks the rule at the beginning of each slot, and at the next beginning or end of a
        // rule, which may be within a slot.
        if self.slot != Some(Slot::of(at)) || at >= self.now.1 {
            self.look(at);
        }
        match self.now.0 {
            Rule::Free => View { bytes: u64::MAX, again: at, verdict: Verdict::Free },
            Rule::Slow(_) => self.buckets[direction as usize].view(at, wish, reason),
            Rule::Pause => {
                let until = self.pause_ends(at);
                View { bytes: 0, again: until, verdict: Verdict::Paused { until: Some(until), reason } }
            }
        }
    }

    /// Takes bytes that `view` has offered.
    pub fn reserve(&mut self, direction: Direction, bytes: u64) {
        if let Rule::Slow(_) = self.now.0 {
            self.buckets[direction as usize].take(bytes);
        }
    }

    /// Gives back what was not used.
    pub fn settle(&mut self, direction: Direction, reserved: u64, used: u64) {
        if let Rule::Slow(_) = self.now.0 {
            self.buckets[direction as usize].put_back(reserved, used);
        }
    }

    fn look(&mut self, at: Timestamp) {
        let rule = self.rule(at);
        if let Rule::Slow(rate) = rule
            && self.now.0 != rule
        {
            let bucket = Bucket::new(rate, at);
            self.buckets = [bucket.clone(), bucket];
        }
        self.slot = Some(Slot::of(at));
        self.now = (rule, self.next_edge(at));
    }

    /// The strictest rule at `at`.
    fn rule(&self, at: Timestamp) -> Rule {
        let local = self.zone.to_datetime(at);
        let minute = local.hour() as u16 * 60 + local.minute() as u16;
        let (today, yesterday) = (day(local.weekday()), day(local.weekday().previous()));
        let holds = |rule: &&HoursConfig| {
            let over_midnight = rule.to <= rule.from;
            let begun =
                rule.days.contains(&today) && minute >= rule.from && (over_midnight || minute < rule.to);
            begun || (rule.days.contains(&yesterday) && over_midnight && minute < rule.to)
        };
        self.rules.iter().filter(holds).fold(Rule::Free, |strictest, rule| match (strictest, rule.rate) {
            (Rule::Pause, _) | (_, None) => Rule::Pause,
            (Rule::Slow(a), Some(b)) if a <= b => Rule::Slow(a),
            (_, Some(rate)) => Rule::Slow(rate),
        })
    }

    /// The end of a pause, at most eight days ahead.
    fn pause_ends(&self, at: Timestamp) -> Timestamp {
        let mut edge = at;
        for _ in 0..16 * self.rules.len().max(1) {
            edge = self.next_edge(edge);
            if self.rule(edge) != Rule::Pause || edge.duration_since(at) > SignedDuration::from_hours(192) {
                break;
            }
        }
        edge
    }

    /// The next beginning or end of a rule, or the next midnight.
    fn next_edge(&self, at: Timestamp) -> Timestamp {
        let today = self.zone.to_datetime(at).date();
        let minutes = self.rules.iter().flat_map(|rule| [rule.from, rule.to]).chain([DAY_MINUTES]);
        let edges = minutes.flat_map(|minute| {
            [0, 1].map(|days| self.instant(today.checked_add(days.days()).unwrap_or(today), minute))
        });
        edges.filter(|&edge| edge > at).min().unwrap_or_else(|| later(at, SignedDuration::from_hours(24)))
    }

    /// The instant of a minute of a day.
    fn instant(&self, date: Date, minute: u16) -> Timestamp {
        let (date, minute) = match minute {
            DAY_MINUTES => (date.tomorrow().unwrap_or(date), 0),
            minute => (date, minute),
        };
        let time = Time::new((minute / 60) as i8, (minute % 60) as i8, 0, 0).unwrap_or(Time::midnight());
        self.zone.to_timestamp(date.to_datetime(time)).unwrap_or(Timestamp::MAX)
    }
}

fn day(weekday: Weekday) -> Day {
    match weekday {
        Weekday::Monday => Day::Mon,
        Weekday::Tuesday => Day::Tue,
        Weekday::Wednesday => Day::Wed,
        Weekday::Thursday => Day::Thu,
        Weekday::Friday => Day::Fri,
        Weekday::Saturday => Day::Sat,
        Weekday::Sunday => Day::Sun,
    }
}
