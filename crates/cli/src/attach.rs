//! `leeway attach`: puts running programs, a cgroup or a process, under a law.

mod process;

use crate::Failure;
use crate::kernel::age;
use crate::output::stdout;
use crate::run::Manners;
use clap::Args;
use leeway_guard::steady;
use leeway_kernel::{Asker, Confinement};
use std::io::Write;

/// What `leeway attach --help` ends with.
pub const HELP: &str = "Examples:\n  \
    leeway attach --cgroup backup.slice\n      \
    a systemd slice, including the connections that it already has\n  \
    leeway attach --cgroup /system.slice/docker-4f1c.scope --law flower\n      \
    a container, under another law\n  \
    leeway attach --pid 4711\n      \
    a running process, with its children and their connections\n  \
    leeway attach --list\n  \
    leeway attach --cgroup backup.slice --detach\n\n\
    The law holds until --detach or the end of the cgroup. After --detach new connections are free; running ones keep \
    their law.\n\n\
    Exit codes: 0 done, 1 the kernel refuses, 2 bad usage, or a cgroup or process that does not exist.";

/// The options of `leeway attach`.
#[derive(Args)]
pub struct Attach {
    /// The cgroup: a path below /sys/fs/cgroup, or its last part, such as `backup.slice`.
    #[arg(long, value_name = "CGROUP", required_unless_present_any = ["list", "pid"])]
    cgroup: Option<String>,
    /// A process. It moves to a cgroup of its own, together with all processes that it has
    /// started. The cgroup ends when the last of them ends.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "list"])]
    pid: Option<u32>,
    #[command(flatten)]
    manners: Manners,
    /// Remove the law from the cgroup or process.
    #[arg(long, conflicts_with_all = ["law", "dscp", "receive", "list"])]
    detach: bool,
    /// List the cgroups whose traffic yields, including those of `leeway run`.
    #[arg(long, conflicts_with_all = ["cgroup", "law", "dscp", "receive"])]
    list: bool,
}

/// Attaches, detaches or lists.
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
    let (path, law) = (steady(&attached.cgroup.to_string_lossy()), &attached.law);
    writeln!(
        out,
        "cgroup /{path} is under {law}, with the {changed} connections and listeners that it already had"
    )?;
    Ok(())
}

fn list(out: &mut impl Write) -> Result<(), Failure> {
    // Leave out those that have ended and are not cleaned up yet.
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
            steady(&one.cgroup.to_string_lossy()),
            age(one.started_unix_s),
            one.asker.uid,
            steady(&one.asker.what)
        )?;
    }
    Ok(())
}
