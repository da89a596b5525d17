//! Requests that mean one thing to the proxy and could mean another to somebody behind it: each is refused,
//! or leaves in one form only. And whatever else a client may say.

mod common;

use common::{PATIENCE, Running, Seen, echo, name_server, says, text, witness};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// All that the proxy says to these pieces, written one after the other, on one connection until it rests or ends.
async fn converse(proxy: SocketAddr, pieces: &[&[u8]], rest: Duration) -> String {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut heard = Vec::new();
    let mut written = 0;
    loop {
        if written < pieces.len() {
            // It may be closed before all is written, with an answer to the beginning.
            let _ = writer.write_all(pieces[written]).await;
            written += 1;
            tokio::task::yield_now().await;
            continue;
        }
        match timeout(rest, reader.read_buf(&mut heard)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => break,
            Err(_) => {
                let _ = writer.shutdown().await;
                let _ = timeout(PATIENCE, reader.read_to_end(&mut heard)).await.expect("the connection ends");
                break;
            }
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

fn statuses(heard: &str) -> Vec<u16> {
    heard.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect()
}

fn lines(seen: &Mutex<Vec<Seen>>) -> Vec<String> {
    seen.lock().unwrap().drain(..).map(|seen| seen.line).collect()
}

/// A request that would be a second one if the first ended where somebody else believes.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: victim\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table of requests")]
async fn two_readings_of_a_request_are_never_both_possible() {
    let (server, seen) = witness().await;
    let gateway = Running::start(&[server.port()], "").await;
    let post = |headers: &str, body: &str| {
        format!("POST http://{server}/a HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}")
    };
    let get = |more: &str| format!("GET http://{server}/a HTTP/1.1\r\nHost: x\r\n{more}\r\n");
    let hidden = HIDDEN.len();
    let chunked = format!("{hidden:x}\r\n{HIDDEN}\r\n0\r\n\r\n");
    // Refused before anything is sent to the server.
    for (what, request) in [
        ("two lengths", post(&format!("Content-Length: 0\r\nContent-Length: {hidden}\r\n"), HIDDEN)),
        ("a list of lengths", post(&format!("Content-Length: 0, {hidden}\r\n"), HIDDEN)),
        ("a length with a sign", post(&format!("Content-Length: +{hidden}\r\n"), HIDDEN)),
        ("a hexadecimal length", post("Content-Length: 0x10\r\n", HIDDEN)),
        ("a negative length", post("Content-Length: -1\r\n", HIDDEN)),
        ("a length beyond all numbers", post("Content-Length: 99999999999999999999999\r\n", HIDDEN)),
        ("an unknown coding", post("Transfer-Encoding: xchunked\r\n", &chunked)),
        ("a coding that is not the last", post("Transfer-Encoding: chunked, identity\r\n", &chunked)),
        ("a coding below chunked", post("Transfer-Encoding: gzip, chunked\r\n", &chunked)),
        ("chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &chunked)),
        (
            "a coding in HTTP/1.0",
            post("Transfer-Encoding: chunked\r\n", &chunked).replacen("HTTP/1.1", "HTTP/1.0", 1),
        ),
        ("a space before the colon", post(&format!("Content-Length : {hidden}\r\n"), HIDDEN)),
        ("a folded line", post(&format!("X: a\r\n Content-Length: {hidden}\r\n"), HIDDEN)),
        ("a line without a name", get(": value\r\n")),
        ("a null in a value", get("X: a\0b\r\n")),
        ("a CR in a value", get("X: a\rContent-Length: 5\r\n")),
        ("a tab in the request line", get("").replacen(' ', "\t", 1)),
        ("a path of this proxy", "GET / HTTP/1.1\r\nHost: 127.0.0.2\r\n\r\n".to_owned()),
        ("a whole server", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.2\r\n\r\n".to_owned()),
        ("another scheme", get("").replacen("http:", "https:", 1)),
        ("no scheme", get("").replacen("http:", "", 1)),
        ("a file", get("").replacen(&format!("http://{server}"), "file://", 1)),
        ("a user", get("").replacen("http://", "http://public.example@", 1)),
        ("a user and a password", get("").replacen("http://", "http://9.9.9.9:80@", 1)),
        ("an HTTP/1.2", get("").replacen("HTTP/1.1", "HTTP/1.2", 1)),
        (
            "CONNECT with a body",
            format!("CONNECT {server} HTTP/1.1\r\nHost: x\r\nContent-Length: {hidden}\r\n\r\n{HIDDEN}"),
        ),
        ("CONNECT with a path", format!("CONNECT http://{server}/a HTTP/1.1\r\nHost: x\r\n\r\n")),
        ("CONNECT without a port", "CONNECT 127.0.0.2 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned()),
        ("CONNECT with a user", format!("CONNECT 9.9.9.9@{server} HTTP/1.1\r\nHost: x\r\n\r\n")),
    ] {
        let heard = converse(gateway.http, &[request.as_bytes()], Duration::from_millis(300)).await;
        let got = statuses(&heard);
        assert!(
            !got.is_empty() && got.iter().all(|code| [400, 501, 505].contains(code)),
            "{what}: {got:?} {heard}"
        );
        assert_eq!(lines(&seen), [""; 0], "{what}");
    }
    // One form leaves, whose end is where the proxy saw it.
    let both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n";
    let other = "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n";
    let long = format!("Content-Length: {hidden}\r\n");
    for (what, request, body) in [
        ("a length and a coding", post(both, &chunked), HIDDEN),
        ("a coding and a length", post(other, &chunked), HIDDEN),
        ("the same length twice", post(&long.repeat(2), HIDDEN), HIDDEN),
        ("a body of a GET", post(&long, HIDDEN).replacen("POST", "GET", 1), HIDDEN),
        (
            "an extension of a chunk",
            post("Transfer-Encoding: chunked\r\n", "1;x=\"\r\"\r\nz\r\n0\r\n\r\n"),
            "z",
        ),
        (
            "trailers",
            post(
                "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n",
                "1\r\nz\r\n0\r\nContent-Length: 9\r\n\r\n",
            ),
            "z",
        ),
        ("lines that end in LF", get("X: y\r\n").replace("\r\n", "\n"), ""),
        ("two hosts", get("Host: victim\r\n"), ""),
        (
            "a length that Connection names",
            post(&format!("Connection: Content-Length, Host\r\n{long}"), HIDDEN),
            HIDDEN,
        ),
        (
            "an upgrade",
            get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
            "",
        ),
    ] {
        let heard = converse(gateway.http, &[request.as_bytes()], Duration::from_millis(300)).await;
        if what == "an extension of a chunk" && statuses(&heard).iter().all(|&code| code >= 400) {
            assert_eq!(lines(&seen), [""; 0], "{what}");
            continue;
        }
        assert_eq!(statuses(&heard), [200], "{what}: {heard}");
        let seen: Vec<Seen> = seen.lock().unwrap().drain(..).collect();
        let [one] = &seen[..] else { panic!("{what}: {seen:?}") };
        assert_eq!(String::from_utf8_lossy(&one.body), body, "{what}");
        let all = |name: &str| one.headers.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(all("host"), [server.to_string()], "{what}");
        assert!(
            all("content-length").len() + all("transfer-encoding").len() <= 1,
            "{what}: {:?}",
            one.headers
        );
        assert!(all("upgrade").is_empty() && all("connection").is_empty(), "{what}: {:?}", one.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table of hosts")]
async fn a_host_is_a_name_or_an_address_and_a_port_is_a_port() {
    let names = name_server().await;
    let gateway = Running::start(&[80], &format!("dns = [\"{names}\"]")).await;
    for host in [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "1.2.3.4.5",
        "256.0.0.1",
        "127.0.0.1%00.example",
        "%31%32%37.0.0.1",
        "localhost%2f",
        "a..b",
        ".",
        "-%2d",
        "[::1%25eth0]",
        "[fe80::1%eth0]",
        "[::1",
        "::1",
        "[127.0.0.1]x",
        "[v1.x]",
        "a,b",
        "a;b",
        "a'b",
        "a(b)",
        "a!b",
        "a$b",
        "a*b",
        "%",
        "x_y%",
        "\u{ff11}27.0.0.1",
    ] {
        for request in [
            format!("GET http://{host}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            format!("CONNECT {host}:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        ] {
            let answer = gateway.say(&request).await;
            assert_eq!(statuses(&answer), [400], "{request}{answer}");
        }
    }
    for port in [
        "0",
        "65536",
        "65616",
        "4294967376",
        "-80",
        "+80",
        "0x50",
        " 80",
        "80 ",
        "",
        "80:80",
        "8 0",
        "\u{ff18}0",
    ] {
        for request in [
            format!("GET http://127.0.0.2:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            format!("CONNECT 127.0.0.2:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        ] {
            let answer = gateway.say(&request).await;
            assert_eq!(statuses(&answer), [400], "{request}{answer}");
        }
    }
    // What carries an address that is not public, as an address and as a name's.
    for address in [
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:c0a8:701::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::5efe:a00:1",
        "fd00:ec2::254",
        "fe80::1",
        "::",
        "ff0e::1",
        "::1",
    ] {
        let hex = u128::from(address.parse::<std::net::Ipv6Addr>().unwrap());
        for host in [format!("[{address}]"), format!("six-{hex:032x}.test")] {
            assert_eq!(gateway.status(&format!("http://{host}/")).await, 403, "{host}");
            let tunnel = format!("CONNECT {host}:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            assert_eq!(statuses(&gateway.say(&tunnel).await), [403], "CONNECT {host}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expectations_trailers_and_protocols_of_servers() {
    let (server, seen) = witness().await;
    let gateway = Running::start(&[server.port()], "").await;
    // The client waits for 100 before it sends its body.
    let mut client = gateway.client().await;
    let head = format!(
        "PUT http://{server}/p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 25];
    timeout(PATIENCE, client.read_exact(&mut first)).await.expect("100 in time").unwrap();
    assert_eq!(&first, b"HTTP/1.1 100 Continue\r\n\r\n");
    client
        .write_all(
            format!("helloGET http://{server}/q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .await
        .unwrap();
    let rest = text(&mut client).await;
    assert_eq!(statuses(&rest), [200, 200], "{rest}");
    assert_eq!(lines(&seen), ["PUT /p", "GET /q"]);

    for (what, answer, status) in [
        (
            "a protocol that nobody asked for",
            &b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw"[..],
            502,
        ),
        ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 502),
        ("no HTTP", b"SSH-2.0-OpenSSH_9\r\n", 502),
        ("nothing", b"", 502),
        ("a head without an end", b"HTTP/1.1 200 OK\r\nX: y\r\n", 502),
        (
            "hints first",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            200,
        ),
        ("a body up to the end", b"HTTP/1.1 200 OK\r\n\r\nall of it", 200),
        (
            "more than was announced",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n",
            200,
        ),
        (
            "trailers",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
            200,
        ),
    ] {
        let server = says(answer).await;
        let gateway = Running::start(&[server.port()], "").await;
        let heard = gateway
            .say(&format!("GET http://{server}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
            .await;
        assert_eq!(statuses(&heard), [status], "{what}: {heard}");
        assert!(!heard.contains("raw"), "{what}: {heard}");
    }
}

/// An answer that comes before the body of its request: the body is none the less no request.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_after_its_answer_is_no_request() {
    let (server, seen) = witness().await;
    let early = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").await;
    let gateway = Running::start(&[server.port(), early.port()], "").await;
    let hidden = format!("GET http://{server}/hidden HTTP/1.1\r\nHost: x\r\n\r\n");
    for (to, status) in [("127.0.0.1:80".to_owned(), 403), (early.to_string(), 200)] {
        let mut client = gateway.client().await;
        let head =
            format!("POST http://{to}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", hidden.len());
        client.write_all(head.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"no") && !heard.ends_with(b"\n")
            || !heard.windows(4).any(|end| end == b"\r\n\r\n")
        {
            let read = timeout(PATIENCE, client.read_buf(&mut heard)).await.expect("an answer in time");
            assert!(read.unwrap() > 0, "{}", String::from_utf8_lossy(&heard));
        }
        assert_eq!(statuses(&String::from_utf8_lossy(&heard)), [status]);
        let _ = client.write_all(hidden.as_bytes()).await;
        let good = format!("GET http://{server}/good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let _ = client.write_all(good.as_bytes()).await;
        text(&mut client).await;
        assert!(!lines(&seen).contains(&"GET /hidden".to_owned()), "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_with_connect_is_the_servers() {
    let server = echo().await;
    let gateway = Running::start(&[server.port()], "").await;
    for pieces in [&[&b"hello"[..], b""], &[b"", b"hello"], &[b"he", b"llo"]] {
        let mut client = gateway.client().await;
        let head = format!("CONNECT {server} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(&[head.as_bytes(), pieces[0]].concat()).await.unwrap();
        let mut answer = [0; 19];
        timeout(PATIENCE, client.read_exact(&mut answer)).await.unwrap().unwrap();
        client.write_all(pieces[1]).await.unwrap();
        let mut back = [0; 5];
        timeout(PATIENCE, client.read_exact(&mut back)).await.unwrap().unwrap();
        assert_eq!((&answer, &back), (b"HTTP/1.1 200 OK\r\n\r\n", b"hello"));
    }
}

/// A gateway, and a server that remembers, for as many conversations as are wanted.
struct Stage {
    runtime: Runtime,
    gateway: Running,
    server: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

static STAGE: LazyLock<Mutex<Stage>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (gateway, server, seen) = runtime.block_on(async {
        let (server, seen) = witness().await;
        (Running::start(&[server.port()], "").await, server, seen)
    });
    Mutex::new(Stage { runtime, gateway, server, seen })
});

impl Stage {
    /// Says it, then a good request on another connection; what the first was answered, and what the server
    /// saw of it.
    fn play(&self, pieces: &[&[u8]], rest: Duration) -> (String, Vec<Seen>) {
        self.runtime.block_on(async {
            let heard = converse(self.gateway.http, pieces, rest).await;
            let seen = self.seen.lock().unwrap().drain(..).collect();
            assert_eq!(self.gateway.status(&format!("http://{}/good", self.server)).await, 200);
            (heard, seen)
        })
    }
}

/// Lines that begin, headers that contradict each other, bodies that look like requests. No CONNECT, behind
/// which the client may say to the server what it likes.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let method =
        prop::sample::select(vec!["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "get", "PRI"]);
    let target = prop::sample::select(vec![
        "http://SERVER/ok",
        "http://SERVER/ok?q=1#f",
        "http://SERVER",
        "SERVER",
        "/hidden",
        "*",
        "http://a@SERVER/hidden",
        "http://127.0.0.1/hidden",
        "//SERVER/hidden",
        "http:///hidden",
        "http://SERVER/%00",
        "http://SERVER:1/hidden",
    ]);
    let version = prop::sample::select(vec![
        "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "",
    ]);
    let header = prop::sample::select(vec![
        "Host: SERVER",
        "Host: victim",
        "Content-Length: 0",
        "Content-Length: 5",
        "Content-Length: 40",
        "Content-Length: x",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Connection: close",
        "Connection: keep-alive, x",
        "Connection: Content-Length",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "TE: trailers",
        "Trailer: x",
        " folded",
        "Content-Length : 5",
        "X: \u{0}",
        "Proxy-Authorization: Basic !",
        "Proxy-Connection: close",
        "X",
        "",
    ]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "ffffffffffffffff\r\n",
        "-1\r\n",
        HIDDEN,
        "28\r\nGET /hidden HTTP/1.1\r\nHost: victim\r\n\r\n\r\n0\r\n\r\n",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\r\n", "\n", "\r"]);
    let one = (method, target, version, prop::collection::vec(header, 0..6), body, end);
    let text = one.prop_map(|(method, target, version, headers, body, end)| {
        let lines =
            [vec![format!("{method} {target} {version}")], headers.into_iter().map(str::to_owned).collect()]
                .concat();
        [lines.join(end), end.repeat(2), body.to_owned()].concat().into_bytes()
    });
    let noise = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::collection::vec(text, 1..4), prop::bool::weighted(0.3), noise).prop_map(|(texts, noisy, noise)| {
        let mut bytes = texts.concat();
        for (at, byte) in noise.into_iter().filter(|_| noisy) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes, the proxy serves on, every answer is one, and nothing reaches a server that nobody
    /// asked of it.
    #[test]
    fn no_request_breaks_the_proxy_or_hides_another(request in requests()) {
        let stage = STAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let text = String::from_utf8_lossy(&request).into_owned();
        let request = if text.as_bytes() == request { text.replace("SERVER", &stage.server.to_string()).into_bytes() } else { request };
        let (_, seen) = stage.play(&[&request], Duration::from_millis(15));
        for one in seen {
            prop_assert!(!one.line.contains("hidden"), "{one:?}");
            prop_assert_eq!(one.headers.get_all("host").iter().count(), 1);
            prop_assert_eq!(one.headers["host"].to_str().unwrap(), stage.server.to_string());
            let framings = ["content-length", "transfer-encoding"].map(|name| one.headers.get_all(name).iter().count());
            prop_assert!(framings[0] + framings[1] <= 1, "{one:?}");
        }
    }

    /// Bytes that are no HTTP at all.
    #[test]
    fn no_bytes_break_the_proxy(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let stage = STAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        stage.play(&[&bytes], Duration::from_millis(5));
    }

    /// A conversation is the same however its bytes are cut, whether or not the proxy rests in between.
    #[test]
    fn the_cut_of_bytes_does_not_matter(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12), case: u64) {
        let stage = STAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let base = format!("http://{}/{case}", stage.server);
        let mut said: Vec<u8> = (0..20).flat_map(|n| format!("GET {base}/{n} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()).collect();
        said.extend(format!("POST {base}/20 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").bytes());
        said.extend(format!("GET {base}/21 HTTP/1.1\r\nHost: x\r\n\r\n").bytes());
        said.extend(format!("POST {base}/22 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n").bytes());
        said.extend(format!("GET {base}/23 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").bytes());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(said.len())).collect();
        cuts.extend([0, said.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &said[ends[0]..ends[1]]).collect();
        let (heard, seen) = stage.play(&pieces, PATIENCE);
        prop_assert_eq!(statuses(&heard), vec![200; 24]);
        // Something of a case before, which was broken off, may come late.
        let own: Vec<Seen> = seen.into_iter().filter(|one| one.line.contains(&format!("/{case}/"))).collect();
        prop_assert_eq!(own.len(), 24);
        for (n, one) in own.iter().enumerate() {
            let (method, body) = if n == 20 || n == 22 { ("POST", &b"hello"[..]) } else { ("GET", &b""[..]) };
            prop_assert_eq!(&one.line, &format!("{method} /{case}/{n}"));
            prop_assert_eq!(&one.body[..], body);
        }
    }
}
