//! Rights (capabilities(7)) that a program gives up after its privileged setup.

use rustix::process::{
    getpid, getppid, kill_process, parent_process_death_signal, set_parent_process_death_signal,
};
use rustix::thread::{self, CapabilitySets};
use std::io;
use std::time::{Duration, Instant};

pub use rustix::thread::CapabilitySet as Rights;

/// Longest wait for other threads to give up their rights.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes all rights except `kept` from the calling thread, and from all threads and programs that
/// it starts. Executed programs get no rights back, whatever their owner and mode. They inherit
/// the kept rights.
///
/// Rights belong to threads. Every thread has to call this, or be started by a thread that did,
/// before the last one calls [`give_up_the_last`].
///
/// # Errors
/// The kernel refuses.
pub fn give_up_but(kept: Rights) -> io::Result<()> {
    let (death, parent) = (parent_process_death_signal()?, getppid());
    let had = thread::capabilities(None)?.permitted;
    for right in had.difference(kept).iter() {
        // This needs CAP_SETPCAP. Without it, no_new_privs below has the same effect.
        let _ = thread::remove_capability_from_bounding_set(right);
    }
    thread::set_no_new_privs(true)?;
    thread::clear_ambient_capability_set()?;
    let left = had.intersection(kept);
    thread::set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable: left })?;
    for right in left.iter() {
        thread::configure_capability_in_ambient_set(right, true)?;
    }
    // The kernel clears the signal when rights change (prctl(2), PR_SET_PDEATHSIG).
    set_parent_process_death_signal(death)?;
    if let Some(signal) = death.filter(|_| getppid() != parent) {
        // The parent ended in between, so the kernel sends no signal.
        kill_process(getpid(), signal)?;
    }
    Ok(())
}

/// Takes all rights from the calling thread, the last one that has any.
///
/// # Errors
/// The kernel refuses, or another thread still has rights.
pub fn give_up_the_last() -> io::Result<()> {
    give_up_but(Rights::empty())?;
    let end = Instant::now() + PATIENCE;
    loop {
        match threads_with_rights()? {
            0 => return Ok(()),
            // A new thread gives up its rights first, when it gets to run.
            _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            count => {
                return Err(io::Error::other(format!("{count} threads of this program still have rights")));
            }
        }
    }
}

/// Number of threads of this process that have rights.
fn threads_with_rights() -> io::Result<usize> {
    let mut with = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // A thread that has ended has no rights.
        let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else { continue };
        let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
        let none = permitted.is_some_and(|set| set.trim().bytes().all(|digit| digit == b'0'));
        with += usize::from(!none);
    }
    Ok(with)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Signal;

    /// Runs in a thread of its own, so that the rights of other tests do not change.
    #[test]
    fn a_thread_without_rights_starts_others_without() {
        let thread = std::thread::spawn(|| {
            set_parent_process_death_signal(Some(Signal::USR1)).unwrap();
            let had = thread::capabilities(None).unwrap().permitted;
            give_up_but(Rights::NET_ADMIN).unwrap();
            assert_eq!(thread::capabilities(None).unwrap().permitted, had & Rights::NET_ADMIN);
            give_up_but(Rights::empty()).unwrap();
            let none = |sets: CapabilitySets| {
                (sets.permitted | sets.effective | sets.inheritable).is_empty()
                    && thread::no_new_privs().unwrap()
            };
            assert!(none(thread::capabilities(None).unwrap()));
            assert_eq!(parent_process_death_signal().unwrap(), Some(Signal::USR1));
            assert!(std::thread::spawn(move || none(thread::capabilities(None).unwrap())).join().unwrap());
            // The program belongs to root, and runs without root's rights.
            let status = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            let status = String::from_utf8(status.stdout).unwrap();
            assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
            set_parent_process_death_signal(None).unwrap();
            had.is_empty()
        });
        let unprivileged = thread.join().unwrap();
        assert_eq!(threads_with_rights().unwrap() == 0, unprivileged);
    }
}
