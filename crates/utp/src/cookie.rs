//! Answers to requests that are kept nowhere (SYN cookies; Bernstein 1996, RFC 4987, 3.6).
//!
//! A flood of requests with forged addresses fills the table of those whose address is not proven. A
//! request that finds no place is answered with a number that is computed from it and from a secret.
//! Who repeats this number in his next packet has received the answer.

use crate::wire::{Header, Kind};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A number is valid in the period in which it was given, and in the next one.
const PERIOD_US: u64 = 64 * 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Cookies {
    /// Drawn with the first answer.
    secret: Option<[u16; 8]>,
    /// When the last answer was given.
    given_us: Option<u64>,
}

impl Cookies {
    /// The number of the first packet of the accepting side, for a request.
    pub(crate) fn give<A: Hash>(
        &mut self,
        from: &A,
        syn: &Header,
        random: &mut dyn FnMut() -> u16,
        now_us: u64,
    ) -> u16 {
        self.given_us = Some(now_us);
        let secret = *self.secret.get_or_insert_with(|| std::array::from_fn(|_| random()));
        number(&secret, from, syn.connection_id, syn.seq, now_us / PERIOD_US)
    }

    /// Whether numbers that were given may still come back.
    pub(crate) fn are_out(&self, now_us: u64) -> bool {
        self.given_us.is_some_and(|given_us| now_us.saturating_sub(given_us) < PERIOD_US)
    }

    /// The request that a packet follows, and the number that answered it. `None` if the packet does not
    /// prove that its sender has received the answer.
    pub(crate) fn request<A: Hash>(&self, from: &A, header: &Header, now_us: u64) -> Option<(Header, u16)> {
        let secret = self.secret.as_ref().filter(|_| self.are_out(now_us))?;
        let (connection_id, seq) = (header.connection_id.wrapping_sub(1), header.seq.wrapping_sub(1));
        let first = header.ack.wrapping_add(1);
        let period = now_us / PERIOD_US;
        let is_of = |period| number(secret, from, connection_id, seq, period) == first;
        let is_proven = is_of(period) || period.checked_sub(1).is_some_and(is_of);
        is_proven.then_some((Header { kind: Kind::Syn, connection_id, seq, ack: 0, ..*header }, first))
    }
}

fn number<A: Hash>(secret: &[u16; 8], from: &A, id: u16, seq: u16, period: u64) -> u16 {
    let mut hasher = DefaultHasher::new();
    (secret, from, id, seq, period).hash(&mut hasher);
    hasher.finish() as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: Kind, [connection_id, seq, ack]: [u16; 3]) -> Header {
        let (timestamp_us, timestamp_difference_us, window_bytes) = (1, 2, 3);
        Header { kind, connection_id, timestamp_us, timestamp_difference_us, window_bytes, seq, ack }
    }

    #[test]
    fn only_the_number_that_was_given_proves_an_address_and_not_for_long() {
        let (mut cookies, mut drawn) = (Cookies::default(), 0);
        let syn = header(Kind::Syn, [100, u16::MAX, 0]);
        let mut random = || {
            drawn += 7;
            drawn
        };
        let first = cookies.give(&1, &syn, &mut random, 10);
        let next = |ack: u16| header(Kind::Data, [101, 0, ack]);
        let proven = cookies.request(&1, &next(first.wrapping_sub(1)), 20).unwrap();
        assert_eq!((proven.0.connection_id, proven.0.seq, proven.1), (100, u16::MAX, first));
        assert_eq!(cookies.request(&2, &next(first.wrapping_sub(1)), 20), None, "another address");
        let fit = (0..=u16::MAX).filter(|&ack| cookies.request(&1, &next(ack), 20).is_some());
        assert_eq!(fit.count(), 1);
        assert!(cookies.request(&1, &next(first.wrapping_sub(1)), PERIOD_US).is_some());
        assert_eq!(cookies.request(&1, &next(first.wrapping_sub(1)), 2 * PERIOD_US), None, "too late");
    }
}
