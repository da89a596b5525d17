//! `leeway attach --pid`: puts a running process, and all processes that it has started, under a
//! law.

use crate::Failure;
use crate::account::confinement_of;
use crate::run::start_reaper;
use leeway_guard::steady;
use leeway_kernel::{Asker, Confinement, Dscp, Policy, Process};
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

/// Attaches the process, or detaches it.
pub fn run(pid: u32, detach: bool, policy: &Policy, out: &mut impl Write) -> Result<(), Failure> {
    let missing = || Failure::Usage(format!("there is no process {pid}"));
    let process = Process::of(pid).ok_or_else(missing)?;
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| missing())?;
    let comm = &steady(comm.trim_end());
    let there = confinement_of(pid)?;
    if detach {
        let there = there.ok_or_else(|| Failure::Usage(format!("process {pid} ({comm}) is not attached")))?;
        there.remove()?;
        return Ok(writeln!(
            out,
            "process {pid} ({comm}) is detached; its running connections keep their law"
        )?);
    }
    if let Some(there) = there {
        return Err(Failure::Usage(format!(
            "process {pid} ({comm}) is already under {}; detach it first: leeway attach --pid {pid} --detach",
            there.law
        )));
    }
    if pid == 1 || ancestors(std::process::id()).contains(&pid) {
        return Err(Failure::Usage(format!(
            "process {pid} ({comm}) started this program; everything that it started would come under the law. Name \
             another process"
        )));
    }
    let asker = Asker { uid: rustix::process::getuid().as_raw(), what: format!("{comm} ({pid})") };
    let confinement = Confinement::of_process(&process, policy, &asker)?;
    let mut moved = BTreeSet::from([pid]);
    let mut changed = 0;
    // A process that starts meanwhile is either a child of a moved one, which inherits the cgroup,
    // or found by the next round.
    loop {
        let new: Vec<u32> = descendants(&moved).into_iter().filter(|one| !moved.contains(one)).collect();
        for one in &new {
            // A process that has ended meanwhile has no connections.
            let _ = confinement.adopt(*one);
        }
        if new.is_empty() {
            break;
        }
        moved.extend(new);
    }
    for one in &moved {
        changed += connections(*one, &confinement.law, policy.dscp);
    }
    start_reaper(&confinement.name)?;
    let others = match moved.len() - 1 {
        0 => String::new(),
        1 => " and a process that it started".to_owned(),
        more => format!(" and {more} processes that it started"),
    };
    writeln!(
        out,
        "process {pid} ({comm}){others}: under {}, with {changed} connections and listeners",
        confinement.law
    )?;
    Ok(())
}

/// The parent of a process: the second field after the name in /proc/PID/stat (proc_pid_stat(5)).
/// The name may contain any characters, parentheses too.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn ancestors(pid: u32) -> BTreeSet<u32> {
    std::iter::successors(Some(pid), |pid| parent(*pid).filter(|parent| *parent > 0)).collect()
}

/// These processes and all that they have started.
fn descendants(of: &BTreeSet<u32>) -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parent(pid)?))
        })
        .collect();
    let mut found = of.clone();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Puts the open TCP sockets of a process under the law and the mark, and counts them. The sockets
/// were made in another cgroup, whose programs apply to them, so each socket is changed through
/// its descriptor.
fn connections(pid: u32, law: &str, dscp: Option<Dscp>) -> usize {
    let handle = Pid::from_raw(pid.cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(handle) = handle else { return 0 };
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    });
    let numbers = sockets.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let open = |number| pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).ok();
    numbers.filter_map(open).filter(|socket| change(socket, law, dscp)).count()
}

/// Changes one socket. Returns `false` if it is not a TCP socket.
fn change(socket: &OwnedFd, law: &str, dscp: Option<Dscp>) -> bool {
    if sockopt::set_tcp_congestion(socket.as_fd(), law).is_err() {
        return false;
    }
    if let Some(dscp) = dscp {
        let tos = dscp.codepoint() << 2;
        // An IPv6 socket has both fields, because it can also carry IPv4.
        let _ = sockopt::set_ip_tos(socket.as_fd(), tos);
        let _ = sockopt::set_ipv6_tclass(socket.as_fd(), u32::from(tos));
    }
    true
}
