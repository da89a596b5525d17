//! FQ-CoDel (RFC 8290): flows are hashed to queues. Deficit round robin serves new flows first,
//! and each queue has its own CoDel.
//!
//! # Scope and limitations
//! - Each CoDel compares the backlog of its own queue with one MTU. Linux compares the backlog of
//!   all queues.
//! - The hash is not that of Linux.
//! - When the buffer is exceeded, the queue with most bytes loses packets from its head: half of
//!   its backlog, at most `batch` packets (RFC 8290, 4.1).
//! - The buffer of the link, if it has one, replaces the limit of 10240 packets.

use crate::codel::{CoDelParams, CoDelVariant, Control, Law};
use crate::fifo::{Fifo, Limit};
use crate::hash::bucket;
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Bytes, Duration, Size, Time};
use std::collections::VecDeque;

crate::params! {
    /// Parameters of [`FqCoDel`].
    pub struct FqCoDelParams: "fq_codel", "Flow queues served in turn, new flows first, with CoDel in each", "RFC 8290" {
        /// The buffer; auto: that of the link, or where it has none 10240 packets.
        limit: Option<Size> = None, ..;
        /// The queuing delay that may stand.
        target: Duration = Duration::from_millis(5), Duration::from_micros(1)..=Duration::from_secs(100);
        /// How long the delay may be above the target before the first drop: a worst-case round
        /// trip.
        interval: Duration = Duration::from_millis(100), Duration::from_micros(1)..=Duration::from_secs(1000);
        /// Bytes that a queue may send a round.
        quantum: Bytes = Bytes::new(1514), Bytes::new(64)..=Bytes::new(1 << 20);
        /// Queues.
        flows: u32 = 1024, 1..=65_536;
        /// Packets dropped at once at most when the buffer is exceeded.
        batch: u32 = 64, 1..=65_536;
        /// Whether to mark packets that can be marked instead of dropping them.
        ecn: bool = true, ..;
    }
}

impl FqCoDelParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::FqCoDel(Box::new(FqCoDel::new(self, context)))
    }
}

#[derive(Debug, Clone)]
struct Flow<P> {
    fifo: Fifo<P>,
    control: Control,
    deficit: i64,
    /// Whether the flow is in the list of new flows or of old flows.
    listed: bool,
}

/// Flow queueing with CoDel.
#[derive(Debug, Clone)]
pub struct FqCoDel<P> {
    flows: Vec<Flow<P>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    limit: Limit,
    law: Law,
    quantum: i64,
    batch: u32,
    salt: u64,
}

impl<P: Packet> FqCoDel<P> {
    /// An empty queue.
    pub fn new(params: &FqCoDelParams, context: &BuildContext) -> Self {
        let limit = match params.limit.unwrap_or(context.capacity) {
            Size::Unlimited if params.limit.is_none() => Size::Packets(10_240),
            size => size,
        };
        let codel = CoDelParams {
            target: params.target,
            interval: params.interval,
            variant: CoDelVariant::Rfc8289,
            ecn: params.ecn,
            limit: None,
        };
        let flow = |_| Flow { fifo: Fifo::default(), control: Control::default(), deficit: 0, listed: false };
        FqCoDel {
            flows: (0..params.flows).map(flow).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            limit: Limit::new(limit),
            law: codel.law(),
            quantum: params.quantum.get() as i64,
            batch: params.batch,
            salt: context.seed,
        }
    }

    /// RFC 8290, 4.1: drops packets at the head of the queue with most bytes.
    fn drop_from_fattest<R: Report<P>>(&mut self, now: Time, arrival: usize, report: &mut R) {
        let mut fattest = arrival;
        for &id in self.new.iter().chain(&self.old) {
            if self.flows[id as usize].fifo.bytes() > self.flows[fattest].fifo.bytes() {
                fattest = id as usize;
            }
        }
        let fifo = &mut self.flows[fattest].fifo;
        let (half, mut gone) = (fifo.bytes() / 2, 0);
        for _ in 0..self.batch {
            let Some((packet, _)) = fifo.pop() else { break };
            gone += u64::from(packet.bytes());
            self.packets -= 1;
            self.bytes -= u64::from(packet.bytes());
            report.dropped(now, packet, Reason::Overflow);
            if gone >= half {
                break;
            }
        }
    }
}

impl<P: Packet> Queue<P> for FqCoDel<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        let id = bucket(packet.flow(), self.salt, self.flows.len());
        let flow = &mut self.flows[id];
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        flow.control.saw(packet.bytes());
        flow.fifo.push(packet, now);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(id as u32);
        }
        while self.limit.exceeded_by(self.packets, self.bytes) && self.packets > 0 {
            self.drop_from_fattest(now, id, report);
        }
    }

    /// RFC 8290, 4.2
    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(id) = list.pop_front() else { return Dequeued::Empty };
            let flow = &mut self.flows[id as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.old.push_back(id);
                continue;
            }
            let (packets, bytes) = (flow.fifo.len(), flow.fifo.bytes());
            let taken = flow.control.dequeue(now, &self.law, &mut flow.fifo, report);
            self.packets -= packets - flow.fifo.len();
            self.bytes -= bytes - flow.fifo.bytes();
            match taken {
                Some((packet, enqueued)) => {
                    flow.deficit -= i64::from(packet.bytes());
                    let list = if is_new { &mut self.new } else { &mut self.old };
                    list.push_front(id);
                    return Dequeued::Packet { packet, enqueued };
                }
                // A new queue that is empty becomes an old one. Otherwise a sparse flow would
                // always be new.
                None if is_new => self.old.push_back(id),
                None => flow.listed = false,
            }
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
