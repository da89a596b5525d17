//! A process that cannot be mistaken for a later one of the same number.
//!
//! Cgroups take processes by number only. A number is free as soon as the parent has waited for
//! its process, so between a check and a move another process can get it. A traced process keeps
//! its number until its tracer has waited for it (`wait_consider_task` in kernel/exit.c). So
//! PTRACE_SEIZE, which does not stop the process, pins the number, and the process is checked
//! after that. The kernel releases the process when the tracing thread ends.

use crate::error::KernelError;
use nix::errno::Errno;
use nix::sys::ptrace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

/// A process of this machine.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    /// `None` for this process, whose number cannot be reused.
    handle: Option<OwnedFd>,
}

impl Process {
    /// This process.
    pub fn this() -> Process {
        Process { pid: std::process::id(), handle: None }
    }

    /// The process of `pidfd`; `pid` is its number, if it has not ended.
    pub fn new(pid: u32, pidfd: OwnedFd) -> Process {
        Process { pid, handle: Some(pidfd) }
    }

    /// The process that has this number now, if any.
    pub fn of(pid: u32) -> Option<Process> {
        let handle = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty());
        Some(Process::new(pid, handle.ok()?))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended. If not, everything read by its number before belongs to it.
    pub fn has_ended(&self) -> bool {
        let ended = |handle| poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&Timespec::default()));
        self.handle.as_ref().is_some_and(|handle| ended(handle) != Ok(0))
    }

    /// Calls a function with the number of the process (0 for this process, as the kernel takes
    /// it) while no other process can get the number.
    ///
    /// # Errors
    /// [`KernelError::Ended`], and where somebody traces the process.
    pub(crate) fn hold<T: Send>(
        &self,
        work: impl FnOnce(u32) -> Result<T, KernelError> + Send,
    ) -> Result<T, KernelError> {
        if self.handle.is_none() {
            return work(0);
        }
        let held = || {
            // Without a look first, a process that has the number by now would be traced for a
            // moment.
            self.check()?;
            let pid = nix::unistd::Pid::from_raw(self.pid as i32);
            ptrace::seize(pid, ptrace::Options::empty()).map_err(|errno| self.refused(errno))?;
            self.check()?;
            work(self.pid)
        };
        // A thread of its own, because its end releases the process in any state. To detach, the
        // process would have to be stopped, and a process that waits for its vfork never stops.
        std::thread::scope(|scope| scope.spawn(held).join().expect("moving a process does not panic"))
    }

    fn check(&self) -> Result<(), KernelError> {
        if self.has_ended() { Err(KernelError::Ended(self.pid)) } else { Ok(()) }
    }

    fn refused(&self, errno: Errno) -> KernelError {
        match errno {
            Errno::ESRCH => KernelError::Ended(self.pid),
            Errno::EPERM => KernelError::failed(format!("hold process {}", self.pid))(
                &"a debugger has it, CAP_SYS_PTRACE is missing, or kernel.yama.ptrace_scope is 3",
            ),
            errno => KernelError::failed(format!("hold process {}", self.pid))(&errno),
        }
    }
}
