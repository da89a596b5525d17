//! The operations over HTTP, with JSON.

use super::socket::Socket;
use super::{
    ExportFormat, ExportRange, Health, InviteRequest, Issued, OperationError, Operations, PauseRequest,
    ReloadRequest, Reloaded, RevokeRequest, Revoked, Status, UserStatus, VoucherRequest, VoucherStatus,
};
use axum::Router;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use jiff::SignedDuration;
use leeway_accounts::StoreError;
use serde_json::json;
use std::sync::Arc;

/// The longest request: two files with secrets and the configuration, 1 MiB each.
const REQUEST_BYTES: usize = 4 << 20;

/// Answers whoever may open the socket. Never ends.
pub async fn serve(socket: Socket, operations: Arc<Operations>) {
    let Socket { listener, .. } = &socket;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: some will be free again.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let service = hyper_util::service::TowerToHyperService::new(router(operations.clone()));
        tokio::spawn(async move {
            let stream = hyper_util::rt::TokioIo::new(stream);
            // Who breaks off is no event.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .serve_connection(stream, service)
                .await;
        });
    }
}

fn router(operations: Arc<Operations>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/v1/status", get(status))
        .route("/v1/users", get(users))
        .route("/v1/vouchers", get(vouchers).post(make_vouchers))
        .route("/v1/invitations", post(invite))
        .route("/v1/export", get(export))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/reload", post(reload))
        .route("/v1/revoke", post(revoke))
        .fallback(|| async { failure(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(operations)
}

type Shared = State<Arc<Operations>>;
type Answer<T> = Result<Json<T>, OperationError>;

async fn health(State(operations): Shared) -> (StatusCode, Json<Health>) {
    let health = operations.health();
    (if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(health))
}

async fn status(State(operations): Shared) -> Json<Status> {
    Json(operations.status())
}

async fn users(State(operations): Shared) -> Answer<Vec<UserStatus>> {
    apart(move || operations.people()).await
}

async fn vouchers(State(operations): Shared) -> Answer<Vec<VoucherStatus>> {
    apart(move || operations.vouchers()).await
}

async fn make_vouchers(
    State(operations): Shared,
    request: Result<Json<VoucherRequest>, JsonRejection>,
) -> Answer<Issued> {
    let Json(request) = request.map_err(|error| OperationError::Wrong(error.body_text()))?;
    apart(move || operations.make_vouchers(&request)).await
}

async fn invite(
    State(operations): Shared,
    request: Result<Json<InviteRequest>, JsonRejection>,
) -> Answer<Issued> {
    let Json(request) = request.map_err(|error| OperationError::Wrong(error.body_text()))?;
    apart(move || operations.invite(&request)).await
}

/// What a store answers, which may be slow; others are answered meanwhile.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OperationError> + Send + 'static,
) -> Answer<T> {
    Ok(Json(tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)??))
}

async fn export(
    State(operations): Shared,
    range: Result<Query<ExportRange>, QueryRejection>,
) -> Result<Response, OperationError> {
    let Query(range) = range.map_err(|error| OperationError::Wrong(error.body_text()))?;
    // The store may be slow; others are answered meanwhile.
    let work = tokio::task::spawn_blocking(move || operations.export(range)).await;
    let file = work.map_err(std::io::Error::other)??;
    let kind = match range.format {
        ExportFormat::Csv => "text/csv; charset=utf-8",
        ExportFormat::Parquet => "application/vnd.apache.parquet",
    };
    Ok(([(header::CONTENT_TYPE, kind)], file).into_response())
}

async fn pause(
    State(operations): Shared,
    request: Result<Json<PauseRequest>, JsonRejection>,
) -> Answer<Status> {
    let Json(request) = request.map_err(|error| OperationError::Wrong(error.body_text()))?;
    Ok(Json(operations.pause(request.seconds.map(SignedDuration::from_secs))?))
}

async fn resume(State(operations): Shared) -> Answer<Status> {
    Ok(Json(operations.resume()?))
}

async fn revoke(
    State(operations): Shared,
    request: Result<Json<RevokeRequest>, JsonRejection>,
) -> Answer<Revoked> {
    let Json(request) = request.map_err(|error| OperationError::Wrong(error.body_text()))?;
    Ok(Json(operations.revoke(&request)?))
}

async fn reload(
    State(operations): Shared,
    request: Result<Json<ReloadRequest>, JsonRejection>,
) -> Answer<Reloaded> {
    let Json(request) = request.map_err(|error| OperationError::Wrong(error.body_text()))?;
    // Lists may be long; others are answered meanwhile.
    let work = tokio::task::spawn_blocking(move || operations.reload(&request)).await;
    Ok(Json(work.map_err(std::io::Error::other)??))
}

fn failure(status: StatusCode, words: &str) -> Response {
    (status, Json(json!({ "error": words }))).into_response()
}

impl IntoResponse for OperationError {
    fn into_response(self) -> Response {
        let status = match self {
            OperationError::Wrong(_) | OperationError::Accounts(StoreError::Voucher(_)) => {
                StatusCode::BAD_REQUEST
            }
            OperationError::File(_) | OperationError::Accounts(_) | OperationError::Export(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        failure(status, &self.to_string())
    }
}
