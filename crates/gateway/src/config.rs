//! The configuration of a gateway, as a TOML file.

use crate::block::BlockConfig;
use crate::check::{self, Document};
use crate::control::ControlConfig;
use crate::destinations::DestinationsConfig;
use crate::event::{Event, Log, LogFormat};
use crate::login::Logins;
use crate::metering::AccountsConfig;
use crate::page::PageConfig;
use crate::peers::Peer;
use crate::policy::Policy;
use crate::setup;
use ipnet::IpNet;
use leeway_accounts::caps::CapsConfig;
use leeway_control::{LawError, LawSpec};
use leeway_guard::{credential, read_secret};
use leeway_net::{Attached, TCP_PORTS, UDP_PORTS};
use leeway_queue::SpecError;
use leeway_tunnel::{ClientOptions, MTU, Token, TokenError, Transport};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Law of the window that all downloads share, unless the configuration names another.
pub const LAW: &str = leeway_share::LAW;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file is not valid TOML, or has a wrong key or value. The message has the line.
    #[error("{path}: {message}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Line, column and what would be right.
        message: String,
    },
    /// Values contradict each other.
    #[error("{0}")]
    Value(String),
}

/// The whole configuration. Every field has a default, but at least one listener is needed.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses of the HTTP proxy.
    pub listen: Vec<SocketAddr>,
    /// Addresses of the SOCKS5 proxy.
    pub socks: Vec<SocketAddr>,
    /// Other gateways of the neighbourhood. The PAC file lists them to clients, too.
    pub peers: Vec<Peer>,
    /// Serves clients that have no proxy configured.
    pub transparent: Option<TransparentConfig>,
    /// The relay that connections go through while it can be reached.
    pub relay: Option<RelayConfig>,
    /// Networks whose machines may use the gateway. They never reach each other through it.
    pub clients: Vec<IpNet>,
    /// Networks of the home, which clients never reach. Networks that the gateway itself is in are
    /// refused without being listed here.
    pub home: Vec<IpNet>,
    /// Addresses, or networks, of the home's routers on the side of the Internet. Clients never
    /// reach them.
    pub wan: Vec<Place>,
    /// Networks that may be reached although they are not public, or the gateway is in them.
    pub allow: Vec<IpNet>,
    /// TCP ports that may be reached.
    pub ports: Vec<u16>,
    /// UDP ports that may be reached.
    pub udp_ports: Vec<u16>,
    /// Law of the window that all downloads share. `None` does not limit downloads.
    #[serde(deserialize_with = "law")]
    pub law: Option<LawSpec>,
    /// Law of the window that everything sent directly (not through the relay) shares, TCP and
    /// datagrams. `None` does not limit it.
    #[serde(deserialize_with = "law")]
    pub uplink: Option<LawSpec>,
    /// Congestion controls of the kernel for uploads below that window, such as `leeway_ledbat`.
    /// The first one that this machine has is used.
    pub upload: Vec<String>,
    /// Name servers; the machine's own by default.
    pub dns: Vec<NameServer>,
    /// Address at which metrics are served for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Format of the lines that the gateway writes to standard error.
    pub log: LogFormat,
    /// The socket by which the owner controls the running gateway.
    pub control: Option<ControlConfig>,
    /// The owner's page.
    pub page: Option<PageConfig>,
    /// Store of how much each user has used.
    pub accounts: Option<AccountsConfig>,
    /// Limits that protect the bill of the line. They need `accounts`.
    pub caps: Option<CapsConfig>,
    /// The log of destinations, for owners whose law demands one.
    pub destinations: Option<DestinationsConfig>,
    /// Further destinations that may not be reached.
    pub block: BlockConfig,
    /// Limits on the connections and the time that users may take.
    pub limits: Limits,
    /// File of users with passwords. If it is set, only these users are served, and clients of
    /// `transparent`.
    pub users_file: Option<PathBuf>,
    /// Whether users may log in with the code of a voucher or an invitation. If true, only users
    /// with a name or a code are served, and clients of `transparent`. Needs `accounts`.
    pub vouchers: bool,
    /// Whether the gateway only observes the line and serves nobody ([`Config::observing`]).
    #[serde(skip)]
    pub observe: bool,
    /// Catches `[[user]]`, which people try first. Its error says where users are configured.
    #[serde(rename = "user", deserialize_with = "no_users")]
    pub no_users: (),
}

/// Clients that have no proxy configured. Their packets to other machines are diverted to the
/// proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransparentConfig {
    /// The interface at which these clients are.
    pub interface: String,
    /// Local port at which the proxy receives them.
    #[serde(default = "transparent_port")]
    pub port: u16,
}

