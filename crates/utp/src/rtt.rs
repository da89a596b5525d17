//! Round-trip time and the retransmission timeout (RFC 6298, with the bounds of BEP 29).

/// Smallest timeout (BEP 29, "timeouts": 500 ms).
const TIMEOUT_MIN_US: u64 = 500_000;
/// Largest timeout (RFC 6298, 2.5 allows a bound of 60 s or more).
const TIMEOUT_MAX_US: u64 = 60_000_000;
/// Timeout before the first sample (RFC 6298, 2.1).
const TIMEOUT_FIRST_US: u64 = 1_000_000;

/// Smoothed round-trip time of one path; all in microseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rtt {
    srtt_us: u64,
    variation_us: u64,
    min_us: u64,
    /// Timeouts in a row.
    timeouts: u32,
}

impl Rtt {
    /// Adds a sample, from a packet whose acknowledged transmission is known.
    pub(crate) fn sample(&mut self, rtt_us: u64) {
        let rtt_us = rtt_us.clamp(1, u32::MAX.into());
        if self.srtt_us == 0 {
            (self.srtt_us, self.variation_us, self.min_us) = (rtt_us, rtt_us / 2, rtt_us);
            return;
        }
        self.variation_us = (3 * self.variation_us + self.srtt_us.abs_diff(rtt_us)) / 4;
        self.srtt_us = (7 * self.srtt_us + rtt_us) / 8;
        self.min_us = self.min_us.min(rtt_us);
    }

    /// The smoothed round-trip time; 0 before the first sample.
    pub(crate) fn smoothed_us(&self) -> u64 {
        self.srtt_us
    }

    /// The smallest round-trip time so far; 0 before the first sample.
    pub(crate) fn min_us(&self) -> u64 {
        self.min_us
    }

    /// The present timeout, doubled for every timeout in a row (RFC 6298, 5.5).
    pub(crate) fn timeout_us(&self) -> u64 {
        let base_us = match self.srtt_us {
            0 => TIMEOUT_FIRST_US,
            srtt_us => (srtt_us + 4 * self.variation_us).max(TIMEOUT_MIN_US),
        };
        base_us.saturating_mul(1 << self.timeouts.min(20)).min(TIMEOUT_MAX_US)
    }

    /// Notes a timeout. Returns the number of timeouts in a row.
    pub(crate) fn expired(&mut self) -> u32 {
        self.timeouts = self.timeouts.saturating_add(1);
        self.timeouts
    }

    /// Notes that a new packet was acknowledged, which ends a row of timeouts.
    pub(crate) fn progress(&mut self) {
        self.timeouts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_samples_are_those_of_the_rfc() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout_us(), 1_000_000);
        rtt.sample(200_000);
        assert_eq!((rtt.smoothed_us(), rtt.timeout_us()), (200_000, 600_000));
        rtt.sample(400_000);
        assert_eq!((rtt.smoothed_us(), rtt.variation_us, rtt.min_us()), (225_000, 125_000, 200_000));
    }

    #[test]
    fn timeouts_double_to_a_bound_and_progress_ends_them() {
        let mut rtt = Rtt::default();
        rtt.sample(10_000);
        assert_eq!(rtt.timeout_us(), 500_000);
        assert_eq!((rtt.expired(), rtt.expired()), (1, 2));
        assert_eq!(rtt.timeout_us(), 2_000_000);
        for _ in 0..100 {
            rtt.expired();
        }
        assert_eq!(rtt.timeout_us(), 60_000_000);
        rtt.progress();
        assert_eq!(rtt.timeout_us(), 500_000);
    }
}
