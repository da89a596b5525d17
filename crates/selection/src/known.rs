//! The knowledge of a client about one gateway.

use crate::cost::{self, Terms};
use crate::gateway::{Gateway, Observation, Reason, Status};
use crate::policy::Policy;
use leeway_units::{Bytes, Duration, Time};

/// Whether a gateway can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No probe has ended yet.
    Unasked,
    /// It takes connections.
    Open,
    /// It takes no connections, until this time if it reported one.
    Paused(Option<Time>),
    /// The user's quota is used up.
    UsedUp,
    /// It did not answer.
    Failed,
}

/// The knowledge of a client about one gateway.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub gateway: Gateway,
    /// Rank in the client's own order (rendezvous hashing).
    pub rank: u64,
    pub standing: Standing,
    /// When it was last observed.
    pub seen: Time,
    /// When it has to be probed.
    pub due: Time,
    /// Failures in a row.
    pub failures: u32,
    /// Observations in a row in which it was better than the current gateway.
    pub better: u32,
    /// Averages: round trip, spare rate, load and users.
    round_trip_s: f64,
    spare_bps: Option<f64>,
    load: f64,
    users: f64,
    left: Option<Bytes>,
    /// Number of faults, and when it was updated.
    faults: (f64, Time),
    /// Highest rate that it delivered, in bit/s, and when.
    delivered: Option<(f64, Time)>,
    /// Rate of the client through it, in bit/s, and when it was measured.
    own: (f64, Time),
}

impl Known {
    pub fn new(gateway: Gateway, seed: u64) -> Known {
        Known {
            gateway,
            rank: rank(seed, gateway),
            standing: Standing::Unasked,
            seen: Time::ZERO,
            due: Time::NEVER,
            failures: 0,
            better: 0,
            round_trip_s: 0.0,
            spare_bps: None,
            load: 0.0,
            users: 0.0,
            left: None,
            faults: (0.0, Time::ZERO),
            delivered: None,
            own: (0.0, Time::ZERO),
        }
    }

    /// Takes in the result of a probe.
    pub fn observe(&mut self, policy: &Policy, now: Time, found: Observation) {
        let was = self.standing;
        match found {
            Observation::Failed => {
                self.standing = Standing::Failed;
                self.failures = self.failures.saturating_add(1);
            }
            Observation::Answered { round_trip, status } => {
                self.failures = 0;
                self.standing = standing(&status);
                if self.standing == Standing::Open {
                    self.average(policy, now, round_trip, &status, was);
                }
            }
        }
        let is_fault = matches!(self.standing, Standing::Failed | Standing::Paused(_));
        if is_fault && matches!(was, Standing::Open) {
            self.faults = (self.faults_at(policy, now) + 1.0, now);
        }
        self.seen = now;
    }

    /// Updates the averages. The weight of the old values decays with their age.
    fn average(&mut self, policy: &Policy, now: Time, round_trip: Duration, status: &Status, was: Standing) {
        let gain = if was == Standing::Open {
            1.0 - (-now.since(self.seen).secs_f64() / policy.smoothing_s).exp()
        } else {
            1.0
        };
        let toward = |old: f64, new: f64| old + gain * (new - old);
        self.round_trip_s = toward(self.round_trip_s, round_trip.secs_f64());
        // Without a load but with users, the line counts as full. Without both, it counts as idle.
        let load = status.load.filter(|load| (0.0..=1.0).contains(load));
        let load = load.unwrap_or(if status.users.is_some() { 1.0 } else { 0.0 });
        self.load = toward(self.load, load);
        self.users = toward(self.users, f64::from(status.users.unwrap_or(0)));
        self.spare_bps = status.spare.map(|spare| {
            let spare = cost::bounded(spare.bits_per_sec() as f64);
            self.spare_bps.map_or(spare, |old| toward(old, spare))
        });
        self.left = status.left;
    }

    /// Records that the client got `bytes` in `busy`, the time in which it waited for data.
    pub fn used(&mut self, policy: &Policy, now: Time, bytes: Bytes, busy: Duration) {
        if busy.is_zero() {
            return;
        }
        let rate = cost::bounded(bytes.bits() as f64 / busy.secs_f64());
        self.own = (rate, now);
        if bytes.get() as f64 >= policy.delivered_bytes {
            let before = self.delivered_at(policy, now).unwrap_or(0.0);
            self.delivered = Some((rate.max(before), now));
        }
        self.left = self.left.map(|left| Bytes::new(left.get().saturating_sub(bytes.get())));
    }

    /// Seconds of a fetch at a rate of at most `useful_bps`; `None` if the gateway is not open.
    pub fn cost(&self, policy: &Policy, now: Time, is_current: bool, useful_bps: f64) -> Option<f64> {
        (self.standing == Standing::Open).then(|| {
            let rate_bps = self.rate(policy, now, is_current).min(useful_bps);
            let faults = self.faults_at(policy, now);
            cost::seconds(policy, Terms { round_trip_s: self.round_trip_s, rate_bps, faults })
        })
    }

    fn rate(&self, policy: &Policy, now: Time, is_current: bool) -> f64 {
        let delivered = self.delivered_at(policy, now);
        let promised = self.spare_bps.map(|spare| match is_current {
            true => cost::as_member(spare, self.load, self.users, self.own_at(policy, now)),
            false => cost::as_newcomer(spare, self.load, self.users),
        });
        let rate = match (promised, delivered) {
            (Some(promised), Some(delivered)) => promised.min(policy.believe * delivered),
            (Some(promised), None) => promised,
            (None, delivered) => delivered.unwrap_or(policy.unknown_bps),
        };
        self.left.map_or(rate, |left| rate.min(left.bits() as f64 / policy.horizon_s))
    }

    fn faults_at(&self, policy: &Policy, now: Time) -> f64 {
        self.faults.0 * decay(now.since(self.faults.1), policy.fault_s)
    }

    fn own_at(&self, policy: &Policy, now: Time) -> f64 {
        self.own.0 * decay(now.since(self.own.1), policy.smoothing_s)
    }

    /// Highest delivered rate. It counts in full for `delivered_s`, and not at all after that.
    pub fn delivered_at(&self, policy: &Policy, now: Time) -> Option<f64> {
        self.delivered.filter(|(_, at)| now.since(*at).secs_f64() <= policy.delivered_s).map(|(rate, _)| rate)
    }

    /// The reason for leaving this gateway.
    pub fn reason(&self) -> Reason {
        match self.standing {
            Standing::Paused(_) => Reason::Paused,
            Standing::UsedUp => Reason::UsedUp,
            Standing::Failed | Standing::Unasked | Standing::Open => Reason::Failed,
        }
    }
}

fn standing(status: &Status) -> Standing {
    match (status.open, status.left) {
        (false, _) => Standing::Paused(status.paused_until),
        (true, Some(Bytes::ZERO)) => Standing::UsedUp,
        (true, _) => Standing::Open,
    }
}

fn decay(age: Duration, constant_s: f64) -> f64 {
    (-age.secs_f64() / constant_s).exp()
}

/// Weight of a gateway for the client `seed`: rendezvous hashing (Thaler and Ravishankar 1998),
/// with the finaliser of SplitMix64. Each client has its own order, and adding or removing a
/// gateway does not change the order of the others.
fn rank(seed: u64, gateway: Gateway) -> u64 {
    let mix = |mut x: u64| {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ gateway.0)
}
