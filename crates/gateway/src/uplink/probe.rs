//! Whom to ask for an echo, and when: small packets behind what was sent.
//!
//! No clock and no sockets here: times are arguments, in microseconds.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// At most so many a second go to strangers: 50, of 44 bytes, 18 kbit/s.
pub const GAP_US: u64 = 20_000;
/// One that has never echoed is asked again after so long.
const SILENT_US: u64 = 60_000_000;
/// So many in a row that are missed make a server silent that has echoed before: a full queue drops single ones.
const MISSES: u32 = 4;
/// Probes that are under way at a time: more than a second of them.
const UNDER_WAY: usize = 64;
/// Servers that are remembered.
const SERVERS: usize = 256;

/// A probe to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// To whom.
    pub server: IpAddr,
    /// Its number, which comes back.
    pub sequence: u16,
}

/// The probes of one uplink.
#[derive(Debug, Default)]
pub struct Probe {
    sequence: u16,
    /// When each was sent; the oldest first.
    under_way: VecDeque<(Request, u64)>,
    next_us: u64,
    landmarks: Vec<IpAddr>,
    servers: BTreeMap<IpAddr, Server>,
    /// The one that has echoed last, and when.
    echoed: Option<(IpAddr, u64)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Server {
    echoes: bool,
    misses: u32,
    silent_until_us: u64,
}

impl Probe {
    /// With servers to ask where those of the traffic do not echo.
    pub fn new(landmarks: Vec<IpAddr>) -> Probe {
        Probe { landmarks, ..Probe::default() }
    }

    /// The next probe, if one is due; `server` is where the last bytes went.
    pub fn due(&mut self, now_us: u64, server: Option<IpAddr>) -> Option<Request> {
        if self.under_way.len() >= UNDER_WAY || now_us < self.next_us {
            return None;
        }
        // An answer shows whether a server echoes at all.
        let unknown = |request: &Request| self.servers.get(&request.server).is_none_or(|known| !known.echoes);
        if self.under_way.iter().any(|(request, _)| unknown(request)) {
            return None;
        }
        // Traffic that does not leave by the line needs no probe of it.
        let server = server?;
        let last = self.echoed.map(|(server, _)| server);
        let mut candidates = [Some(server), last].into_iter().flatten().chain(self.landmarks.iter().copied());
        let server = candidates.find(|server| self.may_ask(now_us, *server))?;
        self.sequence = self.sequence.wrapping_add(1);
        let request = Request { server, sequence: self.sequence };
        self.under_way.push_back((request, now_us));
        self.next_us = now_us + GAP_US;
        Some(request)
    }

    /// An echo has come: of whom, and when the probe was sent. Nothing if it is none that is under way. Those
    /// that were sent before are lost.
    pub fn echoed(&mut self, now_us: u64, sequence: u16) -> Option<(IpAddr, u64)> {
        let at = self.under_way.iter().position(|(request, _)| request.sequence == sequence)?;
        let (request, sent_us) = self.under_way.drain(..=at).next_back()?;
        *self.server(request.server) = Server { echoes: true, ..Server::default() };
        self.echoed = Some((request.server, now_us));
        Some((request.server, sent_us))
    }

    /// Gives up a probe after `hold_us`; if its server has echoed before, that server and when the probe was sent.
    pub fn give_up(&mut self, now_us: u64, hold_us: u64) -> Option<(IpAddr, u64)> {
        let (request, sent_us) = self.under_way.pop_front_if(|(_, sent_us)| now_us >= *sent_us + hold_us)?;
        let server = self.server(request.server);
        server.misses += 1;
        let echoes = server.echoes;
        if !echoes || server.misses >= MISSES {
            *server = Server { silent_until_us: now_us + SILENT_US, ..Server::default() };
        }
        echoes.then_some((request.server, sent_us))
    }

    /// It could not be sent.
    pub fn failed(&mut self, now_us: u64, server: IpAddr) {
        self.under_way.retain(|(request, _)| request.server != server);
        self.server(server).silent_until_us = now_us + SILENT_US;
    }

    /// Whether probes come back: within the last second, which is longer than a queue and the gap between two.
    pub fn is_live(&self, now_us: u64) -> bool {
        self.echoed.is_some_and(|(_, at_us)| now_us < at_us + 1_000_000)
    }

    fn may_ask(&self, now_us: u64, server: IpAddr) -> bool {
        self.servers.get(&server).is_none_or(|known| now_us >= known.silent_until_us)
    }

    fn server(&mut self, server: IpAddr) -> &mut Server {
        if self.servers.len() >= SERVERS && !self.servers.contains_key(&server) {
            self.servers.pop_first();
        }
        self.servers.entry(server).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9));
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1));
    const MARK: IpAddr = IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8));

    #[test]
    fn one_tries_a_server_and_no_more_than_50_go_out_a_second() {
        let mut probe = Probe::default();
        let mut sent = 0;
        for now_us in (0..1_000_000).step_by(100) {
            if let Some(request) = probe.due(now_us, Some(NEAR)) {
                sent += 1;
                assert_eq!(probe.due(now_us, Some(FAR)), None);
                assert_eq!(probe.echoed(now_us + 50, request.sequence.wrapping_add(1)), None, "another's");
                assert_eq!(probe.echoed(now_us + 50, request.sequence), Some((NEAR, now_us)));
                assert_eq!(probe.echoed(now_us + 50, request.sequence), None, "twice");
            }
        }
        assert_eq!(sent, 50);
    }

    #[test]
    fn where_a_server_is_silent_another_is_asked() {
        let mut probe = Probe::new(vec![MARK]);
        let asked = |probe: &mut Probe, now_us| probe.due(now_us, Some(NEAR)).map(|request| request.server);
        assert_eq!(asked(&mut probe, 0), Some(NEAR));
        assert_eq!(probe.give_up(999_999, 1_000_000), None);
        assert_eq!(asked(&mut probe, 999_999), None);
        assert_eq!(probe.give_up(1_000_000, 1_000_000), None, "nothing is known of its round trip");
        assert_eq!(asked(&mut probe, 1_000_000), Some(MARK));
        probe.failed(1_000_000, MARK);
        assert_eq!(asked(&mut probe, 2_000_000), None);
        let far = probe.due(3_000_000, Some(FAR)).unwrap();
        assert!(!probe.is_live(3_000_000));
        probe.echoed(3_100_000, far.sequence);
        assert!(probe.is_live(4_000_000) && !probe.is_live(4_100_000));
        assert_eq!(asked(&mut probe, 4_000_000), Some(FAR), "which has echoed last");
        let late = asked(&mut probe, 4_100_000);
        assert_eq!(late, Some(FAR), "another behind it");
        probe.echoed(4_200_000, far.sequence.wrapping_add(2));
        assert_eq!(probe.give_up(9_000_000, 1_000_000), None, "none is under way");
        assert_eq!(asked(&mut probe, 4_000_000 + 300_000), Some(FAR));
        assert_eq!(probe.give_up(5_300_000, 1_000_000), Some((FAR, 4_300_000)));
        assert_eq!(asked(&mut probe, 5_400_000), Some(FAR), "one may be lost");
        assert_eq!(asked(&mut probe, 1_000_000 + SILENT_US), Some(NEAR), "once more after a minute");
    }

    #[test]
    fn the_memory_of_servers_is_bounded() {
        let mut probe = Probe::default();
        for n in 0..3 * SERVERS as u32 {
            probe.failed(0, IpAddr::V4(n.into()));
        }
        assert_eq!(probe.servers.len(), SERVERS);
    }
}
