//! Control from the receiver: a law holds back what the programs of a cgroup download, by the
//! window that their connections announce. All connections of the cgroup share one law and one
//! window; `docs/receive.md` has the rest.

mod state;

pub use state::{Budget, Received};

use crate::error::KernelError;
use crate::inspect::iterate;
use crate::libbpf::{quietly, refused};
use crate::load::read_events;
use crate::machine;
use crate::shared::{CONFIG_BYTES, Config, Record};
use crate::visit::{in_namespaces, namespaces, namespaces_of};
use leeway_control::LawSpec;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));
/// The laws that can drive a window from the receiver.
const LAWS: [&str; 3] = ["ledbatpp", "ledbat", "ebb"];
const BUDGET: &str = "leeway_budgets";
const CONNECTIONS: &str = "leeway_received";
const EVENTS: &str = "leeway_events";
const ADOPT: &str = "leeway_adopt_all";
const RELEASE: &str = "leeway_release_all";
/// Pins in the folder that a caller names; the links come last.
const PIN_BUDGET: &str = "receive_budget";
const PIN_CONNECTIONS: &str = "receive_connections";
const PIN_CONFIG: &str = "receive_config";
const PIN_LINKS: [&str; 2] = ["receive_arrivals", "receive_windows"];

/// A law that holds downloads back.
#[derive(Clone, Debug)]
pub struct Receive {
    spec: LawSpec,
}

impl Receive {
    /// The law that did best in `docs/receive.md`: it yields within a second and is back within
    /// two, and below one segment it leaves nearly everything to others.
    pub const DEFAULT_LAW: &str = "ledbat:target=25ms,gain_up=4,gain_down=10,floor=0.2";

    /// Under that law with its parameters: `ledbatpp`, `ledbat` or `ebb`.
    ///
    /// # Errors
    /// [`KernelError::NotForReceivers`] for another law.
    pub fn new(spec: LawSpec) -> Result<Receive, KernelError> {
        match LAWS.contains(&spec.name()) {
            true => Ok(Receive { spec }),
            false => Err(KernelError::NotForReceivers(spec.name())),
        }
    }

    /// The law.
    pub fn spec(&self) -> &LawSpec {
        &self.spec
    }

    /// Holds the downloads of a cgroup of version 2 (an open directory) back while the result
    /// lives, beside the other programs of the cgroup. Present connections first use up what they
    /// have announced.
    ///
    /// # Errors
    /// Rights, BTF, a verifier that refuses, something that is not a cgroup.
    pub fn attach(&self, cgroup: impl AsFd) -> Result<Receiving, KernelError> {
        self.start(cgroup, false).map(|started| started.receiving)
    }

    /// The same until [`Receive::unpin`], whatever happens to this process. The folder has to
    /// exist in a BPF file system.
    ///
    /// # Errors
    /// Those of [`Receive::attach`], and the file system's.
    pub fn pinned(&self, cgroup: impl AsFd, folder: &Path) -> Result<(), KernelError> {
        let mut started = self.start(cgroup, false)?;
        let pinned = started.pin(folder);
        if pinned.is_err() {
            let _ = Receive::unpin(folder);
        }
        // The pinned programs run without this process.
        started.receiving.links.clear();
        pinned
    }

