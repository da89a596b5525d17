//! Several gateways: the status document, the PAC file, and a browser that follows it.

mod common;

use common::{PATIENCE, Running, authorization, from, name_server, status, text, text_of};
use leeway_gateway::peers::{Document, Standing};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

/// For a browser on a busy machine.
const SLOW: Duration = Duration::from_secs(120);

fn free_port() -> u16 {
    StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A gateway at that port with these peers.
async fn gateway(port: u16, peers: &[u16], ports: &[u16], more: &str) -> Running {
    let peers: Vec<String> = peers.iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    let text = text_of(ports, &format!("peers = {peers:?}\n{more}"));
    Running::by(&text.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1)).await
}

/// Two gateways that know each other.
async fn pair(ports: &[u16], more: &str) -> [Running; 2] {
    let (a, b) = (free_port(), free_port());
    [gateway(a, &[b], ports, more).await, gateway(b, &[a], ports, more).await]
}

async fn get(gateway: SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(gateway).await.unwrap();
    ask(&mut stream, gateway, path).await
}

async fn ask(stream: &mut tokio::net::TcpStream, gateway: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    text(stream).await
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}")).1
}

async fn document(gateway: &Running) -> Document {
    let answer = get(gateway.http, "/.well-known/leeway").await;
    assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
    serde_json::from_str(body(&answer)).unwrap()
}

/// The ports of the PAC file, in their order.
async fn proxies(gateway: &Running) -> Vec<u16> {
    let answer = get(gateway.http, "/proxy.pac").await;
    assert!(answer.contains("content-type: application/x-ns-proxy-autoconfig\r\n"), "{answer}");
    let list = body(&answer).split("return \"").last().unwrap().split('"').next().unwrap();
    list.split("; ").map(|proxy| proxy.rsplit_once(':').unwrap().1.parse().unwrap()).collect()
}

/// Waits until the PAC file has so many gateways.
async fn listed(gateway: &Running, count: usize) -> Vec<u16> {
    until(gateway, |found| found.len() == count).await
}

