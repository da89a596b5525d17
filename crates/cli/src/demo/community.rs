//! The demo's community in network namespaces: hosts, servers, everybody's traffic, and a real
//! gateway.

use super::figures::Figures;
use super::{Asks, BUFFER, DELAY, DOWN, NEIGHBOURS, PAGE_BYTES, PAGES_A_SECOND, UP, Uses};
use crate::Failure;
use data_encoding::BASE64;
use leeway_emulator::testnet::{Spec, Testnet};
use leeway_gateway::control::{Client, UserStatus};
use leeway_gateway::password::{Hash, fresh};
use leeway_testbed::{Arrivals, Direction, Ends, Load, Ping, Span, Start, Tally, ping, serve};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// The network of the home, with the gateway and a laptop in it.
const HOME: &str = "10.1.0.0/24";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const LAPTOP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// The servers: one for pages, one for files and films.
const SERVERS: [(&str, Ipv4Addr); 2] =
    [("web", Ipv4Addr::new(20, 0, 1, 2)), ("files", Ipv4Addr::new(20, 0, 2, 2))];
const WEB_PORT: u16 = 80;
const PROXY_PORT: u16 = 3128;
const PAGE_PORT: u16 = 8080;
/// Congestion control of servers and clients: the default of Linux, whatever this machine has set.
const CONGESTION: &str = "cubic";
/// How long a round waits for the home's last requests after its end.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the gateway has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// A running community. All its parts are in this process, or end with it.
pub struct Community {
    gateway: Ending,
    /// Threads of the servers and of the forwarder to the page. They do not end by themselves.
    services: Vec<JoinHandle<Result<(), Failure>>>,
    net: Arc<Testnet>,
    control: Client,
    runtime: tokio::runtime::Runtime,
    /// The password of the owner for the page, and of the neighbours for the proxy.
    pub password: String,
    /// The folder of all files of the demo.
    folder: tempfile::TempDir,
}

/// A running part of the home's load.
pub struct Round {
    pages: JoinHandle<Result<Tally, Failure>>,
    ping: JoinHandle<Result<Ping, Failure>>,
}

