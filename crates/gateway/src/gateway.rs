//! The gateway as a whole: its listeners, the state that they share, its start and its end.

use crate::accounts;
use crate::block::Blocklist;
use crate::budget::Budget;
use crate::caretaker::Caretaker;
use crate::client;
use crate::codes::Codes;
use crate::config::{Config, ConfigError};
use crate::control::{self, Entrance, Operations, Socket, SocketError};
use crate::destinations::Destinations;
use crate::event::{Event, Log};
use crate::gate::{self, Gate};
use crate::http::{Proxy, Words};
use crate::login::Logins;
use crate::metering::{Bookkeeper, Meter};
use crate::notes::{self as phrase, Note, Value};
use crate::observe::Observer;
use crate::page;
use crate::policy::Policy;
use crate::privileged::Privileged;
use crate::relay;
use crate::resolve::Resolver;
use crate::socket;
use crate::socks;
use crate::transparent;
use crate::upstream::Connector;
use crate::users::{Place, Users};
use leeway_net::{Attached, TrafficObserver, Watch};
use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Refused connections of each listener that are told the reason at a time. Further ones are
/// closed without a reason.
const FAREWELLS: usize = 64;
/// Time that open connections have to end when the gateway stops.
const GRACE: Duration = Duration::from_secs(5);

