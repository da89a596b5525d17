//! The programs of a cgroup that put its sockets under a law and mark its packets.

use crate::cgroup::Cgroup;
use crate::devices;
use crate::error::KernelError;
use crate::shared::Bytes;
use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o"));
/// The iterator over present connections.
const RUNNING: &str = "leeway_running";
/// The program at devices. All other programs are attached to the cgroup.
const PACKETS: &str = "leeway_packets";
const LAW_MAX: usize = 16;
const WHAT_MAX: usize = 64;
/// Bytes of `struct leeway_send`.
const CONFIG_BYTES: usize = 40 + LAW_MAX + WHAT_MAX;

/// The mark of packets: a codepoint of differentiated services (RFC 2474).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// Lower effort: every router may prefer other packets (RFC 8622).
    pub const LE: Dscp = Dscp(1);

    /// The codepoint, 0 to 63.
    pub fn codepoint(self) -> u8 {
        self.0
    }
}

/// Not a codepoint.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a DSCP: le, or a number from 0 to 63")]
pub struct DscpError(String);

impl FromStr for Dscp {
    type Err = DscpError;

    fn from_str(text: &str) -> Result<Dscp, DscpError> {
        let number = if text.eq_ignore_ascii_case("le") { Some(1) } else { text.parse().ok() };
        number.filter(|number| *number < 64).map(Dscp).ok_or_else(|| DscpError(text.to_owned()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Dscp::LE { f.write_str("le") } else { self.0.fmt(f) }
    }
}

/// `struct leeway_send`.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub cgroup: u64,
    pub started_unix_s: u64,
    pub level: u32,
    pub owner: u32,
    pub persistent: bool,
    pub dscp: Option<Dscp>,
    /// Queuing delay that the law aims at in microseconds, or `LEEWAY_TARGET_ANY`; 0: none.
    pub target_us: u32,
    pub law: String,
    pub what: String,
}

impl Config {
    fn write(&self, to: &mut [u8]) {
        to.fill(0);
        to[..8].copy_from_slice(&self.cgroup.to_ne_bytes());
        to[8..16].copy_from_slice(&self.started_unix_s.to_ne_bytes());
        let tos = self.dscp.map_or(0, |dscp| u32::from(dscp.0) << 2);
        let (persistent, mark) = (u32::from(self.persistent), u32::from(self.dscp.is_some()));
        let words = [self.level, self.owner, persistent, mark, tos, self.target_us];
        for (word, at) in words.iter().zip(to[16..].as_chunks_mut::<4>().0) {
            *at = word.to_ne_bytes();
        }
        to[40..][..self.law.len()].copy_from_slice(self.law.as_bytes());
        // Users choose this text, and others read it on their terminals.
        let what: String = self.what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut end = what.len().min(WHAT_MAX - 1);
        while !what.is_char_boundary(end) {
            end -= 1;
        }
        to[40 + LAW_MAX..][..end].copy_from_slice(&what.as_bytes()[..end]);
    }

