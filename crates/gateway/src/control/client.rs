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

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no gateway runs here: nobody listens at {0}. Start it (leeway gateway up), or give the \
         `socket` of its [control] as --socket"
    )]
    Nobody(PathBuf),
    /// Not for this user.
    #[error("this user may not talk to the gateway at {0}: do it as root")]
    Rights(PathBuf),
    /// The gateway says no.
    #[error("{0}")]
    Refused(String),
    /// The answer does not come, or is not one.
    #[error("the gateway at {0} does not answer as it should: {1}")]
    Broken(PathBuf, String),
}

/// Asks the gateway of a socket.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// For the gateway at that socket; nothing is opened yet.
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned() }
    }

    /// What stands at that path.
    ///
    /// # Errors
    /// No gateway, or it refuses.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask("GET", path, Bytes::new()).await
    }

    /// The same, which is no JSON.
    ///
    /// # Errors
    /// No gateway, or it refuses.
    pub async fn text(&self, path: &str) -> Result<Bytes, ClientError> {
        self.body("GET", path, Bytes::new()).await
    }

    /// Does what that path is for.
    ///
    /// # Errors
    /// No gateway, or it refuses.
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
            .map_err(|_| self.broken("nothing came for 30 s"))??;
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
