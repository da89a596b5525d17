//! The client side of the helper: requests of ordinary users and the helper's answers, one line of
//! JSON each.

use super::question::{Question, Reply, Tell};
use crate::Failure;
use crate::account::Told;
use crate::sockets::Snapshot;
pub use leeway_kernel::{Answer, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Default path of the helper's socket.
pub const SOCKET: &str = "/run/leeway/helper.sock";
/// Environment variable with another path.
pub const SOCKET_VARIABLE: &str = "LEEWAY_HELPER";
/// The longest request, in bytes.
const LINE_MAX: usize = 4096;
/// The longest answer, in bytes: enough for some ten thousand connections.
const ANSWER_MAX: usize = 1 << 22;
/// How long a client waits for the answer. The kernel verifies programs for about a second, for
/// one user after the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// The path of the helper's socket.
pub fn socket() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// Asks the helper to confine this process.
pub fn ask(request: &Request) -> Result<(), Failure> {
    match exchange(request)? {
        Answer::Confined => Ok(()),
        Answer::Refused(why) => Err(refused(&why)),
    }
}

/// The account of the command that this process belongs to.
pub fn account() -> Result<Told, Failure> {
    match exchange(&Question::new(Tell::Account))? {
        Reply::Account(told) => Ok(told),
        other => Err(unexpected(&other)),
    }
}

/// The user's connections.
pub fn sockets(laws: &[String]) -> Result<Snapshot, Failure> {
    match exchange(&Question::new(Tell::Sockets(laws.to_vec())))? {
        Reply::Sockets(snapshot) => Ok(snapshot),
        other => Err(unexpected(&other)),
    }
}

/// What the helper tried in order to see whether laws can run here.
pub fn ready() -> Result<String, Failure> {
    match exchange(&Question::new(Tell::Ready))? {
        Reply::Ready(what) => Ok(what),
        other => Err(unexpected(&other)),
    }
}

fn refused(why: &str) -> Failure {
    Failure::Run(format!("the helper refused: {why}"))
}

fn unexpected(reply: &Reply) -> Failure {
    match reply {
        Reply::Refused(why) => refused(why),
        _ => Failure::Run("the helper gave an answer of another kind; restart it".into()),
    }
}

fn missing(socket: &Path, error: &io::Error) -> Failure {
    let socket = socket.display();
    let right = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "you have no right to use it; root gives it with `usermod -aG leeway USER`, from your next login"
        }
        _ => {
            "root starts it with `systemctl enable --now leeway-helper.socket`, or `leeway helper` without systemd. Root \
             lets you use it with `usermod -aG leeway USER`"
        }
    };
    Failure::Run(format!(
        "controlling and seeing traffic needs root, or the helper for ordinary users at {socket}: {error}\n\
         {right}; or run it as root: sudo leeway ..."
    ))
}

fn exchange<A: DeserializeOwned>(request: &impl Serialize) -> Result<A, Failure> {
    let socket = socket();
    let mut stream = UnixStream::connect(&socket).map_err(|error| missing(&socket, &error))?;
    converse(&mut stream, request)
        .map_err(|error| Failure::Run(format!("the helper at {} did not answer: {error}", socket.display())))
}

fn converse<A: DeserializeOwned>(stream: &mut UnixStream, request: &impl Serialize) -> io::Result<A> {
    // A helper with too many requests refuses without reading. Its reason waits here although the
    // request cannot be sent any more.
    let sent = send(stream, request);
    match read_up_to(ANSWER_MAX, stream, PATIENCE) {
        Ok(line) => serde_json::from_slice(&line).map_err(io::Error::other),
        Err(error) => Err(sent.err().unwrap_or(error)),
    }
}

/// Writes `message` as a line of JSON.
pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&line)
}

/// Reads a line of at most [`LINE_MAX`] bytes within `patience`.
pub fn read_line(stream: &mut UnixStream, patience: Duration) -> io::Result<Vec<u8>> {
    read_up_to(LINE_MAX, stream, patience)
}

fn read_up_to(most: usize, stream: &mut UnixStream, patience: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no complete line arrived in time"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            // The loop checks the time that is left.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&buffer[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if line.len() > most {
            return Err(io::Error::other(format!("a line of more than {most} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_heard_although_nobody_reads_the_request() {
        let (mut client, mut helper) = UnixStream::pair().unwrap();
        send(&mut helper, &Answer::Refused("too many requests".into())).unwrap();
        drop(helper);
        let answer: Answer = converse(&mut client, &Question::new(Tell::Ready)).unwrap();
        assert!(matches!(answer, Answer::Refused(why) if why == "too many requests"));
        let (mut client, helper) = UnixStream::pair().unwrap();
        drop(helper);
        assert!(converse::<Answer>(&mut client, &Question::new(Tell::Ready)).is_err());
    }
}
