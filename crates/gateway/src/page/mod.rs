//! The owner's page: whether the line is shared, whether the home notices, and who uses how much.
//!
//! The page is served on the home's side only, and loads nothing from other hosts. It uses the
//! same [`Operations`] as the control socket.

mod api;
mod codes;
mod config;
mod events;
mod guard;
mod history;
#[cfg(test)]
mod languages;
mod limits;
mod manage;
pub(crate) mod neighbour;
mod session;
pub mod sheet;
mod view;
mod words;

pub use crate::language::Language;
pub use config::PageConfig;

use crate::control::{OperationError, Operations};
use crate::login::{Denied, Logins};
use crate::notes::Note;
use crate::refusals::PAUSE_NUMBER;
use askama::Template;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Router, middleware};
use guard::{Sent, Visitor, cookie};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jiff::SignedDuration;
use serde::Deserialize;
use session::Sessions;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use utoipa::{IntoParams, ToSchema};

/// Most connections at a time.
const CONNECTIONS: usize = 256;
/// Longest time for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest form, in bytes.
const FORM_BYTES: usize = 8 * 1024;
/// Seconds for which a browser keeps the session's cookie.
const COOKIE_S: u32 = 12 * 3600;

/// State that all visitors share.
struct Page {
    operations: Arc<Operations>,
    logins: Arc<Logins>,
    sessions: Sessions,
    listening: Arc<AtomicUsize>,
}

type Shared = State<Arc<Page>>;

/// The result of a form, or the response that says why there is none.
type FormAnswer<T> = Result<T, Box<Response>>;

/// Serves browsers of the home. Never ends.
pub async fn serve(listener: TcpListener, logins: Arc<Logins>, operations: Arc<Operations>) {
    let (sessions, listening) = Default::default();
    let router = router(Arc::new(Page { operations: operations.clone(), logins, sessions, listening }));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            // No file descriptor is free: wait until a connection ends.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let from = from.ip().to_canonical();
        // A neighbour who can reach the home's side gets no page.
        if operations.is_neighbour(from) && !from.is_loopback() {
            continue;
        }
        let service = TowerToHyperService::new(router.clone().layer(Extension(from)));
        tokio::spawn(async move {
            // An error here means that the client closed the connection, which is normal: nothing
            // is logged.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

fn router(page: Arc<Page>) -> Router {
    let (router, _) = api::routes().split_for_parts();
    router
        .layer(DefaultBodyLimit::max(FORM_BYTES))
        .layer(middleware::map_response(guard::closed))
        .with_state(page)
}

#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct HomeQuery {
    /// `old` if a form was too old.
    #[serde(default)]
    problem: String,
}

/// The page: whether the line is shared, and who uses how much.
#[utoipa::path(
    get,
    path = "/",
    params(HomeQuery),
    security(("session" = [])),
    responses(
        (status = 200, description = "the page", body = String, content_type = "text/html"),
        (status = 303, description = "to /login, without a session"),
    ),
)]
async fn home(State(page): Shared, Query(query): Query<HomeQuery>, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    let Some(csrf) = page.csrf(&visitor) else { return Redirect::to("/login").into_response() };
    let words = visitor.language.words();
    let problem = (query.problem == "old").then(|| view::Message::problem(words.old_form));
    page.home(&visitor, csrf, problem, StatusCode::OK)
}

/// The form to log in.
#[utoipa::path(
    get,
    path = "/login",
    responses(
        (status = 200, description = "the form", body = String, content_type = "text/html"),
        (status = 303, description = "to /, with a session"),
    ),
)]
async fn login(State(page): Shared, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    if page.csrf(&visitor).is_some() {
        return Redirect::to("/").into_response();
    }
    html(&view::Login::new(visitor.language, None), StatusCode::OK)
}

#[derive(Deserialize, ToSchema)]
struct LoginForm {
    name: String,
    password: String,
}

