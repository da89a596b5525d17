//! Replacement of whole files.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Most rights of a replaced file: its owner's, and reading by its group.
const MOST: u32 = 0o640;

/// Puts a file with these bytes at `path`. A reader, also one after a crash, finds the old file or
/// the new one.
///
/// The new file has the old file's owner, group and mode, without rights of others and without
/// execution. A file that is new is readable by its owner only, who is the owner of the folder,
/// because root writes files for services with other users.
///
/// # Errors
/// The folder cannot be written, or the disk is full. The old file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it has no name"))?;
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let old = match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let owner = match &old {
        Some(old) => (old.uid(), old.gid()),
        None => std::fs::metadata(folder).map(|folder| (folder.uid(), folder.gid()))?,
    };
    let fresh = folder.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    // The file of a killed process with the same number.
    let _ = std::fs::remove_file(&fresh);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        let own = file.metadata()?;
        if old.is_some() && (own.uid(), own.gid()) != owner || own.uid() != owner.0 {
            fchown(&file, Some(owner.0), Some(owner.1))?;
        }
        if let Some(old) = &old {
            file.set_permissions(Permissions::from_mode(old.mode() & MOST))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    fn of(path: &Path) -> (u32, u32, u32) {
        let metadata = path.metadata().unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    }

    #[test]
    fn a_file_keeps_owner_and_mode_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        replace(&path, b"one").unwrap();
        let (uid, gid, mode) = of(&path);
        assert_eq!(mode, 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o764)).unwrap();
        if uid == 0 {
            chown(&path, Some(65_534), Some(12)).unwrap();
        }
        replace(&path, b"two").unwrap();
        let expected = if uid == 0 { (65_534, 12) } else { (uid, gid) };
        assert_eq!(of(&path), (expected.0, expected.1, 0o640));
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_is_the_folders_owners() {
        let folder = tempfile::tempdir().unwrap();
        if folder.path().metadata().unwrap().uid() != 0 {
            return;
        }
        chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
        let path = folder.path().join("clients.toml");
        replace(&path, b"one").unwrap();
        assert_eq!(of(&path), (65_534, 65_534, 0o600));
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        // A folder cannot be replaced by a file.
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"two").is_err());
        assert!(path.is_dir());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("none/users"), b"one").is_err());
    }
}
