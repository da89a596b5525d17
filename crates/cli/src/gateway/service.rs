//! `leeway gateway up` and `down`: a gateway in the background.

use super::check::CONFIG;
use super::control::sharing;
use super::usage;
use crate::Failure;
use crate::ending::Ending;
use crate::output::stdout;
use clap::Args;
use leeway_gateway::Config;
use leeway_gateway::config::ConfigError;
use leeway_gateway::control::{Client, ClientError, SOCKET, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Examples and exit codes of `up`.
pub const UP_HELP: &str = "Examples:\n  \
    sudo leeway gateway up\n      \
    starts it with /etc/leeway/gateway.toml, as a service where systemd and the packaged unit are there\n  \
    leeway gateway up --config home.toml --log home.log\n      \
    starts a process that is not a service, with another file\n\n\
    A gateway that is not a service writes its process number beside the control socket (control.pid), \
    and its messages to gateway.log in the folder `state` of [control].\n\n\
    Exit codes: 0 it serves, 1 one runs already or it does not start, 2 bad usage or a bad configuration.";

/// Examples and exit codes of `down`.
pub const DOWN_HELP: &str = "Examples:\n  \
    sudo leeway gateway down\n      \
    ends it; running transfers have five seconds to finish\n  \
    leeway gateway down --config home.toml\n      \
    ends the one that was started with another file\n\n\
    Exit codes: 0 it has ended, 1 none runs or it does not end, 2 bad usage or a bad configuration.";

/// The packaged unit, which reads [`CONFIG`].
const UNIT: &str = "leeway-gateway.service";
/// Longest time for a gateway to start serving, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to start.
#[derive(Args)]
pub struct Up {
    /// Configuration (TOML).
    #[arg(long, short, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// File for the messages of a gateway that is not a service. Overwritten at each start.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// What to end.
#[derive(Args)]
pub struct Down {
    /// Configuration that the gateway was started with; /etc/leeway/gateway.toml by default.
    #[arg(long, short, value_name = "FILE", conflicts_with = "socket")]
    config: Option<PathBuf>,
    /// Control socket of the gateway, if the configuration has changed since its start.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Starts a gateway.
pub fn up(up: &Up) -> Result<(), Failure> {
    let path = std::path::absolute(&up.config)?;
    let config = Config::read(&path).map_err(usage)?;
    config.check().map_err(usage)?;
    let control = config.control.unwrap_or_default();
    let socket = &control.socket;
    if let Some(pid) = runs(socket)? {
        return Err(Failure::Run(format!(
            "a gateway is up already: process {} at {}. `leeway gateway reload` reads its configuration again, \
             `leeway gateway down` ends it",
            pid.as_raw_nonzero(),
            socket.display()
        )));
    }
    let ending = Ending::heard()?;
    let status = match path == Path::new(CONFIG) && up.log.is_none() && has_unit() {
        true => Service.start(socket, &ending)?,
        false => {
            let log = up.log.clone().unwrap_or_else(|| control.state.join("gateway.log"));
            Process { config: &path, socket, log: &log }.start(&ending)?
        }
    };
    let mut out = stdout();
    let addresses: Vec<String> = status.addresses.iter().map(ToString::to_string).collect();
    writeln!(out, "the gateway is up and listens on {}", addresses.join(", "))?;
    sharing(&status, &mut out)?;
    Ok(out.flush()?)
}

/// Ends a gateway.
pub fn down(down: &Down) -> Result<(), Failure> {
    let socket = down.socket()?;
    let Some(pid) = runs(&socket)? else { return Err(ClientError::Nobody(socket).into()) };
    if has_unit() && is_service(pid) {
        systemctl(&["stop", UNIT])?;
    } else {
        end(pid)?;
        // Only a gateway that is not a service has this file.
        let _ = std::fs::remove_file(socket.with_extension("pid"));
    }
    writeln!(stdout(), "the gateway is down")?;
    Ok(())
}

impl Down {
    fn socket(&self) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        match (&self.config, Config::read(self.config.as_deref().unwrap_or(Path::new(CONFIG)))) {
            (_, Ok(config)) => Ok(config.control.unwrap_or_default().socket),
            // The gateway was started without a file, or this user may not read the file. Then
            // this user may not control the gateway either.
            (None, Err(ConfigError::File { .. })) => Ok(SOCKET.into()),
            (_, Err(error)) => Err(Failure::Usage(format!(
                "{error}; the running gateway can also be named by its control socket: --socket PATH"
            ))),
        }
    }
}

/// The process that listens at a control socket.
fn runs(socket: &Path) -> Result<Option<Pid>, Failure> {
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(ClientError::Rights(socket.to_owned()).into());
        }
        Err(error) => return Err(ClientError::Broken(socket.to_owned(), error.to_string()).into()),
    };
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(io::Error::from)?;
    Ok(Some(peer.pid))
}

/// Waits until the gateway answers. `ended` returns an error if it has ended.
fn answers(
    socket: &Path,
    ending: &Ending,
    mut ended: impl FnMut() -> Result<(), Failure>,
) -> Result<Status, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(socket);
    let begun = Instant::now();
    loop {
        match runtime.block_on(client.get("/v1/status")) {
            Ok(status) => return Ok(status),
            Err(ClientError::Nobody(_)) => ended()?,
            Err(error) => return Err(error.into()),
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::Run(format!(
                "the gateway does not answer at {} after {} s",
                socket.display(),
                PATIENCE.as_secs()
            )));
        }
        if !ending.sleep_until(Instant::now() + Duration::from_millis(50)) {
            return Err(Failure::Run("ended by a signal, before the gateway was up".into()));
        }
    }
}

