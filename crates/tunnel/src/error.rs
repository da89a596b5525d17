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
    /// The network of this host was told something that it does not do.
    #[error(transparent)]
    Net(#[from] leeway_net::Error),
    /// Something that was asked for does not exist or contradicts something else.
    #[error("{0}")]
    Options(String),
    /// A file cannot be used.
    #[error("cannot use {path}: {error}")]
    File {
        /// Which.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// A file says something that makes no sense.
    #[error("{path}: {message}")]
    State {
        /// Which.
        path: String,
        /// What and where.
        message: String,
    },
    /// The other side refuses, or is not the one it should be.
    #[error("{0}")]
    Refused(String),
    /// The connection broke, or could not be made; trying again may help.
    #[error("{0}")]
    Lost(String),
    /// Anything else that the system refused.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl Error {
    /// The error of trying `what`.
    pub(crate) fn of(what: &'static str) -> impl Fn(io::Error) -> Error {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Rights { what },
            _ => Error::System { what, error },
        }
    }

    /// A file that cannot be used.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        move |error| Error::File { path: path.display().to_string(), error }
    }

    /// Whether another try cannot go better: the other side has said no.
    pub fn is_final(&self) -> bool {
        !matches!(self, Error::Lost(_))
    }
}
