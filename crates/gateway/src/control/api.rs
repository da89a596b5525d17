//! The operations over HTTP, with JSON.

use super::pieces::pieces;
use super::socket::Socket;
use super::{
    ExportFormat, ExportRange, Health, HistoryRange, InviteRequest, Issued, LimitRequest, LimitStatus,
    OperationError, Operations, PastDays, PauseRequest, ReloadRequest, Reloaded, RevokeRequest, Revoked,
    Status, UserStatus, VoucherRequest, VoucherStatus,
};
use crate::notes::{Note, Value};
use crate::openapi;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use jiff::SignedDuration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, LazyLock};
use utoipa::{IntoResponses, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Longest request, in bytes: two files with secrets and the configuration, 1 MiB each.
const REQUEST_BYTES: usize = 4 << 20;

/// Answers every process that may open the socket. Never ends.
pub async fn serve(socket: Socket, operations: Arc<Operations>) {
    let Socket { listener, .. } = &socket;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptor is free: wait until a connection ends.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let service = hyper_util::service::TowerToHyperService::new(router(operations.clone()));
        tokio::spawn(async move {
            let stream = hyper_util::rt::TokioIo::new(stream);
            // An error here means that the client closed the connection, which is normal: nothing
            // is logged.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .serve_connection(stream, service)
                .await;
        });
    }
}

fn router(operations: Arc<Operations>) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(|| async { failure(StatusCode::NOT_FOUND, "there is nothing at this path") })
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(operations)
}

/// The description of the whole interface.
#[derive(OpenApi)]
#[openapi(info(
    title = "The control socket of a Leeway gateway",
    description = "HTTP at a Unix socket for root, such as /run/leeway/gateway/control.sock. Responses are JSON unless \
                   stated otherwise. If a request is not carried out, `error` has the reason."
))]
struct Api;

/// All routes. A route is added together with its description, so each has one.
fn routes() -> OpenApiRouter<Arc<Operations>> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(health))
        .routes(routes!(status))
        .routes(routes!(users))
        .routes(routes!(vouchers, make_vouchers))
        .routes(routes!(invite))
        .routes(routes!(export))
        .routes(routes!(history))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(reload))
        .routes(routes!(revoke))
        .routes(routes!(limits, limit))
        .routes(routes!(description))
}

/// This description of the socket, as OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses((status = 200, description = "the description")),
)]
async fn description() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi::json(routes().get_openapi()));
    openapi::answer(&TEXT)
}

/// The response to a request that was not carried out.
#[derive(Serialize, ToSchema)]
struct Failure {
    /// What was wrong, and what would be right.
    error: String,
}

/// The two kinds of failure of an operation.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is there for the description")]
enum Refused {
    /// The request is wrong, or cannot be carried out here.
    #[response(status = 400)]
    Wrong(Failure),
    /// The store or the system fails.
    #[response(status = 500)]
    System(Failure),
}

type Shared = State<Arc<Operations>>;
type Answer<T> = Result<Json<T>, OperationError>;

/// Returns whether neighbours can be served.
#[utoipa::path(
    get,
    path = "/healthz",
    responses(
        (status = 200, description = "they can", body = Health),
        (status = 503, description = "they cannot", body = Health),
    ),
)]
async fn health(State(operations): Shared) -> (StatusCode, Json<Health>) {
    let health = operations.health();
    (if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(health))
}

/// Returns the state of the gateway.
#[utoipa::path(
    get,
    path = "/v1/status",
    responses((status = 200, description = "the state", body = Status)),
)]
async fn status(State(operations): Shared) -> Json<Status> {
    Json(operations.status())
}

/// Lists users: everybody who has used the gateway, and everybody who is invited.
#[utoipa::path(
    get,
    path = "/v1/users",
    responses(
        (status = 200, description = "the users, by name", body = Vec<UserStatus>),
        (status = 500, description = "the store or the system fails", body = Failure),
    ),
)]
async fn users(State(operations): Shared) -> Answer<Vec<UserStatus>> {
    in_thread(move || operations.people()).await
}

