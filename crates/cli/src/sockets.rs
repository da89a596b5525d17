//! The connections under the laws of this machine, for `leeway top` and for the helper's answers
//! to its users.

use crate::Failure;
use crate::account::Part;
use leeway_kernel::{KernelError, Loaded, confinements};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// All connections at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Names of the loaded laws.
    pub loaded: Vec<String>,
    pub sockets: Vec<Seen>,
    /// Commands whose uploads perhaps sit behind a fair queue, with the share that they get.
    pub shares: Vec<(String, Part)>,
}

/// Direction of the data that a law limits, seen from this machine.
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
    /// The kernel's name of the law; for downloads, the law's own name.
    pub name: String,
    /// The law with its parameters.
    pub law: String,
    pub direction: Direction,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub netns: u32,
    pub window_bytes: f64,
    pub mss_bytes: u32,
    /// Packets in flight; for downloads, what was announced and has not arrived.
    pub inflight_pkt: u32,
    pub queuing_delay_us: u32,
    pub srtt_us: u32,
    pub phase: String,
    /// Bytes acknowledged (up) or received (down) since the connection began.
    pub bytes: u64,
    pub inode: u64,
}

impl Snapshot {
    /// Looks at the connections of the user `of`, or of all users. `laws` are kernel names or
    /// names of laws; an empty list means all.
    pub fn take(laws: &[String], of: Option<u32>) -> Result<Snapshot, Failure> {
        let wanted =
            |name: &str, law: &str| laws.is_empty() || laws.iter().any(|one| one == name || one == law);
        let loaded = leeway_kernel::names()?;
        let mut sockets = Vec::new();
        for name in &loaded {
            let law = match Loaded::find(name) {
                Ok(law) => law,
                // Loaded by another version of leeway, or unloaded meanwhile.
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
            // A confinement that has just ended, or of another version of leeway, has no account.
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
