//! The traffic of a cgroup and the work of its laws, as the kernel's programs count them.

use crate::Receiving;
use crate::error::KernelError;
use crate::send::ACCOUNT;
use crate::shared::Bytes;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::path::Path;

/// The work of one law, over the time in which a connection had more to send than the law allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// That time, in microseconds.
    pub watched_us: u64,
    /// Part of it in which the law gave way, in microseconds: in seconds with less than half of the
    /// best second's rate so far ([`crate::Way`]).
    pub held_us: u64,
    /// Mean of the law's queuing delay over that time, in microseconds.
    pub mean_queue_us: u64,
}

/// A steady part of the best rate, with an own queue that does not drive the law away. Perhaps
/// each connection of the line has a queue and a share of its own (a fair queue). Perhaps the
/// buffer is shorter than the law's target, or the line became slower. One end cannot tell these
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Duration in seconds, without the time before it was noticed.
    pub seconds: u32,
    /// Last part of the best rate, in thousandths.
    pub permille: u32,
    /// Mean queuing delay of that time, in microseconds.
    pub queue_us: u32,
}

/// Traffic of a cgroup since it was confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of sent IP packets, headers included.
    pub sent_bytes: u64,
    /// Bytes of received IP packets, headers included.
    pub received_bytes: u64,
    /// The law of uploads.
    pub up: Direction,
    /// The law that holds downloads back, if any.
    pub down: Option<Direction>,
    /// Uploads had a share of the line instead of what others left.
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
        let (watched_us, queue_us2) = (bytes.u64()?, bytes.u64()?);
        bytes.take(5 * 8)?;
        let held_us = bytes.u64()?;
        bytes.take(7 * 8 + 4)?;
        let (seconds, permille, queue_us) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let mean_queue_us = queue_us2.checked_div(watched_us).unwrap_or(0);
        let share = (seconds > 0).then_some(Share { seconds, permille, queue_us });
        let up = Direction { watched_us, held_us, mean_queue_us };
        Some(Account { sent_bytes, received_bytes, up, down: None, share })
    }
}
