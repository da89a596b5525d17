//! Control groups, version 2: where they are, and one for a command.

use crate::error::KernelError;
use crate::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Longest wait for a notification before looking again.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Age from which an empty cgroup counts as unused.
const DESERTED: Duration = Duration::from_secs(60);

/// A directory of the file system of control groups.
#[derive(Debug)]
pub(crate) struct Cgroup {
    /// From the root of the hierarchy, without a slash in front; empty for the root itself.
    path: PathBuf,
    directory: PathBuf,
    /// The kernel's number of the cgroup.
    id: u64,
    /// A mount of our own stays as long as this.
    _mount: Option<OwnedFd>,
}

impl Cgroup {
    /// The cgroup of a process.
    pub fn of_process(pid: u32) -> Result<Cgroup, KernelError> {
        let file = format!("/proc/{pid}/cgroup");
        let text = fs::read_to_string(&file).map_err(|e| KernelError::failed(format!("read {file}"))(&e))?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
        let missing = || KernelError::NoCgroup(format!("{file} has no line that begins with 0::"));
        Self::open(Path::new(path.ok_or_else(missing)?))
    }

    /// The cgroup at a path below the root.
    pub fn open(path: &Path) -> Result<Cgroup, KernelError> {
        let (root, mount) = root()?;
        let directory = root.join(path);
        let id = fs::metadata(&directory).and_then(|metadata| {
            // Only directories of this file system have this file.
            fs::metadata(directory.join("cgroup.procs")).map(|_| metadata.ino())
        });
        let id =
            id.map_err(|error| KernelError::failed(format!("open cgroup /{}", path.display()))(&error))?;
        Ok(Cgroup { path: path.to_owned(), directory, id, _mount: mount })
    }

