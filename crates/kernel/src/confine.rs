//! Cgroups under a policy: a new one for a command, or an existing one.
//!
//! The programs that confine a cgroup are pinned in a folder for this cgroup, so they outlive
//! every process. There is no other state. Changes are made one at a time, under a lock.

use crate::cgroup::Cgroup;
use crate::error::KernelError;
use crate::load::Load;
use crate::process::Process;
use crate::send::{self, CONNECTIONS, Config, Dscp};
use crate::{Account, Loaded, Receive, Receiving, lock, pins};
use leeway_control::{LawSpec, ParamKind};
use libbpf_rs::Link;
use libbpf_rs::query::LinkTypeInfo;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Prefix of the names of laws that are loaded for cgroups, and removed with the last cgroup that
/// needs them.
const OWN: &str = "run_";
/// Prefix of the names of cgroups that are made for a command.
const MADE: &str = "leeway-run-";
/// Pins in the folder of a confinement: its law, and where its cgroup is.
const LAW: &str = "law";
const PLACE: &str = "cgroup";
/// The pin that all confinements share.
const LEVELS: &str = "levels";

/// How the programs of a cgroup send and receive.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The law of their TCP connections.
    pub law: LawSpec,
    /// The mark of their packets; `None` leaves it to the programs.
    pub dscp: Option<Dscp>,
    /// The law that holds downloads back; `None` does not hold them back.
    pub receive: Option<Receive>,
}

/// For whom a cgroup is confined.
#[derive(Clone, Debug)]
pub struct Asker {
    /// The user.
    pub uid: u32,
    /// The command, for people; the first 63 bytes are kept.
    pub what: String,
}

/// A cgroup under a policy.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// Its name: `run-` and a process, or `cgroup-` and the kernel's number.
    pub name: String,
    /// The cgroup's path from the root of the hierarchy, without a slash in front.
    pub cgroup: PathBuf,
    /// The kernel's name of the law.
    pub law: String,
    /// The law with its parameters; none if it was unloaded by force.
    pub spec: Option<LawSpec>,
    /// The mark of packets.
    pub dscp: Option<Dscp>,
    /// The law that holds downloads back.
    pub receive: Option<LawSpec>,
    /// Whether the policy stays until it is detached; otherwise it goes with the last process.
    pub persistent: bool,
    /// The user and the command.
    pub asker: Asker,
    /// Seconds since 1970 at which it began.
    pub started_unix_s: u64,
    folder: PathBuf,
    /// The kernel's number of the cgroup.
    id: u64,
}

impl Confinement {
    /// Makes a cgroup below that of a process, under a policy, and moves the process there. No
    /// other process is moved, even if this one ends meanwhile and its number is reused.
    ///
    /// # Errors
    /// Rights; no cgroup v2; what [`Load::pinned`] says; [`KernelError::Ended`]. Nothing stays
    /// behind on an error.
    pub fn of_process(process: &Process, policy: &Policy, asker: &Asker) -> Result<Confinement, KernelError> {
        let pid = process.pid();
        let all = Locked::new()?;
        all.sweep();
        let parent = Cgroup::of_process(pid)?;
        let name = free(
            |n| if n == 1 { format!("run-{pid}") } else { format!("run-{pid}-{n}") },
            |name| all.folder.join(name).exists(),
        );
        let made = format!("{MADE}{}", &name["run-".len()..]);
        let undo = all.begin(&name, &parent.path().join(&made))?;
        let cgroup = parent.make(&made)?;
        all.put(&undo, &cgroup, &[pid], policy, asker, false)?;
        cgroup.take(process)?;
        undo.keep()
    }

    /// Puts an existing cgroup under a policy, with the present connections of its processes,
    /// until it is detached or removed. Returns the number of these connections as well.
    ///
    /// `name` is a path, or the last part of one: `backup.slice`.
    ///
    /// # Errors
    /// [`KernelError::UnknownCgroup`], [`KernelError::Attached`]; those of
    /// [`Confinement::of_process`].
    pub fn of_cgroup(
        name: &str,
        policy: &Policy,
        asker: &Asker,
    ) -> Result<(Confinement, usize), KernelError> {
        let cgroup = Cgroup::find(name)?;
        if cgroup.path().as_os_str().is_empty() {
            return Err(KernelError::WholeMachine);
        }
        let all = Locked::new()?;
        all.sweep();
        if all.list().iter().any(|one| one.persistent && one.cgroup == cgroup.path()) {
            return Err(KernelError::Attached(cgroup.path().display().to_string()));
        }
        let undo = all.begin(&format!("cgroup-{}", cgroup.id()), cgroup.path())?;
        let changed = all.put(&undo, &cgroup, &cgroup.processes(), policy, asker, true)?;
        Ok((undo.keep()?, changed))
    }

