//! The input of the law: delays of all connections, bytes that arrived, and whether the window was used.

use crate::delay::{Bases, Route};
use crate::edges::RoundTrip;
use crate::window::MSS_BYTES;
use leeway_control::{Ack, Law, LawSpec, Loss, Path, Phase};
use leeway_tunnel::Scale;

/// Time for a server's response before a round trip was measured: 1 s (RFC 6298, 2.1).
const FIRST_HOLD_US: u64 = 1_000_000;
/// The most time added for late responses: 1 s. A server that retransmits (RFC 6298) is late for
/// seconds.
const PATIENCE_US: u64 = 1_000_000;
/// A delay sample is old after two round trips.
const STALE_ROUNDS: u64 = 2;
/// On paths with a round trip above 75 ms, grants are paced. A burst would arrive as a burst, and the
/// law would take it for a queue. Pacing helped at 100 ms and more, and did harm on an LTE-like line
/// of 50 ms.
const LONG_US: u32 = 75_000;
/// The law's first window.
const INITIAL_BYTES: u32 = 4 * MSS_BYTES;

/// Added to the factor on the queuing delay that the law is given, in thousandths, where grants are
/// withheld for the home's responses. The law then sees its own queues only. A law that also sees the
/// home's queues keeps less than its target between them, and the factor makes both keep the same.
const ALONE_PERMILLE: u64 = 500;

/// One law for all connections.
#[derive(Debug)]
pub struct Feedback {
    law: Law,
    bases: Bases,
    srtt_us: u32,
    min_rtt_us: u32,
    /// The shortest path in use: its round trip without queues, in microseconds.
    way_us: u32,
    /// Time added to [`Feedback::hold_us`] because responses were late, in microseconds.
    patience_us: u64,
    round_end_us: u64,
    scale: Scale,
    /// Factor on the queuing delay besides the scale, in thousandths ([`ALONE_PERMILLE`]).
    alone_permille: u32,
    /// Whether that factor is used: the law has a target, and the home shares the queue.
    yields: bool,
    /// When the last delay sample came.
    sampled_us: u64,
    /// Bytes that arrived in this round trip and in the one before.
    round_bytes: [u64; 2],
}

/// Bytes that arrived, and the use of the window.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Bytes outstanding before.
    pub prior_bytes: u64,
    /// Bytes outstanding afterwards.
    pub outstanding_bytes: u64,
    /// A flow waits for a grant.
    pub waiting: bool,
    /// Grants were withheld for the home.
    pub aside: bool,
}

impl Feedback {
    /// A law without a sample. `yields`: the home's packets wait in the same queue.
    pub fn new(spec: &LawSpec, yields: bool) -> Feedback {
        let path = Path { mss_bytes: MSS_BYTES, initial_window_bytes: INITIAL_BYTES, ..Path::default() };
        Feedback {
            law: spec.build(&path),
            bases: Bases::default(),
            srtt_us: 0,
            min_rtt_us: 0,
            way_us: 0,
            patience_us: 0,
            round_end_us: 0,
            scale: if yields { Scale::new(spec) } else { Scale::as_seen() },
            alone_permille: 1000,
            yields: yields && spec.law().param("target").is_some(),
            sampled_us: 0,
            round_bytes: [0; 2],
        }
    }

    /// The law's window.
    pub fn window_bytes(&self) -> u64 {
        self.law.output().cwnd_q16 >> 16
    }

    /// The law's estimate of the queuing delay, in microseconds.
    pub fn queuing_delay_us(&self) -> u32 {
        let told_us = u64::from(self.law.output().queuing_delay_us);
        self.scale.seen_us((told_us * 1000 / u64::from(self.alone_permille)) as u32)
    }

    /// Round-trip time smoothed over all connections, in microseconds; 0 before the first sample.
    pub fn srtt_us(&self) -> u32 {
        self.srtt_us
    }

    /// Round trip of the shortest path in use, without queues, in microseconds; 0 before the first sample.
    pub fn way_us(&self) -> u32 {
        self.way_us
    }

    /// Whether paths are long ([`LONG_US`]): grants are paced, and round trips in milliseconds suffice.
    pub fn is_long(&self) -> bool {
        self.way_us > LONG_US
    }

    /// Time in which a server has to send some of the granted bytes, in microseconds.
    pub fn hold_us(&self) -> u64 {
        match self.srtt_us {
            0 => FIRST_HOLD_US,
            srtt_us => 2 * u64::from(srtt_us) + 50_000 + self.patience_us,
        }
    }

