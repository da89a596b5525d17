//! A neighbour's page: what is left, why the line is slow, and when a pause ends.
//!
//! The proxy's listener serves the page, so it is on the neighbours' side only. A neighbour sees
//! only his own figures. A browser that uses the proxy asks the proxy for the proxy's own address.
//! Any other browser connects to that address directly. The page has no script and loads nothing
//! from other hosts.

use super::guard;
use super::view::{VolumeRow, bytes, rate, when};
use super::words::Words;
use crate::codes::Codes;
use crate::control::own_volumes;
use crate::http::{Proxy, credentials};
use crate::language::Language;
use crate::login::Denied;
use crate::peers::route::{Asker, Route};
use askama::Template;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leeway_accounts::caps::Verdict;
use leeway_accounts::vouchers::{Voucher, code_in, grouped};
use leeway_net::Attachment;
use leeway_units::Rate;
use std::net::{IpAddr, SocketAddr};

/// A request for the proxy itself.
#[derive(Debug)]
pub struct Asked {
    what: What,
    language: Language,
    /// Name and password, or a code with anything.
    given: Option<(String, String)>,
    /// Whether the browser sent the request through the proxy.
    proxied: bool,
    /// The address of the proxy at which the client asks.
    own: SocketAddr,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Own,
    Code(String),
    Style,
    Peers(Route),
    Nothing,
}

impl Asked {
    /// The request, if it is for the proxy itself; `None` if it is for a server.
    pub fn of<B>(request: &Request<B>, proxy: &Proxy) -> Option<Asked> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return None;
        }
        let headers = request.headers();
        let host = || headers.get(header::HOST)?.to_str().ok()?.parse::<Authority>().ok();
        let proxied = request.uri().authority().is_some();
        let authority = request.uri().authority().cloned().or_else(host)?;
        // Only by address: everybody can give a name to any address.
        let ip: IpAddr = authority.host().trim_matches(['[', ']']).parse().ok()?;
        let entrance = proxy.entrance();
        let port = authority.port_u16().unwrap_or(80);
        let ours = entrance.http.is_some_and(|http| http.port() == port);
        if !ours || proxy.connector.policy().attached.of(ip) != Some(Attachment::Own) {
            return None;
        }
        let what = match request.uri().path() {
            "/" => What::Own,
            "/style.css" => What::Style,
            path => Route::of(path)
                .map(What::Peers)
                .or_else(|| path.strip_prefix("/c/").and_then(code_in).map(What::Code))
                .unwrap_or(What::Nothing),
        };
        let header = if proxied { header::PROXY_AUTHORIZATION } else { header::AUTHORIZATION };
        let chosen =
            request.uri().query().and_then(|query| query.strip_prefix("lang=")).and_then(Language::of);
        Some(Asked {
            what,
            language: chosen.unwrap_or_else(|| accepted(headers)),
            given: credentials(headers, &header),
            proxied,
            own: SocketAddr::new(ip, port),
        })
    }

    /// The request, if it is for a route that concerns other gateways; `None` if it is for a page.
    pub fn of_peers(&self, client: IpAddr) -> Option<(Route, Asker)> {
        match self.what {
            What::Peers(route) => {
                let (given, own, language) = (self.given.clone(), self.own, self.language);
                Some((route, Asker { client, given, own, language }))
            }
            _ => None,
        }
    }
}

/// The language that a browser prefers.
pub fn accepted(headers: &HeaderMap) -> Language {
    let wanted = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    Language::accepted(wanted.unwrap_or_default())
}

/// Answers a request for the proxy itself.
pub async fn answer(proxy: &Proxy, asked: Asked, client: IpAddr) -> Response<String> {
    let words = asked.language.words();
    let (status, page) = match &asked.what {
        What::Style => return text(StatusCode::OK, "text/css", include_str!("assets/style.css").into()),
        What::Nothing | What::Peers(_) => {
            return text(StatusCode::NOT_FOUND, "text/plain", format!("{}\n", words.why_unknown));
        }
        What::Code(code) => of_code(proxy, words, code, client).await,
        What::Own if !proxy.users.need_password() => {
            let name = proxy.users.at(client).name.clone();
            (StatusCode::OK, Some(Page::told(proxy, words, name, None).await))
        }
        What::Own => of_name(proxy, words, &asked, client).await,
    };
    let Some(page) = page else { return ask(words, asked.proxied) };
    match page.render() {
        Ok(page) => text(status, "text/html", page),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", String::new()),
    }
}