async fn until(gateway: &Running, right: impl Fn(&[u16]) -> bool) -> Vec<u16> {
    let began = Instant::now();
    loop {
        let found = proxies(gateway).await;
        if right(&found) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "the file goes on with {found:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_says_how_it_stands_to_those_who_may_use_it() {
    let gateway = gateway(free_port(), &[], &[80], "").await;
    let open = document(&gateway).await;
    assert_eq!((open.sharing, open.until, open.left_bytes), (Standing::On, None, None));
    gateway.operations.pause(Some(jiff::SignedDuration::from_hours(2))).unwrap();
    let paused = document(&gateway).await;
    assert!(paused.sharing == Standing::Paused && paused.until.is_some());
    assert!((7100..=7201).contains(&paused.resumes_s.unwrap()), "{paused:?}");
    let description = get(gateway.http, "/openapi.json").await;
    let description: serde_json::Value = serde_json::from_str(body(&description)).unwrap();
    assert!(description["paths"]["/.well-known/leeway"]["get"].is_object());
    let mut stranger = from("127.0.0.9", gateway.http).await.unwrap();
    let answer = ask(&mut stranger, gateway.http, "/.well-known/leeway").await;
    assert!(!answer.contains("sharing"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_without_end_is_slowed() {
    let gateway = gateway(free_port(), &[], &[80], "").await;
    let mut refused = String::new();
    for _ in 0..2000 {
        let answer = get(gateway.http, "/proxy.pac").await;
        if status(&answer) == 429 {
            refused = answer;
            break;
        }
    }
    assert!(refused.contains("retry-after: "), "nobody was slowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_passwords_only_who_is_known_hears_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (_file, users) = common::users();
    let caps = format!("[accounts]\nurl = {:?}\n[caps]\nuser.daily = \"1 GB\"", folder.path().join("a.db"));
    let gateway = gateway(free_port(), &[], &[80], &format!("{users}{caps}")).await;
    assert_eq!(document(&gateway).await.left_bytes, None);
    let given = |password: &str| {
        let (host, ann) = (gateway.http, authorization("ann", password));
        format!("GET /.well-known/leeway HTTP/1.1\r\nHost: {host}\r\n{ann}\r\nConnection: close\r\n\r\n")
    };
    let answer = gateway.say(&given(common::PASSWORD)).await;
    let known: Document = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(known.left_bytes, Some(1_000_000_000));
    assert_eq!(status(&gateway.say(&given("wrong")).await), 401);
    assert_eq!(proxies(&gateway).await, [gateway.http.port()], "browsers get the file without a name");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_pauses_or_ends_leaves_the_file_and_comes_back() {
    let [a, b] = pair(&[80], "").await;
    let (port_a, port_b) = (a.http.port(), b.http.port());
    for gateway in [&a, &b] {
        let mut both = listed(gateway, 2).await;
        both.sort_unstable();
        let mut expected = [port_a, port_b];
        expected.sort_unstable();
        assert_eq!(both, expected);
    }
    b.operations.pause(None).unwrap();
    assert_eq!(proxies(&b).await, [port_a], "it sends its own clients on at once");
    assert_eq!(listed(&a, 1).await, [port_a]);
    b.operations.resume().unwrap();
    assert_eq!(listed(&a, 2).await, [port_a, port_b], "who has moved does not move back");
    b.stop().await;
    assert_eq!(listed(&a, 1).await, [port_a]);
    assert!(a.operations.status().peers[0].error.is_some());
    let again = gateway(port_b, &[port_a], &[80], "").await;
    assert_eq!(listed(&a, 2).await, [port_a, port_b]);
    a.operations.pause(None).unwrap();
    assert_eq!(listed(&again, 1).await, [port_b]);
    again.operations.pause(None).unwrap();
    // Where none is open the file names the one that can say why.
    until(&a, |found| found == [port_a]).await;
}

/// Node has the engine of Chromium, and no functions of PAC files but those given here.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_browsers_understands_the_file() {
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "node is not installed");
        eprintln!("skipped: node is not installed");
        return;
    }
    let [a, b] = pair(&[80], "").await;
    let order = listed(&a, 2).await;
    let answer = get(a.http, "/proxy.pac").await;
    let script = format!(
        "const isPlainHostName = (host) => !host.includes('.') && !host.includes(':');\n{}\n\
         const ask = (host) => console.log(FindProxyForURL(`http://${{host}}/`, host));\n\
         ['printer', '127.0.0.1', 'example.org', '198.51.100.7'].forEach(ask);",
        body(&answer)
    );
    let out = Command::new(node).arg("-e").arg(script).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let both = format!("PROXY 127.0.0.1:{}; PROXY 127.0.0.1:{}", order[0], order[1]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), ["DIRECT", "DIRECT", &both, &both]);
    b.stop().await;
}

/// Ends with the test.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of a page that opens a WebSocket every half second, and how many of them have come. Browsers ask
/// a proxy for these as for https, with CONNECT.
async fn ticking() -> (SocketAddr, Arc<AtomicUsize>) {
    const PAGE: &str = "<script>\nlet n = 0;\nsetInterval(() => {\n  const socket = new WebSocket(`ws://${location.host}/tick/${n++}`);\n  \
                        setTimeout(() => socket.close(), 3000);\n}, 500);\n</script>\n";
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let (address, ticks) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = ticks.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let ticks = counted.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.is_ok_and(|n| n > 0) {}
                if head.starts_with(b"GET /tick/") {
                    ticks.fetch_add(1, Ordering::Relaxed);
                }
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{PAGE}",
                    PAGE.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (address, ticks)
}

/// Waits until the page has opened another few connections, through `by`.
async fn goes_on(ticks: &AtomicUsize, by: &Running) {
    let requests = || by.operations.users().iter().map(|user| user.requests).sum::<u64>();
    let (began, before, carried) = (Instant::now(), ticks.load(Ordering::Relaxed), requests());
    while ticks.load(Ordering::Relaxed) < before + 4 || requests() < carried + 4 {
        assert!(
            began.elapsed() < SLOW,
            "{} connections, {} requests",
            ticks.load(Ordering::Relaxed) - before,
            requests() - carried
        );
        sleep(Duration::from_millis(50)).await;
    }
    eprintln!("goes on after {:.1} s", began.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_goes_on_while_one_gateway_pauses_and_the_other_is_killed() {
    let chromium = Path::new("/usr/bin/chromium");
    if !chromium.exists() {
        assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "chromium is not installed");
        eprintln!("skipped: chromium is not installed");
        return;
    }
    let (server, ticks) = ticking().await;
    let more = format!("dns = [\"{}\"]", name_server().await);
    let [a, b] = pair(&[server.port()], &more).await;
    // The browser's file has both.
    let order = listed(&a, 2).await;
    let (first, second) = if order[0] == a.http.port() { (a, b) } else { (b, a) };
    let profile = tempfile::tempdir().unwrap();
    let browser = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--proxy-pac-url=http://{}/proxy.pac", first.http))
        .args(["--remote-debugging-port=0"])
        .arg(format!("http://page-127.0.0.2.test:{}/", server.port()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let browser = Browser(browser);
    goes_on(&ticks, &first).await;
    eprintln!("pause");
    first.operations.pause(None).unwrap();
    goes_on(&ticks, &second).await;
    eprintln!("end");
    first.operations.resume().unwrap();
    second.stop().await;
    goes_on(&ticks, &first).await;
    drop(browser);
}