/// Lists vouchers and invitations, without their codes.
#[utoipa::path(
    get,
    path = "/v1/vouchers",
    responses(
        (status = 200, description = "all of them", body = Vec<VoucherStatus>),
        Refused,
    ),
)]
async fn vouchers(State(operations): Shared) -> Answer<Vec<VoucherStatus>> {
    in_thread(move || operations.vouchers()).await
}

/// Makes vouchers.
#[utoipa::path(
    post,
    path = "/v1/vouchers",
    request_body = VoucherRequest,
    responses(
        (status = 200, description = "their codes, once", body = Issued),
        Refused,
    ),
)]
async fn make_vouchers(State(operations): Shared, Given(request): Given<VoucherRequest>) -> Answer<Issued> {
    in_thread(move || operations.make_vouchers(&request)).await
}

/// Invites somebody by name.
#[utoipa::path(
    post,
    path = "/v1/invitations",
    request_body = InviteRequest,
    responses(
        (status = 200, description = "the code, once", body = Issued),
        Refused,
    ),
)]
async fn invite(State(operations): Shared, Given(request): Given<InviteRequest>) -> Answer<Issued> {
    in_thread(move || operations.invite(&request)).await
}

/// Does `work` in a thread of its own, because the store may be slow. Other requests are answered
/// meanwhile.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OperationError> + Send + 'static,
) -> Answer<T> {
    Ok(Json(tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)??))
}

/// Lists what each user and the home used on each of the last days.
#[utoipa::path(
    get,
    path = "/v1/history",
    params(HistoryRange),
    responses(
        (status = 200, description = "them, the newest day first", body = PastDays),
        Refused,
    ),
)]
async fn history(
    State(operations): Shared,
    range: Result<Query<HistoryRange>, QueryRejection>,
) -> Answer<PastDays> {
    let Query(range) = range.map_err(|error| unreadable(&error.body_text()))?;
    in_thread(move || operations.days(range)).await
}

/// Lists the limits of neighbours that count now.
#[utoipa::path(
    get,
    path = "/v1/limits",
    responses(
        (status = 200, description = "all of them", body = Vec<LimitStatus>),
        Refused,
    ),
)]
async fn limits(State(operations): Shared) -> Answer<Vec<LimitStatus>> {
    Ok(Json(operations.limits()?))
}

/// Sets a limit of neighbours, or gives that of the configuration back.
#[utoipa::path(
    post,
    path = "/v1/limits",
    request_body = LimitRequest,
    responses(
        (status = 200, description = "the limit that counts now", body = LimitStatus),
        Refused,
    ),
)]
async fn limit(State(operations): Shared, Given(request): Given<LimitRequest>) -> Answer<LimitStatus> {
    in_thread(move || operations.limit(&request)).await
}

/// Exports the bytes of each user in each five minutes.
#[utoipa::path(
    get,
    path = "/v1/export",
    params(ExportRange),
    responses(
        (
            status = 200,
            description = "the file: CSV, or Parquet",
            body = String,
            content_type = "text/csv",
        ),
        Refused,
    ),
)]
async fn export(
    State(operations): Shared,
    range: Result<Query<ExportRange>, QueryRejection>,
) -> Result<Response, OperationError> {
    let Query(range) = range.map_err(|error| unreadable(&error.body_text()))?;
    let file = pieces(move |out| operations.export(range, out)).await?;
    let kind = match range.format {
        ExportFormat::Csv => "text/csv; charset=utf-8",
        ExportFormat::Parquet => "application/vnd.apache.parquet",
    };
    Ok(([(header::CONTENT_TYPE, kind)], Body::new(file)).into_response())
}

/// Begins a pause, or changes its end.
#[utoipa::path(
    post,
    path = "/v1/pause",
    request_body = PauseRequest,
    responses(
        (status = 200, description = "the state", body = Status),
        Refused,
    ),
)]
async fn pause(State(operations): Shared, Given(request): Given<PauseRequest>) -> Answer<Status> {
    Ok(Json(operations.pause(request.seconds.map(SignedDuration::from_secs))?))
}