impl Community {
    /// Builds the network; starts the servers, the gateway, and a forwarder from `listener`, an
    /// address of this machine, to the gateway's page.
    ///
    /// # Errors
    /// Rights or a program are missing, or the gateway does not start.
    pub fn up(listener: TcpListener) -> Result<Community, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let folder = tempfile::Builder::new().prefix("leeway-demo-").tempdir()?;
        let password = fresh().map_err(Failure::Run)?;
        let config = write_files(folder.path(), &password)?;
        let net = Arc::new(Testnet::up(&Spec::parse(&network(), Path::new("/the demo"))?)?);
        let server = |(host, address): (&'static str, Ipv4Addr)| {
            on(&net, host, move || {
                let (_running, stop) = oneshot::channel();
                serve(SocketAddr::new(address.into(), WEB_PORT), CONGESTION, stop)
            })
        };
        let mut services: Vec<_> = SERVERS.into_iter().map(server).collect();
        let leeway = std::env::current_exe()?;
        let mut command = Command::new(&leeway);
        command.args(["gateway", "--config"]).arg(&config);
        let log = folder.path().join("gateway.log");
        let (host, name, ready) = ("gateway", "leeway gateway", "listening on");
        let start = Start { leeway: &leeway, host, name, command: &command, log: &log, ready };
        let gateway = Ending(start.on(&net)?);
        listener.set_nonblocking(true)?;
        services.push(on(&net, "laptop", move || lead_to_page(listener)));
        let control = Client::new(&folder.path().join("control.sock"));
        Ok(Community { gateway, services, net, control, runtime, password, folder })
    }

    /// The home opens pages and pings a server from `start` for `length`.
    pub fn round(&self, start: Instant, length: Duration, seed: u64) -> Round {
        let end = start + length;
        let span = Span { start, counted: start, end, patience: PATIENCE };
        let load = Load {
            users: 1,
            connections: 6,
            arrivals: Arrivals::Poisson(PAGES_A_SECOND),
            object_bytes: PAGE_BYTES,
            direction: Direction::Down,
            think: None,
            keep: true,
        };
        let ends = ends(LAPTOP, "web", None);
        let far = ends.server.ip();
        Round {
            pages: on(&self.net, "laptop", move || load.run(&ends, span, seed)),
            ping: on(&self.net, "laptop", move || ping(far, start, start, end, seed)),
        }
    }

    /// Starts the neighbours' traffic, which goes on until `end`.
    pub fn neighbours(&self, start: Instant, end: Instant) {
        let span = Span { start, counted: start, end, patience: Duration::ZERO };
        for (number, neighbour) in NEIGHBOURS.iter().enumerate() {
            let load = load(neighbour.uses);
            let login = BASE64.encode(format!("{}:{}", neighbour.name, self.password).as_bytes());
            let server = if neighbour.uses == Uses::Pages { "web" } else { "files" };
            let ends = ends(address(number, 2), server, Some((number, format!("Basic {login}"))));
            on(&self.net, neighbour.name, move || load.run(&ends, span, number as u64));
        }
    }

    /// Bytes that each neighbour has received, as the gateway counts them.
    ///
    /// # Errors
    /// A part of the demo has ended. For the gateway the error has its last messages.
    pub fn got(&mut self) -> Result<Vec<u64>, Failure> {
        if let Some(ended) = self.services.iter().position(JoinHandle::is_finished) {
            let ended = self.services.swap_remove(ended).join();
            ended.unwrap_or_else(|_| Err(Failure::Run("a part of the demo has died".into())))?;
        }
        let users = self.runtime.block_on(self.control.get::<Vec<UserStatus>>("/v1/users"));
        let users = users.map_err(|error| {
            let said = std::fs::read_to_string(self.folder.path().join("gateway.log")).unwrap_or_default();
            Failure::Run(format!("{error}. The gateway said:\n{}", said.trim_end()))
        })?;
        let known: BTreeMap<&str, u64> =
            users.iter().map(|user| (user.name.as_str(), user.down_bytes)).collect();
        Ok(NEIGHBOURS.iter().map(|one| known.get(one.name).copied().unwrap_or(0)).collect())
    }

    /// Ends the gateway and removes everything.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn down(self) -> Result<(), Failure> {
        let Community { gateway, folder, .. } = self;
        drop(gateway);
        // The threads on the hosts still run. They and the hosts end with this process.
        let path = folder.path().to_owned();
        folder.close().map_err(|error| Failure::Run(format!("cannot remove {}: {error}", path.display())))
    }
}

/// The gateway's process, which is ended on drop: by SIGTERM, and by SIGKILL after [`GRACE`].
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGTERM);
        }
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Round {
    /// Waits for the end of the round. Returns its figures, with `neighbours`, the rate of each
    /// neighbour.
    ///
    /// # Errors
    /// A socket or a thread failed.
    pub fn end(self, label: &str, neighbours: Option<Vec<f64>>) -> Result<Figures, Failure> {
        let died = |_| Failure::Run("a part of the demo has died".into());
        let pages = self.pages.join().map_err(died)??.class().service;
        let ping = self.ping.join().map_err(died)??.rtt;
        Ok(Figures {
            label: label.into(),
            pages: pages.map(|times| [times.mean_s, times.p95_s]),
            ping: ping.map(|times| [times.p50_s, times.p95_s]),
            neighbours_bps: neighbours,
        })
    }
}

/// Runs `work` inside a host, on a thread of its own.
fn on<T: Send + 'static>(
    net: &Arc<Testnet>,
    host: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> JoinHandle<Result<T, Failure>> {
    let net = net.clone();
    std::thread::spawn(move || Ok(net.inside(host, work)??))
}

/// The address on the link between a neighbour and the gateway: of the gateway (`end` 1) or the
/// neighbour (2).
fn address(number: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 20, 1 + number as u8, end)
}

fn ends(from: Ipv4Addr, server: &str, login: Option<(usize, String)>) -> Ends {
    let server = SERVERS.iter().find(|(name, _)| *name == server).map_or(SERVERS[0].1, |(_, at)| *at);
    let at_proxy = |number: usize| SocketAddr::new(address(number, 1).into(), PROXY_PORT);
    Ends {
        users: vec![from.into()],
        server: SocketAddr::new(server.into(), WEB_PORT),
        proxy: login.as_ref().map(|(number, _)| at_proxy(*number)),
        login: login.map(|(_, login)| login),
        congestion: CONGESTION.into(),
    }
}

