//! Rights (capabilities(7)) that a program gives up once it has made what needs them.

use rustix::process::{
    getpid, getppid, kill_process, parent_process_death_signal, set_parent_process_death_signal,
};
use rustix::thread::{self, CapabilitySets};
use std::io;
use std::time::{Duration, Instant};

pub use rustix::thread::CapabilitySet as Rights;

/// A thread that was started has run by then on any machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes all rights but these from the calling thread, and from all that it will ever start: programs that it
/// executes get none back, whoever owns them and whatever their mode. Those it keeps go on to programs that
/// it executes.
///
/// Rights are a thread's: every thread has to do this, or be started by one that has, before the last one calls
/// [`give_up_the_last`].
///
/// # Errors
/// The kernel refuses it.
pub fn give_up_but(kept: Rights) -> io::Result<()> {
    let (death, parent) = (parent_process_death_signal()?, getppid());
    let had = thread::capabilities(None)?.permitted;
    for right in had.difference(kept).iter() {
        // Only with CAP_SETPCAP; without it the next line has the same effect.
        let _ = thread::remove_capability_from_bounding_set(right);
    }
    thread::set_no_new_privs(true)?;
    thread::clear_ambient_capability_set()?;
    let left = had.intersection(kept);
    thread::set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable: left })?;
    for right in left.iter() {
        thread::configure_capability_in_ambient_set(right, true)?;
    }
    // The kernel forgets it when rights change (prctl(2), PR_SET_PDEATHSIG).
    set_parent_process_death_signal(death)?;
    if let Some(signal) = death.filter(|_| getppid() != parent) {
        // The parent has ended in between, and nobody else would say so.
        kill_process(getpid(), signal)?;
    }
    Ok(())
}

/// Takes all rights from the calling thread, which is the last one that has any.
///
/// # Errors
/// The kernel refuses it, or another thread still has rights.
pub fn give_up_the_last() -> io::Result<()> {
    give_up_but(Rights::empty())?;
    let end = Instant::now() + PATIENCE;
    loop {
        match threads_with_rights()? {
            0 => return Ok(()),
            // One that was started gives its own up first of all, once it has its turn.
            _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            count => {
                return Err(io::Error::other(format!("{count} threads of this program still have rights")));
            }
        }
    }
}

/// How many threads of this process have rights.
fn threads_with_rights() -> io::Result<usize> {
    let mut with = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // One that has ended has none.
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

    /// In a thread of its own, whose rights are nobody else's.
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
            // Root's, but not with root's rights.
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
