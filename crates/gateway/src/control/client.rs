//! The client of the control socket, for the command line.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::io::{self, Write};
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

/// Why a response was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// There is no response, or not all of it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The output fails.
    #[error(transparent)]
    Output(#[from] io::Error),
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

    /// Writes the response to a GET of `path` to `out`, piece by piece, for responses that are not
    /// JSON. The gateway may take 30 s for each piece.
    ///
    /// # Errors
    /// No gateway, the gateway refuses, or `out` fails.
    pub async fn write(&self, path: &str, out: &mut impl Write) -> Result<(), StreamError> {
        let answer = self.soon(self.exchange("GET", path, Bytes::new())).await?;
        let status = answer.status();
        let mut body = answer.into_body();
        if !status.is_success() {
            let body = self.soon(async { body.collect().await.map_err(|error| self.broken(error)) });
            return Err(self.refused(status, &body.await?.to_bytes()).into());
        }
        while let Some(frame) = self.soon(async { Ok(body.frame().await) }).await? {
            let frame = frame.map_err(|_| self.broken("it broke off"))?;
            out.write_all(frame.data_ref().map_or(&[][..], |data| data))?;
        }
        Ok(())
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
        let (status, body) = self
            .soon(async {
                let answer = self.exchange(method, path, body).await?;
                let status = answer.status();
                let body = answer.into_body().collect().await.map_err(|error| self.broken(error))?;
                Ok((status, body.to_bytes()))
            })
            .await?;
        if status.is_success() || (path == "/healthz" && status == StatusCode::SERVICE_UNAVAILABLE) {
            return Ok(body);
        }
        Err(self.refused(status, &body))
    }

    /// The result of `work`, if it comes in time.
    async fn soon<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let late = |_| self.broken("no answer within 30 s");
        tokio::time::timeout(PATIENCE, work).await.map_err(late)?
    }

    /// The reason in a response of a gateway that refuses.
    fn refused(&self, status: StatusCode, body: &[u8]) -> ClientError {
        let words = serde_json::from_slice::<serde_json::Value>(body).ok();
        let words = words.as_ref().and_then(|words| words["error"].as_str());
        words.map_or_else(|| self.broken(status), |words| ClientError::Refused(words.to_owned()))
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
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
        sender.send_request(request).await.map_err(|error| self.broken(error))
    }

    fn broken(&self, error: impl std::fmt::Display) -> ClientError {
        ClientError::Broken(self.socket.clone(), error.to_string())
    }
}
