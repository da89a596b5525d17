//! `leeway kernel`: loads, unloads and shows laws as TCP congestion control of this machine's
//! kernel.

mod file;

use crate::Failure;
use crate::output::stdout;
use clap::Subcommand;
use leeway_control::{LawSpec, Phase};
use leeway_kernel::{KernelError, Load, Loaded, Socket};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// What to do with congestion control in the kernel.
#[derive(Subcommand)]
pub enum KernelCommand {
    /// Make a law available to every program of this machine, under a name. The law stays until it
    /// is unloaded or the machine restarts.
    #[command(after_help = "Examples:\n  \
        leeway kernel load ledbat                        as leeway_ledbat\n  \
        leeway kernel load ledbat:target=5ms --name lb5  also, with other parameters\n  \
        leeway kernel load --file /etc/leeway/laws.conf  the laws of a file, as at boot\n  \
        ip route change default via 192.0.2.1 congctl lb5    every connection of that route\n\n\
        Exit codes: 0 loaded, 1 the kernel refuses, 2 bad usage, an unknown law or a bad name.")]
    Load {
        /// The law, perhaps with parameters, as `leeway laws` lists them: `ledbat:target=5ms`.
        #[arg(required_unless_present = "file")]
        law: Option<String>,
        /// The kernel's name for the law, up to 15 characters; `leeway_` and the name of the law
        /// by default.
        #[arg(long)]
        name: Option<String>,
        /// Ignore TCP timestamps, so that the law sees round-trip times only. For peers whose
        /// timestamps do not count milliseconds.
        #[arg(long)]
        no_timestamps: bool,
        /// Load the laws of this file instead. Each line has a law, and may have a name for it and
        /// `no-timestamps`; `#` begins a comment. A law that is loaded with the same parameters
        /// stays. With other parameters it is replaced for new connections.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["law", "name", "no_timestamps"])]
        file: Option<PathBuf>,
    },
    /// Unload a law. Connections that use it keep it until they end.
    #[command(after_help = "Example: leeway kernel unload ledbat:target=5ms\n\n\
        Exit codes: 0 unloaded, 1 the kernel refuses, 2 bad usage, or the law is not loaded.")]
    Unload {
        /// Its name, or the law as it was given to `load`.
        #[arg(required_unless_present = "file")]
        name: Option<String>,
        /// Unload the laws of this file. Those that are not loaded are skipped.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
    },
    /// List the loaded laws, with the number of sockets that use each.
    #[command(after_help = "Example: leeway kernel list\n\nExit codes: 0 done, 1 the kernel refuses.")]
    List,
    /// Show the parameters of a loaded law and the sockets that use it, of all network namespaces.
    #[command(after_help = "Example: leeway kernel show leeway_ledbat\n\n\
        Exit codes: 0 done, 1 the kernel refuses, 2 the law is not loaded.")]
    Show {
        /// Its name, or the law as it was given to `load`.
        name: String,
    },
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Law(_)
            | KernelError::BadName(_)
            | KernelError::Unknown { .. }
            | KernelError::UnknownCgroup { .. }
            | KernelError::Attached(_)
            | KernelError::WholeMachine
            | KernelError::NotAttached(_) => Failure::Usage(error.to_string()),
            error => Failure::Run(error.to_string()),
        }
    }
}

/// Runs the subcommand.
pub fn run(command: &KernelCommand) -> Result<(), Failure> {
    match command {
        KernelCommand::Load { file: Some(file), .. } => file::load(file),
        KernelCommand::Load { law, name, no_timestamps, .. } => {
            let spec: LawSpec = law.as_deref().unwrap_or_default().parse().map_err(KernelError::from)?;
            let mut load = Load { timestamps: !no_timestamps, ..Load::new(spec) };
            if let Some(name) = name {
                load.name = name.to_owned();
            }
            load.pinned()?;
            Ok(writeln!(stdout(), "{} is loaded as {}", load.spec, load.name)?)
        }
        KernelCommand::Unload { file: Some(file), .. } => file::unload(file),
        KernelCommand::Unload { name, .. } => {
            let name = resolved(name.as_deref().unwrap_or_default())?;
            leeway_kernel::unload(&name)?;
            Ok(writeln!(stdout(), "{name} is unloaded; connections that use it keep it until they end")?)
        }
        KernelCommand::List => list(),
        KernelCommand::Show { name } => show(&Loaded::find(&resolved(name)?)?),
    }
}

