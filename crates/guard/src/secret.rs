//! Files with secrets.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes of a secret. A longer file is not a secret.
const LONGEST_BYTES: u64 = 1 << 20;
/// Variable with the folder of this service's credentials from systemd (systemd.exec(5),
/// LoadCredential).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Why a file with secrets was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Others can read the file.
    #[error(
        "{path} has secrets, and {who} can read it (mode {mode:04o}); mend that with: chmod {right:04o} {path}"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
        /// Who can read it.
        who: &'static str,
        /// The mode that the file should have.
        right: u32,
    },
}

/// Reads a file that only its owner can read and change. The group may read a file of root.
///
/// In a service of systemd, a credential with the file's name takes the place of the file, which
/// the service cannot read.
///
/// # Errors
/// The file does not exist, is not text, or others can read it.
pub fn read_secret(path: &Path) -> Result<String, SecretError> {
    match credential(path) {
        // systemd controls who else can read a credential. Its access list looks like rights of
        // the group.
        Some(credential) => read(&credential, |_| Ok(())),
        None => read_in_place(path),
    }
}

/// Reads the file itself, although systemd may have given this service a copy.
///
/// # Errors
/// The file does not exist, is not text, or others can read it.
pub fn read_in_place(path: &Path) -> Result<String, SecretError> {
    read(path, |file| private(path, file))
}

/// The credential from systemd in place of the file, if there is one.
pub fn credential(path: &Path) -> Option<PathBuf> {
    let credential = std::env::var_os(CREDENTIALS).zip(path.file_name());
    let credential = credential.map(|(folder, name)| Path::new(&folder).join(name));
    credential.filter(|credential| credential.exists())
}

/// Checks who can read a file with secrets of this mode and owner.
///
/// # Errors
/// [`SecretError::Open`], with the command that corrects the mode.
pub fn check_private(path: &Path, mode: u32, owner: u32) -> Result<(), SecretError> {
    let right = if owner == 0 { 0o640 } else { 0o600 };
    let wrong = mode & 0o077 & !right;
    if wrong == 0 {
        return Ok(());
    }
    let who = if wrong & 0o007 != 0 { "everybody" } else { "its group" };
    Err(SecretError::Open { path: path.to_owned(), mode, who, right: mode & right })
}

fn read(path: &Path, check: impl FnOnce(&File) -> Result<(), SecretError>) -> Result<String, SecretError> {
    let failed = |error| SecretError::File { path: path.to_owned(), error };
    // The check and the reading use the same open file, even if the name is replaced.
    let file = File::open(path).map_err(failed)?;
    check(&file)?;
    let mut text = String::new();
    file.take(LONGEST_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

fn private(path: &Path, file: &File) -> Result<(), SecretError> {
    let metadata = file.metadata().map_err(|error| SecretError::File { path: path.to_owned(), error })?;
    check_private(path, metadata.mode() & 0o7777, metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// The path, and the result of reading a file of this mode and owner.
    fn read_with(mode: u32, owner: Option<u32>) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "secret").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        if let Some(owner) = owner {
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        let root = path.metadata().unwrap().uid() == 0;
        let name = path.display().to_string();
        let allowed = if root { 0o640 } else { 0o600 };
        let read = read_secret(&path).map_err(|error| error.to_string().replace(&name, "FILE"));
        assert_eq!(read.is_ok(), mode & 0o077 & !allowed == 0, "{mode:o} {read:?}");
        read
    }

    #[test]
    fn what_others_can_read_is_refused_with_the_command_that_mends_it() {
        for mode in [0o600, 0o400] {
            assert_eq!(read_with(mode, None).as_deref(), Ok("secret"));
        }
        for mode in [0o644, 0o604, 0o666, 0o641] {
            let error = read_with(mode, None).unwrap_err();
            assert!(error.contains("everybody can read it"), "{error}");
            assert!(error.contains("chmod 06") && error.contains(&format!("{mode:04o}")), "{error}");
        }
        let missing = read_secret(Path::new("/nonexistent/token")).unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/token"), "{missing}");
    }

    #[test]
    fn a_group_may_read_what_root_has_given_it() {
        let _ = read_with(0o640, None);
        // Only root can give files to others.
        let temporary = tempfile::NamedTempFile::new().unwrap();
        if temporary.as_file().metadata().unwrap().uid() == 0 {
            assert_eq!(read_with(0o640, None).as_deref(), Ok("secret"));
            let error = read_with(0o640, Some(65534)).unwrap_err();
            assert!(error.contains("its group can read it") && error.contains("chmod 0600 FILE"), "{error}");
            assert!(read_with(0o660, None).unwrap_err().contains("chmod 0640 FILE"));
        }
    }
}
