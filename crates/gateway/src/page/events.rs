//! The state of the gateway as server-sent events, one a second.

use crate::control::Operations;
use crate::language::Language;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::time::Interval;

/// Most pages that receive events at a time.
const MOST: usize = 64;

/// The stream of events for one page.
pub struct Events {
    operations: Arc<Operations>,
    language: Language,
    ticks: Interval,
    begun: bool,
    open: Arc<AtomicUsize>,
    /// Whether the page's session is still open.
    welcome: Box<dyn Fn() -> bool + Send>,
}

impl Events {
    /// A stream for one more page; `None` if there are too many.
    pub fn begin(
        operations: Arc<Operations>,
        language: Language,
        open: Arc<AtomicUsize>,
        welcome: impl Fn() -> bool + Send + 'static,
    ) -> Option<Events> {
        let taken = open.try_update(Ordering::AcqRel, Ordering::Relaxed, |n| (n < MOST).then_some(n + 1));
        let ticks = tokio::time::interval(std::time::Duration::from_secs(1));
        taken.is_ok().then(|| Events {
            operations,
            language,
            ticks,
            begun: false,
            open,
            welcome: Box::new(welcome),
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.ticks.poll_tick(cx));
        if !(self.welcome)() {
            return Poll::Ready(None);
        }
        let mut text = String::new();
        if !self.begun {
            self.begun = true;
            text += &event("history", &self.operations.history());
        }
        text += &event("now", &self.operations.now(self.language));
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}

fn event(name: &str, data: &impl serde::Serialize) -> String {
    // JSON of serde_json has no line breaks, and these types can always be serialised.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}
