//! The conversation of sender and receiver: frames with a time limit, signs of life, and an
//! orderly end.

use super::frame::Frame;
use leeway_utp::{Socket, Stream};
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::{interval, timeout};

/// Silence after which the peer counts as gone. A peer that works sends WORKING every second.
pub const QUIET: Duration = Duration::from_secs(60);
/// Interval of WORKING frames.
const WORKING_EVERY: Duration = Duration::from_secs(1);
/// The most time for the end of a conversation. The result is known before.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a transfer ends.
#[derive(Debug)]
pub enum Stop {
    /// This side stops and tells the peer the reason.
    Refusal(String),
    /// This side stops in the middle of the file, where the protocol has no place for a reason.
    Failure(String),
    /// The peer refuses, for this reason.
    Theirs(String),
    /// The connection failed, or the peer broke the protocol.
    Connection(io::Error),
    /// A signal: its effect as a word, and the exit code.
    Signal(&'static str, u8),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Connection(error)
    }
}

/// Waits for the next frame other than WORKING.
pub async fn next(stream: &Stream) -> Result<Frame, Stop> {
    let mut from = stream;
    let mut frame = Box::pin(Frame::read(&mut from));
    let mut since = Instant::now();
    let mut sent_bytes = 0;
    let mut seconds = interval(WORKING_EVERY);
    loop {
        tokio::select! {
            read = &mut frame => match read.map_err(ended)? {
                Frame::Working => {
                    drop(frame);
                    from = stream;
                    frame = Box::pin(Frame::read(&mut from));
                    since = Instant::now();
                }
                Frame::Refusal(reason) => return Err(Stop::Theirs(reason)),
                frame => return Ok(frame),
            },
            _ = seconds.tick() => {
                // While data of this side still moves, the peer cannot have read all of it, and
                // its answer may take longer.
                let now_sent_bytes = stream.steering().map_or(0, |steering| steering.sent_bytes);
                if std::mem::replace(&mut sent_bytes, now_sent_bytes) != now_sent_bytes {
                    since = Instant::now();
                }
                if since.elapsed() > QUIET {
                    return Err(quiet().into());
                }
            }
        }
    }
}

/// Sends a frame.
pub async fn say(mut stream: &Stream, frame: &Frame) -> io::Result<()> {
    stream.write_all(&frame.encode()).await
}

/// Sends WORKING once a second during work in steps.
pub struct Alive<'a> {
    stream: &'a Stream,
    said: Instant,
}

impl<'a> Alive<'a> {
    pub fn new(stream: &'a Stream) -> Self {
        Alive { stream, said: Instant::now() }
    }

    pub async fn tick(&mut self) -> io::Result<()> {
        if self.said.elapsed() >= WORKING_EVERY {
            self.said = Instant::now();
            say(self.stream, &Frame::Working).await?;
        }
        Ok(())
    }
}

/// Waits for `work` and sends WORKING once a second meanwhile.
pub async fn working<T>(stream: &Stream, work: impl Future<Output = T>) -> io::Result<T> {
    let mut work = pin!(work);
    let mut seconds = interval(WORKING_EVERY);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            _ = seconds.tick() => say(stream, &Frame::Working).await?,
        }
    }
}

/// Ends a conversation after success: closes the stream and waits until the peer has everything.
pub async fn part_in_peace(socket: &Socket, mut stream: &Stream) {
    let _ = timeout(FAREWELL, stream.shutdown()).await;
    socket.flush().await;
}

/// Ends a conversation because of `stop`. A refusal is sent to the peer, and the stream is closed
/// before the reset, so that the peer can read the reason.
pub async fn part_for(socket: &Socket, stream: &Stream, stop: &Stop) {
    if let Stop::Refusal(reason) = stop {
        let _ = timeout(FAREWELL, say(stream, &Frame::Refusal(reason.clone()))).await;
        part_in_peace(socket, stream).await;
    }
    stream.reset();
    socket.flush().await;
}

/// Does `work` until it ends or a signal comes.
pub async fn until_signal<T>(work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        result = work => result,
        _ = interrupted.recv() => Err(Stop::Signal("interrupted", 130)),
        _ = terminated.recv() => Err(Stop::Signal("terminated", 143)),
    }
}

pub fn quiet() -> io::Error {
    let words = format!("the other side has said nothing for {} s", QUIET.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, words)
}

/// Gives an unexpected end of the stream a message.
pub fn ended(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the other side has closed the connection")
        }
        io::ErrorKind::ConnectionReset => {
            io::Error::new(error.kind(), "the other side has reset the connection")
        }
        _ => error,
    }
}

pub fn unexpected(frame: &Frame) -> Stop {
    let words = format!("the other side sent {frame:?}, which is not allowed here");
    Stop::Connection(io::Error::new(io::ErrorKind::InvalidData, words))
}

impl From<Stop> for crate::Failure {
    fn from(stop: Stop) -> Self {
        crate::Failure::Run(match stop {
            Stop::Refusal(reason) | Stop::Failure(reason) => reason,
            Stop::Theirs(reason) => format!("the other side refuses: {reason}"),
            Stop::Connection(error) => format!("the transfer broke off: {error}"),
            Stop::Signal(what, code) => {
                eprintln!("leeway: {what}");
                return crate::Failure::Command(code);
            }
        })
    }
}