type Answer = (StatusCode, Option<Page>);

/// The page for the holder of a code. Looking at it does not begin the days of the code.
async fn of_code(proxy: &Proxy, words: &'static Words, code: &str, client: IpAddr) -> Answer {
    let problem = |status, why| (status, Some(Page::problem(proxy, words, why)));
    let Some(codes) = proxy.users.codes() else { return problem(StatusCode::NOT_FOUND, words.why_unknown) };
    let looked = match codes.look_at(client, code).await {
        // A code that is in use gets its caps, even if it was not used since the gateway's start.
        Ok(voucher) if voucher.redeemed.is_some() => codes.check(client, code).await.map(|_| voucher),
        other => other,
    };
    match looked {
        Ok(Voucher { revoked: Some(_), .. }) | Err(Denied::Revoked) => {
            problem(StatusCode::FORBIDDEN, words.why_revoked)
        }
        Ok(voucher) if voucher.standing(Timestamp::now()) == "void" => {
            problem(StatusCode::FORBIDDEN, words.why_void)
        }
        Err(Denied::Void(_)) => problem(StatusCode::FORBIDDEN, words.why_void),
        Err(Denied::Wrong) => problem(StatusCode::NOT_FOUND, words.why_unknown),
        Err(Denied::Later(_) | Denied::Busy) => problem(StatusCode::TOO_MANY_REQUESTS, words.why_slow_down),
        Err(Denied::Store) => problem(StatusCode::SERVICE_UNAVAILABLE, words.why_store),
        Ok(voucher) => {
            let page = Page::told(proxy, words, voucher.holder(), Some(&voucher)).await;
            (StatusCode::OK, Some(Page { code: Some(grouped(code)), ..page }))
        }
    }
}

/// The page for a user who has given a name and a password, or a code.
async fn of_name(proxy: &Proxy, words: &'static Words, asked: &Asked, client: IpAddr) -> Answer {
    let Some((name, password)) = &asked.given else { return (StatusCode::UNAUTHORIZED, None) };
    let code = Codes::given(name.as_bytes(), password.as_bytes());
    if let Some(code) = code.filter(|_| !proxy.users.has_password(name)) {
        return of_code(proxy, words, &code, client).await;
    }
    match proxy.users.log_in(client, name.as_bytes(), password.as_bytes()).await {
        Ok(user) => (StatusCode::OK, Some(Page::told(proxy, words, user.name.clone(), None).await)),
        Err(Denied::Wrong) => (StatusCode::UNAUTHORIZED, None),
        Err(_) => (StatusCode::TOO_MANY_REQUESTS, Some(Page::problem(proxy, words, words.too_many))),
    }
}

/// Asks for name and password, in the form of a proxy or of a server.
fn ask(words: &Words, proxied: bool) -> Response<String> {
    let (status, header) = match proxied {
        true => (StatusCode::PROXY_AUTHENTICATION_REQUIRED, header::PROXY_AUTHENTICATE),
        false => (StatusCode::UNAUTHORIZED, header::WWW_AUTHENTICATE),
    };
    let mut answer = text(status, "text/plain", format!("{}\n", words.wrong_password));
    answer.headers_mut().insert(header, HeaderValue::from_static("Basic realm=\"leeway gateway\""));
    answer
}

fn text(status: StatusCode, kind: &str, body: String) -> Response<String> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    guard::forbid(answer.headers_mut());
    if let Ok(kind) = HeaderValue::from_str(&format!("{kind}; charset=utf-8")) {
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    answer
}

