//! What is loaded, and the sockets it drives: asked of the kernel, which is the only one to know.

use crate::error::KernelError;
use crate::shared::{Config, Socket};
use crate::{ffi, pins};
use leeway_control::LawSpec;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, MapType, ObjectBuilder};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

static ITERATOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));

/// One loaded law.
#[derive(Debug)]
pub struct Loaded {
    /// The kernel's name for it.
    pub name: String,
    /// The law with its parameters.
    pub spec: LawSpec,
    /// Seconds since 1970 at which it was loaded.
    pub loaded_unix_s: u64,
    /// One-way delays are taken from TCP timestamps.
    pub timestamps: bool,
    /// The socket storage with the law's state.
    sockets: MapHandle,
}

/// Every law that is loaded, by name.
///
/// # Errors
/// Rights; a pin that is not ours.
pub fn loaded() -> Result<Vec<Loaded>, KernelError> {
    pins::names()?.iter().map(|name| Loaded::find(name)).collect()
}

impl Loaded {
    /// The law loaded under that name.
    ///
    /// # Errors
    /// [`KernelError::Unknown`]; rights.
    pub fn find(name: &str) -> Result<Loaded, KernelError> {
        let known = pins::names()?;
        if !known.iter().any(|one| one == name) {
            let loaded = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return Err(KernelError::Unknown { name: name.to_owned(), loaded });
        }
        Self::pinned(name, &pins::path(name))
    }

    /// The law of that name, which is pinned there.
    pub(crate) fn pinned(name: &str, path: &Path) -> Result<Loaded, KernelError> {
        let link = Link::open(path).map_err(KernelError::bpf(format!("open {name}")))?;
        let info = link.info().map_err(KernelError::bpf(format!("look at {name}")))?;
        let LinkTypeInfo::StructOps(ops) = info.info else {
            return Err(KernelError::failed(format!("read {name}"))(&"it is not a congestion control"));
        };
        Self::of_struct_ops(name, ops.map_id)
    }

    /// The programs of a struct_ops use its map, which leads from the link to the other maps.
    fn of_struct_ops(name: &str, map_id: u32) -> Result<Loaded, KernelError> {
        let doing = || KernelError::bpf(format!("read the maps of {name}"));
        let ops = MapHandle::from_map_id(map_id).map_err(doing())?;
        let value = ops.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).map_err(doing())?.unwrap_or_default();
        // The kernel shows the identifiers of the programs where their addresses are.
        let ids: Vec<u64> = value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        for program in ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true)) {
            if !ids.contains(&u64::from(program.id)) {
                continue;
            }
            let maps: Vec<MapHandle> =
                program.map_ids.iter().filter_map(|&id| MapHandle::from_map_id(id).ok()).collect();
            let config = maps.iter().find(|map| map.name() == ".rodata.config");
            let sockets = maps.iter().position(|map| map.map_type() == MapType::SkStorage);
            if let (Some(config), Some(sockets)) = (config, sockets) {
                let bytes = config.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).map_err(doing())?;
                let config = bytes.as_deref().and_then(Config::read);
                let mut maps = maps;
                return Self::of_config(name, config, maps.swap_remove(sockets));
            }
        }
        Err(KernelError::failed(format!("read {name}"))(&"it was not loaded by this version of leeway"))
    }

    fn of_config(name: &str, config: Option<Config>, sockets: MapHandle) -> Result<Loaded, KernelError> {
        let other = || KernelError::failed(format!("read {name}"))(&"another version of leeway loaded it");
        let config = config.ok_or_else(other)?;
        let spec: LawSpec = config.spec.parse()?;
        let params = ffi::params(&spec);
        if !config.params.starts_with(&params) {
            return Err(other());
        }
        Ok(Loaded {
            name: name.to_owned(),
            spec,
            loaded_unix_s: config.loaded_unix_s,
            timestamps: !config.timestamps_off,
            sockets,
        })
    }

    /// The sockets it drives now, of every network namespace.
    ///
    /// # Errors
    /// Rights; a kernel without the iterator over socket storage (before 5.9).
    pub fn sockets(&self) -> Result<Vec<Socket>, KernelError> {
        let bytes = iterate("leeway_sockets", &self.sockets)?;
        Ok(bytes.chunks_exact(Socket::BYTES).filter_map(Socket::read).collect())
    }
}

/// What an iterator writes of a map of socket storage.
pub(crate) fn iterate(program: &str, storage: &MapHandle) -> Result<Vec<u8>, KernelError> {
    let doing = || KernelError::bpf("list the sockets");
    let mut open = ObjectBuilder::default().open_memory(ITERATOR).map_err(doing())?;
    for mut one in open.progs_mut() {
        let wanted = one.name() == program;
        one.set_autoload(wanted);
    }
    let object = open.load().map_err(doing())?;
    let one = object.progs_mut().find(|one| one.name() == program).expect("an iterator of this name");
    let link = one.attach_iter(storage.as_fd()).map_err(doing())?;
    let mut bytes = Vec::new();
    let mut iterator = Iter::new(&link).map_err(doing())?;
    iterator.read_to_end(&mut bytes).map_err(|error| KernelError::failed("list the sockets")(&error))?;
    Ok(bytes)
}
