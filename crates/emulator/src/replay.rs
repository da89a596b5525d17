//! The same packets through the same link in simulated time.

use crate::record::{Event, Record};
use crate::{Direction, Frame};
use leeway_link::{Link, LinkSpec};
use leeway_queue::{Reason, Report};
use leeway_units::{Duration, Time};

/// Departures, drops and marks of a link, at the link's own times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Played {
    /// Packets that came out, in order.
    pub left: Vec<(u64, Time)>,
    /// Packets that were dropped, in order.
    pub dropped: Vec<(u64, Time, Reason)>,
    /// Packets that were marked, in order.
    pub marked: Vec<(u64, Time, Reason)>,
}

impl Report<Frame> for Played {
    fn dropped(&mut self, now: Time, frame: Frame, reason: Reason) {
        self.dropped.push((frame.id, now, reason));
    }

    fn marked(&mut self, now: Time, frame: &Frame, reason: Reason) {
        self.marked.push((frame.id, now, reason));
    }
}

/// Departures, drops and marks of `direction`, from the engine's records.
pub fn recorded(records: &[Record], direction: Direction) -> Played {
    let mut played = Played::default();
    for record in records.iter().filter(|record| record.direction == direction) {
        let Record { packet, at, .. } = *record;
        match record.event {
            Event::Leave { due } => played.left.push((packet, due)),
            Event::Drop(reason) => played.dropped.push((packet, at, reason)),
            Event::Mark(reason) => played.marked.push((packet, at, reason)),
            Event::Arrive { .. } | Event::Stop => {}
        }
    }
    played
}

/// Plays the recorded arrivals of `direction` through a new link from `spec`, and polls every
/// event at its own time, as the simulator does. `seed` is that of the whole link.
pub fn replay(records: &[Record], direction: Direction, spec: &LinkSpec, seed: u64) -> Played {
    let mut link: Link<Frame> = spec.build(direction.seed(seed));
    let mut played = Played::default();
    for record in records.iter().filter(|record| record.direction == direction) {
        match record.event {
            Event::Arrive { bytes, flow, ecn, class } => {
                advance(&mut link, record.at, &mut played);
                let frame = Frame::described(record.packet, bytes, flow, ecn, class);
                link.offer(record.at, frame, &mut played);
            }
            Event::Stop => advance(&mut link, record.at, &mut played),
            Event::Drop(_) | Event::Mark(_) | Event::Leave { .. } => {}
        }
    }
    played
}

fn advance(link: &mut Link<Frame>, until: Time, played: &mut Played) {
    while let Some(next) = link.next().filter(|&next| next <= until) {
        let mut reports = Played::default();
        while let Some(arrival) = link.poll(next, &mut reports) {
            played.left.push((arrival.packet.id, arrival.at));
        }
        played.dropped.append(&mut reports.dropped);
        played.marked.append(&mut reports.marked);
    }
}

/// The largest time between a packet's departure from the link and its write to the device, and
/// whether any packet was written before it was due.
pub fn wake_up_error(records: &[Record]) -> (Duration, bool) {
    records.iter().fold((Duration::ZERO, false), |(worst, early), record| match record.event {
        Event::Leave { due } => (worst.max(record.at - due), early || record.at < due),
        _ => (worst, early),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_queue::Ecn;
    use leeway_units::{Rate, Size};

    fn arrive(packet: u64, us: u64) -> Record {
        let event = Event::Arrive { bytes: 1500, flow: 1, ecn: Ecn::NotEct, class: 0 };
        Record { direction: Direction::Up, packet, at: Time::from_micros(us), event }
    }

    #[test]
    fn a_replay_is_the_link_by_hand() {
        // 1500 bytes at 12 Mbit/s take 1 ms; one waits, the third finds the buffer full.
        let mut spec = LinkSpec::new(Rate::from_bits_per_sec(12_000_000), Size::Packets(1));
        spec.delay = Duration::from_millis(10);
        let stop =
            Record { direction: Direction::Up, packet: 3, at: Time::from_millis(20), event: Event::Stop };
        let records = [arrive(0, 0), arrive(1, 100), arrive(2, 200), stop];
        let played = replay(&records, Direction::Up, &spec, 1);
        assert_eq!(played.left, [(0, Time::from_millis(11)), (1, Time::from_millis(12))]);
        assert_eq!(played.dropped, [(2, Time::from_micros(200), Reason::Tail)]);
        assert_eq!(replay(&records, Direction::Down, &spec, 1), Played::default());
    }
}
