//! Configuration of the owner's page: its address, and the users who may see it.

use ipnet::IpNet;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The section `[page]` of the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageConfig {
    /// An address of this machine in the home's network.
    pub listen: SocketAddr,
    /// File of the users who may see the page. `leeway gateway passwd` makes it.
    pub users_file: PathBuf,
}

impl PageConfig {
    /// Checks the address.
    ///
    /// # Errors
    /// Neighbours could reach the page.
    pub fn check(&self, clients: &[IpNet]) -> Result<(), String> {
        let ip = self.listen.ip().to_canonical();
        if ip.is_unspecified() {
            return Err(format!(
                "page.listen is {}, which neighbours reach as well: give an address of the home's network, such as \
                 \"192.168.1.1:8080\"",
                self.listen
            ));
        }
        if let Some(network) = clients.iter().find(|network| network.contains(&ip) && !ip.is_loopback()) {
            return Err(format!(
                "page.listen is {}, an address of the neighbours ({network} in `clients`): give one of the home's network",
                self.listen
            ));
        }
        Ok(())
    }
}
