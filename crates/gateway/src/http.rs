//! The HTTP proxy: absolute URIs and CONNECT. It speaks HTTP/1.1 and HTTP/2 with clients, and
//! HTTP/1.1 with servers.

use crate::budget::Flow;
use crate::client::Asks;
use crate::config::{Config, Limits};
use crate::control::Entrance;
use crate::gate::{Closed, Why};
use crate::language::Language;
use crate::login::Denied;
use crate::notes::{Note, Phrase, Value};
use crate::page::neighbour::{self, Asked};
use crate::peers::Peers;
use crate::peers::answer;
use crate::pool::Pool;
use crate::refusals as phrase;
use crate::resolve::ResolveError;
use crate::sending::{Course, Sending};
use crate::tunnel;
use crate::upstream::{ConnectError, Connector, Path, Upstream};
use crate::users::{User, Users};
use base64::Engine;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use jiff::tz::TimeZone;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Headers that concern one connection only (RFC 9110, 7.6.1), and those of proxies.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Seconds for `Retry-After` when the user has too many connections.
const SOON_S: i64 = 5;

/// State that all connections share.
pub struct Proxy {
    /// The connections to the Internet.
    pub connector: Arc<Connector>,
    /// The users.
    pub users: Arc<Users>,
    /// Limits of connections and times.
    pub limits: Limits,
    /// Other gateways.
    pub peers: Arc<Peers>,
    pool: Pool,
    /// The ports at which clients find the gateway.
    entrance: Entrance,
}

/// The response to a client.
pub type Answer = Response<Content>;
type Plain = Response<Either<Full<Bytes>, Download>>;

impl Proxy {
    /// A proxy without open connections to servers.
    pub fn new(connector: Arc<Connector>, users: Arc<Users>, config: &Config, entrance: Entrance) -> Proxy {
        let (limits, peers) = (config.limits.clone(), Arc::new(Peers::new(&config.peers)));
        Proxy { connector, users, limits, peers, pool: Pool::default(), entrance }
    }

    /// The ports at which clients find the gateway.
    pub fn entrance(&self) -> Entrance {
        self.entrance
    }

    /// Closes pooled connections that have been unused for too long.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// Answers a request.
    pub async fn answer(self: &Arc<Self>, request: Request<Incoming>, client: IpAddr, asks: Asks) -> Answer {
        let language = neighbour::accepted(request.headers());
        if !self.connector.policy().is_client(client) {
            // A reload removed this client. New connections of it are refused earlier.
            let answer = say(StatusCode::FORBIDDEN, &Note::new(&phrase::STRANGER_NOW, []), language);
            return answer.map(|body| Content { body, asks });
        }
        if let Some(asked) = Asked::of(&request, self) {
            let answered = match asked.of_peers(client) {
                Some((route, asker)) => answer::answer(self, route, &asker).await,
                None => neighbour::answer(self, asked, client).await,
            };
            return answered.map(|text| Content { body: Either::Left(Full::from(text)), asks });
        }
        let answer = match self.user(request.headers(), client).await {
            Ok(user) => {
                user.counts.requests.fetch_add(1, Ordering::Relaxed);
                let answered = match (self.connector.gate.admit_told(&user).await, request.method()) {
                    (Err(closed), &Method::CONNECT) if self.goes_on(&closed, client) && asks.reset() => {
                        // `asks.reset()` ends the connection, so there is no response.
                        std::future::pending().await
                    }
                    (Err(closed), _) => Err(Failure::Closed(closed)),
                    (Ok(()), &Method::CONNECT) => self.connect(request, &user, &asks).await,
                    (Ok(()), _) => self.forward(request, &user).await,
                };
                // If the user's access was withdrawn meanwhile, this is the better reason for a
                // failure.
                let answered = answered
                    .map_err(|failure| if user.is_revoked() { Closed::REVOKED.into() } else { failure });
                answered.unwrap_or_else(|failure| failure.answer(&user, &self.connector, language))
            }
            Err(denied) => ask_again(denied, language),
        };
        answer.map(|body| Content { body, asks })
    }

    /// Whether a browser tries another gateway if its connection is reset here. A browser takes
    /// any response for the server's. Only a reset makes it try the next proxy of its PAC file.
    fn goes_on(&self, closed: &Closed, client: IpAddr) -> bool {
        closed.why != Why::Revoked && self.peers.goes_on(client)
    }

