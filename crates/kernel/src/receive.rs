//! Control from the receiver: a law holds back what the programs of a cgroup download, by the window that their
//! connections announce. All connections of the cgroup share one law and one window; `docs/receive.md` has the rest.

use crate::error::KernelError;
use crate::inspect::iterate;
use crate::libbpf::{quietly, refused};
use crate::load::read_events;
use crate::machine;
use crate::shared::{Bytes, CONFIG_BYTES, Config, Record, address};
use leeway_control::{LawSpec, Output};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));
/// The laws that can drive a window from the receiver.
const LAWS: [&str; 2] = ["ledbatpp", "ledbat"];
const BUDGET: &str = "leeway_budgets";
const CONNECTIONS: &str = "leeway_received";
const EVENTS: &str = "leeway_events";
const RELEASE: &str = "leeway_release_all";
/// Pins in the folder that a caller names; the links come last.
const PIN_BUDGET: &str = "receive_budget";
const PIN_CONNECTIONS: &str = "receive_connections";
const PIN_CONFIG: &str = "receive_config";
const PIN_LINKS: [&str; 2] = ["receive_arrivals", "receive_windows"];

/// What holds downloads back.
#[derive(Clone, Debug)]
pub struct Receive {
    spec: LawSpec,
}

impl Receive {
    /// The law that does best: yields within a second or two, and is back as fast. `docs/receive.md` has the figures.
    pub const DEFAULT_LAW: &str = "ledbat:target=25ms,gain_down=10,floor=1";

    /// Under that law with its parameters: `ledbatpp` or `ledbat`.
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

    /// Holds a cgroup of version 2 (an open directory) back for as long as the result lives: connections that begin
    /// from now on, beside whatever other programs the cgroup has.
    ///
    /// # Errors
    /// Rights, BTF, a verifier that refuses, something that is not a cgroup.
    pub fn attach(&self, cgroup: impl AsFd) -> Result<Receiving, KernelError> {
        self.start(cgroup, false).map(|started| started.receiving)
    }

    /// The same until [`Receive::unpin`], whatever happens to this process. The folder has to be there, in a BPF file
    /// system.
    ///
    /// # Errors
    /// Those of [`Receive::attach`], and the file system's.
    pub fn pinned(&self, cgroup: impl AsFd, folder: &Path) -> Result<(), KernelError> {
        let mut started = self.start(cgroup, false)?;
        let pinned = started.pin(folder);
        if pinned.is_err() {
            let _ = Receive::unpin(folder);
        }
        // What is pinned goes on without us.
        started.receiving.links.clear();
        pinned
    }

    /// Takes back what [`Receive::pinned`] did in that folder, and frees the connections. The folder stays.
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

    /// As [`Receive::attach`], and every event that the law hears of is recorded.
    ///
    /// # Errors
    /// Those of [`Receive::attach`].
    pub fn recorded(&self, cgroup: impl AsFd) -> Result<ReceiveRecording, KernelError> {
        self.start(cgroup, true).map(ReceiveRecording)
    }

    fn start(&self, cgroup: impl AsFd, record: bool) -> Result<Started, KernelError> {
        machine::check_btf(&machine::btf_path())?;
        quietly(|| {
            let load = |open: OpenObject| {
                open.load().map_err(|error| refused(self.spec.name(), "load the programs", &error))
            };
            let object = self.open(record).and_then(load)?;
            let cgroup = cgroup.as_fd().as_raw_fd();
            let attach = |program: &str| {
                let program = object.progs_mut().find(|one| one.name() == program);
                let program = program.expect("the programs have names that are known here");
                program.attach_cgroup(cgroup).map_err(KernelError::bpf("attach to the cgroup"))
            };
            // Those that measure first: a window without measurement would stay as it is.
            let links = vec![attach(&format!("{}_arrivals", self.spec.name()))?, attach("leeway_windows")?];
            let receiving = Receiving {
                spec: self.spec.clone(),
                budget: map_of(&object, BUDGET)?,
                connections: map_of(&object, CONNECTIONS)?,
                links,
            };
            Ok(Started { receiving, object })
        })
    }

