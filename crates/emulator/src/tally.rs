//! Counters of one direction.

use crate::record::{Event, Record, Writer};
use crate::{Direction, Frame, Lateness};
use leeway_queue::{Packet, Reason, Report};
use leeway_units::Time;

/// The packets of one direction.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Packets read from the device.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets written to the other device.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Packets that the other device did not take.
    pub refused: u64,
    /// Packets dropped by the link, for each of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Packets marked by the link.
    pub marked: u64,
    /// How late packets were written.
    pub lateness: Lateness,
}

impl Tally {
    /// All drops of the link.
    pub fn drops(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// The drops for one reason.
    pub fn drops_by(&self, reason: Reason) -> u64 {
        Reason::ALL.iter().zip(self.dropped).find(|(known, _)| **known == reason).map_or(0, |(_, n)| n)
    }
}

/// Observer of a link: counts and records its events, and takes back the buffers.
pub(crate) struct Listener<'a> {
    pub direction: Direction,
    pub tally: &'a mut Tally,
    pub log: Option<&'a mut Writer>,
    pub buffers: &'a mut Vec<Vec<u8>>,
}

impl Listener<'_> {
    pub fn record(&mut self, packet: u64, at: Time, event: Event) {
        if let Some(log) = &mut self.log {
            log.add(Record { direction: self.direction, packet, at, event });
        }
    }

    pub fn arrived(&mut self, now: Time, frame: &Frame) {
        self.tally.arrived += 1;
        self.tally.arrived_bytes += u64::from(frame.bytes());
        let event = Event::Arrive {
            bytes: frame.bytes(),
            flow: frame.flow(),
            ecn: frame.ecn(),
            class: frame.class(),
        };
        self.record(frame.id, now, event);
    }
}

impl Report<Frame> for Listener<'_> {
    fn dropped(&mut self, now: Time, frame: Frame, reason: Reason) {
        if let Some(index) = Reason::ALL.iter().position(|&known| known == reason) {
            self.tally.dropped[index] += 1;
        }
        self.record(frame.id, now, Event::Drop(reason));
        self.buffers.push(frame.into_buffer());
    }

    fn marked(&mut self, now: Time, frame: &Frame, reason: Reason) {
        self.tally.marked += 1;
        self.record(frame.id, now, Event::Mark(reason));
    }
}