    /// The cgroup that a user names: a path below the root or below /sys/fs/cgroup, or the last
    /// part of a path if it is unique, such as `backup.slice`.
    pub fn find(name: &str) -> Result<Cgroup, KernelError> {
        let (root, _mount) = root()?;
        let path = Path::new(name);
        let plain = path.components().all(|c| !matches!(c, Component::ParentDir | Component::CurDir));
        let path = path.strip_prefix(&root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        if plain && root.join(path).join("cgroup.procs").exists() {
            return Self::open(path);
        }
        let found = if path.components().count() == 1 { named(&root, path) } else { Vec::new() };
        match &found[..] {
            [one] => Self::open(one),
            [] => Err(KernelError::UnknownCgroup {
                name: name.to_owned(),
                among: format!("there is none of that name under {}", root.display()),
            }),
            many => {
                let many: Vec<String> = many.iter().map(|path| format!("/{}", path.display())).collect();
                let among = format!("there are {}; give the whole path", many.join(", "));
                Err(KernelError::UnknownCgroup { name: name.to_owned(), among })
            }
        }
    }

    /// All cgroups whose name begins with this prefix and which have been empty for at least a
    /// minute.
    pub fn deserted(prefix: &str) -> Result<Vec<Cgroup>, KernelError> {
        let (root, _mount) = root()?;
        let named = |directory: &PathBuf| {
            directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        let paths = below(&root).into_iter().filter(named);
        let open = |directory: PathBuf| Self::open(directory.strip_prefix(&root).ok()?).ok();
        let deserted = |cgroup: &Cgroup| {
            let changed =
                fs::metadata(cgroup.directory.join("cgroup.procs")).and_then(|file| file.modified());
            let old = changed.is_ok_and(|then| then.elapsed().is_ok_and(|age| age >= DESERTED));
            old && !cgroup.is_populated()
        };
        Ok(paths.filter_map(open).filter(deserted).collect())
    }

    /// Makes a cgroup below this one.
    pub fn make(&self, name: &str) -> Result<Cgroup, KernelError> {
        let path = self.path.join(name);
        fs::create_dir(self.directory.join(name))
            .map_err(|error| KernelError::failed(format!("make cgroup /{}", path.display()))(&error))?;
        Self::open(&path)
    }

    /// From the root of the hierarchy, without a slash in front.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What there is in the file system.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kernel's number for it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its depth; the root has 0.
    pub fn level(&self) -> u32 {
        self.path.components().count() as u32
    }

    /// Moves a process here.
    pub fn take(&self, process: &Process) -> Result<(), KernelError> {
        let file = self.directory.join("cgroup.procs");
        let doing = format!("move process {} to cgroup /{}", process.pid(), self.path.display());
        process.hold(|pid| fs::write(file, pid.to_string()).map_err(|e| KernelError::failed(doing)(&e)))
    }

    /// The processes in it and below it.
    pub fn processes(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        for directory in below(&self.directory) {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        pids
    }

    /// Whether a process is in it or below it.
    pub fn is_populated(&self) -> bool {
        fs::read_to_string(self.directory.join("cgroup.events"))
            .is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
    }

    /// Waits until no process is in it or below it, or until it is gone.
    pub fn wait_until_empty(&self) -> io::Result<()> {
        let mut events = match File::open(self.directory.join("cgroup.events")) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            events => events?,
        };
        loop {
            let mut text = String::new();
            let read = events.rewind().and_then(|()| events.read_to_string(&mut text));
            // A directory that was removed answers ENODEV.
            if read.is_err() || text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            // The kernel does not notify of a removal, which may come before the notification that
            // the cgroup is empty.
            match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&LOOK_AGAIN)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the cgroup and those below it; processes in them move to the parent.
    pub fn remove(&self) -> io::Result<()> {
        for pid in self.processes() {
            self.put_out(pid);
        }
        for directory in below(&self.directory).iter().rev() {
            match fs::remove_dir(directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Cgroup {
    /// Moves a process to the parent, if it is in this cgroup or below it.
    fn put_out(&self, pid: u32) {
        let (Some(process), Some(above)) = (Process::of(pid), self.directory.parent()) else { return };
        // The check is for the process that has the number now, which may differ from the listed
        // one.
        if self.processes().contains(&pid) {
            let _ = process.hold(|pid| {
                let moved = fs::write(above.join("cgroup.procs"), pid.to_string());
                moved.map_err(|error| KernelError::failed("move a process to the cgroup above")(&error))
            });
        }
    }
}

/// The directory and all directories below it, parents first.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_owned()];
    let mut next = 0;
    while let Some(directory) = all.get(next) {
        next += 1;
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let inner: Vec<PathBuf> =
            entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect();
        all.extend(inner);
    }
    all
}

/// Paths below `root` that end in `name`.
fn named(root: &Path, name: &Path) -> Vec<PathBuf> {
    let all = below(root).into_iter().filter(|directory| directory.ends_with(name));
    let mut paths: Vec<PathBuf> =
        all.filter_map(|directory| directory.strip_prefix(root).map(Path::to_owned).ok()).collect();
    paths.sort();
    paths
}

/// The root of the hierarchy: where it is mounted, where process 1 sees it mounted
/// (`ip netns exec` hides mounts below /sys), or a private mount.
fn root() -> Result<(PathBuf, Option<OwnedFd>), KernelError> {
    for (mounts, prefix) in [("/proc/self/mountinfo", "/"), ("/proc/1/mountinfo", "/proc/1/root")] {
        let text = fs::read_to_string(mounts).unwrap_or_default();
        for point in text.lines().filter_map(mount_point) {
            let directory = Path::new(prefix).join(point.trim_start_matches('/'));
            if directory.join("cgroup.procs").exists() {
                return Ok((directory, None));
            }
        }
    }
    let mount = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
    });
    let mount = mount.map_err(|error| {
        KernelError::NoCgroup(format!("no cgroup2 is mounted, and none can be mounted: {error}"))
    })?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())), Some(mount)))
}

/// Where a line of mountinfo has the whole hierarchy mounted.
fn mount_point(line: &str) -> Option<String> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (kind.starts_with("cgroup2 ") && root == "/").then(|| point.replace("\\040", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_is_found_in_mountinfo() {
        let line = "26 25 0:23 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(mount_point(line).as_deref(), Some("/sys/fs/cgroup/unified"));
        let version_1 = "26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";
        assert_eq!(mount_point(version_1), None);
        let part = "26 25 0:23 /a.slice /mnt rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(part), None);
        assert_eq!(mount_point("nonsense"), None);
    }
}
