//! Asks another gateway for its state.

use super::document::Document;
use super::route::DOCUMENT;
use crate::notes::{Note, Value};
use crate::refusals::{PEER_HUNG_UP, PEER_NONSENSE, PEER_REFUSES, PEER_SILENT, PEER_STATUS};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time for one request. Longer than a round trip over a loaded radio link.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest document that is read, in bytes.
const BYTES: usize = 4096;

/// The response of a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Time from the request to the head of the response.
    pub round_trip: Duration,
    /// What the gateway says about itself.
    pub document: Document,
}

/// Asks a peer, and once more if that fails, because one lost packet does not mean that the peer
/// is down.
///
/// # Errors
/// Why there is no usable response.
pub async fn ask(peer: SocketAddr) -> Result<Found, Note> {
    match once(peer).await {
        Ok(found) => Ok(found),
        Err(_) => once(peer).await,
    }
}

async fn once(peer: SocketAddr) -> Result<Found, Note> {
    let silent = Note::new(&PEER_SILENT, [Value::same(PATIENCE.as_secs())]);
    timeout(PATIENCE, exchange(peer)).await.unwrap_or(Err(silent))
}

async fn exchange(peer: SocketAddr) -> Result<Found, Note> {
    let stream = TcpStream::connect(peer).await.map_err(|error| Note::of(Value::error(&error)))?;
    let nonsense = || Note::new(&PEER_NONSENSE, []);
    let said = |_: hyper::Error| nonsense();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let exchange = async {
        let request = Request::get(DOCUMENT).header(header::HOST, peer.to_string());
        let request = request.body(Empty::<Bytes>::new()).map_err(|_| nonsense())?;
        let asked = Instant::now();
        let answer = sender.send_request(request).await.map_err(said)?;
        let (round_trip, status) = (asked.elapsed(), answer.status());
        let body = Limited::new(answer.into_body(), BYTES).collect().await;
        let body = body.map_err(|_| nonsense())?.to_bytes();
        match status {
            StatusCode::OK => {}
            StatusCode::FORBIDDEN => return Err(Note::new(&PEER_REFUSES, [])),
            status => return Err(Note::new(&PEER_STATUS, [Value::same(status.as_u16())])),
        }
        let document = serde_json::from_slice(&body).map_err(|_| nonsense())?;
        Ok(Found { round_trip, document })
    };
    tokio::select! {
        found = exchange => found,
        ended = connection => Err(ended.err().map_or_else(|| Note::new(&PEER_HUNG_UP, []), said)),
    }
}