/// Why the gateway does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The name servers cannot be used.
    #[error("{0}")]
    Names(String),
    /// The interfaces and networks of this machine cannot be read.
    #[error("cannot tell what belongs to the home: {0}")]
    Attached(#[from] leeway_net::Error),
    /// The tunnel to the relay cannot be set up.
    #[error("cannot keep a tunnel to the relay: {0}")]
    Relay(#[from] leeway_tunnel::Error),
    /// The owner's socket cannot be opened.
    #[error(transparent)]
    Control(#[from] SocketError),
    /// The store of accounts cannot be opened.
    #[error("accounts: {0}")]
    Accounts(#[from] leeway_accounts::StoreError),
    /// A call of the system failed.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// A gateway whose listeners are open.
pub struct Gateway {
    listeners: Vec<(Kind, TcpListener)>,
    /// For datagrams of clients without configuration.
    datagrams: Vec<UdpSocket>,
    proxy: Arc<Proxy>,
    budget: Option<Arc<Budget>>,
    /// The process that keeps the rules and routes.
    caretaker: Option<Arc<Caretaker>>,
    /// UDP ports that another program of this machine uses, so the gateway cannot answer from them
    /// in a server's name.
    taken: Vec<u16>,
    /// The owner's socket. `Some(Err)` says why it could not be opened; `None` if none is
    /// configured.
    control: Option<Result<Socket, SocketError>>,
    /// The lock of the folder `state`, which belongs to this gateway until it ends.
    _state: Option<File>,
    /// Stores who uses how much.
    books: Option<Bookkeeper>,
    operations: Arc<Operations>,
    /// The listener of the owner's page, and the users who may see the page.
    page: Option<(TcpListener, Arc<Logins>)>,
    /// Observes the home's packets.
    home: Option<Result<Watch, leeway_net::Error>>,
    /// Observes when receive windows of this host's connections open, and which segments arrive.
    segments: Option<Result<Watch, leeway_net::Error>>,
}

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Socks,
    Metrics,
    Transparent,
}

impl Gateway {
    /// Opens everything that the configuration needs in one step. The process keeps its
    /// privileges. Events go to `log`. Needs a Tokio runtime.
    ///
    /// # Errors
    /// What is missing, and how to provide it.
    pub fn open(
        config: &Config,
        log: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Gateway, GatewayError> {
        Gateway::with(Privileged::new(config, log)?, config)
    }

    /// Opens the rest, given what needed privileges. Nothing in here needs privileges.
    ///
    /// # Errors
    /// What is missing, and how to provide it.
    pub fn with(privileged: Privileged, config: &Config) -> Result<Gateway, GatewayError> {
        let Privileged {
            log,
            logins,
            page,
            listeners,
            datagrams,
            caretaker,
            relay,
            traffic_observer,
            connection_observer: segments,
            echo,
            taken,
        } = privileged;
        let attached = Attached::follow(|_| {})?;
        let resolver = Resolver::new(config).map_err(GatewayError::Names)?;
        let block = Arc::new(Blocklist::read(&config.block)?);
        let policy = Policy { block, ..config.policy(attached) };
        let Control { socket: control, gate, state } = Control::open(config)?;
        let caps = config.caps.clone().unwrap_or_default();
        let meter = config.accounts.as_ref();
        let meter = meter.map(|accounts| Meter::open(accounts, &caps, &config.home)).transpose()?;
        let meter = meter.map(Arc::new);
        let codes = meter.clone().filter(|_| config.vouchers).map(|meter| {
            Codes::new(meter, log.clone()).map_err(|error| GatewayError::System("keep codes", error))
        });
        let users = Arc::new(Users::new(config, logins).with_codes(codes.transpose()?));
        let books =
            meter.clone().map(|meter| Bookkeeper::begin(meter, users.clone(), log.clone())).transpose();
        let books = books.map_err(|error| GatewayError::System("keep accounts", error))?;
        let gate = Arc::new(gate.metered(meter));
        let connector = Connector::new(config, policy, resolver, users.clone(), relay, gate, echo);
        let connector = connector.recording(destinations(config, &log)?);
        let budget = connector.budget.clone();
        let budgets = [budget.clone(), connector.relay_budget.clone()];
        let connector = Arc::new(connector);
        let entrance = Entrance::of(&listeners, &connector.policy());
        let proxy = Arc::new(Proxy::new(connector, users, config, entrance));
        let upload = proxy.connector.upload.clone();
        let segments = segments.map(|observer| watch(observer, budgets, upload));
        let observer = config.observe.then(|| Observer::new(&config.home)).transpose()?.map(Arc::new);
        let home = traffic_observer.map(|found| watch_home(found, &proxy, observer.clone()));
        let sees_home = matches!(home, Some(Ok(_)));
        observer.iter().for_each(|observer| observer.can_see(sees_home));
        if sees_home {
            proxy.connector.speedometer.can_see();
        }
        let listening = |error| GatewayError::System("listen", error);
        let listeners =
            listeners.into_iter().map(|(kind, socket)| Ok((kind, TcpListener::from_std(socket)?)));
        let listeners = listeners.collect::<io::Result<_>>().map_err(listening)?;
        let datagrams = datagrams.into_iter().map(UdpSocket::from_std).collect::<io::Result<_>>();
        let datagrams = datagrams.map_err(listening)?;
        let page = page.map(|(listener, logins)| Ok((TcpListener::from_std(listener)?, Arc::new(logins))));
        let page = page.transpose().map_err(listening)?;
        let owners = page.as_ref().map(|(_, logins): &(_, Arc<Logins>)| logins.clone());
        let diverting = caretaker.clone().filter(|_| config.transparent.is_some());
        let operations = Operations::new(proxy.clone(), config, owners);
        let operations = Arc::new(operations.observing(observer).diverting(diverting));
        let gateway = Gateway {
            listeners,
            datagrams,
            proxy,
            budget,
            caretaker,
            control,
            _state: state,
            books,
            operations,
            page,
            home,
            segments,
            taken,
        };
        gateway.operations.tell(gateway.notes());
        let page = gateway.page.iter().filter_map(|(listener, _)| listener.local_addr().ok());
        gateway.operations.listens(gateway.addresses().into_iter().chain(page).collect());
        Ok(gateway)
    }

    /// The addresses that the gateway listens on: HTTP, SOCKS, metrics, each in the order of the
    /// configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(_, listener)| listener.local_addr().ok()).collect()
    }

    /// The window of all downloads, if there is a law.
    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// The state of the tunnel to the relay, and its changes; `None` if no relay is configured.
    pub fn relay(&self) -> Option<watch::Receiver<relay::State>> {
        self.proxy.connector.relay.as_ref().map(|relay| relay.state())
    }

    /// What the owner can ask the gateway to do.
    pub fn operations(&self) -> Arc<Operations> {
        self.operations.clone()
    }

    /// Notices for the person who runs the gateway.
    pub fn notices(&self) -> Vec<String> {
        self.operations.notices()
    }

    /// The notices that do not change until the gateway ends.
    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.operations.observation().is_some() {
            if let Some(Err(error)) = &self.home {
                notes.push(Note::new(&phrase::HOME_NOT_OBSERVED, [of_system(error)]));
            }
            return notes;
        }
        match &self.proxy.connector.upload {
            None => notes.push(Note::new(&phrase::UPLINK_FREE, [])),
            Some(upload) => {
                if let Some(error) = upload.blindness() {
                    notes.push(Note::new(&phrase::NO_ECHOES, [Value::error(error)]));
                }
            }
        }
        if self.proxy.connector.upload.is_some()
            && let Err(why) = self.proxy.connector.congestion()
            && !why.is_empty()
        {
            notes.push(Note::new(&phrase::NO_KERNEL_LAW, [Value::Notes(why.to_vec())]));
        }
        for port in &self.taken {
            notes.push(Note::new(&phrase::PORT_TAKEN, [Value::same(port)]));
        }
        if let Some(Err(error)) = &self.home {
            notes.push(Note::new(&phrase::HOME_UNSEEN, [of_system(error)]));
        }
        if let Some(Err(error)) = &self.segments {
            notes.push(Note::new(&phrase::SERVERS_UNSEEN, [of_system(error)]));
        }
        if let Some(Err(error)) = &self.control {
            let why = match error {
                SocketError::Taken(path) => Note::new(&phrase::SOCKET_TAKEN, [Value::same(path.display())]),
                SocketError::System(path, error) => {
                    Note::new(&phrase::SOCKET_FAILED, [Value::same(path.display()), Value::error(error)])
                }
            };
            notes.push(Note::new(&phrase::NO_CONTROL, [Value::Notes(vec![why])]));
        }
        if self.budget.is_none() {
            notes.push(Note::new(&phrase::NO_LAW, []));
        }
        if let Some(destinations) = self.proxy.connector.destinations() {
            notes.push(Note::new(&phrase::DESTINATIONS, [Value::same(destinations.keep_days())]));
        }
        notes
    }

    /// Serves until `stop` is ready. Open connections then have [`GRACE`] to end.
    ///
    /// # Errors
    /// The process that keeps the rules ended before `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), GatewayError> {
        let mut background = JoinSet::new();
        let upload = self.proxy.connector.upload.clone();
        if let Some(budget) = self.budget.clone() {
            let upload = upload.clone();
            background.spawn(async move { budget.drive(upload.as_deref()).await });
        }
        if let Some(budget) = self.proxy.connector.relay_budget.clone() {
            background.spawn(async move { budget.drive(None).await });
        }
        if let Some(upload) = upload {
            background.spawn(async move { upload.drive().await });
        }
        if let Some(relay) = self.proxy.connector.relay.clone() {
            background.spawn(async move { relay.run().await });
        }
        if let Some(observer) = self.operations.observer() {
            background.spawn(async move { observer.drive().await });
        }
        if let Some(Ok(socket)) = self.control {
            background.spawn(control::serve(socket, self.operations.clone()));
        }
        if let Some((listener, logins)) = self.page {
            background.spawn(page::serve(listener, logins, self.operations.clone()));
            // Collects the points of the page's chart, which only the page uses.
            let operations = self.operations.clone();
            background.spawn(async move { operations.watch().await });
        }
        for (kind, listener) in self.listeners {
            background.spawn(accept(kind, listener, self.proxy.clone()));
        }
        for (socket, caretaker) in self.datagrams.into_iter().zip(self.caretaker.iter().cycle()) {
            background.spawn(transparent::datagrams(self.proxy.clone(), caretaker.clone(), socket));
        }
        let proxy = self.proxy.clone();
        background
            .spawn(async move { proxy.connector.speedometer.drive(&proxy.connector, &proxy.users).await });
        let (peers, connector) = (self.proxy.peers.clone(), self.proxy.connector.clone());
        background.spawn(peers.drive(connector, self.proxy.users.clone()));
        let proxy = self.proxy.clone();
        background.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                proxy.sweep();
            }
        });
        let ended = tokio::select! {
            () = stop => Ok(()),
            () = caretaker_ended(self.caretaker.as_deref()) => Err(GatewayError::System(
                "go on",
                io::Error::other("the process that keeps the network rules has ended"),
            )),
        };
        // The listeners are closed from here on.
        background.shutdown().await;
        drop(self.home);
        let end = tokio::time::Instant::now() + GRACE;
        while self.proxy.users.connections() > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The bookkeeper stores what users have moved until now.
        drop(self.books);
        if let Some(caretaker) = &self.caretaker {
            caretaker.stop();
        }
        ended
    }
}