/// Logs in.
#[utoipa::path(
    post,
    path = "/login",
    request_body(content = LoginForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "to /, with the cookie of a session"),
        (status = 401, description = "a wrong name or password"),
        (status = 403, description = "a form of another site"),
        (status = 429, description = "too many attempts; `Retry-After` says when to try again"),
    ),
)]
async fn enter(
    State(page): Shared,
    Extension(from): Extension<IpAddr>,
    headers: HeaderMap,
    Sent(form): Sent<LoginForm>,
) -> Response {
    let visitor = Visitor::of(&headers);
    let words = visitor.language.words();
    if !visitor.same_origin {
        return html(&view::Login::new(visitor.language, Some(words.old_form)), StatusCode::FORBIDDEN);
    }
    match page.logins.check(from, form.name.as_bytes(), form.password.as_bytes()).await {
        Ok(owner) => {
            let name = page.sessions.begin(&owner);
            let cookie = cookie("leeway_session", &name, COOKIE_S);
            ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(Denied::Wrong) => {
            html(&view::Login::new(visitor.language, Some(words.wrong_password)), StatusCode::UNAUTHORIZED)
        }
        Err(denied) => {
            let seconds = if let Denied::Later(wait) = denied { wait.as_secs() + 1 } else { 5 };
            let page = html(
                &view::Login::new(visitor.language, Some(words.too_many)),
                StatusCode::TOO_MANY_REQUESTS,
            );
            ([(header::RETRY_AFTER, seconds.to_string())], page).into_response()
        }
    }
}

#[derive(Deserialize, ToSchema)]
struct LanguageForm {
    /// `en`, `es` or `ca`.
    language: String,
}

/// Chooses the language of the page.
#[utoipa::path(
    post,
    path = "/language",
    request_body(content = LanguageForm, content_type = "application/x-www-form-urlencoded"),
    responses((status = 303, description = "to /, with a cookie")),
)]
async fn language(Sent(form): Sent<LanguageForm>) -> Response {
    let chosen = Language::of(&form.language).unwrap_or(Language::English).words().code;
    let cookie = cookie("leeway_language", chosen, 365 * 24 * 3600);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// The fields of every form that changes something.
#[derive(Deserialize, ToSchema)]
struct Action {
    /// The token of the page that the form is on.
    csrf: String,
    /// Seconds of a pause; empty for a pause that the owner ends.
    #[serde(default)]
    seconds: String,
}

/// Logs out.
#[utoipa::path(
    post,
    path = "/logout",
    request_body(content = Action, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses((status = 303, description = "to /login")),
)]
async fn leave(State(page): Shared, headers: HeaderMap, Sent(form): Sent<Action>) -> Response {
    let visitor = Visitor::of(&headers);
    if page.may(&visitor, &form.csrf) {
        page.sessions.end(visitor.session);
    }
    ([(header::SET_COOKIE, cookie("leeway_session", "", 0))], Redirect::to("/login")).into_response()
}

/// Refuses new requests of neighbours for some time, or until the owner resumes.
#[utoipa::path(
    post,
    path = "/pause",
    request_body(content = Action, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (status = 303, description = "to /; done unless `problem` says why not"),
        (status = 400, description = "the page with what is wrong", body = String, content_type = "text/html"),
        (status = 500, description = "the pause cannot be kept"),
    ),
)]
async fn pause(State(page): Shared, headers: HeaderMap, Sent(form): Sent<Action>) -> Response {
    page.act(&headers, &form.csrf, |operations| {
        let time = form.seconds.parse().ok().map(SignedDuration::from_secs);
        if time.is_none() && !form.seconds.is_empty() {
            return Err(OperationError::Wrong(Note::new(&PAUSE_NUMBER, [])));
        }
        operations.pause(time).map(drop)
    })
}

/// Ends a pause.
#[utoipa::path(
    post,
    path = "/resume",
    request_body(content = Action, content_type = "application/x-www-form-urlencoded"),
    security(("session" = [])),
    responses(
        (status = 303, description = "to /; done unless `problem` says why not"),
        (status = 500, description = "that cannot be kept"),
    ),
)]
async fn resume(State(page): Shared, headers: HeaderMap, Sent(form): Sent<Action>) -> Response {
    page.act(&headers, &form.csrf, |operations| operations.resume().map(drop))
}

