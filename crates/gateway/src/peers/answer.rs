//! Responses of the proxy at its own address, about itself and its peers.

use super::document::{Document, Standing};
use super::route::{Asker, DESCRIPTION, DOCUMENT, PAC, Route};
use super::{Peers, pac};
use crate::codes::Codes;
use crate::control::own_volumes;
use crate::gate::{Closed, Why};
use crate::http::{Proxy, line};
use crate::language::Language;
use crate::login::Denied;
use crate::notes::Note;
use crate::openapi;
use crate::refusals::{ASKED_OFTEN, NAME_WRONG};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jiff::Timestamp;
use leeway_accounts::caps::Reason;
use std::sync::LazyLock;
use std::time::Duration;
use utoipa::OpenApi;

/// The interface for everybody who may use the proxy.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "The public side of a Leeway gateway",
        description = "HTTP at the proxy's own address, for those who may use the proxy and for other gateways: \
                       the state of the gateway, and which gateways a browser uses. No secrets, no names."
    ),
    paths(document, pac, description)
)]
struct Api;

/// A response that is not the requested file.
type Refusal = Box<Response<String>>;

/// Answers a request for one of the routes.
pub async fn answer(proxy: &Proxy, route: Route, asker: &Asker) -> Response<String> {
    if let Err(wait) = proxy.peers.admit(asker.client) {
        return later(wait, asker.language);
    }
    let answered = match route {
        Route::Document => document(proxy, asker).await,
        Route::Pac => pac(proxy, asker).await,
        Route::Description => Ok(description()),
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

/// Returns the state of the gateway.
///
/// A client that gives a name and a password, or the code of a voucher, also learns how many bytes
/// are left.
#[utoipa::path(
    get,
    path = DOCUMENT,
    responses(
        (status = 200, description = "the state", body = Document),
        (status = 401, description = "name or password are wrong"),
        (status = 429, description = "too many requests from one site; `Retry-After` has the seconds to wait"),
    ),
)]
async fn document(proxy: &Proxy, asker: &Asker) -> Result<Response<String>, Refusal> {
    let name = name(proxy, asker).await.map_err(|denied| Box::new(refused(denied, asker.language)))?;
    let document = of(proxy, name.as_deref()).await;
    Ok(file("application/json", serde_json::to_string(&document).unwrap_or_default()))
}

/// Lists the gateways for a browser, in the order for this client.
#[utoipa::path(
    get,
    path = PAC,
    responses(
        (
            status = 200,
            description = "a proxy auto-configuration file",
            body = String,
            content_type = "application/x-ns-proxy-autoconfig",
        ),
        (status = 429, description = "too many requests from one site; `Retry-After` has the seconds to wait"),
    ),
)]
async fn pac(proxy: &Proxy, asker: &Asker) -> Result<Response<String>, Refusal> {
    // Browsers ask without a name, because they need this file before they know where to give one.
    let name = (!proxy.users.need_password()).then(|| proxy.users.at(asker.client).name.clone());
    let document = of(proxy, name.as_deref()).await;
    let peers: &Peers = &proxy.peers;
    let mut order = peers.order(asker.client, asker.own, &document);
    if order.is_empty() {
        order.push(asker.own);
    }
    Ok(file(pac::TYPE, pac::text(&order, &peers.all(asker.own))))
}

/// Describes these paths, as OpenAPI 3.1.
#[utoipa::path(get, path = DESCRIPTION, responses((status = 200, description = "the description")))]
fn description() -> Response<String> {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi::json(&Api::openapi()));
    file("application/json", TEXT.clone())
}

