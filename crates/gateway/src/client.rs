//! A client's connection to the HTTP proxy, from its first request to its last.
//!
//! Between two requests a client of HTTP/1.1 costs a socket and a small task. The parser and its
//! buffers are made when bytes arrive, and dropped when a response has been sent.

use crate::http::Proxy;
use crate::tunnel;
use crate::upstream::Upstream;
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 64;
/// Headers that a request may have.
const HEADERS: usize = 64;

/// Serves one client until it leaves.
pub async fn serve(proxy: Arc<Proxy>, stream: TcpStream, client: IpAddr) {
    let head = Duration::from_secs(proxy.limits.head_s);
    // Ends a client that sends nothing, or only a part of the HTTP/2 preface, within
    // `limits.head_s`.
    let Ok(Ok(http2)) = timeout(head, is_http2(&stream)).await else { return };
    if http2 {
        // An error here means that the client closed the connection, which is normal: nothing is
        // logged.
        let _ = Box::pin(serve_http2(proxy, stream, client)).await;
        return;
    }
    let idle = Duration::from_secs(proxy.limits.idle_s);
    let mut parked = Stream { tcp: stream, unread: Bytes::new(), turn: Arc::default() };
    // Boxed, so that a client that waits does not hold the memory of a request's future.
    while let Ok(Some(stream)) = Box::pin(serve_burst(&proxy, parked, client)).await {
        parked = stream;
        if parked.unread.is_empty() && !matches!(timeout(idle, parked.tcp.readable()).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Number of open streams of one HTTP/2 connection.
#[derive(Debug)]
struct Streams {
    open: AtomicUsize,
    /// When the last stream ended.
    since: Mutex<Instant>,
}

/// An open HTTP/2 stream. The stream ends when the last clone of its `Arc` is dropped.
#[derive(Debug)]
pub struct OpenStream(Arc<Streams>);

impl OpenStream {
    fn begin(streams: &Arc<Streams>) -> Arc<OpenStream> {
        streams.open.fetch_add(1, Ordering::AcqRel);
        Arc::new(OpenStream(streams.clone()))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        *self.0.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Streams {
    /// Ready when no stream has been open for `idle`. PING frames do not count as activity.
    async fn idle(&self, idle: Duration) {
        loop {
            let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
            let left = idle.saturating_sub(since.elapsed());
            match self.open.load(Ordering::Acquire) {
                0 if left.is_zero() => return,
                0 => tokio::time::sleep(left).await,
                _ => tokio::time::sleep(idle).await,
            }
        }
    }
}

async fn serve_http2(proxy: Arc<Proxy>, stream: TcpStream, client: IpAddr) -> hyper::Result<()> {
    let limits = &proxy.limits;
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(16)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(256 * 1024)
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(limits.idle_s))
        .auto_date_header(false);
    let (head, idle) = (Duration::from_secs(limits.head_s), Duration::from_secs(limits.idle_s));
    let streams = Arc::new(Streams { open: AtomicUsize::new(0), since: Mutex::new(Instant::now()) });
    let begins = streams.clone();
    let service = service_fn(move |request| {
        let (proxy, asks) = (proxy.clone(), Asks::Stream(OpenStream::begin(&begins)));
        async move { Ok::<_, Infallible>(proxy.answer(request, client, asks).await) }
    });
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = &mut connection => return ended,
        () = streams.idle(idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    // A request that has arrived is answered. The gateway does not wait for a silent client.
    timeout(head, connection).await.unwrap_or(Ok(()))
}

/// Answers HTTP/1.1 requests until the client is idle (returns the stream, to wait for the next
/// request), or the connection has ended (returns `None`). A CONNECT is carried to its end.
async fn serve_burst(proxy: &Arc<Proxy>, stream: Stream, client: IpAddr) -> hyper::Result<Option<Stream>> {
    let limits = &proxy.limits;
    let turn = stream.turn.clone();
    let service = service_fn(|request: Request<Incoming>| {
        let turn = turn.clone();
        turn.begin(&request);
        async move { Ok::<_, Infallible>(proxy.answer(request, client, Asks::Turn(turn)).await) }
    });
    turn.may_park.store(false, Ordering::Relaxed);
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.idle_s))
        .max_buf_size(limits.head_bytes)
        .max_headers(HEADERS)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let ended = std::future::poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(ended.map(|()| true)),
        Poll::Pending if turn.reset.load(Ordering::Relaxed) => Poll::Ready(Ok(true)),
        Poll::Pending if turn.is_over() => Poll::Ready(Ok(false)),
        Poll::Pending => Poll::Pending,
    });
    let ended = ended.await?;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    // Bytes after the last answered request; hyper has not parsed any of them. An empty `Bytes` of
    // its own, because an empty slice would keep the whole read buffer allocated.
    stream.unread = if parts.read_buf.is_empty() { Bytes::new() } else { parts.read_buf };
    if !ended {
        return Ok(Some(stream));
    }
    if turn.reset.load(Ordering::Relaxed) {
        // With a linger time of zero, closing the socket sends RST. If the option cannot be set,
        // the connection is closed with FIN.
        let _ = stream.tcp.set_zero_linger();
        return Ok(None);
    }
    if let Some(upstream) = turn.take_tunnel() {
        tunnel::carry(stream, upstream, Duration::from_secs(limits.tunnel_s)).await;
    }
    Ok(None)
}

/// The connection, or the stream, on which a client sent its request.
#[derive(Debug, Clone)]
pub enum Asks {
    /// An HTTP/1.1 connection: one request after the other.
    Turn(Arc<Turn>),
    /// A stream of an HTTP/2 connection.
    Stream(Arc<OpenStream>),
}

impl Asks {
    /// The connection's turn, in HTTP/1.1.
    pub fn turn(&self) -> Option<&Turn> {
        match self {
            Asks::Turn(turn) => Some(turn),
            Asks::Stream(_) => None,
        }
    }

    /// Asks for a reset of the client's connection without a response. Returns false for HTTP/2,
    /// because a reset would end the other streams of that connection.
    pub fn reset(&self) -> bool {
        self.turn().inspect(|turn| turn.reset.store(true, Ordering::Relaxed)).is_some()
    }
}

/// State of an HTTP/1.1 connection between its requests. hyper does not tell whether it still
/// holds a request or a part of a response, so the gateway keeps this state itself.
#[derive(Debug, Default)]
pub struct Turn {
    /// A request has arrived, and its response has not been given to hyper completely.
    open: AtomicBool,
    /// That request has no body and is no CONNECT, so the client's next byte begins a new request.
    may_park: AtomicBool,
    /// Everything that was written has been flushed to the socket.
    flushed: AtomicBool,
    /// The connection is to end with RST instead of a response.
    reset: AtomicBool,
    /// The server that a CONNECT leads to.
    tunnel: Mutex<Option<Upstream>>,
}

impl Turn {
    /// Connects the client to `upstream` after the response to CONNECT has been sent.
    pub fn lead_to(&self, upstream: Upstream) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream);
    }

    /// The response has been given to hyper completely, or was dropped.
    pub fn end(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn begin(&self, request: &Request<Incoming>) {
        self.open.store(true, Ordering::Relaxed);
        let plain = request.method() != Method::CONNECT && request.body().is_end_stream();
        self.may_park.store(plain, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let all = [self.may_park.load(Ordering::Relaxed), self.flushed.load(Ordering::Relaxed)];
        all == [true; 2] && !self.open.load(Ordering::Relaxed)
    }

    fn take_tunnel(&self) -> Option<Upstream> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A client's socket. Bytes in `unread` are read before those of the socket.
struct Stream {
    tcp: TcpStream,
    unread: Bytes,
    turn: Arc<Turn>,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.tcp).poll_read(cx, buf);
        }
        let bytes = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.turn.flushed.store(false, Ordering::Relaxed);
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.turn.flushed.store(false, Ordering::Relaxed);
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    /// hyper flushes when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tcp).poll_flush(cx))?;
        self.turn.flushed.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// Whether the connection begins with the HTTP/2 preface (RFC 9113, 3.4). Peeks, so that the bytes
/// stay in the socket.
async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut first = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut first).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if first[..n] != PREFACE[..n] => return Ok(false),
            n if n == PREFACE.len() => return Ok(true),
            _ if stream.ready(Interest::READABLE).await?.is_read_closed() => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // The peeked bytes keep the socket readable, so readiness cannot wait for more: poll
            // every 10 ms.
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
