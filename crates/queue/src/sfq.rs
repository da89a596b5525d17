//! SFQ: flows are hashed to queues, which are served in turn.
//!
//! P. McKenney: Stochastic Fairness Queueing (INFOCOM 1990), in two variants:
//! - `variant=linux`: 1024 buckets, rounds by bytes (one quantum in a round), 127 packets, a new
//!   hash every 10 s. A packet that exceeds the buffer makes the longest queue lose its last
//!   packet.
//! - `variant=ns2`: 16 buckets, rounds by packets, 40 packets, the same hash for ever. An arrival
//!   is dropped if its queue holds half of the free room. When room is short, an arrival is also
//!   dropped if its queue holds more than its share of the buffer.
//!
//! # Scope and limitations
//! - The hash is not that of Linux or ns-2. In all of them flows collide by chance.
//! - When the hash changes, waiting packets move to their new queues in the order of their
//!   arrival. So no flow is reordered.
//! - If several queues are longest, the arrival's own queue loses a packet, otherwise the first in
//!   turn.
//! - The buffer of the link, if it has one, replaces the limit of 127 or 40 packets.

use crate::fifo::{Fifo, Limit};
use crate::hash::bucket;
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Bytes, Duration, Size, Time};
use std::collections::VecDeque;

crate::choice! {
    /// Which implementation of SFQ.
    pub enum SfqVariant {
        /// SFQ of Linux (sch_sfq).
        Linux = "linux",
        /// SFQ of ns-2.
        Ns2 = "ns2",
    }
}

crate::params! {
    /// Parameters of [`Sfq`].
    pub struct SfqParams: "sfq", "Stochastic fairness: flows hashed to queues that are served in turn", "McKenney 1990; Linux sch_sfq; ns-2" {
        /// The buffer; auto: that of the link, or where it has none 127 packets (ns2: 40).
        limit: Option<Size> = None, ..;
        /// Which implementation.
        variant: SfqVariant = SfqVariant::Linux, ..;
        /// Queues; auto: 1024 (ns2: 16).
        buckets: Option<u32> = None, 1..=65_536;
        /// Packets in one queue at most.
        depth: u32 = 127, 1..=1_000_000;
        /// Bytes that a queue may send a round (linux).
        quantum: Bytes = Bytes::new(1514), Bytes::new(64)..=Bytes::new(1 << 20);
        /// How often the hash changes, 0 for never; auto: 10 s (ns2: never).
        perturb: Option<Duration> = None, ..;
    }
}

impl SfqParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Sfq(Box::new(Sfq::new(self, context)))
    }
}

#[derive(Debug, Clone)]
struct Slot<P> {
    fifo: Fifo<P>,
    /// Bytes that the queue may still send in this round.
    allotment: i64,
}

/// Stochastic fairness queueing.
#[derive(Debug, Clone)]
pub struct Sfq<P> {
    slots: Vec<Slot<P>>,
    /// Slots with packets, in the order of service.
    turn: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    limit: Limit,
    /// The limit in packets, for ns-2's rule.
    capacity: usize,
    variant: SfqVariant,
    depth: usize,
    quantum: i64,
    perturb: Duration,
    seed: u64,
    salt: u64,
    epoch: u64,
}

impl<P: Packet> Sfq<P> {
    /// An empty queue.
    pub fn new(params: &SfqParams, context: &BuildContext) -> Self {
        let linux = params.variant == SfqVariant::Linux;
        let limit = match params.limit.unwrap_or(context.capacity) {
            Size::Unlimited if params.limit.is_none() => Size::Packets(if linux { 127 } else { 40 }),
            size => size,
        };
        // With one packet, ns-2's rule would refuse every arrival.
        let capacity = match limit {
            Size::Packets(n) => n.max(2) as usize,
            Size::Bytes(n) => (n.get() / u64::from(context.mean_packet.max(1))) as usize,
            _ => usize::MAX,
        };
        let buckets = params.buckets.unwrap_or(if linux { 1024 } else { 16 });
        let perturb = params.perturb.unwrap_or(Duration::from_secs(if linux { 10 } else { 0 }));
        Sfq {
            slots: (0..buckets).map(|_| Slot { fifo: Fifo::default(), allotment: 0 }).collect(),
            turn: VecDeque::new(),
            packets: 0,
            bytes: 0,
            limit: Limit::new(limit),
            capacity,
            variant: params.variant,
            depth: params.depth as usize,
            quantum: params.quantum.get() as i64,
            perturb,
            seed: context.seed,
            salt: context.seed,
            epoch: 0,
        }
    }

    /// Changes the hash if it is due, and moves waiting packets.
    fn perturb(&mut self, now: Time) {
        if self.perturb.is_zero() {
            return;
        }
        let epoch = now.nanos() / self.perturb.nanos();
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.salt = self.seed ^ epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut waiting = Vec::with_capacity(self.packets);
        for id in std::mem::take(&mut self.turn) {
            while let Some(entry) = self.slots[id as usize].fifo.pop() {
                waiting.push(entry);
            }
        }
        // The sort is stable, so packets of a flow with the same time keep their order.
        waiting.sort_by_key(|&(_, enqueued)| enqueued);
        (self.packets, self.bytes) = (0, 0);
        for (packet, enqueued) in waiting {
            let id = bucket(packet.flow(), self.salt, self.slots.len());
            self.push(id, packet, enqueued);
        }
    }

