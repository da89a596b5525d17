//! A tunnel to a relay on the Internet, which sends downloads under a law.
//!
//! While the relay can be reached, connections and datagrams of neighbours use sockets that are
//! bound to the tunnel's device. Nothing else uses the device: the home's traffic and the routes
//! of this machine stay as they are. While the relay is gone, neighbours' traffic goes directly,
//! and the shared window limits downloads.

use crate::caretaker::Caretaker;
use crate::config::RelayConfig;
use crate::gateway::GatewayError;
use leeway_net::Observation;
use leeway_tunnel::wire::Welcome;
use leeway_tunnel::{Client, ClientOptions, Error, Inward, Status, Steering, Token, Tun};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Start of the names of tunnel devices. A number follows.
pub const DEVICE: &str = "lwrelay";
/// Time before another try, after the relay refused or its name was not found. Both can change
/// while a gateway runs.
const AGAIN: Duration = Duration::from_secs(30);

/// State of the tunnel to the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The first attempt to connect has not ended yet.
    Connecting,
    /// The tunnel is up: connections go through it.
    Up {
        /// Number of this session with the relay, from 1.
        turn: u64,
    },
    /// The tunnel is down, with the reason: connections go directly.
    Down(String),
}

/// The tunnel and its device.
#[derive(Debug)]
pub struct Relay {
    tun: Arc<Tun>,
    caretaker: Arc<Caretaker>,
    token: Token,
    options: ClientOptions,
    state: watch::Sender<State>,
    turns: AtomicU64,
    client: Mutex<Option<Arc<Client>>>,
}

impl Relay {
    /// Makes the device and its rules. Does not connect.
    ///
    /// # Errors
    /// The token cannot be used, or privileges are missing.
    pub fn open(config: &RelayConfig, caretaker: Arc<Caretaker>) -> Result<Arc<Relay>, GatewayError> {
        let (token, options) = (config.token()?, config.options()?);
        let tun = Tun::open(&format!("{DEVICE}%d"))?;
        caretaker
            .tunnel(tun.name(), tun.index()?)
            .map_err(|error| GatewayError::System("make rules for the tunnel to the relay", error))?;
        let state = watch::Sender::new(State::Connecting);
        let (turns, client) = (AtomicU64::new(0), Mutex::default());
        Ok(Arc::new(Relay { tun: Arc::new(tun), caretaker, token, options, state, turns, client }))
    }

    /// The device of the tunnel.
    pub fn device(&self) -> &str {
        self.tun.name()
    }

    /// The state of the tunnel, and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Number of the present session; `None` while the tunnel is down.
    pub fn turn(&self) -> Option<u64> {
        self.state.borrow().turn()
    }

    /// Ready when that session has ended.
    pub async fn over(&self, turn: u64) {
        // `self` has the sender, so the channel is open and this cannot fail.
        let _ = self.state.subscribe().wait_for(|state| state.turn() != Some(turn)).await;
    }

    /// State of the tunnel's law; `None` over TCP, or before the relay was reached.
    pub fn steering(&self) -> Option<Steering> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.steering()
    }

    /// Observations of the home: the relay leaves room for what the home expects.
    pub fn home_observed(&self, observations: &[Observation]) {
        if let Some(client) = &*self.client.lock().unwrap_or_else(PoisonError::into_inner) {
            client.home_observed(observations);
        }
    }

    /// Keeps the tunnel. Never ends.
    pub async fn run(&self) {
        loop {
            let error = match Client::new(self.token.clone(), self.options.clone()).await {
                Ok(client) => self.stay(Arc::new(client)).await,
                Err(error) => error,
            };
            self.is_gone(&error.to_string());
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Keeps the tunnel until the relay refuses, or the device is gone.
    async fn stay(&self, client: Arc<Client>) -> Error {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        let mut reading = JoinSet::new();
        let (tun, egress) = (self.tun.clone(), client.egress());
        reading.spawn(async move { tun.feed(&egress).await });
        let mut settled: Option<Welcome> = None;
        let up = |welcome: &Welcome| -> Result<Arc<dyn Inward>, Error> {
            // Established connections keep their addresses if these have not changed.
            if settled.as_ref() != Some(welcome) {
                self.caretaker
                    .settle(welcome.v4, welcome.v6, welcome.mtu)
                    .map_err(|error| Error::System { what: "give the tunnel its addresses", error })?;
                settled = Some(welcome.clone());
            }
            Ok(self.tun.clone())
        };
        tokio::select! {
            error = client.run(up) => error,
            _ = reading.join_next() => Error::Lost(format!("the device {} is gone", self.device())),
            () = self.follow(&client) => Error::Lost("the tunnel is gone".into()),
        }
    }

    async fn follow(&self, client: &Client) {
        let mut status = client.status();
        while status.changed().await.is_ok() {
            match &*status.borrow_and_update() {
                Status::Connecting => {}
                Status::Up(_) => {
                    let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
                    self.state.send_replace(State::Up { turn });
                }
                Status::Down(why) => self.is_gone(why),
            }
        }
    }

    /// Sets the state to [`State::Down`]. Does not notify receivers if it is down already.
    fn is_gone(&self, why: &str) {
        self.state.send_if_modified(|state| {
            let news = !matches!(state, State::Down(_));
            if news {
                *state = State::Down(why.to_owned());
            }
            news
        });
    }
}

impl State {
    fn turn(&self) -> Option<u64> {
        match self {
            State::Up { turn } => Some(*turn),
            State::Connecting | State::Down(_) => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Connecting => {
                f.write_str("looking for the relay; connections go directly until it is there")
            }
            State::Up { .. } => f.write_str("the relay is there: connections go through it"),
            State::Down(why) => write!(f, "no relay: {why}; connections go directly"),
        }
    }
}
