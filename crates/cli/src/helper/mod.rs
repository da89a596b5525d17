//! `leeway helper`: a service that lets ordinary users run commands whose traffic yields.
//!
//! A process that asks over the helper's socket is moved to a cgroup of its own, below its present
//! cgroup, under a policy. The kernel tells who asks; a request cannot name another process. The
//! helper also answers questions of users about what is their own: their connections, and the
//! account of their commands.

mod question;
pub mod request;

use crate::account::{self, Told};
use crate::sockets::Snapshot;
use crate::{Failure, doctor};
use clap::Args;
use leeway_kernel::{Asker, Confinement, Process, confinements};
use nix::sys::socket::sockopt::PeerPidfd;
use question::{Question, Reply, Tell};
use request::{Answer, Request, SOCKET, read_line, send};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// What `leeway helper --help` ends with.
pub const HELP: &str = "Examples:\n  \
    systemctl enable --now leeway-helper.socket\n      \
    with systemd\n  \
    groupadd --system leeway; leeway helper &\n      \
    without systemd\n\n\
    Members of the group can then use `leeway run`. The helper runs in the foreground and can be stopped at any time: running \
    commands stay confined, and the next start of the helper cleans up after them.\n\n\
    Exit codes: 0 the helper was stopped, 1 it could not start, 2 bad usage.";

/// The time in which a user must send the request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait for an answer: of one user, and of all users together.
const WAITING_PER_USER: u32 = 32;
const WAITING: u32 = 256;

/// The options of `leeway helper`.
#[derive(Args)]
pub struct Helper {
    /// The socket to listen at. A socket that systemd passes takes its place.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// The group whose members may use the helper.
    #[arg(long, value_name = "GROUP", default_value = "leeway")]
    group: String,
    /// The most commands that one user may run at the same time.
    #[arg(long, value_name = "N", default_value_t = 32)]
    per_user: usize,
}

/// Serves until it is stopped.
pub fn run(helper: &Helper) -> Result<(), Failure> {
    // Clean up after commands that an earlier helper confined.
    for confinement in confinements()?.into_iter().filter(|one| !one.persistent) {
        start(move || clean_up(&confinement));
    }
    let listener = helper.listener()?;
    let state =
        Arc::new(State { per_user: helper.per_user, confining: Mutex::new(()), waiting: Mutex::default() });
    eprintln!("leeway helper: ready");
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                start(move || state.serve(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // Out of descriptors or memory. That passes when other connections end.
                eprintln!("leeway helper: cannot take a connection: {error}");
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

impl Helper {
    fn listener(&self) -> Result<UnixListener, Failure> {
        let passed = listenfd::ListenFd::from_env().take_unix_listener(0);
        if let Some(listener) = passed.map_err(|error| {
            Failure::Run(format!("systemd passed something that is not a socket: {error}"))
        })? {
            return Ok(listener);
        }
        let place = self.socket.display();
        let failed = |doing: &str, error: io::Error| Failure::Run(format!("cannot {doing} {place}: {error}"));
        let group = nix::unistd::Group::from_name(&self.group).ok().flatten().ok_or_else(|| {
            Failure::Usage(format!(
                "there is no group {:?}, whose members may use the helper: groupadd --system {0}, or name another with \
                 --group",
                self.group
            ))
        })?;
        if UnixStream::connect(&self.socket).is_ok() {
            return Err(Failure::Run(format!("a helper listens at {place} already")));
        }
        if let Some(folder) = self.socket.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed("make the folder of", error))?;
        }
        match std::fs::remove_file(&self.socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("replace", error)),
            _ => {}
        }
        // Until the group is set, only root can connect.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&self.socket);
        rustix::process::umask(mask);
        let listener = listener.map_err(|error| failed("listen at", error))?;
        std::os::unix::fs::chown(&self.socket, None, Some(group.gid.as_raw()))
            .and_then(|()| std::fs::set_permissions(&self.socket, PermissionsExt::from_mode(0o660)))
            .map_err(|error| failed("let the group use", error))?;
        Ok(listener)
    }
}

