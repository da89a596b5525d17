//! `leeway doctor`: checks what Leeway needs on this machine, and finds or removes what a crash
//! left behind.

mod leftovers;

use crate::Failure;
use crate::helper::request;
use crate::output::stdout;
use clap::Args;
use leeway_guard::{steady, steady_lines};
use leeway_kernel::{KernelError, Load};
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The options of `leeway doctor`.
#[derive(Args)]
pub struct Doctor {
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
    /// Remove what crashed programs of Leeway left behind, and print what it was.
    #[arg(long)]
    clean: bool,
}

/// One check: a line of the answer.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    /// The commands that need it.
    needed_for: &'static str,
    /// Without it no law runs in the kernel.
    essential: bool,
    ok: bool,
    /// What was found.
    found: String,
    /// What to do if it is missing.
    remedy: Option<String>,
}

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    /// All essential checks have passed.
    ok: bool,
    checks: Vec<Check>,
    leftovers: Vec<String>,
    removed: Vec<String>,
}

/// Runs the checks and prints the answer.
pub fn run(doctor: &Doctor) -> Result<(), Failure> {
    let checks = checks();
    let mut answer = Answer {
        ok: checks.iter().all(|check| check.ok || !check.essential),
        checks,
        leftovers: Vec::new(),
        removed: Vec::new(),
    };
    for leftover in leftovers::find() {
        match doctor.clean {
            true => {
                leftover
                    .remove()
                    .map_err(|error| Failure::Run(format!("cannot remove {leftover}: {error}")))?;
                answer.removed.push(leftover.to_string());
            }
            false => answer.leftovers.push(leftover.to_string()),
        }
    }
    let mut out = stdout();
    if doctor.json {
        serde_json::to_writer_pretty(&mut out, &answer).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&answer, doctor.clean, &mut out)?;
    }
    if answer.ok { Ok(()) } else { Err(Failure::Command(crate::RUN_FAILED)) }
}

fn print(answer: &Answer, clean: bool, out: &mut impl Write) -> io::Result<()> {
    let width = answer.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for Check { name, needed_for, ok, found, remedy, .. } in &answer.checks {
        let word = if *ok { "ok" } else { "missing" };
        writeln!(out, "{word:7}  {name:width$}  {}", steady_lines(found))?;
        if let (false, Some(remedy)) = (ok, remedy) {
            writeln!(out, "{:7}  {:width$}  for {needed_for}: {remedy}", "", "")?;
        }
    }
    for leftover in &answer.leftovers {
        writeln!(out, "left     {}; not in use. To remove it: leeway doctor --clean", steady(leftover))?;
    }
    for removed in &answer.removed {
        writeln!(out, "removed  {}", steady(removed))?;
    }
    if clean && answer.removed.is_empty() {
        writeln!(out, "there was nothing to remove")?;
    }
    writeln!(
        out,
        "{}",
        match answer.ok {
            true => "the laws can run in this machine's kernel",
            false if lacks_only_rights(answer) =>
                "you cannot use the laws in this machine's kernel; root can, if nothing else is missing",
            false => "the laws cannot run in this machine's kernel",
        }
    )
}

/// Whether all that is essential and missing are the rights of this user.
fn lacks_only_rights(answer: &Answer) -> bool {
    let mut missing = answer.checks.iter().filter(|check| check.essential && !check.ok).peekable();
    missing.peek().is_some()
        && missing.all(|check| [RIGHTS, TRIAL].contains(&check.name))
        && !able(capabilities())
}

/// Names of the checks that this user's rights decide.
const RIGHTS: &str = "rights";
const TRIAL: &str = "trial";
const LAWS: &str = "leeway kernel, run, attach, top";
const LINKS: &str = "leeway link, testnet";

fn checks() -> Vec<Check> {
    let root = capabilities();
    // A user without the rights can run laws only through the helper.
    let helper = if able(root) { None } else { Some(request::ready().map_err(text)) };
    let by_helper = helper.as_ref().and_then(|tried| tried.as_deref().ok());
    vec![
        kernel(),
        rights(root, by_helper.is_some()),
        bpf_file_system(by_helper.is_some()),
        trial(root, by_helper),
        cgroups(),
        kernels_own(),
        timestamps(),
        helper_check(helper.as_ref()),
        tun(),
        program("ip", "iproute2", LINKS),
        program("nft", "nftables", LINKS),
        clang(),
    ]
}

