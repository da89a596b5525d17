//! The interface of a queue discipline.

use crate::{Packet, Report};
use leeway_units::Time;

/// The answer of a queue when the link is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dequeued<P> {
    /// The packet to send now.
    Packet {
        /// The packet, which has left the queue.
        packet: P,
        /// Time at which the packet entered.
        enqueued: Time,
    },
    /// Packets wait, but none may leave before this time, which is after now. An arrival can
    /// change it.
    NotBefore(Time),
    /// The queue is empty.
    Empty,
}

/// A queue discipline: decides which packets wait, which goes next, and which are dropped or
/// marked.
///
/// A discipline reads no clock. The caller passes the time of each call, which never decreases. A
/// link asks for the next packet exactly when it becomes free, also if the queue is empty. Some
/// disciplines take the first [`Dequeued::Empty`] as the start of an idle period. The packet in
/// service is not in the queue.
pub trait Queue<P: Packet> {
    /// A packet arrives. It is kept, or it or another packet is dropped with a report.
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R);

    /// The link is free. Returns the packet to send.
    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P>;

    /// Earliest time at which a packet that is held back may leave; `None` if no packet is held
    /// back.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes that wait.
    fn bytes(&self) -> u64;
}
