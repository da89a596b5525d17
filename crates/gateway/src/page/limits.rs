//! Limits of neighbours on the owner's page, set by the operation of the control socket.

use super::Shared;
use super::codes::decimal;
use super::guard::{Sent, Visitor};
use super::manage::asked;
use crate::control::{LimitRequest, Operations};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use leeway_accounts::vouchers::gigabytes;
use serde::Deserialize;
use utoipa::ToSchema;

/// Highest rate of a limit, in bit/s.
const MOST_BPS: f64 = 1e15;

/// The form that sets a limit.
#[derive(Deserialize, ToSchema)]
pub struct LimitForm {
    /// The token of the page that the form is on.
    csrf: String,
    /// `all` for all neighbours together, `each`, or `user`.
    whose: String,
    /// A user's name, or a neighbour's address.
    #[serde(default)]
    user: String,
    /// Gigabytes of a day; empty for no limit.
    #[serde(default)]
    daily: String,
    /// Mbit/s in each direction; empty for no limit.
    #[serde(default)]
    rate: String,
    /// Not empty to give the limit of the configuration back.
    #[serde(default)]
    undo: String,
}

impl LimitForm {
    fn request(&self) -> Result<LimitRequest, ()> {
        let user = (self.whose == "user").then(|| self.user.trim().to_owned());
        let (all, undo) = (self.whose == "all", !self.undo.is_empty());
        if undo {
            return Ok(LimitRequest { user, all, undo, ..LimitRequest::default() });
        }
        let daily_bytes = decimal(&self.daily)?.map(|gb| gigabytes(gb).ok_or(())).transpose()?;
        let bps = decimal(&self.rate)?.map(|mbit| mbit * 1e6);
        let rate_bps = bps.map(|bps| (1.0..MOST_BPS).contains(&bps).then_some(bps.round() as u64).ok_or(()));
        Ok(LimitRequest { user, all, daily_bytes, rate_bps: rate_bps.transpose()?, undo })
    }
}

/// Sets a limit, or gives that of the configuration back.
#[utoipa::path(
    post,
    path = "/limits",
    request_body(content = LimitForm, content_type = "application/x-www-form-urlencoded"),
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
pub async fn limits(state: Shared, headers: HeaderMap, Sent(form): Sent<LimitForm>) -> Response {
    let visitor = Visitor::of(&headers);
    let request = form.request().map_err(|()| visitor.language.words().wrong_limit);
    match asked(&state, &visitor, &form.csrf, request, Operations::limit).await {
        Ok(_) => Redirect::to("/#limits").into_response(),
        Err(answer) => *answer,
    }
}
