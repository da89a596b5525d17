//! `leeway join` with several relays: a tunnel to each; new connections take the best one.

use super::{Join, read};
use crate::Failure;
use ipnet::IpNet;
use leeway_net::TrafficObserver;
use leeway_selection::{Choice, Gateway, Observation, Policy, Reason, Selector, Status as Standing};
use leeway_tunnel::several::SeveralHost;
use leeway_tunnel::wire::Welcome;
use leeway_tunnel::{Client, ClientOptions, Error, Inward, Standing as Said, Status, Token, Tun};
use leeway_units::{Duration as Span, Rate, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Time between two looks at the states of the tunnels.
const TICK: Duration = Duration::from_millis(200);
/// Time between two measurements of a tunnel for the choice.
const EVERY: Duration = Duration::from_secs(5);
/// Time that the other tunnels have to connect after the first one is up, before the first choice.
const FIRST: Duration = Duration::from_secs(2);
/// A relay that is silent for this time counts as gone. Shorter than with one relay, because
/// another one can take over.
pub const SILENCE: Duration = Duration::from_secs(4);
/// Pause before the next attempt at a relay that refused, or whose name was not found.
const AGAIN: Duration = Duration::from_secs(30);
/// Spare rate assumed of a relay that does not tell its rate.
const RATE_BPS: f64 = 20e6;

/// One relay.
struct Tunnel {
    token: Token,
    gateway: Gateway,
    tun: Arc<Tun>,
    client: Mutex<Option<Arc<Client>>>,
    /// Why no connection to the relay is attempted at present.
    refused: Mutex<Option<String>>,
}

/// The state of a tunnel.
#[derive(Debug, Clone, PartialEq)]
enum State {
    Connecting,
    Up(Welcome),
    Down(String),
}

impl Tunnel {
    fn state(&self) -> State {
        if let Some(why) = &*lock(&self.refused) {
            return State::Down(why.clone());
        }
        let client = lock(&self.client).clone();
        match client.map(|client| client.status().borrow().clone()) {
            None | Some(Status::Connecting) => State::Connecting,
            Some(Status::Up(welcome)) => State::Up(welcome),
            Some(Status::Down(why)) => State::Down(why),
        }
    }

    fn round_trip(&self) -> Span {
        let steering = lock(&self.client).as_ref().and_then(|client| client.steering());
        steering.map_or(Span::ZERO, |steering| Span::from_micros(steering.line.srtt_us))
    }

    /// The load and pause that the relay reports of itself.
    fn standing(&self, now: Time) -> Standing {
        let said = lock(&self.client).as_ref().and_then(|client| client.standing()).unwrap_or_default();
        let rate = said.rate_kbps.map(|kbps| Rate::from_bits_per_sec(u64::from(kbps) * 1000));
        let ends = said.paused_s.filter(|&seconds| seconds != Said::OPEN_END);
        Standing {
            open: said.paused_s.is_none(),
            paused_until: ends.and_then(|seconds| now.checked_add(Span::from_secs(seconds.into()))),
            load: rate.map(|_| f64::from(said.load_permille) / 1000.0),
            users: rate.map(|_| said.users.into()),
            spare: rate,
            left: None,
        }
    }

    /// Keeps the tunnel connected. Never returns.
    async fn keep(self: Arc<Self>, number: usize, options: ClientOptions, host: Arc<SeveralHost>) {
        loop {
            let error = match Client::new(self.token.clone(), options.clone()).await {
                Ok(client) => self.stay(Arc::new(client), number, &host).await,
                Err(error) => error,
            };
            *lock(&self.refused) = Some(error.to_string());
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Stays connected, across broken connections, until the relay refuses this client.
    async fn stay(&self, client: Arc<Client>, number: usize, host: &SeveralHost) -> Error {
        *lock(&self.client) = Some(client.clone());
        *lock(&self.refused) = None;
        let mut reading = JoinSet::new();
        reading.spawn(read(self.tun.clone(), client.clone()));
        let mut settled: Option<Welcome> = None;
        let up = |welcome: &Welcome| -> Result<Arc<dyn Inward>, Error> {
            let same = |before: &Welcome| {
                (before.v4, before.v6, before.mtu) == (welcome.v4, welcome.v6, welcome.mtu)
            };
            if !settled.as_ref().is_some_and(same) {
                // Only when the addresses change; otherwise existing connections keep theirs.
                host.settle(number, welcome)?;
                settled = Some(welcome.clone());
            }
            Ok(self.tun.clone() as Arc<dyn Inward>)
        };
        client.run(up).await
    }
}

/// Joins all relays and keeps the tunnels until a signal.
pub async fn stay(
    join: &Join,
    tokens: Vec<Token>,
    options: ClientOptions,
    home: &[IpNet],
) -> Result<(), Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let new = |token: Token| {
        let (client, refused) = Default::default();
        let gateway = Gateway::named(&token.address);
        Ok(Arc::new(Tunnel { token, gateway, tun: Arc::new(Tun::open("lwjoin%d")?), client, refused }))
    };
    let tunnels = tokens.into_iter().map(new).collect::<Result<Vec<_>, Error>>()?;
    let names: Vec<&str> = tunnels.iter().map(|tunnel| tunnel.tun.name()).collect();
    let host = Arc::new(SeveralHost::new(&names, &join.routes)?);
    let all = tunnels.clone();
    let _watch = match home {
        [] => None,
        home => {
            let tell = move |observations: &[leeway_net::Observation]| {
                let clients = all.iter().filter_map(|tunnel| lock(&tunnel.client).clone());
                clients.for_each(|client| client.home_observed(observations));
            };
            Some(TrafficObserver::new(home).and_then(|observer| observer.watch(tell)).map_err(Error::from)?)
        }
    };
    let mut kept = JoinSet::new();
    for (number, tunnel) in tunnels.iter().enumerate() {
        kept.spawn(tunnel.clone().keep(number, options.clone(), host.clone()));
    }
    super::warn_of_names(join);
    tokio::select! {
        failed = choose(&tunnels, &host, join.verbose) => Err(failed.into()),
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
    }
}

/// Chooses the tunnel for new connections, again and again. Returns only an error.
async fn choose(tunnels: &[Arc<Tunnel>], host: &SeveralHost, verbose: bool) -> Error {
    let began = Instant::now();
    let policy = Policy { unknown_bps: RATE_BPS, ..Policy::default() };
    // Tokens differ between clients, so clients of the same relays try them in different orders.
    let seed = Gateway::named(&tunnels.iter().map(|it| it.token.to_string()).collect::<String>()).0;
    let mut selector = Selector::new(policy, seed, tunnels.iter().map(|tunnel| tunnel.gateway));
    let mut known = vec![State::Connecting; tunnels.len()];
    let mut open = vec![true; tunnels.len()];
    let (mut measured, mut first_up) = (Instant::now(), None);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        let now = Time::from_micros(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        let due = measured.elapsed() >= EVERY;
        for ((tunnel, known), open) in tunnels.iter().zip(&mut known).zip(&mut open) {
            let (state, status) = (tunnel.state(), tunnel.standing(now));
            let changed = state != *known;
            let turned = std::mem::replace(open, status.open) != status.open;
            match &state {
                State::Up(_) if changed || due || turned => {
                    let round_trip = tunnel.round_trip();
                    selector.observe(tunnel.gateway, now, Observation::Answered { round_trip, status });
                }
                State::Down(_) if changed => selector.observe(tunnel.gateway, now, Observation::Failed),
                _ => {}
            }
            if changed {
                say(tunnel, &state);
                *known = state;
            } else if due && verbose {
                measure(tunnel);
            }
        }
        if due {
            measured = Instant::now();
        }
        let up = known.iter().filter(|state| matches!(state, State::Up(_))).count();
        if up > 0 {
            first_up.get_or_insert_with(Instant::now);
        }
        let waits =
            known.contains(&State::Connecting) && first_up.is_some_and(|at: Instant| at.elapsed() < FIRST);
        if up == 0 || waits {
            if tunnels.iter().all(|tunnel| lock(&tunnel.refused).is_some()) && first_up.is_none() {
                return Error::Refused("no relay accepts this client; see the messages above".into());
            }
            continue;
        }
        if let Ok(Choice { gateway, reason }) = selector.choose(now)
            && reason != Reason::Stays
            && let Some(number) = tunnels.iter().position(|tunnel| tunnel.gateway == gateway)
        {
            if let Err(error) = host.lead(number) {
                return error;
            }
            let why = match reason {
                Reason::Better => ": it is nearer, or has more to spare",
                Reason::Paused => ": the other one is paused",
                Reason::Failed => ": the other one is gone",
                _ => "",
            };
            eprintln!("leeway join: new connections go through {}{why}", tunnels[number].token.address);
        }
    }
}

fn say(tunnel: &Tunnel, state: &State) {
    let address = &tunnel.token.address;
    match state {
        State::Connecting => {}
        State::Up(Welcome { v4, v6, .. }) => {
            eprintln!("leeway join: joined {address} as {v4} and {v6}, by {}", tunnel.tun.name());
        }
        State::Down(why) => eprintln!("leeway join: {address}: {why}; trying again"),
    }
}

fn measure(tunnel: &Tunnel) {
    if let Some(steering) = lock(&tunnel.client).as_ref().and_then(|client| client.steering()) {
        eprintln!("leeway join: {}: {steering}", tunnel.token.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