fn check(name: &'static str, needed_for: &'static str, found: Result<String, (String, String)>) -> Check {
    let ok = found.is_ok();
    let (found, remedy) = match found {
        Ok(found) => (found, None),
        Err((found, remedy)) => (found, Some(remedy)),
    };
    Check { name, needed_for, essential: false, ok, found, remedy }
}

fn essential(check: Check) -> Check {
    Check { essential: true, ..check }
}

/// Kernels in which a law was loaded and worked: docs/kernels.md.
const TESTED: &str = "tested: 6.12 and 6.18";

fn kernel() -> Check {
    let release = leeway_kernel::release();
    let found = match leeway_kernel::check_btf(&leeway_kernel::btf_path()) {
        Ok(()) => Ok(format!("Linux {release}, with BTF; {TESTED}")),
        Err(KernelError::NoBtf(path)) => Err((
            format!("Linux {release}, without BTF ({} is missing)", path.display()),
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build it".to_owned(),
        )),
        Err(KernelError::TooOld { .. }) => {
            Err((format!("Linux {release}"), format!("use Linux 6.10 or newer; {TESTED}")))
        }
        Err(error) => Err((format!("Linux {release}"), error.to_string())),
    };
    essential(check("kernel", LAWS, found))
}

/// Capabilities that loading laws needs, with their bit numbers (linux/capability.h).
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
const SYS_ADMIN: u32 = 21;

fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

fn has(capabilities: u64, number: u32) -> bool {
    capabilities >> number & 1 == 1
}

fn able(capabilities: u64) -> bool {
    has(capabilities, SYS_ADMIN) || NEEDED.iter().all(|(_, number)| has(capabilities, *number))
}

fn rights(capabilities: u64, by_helper: bool) -> Check {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(_, number)| !has(capabilities, *number) && !has(capabilities, SYS_ADMIN))
        .map(|(name, _)| *name)
        .collect();
    let found = match (missing.is_empty(), by_helper) {
        (true, _) => Ok("enough for the laws in the kernel".to_owned()),
        (false, true) => Ok("none of your own; the helper has them: leeway run, leeway top".to_owned()),
        (false, false) => Err((
            format!("without {}", missing.join(", ")),
            "run leeway as root, or ask root to run the helper: leeway helper".to_owned(),
        )),
    };
    essential(check(RIGHTS, LAWS, found))
}

/// Where a file system of type `kind` is mounted; only at `at`, if that is given.
fn mounted(kind: &str, at: Option<&str>) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (place, of) = (words.nth(1)?, words.next()?);
        (of == kind && at.is_none_or(|at| at == place)).then(|| place.to_owned())
    })
}

/// Whether the kernel knows the file system type `kind`.
fn known(kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some(kind))
}

fn bpf_file_system(by_helper: bool) -> Check {
    let found = match mounted("bpf", Some("/sys/fs/bpf")) {
        Some(place) => Ok(format!("mounted at {place}")),
        None if known("bpf") && (by_helper || has(capabilities(), SYS_ADMIN)) => {
            Ok("will be mounted when needed".to_owned())
        }
        None => Err(("not mounted".to_owned(), "as root: mount -t bpf bpf /sys/fs/bpf".to_owned())),
    };
    essential(check("BPF files", LAWS, found))
}

/// Loads a law into the kernel for a moment. `by_helper` is the helper's report of its own
/// attempt.
fn trial(capabilities: u64, by_helper: Option<&str>) -> Check {
    let found = match (able(capabilities), by_helper) {
        (true, _) => {
            attempt().map_err(|error| (error.to_string(), "the kernel's message says why".to_owned()))
        }
        (false, Some(said)) => Ok(format!("by the helper: {said}")),
        (false, None) => Err(("not tried without the rights".to_owned(), "see the rights above".to_owned())),
    };
    essential(check(TRIAL, LAWS, found))
}

