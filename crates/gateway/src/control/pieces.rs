//! A response in pieces, written by a thread that may be slow. A ledger of years is too long for
//! the memory of a small machine.

use super::OperationError;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of a piece.
const PIECE: usize = 64 * 1024;
/// Pieces that wait for the client.
const WAITING: usize = 4;

type Piece = Result<Bytes, OperationError>;

/// Collects written bytes, and sends them in pieces. Must be used in a thread that may wait.
struct Writer {
    waiting: Vec<u8>,
    to: Sender<Piece>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: pieces have one size.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.waiting).into();
        // The client has closed the connection.
        self.to.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The body of a response.
pub struct Pieces {
    first: Option<Bytes>,
    rest: Receiver<Piece>,
}

/// Lets `write` write a body in a thread of its own. If `write` fails later, the response breaks
/// off, which the client notices.
///
/// # Errors
/// That of `write`, if it fails before the first piece is full.
pub async fn pieces(
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), OperationError> + Send + 'static,
) -> Result<Pieces, OperationError> {
    let (to, mut rest) = channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut writer = Writer { waiting: Vec::with_capacity(PIECE), to };
        let done = write(&mut writer).and_then(|()| Ok(writer.send()?));
        if let Err(error) = done {
            // Nobody waits any more if the client has closed the connection.
            let _ = writer.to.blocking_send(Err(error));
        }
    });
    let first = rest.recv().await.transpose()?;
    Ok(Pieces { first, rest })
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = OperationError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OperationError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => self.rest.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn all_pieces_come_or_the_body_breaks_off() {
        let long = vec![7; 5 * PIECE + 3];
        let sent = long.clone();
        let body = pieces(move |out| Ok(out.write_all(&sent)?)).await.unwrap();
        assert_eq!(body.collect().await.unwrap().to_bytes(), long);
        let gone = || OperationError::File(io::ErrorKind::Other.into());
        assert!(pieces(move |_| Err(gone())).await.is_err(), "before the head is sent");
        let body = pieces(move |out| {
            out.write_all(&long)?;
            Err(gone())
        });
        assert!(body.await.unwrap().collect().await.is_err());
    }
}