    fn read(from: &[u8]) -> Option<Config> {
        let mut bytes = Bytes(from);
        let (cgroup, started_unix_s) = (bytes.u64()?, bytes.u64()?);
        let (level, owner, persistent) = (bytes.u32()?, bytes.u32()?, bytes.u32()? != 0);
        let (mark, tos, target_us) = (bytes.u32()? != 0, bytes.u32()?, bytes.u32()?);
        let mut text = |most: usize| {
            let text = bytes.take(most)?.split(|&byte| byte == 0).next()?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let (law, what) = (text(LAW_MAX)?, text(WHAT_MAX)?);
        let dscp = mark.then_some(Dscp((tos >> 2) as u8));
        Some(Config { cgroup, started_unix_s, level, owner, persistent, dscp, target_us, law, what })
    }

    /// The pins of [`attach`].
    pub fn pinned(folder: &Path) -> Option<Config> {
        let map = MapHandle::from_pinned_path(folder.join(CONFIG)).ok()?;
        Config::read(&map.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).ok()??)
    }
}

/// Names of pins in the folder of an attachment.
const CONFIG: &str = "config";
/// The map of the cgroup's traffic.
pub(crate) const ACCOUNT: &str = "account";
/// The pin of the program for TCP.
pub(crate) const CONNECTIONS: &str = "leeway_connections";

/// Puts a cgroup under a configuration. All pins go to `folder`, the configuration's pin last.
///
/// Packets are marked in the network namespaces of `processes`. Returns the number of present
/// connections, if those are to be changed.
pub(crate) fn attach(
    config: &Config,
    cgroup: &Cgroup,
    processes: &[u32],
    folder: &Path,
    levels: &Path,
    law: &MapHandle,
) -> Result<usize, KernelError> {
    let mut object = load(config, levels, law)?;
    let mut links = Vec::new();
    let directory = File::open(cgroup.directory())
        .map_err(|error| KernelError::failed(format!("open {}", cgroup.directory().display()))(&error))?;
    for program in object.progs_mut().filter(|program| program.name() != RUNNING && program.name() != PACKETS)
    {
        let name = program.name().to_string_lossy().into_owned();
        let link = program.attach_cgroup(directory.as_raw_fd());
        let doing = format!("attach {name} to cgroup /{}", cgroup.path().display());
        links.push((link.map_err(KernelError::bpf(doing))?, name));
    }
    for (link, name) in &mut links {
        link.pin(folder.join(&*name)).map_err(KernelError::bpf(format!("pin {name}")))?;
    }
    let namespaces = namespaces(processes);
    if config.dscp.is_some() {
        let program = object.progs_mut().find(|program| program.name() == PACKETS);
        let program = program.expect("the object has a program for devices");
        for (number, namespace) in &namespaces {
            devices::attach_to_all(program.as_fd(), namespace, folder, &format!("device-{number}"))?;
        }
    }
    let changed = if config.persistent { change_running(&object, &namespaces)? } else { 0 };
    for mut map in object.maps_mut() {
        let (name, doing) = match map.name().to_str() {
            Some(".rodata.send") => (CONFIG, "pin the configuration"),
            Some("leeway_accounts") => (ACCOUNT, "pin the account"),
            _ => continue,
        };
        map.pin(folder.join(name)).map_err(KernelError::bpf(doing))?;
    }
    Ok(changed)
}

/// The programs, without the iterator if it is not needed.
fn load(config: &Config, levels: &Path, law: &MapHandle) -> Result<Object, KernelError> {
    let mut builder = ObjectBuilder::default();
    builder.name("leeway_send").map_err(KernelError::bpf("name the programs"))?;
    let mut open: OpenObject =
        builder.open_memory(PROGRAMS).map_err(KernelError::bpf("open the programs"))?;
    let mut shared = levels.exists();
    for mut map in open.maps_mut() {
        if map.name() == ".rodata.send" {
            let data = map.initial_value_mut().filter(|data| data.len() == CONFIG_BYTES);
            config.write(data.expect("the configuration is as large as the programs think"));
        } else if map.name() == "leeway_levels" && shared {
            // A pin of another version of leeway does not fit. Then the innermost cgroup decides
            // within this one only.
            shared = map.reuse_pinned_map(levels).is_ok();
        } else if map.name() == "leeway_laws" {
            map.reuse_fd(law.as_fd()).map_err(KernelError::bpf("look at the law's connections"))?;
        }
    }
    for mut program in open.progs_mut() {
        let iterator = program.name() == RUNNING;
        let devices = program.name() == PACKETS;
        program.set_autoload((!iterator || config.persistent) && (!devices || config.dscp.is_some()));
    }
    let mut object =
        crate::libbpf::quietly(|| open.load()).map_err(KernelError::bpf("load the programs of a cgroup"))?;
    for mut map in object.maps_mut() {
        if map.name() == "leeway_levels" && !levels.exists() {
            map.pin(levels).map_err(KernelError::bpf(format!("pin {}", levels.display())))?;
        }
    }
    Ok(object)
}

/// The network namespaces of processes, by the kernel's number.
fn namespaces(processes: &[u32]) -> BTreeMap<u64, File> {
    let mut namespaces = BTreeMap::new();
    for pid in processes {
        // A process that has just ended has none.
        if let Ok(namespace) = File::open(format!("/proc/{pid}/ns/net"))
            && let Ok(metadata) = namespace.metadata()
        {
            namespaces.entry(metadata.ino()).or_insert(namespace);
        }
    }
    namespaces
}

/// Changes the present connections of a cgroup in network namespaces.
fn change_running(object: &Object, namespaces: &BTreeMap<u64, File>) -> Result<usize, KernelError> {
    let program = object.progs_mut().find(|program| program.name() == RUNNING);
    let program = program.expect("the object has the iterator");
    let mut changed = 0;
    for namespace in namespaces.values() {
        let doing = "change the connections that run";
        let link = program.attach().map_err(KernelError::bpf(doing))?;
        let bytes = std::thread::scope(|scope| {
            let work = move || -> Result<usize, KernelError> {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|error| KernelError::failed("enter a network namespace")(&error))?;
                let mut iterator = Iter::new(&link).map_err(KernelError::bpf(doing))?;
                let mut bytes = Vec::new();
                iterator.read_to_end(&mut bytes).map_err(|error| KernelError::failed(doing)(&error))
            };
            scope.spawn(work).join().expect("an iterator does not panic")
        });
        changed += bytes?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dscp_is_read_as_it_is_shown() {
        for (text, codepoint) in [("le", 1), ("LE", 1), ("0", 0), ("1", 1), ("46", 46), ("63", 63)] {
            let dscp: Dscp = text.parse().expect(text);
            assert_eq!(dscp.codepoint(), codepoint);
            assert_eq!(dscp.to_string().parse::<Dscp>().expect("as shown"), dscp);
        }
        for text in ["", "64", "-1", "lower", "0x01", "256"] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_configuration_is_read_as_it_was_written() {
        let config = Config {
            cgroup: u64::MAX - 1,
            started_unix_s: 7,
            level: 3,
            owner: 65534,
            persistent: true,
            dscp: Some(Dscp(63)),
            target_us: 25_000,
            law: "run_ledbatpp_99".into(),
            what: format!("\x1b{}", "ä".repeat(40)),
        };
        let mut bytes = vec![0xff; CONFIG_BYTES];
        config.write(&mut bytes);
        let read = Config::read(&bytes).expect("a whole configuration");
        assert_eq!(read.what, format!(" {}", "ä".repeat(31)), "cut between characters");
        assert_eq!(format!("{:?}", Config { what: config.what.clone(), ..read }), format!("{config:?}"));
        assert!(Config::read(&bytes[1..]).is_none());
    }
}
