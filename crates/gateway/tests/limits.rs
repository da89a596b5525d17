//! Limits that the owner changes while the gateway runs.

mod common;
#[path = "../../accounts/tests/common/mod.rs"]
mod database;

use common::{PATIENCE, Running, from, objects, status, text};
use database::Server;
use leeway_gateway::control::{LimitRequest, LimitStatus};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

const USER: &str = "127.0.0.17";
const MEGABYTE: u64 = 1_000_000;

fn config(url: &str, name: &str, caps: &str) -> String {
    format!("law = \"none\"\n[accounts]\nurl = \"{url}\"\ngateway = \"{name}\"\n[caps]\n{caps}\n")
}

fn sqlite(folder: &Path, caps: &str) -> String {
    config(&folder.join("accounts.db").display().to_string(), "attic", caps)
}

/// The status and the length of the body.
async fn fetch(gateway: &Running, objects: SocketAddr, bytes: u64) -> (u16, usize) {
    let mut stream = from(USER, gateway.http).await.unwrap();
    let request = format!("GET http://{objects}/{bytes} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = text(&mut stream).await;
    (status(&answer), answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len()))
}

/// Sets a limit as the control socket does.
async fn limit(gateway: &Running, request: LimitRequest) -> Result<LimitStatus, String> {
    let operations = gateway.operations.clone();
    let set = tokio::task::spawn_blocking(move || operations.limit(&request)).await.unwrap();
    set.map_err(|error| error.to_string())
}

fn of(user: &str, daily_bytes: Option<u64>, rate_bps: Option<u64>) -> LimitRequest {
    LimitRequest { user: Some(user.into()), daily_bytes, rate_bps, ..LimitRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_at_once_and_after_a_restart_and_can_be_taken_back() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let text = sqlite(folder.path(), "user = { daily = \"100 MB\", slow_at = 1 }");
    let gateway = Running::start(&[objects.port()], &text).await;
    assert_eq!(fetch(&gateway, objects, 3 * MEGABYTE).await.0, 200);
    // What was used a moment ago counts, although no transaction has stored it.
    let set = limit(&gateway, of(USER, Some(2 * MEGABYTE), None)).await.unwrap();
    assert_eq!((set.daily_bytes, set.set), (Some(2 * MEGABYTE), true));
    assert_eq!(fetch(&gateway, objects, 10).await.0, 503);
    let limits = gateway.operations.limits().unwrap();
    let own: Vec<_> = limits.iter().map(|limit| (limit.user.as_deref(), limit.all, limit.set)).collect();
    assert_eq!(own, [(None, true, false), (None, false, false), (Some(USER), false, true)]);

    gateway.stop().await;
    let gateway = Running::start(&[objects.port()], &text).await;
    assert_eq!(fetch(&gateway, objects, 10).await.0, 503);
    let set = limit(&gateway, LimitRequest { undo: true, ..of(USER, None, None) }).await.unwrap();
    assert_eq!((set.daily_bytes, set.set), (Some(100 * MEGABYTE), false));
    assert_eq!(fetch(&gateway, objects, 10).await, (200, 10));

    for (request, why) in [
        (of("nobody", Some(1), None), "nobody is called \"nobody\""),
        (of(USER, Some(0), None), "more than 0"),
        (of(USER, None, Some(999)), "999 bit/s is too low"),
        (LimitRequest { all: true, ..of(USER, None, None) }, "one neighbour or for all"),
    ] {
        let said = limit(&gateway, request).await.unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_changes_for_what_runs() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let gateway =
        Running::start(&[objects.port()], &sqlite(folder.path(), "all.rate = \"800 kbit/s\"")).await;
    let began = Instant::now();
    // At the first rate, 4 MB take 40 s.
    let download = fetch(&gateway, objects, 4 * MEGABYTE);
    let change = async {
        sleep(Duration::from_secs(1)).await;
        limit(&gateway, LimitRequest { all: true, ..LimitRequest::default() }).await.unwrap()
    };
    let (got, set) = tokio::join!(download, change);
    assert_eq!((got, set.rate_bps), ((200, 4_000_000), None));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_limit_is_set_for_all_gateways_of_the_database() {
    let Some(server) = tokio::task::spawn_blocking(Server::start).await.unwrap() else { return };
    let server = Arc::new(server);
    let made = server.clone();
    let url = tokio::task::spawn_blocking(move || made.database("limits")).await.unwrap();
    let objects = objects().await;
    let caps = "user = { daily = \"100 MB\", slow_at = 1 }";
    let attic = Running::start(&[objects.port()], &config(&url, "attic", caps)).await;
    let cellar = Running::start(&[objects.port()], &config(&url, "cellar", caps)).await;
    for gateway in [&attic, &cellar] {
        assert_eq!(fetch(gateway, objects, 2 * MEGABYTE).await.0, 200);
    }
    limit(&attic, of(USER, Some(MEGABYTE), None)).await.unwrap();
    limit(&attic, LimitRequest { all: true, daily_bytes: Some(5), ..LimitRequest::default() }).await.unwrap();
    let began = Instant::now();
    loop {
        let (status, _) = fetch(&cellar, objects, 10).await;
        if status == 503 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "the limit does not come");
        sleep(Duration::from_millis(500)).await;
    }
    let limits = cellar.operations.limits().unwrap();
    assert!(limits.iter().any(|limit| limit.user.as_deref() == Some(USER) && limit.set), "{limits:?}");
    assert!(limits[0].all && !limits[0].set, "the limit of a line is its own: {limits:?}");
    attic.stop().await;
    cellar.stop().await;
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}
