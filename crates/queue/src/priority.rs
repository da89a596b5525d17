//! Strict priority: the most important class with packets is served.
//!
//! # Scope and limitations
//! - Class 0 comes first. A packet of a class beyond the last band goes to the last one.
//! - Lower classes starve while higher ones keep the link busy. `borrowing` guarantees rates.
//! - The buffer is shared. With `pushout=true` an arrival replaces the last packet of the least
//!   important class below its own. With `pushout=false` the arrival is dropped.

use crate::fifo::{Fifo, Limit};
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Size, Time};

crate::params! {
    /// Parameters of [`Priority`].
    pub struct PriorityParams: "priority", "Strict priority: the most important class that has a packet goes first", "as Linux sch_prio" {
        /// The buffer that all bands share; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// Bands.
        bands: u32 = 3, 1..=256;
        /// Whether an important arrival takes the place of a less important packet in a full
        /// buffer.
        pushout: bool = true, ..;
    }
}

impl PriorityParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::Priority(Box::new(Priority::new(self, context)))
    }
}

/// Strict priority.
#[derive(Debug, Clone)]
pub struct Priority<P> {
    bands: Vec<Fifo<P>>,
    packets: usize,
    bytes: u64,
    limit: Limit,
    pushout: bool,
}

impl<P: Packet> Priority<P> {
    /// An empty queue.
    pub fn new(params: &PriorityParams, context: &BuildContext) -> Self {
        Priority {
            bands: (0..params.bands).map(|_| Fifo::default()).collect(),
            packets: 0,
            bytes: 0,
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            pushout: params.pushout,
        }
    }
}

impl<P: Packet> Queue<P> for Priority<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        let band = usize::from(packet.class()).min(self.bands.len() - 1);
        // If the packet would not fit even without less important packets, none of them is
        // dropped.
        let lesser = &self.bands[if self.pushout { band + 1 } else { self.bands.len() }..];
        let packets = self.packets - lesser.iter().map(Fifo::len).sum::<usize>();
        let bytes = self.bytes - lesser.iter().map(Fifo::bytes).sum::<u64>();
        if self.limit.is_full(packets, bytes, packet.bytes()) {
            return report.dropped(now, packet, Reason::Tail);
        }
        while self.limit.is_full(self.packets, self.bytes, packet.bytes()) {
            let Some((victim, _)) = self.bands[band + 1..].iter_mut().rev().find_map(Fifo::pop_last) else {
                break;
            };
            self.packets -= 1;
            self.bytes -= u64::from(victim.bytes());
            report.dropped(now, victim, Reason::Overflow);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.bytes());
        self.bands[band].push(packet, now);
    }

    fn dequeue<R: Report<P>>(&mut self, _now: Time, _report: &mut R) -> Dequeued<P> {
        match self.bands.iter_mut().find_map(Fifo::pop) {
            Some((packet, enqueued)) => {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes());
                Dequeued::Packet { packet, enqueued }
            }
            None => Dequeued::Empty,
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