    /// The user of a request. Where there are passwords, the request has to give one.
    async fn user(&self, headers: &HeaderMap, client: IpAddr) -> Result<Arc<User>, Denied> {
        if !self.users.need_password() {
            return Ok(self.users.at(client));
        }
        // A request without a password is asked for one. It is not counted as a wrong guess.
        let (name, password) = credentials(headers, &header::PROXY_AUTHORIZATION).ok_or(Denied::Wrong)?;
        self.users.log_in(client, name.as_bytes(), password.as_bytes()).await
    }

    async fn connect(
        &self,
        mut request: Request<Incoming>,
        user: &Arc<User>,
        asks: &Asks,
    ) -> Result<Plain, Failure> {
        if request.uri().scheme().is_some() {
            return Err(Failure::Bad(&phrase::CONNECT_WHERE));
        }
        let (host, port) = target(request.uri(), None)?;
        if asks.turn().is_some() && !request.body().is_end_stream() {
            // RFC 9110, 9.3.6: content of a CONNECT has no defined meaning.
            return Err(Failure::Bad(&phrase::CONNECT_BODY));
        }
        let addresses = self.connector.addresses(host, port).await?;
        let upstream = self.connector.connect(user, &addresses).await?;
        match asks {
            Asks::Turn(turn) => turn.lead_to(upstream),
            Asks::Stream(stream) => {
                let stream = stream.clone();
                let idle = Duration::from_secs(self.limits.tunnel_s);
                let upgrade = hyper::upgrade::on(&mut request);
                tokio::spawn(async move {
                    if let Ok(client) = upgrade.await {
                        tunnel::carry(TokioIo::new(client), upstream, idle).await;
                    }
                    drop(stream);
                });
            }
        }
        Ok(Response::new(Either::Left(Full::default())))
    }

    async fn forward(
        self: &Arc<Self>,
        request: Request<Incoming>,
        user: &Arc<User>,
    ) -> Result<Plain, Failure> {
        if request.uri().scheme_str() != Some("http") {
            return Err(Failure::Bad(&phrase::A_PROXY));
        }
        let mut request = request;
        if !count_forwards(&mut request)? {
            return Ok(last(&request));
        }
        let (host, port) = target(request.uri(), Some(80))?;
        let addresses = self.connector.addresses(host, port).await?;
        // hyper removes the coding `chunked`, and adds it again. It does not know other codings,
        // nor two times `chunked`.
        let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
        let known = codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !known || codings.next().is_some() {
            return Err(Failure::Coding);
        }
        let host = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
        let course = Arc::<Course>::default();
        let mut request = outgoing(request, &host)?.map(|body| Sending::new(body, course.clone()));
        let limit_s = self.limits.answer_s;
        // The server may have closed a pooled connection meanwhile. hyper gives back a request
        // that was not sent, and the next connection is tried.
        while let Some(mut server) = self.pool.take(user.id, &addresses, self.connector.path()) {
            let mark = server.mark();
            let answered = server.sender.try_send_request(request);
            match course.unless_silent(limit_s, answered).await? {
                Ok(response) => return self.incoming(response, server, mark, user),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(course.broken()),
                },
            }
        }
        let upstream = self.connector.connect(user, &addresses).await?;
        let mut server = Server::start(upstream, addresses[0]).await.map_err(|_| Failure::BrokeOff)?;
        let mark = server.mark();
        let answered = server.sender.send_request(request);
        match course.unless_silent(limit_s, answered).await? {
            Ok(response) => self.incoming(response, server, mark, user),
            Err(_) => Err(course.broken()),
        }
    }

    fn incoming(
        self: &Arc<Self>,
        response: Response<Incoming>,
        server: Server,
        mark: u64,
        user: &Arc<User>,
    ) -> Result<Plain, Failure> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Switched);
        }
        let (mut head, body) = response.into_parts();
        if let (Some(flow), Some(length)) = (&server.flow, body.size_hint().exact()) {
            flow.expect(mark + head_bytes(&head.headers) + length);
        }
        strip(&mut head.headers);
        head.version = Version::HTTP_11;
        let (server, proxy) = (Some(server), self.clone());
        let mut body = Download { body, server, proxy, user: user.id, silence: None };
        if body.body.is_end_stream() {
            body.end();
        }
        Ok(Response::from_parts(head, Either::Right(body)))
    }
}

/// A connection to a server that speaks HTTP/1.1.
pub struct Server {
    /// Sends requests, one at a time.
    pub sender: SendRequest<Sending>,
    /// The server's address.
    pub address: SocketAddr,
    /// The path that the connection takes.
    pub path: Path,
    flow: Option<Arc<Flow>>,
}

