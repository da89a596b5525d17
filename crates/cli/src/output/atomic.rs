//! Files that appear under their name only when they are complete. Every error names the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file without a name until it is complete. If it is dropped before [`AtomicFile::commit`], or
/// the process is killed, nothing stays on the disk.
pub struct AtomicFile {
    file: BufWriter<File>,
    target: PathBuf,
    /// The temporary name, if the file system does not support files without a name (O_TMPFILE).
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Starts a file that is to become `target`.
    pub fn create(target: &Path) -> io::Result<AtomicFile> {
        let make = || match nameless(folder(target)) {
            Ok(file) => Ok((file, None)),
            Err(_) => {
                let sibling = sibling(target)?;
                Ok((File::create(&sibling)?, Some(sibling)))
            }
        };
        let (file, temporary) = make().map_err(|error| cannot_write(target, &error))?;
        Ok(AtomicFile { file: BufWriter::new(file), target: target.to_owned(), temporary })
    }

    /// Writes everything to the disk, and then gives the file its name. An old file of that name
    /// is replaced in one step.
    pub fn commit(mut self) -> io::Result<()> {
        self.put_in_place().map_err(|error| cannot_write(&self.target, &error))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let complete = match self.temporary.take() {
            Some(temporary) => temporary,
            None => {
                let sibling = sibling(&self.target)?;
                give_name(self.file.get_ref(), &sibling)?;
                sibling
            }
        };
        let renamed = std::fs::rename(&complete, &self.target);
        if renamed.is_err() {
            let _ = std::fs::remove_file(&complete);
        }
        renamed?;
        File::open(folder(&self.target))?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| cannot_write(&self.target, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| cannot_write(&self.target, &error))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// The error, with the name of the file or folder in its message.
pub fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn sibling(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::other("the file has no name"))?;
    let hidden = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
    let path = folder(target).join(hidden);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(path),
    }
}

#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))?.into())
}

#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    use std::os::fd::AsRawFd;
    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, nameless, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_there_before_the_commit_and_all_of_it_after() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.json");
        std::fs::write(&target, "old").unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new and longer").unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
        drop(AtomicFile::create(&folder.path().join("b.json")).unwrap());
        file.commit().unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new and longer");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_file_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a.json")).unwrap();
        for name in ["a.json", "absent/a.json"] {
            let target = folder.path().join(name);
            let error = AtomicFile::create(&target).and_then(AtomicFile::commit).unwrap_err().to_string();
            assert_eq!(error.matches(&format!("cannot write {}: ", target.display())).count(), 1, "{error}");
        }
    }
}
