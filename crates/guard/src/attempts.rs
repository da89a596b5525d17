//! Slows down guessing: each source has a few failures at once, and then one in each interval.
//!
//! A leaky bucket for each source (virtual scheduling of GCRA, ITU-T I.371, annex A), which needs
//! one time per source and no timers. A success gives nothing back. Otherwise a user with an
//! account could use it to go on guessing the accounts of others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Most sources that are remembered, at less than 100 bytes each.
const REMEMBERED: usize = 4096;

/// The failures of sources.
#[derive(Debug)]
pub struct Attempts {
    at_once: u32,
    every: Duration,
    /// For each source, the time at which its failures are forgotten.
    settled: BTreeMap<IpAddr, Instant>,
    failed: u64,
    slowed: u64,
}

impl Attempts {
    /// A source may fail `at_once` times, and then once in each `every`.
    pub fn new(at_once: u32, every: Duration) -> Attempts {
        Attempts { at_once, every, settled: BTreeMap::new(), failed: 0, slowed: 0 }
    }

    /// Whether a source may try now.
    ///
    /// # Errors
    /// The time that the source has to wait. The attempt counts as slowed.
    pub fn admit(&mut self, source: IpAddr, now: Instant) -> Result<(), Duration> {
        let debt = self.settled.get(&site(source)).map_or(Duration::ZERO, |&at| at.duration_since(now));
        let wait = (debt + self.every).saturating_sub(self.every * self.at_once);
        if wait.is_zero() {
            return Ok(());
        }
        self.slowed += 1;
        Err(wait)
    }

    /// Counts a failure of a source.
    pub fn failed(&mut self, source: IpAddr, now: Instant) {
        self.failed += 1;
        let source = site(source);
        if self.settled.len() >= REMEMBERED && !self.settled.contains_key(&source) {
            self.make_room(now);
        }
        let settled = self.settled.entry(source).or_insert(now);
        *settled = (*settled).max(now) + self.every;
    }

    /// Number of failures since the start.
    pub fn total_failed(&self) -> u64 {
        self.failed
    }

    /// Number of attempts since the start that were refused without a check.
    pub fn total_slowed(&self) -> u64 {
        self.slowed
    }

    /// Forgets the sources whose failures are over, or else the source whose failures end first.
    fn make_room(&mut self, now: Instant) {
        self.settled.retain(|_, settled| *settled > now);
        if self.settled.len() >= REMEMBERED
            && let Some(least) = self.settled.iter().min_by_key(|(_, settled)| **settled)
        {
            let least = *least.0;
            self.settled.remove(&least);
        }
    }
}

/// The source to which an address belongs: an IPv6 address stands for its /64, which one user
/// usually has.
pub fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const AT_ONCE: u32 = 6;
    const EVERY: Duration = Duration::from_secs(10);

    fn attempts() -> Attempts {
        Attempts::new(AT_ONCE, EVERY)
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_few_failures_are_free_and_then_there_is_one_in_ten_seconds() {
        let (mut attempts, start) = (attempts(), Instant::now());
        let eve = at("10.0.0.1");
        for _ in 0..AT_ONCE {
            assert_eq!(attempts.admit(eve, start), Ok(()));
            attempts.failed(eve, start);
        }
        assert_eq!(attempts.admit(eve, start), Err(EVERY));
        assert_eq!(attempts.admit(at("::ffff:10.0.0.1"), start), Err(EVERY), "the same address");
        assert_eq!(attempts.admit(at("10.0.0.2"), start), Ok(()), "others are not slowed");
        let mut guesses = 0;
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            while attempts.admit(eve, now).is_ok() {
                attempts.failed(eve, now);
                guesses += 1;
            }
        }
        assert_eq!(guesses, 359);
        assert_eq!(attempts.total_failed(), u64::from(AT_ONCE) + guesses);
        assert!(attempts.total_slowed() > 0);
    }

    #[test]
    fn a_person_who_waits_has_all_attempts_again() {
        let (mut attempts, start) = (attempts(), Instant::now());
        (0..AT_ONCE).for_each(|_| attempts.failed(at("10.0.0.1"), start));
        let later = start + EVERY * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(attempts.admit(at("10.0.0.1"), later), Ok(()));
            attempts.failed(at("10.0.0.1"), later);
        }
        assert!(attempts.admit(at("10.0.0.1"), later).is_err());
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let (mut attempts, now) = (attempts(), Instant::now());
        (0..AT_ONCE).for_each(|host| attempts.failed(at(&format!("2001:db8::{host:x}")), now));
        assert!(attempts.admit(at("2001:db8::ffff"), now).is_err());
        assert!(attempts.admit(at("2001:db8:0:1::1"), now).is_ok());
    }

    #[test]
    fn memory_is_bounded_and_who_owes_most_is_remembered() {
        let (mut attempts, now) = (attempts(), Instant::now());
        let eve = at("192.0.2.1");
        (0..AT_ONCE).for_each(|_| attempts.failed(eve, now));
        for n in 0..3 * REMEMBERED as u32 {
            attempts.failed(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)), now);
        }
        assert!(attempts.settled.len() <= REMEMBERED);
        assert!(attempts.admit(eve, now).is_err());
    }
}