/// A tunnel to a relay on the Internet (`leeway relay`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelayConfig {
    /// File with the invitation that `leeway invite` printed on the relay.
    pub token_file: PathBuf,
    /// The invitation itself, instead of a file.
    #[serde(skip)]
    pub token: Option<Token>,
    /// The transport of the tunnel.
    pub transport: Carrier,
    /// The law of what the gateway sends: over QUIC one of `leeway laws`, over TCP a congestion
    /// control of the kernel.
    pub law: Option<String>,
    /// The queue in front of the law's window.
    pub queue: String,
    /// Law of the window that downloads through the relay share. With `None`, the gateway does not
    /// limit them, and connections get equal shares instead of users.
    #[serde(deserialize_with = "law")]
    pub window: Option<LawSpec>,
}

/// What carries a tunnel's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// Datagrams of QUIC.
    Quic,
    /// One TCP connection.
    Tcp,
}

/// A relay that is silent for this time counts as gone, and connections go directly.
const SILENCE: Duration = Duration::from_secs(4);

impl RelayConfig {
    /// The invitation.
    ///
    /// # Errors
    /// The file cannot be read, or has no invitation in it.
    pub fn token(&self) -> Result<Token, ConfigError> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let path = &self.token_file;
        if path.as_os_str().is_empty() {
            return Err(ConfigError::Value("[relay] has no `token_file`".into()));
        }
        let text = read_secret(path).map_err(|error| ConfigError::Value(error.to_string()))?;
        text.trim()
            .parse()
            .map_err(|error: TokenError| ConfigError::Value(format!("{}: {error}", path.display())))
    }

    /// The options for the client of the tunnel.
    ///
    /// # Errors
    /// There is no such law or queue.
    pub fn options(&self) -> Result<ClientOptions, ConfigError> {
        let wrong = |what: &str, message: String| ConfigError::Value(format!("relay.{what}: {message}"));
        let law = self.law.as_deref();
        let transport = match self.transport {
            Carrier::Quic => Transport::quic(law).map_err(|error| wrong("law", error.to_string()))?,
            Carrier::Tcp => Transport::tcp(law),
        };
        let queue = self.queue.parse().map_err(|error: SpecError| wrong("queue", error.to_string()))?;
        Ok(ClientOptions { transport, queue, mtu: MTU, mark: None, silence: SILENCE })
    }
}

impl Default for RelayConfig {
    fn default() -> RelayConfig {
        RelayConfig {
            token_file: PathBuf::new(),
            token: None,
            transport: Carrier::Quic,
            law: None,
            queue: "fq_codel".into(),
            window: Some(
                "ledbat:target=100ms,slow_start=delay,accelerate=0.1".parse().expect("a law of the table"),
            ),
        }
    }
}

/// A network, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Place(pub IpNet);

/// An address of a name server, with port 53 unless another is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct NameServer(pub SocketAddr);