/// The values of a neighbour's page.
#[derive(Template)]
#[template(path = "neighbour.html")]
struct Page {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    name: String,
    code: Option<String>,
    standing: &'static str,
    state: String,
    why: Option<&'static str>,
    goes_on: Option<String>,
    volumes: Vec<VolumeRow>,
    notes: Vec<String>,
    /// How long the gateway keeps the addresses that neighbours reach, if it logs them.
    logged: Option<String>,
    http: Option<(IpAddr, u16)>,
    socks: Option<(IpAddr, u16)>,
}

impl Page {
    /// The page of the user `name`, with what other gateways leave of the user's volumes.
    async fn told(proxy: &Proxy, words: &'static Words, name: String, voucher: Option<&Voucher>) -> Page {
        proxy.connector.gate.told(&name).await;
        Page::of(proxy, words, name, voucher)
    }

    fn of(proxy: &Proxy, words: &'static Words, name: String, voucher: Option<&Voucher>) -> Page {
        let gate = &proxy.connector.gate;
        let (meter, zone) = (gate.meter(), gate.zone());
        let verdict = meter.map_or(Verdict::Free, |meter| meter.verdict(&name));
        let paused = words.you_paused.to_owned();
        let (standing, state, why, goes_on) = match (gate.pause(), verdict) {
            _ if gate.is_revoked(&name) => {
                ("off", paused, Some(words.why_no_access), Some(goes_on(words, &zone, None)))
            }
            (Some(pause), _) => {
                ("off", paused, Some(words.why_owner), Some(goes_on(words, &zone, pause.until)))
            }
            (None, Verdict::Paused { until, reason }) => {
                ("off", paused, Some(words.why(reason)), Some(goes_on(words, &zone, until)))
            }
            (None, Verdict::Slowed { rate, reason }) => {
                ("off", slowed(words, rate), Some(words.why(reason)), None)
            }
            (None, Verdict::Free) => ("on", words.as_fast.to_owned(), None, None),
        };
        let volumes = meter.map_or(vec![], |meter| own_volumes(meter, &name));
        let mut notes = Vec::new();
        if let Some(voucher) = voucher.filter(|voucher| voucher.redeemed.is_none()) {
            notes.push(format!(
                "{} ({})",
                terms(words, voucher.terms.days, voucher.terms.bytes),
                words.from_first_use
            ));
            notes.push(words.not_begun.to_owned());
            let until = voucher.terms.valid_until;
            notes.extend(until.map(|until| format!("{} {}.", words.use_until, when(until, words, &zone))));
        }
        let ends = voucher.and_then(Voucher::ends).or_else(|| meter.and_then(|meter| meter.ends(&name)));
        notes.extend(ends.map(|ends| format!("{}: {}", words.ends, when(ends, words, &zone))));
        let logged = proxy.connector.destinations().map(|destinations| {
            let days = destinations.keep_days();
            format!("{} {days} {}.", words.logged, if days == 1 { words.day } else { words.days })
        });
        let entrance = proxy.entrance();
        Page {
            words,
            languages: Language::ALL,
            name,
            code: None,
            standing,
            state,
            why,
            goes_on,
            volumes: volumes.into_iter().map(|volume| VolumeRow::new(words, &zone, volume)).collect(),
            notes,
            logged,
            http: entrance.http.map(|http| (http.ip(), http.port())),
            socks: entrance.socks.map(|socks| (socks.ip(), socks.port())),
        }
    }

    /// A page without a user, which shows a problem.
    fn problem(proxy: &Proxy, words: &'static Words, why: &'static str) -> Page {
        let (standing, state) = ("off", words.you_paused.to_owned());
        let page = Page::of(proxy, words, String::new(), None);
        Page { standing, state, why: Some(why), goes_on: None, volumes: vec![], ..page }
    }
}

/// What a code gives: days, data, or no limit.
pub fn terms(words: &Words, days: Option<u32>, data: Option<u64>) -> String {
    let days = days.map(|days| format!("{days} {}", if days == 1 { words.day } else { words.days }));
    let all: Vec<String> = days.into_iter().chain(data.map(|data| bytes(words, data))).collect();
    if all.is_empty() { words.no_limit.to_owned() } else { all.join(" · ") }
}

