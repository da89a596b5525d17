//! The file during its transfer. It has the suffix `.leeway-part` until it is complete.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Suffix of an incomplete file.
pub const SUFFIX: &str = ".leeway-part";
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 18;

/// An incomplete file.
#[derive(Debug)]
pub struct Part {
    file: File,
    target: PathBuf,
    path: PathBuf,
    /// Hash of all bytes that are there.
    hasher: blake3::Hasher,
    bytes: u64,
}

/// The path of the incomplete file for `target`.
pub fn path_of(target: &Path) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Why nothing can be received into `target`; `None` if it can.
pub fn obstacle(target: &Path, resume: bool) -> Option<String> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let part = path_of(target);
    if is_there(target) {
        return Some(format!("{} already exists and is not overwritten", target.display()));
    }
    if !resume && is_there(&part) {
        return Some(format!(
            "{} exists, from a transfer that broke off; `leeway recv --resume` continues it",
            part.display()
        ));
    }
    None
}

/// Why no file can be made where `target` says, a folder or the name for a file; `None` if one can.
pub fn unwritable(target: &Path) -> Option<String> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let folder = match target.is_dir() {
        true => target,
        false => target.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")),
    };
    let error = accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).err()?;
    Some(format!("cannot write into the folder {}: {}", folder.display(), io::Error::from(error)))
}

impl Part {
    /// Begins a new file, or with `resume` continues one. A lock keeps other `leeway recv` from
    /// writing to it.
    pub fn open(target: &Path, resume: bool) -> Result<Part, String> {
        if let Some(obstacle) = obstacle(target, resume) {
            return Err(obstacle);
        }
        let path = path_of(target);
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(nofollow);
        let file = match resume {
            true => options.create(true),
            false => options.create_new(true),
        }
        .open(&path)
        .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(format!("{} is not a file", path.display()));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("another program is writing to {}", path.display()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Part {
            file,
            target: target.to_owned(),
            path,
            hasher: blake3::Hasher::new(),
            bytes: metadata.len(),
        })
    }

    /// Bytes that have arrived, including those of an earlier transfer.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hashes the bytes that are there. Calls `alive` after each chunk.
    pub async fn hash(&mut self, alive: impl AsyncFnMut(u64) -> io::Result<()>) -> io::Result<blake3::Hash> {
        self.hasher = hash(&mut self.file, self.bytes, alive).await?;
        Ok(self.hasher.finalize())
    }

    /// Free bytes of the file system.
    pub fn room_bytes(&self) -> io::Result<u64> {
        let room = rustix::fs::fstatvfs(&self.file)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// The BLAKE3 of the bytes that are there.
    pub fn finalize(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Writes everything to the disk and gives the file its name. A file that has got that name
    /// meanwhile is not overwritten.
    pub fn complete(self) -> io::Result<PathBuf> {
        use rustix::fs::{CWD, RenameFlags};
        self.file.sync_all()?;
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // The file system does not support RENAME_NOREPLACE.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                std::fs::hard_link(&self.path, &self.target)?;
                std::fs::remove_file(&self.path)?;
            }
            Err(error) => return Err(error.into()),
        }
        let folder = self.target.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(self.target)
    }

    /// Keeps the incomplete file and returns a message about it. An empty one is removed.
    pub fn keep(self) -> Option<String> {
        if self.bytes == 0 {
            let _ = std::fs::remove_file(&self.path);
            return None;
        }
        let _ = self.file.sync_all();
        let bytes = crate::account::bytes(self.bytes);
        Some(format!(
            "{bytes} are kept in {}; `leeway recv --resume` continues the transfer",
            self.path.display()
        ))
    }
}

/// The BLAKE3 of the first `bytes` of a file; the file position is behind them at the end. After
/// each chunk other tasks may run, and `alive` is called with the number of bytes so far.
pub async fn hash(
    file: &mut File,
    bytes: u64,
    mut alive: impl AsyncFnMut(u64) -> io::Result<()>,
) -> io::Result<blake3::Hasher> {
    file.rewind()?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let count = file.read(&mut chunk[..most])?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
        }
        hasher.update(&chunk[..count]);
        left -= count as u64;
        alive(bytes - left).await?;
        tokio::task::yield_now().await;
    }
    Ok(hasher)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_taken_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let mut part = Part::open(&target, false).unwrap();
        part.write(b"new").unwrap();
        assert!(!target.exists());
        std::fs::write(&target, "somebody else's").unwrap();
        let error = part.complete().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&target).unwrap(), b"somebody else's");
        assert_eq!(std::fs::read(path_of(&target)).unwrap(), b"new");
    }

    #[test]
    fn a_part_is_one_program_s_and_not_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let part = Part::open(&target, true).unwrap();
        assert!(Part::open(&target, true).unwrap_err().contains("another program"));
        assert!(Part::open(&target, false).unwrap_err().contains("--resume"));
        assert_eq!(part.keep(), None);
        std::os::unix::fs::symlink("/etc/passwd", path_of(&target)).unwrap();
        assert!(Part::open(&target, true).unwrap_err().contains("cannot write"));
    }

    #[tokio::test]
    async fn what_is_there_and_what_comes_have_one_hash() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        std::fs::write(path_of(&target), "first ").unwrap();
        let mut part = Part::open(&target, true).unwrap();
        assert_eq!(part.hash(async |_| Ok(())).await.unwrap(), blake3::hash(b"first "));
        part.write(b"second").unwrap();
        assert_eq!((part.bytes(), part.finalize()), (12, blake3::hash(b"first second")));
        part.complete().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"first second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
