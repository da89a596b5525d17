//! The folders of loaded laws and of confinements in the BPF file system. A loaded law is one
//! pinned link. Both folders belong to root alone.

use crate::error::KernelError;
use rustix::mount::{MountFlags, mount};
use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const BPFFS: &str = "/sys/fs/bpf";
/// The same as process 1 sees it: `ip netns exec` hides mounts below /sys.
const BPFFS_OF_INIT: &str = "/proc/1/root/sys/fs/bpf";
const LAWS: &str = "leeway";
const CGROUPS: &str = "leeway-run";
/// The mode of our folders there.
const PRIVATE: u32 = 0o700;
/// `statfs` of the BPF file system.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The folder of loaded laws, made if need be.
pub(crate) fn folder() -> Result<PathBuf, KernelError> {
    make(LAWS)
}

/// The folder of confinements, made if need be; each has a folder in it.
pub(crate) fn cgroups() -> Result<PathBuf, KernelError> {
    make(CGROUPS)
}

/// The same if it is there.
pub(crate) fn cgroups_if_any() -> Result<Option<PathBuf>, KernelError> {
    if_any(CGROUPS)
}

/// The names of loaded laws, sorted.
pub(crate) fn names() -> Result<Vec<String>, KernelError> {
    let Some(folder) = if_any(LAWS)? else { return Ok(Vec::new()) };
    let entries =
        std::fs::read_dir(&folder).map_err(|error| refused(format!("read {}", folder.display()), error))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// The pin of that name.
pub(crate) fn path(name: &str) -> PathBuf {
    mounted().unwrap_or(Path::new(BPFFS)).join(LAWS).join(name)
}

fn make(name: &str) -> Result<PathBuf, KernelError> {
    if mounted().is_none() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bpf", BPFFS, "bpf", flags, None)
            .map_err(|error| refused(format!("mount the BPF file system at {BPFFS}"), error.into()))?;
    }
    let folder = mounted().unwrap_or(Path::new(BPFFS)).join(name);
    match DirBuilder::new().mode(PRIVATE).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(refused(format!("make {}", folder.display()), error));
        }
        _ => {}
    }
    check(&folder)?;
    Ok(folder)
}

fn if_any(name: &str) -> Result<Option<PathBuf>, KernelError> {
    let Some(folder) = mounted().map(|root| root.join(name)) else { return Ok(None) };
    Ok(check(&folder)?.then_some(folder))
}

/// Whether the folder exists. Everybody can write to the BPF file system, like /tmp, so the first
/// to make the folder owns it. A folder of root stays root's, because the file system is sticky.
fn check(folder: &Path) -> Result<bool, KernelError> {
    let Some(metadata) = check_owner(folder)? else { return Ok(false) };
    // Repairs a folder that an umask made readable for everybody, and so lockable.
    if metadata.mode() & 0o777 != PRIVATE && metadata.uid() == rustix::process::geteuid().as_raw() {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(PRIVATE))
            .map_err(|error| refused(format!("keep {} from others", folder.display()), error))?;
    }
    Ok(true)
}

/// Refuses a folder that others than root and this user can change, and a file that is not a
/// folder. `None` if nothing exists.
pub(crate) fn check_owner(folder: &Path) -> Result<Option<Metadata>, KernelError> {
    let metadata = match std::fs::symlink_metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(format!("look at {}", folder.display()), error)),
    };
    let (kind, uid) = (metadata.file_type(), metadata.uid());
    let what = if kind.is_dir() {
        "folder"
    } else if kind.is_symlink() {
        "symbolic link"
    } else {
        "file"
    };
    let name = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    let name = name.map_or_else(String::new, |user| format!(" ({})", user.name));
    let whose = format!("this {what} is user {uid}'s{name}");
    let known = uid == 0 || uid == rustix::process::geteuid().as_raw();
    let whose = match metadata.mode() & 0o7777 {
        _ if !kind.is_dir() || !known => whose,
        mode if mode & 0o022 != 0 => format!("{whose}, and others may write there (mode {mode:04o})"),
        _ => return Ok(Some(metadata)),
    };
    Err(KernelError::Foreign { folder: folder.to_owned(), whose })
}

/// The BPF file system, where there is one.
fn mounted() -> Option<&'static Path> {
    let is = |path: &&str| rustix::fs::statfs(*path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC);
    [BPFFS, BPFFS_OF_INIT].into_iter().find(is).map(Path::new)
}

pub(crate) fn refused(doing: String, error: std::io::Error) -> KernelError {
    match error.kind() {
        ErrorKind::PermissionDenied => KernelError::Permission { doing },
        _ => KernelError::failed(doing)(&error),
    }
}
