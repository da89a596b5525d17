//! Resolves a name once. The gateway connects to the addresses that were checked, so a second
//! answer of DNS cannot lead elsewhere.

use crate::config::{Config, NameServer};
use crate::policy::{Policy, Refusal};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Most addresses of one name that are tried.
const TRIED: usize = 4;

/// Why a name cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The text is not a host name.
    #[error("`{0}` is neither a name nor an address")]
    Name(String),
    /// The name servers know no address, or do not answer.
    #[error("no address of `{name}`: {message}")]
    Unknown {
        /// The name.
        name: String,
        /// What the resolver says.
        message: String,
    },
    /// The policy refuses the name, or all of its addresses.
    #[error("`{name}`: {refusal}")]
    Refused {
        /// The name.
        name: String,
        /// The reason for the name, or for its first refused address.
        refusal: Refusal,
    },
    /// The policy refuses the address.
    #[error(transparent)]
    Address(#[from] Refusal),
}

/// Asks name servers, and checks their answers against the policy.
pub struct Resolver {
    resolver: TokioResolver,
    servers: Vec<SocketAddr>,
    /// Index of the server for the questions of clients without a configured proxy.
    current: AtomicUsize,
}

impl Resolver {
    /// A resolver with the name servers of the configuration, or else with those of this machine.
    ///
    /// # Errors
    /// There is no usable name server in /etc/resolv.conf.
    pub fn new(config: &Config) -> Result<Resolver, String> {
        let (names, mut options) = if config.dns.is_empty() {
            system_conf::read_system_conf().map_err(|error| {
                format!("cannot use /etc/resolv.conf: {error}; set `dns` in the configuration")
            })?
        } else {
            let servers = config.dns.iter().map(server).collect();
            (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
        };
        let servers: Vec<SocketAddr> = names.name_servers().iter().filter_map(address).collect();
        if servers.is_empty() {
            return Err("there is no name server in /etc/resolv.conf; set `dns` in the configuration".into());
        }
        options.timeout = Duration::from_secs(3);
        options.attempts = 2;
        // The names of /etc/hosts belong to the home.
        options.use_hosts_file = ResolveHosts::Never;
        options.ndots = 0;
        let builder = TokioResolver::builder_with_config(names, TokioRuntimeProvider::default());
        let resolver = builder.with_options(options).build().map_err(|error| error.to_string())?;
        Ok(Resolver { resolver, servers, current: AtomicUsize::new(0) })
    }

    /// The name servers, the current one first.
    pub fn name_servers(&self) -> Vec<SocketAddr> {
        let mut servers = self.servers.clone();
        servers.rotate_left(self.current.load(Ordering::Relaxed) % self.servers.len());
        servers
    }

    /// Moves on to the next name server, because the current one does not answer.
    pub fn name_server_is_silent(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// The addresses of `host` that the policy allows, in the order to try. A literal address is
    /// returned after its check.
    ///
    /// # Errors
    /// The name has no address, or none that the policy allows.
    pub async fn resolve(
        &self,
        policy: &Policy,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(policy.check(address)?, port)]);
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let unknown = |message: String| ResolveError::Unknown { name: name.to_owned(), message };
        if !is_name(name) {
            return Err(ResolveError::Name(name.to_owned()));
        }
        policy
            .check_name(name)
            .map_err(|refusal| ResolveError::Refused { name: name.to_owned(), refusal })?;
        // With a final dot, so that the home's search domains are not used for other people.
        let answer =
            self.resolver.lookup_ip(format!("{name}.")).await.map_err(|error| unknown(error.to_string()))?;
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in answer.iter() {
            match policy.check(address) {
                Ok(address) => allowed.push(SocketAddr::new(address, port)),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => {
                allowed.truncate(TRIED);
                Ok(allowed)
            }
            (true, Some(refusal)) => Err(ResolveError::Refused { name: name.to_owned(), refusal }),
            (true, None) => Err(unknown("it has none".into())),
        }
    }
}

/// Whether a text is a host name: letters, digits, hyphens and underscores between dots (RFC 1123,
/// 2.1), in the lengths of RFC 1035. A last label that begins with a digit is refused: no
/// top-level domain does (RFC 3696, 2). Such a text is an address in a form that only some
/// programs read as one, such as 127.1, 0x7f.1 and 2130706433.
pub fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= 253
        && name.split('.').all(is_label)
        && !last.starts_with(|first: char| first.is_ascii_digit())
}

fn address(server: &NameServerConfig) -> Option<SocketAddr> {
    Some(SocketAddr::new(server.ip, server.connections.first()?.port))
}

fn server(NameServer(address): &NameServer) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_name() {
        for good in
            ["example.org", "a", "xn--nxasmq6b.example", "_dmarc.a-b.example", "1.2.3.example", "0x7f.org"]
        {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "127.1",
            "0x7f.1",
            "2130706433",
            "017700000001",
            "a%2eb",
            "fe80::1",
            "[::1]",
            "a b",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        let labels = |count| vec!["a"; count].join(".");
        assert!(is_name(&labels(127)) && !is_name(&labels(128)));
    }
}
