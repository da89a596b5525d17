//! Access and configuration on the owner's page, by the operations of the control socket.

use super::guard::{Sent, Visitor};
use super::view::Message;
use super::{Action, FormAnswer, Shared};
use crate::control::{OperationError, Operations, ReloadRequest, RevokeRequest};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use utoipa::ToSchema;

/// The form that revokes a user's access, or gives it back.
#[derive(Deserialize, ToSchema)]
pub struct AccessForm {
    /// The token of the page that the form is on.
    csrf: String,
    /// A user's name, or a neighbour's address.
    #[serde(default)]
    user: String,
    /// Not empty to give the access back.
    #[serde(default)]
    undo: String,
}

/// Revokes a neighbour's access, which ends transfers; or gives it back.
#[utoipa::path(
    post,
    path = "/revoke",
    request_body(content = AccessForm, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (status = 303, description = "to /; done unless `problem` says why not"),
        (
            status = 400,
            description = "the page with what is wrong",
            body = String,
            content_type = "text/html",
        ),
    ),
)]
pub async fn revoke(state: Shared, headers: HeaderMap, Sent(form): Sent<AccessForm>) -> Response {
    let visitor = Visitor::of(&headers);
    let request = RevokeRequest { user: form.user.trim().to_owned(), undo: !form.undo.is_empty() };
    match asked(&state, &visitor, &form.csrf, Ok(request), Operations::revoke).await {
        Ok(_) => Redirect::to("/").into_response(),
        Err(answer) => *answer,
    }
}

/// Reads the configuration again; no connection ends.
#[utoipa::path(
    post,
    path = "/reload",
    request_body(content = Action, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (
            status = 200,
            description = "the page; what was read holds",
            body = String,
            content_type = "text/html",
        ),
        (status = 303, description = "to /, for a form that is too old"),
        (
            status = 400,
            description = "the page with what is wrong or needs a restart",
            body = String,
            content_type = "text/html",
        ),
    ),
)]
pub async fn reload(state: Shared, headers: HeaderMap, Sent(form): Sent<Action>) -> Response {
    let visitor = Visitor::of(&headers);
    let request = Ok(ReloadRequest::default());
    match asked(&state, &visitor, &form.csrf, request, Operations::reread).await {
        Ok(notes) => {
            let words = visitor.language.words();
            let done = Message::done(visitor.language, words.reloaded, &notes);
            state.home(&visitor, form.csrf, Some(done), StatusCode::OK)
        }
        Err(answer) => *answer,
    }
}

/// The result of an operation that a form asks for; or the page with the problem.
pub async fn asked<R: Send + 'static, T: Send + 'static>(
    State(page): &Shared,
    visitor: &Visitor<'_>,
    csrf: &str,
    request: Result<R, &'static str>,
    work: impl FnOnce(&Operations, &R) -> Result<T, OperationError> + Send + 'static,
) -> FormAnswer<T> {
    if !page.may(visitor, csrf) {
        return Err(Box::new(Redirect::to("/?problem=old").into_response()));
    }
    let wrong = |words: &str| {
        let problem = Some(Message::problem(words));
        Box::new(page.home(visitor, csrf.to_owned(), problem, StatusCode::BAD_REQUEST))
    };
    let request = request.map_err(wrong)?;
    let operations = page.operations.clone();
    // The store may be slow. Other requests are answered meanwhile.
    match tokio::task::spawn_blocking(move || work(&operations, &request)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Box::new(page.refused(visitor, csrf, &error))),
        Err(_) => Err(Box::new(StatusCode::INTERNAL_SERVER_ERROR.into_response())),
    }
}
