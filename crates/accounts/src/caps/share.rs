//! A volume that several gateways share. Each gateway has a share in advance, so it need not ask
//! before each byte.

use jiff::{SignedDuration, Timestamp};

/// Divisor of a volume: a gateway has a hundredth in advance. If the gateway fails, this part is
/// lost for the period.
const PART: u64 = 100;
/// Least bytes in advance. With less, the gateway would ask with every other packet.
const LEAST_BYTES: u64 = 64 * 1024;
/// A gateway gives its advance back if nobody has asked for it for this time.
const IDLE: SignedDuration = SignedDuration::from_secs(5);
/// If the volume is given out, ask again after this time: others may have given back their
/// advance.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// Time between two questions for a user whose volume is used up.
const PAUSED: SignedDuration = SignedDuration::from_secs(30);

/// How a volume is divided, in bytes since the beginning of its period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// What this gateway may use, including what it has used.
    pub own: u64,
    /// What the other gateways may use, including what they have used.
    pub others: u64,
}

/// A wish for another share, for [`crate::Store::take_share`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The user whose volume it is.
    pub user: String,
    /// Name of the volume: `daily` or `voucher`.
    pub cap: &'static str,
    /// Beginning of the period.
    pub start: Timestamp,
    /// End of the period.
    pub end: Timestamp,
    /// The volume, in bytes.
    pub limit: u64,
    /// Bytes that this gateway has used or reserved.
    pub used: u64,
    /// Bytes that it wants in advance; with 0 it gives its advance back.
    pub wish: u64,
}

/// The share of one volume in one period.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub share: Share,
    /// The beginning of the period; `None` before the first use.
    start: Option<Timestamp>,
    /// When somebody last wanted to move bytes.
    asked: Option<Timestamp>,
    /// When the store last said how the volume is divided.
    told: Option<Timestamp>,
}

impl Shared {
    /// Begins a new share if the period has changed.
    pub fn roll(&mut self, start: Timestamp) {
        if self.start != Some(start) {
            *self = Shared { start: Some(start), asked: self.asked, ..Shared::default() };
        }
    }

    /// Records that somebody wants to move bytes.
    pub fn ask(&mut self, at: Timestamp) {
        self.asked = Some(at);
    }

    /// Whether it is known if something may pass: this gateway has some of the volume in advance,
    /// or the store has just said how the volume is divided. `used` includes reserved bytes.
    pub fn is_told(&self, at: Timestamp, used: u64) -> bool {
        self.share.own > used || !past(at, self.told, AGAIN)
    }

    /// Records that nobody will want to move bytes any more.
    pub fn stop(&mut self) {
        self.asked = None;
    }

    /// The bytes that this gateway should have in advance; `None` if its share is right. `used`
    /// includes reserved bytes.
    pub fn wish(&mut self, at: Timestamp, limit: u64, used: u64) -> Option<u64> {
        let past = |then, time| past(at, then, time);
        let (Share { own, others }, part) = (self.share, part(limit));
        let held = own.saturating_sub(used);
        let given_out = own.saturating_add(others) >= limit;
        if !past(self.asked, IDLE) {
            let short = held < part / 2;
            let due = !given_out || past(self.told, AGAIN);
            return (short && due).then_some(part);
        }
        if held > 0 {
            // Nobody may use the advance while it is being given back.
            self.share.own = used;
            return Some(0);
        }
        // Others may have given back their advance, which would end a pause.
        (self.told.is_some() && given_out && used < limit && past(self.told, PAUSED)).then_some(0)
    }

    /// Sets how the volume is divided. If the store did not answer, the gateway continues with
    /// what was free at the last answer: sharing continues while the accounts are behind.
    pub fn set(&mut self, at: Timestamp, want: &Want, share: Option<Share>) {
        if self.start != Some(want.start) {
            return;
        }
        self.told = Some(at);
        self.share = share.unwrap_or_else(|| {
            let Share { own, others } = self.share;
            let free = want.limit.saturating_sub(others);
            Share { own: own.max(free.min(want.used.saturating_add(want.wish))), others }
        });
    }
}

/// Whether at least `time` has passed since `then`.
fn past(at: Timestamp, then: Option<Timestamp>, time: SignedDuration) -> bool {
    then.is_none_or(|then| at.duration_since(then).abs() >= time)
}

fn part(limit: u64) -> u64 {
    (limit / PART).max(LEAST_BYTES)
}
