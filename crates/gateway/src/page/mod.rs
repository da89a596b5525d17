//! The donor's page: whether the line is shared, whether the home notices, who uses how much.
//!
//! It is on the home's side only, and asks nobody else for anything. It does what the control
//! socket does, by the same [`Operations`].

mod codes;
mod config;
mod events;
mod guard;
pub(crate) mod neighbour;
mod session;
pub mod sheet;
mod view;
mod words;

pub use config::PageConfig;
pub use words::Language;

use crate::control::Operations;
use crate::login::{Denied, Logins};
use askama::Template;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use guard::{Visitor, cookie};
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

/// Connections at a time.
const CONNECTIONS: usize = 256;
/// For the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest form.
const FORM_BYTES: usize = 8 * 1024;
/// Seconds that a browser keeps the cookies for.
const COOKIE_S: u32 = 12 * 3600;

/// What all visitors share.
struct Page {
    operations: Arc<Operations>,
    logins: Arc<Logins>,
    sessions: Sessions,
    listening: Arc<AtomicUsize>,
}

type Shared = State<Arc<Page>>;

/// What comes of a form, or the answer that says why nothing does.
type FormAnswer<T> = Result<T, Box<Response>>;

/// Answers the home's browsers. Never ends.
pub async fn serve(listener: TcpListener, logins: Arc<Logins>, operations: Arc<Operations>) {
    let (sessions, listening) = Default::default();
    let router = router(Arc::new(Page { operations: operations.clone(), logins, sessions, listening }));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors: some will be free again.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let from = from.ip().to_canonical();
        // A neighbour who finds a way to the home's side finds nobody.
        if operations.is_neighbour(from) && !from.is_loopback() {
            continue;
        }
        let service = TowerToHyperService::new(router.clone().layer(Extension(from)));
        tokio::spawn(async move {
            // Who breaks off is no event.
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
    Router::new()
        .route("/", get(home))
        .route("/login", get(login).post(enter))
        .route("/logout", post(leave))
        .route("/language", post(language))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/invite", post(codes::invite))
        .route("/vouchers", post(codes::vouchers))
        .route("/events", get(events))
        .route("/session", get(session))
        .route("/assets/{name}", get(asset))
        .layer(DefaultBodyLimit::max(FORM_BYTES))
        .layer(middleware::map_response(guard::closed))
        .with_state(page)
}

#[derive(Default, Deserialize)]
struct HomeQuery {
    #[serde(default)]
    problem: String,
}

async fn home(State(page): Shared, Query(query): Query<HomeQuery>, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    let Some(csrf) = page.csrf(&visitor) else { return Redirect::to("/login").into_response() };
    let words = visitor.language.words();
    let problem = (query.problem == "old").then(|| words.old_form.to_owned());
    page.home(&visitor, csrf, problem, StatusCode::OK)
}

async fn login(State(page): Shared, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    if page.csrf(&visitor).is_some() {
        return Redirect::to("/").into_response();
    }
    html(&view::Login::new(visitor.language, None), StatusCode::OK)
}

#[derive(Deserialize)]
struct LoginForm {
    name: String,
    password: String,
}

async fn enter(
    State(page): Shared,
    Extension(from): Extension<IpAddr>,
    headers: HeaderMap,
    Form(form): Form<LoginForm>,
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

#[derive(Deserialize)]
struct LanguageForm {
    language: String,
}

async fn language(Form(form): Form<LanguageForm>) -> Response {
    let chosen = Language::of(&form.language).unwrap_or(Language::English).words().code;
    let cookie = cookie("leeway_language", chosen, 365 * 24 * 3600);
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// Every form that changes something.
#[derive(Deserialize)]
struct Action {
    csrf: String,
    #[serde(default)]
    seconds: String,
}

async fn leave(State(page): Shared, headers: HeaderMap, Form(form): Form<Action>) -> Response {
    let visitor = Visitor::of(&headers);
    if page.may(&visitor, &form.csrf) {
        page.sessions.end(visitor.session);
    }
    ([(header::SET_COOKIE, cookie("leeway_session", "", 0))], Redirect::to("/login")).into_response()
}

async fn pause(State(page): Shared, headers: HeaderMap, Form(form): Form<Action>) -> Response {
    page.act(&headers, &form.csrf, |operations| {
        let time = form.seconds.parse().ok().map(SignedDuration::from_secs);
        if time.is_none() && !form.seconds.is_empty() {
            return Err(crate::control::OperationError::Wrong(
                "the time of a pause is a number of seconds".into(),
            ));
        }
        operations.pause(time).map(drop)
    })
}

async fn resume(State(page): Shared, headers: HeaderMap, Form(form): Form<Action>) -> Response {
    page.act(&headers, &form.csrf, |operations| operations.resume().map(drop))
}

async fn session(State(page): Shared, headers: HeaderMap) -> StatusCode {
    let known = page.csrf(&Visitor::of(&headers)).is_some();
    if known { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}

async fn events(State(page): Shared, headers: HeaderMap) -> Response {
    let visitor = Visitor::of(&headers);
    if page.csrf(&visitor).is_none() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (visited, name) = (page.clone(), visitor.session.to_owned());
    let welcome = move || visited.open(&name).is_some();
    match events::Events::begin(page.operations.clone(), page.listening.clone(), welcome) {
        Some(events) => ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

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
    /// The token of a visitor's forms, if he is logged in.
    fn csrf(&self, visitor: &Visitor<'_>) -> Option<String> {
        self.open(visitor.session)
    }

    /// The same of a session's name.
    fn open(&self, session: &str) -> Option<String> {
        self.sessions.csrf(session, |owner| self.logins.has(owner.as_bytes()))
    }

    /// Whether a form comes from a page of ours that this visitor was given.
    fn may(&self, visitor: &Visitor<'_>, csrf: &str) -> bool {
        visitor.same_origin && self.csrf(visitor).is_some_and(|known| known == csrf)
    }

    /// The page itself, perhaps with what went wrong.
    fn home(
        &self,
        visitor: &Visitor<'_>,
        csrf: String,
        problem: Option<String>,
        status: StatusCode,
    ) -> Response {
        let (now, notices) = (self.operations.now(), self.operations.notices());
        let codes = self.operations.takes_codes();
        html(&view::Home::new(visitor.language, csrf, problem, now, notices).with_codes(codes), status)
    }

    fn act(
        &self,
        headers: &HeaderMap,
        csrf: &str,
        work: impl FnOnce(&Operations) -> Result<(), crate::control::OperationError>,
    ) -> Response {
        if !self.may(&Visitor::of(headers), csrf) {
            return Redirect::to("/?problem=old").into_response();
        }
        match work(&self.operations) {
            Ok(()) => Redirect::to("/").into_response(),
            Err(error) => error.into_response(),
        }
    }
}

fn html(page: &impl Template, status: StatusCode) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
