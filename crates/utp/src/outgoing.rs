//! The sending half of a stream: cuts bytes into packets, keeps them until they are acknowledged,
//! and sends lost ones again.

use crate::wire::{Kind, expand};
use leeway_control::sender::RateStamp;
use std::collections::{BTreeSet, VecDeque};

/// RFC 9002, 6.1.1 (kPacketThreshold): a packet is lost when one sent this many packets later
/// was acknowledged.
const REORDERING_MIN: u64 = 3;
/// Largest value of that threshold, which observed reordering raises.
const REORDERING_MAX: u64 = 64;
/// Most packets from the oldest unacknowledged one on. libutp drops packets that are 1,024 ahead.
const SPAN_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Acknowledged,
}

#[derive(Debug)]
struct Sent {
    kind: Kind,
    payload: Box<[u8]>,
    state: State,
    /// Time of the last transmission.
    sent_us: u64,
    /// Time between the last transmission and the one before; `u64::MAX` if there was only one.
    since_us: u64,
    /// Place of the last transmission in the order of all transmissions.
    order: u64,
    transmissions: u32,
    /// Whether it waits to be sent again because an older packet has timed out.
    after_timeout: bool,
    /// For an MTU probe, bytes after the header, padding included; 0 for other packets.
    probe_bytes: u16,
    /// Stamp of the last transmission.
    stamp: RateStamp,
}

/// Of the packets that an acknowledgement names, the one that was sent last.
#[derive(Debug, Clone, Copy)]
struct Newest {
    order: u64,
    sent_us: u64,
    since_us: u64,
    stamp: RateStamp,
}

/// The effect of an acknowledgement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Payload bytes newly acknowledged.
    pub(crate) bytes: u64,
    /// Newly acknowledged packets.
    pub(crate) packets: u32,
    /// Round-trip time of the one that was sent last, in microseconds; `None` if the
    /// acknowledgement may belong to an earlier transmission.
    pub(crate) rtt_us: Option<u64>,
    /// The largest number newly acknowledged.
    pub(crate) largest: Option<u64>,
    /// A probe with this many bytes after the header arrived.
    pub(crate) probe_bytes: Option<usize>,
    /// The stamp of the one that was sent last.
    pub(crate) stamp: Option<RateStamp>,
}

/// The packets that were found to be lost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Payload bytes, without probes.
    pub(crate) bytes: u64,
    /// Time of the last transmission of the first of them, in microseconds.
    pub(crate) sent_us: u64,
    /// A probe with this many bytes after the header did not arrive.
    pub(crate) probe_bytes: Option<usize>,
}

/// A packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbound<'a> {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) payload: &'a [u8],
    /// How often it was sent before.
    pub(crate) repetitions: u32,
    /// Whether it is sent again because an older packet has timed out: an acknowledgement has made
    /// room for it, its own timer has not run out.
    pub(crate) after_timeout: bool,
}

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Bytes that were written and are not in a packet yet.
    pending: VecDeque<u8>,
    /// The packets from the oldest unacknowledged one on.
    packets: VecDeque<Sent>,
    /// Number of `packets[0]`, or of the next packet if there is none.
    oldest: u64,
    lost: BTreeSet<u64>,
    in_flight_bytes: u64,
    in_flight_packets: usize,
    payload_bytes: u64,
    transmissions: u64,
    highest_order: u64,
    reordering: u64,
    duplicates: u32,
}

impl Outgoing {
    /// The first packet has the number `first`.
    pub(crate) fn new(first: u64) -> Self {
        Outgoing {
            pending: VecDeque::new(),
            packets: VecDeque::new(),
            oldest: first,
            lost: BTreeSet::new(),
            in_flight_bytes: 0,
            in_flight_packets: 0,
            payload_bytes: 0,
            transmissions: 0,
            highest_order: 0,
            reordering: REORDERING_MIN,
            duplicates: 0,
        }
    }

    /// Number of the next new packet.
    pub(crate) fn next(&self) -> u64 {
        self.oldest + self.packets.len() as u64
    }

