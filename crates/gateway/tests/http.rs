//! The HTTP proxy with real connections.

mod common;

use common::{
    PASSWORD, PATIENCE, Running, authorization, echo, from, mirror, name_server, objects, status, stops,
    text, users, witness,
};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_forwarded_and_connections_kept() {
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "").await;
    let mut client = gateway.client().await;
    // Larger than every buffer on the way, twice on one connection.
    for bytes in [300_000, 12_500, 0, 700_000] {
        let request = format!("GET http://{server}/{bytes} HTTP/1.1\r\nHost: elsewhere\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(
            head.starts_with("http/1.1 200") && head.contains(&format!("content-length: {bytes}\r\n")),
            "{head}"
        );
        let mut body = vec![0; bytes];
        timeout(PATIENCE, client.read_exact(&mut body)).await.unwrap().unwrap();
        assert!(body.iter().all(|&byte| byte == b'x'));
    }
    assert!(gateway.metric("leeway_gateway_down_bytes_total{user=\"127.0.0.1\"}").await >= 1_012_500.0);
    assert_eq!(gateway.metric("leeway_gateway_outstanding_bytes").await, 0.0);
    gateway.stop().await;
}

/// What the client has not yet taken when the server has said all is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_late_get_all() {
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "law = \"none\"").await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = socket.connect(gateway.http).await.unwrap();
    for bytes in (0..30).map(|n| 3_000_000 + 20_000 * n) {
        let request = format!("GET http://{server}/{bytes} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let (mut heard, mut end) = (Vec::new(), usize::MAX);
        while heard.len() < end {
            let read = timeout(PATIENCE, client.read_buf(&mut heard)).await.expect("more in time");
            assert!(read.unwrap() > 0, "{} of {end} bytes", heard.len());
            if end == usize::MAX
                && let Some(head) = heard.windows(4).position(|end| end == b"\r\n\r\n")
            {
                end = head + 4 + bytes;
            }
        }
        assert_eq!(heard.len(), end);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_sees_no_header_of_the_proxy_and_the_right_host() {
    let server = mirror().await;
    let gateway = Running::start(&[server.port()], "").await;
    let seen = gateway
        .say(&format!(
            "GET http://{server}/path?q HTTP/1.1\r\nHost: victim.example\r\nProxy-Connection: keep-alive\r\n\
             Connection: close, X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\n\r\n"
        ))
        .await;
    let seen = seen.to_ascii_lowercase();
    assert!(seen.contains("get /path?q http/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: {server}\r\n")) && seen.contains("x-kept: 2\r\n"), "{seen}");
    for gone in ["victim", "proxy-connection", "x-mine", "keep-alive"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_carries_bytes_both_ways() {
    let server = echo().await;
    let gateway = Running::start(&[server.port()], "").await;
    let mut client = gateway.client().await;
    client
        .write_all(format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut head = [0; 19];
    timeout(PATIENCE, client.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head[..], b"HTTP/1.1 200 OK\r\n\r\n");
    let sent: Vec<u8> = (0..100_000u32).map(|n| (n / 7) as u8).collect();
    let (mut reader, mut writer) = client.split();
    let mut back = vec![0; sent.len()];
    let (written, read) =
        timeout(PATIENCE, async { tokio::join!(writer.write_all(&sent), reader.read_exact(&mut back)) })
            .await
            .unwrap();
    written.unwrap();
    read.unwrap();
    assert!(back == sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_clients_are_served() {
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "").await;
    let stream = TokioIo::new(gateway.client().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let requests = [12_500, 1, 90_000].map(|bytes| {
        let request =
            hyper::Request::get(format!("http://{server}/{bytes}")).body(Empty::<bytes::Bytes>::new());
        (bytes, sender.send_request(request.unwrap()))
    });
    for (bytes, answer) in requests {
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(timeout(PATIENCE, answer.collect()).await.unwrap().unwrap().to_bytes().len(), bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secondary_reaches_the_public_internet_and_nothing_else() {
    let gateway = Running::start(&[80, 443], "").await;
    let own = gateway.http;
    for host in [
        "127.0.0.1",
        "127.0.0.3",
        "127.0.0.17",
        "192.168.7.1",
        "10.0.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:192.168.7.1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[2002:7f00:1::]",
        "[64:ff9b::a00:1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    ] {
        assert_eq!(gateway.status(&format!("http://{host}/")).await, 403, "{host}");
        let tunnel = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&gateway.say(&tunnel).await), 403, "CONNECT {host}");
    }
    for port in [25, 22, own.port()] {
        assert_eq!(gateway.status(&format!("http://9.9.9.9:{port}/")).await, 403, "port {port}");
    }
    // Forms of an address that only a C library reads as one.
    for host in ["2130706433", "0x7f000001", "127.1", "0177.0.0.1"] {
        let code = gateway.status(&format!("http://{host}/")).await;
        assert!([400, 403, 502].contains(&code), "{host}: {code}");
    }
    assert!(gateway.metric("leeway_gateway_refused_total{user=\"127.0.0.1\"}").await >= 45.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_client_reaches_nothing() {
    let gateway = Running::start(&[80], "").await;
    let mut stranger = from("127.0.0.99", gateway.http).await.unwrap();
    let _ = stranger.write_all(b"GET http://9.9.9.9/ HTTP/1.1\r\n\r\n").await;
    assert_eq!(status(&text(&mut stranger).await), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_resolved_once_and_what_was_checked_is_connected() {
    let (server, names) = (objects().await, name_server().await);
    let port = server.port();
    // What listens at 127.0.0.1 on that port is what a rebinding attack is after.
    let trap = tokio::net::TcpListener::bind(("127.0.0.1", port)).await;
    let gateway = Running::start(&[port], &format!("dns = [\"{names}\"]")).await;
    assert_eq!(gateway.status(&format!("http://a-127.0.0.2.test:{port}/5")).await, 200);
    assert_eq!(gateway.status(&format!("http://a-10.0.0.1.test:{port}/5")).await, 403);
    assert_eq!(gateway.status(&format!("http://a-127.0.0.1.test:{port}/5")).await, 403);
    // The forbidden address of a name is not tried, wherever it stands.
    for name in ["a-10.0.0.1-127.0.0.2.test", "a-127.0.0.2-192.168.7.1.test"] {
        assert_eq!(gateway.status(&format!("http://{name}:{port}/5")).await, 200, "{name}");
    }
    assert_eq!(gateway.status(&format!("http://rebind.test:{port}/5")).await, 200);
    assert_eq!(gateway.status(&format!("http://rebind.test:{port}/5")).await, 403);
    assert_eq!(gateway.status(&format!("http://none.test:{port}/5")).await, 502);
    if let Ok(trap) = trap {
        assert!(
            timeout(Duration::from_millis(50), trap.accept()).await.is_err(),
            "somebody came to the trap"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_passwords() {
    let server = objects().await;
    let (_file, users) = users();
    let gateway = Running::start(&[server.port()], &users).await;
    let ask = |authorization: &str| {
        format!("GET http://{server}/5 HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n")
    };
    let answer = gateway.say(&ask("")).await;
    assert!(
        status(&answer) == 407 && answer.to_ascii_lowercase().contains("proxy-authenticate: basic"),
        "{answer}"
    );
    let as_ann = |password: &str| ask(&format!("Proxy-{}\r\n", authorization("ann", password)));
    assert_eq!(status(&gateway.say(&as_ann("another phrase")).await), 407);
    assert_eq!(status(&gateway.say(&as_ann(PASSWORD)).await), 200);
    assert_eq!(gateway.metric("leeway_gateway_requests_total{user=\"ann\"}").await, 1.0);
    // Who guesses is told to come later; who was let in before is served, from the same address.
    for guess in 0..5 {
        assert_eq!(status(&gateway.say(&as_ann(&format!("guess {guess}"))).await), 407);
    }
    let answer = gateway.say(&as_ann("guess 5")).await.to_ascii_lowercase();
    assert!(status(&answer) == 429 && answer.contains("retry-after: "), "{answer}");
    assert_eq!(status(&gateway.say(&as_ann(PASSWORD)).await), 200);
    assert_eq!(gateway.metric("leeway_gateway_wrong_logins_total").await, 6.0);
    assert_eq!(gateway.metric("leeway_gateway_slowed_logins_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_and_bombs_end_and_others_keep_working() {
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "limits = { head_s = 1, idle_s = 1 }").await;
    let url = format!("http://{server}/5");
    // One that says nothing, one that does not finish its head, one that keeps adding to it.
    let mut silent = gateway.client().await;
    // The beginning of HTTP/2, and its end.
    let mut preface = gateway.client().await;
    preface.write_all(b"PRI * HT").await.unwrap();
    preface.shutdown().await.unwrap();
    assert_eq!(text(&mut preface).await, "");
    let mut half = gateway.client().await;
    half.write_all(b"GET http://9.9.9.9/ HTTP/1.1\r\nHost:").await.unwrap();
    let drip = gateway.client().await;
    let (mut reader, mut writer) = drip.into_split();
    let dripping = tokio::spawn(async move {
        let _ = writer.write_all(b"GET http://9.9.9.9/ HTTP/1.1\r\n").await;
        while writer.write_all(b"X: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut bomb = gateway.client().await;
    let huge = format!("GET {url} HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    let _ = bomb.write_all(huge.as_bytes()).await;
    let answer = text(&mut bomb).await;
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    let many = format!("GET {url} HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(500));
    assert_eq!(status(&gateway.say(&many).await), 431);
    assert_eq!(gateway.status(&url).await, 200);
    assert_eq!(text(&mut silent).await, "");
    text(&mut half).await;
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, reader.read_to_end(&mut rest)).await.expect("a head does not take forever");
    dripping.abort();
    assert_eq!(gateway.status(&url).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_downloads_at_a_time_all_end() {
    let server = objects().await;
    // A law that keeps the window at its floor: everything goes through the narrowest gate.
    let more = "law = \"ledbat:target=100us,gain_down=10\"";
    let gateway = Running::start(&[server.port()], more).await;
    let mut downloads = JoinSet::new();
    for n in 0..80 {
        let mut stream = from(&format!("127.0.0.{}", 17 + n % 4), gateway.http).await.unwrap();
        downloads.spawn(async move {
            let request =
                format!("GET http://{server}/60000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            text(&mut stream).await
        });
    }
    for answer in downloads.join_all().await {
        assert!(status(&answer) == 200 && answer.ends_with(&"x".repeat(60_000)), "{} bytes", answer.len());
    }
    assert_eq!(gateway.metric("leeway_gateway_outstanding_bytes").await, 0.0);
    assert_eq!(gateway.metric("leeway_gateway_waiting_flows").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_stop_clients_are_refused() {
    let gateway = Running::start(&[80], "").await;
    let address = gateway.http;
    gateway.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// The client answers every PING, as hyper does by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_of_http2_is_closed_although_it_answers_pings() {
    let server = objects().await;
    let gateway = Running::start(&[server.port()], "limits = { idle_s = 1, head_s = 1 }").await;
    let stream = gateway.client().await;
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    let ended = tokio::spawn(connection);
    let request =
        hyper::Request::get(format!("http://{server}/100")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 100);
    // The sender is kept, so that it is not the client who ends.
    let _ = timeout(PATIENCE, ended).await.expect("the gateway closes it");
    drop(sender);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stops_in_the_middle_is_given_up() {
    let server = common::stops(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part").await;
    let gateway = Running::start(&[server.port()], "limits = { answer_s = 1 }").await;
    let answer = gateway.say(&format!("GET http://{server}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    assert!(answer.ends_with("a part"), "{answer}");
}

/// A request whose body takes longer than an answer may, but never stops.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_upload_is_not_cut_off_while_it_goes_on() {
    let (server, seen) = common::witness().await;
    let gateway = Running::start(&[server.port()], "limits = { answer_s = 1 }").await;
    let mut stream = gateway.client().await;
    let head =
        format!("PUT http://{server}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for byte in b"8 bytes!" {
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        stream.write_all(&[*byte]).await.unwrap();
    }
    let answer = common::text(&mut stream).await;
    assert_eq!(common::status(&answer), 200, "{answer}");
    assert_eq!(seen.lock().unwrap()[0].body, b"8 bytes!");
}

/// A request whose body is wrong is the client's fault, not the server's.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_wrong_is_blamed_on_the_client() {
    let (server, _) = witness().await;
    let silent = stops(b"").await;
    let gateway = Running::start(&[server.port(), silent.port()], "limits = { answer_s = 1 }").await;
    let to = |server: SocketAddr, head: &str, body: &str| {
        format!("POST http://{server}/ HTTP/1.1\r\nHost: x\r\n{head}\r\n{body}")
    };
    let chunked = |body: &str| to(server, "Transfer-Encoding: chunked\r\n", body);
    let extension = format!("1;x={}\r\nz\r\n0\r\n\r\n", "y".repeat(100_000));
    let trailers: String = (0..10_000).map(|n| format!("X-{n}: y\r\n")).collect();
    for (what, request) in [
        ("a size that is no number", chunked("zz\r\nhello\r\n0\r\n\r\n")),
        ("a size beyond all numbers", chunked("fffffffffffffffff\r\n")),
        ("no end of a chunk", chunked("5\r\nhello0\r\n\r\n")),
        ("an extension that is too long", chunked(&extension)),
        ("too many trailers", chunked(&format!("1\r\nz\r\n0\r\n{trailers}\r\n"))),
        ("a trailer without a name", chunked("1\r\nz\r\n0\r\n: y\r\n\r\n")),
    ] {
        let mut stream = gateway.client().await;
        // The gateway may close the connection before all is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let heard = text(&mut stream).await;
        assert_eq!(status(&heard), 400, "{what}: {heard}");
    }
    for (what, request) in [
        ("less than announced", to(server, "Content-Length: 9\r\n", "hello")),
        ("no last chunk", chunked("5\r\nhello\r\n")),
    ] {
        let heard = gateway.say(&request).await;
        assert_eq!(status(&heard), 408, "{what}, and then nothing: {heard}");
        let mut stream = gateway.client().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let heard = text(&mut stream).await;
        assert_eq!(status(&heard), 400, "{what}, and then the end: {heard}");
    }
    let whole = to(silent, "Content-Length: 5\r\nConnection: close\r\n", "hello");
    let heard = gateway.say(&whole).await;
    assert_eq!(status(&heard), 504, "a server that is silent after a whole body: {heard}");
}

#[tokio::test]
async fn an_address_may_have_a_query_and_no_path() {
    let server = common::mirror().await;
    let gateway = Running::start(&[server.port()], "").await;
    let heard = gateway
        .say(&format!("GET http://{server}?x=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        .await;
    assert!(heard.contains("GET /?x=1 HTTP/1.1\r\n"), "{heard}");
}

/// RFC 9110, 7.6.2.
#[tokio::test]
async fn questions_about_the_way_end_where_they_say() {
    let server = common::mirror().await;
    let gateway = Running::start(&[server.port()], "").await;
    let ask = async |method: &str, forwards: &str| {
        let head =
            format!("{method} http://{server}/p HTTP/1.1\r\nHost: x\r\nCookie: secret\r\nX-Way: 7\r\n");
        gateway.say(&format!("{head}Max-Forwards: {forwards}\r\nConnection: close\r\n\r\n")).await
    };
    let traced = ask("TRACE", "0").await.to_ascii_lowercase();
    assert!(traced.starts_with("http/1.1 200") && traced.contains("content-type: message/http"), "{traced}");
    assert!(
        traced.contains("x-way: 7") && !traced.contains("secret") && !traced.contains("via:"),
        "{traced}"
    );
    let options = ask("OPTIONS", "0").await;
    assert!(status(&options) == 200 && options.to_ascii_lowercase().contains("allow: get"), "{options}");
    for method in ["TRACE", "OPTIONS"] {
        let heard = ask(method, "5").await.to_ascii_lowercase();
        assert!(heard.contains("via:") && heard.contains("max-forwards: 4\r\n"), "{heard}");
        assert_eq!(status(&ask(method, "x").await), 400);
    }
    let heard = ask("GET", "0").await.to_ascii_lowercase();
    assert!(heard.contains("via:") && heard.contains("max-forwards: 0\r\n"), "{heard}");
}

#[tokio::test]
async fn users_are_told_nothing_of_what_is_inside() {
    let names = common::name_server().await;
    let gateway = Running::start(&[1], &format!("dns = [\"{names}\"]")).await;
    for host in ["nas-10.1.2.3.test", "nas-192.168.7.9.test", "nas-127.0.0.2.test", "nothing.test"] {
        let asked = format!("GET http://{host}:1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let heard = gateway.say(&asked).await;
        assert!([403, 502].contains(&status(&heard)), "{heard}");
        let body = heard.split("\r\n\r\n").nth(1).unwrap();
        assert!(
            !body.contains("10.1.2.3") && !body.contains("192.168") && !body.contains("127.0.0"),
            "{body}"
        );
        assert!(!body.contains("home") && !body.contains(".test"), "{body}");
    }
}
