//! A volume that several gateways share: each has a share of it in advance, so that none has to ask before
//! every byte.

use jiff::{SignedDuration, Timestamp};

/// The part of a volume that a gateway has in advance: what is lost of it for the period if the gateway is.
const PART: u64 = 100;
/// And at least this: less would be asked for with every other packet.
const LEAST_BYTES: u64 = 64 * 1024;
/// A gateway gives back what it has in advance if nobody has asked for it for this time.
const IDLE: SignedDuration = SignedDuration::from_secs(5);
/// Where all is given out, others may have given back meanwhile: asked again after this time.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// The same for a user whose volume is used up.
const PAUSED: SignedDuration = SignedDuration::from_secs(30);

/// How a volume is divided: bytes from the beginning of its period on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// What this gateway may use, with what it has used.
    pub own: u64,
    /// What the other gateways may use, with what they have used.
    pub others: u64,
}

/// A wish for another share, for [`crate::Store::take_share`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Whose volume.
    pub user: String,
    /// Which volume, in a word.
    pub cap: &'static str,
    /// When its period began.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// The volume.
    pub limit: u64,
    /// What this gateway has used, or reserved.
    pub used: u64,
    /// What it wants in advance; with 0 it gives back.
    pub wish: u64,
}

/// The share of one volume in one period.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub share: Share,
    /// The beginning of the period; none before the first look.
    start: Option<Timestamp>,
    /// When somebody wanted to move bytes.
    asked: Option<Timestamp>,
    /// When the store has said how it is divided.
    told: Option<Timestamp>,
}

impl Shared {
    /// Another period has another share.
    pub fn roll(&mut self, start: Timestamp) {
        if self.start != Some(start) {
            *self = Shared { start: Some(start), asked: self.asked, ..Shared::default() };
        }
    }

    /// Somebody wants to move bytes.
    pub fn ask(&mut self, at: Timestamp) {
        self.asked = Some(at);
    }

    /// Nobody will want to move bytes any more.
    pub fn stop(&mut self) {
        self.asked = None;
    }

    /// The bytes that this gateway should have in advance; none where its share is right. `used` includes
    /// reserved bytes.
    pub fn wish(&mut self, at: Timestamp, limit: u64, used: u64) -> Option<u64> {
        let past = |then: Option<Timestamp>, time: SignedDuration| {
            then.is_none_or(|then| at.duration_since(then).abs() >= time)
        };
        let (Share { own, others }, part) = (self.share, part(limit));
        let held = own.saturating_sub(used);
        let given_out = own.saturating_add(others) >= limit;
        if !past(self.asked, IDLE) {
            let short = held < part / 2;
            let due = !given_out || past(self.told, AGAIN);
            return (short && due).then_some(part);
        }
        if held > 0 {
            // Nobody may use it while it is given back.
            self.share.own = used;
            return Some(0);
        }
        // What others have given back ends a pause.
        (self.told.is_some() && given_out && used < limit && past(self.told, PAUSED)).then_some(0)
    }

    /// How it is divided now. Without an answer of the store the gateway goes on alone, with what was free when it
    /// heard last: the accounts are behind then, and sharing goes on.
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

fn part(limit: u64) -> u64 {
    (limit / PART).max(LEAST_BYTES)
}
