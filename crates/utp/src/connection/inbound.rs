//! Processing of an arriving packet.

use super::{Connection, LINGER_US, State};
use crate::error::UtpError;
use crate::reassembly::{Arrival, Reassembly};
use crate::wire::{Kind, Packet, expand};

/// A RESET may name a packet that was acknowledged up to this many packets ago, because a RESET
/// takes time to arrive.
const RESET_BEHIND: u16 = 1024;
/// Most packets by which an acknowledgement may be old (RFC 5961, 5.2), and by which a sequence
/// number may differ from the expected one. A stranger would have to guess both. No program has as
/// many packets in flight.
const ACK_BEHIND: u64 = 1024;
const NUMBER_AWAY: u64 = 4096;
/// Packets per acknowledgement (RFC 5681, 4.2: every second one).
const ACK_EVERY: u32 = 2;

impl Connection {
    /// Processes a packet of this connection.
    pub fn receive(&mut self, now_us: u64, packet: &Packet<'_>) {
        self.received_packets += 1;
        match packet.header.kind {
            _ if self.state == State::Over => {}
            Kind::Reset => self.receive_reset(packet),
            // The answer was lost or is still on its way: send it again.
            Kind::Syn => self.answer_due |= self.repeats_syn(packet),
            _ => match self.state {
                State::Connecting => self.receive_answer(now_us, packet),
                _ => self.receive_open(now_us, packet),
            },
        }
    }

    fn repeats_syn(&self, packet: &Packet<'_>) -> bool {
        let incoming = self.incoming.as_ref();
        packet.header.connection_id == self.send_id
            && incoming.is_some_and(|incoming| incoming.acknowledged() as u16 == packet.header.seq)
    }

    /// Ends the connection if the RESET names a recently sent packet. A stranger does not know
    /// these numbers.
    fn receive_reset(&mut self, packet: &Packet<'_>) {
        let next = self.outgoing.next() as u16;
        let behind = (self.outgoing.next() - self.outgoing.oldest()) as u16;
        if next.wrapping_sub(packet.header.ack) <= behind.saturating_add(RESET_BEHIND) {
            self.end(Some(UtpError::Reset));
        }
    }

    /// Processes the answer to our SYN.
    fn receive_answer(&mut self, now_us: u64, packet: &Packet<'_>) {
        let header = packet.header;
        if header.kind == Kind::Fin
            || self.outgoing.acknowledges(header.ack).is_none_or(|n| n != self.outgoing.oldest())
        {
            return;
        }
        self.state = State::Open;
        // As in libutp, the first packet with data has the same number as the answer.
        let received = u64::from(header.seq).wrapping_sub(1) + 0x1_0000;
        self.incoming = Some(Reassembly::new(received, self.config.receive_bytes));
        if self.is_abandoned {
            self.abandon();
        }
        self.greet_wait_us = self.rtt.timeout_us();
        self.greet_at_us = Some(now_us + self.greet_wait_us);
        self.ack_now = true;
        self.receive_open(now_us, packet);
        if header.kind == Kind::State {
            self.greet_at_us = Some(now_us + self.greet_wait_us);
        }
    }

    fn receive_open(&mut self, now_us: u64, packet: &Packet<'_>) {
        let header = packet.header;
        let Some(through) = self.outgoing.acknowledges(header.ack) else { return };
        let Some(incoming) = &self.incoming else { return };
        let Some(number) = expand(header.seq, incoming.acknowledged()) else { return };
        let is_old = through + ACK_BEHIND < self.outgoing.oldest();
        if is_old || number.abs_diff(incoming.acknowledged()) > NUMBER_AWAY {
            return;
        }
        if self.state == State::Accepting {
            // The right number proves the peer's address: only the answer to its SYN contained it.
            if through + 1 != self.outgoing.oldest() {
                return;
            }
            self.state = State::Open;
        } else if header.kind != Kind::State || header.seq != incoming.acknowledged().wrapping_add(1) as u16 {
            self.greet_at_us = None;
        }
        self.heard_us = now_us;
        self.peer_delay.sample(now_us, header.timestamp_us);
        self.receive_acknowledgement(now_us, packet, through);
        if matches!(header.kind, Kind::Data | Kind::Fin) {
            self.receive_payload(now_us, number, packet);
        }
        self.close_if_done(now_us);
    }

