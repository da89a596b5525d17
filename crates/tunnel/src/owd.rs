//! One-way delays: the receiver measures them and reports them to the sender's law.
//!
//! The sender stamps each datagram with its clock. The receiver subtracts the stamp from its own
//! clock. The result is the one-way delay plus a constant, which no delay-based law needs (RFC
//! 6817, 3.2).
//!
//! The receiver reports the smallest delay of a few milliseconds. The packets of a burst queue
//! behind each other, and the first one is free of that queue. Reports about little data can
//! wait, as acknowledgements of TCP can (RFC 1122, 4.2.3.2): no window holds back an end that
//! sends only acknowledgements, and each report takes a part of the line in the other direction.
//!
//! All arithmetic is modulo 2^32 microseconds.

use std::time::{Duration, Instant};

/// Interval of reports, in microseconds.
pub const REPORT_EVERY_US: u32 = 5_000;

/// Reports about fewer bytes than this are sent every [`REPORT_LATEST_US`] only.
pub const REPORT_BYTES: usize = 1_000;
/// Longest interval of reports, in microseconds: the default `max_ack_delay` of QUIC (RFC 9000,
/// 18.2).
pub const REPORT_LATEST_US: u32 = 25_000;

/// Unit of the stamps, in microseconds.
pub const RESOLUTION_US: u32 = 1;

/// What the receiver measured since its last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Smallest relative one-way delay, modulo 2^32 microseconds.
    pub delay_us: u32,
    /// Stamp of the newest packet.
    pub stamp_us: u32,
    /// Number of packets; 65535 stands for that many or more.
    pub packets: u16,
}

/// A clock for stamps: microseconds since its start, modulo 2^32.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The time in microseconds; it wraps every 71 minutes.
    pub fn stamp_us(&self) -> u32 {
        self.micros() as u32
    }

    /// The time in microseconds, without wrapping.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The start of the clock.
    pub fn epoch(&self) -> Instant {
        self.0
    }

    /// The moment at which the clock shows `micros`.
    pub fn at(&self, micros: u64) -> tokio::time::Instant {
        (self.0 + Duration::from_micros(micros)).into()
    }
}

/// The receiver's part.
#[derive(Debug, Default)]
pub struct Meter {
    pending: Option<Report>,
    pending_bytes: usize,
    last_us: Option<u32>,
}

impl Meter {
    /// Takes a stamped packet of `bytes`. Returns a report if one is due.
    pub fn arrived(&mut self, now_us: u32, stamp_us: u32, bytes: usize) -> Option<Report> {
        let delay_us = now_us.wrapping_sub(stamp_us);
        let report = match self.pending {
            None => Report { delay_us, stamp_us, packets: 1 },
            Some(Report { delay_us: least_us, packets, .. }) => Report {
                delay_us: if is_before(delay_us, least_us) { delay_us } else { least_us },
                stamp_us,
                packets: packets.saturating_add(1),
            },
        };
        self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        let least_us = if self.pending_bytes < REPORT_BYTES { REPORT_LATEST_US } else { REPORT_EVERY_US };
        if self.last_us.is_some_and(|last_us| now_us.wrapping_sub(last_us) < least_us) {
            self.pending = Some(report);
            return None;
        }
        (self.pending, self.pending_bytes) = (None, 0);
        self.last_us = Some(now_us);
        Some(report)
    }
}

/// Whether `a` comes before `b`, modulo 2^32.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_delay_of_an_interval_is_reported() {
        let mut meter = Meter::default();
        // Clocks that differ by more than their range, and wrap meanwhile.
        let sent = u32::MAX - 3_000;
        let at = |sent_us: u32, delay_us: u32| (sent_us.wrapping_add(delay_us).wrapping_add(77), sent_us);
        let (now, stamp) = at(sent, 20_000);
        assert_eq!(
            meter.arrived(now, stamp, 1400),
            Some(Report { delay_us: 20_077, stamp_us: stamp, packets: 1 })
        );
        for (after, delay) in [(1_000, 20_500), (2_000, 20_300), (3_000, 20_900)] {
            let (now, stamp) = at(sent.wrapping_add(after), delay);
            assert_eq!(meter.arrived(now, stamp, 1400), None);
        }
        let (now, stamp) = at(sent.wrapping_add(6_000), 21_000);
        assert_eq!(
            meter.arrived(now, stamp, 1400),
            Some(Report { delay_us: 20_377, stamp_us: stamp, packets: 4 })
        );
    }

    #[test]
    fn a_delay_that_seems_negative_is_less() {
        let mut meter = Meter::default();
        assert!(meter.arrived(10, 10, 1400).is_some());
        assert!(meter.arrived(20, 15, 1400).is_none());
        assert!(meter.arrived(30, 35, 1400).is_none());
        assert_eq!(meter.arrived(6_000, 5_000, 1400).unwrap().delay_us, 0u32.wrapping_sub(5));
    }

    #[test]
    fn reports_about_little_wait() {
        let reports = |every_us: usize, bytes| {
            let mut meter = Meter::default();
            (0..1_000_000)
                .step_by(every_us)
                .filter(|&at| meter.arrived(at as u32, 0, bytes).is_some())
                .count()
        };
        assert_eq!(reports(7_000, 1400), 143, "one for each segment");
        assert_eq!(reports(1_000, 1400), 200, "one each 5 ms");
        assert_eq!(reports(12_500, 52), 40, "one for two acknowledgements");
        // Nine packets are not enough, ten are.
        assert_eq!(reports(1_000, 100), 100);
    }
}
