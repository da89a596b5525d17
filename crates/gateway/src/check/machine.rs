//! The present state of the machine that a configuration is for.

use super::listeners;
use crate::config::Config;
use crate::control::{Client, ClientError, ControlConfig, Status};
use crate::notes::in_english;
use crate::resolve::Resolver;
use crate::setup::forwards;
use crate::socket::first_congestion;
use leeway_guard::credential;
use leeway_net::{Interface, Surroundings, TrafficObserver, Uplink};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest file with secrets that is read, in bytes. A longer file is not one.
const LONGEST_BYTES: u64 = 1 << 20;

/// Everything about a machine that the checks need.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Default routes.
    pub uplinks: Vec<Uplink>,
    /// Whether the machine forwards IPv4 packets.
    pub forwards: bool,
    /// Addresses, and the networks that the machine reaches without a router.
    pub surroundings: Surroundings,
    /// Result of binding each address of the configuration.
    pub bound: BTreeMap<SocketAddr, Bind>,
    /// The gateway that is running here already.
    pub gateway: Beside,
    /// The files with secrets that the configuration names, and the configuration file.
    pub files: BTreeMap<PathBuf, SecretFile>,
    /// Files of `[block]` that cannot be read. Each has its key in the configuration, and the
    /// error.
    pub blocked: Vec<(String, String)>,
    /// Congestion controls that the kernel has at the moment.
    pub kernel: Vec<String>,
    /// Why none of the configured congestion controls can be used for uploads, if none can.
    pub upload: Option<String>,
    /// Why names cannot be resolved, if they cannot.
    pub names: Option<String>,
    /// Why the home's packets cannot be seen, if they cannot.
    pub traffic_observer: Option<String>,
}

/// Result of binding an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// The address is free.
    Free,
    /// A program uses it.
    Taken,
    /// This machine does not have the address.
    NotHere,
    /// This process may not use it.
    Denied,
    /// Another error of the system.
    Failed(String),
}

/// A gateway that is running already and uses addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Beside {
    /// There is none.
    #[default]
    Nobody,
    /// There is one, with these addresses.
    Holds(BTreeSet<SocketAddr>),
    /// There is one, but this user may not control it.
    Hidden,
}

/// The state of a file with secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFile {
    /// The file was read, or systemd gave its content to the service.
    Read {
        /// Mode and user ID of the owner; none for a credential.
        rights: Option<(u32, u32)>,
        /// The content.
        text: String,
    },
    /// This user may not read it.
    Denied,
    /// It cannot be read for another reason.
    Failed(String),
}

impl Machine {
    /// Describes the present machine, for a configuration in the file `path`.
    ///
    /// # Errors
    /// The kernel does not list interfaces, addresses or routes.
    pub fn read(path: &Path, config: &Config) -> Result<Machine, leeway_net::Error> {
        let secrets = [
            config.users_file.as_deref(),
            config.page.as_ref().map(|page| page.users_file.as_path()),
            config.relay.as_ref().map(|relay| relay.token_file.as_path()),
        ];
        let secrets = secrets.into_iter().flatten().filter(|path| !path.as_os_str().is_empty());
        let own = SecretFile::read(path, |_| None);
        let files = secrets.map(|path| (path.to_owned(), SecretFile::read(path, credential)));
        let addresses = listeners(config).into_iter().map(|(_, address)| address);
        let kernel = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let traffic_observer = (!config.home.is_empty()).then(|| TrafficObserver::new(&config.home));
        let why = first_congestion(&config.upload).err().map(|notes| in_english(&notes).join(", "));
        Ok(Machine {
            interfaces: leeway_net::interfaces()?,
            uplinks: leeway_net::uplinks()?,
            forwards: forwards(),
            surroundings: Surroundings::now()?,
            bound: addresses.map(|address| (address, bind(address))).collect(),
            gateway: Beside::ask(config.control.as_ref().unwrap_or(&ControlConfig::default())),
            files: files.chain([(path.to_owned(), own)]).collect(),
            blocked: config.block.unreadable().into_iter().map(|(key, why)| (key, why.to_string())).collect(),
            kernel: kernel.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            upload: why.filter(|_| !config.upload.is_empty()),
            names: Resolver::new(config).err(),
            traffic_observer: traffic_observer.and_then(Result::err).map(|error| error.to_string()),
        })
    }
}

impl SecretFile {
    fn read(path: &Path, credential: fn(&Path) -> Option<PathBuf>) -> SecretFile {
        let credential = credential(path);
        let read = || -> io::Result<SecretFile> {
            let file = std::fs::File::open(credential.as_deref().unwrap_or(path))?;
            let metadata = file.metadata()?;
            let rights = credential.is_none().then(|| (metadata.mode() & 0o7777, metadata.uid()));
            let mut text = String::new();
            file.take(LONGEST_BYTES).read_to_string(&mut text)?;
            Ok(SecretFile::Read { rights, text })
        };
        read().unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => SecretFile::Denied,
            _ => SecretFile::Failed(error.to_string()),
        })
    }
}

impl Beside {
    fn ask(control: &ControlConfig) -> Beside {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let client = Client::new(&control.socket);
        let answer = runtime.ok().map(|runtime| runtime.block_on(client.get::<Status>("/v1/status")));
        match answer {
            Some(Ok(status)) => Beside::Holds(status.addresses.into_iter().collect()),
            Some(Err(ClientError::Rights(_))) => Beside::Hidden,
            _ => Beside::Nobody,
        }
    }
}

/// Binds an address for a moment, as a listener would.
fn bind(address: SocketAddr) -> Bind {
    let bound = || -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())
    };
    match bound() {
        Ok(()) => Bind::Free,
        Err(error) => match error.kind() {
            io::ErrorKind::AddrInUse => Bind::Taken,
            io::ErrorKind::AddrNotAvailable => Bind::NotHere,
            io::ErrorKind::PermissionDenied => Bind::Denied,
            _ => Bind::Failed(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_free_taken_or_not_here() {
        let free = bind("127.0.0.1:0".parse().unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = bind(listener.local_addr().unwrap());
        // The address is reserved for documentation (RFC 5737), so no machine has it.
        let elsewhere = bind("192.0.2.1:0".parse().unwrap());
        assert_eq!((free, taken, elsewhere), (Bind::Free, Bind::Taken, Bind::NotHere));
    }

    #[test]
    fn this_machine_is_described() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, "").unwrap();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nusers_file = {:?}\n[control]\nsocket = {:?}\n\
             [block]\nnetworks = [\"192.0.2.1\", \"/nonexistent/drop\"]",
            folder.path().join("none"),
            folder.path().join("s")
        );
        let machine = Machine::read(&path, &Config::parse(&text).unwrap()).unwrap();
        assert!(machine.interfaces.iter().any(|interface| interface.loopback));
        assert_eq!(machine.bound.values().collect::<Vec<_>>(), [&Bind::Free]);
        assert_eq!(machine.gateway, Beside::Nobody);
        let [(key, why)] = &machine.blocked[..] else { panic!("{:?}", machine.blocked) };
        assert!(key == "block.networks[1]" && why.contains("/nonexistent/drop"), "{key}: {why}");
        assert!(machine.kernel.iter().any(|name| name == "cubic" || name == "reno"), "{:?}", machine.kernel);
        assert!(matches!(machine.files[&path], SecretFile::Read { rights: Some(_), .. }));
        assert!(matches!(machine.files[&folder.path().join("none")], SecretFile::Failed(_)));
    }
}
