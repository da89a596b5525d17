//! Names become addresses once; what was checked is what is connected to.

use crate::config::{Config, NameServer};
use crate::policy::{Policy, Refusal};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Addresses that are tried of one name.
const TRIED: usize = 4;

/// Why a name cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The name servers know no address, or do not answer.
    #[error("no address of `{name}`: {message}")]
    Unknown {
        /// The name.
        name: String,
        /// What the resolver says.
        message: String,
    },
    /// All of its addresses are refused.
    #[error("`{name}`: {refusal}")]
    Refused {
        /// The name.
        name: String,
        /// About the first address.
        refusal: Refusal,
    },
    /// The address is refused.
    #[error(transparent)]
    Address(#[from] Refusal),
}

/// Asks name servers, and the policy about their answers.
pub struct Resolver {
    resolver: TokioResolver,
}

impl Resolver {
    /// With the name servers of the configuration, or the machine's.
    ///
    /// # Errors
    /// The machine's own configuration cannot be used.
    pub fn new(config: &Config) -> Result<Resolver, String> {
        let mut builder = if config.dns.is_empty() {
            TokioResolver::builder_tokio()
                .map_err(|error| format!("cannot use /etc/resolv.conf: {error}; give `dns`"))?
        } else {
            let servers = config.dns.iter().map(server).collect();
            let config = ResolverConfig::from_name_servers(servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = Duration::from_secs(3);
        options.attempts = 2;
        // The names of /etc/hosts are the home's.
        options.use_hosts_file = ResolveHosts::Never;
        options.ndots = 0;
        let resolver = builder.build().map_err(|error| error.to_string())?;
        Ok(Resolver { resolver })
    }

    /// The addresses of a host that may be connected to, in the order to try; a literal address is its own.
    ///
    /// # Errors
    /// There is none, or none is allowed.
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
        let name = host.trim_end_matches('.');
        let unknown = |message: String| ResolveError::Unknown { name: name.to_owned(), message };
        if name.is_empty() || name.len() > 253 {
            return Err(unknown("it is not a name".into()));
        }
        // Absolute: the home's search domains are not for others.
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

fn server(NameServer(address): &NameServer) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}
