//! Errors of tunnels.

use std::io;
use std::path::Path;

/// What was wrong, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rights for devices and rules are missing.
    #[error("cannot {what}: not permitted; a tunnel needs root, or CAP_NET_ADMIN: run it with sudo")]
    Rights {
        /// What was not permitted.
        what: &'static str,
    },
    /// The kernel offers no TUN devices.
    #[error("there is no /dev/net/tun; the kernel needs TUN devices (CONFIG_TUN; `modprobe tun` may help)")]
    NoTun,
    /// A change of this host's network failed.
    #[error(transparent)]
    Net(#[from] leeway_net::Error),
    /// An option does not exist, or contradicts another one.
    #[error("{0}")]
    Options(String),
    /// A file cannot be used.
    #[error("cannot use {path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The contents of a file are not valid.
    #[error("{path}: {message}")]
    State {
        /// The file.
        path: String,
        /// What is wrong, and where.
        message: String,
    },
    /// The other end refuses, or has another key than expected.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, or could not be made. Another attempt may succeed.
    #[error("{0}")]
    Lost(String),
    /// Another call to the system failed.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl Error {
    /// The error of the attempt to do `what`.
    pub(crate) fn of(what: &'static str) -> impl Fn(io::Error) -> Error {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Rights { what },
            _ => Error::System { what, error },
        }
    }

    /// The error for a file that cannot be used.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        move |error| Error::File { path: path.display().to_string(), error }
    }

    /// Whether another attempt cannot succeed, because the other end refused.
    pub fn is_final(&self) -> bool {
        !matches!(self, Error::Lost(_))
    }
}
