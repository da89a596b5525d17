//! Another configuration while transfers run.

mod common;

use common::{PASSWORD, PATIENCE, Running, authorization, echo, objects, status, text, text_of};
use leeway_gateway::Config;
use leeway_gateway::control::{Operations, ReloadRequest};
use leeway_gateway::password::Hash;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A gateway with a configuration in a file, and users in another one.
struct Bed {
    folder: TempDir,
    gateway: Running,
    hash: Hash,
}

impl Bed {
    async fn new(ports: &[u16]) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let hash = Hash::of(PASSWORD).unwrap();
        let write = |name: &str, text: &str| {
            leeway_guard::replace(&folder.path().join(name), text.as_bytes()).unwrap();
        };
        write("users", &format!("ann:{hash}\nbob:{hash}\n"));
        let file = folder.path().join("gateway.toml");
        let text = text_of(ports, &format!("users_file = {:?}", folder.path().join("users")));
        write("gateway.toml", &text);
        let gateway = Running::by(&text).await;
        gateway.operations.read_from(Box::new(move |handed| Config::read_again(&file, handed)));
        Bed { folder, gateway, hash }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        leeway_guard::replace(&self.path(name), text.as_bytes()).unwrap();
    }

    /// Changes the configuration.
    fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("gateway.toml")).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        self.write("gateway.toml", &text.replace(from, to));
    }

    async fn reload(&self) -> Result<Vec<String>, String> {
        reload(&self.gateway.operations).await
    }

    /// The status of a request by that user.
    async fn asks(&self, name: &str, url: &str) -> u16 {
        let mut stream = self.gateway.client().await;
        stream.write_all(request(name, &format!("GET {url}"), "close").as_bytes()).await.unwrap();
        status(&text(&mut stream).await)
    }
}

async fn reload(operations: &Arc<Operations>) -> Result<Vec<String>, String> {
    let operations = operations.clone();
    let reloaded = tokio::task::spawn_blocking(move || operations.reload(&ReloadRequest::default())).await;
    reloaded.unwrap().map(|reloaded| reloaded.words).map_err(|error| error.to_string())
}

fn request(name: &str, line: &str, connection: &str) -> String {
    let user = authorization(name, PASSWORD);
    format!("{line} HTTP/1.1\r\nHost: x\r\nProxy-{user}\r\nConnection: {connection}\r\n\r\n")
}

/// The head and as many bytes of a body.
async fn answer(stream: &mut TcpStream, body_bytes: usize) -> String {
    let mut bytes = Vec::new();
    let end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    while end(&bytes).is_none_or(|head| bytes.len() < head + body_bytes) {
        let read = timeout(PATIENCE, stream.read_buf(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn transfers_go_on_and_a_removed_user_is_refused() {
    let (objects, echo) = (objects().await, echo().await);
    let bed = Bed::new(&[objects.port(), echo.port()]).await;
    let url = format!("http://{objects}/10");
    let [mut tunnel, mut kept] = [bed.gateway.client().await, bed.gateway.client().await];
    tunnel.write_all(request("bob", &format!("CONNECT {echo}"), "close").as_bytes()).await.unwrap();
    assert_eq!(status(&answer(&mut tunnel, 0).await), 200);
    kept.write_all(request("bob", &format!("GET {url}"), "keep-alive").as_bytes()).await.unwrap();
    assert_eq!(status(&answer(&mut kept, 10).await), 200);

    bed.write("users", &format!("ann:{0}\neve:{0}\n", bed.hash));
    assert_eq!(bed.asks("bob", &url).await, 200, "before it is read");
    bed.reload().await.unwrap();
    assert_eq!(bed.asks("bob", &url).await, 407);
    assert_eq!(bed.asks("ann", &url).await, 200);
    assert_eq!(bed.asks("eve", &url).await, 200);
    kept.write_all(request("bob", &format!("GET {url}"), "close").as_bytes()).await.unwrap();
    assert_eq!(status(&text(&mut kept).await), 407, "also on a connection that was kept");
    tunnel.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    timeout(PATIENCE, tunnel.read_exact(&mut back)).await.unwrap().unwrap();
    assert_eq!(&back, b"still here");
}

#[tokio::test]
async fn clients_and_ports_are_those_of_now() {
    let (objects, echo) = (objects().await, echo().await);
    let bed = Bed::new(&[objects.port()]).await;
    let (url, other) = (format!("http://{objects}/10"), format!("http://{echo}/"));
    assert_eq!(bed.asks("ann", &other).await, 403);
    let old = format!("\nports = [{}]", objects.port());
    bed.edit(&old, &format!("\nports = [{}, {}]", objects.port(), echo.port()));
    bed.reload().await.unwrap();
    assert_ne!(bed.asks("ann", &other).await, 403);

    let mut kept = bed.gateway.client().await;
    kept.write_all(request("ann", &format!("GET {url}"), "keep-alive").as_bytes()).await.unwrap();
    assert_eq!(status(&answer(&mut kept, 10).await), 200);
    bed.edit("\"127.0.0.1/32\", ", "");
    bed.reload().await.unwrap();
    kept.write_all(request("ann", &format!("GET {url}"), "close").as_bytes()).await.unwrap();
    assert_eq!(status(&text(&mut kept).await), 403, "no client any more");
}

#[tokio::test]
async fn what_is_wrong_or_needs_a_restart_changes_nothing() {
    let objects = objects().await;
    let bed = Bed::new(&[objects.port()]).await;
    let url = format!("http://{objects}/10");
    let before = std::fs::read_to_string(bed.path("gateway.toml")).unwrap();
    // Each comes with users that would be right.
    bed.write("users", &format!("ann:{}\n", bed.hash));
    for (from, to, why) in [
        ("clients = ", "client = ", "there is no key `client`"),
        ("127.0.0.16/28", "127.0.0.16/99", "line 5"),
        ("clients = [\"127.0.0.1/32\", \"127.0.0.16/28\"]", "clients = []", "nobody may use"),
        ("192.168.7.0/24", "192.168.8.0/24", "home cannot change while the gateway runs"),
        ("socks = [\"127.0.0.1:0\"]", "socks = [\"127.0.0.1:1080\"]", "restart it (systemctl restart"),
        ("/users\"", "/nobody\"", "/nobody"),
    ] {
        bed.edit(from, to);
        let error = bed.reload().await.expect_err(to);
        assert!(error.contains(why), "{to}: {error}");
        assert_eq!(bed.asks("bob", &url).await, 200, "{to}");
        bed.write("gateway.toml", &before);
    }
    bed.edit("\nports = [", "\nports = [1, ");
    for (users, why) in [("", "there are no users in it"), ("ann:secret7\n", "line 1")] {
        bed.write("users", users);
        let error = bed.reload().await.unwrap_err();
        assert!(error.contains(why) && !error.contains("secret7"), "{error}");
        assert_eq!(bed.asks("bob", &url).await, 200);
        assert_eq!(bed.asks("bob", "http://127.0.0.2:1/").await, 403, "no port of a half-read file");
    }
    bed.write("users", &format!("ann:{}\n", bed.hash));
    bed.reload().await.unwrap();
    assert_eq!(bed.asks("bob", &url).await, 407);
    assert_eq!(bed.asks("ann", "http://127.0.0.2:1/").await, 502);
}
