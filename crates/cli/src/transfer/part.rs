//! A file that is being received: under a name of its own until all of it is there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Behind the name of a file of which a part is there.
pub const SUFFIX: &str = ".leeway-part";
/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 18;

/// What of a file has come so far.
#[derive(Debug)]
pub struct Part {
    file: File,
    target: PathBuf,
    path: PathBuf,
    /// Of all that is there.
    hasher: blake3::Hasher,
    bytes: u64,
}

/// Where a part of `target` is kept.
pub fn path_of(target: &Path) -> PathBuf {
    let mut path = target.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Why `target` cannot be received into; nothing where it can.
pub fn obstacle(target: &Path, resume: bool) -> Option<String> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let part = path_of(target);
    if is_there(target) {
        return Some(format!("{} exists already, and is not overwritten", target.display()));
    }
    if !resume && is_there(&part) {
        return Some(format!(
            "{} is there, from a transfer that broke off; `leeway recv --resume` goes on with it",
            part.display()
        ));
    }
    None
}

impl Part {
    /// Begins, or with `resume` goes on. Nobody else can write to it meanwhile.
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

    /// Bytes that are there.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads what is there; `alive` is called after each chunk.
    pub async fn hash(&mut self, alive: impl AsyncFnMut(u64) -> io::Result<()>) -> io::Result<blake3::Hash> {
        self.hasher = hash(&mut self.file, self.bytes, alive).await?;
        Ok(self.hasher.finalize())
    }

    /// Bytes that may still come into this file system.
    pub fn room_bytes(&self) -> io::Result<u64> {
        let room = rustix::fs::fstatvfs(&self.file)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Puts bytes behind what is there.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// The BLAKE3 of what is there.
    pub fn finalize(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Gives it its name, once all of it is on the disk. One that has come to that name meanwhile stays.
    pub fn complete(self) -> io::Result<PathBuf> {
        use rustix::fs::{CWD, RenameFlags};
        self.file.sync_all()?;
        match rustix::fs::renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // The file system does not know that.
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

    /// What is kept, in words; a part without a byte is not.
    pub fn keep(self) -> Option<String> {
        if self.bytes == 0 {
            let _ = std::fs::remove_file(&self.path);
            return None;
        }
        let _ = self.file.sync_all();
        let bytes = crate::account::bytes(self.bytes);
        Some(format!("{bytes} are kept in {}; `leeway recv --resume` goes on with them", self.path.display()))
    }
}

/// The BLAKE3 of the first `bytes` of a file, which is read up to there. After each chunk others
/// have their turn, and `alive` is told how far it is.
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
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter"));
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
