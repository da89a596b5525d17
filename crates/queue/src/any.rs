//! One type for every discipline, without dynamic dispatch.

use crate::{Dequeued, DropTail, Packet, Queue, Report};
use leeway_units::Time;

/// Any of the disciplines. Drop-tail, the commonest, is held in place; the larger ones are boxed.
#[derive(Debug, Clone)]
pub enum AnyQueue<P> {
    /// [`DropTail`].
    DropTail(DropTail<P>),
}

macro_rules! each {
    ($self:expr, $queue:ident => $action:expr) => {
        match $self {
            AnyQueue::DropTail($queue) => $action,
        }
    };
}

impl<P: Packet> Queue<P> for AnyQueue<P> {
    #[inline]
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        each!(self, queue => queue.enqueue(now, packet, report));
    }

    #[inline]
    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P> {
        each!(self, queue => queue.dequeue(now, report))
    }

    #[inline]
    fn deadline(&self) -> Option<Time> {
        each!(self, queue => queue.deadline())
    }

    #[inline]
    fn packets(&self) -> usize {
        each!(self, queue => queue.packets())
    }

    #[inline]
    fn bytes(&self) -> u64 {
        each!(self, queue => queue.bytes())
    }
}
