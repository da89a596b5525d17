//! What a crash may leave and nobody uses any more.
//!
//! A link's device goes with its descriptor and its table of rules with its owner, a law that was
//! loaded is whole or not there; what confines a command stays where its reaper was killed. Of a
//! gateway or a `leeway join`, routing rules stay, and what refuses users who would get past the
//! gateway.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// Something that was left.
pub enum Leftover {
    /// A table of `leeway link`, whose process has ended.
    Table(String),
    /// Of a gateway or a client of a relay.
    Net(leeway_net::Leftover),
    /// What confined a program, or was loaded for one.
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

/// Everything that was left. Without rights there is nothing to be seen.
pub fn find() -> Vec<Leftover> {
    let of_runs = leeway_kernel::leftovers().unwrap_or_default().into_iter().map(Leftover::Run);
    let of_gateways = leeway_gateway::leftovers().unwrap_or_default();
    let of_clients = leeway_tunnel::host::leftovers().unwrap_or_default();
    let of_networks = of_gateways.into_iter().chain(of_clients).map(Leftover::Net);
    tables().into_iter().chain(of_networks).chain(of_runs).collect()
}

/// Tables called `leewayN_PID` without a process PID. Without rights or nft there is nothing to be
/// seen or removed.
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

/// The process that made the table of that name.
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
