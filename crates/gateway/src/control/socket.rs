//! The Unix socket by which the owner controls a gateway. Other users of the machine cannot open
//! it.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Permissions of the socket: its owner and group. Normally that is root.
const MODE: u32 = 0o660;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another gateway uses the socket.
    #[error("another gateway uses {0}: stop it, or set another `socket` in [control]")]
    Taken(PathBuf),
    /// A call of the system failed.
    #[error("cannot make the control socket {0}: {1}")]
    System(PathBuf, io::Error),
}

/// A listening socket. A lock file tells other gateways that the path is in use. The lock ends
/// with this process, however the process ends.
#[derive(Debug)]
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    _lock: File,
}

impl Socket {
    /// Opens the socket. Needs a Tokio runtime. Creates the folder if there is none.
    ///
    /// # Errors
    /// Another gateway uses it, or the folder cannot be written.
    pub fn open(path: &Path) -> Result<Socket, SocketError> {
        let wrong = |error| SocketError::System(path.to_owned(), error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        let lock = File::create(path.with_extension("lock")).map_err(wrong)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => SocketError::Taken(path.to_owned()),
            TryLockError::Error(error) => wrong(error),
        })?;
        // Created under another name, so that nobody can open the socket before its permissions
        // are set.
        let new = path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(wrong)?;
        std::fs::set_permissions(&new, Permissions::from_mode(MODE)).map_err(wrong)?;
        std::fs::rename(&new, path).map_err(wrong)?;
        Ok(Socket { listener, path: path.to_owned(), _lock: lock })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_gateway_has_it_and_the_next_takes_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/gateway.sock");
        let first = Socket::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(matches!(Socket::open(&path), Err(SocketError::Taken(_))));
        // The socket file that a killed process leaves behind.
        std::fs::hard_link(&path, path.with_extension("stale")).unwrap();
        drop(first);
        std::fs::rename(path.with_extension("stale"), &path).unwrap();
        Socket::open(&path).unwrap();
    }
}
