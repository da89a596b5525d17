//! What ordinary users say to the helper, and how it answers: a line of JSON each.

use crate::Failure;
pub use leeway_kernel::{Answer, Request};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the helper listens.
pub const SOCKET: &str = "/run/leeway/helper.sock";
/// Names another place.
pub const SOCKET_VARIABLE: &str = "LEEWAY_HELPER";
/// The most that a request or an answer may have.
const LINE_MAX: usize = 4096;
/// How long a user waits: the kernel judges programs for about a second, one user after the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has this process confined.
pub fn ask(request: &Request) -> Result<(), Failure> {
    let socket = std::env::var_os(SOCKET_VARIABLE).unwrap_or_else(|| SOCKET.into());
    let stream = UnixStream::connect(&socket).map_err(|error| missing(Path::new(&socket), &error))?;
    let answer = exchange(stream, request).map_err(|error| {
        Failure::Run(format!("the helper at {} did not answer: {error}", Path::new(&socket).display()))
    })?;
    match answer {
        Answer::Confined => Ok(()),
        Answer::Refused(why) => Err(Failure::Run(format!("the helper refused: {why}"))),
    }
}

fn missing(socket: &Path, error: &io::Error) -> Failure {
    let socket = socket.display();
    let right = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "you may not use it; root lets you with `usermod -aG leeway USER`, from your next login on"
        }
        _ => {
            "root starts it with `systemctl enable --now leeway-helper.socket`, or `leeway helper` without systemd, and \
             lets you use it with `usermod -aG leeway USER`"
        }
    };
    Failure::Run(format!(
        "controlling traffic needs root, or the helper for ordinary users at {socket}: {error}\n\
         {right}; or run it as root: sudo leeway run ..."
    ))
}

fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<Answer> {
    send(&mut stream, request)?;
    let line = read_line(&mut stream, PATIENCE)?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// Writes a line.
pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&line)
}

/// Reads a line of bounded length within bounded time.
pub fn read_line(stream: &mut UnixStream, patience: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut line = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no whole line in time"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            // The time that is left is looked at above.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&buffer[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(line);
        }
        if line.len() > LINE_MAX {
            return Err(io::Error::other(format!("a line of more than {LINE_MAX} bytes")));
        }
    }
}