/// The state of this gateway for the user `name`, or for an unknown client.
async fn of(proxy: &Proxy, name: Option<&str>) -> Document {
    let gate = &proxy.connector.gate;
    if let Some(name) = name {
        gate.told(name).await;
    }
    let closed = gate.closed(name.unwrap_or_default());
    let meter = name.and_then(|name| Some((gate.meter()?, name)));
    let left = meter.and_then(|(meter, name)| {
        let volumes = own_volumes(meter, name);
        volumes.iter().map(|volume| volume.limit_bytes.saturating_sub(volume.used_bytes)).min()
    });
    // A user whose own volume is used up stays unknown to others: the gateway itself counts as
    // open.
    let own = |reason: Reason| matches!(reason, Reason::UserDaily | Reason::Voucher | Reason::VoucherOver);
    let (sharing, until, left_bytes) = match closed {
        None => (Standing::On, None, left),
        Some(Closed { why: Why::Revoked, .. }) => (Standing::On, None, Some(0)),
        Some(Closed { why: Why::Cap(reason), .. }) if own(reason) => (Standing::On, None, Some(0)),
        Some(Closed { until, .. }) => (Standing::Paused, until, left),
    };
    let seconds = |until: Timestamp| u64::try_from(until.duration_since(Timestamp::now()).as_secs() + 1);
    let (load, spare, users) = proxy.peers.occupancy();
    Document {
        sharing,
        until,
        resumes_s: until.map(|until| seconds(until).unwrap_or(0)),
        load,
        spare_bps: spare.map(|bps| bps as u64),
        users: Some(users),
        left_bytes,
    }
}

/// The user's name, or `None` if the gateway does not know who asks. Asking does not begin the
/// days of a voucher.
async fn name(proxy: &Proxy, asker: &Asker) -> Result<Option<String>, Denied> {
    let (users, client) = (&proxy.users, asker.client);
    if !users.need_password() {
        return Ok(Some(users.at(client).name.clone()));
    }
    let Some((name, password)) = &asker.given else { return Ok(None) };
    let code = Codes::given(name.as_bytes(), password.as_bytes()).filter(|_| !users.has_password(name));
    if let Some((codes, code)) = users.codes().zip(code) {
        return match codes.look_at(client, &code).await? {
            voucher if voucher.redeemed.is_some() => codes.check(client, &code).await.map(Some),
            _ => Ok(None),
        };
    }
    users.log_in(client, name.as_bytes(), password.as_bytes()).await.map(|user| Some(user.name.clone()))
}

fn refused(denied: Denied, language: Language) -> Response<String> {
    let wait = match denied {
        Denied::Later(wait) => wait,
        Denied::Busy | Denied::Store => Duration::from_secs(5),
        Denied::Wrong | Denied::Revoked | Denied::Void(_) => {
            let mut answer = file("text/plain; charset=utf-8", line(&Note::new(&NAME_WRONG, []), language));
            *answer.status_mut() = StatusCode::UNAUTHORIZED;
            let ask = HeaderValue::from_static("Basic realm=\"leeway gateway\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, ask);
            return answer;
        }
    };
    later(wait, language)
}

fn later(wait: Duration, language: Language) -> Response<String> {
    let mut answer = file("text/plain; charset=utf-8", line(&Note::new(&ASKED_OFTEN, []), language));
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    answer
}

fn file(kind: &'static str, text: String) -> Response<String> {
    let mut answer = Response::new(text);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use oas3::spec::{ObjectOrReference, Schema};

    #[test]
    fn every_path_is_described() {
        let expected = ["GET /.well-known/leeway", "GET /openapi.json", "GET /proxy.pac"];
        let document = openapi::read(&Api::openapi(), &expected);
        for path in expected.map(|route| route.strip_prefix("GET ").unwrap()) {
            assert!(Route::of(path).is_some(), "{path}");
        }
        let schemas = &document.components.as_ref().unwrap().schemas;
        let Schema::Object(found) = &schemas["Document"] else { panic!("no object") };
        let ObjectOrReference::Object(found) = &**found else { panic!("a reference") };
        let fields: Vec<&str> = found.properties.keys().map(String::as_str).collect();
        for field in ["sharing", "until", "resumes_s", "load", "spare_bps", "users", "left_bytes"] {
            assert!(fields.contains(&field), "{field} in {fields:?}");
        }
        assert_eq!(fields.len(), 7);
    }
}