    /// Takes back what [`Receive::pinned`] did in that folder, and frees the connections. The
    /// folder stays.
    ///
    /// # Errors
    /// The file system's; rights.
    pub fn unpin(folder: &Path) -> Result<(), KernelError> {
        let found = Receiving::find(folder);
        for name in PIN_LINKS.iter().rev().chain(&[PIN_CONFIG, PIN_BUDGET, PIN_CONNECTIONS]) {
            let path = folder.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(KernelError::failed(format!("remove {}", path.display()))(&error));
                }
                _ => {}
            }
        }
        found?.map_or(Ok(()), |receiving| receiving.release())
    }

    /// As [`Receive::attach`], and records every event of the law.
    ///
    /// # Errors
    /// Those of [`Receive::attach`].
    pub fn recorded(&self, cgroup: impl AsFd) -> Result<ReceiveRecording, KernelError> {
        self.start(cgroup, true).map(ReceiveRecording)
    }

    fn start(&self, cgroup: impl AsFd, record: bool) -> Result<Started, KernelError> {
        machine::check_btf(&machine::btf_path())?;
        let cgroup = cgroup.as_fd().as_raw_fd();
        let directory = PathBuf::from(format!("/proc/self/fd/{cgroup}"));
        let number = std::fs::metadata(&directory).map(|metadata| metadata.ino());
        let number = number.map_err(|error| KernelError::failed("look at the cgroup")(&error))?;
        quietly(|| {
            let load = |open: OpenObject| {
                open.load().map_err(|error| refused(self.spec.name(), "load the programs", &error))
            };
            let object = self.open(number, record).and_then(load)?;
            let attach = |program: &str| {
                let program = object.progs_mut().find(|one| one.name() == program);
                let program = program.expect("the programs have names that are known here");
                program.attach_cgroup(cgroup).map_err(KernelError::bpf("attach to the cgroup"))
            };
            // The measuring programs come first: without measurements the window would stay as it
            // is.
            let links = vec![attach(&format!("{}_arrivals", self.spec.name()))?, attach("leeway_windows")?];
            let receiving = Receiving {
                spec: self.spec.clone(),
                budget: map_of(&object, BUDGET)?,
                connections: map_of(&object, CONNECTIONS)?,
                links,
            };
            // A namespace that cannot be entered keeps its old connections as they are.
            let _ = in_namespaces(&object, ADOPT, &namespaces_of(&directory));
            Ok(Started { receiving, object })
        })
    }

    /// `struct leeway_base_config`: the law's parameters, or RFC 6817, 2.4.2, where it has none.
    fn base(&self) -> [u32; 3] {
        let of = |name, other| self.spec.law().param(name).map_or(other, |param| self.spec.raw(param));
        [of("base_history", 10), of("base_interval", 60_000_000), of("skew", 0)]
    }

    fn open(&self, cgroup: u64, record: bool) -> Result<OpenObject, KernelError> {
        let config = Config {
            loaded_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            timestamps_off: false,
            record,
            params: self.spec.words().to_vec(),
            spec: self.spec.to_string(),
        };
        let mut builder = ObjectBuilder::default();
        builder.name("leeway_receive").map_err(KernelError::bpf("name the programs"))?;
        let mut open = builder.open_memory(PROGRAMS).map_err(KernelError::bpf("open the programs"))?;
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.config" {
                let data = map.initial_value_mut().filter(|data| data.len() == CONFIG_BYTES);
                config.write(data.expect("the configuration is as large as the programs think"));
            } else if map.name() == ".rodata.base" {
                let data = map.initial_value_mut().filter(|data| data.len() == 3 * size_of::<u32>());
                let words = data.expect("three numbers").as_chunks_mut::<4>().0;
                for (word, to) in self.base().into_iter().zip(words) {
                    *to = word.to_ne_bytes();
                }
            } else if map.name() == ".rodata.cgroup" {
                let data = map.initial_value_mut().filter(|data| data.len() == size_of::<u64>());
                data.expect("one number").copy_from_slice(&cgroup.to_ne_bytes());
            } else if map.name() == EVENTS && !record {
                // The programs name this map, so it has to exist; one page is the smallest size.
                map.set_max_entries(4096).map_err(KernelError::bpf("shrink the ring buffer"))?;
            }
        }
        let arrivals = format!("{}_arrivals", self.spec.name());
        for mut program in open.progs_mut() {
            let ours = program.name() == "leeway_windows" || program.name() == ADOPT;
            let ours = ours || program.name() == arrivals.as_str();
            program.set_autoload(ours);
        }
        Ok(open)
    }
}

/// A cgroup that is held back; dropping it frees the connections, unless it was found pinned.
pub struct Receiving {
    spec: LawSpec,
    budget: MapHandle,
    connections: MapHandle,
    links: Vec<Link>,
}

impl Receiving {
    /// The pins of [`Receive::pinned`] in that folder; `None` if there are none.
    ///
    /// # Errors
    /// Rights; pins of another version of leeway.
    pub fn find(folder: &Path) -> Result<Option<Receiving>, KernelError> {
        if !folder.join(PIN_LINKS[1]).exists() {
            return Ok(None);
        }
        let doing = || format!("read {}", folder.display());
        let map =
            |name: &str| MapHandle::from_pinned_path(folder.join(name)).map_err(KernelError::bpf(doing()));
        let config = map(PIN_CONFIG)?.lookup(&0u32.to_ne_bytes(), MapFlags::empty());
        let config = config.map_err(KernelError::bpf(doing()))?.as_deref().and_then(Config::read);
        let config =
            config.ok_or_else(|| KernelError::failed(doing())(&"another version of leeway wrote it"))?;
        let (budget, connections) = (map(PIN_BUDGET)?, map(PIN_CONNECTIONS)?);
        Ok(Some(Receiving { spec: config.spec.parse()?, budget, connections, links: Vec::new() }))
    }

