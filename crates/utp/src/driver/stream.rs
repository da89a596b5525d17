//! One connection as a tokio stream of bytes.

use super::{Shared, State};
use crate::connection::Steering;
use crate::endpoint::Handle;
use crate::error::UtpError;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection: reads what the peer writes, and writes what the peer reads.
///
/// `shutdown` ends this side's stream, and waits until the peer has everything; reading goes on. A
/// dropped stream still sends what was written, in the background. If it has unread bytes, it is
/// reset. `&Stream` reads and writes as well, so that one task can do both at once.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    handle: Handle,
}

enum Side {
    Reader,
    Writer,
}

impl Stream {
    pub(super) fn new(shared: Arc<Shared>, handle: Handle) -> Stream {
        shared.lock().waiting.entry(handle).or_default();
        Stream { shared, handle }
    }

    /// Waits until the peer has answered. Its answer, its bytes and a RESET may arrive at once: the
    /// bytes can still be read then, and reading returns the error after them.
    pub(super) async fn opened(&self) -> io::Result<()> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            let connection = state.endpoint.get(self.handle);
            match connection.map(|connection| (connection.was_answered(), connection.error())) {
                Some((true, _)) => Poll::Ready(Ok(())),
                Some((false, None)) => wait(&mut state, self.handle, Side::Writer, context),
                Some((false, Some(error))) => Poll::Ready(Err(error.into())),
                None => Poll::Ready(Err(UtpError::Aborted.into())),
            }
        })
        .await
    }

    /// The peer's address. The port can change when an address translator (NAT) gives the peer
    /// another one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.shared.lock().endpoint.peer(self.handle).map(|route| route.peer)
    }

    /// The state of the connection.
    pub fn steering(&self) -> Option<Steering> {
        self.shared.lock().endpoint.get(self.handle).map(crate::Connection::steering)
    }

    /// Ends the connection at once with a RESET to the peer.
    pub fn reset(&self) {
        if let Some(connection) = self.shared.lock().endpoint.get_mut(self.handle) {
            connection.reset();
        }
        self.shared.kick.notify_one();
    }
}

/// Stores the waker of the waiting task, unless it is stored already.
fn wait<T>(state: &mut State, handle: Handle, side: Side, context: &Context<'_>) -> Poll<T> {
    let wakers = state.waiting.entry(handle).or_default();
    let slot = match side {
        Side::Reader => &mut wakers.reader,
        Side::Writer => &mut wakers.writer,
    };
    if !slot.as_ref().is_some_and(|known: &Waker| known.will_wake(context.waker())) {
        *slot = Some(context.waker().clone());
    }
    Poll::Pending
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(context, buffer)
    }
}

impl AsyncRead for &Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        let Some(connection) = state.endpoint.get_mut(self.handle) else { return Poll::Ready(Ok(())) };
        match connection.read(buffer.initialize_unfilled()) {
            Ok(Some(count)) => {
                let announces = connection.has_announcement();
                drop(state);
                buffer.advance(count);
                if announces {
                    self.shared.kick.notify_one();
                }
                Poll::Ready(Ok(()))
            }
            Ok(None) => wait(&mut state, self.handle, Side::Reader, context),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, bytes)
    }

    /// Does nothing, because written bytes are sent without being flushed. `shutdown` waits until
    /// they have arrived.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(context)
    }
}

impl AsyncWrite for &Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let Some(connection) = state.endpoint.get_mut(self.handle) else {
            return Poll::Ready(Err(UtpError::Aborted.into()));
        };
        match connection.write(bytes) {
            Ok(0) if !bytes.is_empty() => wait(&mut state, self.handle, Side::Writer, context),
            Ok(count) => {
                drop(state);
                self.shared.kick.notify_one();
                Poll::Ready(Ok(count))
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.lock();
        let Some(connection) = state.endpoint.get_mut(self.handle) else { return Poll::Ready(Ok(())) };
        connection.finish();
        let result = match (connection.is_flushed(), connection.error()) {
            (_, Some(error)) => Poll::Ready(Err(error.into())),
            (true, None) => Poll::Ready(Ok(())),
            (false, None) => wait(&mut state, self.handle, Side::Writer, context),
        };
        drop(state);
        self.shared.kick.notify_one();
        result
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.waiting.remove(&self.handle);
        state.endpoint.release(self.handle);
        drop(state);
        self.shared.kick.notify_one();
    }
}
