//! Pacing of grants over the round trip, and the least part of the line that background gets.

use crate::policy::Policy;

/// Lets grants go at a rate. Grants that are late go together, up to a burst.
#[derive(Debug, Default)]
pub struct Pacer {
    next_us: u64,
    /// Part of a microsecond, in billionths, that rounding would lose.
    carry: u64,
}

impl Pacer {
    /// The time of the next grant, in microseconds.
    pub fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Records that `bytes` go now, at `bytes_per_s`. 0 means no pacing.
    pub fn sent(&mut self, now_us: u64, bytes: u64, bytes_per_s: u64, policy: &Policy) {
        if bytes_per_s == 0 {
            return;
        }
        let from_us = self.next_us.max(now_us.saturating_sub(policy.burst_us));
        let scaled = mul_div(bytes, 1_000_000_000_000_000, bytes_per_s).saturating_add(self.carry);
        self.carry = scaled % 1_000_000_000;
        let takes_us = (scaled / 1_000_000_000).min(10_000_000);
        self.next_us = from_us.saturating_add(takes_us);
    }
}

/// `a * b / c`, or `u64::MAX` on overflow. Most products fit into 64 bits, and a division of 128
/// bits takes ten times as long.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

/// The starvation bound: a credit of bytes that grows at `min_share` of the line's rate while
/// background waits.
///
/// In any `min_share_us` in which background waits, it is granted this part of the line, whatever
/// the law and the foreground say. Other grants in that time count as well.
#[derive(Debug, Default)]
pub struct Starvation {
    /// The credit, in 10^-9 bytes (bytes per second x microseconds x thousandths), so that
    /// nothing is lost by rounding.
    credit_e9: u128,
    at_us: u64,
}

impl Starvation {
    /// Advances the time to `now_us`. `waited` says whether background waited since the last
    /// call.
    pub fn advance(&mut self, now_us: u64, waited: bool, rate_bytes_per_s: u64, policy: &Policy) {
        let passed_us = now_us.saturating_sub(self.at_us);
        self.at_us = self.at_us.max(now_us);
        let each = u128::from(rate_bytes_per_s) * u128::from(policy.min_share_permille);
        if waited {
            self.credit_e9 += each * u128::from(passed_us);
        }
        // The limit is at least a turn, so that a single grant larger than a small bound is
        // possible.
        let most = each * u128::from(policy.min_share_us);
        self.credit_e9 = self.credit_e9.min(most.max(u128::from(policy.turn_bytes) * 1_000_000_000));
    }

    /// Whether the credit covers a grant of `bytes`.
    pub fn covers(&self, bytes: u64) -> bool {
        self.credit_e9 >= u128::from(bytes) * 1_000_000_000
    }

    /// Takes a grant of `bytes` from the credit.
    pub fn granted(&mut self, bytes: u64) {
        self.credit_e9 = self.credit_e9.saturating_sub(u128::from(bytes) * 1_000_000_000);
    }

    /// The time at which the credit covers `bytes` if nothing is granted before, in microseconds;
    /// `None` if never.
    pub fn due_us(&self, bytes: u64, rate_bytes_per_s: u64, policy: &Policy) -> Option<u64> {
        let each = u128::from(rate_bytes_per_s) * u128::from(policy.min_share_permille);
        let missing = (u128::from(bytes) * 1_000_000_000).saturating_sub(self.credit_e9);
        if each == 0 {
            return None;
        }
        let wait_us = match (u64::try_from(missing), u64::try_from(each)) {
            (Ok(missing), Ok(each)) => missing.div_ceil(each),
            _ => u64::try_from(missing.div_ceil(each)).unwrap_or(u64::MAX),
        };
        Some(self.at_us.saturating_add(wait_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_go_at_the_rate_and_late_ones_together() {
        let (mut pacer, policy) = (Pacer::default(), Policy::default());
        let mut went = Vec::new();
        for n in 0..4u64 {
            let now_us = 100_000 + if n < 3 { (pacer.next_us()).saturating_sub(100_000) } else { 20_000 };
            went.push(now_us - 100_000);
            pacer.sent(now_us, 3_000, 1_000_000, &policy);
        }
        assert_eq!(went, [0, 2_000, 5_000, 20_000]);
        assert_eq!(pacer.next_us(), 122_000, "one burst of a millisecond");
        pacer.sent(122_000, 3_000, 0, &policy);
        assert_eq!(pacer.next_us(), 122_000);
    }

    #[test]
    fn fractions_of_a_microsecond_are_kept() {
        let (mut pacer, policy) = (Pacer::default(), Policy::default());
        for _ in 0..1_000_000 {
            pacer.sent(pacer.next_us(), 1, 3_000_000, &policy);
        }
        assert!(pacer.next_us().abs_diff(333_333) <= 1, "{}", pacer.next_us());
    }

    /// Bytes granted by the bound alone in `span_us` at 1 MB/s.
    fn bound(span_us: u64, permille: u64) -> u64 {
        let policy = Policy::default().with("min_share_permille", permille).unwrap();
        let (mut starvation, mut sum) = (Starvation::default(), 0);
        for now_us in (0..span_us).step_by(500) {
            starvation.advance(now_us, true, 1_000_000, &policy);
            if starvation.covers(2_920) {
                starvation.granted(2_920);
                sum += 2_920;
            }
        }
        sum
    }

    #[test]
    fn the_bound_is_the_part_of_the_line_that_it_says() {
        assert!(bound(60_000_000, 10).abs_diff(600_000) <= 2_920, "{}", bound(60_000_000, 10));
        assert!(bound(10_000_000, 500).abs_diff(5_000_000) <= 2_920);
        assert_eq!(bound(60_000_000, 0), 0);
    }

    #[test]
    fn credit_is_due_when_it_says_and_not_saved_up_beyond_its_time() {
        let (mut starvation, policy) = (Starvation::default(), Policy::default());
        starvation.advance(0, true, 1_000_000, &policy);
        assert_eq!(starvation.due_us(1_000, 1_000_000, &policy), Some(100_000));
        assert_eq!(starvation.due_us(1_000, 0, &policy), None);
        starvation.advance(3_600_000_000, true, 1_000_000, &policy);
        assert!(starvation.covers(100_000) && !starvation.covers(100_001));
        starvation.granted(100_000);
        starvation.advance(3_700_000_000, false, 1_000_000, &policy);
        assert!(!starvation.covers(1), "nobody waited");
    }
}