/// Loads a law and unloads it again.
pub fn attempt() -> Result<String, KernelError> {
    let spec = "newreno".parse()?;
    let name = format!("lwdoctor{:x}", std::process::id() & 0xff_ffff);
    drop(Load { name, ..Load::new(spec) }.recorded()?);
    let names = leeway_kernel::names()?;
    let loaded = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Ok(format!("a law was loaded and unloaded again; laws that stay loaded: {loaded}"))
}

fn cgroups() -> Check {
    let found = match mounted("cgroup2", None) {
        Some(place) => Ok(format!("version 2 is mounted at {place}")),
        None => Err((
            "version 2 is not mounted".to_owned(),
            match known("cgroup2") {
                true => {
                    "as root: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
                }
                false => "use a kernel with CONFIG_CGROUPS=y and CONFIG_CGROUP_BPF=y",
            }
            .to_owned(),
        )),
    };
    check("cgroups", "leeway run, attach", found)
}

fn kernels_own() -> Check {
    let available = sysctl("net/ipv4/tcp_available_congestion_control");
    let missing: Vec<&str> = ["reno", "cubic", "bbr"]
        .into_iter()
        .filter(|law| !available.split(' ').any(|one| one == *law))
        .collect();
    let found = match missing.is_empty() {
        true => Ok(available),
        false => Err((
            format!("{available}; not {}", missing.join(", ")),
            format!(
                "as root: modprobe -a {}",
                missing.iter().map(|law| format!("tcp_{law} ")).collect::<String>().trim()
            ),
        )),
    };
    check("kernel's laws", "comparisons with them", found)
}

fn timestamps() -> Check {
    let found = match sysctl("net/ipv4/tcp_timestamps").as_str() {
        "0" => Err((
            "TCP timestamps are off: the laws see round-trip times only".to_owned(),
            "as root: sysctl net.ipv4.tcp_timestamps=1".to_owned(),
        )),
        _ => Ok("TCP timestamps are on".to_owned()),
    };
    check("timestamps", "one-way delays", found)
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default().trim().to_owned()
}

/// `tried` is the helper's answer, if this user needs the helper.
fn helper_check(tried: Option<&Result<String, String>>) -> Check {
    let socket = request::socket();
    let place = socket.display();
    let found = match (std::os::unix::net::UnixStream::connect(&socket), tried) {
        (Ok(_), Some(Err(why))) => {
            Err((why.clone(), "as root: look at the messages of leeway helper".to_owned()))
        }
        (Ok(_), _) => Ok(format!("{place} answers")),
        (Err(error), _) if error.kind() == io::ErrorKind::PermissionDenied => Err((
            format!("you have no right to use {place}"),
            "root lets you use it, from your next login on: usermod -aG leeway USER".to_owned(),
        )),
        (Err(_), _) => Err((
            format!("no helper listens at {place}"),
            "as root: start leeway helper, or its systemd unit".to_owned(),
        )),
    };
    check("helper", "leeway run and top as an ordinary user", found)
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Run(why) | Failure::Usage(why) => why,
        _ => "the helper did not answer".to_owned(),
    }
}

fn tun() -> Check {
    const TUN: &str = "/dev/net/tun";
    let found = match OpenOptions::new().read(true).write(true).open(TUN) {
        Ok(_) => Ok(format!("{TUN} can be opened")),
        Err(error) => {
            // Without the module there is no such file, or it leads to no device.
            let allowed = error.kind() != io::ErrorKind::PermissionDenied;
            let remedy = if allowed { "as root: modprobe tun" } else { "run the command as root" };
            Err((format!("{TUN}: {error}"), remedy.to_owned()))
        }
    };
    check("TUN devices", LINKS, found)
}

/// The path of the program `name`, if one of the folders in PATH has it.
fn find(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.map(|file| file.display().to_string())
}

fn program(name: &'static str, package: &str, needed_for: &'static str) -> Check {
    let missing = || {
        (
            format!("no {name} in the path"),
            format!("apt-get install {package}, or the package of that name on your system"),
        )
    };
    check(name, needed_for, find(name).ok_or_else(missing))
}

fn clang() -> Check {
    let names = ["clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang"];
    let missing = || ("no clang in the path".to_owned(), "apt-get install clang-16".to_owned());
    check(
        "clang",
        "building leeway, not for running it",
        names.into_iter().find_map(find).ok_or_else(missing),
    )
}
