//! Whether a law gives way: the judgement of `bpf/account.h`, which the kernel's programs use for the
//! uploads and downloads of a cgroup, for senders in user space.

#![allow(unsafe_code)]

/// Judges a law second by second, by how much comes through. It gives way in a second with less than
/// half of the best second's rate so far. A shorter transfer has nothing to compare with.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Way {
    second_us: u64,
    bytes: u64,
    watched_us: u64,
    best_rate: u64,
    held_us: u64,
}

unsafe extern "C" {
    safe fn leeway_kernel_way_look(way: &mut Way, now_us: u64, bytes: u64, watched_us: u64);
}

impl Way {
    /// Takes a sample, ten in a second or more: the time, the bytes that came through since the
    /// beginning, and for how long of it there was more to send than the law allowed. Times are in
    /// microseconds, of any clock that does not go back.
    pub fn look(&mut self, now_us: u64, bytes: u64, watched_us: u64) {
        leeway_kernel_way_look(self, now_us, bytes, watched_us);
    }

    /// The part of that time in which the law gave way, in microseconds.
    pub fn held_us(&self) -> u64 {
        self.held_us
    }
}
