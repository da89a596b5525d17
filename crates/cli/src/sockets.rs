//! The connections under the laws of this machine: what `leeway top` shows, and what the helper tells its users.

use crate::Failure;
use crate::account::Part;
use leeway_kernel::{KernelError, Loaded, confinements};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Everything at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Names of the laws that are loaded.
    pub loaded: Vec<String>,
    pub sockets: Vec<Seen>,
    /// Commands whose uploads perhaps have a share of the line, and what it is.
    pub shares: Vec<(String, Part)>,
}

/// Which way the data goes that a law holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Up,
    Down,
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// One connection in one direction.
#[derive(Debug, Serialize, Deserialize)]
pub struct Seen {
    /// The kernel's name of the law; of downloads, the law's own.
    pub name: String,
    /// The law with its parameters.
    pub law: String,
    pub direction: Direction,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub netns: u32,
    pub window_bytes: f64,
    pub mss_bytes: u32,
    /// Packets; of downloads, what is announced and has not come.
    pub inflight_pkt: u32,
    pub queuing_delay_us: u32,
    pub srtt_us: u32,
    pub phase: String,
    /// Acknowledged or received since the connection began.
    pub bytes: u64,
    pub inode: u64,
}

impl Snapshot {
    /// What there is: of one user, or of all. `laws` are names as loaded or of laws; none: all of them.
    pub fn take(laws: &[String], of: Option<u32>) -> Result<Snapshot, Failure> {
        let wanted =
            |name: &str, law: &str| laws.is_empty() || laws.iter().any(|one| one == name || one == law);
        let loaded = leeway_kernel::names()?;
        let mut sockets = Vec::new();
        for name in &loaded {
            let law = match Loaded::find(name) {
                Ok(law) => law,
                // Of another version, or unloaded meanwhile.
                Err(KernelError::Failed { .. } | KernelError::Unknown { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if wanted(name, law.spec.name()) {
                let seen = law.sockets()?.into_iter().filter(|socket| of.is_none_or(|uid| uid == socket.uid));
                sockets.extend(seen.map(|socket| sent(&law, &socket)));
            }
        }
        let mut shares = Vec::new();
        for one in confinements()?.into_iter().filter(|one| of.is_none_or(|uid| uid == one.asker.uid)) {
            // One that has just ended, or of another version.
            if let Ok(Some(share)) = one.account().map(|account| account.share) {
                shares.push((one.asker.what.clone(), Part::new(&share)));
            }
            let Ok(Some(receiving)) = one.receiving() else { continue };
            let name = receiving.spec().name();
            if let (true, Ok(connections), Ok(budget)) =
                (wanted(name, name), receiving.connections(), receiving.budget())
            {
                let (law, phase) = (receiving.spec().to_string(), budget.output.phase().as_str());
                let own = connections.iter().filter(|one| of.is_none_or(|uid| uid == one.uid));
                sockets.extend(own.map(|one| came(name, &law, phase, one)));
            }
        }
        Ok(Snapshot { loaded, sockets, shares })
    }
}

fn sent(law: &Loaded, socket: &leeway_kernel::Socket) -> Seen {
    Seen {
        name: law.name.clone(),
        law: law.spec.to_string(),
        direction: Direction::Up,
        local: socket.local,
        remote: socket.remote,
        netns: socket.netns,
        window_bytes: socket.output.window_bytes_f64(),
        mss_bytes: socket.mss_bytes,
        inflight_pkt: socket.inflight,
        queuing_delay_us: socket.output.queuing_delay_us,
        srtt_us: socket.srtt_us,
        phase: socket.output.phase().as_str().to_owned(),
        bytes: socket.acked_bytes,
        inode: socket.inode,
    }
}

fn came(name: &str, law: &str, phase: &str, one: &leeway_kernel::Received) -> Seen {
    let mss_bytes = u32::from(one.segment_bytes.max(1));
    Seen {
        name: name.to_owned(),
        law: law.to_owned(),
        direction: Direction::Down,
        local: one.local,
        remote: one.remote,
        netns: one.netns,
        window_bytes: f64::from(one.window_bytes),
        mss_bytes,
        inflight_pkt: one.announced_bytes / mss_bytes,
        queuing_delay_us: one.queuing_us,
        srtt_us: one.rtt_us,
        phase: phase.to_owned(),
        bytes: one.received_bytes,
        inode: one.inode,
    }
}
