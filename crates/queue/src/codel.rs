//! CoDel: drops at the head of a queue after its delay was above a target for an interval (RFC
//! 8289).
//!
//! # Scope and limitations
//! - `variant=2012` is the algorithm of the first publication (Nichols and Jacobson, Controlling
//!   Queue Delay, ACM Queue 2012). It waits longer before its first drop, and remembers its last
//!   drop rate in another way.
//! - The square root is exact, and not the Newton step of kernels.
//! - The largest packet so far stands for the MTU.
//! - With `ecn=true` a packet is marked and delivered instead of dropped, as in Linux. RFC 8289,
//!   3, leaves this to the implementation.

use crate::fifo::{Fifo, Limit};
use crate::spec::BuildContext;
use crate::{AnyQueue, Dequeued, Packet, Queue, Reason, Report};
use leeway_units::{Duration, Size, Time};

crate::choice! {
    /// Which publication of CoDel.
    pub enum CoDelVariant {
        /// RFC 8289.
        Rfc8289 = "rfc8289",
        /// ACM Queue 2012.
        Y2012 = "2012",
    }
}

crate::params! {
    /// Parameters of [`CoDel`].
    pub struct CoDelParams: "codel", "Controlled delay: drops at the head while the queuing delay stands above a target", "RFC 8289" {
        /// The buffer; auto: that of the link.
        limit: Option<Size> = None, ..;
        /// The queuing delay that may stand.
        target: Duration = Duration::from_millis(5), Duration::from_micros(1)..=Duration::from_secs(100);
        /// How long the delay may be above the target before the first drop: a worst-case round
        /// trip.
        interval: Duration = Duration::from_millis(100), Duration::from_micros(1)..=Duration::from_secs(1000);
        /// Which publication.
        variant: CoDelVariant = CoDelVariant::Rfc8289, ..;
        /// Whether to mark packets that can be marked instead of dropping them.
        ecn: bool = false, ..;
    }
}

impl CoDelParams {
    pub(crate) fn build<P: Packet>(&self, context: &BuildContext) -> AnyQueue<P> {
        AnyQueue::CoDel(Box::new(CoDel::new(self, context)))
    }

    pub(crate) fn law(&self) -> Law {
        Law { target: self.target, interval: self.interval, variant: self.variant, ecn: self.ecn }
    }
}

/// Constants of the control law.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    pub target: Duration,
    pub interval: Duration,
    pub variant: CoDelVariant,
    pub ecn: bool,
}

impl Law {
    /// RFC 8289, 5.6: the next drop follows after interval / sqrt(number of drops).
    fn next_drop(&self, from: Time, count: u32) -> Time {
        let nanos = self.interval.nanos() as f64 / f64::from(count).sqrt();
        from + Duration::from_nanos(nanos.round() as u64)
    }
}

/// State of the control law for one queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control {
    /// Time at which the delay has been above the target for an interval.
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    largest: u32,
}

impl Control {
    pub fn saw(&mut self, bytes: u32) {
        self.largest = self.largest.max(bytes);
    }

    /// RFC 8289, 5.6: takes the first packet, and says whether it may be dropped.
    fn take<P: Packet>(&mut self, now: Time, law: &Law, fifo: &mut Fifo<P>) -> Option<(P, Time, bool)> {
        let Some((packet, enqueued)) = fifo.pop() else {
            self.first_above = None;
            return None;
        };
        let short = match law.variant {
            CoDelVariant::Rfc8289 => fifo.bytes() <= u64::from(self.largest),
            CoDelVariant::Y2012 => fifo.bytes() < u64::from(self.largest),
        };
        let mut ok_to_drop = false;
        if now.since(enqueued) < law.target || short {
            self.first_above = None;
        } else {
            match self.first_above {
                None => self.first_above = Some(now + law.interval),
                Some(at) => ok_to_drop = now >= at,
            }
        }
        Some((packet, enqueued, ok_to_drop))
    }

