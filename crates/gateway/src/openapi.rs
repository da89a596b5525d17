//! The descriptions of the gateway's two HTTP interfaces, as OpenAPI 3.1.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;

/// A description as JSON.
pub fn json(document: &OpenApi) -> String {
    document.to_pretty_json().unwrap_or_default()
}

/// The response of a route that serves a description.
pub fn answer(json: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Parses a description as another program would. Checks that it has exactly the expected routes,
/// and a summary for each.
#[cfg(test)]
pub fn read(document: &OpenApi, expected: &[&str]) -> oas3::Spec {
    let document = oas3::from_json(json(document)).expect("it is OpenAPI 3.1");
    document.validate_version().unwrap();
    let mut described: Vec<String> = Vec::new();
    for (path, method, operation) in document.operations() {
        let at = format!("{method} {path}");
        assert!(operation.summary.as_ref().is_some_and(|words| words.ends_with('.')), "{at}");
        described.push(at);
    }
    described.sort();
    assert_eq!(described, expected);
    document
}