/// Limits. Those of a user hold for each user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of all clients together.
    pub connections: usize,
    /// Connections of one user.
    pub connections_per_user: usize,
    /// Connections from one user to the Internet, and UDP associations.
    pub upstream_per_user: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Seconds to receive a request's head, or to complete a handshake.
    pub head_s: u64,
    /// Seconds that a connection may be idle between requests.
    pub idle_s: u64,
    /// Seconds to connect to a server.
    pub connect_s: u64,
    /// Seconds until a server begins its response, and between two parts of a response.
    pub answer_s: u64,
    /// Seconds without a byte in either direction, after which a tunnel is closed.
    pub tunnel_s: u64,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = read_text(path)?;
        Config::of(path, &text)
    }

    /// Reads a file again, for a running gateway. `handed` has the texts of files that only root
    /// may read, by path. The systemd credential is not used, because it is a copy of the file as
    /// it was at the start of the service.
    ///
    /// # Errors
    /// What is wrong, with the line; or how root hands the text over.
    pub fn read_again(path: &Path, handed: &BTreeMap<PathBuf, String>) -> Result<Config, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Config::of(path, &text),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => match handed.get(path) {
                Some(text) => Config::of(path, text),
                None => Err(ConfigError::Value(format!(
                    "cannot read {0}: {error}; root hands it over with: leeway gateway reload --config {0}",
                    path.display()
                ))),
            },
            Err(error) => Err(ConfigError::File { path: path.to_owned(), error }),
        }
    }

    fn of(path: &Path, text: &str) -> Result<Config, ConfigError> {
        Config::parse(text).map_err(|message| ConfigError::Syntax { path: path.to_owned(), message })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn parse(text: &str) -> Result<Config, String> {
        Document::read(text).config()
    }

    /// Checks what the types cannot express, and stops at the first error. [`crate::check::judge`]
    /// finds more, and reports all of it.
    ///
    /// # Errors
    /// The first contradiction and how to resolve it.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(finding) = check::first_error(self) {
            return Err(ConfigError::Value(finding.words()));
        }
        if let Some(relay) = &self.relay {
            relay.token()?;
        }
        self.logins(Arc::new(|_: &Event| {}))?;
        self.block.check()?;
        if let Some(page) = &self.page {
            Logins::read(&page.users_file, Arc::new(|_: &Event| {}))?;
        }
        Ok(())
    }

    /// The configuration of a gateway that only observes: nothing that neighbours could use, and
    /// no accounts. If `home` is empty, the networks of this machine take its place.
    ///
    /// # Errors
    /// The kernel does not list its interfaces.
    pub fn observing(mut self) -> Result<Config, leeway_net::Error> {
        if self.home.is_empty() {
            self.home = setup::home(&leeway_net::interfaces()?, &leeway_net::uplinks()?, &self.clients);
        }
        let Config { clients, home, wan, control, page, metrics, log, .. } = self;
        let nothing = Config { law: None, uplink: None, upload: vec![], ..Config::default() };
        Ok(Config { observe: true, clients, home, wan, control, page, metrics, log, ..nothing })
    }

    /// The users with passwords, or `None` if no file of users is configured. Wrong passwords are
    /// reported to `log`.
    ///
    /// # Errors
    /// The file of users cannot be read, others can read it, or a line in it is wrong.
    pub fn logins(&self, log: Log) -> Result<Option<Logins>, ConfigError> {
        self.users_file.as_deref().map(|path| Logins::read(path, log)).transpose()
    }

    /// The policy for destinations, for a gateway whose interfaces are `attached`. Blocklists are
    /// not in it.
    pub fn policy(&self, attached: Attached) -> Policy {
        Policy {
            home: self.home.iter().copied().chain(self.wan.iter().map(|place| place.0)).collect(),
            clients: self.clients.clone(),
            attached,
            allow: self.allow.clone(),
            ports: self.ports.clone(),
            udp_ports: self.udp_ports.clone(),
            block: Arc::default(),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: vec![],
            socks: vec![],
            peers: vec![],
            transparent: None,
            relay: None,
            clients: vec![],
            home: vec![],
            wan: vec![],
            allow: vec![],
            ports: TCP_PORTS.into(),
            udp_ports: UDP_PORTS.into(),
            law: Some(LAW.parse().expect("a law of the table")),
            uplink: Some(crate::upload::LAW.parse().expect("a law of the table")),
            upload: ["leeway_ledbat", "leeway_ledbatpp", "lp", "vegas"].map(str::to_owned).into(),
            dns: vec![],
            metrics: None,
            log: LogFormat::Text,
            control: None,
            page: None,
            accounts: None,
            caps: None,
            destinations: None,
            block: BlockConfig::default(),
            limits: Limits::default(),
            users_file: None,
            vouchers: false,
            observe: false,
            no_users: (),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 12_000,
            connections_per_user: 1000,
            upstream_per_user: 256,
            head_bytes: 16 * 1024,
            head_s: 10,
            idle_s: 60,
            connect_s: 10,
            answer_s: 120,
            tunnel_s: 600,
        }
    }
}

impl TryFrom<String> for NameServer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let with_port = text.parse::<SocketAddr>();
        let plain = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
        with_port
            .or(plain)
            .map(NameServer)
            .map_err(|_| format!("`{text}` is not a name server: give an address, such as \"9.9.9.9\""))
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = text.parse::<IpNet>();
        let alone = text.parse::<IpAddr>().map(IpNet::from);
        network.or(alone).map(Place).map_err(|_| {
            format!(
                "`{text}` is neither an address nor a network, such as \"203.0.113.7\" or \"2001:db8::/56\""
            )
        })
    }
}

fn transparent_port() -> u16 {
    3129
}

/// Reads the text of a configuration. If the file is readable for root only, the copy that systemd
/// gave to the service as a credential is read instead.
///
/// # Errors
/// [`ConfigError::File`].
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let denied = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
    let text =
        std::fs::read_to_string(path).or_else(|error| match credential(path).filter(|_| denied(&error)) {
            Some(copy) => std::fs::read_to_string(copy),
            None => Err(error),
        });
    text.map_err(|error| ConfigError::File { path: path.to_owned(), error })
}