    /// The packet to send now. Drops and marks packets by the control law.
    pub fn dequeue<P: Packet, R: Report<P>>(
        &mut self,
        now: Time,
        law: &Law,
        fifo: &mut Fifo<P>,
        report: &mut R,
    ) -> Option<(P, Time)> {
        let Some((mut packet, mut enqueued, mut ok_to_drop)) = self.take(now, law, fifo) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            // RFC 8289, 5.5: several drops may be due, but only while the next packet is late too.
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if law.ecn && packet.ecn().is_capable() {
                    packet.set_ce();
                    report.marked(now, &packet, Reason::Aqm);
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                    break;
                }
                report.dropped(now, packet, Reason::Aqm);
                match self.take(now, law, fifo) {
                    Some(next) => (packet, enqueued, ok_to_drop) = next,
                    None => {
                        self.dropping = false;
                        return None;
                    }
                }
                if ok_to_drop {
                    self.drop_next = law.next_drop(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop && self.may_start(now, law) {
            let survivor = if law.ecn && packet.ecn().is_capable() {
                packet.set_ce();
                report.marked(now, &packet, Reason::Aqm);
                Some((packet, enqueued))
            } else {
                report.dropped(now, packet, Reason::Aqm);
                self.take(now, law, fifo).map(|(packet, enqueued, _)| (packet, enqueued))
            };
            self.start(now, law);
            return survivor;
        }
        Some((packet, enqueued))
    }

    /// `variant=2012`: without a drop in the last interval, the delay has to be above the target
    /// for two intervals.
    fn may_start(&self, now: Time, law: &Law) -> bool {
        let recent = now.since(self.drop_next) < law.interval;
        let long = self.first_above.is_some_and(|at| now.since(at) >= law.interval);
        law.variant == CoDelVariant::Rfc8289 || recent || long
    }

    /// Starts to drop. The rate is the last one that controlled the queue, if that was recent.
    fn start(&mut self, now: Time, law: &Law) {
        self.dropping = true;
        let since = now.since(self.drop_next);
        match law.variant {
            // RFC 8289, 5.5
            CoDelVariant::Rfc8289 => {
                let delta = self.count.saturating_sub(self.last_count);
                self.count = if delta > 1 && since < law.interval * 16 { delta } else { 1 };
            }
            CoDelVariant::Y2012 => {
                self.count = if since < law.interval && self.count > 2 { self.count - 2 } else { 1 };
            }
        }
        self.drop_next = law.next_drop(now, self.count);
        self.last_count = self.count;
    }
}

/// CoDel over one first-in-first-out queue.
#[derive(Debug, Clone)]
pub struct CoDel<P> {
    fifo: Fifo<P>,
    limit: Limit,
    law: Law,
    control: Control,
}

impl<P: Packet> CoDel<P> {
    /// An empty queue.
    pub fn new(params: &CoDelParams, context: &BuildContext) -> Self {
        CoDel {
            fifo: Fifo::default(),
            limit: Limit::new(params.limit.unwrap_or(context.capacity)),
            law: params.law(),
            control: Control::default(),
        }
    }
}

impl<P: Packet> Queue<P> for CoDel<P> {
    fn enqueue<R: Report<P>>(&mut self, now: Time, packet: P, report: &mut R) {
        if self.limit.is_full(self.fifo.len(), self.fifo.bytes(), packet.bytes()) {
            return report.dropped(now, packet, Reason::Tail);
        }
        self.control.saw(packet.bytes());
        self.fifo.push(packet, now);
    }

    fn dequeue<R: Report<P>>(&mut self, now: Time, report: &mut R) -> Dequeued<P> {
        match self.control.dequeue(now, &self.law, &mut self.fifo, report) {
            Some((packet, enqueued)) => Dequeued::Packet { packet, enqueued },
            None => Dequeued::Empty,
        }
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(variant: CoDelVariant) -> Law {
        CoDelParams { variant, ..CoDelParams::default() }.law()
    }

    /// The `count` with which a control starts again, `since` ms after its next drop was due. It
    /// made `count` drops before, `last` of them before its last start.
    fn restart(variant: CoDelVariant, count: u32, last: u32, since: u64) -> u32 {
        let drop_next = Time::from_secs(10);
        let mut control = Control { count, last_count: last, drop_next, ..Control::default() };
        let now = drop_next + Duration::from_millis(since);
        control.start(now, &law(variant));
        assert!(control.dropping);
        assert_eq!(control.last_count, control.count);
        assert_eq!(control.drop_next, law(variant).next_drop(now, control.count));
        control.count
    }

    #[test]
    fn the_interval_shrinks_by_the_square_root() {
        let law = law(CoDelVariant::Rfc8289);
        let gap = |count| law.next_drop(Time::ZERO, count).nanos();
        assert_eq!((gap(1), gap(4), gap(100)), (100_000_000, 50_000_000, 10_000_000));
        assert_eq!((gap(2), gap(3)), (70_710_678, 57_735_027));
    }

    #[test]
    fn a_restart_remembers_as_rfc_8289_says() {
        use CoDelVariant::Rfc8289;
        assert_eq!(restart(Rfc8289, 12, 5, 50), 7);
        assert_eq!(restart(Rfc8289, 12, 5, 1599), 7);
        assert_eq!(restart(Rfc8289, 12, 5, 1600), 1);
        assert_eq!(restart(Rfc8289, 6, 5, 50), 1);
        assert_eq!(restart(Rfc8289, 7, 5, 50), 2);
    }

    #[test]
    fn a_restart_remembers_as_the_publication_of_2012_says() {
        use CoDelVariant::Y2012;
        assert_eq!(restart(Y2012, 12, 5, 50), 10);
        assert_eq!(restart(Y2012, 12, 5, 99), 10);
        assert_eq!(restart(Y2012, 12, 5, 100), 1);
        assert_eq!(restart(Y2012, 3, 1, 50), 1);
        assert_eq!(restart(Y2012, 2, 1, 50), 1);
    }

    #[test]
    fn the_2012_variant_starts_late_unless_it_dropped_a_moment_ago() {
        let law = law(CoDelVariant::Y2012);
        let start = |above_ms: u64, since_ms: u64| {
            let now = Time::from_secs(10);
            let control = Control {
                first_above: Some(now - Duration::from_millis(above_ms)),
                drop_next: now - Duration::from_millis(since_ms),
                ..Control::default()
            };
            control.may_start(now, &law)
        };
        assert!(!start(99, 100) && start(100, 100) && start(0, 99));
    }
}
