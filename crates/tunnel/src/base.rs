//! The queuing delay: a delay less the smallest delay of the last minutes.

/// Half of the memory of a base delay.
const AGE_US: u64 = 5 * 60 * 1_000_000;

/// The base delay: the smallest delay of the last five to ten minutes (RFC 6817, 4.2). Delays are
/// modulo 2^32 microseconds, so a constant difference of the two clocks does no harm.
#[derive(Debug, Clone, Copy)]
pub struct Base {
    now_us: u32,
    /// The shortest of the five minutes before.
    before_us: u32,
    since_us: u64,
}

impl Base {
    /// After one delay.
    pub fn new(now_us: u64, delay_us: u32) -> Base {
        Base { now_us: delay_us, before_us: delay_us, since_us: now_us }
    }

    /// The queuing delay that a delay shows.
    pub fn queuing_us(&mut self, now_us: u64, delay_us: u32) -> u32 {
        if now_us.saturating_sub(self.since_us) >= AGE_US {
            *self = Base { now_us: delay_us, before_us: self.now_us, since_us: now_us };
        }
        self.now_us = shorter(self.now_us, delay_us);
        self.least_queuing_us(delay_us)
    }

    /// The same for a delay that is a lower bound; the base does not change.
    pub fn least_queuing_us(&self, delay_us: u32) -> u32 {
        let above_us = delay_us.wrapping_sub(shorter(self.now_us, self.before_us));
        if is_before(above_us, 0) { 0 } else { above_us }
    }

    /// Start of the present five minutes.
    pub fn since_us(&self) -> u64 {
        self.since_us
    }
}

fn shorter(a: u32, b: u32) -> u32 {
    if is_before(b, a) { b } else { a }
}

/// Whether `a` comes before `b`, modulo 2^32.
pub fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_way_that_became_longer_is_believed_after_ten_minutes() {
        let mut base = Base::new(0, 20_000);
        assert_eq!(base.queuing_us(AGE_US, 50_000), 30_000);
        assert_eq!(base.queuing_us(2 * AGE_US - 1, 50_000), 30_000);
        assert_eq!(base.queuing_us(2 * AGE_US, 50_000), 0);
    }

    #[test]
    fn a_delay_that_may_have_been_longer_teaches_nothing() {
        let mut base = Base::new(0, 20_000);
        assert_eq!((base.least_queuing_us(3_000), base.least_queuing_us(26_000)), (0, 6_000));
        assert_eq!(base.queuing_us(1, 26_000), 6_000);
    }

    proptest! {
        /// Clocks may differ by whatever they like.
        #[test]
        fn only_differences_count(offset: u32, delays in prop::collection::vec((0u64..100_000_000, 0u32..1 << 30), 1..99)) {
            let mut now_us = 0;
            let mut bases = [Base::new(0, delays[0].1), Base::new(0, delays[0].1.wrapping_add(offset))];
            for (after_us, delay_us) in delays {
                now_us += after_us;
                let [near, far] = &mut bases;
                let queuing_us = near.queuing_us(now_us, delay_us);
                prop_assert_eq!(queuing_us, far.queuing_us(now_us, delay_us.wrapping_add(offset)));
                prop_assert!(queuing_us <= delay_us);
            }
        }
    }
}
