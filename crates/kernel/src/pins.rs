//! Where loaded laws are kept: one pinned link each in the BPF file system; and what confines cgroups.

use crate::error::KernelError;
use rustix::mount::{MountFlags, mount};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const BPFFS: &str = "/sys/fs/bpf";
/// The same as the first process sees it: `ip netns exec` hides what is below /sys.
const BPFFS_OF_INIT: &str = "/proc/1/root/sys/fs/bpf";
const LAWS: &str = "leeway";
const CGROUPS: &str = "leeway-run";
/// `statfs` of the BPF file system.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The folder of loaded laws, made if need be.
pub(crate) fn folder() -> Result<PathBuf, KernelError> {
    make(LAWS)
}

/// The folder of what confines cgroups, made if need be: a folder each.
pub(crate) fn cgroups() -> Result<PathBuf, KernelError> {
    make(CGROUPS)
}

/// The same if it is there.
pub(crate) fn cgroups_if_any() -> Option<PathBuf> {
    Some(mounted()?.join(CGROUPS)).filter(|folder| folder.is_dir())
}

/// The names of loaded laws, sorted.
pub(crate) fn names() -> Result<Vec<String>, KernelError> {
    let Some(folder) = mounted().map(|root| root.join(LAWS)) else { return Ok(Vec::new()) };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(format!("read {}", folder.display()), error)),
    };
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
    std::fs::create_dir_all(&folder).map_err(|error| refused(format!("make {}", folder.display()), error))?;
    Ok(folder)
}

/// The BPF file system, where there is one.
fn mounted() -> Option<&'static Path> {
    let is = |path: &&str| rustix::fs::statfs(*path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC);
    [BPFFS, BPFFS_OF_INIT].into_iter().find(is).map(Path::new)
}

fn refused(doing: String, error: std::io::Error) -> KernelError {
    match error.kind() {
        ErrorKind::PermissionDenied => KernelError::Permission { doing },
        _ => KernelError::failed(doing)(&error),
    }
}
