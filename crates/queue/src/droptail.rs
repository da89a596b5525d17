//! Drop-tail: first in, first out. An arrival that does not fit is dropped.
//!
//! # Scope and limitations
//! - The limit counts waiting packets or bytes, without the packet in service.
//! - With a limit in bytes, a small packet may enter when a large one did not fit.
//! - A limit of no packets counts as one packet.

use crate::fifo::{Fifo, Limit};
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Size, Time};

crate::params! {
    /// Parameters of [`DropTail`].
    pub struct DropTailParams: "droptail", "First in, first out; an arrival that does not fit is dropped", "RFC 7567" {
        /// The buffer; auto: that of the link.
        limit: Option<Size> = None, ..;
    }
}

impl DropTailParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::DropTail(DropTail::new(self.limit.unwrap_or(context.capacity)))
    }
}

/// First in, first out, with a limit.
#[derive(Debug, Clone)]
pub struct DropTail<P> {
    fifo: Fifo<P>,
    limit: Limit,
}

impl<P: Packet> DropTail<P> {
    /// An empty queue that holds `capacity` (packets, bytes or unlimited).
    pub fn new(capacity: Size) -> Self {
        DropTail { fifo: Fifo::default(), limit: Limit::new(capacity) }
    }
}

impl<P: Packet> DropTail<P> {
    /// Whether nothing waits and `packet` fits. On a free link the packet would enter and leave at
    /// once.
    #[inline]
    pub fn passes(&self, packet: &P) -> bool {
        self.fifo.is_empty() && !self.limit.is_full(0, 0, packet.bytes())
    }
}

impl<P: Packet> Queue<P> for DropTail<P> {
    #[inline]
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        if self.limit.is_full(self.fifo.len(), self.fifo.bytes(), packet.bytes()) {
            report.dropped(now, packet, Reason::Tail);
        } else {
            self.fifo.push(packet, now);
        }
    }

    #[inline]
    fn dequeue<R: Report<P>>(&mut self, _now: Time, _report: &mut R) -> Dequeued<P> {
        match self.fifo.pop() {
            Some((packet, enqueued)) => Dequeued::Packet { packet, enqueued },
            None => Dequeued::Empty,
        }
    }

    #[inline]
    fn packets(&self) -> usize {
        self.fifo.len()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
