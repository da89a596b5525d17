//! Chooses which host to ask for an echo, and when. The probe is a small packet behind what was sent;
//! its echo shows that what was sent before has left the line's queue.
//!
//! This module has no clock and no sockets. Times are arguments, in microseconds.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Least time between two probes, in microseconds: 50 probes of 44 bytes in a second, 18 kbit/s.
pub const GAP_US: u64 = 20_000;
/// A host that does not echo is asked again after this time, in microseconds.
const SILENT_US: u64 = 60_000_000;
/// A host that has echoed before counts as silent after this number of missing echoes in a row. A
/// full queue drops single ones.
const MISSES: u32 = 4;
/// Largest number of probes in flight: more than those of a second.
const IN_FLIGHT: usize = 64;
/// Number of hosts that are remembered.
const SERVERS: usize = 256;

/// A probe to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The host to ask.
    pub server: IpAddr,
    /// Number of the probe, which the echo repeats.
    pub sequence: u16,
}

/// The probes of one uplink.
#[derive(Debug, Default)]
pub struct Probe {
    sequence: u16,
    /// Probes in flight, with the time of sending; the oldest first.
    in_flight: VecDeque<(Request, u64)>,
    next_us: u64,
    landmarks: Vec<IpAddr>,
    servers: BTreeMap<IpAddr, Server>,
    /// The host that echoed last.
    echoed: Option<IpAddr>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Server {
    echoes: bool,
    misses: u32,
    silent_until_us: u64,
}

impl Probe {
    /// No probe was sent. `landmarks` are hosts to ask where the servers of the traffic do not echo.
    pub fn new(landmarks: Vec<IpAddr>) -> Probe {
        Probe { landmarks, ..Probe::default() }
    }

    /// The next probe, if one is due. `server` is the host to which the last bytes went.
    pub fn due(&mut self, now_us: u64, server: Option<IpAddr>) -> Option<Request> {
        if self.in_flight.len() >= IN_FLIGHT || now_us < self.next_us {
            return None;
        }
        // An answer shows whether a server echoes at all.
        let unknown = |request: &Request| self.servers.get(&request.server).is_none_or(|known| !known.echoes);
        if self.in_flight.iter().any(|(request, _)| unknown(request)) {
            return None;
        }
        // Traffic that does not leave by the line needs no probe of it.
        let server = server?;
        let mut candidates =
            [Some(server), self.echoed].into_iter().flatten().chain(self.landmarks.iter().copied());
        let server = candidates.find(|server| self.may_ask(now_us, *server))?;
        self.sequence = self.sequence.wrapping_add(1);
        let request = Request { server, sequence: self.sequence };
        self.in_flight.push_back((request, now_us));
        self.next_us = now_us + GAP_US;
        Some(request)
    }

    /// Records an echo. Returns its host, and when the probe was sent; `None` if no such probe is in
    /// flight. Probes sent before it count as lost.
    pub fn echoed(&mut self, sequence: u16) -> Option<(IpAddr, u64)> {
        let at = self.in_flight.iter().position(|(request, _)| request.sequence == sequence)?;
        let (request, sent_us) = self.in_flight.drain(..=at).next_back()?;
        *self.server(request.server) = Server { echoes: true, ..Server::default() };
        self.echoed = Some(request.server);
        Some((request.server, sent_us))
    }

    /// Gives up a probe after `hold_us`. Returns its host and when the probe was sent, if the host has
    /// echoed before.
    pub fn give_up(&mut self, now_us: u64, hold_us: u64) -> Option<(IpAddr, u64)> {
        let (request, sent_us) = self.in_flight.pop_front_if(|(_, sent_us)| now_us >= *sent_us + hold_us)?;
        let server = self.server(request.server);
        server.misses += 1;
        let echoes = server.echoes;
        if !echoes || server.misses >= MISSES {
            *server = Server { silent_until_us: now_us + SILENT_US, ..Server::default() };
        }
        echoes.then_some((request.server, sent_us))
    }

    /// Records that a probe to `server` could not be sent.
    pub fn failed(&mut self, now_us: u64, server: IpAddr) {
        self.in_flight.retain(|(request, _)| request.server != server);
        self.server(server).silent_until_us = now_us + SILENT_US;
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
                assert_eq!(probe.echoed(request.sequence.wrapping_add(1)), None, "another's");
                assert_eq!(probe.echoed(request.sequence), Some((NEAR, now_us)));
                assert_eq!(probe.echoed(request.sequence), None, "twice");
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
        probe.echoed(far.sequence);
        assert_eq!(asked(&mut probe, 4_000_000), Some(FAR), "which has echoed last");
        let late = asked(&mut probe, 4_100_000);
        assert_eq!(late, Some(FAR), "another behind it");
        probe.echoed(far.sequence.wrapping_add(2));
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
