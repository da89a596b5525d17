//! Reports from the foreground's own end of the line to the far end that sends the background.
//!
//! A relay does not see the home; its client does. The client knows how long responses usually
//! are ([`Foreground`]) and reports the bytes that the foreground expects. The relay leaves this
//! part of the window free until the responses have arrived. A report goes at once when more is
//! expected, and otherwise four times in a round trip. Reports can be lost.

use crate::foreground::{Foreground, Observation};
use crate::policy::Policy;

/// Least time between two reports if no more is expected, in microseconds: 36 kbit/s.
const EVERY_US: u64 = 10_000;
/// After this time without a packet, in microseconds, the far end has nothing that could wait for
/// the foreground.
const MOVING_US: u64 = 3_000_000;

/// One report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForegroundReport {
    /// Bytes that the foreground expects.
    pub expected_bytes: u32,
    /// Total of bytes that arrived for the foreground, modulo 2^32, from any start.
    pub came_bytes: u32,
}

/// Makes the reports: the foreground as its own end sees it, and what the far end knows of it.
#[derive(Debug)]
pub struct Reporter {
    foreground: Foreground,
    /// The present values.
    current: ForegroundReport,
    /// The last report, and its time in microseconds.
    last: ForegroundReport,
    last_us: u64,
    /// When the last packet of the far end arrived; `None` after [`MOVING_US`] of silence.
    moved_us: Option<u64>,
}

impl Reporter {
    /// A reporter that has not seen the foreground yet.
    pub fn new(policy: &Policy) -> Reporter {
        let nothing = ForegroundReport { expected_bytes: 0, came_bytes: 0 };
        Reporter {
            foreground: Foreground::new(policy),
            current: nothing,
            last: nothing,
            last_us: 0,
            moved_us: None,
        }
    }

    /// Records an observation on the foreground's `connection`. `srtt_us` is the line's present
    /// round-trip time, and `base_us` is the round-trip time without a queue.
    pub fn observed(
        &mut self,
        now_us: u64,
        connection: u64,
        observation: Observation,
        srtt_us: u64,
        base_us: u64,
    ) {
        if let Observation::Bytes(bytes) = observation {
            self.current.came_bytes = self.current.came_bytes.wrapping_add(bytes as u32);
        }
        self.foreground.observed(now_us, connection, observation, srtt_us, base_us);
    }

    /// Records a packet of the far end. Returns whether it is the first one after a silence.
    pub fn background(&mut self, now_us: u64) -> bool {
        self.moved_us.replace(now_us).is_none()
    }

    /// Returns the report that has to go at `now_us`, if any. `srtt_us` is the line's round-trip
    /// time.
    pub fn report(&mut self, now_us: u64, srtt_us: u64) -> Option<ForegroundReport> {
        let expected_bytes = self.foreground.expected_bytes(now_us, srtt_us);
        self.current.expected_bytes = u32::try_from(expected_bytes).unwrap_or(u32::MAX);
        self.moved_us = self.moved_us.filter(|moved_us| now_us <= moved_us + MOVING_US);
        self.moved_us?;
        let more = self.current.expected_bytes > self.last.expected_bytes;
        if !more && self.due_us(srtt_us).is_none_or(|due_us| now_us < due_us) {
            return None;
        }
        (self.last, self.last_us) = (self.current, now_us);
        Some(self.last)
    }

    /// The time at which a report may be due although the foreground is not seen; `None` without
    /// news.
    pub fn due_us(&self, srtt_us: u64) -> Option<u64> {
        self.moved_us?;
        let expects = self.current.expected_bytes > 0;
        let news = expects || self.last != self.current;
        let due_us = self.last_us + (srtt_us / 4).max(EVERY_US);
        let looks_us = self.foreground.deadline_us().filter(|_| expects);
        news.then_some(due_us).into_iter().chain(looks_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_US: u64 = 100_000;
    const CONNECTION: u64 = 7;

    fn see(reporter: &mut Reporter, now_us: u64, observation: Observation) {
        reporter.observed(now_us, CONNECTION, observation, RTT_US, RTT_US);
    }

    fn report(expected_bytes: u32, came_bytes: u32) -> Option<ForegroundReport> {
        Some(ForegroundReport { expected_bytes, came_bytes })
    }

    /// A foreground whose responses are 10 kB long, after two seconds.
    fn taught() -> Reporter {
        let mut reporter = Reporter::new(&Policy::default());
        reporter.background(0);
        see(&mut reporter, 0, Observation::Request);
        see(&mut reporter, RTT_US, Observation::Bytes(10_000));
        assert_eq!(reporter.report(2_000_000, RTT_US), report(0, 10_000));
        assert_eq!(reporter.due_us(RTT_US), None, "no news");
        reporter
    }

    #[test]
    fn a_request_is_reported_at_once_and_a_response_a_few_times_in_its_round_trip() {
        let mut reporter = taught();
        see(&mut reporter, 2_001_000, Observation::Request);
        assert_eq!(reporter.report(2_001_000, RTT_US), report(10_000, 10_000));
        assert_eq!(reporter.report(2_001_001, RTT_US), None);
        let mut reports = Vec::new();
        for n in 1..=10 {
            let now_us = 2_100_000 + n * 5_000;
            see(&mut reporter, now_us, Observation::Bytes(1_000));
            reports.push(reporter.report(now_us, RTT_US));
        }
        reports.retain(Option::is_some);
        reports.push(reporter.report(reporter.due_us(RTT_US).unwrap(), RTT_US));
        assert_eq!(reports, [report(9_000, 11_000), report(4_000, 16_000), report(0, 20_000)]);
        assert_eq!(reporter.due_us(RTT_US), None);
    }

    #[test]
    fn nothing_is_reported_where_nothing_could_wait() {
        let mut reporter = taught();
        let later_us = 2 * MOVING_US;
        see(&mut reporter, later_us, Observation::Request);
        assert_eq!((reporter.report(later_us, RTT_US), reporter.due_us(RTT_US)), (None, None));
        assert!(reporter.background(later_us) && !reporter.background(later_us));
        assert_eq!(reporter.report(later_us, RTT_US), report(10_000, 10_000));
    }

    #[test]
    fn a_server_that_thinks_is_not_waited_for() {
        let mut reporter = taught();
        see(&mut reporter, 2_001_000, Observation::Request);
        let (mut now_us, mut reports) = (2_001_000, Vec::new());
        loop {
            reports.extend(reporter.report(now_us, RTT_US).map(|report| (now_us, report.expected_bytes)));
            match reporter.due_us(RTT_US) {
                Some(due_us) => now_us = due_us.max(now_us + 1),
                None => break,
            }
        }
        let &(end_us, last) = reports.last().unwrap();
        assert_eq!(last, 0);
        assert!((300_000..500_000).contains(&(end_us - 2_001_000)), "{reports:?}");
        assert!(reports.len() < 20, "{reports:?}");
    }
}
