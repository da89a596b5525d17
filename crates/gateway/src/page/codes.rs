//! Invitations and vouchers on the owner's page, made by the operations of the control socket.

use super::guard::{Sent, Visitor};
use super::manage::asked;
use super::{Shared, html, sheet, view};
use crate::control::{InviteRequest, Operations, VoucherRequest};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use leeway_accounts::vouchers::gigabytes;
use serde::Deserialize;
use std::str::FromStr;
use utoipa::ToSchema;

/// Fields of both forms. A field that is not filled in is empty.
#[derive(Deserialize, ToSchema)]
pub struct CodesForm {
    /// The token of the page that the form is on.
    csrf: String,
    /// Name of the invited person.
    #[serde(default)]
    name: String,
    /// Days from the first use.
    #[serde(default)]
    days: String,
    /// Gigabytes, both directions together.
    #[serde(default)]
    gb: String,
    /// Number of vouchers.
    #[serde(default)]
    count: String,
}

/// The number in a field; `None` if the field is empty.
fn number<T: FromStr>(text: &str) -> Result<Option<T>, ()> {
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(drop) }
}

/// The decimal number in a field, also with a comma, as in Spain.
pub fn decimal(text: &str) -> Result<Option<f64>, ()> {
    number(&text.replace(',', "."))
}

impl CodesForm {
    /// Days and bytes.
    fn terms(&self) -> Result<(Option<u32>, Option<u64>), ()> {
        let bytes = decimal(&self.gb)?.map(|gb| gigabytes(gb).ok_or(())).transpose()?;
        Ok((number(&self.days)?, bytes))
    }
}

/// Invites somebody, and shows the code with its picture.
#[utoipa::path(
    post,
    path = "/invite",
    request_body(content = CodesForm, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (
            status = 200,
            description = "the code and its picture, once",
            body = String,
            content_type = "text/html",
        ),
        (status = 303, description = "to /, for a form that is too old"),
        (
            status = 400,
            description = "the page with what is wrong",
            body = String,
            content_type = "text/html",
        ),
    ),
)]
pub async fn invite(state: Shared, headers: HeaderMap, Sent(form): Sent<CodesForm>) -> Response {
    let visitor = Visitor::of(&headers);
    let request =
        form.terms().map(|(days, bytes)| InviteRequest { name: form.name.trim().to_owned(), days, bytes });
    let request = request.map_err(|()| visitor.language.words().wrong_number);
    let issued = asked(&state, &visitor, &form.csrf, request, Operations::invite).await;
    match issued {
        Ok(issued) => html(&view::Issued::new(visitor.language, &issued), StatusCode::OK),
        Err(answer) => *answer,
    }
}

/// Makes vouchers. The browser saves the sheet as a file, because its codes cannot be shown again.
#[utoipa::path(
    post,
    path = "/vouchers",
    request_body(content = CodesForm, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (status = 200, description = "the sheet, once", body = String, content_type = "text/html"),
        (status = 303, description = "to /, for a form that is too old"),
        (
            status = 400,
            description = "the page with what is wrong",
            body = String,
            content_type = "text/html",
        ),
    ),
)]
pub async fn vouchers(state: Shared, headers: HeaderMap, Sent(form): Sent<CodesForm>) -> Response {
    let visitor = Visitor::of(&headers);
    let request = form.terms().and_then(|(days, bytes)| {
        Ok(VoucherRequest { days, bytes, count: number(&form.count)?.unwrap_or(1), valid_days: None })
    });
    let request = request.map_err(|()| visitor.language.words().wrong_number);
    let issued = asked(&state, &visitor, &form.csrf, request, Operations::make_vouchers).await;
    match issued {
        Ok(issued) => {
            let name = visitor.language.words().sheet_file;
            let file = [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))];
            (file, Html(sheet::html(&issued, visitor.language, &state.operations.zone()))).into_response()
        }
        Err(answer) => *answer,
    }
}
