//! A user's client: it probes gateways, learns their states, and chooses one.

use crate::config::{Community, Scheme};
use crate::draw::{Draw, Part};
use crate::line::{Line, Presence};
use crate::town::Path;
use leeway_selection::{Gateway, Observation, Policy, Reason, Selector, Status};
use leeway_units::{Bytes, Duration, Time};

/// Mean of the exponential noise that is added to the round trip of a probe, in seconds.
const NOISE_S: f64 = 0.002;

/// A change of gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Another gateway was better.
    Better,
    /// The earlier gateway had failed or paused.
    Forced,
}

/// One user's client.
#[derive(Debug)]
pub struct Client {
    paths: Vec<Path>,
    /// The gateway in use, as an index into `paths`.
    pub current: Option<usize>,
    mind: Mind,
    draw: Draw,
    /// The gateway did not answer in the last step.
    pub missed: bool,
    /// Time of the next search after none was found, in seconds.
    retry_s: f64,
}

#[derive(Debug)]
enum Mind {
    Selector(Box<Selector>),
    /// The scheme, the time of its next search, and for each path the time until which it is
    /// avoided.
    Simple(Scheme, f64, Vec<f64>),
}

impl Client {
    pub fn new(community: &Community, policy: Policy, seed: u64, index: usize, paths: Vec<Path>) -> Client {
        let mut draw = Draw::new(seed, Part::Client, index as u64);
        let gateways = paths.iter().map(|path| Gateway(u64::from(path.gateway)));
        let mind = match community.scheme {
            Scheme::Selector => Mind::Selector(Box::new(Selector::new(policy, draw.bits(), gateways))),
            scheme => Mind::Simple(scheme, 0.0, vec![0.0; paths.len()]),
        };
        Client { paths, current: None, mind, draw, missed: false, retry_s: 0.0 }
    }

    pub fn path(&self) -> Option<Path> {
        self.current.map(|at| self.paths[at])
    }

    /// The paths to all gateways that the client knows.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// A session begins: what a client does at its start.
    pub fn begin(&mut self) {
        self.missed = false;
        if let Mind::Simple(scheme, due_s, _) = &mut self.mind {
            *due_s = 0.0;
            if *scheme == Scheme::Random {
                self.current = None;
            }
        }
    }

    /// A step at `now_s`, within a session. Returns a change of gateway.
    pub fn step(&mut self, community: &Community, now_s: f64, lines: &[Line]) -> Option<Move> {
        let before = self.current;
        let chosen = match &mut self.mind {
            Mind::Selector(_) => self.select(now_s, lines),
            Mind::Simple(..) => self.simply(community, now_s, lines),
        };
        self.missed = false;
        (before.is_some() && self.current != before).then_some(chosen)
    }

    /// Reports all probes that are due, and a gateway that does not answer, to the selector. Then
    /// lets it choose.
    fn select(&mut self, now_s: f64, lines: &[Line]) -> Move {
        let Client { paths, mind: Mind::Selector(selector), draw, missed, current, .. } = self else {
            return Move::Better;
        };
        let now = Time::from_nanos((now_s * 1e9) as u64);
        let place = |gateway: Gateway| paths.iter().position(|path| u64::from(path.gateway) == gateway.0);
        let mut ask = |selector: &mut Selector, gateway: Gateway| {
            let Some(path) = place(gateway).map(|at| paths[at]) else { return };
            let rtt_s = path.rtt_s + draw.exponential(NOISE_S);
            let found = match lines[path.gateway as usize].status() {
                Some(status) => Observation::Answered { round_trip: Duration::from_secs_f64(rtt_s), status },
                None => Observation::Failed,
            };
            selector.observe(gateway, now, found);
        };
        if let Some(gateway) = selector.current().filter(|_| *missed) {
            ask(selector, gateway);
        }
        let mut kind = Move::Better;
        let _ = selector.choose(now);
        // At most once for each gateway: a paused gateway refuses at once, and the next one is
        // chosen.
        for _ in 0..=paths.len() {
            let due: Vec<Gateway> = selector.probes(now).collect();
            for gateway in due {
                ask(selector, gateway);
            }
            let chosen = selector.choose(now);
            if chosen.is_ok_and(|choice| !matches!(choice.reason, Reason::Better | Reason::Stays)) {
                kind = Move::Forced;
            }
            *current = chosen.ok().and_then(|choice| place(choice.gateway));
            let Some(path) = current.map(|at| paths[at]) else { break };
            let Presence::Paused(_) = lines[path.gateway as usize].presence else { break };
            selector.observe(
                Gateway(u64::from(path.gateway)),
                now,
                Observation::Answered { round_trip: Duration::ZERO, status: Status::paused(None) },
            );
        }
        kind
    }

    /// The schemes other than the selector search once in a probe interval, and when their gateway
    /// is gone.
    fn simply(&mut self, community: &Community, now_s: f64, lines: &[Line]) -> Move {
        let Client { paths, mind: Mind::Simple(scheme, due_s, avoided), draw, missed, current, retry_s } =
            self
        else {
            return Move::Better;
        };
        let presence = |at: usize| lines[paths[at].gateway as usize].presence;
        let gone = current.is_some_and(|at| *missed || matches!(presence(at), Presence::Paused(_)));
        if let Some(at) = current.filter(|_| gone) {
            avoided[at] = now_s + community.probe_s;
        }
        let is_due = now_s >= *due_s || (current.is_none() && now_s >= *retry_s);
        if !gone && !is_due {
            return Move::Better;
        }
        // A probe in this step finds the true state. Without one, gateways that failed lately are
        // avoided.
        let usable = |at: &usize| avoided[*at] <= now_s && !matches!(presence(*at), Presence::Paused(_));
        let answers = |at: &usize| presence(*at) == Presence::Open;
        let places = 0..paths.len();
        let found = match scheme {
            Scheme::Nearest if is_due => places.clone().find(answers),
            Scheme::Nearest => places.clone().find(usable),
            Scheme::LeastLoaded => places
                .filter_map(|at| Some((at, lines[paths[at].gateway as usize].newcomer_bps()?)))
                .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
                .map(|(at, _)| at),
            Scheme::Random | Scheme::Selector => match current.filter(|_| !gone) {
                Some(at) => Some(at),
                None => {
                    let some: Vec<usize> = places.filter(usable).collect();
                    some.get(draw.below(some.len())).copied()
                }
            },
        };
        if is_due {
            *due_s = now_s + community.probe_s;
        }
        *retry_s = now_s + community.step_s;
        *current = found;
        if gone { Move::Forced } else { Move::Better }
    }

    /// Records that the user got `bps` for `step_s`.
    pub fn used(&mut self, now_s: f64, step_s: f64, bps: f64) {
        if let (Mind::Selector(selector), Some(at)) = (&mut self.mind, self.current) {
            let gateway = Gateway(u64::from(self.paths[at].gateway));
            let now = Time::from_nanos((now_s * 1e9) as u64);
            let bytes = Bytes::new((bps * step_s / 8.0) as u64);
            selector.used(gateway, now, bytes, Duration::from_secs_f64(step_s));
        }
    }
}
