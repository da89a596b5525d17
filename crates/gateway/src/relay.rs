//! A tunnel to a relay on the Internet, which sends downloads under a law.
//!
//! While the relay is there, connections and datagrams of neighbours leave by sockets that are
//! bound to the tunnel's device. Nothing else uses the device: the home's traffic and the routes
//! of this machine stay as they are. While the relay is gone, neighbours' traffic goes directly,
//! and the shared window holds downloads back.

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

/// How the names of devices begin; a number follows.
pub const DEVICE: &str = "lwrelay";
/// Before another try, where the relay has said no or its name is not known: that may change while a gateway runs.
const AGAIN: Duration = Duration::from_secs(30);

/// How things stand with the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is asked for the first time.
    Connecting,
    /// Connections go through it.
    Up {
        /// How many times it has been there.
        turn: u64,
    },
    /// Connections go directly.
    Down(String),
}

/// The tunnel.
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
    /// Makes the device, and has its rules made. Nothing is connected yet.
    ///
    /// # Errors
    /// The token, rights.
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

    /// How things stand, and every change of it.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// The number of its turn while it is there.
    pub fn turn(&self) -> Option<u64> {
        self.state.borrow().turn()
    }

    /// Ready when that turn is over.
    pub async fn over(&self, turn: u64) {
        // The sender is here, so it cannot be gone.
        let _ = self.state.subscribe().wait_for(|state| state.turn() != Some(turn)).await;
    }

    /// What the law of the tunnel does; nothing over TCP or while there is no relay.
    pub fn steering(&self) -> Option<Steering> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.steering()
    }

    /// The home was seen: what the relay sends waits for what the home expects.
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

    /// Stays connected until the relay says no.
    async fn stay(&self, client: Arc<Client>) -> Error {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        let mut reading = JoinSet::new();
        let (tun, egress) = (self.tun.clone(), client.egress());
        reading.spawn(async move { tun.feed(&egress).await });
        let mut settled: Option<Welcome> = None;
        let up = |welcome: &Welcome| -> Result<Arc<dyn Inward>, Error> {
            // Connections that stand keep their addresses.
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

    /// That it is still gone is no news.
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
