//! The Unix socket by which the owner reaches a gateway; other users of the machine cannot open
//! it.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Who may talk to the gateway: root and its group.
const MODE: u32 = 0o660;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another gateway has it.
    #[error("another gateway uses {0}: stop it, or set another `socket` in [control]")]
    Taken(PathBuf),
    /// The system.
    #[error("cannot make the control socket {0}: {1}")]
    System(PathBuf, io::Error),
}

/// A socket that is listened on. Its lock tells other gateways that it is taken, and is free
/// again when this process ends, however it ends.
#[derive(Debug)]
pub struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    _lock: File,
}

impl Socket {
    /// Listens; needs a Tokio runtime. Makes the folder if it is not there.
    ///
    /// # Errors
    /// Another gateway has it, or the folder cannot be written.
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
        // Nobody meets it before its rights are right.
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
        // What a killed process leaves behind.
        std::fs::hard_link(&path, path.with_extension("stale")).unwrap();
        drop(first);
        std::fs::rename(path.with_extension("stale"), &path).unwrap();
        Socket::open(&path).unwrap();
    }
}
