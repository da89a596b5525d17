//! Reaction to a path whose MTU shrinks: finds out by questions (see [`crate::hole`]), and cuts
//! packets that have become too long.

use super::{Connection, Transmit};
use crate::hole::{Shown, Verdict};
use crate::wire::{HEADER_BYTES, Header, Kind, Packet};

impl Connection {
    /// Whether the oldest packet is long, so that the path may drop it, but fits into the peer's
    /// window.
    pub(super) fn is_oldest_long(&self) -> bool {
        let fits = |bytes: &usize| *bytes as u64 <= self.peer_window_bytes;
        self.outgoing.oldest_bytes().filter(fits).is_some_and(|bytes| self.mtu.is_long(bytes))
    }

    /// Sends a question: a packet that the peer already has and therefore acknowledges at once.
    pub(super) fn ask(&mut self, now_us: u64, out: &mut Vec<u8>) -> Transmit {
        let seq = self.outgoing.oldest().wrapping_sub(1) as u16;
        Header { seq, ..self.header(Kind::Data, now_us) }.write(None, out);
        self.spoke(now_us, false);
        Transmit { bytes: HEADER_BYTES, whole: false }
    }

    /// Processes an acknowledgement up to `through` that acknowledges nothing new. `plain`: it
    /// equals the one before.
    pub(super) fn note_missing(&mut self, now_us: u64, packet: &Packet<'_>, through: u64, plain: bool) {
        let names_oldest = through + 1 == self.outgoing.oldest() && !self.outgoing.is_acknowledged();
        if !names_oldest || packet.header.kind != Kind::State {
            return;
        }
        let shown = match packet.sack {
            Some(_) => Shown::Selective,
            None if self.outgoing.is_partly_acknowledged() => Shown::Selective,
            None if plain => Shown::Duplicate,
            None => Shown::Nothing,
        };
        match self.hole.heard(now_us, self.rtt.min_us(), shown, self.outgoing.last_sent_us()) {
            Verdict::Nothing => {}
            Verdict::Shrink => {
                self.mtu.shrank(self.outgoing.oldest_bytes().unwrap_or(0), now_us);
                self.congestion.set_mss(self.mtu.segment_bytes() as u32);
            }
            Verdict::Cut => {
                let (packets, bytes) = self.outgoing.take_back();
                self.resent_packets += packets;
                self.resent_bytes += bytes;
                self.congestion.renumbered(self.outgoing.next());
                // The answer shows that short packets pass.
                self.rtt.progress();
                // A FIN of this side was among the packets taken back, or was never sent.
                self.finished = false;
                self.timeout_at_us = None;
                self.paced_until_us = None;
            }
        }
    }
}
