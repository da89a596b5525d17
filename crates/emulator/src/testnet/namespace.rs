//! A host: namespaces without a name, and the thread that lives in them.

use crate::Error;
use crate::host::sysctl;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{gettid, sethostname};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// What the thread of a host is asked to do.
type Job = Box<dyn FnOnce() + Send>;

/// The kinds of namespace that a host has of its own, by their names in `/proc`.
const KINDS: [(&str, CloneFlags); 3] =
    [("net", CloneFlags::CLONE_NEWNET), ("mnt", CloneFlags::CLONE_NEWNS), ("uts", CloneFlags::CLONE_NEWUTS)];

/// A host. Its namespaces end with it, unless a process still lives in them.
///
/// Its thread starts every command and stays, because a child's parent-death signal comes when the
/// thread that started it ends.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Thread id, which names the namespace to `ip`.
    pub thread_id: i32,
    /// Where the kernel shows it.
    pub process: PathBuf,
    namespaces: Vec<(File, CloneFlags)>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// The host `name`, where `hosts` is the content of `/etc/hosts`.
    pub fn new(name: &str, hosts: &str, forwards: bool) -> Result<Self, Error> {
        let (jobs, orders) = channel::<Job>();
        let (ready, made) = channel();
        let (name, hosts) = (name.to_owned(), hosts.to_owned());
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let done = prepare(&name, &hosts, forwards);
                let failed = done.is_err();
                // The receiver is gone only if the whole program is ending.
                let _ = ready.send(done.map(|()| gettid().as_raw()));
                if !failed {
                    orders.iter().for_each(|job| job());
                }
            })
            .map_err(Error::of("start a thread"))?;
        let thread_id = made.recv().map_err(|_| died())??;
        let process = PathBuf::from(format!("/proc/{}/task/{thread_id}", std::process::id()));
        let namespaces = open(&process)?;
        Ok(Namespace { thread_id, process, namespaces, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `job` on the thread of the host.
    pub fn ask<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let (answer, answered) = channel();
        let jobs = self.jobs.as_ref().ok_or_else(died)?;
        jobs.send(Box::new(move || {
            let _ = answer.send(job());
        }))
        .map_err(|_| died())?;
        answered.recv().map_err(|_| died())
    }

    /// Starts `command`.
    pub fn spawn(&self, mut command: Command) -> Result<io::Result<Child>, Error> {
        self.ask(move || command.spawn())
    }

    /// Runs `step` on a thread of its own, which may borrow.
    pub fn inside<T: Send>(&self, step: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let work = || {
            enter(&self.namespaces)?;
            Ok(step())
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|_| Err(died())))
    }

    /// Whether a process lives in this host.
    pub fn holds(&self, process: &Path) -> bool {
        let of = |path: &Path| std::fs::read_link(path.join("ns/net")).ok();
        of(process).is_some_and(|namespace| Some(namespace) == of(&self.process))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts the calling process, which has one thread only, onto the host that the kernel shows at
/// `process`.
pub(super) fn become_part(process: &Path) -> Result<(), Error> {
    enter(&open(process)?)
}

fn died() -> Error {
    Error::Options("the thread of a host has died".into())
}

fn open(process: &Path) -> Result<Vec<(File, CloneFlags)>, Error> {
    let one = |(kind, flag): (&str, CloneFlags)| {
        let path = process.join("ns").join(kind);
        Ok((File::open(&path).map_err(|error| Error::file(&path, error))?, flag))
    };
    KINDS.into_iter().map(one).collect()
}

fn enter(namespaces: &[(File, CloneFlags)]) -> Result<(), Error> {
    // A thread changes its mounts only where it shares no root and working directory with others.
    unshare(CloneFlags::CLONE_FS).map_err(Error::of_errno("enter a host"))?;
    namespaces.iter().try_for_each(|(file, flag)| setns(file, *flag).map_err(Error::of_errno("enter a host")))
}

fn prepare(name: &str, hosts: &str, forwards: bool) -> Result<(), Error> {
    let all = KINDS.into_iter().fold(CloneFlags::empty(), |all, (_, flag)| all | flag);
    unshare(all).map_err(Error::of_errno("make the namespaces of a host"))?;
    sethostname(name).map_err(Error::of_errno("name a host"))?;
    name_hosts(hosts)?;
    for family in ["ipv4", "ipv6"] {
        // Packets may come and go over different routes.
        for (key, value) in
            [("rp_filter", "0"), ("accept_dad", "0"), ("addr_gen_mode", "1"), ("router_solicitations", "0")]
        {
            for scope in ["all", "default"] {
                // Each address family has some of these parameters; a kernel without IPv6 has none
                // of its family's.
                let _ = sysctl(&format!("net/{family}/conf/{scope}/{key}"), value);
            }
        }
    }
    if forwards {
        sysctl("net/ipv4/ip_forward", "1")?;
        let _ = sysctl("net/ipv6/conf/all/forwarding", "1");
    }
    // Users other than root may ping.
    let _ = sysctl("net/ipv4/ping_group_range", "0 2147483647");
    Ok(leeway_net::ip("link set lo up\n")?)
}

/// Lays `hosts` over `/etc/hosts` in the mount namespace of the calling thread.
fn name_hosts(hosts: &str) -> Result<(), Error> {
    let target = Path::new("/etc/hosts");
    if !target.exists() {
        return Ok(());
    }
    let what = "give the hosts their names";
    // Later mounts of the machine still appear here; mounts of this namespace do not appear there.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
        .map_err(Error::of_errno(what))?;
    // The mount keeps the file when its name goes.
    let path = std::env::temp_dir().join(format!("leeway-hosts-{}", gettid()));
    std::fs::write(&path, hosts).map_err(|error| Error::file(&path, error))?;
    let done = mount(Some(&path), target, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    let _ = std::fs::remove_file(&path);
    done.map_err(Error::of_errno(what))
}
