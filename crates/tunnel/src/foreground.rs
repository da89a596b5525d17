//! What the client tells the server of the foreground at the client's end of the line: the bytes that the
//! foreground expects.
//!
//! The client sees the requests of the home ([`leeway_net::Lookout`]), and knows how long responses
//! usually are ([`Foreground`]). The server leaves that many bytes of its window free until the responses
//! have come. So the server is told at once when more is expected, and otherwise a few times in a round
//! trip.
//!
//! There is no clock here: times are arguments, in microseconds.

use leeway_net::What;
use leeway_share::{Foreground, Policy, Sight};

/// The server is told no more often than this where nothing more is expected: 36 kbit/s.
const TELL_EVERY_US: u64 = 10_000;
/// A server that has sent nothing for this time has nothing that could wait for the foreground.
const MOVING_US: u64 = 3_000_000;

/// What the packet of a machine of the home says of what comes to it.
pub fn down(what: What) -> Sight {
    match what {
        What::Connects => Sight::Connect,
        What::Sends(_) => Sight::Request,
        What::Brings(bytes) => Sight::Bytes(bytes),
    }
}

/// And of what leaves it.
pub fn up(what: What) -> Option<Sight> {
    match what {
        What::Sends(bytes) => Some(Sight::Bytes(bytes)),
        _ => None,
    }
}

/// The foreground, and what the server knows of it.
#[derive(Debug)]
pub(crate) struct Home {
    foreground: Foreground,
    /// Bytes that have come, modulo 2^32.
    came_bytes: u32,
    expected_bytes: u64,
    /// What the server was told last, and when.
    told: (u64, u32),
    told_us: u64,
    /// When the last packet of the server came; nothing where that is long ago.
    moved_us: Option<u64>,
}

impl Default for Home {
    fn default() -> Home {
        Home {
            foreground: Foreground::new(&Policy::default()),
            came_bytes: 0,
            expected_bytes: 0,
            told: (0, 0),
            told_us: 0,
            moved_us: None,
        }
    }
}

impl Home {
    /// The home was seen, on a line whose round trip is `srtt_us` now and was `min_rtt_us` at its shortest.
    pub fn seen(&mut self, now_us: u64, sight: leeway_net::Sight, srtt_us: u64, min_rtt_us: u64) {
        if let What::Brings(bytes) = sight.what {
            self.came_bytes = self.came_bytes.wrapping_add(bytes as u32);
        }
        self.foreground.seen(now_us, sight.connection, down(sight.what), srtt_us, min_rtt_us);
    }

    /// A packet of the server came. Returns whether it is the first for a while.
    pub fn background(&mut self, now_us: u64) -> bool {
        self.moved_us.replace(now_us).is_none()
    }

    /// What the server is to be told now, if anything: expected bytes, and those that came, modulo 2^32.
    pub fn tell(&mut self, now_us: u64, srtt_us: u64) -> Option<(u32, u32)> {
        self.expected_bytes = self.foreground.expected_bytes(now_us, srtt_us);
        self.moved_us = self.moved_us.filter(|moved_us| now_us <= moved_us + MOVING_US);
        self.moved_us?;
        let more = self.expected_bytes > self.told.0;
        if !more && self.tell_us(srtt_us).is_none_or(|due_us| now_us < due_us) {
            return None;
        }
        self.told = (self.expected_bytes, self.came_bytes);
        self.told_us = now_us;
        Some((u32::try_from(self.expected_bytes).unwrap_or(u32::MAX), self.came_bytes))
    }

    /// When the server may have to be told something although the home is not seen.
    pub fn tell_us(&self, srtt_us: u64) -> Option<u64> {
        self.moved_us?;
        let news = self.expected_bytes > 0 || self.told != (self.expected_bytes, self.came_bytes);
        let due_us = self.told_us + (srtt_us / 4).max(TELL_EVERY_US);
        let looks_us = self.foreground.deadline_us().filter(|_| self.expected_bytes > 0);
        news.then_some(due_us).into_iter().chain(looks_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_net::Sight;

    const RTT_US: u64 = 100_000;
    const CONNECTION: u64 = 7;

    fn sight(what: What) -> Sight {
        Sight { connection: CONNECTION, what }
    }

    /// A home whose responses are 10 kB long, after two seconds.
    fn taught() -> Home {
        let mut home = Home::default();
        home.background(0);
        home.seen(0, sight(What::Sends(80)), RTT_US, RTT_US);
        home.seen(RTT_US, sight(What::Brings(10_000)), RTT_US, RTT_US);
        assert_eq!(home.tell(2_000_000, RTT_US), Some((0, 10_000)));
        assert_eq!(home.tell_us(RTT_US), None, "no news");
        home
    }

    #[test]
    fn a_request_is_told_at_once_and_a_response_a_few_times_in_its_round_trip() {
        let mut home = taught();
        home.seen(2_001_000, sight(What::Sends(80)), RTT_US, RTT_US);
        assert_eq!(home.tell(2_001_000, RTT_US), Some((10_000, 10_000)));
        assert_eq!(home.tell(2_001_001, RTT_US), None);
        let mut told = Vec::new();
        for n in 1..=10 {
            let now_us = 2_100_000 + n * 5_000;
            home.seen(now_us, sight(What::Brings(1_000)), RTT_US, RTT_US);
            told.extend(home.tell(now_us, RTT_US));
        }
        told.extend(home.tell(home.tell_us(RTT_US).unwrap(), RTT_US));
        assert_eq!(told, [(9_000, 11_000), (4_000, 16_000), (0, 20_000)]);
        assert_eq!(home.tell_us(RTT_US), None);
    }

    #[test]
    fn nothing_is_told_where_nothing_could_wait() {
        let mut home = taught();
        let later_us = 2 * MOVING_US;
        home.seen(later_us, sight(What::Sends(80)), RTT_US, RTT_US);
        assert_eq!((home.tell(later_us, RTT_US), home.tell_us(RTT_US)), (None, None));
        assert!(home.background(later_us) && !home.background(later_us));
        assert_eq!(home.tell(later_us, RTT_US), Some((10_000, 10_000)));
    }

    #[test]
    fn a_server_that_thinks_is_not_waited_for() {
        let mut home = taught();
        home.seen(2_001_000, sight(What::Sends(80)), RTT_US, RTT_US);
        let (mut now_us, mut told) = (2_001_000, Vec::new());
        loop {
            told.extend(home.tell(now_us, RTT_US).map(|(expected_bytes, _)| (now_us, expected_bytes)));
            match home.tell_us(RTT_US) {
                Some(due_us) => now_us = due_us.max(now_us + 1),
                None => break,
            }
        }
        let &(end_us, last) = told.last().unwrap();
        assert_eq!(last, 0);
        assert!((300_000..500_000).contains(&(end_us - 2_001_000)), "{told:?}");
        assert!(told.len() < 20, "{told:?}");
    }
}