    /// Waits until the last process of the cgroup has ended, and takes the policy off.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove_when_empty(&self) -> Result<(), KernelError> {
        loop {
            // A cgroup that is gone needs no wait.
            if let Ok(cgroup) = Cgroup::open(&self.cgroup) {
                cgroup.wait_until_empty().map_err(|error| {
                    KernelError::failed(format!("wait for cgroup /{}", self.cgroup.display()))(&error)
                })?;
            }
            let all = Locked::new()?;
            // A cgroup in the making is empty as well, until the lock is free.
            let there = Cgroup::open(&self.cgroup).ok().filter(|cgroup| cgroup.id() == self.id);
            if there.is_none_or(|cgroup| !cgroup.is_populated()) {
                return self.remove_from(&all);
            }
        }
    }

    /// Moves another process here, such as a child of the first.
    ///
    /// # Errors
    /// It has ended; rights.
    pub fn adopt(&self, pid: u32) -> Result<(), KernelError> {
        let process = Process::of(pid).ok_or(KernelError::Ended(pid))?;
        Cgroup::open(&self.cgroup)?.take(&process)
    }

    /// Moves this process to the parent cgroup, so that it can wait for the others.
    ///
    /// # Errors
    /// The file system's.
    pub fn leave(&self) -> Result<(), KernelError> {
        let above = self.cgroup.parent().unwrap_or(Path::new(""));
        Cgroup::open(above)?.take(&Process::this())
    }

    /// Takes the policy off. New connections are free; present ones keep their law until they end.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove(&self) -> Result<(), KernelError> {
        self.remove_from(&Locked::new()?)
    }

    fn remove_from(&self, all: &Locked) -> Result<(), KernelError> {
        // Another process may have detached it first, and the name may be in use again.
        let same = Config::pinned(&self.folder).is_some_and(|config| config.cgroup == self.id);
        if same { all.remove(&self.name) } else { Ok(()) }
    }

    /// Its traffic since it began, and the work of its laws.
    ///
    /// # Errors
    /// Rights; it is over; another version of leeway made it.
    pub fn account(&self) -> Result<Account, KernelError> {
        Account::read(&self.folder)
    }

    /// The connections whose downloads it holds back; empty without a law for downloads.
    ///
    /// # Errors
    /// Rights.
    pub fn receiving(&self) -> Result<Option<Receiving>, KernelError> {
        Receiving::find(&self.folder)
    }

    /// Whether it is over: its cgroup is gone, or is empty and was made for a command.
    pub fn is_over(&self) -> bool {
        let link = Link::open(self.folder.join(CONNECTIONS)).and_then(|link| link.info());
        // The kernel takes the programs off a cgroup that is removed.
        let gone = |info: &LinkTypeInfo| matches!(info, LinkTypeInfo::Cgroup(c) if c.cgroup_id == 0);
        if link.is_ok_and(|link| gone(&link.info)) {
            return true;
        }
        let cgroup = Cgroup::open(&self.cgroup).ok().filter(|cgroup| cgroup.id() == self.id);
        !self.persistent && cgroup.is_some_and(|cgroup| !cgroup.is_populated())
    }
}

/// Every cgroup under a policy, by name.
///
/// # Errors
/// Rights.
pub fn confinements() -> Result<Vec<Confinement>, KernelError> {
    match pins::cgroups_if_any()? {
        Some(folder) => Ok(list(&folder)),
        None => Ok(Vec::new()),
    }
}

/// The confinement with that name.
///
/// # Errors
/// Rights; there is none.
pub fn confinement(name: &str) -> Result<Confinement, KernelError> {
    let missing = || KernelError::failed(format!("find the cgroup {name}"))(&"it is not confined");
    confinements()?.into_iter().find(|one| one.name == name).ok_or_else(missing)
}

/// The confinement of that cgroup: a path, or the last part of one.
///
/// # Errors
/// [`KernelError::UnknownCgroup`], [`KernelError::NotAttached`].
pub fn attached(cgroup: &str) -> Result<Confinement, KernelError> {
    let found = Cgroup::find(cgroup)?;
    let is = |one: &Confinement| one.persistent && one.cgroup == found.path();
    let missing = || KernelError::NotAttached(found.path().display().to_string());
    confinements()?.into_iter().find(is).ok_or_else(missing)
}

