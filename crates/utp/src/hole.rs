//! Detection of an MTU black hole that begins during a connection (RFC 8899, 4.3): the path drops
//! long packets.
//!
//! Sequence numbers of uTP count packets, so a packet that the peer may have must keep its bytes.
//! Packets in flight may be cut again only when the peer has none of them and no copy of them is
//! in the network any more:
//!
//! 1. Three timeouts in a row make a long packet suspect. From then on a question follows each
//!    repetition: the last acknowledged packet, empty. A receiver acknowledges at once a packet
//!    that it already has.
//! 2. An answer that does not acknowledge the long packet shows that short packets pass and long
//!    ones do not. Then no data are sent until the last copy is 30 s old.
//! 3. The question is sent again. If the answer has no selective acknowledgement, the peer has
//!    none of what is in flight, and its bytes are cut into packets of the smallest size.
//!
//! Limit: if the peer has shown out-of-order packets, by selective or by duplicate
//! acknowledgements, nothing is cut, and the same packets are repeated.

/// Timeouts in a row that make a long packet suspect (RFC 8899, 5.1.2: MAX_PROBES).
const TIMEOUTS: u32 = 3;
/// The longest life of a datagram. RFC 9293, 3.4.1 has 2 minutes and calls it an engineering
/// choice; Linux has 30 s, half of its TIME-WAIT.
const LIFE_US: u64 = 30_000_000;
/// An unanswered question is repeated after this time.
const AGAIN_US: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// Long packets are repeated, and a question follows each.
    Suspect,
    /// No data are sent. The field says when the next question is due.
    Quiet {
        next_us: u64,
    },
}

/// What an acknowledgement shows in addition to the number of the oldest missing packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    /// It equals the acknowledgement before.
    Duplicate,
    /// It has a selective acknowledgement.
    Selective,
}

/// The consequence of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Nothing,
    /// Long packets do not pass: send shorter ones from now on.
    Shrink,
    /// Cut all packets in flight again.
    Cut,
}

/// The state of the detection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlackHole {
    stage: Stage,
    /// When the last question left; only answers to it count.
    asked_us: Option<u64>,
    is_due: bool,
    /// Whether the peer sends selective acknowledgements.
    has_sack: bool,
    /// Whether the peer has packets after the oldest missing one.
    holds: bool,
    /// After this time no copy of a long packet is in the network.
    gone_us: u64,
}

impl BlackHole {
    pub(crate) fn new() -> Self {
        BlackHole {
            stage: Stage::Open,
            asked_us: None,
            is_due: false,
            has_sack: false,
            holds: false,
            gone_us: 0,
        }
    }