/// The log of destinations, if the configuration asks for one.
fn destinations(config: &Config, log: &Log) -> Result<Option<Destinations>, GatewayError> {
    let begin = |destinations| Destinations::begin(destinations, log.clone());
    let begun = config.destinations.as_ref().map(begin).transpose();
    begun.map_err(|error| GatewayError::System("log destinations", error))
}

/// Ready when the caretaker has ended; never if there is none.
async fn caretaker_ended(caretaker: Option<&Caretaker>) {
    let Some(caretaker) = caretaker else { return std::future::pending().await };
    while caretaker.lives() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Reports what packets of this host's connections do to the budgets and the upload window.
fn watch(
    observer: Result<leeway_net::ConnectionObserver, leeway_net::Error>,
    budgets: [Option<Arc<Budget>>; 2],
    upload: Option<Arc<crate::upload::Upload>>,
) -> Result<leeway_net::Watch, leeway_net::Error> {
    observer?.watch(move |segments| {
        budgets.iter().flatten().for_each(|budget| budget.observed(segments));
        upload.iter().for_each(|upload| upload.observed(segments));
    })
}

/// Reports the home's packets to everything that yields to the home, or measures it.
fn watch_home(
    traffic: Result<TrafficObserver, leeway_net::Error>,
    proxy: &Proxy,
    observer: Option<Arc<Observer>>,
) -> Result<Watch, leeway_net::Error> {
    let connector = &proxy.connector;
    let (budget, upload, relay) =
        (connector.budget.clone(), connector.upload.clone(), connector.relay.clone());
    let speedometer = connector.speedometer.clone();
    traffic?.watch(move |observations| {
        budget.iter().for_each(|budget| budget.home_observed(observations));
        upload.iter().for_each(|upload| upload.home_observed(observations));
        relay.iter().for_each(|relay| relay.home_observed(observations));
        speedometer.home_observed(observations);
        observer.iter().for_each(|observer| observer.home_seen());
    })
}

/// What the owner controls the gateway with.
#[derive(Default)]
struct Control {
    socket: Option<Result<Socket, SocketError>>,
    /// Keeps a pause over a restart.
    gate: Gate,
    /// The lock of the folder in which the gate keeps it.
    state: Option<File>,
}

impl Control {
    /// Without the socket the gate is not kept, because only one gateway may use the directory
    /// `state`.
    fn open(config: &Config) -> Result<Control, GatewayError> {
        let Some(control) = &config.control else { return Ok(Control::default()) };
        let socket = match Socket::open(&control.socket) {
            Err(error) if control.required => return Err(error.into()),
            Err(error) => return Ok(Control { socket: Some(Err(error)), ..Control::default() }),
            Ok(socket) => socket,
        };
        let failed = |error| GatewayError::System("keep pauses over a restart (`state` of [control])", error);
        std::fs::create_dir_all(&control.state).map_err(failed)?;
        let state = gate::own(&control.state).map_err(failed)?;
        let gate = Gate::kept(&control.state).map_err(failed)?;
        Ok(Control { socket: Some(Ok(socket)), gate, state: Some(state) })
    }
}

async fn accept(kind: Kind, listener: TcpListener, proxy: Arc<Proxy>) {
    let farewells = Arc::new(Semaphore::new(FAREWELLS));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // No file descriptor is free: wait until a connection ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let proxy = proxy.clone();
        if kind == Kind::Metrics {
            // Metrics tell how much each user has used, so neighbours may not read them.
            let from = from.ip().to_canonical();
            if proxy.connector.policy().is_client(from) && !from.is_loopback() {
                continue;
            }
            tokio::spawn(async move {
                accounts::serve(stream, &proxy.connector, &proxy.users).await;
            });
            continue;
        }
        let (place, address) = match admit(&proxy, &stream, from) {
            Ok(admitted) => admitted,
            Err(why) => {
                if let (Some(words), Ok(turn)) =
                    (rejection_message(kind, why), farewells.clone().try_acquire_owned())
                {
                    tokio::spawn(async move {
                        socket::farewell(stream, &words).await;
                        drop(turn);
                    });
                }
                continue;
            }
        };
        tokio::spawn(async move {
            // Boxed, because a task takes the memory of the largest of these futures.
            match kind {
                Kind::Socks => Box::pin(socks::serve(proxy, stream, address)).await,
                Kind::Transparent => Box::pin(transparent::serve(proxy, stream, address)).await,
                Kind::Http | Kind::Metrics => client::serve(proxy, stream, address).await,
            }
            drop(place);
        });
    }
}