/// Refuses `[[user]]`: everybody who can read the configuration could read passwords in it.
fn no_users<'de, D: serde::Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(serde::de::Error::custom(
        "users are in a file of their own, which has hashes of their passwords: give \
         users_file = \"/etc/leeway/users\", and make their lines with: \
         leeway gateway passwd NAME --file /etc/leeway/users",
    ))
}

/// Reads a law; `"none"` gives `None`.
fn law<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<LawSpec>, D::Error> {
    law_or_none(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// The law with that specification, or `None` for `"none"`.
///
/// # Errors
/// There is no such law, or its parameters are wrong.
pub fn law_or_none(text: &str) -> Result<Option<LawSpec>, LawError> {
    if text == "none" { Ok(None) } else { text.parse().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        match Config::parse(text) {
            Err(message) => message,
            Ok(config) => config.check().expect_err("it is wrong").to_string(),
        }
    }

    #[test]
    fn the_example_can_be_used() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/gateway.toml");
        Config::read(&example).unwrap().check().unwrap();
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let listen = "listen = [\"127.0.0.1:3128\"]\n";
        let cases = [
            (format!("{listen}clients = [\"10.0.0.0/8\"]\nlisen = 3\n"), "line 3"),
            (format!("{listen}law = \"ledbad\"\n"), "ledbad"),
            (format!("{listen}clients = [\"10.0.0.0/33\"]\n"), "line 2"),
            (format!("{listen}dns = [\"nine\"]\n"), "not a name server"),
            (format!("{listen}wan = [\"router\"]\n"), "neither an address nor a network"),
            ("clients = [\"10.0.0.0/8\"]".to_owned(), "nobody can reach"),
            (listen.to_owned(), "nobody may use"),
            (format!("{listen}clients = [\"::/0\"]\nlimits.connections = 0"), "limits.connections"),
            (format!("{listen}clients = [\"::/0\"]\nlimits.head_bytes = 1"), "8192"),
            (format!("{listen}clients = [\"::/0\"]\n[relay]\nlaw = \"ledbat\""), "no `token_file`"),
            (
                format!("{listen}clients = [\"::/0\"]\n[relay]\ntoken_file = \"/nonexistent/token\""),
                "/nonexistent/token",
            ),
            (format!("{listen}clients = [\"::/0\"]\n[caps]\nuser.daily = \"2 GB\""), "add a line [accounts]"),
            (format!("{listen}clients = [\"::/0\"]\n[accounts]\n[caps]\nbilling_day = 0"), "from 1 to 31"),
            (format!("{listen}[relay]\ntransport = \"udp\""), "\"udp\" is not \"quic\" or \"tcp\""),
            (
                format!("{listen}clients=[\"::/0\"]\n[[user]]\nname=\"a\""),
                "leeway gateway passwd NAME --file",
            ),
            (format!("{listen}clients=[\"::/0\"]\nusers_file=\"/nonexistent/users\""), "/nonexistent/users"),
        ];
        for (text, part) in cases {
            let message = wrong(&text);
            assert!(message.contains(part), "{text}\n{message}");
        }
    }

    #[test]
    fn none_is_no_law() {
        let law = |text: &str| Config::parse(text).unwrap().law.map(|law| law.to_string());
        assert_eq!(law(""), Some(LAW.parse::<leeway_control::LawSpec>().unwrap().to_string()));
        assert_eq!(law("law = \"lp\"").as_deref(), Some("lp"));
        assert_eq!(law("law = \"none\""), None);
    }

    #[test]
    fn mail_between_servers_is_closed_by_default() {
        let policy = Config::default().policy(Attached::default());
        assert!(policy.check_port(crate::policy::Transport::Tcp, 25).is_err());
        assert!(policy.check_port(crate::policy::Transport::Tcp, 443).is_ok());
    }

    #[test]
    fn a_file_of_users_with_plain_passwords_or_for_everybody_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("listen=[\"127.0.0.1:3128\"]\nclients=[\"::/0\"]\nusers_file={:?}", file.path());
        std::fs::write(file.path(), "").unwrap();
        assert!(wrong(&text).contains("no users in it"));
        std::fs::write(file.path(), "ann:secret7").unwrap();
        let message = wrong(&text);
        assert!(message.contains("line 1") && message.contains("leeway gateway passwd ann"), "{message}");
        assert!(!message.contains("secret7"));
        std::fs::write(file.path(), format!("ann:{}", crate::password::Hash::of("long enough").unwrap()))
            .unwrap();
        Config::parse(&text).unwrap().check().unwrap();
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        let message = wrong(&text);
        assert!(message.contains("everybody can read it") && message.contains("chmod 06"), "{message}");
    }
}
