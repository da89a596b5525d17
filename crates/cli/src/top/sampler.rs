//! Samples the sockets again and again, and adds their rates and the programs that own them.

use super::Row;
use crate::Failure;
use crate::helper::request;
use crate::sockets::{Direction, Seen, Snapshot};
use leeway_guard::steady;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

type Key = (u32, SocketAddr, SocketAddr, Direction);

pub struct Sampler {
    laws: Vec<String>,
    /// Whether to ask the helper for the sockets of this user, because the user is not root.
    by_helper: bool,
    /// Names of the laws that were loaded at the last sample.
    loaded: Vec<String>,
    notes: Vec<String>,
    /// Bytes of each socket at the last sample, and its time.
    before: HashMap<Key, (u64, Instant)>,
    /// Name and number of the program that owns a socket, by the socket's inode number.
    programs: HashMap<u64, Option<(String, u32)>>,
}

impl Sampler {
    pub fn new(laws: Vec<String>) -> Sampler {
        let by_helper = !rustix::process::geteuid().is_root();
        let (loaded, notes, before, programs) = Default::default();
        Sampler { laws, by_helper, loaded, notes, before, programs }
    }

    pub fn sample(&mut self) -> Result<Vec<Row>, Failure> {
        let snapshot = match self.by_helper {
            true => request::sockets(&self.laws)?,
            false => Snapshot::take(&self.laws, None)?,
        };
        let when = Instant::now();
        self.check(&snapshot.loaded)?;
        self.loaded = snapshot.loaded;
        self.notes = snapshot.shares.iter().map(|(what, share)| share.explained(&steady(what))).collect();
        self.find_programs(snapshot.sockets.iter().map(|socket| socket.inode));
        let mut now = HashMap::new();
        let mut rows = Vec::new();
        for seen in snapshot.sockets {
            let key = (seen.netns, seen.local, seen.remote, seen.direction);
            now.insert(key, (seen.bytes, when));
            let before = self.before.get(&key).filter(|(bytes, _)| *bytes <= seen.bytes);
            let rate = before.map(|(bytes, then)| {
                (seen.bytes - bytes) as f64 * 8.0 / (when - *then).as_secs_f64().max(1e-6)
            });
            rows.push(self.row(seen, rate));
        }
        self.before = now;
        Ok(rows)
    }

    /// Remarks to show besides the rows.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Checks that every law that the user asked for is loaded, or is at least a known law.
    fn check(&self, loaded: &[String]) -> Result<(), Failure> {
        let unknown = self.laws.iter().find(|law| {
            !loaded.contains(law) && !leeway_control::laws().iter().any(|one| one.name == law.as_str())
        });
        unknown.map_or(Ok(()), |law| {
            let names = if loaded.is_empty() { "nothing".to_owned() } else { loaded.join(", ") };
            Err(Failure::Usage(format!(
                "{law} is neither a law nor the name of one that is loaded; loaded: {names}"
            )))
        })
    }

    /// A message if there are no rows: the reason, and what to do.
    pub fn nothing(&self) -> String {
        let run = "leeway run -- COMMAND";
        if !self.laws.is_empty() {
            return format!("no socket is under a law that you asked for: {}", self.laws.join(", "));
        }
        match (self.by_helper, self.loaded.is_empty()) {
            (true, _) => format!("no socket of yours is under a law; start something: {run}"),
            (false, true) => format!(
                "no law is loaded; start something under one: {run}, or load one for every program: \
                 leeway kernel load ledbat"
            ),
            (false, false) => format!(
                "no socket is under a law; loaded: {}. Start something: {run}",
                self.loaded.join(", ")
            ),
        }
    }

    fn row(&self, seen: Seen, rate_bps: Option<f64>) -> Row {
        let program = self.programs.get(&seen.inode).cloned().flatten();
        Row {
            name: seen.name,
            law: seen.law,
            direction: seen.direction,
            pid: program.as_ref().map(|(_, pid)| *pid),
            program: program.map(|(name, _)| name),
            local: seen.local,
            remote: seen.remote,
            netns: seen.netns,
            window_bytes: seen.window_bytes,
            window_pkt: seen.window_bytes / f64::from(seen.mss_bytes.max(1)),
            inflight_pkt: seen.inflight_pkt,
            queuing_delay_us: seen.queuing_delay_us,
            srtt_us: seen.srtt_us,
            phase: seen.phase,
            acked_bytes: seen.bytes,
            rate_bps,
        }
    }

    /// Finds the programs of sockets by the descriptors of all processes. Does so only when there
    /// are new sockets.
    fn find_programs(&mut self, inodes: impl Iterator<Item = u64>) {
        let present: BTreeSet<u64> = inodes.filter(|inode| *inode != 0).collect();
        self.programs.retain(|inode, _| present.contains(inode));
        let mut wanted: BTreeSet<u64> =
            present.into_iter().filter(|inode| !self.programs.contains_key(inode)).collect();
        if wanted.is_empty() {
            return;
        }
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // Errors are ignored: a process may have ended, or belong to another user.
            for descriptor in std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
                let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
                let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
                let Some(inode) = inode.and_then(|digits| digits.parse().ok()) else { continue };
                if wanted.remove(&inode) {
                    let name = std::fs::read(process.path().join("comm")).unwrap_or_default();
                    self.programs.insert(inode, Some((plain(&name), pid)));
                }
            }
        }
        self.programs.extend(wanted.into_iter().map(|inode| (inode, None)));
    }
}

/// The name of a program as text. A program chooses its own name, which may contain control
/// characters for somebody else's terminal.
fn plain(name: &[u8]) -> String {
    steady(String::from_utf8_lossy(name).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_says_nothing_to_a_terminal() {
        assert_eq!(plain(b"rsync\n"), "rsync");
        assert_eq!(plain("größe".as_bytes()), "größe");
        assert_eq!(plain(b"\x1b]0;root\x07\xff\n"), "\u{fffd}]0;root\u{fffd}\u{fffd}");
        assert_eq!(plain("gpj\u{202e}x".as_bytes()), "gpj\u{fffd}x");
    }
}
