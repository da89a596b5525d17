//! Who used how much on the last days, from the accounts.

use super::guard::Visitor;
use super::view::{bytes, date};
use super::words::Words;
use super::{Shared, html};
use crate::control::{HistoryRange, PastDays};
use crate::language::Language;
use askama::Template;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use std::collections::BTreeMap;

/// Number of days.
const DAYS: u16 = 30;

/// The page, as texts.
#[derive(Template)]
#[template(path = "history.html")]
pub struct History {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    spans: [String; 3],
    rows: Vec<(String, [String; 3])>,
    /// Day, and bytes of all neighbours down and up.
    each_day: Vec<(String, String, String)>,
}

impl History {
    /// The page of these days.
    pub fn new(language: Language, past: &PastDays) -> History {
        let words = language.words();
        let span = |days| if days == 1 { words.today.to_owned() } else { format!("{days} {}", words.days) };
        let name = |user: &str| if user.is_empty() { words.the_home.to_owned() } else { user.to_owned() };
        let row = |(user, sums): (&str, [u64; 3])| (name(user), sums.map(|sum| bytes(words, sum)));
        let mut days = BTreeMap::<_, [u64; 2]>::new();
        for usage in past.usage.iter().filter(|usage| !usage.user.is_empty()) {
            let [down, up] = days.entry(usage.day).or_default();
            (*down, *up) = (*down + usage.down_bytes, *up + usage.up_bytes);
        }
        let each_day = days.into_iter().rev();
        let each_day =
            each_day.map(|(day, [down, up])| (date(day, words), bytes(words, down), bytes(words, up)));
        History {
            words,
            languages: Language::ALL,
            spans: past.spans().map(span),
            rows: past.sums().into_iter().map(row).collect(),
            each_day: each_day.collect(),
        }
    }
}

/// Who used how much on the last thirty days.
#[utoipa::path(
    get,
    path = "/history",
    security(("session" = [])),
    responses(
        (status = 200, description = "the page", body = String, content_type = "text/html"),
        (status = 303, description = "to /login, without a session"),
        (
            status = 400,
            description = "the first page with what is wrong",
            body = String,
            content_type = "text/html",
        ),
        (status = 500, description = "the accounts cannot be read"),
    ),
)]
pub async fn history(state: Shared, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    let Some(csrf) = state.csrf(&visitor) else { return Redirect::to("/login").into_response() };
    let operations = state.operations.clone();
    // The store may be slow. Other requests are answered meanwhile.
    match tokio::task::spawn_blocking(move || operations.days(HistoryRange { days: DAYS })).await {
        Ok(Ok(past)) => html(&History::new(visitor.language, &past), StatusCode::OK),
        Ok(Err(error)) => state.refused(&visitor, &csrf, &error),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