    /// Lets the connections announce as much as their buffers hold again. The kernel keeps a clamp
    /// as long as a connection lives, so this has to lift it when the programs are gone.
    fn release(&self) -> Result<(), KernelError> {
        let wanted: BTreeSet<u64> = self.connections()?.iter().map(|one| u64::from(one.netns)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let object = quietly(|| self.releaser()).map_err(KernelError::bpf("free the connections"))?;
        in_namespaces(&object, RELEASE, &namespaces(|inode| wanted.contains(&inode)))?;
        Ok(())
    }

    /// The iterator that lifts clamps, over our connections.
    fn releaser(&self) -> libbpf_rs::Result<Object> {
        let mut open = ObjectBuilder::default().open_memory(PROGRAMS)?;
        for mut map in open.maps_mut() {
            if map.name() == CONNECTIONS {
                map.reuse_fd(self.connections.as_fd())?;
            } else {
                map.set_autocreate(false)?;
            }
        }
        for mut program in open.progs_mut() {
            let wanted = program.name() == RELEASE;
            program.set_autoload(wanted);
        }
        open.load()
    }

    /// The law.
    pub fn spec(&self) -> &LawSpec {
        &self.spec
    }

    /// What all connections share.
    ///
    /// # Errors
    /// Rights.
    pub fn budget(&self) -> Result<Budget, KernelError> {
        let value = self.budget.lookup(&0u32.to_ne_bytes(), MapFlags::empty());
        let value = value.map_err(KernelError::bpf("read the budget"))?.unwrap_or_default();
        let other = || KernelError::failed("read the budget")(&"another version of leeway wrote it");
        Budget::read(&value).ok_or_else(other)
    }

    /// Every connection that is held back, in every network namespace that a process is in or
    /// `ip netns` names.
    ///
    /// # Errors
    /// Rights.
    pub fn connections(&self) -> Result<Vec<Received>, KernelError> {
        let bytes = iterate("leeway_list_receivers", "leeway_receivers", &self.connections)?;
        Ok(bytes.chunks_exact(Received::BYTES).filter_map(Received::read).collect())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // A pinned or found one goes on; of a held one, nothing may stay.
        if !self.links.is_empty() {
            self.links.clear();
            let _ = self.release();
        }
    }
}

/// A cgroup that is held back, with the object that its programs come from.
struct Started {
    receiving: Receiving,
    object: Object,
}

impl Started {
    fn pin(&mut self, folder: &Path) -> Result<(), KernelError> {
        let doing = |name: &str| KernelError::bpf(format!("pin {}", folder.join(name).display()));
        for mut map in self.object.maps_mut() {
            let name = match map.name().to_str() {
                Some(BUDGET) => PIN_BUDGET,
                Some(CONNECTIONS) => PIN_CONNECTIONS,
                Some(".rodata.config") => PIN_CONFIG,
                _ => continue,
            };
            map.pin(folder.join(name)).map_err(doing(name))?;
        }
        for (link, name) in self.receiving.links.iter_mut().zip(PIN_LINKS) {
            link.pin(folder.join(name)).map_err(doing(name))?;
        }
        Ok(())
    }
}

/// A cgroup that is held back, with every event recorded.
pub struct ReceiveRecording(Started);

impl ReceiveRecording {
    /// The result that [`Receive::attach`] would return.
    pub fn receiving(&self) -> &Receiving {
        &self.0.receiving
    }

    /// Waits for events, `patience` at most, and visits those that came.
    ///
    /// # Errors
    /// The ring buffer's.
    pub fn read(&self, patience: Duration, visit: impl FnMut(Record)) -> Result<(), KernelError> {
        read_events(&self.0.object, patience, visit)
    }
}

fn map_of(object: &Object, name: &str) -> Result<MapHandle, KernelError> {
    let map = object.maps().find(|map| map.name() == name).expect("the programs have this map");
    MapHandle::try_from(&map).map_err(KernelError::bpf(format!("open {name}")))
}
