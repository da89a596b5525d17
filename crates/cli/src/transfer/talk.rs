//! The two sides' conversation: frames in time, signs of life, a refusal that arrives.

use super::frame::Frame;
use leeway_utp::{Socket, Stream};
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::{interval, timeout};

/// A peer that says nothing for this long has gone, or is not one of ours; who works says so each second.
pub const QUIET: Duration = Duration::from_secs(60);
/// How often who works says so.
const WORKING_EVERY: Duration = Duration::from_secs(1);
/// How long the end of a conversation may take: what counts has been said before.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why a transfer ends.
#[derive(Debug)]
pub enum Stop {
    /// For a reason of this side, which the peer is told.
    Refusal(String),
    /// For a reason of this side, where no word has a place: in the middle of the file.
    Failure(String),
    /// The peer says why.
    Theirs(String),
    /// The connection, or what the peer said on it.
    Connection(io::Error),
    /// By this signal.
    Signal(&'static str, u8),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Connection(error)
    }
}

/// The next frame that is not a sign of life.
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
                // What is still on its way there keeps the answer back.
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

/// Says something.
pub async fn say(mut stream: &Stream, frame: &Frame) -> io::Result<()> {
    stream.write_all(&frame.encode()).await
}

/// Says, each second, that this side is at work.
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

/// Waits for something that takes its time, and says that this side is at work.
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

/// Ends a conversation in order: the peer has all of it, and this side has said so.
pub async fn part_in_peace(socket: &Socket, mut stream: &Stream) {
    let _ = timeout(FAREWELL, stream.shutdown()).await;
    socket.flush().await;
}

/// Ends it because of `stop`; a reason of this side's is told. The peer reads it before the end, so
/// it is not cut off.
pub async fn part_for(socket: &Socket, stream: &Stream, stop: &Stop) {
    if let Stop::Refusal(reason) = stop {
        let _ = timeout(FAREWELL, say(stream, &Frame::Refusal(reason.clone()))).await;
        part_in_peace(socket, stream).await;
    }
    stream.reset();
    socket.flush().await;
}

/// Ends with the signal that says so, until which `work` goes on.
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

/// The end of a stream where there should be more, in words.
pub fn ended(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the other side has hung up"),
        io::ErrorKind::ConnectionReset => io::Error::new(error.kind(), "the other side has broken off"),
        _ => error,
    }
}

pub fn unexpected(frame: &Frame) -> Stop {
    let words = format!("the other side says {frame:?} where that means nothing");
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