impl Server {
    async fn start(upstream: Upstream, address: SocketAddr) -> Result<Server, hyper::Error> {
        let (path, over, flow) = (upstream.path(), upstream.over(), upstream.flow());
        let (sender, connection) =
            http1::Builder::new().max_buf_size(128 * 1024).handshake(TokioIo::new(upstream)).await?;
        // Ends with the sender, the server or the path to it. Whoever waits for a response is
        // told.
        tokio::spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = over => {}
            }
        });
        Ok(Server { sender, address, path, flow })
    }

    fn mark(&self) -> u64 {
        self.flow.as_ref().map_or(0, |flow| flow.position())
    }
}

/// The body of a response. Dropping it ends the turn of its HTTP/1.1 connection.
pub struct Content {
    body: Either<Full<Bytes>, Download>,
    asks: Asks,
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Some(turn) = self.asks.turn() {
            turn.end();
        }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = <Either<Full<Bytes>, Download> as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response that is being forwarded. At its end, the connection to the server goes back to the
/// pool.
pub struct Download {
    body: Incoming,
    server: Option<Server>,
    proxy: Arc<Proxy>,
    user: u64,
    /// Runs while no part of the body is ready.
    silence: Option<Pin<Box<tokio::time::Sleep>>>,
}

/// The server stopped in the middle of a response.
#[derive(Debug, thiserror::Error)]
#[error("the server has sent nothing more for {0} s")]
struct Stopped(u64);

impl Download {
    fn end(&mut self) {
        let Some(server) = self.server.take() else { return };
        if let Some(flow) = &server.flow {
            flow.finish();
        }
        self.proxy.pool.put(self.user, server);
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let limit_s = self.proxy.limits.answer_s;
            let silence = self
                .silence
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_secs(limit_s))));
            ready!(silence.as_mut().poll(cx));
            // Without the server, the connection cannot return to the pool.
            self.server = None;
            return Poll::Ready(Some(Err(Stopped(limit_s).into())));
        };
        self.silence = None;
        let frame = frame.map(|frame| frame.map_err(Into::into));
        if frame.is_none() || self.body.is_end_stream() {
            self.end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Why a server's response cannot be forwarded.
pub enum Failure {
    /// The request is wrong.
    Bad(&'static Phrase<0>),
    /// A transfer coding that another proxy might read differently (request smuggling).
    Coding,
    /// The client has sent nothing more of its request for this time, in seconds.
    Stalled(u64),
    /// There is no connection to the server.
    Connect(ConnectError),
    /// The server closed the connection, or sent something that is not HTTP.
    BrokeOff,
    /// The server switched to another protocol, for which nobody had asked.
    Switched,
    /// The server has sent nothing for this time, in seconds.
    Slow(u64),
    /// Neighbours are not served now.
    Closed(Closed),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        Failure::Connect(error)
    }
}

impl From<Closed> for Failure {
    fn from(closed: Closed) -> Failure {
        Failure::Closed(closed)
    }
}

impl Failure {
    fn answer(&self, user: &User, connector: &Connector, language: Language) -> Plain {
        let (status, note) = match self {
            Failure::Closed(closed) => return Words::closed(closed, &connector.gate.zone()).answer(language),
            Failure::Bad(why) => (StatusCode::BAD_REQUEST, Note::new(why, [])),
            Failure::Coding => (StatusCode::NOT_IMPLEMENTED, Note::new(&phrase::CODING, [])),
            Failure::Stalled(seconds) => {
                (StatusCode::REQUEST_TIMEOUT, Note::new(&phrase::BODY_SILENT, [Value::same(seconds)]))
            }
            Failure::Connect(error) => {
                let words = Words::connect(error);
                if [StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS].contains(&words.status) {
                    connector.refused(user, error.refusal());
                }
                return words.answer(language);
            }
            Failure::BrokeOff => (StatusCode::BAD_GATEWAY, Note::new(&phrase::BROKE_OFF, [])),
            Failure::Switched => (StatusCode::BAD_GATEWAY, Note::new(&phrase::SOMETHING_ELSE, [])),
            Failure::Slow(seconds) => {
                (StatusCode::GATEWAY_TIMEOUT, Note::new(&phrase::SILENT, [Value::same(seconds)]))
            }
        };
        say(status, &note, language)
    }
}

/// A response of the gateway itself.
pub struct Words {
    status: StatusCode,
    note: Note,
    /// For `Retry-After`.
    retry_s: Option<i64>,
}

impl Words {
    /// The client's address is in none of the clients' networks.
    pub fn stranger() -> Words {
        Words { status: StatusCode::FORBIDDEN, note: Note::new(&phrase::STRANGER, []), retry_s: None }
    }

    /// The client has too many connections to the gateway.
    pub fn full() -> Words {
        let note = Note::new(&phrase::FULL, []);
        Words { status: StatusCode::TOO_MANY_REQUESTS, note, retry_s: Some(SOON_S) }
    }

    /// The user is not served now.
    pub fn closed(closed: &Closed, zone: &TimeZone) -> Words {
        let status = match closed.why {
            Why::Revoked => StatusCode::FORBIDDEN,
            Why::Paused | Why::Cap(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Words { status, note: closed.note(zone), retry_s: closed.retry_s() }
    }

    /// A connection to a server failed.
    pub fn connect(error: &ConnectError) -> Words {
        let (status, retry_s) = match error {
            ConnectError::Name(ResolveError::Name(_)) => (StatusCode::BAD_REQUEST, None),
            ConnectError::TooMany => (StatusCode::TOO_MANY_REQUESTS, Some(SOON_S)),
            ConnectError::Timeout(..) => (StatusCode::GATEWAY_TIMEOUT, None),
            error if error.refusal().is_some() => (StatusCode::FORBIDDEN, None),
            _ => (StatusCode::BAD_GATEWAY, None),
        };
        Words { status, note: error.to_user(), retry_s }
    }

    /// A whole HTTP response, for a client whose request was not read. It is in every language.
    pub fn unread(&self) -> String {
        let body: String = Language::ALL.iter().map(|(language, ..)| line(&self.note, *language)).collect();
        let retry = self.retry_s.map_or(String::new(), |seconds| format!("Retry-After: {seconds}\r\n"));
        format!(
            "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{retry}\
             Connection: close\r\n\r\n{body}",
            self.status,
            body.len()
        )
    }

    fn answer(&self, language: Language) -> Plain {
        let mut answer = say(self.status, &self.note, language);
        if let Some(seconds) = self.retry_s {
            answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        answer
    }
}

/// The response to a user who is not let in.
fn ask_again(denied: Denied, language: Language) -> Plain {
    let (status, note) = denied_note(denied);
    let mut answer = say(status, &note, language);
    let (name, value) = match denied {
        Denied::Wrong => {
            (header::PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"leeway gateway\""))
        }
        Denied::Later(wait) => (header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1)),
        Denied::Busy | Denied::Store => (header::RETRY_AFTER, HeaderValue::from(5)),
        Denied::Revoked | Denied::Void(_) => return answer,
    };
    answer.headers_mut().insert(name, value);
    answer
}

fn denied_note(denied: Denied) -> (StatusCode, Note) {
    let (status, phrase) = match denied {
        Denied::Wrong => (StatusCode::PROXY_AUTHENTICATION_REQUIRED, &phrase::NAME_NEEDED),
        Denied::Later(_) => (StatusCode::TOO_MANY_REQUESTS, &phrase::GUESSED),
        Denied::Busy => (StatusCode::SERVICE_UNAVAILABLE, &phrase::BUSY),
        Denied::Store => (StatusCode::SERVICE_UNAVAILABLE, &phrase::NO_CODES_NOW),
        Denied::Revoked => (StatusCode::FORBIDDEN, &phrase::TAKEN_BACK),
        Denied::Void(until) => {
            let until = Value::same(until.strftime("%Y-%m-%d %H:%M UTC"));
            return (StatusCode::FORBIDDEN, Note::new(&phrase::VOID, [until]));
        }
    };
    (status, Note::new(phrase, []))
}

/// A note as a line of a response.
pub fn line(note: &Note, language: Language) -> String {
    format!("leeway gateway: {}\n", note.words(language))
}

fn say(status: StatusCode, note: &Note, language: Language) -> Plain {
    let mut answer = Response::new(Either::Left(Full::from(line(note, language))));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

/// The host and port of a request. Forms that another program could read differently are refused.
fn target(uri: &Uri, default_port: Option<u16>) -> Result<(&str, u16), Failure> {
    let authority = uri.authority().ok_or(Failure::Bad(&phrase::ADDRESS_HOST))?;
    let host = authority.host();
    // RFC 9110, 4.2.4: user information before an `@` can hide the real host.
    let rest = authority.as_str().strip_prefix(host).ok_or(Failure::Bad(&phrase::ADDRESS_USER))?;
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok(),
        None if rest.is_empty() => default_port,
        _ => None,
    };
    let port = port.filter(|&port| port > 0).ok_or(Failure::Bad(&phrase::ADDRESS_PORT))?;
    Ok((host, port))
}

/// The request as it is sent to the server.
fn outgoing(request: Request<Incoming>, host: &str) -> Result<Request<Incoming>, Failure> {
    let (mut head, body) = request.into_parts();
    strip(&mut head.headers);
    // RFC 9112, 3.2.2: the host of the request target counts, whatever the header says.
    let host = HeaderValue::from_str(host).map_err(|_| Failure::Bad(&phrase::HOST_NAME))?;
    head.headers.insert(header::HOST, host);
    head.headers.append(header::VIA, HeaderValue::from_static("1.1 leeway"));
    // `to_string` writes an empty path before a query as "/" (RFC 9110, 4.2.3).
    let path = head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    head.uri = path.parse::<Uri>().map_err(|_| Failure::Bad(&phrase::ADDRESS_PATH))?;
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Ok(Request::from_parts(head, body))
}

/// Whether a request is to be forwarded. Decrements `Max-Forwards` of TRACE and OPTIONS (RFC 9110,
/// 7.6.2).
fn count_forwards<B>(request: &mut Request<B>) -> Result<bool, Failure> {
    if ![Method::TRACE, Method::OPTIONS].contains(request.method()) {
        return Ok(true);
    }
    let mut given = request.headers().get_all(header::MAX_FORWARDS).iter();
    let (Some(first), rest) = (given.next(), given.next()) else { return Ok(true) };
    let digits = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let wrong = Failure::Bad(&phrase::FORWARDS);
    let left: u64 = digits.and_then(|text| text.parse().ok()).filter(|_| rest.is_none()).ok_or(wrong)?;
    if left > 0 {
        request.headers_mut().insert(header::MAX_FORWARDS, HeaderValue::from(left - 1));
    }
    Ok(left > 0)
}

/// The response to a TRACE or OPTIONS that ends here. For TRACE the request as it arrived, without
/// secrets (RFC 9110, 9.3.8); for OPTIONS the methods that are supported.
fn last<B>(request: &Request<B>) -> Plain {
    if request.method() == Method::OPTIONS {
        let mut answer = Response::new(Either::Left(Full::default()));
        let methods =
            HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH");
        answer.headers_mut().insert(header::ALLOW, methods);
        return answer;
    }
    let mut text = format!("TRACE {} {:?}\r\n", request.uri(), request.version()).into_bytes();
    let secrets = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
    for (name, value) in request.headers().iter().filter(|(name, _)| !secrets.contains(name)) {
        text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    text.extend(b"\r\n");
    let mut answer = Response::new(Either::Left(Full::from(text)));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("message/http"));
    answer
}

/// Removes headers that concern one connection only, including those that `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Kept, because without its length a body would be read as the next request.
        .filter(|name| name != header::CONTENT_LENGTH && name != header::HOST)
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    HOP_BY_HOP.iter().for_each(|name| drop(headers.remove(*name)));
}

/// Estimated bytes of the head on the wire.
fn head_bytes(headers: &HeaderMap) -> u64 {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    lines as u64 + "HTTP/1.1 200 OK\r\n\r\n".len() as u64
}

/// The name and the password in a header.
pub fn credentials(headers: &HeaderMap, header: &HeaderName) -> Option<(String, String)> {
    headers.get(header).and_then(|given| given.to_str().ok()).and_then(basic)
}

/// The name and the password of `Basic ...` (RFC 7617).
pub fn basic(value: &str) -> Option<(String, String)> {
    let (scheme, code) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = base64::engine::general_purpose::STANDARD.decode(code.trim()).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (name, password) = plain.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_one_connection_is_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-private, content-length"),
            ("x-private", "1"),
            ("content-length", "3"),
            ("proxy-authorization", "Basic YTpi"),
            ("te", "trailers"),
            ("accept", "*/*"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "content-length"]);
    }

    #[test]
    fn basic_authorization() {
        assert_eq!(basic("Basic YW5uOnNlOmNyZXQ="), Some(("ann".into(), "se:cret".into())));
        for wrong in ["", "Basic", "Basic !", "Bearer YTpi", "Basic YQ==", "Basic /////w=="] {
            assert_eq!(basic(wrong), None, "{wrong}");
        }
    }
}
