//! `leeway attach`: what runs already gives way.

mod process;

use crate::Failure;
use crate::kernel::age;
use crate::output::stdout;
use crate::run::Manners;
use clap::Args;
use leeway_kernel::{Asker, Confinement};
use std::io::Write;

/// What `leeway attach --help` ends with.
pub const HELP: &str = "Examples:\n  \
    leeway attach --cgroup backup.slice\n      \
    a systemd slice, with the connections that it has already\n  \
    leeway attach --cgroup /system.slice/docker-4f1c.scope --law flower\n      \
    a container, under another law\n  \
    leeway attach --pid 4711\n      \
    a process that runs already, with its children and their connections\n  \
    leeway attach --list\n  \
    leeway attach --cgroup backup.slice --detach\n\n\
    It holds until it is taken off or the cgroup ends. New connections of the cgroup are then free; those that run keep \
    their law.\n\n\
    Exit codes: 0 done, 1 the kernel refuses, 2 bad usage, or a cgroup or process that is not there.";

/// Which cgroup, and how it sends.
#[derive(Args)]
pub struct Attach {
    /// The cgroup: a path below /sys/fs/cgroup, or its last part, such as `backup.slice`.
    #[arg(long, value_name = "CGROUP", required_unless_present_any = ["list", "pid"])]
    cgroup: Option<String>,
    /// A process, which is moved to a cgroup of its own with all that it has started; it ends with
    /// the last of them.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "list"])]
    pid: Option<u32>,
    #[command(flatten)]
    manners: Manners,
    /// Take it off.
    #[arg(long, conflicts_with_all = ["law", "dscp", "receive", "list"])]
    detach: bool,
    /// List the cgroups that give way, those of `leeway run` as well.
    #[arg(long, conflicts_with_all = ["cgroup", "law", "dscp", "receive"])]
    list: bool,
}

/// Does it.
pub fn run(attach: &Attach) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Run(
            "attaching to cgroups, and listing them, needs root: sudo leeway attach ...".into(),
        ));
    }
    let mut out = stdout();
    if let Some(pid) = attach.pid {
        return process::run(pid, attach.detach, &attach.manners.policy(), &mut out);
    }
    let Some(cgroup) = attach.cgroup.as_deref() else { return list(&mut out) };
    if attach.detach {
        return Ok(leeway_kernel::attached(cgroup)?.remove()?);
    }
    let asker = Asker { uid: rustix::process::getuid().as_raw(), what: cgroup.to_owned() };
    let (attached, changed) = Confinement::of_cgroup(cgroup, &attach.manners.policy(), &asker)?;
    let (path, law) = (attached.cgroup.display(), &attached.law);
    writeln!(out, "cgroup /{path} is under {law}, with {changed} connections and listeners that it had")?;
    Ok(())
}

fn list(out: &mut impl Write) -> Result<(), Failure> {
    // Of those that ended, somebody has not cleaned up yet.
    let all: Vec<_> = leeway_kernel::confinements()?.into_iter().filter(|one| !one.is_over()).collect();
    if all.is_empty() {
        writeln!(out, "nothing is attached")?;
        return Ok(());
    }
    for one in all {
        let law = one.spec.map_or_else(|| format!("{} (unloaded)", one.law), |spec| spec.to_string());
        let dscp = one.dscp.map_or_else(|| "none".to_owned(), |dscp| dscp.to_string());
        let receive = one.receive.map_or_else(|| "none".to_owned(), |spec| spec.to_string());
        let how = if one.persistent { "attached" } else { "runs" };
        writeln!(
            out,
            "/{}  {how} since {}  law {law}  dscp {dscp}  receive {receive}  user {}  {}",
            one.cgroup.display(),
            age(one.started_unix_s),
            one.asker.uid,
            one.asker.what
        )?;
    }
    Ok(())
}
