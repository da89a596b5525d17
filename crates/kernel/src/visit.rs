//! Visiting TCP connections, which the kernel lists by network namespace.

use crate::error::KernelError;
use libbpf_rs::{Iter, Object};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

/// Runs an iterator over the sockets of each namespace, and returns its output.
pub(crate) fn in_namespaces(
    object: &Object,
    program: &str,
    namespaces: &[File],
) -> Result<Vec<u8>, KernelError> {
    let doing = "list the sockets";
    let mut written = Vec::new();
    let program = object.progs_mut().find(|one| one.name() == program).expect("the program was kept");
    for namespace in namespaces {
        let link = program.attach().map_err(KernelError::bpf(doing))?;
        thread::scope(|scope| {
            let work = || -> Result<(), KernelError> {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|error| KernelError::failed("enter a network namespace")(&error))?;
                let mut iterator = Iter::new(&link).map_err(KernelError::bpf(doing))?;
                iterator.read_to_end(&mut written).map_err(|e| KernelError::failed(doing)(&e))?;
                Ok(())
            };
            scope.spawn(work).join().expect("an iterator does not panic")
        })?;
    }
    Ok(written)
}

/// The network namespaces of the processes of a cgroup and of the cgroups below it.
pub(crate) fn namespaces_of(cgroup: &Path) -> Vec<File> {
    let mut wanted = BTreeSet::new();
    let mut folders = vec![cgroup.to_owned()];
    while let Some(folder) = folders.pop() {
        let processes = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let tasks = processes.lines().flat_map(|process| std::fs::read_dir(format!("/proc/{process}/task")));
        let places = tasks.flatten().flatten().map(|task| std::fs::metadata(task.path().join("ns/net")));
        wanted.extend(places.flatten().map(|metadata| metadata.ino()));
        let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            below.filter(|one| one.file_type().is_ok_and(|kind| kind.is_dir())).map(|one| one.path()),
        );
    }
    namespaces(|inode| wanted.contains(&inode))
}

/// The file system of namespaces (linux/magic.h).
const NSFS_MAGIC: u64 = 0x6e73_6673;

/// The network namespaces with the given inode numbers, if a process is in them or `ip netns`
/// names them.
pub(crate) fn namespaces(wanted: impl Fn(u64) -> bool) -> Vec<File> {
    let entries = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
    let mut found = BTreeMap::new();
    for path in processes.chain(entries("/run/netns").map(|entry| entry.path())) {
        // A process that has just ended has none, and `ip netns add` makes an ordinary file first.
        if let Ok(namespace) = File::open(path)
            && rustix::fs::fstatfs(&namespace).is_ok_and(|system| system.f_type as u64 == NSFS_MAGIC)
            && let Ok(inode) = namespace.metadata().map(|metadata| metadata.ino())
            && wanted(inode)
        {
            found.entry(inode).or_insert(namespace);
        }
    }
    found.into_values().collect()
}