/// Tells whether the session of the cookie is open.
#[utoipa::path(
    get,
    path = "/session",
    security(("session" = [])),
    responses(
        (status = 204, description = "it does"),
        (status = 401, description = "it does not"),
    ),
)]
async fn session(State(page): Shared, headers: HeaderMap) -> StatusCode {
    let known = page.csrf(&Visitor::of(&headers)).is_some();
    if known { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}

/// Sends the state of the gateway once a second.
#[utoipa::path(
    get,
    path = "/events",
    security(("session" = [])),
    responses(
        (
            status = 200,
            description = "server-sent events, each with JSON",
            body = String,
            content_type = "text/event-stream",
        ),
        (status = 401, description = "no session"),
        (status = 503, description = "too many pages listen"),
    ),
)]
async fn events(State(page): Shared, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    if page.csrf(&visitor).is_none() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (visited, name) = (page.clone(), visitor.session.to_owned());
    let welcome = move || visited.open(&name).is_some();
    match events::Events::begin(page.operations.clone(), visitor.language, page.listening.clone(), welcome) {
        Some(events) => ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Style and scripts of the page.
#[utoipa::path(
    get,
    path = "/assets/{name}",
    params(("name" = String, Path, description = "name of a file")),
    responses(
        (status = 200, description = "the file"),
        (status = 404, description = "no such file"),
    ),
)]
async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "style.css" => ("text/css", include_str!("assets/style.css")),
        "page.js" => ("text/javascript", include_str!("assets/page.js")),
        "uplot.css" => ("text/css", include_str!("assets/uplot.css")),
        "uplot.js" => ("text/javascript", include_str!("assets/uplot.js")),
        "uplot-LICENSE.txt" => ("text/plain", include_str!("assets/uplot-LICENSE.txt")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(header::CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text).into_response()
}

impl Page {
    /// The token for a visitor's forms, if the visitor is logged in.
    fn csrf(&self, visitor: &Visitor<'_>) -> Option<String> {
        self.open(visitor.session)
    }

    /// The token for the forms of a session.
    fn open(&self, session: &str) -> Option<String> {
        self.sessions.csrf(session, |owner| self.logins.has(owner.as_bytes()))
    }

    /// Whether a form comes from a page that this visitor was given.
    fn may(&self, visitor: &Visitor<'_>, csrf: &str) -> bool {
        visitor.same_origin && self.csrf(visitor).is_some_and(|known| known == csrf)
    }

    /// The page, with the result of a form if there is one.
    fn home(
        &self,
        visitor: &Visitor<'_>,
        csrf: String,
        message: Option<view::Message>,
        status: StatusCode,
    ) -> Response {
        let (now, notices) = (self.operations.now(visitor.language), self.operations.notes());
        let unknown = self.operations.unknown();
        let codes = self.operations.takes_codes();
        let home = view::Home::new(
            visitor.language,
            csrf,
            message,
            now,
            [&notices, &unknown],
            &self.operations.zone(),
        );
        html(&home.with_limits(self.operations.limits().ok()).with_codes(codes), status)
    }

    fn act(
        &self,
        headers: &HeaderMap,
        csrf: &str,
        work: impl FnOnce(&Operations) -> Result<(), OperationError>,
    ) -> Response {
        let visitor = Visitor::of(headers);
        if !self.may(&visitor, csrf) {
            return Redirect::to("/?problem=old").into_response();
        }
        match work(&self.operations) {
            Ok(()) => Redirect::to("/").into_response(),
            Err(error) => self.refused(&visitor, csrf, &error),
        }
    }

    /// The page with the reason why an operation was not done.
    fn refused(&self, visitor: &Visitor<'_>, csrf: &str, error: &OperationError) -> Response {
        let problem = view::Message::problem(&error.note().words(visitor.language));
        self.home(visitor, csrf.to_owned(), Some(problem), error.status())
    }
}

fn html(page: &impl Template, status: StatusCode) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