    fn receive_acknowledgement(&mut self, now_us: u64, packet: &Packet<'_>, through: u64) {
        let header = packet.header;
        let before_bytes = self.outgoing.in_flight_bytes();
        let plain = header.kind == Kind::State && u64::from(header.window_bytes) == self.peer_window_bytes;
        let earlier = self.outgoing.oldest();
        let result = self.outgoing.acknowledge(now_us, self.rtt.timeout_us(), through, packet.sack, plain);
        if u64::from(header.window_bytes) > self.peer_window_bytes || through >= self.outgoing.oldest() - 1 {
            self.peer_window_bytes = header.window_bytes.into();
        }
        if self.outgoing.oldest() > earlier {
            self.hole.progress();
        } else {
            self.note_missing(now_us, packet, through, plain);
        }
        if result.packets > 0 {
            self.waiting_since_us = None;
            self.greet_at_us = None;
            self.rtt.progress();
            if let Some(rtt_us) = result.rtt_us {
                self.rtt.sample(rtt_us);
            }
            if let Some(size) = result.probe_bytes {
                self.mtu.arrived(size);
                self.congestion.set_mss(self.mtu.segment_bytes() as u32);
            }
            let told = header.timestamp_difference_us;
            let owd_us = (told != 0).then_some(told);
            let flight = self.flight(before_bytes);
            self.congestion.acknowledged(now_us, &result, owd_us, &self.rtt, flight);
            self.paced_until_us = None;
        }
        if let Some(lost) = self.outgoing.detect() {
            self.note_lost_probe(now_us, &lost);
            if lost.bytes > 0 {
                let flight = self.flight(before_bytes);
                self.congestion.lost(now_us, &lost, 0, &self.rtt, flight);
            }
        }
        // RFC 6298, 5.2 and 5.3.
        if !self.outgoing.has_flight() {
            self.timeout_at_us = None;
        } else if result.packets > 0 {
            self.timeout_at_us = Some(now_us + self.rtt.timeout_us());
        }
    }

    fn receive_payload(&mut self, now_us: u64, number: u64, packet: &Packet<'_>) {
        let Some(incoming) = &mut self.incoming else { return };
        let fin = packet.header.kind == Kind::Fin;
        let had_gap = incoming.has_gap();
        let arrival = incoming.insert(number, packet.payload, fin);
        self.repeated_packets += u64::from(arrival == Arrival::Duplicate);
        if !matches!(arrival, Arrival::Duplicate | Arrival::Refused) {
            self.received_bytes += packet.payload.len() as u64;
            if self.is_abandoned && !packet.payload.is_empty() && self.is_flushed() {
                return self.reset();
            }
        }
        match arrival {
            Arrival::InOrder if !had_gap && !fin => {
                self.unacknowledged += 1;
                if self.unacknowledged >= ACK_EVERY {
                    self.ack_now = true;
                } else if self.ack_at_us.is_none() {
                    self.ack_at_us = Some(now_us + self.config.ack_delay_us);
                }
            }
            // RFC 5681, 4.2: acknowledge at once, so that the sender sees the gap, or sees that it
            // is filled.
            _ => self.ack_now = true,
        }
    }

    /// When both directions have ended: answers late packets for a while, and then ends.
    fn close_if_done(&mut self, now_us: u64) {
        let all_sent = self.finished && self.outgoing.is_acknowledged();
        let all_here = self.incoming.as_ref().is_some_and(Reassembly::is_complete);
        if all_sent && all_here && self.linger_until_us.is_none() {
            self.linger_until_us = Some(now_us + LINGER_US);
        }
    }
}
