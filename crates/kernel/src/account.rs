//! What a cgroup sent and received, and what its laws did meanwhile, as the kernel's programs keep
//! it.

use crate::Receiving;
use crate::error::KernelError;
use crate::send::ACCOUNT;
use crate::shared::Bytes;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::path::Path;

/// What one law did, as far as there was something to do: connections that had more to send than
/// it let them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// For how long that was so, in microseconds.
    pub watched_us: u64,
    /// Of that, with less than half of the largest window that there was, in microseconds.
    pub held_us: u64,
    /// Mean of the law's queuing delay over that time, in microseconds.
    pub mean_queue_us: u64,
}

/// A steady part of the best rate, with a queue of its own that does not drive the law away.
/// Perhaps each connection of the line has a queue and a share of its own; perhaps the buffer is
/// shorter than the law's target, or the line slower than it was. From one end these look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Seconds for which it was so, those before it was noticed left out.
    pub seconds: u32,
    /// Part of the best rate, in thousandths, when it was last so.
    pub permille: u32,
    /// Mean queuing delay then, in microseconds.
    pub queue_us: u32,
}

/// What a cgroup sent and received since it was confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of IP packets that left, headers included.
    pub sent_bytes: u64,
    /// Bytes of IP packets that came, headers included.
    pub received_bytes: u64,
    /// The law of uploads.
    pub up: Direction,
    /// The law that holds downloads back, where there is one.
    pub down: Option<Direction>,
    /// Uploads had a share of the line rather than what others left.
    pub share: Option<Share>,
}

impl Account {
    /// From the pins of a confinement.
    pub(crate) fn read(folder: &Path) -> Result<Account, KernelError> {
        let doing = || format!("read the account in {}", folder.display());
        let map = MapHandle::from_pinned_path(folder.join(ACCOUNT)).map_err(KernelError::bpf(doing()))?;
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::empty()).map_err(KernelError::bpf(doing()))?;
        let other = || KernelError::failed(doing())(&"another version of leeway wrote it");
        let account = Account::parse(&value.unwrap_or_default()).ok_or_else(other)?;
        let down = match Receiving::find(folder)? {
            None => None,
            Some(receiving) => {
                let budget = receiving.budget()?;
                let (watched_us, held_us) = (budget.watched_us, budget.held_us);
                Some(Direction { watched_us, held_us, mean_queue_us: budget.mean_queue_us })
            }
        };
        Ok(Account { down, ..account })
    }

    /// `struct leeway_account`.
    fn parse(from: &[u8]) -> Option<Account> {
        let mut bytes = Bytes(from);
        let (sent_bytes, received_bytes) = (bytes.u64()?, bytes.u64()?);
        bytes.take(16)?;
        let (watched_us, held_us, queue_us2) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        bytes.take(12 * 8 + 4)?;
        let (seconds, permille, queue_us) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let mean_queue_us = queue_us2.checked_div(watched_us).unwrap_or(0);
        let share = (seconds > 0).then_some(Share { seconds, permille, queue_us });
        let up = Direction { watched_us, held_us, mean_queue_us };
        Some(Account { sent_bytes, received_bytes, up, down: None, share })
    }
}
