//! Loaded laws and their sockets, as the kernel lists them.

use crate::error::KernelError;
use crate::shared::{Config, Socket};
use crate::visit::{in_namespaces, namespaces};
use crate::{libbpf, pins};
use leeway_control::LawSpec;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder};
use std::os::fd::AsFd;
use std::path::Path;

static ITERATOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));

/// One loaded law.
#[derive(Debug)]
pub struct Loaded {
    /// The kernel's name for the law.
    pub name: String,
    /// The law with its parameters.
    pub spec: LawSpec,
    /// Seconds since 1970 at which it was loaded.
    pub loaded_unix_s: u64,
    /// Whether one-way delays are taken from TCP timestamps.
    pub timestamps: bool,
    /// The socket storage with the law's state.
    sockets: MapHandle,
    /// The identifiers of its programs.
    programs: Vec<u32>,
}

/// The hooks that the laws have programs for; the kernel cuts the names of programs at 15
/// characters.
const HOOKS: [&str; 7] =
    ["init", "release", "ssthresh", "set_state", "cwnd_event", "undo_cwnd", "cong_control"];

/// What one program of a law has cost since it was loaded, where the kernel counts
/// (`sysctl kernel.bpf_stats_enabled=1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The hook it serves: `cong_control`, `set_state`, ...
    pub hook: &'static str,
    /// Number of runs.
    pub runs: u64,
    /// Total run time.
    pub run_time_ns: u64,
    /// Instructions that the verifier walked before it accepted the program, which is the cost of
    /// loading.
    pub verified_insns: u32,
}

/// The names of all loaded laws, sorted; laws of other versions of leeway included.
///
/// # Errors
/// Rights.
pub fn names() -> Result<Vec<String>, KernelError> {
    pins::names()
}

impl Loaded {
    /// The law loaded under that name.
    ///
    /// # Errors
    /// [`KernelError::Unknown`]; rights.
    pub fn find(name: &str) -> Result<Loaded, KernelError> {
        let known = pins::names()?;
        if !known.iter().any(|one| one == name) {
            return Err(KernelError::unknown(name, &known));
        }
        Self::pinned(name, &pins::path(name))
    }

    /// The law of that name, which is pinned there.
    pub(crate) fn pinned(name: &str, path: &Path) -> Result<Loaded, KernelError> {
        libbpf::quietly(|| {
            let link = Link::open(path).map_err(KernelError::bpf(format!("open {name}")))?;
            let info = link.info().map_err(KernelError::bpf(format!("look at {name}")))?;
            let LinkTypeInfo::StructOps(ops) = info.info else {
                return Err(KernelError::failed(format!("read {name}"))(&"it is not a congestion control"));
            };
            Self::of_struct_ops(name, ops.map_id)
        })
    }

    /// The programs of a struct_ops use its map, which leads from the link to the other maps.
    fn of_struct_ops(name: &str, map_id: u32) -> Result<Loaded, KernelError> {
        let doing = || KernelError::bpf(format!("read the maps of {name}"));
        let ops = MapHandle::from_map_id(map_id).map_err(doing())?;
        let value = ops.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).map_err(doing())?.unwrap_or_default();
        // The kernel shows the identifiers of the programs where their addresses are.
        let ids: Vec<u64> = value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let programs: Vec<_> = ProgInfoIter::with_query_opts(options)
            .filter(|program| ids.contains(&u64::from(program.id)))
            .collect();
        let (mut config, mut sockets) = (None, None);
        for id in programs.iter().flat_map(|program| &program.map_ids) {
            let Ok(map) = MapHandle::from_map_id(*id) else { continue };
            if map.name() == ".rodata.config" {
                let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).map_err(doing())?;
                config = bytes.as_deref().and_then(Config::read);
            } else if map.map_type() == MapType::SkStorage {
                sockets = Some(map);
            }
        }
        let other = || KernelError::failed(format!("read {name}"))(&"another version of leeway loaded it");
        let (config, sockets) = (config.ok_or_else(other)?, sockets.ok_or_else(other)?);
        let spec: LawSpec = config.spec.parse().map_err(|_| other())?;
        if !config.params.starts_with(spec.words()) {
            return Err(other());
        }
        Ok(Loaded {
            name: name.to_owned(),
            spec,
            loaded_unix_s: config.loaded_unix_s,
            timestamps: !config.timestamps_off,
            sockets,
            programs: programs.iter().map(|program| program.id).collect(),
        })
    }

    /// The socket storage with the law's state.
    pub(crate) fn storage(&self) -> &MapHandle {
        &self.sockets
    }

    /// The cost of its programs.
    pub fn costs(&self) -> Vec<Cost> {
        ProgInfoIter::default()
            .filter(|program| self.programs.contains(&program.id))
            .map(|program| {
                let name = program.name.to_string_lossy();
                let begin = name.split_once('_').map_or(&*name, |(_, begin)| begin);
                let hook = HOOKS.into_iter().find(|hook| hook.starts_with(begin)).unwrap_or("another");
                Cost {
                    hook,
                    runs: program.run_cnt,
                    run_time_ns: program.run_time_ns,
                    verified_insns: program.verified_insns,
                }
            })
            .collect()
    }

    /// The sockets under this law, in every network namespace that a process is in or `ip netns`
    /// names.
    ///
    /// # Errors
    /// Rights.
    pub fn sockets(&self) -> Result<Vec<Socket>, KernelError> {
        let bytes = iterate("leeway_list_senders", "leeway_senders", &self.sockets)?;
        Ok(bytes.chunks_exact(Socket::BYTES).filter_map(Socket::read).collect())
    }
}

/// What an iterator writes of the sockets that have something in `storage`, which takes the place
/// of `map`.
pub(crate) fn iterate(program: &str, map: &str, storage: &MapHandle) -> Result<Vec<u8>, KernelError> {
    let doing = || KernelError::bpf("list the sockets");
    libbpf::quietly(|| {
        let mut open = ObjectBuilder::default().open_memory(ITERATOR).map_err(doing())?;
        for mut one in open.progs_mut() {
            let wanted = one.name() == program;
            one.set_autoload(wanted);
        }
        for mut one in open.maps_mut().filter(|one| one.name() != map) {
            one.set_autocreate(false).map_err(doing())?;
        }
        let mut place = open.maps_mut().find(|one| one.name() == map).expect("a map of this name");
        place.reuse_fd(storage.as_fd()).map_err(doing())?;
        let object = open.load().map_err(doing())?;
        in_namespaces(&object, program, &namespaces(|_| true))
    })
}