/// Something that a crash left and nothing uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// The pins of a confinement that is over or was never whole, and its cgroup if it was made
    /// for a command.
    Confinement(String),
    /// A law that was loaded for cgroups, none of which is left.
    Law(String),
    /// A cgroup that was made for a command and has neither processes nor a policy; its path.
    Cgroup(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Leftover::Confinement(name) => write!(f, "what confined {name}"),
            Leftover::Law(name) => write!(f, "the law {name}"),
            Leftover::Cgroup(path) => write!(f, "the empty cgroup /{}", path.display()),
        }
    }
}

/// All that crashes left.
///
/// # Errors
/// Rights.
pub fn leftovers() -> Result<Vec<Leftover>, KernelError> {
    if pins::cgroups_if_any()?.is_none() {
        return Ok(Vec::new());
    }
    let all = Locked::new()?;
    let mut found = all.leftovers();
    let known: Vec<PathBuf> = all.list().into_iter().map(|one| one.cgroup).collect();
    let deserted = Cgroup::deserted(MADE)?.into_iter().map(|cgroup| cgroup.path().to_owned());
    found.extend(deserted.filter(|path| !known.contains(path)).map(Leftover::Cgroup));
    Ok(found)
}

impl Leftover {
    /// Removes it, unless it is in use by now.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove(&self) -> Result<(), KernelError> {
        let all = Locked::new()?;
        let still = match self {
            Leftover::Cgroup(path) => Cgroup::open(path).is_ok_and(|cgroup| !cgroup.is_populated()),
            _ => all.leftovers().contains(self),
        };
        if still { all.remove_leftover(self) } else { Ok(()) }
    }
}

/// The folder of all confinements, while nobody else changes it.
struct Locked {
    folder: PathBuf,
    _lock: File,
}

impl Locked {
    fn new() -> Result<Locked, KernelError> {
        Ok(Locked { folder: pins::cgroups()?, _lock: lock::take()? })
    }

    fn list(&self) -> Vec<Confinement> {
        list(&self.folder)
    }

    /// The folder of a confinement in the making, with the path of its cgroup. If this process is
    /// killed, others find both.
    fn begin<'a>(&'a self, name: &str, cgroup: &Path) -> Result<Begun<'a>, KernelError> {
        let folder = self.folder.join(name);
        let made = fs::create_dir(&folder).and_then(|()| symlink(cgroup, folder.join(PLACE)));
        made.map_err(|error| KernelError::failed(format!("make {}", folder.display()))(&error))?;
        Ok(Begun { all: self, name: name.to_owned(), kept: false })
    }

    /// Loads and attaches; returns the number of changed connections.
    fn put(
        &self,
        begun: &Begun,
        cgroup: &Cgroup,
        processes: &[u32],
        policy: &Policy,
        asker: &Asker,
        persistent: bool,
    ) -> Result<usize, KernelError> {
        let folder = self.folder.join(&begun.name);
        let law = law(&policy.law)?;
        // The kernel keeps the law as long as this second pin exists, even if somebody unloads it.
        fs::hard_link(pins::path(&law), folder.join(LAW))
            .map_err(|error| KernelError::failed(format!("hold the law {law}"))(&error))?;
        let loaded = Loaded::pinned(&law, &folder.join(LAW))?;
        let config = Config {
            cgroup: cgroup.id(),
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            level: cgroup.level(),
            owner: asker.uid,
            persistent,
            dscp: policy.dscp,
            target_us: target_us(&policy.law),
            law,
            what: asker.what.clone(),
        };
        if let Some(receive) = &policy.receive {
            let directory = File::open(cgroup.directory()).map_err(|error| {
                KernelError::failed(format!("open {}", cgroup.directory().display()))(&error)
            })?;
            receive.pinned(&directory, &folder)?;
        }
        send::attach(&config, cgroup, processes, &folder, &self.folder.join(LEVELS), loaded.storage())
    }

    fn leftovers(&self) -> Vec<Leftover> {
        let list = self.list();
        let mut found = Vec::new();
        for name in names(&self.folder) {
            if list.iter().find(|one| one.name == name).is_none_or(Confinement::is_over) {
                found.push(Leftover::Confinement(name));
            }
        }
        let kept = |law: &String| {
            list.iter()
                .any(|one| one.law == *law && !found.contains(&Leftover::Confinement(one.name.clone())))
        };
        let laws = pins::names().unwrap_or_default();
        let unused = laws.into_iter().filter(|law| law.starts_with(OWN) && !kept(law)).map(Leftover::Law);
        let unused: Vec<Leftover> = unused.collect();
        found.extend(unused);
        found
    }

    /// Removes the leftovers of others; what cannot be removed stays for the next call.
    fn sweep(&self) {
        for leftover in self.leftovers() {
            let _ = self.remove_leftover(&leftover);
        }
    }

    fn remove_leftover(&self, leftover: &Leftover) -> Result<(), KernelError> {
        match leftover {
            Leftover::Confinement(name) => self.remove(name),
            Leftover::Law(name) => crate::unload(name),
            Leftover::Cgroup(path) => {
                let removed = Cgroup::open(path)?.remove();
                removed.map_err(|error| KernelError::failed(format!("remove /{}", path.display()))(&error))
            }
        }
    }

    fn remove(&self, name: &str) -> Result<(), KernelError> {
        let folder = self.folder.join(name);
        let place = fs::read_link(folder.join(PLACE)).unwrap_or_default();
        let made = place.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MADE));
        let failed = |what: &Path| KernelError::failed(format!("remove {}", what.display()));
        if made && let Ok(cgroup) = Cgroup::open(&place) {
            cgroup.remove().map_err(|error| failed(&place)(&error))?;
        }
        // Connections that outlive the cgroup's programs must not stay held back.
        Receive::unpin(&folder)?;
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&folder)(&error)),
            _ => {}
        }
        for leftover in self.leftovers() {
            if let Leftover::Law(law) = leftover {
                crate::unload(&law)?;
            }
        }
        Ok(())
    }
}

