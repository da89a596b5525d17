//! Receivers of dropped and marked packets, with their reasons.

use leeway_units::{Duration, Time};

/// Why a packet was dropped or marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The packet arrived at a full buffer.
    Tail,
    /// The packet was in the buffer, and an arrival displaced it (longest-queue drop, push-out).
    Overflow,
    /// A random drop before the buffer was full (RED between its thresholds, PIE).
    Early,
    /// The average queue was above RED's last threshold.
    Forced,
    /// CoDel's control law dropped the packet at the head of the queue.
    Aqm,
    /// The link itself lost the packet.
    Loss,
    /// The link lost the packet in every transmission of link-layer retransmission.
    Retries,
}

impl Reason {
    /// All reasons, in the order of reports.
    pub const ALL: [Reason; 7] = [
        Reason::Tail,
        Reason::Overflow,
        Reason::Early,
        Reason::Forced,
        Reason::Aqm,
        Reason::Loss,
        Reason::Retries,
    ];

    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Tail => "tail",
            Reason::Overflow => "overflow",
            Reason::Early => "early",
            Reason::Forced => "forced",
            Reason::Aqm => "aqm",
            Reason::Loss => "loss",
            Reason::Retries => "retries",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Receives the drops of a queue or a link, and hears of marks and departures.
///
/// `now` is the time of the drop itself, even if the link is polled later.
pub trait Report<P> {
    /// `packet` is dropped.
    fn dropped(&mut self, now: Time, packet: P, reason: Reason);

    /// `packet` now carries a congestion mark, and stays in the queue.
    #[inline]
    fn marked(&mut self, _now: Time, _packet: &P, _reason: Reason) {}

    /// The last bit of `packet` left a link, after `wait` in its queue.
    #[inline]
    fn departed(&mut self, _packet: &P, _wait: Duration) {}
}

/// Ignores everything.
impl<P> Report<P> for () {
    #[inline]
    fn dropped(&mut self, _: Time, _: P, _: Reason) {}
}

impl<P, R: Report<P>> Report<P> for &mut R {
    #[inline]
    fn dropped(&mut self, now: Time, packet: P, reason: Reason) {
        (**self).dropped(now, packet, reason);
    }

    #[inline]
    fn marked(&mut self, now: Time, packet: &P, reason: Reason) {
        (**self).marked(now, packet, reason);
    }

    #[inline]
    fn departed(&mut self, packet: &P, wait: Duration) {
        (**self).departed(packet, wait);
    }
}

/// Records everything, for tests and small experiments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log<P> {
    /// Drops in order.
    pub dropped: Vec<(Time, P, Reason)>,
    /// Copies of the marked packets, in order.
    pub marked: Vec<(Time, P, Reason)>,
}

impl<P> Default for Log<P> {
    fn default() -> Self {
        Log { dropped: Vec::new(), marked: Vec::new() }
    }
}

impl<P: Clone> Report<P> for Log<P> {
    fn dropped(&mut self, now: Time, packet: P, reason: Reason) {
        self.dropped.push((now, packet, reason));
    }

    fn marked(&mut self, now: Time, packet: &P, reason: Reason) {
        self.marked.push((now, packet.clone(), reason));
    }
}