    /// Whether no data may leave.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self.stage, Stage::Quiet { .. })
    }

    /// When [`BlackHole::expire`] must be called.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.stage {
            Stage::Quiet { next_us } => Some(next_us),
            _ => None,
        }
    }

    /// Does what is due at the time that [`BlackHole::deadline`] returned.
    pub(crate) fn expire(&mut self, now_us: u64) {
        self.is_due = true;
        self.stage = Stage::Quiet { next_us: now_us + AGAIN_US };
    }

    /// Notes the number of timeouts in a row. `is_long`: the oldest packet is longer than what
    /// every path carries, and the peer has room for it.
    pub(crate) fn timed_out(&mut self, timeouts: u32, is_long: bool) {
        if timeouts >= TIMEOUTS && is_long && !self.holds && !self.is_quiet() {
            self.stage = Stage::Suspect;
            self.is_due = true;
        }
    }

    /// Whether a question must leave now. `is_repeated`: the oldest packet has been sent again.
    pub(crate) fn ask(&mut self, now_us: u64, is_repeated: bool) -> bool {
        let leaves = self.is_due && (is_repeated || self.is_quiet());
        if leaves {
            self.is_due = false;
            self.asked_us = Some(now_us);
        }
        leaves
    }

    /// The oldest packet has arrived.
    pub(crate) fn progress(&mut self) {
        *self = BlackHole { has_sack: self.has_sack, ..BlackHole::new() };
    }

    /// Processes an acknowledgement without data that does not acknowledge the oldest packet.
    /// `last_us`: when a packet of the stream left last.
    pub(crate) fn heard(&mut self, now_us: u64, min_rtt_us: u64, shown: Shown, last_us: u64) -> Verdict {
        self.has_sack |= shown == Shown::Selective;
        self.holds |= match shown {
            Shown::Selective => true,
            Shown::Duplicate => self.asked_us.is_none() && !self.has_sack,
            Shown::Nothing => false,
        };
        if self.holds {
            self.stage = Stage::Open;
            self.is_due = false;
            return Verdict::Nothing;
        }
        // Half of the smallest round trip: a question is shorter than the packets that were
        // measured, and may be faster.
        if self.asked_us.is_none_or(|asked_us| now_us < asked_us + min_rtt_us / 2) {
            return Verdict::Nothing;
        }
        match self.stage {
            Stage::Open => Verdict::Nothing,
            Stage::Suspect => {
                self.gone_us = last_us + LIFE_US;
                self.stage = Stage::Quiet { next_us: self.gone_us.max(now_us + 1) };
                Verdict::Shrink
            }
            Stage::Quiet { .. } if self.asked_us.is_some_and(|asked_us| asked_us >= self.gone_us) => {
                self.progress();
                Verdict::Cut
            }
            Stage::Quiet { .. } => Verdict::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_US: u64 = 40_000;

    fn suspect() -> BlackHole {
        let mut hole = BlackHole::new();
        hole.timed_out(2, true);
        assert!(!hole.ask(0, true), "two timeouts are no sign");
        hole.timed_out(3, false);
        assert!(!hole.ask(0, true), "a short packet is none");
        hole.timed_out(3, true);
        assert!(!hole.ask(1_000_000, false), "behind a repetition");
        assert!(hole.ask(1_000_000, true) && !hole.ask(1_000_000, true));
        hole
    }

    #[test]
    fn bytes_are_cut_again_when_the_last_copy_is_gone() {
        let mut hole = suspect();
        assert_eq!(
            hole.heard(1_010_000, RTT_US, Shown::Duplicate, 900_000),
            Verdict::Nothing,
            "no answer so early"
        );
        assert_eq!(hole.heard(1_040_000, RTT_US, Shown::Duplicate, 900_000), Verdict::Shrink);
        assert!(hole.is_quiet());
        assert_eq!(hole.heard(2_000_000, RTT_US, Shown::Duplicate, 900_000), Verdict::Nothing);
        assert_eq!(hole.deadline(), Some(900_000 + LIFE_US));
        hole.expire(900_000 + LIFE_US);
        assert_eq!(
            hole.heard(LIFE_US + 950_000, RTT_US, Shown::Duplicate, 900_000),
            Verdict::Nothing,
            "not asked yet"
        );
        assert!(hole.ask(LIFE_US + 1_000_000, true));
        assert_eq!(hole.deadline(), Some(LIFE_US + 900_000 + AGAIN_US));
        assert_eq!(hole.heard(LIFE_US + 1_040_000, RTT_US, Shown::Duplicate, 900_000), Verdict::Cut);
        assert!(!hole.is_quiet() && hole.deadline().is_none());
    }

    #[test]
    fn nothing_is_cut_where_the_peer_may_have_something() {
        let mut hole = suspect();
        hole.heard(1_040_000, RTT_US, Shown::Selective, 900_000);
        assert!(!hole.is_quiet(), "a selective acknowledgement");
        hole.timed_out(4, true);
        assert!(!hole.ask(2_000_000, true));

        let mut hole = BlackHole::new();
        hole.heard(0, RTT_US, Shown::Duplicate, 0);
        hole.timed_out(3, true);
        assert!(!hole.ask(0, true), "a duplicate of a peer that may have no selective ones");

        let mut hole = BlackHole::new();
        hole.heard(0, RTT_US, Shown::Selective, 0);
        hole.progress();
        hole.heard(0, RTT_US, Shown::Duplicate, 0);
        hole.timed_out(3, true);
        assert!(hole.ask(0, true), "this peer would have said so");
    }

    #[test]
    fn a_packet_that_arrives_after_all_ends_it() {
        let mut hole = suspect();
        hole.heard(1_040_000, RTT_US, Shown::Duplicate, 900_000);
        hole.progress();
        assert!(!hole.is_quiet() && hole.deadline().is_none());
        assert_eq!(hole.heard(60_000_000, RTT_US, Shown::Duplicate, 900_000), Verdict::Nothing);
    }
}
