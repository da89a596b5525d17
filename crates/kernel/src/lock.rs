//! A lock, so that only one process of the machine changes confinements at a time.
//!
//! Everybody who can open a file can lock it and keep others waiting. So the lock is a file that
//! only root can open, in a folder where only root can create files.

use crate::error::KernelError;
use crate::pins;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The folder also has the helper's socket, which others have to find.
const FOLDER: &str = "/run/leeway";
const NAME: &str = "confine.lock";
/// Longest wait. A change takes as long as the verifier takes, seconds on a slow machine, and
/// others may be first.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits for the lock, which is held until the file is dropped.
///
/// # Errors
/// [`KernelError::Busy`] after a minute; [`KernelError::Foreign`]; rights.
pub(crate) fn take() -> Result<File, KernelError> {
    take_at(Path::new(FOLDER), PATIENCE)
}

fn take_at(folder: &Path, patience: Duration) -> Result<File, KernelError> {
    let path = folder.join(NAME);
    let failed = |error: std::io::Error| pins::refused(format!("lock {}", path.display()), error);
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
    pins::check_owner(folder)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path).map_err(failed)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => thread::sleep(LOOK_AGAIN),
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&file).map_or_else(String::new, |pid| format!(" (process {pid})"));
                return Err(KernelError::Busy { holder, waited_s: patience.as_secs(), lock: path });
            }
        }
    }
}

/// The process that took the lock, as far as the kernel tells.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    // "1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF"
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let same = words.get(1) == Some(&"FLOCK") && words.get(5)?.rsplit(':').next() == Some(&inode);
        words.get(4)?.parse().ok().filter(|_| same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_waits_in_vain_is_told_for_whom() {
        let folder = std::env::temp_dir().join(format!("leeway-lock-{}", std::process::id()));
        let first = take_at(&folder, Duration::ZERO).unwrap();
        let mode = first.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "who can open it can lock it");
        let error = take_at(&folder, Duration::from_millis(30)).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        take_at(&folder, Duration::ZERO).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
        let error = take_at(&folder, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("0777"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