    fn open(&self, record: bool) -> Result<OpenObject, KernelError> {
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
            } else if map.name() == EVENTS && !record {
                // The programs name it, so it has to be there; a page is the least.
                map.set_max_entries(4096).map_err(KernelError::bpf("shrink the ring buffer"))?;
            }
        }
        let arrivals = format!("{}_arrivals", self.spec.name());
        for mut program in open.progs_mut() {
            let ours = program.name() == "leeway_windows" || program.name() == arrivals.as_str();
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
    /// What [`Receive::pinned`] left in that folder; none where nothing is there.
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

    /// Lets the connections announce what their buffers take again. The kernel keeps a clamp for as long as a connection
    /// lives, so somebody has to lift it when the programs are gone.
    fn release(&self) -> Result<(), KernelError> {
        let doing = "free the connections";
        let wanted: BTreeSet<u64> = self.connections()?.iter().map(|one| u64::from(one.netns)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let object = quietly(|| self.releaser()).map_err(KernelError::bpf(doing))?;
        let program = object.progs_mut().find(|one| one.name() == RELEASE).expect("the program was kept");
        for namespace in namespaces(&wanted) {
            let link = program.attach().map_err(KernelError::bpf(doing))?;
            thread::scope(|scope| {
                let work = || -> Result<(), KernelError> {
                    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                        .map_err(|error| KernelError::failed("enter a network namespace")(&error))?;
                    let mut iterator = Iter::new(&link).map_err(KernelError::bpf(doing))?;
                    iterator.read_to_end(&mut Vec::new()).map_err(|e| KernelError::failed(doing)(&e))?;
                    Ok(())
                };
                scope.spawn(work).join().expect("an iterator does not panic")
            })?;
        }
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

    /// Every connection that is held back, of all network namespaces.
    ///
    /// # Errors
    /// Rights; a kernel without the iterator over socket storage (before 5.9).
    pub fn connections(&self) -> Result<Vec<Received>, KernelError> {
        let bytes = iterate("leeway_receivers", &self.connections)?;
        Ok(bytes.chunks_exact(Received::BYTES).filter_map(Received::read).collect())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        // One that was pinned or found goes on; of one that was held, nothing may stay.
        if !self.links.is_empty() {
            self.links.clear();
            let _ = self.release();
        }
    }
}

/// Those network namespaces, by their inode numbers, as far as some process is in them or `ip netns` names them.
fn namespaces(wanted: &BTreeSet<u64>) -> Vec<File> {
    let entries = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = entries("/proc").map(|entry| entry.path().join("ns/net"));
    let mut found = BTreeMap::new();
    for path in processes.chain(entries("/run/netns").map(|entry| entry.path())) {
        // One that has just ended has none.
        if let Ok(namespace) = File::open(path)
            && let Ok(inode) = namespace.metadata().map(|metadata| metadata.ino())
            && wanted.contains(&inode)
        {
            found.entry(inode).or_insert(namespace);
        }
    }
    found.into_values().collect()
}

/// What all connections of a cgroup share.
#[derive(Clone, Debug)]
pub struct Budget {
    /// What all of them together may have in flight, in bytes.
    pub window_bytes: u64,
    /// Received since the beginning, in bytes.
    pub received_bytes: u64,
    /// Connections that received something lately.
    pub active: u32,
    /// Those of them whose sender was limited by the window.
    pub hungry: u32,
    /// Smoothed round-trip time in microseconds, of all connections.
    pub srtt_us: u32,
    /// The smallest one.
    pub min_rtt_us: u32,
    /// What the law decided, and its estimate of the queuing delay. Zeros before the first packet.
    pub output: Output,
}

impl Budget {
    fn read(from: &[u8]) -> Option<Budget> {
        let mut bytes = Bytes(from);
        bytes.take(8)?;
        let window_bytes = bytes.u64()?;
        bytes.take(16)?;
        let received_bytes = bytes.u64()?;
        bytes.take(16 + 4)?;
        let [active, active_coming, hungry, hungry_coming] =
            [bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?];
        let (srtt_us, min_rtt_us) = (bytes.u32()?, bytes.u32()?);
        bytes.take(12)?;
        Some(Budget {
            window_bytes,
            received_bytes,
            active: active.max(active_coming),
            hungry: hungry.max(hungry_coming),
            srtt_us,
            min_rtt_us,
            output: bytes.output()?,
        })
    }
}

/// One connection that is held back.
#[derive(Clone, Debug)]
pub struct Received {
    /// This end; the address of the network namespace it lives in.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// The largest segment seen, in bytes.
    pub segment_bytes: u16,
    /// Its share: what it may have in flight, in bytes.
    pub window_bytes: u32,
    /// What is announced and has not arrived yet, in bytes; above the share while an earlier announcement is used up.
    pub announced_bytes: u32,
    /// Queuing delay of the last packet, in microseconds.
    pub queuing_us: u32,
    /// The last round-trip time, in microseconds; 0: none yet.
    pub rtt_us: u32,
    /// The window is what limits the sender.
    pub hungry: bool,
    /// Delays come from TCP timestamps; otherwise from round-trip times.
    pub timestamps: bool,
    /// Received in sequence, in bytes.
    pub received_bytes: u64,
}

impl Received {
    /// Bytes of `struct leeway_received`.
    const BYTES: usize = 72;

    fn read(from: &[u8]) -> Option<Received> {
        let mut bytes = Bytes(from);
        let (local, remote) = (bytes.take(16)?, bytes.take(16)?);
        let family = bytes.u16()?;
        let (local_port, remote_port) = (bytes.u16()?, u16::from_be(bytes.u16()?));
        let segment_bytes = bytes.u16()?;
        let netns = bytes.u32()?;
        let (window_bytes, announced_bytes) = (bytes.u32()?, bytes.u32()?);
        let (queuing_us, rtt_us) = (bytes.u32()?, bytes.u32()?);
        let (hungry, timestamps) = (bytes.u8()? != 0, bytes.u8()? != 0);
        bytes.take(2)?;
        Some(Received {
            local: SocketAddr::new(address(family, local)?, local_port),
            remote: SocketAddr::new(address(family, remote)?, remote_port),
            netns,
            segment_bytes,
            window_bytes,
            announced_bytes,
            queuing_us,
            rtt_us,
            hungry,
            timestamps,
            received_bytes: bytes.u64()?,
        })
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
    /// What [`Receive::attach`] would have given.
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