    /// Bytes arrived by a route, or a response is over, with its round trip if one was measured. Returns
    /// whether the round trip gave a delay sample.
    pub fn arrived(
        &mut self,
        now_us: u64,
        route: Route,
        round_trip: Option<RoundTrip>,
        arrival: Arrival,
    ) -> bool {
        let queuing_us = round_trip.and_then(|round_trip| self.sample(now_us, route, round_trip));
        let told_us = queuing_us.map(|seen_us| {
            let told_us = u64::from(self.scale.told_us(seen_us)) * u64::from(self.alone_permille) / 1000;
            u32::try_from(told_us).unwrap_or(u32::MAX)
        });
        if queuing_us.is_some() {
            self.sampled_us = now_us;
        }
        // A window that doubles needs samples.
        let blind = self.law.output().phase() == Phase::SlowStart
            && now_us > self.sampled_us + u64::from(self.srtt_us);
        let round_start = now_us >= self.round_end_us;
        self.scale.arrived(now_us, arrival.bytes);
        if round_start {
            self.scale.begin_round(&self.law);
            self.round_end_us = now_us + u64::from(self.srtt_us);
            self.round_bytes = [0, self.round_bytes[0]];
        }
        self.round_bytes[0] += arrival.bytes;
        // A server that sends less than it was granted does not use the window.
        let used = arrival.prior_bytes.min(self.round_bytes[0].max(self.round_bytes[1]));
        let ack = Ack {
            now_us,
            acked_bytes: self.scale.told_bytes(arrival.bytes),
            prior_inflight_bytes: arrival.prior_bytes,
            rtt_us: told_us.map_or(0, |told_us| self.min_rtt_us.saturating_add(told_us)),
            owd_us: told_us.unwrap_or(0),
            owd_resolution_us: told_us.is_some().into(),
            app_limited: (blind || arrival.aside || !arrival.waiting && !self.is_used(used)).into(),
            round_start: round_start.into(),
            ..Ack::default()
        };
        self.law.on_ack(&ack, &self.path(arrival.outstanding_bytes));
        told_us.is_some()
    }

    /// Bytes arrived over the same line for others.
    pub fn others_arrived(&mut self, now_us: u64, bytes: u64) {
        self.scale.arrived(now_us, bytes);
    }

    /// Part of the home's requests, in thousandths, for which grants are withheld, so that the law sees
    /// none of their queues. Counts as 0 on long paths.
    pub fn kept(&mut self, permille: u64) {
        if self.yields {
            let permille = if self.is_long() { 0 } else { permille };
            self.alone_permille = (1000 + permille * ALONE_PERMILLE / 1000) as u32;
        }
    }

    /// The line's rate in bytes a second; 0 while nothing is known.
    pub fn rate(&self) -> u64 {
        self.scale.rate()
    }

    /// A server's segment was lost that would have arrived after `since_us`.
    pub fn lost(&mut self, now_us: u64, since_us: u64, lost_bytes: u64, outstanding_bytes: u64) {
        let sent_us = since_us.saturating_sub(self.srtt_us.into());
        let loss = Loss { now_us, lost_bytes, sent_us, ..Loss::default() };
        self.law.on_loss(&loss, &self.path(outstanding_bytes));
    }

    fn path(&self, inflight_bytes: u64) -> Path {
        Path {
            inflight_bytes,
            mss_bytes: MSS_BYTES,
            initial_window_bytes: INITIAL_BYTES,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
        }
    }

    /// The queuing delay of a round trip. A lower bound of a round trip gives a sample only if the delay
    /// is larger than the law's estimate, or if the last sample is old: with an old estimate a law would
    /// shrink its window without end.
    fn sample(&mut self, now_us: u64, route: Route, round_trip: RoundTrip) -> Option<u32> {
        let RoundTrip { rtt_us, exact, late } = round_trip;
        if late {
            self.patience_us = (self.patience_us + self.hold_us() / 2).min(PATIENCE_US);
        }
        let queuing_us = if exact {
            self.bases.queuing_us(now_us, route, rtt_us)
        } else {
            let least_us = self.bases.least_queuing_us(route, rtt_us);
            let old = now_us > self.sampled_us + STALE_ROUNDS * u64::from(self.srtt_us);
            Some(least_us).filter(|&least_us| old || least_us > self.queuing_delay_us())?
        };
        if !late {
            self.patience_us /= 2;
            self.srtt_us = match self.srtt_us {
                0 => rtt_us,
                srtt_us => (u64::from(srtt_us) * 7 / 8 + u64::from(rtt_us) / 8) as u32,
            };
            // Of near and far servers the near ones; once nothing comes from these any more, the others.
            let way_us = rtt_us.saturating_sub(queuing_us);
            self.way_us = match self.way_us {
                0 => way_us,
                shortest_us => way_us.min(shortest_us + way_us.saturating_sub(shortest_us) / 64),
            };
        } else if self.srtt_us == 0 {
            // How long it was is not known, but more than nothing.
            self.srtt_us = rtt_us;
        }
        // The law's own base: that of the first server, to which every queue is added.
        if self.min_rtt_us == 0 {
            self.min_rtt_us = rtt_us;
        }
        Some(queuing_us)
    }

