//! Asks another gateway how it stands.

use super::document::Document;
use super::route::DOCUMENT;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For one question. Longer than a round trip over a loaded radio link.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest document.
const BYTES: usize = 4096;

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// From the request to the first byte of the answer.
    pub round_trip: Duration,
    /// What the gateway says.
    pub document: Document,
}

/// Asks, and once more if there is no answer: one lost packet is no failure.
///
/// # Errors
/// Why there is no answer that makes sense, in words.
pub async fn ask(peer: SocketAddr) -> Result<Found, String> {
    match once(peer).await {
        Ok(found) => Ok(found),
        Err(_) => once(peer).await,
    }
}

async fn once(peer: SocketAddr) -> Result<Found, String> {
    let silent = format!("no answer within {} s", PATIENCE.as_secs());
    timeout(PATIENCE, exchange(peer)).await.unwrap_or(Err(silent))
}

async fn exchange(peer: SocketAddr) -> Result<Found, String> {
    let stream = TcpStream::connect(peer).await.map_err(|error| error.to_string())?;
    let said = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let exchange = async {
        let request = Request::get(DOCUMENT).header(header::HOST, peer.to_string());
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
        let asked = Instant::now();
        let answer = sender.send_request(request).await.map_err(said)?;
        let (round_trip, status) = (asked.elapsed(), answer.status());
        let body = Limited::new(answer.into_body(), BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        match status {
            StatusCode::OK => {}
            StatusCode::FORBIDDEN => {
                return Err(
                    "it refuses this gateway: its `clients` have to hold this gateway's address".into()
                );
            }
            status => return Err(format!("it answers {status}: is it a Leeway gateway?")),
        }
        let document =
            serde_json::from_slice(&body).map_err(|error| format!("not a status document: {error}"))?;
        Ok(Found { round_trip, document })
    };
    tokio::select! {
        found = exchange => found,
        ended = connection => Err(ended.err().map_or("it has hung up".into(), |error| error.to_string())),
    }
}
