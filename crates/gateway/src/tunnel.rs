//! Copies bytes both ways between a client and a server, until one side is silent for too long.

use crate::upstream::Upstream;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Buffer of one direction, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;

/// Copies bytes both ways until both directions have ended, nothing came for `idle`, or the path
/// to the server is gone.
pub async fn carry<C: AsyncRead + AsyncWrite + Unpin>(client: C, mut server: Upstream, idle: Duration) {
    let steps = Arc::new(AtomicU64::new(0));
    let mut client = Watched { stream: client, steps: steps.clone() };
    let over = server.over();
    let copy = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES);
    // The result is ignored: both ends see how the connection ended.
    tokio::select! {
        _ = copy => {}
        () = silence(&steps, idle) => {}
        () = over => {}
    }
}

/// Ready when `steps` has not changed for at least `idle`.
pub async fn silence(steps: &AtomicU64, idle: Duration) {
    let mut seen = steps.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(idle).await;
        let now = steps.load(Ordering::Relaxed);
        if now == seen {
            return;
        }
        seen = now;
    }
}

/// Counts reads and writes on the client's side, which both directions pass.
struct Watched<S> {
    stream: S,
    steps: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if polled.is_ready() {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