/// The kernel's name of what `text` means: `text` itself, or the default name of the law that
/// `text` spells (`ledbat:target=5ms`).
fn resolved(text: &str) -> Result<String, Failure> {
    let names = leeway_kernel::names()?;
    let Ok(spec) = text.parse::<LawSpec>() else { return Ok(text.to_owned()) };
    let default = leeway_kernel::default_name(&spec);
    if names.iter().any(|name| name == text) || !names.contains(&default) {
        return Ok(text.to_owned());
    }
    let loaded = Loaded::find(&default);
    match loaded {
        // Without parameters, `text` means the loaded law whatever its parameters are.
        Ok(loaded) if text.contains(':') && loaded.spec != spec => Err(Failure::Usage(format!(
            "{default} is loaded as {}, not as {spec}; to choose it, give its name: {default}",
            loaded.spec
        ))),
        _ => Ok(default),
    }
}

fn list() -> Result<(), Failure> {
    let mut lines = Vec::new();
    for name in leeway_kernel::names()? {
        let law = Loaded::find(&name);
        match law.and_then(|law| Ok((law.sockets()?.len(), law))) {
            Ok((sockets, law)) => {
                lines.push(format!("{name:15}  {sockets:>7}  {:>9}  {}", age(law.loaded_unix_s), law.spec));
            }
            Err(KernelError::Failed { reason, .. }) => {
                lines.push(format!("{name:15}  {:>7}  {:>9}  {reason}", "?", "?"));
            }
            // Unloaded between the listing and this look.
            Err(KernelError::Unknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut out = stdout();
    if lines.is_empty() {
        writeln!(out, "no law is loaded")?;
        return Ok(());
    }
    writeln!(out, "{:15}  {:>7}  {:>9}  law", "name", "sockets", "loaded")?;
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(())
}

fn show(law: &Loaded) -> Result<(), Failure> {
    let mut out = stdout();
    writeln!(out, "{}: {}", law.name, law.spec.law().summary)?;
    writeln!(out, "loaded {} ago", age(law.loaded_unix_s))?;
    writeln!(out, "timestamps: {}", if law.timestamps { "used" } else { "ignored" })?;
    for param in &law.spec.law().params {
        let value = law.spec.get(param.name).map_err(KernelError::from)?;
        writeln!(out, "    {:16}  {value}", param.name)?;
    }
    let mut sockets = law.sockets()?;
    sockets.sort_by_key(|socket| (socket.netns, socket.local, socket.remote));
    writeln!(out, "sockets: {}", sockets.len())?;
    sockets.iter().try_for_each(|socket| write_socket(socket, &mut out))?;
    Ok(())
}

fn write_socket(socket: &Socket, out: &mut impl Write) -> io::Result<()> {
    let Socket { local, remote, netns, .. } = socket;
    let packets = socket.output.window_bytes_f64() / f64::from(socket.mss_bytes.max(1));
    let delay_ms = f64::from(socket.output.queuing_delay_us) / 1000.0;
    let rtt_ms = f64::from(socket.srtt_us) / 1000.0;
    let phase: Phase = socket.output.phase();
    writeln!(
        out,
        "    {local} > {remote}  netns {netns}  window {packets:.2} pkt  in flight {} pkt  \
         queuing delay {delay_ms:.1} ms  RTT {rtt_ms:.1} ms  {phase}",
        socket.inflight
    )
}

/// The time since `unix_s`, in the largest unit that keeps it readable.
pub fn age(unix_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match now.saturating_sub(unix_s) {
        s @ ..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}