/// A gateway that runs as a service of systemd.
struct Service;

impl Service {
    fn start(&self, socket: &Path, ending: &Ending) -> Result<Status, Failure> {
        systemctl(&["start", UNIT])?;
        answers(socket, ending, || match state(&["is-active", UNIT]).as_str() {
            "failed" | "inactive" => Err(Failure::Run(said_in_journal("it has ended"))),
            _ => Ok(()),
        })
    }
}

fn said_in_journal(what: &str) -> String {
    format!("{what}; the reason is in: journalctl --unit {UNIT} --lines 20")
}

/// Whether systemd runs this machine (sd_booted(3)) and has the packaged unit.
pub fn has_unit() -> bool {
    let mut cat = Command::new("systemctl");
    cat.args(["cat", UNIT]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Path::new("/run/systemd/system").is_dir() && cat.status().is_ok_and(|status| status.success())
}

/// Whether this process is the main process of the unit.
fn is_service(pid: Pid) -> bool {
    state(&["show", "--property=MainPID", "--value", UNIT]) == pid.as_raw_nonzero().to_string()
}

/// The output of systemctl, whatever its exit code.
fn state(arguments: &[&str]) -> String {
    let output = Command::new("systemctl").args(arguments).stdin(Stdio::null()).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let status = Command::new("systemctl").args(arguments).stdin(Stdio::null()).status();
    let failed = |why: String| {
        Failure::Run(said_in_journal(&format!("`systemctl {}` failed ({why})", arguments.join(" "))))
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// A gateway that is not a service.
struct Process<'a> {
    config: &'a Path,
    socket: &'a Path,
    log: &'a Path,
}

impl Process<'_> {
    fn start(&self, ending: &Ending) -> Result<Status, Failure> {
        let mut number = self.number()?;
        let log = self.open_log()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["gateway", "--config"]).arg(self.config).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // A process group of its own, so that Ctrl-C at this terminal does not end it.
        command.process_group(0);
        let mut child = command.spawn()?;
        let written = number.set_len(0).and_then(|()| writeln!(number, "{}", child.id()));
        let status = written.map_err(Failure::from).and_then(|()| self.serves(&mut child, ending));
        if status.is_err() {
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_file(self.socket.with_extension("pid"));
        }
        status
    }

    /// Waits until this gateway answers. It is an error if another one answers.
    fn serves(&self, child: &mut Child, ending: &Ending) -> Result<Status, Failure> {
        let status = answers(self.socket, ending, || match child.try_wait()? {
            Some(status) => {
                let said = std::fs::read_to_string(self.log).unwrap_or_default();
                let words = format!("the gateway has ended ({status}). It said:\n{}", said.trim_end());
                Err(if status.code() == Some(2) { Failure::Usage(words) } else { Failure::Run(words) })
            }
            None => Ok(()),
        })?;
        let other = runs(self.socket)?.filter(|pid| pid.as_raw_nonzero().get().cast_unsigned() != child.id());
        match other {
            Some(pid) => Err(Failure::Run(format!(
                "another gateway uses {}: process {}",
                self.socket.display(),
                pid.as_raw_nonzero()
            ))),
            None => Ok(status),
        }
    }

    /// The file for the process number. Its lock allows one `up` at a time.
    fn number(&self) -> Result<File, Failure> {
        let path = self.socket.with_extension("pid");
        let failed = |error: io::Error| {
            Failure::Run(format!("cannot write {}: {error}{}", path.display(), as_root(&error)))
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::Run("another `leeway gateway up` is starting it".into()),
            TryLockError::Error(error) => failed(error),
        })?;
        Ok(file)
    }

    fn open_log(&self) -> Result<File, Failure> {
        let failed = |error: io::Error| {
            Failure::Run(format!("cannot write {}: {error}{}", self.log.display(), as_root(&error)))
        };
        if let Some(folder) = self.log.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600).open(self.log).map_err(failed)
    }
}

fn as_root(error: &io::Error) -> &'static str {
    if error.kind() == ErrorKind::PermissionDenied { "; run this as root" } else { "" }
}

/// Ends a process with SIGTERM, and waits until it has ended.
fn end(pid: Pid) -> Result<(), Failure> {
    let number = pid.as_raw_nonzero();
    let failed = |error: rustix::io::Errno| {
        let error = io::Error::from(error);
        Failure::Run(format!("cannot end process {number}: {error}{}", as_root(&error)))
    };
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    pidfd_send_signal(&process, Signal::TERM).map_err(failed)?;
    let begun = Instant::now();
    loop {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        // The descriptor becomes readable when the process has ended (pidfd_open(2)).
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
            Ok(0) => {
                return Err(Failure::Run(format!(
                    "process {number} has not ended after {} s; to end it at once: kill -KILL {number}",
                    PATIENCE.as_secs()
                )));
            }
            Ok(_) => return Ok(()),
        }
    }
}
