//! Changes to this host's network: devices, addresses and routes by `ip`, rules by `nft`,
//! settings by `/proc/sys`.
//!
//! Every change concerns the network namespace of the calling thread.

mod attached;
mod connection_observer;
mod connections;
mod filter;
mod interfaces;
mod leftover;
mod netlink;
mod traffic_observer;

mod public;
mod table;

pub use attached::{Attached, Attachment, Surroundings};
pub use connection_observer::{ConnectionObserver, Segment};
pub use connections::{Ends, Seen};
pub use interfaces::{Interface, Uplink, interfaces, uplinks};
pub use leftover::{Leftover, Rule, devices, routing_tables, tables};
pub use public::{TCP_PORTS, UDP_PORTS, special, special_destinations};
pub use table::Table;
pub use traffic_observer::{Observation, TrafficObserver, Watch, What};

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Why the network did not do as it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that is needed is not there.
    #[error("cannot run `{program}`: {error}; it is in the package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// What Debian calls its package.
        package: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A program that is needed failed.
    #[error("`{program}` failed: {message}")]
    Program {
        /// The program.
        program: &'static str,
        /// What it says.
        message: String,
    },
    /// Anything else that the system refused.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

/// The addresses and routes that a command of `ip` concerns, where it does not say it itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    fn option(self) -> &'static str {
        match self {
            Family::V4 => "-4",
            Family::V6 => "-6",
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// Runs commands of `ip`, a line each.
///
/// # Errors
/// The first that fails; those after it are not run.
pub fn ip(batch: &str) -> Result<(), Error> {
    feed("ip", "iproute2", &["-batch", "-"], batch)
}

/// The same for one family of addresses.
///
/// # Errors
/// The first that fails; those after it are not run.
pub fn ip_of(family: Family, batch: &str) -> Result<(), Error> {
    feed("ip", "iproute2", &[family.option(), "-batch", "-"], batch)
}

/// Removes the routing rules that fit, also where there are several; that there is none is no error.
pub fn remove_rules(family: Family, selector: &str) {
    while ip_of(family, &format!("rule del {selector}\n")).is_ok() {}
}

/// Gives `nft` a script, which is one transaction.
///
/// # Errors
/// What `nft` says; nothing has changed then.
pub fn nft(script: &str) -> Result<(), Error> {
    feed("nft", "nftables", &["-f", "-"], script)
}

/// Sets a parameter, such as `net/ipv4/ip_forward`.
///
/// # Errors
/// Rights, or a kernel without it.
pub fn sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(Path::new("/proc/sys").join(name), value)
}

/// The ports that the kernel gives to sockets which ask for none, as a range of nftables.
pub fn given_ports() -> String {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(str::parse::<u16>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => format!("{first}-{last}"),
        _ => "32768-60999".into(),
    }
}

/// Whether the kernel speaks IPv6.
pub fn has_v6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn feed(program: &'static str, package: &'static str, arguments: &[&str], text: &str) -> Result<(), Error> {
    let missing = |error| Error::Missing { program, package, error };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let input = child.stdin.take();
    let sent = input.map(|mut pipe| pipe.write_all(text.as_bytes())).transpose();
    let output = child.wait_with_output().map_err(missing)?;
    if !output.status.success() || sent.is_err() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Program { program, message });
    }
    Ok(())
}
