//! The client of the control socket, for the command line.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Longest time for a gateway's response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No gateway listens at the socket.
    #[error(
        "no gateway is running here: no program listens at {0}. Start it (leeway gateway up), or give \
         the `socket` of its [control] as --socket"
    )]
    Nobody(PathBuf),
    /// This user may not open the socket.
    #[error("this user may not control the gateway at {0}: run this as root")]
    Rights(PathBuf),
    /// The gateway refuses the request.
    #[error("{0}")]
    Refused(String),
    /// There is no response, or it cannot be parsed.
    #[error("the gateway at {0} gives no valid answer: {1}")]
    Broken(PathBuf, String),
}

/// Sends requests to the gateway at a socket.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client for the gateway at `socket`. Does not open the socket yet.
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned() }
    }

    /// The JSON response to a GET of `path`.
    ///
    /// # Errors
    /// No gateway, or the gateway refuses.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask("GET", path, Bytes::new()).await
    }

    /// The response to a GET of `path` as bytes, for responses that are not JSON.
    ///
    /// # Errors
    /// No gateway, or the gateway refuses.
    pub async fn text(&self, path: &str) -> Result<Bytes, ClientError> {
        self.body("GET", path, Bytes::new()).await
    }

    /// The JSON response to a POST of `request` to `path`.
    ///
    /// # Errors
    /// No gateway, or the gateway refuses.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        request: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(request).map_err(|error| self.broken(error))?;
        self.ask("POST", path, body.into()).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let body = self.body(method, path, body).await?;
        serde_json::from_slice(&body).map_err(|error| self.broken(error))
    }

    async fn body(&self, method: &str, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let (status, body) = tokio::time::timeout(PATIENCE, self.exchange(method, path, body))
            .await
            .map_err(|_| self.broken("no answer within 30 s"))??;
        if status.is_success() || (path == "/healthz" && status == StatusCode::SERVICE_UNAVAILABLE) {
            return Ok(body);
        }
        let words = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let words = words.as_ref().and_then(|words| words["error"].as_str());
        Err(words.map_or_else(|| self.broken(status), |words| ClientError::Refused(words.to_owned())))
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::Nobody(self.socket.clone())
            }
            io::ErrorKind::PermissionDenied => ClientError::Rights(self.socket.clone()),
            _ => self.broken(error),
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(error))?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "leeway")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.broken(error))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| self.broken(error))?;
        Ok((status, body.to_bytes()))
    }

    fn broken(&self, error: impl std::fmt::Display) -> ClientError {
        ClientError::Broken(self.socket.clone(), error.to_string())
    }
}
