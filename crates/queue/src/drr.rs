//! DRR: queues served in turn. Each may send its quantum of bytes in a round.
//!
//! M. Shreedhar, G. Varghese: Efficient Fair Queueing using Deficit Round Robin (SIGCOMM 1995).
//!
//! # Scope and limitations
//! - A queue is a traffic class (`by=class`) or a hashed flow (`by=flow`).
//! - A class may have its own quantum, which sets its share. A packet of a class beyond the last
//!   queue goes to the last one.
//! - The buffer is shared. When it is exceeded, the queue with most bytes loses its last packet
//!   (the paper's buffer stealing).
//! - `sfq` has flows that change their hash.

use crate::fifo::{Fifo, Limit};
use crate::hash::bucket;
use crate::spec::{BuildContext, Classes};
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Bytes, Size, Time};
use std::collections::{BTreeMap, VecDeque};

crate::choice! {
    /// What has a queue of its own.
    pub enum By {
        /// A traffic class.
        Class = "class",
        /// A flow, by its hash.
        Flow = "flow",
    }
}

crate::params! {
    /// Parameters of [`Drr`].
    pub struct DrrParams: "drr", "Deficit round robin: flows or classes served in turn, fairly by bytes", "Shreedhar and Varghese 1995" {
        /// The buffer that all queues share; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// What has a queue of its own.
        by: By = By::Flow, ..;
        /// Queues.
        queues: u32 = 256, 1..=65_536;
        /// Bytes that a queue may send a round.
        quantum: Bytes = Bytes::new(1500), Bytes::new(64)..=Bytes::new(1 << 20);
        /// The quantum of one class, such as class0=3000B.
        class: Classes<Bytes> = Classes(BTreeMap::new()), ..;
    }
}

impl DrrParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Drr(Box::new(Drr::new(self, context)))
    }
}

#[derive(Debug, Clone)]
struct Share<P> {
    fifo: Fifo<P>,
    quantum: u64,
    deficit: u64,
    /// Whether the queue has already received its quantum in this round.
    visited: bool,
}

/// Deficit round robin.
#[derive(Debug, Clone)]
pub struct Drr<P> {
    shares: Vec<Share<P>>,
    turn: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    limit: Limit,
    by: By,
    salt: u64,
}

impl<P: Packet> Drr<P> {
    /// An empty queue.
    pub fn new(params: &DrrParams, context: &BuildContext) -> Self {
        let share = |id: u32| {
            let own = u8::try_from(id).ok().and_then(|class| params.class.0.get(&class));
            let quantum = own.filter(|_| params.by == By::Class).unwrap_or(&params.quantum);
            Share { fifo: Fifo::default(), quantum: quantum.get().max(1), deficit: 0, visited: false }
        };
        Drr {
            shares: (0..params.queues).map(share).collect(),
            turn: VecDeque::new(),
            packets: 0,
            bytes: 0,
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            by: params.by,
            salt: context.seed,
        }
    }

    fn index(&self, packet: &P) -> usize {
        match self.by {
            By::Class => usize::from(packet.class()).min(self.shares.len() - 1),
            By::Flow => bucket(packet.flow(), self.salt, self.shares.len()),
        }
    }

    fn drop_from_longest<R: Report<P>>(&mut self, now: Time, arrival: usize, report: &mut R) {
        let mut longest = arrival;
        for &id in &self.turn {
            if self.shares[id as usize].fifo.bytes() > self.shares[longest].fifo.bytes() {
                longest = id as usize;
            }
        }
        let share = &mut self.shares[longest];
        let Some((packet, _)) = share.fifo.pop_last() else { return };
        self.packets -= 1;
        self.bytes -= u64::from(packet.bytes());
        if share.fifo.is_empty() {
            (share.deficit, share.visited) = (0, false);
            self.turn.retain(|&id| id as usize != longest);
        }
        let reason = if longest == arrival { Reason::Tail } else { Reason::Overflow };
        report.dropped(now, packet, reason);
    }
}

impl<P: Packet> Queue<P> for Drr<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        let id = self.index(&packet);
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        if self.shares[id].fifo.is_empty() {
            self.turn.push_back(id as u32);
        }
        self.shares[id].fifo.push(packet, now);
        while self.limit.exceeded_by(self.packets, self.bytes) && self.packets > 0 {
            self.drop_from_longest(now, id, report);
        }
    }

    fn dequeue<R: Report<P>>(&mut self, _now: Time, _report: &mut R) -> Dequeued<P> {
        while let Some(&id) = self.turn.front() {
            let share = &mut self.shares[id as usize];
            if !share.visited {
                share.visited = true;
                share.deficit += share.quantum;
            }
            let fits = |(packet, _): &(P, Time)| u64::from(packet.bytes()) <= share.deficit;
            if !share.fifo.first().is_some_and(fits) {
                // 1995, 3: the rest of the quantum is kept for the next round.
                share.visited = false;
                self.turn.rotate_left(1);
                continue;
            }
            let Some((packet, enqueued)) = share.fifo.pop() else { break };
            share.deficit -= u64::from(packet.bytes());
            self.packets -= 1;
            self.bytes -= u64::from(packet.bytes());
            if share.fifo.is_empty() {
                // An empty queue keeps no deficit, so that it saves nothing up.
                (share.deficit, share.visited) = (0, false);
                self.turn.pop_front();
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
