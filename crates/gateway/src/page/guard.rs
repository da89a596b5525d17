//! The visitor of a request, and the restrictions that every response states.

use crate::language::Language;
use axum::extract::{Form, FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Redirect, Response};
use serde::de::DeserializeOwned;

/// Content Security Policy: nothing from other hosts, no scripts in the markup, and no frames
/// around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The visitor who sends a request.
#[derive(Debug)]
pub struct Visitor<'a> {
    /// Name of the session; empty without one.
    pub session: &'a str,
    /// Language of the response.
    pub language: Language,
    /// Whether the request does not come from a page of another site.
    pub same_origin: bool,
}

impl Visitor<'_> {
    /// The visitor of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Visitor<'_> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let cookies = text(header::COOKIE).unwrap_or_default();
        let cookie = |wanted: &str| {
            let mut all = cookies.split(';').filter_map(|cookie| cookie.trim().split_once('='));
            all.find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        let accepted = || Language::accepted(text(header::ACCEPT_LANGUAGE).unwrap_or_default());
        let host = text(header::HOST).unwrap_or_default();
        let same_origin =
            text(header::ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
        Visitor {
            session: cookie("leeway_session").unwrap_or_default(),
            language: cookie("leeway_language").and_then(Language::of).unwrap_or_else(accepted),
            same_origin,
        }
    }
}

/// The fields of a form of this page. A request with other fields is redirected to the page, which
/// explains it in the visitor's language.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Redirect;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Redirect> {
        let form = Form::from_request(request, state).await;
        form.map(|Form(sent)| Sent(sent)).map_err(|_| Redirect::to("/?problem=old"))
    }
}

/// A cookie that scripts cannot read and other sites do not send. Not `Secure`, because this
/// machine has no certificate in the home's network.
pub fn cookie(name: &str, value: &str, seconds: u32) -> String {
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict")
}

/// Adds the restrictions to a response.
pub async fn closed(mut answer: Response) -> Response {
    forbid(answer.headers_mut());
    answer
}

/// Adds the restrictions to headers.
pub fn forbid(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, browsers would send `Origin: null` with the forms of this page.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(header::HeaderName, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_visitor_is_who_the_cookies_say() {
        let given = headers(&[
            (header::COOKIE, "a=b; leeway_session=abc; leeway_language=ca"),
            (header::ACCEPT_LANGUAGE, "es"),
        ]);
        let visitor = Visitor::of(&given);
        assert_eq!((visitor.session, visitor.language), ("abc", Language::Catalan));
        let plain = headers(&[(header::COOKIE, "leeway_sessionx=1; ;=")]);
        assert_eq!(Visitor::of(&plain).session, "");
    }

    #[test]
    fn another_site_is_told_apart() {
        let same = |origin| {
            Visitor::of(&headers(&[(header::HOST, "10.0.0.1:80"), (header::ORIGIN, origin)])).same_origin
        };
        assert!(same("http://10.0.0.1:80"));
        assert!(!same("http://evil.example") && !same("null") && !same("https://10.0.0.1:80"));
    }
}