/// Starts a thread. If the system has no more of them, whoever asked is sent away, and the helper
/// goes on.
fn start(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().spawn(work) {
        eprintln!("leeway helper: cannot start a thread: {error}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// State that all connections of the helper share.
struct State {
    per_user: usize,
    /// Held while the commands of a user are counted and a new one is added.
    confining: Mutex<()>,
    /// Connections of each user that wait for an answer.
    waiting: Mutex<HashMap<u32, u32>>,
}

impl State {
    /// Answers one request. After a confinement, waits for its end and cleans up.
    fn serve(&self, mut stream: UnixStream) {
        let confined = match self.answer(&mut stream) {
            Ok(Outcome::Confined(confinement)) => {
                let _ = send(&mut stream, &Answer::Confined);
                confinement
            }
            Ok(Outcome::Told(answer)) => {
                let _ = send(&mut stream, &answer);
                return;
            }
            Err(why) => {
                let _ = send(&mut stream, &Answer::Refused(why));
                return;
            }
        };
        drop(stream);
        clean_up(&confined);
    }

    fn answer(&self, stream: &mut UnixStream) -> Result<Outcome, String> {
        let peer = rustix::net::sockopt::socket_peercred(&*stream).map_err(|error| error.to_string())?;
        let (pid, uid) = (peer.pid.as_raw_nonzero().get() as u32, peer.uid.as_raw());
        let _waiting = Waiting::new(&self.waiting, uid)?;
        // The handle is of the process that connected, even if its number has been reused since.
        let handle = nix::sys::socket::getsockopt(stream, PeerPidfd);
        let handle = handle.map_err(|error| format!("cannot see who asks: {error}"))?;
        let process = Process::new(pid, handle);
        let line = read_line(stream, PATIENCE).map_err(|error| error.to_string())?;
        if let Some(question) = Question::parse(&line)? {
            return tell(&question.tell, pid, uid).map(Outcome::Told);
        }
        let request = Request::parse(&line)?;
        let (policy, asker) = (request.policy()?, Asker { uid, what: request.what });
        let _one = lock(&self.confining);
        let all = confinements().map_err(|error| error.to_string())?;
        let running = all.iter().filter(|one| !one.persistent && one.asker.uid == uid).count();
        if running >= self.per_user {
            return Err(format!("user {uid} already runs {running} commands, which is the limit"));
        }
        check(&process, uid)?;
        let confinement = Confinement::of_process(&process, &policy, &asker);
        confinement.map(Outcome::Confined).map_err(|error| error.to_string())
    }
}

/// The result of a request.
enum Outcome {
    Confined(Confinement),
    Told(Reply),
}

/// Answers a question of a user about the user's own connections and commands.
fn tell(tell: &Tell, pid: u32, uid: u32) -> Result<Reply, String> {
    match tell {
        Tell::Ready => doctor::attempt().map(Reply::Ready).map_err(|error| error.to_string()),
        Tell::Account => {
            let found = account::confinement_of(pid).map_err(|error| error.to_string())?;
            let own = found.filter(|one| one.asker.uid == uid);
            let own =
                own.ok_or("this process is not part of a command that this user runs with leeway run")?;
            Told::of(&own).map(Reply::Account).map_err(|error| error.to_string())
        }
        Tell::Sockets(laws) => {
            let snapshot = Snapshot::take(laws, Some(uid)).map_err(|failure| match failure {
                Failure::Run(why) | Failure::Usage(why) => why,
                _ => "cannot list the connections".to_owned(),
            });
            snapshot.map(Reply::Sockets)
        }
    }
}

/// Checks that the process still runs, as the user `uid`.
fn check(process: &Process, uid: u32) -> Result<(), String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).unwrap_or_default();
    let of_user = status.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&"Uid:") && words.get(1) == Some(&uid.to_string().as_str())
    });
    if of_user && !process.has_ended() { Ok(()) } else { Err("the process that asked has ended".to_owned()) }
}

/// One waiting connection of a user, counted until it is dropped.
struct Waiting<'a>(&'a Mutex<HashMap<u32, u32>>, u32);

impl<'a> Waiting<'a> {
    fn new(all: &'a Mutex<HashMap<u32, u32>>, uid: u32) -> Result<Waiting<'a>, String> {
        let mut users = lock(all);
        let own = users.get(&uid).copied().unwrap_or_default();
        if own >= WAITING_PER_USER || users.values().sum::<u32>() >= WAITING {
            return Err("too many requests at the same time; try again".to_owned());
        }
        users.insert(uid, own + 1);
        Ok(Waiting(all, uid))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut users = lock(self.0);
        if let Some(count) = users.get_mut(&self.1) {
            *count -= 1;
        }
        users.retain(|_, count| *count > 0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits for the end of a command and removes its cgroup.
fn clean_up(confinement: &Confinement) {
    if let Err(error) = confinement.remove_when_empty() {
        eprintln!("leeway helper: {}: {error}", Path::new(&confinement.cgroup).display());
    }
}