    fn push(&mut self, id: usize, packet: P, enqueued: Time) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        let slot = &mut self.slots[id];
        if slot.fifo.is_empty() {
            slot.allotment = self.quantum;
            self.turn.push_back(id as u32);
        }
        slot.fifo.push(packet, enqueued);
    }

    /// ns-2: a queue may hold neither half of the free room nor, when room is short, more than its
    /// share.
    fn is_refused(&self, id: usize) -> bool {
        let (held, left) = (self.slots[id].fifo.len(), self.capacity.saturating_sub(self.packets));
        let share = self.capacity / self.slots.len();
        left == 0 || held >= left / 2 || left < self.slots.len() && held > share
    }

    /// Drops the last packet of the longest queue.
    fn drop_from_longest<R: Report<P>>(&mut self, now: Time, arrival: usize, report: &mut R) {
        let length = |id: usize| self.slots[id].fifo.len();
        let mut longest = arrival;
        for &id in &self.turn {
            if length(id as usize) > length(longest) {
                longest = id as usize;
            }
        }
        let Some((packet, _)) = self.slots[longest].fifo.pop_last() else { return };
        self.packets -= 1;
        self.bytes -= u64::from(packet.bytes());
        if self.slots[longest].fifo.is_empty() {
            self.turn.retain(|&id| id as usize != longest);
        }
        let reason = if longest == arrival { Reason::Tail } else { Reason::Overflow };
        report.dropped(now, packet, reason);
    }
}

impl<P: Packet> Queue<P> for Sfq<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        self.perturb(now);
        let id = bucket(packet.flow(), self.salt, self.slots.len());
        let refused = match self.variant {
            SfqVariant::Linux => self.slots[id].fifo.len() >= self.depth,
            SfqVariant::Ns2 => self.is_refused(id),
        };
        if refused {
            return report.dropped(now, packet, Reason::Tail);
        }
        self.push(id, packet, now);
        while self.limit.exceeded_by(self.packets, self.bytes) && self.packets > 0 {
            self.drop_from_longest(now, id, report);
        }
    }

    fn dequeue<R: Report<P>>(&mut self, now: Time, _report: &mut R) -> Dequeued<P> {
        self.perturb(now);
        while let Some(&id) = self.turn.front() {
            let slot = &mut self.slots[id as usize];
            if slot.allotment <= 0 {
                slot.allotment += self.quantum;
                self.turn.rotate_left(1);
                continue;
            }
            let Some((packet, enqueued)) = slot.fifo.pop() else { break };
            slot.allotment -= i64::from(packet.bytes());
            self.packets -= 1;
            self.bytes -= u64::from(packet.bytes());
            match self.variant {
                _ if slot.fifo.is_empty() => drop(self.turn.pop_front()),
                // ns-2 serves one packet in a round.
                SfqVariant::Ns2 => {
                    slot.allotment = self.quantum;
                    self.turn.rotate_left(1);
                }
                SfqVariant::Linux => {}
            }
            return Dequeued::Packet { packet, enqueued };
        }
        Dequeued::Empty
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_units::Rate;

    struct Pkt;

    impl Packet for Pkt {
        fn bytes(&self) -> u32 {
            1000
        }

        fn flow(&self) -> u32 {
            0
        }
    }

    /// The ns-2 variant with the given number of packets in each slot.
    fn holding(slots: &[usize]) -> Sfq<Pkt> {
        let params = SfqParams { variant: SfqVariant::Ns2, ..SfqParams::default() };
        let context = BuildContext::new(Size::Unlimited, Rate::from_bits_per_sec(8_000_000));
        let mut sfq = Sfq::new(&params, &context);
        for (id, &packets) in slots.iter().enumerate() {
            (0..packets).for_each(|_| sfq.push(id, Pkt, Time::ZERO));
        }
        sfq
    }

    #[test]
    fn ns2_refuses_half_of_the_room_and_more_than_a_share_when_room_is_short() {
        // 40 packets and 16 slots: a share is two packets, and room is short below 16.
        assert!(!holding(&[12]).is_refused(0));
        assert!(holding(&[13]).is_refused(0));
        assert!(!holding(&[3, 7, 7, 7]).is_refused(0), "24 held, 16 left");
        assert!(holding(&[3, 7, 7, 8]).is_refused(0), "25 held, 15 left");
        assert!(!holding(&[2, 8, 7, 8]).is_refused(0));
        assert!(holding(&[0, 10, 10, 10, 10]).is_refused(0), "full");
        assert!(holding(&[0, 10, 10, 10, 9]).is_refused(0), "half of one packet is none");
        assert!(!holding(&[0, 10, 10, 10, 8]).is_refused(0));
    }
}
