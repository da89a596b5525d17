//! The body of a request on its path from the client to the server, and whose fault it is if it does
//! not arrive.

use crate::http::Failure;
use crate::refusals as phrase;
use crate::tunnel;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a request that is being forwarded.
pub struct Sending {
    body: Incoming,
    course: Arc<Course>,
}

/// How far a request's body has come.
#[derive(Debug, Default)]
pub struct Course {
    /// Frames that were forwarded.
    steps: AtomicU64,
    /// The body was not as HTTP has it, or ended too early.
    malformed: AtomicBool,
    /// The server is ready for more, and the client has sent nothing more.
    waits: AtomicBool,
}

impl Sending {
    /// A body whose progress is seen in `course`.
    pub fn new(body: Incoming, course: Arc<Course>) -> Sending {
        Sending { body, course }
    }
}

impl Body for Sending {
    type Data = bytes::Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.course.waits.store(frame.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(frame) = &frame {
            self.course.steps.fetch_add(1, Ordering::Relaxed);
            if matches!(frame, Some(Err(_))) {
                self.course.malformed.store(true, Ordering::Relaxed);
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Course {
    /// The output of `answered`. An error if for `limit_s` it was not ready and no frame of the
    /// request's body was sent: the client's fault if its body is not complete, else the server's.
    pub async fn unless_silent<T>(
        &self,
        limit_s: u64,
        answered: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            answer = answered => Ok(answer),
            () = tunnel::silence(&self.steps, Duration::from_secs(limit_s)) => {
                let client = self.waits.load(Ordering::Relaxed);
                Err(if client { Failure::Stalled(limit_s) } else { Failure::Slow(limit_s) })
            }
        }
    }

    /// Why the request was not answered: the client's body, or the server.
    pub fn broken(&self) -> Failure {
        if self.malformed.load(Ordering::Relaxed) { Failure::Bad(&phrase::BODY) } else { Failure::BrokeOff }
    }
}
