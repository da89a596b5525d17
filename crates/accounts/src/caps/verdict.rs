//! The verdict of caps, and its text for the neighbour.

use super::Reason;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leeway_units::Rate;

/// What caps say to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No limit but the spare capacity of the line.
    Free,
    /// At most this rate.
    Slowed {
        /// The rate.
        rate: Rate,
        /// The cap that limits.
        reason: Reason,
    },
    /// Nothing may pass now.
    Paused {
        /// When the pause ends; none if it does not end by itself.
        until: Option<Timestamp>,
        /// The cap that limits.
        reason: Reason,
    },
}

impl Verdict {
    /// The stricter of two verdicts: the later end of a pause, or the lower rate.
    pub fn and(self, other: Verdict) -> Verdict {
        let later = |verdict: Verdict| match verdict {
            Verdict::Free => (0, Timestamp::MIN, 0),
            Verdict::Slowed { rate, .. } => (1, Timestamp::MIN, u64::MAX - rate.bits_per_sec()),
            Verdict::Paused { until, .. } => (2, until.unwrap_or(Timestamp::MAX), 0),
        };
        if later(other) > later(self) { other } else { self }
    }

    /// The verdict as a sentence for the neighbour, in the time zone of the line.
    pub fn words(&self, zone: &TimeZone) -> String {
        match self {
            Verdict::Free => "Free: as fast as the line allows.".into(),
            Verdict::Slowed { rate, reason } => format!("Slowed to {rate}: {}.", reason.words()),
            Verdict::Paused { until: Some(until), reason } => {
                let until = until.to_zoned_datetime(zone.clone()).strftime("%A %-d %B, %H:%M");
                format!("Paused until {until}: {}.", reason.words())
            }
            Verdict::Paused { until: None, reason } => format!("Paused: {}.", reason.words()),
        }
    }
}

impl Reason {
    /// The reason as part of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Month => {
                "the neighbours have used nearly all, or all, of their part of this month's volume"
            }
            Reason::Percentile => {
                "more traffic would raise the bill of the line, which depends on its busiest hours"
            }
            Reason::Hours => "the owner wants the line for the home in these hours",
            Reason::AllDaily => {
                "all neighbours together have used nearly all, or all, of what they may use today"
            }
            Reason::AllRate => "all neighbours together have a rate limit",
            Reason::UserDaily => "you have used nearly all, or all, of what you may use today",
            Reason::UserRate => "each neighbour has a rate limit",
            Reason::Voucher => "you have used nearly all, or all, of the data of your voucher",
            Reason::VoucherOver => "the days of your voucher are over",
            Reason::Store => "the accounts cannot be stored; the owner can see why",
        }
    }
}
