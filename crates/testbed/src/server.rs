//! The web server: serves objects of any size, and accepts uploads.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

/// Length of the listen queue, in connections.
const BACKLOG: u32 = 4096;
/// Bytes of an answer in one write.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A socket for that address whose connections send under that congestion control, by the kernel's
/// name.
///
/// # Errors
/// The kernel does not have this congestion control, or no socket is free.
pub(crate) fn socket(address: SocketAddr, congestion: &str) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket2::SockRef::from(&socket).set_tcp_congestion(congestion.as_bytes()).map_err(|error| {
        let known =
            fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        let why = format!("congestion control `{congestion}`: {error}; this kernel has {}", known.trim());
        io::Error::new(error.kind(), why)
    })?;
    Ok(socket)
}

/// Answers `GET /N` with N bytes, and accepts every `PUT`, until `stop` is dropped. The sockets
/// belong to the calling thread's network.
///
/// # Errors
/// The address is not free, or the kernel does not have this congestion control.
pub fn serve(address: SocketAddr, congestion: &str, stop: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = socket(address, congestion)?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let accepting = async {
            loop {
                // An error of a connection that is not accepted yet concerns its client only.
                let Ok((stream, _)) = listener.accept().await else { continue };
                let _ = stream.set_nodelay(true);
                tokio::spawn(
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        };
        tokio::select! {
            () = accepting => {}
            _ = stop => {}
        }
        Ok(())
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Zeros>, hyper::Error> {
    let (status, left) = match *request.method() {
        Method::GET => match request.uri().path().trim_start_matches('/').parse() {
            Ok(left) => (StatusCode::OK, left),
            Err(_) => (StatusCode::NOT_FOUND, 0),
        },
        Method::PUT => {
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                frame?;
            }
            (StatusCode::OK, 0)
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, 0),
    };
    let mut response = Response::new(Zeros(left));
    *response.status_mut() = status;
    Ok(response)
}

/// A body of this many zero bytes.
#[derive(Debug)]
pub(crate) struct Zeros(pub u64);

impl Body for Zeros {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        let length = ZEROS.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        self.0 -= length as u64;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&ZEROS[..length])))))
    }

    fn is_end_stream(&self) -> bool {
        self.0 == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}