    /// Whether so much is the window but for two segments; in slow start, half of it.
    fn is_used(&self, bytes: u64) -> bool {
        let factor = if self.law.output().phase() == Phase::SlowStart { 2 } else { 1 };
        (bytes + 2 * u64::from(MSS_BYTES)) * factor >= self.window_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRIVAL: Arrival =
        Arrival { bytes: 1460, prior_bytes: 5840, outstanding_bytes: 4380, waiting: true, aside: false };

    fn server() -> Route {
        Route::of(std::net::Ipv4Addr::new(9, 9, 9, 9).into())
    }

    fn heard(exactly_us: &[u32]) -> Feedback {
        let mut feedback = Feedback::new(&"ledbat".parse().unwrap(), true);
        for (n, &rtt_us) in exactly_us.iter().enumerate() {
            let round_trip = Some(RoundTrip { rtt_us, exact: true, late: false });
            assert!(feedback.arrived(n as u64 * 1000, server(), round_trip, ARRIVAL));
        }
        feedback
    }

    /// LEDBAT takes the least of its last samples.
    #[test]
    fn one_that_may_have_been_longer_never_shows_a_shorter_queue() {
        let mut feedback = heard(&[20_000, 60_000, 60_000, 60_000, 60_000, 60_000]);
        let known_us = feedback.queuing_delay_us();
        assert_eq!(known_us, 40_000);
        let mut at_least = |rtt_us, late| {
            let round_trip = Some(RoundTrip { rtt_us, exact: false, late });
            (feedback.arrived(10_000, server(), round_trip, ARRIVAL), feedback.queuing_delay_us())
        };
        assert_eq!(at_least(30_000, false), (false, known_us));
        assert_eq!(at_least(30_000, true), (false, known_us));
        assert!(at_least(90_000, true).0);
    }

    /// A queue of long ago would be yielded to for ever where nothing exact comes any more.
    #[test]
    fn where_nothing_better_is_known_for_a_while_it_shows_what_there_is_at_least() {
        let mut feedback = heard(&[20_000, 60_000, 60_000, 60_000, 60_000, 60_000]);
        let srtt_us = u64::from(feedback.srtt_us());
        let mut at_least = |now_us, rtt_us| {
            let round_trip = Some(RoundTrip { rtt_us, exact: false, late: false });
            (feedback.arrived(now_us, server(), round_trip, ARRIVAL), feedback.queuing_delay_us())
        };
        let last_us = 5_000;
        assert_eq!(at_least(last_us + 2 * srtt_us, 30_000), (false, 40_000));
        assert_eq!(at_least(last_us + 2 * srtt_us + 1, 30_000), (true, 10_000));
        // That was of use, so the next one is not, unless it shows more.
        assert_eq!(at_least(last_us + 3 * srtt_us, 25_000), (false, 10_000));
    }

    #[test]
    fn who_is_late_is_given_longer_until_somebody_is_in_time() {
        let mut feedback = heard(&[20_000]);
        let usual_us = feedback.hold_us();
        assert_eq!(usual_us, 90_000);
        for _ in 0..1000 {
            let late = Some(RoundTrip { rtt_us: 90_000, exact: false, late: true });
            feedback.arrived(10_000, server(), late, ARRIVAL);
        }
        assert_eq!(feedback.hold_us(), usual_us + PATIENCE_US);
        let in_time = Some(RoundTrip { rtt_us: 20_000, exact: true, late: false });
        feedback.arrived(20_000, server(), in_time, ARRIVAL);
        assert_eq!(feedback.hold_us(), usual_us + PATIENCE_US / 2);
    }

    /// A segment in each of so many microseconds, and what the law is told of a queue of 10 ms.
    fn told_us(segment_us: u64, yields: bool) -> u32 {
        let mut feedback = Feedback::new(&"ledbat:filter_length=1".parse().unwrap(), yields);
        for n in 0..10_000 {
            let round_trip = Some(RoundTrip { rtt_us: 20_000, exact: true, late: false });
            feedback.arrived(n * segment_us, server(), round_trip, ARRIVAL);
        }
        let round_trip = Some(RoundTrip { rtt_us: 30_000, exact: true, late: false });
        feedback.arrived(10_000 * segment_us, server(), round_trip, ARRIVAL);
        assert!(feedback.queuing_delay_us().abs_diff(10_000) < 10, "{}", feedback.queuing_delay_us());
        feedback.law.output().queuing_delay_us
    }

    #[test]
    fn a_queue_of_as_many_segments_is_the_same_on_lines_of_other_rates() {
        assert_eq!(told_us(7000, true), 10_000);
        assert!(told_us(2920, true).abs_diff(20_000) < 2000, "{}", told_us(2920, true));
        assert_eq!(told_us(300, true), 25_000);
        assert_eq!(told_us(300, false), 10_000);
    }

    #[test]
    fn before_anything_is_known_a_server_has_a_second() {
        assert_eq!(heard(&[]).hold_us(), FIRST_HOLD_US);
    }
}
