//! What can go wrong with congestion control in the kernel; every message says what would be
//! right.

use std::path::PathBuf;

/// Why the kernel does not run a law, or cannot say what it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The specification of the law is wrong.
    #[error(transparent)]
    Law(#[from] leeway_control::LawError),
    /// Not root, or the rights of root were taken away.
    #[error(
        "congestion control in the kernel needs root, or the capabilities CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and, to mount \
         the BPF file system, CAP_SYS_ADMIN: {doing}"
    )]
    Permission {
        /// What was refused.
        doing: String,
    },
    /// The kernel has no description of its types.
    #[error(
        "this kernel has no BTF ({0} is missing): it needs CONFIG_DEBUG_INFO_BTF=y, which distributions' kernels have"
    )]
    NoBtf(PathBuf),
    /// Congestion control in BPF takes over a part of the kernel's work that older kernels do not
    /// hand out.
    #[error(
        "this kernel is too old{}: Linux 6.10 or newer is needed, where cong_control takes four arguments, not {found}",
        .release.as_ref().map(|release| format!(" (Linux {release})")).unwrap_or_default()
    )]
    TooOld {
        /// Arguments of `cong_control`; 0: there is none.
        found: usize,
        /// The version of the kernel that runs, where it is its types that were looked at.
        release: Option<String>,
    },
    /// Control groups are missing.
    #[error("there is no cgroup v2, which a command is confined by: {0}")]
    NoCgroup(String),
    /// There is no such cgroup.
    #[error("no cgroup {name:?}: {among}")]
    UnknownCgroup {
        /// As asked.
        name: String,
        /// What there is.
        among: String,
    },
    /// The root of the hierarchy.
    #[error(
        "cgroup / is the whole machine, also the programs that should keep their full rate; name a slice, a service or a \
         container, such as backup.slice (systemd-cgls lists them), or a process: leeway attach --pid PID"
    )]
    WholeMachine,
    /// The cgroup is confined already.
    #[error("cgroup /{0} is attached already; detach it first: leeway attach --cgroup /{0} --detach")]
    Attached(String),
    /// The cgroup is not confined.
    #[error("cgroup /{0} is not attached; leeway attach --list shows what is")]
    NotAttached(String),
    /// Not every law can drive a window from the receiver.
    #[error("{0} cannot hold downloads back: the laws for receivers are ledbatpp, ledbat and ebb")]
    NotForReceivers(&'static str),
    /// The kernel's name of a congestion control has at most 15 characters.
    #[error("{0:?} cannot be the name of a congestion control, which is 1 to 15 letters, digits or '_'")]
    BadName(String),
    /// A congestion control of that name exists already.
    #[error("{0} is loaded already; choose another with --name, or unload it: leeway kernel unload {0}")]
    Exists(String),
    /// Nothing of that name is loaded.
    #[error("no law is loaded as {name:?}; loaded: {loaded}")]
    Unknown {
        /// As asked.
        name: String,
        /// What there is.
        loaded: String,
    },
    /// The kernel refused the program.
    #[error("the kernel refused {law}: {reason}\n{log}")]
    Refused {
        /// The law.
        law: &'static str,
        /// What the system call said.
        reason: String,
        /// The end of what the verifier and libbpf said.
        log: String,
    },
    /// The process that was to be confined has ended.
    #[error("process {0} has ended")]
    Ended(u32),
    /// A folder that decides what the kernel runs is somebody else's to change.
    #[error(
        "{0}: {whose}; a folder of root's alone is needed there, because it decides what the kernel runs. \
         Remove it: sudo rm -r {0}",
        .folder.display()
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it, and whose it is.
        whose: String,
    },
    /// Somebody else changes confinements, and does not come to an end.
    #[error(
        "another leeway{holder} has been changing what is confined for {waited_s} s, and {0} is locked; end it first",
        .lock.display()
    )]
    Busy {
        /// Its process, where that can be seen: ` (process 4711)`.
        holder: String,
        /// Seconds of waiting.
        waited_s: u64,
        /// The file that is locked.
        lock: PathBuf,
    },
    /// A step of the work failed.
    #[error("cannot {doing}: {reason}")]
    Failed {
        /// The step.
        doing: String,
        /// Why.
        reason: String,
    },
}

impl KernelError {
    pub(crate) fn failed(doing: impl Into<String>) -> impl FnOnce(&dyn std::fmt::Display) -> KernelError {
        let doing = doing.into();
        move |reason| KernelError::Failed { doing, reason: reason.to_string() }
    }

    /// Nothing has that name, but these.
    pub(crate) fn unknown(name: &str, known: &[String]) -> KernelError {
        let loaded = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        KernelError::Unknown { name: name.to_owned(), loaded }
    }

    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> KernelError {
        let doing = doing.into();
        move |error| match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => KernelError::Permission { doing },
            _ => KernelError::failed(doing)(&format!("{error:#}")),
        }
    }
}
