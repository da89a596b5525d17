//! Delays of the packets that arrive: what goes back to the peer, and how long its packets queue.

/// Packets whose least delay counts as the present one, as in libutp.
const PRESENT: usize = 3;
/// The base delay is the least of this time and the time before: 5 to 10 minutes (RFC 6817, 2.4.2,
/// keeps ten).
const BASE_US: u64 = 5 * 60 * 1_000_000;

/// One-way delays from the peer. They contain the unknown difference of the two clocks, modulo 2^32
/// microseconds, so that only differences mean something.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerDelay {
    /// The last ones, the newest at `head`.
    present_us: [u32; PRESENT],
    head: u8,
    /// The least since `base_at_us`, and the least before.
    base_us: [u32; 2],
    base_at_us: u64,
    measured_us: Option<u64>,
}

impl PeerDelay {
    /// A packet has arrived that left at `timestamp_us` of the peer's clock.
    pub(crate) fn sample(&mut self, now_us: u64, timestamp_us: u32) {
        let delay_us = (now_us as u32).wrapping_sub(timestamp_us);
        if self.measured_us.is_none() {
            self.present_us = [delay_us; PRESENT];
            self.base_us = [delay_us; 2];
            self.base_at_us = now_us;
        }
        self.measured_us = Some(now_us);
        self.head = (self.head + 1) % PRESENT as u8;
        self.present_us[usize::from(self.head)] = delay_us;
        if now_us.saturating_sub(self.base_at_us) >= BASE_US {
            self.base_us = [delay_us, self.base_us[0]];
            self.base_at_us = now_us;
        }
        self.base_us[0] = lesser(delay_us, self.base_us[0]);
    }

    /// The last delay, which the next packet tells the peer; 0 before the first one.
    pub(crate) fn last_us(&self) -> u32 {
        self.present_us[usize::from(self.head)]
    }

    /// How long the last packets of the peer queued.
    pub(crate) fn queuing_us(&self) -> u32 {
        let base_us = lesser(self.base_us[0], self.base_us[1]);
        let above = self.present_us.map(|delay_us| delay_us.wrapping_sub(base_us));
        above.into_iter().min().unwrap_or(0)
    }

    /// When the last packet arrived.
    pub(crate) fn measured_us(&self) -> Option<u64> {
        self.measured_us
    }
}

/// The lesser of two delays that differ by less than 2^31 microseconds.
fn lesser(one_us: u32, other_us: u32) -> u32 {
    if one_us.wrapping_sub(other_us) as i32 <= 0 { one_us } else { other_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_what_the_least_of_three_is_above_the_base_whatever_the_clocks_say() {
        for ahead_us in [0_u32, 7_000_000, u32::MAX - 9_000] {
            let mut delay = PeerDelay::default();
            assert_eq!((delay.last_us(), delay.queuing_us(), delay.measured_us()), (0, 0, None));
            let mut after = |at_us: u64, took_us: u64| {
                delay.sample(at_us, ((at_us - took_us) as u32).wrapping_add(ahead_us));
                delay.queuing_us()
            };
            assert_eq!(after(1_000_000, 20_000), 0);
            // The least of three: one that waited longer says nothing yet.
            assert_eq!([after(2_000_000, 50_000), after(2_000_001, 45_000)], [0, 0]);
            assert_eq!(after(2_000_002, 60_000), 25_000);
            assert_eq!(after(2_000_003, 15_000), 0, "a new base");
            assert_eq!(delay.last_us(), 15_000_u32.wrapping_sub(ahead_us));
            assert_eq!(delay.measured_us(), Some(2_000_003));
        }
    }

    #[test]
    fn the_base_is_forgotten_after_ten_minutes() {
        let mut delay = PeerDelay::default();
        delay.sample(20_000, 10_000);
        for second in 1..=599_u64 {
            let now_us = second * 1_000_000;
            delay.sample(now_us, (now_us - 30_000) as u32);
        }
        assert_eq!(delay.queuing_us(), 20_000);
        delay.sample(700_000_000, 700_000_000 - 30_000);
        assert_eq!(delay.queuing_us(), 0, "the path is longer");
    }
}
