//! What ordinary users say to the helper, and what it answers: a line of JSON each.

use crate::Failure;
use leeway_control::LawSpec;
use leeway_kernel::{Policy, Receive};
use serde::{Deserialize, Serialize};
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
/// Grows with each change of these texts.
const VERSION: u32 = 1;
/// How long a user waits: the kernel judges programs for about a second, one user after the other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks that the cgroup of whoever sends this be confined.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    version: u32,
    law: String,
    dscp: Option<String>,
    receive: Option<String>,
    /// The command, for people.
    pub what: String,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The sender is in a cgroup under its policy.
    Confined,
    /// It is not, and why.
    Refused(String),
}

impl Request {
    pub fn new(policy: &Policy, what: &str) -> Request {
        Request {
            version: VERSION,
            law: policy.law.to_string(),
            dscp: policy.dscp.map(|dscp| dscp.to_string()),
            receive: policy.receive.as_ref().map(|receive| receive.spec().to_string()),
            // What the kernel keeps of it.
            what: what.chars().take(64).collect(),
        }
    }

    /// A line, taken apart.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        let request: Request =
            serde_json::from_slice(line).map_err(|error| format!("this is no request: {error}"))?;
        match request.version {
            VERSION => Ok(request),
            other => Err(format!("the helper speaks version {VERSION} of requests, not {other}; restart it")),
        }
    }

    /// How the user wants to send and receive.
    pub fn policy(&self) -> Result<Policy, String> {
        let law = |text: &str| text.parse::<LawSpec>().map_err(|error| error.to_string());
        let receive = self.receive.as_deref().map(|text| {
            let receive = Receive::new(law(text)?);
            receive.map_err(|error| error.to_string())
        });
        let dscp = self.dscp.as_deref().map(|text| text.parse().map_err(|error| format!("{error}")));
        Ok(Policy { law: law(&self.law)?, dscp: dscp.transpose()?, receive: receive.transpose()? })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        let policy = Policy {
            law: "ledbat:target=5ms".parse().expect("a law"),
            dscp: Some("le".parse().expect("a mark")),
            receive: None,
        };
        Request::new(&policy, "rsync")
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let line = serde_json::to_vec(&request()).expect("JSON");
        let policy = Request::parse(&line).and_then(|request| request.policy()).expect("a request");
        assert_eq!(policy.law.to_string(), "ledbat:target=5ms");
        assert_eq!(policy.dscp.map(|dscp| dscp.codepoint()), Some(1));
        assert!(policy.receive.is_none());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = serde_json::to_string(&request()).expect("JSON");
        for (from, to, why) in [
            ("\"version\":1", "\"version\":2", "version 1"),
            ("\"version\":1", "\"version\":1,\"pid\":1", "unknown field"),
            ("ledbat:target=5ms", "ledbatt", "ledbat"),
            ("ledbat:target=5ms", "ledbat:target=-1", "target"),
            ("\"le\"", "\"64\"", "0 to 63"),
            ("\"receive\":null", "\"receive\":\"cubic\"", "ledbatpp"),
            ("}", "}}", "no request"),
        ] {
            assert!(good.contains(from), "{good}");
            let line = good.replacen(from, to, 1);
            let error = Request::parse(line.as_bytes()).and_then(|request| request.policy()).map(|_| ());
            assert!(error.as_ref().is_err_and(|error| error.contains(why)), "{line}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Request::parse(&line).is_err());
        }

        #[test]
        fn changed_requests_do_not_panic(at in 0usize..100, byte in any::<u8>()) {
            let mut line = serde_json::to_vec(&request()).expect("JSON");
            let at = at % line.len();
            line[at] = byte;
            let _ = Request::parse(&line).and_then(|request| request.policy());
        }
    }
}
