//! Where loaded laws are kept: one pinned link each in the BPF file system.

use crate::error::KernelError;
use rustix::mount::{MountFlags, mount};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const BPFFS: &str = "/sys/fs/bpf";
const FOLDER: &str = "/sys/fs/bpf/leeway";
/// `statfs` of the BPF file system.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The folder of Leeway's pins, made if need be.
pub(crate) fn folder() -> Result<PathBuf, KernelError> {
    if !is_mounted()? {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("bpf", BPFFS, "bpf", flags, None)
            .map_err(|error| refused(format!("mount the BPF file system at {BPFFS}"), error.into()))?;
    }
    std::fs::create_dir_all(FOLDER).map_err(|error| refused(format!("make {FOLDER}"), error))?;
    Ok(PathBuf::from(FOLDER))
}

/// The names of loaded laws, sorted.
pub(crate) fn names() -> Result<Vec<String>, KernelError> {
    let entries = match std::fs::read_dir(FOLDER) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(format!("read {FOLDER}"), error)),
    };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// The pin of that name.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

fn is_mounted() -> Result<bool, KernelError> {
    let found = rustix::fs::statfs(BPFFS);
    let found = found.map_err(|error| refused(format!("look at {BPFFS}"), error.into()))?;
    Ok(found.f_type as u64 == BPF_FS_MAGIC)
}

fn refused(doing: String, error: std::io::Error) -> KernelError {
    match error.kind() {
        ErrorKind::PermissionDenied => KernelError::Permission { doing },
        _ => KernelError::failed(doing)(&error),
    }
}