/// A confinement in the making; dropping it removes its parts.
struct Begun<'a> {
    all: &'a Locked,
    name: String,
    kept: bool,
}

impl Begun<'_> {
    fn keep(mut self) -> Result<Confinement, KernelError> {
        let whole = read(&self.all.folder, &self.name);
        self.kept = whole.is_some();
        whole.ok_or_else(|| KernelError::failed(format!("read {}", self.name))(&"its pins are not whole"))
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.all.remove(&self.name);
        }
    }
}

/// The name of the first that is not taken.
fn free(name: impl Fn(u32) -> String, taken: impl Fn(&str) -> bool) -> String {
    (1..).map(name).find(|name| !taken(name)).expect("numbers do not end")
}

/// The kernel's name of that law. The law is loaded if it is not loaded with these parameters.
fn law(spec: &LawSpec) -> Result<String, KernelError> {
    for name in pins::names()? {
        if Loaded::find(&name).is_ok_and(|loaded| loaded.spec == *spec && loaded.timestamps) {
            return Ok(name);
        }
    }
    let mut number = 1;
    loop {
        let name = match number {
            1 => format!("{OWN}{}", spec.name()),
            _ => format!("{OWN}{}_{number}", spec.name()),
        };
        let load = Load { name, ..Load::new(spec.clone()) };
        match load.pinned() {
            Ok(()) => return Ok(load.name),
            // The name is also taken while connections of an unloaded law with this name remain.
            Err(KernelError::Exists(_)) if number < 99 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The queuing delay that a law aims at in microseconds; 0: none; the largest one
/// (`LEEWAY_TARGET_ANY`): the law aims at none and yields to each queue beyond a threshold.
fn target_us(spec: &LawSpec) -> u32 {
    let duration = |name| spec.law().param(name).filter(|param| matches!(param.kind, ParamKind::Duration));
    match duration("target") {
        Some(target) => spec.raw(target),
        None if duration("threshold").is_some() => u32::MAX,
        None => 0,
    }
}

/// The folders of confinements, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn list(folder: &Path) -> Vec<Confinement> {
    names(folder).iter().filter_map(|name| read(folder, name)).collect()
}

/// A complete confinement.
fn read(all: &Path, name: &str) -> Option<Confinement> {
    let folder = all.join(name);
    let config = Config::pinned(&folder)?;
    Some(Confinement {
        name: name.to_owned(),
        cgroup: fs::read_link(folder.join(PLACE)).ok()?,
        spec: Loaded::pinned(&config.law, &folder.join(LAW)).ok().map(|loaded| loaded.spec),
        law: config.law,
        dscp: config.dscp,
        receive: Receiving::find(&folder).ok().flatten().map(|receiving| receiving.spec().clone()),
        persistent: config.persistent,
        asker: Asker { uid: config.owner, what: config.what },
        started_unix_s: config.started_unix_s,
        id: config.cgroup,
        folder,
    })
}
