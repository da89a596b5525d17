//! One type for every discipline, without dynamic dispatch.

use crate::{
    Borrowing, CoDel, Dequeued, DropTail, Drr, FqCoDel, Packet, Pie, Priority, Queue, Red, Report, Sfq,
};
use leeway_units::Time;

/// Any of the disciplines. Drop-tail, the most common one, is stored in place, and the larger ones
/// are boxed.
#[derive(Debug, Clone)]
pub enum AnyQueue<P> {
    /// [`DropTail`].
    DropTail(DropTail<P>),
    /// [`Red`].
    Red(Box<Red<P>>),
    /// [`CoDel`].
    CoDel(Box<CoDel<P>>),
    /// [`Pie`].
    Pie(Box<Pie<P>>),
    /// [`Sfq`].
    Sfq(Box<Sfq<P>>),
    /// [`FqCoDel`].
    FqCoDel(Box<FqCoDel<P>>),
    /// [`Drr`].
    Drr(Box<Drr<P>>),
    /// [`Priority`].
    Priority(Box<Priority<P>>),
    /// [`Borrowing`].
    Borrowing(Box<Borrowing<P>>),
}

macro_rules! each {
    ($self:expr, $queue:ident => $action:expr) => {
        match $self {
            AnyQueue::DropTail($queue) => $action,
            AnyQueue::Red($queue) => $action,
            AnyQueue::CoDel($queue) => $action,
            AnyQueue::Pie($queue) => $action,
            AnyQueue::Sfq($queue) => $action,
            AnyQueue::FqCoDel($queue) => $action,
            AnyQueue::Drr($queue) => $action,
            AnyQueue::Priority($queue) => $action,
            AnyQueue::Borrowing($queue) => $action,
        }
    };
}

// Drop-tail is inlined into the link. The other disciplines are not, because their code would slow
// it down.
impl<P: Packet> AnyQueue<P> {
    #[cold]
    #[inline(never)]
    fn enqueue_other<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        each!(self, queue => queue.enqueue(now, packet, report));
    }

    #[cold]
    #[inline(never)]
    fn dequeue_other<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P> {
        each!(self, queue => queue.dequeue(now, report))
    }
}

impl<P: Packet> Queue<P> for AnyQueue<P> {
    #[inline]
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        match self {
            AnyQueue::DropTail(queue) => queue.enqueue(now, packet, report),
            other => other.enqueue_other(now, packet, report),
        }
    }

    #[inline]
    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P> {
        match self {
            AnyQueue::DropTail(queue) => queue.dequeue(now, report),
            other => other.dequeue_other(now, report),
        }
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
