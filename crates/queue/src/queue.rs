//! The interface of a queue discipline.

use crate::{Packet, Report};
use leeway_units::Time;

/// What a queue answers when the link is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dequeued<P> {
    /// The packet to send now.
    Packet {
        /// The packet, which has left the queue.
        packet: P,
        /// When it entered.
        enqueued: Time,
    },
    /// Packets wait, but none may leave before this instant, which is later than now; an arrival can change that.
    NotBefore(Time),
    /// Nothing waits.
    Empty,
}

/// A queue discipline: decides which packets wait, which go next and which are dropped or marked.
///
/// A discipline reads no clock. The caller gives the time of each call; times never go back. A link asks for
/// the next packet exactly when it becomes free, also of an empty queue: some disciplines take the start of
/// an idle period from the first [`Dequeued::Empty`]. The packet in service is not in the queue.
pub trait Queue<P: Packet> {
    /// A packet arrives: it is kept, or dropped (it or another) with a report.
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R);

    /// The link is free: the packet to send, chosen now.
    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P>;

    /// When a packet that is held back now may leave at the earliest; nothing if none is held back.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes that wait.
    fn bytes(&self) -> u64;
}
