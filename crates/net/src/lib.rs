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

/// Why a change of the network failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A required program is not installed.
    #[error("cannot run `{program}`: {error}; it is in the package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package of the program.
        package: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// A required program failed.
    #[error("`{program}` failed: {message}")]
    Program {
        /// The program.
        program: &'static str,
        /// The program's message.
        message: String,
    },
    /// Another call to the system failed.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

/// The family of a command of `ip`, for commands that do not name addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families.
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

/// Runs commands of `ip`, one a line.
///
/// # Errors
/// The first command that fails. The commands after it are not run.
pub fn ip(batch: &str) -> Result<(), Error> {
    feed("ip", "iproute2", &["-batch", "-"], batch)
}

/// Runs commands of `ip` for one family of addresses.
///
/// # Errors
/// The first command that fails. The commands after it are not run.
pub fn ip_of(family: Family, batch: &str) -> Result<(), Error> {
    feed("ip", "iproute2", &[family.option(), "-batch", "-"], batch)
}

/// Removes all routing rules that match the selector. No match is no error.
pub fn remove_rules(family: Family, selector: &str) {
    while ip_of(family, &format!("rule del {selector}\n")).is_ok() {}
}

/// Runs a script of `nft` as one transaction.
///
/// # Errors
/// The message of `nft`. Then nothing has changed.
pub fn nft(script: &str) -> Result<(), Error> {
    feed("nft", "nftables", &["-f", "-"], script)
}

/// Sets a parameter of the kernel, such as `net/ipv4/ip_forward`.
///
/// # Errors
/// The right is missing, or the kernel has no such parameter.
pub fn sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(Path::new("/proc/sys").join(name), value)
}

/// The kernel's range of ephemeral ports, as nftables writes a range.
pub fn given_ports() -> String {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map(str::parse::<u16>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => format!("{first}-{last}"),
        _ => "32768-60999".into(),
    }
}

/// Whether the kernel has IPv6.
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