fn load(uses: Uses) -> Load {
    let Asks { connections, object_bytes, think } = uses.asks();
    Load {
        users: 1,
        connections,
        arrivals: Arrivals::Closed,
        object_bytes,
        direction: Direction::Down,
        think,
        keep: true,
    }
}

/// The test network, as the text of a file for `leeway testnet`.
fn network() -> String {
    let mut text = String::new();
    let hosts = ["laptop", "gateway", "isp", "web", "files"].into_iter();
    for host in hosts.chain(NEIGHBOURS.iter().map(|one| one.name)) {
        // New connections must not start from the measurements of earlier ones.
        let _ = writeln!(text, "[host.{host}]\nsysctl = {{ \"net.ipv4.tcp_no_metrics_save\" = 1 }}");
    }
    let mut link = |name: &str, ends: [&str; 2], at: [String; 2], more: &str| {
        let _ = writeln!(text, "[link.{name}]\nbetween = {ends:?}\nipv4 = {at:?}\n{more}");
    };
    let (laptop, gateway) = (format!("{LAPTOP}/24"), format!("{GATEWAY}/24"));
    link("home", ["laptop", "gateway"], [laptop, gateway], "");
    for (number, one) in NEIGHBOURS.iter().enumerate() {
        let at = [2, 1].map(|end| format!("{}/24", address(number, end)));
        link(&format!("to-{}", one.name), [one.name, "gateway"], at, "");
    }
    let emulated = format!("delay = \"{DELAY}\"\nbuffer = \"{BUFFER}\"\nup = \"{UP}\"\ndown = \"{DOWN}\"\n");
    let at = ["20.0.0.1/24", "20.0.0.2/24"].map(str::to_owned);
    link("line", ["gateway", "isp"], at, &emulated);
    for (name, address) in SERVERS {
        let [a, b, c, _] = address.octets();
        let at = [format!("{a}.{b}.{c}.1/24"), format!("{address}/24")];
        link(&format!("to-{name}"), ["isp", name], at, "");
    }
    text
}

/// Writes the gateway's configuration and its files of users. Returns the path of the
/// configuration.
fn write_files(folder: &Path, password: &str) -> Result<std::path::PathBuf, Failure> {
    let hash = Hash::of(password).map_err(Failure::Run)?;
    let users: String = NEIGHBOURS.iter().map(|one| format!("{}:{hash}\n", one.name)).collect();
    let listen: Vec<String> =
        (0..NEIGHBOURS.len()).map(|number| format!("{}:{PROXY_PORT}", address(number, 1))).collect();
    let path = |name: &str| folder.join(name);
    let config = format!(
        "listen = {listen:?}\nclients = [\"10.20.0.0/16\"]\nhome = [\"{HOME}\"]\nusers_file = {:?}\n\
         [control]\nsocket = {:?}\nstate = {:?}\n\
         [page]\nlisten = \"{GATEWAY}:{PAGE_PORT}\"\nusers_file = {:?}\n\
         [accounts]\nurl = {:?}\n\
         [caps]\nmonth = {{ volume = \"100 GB\", keep_for_home = \"60 GB\" }}\nuser = {{ daily = \"2 GB\" }}\n",
        path("users"),
        path("control.sock"),
        path("state"),
        path("owners"),
        path("accounts.db"),
    );
    for (name, text) in [("users", &users), ("owners", &format!("owner:{hash}\n")), ("gateway.toml", &config)]
    {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path(name))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(path("gateway.toml"))
}

/// Forwards connections from `listener` to the gateway's page, which it reaches from the calling
/// thread's network.
fn lead_to_page(listener: TcpListener) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let Ok((mut browser, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            tokio::spawn(async move {
                let mut page = TcpStream::connect((GATEWAY, PAGE_PORT)).await?;
                tokio::io::copy_bidirectional(&mut browser, &mut page).await
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_and_the_configuration_are_right() {
        Spec::parse(&network(), Path::new("demo.toml")).unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().unwrap();
        let config = write_files(folder.path(), "long enough").unwrap_or_else(|_| panic!("written"));
        leeway_gateway::Config::read(&config).unwrap().check().unwrap();
    }
}
