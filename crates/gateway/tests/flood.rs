//! One user who takes all he can get, in every way there is: memory and time stay bounded, and others are served.

mod common;

use common::{PATIENCE, Running, from, objects, status, text, users};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream as Plain};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Memory is that of the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What another user's request takes, and whether it is answered.
async fn other(gateway: &Running, server: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut stream = from("127.0.0.18", gateway.http).await.unwrap();
    let request = format!("GET http://{server}/12500 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&text(&mut stream).await), 200);
    start.elapsed()
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// As many descriptors as this process may have; how many.
fn descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
    most.unwrap_or(u64::MAX)
}

fn connect(address: &str, to: SocketAddr) -> Plain {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(address.parse::<IpAddr>().unwrap(), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = Plain::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    stream
}

/// Ten thousand connections take a machine that has other things to do a while.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + 4 * PATIENCE;
    while !done().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections_of_one_user_harm_only_him() {
    let _alone = ALONE.lock().await;
    // His, and those of them that are let in.
    let count = descriptors().saturating_sub(3000).min(10_000);
    assert!(count >= 500, "a limit of {count} descriptors is too low for anything");
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "limits = { connections_per_user = 1000 }").await;
    let before = resident_kb();
    let (to, url) = (gateway.http, format!("http://{server}"));
    let greedy = tokio::task::spawn_blocking(move || {
        let ways = [
            String::new(),
            "GET http://9.9.9.9/ HTTP/1.1\r\nHost:".to_owned(),
            format!("GET {url}/3000000 HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("POST {url}/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nslow"),
            format!("CONNECT {server} HTTP/1.1\r\nHost: x\r\n\r\n"),
        ];
        let open = |n: u64| {
            let mut stream = connect("127.0.0.17", to);
            // Who is refused may be cut off already.
            let _ = stream.write_all(ways[n as usize % ways.len()].as_bytes());
            stream
        };
        (0..count).map(open).collect::<Vec<_>>()
    });
    let mut slowest = Duration::ZERO;
    while !greedy.is_finished() {
        slowest = slowest.max(other(&gateway, server).await);
    }
    let streams = greedy.await.unwrap();
    let refused = count.saturating_sub(1000) as f64;
    until("all but his share are refused", async || {
        gateway.metric("leeway_gateway_refused_total{user=\"127.0.0.17\"}").await >= refused
    })
    .await;
    for _ in 0..20 {
        slowest = slowest.max(other(&gateway, server).await);
    }
    let grown = resident_kb().saturating_sub(before);
    assert!(gateway.metric("leeway_gateway_connections").await <= 1001.0);
    assert!(grown < 150_000, "{grown} kB more");
    assert!(slowest < PATIENCE, "{slowest:?}");
    drop(streams);
    until("his places are free again", async || gateway.metric("leeway_gateway_connections").await == 0.0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_costs_little() {
    let _alone = ALONE.lock().await;
    let count = descriptors().saturating_sub(100) / 2;
    let count = count.min(2000);
    let server = objects().await;
    let gateway =
        Running::start(&[server.port()], "limits = { connections_per_user = 500, head_s = 60 }").await;
    let ask = |stream: &mut Plain| {
        let request = format!("GET http://{server}/500 HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(&[b'x'; 500]) {
            let mut bytes = [0; 2000];
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&heard));
            heard.extend(&bytes[..length]);
        }
    };
    let open = |n: u64| connect(&format!("127.0.0.{}", 17 + n % 4), gateway.http);
    // What is made once is there already.
    (0..50).map(open).for_each(|mut stream| ask(&mut stream));
    let before = resident_kb();
    let mut streams: Vec<Plain> = (0..count).map(open).collect();
    streams.iter_mut().for_each(ask);
    let grown = resident_kb().saturating_sub(before);
    let each = grown * 1024 / count;
    assert!(each < 6000, "{each} bytes each");
    // They are served again after their rest.
    streams.iter_mut().step_by(100).for_each(ask);
}

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET http://SERVER/5` (RFC 7541, Appendix A).
fn head(server: SocketAddr) -> Vec<u8> {
    let (host, path) = (server.to_string(), "/3000000");
    let string = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    [&[0x82, 0x86, 0x04][..], &string(path), &[0x41], &string(&host)].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_http2_end_and_cost_little() {
    let _alone = ALONE.lock().await;
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "").await;
    let (head, to) = (head(server), gateway.http);
    let long = [&[0x00, 0x01, b'x', 0x7f, 0x81, 0x7e][..], &[b'y'; 16_256]].concat();
    let insert = [&[0x40, 0x01, b'x', 0x7f, 0x81, 0x1e][..], &[b'y'; 3968]].concat();
    let bomb = [&head[..], &insert, &[0xbe; 12_000]].concat();
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    type Flood = Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>;
    let (head2, head3) = (head.clone(), head.clone());
    let floods: [(&str, bool, Flood); 7] = [
        // A head that never ends (CVE-2024-27316).
        (
            "continuations",
            true,
            Box::new(move |n| if n == 0 { frame(1, 0, 1, &head) } else { frame(9, 0, 1, &long) }),
        ),
        ("empty continuations", true, Box::new(|n| frame(if n == 0 { 1 } else { 9 }, 0, 1, &[]))),
        // Requests that are taken back at once (CVE-2023-44487).
        (
            "resets",
            true,
            Box::new(move |n| {
                let stream = 2 * n + 1;
                [frame(1, END_STREAM | END_HEADERS, stream, &head2), frame(3, 0, stream, &[0, 0, 0, 8])]
                    .concat()
            }),
        ),
        // One long value, named twelve thousand times.
        ("references", false, Box::new(move |n| frame(1, END_STREAM | END_HEADERS, 2 * n + 1, &bomb))),
        ("pings", false, Box::new(|_| frame(6, 0, 0, &[7; 8]).repeat(100))),
        ("settings", false, Box::new(|_| frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]).repeat(100))),
        // Many downloads with a window of nothing.
        (
            "windows of nothing",
            false,
            Box::new(move |n| {
                let none = if n == 0 { frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]) } else { vec![] };
                [none, frame(1, END_STREAM | END_HEADERS, 2 * n + 1, &head3)].concat()
            }),
        ),
    ];
    for (name, ends, flood) in floods {
        let before = resident_kb();
        let flooding = tokio::task::spawn_blocking(move || {
            let mut stream = connect("127.0.0.17", to);
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
            stream.write_all(&frame(4, 0, 0, &[])).unwrap();
            let end = Instant::now() + Duration::from_millis(1500);
            let mut written = 0;
            // Until the proxy ends it, or does not take more.
            let cut = (0..).find(|&n| {
                let bytes = flood(n);
                written += bytes.len();
                stream.write_all(&bytes).is_err() || Instant::now() > end
            });
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let mut heard = [0; 65_536];
            let closed = loop {
                match stream.read(&mut heard) {
                    Ok(0) => break true,
                    Ok(_) if Instant::now() < end + PATIENCE => {}
                    Ok(_) => break false,
                    Err(error) => break error.kind() == std::io::ErrorKind::ConnectionReset,
                }
            };
            (cut, closed, written, stream)
        });
        let mut slowest = Duration::ZERO;
        while !flooding.is_finished() {
            slowest = slowest.max(other(&gateway, server).await);
        }
        let (cut, closed, written, stream) = flooding.await.unwrap();
        let grown = resident_kb().saturating_sub(before);
        eprintln!(
            "{name}: {cut:?} frames, {written} bytes, closed: {closed}, {grown} kB, others {slowest:?}"
        );
        assert!(grown < 50_000, "{name}: {grown} kB more");
        assert!(closed || !ends, "{name}: it goes on after {cut:?} frames");
        drop(stream);
    }
    until("all have gone", async || gateway.metric("leeway_gateway_connections").await == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_of_socks_that_stop_are_given_up() {
    let _alone = ALONE.lock().await;
    let server = objects().await;
    let (_file, users) = users();
    let limits = format!("limits = {{ head_s = 1 }}\n{users}");
    let gateway = Running::start(&[server.port()], &limits).await;
    let port = server.port().to_be_bytes();
    let whole = [&b"\x05\x01\x02\x01\x03ann\x08a phrase\x05\x01\x00\x03\x09127.0.0.2"[..], &port].concat();
    let mut stopped = Vec::new();
    for length in 0..whole.len() {
        let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
        stream.write_all(&whole[..length]).await.unwrap();
        stopped.push(stream);
    }
    for (length, stream) in stopped.iter_mut().enumerate() {
        let mut heard = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut heard))
            .await
            .unwrap_or_else(|_| panic!("{length} bytes"));
    }
    until("none is kept", async || gateway.metric("leeway_gateway_connections").await == 0.0).await;
    let mut stream = TcpStream::connect(gateway.socks).await.unwrap();
    stream.write_all(&whole).await.unwrap();
    let mut heard = [0; 14];
    timeout(PATIENCE, stream.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(heard[..6], [5, 2, 1, 0, 5, 0]);
}