/// Ends a pause, if there is one.
#[utoipa::path(
    post,
    path = "/v1/resume",
    responses(
        (status = 200, description = "the state", body = Status),
        (status = 500, description = "the store or the system fails", body = Failure),
    ),
)]
async fn resume(State(operations): Shared) -> Answer<Status> {
    Ok(Json(operations.resume()?))
}

/// Revokes a neighbour's access, or gives it back.
#[utoipa::path(
    post,
    path = "/v1/revoke",
    request_body = RevokeRequest,
    responses(
        (status = 200, description = "the user, and whether the access is revoked", body = Revoked),
        Refused,
    ),
)]
async fn revoke(State(operations): Shared, Given(request): Given<RevokeRequest>) -> Answer<Revoked> {
    Ok(Json(operations.revoke(&request)?))
}

/// Reads the configuration again. All of it takes effect, or nothing has changed.
#[utoipa::path(
    post,
    path = "/v1/reload",
    request_body = ReloadRequest,
    responses(
        (status = 200, description = "the configuration is in use", body = Reloaded),
        (
            status = 400,
            description = "the request is wrong, or cannot be carried out here",
            body = Failure,
        ),
    ),
)]
async fn reload(State(operations): Shared, Given(request): Given<ReloadRequest>) -> Answer<Reloaded> {
    // Lists may be long. Other requests are answered meanwhile.
    let work = tokio::task::spawn_blocking(move || operations.reload(&request)).await;
    Ok(Json(work.map_err(std::io::Error::other)??))
}

/// The JSON object of a request. serde would also accept a list of the fields, and an empty list
/// for a request without fields.
struct Given<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Given<T> {
    type Rejection = OperationError;

    async fn from_request(request: Request, state: &S) -> Result<Given<T>, OperationError> {
        let bytes =
            Bytes::from_request(request, state).await.map_err(|error| unreadable(&error.body_text()))?;
        if bytes.trim_ascii_start().first().is_some_and(|&first| first != b'{') {
            return Err(unreadable("a JSON object is expected, such as {}"));
        }
        let Json(given) = Json::from_bytes(&bytes).map_err(|error| unreadable(&error.body_text()))?;
        Ok(Given(given))
    }
}

/// The error for a request that cannot be parsed. Only programs send such requests, so its text is
/// English.
fn unreadable(why: &str) -> OperationError {
    OperationError::Wrong(Note::of(Value::said(why)))
}

fn failure(status: StatusCode, words: &str) -> Response {
    (status, Json(Failure { error: words.to_owned() })).into_response()
}

impl IntoResponse for OperationError {
    fn into_response(self) -> Response {
        failure(self.status(), &self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oas3::spec::{ObjectOrReference, Schema};

    #[test]
    fn every_route_is_described_with_what_it_takes_and_answers() {
        let expected = [
            "GET /healthz",
            "GET /openapi.json",
            "GET /v1/export",
            "GET /v1/history",
            "GET /v1/limits",
            "GET /v1/status",
            "GET /v1/users",
            "GET /v1/vouchers",
            "POST /v1/invitations",
            "POST /v1/limits",
            "POST /v1/pause",
            "POST /v1/reload",
            "POST /v1/resume",
            "POST /v1/revoke",
            "POST /v1/vouchers",
        ];
        let document = openapi::read(routes().get_openapi(), &expected);
        let schemas = &document.components.as_ref().unwrap().schemas;
        for (path, method, operation) in document.operations() {
            let at = format!("{method} {path}");
            for (status, response) in operation.responses(&document) {
                let json = response.content.get("application/json");
                let known = json.is_some_and(|json| json.schema(&document).unwrap().is_some());
                assert!(known || ["/openapi.json", "/v1/export"].contains(&path.as_str()), "{at} {status}");
            }
            if let Some(body) = operation.request_body(&document).unwrap() {
                assert!(body.content.contains_key("application/json"), "{at}");
            }
        }
        // The description of `Status` has the fields of a status.
        let Schema::Object(status) = &schemas["Status"] else { panic!("no object") };
        let ObjectOrReference::Object(status) = &**status else { panic!("a reference") };
        for field in ["version", "sharing", "windows", "notices", "observed"] {
            assert!(status.properties.contains_key(field), "{field}");
        }
    }
}
