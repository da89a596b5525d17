//! Things that crashed programs of Leeway left on this machine, and that no program uses any more.
//!
//! Most things disappear with their owner: a link's device with its descriptor, its table of rules
//! with its owner, a half-loaded law with its loader. Two kinds can stay. The confinement of a
//! command stays if its reaper was killed. Routing rules of a gateway or a `leeway join` stay, and
//! so do the rules that refuse users who would bypass the gateway.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// One thing that was left.
pub enum Leftover {
    /// A table of `leeway link`, whose process has ended.
    Table(String),
    /// Rules of a gateway or of a client of a relay.
    Net(leeway_net::Leftover),
    /// The confinement of a program, or a law that was loaded for one.
    Run(leeway_kernel::Leftover),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leftover::Table(name) => write!(f, "nftables table ip {name}"),
            Leftover::Net(leftover) => leftover.fmt(f),
            Leftover::Run(leftover) => leftover.fmt(f),
        }
    }
}

impl Leftover {
    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        match self {
            Leftover::Table(name) => {
                let output = Command::new("nft").args(["delete", "table", "ip", name]).output()?;
                match output.status.success() {
                    true => Ok(()),
                    false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
                }
            }
            Leftover::Net(leftover) => leftover.remove().map_err(io::Error::other),
            Leftover::Run(leftover) => leftover.remove().map_err(io::Error::other),
        }
    }
}

/// Everything that was left. Without root's rights the list is empty.
pub fn find() -> Vec<Leftover> {
    let of_runs = leeway_kernel::leftovers().unwrap_or_default().into_iter().map(Leftover::Run);
    let of_gateways = leeway_gateway::leftovers().unwrap_or_default();
    let of_clients = leeway_tunnel::host::leftovers().unwrap_or_default();
    let of_networks = of_gateways.into_iter().chain(of_clients).map(Leftover::Net);
    tables().into_iter().chain(of_networks).chain(of_runs).collect()
}

/// Tables called `leewayN_PID` whose process PID has ended. Without root's rights, or without the
/// program nft, the list is empty.
fn tables() -> Vec<Leftover> {
    let output = Command::new("nft").args(["list", "tables", "ip"]).output();
    let listed =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed
        .lines()
        .filter_map(|line| line.strip_prefix("table ip "))
        .filter(|name| owner(name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()))
        .map(|name| Leftover::Table(name.to_owned()))
        .collect()
}

/// The process number in the name of a table.
fn owner(table: &str) -> Option<u32> {
    let (number, pid) = table.strip_prefix("leeway")?.split_once('_')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_links_have_an_owner() {
        assert_eq!(owner("leeway0_4711"), Some(4711));
        for name in ["leeway_4711", "leeway0", "leeway0_x", "filter", "leewayx_1", "leeway1_"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
