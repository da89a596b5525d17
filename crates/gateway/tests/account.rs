//! One account across two gateways with one PostgreSQL database.

mod common;
#[path = "../../accounts/tests/common/mod.rs"]
mod database;

use common::{PATIENCE, Running, from, objects, status};
use database::Server;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

const USER: &str = "127.0.0.17";
const DAILY: u64 = 30_000_000;

fn config(url: &str, name: &str) -> String {
    format!(
        "law = \"none\"\n[accounts]\nurl = \"{url}\"\ngateway = \"{name}\"\n\
         [caps]\nuser = {{ daily = \"30 MB\", slow_at = 1 }}\nall = {{ daily = \"60 MB\", slow_at = 1 }}"
    )
}

/// A server with one database. It ends with the thread that started it, so it has one of its own.
struct Database {
    url: String,
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Database {
    async fn start(name: &'static str) -> Option<Database> {
        let (started, url) = tokio::sync::oneshot::channel();
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            let Some(server) = Server::start() else { return };
            started.send(server.database(name)).unwrap();
            let _ = ended.recv();
        });
        Some(Database { url: url.await.ok()?, end, thread })
    }

    fn end(self) {
        drop(self.end);
        self.thread.join().unwrap();
    }
}

/// Downloads until nothing comes for three seconds, or the gateway refuses.
async fn exhaust(gateway: SocketAddr, objects: SocketAddr) {
    loop {
        let mut stream = from(USER, gateway).await.unwrap();
        let request = format!("GET http://{objects}/500000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        loop {
            let before = head.len();
            match timeout(Duration::from_secs(3), stream.read_buf(&mut head)).await {
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(_)) if before == 0 && status(&String::from_utf8_lossy(&head)) == 503 => return,
                Ok(Ok(_)) => {}
                Err(_) => return,
            }
        }
    }
}

fn used(gateway: &Running) -> u64 {
    let users = gateway.operations.users();
    users.iter().filter(|user| user.name == USER).map(|user| user.down_bytes + user.up_bytes).sum()
}

/// What is left of the user's own volume, as a gateway shows it.
fn left(gateway: &Running) -> u64 {
    let users = gateway.operations.users();
    let user = users.iter().find(|user| user.name == USER).unwrap();
    user.volumes.iter().map(|volume| volume.limit_bytes - volume.used_bytes).min().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_holds_across_gateways_within_one_percent() {
    let Some(server) = Database::start("one").await else { return };
    let database = &server.url;
    let objects = objects().await;
    let attic = Running::start(&[objects.port()], &config(database, "attic")).await;
    let cellar = Running::start(&[objects.port()], &config(database, "cellar")).await;
    tokio::join!(exhaust(attic.http, objects), exhaust(cellar.http, objects));
    // What one has in advance goes back, and the other may use it.
    let began = Instant::now();
    while used(&attic) + used(&cellar) < DAILY - DAILY / 100 {
        assert!(began.elapsed() < 2 * PATIENCE, "{} and {}", used(&attic), used(&cellar));
        sleep(Duration::from_secs(1)).await;
        tokio::join!(exhaust(attic.http, objects), exhaust(cellar.http, objects));
    }
    let (one, two) = (used(&attic), used(&cellar));
    eprintln!("{one} and {two} bytes: {:.3} % of {DAILY}", 100.0 * (one + two) as f64 / DAILY as f64);
    assert!(one + two <= DAILY, "{one} and {two}");
    assert!(one > DAILY / 20 && two > DAILY / 20, "both served: {one} and {two}");
    assert!(left(&attic) <= DAILY / 100 && left(&cellar) <= DAILY / 100);
    // The volume of all neighbours is each line's own: there is more left of it than of one line for both.
    let volumes = attic.operations.status().volumes;
    assert_eq!(volumes.iter().map(|volume| volume.used_bytes).collect::<Vec<_>>(), [one]);
    attic.stop().await;
    cellar.stop().await;
    server.end();
}

/// A user whose volume is used up elsewhere hears so at once, from each door of the gateway: at the
/// first visit, and when the gateway knew better once.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_up_at_another_gateway_is_refused_with_words() {
    let Some(server) = Database::start("words").await else { return };
    let database = &server.url;
    let objects = objects().await;
    let config = |name| config(database, name).replace("30 MB", "3 MB");
    let attic = Running::start(&[objects.port()], &config("attic")).await;
    let cellar = Running::start(&[objects.port()], &config("cellar")).await;
    let ask = async |gateway: &Running, target: &str| {
        let mut stream = from(USER, gateway.http).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        common::text(&mut stream).await
    };
    let object = |bytes: u64| format!("http://{objects}/{bytes}");
    // The cellar learns that nothing is used, and gives back what it has in advance.
    assert_eq!(status(&ask(&cellar, &object(100)).await), 200);
    sleep(Duration::from_secs(6)).await;
    exhaust(attic.http, objects).await;
    let rest = async || {
        let began = Instant::now();
        while status(&ask(&attic, &object(1)).await) == 200 {
            assert!(began.elapsed() < PATIENCE);
        }
    };
    rest().await;
    // A gateway that has never heard of the user.
    let shed = Running::start(&[objects.port()], &config("shed")).await;
    for gateway in [&cellar, &shed] {
        let refused = timeout(PATIENCE / 6, ask(gateway, &object(500))).await.expect("no hanging");
        assert_eq!(status(&refused), 503, "{refused}");
        assert!(refused.contains("what you may use today"), "{refused}");
        let page = ask(gateway, &format!("http://{}/", gateway.http)).await;
        assert!(page.contains("what you may use today"), "{page}");
    }
    for gateway in [attic, cellar, shed] {
        gateway.stop().await;
    }
    server.end();
}
