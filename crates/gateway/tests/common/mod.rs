//! A gateway in this process, servers at 127.0.0.2 that it may reach, and clients at other loopback addresses.
#![allow(dead_code, missing_docs)]

use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use leeway_gateway::control::Operations;
use leeway_gateway::{Config, Gateway};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway that runs until it is dropped or stopped.
pub struct Running {
    pub http: SocketAddr,
    pub socks: SocketAddr,
    pub metrics: SocketAddr,
    pub operations: Arc<Operations>,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

impl Running {
    /// With `more` in its configuration; servers are reached at `ports`.
    pub async fn start(ports: &[u16], more: &str) -> Running {
        Running::by(&text_of(ports, more)).await
    }

    /// With that configuration.
    pub async fn by(text: &str) -> Running {
        let gateway = Gateway::open(&Config::parse(text).unwrap(), |_| {}).unwrap();
        let [http, socks, metrics] = gateway.addresses()[..] else { panic!("three listeners") };
        let (stop, stopped) = oneshot::channel();
        let operations = gateway.operations();
        let ended = tokio::spawn(async move { gateway.run(async { drop(stopped.await) }).await.unwrap() });
        Running { http, socks, metrics, operations, stop: Some(stop), ended }
    }

    /// Stops it as SIGTERM does.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        timeout(PATIENCE, self.ended).await.expect("it stops").unwrap();
    }

    /// A connection to the HTTP proxy.
    pub async fn client(&self) -> TcpStream {
        TcpStream::connect(self.http).await.unwrap()
    }

    /// What the HTTP proxy says to these bytes until it closes.
    pub async fn say(&self, bytes: &str) -> String {
        let mut stream = self.client().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        text(&mut stream).await
    }

    /// The status of a request for that address.
    pub async fn status(&self, url: &str) -> u16 {
        let answer = self.say(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        status(&answer)
    }

    /// A metric.
    pub async fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.metrics).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
        let text = text(&mut stream).await;
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in\n{text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }
}

/// The configuration of a gateway on loopback addresses.
pub fn text_of(ports: &[u16], more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nsocks = [\"127.0.0.1:0\"]\nmetrics = \"127.0.0.1:0\"\nupload = []\n\
         clients = [\"127.0.0.1/32\", \"127.0.0.16/28\"]\nallow = [\"127.0.0.2/32\"]\nhome = [\"192.168.7.0/24\"]\n\
         uplink = \"ledbat:target=100ms,slow_start=standard\"\n\
         ports = {ports:?}\nudp_ports = {ports:?}\n{more}\n"
    )
}

/// The password of `ann`, the user of [`users`].
pub const PASSWORD: &str = "a phrase";

/// A file of users, and the line of the configuration that names it.
pub fn users() -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let hash = leeway_gateway::password::Hash::of(PASSWORD).unwrap();
    std::fs::write(file.path(), format!("ann:{hash}\n")).unwrap();
    let line = format!("users_file = {:?}\n", file.path());
    (file, line)
}

/// The header by which a user gives a password to a server; with `Proxy-` before it, to a proxy.
pub fn authorization(user: &str, password: &str) -> String {
    let code = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {code}")
}

/// All that comes until the end of the stream.
pub async fn text(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the stream ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// A connection to `to` from another user's address.
pub async fn from(address: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(address.parse::<IpAddr>().unwrap(), 0))?;
    socket.connect(to).await
}

/// What objects are cut from, so that a server of many takes no memory for each.
static OBJECT: LazyLock<Bytes> = LazyLock::new(|| vec![b'x'; 4 << 20].into());

/// A server that does this with every connection.
async fn serve<F>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output: Send> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// A server of objects: the path `/12500` has 12500 bytes, 4 MB at the most.
pub async fn objects() -> SocketAddr {
    let answer = async |request: Request<Incoming>| {
        let bytes = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
        Ok::<_, Infallible>(Response::new(Full::new(OBJECT.slice(..bytes))))
    };
    serve(move |stream| http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)))
        .await
}

/// A server that takes every request, and what it has taken: method, path, headers by name, and the body.
pub async fn witness() -> (SocketAddr, Arc<Mutex<Vec<Seen>>>) {
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let told = seen.clone();
    let server = serve(move |stream| {
        let seen = seen.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let seen = seen.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let line = format!("{} {}", head.method, head.uri);
                seen.lock().unwrap().push(Seen { line, headers: head.headers, body: body.to_vec() });
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            }
        });
        http1::Builder::new().serve_connection(TokioIo::new(stream), answer)
    });
    (server.await, told)
}

/// A request as a server has read it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub line: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await? > 0 {}
    Ok(head)
}

/// A server that says this to every connection, whatever it is asked.
pub async fn says(answer: &'static [u8]) -> SocketAddr {
    serve(move |mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(answer).await?;
        stream.shutdown().await
    })
    .await
}

/// The same, but then it says nothing more and keeps the connection.
pub async fn stops(answer: &'static [u8]) -> SocketAddr {
    serve(move |mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(answer).await?;
        std::future::pending::<std::io::Result<()>>().await
    })
    .await
}

/// A server that sends back what it gets, connection by connection.
pub async fn echo() -> SocketAddr {
    serve(|mut stream| async move {
        let (mut reader, mut writer) = stream.split();
        tokio::io::copy(&mut reader, &mut writer).await
    })
    .await
}

/// A server that answers each connection's request with the request itself, as the body.
pub async fn mirror() -> SocketAddr {
    serve(|mut stream| async move {
        let head = head(&mut stream).await?;
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", head.len());
        stream.write_all(&[answer.as_bytes(), &head].concat()).await?;
        stream.shutdown().await
    })
    .await
}

/// Sends datagrams back to where they came from.
pub async fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            let _ = socket.send_to(&bytes[..length], from).await;
        }
    });
    address
}

/// A name server: `NAME-A.B.C.D-E.F.G.H.test` has these addresses, `six-HEX.test` the IPv6 address of these
/// 32 digits, and `rebind.test` 127.0.0.2 the first time and 127.0.0.1 ever after. Nothing may be kept (TTL
/// 0).
pub async fn name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = [0; 512];
        let mut asked = 0;
        while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
            let query = &bytes[..length];
            let (labels, end) = question(query);
            let kind = query[end + 1];
            let mut addresses: Vec<Vec<u8>> = labels[..labels.len() - 1]
                .join(".")
                .split('-')
                .filter_map(|part| part.parse::<std::net::Ipv4Addr>().ok())
                .map(|address| address.octets().to_vec())
                .collect();
            if labels == ["rebind", "test"] && kind == 1 {
                asked += 1;
                addresses = vec![if asked == 1 { vec![127, 0, 0, 2] } else { vec![127, 0, 0, 1] }];
            }
            if kind != 1 {
                addresses.clear();
            }
            if let (28, Some(hex)) = (kind, labels[0].strip_prefix("six-")) {
                addresses.push(u128::from_str_radix(hex, 16).unwrap().to_be_bytes().to_vec());
            }
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
            answer.extend(&query[12..end + 4]);
            for address in addresses {
                answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, address.len() as u8]);
                answer.extend(address);
            }
            let _ = socket.send_to(&answer, from).await;
        }
    });
    address
}

/// The labels of the question, and where its type is.
fn question(query: &[u8]) -> (Vec<String>, usize) {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..][..length]).to_ascii_lowercase());
        at += 1 + length;
    }
    (labels, at + 1)
}
