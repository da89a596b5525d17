//! Round-trip estimation and the retransmission timeout (RFC 6298).

use crate::scenario::{RtoFloor, Tcp};
use leeway_units::{Duration, Time};

/// Smoothed round-trip time, and the retransmission timeout derived from it.
#[derive(Debug, Clone)]
pub struct Rto {
    /// 8 x SRTT in nanoseconds, so that the gain of 1/8 is a subtraction; zero before the first sample.
    srtt_x8: u64,
    /// 4 x RTTVAR in nanoseconds.
    rttvar_x4: u64,
    /// How often the timeout is doubled: once for each expiry (RFC 6298, 5.5).
    backoff: u32,
    /// Expiries since the last acknowledgement of new data.
    in_a_row: u32,
}

impl Rto {
    /// The state before the first sample.
    pub fn new() -> Self {
        Rto { srtt_x8: 0, rttvar_x4: 0, backoff: 0, in_a_row: 0 }
    }

    /// Takes a sample (RFC 6298, 2.2 and 2.3).
    #[inline]
    pub fn sample(&mut self, rtt: Duration) {
        let r = rtt.nanos();
        if self.srtt_x8 == 0 {
            self.srtt_x8 = r * 8;
            self.rttvar_x4 = r * 2;
            return;
        }
        let deviation = (self.srtt_x8 / 8).abs_diff(r);
        self.rttvar_x4 = self.rttvar_x4 - self.rttvar_x4 / 4 + deviation;
        self.srtt_x8 = self.srtt_x8 - self.srtt_x8 / 8 + r;
    }

    /// New data was acknowledged. `confirmed` ends the doubling of the timeout.
    #[inline]
    pub fn progress(&mut self, confirmed: bool) {
        self.in_a_row = 0;
        if confirmed {
            self.backoff = 0;
        }
    }

    /// The timer expired (RFC 6298, 5.5). Returns how many times in a row.
    pub fn expired(&mut self) -> u32 {
        self.backoff = self.backoff.saturating_add(1);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.in_a_row
    }

    /// Smoothed round-trip time; zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_x8 / 8)
    }

    /// Smoothed round-trip time in microseconds; zero before the first sample.
    #[inline]
    pub fn srtt_us(&self) -> u32 {
        u32::try_from(self.srtt_x8 / 8_000).unwrap_or(u32::MAX)
    }

    /// The timeout: SRTT + max(G, 4 RTTVAR) within its bounds (RFC 6298, 2.3), doubled for each
    /// expiry.
    #[inline]
    pub fn timeout(&self, tcp: &Tcp) -> Duration {
        let least = match tcp.rto_floor {
            RtoFloor::Timeout => tcp.rto_granularity,
            // Linux, `tcp_rtt_estimator`: rttvar is at least `tcp_rto_min`.
            RtoFloor::Variance => tcp.rto_granularity.max(tcp.min_rto),
        };
        let base = match self.srtt_x8 {
            0 => tcp.initial_rto,
            srtt_x8 => Duration::from_nanos(srtt_x8 / 8) + Duration::from_nanos(self.rttvar_x4).max(least),
        };
        let base = base.max(tcp.min_rto);
        if self.backoff == 0 {
            return base.min(tcp.max_rto);
        }
        (base * (1u64 << self.backoff.min(32))).min(tcp.max_rto)
    }
}

impl Default for Rto {
    fn default() -> Self {
        Rto::new()
    }
}

/// A timer whose deadline moves with nearly every packet.
///
/// It has one entry in the calendar. An entry that comes up before the deadline is moved to the
/// deadline. So moving the deadline to a later time costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct LazyTimer {
    deadline: Time,
    queued: Time,
}

impl LazyTimer {
    /// A timer that is off.
    pub fn new() -> Self {
        LazyTimer { deadline: Time::NEVER, queued: Time::NEVER }
    }

    /// Sets the deadline. Returns a time if the calendar needs an entry there.
    #[inline]
    pub fn set(&mut self, deadline: Time) -> Option<Time> {
        self.deadline = deadline;
        if deadline < self.queued {
            self.queued = deadline;
            return Some(deadline);
        }
        None
    }