/// When a neighbour is served again.
fn goes_on(words: &Words, zone: &TimeZone, until: Option<Timestamp>) -> String {
    until.map_or_else(
        || words.goes_on_never.to_owned(),
        |at| format!("{}: {}", words.goes_on, when(at, words, zone)),
    )
}

fn slowed(words: &Words, ceiling: Rate) -> String {
    format!("{} {}.", words.you_slowed, rate(words, ceiling.bits_per_sec() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, NameServer};
    use crate::control::{Entrance, Volume};
    use crate::gate::{Closed, Gate, Why};
    use crate::page::languages::{OTHERS, assert_page_speaks, assert_speaks};
    use crate::resolve::Resolver;
    use crate::upstream::Connector;
    use crate::users::Users;
    use leeway_accounts::caps::Reason;
    use leeway_net::Attached;
    use std::io;
    use std::sync::Arc;

    const REASONS: [Reason; 10] = [
        Reason::Month,
        Reason::Percentile,
        Reason::Hours,
        Reason::AllDaily,
        Reason::AllRate,
        Reason::UserDaily,
        Reason::UserRate,
        Reason::Voucher,
        Reason::VoucherOver,
        Reason::Store,
    ];

    #[tokio::test]
    async fn a_neighbour_whose_access_is_revoked_reads_so() {
        let dns = vec![NameServer("127.0.0.1:53".parse().unwrap())];
        let config = Config { law: None, uplink: None, dns, ..Config::default() };
        let (users, gate) = (Arc::new(Users::new(&config, None)), Arc::new(Gate::default()));
        gate.revoke("ann", true).unwrap();
        let (policy, resolver) = (config.policy(Attached::default()), Resolver::new(&config).unwrap());
        let echo = Err(io::Error::other("not needed"));
        let connector = Connector::new(&config, policy, resolver, users.clone(), None, gate, echo);
        let proxy = Proxy::new(Arc::new(connector), users, &config, Entrance::default());
        for (language, ..) in Language::ALL {
            let words = language.words();
            let page = |name: &str| Page::of(&proxy, words, name.to_owned(), None);
            let (ann, bob) = (page("ann"), page("bob"));
            assert_eq!((ann.standing, ann.why), ("off", Some(words.why_no_access)));
            assert_eq!((bob.standing, bob.why), ("on", None));
            assert_page_speaks(language, &ann.render().unwrap());
        }
    }

    #[test]
    fn the_neighbours_page_is_in_each_language() {
        for language in OTHERS {
            let words = language.words();
            let volume = |cap: &str| {
                let (used_bytes, limit_bytes, until) = (1_500_000, 2_500_000_000, Timestamp::UNIX_EPOCH);
                VolumeRow::new(
                    words,
                    &TimeZone::UTC,
                    Volume { cap: cap.into(), used_bytes, limit_bytes, until },
                )
            };
            for reason in REASONS {
                let page = Page {
                    words,
                    languages: Language::ALL,
                    name: "Núria".into(),
                    code: Some("AC3D-EFHJ-KMPR-TWXY".into()),
                    standing: "off",
                    state: slowed(words, Rate::from_bits_per_sec(1_500_000)),
                    why: Some(words.why(reason)),
                    goes_on: Some(goes_on(words, &TimeZone::UTC, None)),
                    volumes: ["user_daily", "voucher"].map(volume).into(),
                    notes: vec![
                        terms(words, Some(1), Some(1_500_000)),
                        goes_on(words, &TimeZone::UTC, Some(Timestamp::UNIX_EPOCH)),
                    ],
                    logged: Some(format!("{} 30 {}.", words.logged, words.days)),
                    http: None,
                    socks: None,
                };
                assert_page_speaks(language, &page.render().unwrap());
                let closed = Closed { until: None, why: Why::Cap(reason) };
                assert_speaks(language, &closed.note(&jiff::tz::TimeZone::UTC).words(language));
            }
        }
    }
}