    /// Number of the oldest unacknowledged packet, or of the next packet if there is none.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Bytes that wait for a packet.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Bytes that were written and are not acknowledged.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.pending.len() + self.payload_bytes as usize
    }

    /// Payload bytes sent, and neither acknowledged nor known to be lost.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Whether all packets are acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.packets.is_empty()
    }

    /// Payload bytes of the next packet to be sent again.
    pub(crate) fn next_lost_bytes(&self) -> Option<usize> {
        let number = self.lost.first()?;
        Some(self.packets[(number - self.oldest) as usize].payload.len())
    }

    /// Payload bytes of the oldest packet that is not acknowledged.
    pub(crate) fn oldest_bytes(&self) -> Option<usize> {
        Some(self.packets.front()?.payload.len())
    }

    /// Whether the oldest unacknowledged packet is in flight.
    pub(crate) fn is_oldest_in_flight(&self) -> bool {
        self.packets.front().is_some_and(|sent| sent.state == State::InFlight)
    }

    /// Whether the peer has acknowledged packets after the oldest missing one.
    pub(crate) fn is_partly_acknowledged(&self) -> bool {
        self.packets.iter().any(|sent| sent.state == State::Acknowledged)
    }

    /// Time of the last transmission of any unacknowledged packet, in microseconds.
    pub(crate) fn last_sent_us(&self) -> u64 {
        self.packets.iter().map(|sent| sent.sent_us).max().unwrap_or(0)
    }

    /// Takes all packets back, so that their bytes are cut again under the same numbers. Allowed
    /// only if the peer has none of them. Returns the number of packets and of bytes.
    pub(crate) fn take_back(&mut self) -> (u64, u64) {
        let taken = (self.packets.len() as u64, self.payload_bytes);
        let mut bytes = VecDeque::with_capacity(self.kept_bytes());
        for sent in self.packets.drain(..) {
            debug_assert_ne!(sent.state, State::Acknowledged, "the peer has it");
            bytes.extend(&sent.payload);
        }
        bytes.append(&mut self.pending);
        self.pending = bytes;
        self.lost.clear();
        (self.in_flight_bytes, self.in_flight_packets, self.payload_bytes, self.duplicates) = (0, 0, 0, 0);
        taken
    }

    /// Whether [`SPAN_MAX`] allows another new packet.
    pub(crate) fn has_span(&self) -> bool {
        self.packets.len() < SPAN_MAX
    }

    /// Appends bytes to the stream.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.pending.extend(bytes);
    }

    /// Sends the oldest lost packet again.
    pub(crate) fn retransmit(&mut self, now_us: u64, stamp: RateStamp) -> Option<Outbound<'_>> {
        let number = self.lost.pop_first()?;
        self.transmissions += 1;
        let sent = &mut self.packets[(number - self.oldest) as usize];
        sent.state = State::InFlight;
        sent.since_us = if sent.transmissions > 0 { now_us.saturating_sub(sent.sent_us) } else { u64::MAX };
        sent.sent_us = now_us;
        sent.order = self.transmissions;
        sent.transmissions += 1;
        let after_timeout = std::mem::take(&mut sent.after_timeout);
        sent.probe_bytes = 0;
        sent.stamp = stamp;
        self.in_flight_bytes += sent.payload.len() as u64;
        self.in_flight_packets += 1;
        let repetitions = sent.transmissions - 1;
        Some(Outbound { number, kind: sent.kind, payload: &sent.payload, repetitions, after_timeout })
    }

    /// Cuts a new packet of at most `most` bytes from the written bytes, and sends it.
    /// `probe_bytes`: see [`Sent::probe_bytes`].
    pub(crate) fn send(
        &mut self,
        now_us: u64,
        kind: Kind,
        most: usize,
        probe_bytes: u16,
        stamp: RateStamp,
    ) -> Outbound<'_> {
        let payload: Box<[u8]> = self.pending.drain(..most.min(self.pending.len())).collect();
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
        let number = self.next();
        self.transmissions += 1;
        self.in_flight_bytes += payload.len() as u64;
        self.in_flight_packets += 1;
        self.payload_bytes += payload.len() as u64;
        self.packets.push_back(Sent {
            kind,
            payload,
            state: State::InFlight,
            sent_us: now_us,
            since_us: u64::MAX,
            order: self.transmissions,
            transmissions: 1,
            after_timeout: false,
            probe_bytes,
            stamp,
        });
        let sent = self.packets.back().expect("one was pushed");
        Outbound { number, kind, payload: &sent.payload, repetitions: 0, after_timeout: false }
    }

    /// Adds a packet without payload that waits to be sent.
    pub(crate) fn queue(&mut self, kind: Kind) {
        self.lost.insert(self.next());
        self.packets.push_back(Sent {
            kind,
            payload: Box::default(),
            state: State::Lost,
            sent_us: 0,
            since_us: u64::MAX,
            order: 0,
            transmissions: 0,
            after_timeout: false,
            probe_bytes: 0,
            stamp: RateStamp::default(),
        });
    }

    /// Reads the acknowledgement of a packet. `None` if it acknowledges a packet that was never
    /// sent, which makes the whole packet unacceptable.
    pub(crate) fn acknowledges(&self, ack: u16) -> Option<u64> {
        let number = expand(ack, self.oldest.saturating_sub(1))?;
        (number < self.next()).then_some(number)
    }

    /// Processes an acknowledgement up to `through`, and a selective one. `plain` says that the
    /// packet carried nothing else, so that an equal one after it is a duplicate.
    ///
    /// A repeated packet gives a round-trip time if at least `timeout_us` lay between its last two
    /// transmissions. The acknowledgement of an earlier transmission would have arrived by then.
    /// (Karn and Partridge 1987 take no sample of repeated packets. But after a timeout with many
    /// losses only repeated packets are sent for a while. A law whose window is below one packet
    /// would not learn that the queue has emptied.)
    pub(crate) fn acknowledge(
        &mut self,
        now_us: u64,
        timeout_us: u64,
        through: u64,
        sack: Option<&[u8]>,
        plain: bool,
    ) -> Acknowledged {
        let mut result = Acknowledged::default();
        let mut newest: Option<Newest> = None;
        let earlier = self.oldest;
        while self.oldest <= through && !self.packets.is_empty() {
            self.mark(0, &mut result, &mut newest);
            self.packets.pop_front();
            self.oldest += 1;
        }
        let first = through.saturating_add(2);
        for (index, byte) in sack.unwrap_or(&[]).iter().enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let number = first + (index * 8 + bit) as u64;
                if (self.oldest..self.next()).contains(&number) {
                    self.mark((number - self.oldest) as usize, &mut result, &mut newest);
                }
            }
        }
        if let Some(Newest { order, sent_us, since_us, stamp }) = newest {
            self.highest_order = self.highest_order.max(order);
            result.rtt_us = (since_us >= timeout_us).then(|| now_us.saturating_sub(sent_us));
            result.stamp = Some(stamp);
        }
        let repeats = plain && sack.is_none() && through + 1 == earlier && self.in_flight_packets > 0;
        match result.packets {
            0 if repeats => self.duplicates += 1,
            0 => {}
            _ => self.duplicates = 0,
        }
        result
    }

    /// Marks a packet as arrived.
    fn mark(&mut self, at: usize, result: &mut Acknowledged, newest: &mut Option<Newest>) {
        let number = self.oldest + at as u64;
        let sent = &mut self.packets[at];
        if sent.state == State::Acknowledged {
            return;
        }
        if sent.state == State::InFlight {
            self.in_flight_bytes -= sent.payload.len() as u64;
            self.in_flight_packets -= 1;
        } else {
            // The packet was late and not lost: the path reorders more than the threshold allows.
            self.lost.remove(&number);
            let late = self.highest_order.saturating_sub(sent.order);
            self.reordering = late.clamp(self.reordering, REORDERING_MAX);
        }
        sent.state = State::Acknowledged;
        result.bytes += sent.payload.len() as u64;
        result.packets += 1;
        result.largest = result.largest.max(Some(number));
        if sent.probe_bytes > 0 {
            result.probe_bytes = Some(sent.probe_bytes.into());
        }
        self.payload_bytes -= sent.payload.len() as u64;
        sent.payload = Box::default();
        if newest.is_none_or(|newest| sent.order > newest.order) {
            let Sent { order, sent_us, since_us, stamp, .. } = *sent;
            *newest = Some(Newest { order, sent_us, since_us, stamp });
        }
    }

    /// Finds packets that later ones overtook (RFC 9002, 6.1.1), or that three duplicate
    /// acknowledgements report (RFC 5681, 3.2).
    pub(crate) fn detect(&mut self) -> Option<Lost> {
        let asked = self.duplicates >= REORDERING_MIN as u32;
        if asked {
            self.duplicates = 0;
        }
        let mut lost = None;
        for at in 0..self.packets.len() {
            let sent = &self.packets[at];
            let overtaken = sent.order + self.reordering <= self.highest_order;
            if sent.state == State::InFlight && (overtaken || (asked && at == 0)) {
                self.lose(at, &mut lost);
            } else if sent.order > self.highest_order && sent.transmissions == 1 {
                break; // No later packet was sent earlier.
            }
        }
        lost
    }

    /// After a timeout: counts all packets in flight as lost.
    pub(crate) fn lose_all(&mut self) -> Option<Lost> {
        let mut lost = None;
        for at in 0..self.packets.len() {
            if self.packets[at].state == State::InFlight {
                self.packets[at].after_timeout = lost.is_some();
                self.lose(at, &mut lost);
            }
        }
        self.duplicates = 0;
        lost
    }

    fn lose(&mut self, at: usize, lost: &mut Option<Lost>) {
        let sent = &mut self.packets[at];
        sent.state = State::Lost;
        self.in_flight_bytes -= sent.payload.len() as u64;
        self.in_flight_packets -= 1;
        self.lost.insert(self.oldest + at as u64);
        let total = lost.get_or_insert_with(|| Lost { sent_us: u64::MAX, ..Lost::default() });
        if sent.probe_bytes > 0 {
            total.probe_bytes = Some(sent.probe_bytes.into());
        } else {
            total.bytes += sent.payload.len().max(1) as u64;
            total.sent_us = total.sent_us.min(sent.sent_us);
        }
    }

    /// Whether packets are in flight.
    pub(crate) fn has_flight(&self) -> bool {
        self.in_flight_packets > 0
    }

    /// Drops everything, because the connection has ended.
    pub(crate) fn clear(&mut self) {
        *self = Outgoing::new(self.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT_US: u64 = 500_000;

    fn sent(count: u64) -> Outgoing {
        let mut out = Outgoing::new(100);
        for index in 0..count {
            out.write(&[0; 10]);
            out.send(index, Kind::Data, 10, 0, RateStamp::default());
        }
        out
    }

    #[test]
    fn acknowledgements_free_what_they_name() {
        let mut out = sent(5);
        assert_eq!((out.in_flight_bytes(), out.next()), (50, 105));
        let result = out.acknowledge(1000, TIMEOUT_US, 101, Some(&[0b10, 0, 0, 0]), true);
        assert_eq!((result.bytes, result.packets, result.largest), (30, 3, Some(104)));
        assert_eq!(result.rtt_us, Some(996), "of the last one sent");
        assert_eq!((out.in_flight_bytes(), out.oldest(), out.kept_bytes()), (20, 102, 20));
        assert_eq!(
            out.acknowledge(1000, TIMEOUT_US, 101, Some(&[0b10, 0, 0, 0]), true),
            Acknowledged::default()
        );
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let out = sent(5);
        assert_eq!(out.acknowledges(104), Some(104));
        assert_eq!(out.acknowledges(105), None);
        assert_eq!(out.acknowledges(99), Some(99));
        let mut out = sent(2);
        assert_eq!(out.acknowledge(9, TIMEOUT_US, 99, Some(&[0xff; 128]), true).packets, 1, "101 only");
    }

    #[test]
    fn three_packets_later_is_lost_and_a_lost_retransmission_is_found_again() {
        let mut out = sent(8);
        out.acknowledge(50, TIMEOUT_US, 99, Some(&[0b11, 0, 0, 0]), true);
        assert_eq!(out.detect(), None, "two later ones");
        out.acknowledge(50, TIMEOUT_US, 99, Some(&[0b111, 0, 0, 0]), true);
        assert_eq!(out.detect(), Some(Lost { bytes: 10, sent_us: 0, probe_bytes: None }));
        assert_eq!(out.retransmit(60, RateStamp::default()).unwrap().number, 100);
        assert!(out.retransmit(60, RateStamp::default()).is_none());
        // 104..107 were sent before the retransmission: they tell nothing of it.
        out.acknowledge(70, TIMEOUT_US, 99, Some(&[0b111_1111, 0, 0, 0]), true);
        assert_eq!(out.detect(), None);
        for _ in 0..3 {
            out.write(&[0; 10]);
            out.send(80, Kind::Data, 10, 0, RateStamp::default());
        }
        out.acknowledge(90, TIMEOUT_US, 99, Some(&[0xff, 0b11, 0, 0]), true);
        assert_eq!(out.detect(), Some(Lost { bytes: 10, sent_us: 60, probe_bytes: None }));
    }

    #[test]
    fn a_packet_that_was_only_late_raises_the_threshold() {
        let mut out = sent(20);
        out.acknowledge(50, TIMEOUT_US, 99, Some(&[0b1111_1000, 0, 0, 0]), true);
        let lost = out.detect().unwrap();
        assert_eq!(lost.bytes, 40);
        out.acknowledge(55, TIMEOUT_US, 103, None, true);
        assert_eq!(out.next_lost_bytes(), None);
        assert!(out.reordering > 3 && out.reordering <= 64);
    }

    #[test]
    fn three_duplicates_without_selective_acknowledgement_ask_for_the_oldest() {
        let mut out = sent(5);
        for _ in 0..2 {
            out.acknowledge(50, TIMEOUT_US, 99, None, true);
            assert_eq!(out.detect(), None);
        }
        out.acknowledge(50, TIMEOUT_US, 99, None, false);
        assert_eq!(out.detect(), None, "a packet with data is no duplicate");
        out.acknowledge(50, TIMEOUT_US, 99, None, true);
        assert_eq!(out.detect().unwrap().bytes, 10);
        assert_eq!(out.next_lost_bytes(), Some(10));
    }

    #[test]
    fn a_timeout_takes_all_for_lost_but_probes_are_no_congestion() {
        let mut out = sent(2);
        out.write(&[0; 30]);
        out.send(5, Kind::Data, 30, 50, RateStamp::default());
        let lost = out.lose_all().unwrap();
        assert_eq!(lost, Lost { bytes: 20, sent_us: 0, probe_bytes: Some(50) });
        assert_eq!(out.in_flight_bytes(), 0);
        assert_eq!(out.next_lost_bytes(), Some(10));
    }

    #[test]
    fn what_follows_a_packet_that_timed_out_is_told_from_it() {
        let mut out = sent(3);
        out.acknowledge(50, TIMEOUT_US, 99, Some(&[0b10, 0, 0, 0]), true);
        out.lose_all().unwrap();
        let again = |out: &mut Outgoing| {
            let outbound = out.retransmit(60, RateStamp::default()).unwrap();
            (outbound.number, outbound.after_timeout)
        };
        assert_eq!((again(&mut out), again(&mut out)), ((100, false), (101, true)));
        out.lose_all().unwrap();
        out.acknowledge(70, TIMEOUT_US, 100, None, true);
        assert_eq!(again(&mut out), (101, true), "the timer was that of 100");
    }

    #[test]
    fn what_is_taken_back_is_cut_again_under_the_same_numbers() {
        let mut out = Outgoing::new(100);
        out.write(&(0..60).collect::<Vec<u8>>());
        for now_us in 0..2 {
            out.send(now_us, Kind::Data, 25, 0, RateStamp::default());
        }
        out.lose_all().unwrap();
        out.retransmit(9, RateStamp::default()).unwrap();
        assert_eq!((out.oldest_bytes(), out.last_sent_us()), (Some(25), 9));
        assert_eq!(out.take_back(), (2, 50));
        assert_eq!((out.next(), out.kept_bytes(), out.in_flight_bytes()), (100, 60, 0));
        assert!(!out.has_flight() && out.next_lost_bytes().is_none() && out.is_acknowledged());
        let mut bytes = Vec::new();
        for number in 100..106 {
            let outbound = out.send(20, Kind::Data, 10, 0, RateStamp::default());
            assert_eq!(outbound.number, number);
            bytes.extend_from_slice(outbound.payload);
        }
        assert_eq!((bytes, out.pending_bytes()), ((0..60).collect(), 0));
    }

    #[test]
    fn a_packet_that_was_sent_again_gives_a_round_trip_time_only_after_a_timeout() {
        for (again_us, rtt_us) in [(40_000, None), (TIMEOUT_US, Some(30_000))] {
            let mut out = Outgoing::new(100);
            out.write(&[0; 10]);
            out.send(0, Kind::Data, 10, 0, RateStamp::default());
            out.lose_all().unwrap();
            out.retransmit(again_us, RateStamp::default()).unwrap();
            let result = out.acknowledge(again_us + 30_000, TIMEOUT_US, 100, None, true);
            assert_eq!(result.rtt_us, rtt_us, "sent again after {again_us} us");
        }
        // Sent three times: the last two decide.
        let mut out = Outgoing::new(100);
        out.write(&[0; 10]);
        out.send(0, Kind::Data, 10, 0, RateStamp::default());
        for again_us in [600_000, 640_000] {
            out.lose_all().unwrap();
            out.retransmit(again_us, RateStamp::default()).unwrap();
        }
        assert_eq!(out.acknowledge(670_000, TIMEOUT_US, 100, None, true).rtt_us, None);
    }
}