/// The value of a note for an error of the system.
fn of_system(error: &leeway_net::Error) -> Value {
    match error {
        leeway_net::Error::System { error: cause, .. } | leeway_net::Error::Missing { error: cause, .. } => {
            Value::caused(error, cause)
        }
        error => Value::said(error),
    }
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    /// The address belongs to no client.
    Stranger,
    /// The user has too many connections.
    Full,
    /// The client has closed the connection already.
    Gone,
}

/// The refusal, for protocols in which a server may speak before it has read a request.
fn rejection_message(kind: Kind, why: Rejection) -> Option<Vec<u8>> {
    let words = match why {
        Rejection::Stranger => Words::stranger(),
        Rejection::Full => Words::full(),
        Rejection::Gone => return None,
    };
    match kind {
        Kind::Http => Some(words.unread().into_bytes()),
        Kind::Socks => Some(socks::FAREWELL.into()),
        Kind::Metrics | Kind::Transparent => None,
    }
}

/// Takes a place for a connection, or says why the connection is refused.
fn admit(proxy: &Proxy, stream: &TcpStream, from: SocketAddr) -> Result<(Place, IpAddr), Rejection> {
    let client = from.ip().to_canonical();
    if !proxy.connector.policy().is_client(client) {
        return Err(Rejection::Stranger);
    }
    let user = proxy.users.at(client);
    let Some(place) = proxy.users.admit(&user) else {
        proxy.connector.refused(&user, None);
        return Err(Rejection::Full);
    };
    socket::prepare(stream).map_err(|_| Rejection::Gone)?;
    Ok((place, client))
}
