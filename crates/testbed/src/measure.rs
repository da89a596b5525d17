//! One measurement of one mechanism.

use crate::Error;
use crate::load::{Ends, Load, Span};
use crate::mechanism::{self, Mechanism};
use crate::network::{CALL_PORT, Line, Network, secondary};
use crate::probe::{Call, Ping, listen, ping, speak};
use crate::server::{serve, socket};
use crate::stats::Class;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time from the start of the programs to the first request.
const SETTLE: Duration = Duration::from_millis(200);

/// A line, its users, and the duration.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The line.
    pub line: Line,
    /// The primary's load, if any.
    pub primary: Option<Load>,
    /// The secondaries' load.
    pub secondary: Load,
    /// Whether the primary pings the server.
    pub ping: bool,
    /// Whether the primary has a telephone call.
    pub call: bool,
    /// The congestion control of servers and of clients that upload, by the kernel's name.
    pub congestion: String,
    /// Duration after the warm-up.
    pub duration: Duration,
    /// Duration of the warm-up, in which nothing is counted.
    pub warmup: Duration,
    /// Longest wait for answers at the end.
    pub patience: Duration,
}

/// The outcome of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The primary's requests.
    pub primary: Option<Class>,
    /// The secondaries' requests; `None` without secondaries.
    pub secondary: Option<Class>,
    /// The primary's ping.
    pub ping: Option<Ping>,
    /// The primary's call.
    pub call: Option<Call>,
    /// Segments that hosts on the Internet's side have sent again.
    pub retransmitted: u64,
    /// The line.
    pub line: LineUse,
}

/// Figures of the line, from its first packet to its last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LineUse {
    /// Bits of packets a second towards the homes.
    pub down_bps: f64,
    /// Packets towards the homes that its queue dropped.
    pub down_dropped: u64,
    /// Packets towards the homes that it carried.
    pub down_packets: u64,
    /// The 99th percentile of the emulator's lateness, in seconds.
    pub late_p99_s: f64,
}

/// Plays `setup` with `mechanism`. The same seed gives the same requests. Gateways and relays run
/// the program `leeway`.
///
/// # Errors
/// The network cannot be built, or a part of the measurement fails.
pub fn measure(setup: &Setup, mechanism: &Mechanism, leeway: &Path, seed: u64) -> Result<Measured, Error> {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    socket(any, &setup.congestion).map_err(|error| Error::Usage(error.to_string()))?;
    let network = Network::up(&setup.line, mechanism, setup.secondary.users, leeway, seed)?;
    let web = network.web()?;
    let (home, far) = (network.address("primary")?, web.ip());
    let start = Instant::now() + SETTLE;
    let counted = start + setup.warmup;
    let end = counted + setup.duration;
    let span = Span { start, counted, end, patience: setup.patience };
    let users = (0..setup.secondary.users).map(secondary).collect();
    let secondaries = (mechanism.path != mechanism::Path::PrimaryOnly).then_some(&setup.secondary);

    let mut measured = std::thread::scope(|scope| {
        let on = Hosts { network: &network, scope };
        let (stop, stopped) = oneshot::channel();
        let serving = on.run("server", "serve the web", move || serve(web, &setup.congestion, stopped));
        let primary = setup.primary.as_ref().map(|load| {
            let ends = Ends {
                users: vec![home],
                server: web,
                proxy: None,
                login: None,
                congestion: setup.congestion.clone(),
            };
            on.run("primary", "send requests", move || load.run(&ends, span, seed))
        });
        let secondary = secondaries.map(|load| {
            let ends = Ends {
                users,
                server: web,
                proxy: network.proxy,
                login: None,
                congestion: setup.congestion.clone(),
            };
            on.run("secondary", "send requests", move || load.run(&ends, span, !seed))
        });
        let pinging =
            setup.ping.then(|| on.run("primary", "ping", move || ping(far, start, counted, end, seed)));
        let ear = SocketAddr::new(home, CALL_PORT);
        let listening = setup
            .call
            .then(|| on.run("primary", "listen to a call", move || listen(ear, start, counted, end)));
        let speaking =
            setup.call.then(|| on.run("server", "make a call", move || speak(far, ear, start, end)));

        let measured = Measured {
            primary: joined(primary)?.map(|tally| tally.class()),
            secondary: joined(secondary)?.map(|tally| tally.class()),
            ping: joined(pinging)?,
            call: joined(listening)?,
            ..Measured::default()
        };
        joined(speaking)?;
        drop(stop);
        joined(Some(serving))?;
        Ok::<_, Error>(measured)
    })?;
    for host in ["server", "relay"] {
        measured.retransmitted += network.retransmitted(host)?;
    }
    for carried in network.close()?.iter().filter(|carried| carried.name == "line") {
        let down = &carried.ended.tallies[1];
        measured.line = LineUse {
            down_bps: down.left_bytes as f64 * 8.0 / carried.ended.ran.secs_f64().max(1e-9),
            down_dropped: down.drops(),
            down_packets: down.left,
            late_p99_s: down.lateness.quantile(990).secs_f64(),
        };
    }
    Ok(measured)
}

/// Threads on the hosts of a network.
struct Hosts<'scope, 'env> {
    network: &'env Network,
    scope: &'scope Scope<'scope, 'env>,
}

type Running<'scope, T> = ScopedJoinHandle<'scope, Result<T, Error>>;

impl<'scope, 'env: 'scope> Hosts<'scope, 'env> {
    /// Runs `work` in the network of `host`.
    fn run<T: Send + 'scope>(
        &self,
        host: &'static str,
        what: &'static str,
        work: impl FnOnce() -> io::Result<T> + Send + 'scope,
    ) -> Running<'scope, T> {
        let network = self.network;
        self.scope.spawn(move || {
            let done = network.net.inside(host, work)?;
            done.map_err(|error| Error::Measure { what, error })
        })
    }
}

/// The result of a thread; `None` if there was no thread.
fn joined<T>(running: Option<Running<'_, T>>) -> Result<Option<T>, Error> {
    let lost = || Error::Usage("a measuring thread has died".into());
    running.map(|running| running.join().unwrap_or_else(|_| Err(lost()))).transpose()
}
