//! Days and billing months of a time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// How often a quota begins anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Every {
    /// Each day, from midnight to midnight in this time zone: 23 to 25 hours.
    Day(TimeZone),
    /// Each month, from this day to the same day of the next month. In a shorter month, its last
    /// day counts.
    Month(TimeZone, i8),
    /// Once, for this period.
    Once(Period),
}

/// A time from `start` to just before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First instant of the period.
    pub start: Timestamp,
    /// First instant after the period.
    pub end: Timestamp,
}

impl Every {
    /// The period that contains `at`.
    pub fn period(&self, at: Timestamp) -> Period {
        match self {
            Every::Once(period) => *period,
            Every::Day(zone) => {
                let date = zone.to_datetime(at).date();
                Period { start: midnight(zone, date), end: midnight(zone, date.tomorrow().unwrap_or(date)) }
            }
            Every::Month(zone, day) => {
                let today = zone.to_datetime(at).date();
                let this = billing(today, *day);
                let (first, next) = if today >= this {
                    (this, billing(moved(today, 1), *day))
                } else {
                    (billing(moved(today, -1), *day), this)
                };
                Period { start: midnight(zone, first), end: midnight(zone, next) }
            }
        }
    }
}

impl Period {
    /// Whether the period contains `at`.
    pub fn contains(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }
}

/// The first day of the month, `months` later.
fn moved(date: Date, months: i32) -> Date {
    date.first_of_month().checked_add(months.months()).unwrap_or(date)
}

/// The billing day in the month of `date`.
fn billing(date: Date, day: i8) -> Date {
    date.first_of_month().with().day(day.min(date.days_in_month())).build().unwrap_or(date)
}

/// The first instant of a day. If summer time begins at midnight, that is 01:00.
fn midnight(zone: &TimeZone, date: Date) -> Timestamp {
    date.to_zoned_datetime(zone.clone())
        .and_then(|zoned| zoned.start_of_day())
        .map_or(Timestamp::MAX, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_has_23_to_25_hours() {
        let day = Every::Day(zone("Europe/Madrid"));
        let hours = |text| {
            let period = day.period(at(text));
            assert!(period.contains(at(text)));
            period.end.duration_since(period.start).as_hours()
        };
        assert_eq!(hours("2026-03-29T12:00:00Z"), 23);
        assert_eq!(hours("2026-10-25T12:00:00Z"), 25);
        assert_eq!(hours("2026-06-01T00:00:00Z"), 24);
        // In Cairo summer time begins at midnight, so the day begins at 01:00.
        let period = Every::Day(zone("Africa/Cairo")).period(at("2026-04-24T12:00:00Z"));
        assert_eq!(period.end.duration_since(period.start), SignedDuration::from_hours(23));
    }

    #[test]
    fn a_billing_month_begins_on_its_day_or_the_last_one() {
        let month = |day| Every::Month(TimeZone::UTC, day);
        let of = |day, text| {
            let period = month(day).period(at(text));
            [period.start, period.end].map(|end| end.strftime("%F").to_string())
        };
        assert_eq!(of(1, "2026-11-24T12:00:00Z"), ["2026-11-01", "2026-12-01"]);
        assert_eq!(of(25, "2026-11-24T12:00:00Z"), ["2026-10-25", "2026-11-25"]);
        assert_eq!(of(24, "2026-11-24T00:00:00Z"), ["2026-11-24", "2026-12-24"]);
        assert_eq!(of(31, "2027-02-27T12:00:00Z"), ["2027-01-31", "2027-02-28"]);
        assert_eq!(of(31, "2027-02-28T12:00:00Z"), ["2027-02-28", "2027-03-31"]);
        assert_eq!(of(31, "2028-02-28T12:00:00Z"), ["2028-01-31", "2028-02-29"]);
        assert_eq!(of(30, "2027-01-01T12:00:00Z"), ["2026-12-30", "2027-01-30"]);
    }

    #[test]
    fn periods_follow_each_other_without_a_gap() {
        for name in
            ["UTC", "Europe/Madrid", "America/Santiago", "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo"]
        {
            for every in [1, 15, 29, 30, 31]
                .map(|day| Every::Month(zone(name), day))
                .into_iter()
                .chain([Every::Day(zone(name))])
            {
                let mut now = at("2011-11-20T00:00:00Z");
                let mut before = every.period(now);
                for _ in 0..900 {
                    let period = every.period(now);
                    assert!(period.contains(now), "{name} {now} {period:?}");
                    assert!(period == before || period.start == before.end, "{name} {before:?} {period:?}");
                    before = period;
                    now += SignedDuration::from_mins(23 * 60 - 7);
                }
            }
        }
    }
}
