//! Errors of emulated links.

use std::io;

/// What was wrong, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rights for namespaces and devices are missing.
    #[error(
        "cannot {what}: not permitted; an emulated link needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN): \
         run it with sudo"
    )]
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
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// An error in a test network's file: its place, the mistake and a correct value.
    #[error("{0}")]
    Spec(String),
    /// A file cannot be used.
    #[error("cannot use {path}: {error}")]
    File {
        /// Path of the file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system refused something else.
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

    /// The same, for errors that are a number of the system.
    pub(crate) fn of_errno(what: &'static str) -> impl Fn(nix::Error) -> Error {
        move |errno| Error::of(what)(errno.into())
    }

    /// A file that cannot be used.
    pub(crate) fn file(path: &std::path::Path, error: io::Error) -> Error {
        Error::File { path: path.display().to_string(), error }
    }
}