    /// Turns the timer off.
    #[inline]
    pub fn clear(&mut self) {
        self.deadline = Time::NEVER;
    }

    /// Whether the timer is on.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.deadline != Time::NEVER
    }

    /// An entry comes up in the calendar. `Ok`: the deadline is reached. `Err`: remove the entry,
    /// or move it to the given time.
    pub fn look(&mut self, now: Time) -> Result<(), Option<Time>> {
        if now != self.queued {
            // an entry at an earlier time has replaced this one
            return Err(None);
        }
        self.queued = Time::NEVER;
        if self.deadline == Time::NEVER {
            return Err(None);
        }
        if self.deadline > now {
            self.queued = self.deadline;
            return Err(Some(self.deadline));
        }
        self.deadline = Time::NEVER;
        Ok(())
    }
}

impl Default for LazyTimer {
    fn default() -> Self {
        LazyTimer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Profile;

    fn tcp() -> Tcp {
        Tcp {
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(60),
            rto_granularity: Duration::from_millis(10),
            ..Profile::Ns2.tcp()
        }
    }

    #[test]
    fn follows_rfc_6298() {
        let mut rto = Rto::new();
        assert_eq!(rto.timeout(&tcp()), Duration::from_secs(1));
        rto.sample(Duration::from_millis(100)); // SRTT = R, RTTVAR = R/2
        assert_eq!(rto.srtt(), Duration::from_millis(100));
        assert_eq!(rto.timeout(&tcp()), Duration::from_millis(300));
        rto.sample(Duration::from_millis(180)); // RTTVAR = 3/4 50 + 1/4 80, SRTT = 7/8 100 + 1/8 180
        assert_eq!(rto.srtt(), Duration::from_millis(110));
        assert_eq!(rto.timeout(&tcp()), Duration::from_micros(340_000));
        for _ in 0..1000 {
            rto.sample(Duration::from_millis(110));
        }
        assert_eq!(rto.timeout(&tcp()), Duration::from_millis(200), "the minimum holds");
    }

    #[test]
    fn the_minimum_of_linux_is_one_of_the_variance() {
        let linux = Tcp { rto_floor: RtoFloor::Variance, ..tcp() };
        let mut rto = Rto::new();
        for _ in 0..1000 {
            rto.sample(Duration::from_millis(310));
        }
        assert_eq!(rto.timeout(&linux), Duration::from_millis(510));
        assert_eq!(
            rto.timeout(&tcp()),
            Duration::from_millis(320),
            "RFC 6298: the whole is above its minimum"
        );
    }

    #[test]
    fn backs_off_to_the_maximum_and_recovers() {
        let mut rto = Rto::new();
        rto.sample(Duration::from_millis(100));
        let timeouts: Vec<u64> = (0..9)
            .map(|_| {
                rto.expired();
                rto.timeout(&tcp()).micros() / 1000
            })
            .collect();
        assert_eq!(timeouts, [600, 1200, 2400, 4800, 9600, 19_200, 38_400, 60_000, 60_000]);
        rto.progress(false);
        assert_eq!(rto.timeout(&tcp()), Duration::from_secs(60), "it stays doubled until it is confirmed");
        assert_eq!(rto.expired(), 1, "none in a row");
        rto.progress(true);
        assert_eq!(rto.timeout(&tcp()), Duration::from_millis(300));
    }

    #[test]
    fn a_timer_is_looked_at_once_a_deadline() {
        let at = Time::from_millis;
        let mut timer = LazyTimer::new();
        assert_eq!(timer.set(at(10)), Some(at(10)));
        assert_eq!(timer.set(at(20)), None, "the entry at 10 will find the new deadline");
        assert_eq!(timer.look(at(10)), Err(Some(at(20))));
        assert_eq!(timer.set(at(15)), Some(at(15)), "earlier than the entry that stands");
        assert_eq!(timer.look(at(15)), Ok(()));
        assert_eq!(timer.look(at(20)), Err(None), "the entry that was overtaken means nothing");
        assert!(!timer.is_set());
    }
}
